"""--state: what survives a restart, after a clean end and after SIGKILL.

Method: the same calls before and after; what must have gone on meanwhile is time alone. A kill
waits until /metrics says that all is durable, but for changes of quotas, which are durable when
they are answered.
"""

import json
import time

import pytest

from conftest import ONE_ENGINE
from http_peer import ask, totals
from native_peer import CONNECTION_BOUND, NativePeer
from quota_calls import call, limit_of, put, reserve, show, slots, tokens, used
from server_process import eventually, in_some_try
from state_calls import (change_quota, kill, kill_now, state_metrics, status, stop,
                         wait_durable)

MONTH_MS = 30 * 86_400_000
YEAR_MS = 365 * 86_400_000
EVERY_KIND = [
    {"name": "fixed", "metric": "requests", "amount": 100, "period_ms": MONTH_MS, "kind": "fixed"},
    {"name": "sliding", "metric": "tokens", "amount": 1_000, "period_ms": MONTH_MS},
    {"name": "gcra", "metric": "input_tokens", "amount": 1_000, "period_ms": YEAR_MS,
     "kind": "gcra"},
    {"name": "anchored", "metric": "output_tokens", "amount": 1_000, "kind": "anchored_day"},
    {"name": "rolling", "metric": "requests", "amount": "unlimited", "kind": "rolling_day"},
    {"name": "month", "metric": "cost", "amount": 2**63 - 1, "kind": "calendar",
     "period": "month", "time_zone": "UTC"},
    {"name": "slots", "metric": "concurrency", "amount": 4}]


@pytest.fixture
def subjects(key):
    """So many that several of them are on other shards."""
    return [f"{key}{number}" for number in range(8)]


both_ends = pytest.mark.parametrize("end", [kill, stop])


def shown_reservation(server, reservation):
    return ask(server, "GET", f"/v1/reservations/{reservation}")


def state_of(server, reservation):
    answer = shown_reservation(server, reservation)
    return answer.json()["state"] if answer.status == 200 else answer.json()["code"]


def listed_names(server):
    names, cursor = [], ""
    while cursor is not None:
        page = ask(server, "GET", "/v1/subjects" + (f"?cursor={cursor}" if cursor else "")).json()
        names += [subject["name"] for subject in page["subjects"]]
        cursor = page["cursor"]
    return names


class Stopwatch:
    """How long it is at least, and at most, from before() to after(): for times that go on."""

    def __init__(self, ask_for_time):
        self.ask_for_time = ask_for_time
        self.sent_at = time.monotonic()
        self.first = ask_for_time()
        self.answered_at = time.monotonic()

    def check_went_on(self, ask_again=None):
        """The number counted down by the time between both answers, also while nothing ran."""
        sent_at = time.monotonic()
        second = (ask_again or self.ask_for_time)()
        answered_at = time.monotonic()
        at_least, at_most = 1000 * (sent_at - self.answered_at), 1000 * (answered_at - self.sent_at)
        assert at_least - 2 <= self.first - second <= at_most + 2  # both are whole milliseconds


# ----------------------------------------------------------------------------------- usage, quotas

@both_ends
def test_usage_of_every_kind_of_limit(kept, end, key):
    def in_one_month():
        month = time.gmtime().tm_mon
        server = kept.start()
        put(server, key, *EVERY_KIND)
        settled = reserve(server, key, requests=3, input_tokens=40, max_output_tokens=5, cost=9)
        call(server, "settle", {"reservation": settled["reservation"], "output_tokens": 2})
        reserve(server, key, input_tokens=7, lifetime_ms=MONTH_MS)
        call(server, "record", {"subjects": [key], "output_tokens": 11, "cost": 2**40})
        before = show(server, key)
        end(server)
        server = kept.start()
        after = show(server, key)
        stop(server)
        kept.path.unlink()
        if time.gmtime().tm_mon != month:
            return False
        assert before["open_reservations"] == 1
        for shown in (before, after):
            for limit in shown["limits"]:
                limit.pop("reset_ms")
        assert before == after
        assert [limit["used"] for limit in after["limits"]] == [5, 60, 47, 13, 5, 9 + 2**40, 1]
        return True

    in_some_try(in_one_month, "not at a month's end")


@both_ends
def test_periods_go_on_while_the_server_is_down(kept, end, key):
    server = kept.start()
    names = ["fixed", "anchored"]
    put(server, key, *(limit for limit in EVERY_KIND if limit["name"] in names))
    call(server, "record", {"subjects": [key], "output_tokens": 1})
    watches = [Stopwatch(lambda name=name: limit_of(show(server, key), name)["reset_ms"])
               for name in names]
    end(server)
    time.sleep(0.1)
    server = kept.start()
    for watch in watches:
        watch.check_went_on()


def test_a_period_that_ended_meanwhile_is_over(kept, key):
    server = kept.start()
    put(server, key, {**tokens(100), "kind": "fixed", "period_ms": 2_000})
    began = time.monotonic()
    call(server, "record", {"subjects": [key], "input_tokens": 70})
    kill(server)
    time.sleep(max(0, began + 2.1 - time.monotonic()))
    assert used(kept.start(), key) == 0


@both_ends
def test_subjects_of_all_shards(kept, end):
    names = [f"subject{number}" for number in range(120)]
    server = kept.start()
    with NativePeer(server) as peer:
        for number, name in enumerate(names):
            peer.put_quota(name, {"name": "tph", "metric": "tokens", "amount": 1_000,
                                  "kind": "sliding", "periodMs": YEAR_MS})
            if number % 2:
                peer.reserve(name, inputTokens=[number], lifetimeMs=MONTH_MS)
    end(server)
    server = kept.start()
    assert sorted(listed_names(server)) == sorted(names)
    with NativePeer(server) as peer:
        for number, name in enumerate(names):
            row, = peer.usage(name).limits
            assert row["used"] == row["reserved"] == (number if number % 2 else 0), name


BOOK = {"quotas": {"subjects": [
    {"subject": "model", "limits": [{"name": "tph", "metric": "tokens", "amount": 100,
                                  "period_ms": YEAR_MS}]},
    {"subject": "other", "limits": [{"name": "tph", "metric": "tokens", "amount": 100,
                                  "period_ms": YEAR_MS}]}]}}


def test_changes_of_quotas_are_durable_when_they_are_answered(kept, tmp_path):
    """Killed at once, with a schedule that alone would commit a minute later."""
    config = tmp_path / "quotas.json"
    config.write_text(json.dumps(BOOK))

    def begin():
        return kept.start("--config-file", str(config), sync_millis=60_000)

    def held(server, name="model"):
        shown = show(server, name)
        return shown["source"], shown["limits"][0]["amount"], shown["limits"][0]["used"]

    server = begin()
    assert held(server) == ("file", 100, 0)
    put(server, "model", {**tokens(200), "period_ms": YEAR_MS})
    kill_now(server)
    server = begin()
    assert held(server) == ("run_time", 200, 0)
    call(server, "record", {"subjects": ["model", "other"], "input_tokens": 70})
    stop(server)
    server = begin()
    assert (held(server), held(server, "other")) == (("run_time", 200, 70), ("file", 100, 70))
    assert call(server, "reset", {"subject": "model"}).status == 200
    kill_now(server)
    server = begin()
    assert (held(server), held(server, "other")) == (("run_time", 200, 0), ("file", 100, 70))
    call(server, "record", {"subjects": ["model"], "input_tokens": 5})
    assert change_quota(server, "DELETE", "model").status == 204
    kill_now(server)
    server = begin()
    assert held(server) == ("file", 100, 5)
    assert call(server, "reset-all", b"").status == 200
    kill_now(server)
    server = begin()
    assert (held(server), held(server, "other")) == (("file", 100, 0), ("file", 100, 0))


@pytest.mark.parametrize("dialect", ["rest", "native"])
def test_no_answered_put_is_ever_lost(kept, dialect):
    """Each is answered, and the process killed at once."""
    expected = {}
    for number in range(12):
        server = kept.start(sync_millis=60_000)
        for name, amount in expected.items():
            shown = show(server, name)
            assert (shown["source"], shown["limits"][0]["amount"]) == ("run_time", amount)
        assert sorted(listed_names(server)) == sorted(expected)
        name = f"subject{number}"
        if number % 4 == 3:
            name = expected.popitem()[0]
            assert change_quota(server, "DELETE", name).status == 204
        elif dialect == "rest":
            expected[name] = put(server, name, tokens(number + 1))["limits"][0]["amount"]
        else:
            with NativePeer(server) as peer:
                peer.put_quota(name, {"name": "t", "metric": "tokens", "amount": number + 1,
                                      "kind": "sliding", "periodMs": YEAR_MS})
                kill_now(server)
            expected[name] = number + 1
            continue
        kill_now(server)


def test_a_clean_end_writes_what_was_answered_just_before(kept, key):
    server = kept.start(sync_millis=60_000)
    put(server, key, tokens(1_000))
    for _ in range(20):
        call(server, "record", {"subjects": [key], "input_tokens": 1})
    stop(server)
    server = kept.start()
    assert used(server, key) == 20


@both_ends
def test_a_changed_policy_file_is_as_after_a_reload(kept, tmp_path, end):
    config = tmp_path / "quotas.json"

    def begin(**subjects):
        config.write_text(json.dumps({"quotas": {"subjects": [
            {"subject": name, "limits": limits} for name, limits in subjects.items()]}}))
        return kept.start("--config-file", str(config))

    hour, day = ({**tokens(100), "period_ms": length} for length in (YEAR_MS // 2, YEAR_MS))
    server = begin(same=[hour], smaller=[hour], longer=[hour], leaves=[hour])
    for name in ("same", "smaller", "longer", "leaves"):
        call(server, "record", {"subjects": [name], "input_tokens": 70})
    put(server, "leaves.not", hour)
    end(server)
    server = begin(same=[hour], smaller=[{**hour, "amount": 50}], longer=[day], comes=[hour])
    assert used(server, "same") == 70
    smaller = limit_of(show(server, "smaller"), "tph")
    assert (smaller["amount"], smaller["used"], smaller["remaining"]) == (50, 70, 0)
    assert used(server, "longer") == used(server, "comes") == used(server, "leaves.not") == 0
    assert ask(server, "GET", "/v1/subjects/leaves").status == 404


@pytest.mark.parametrize("text", [None, "{}"])
def test_without_quotas_in_the_policy_file_those_of_an_earlier_one_are_gone(kept, tmp_path, text):
    config = tmp_path / "quotas.json"
    config.write_text(json.dumps({"quotas": {"subjects": [
        {"subject": "bob", "limits": [{**tokens(10), "period_ms": YEAR_MS}]}]}}))
    server = kept.start("--config-file", str(config))
    call(server, "record", {"subjects": ["bob"], "input_tokens": 10})
    stop(server)
    if text is not None:
        config.write_text(text)
    server = kept.start(*(["--config-file", str(config)] if text is not None else []))
    assert ask(server, "GET", "/v1/subjects/bob").status == 404
    assert call(server, "consume", {"subjects": ["bob"], "input_tokens": 1}).status == 200


# ------------------------------------------------------------------------------------ reservations

@both_ends
def test_an_open_reservation_is_settled_after_the_restart(kept, end, subjects):
    server = kept.start()
    for name in subjects:
        put(server, name, tokens(1_000), slots(2))
    one = reserve(server, subjects[0], input_tokens=100, owner="job 7", lifetime_ms=MONTH_MS)
    several = reserve(server, *subjects, input_tokens=30, lifetime_ms=MONTH_MS)
    kept_open = reserve(server, *subjects[3:5], input_tokens=2, lifetime_ms=MONTH_MS)
    end(server)
    server = kept.start()
    row, = (row for row in ask(server, "GET", "/v1/reservations").json()["reservations"]
            if row["reservation"] == one["reservation"])
    assert (row["owner"], row["subjects"], row["input_tokens"]) == ("job 7", [subjects[0]], 100)
    assert shown_reservation(server, several["reservation"]).json()["subjects"] == subjects
    settled = call(server, "settle", {"reservation": one["reservation"], "input_tokens": 60})
    assert (settled.status, settled.json()["late"]) == (200, False)
    cancelled = call(server, "cancel", {"reservation": several["reservation"]})
    assert (cancelled.status, cancelled.json()["state"]) == (200, "cancelled")
    extended = call(server, "extend", {"reservation": kept_open["reservation"],
                                       "lifetime_ms": 60_000})
    assert extended.status == 200
    expected = [60, 0, 0, 2, 2, 0, 0, 0]
    eventually(lambda: [used(server, name) for name in subjects] == expected, "it is settled")
    assert [used(server, name, "slots") for name in subjects] == [0, 0, 0, 1, 1, 0, 0, 0]
    assert [show(server, name)["open_reservations"] for name in subjects] == [
        0, 0, 0, 1, 1, 0, 0, 0]
    end(server)
    server = kept.start()
    assert [used(server, name) for name in subjects] == expected
    assert state_of(server, one["reservation"]) in ("settled", "unknown_reservation")
    assert state_of(server, kept_open["reservation"]) == "open"


@both_ends
def test_a_lifetime_goes_on_while_the_server_is_down(kept, end, key):
    server = kept.start()
    put(server, key, slots(1))
    lease = reserve(server, key, lifetime_ms=MONTH_MS)["reservation"]
    rest = Stopwatch(lambda: shown_reservation(server, lease).json()["expires_in_ms"])
    held = Stopwatch(lambda: -shown_reservation(server, lease).json()["held_ms"])
    end(server)
    time.sleep(0.1)
    server = kept.start()
    rest.check_went_on()
    held.check_went_on()
    assert call(server, "reserve", {"subjects": [key]}).status == 429


@both_ends
def test_a_lease_ends_at_its_time(kept, end, subjects):
    server = kept.start()
    for name in subjects:
        put(server, name, slots(1))
    began = time.monotonic()
    lease = reserve(server, *subjects, lifetime_ms=1_500)["reservation"]
    end(server)
    server = kept.start()
    eventually(lambda: all(used(server, name, "slots") == 0 for name in subjects), "slots are free")
    assert time.monotonic() - began >= 1.5
    assert state_of(server, lease) in ("expired", "unknown_reservation")
    assert reserve(server, *subjects)["code"] == "ok"


@both_ends
def test_a_lease_that_ended_meanwhile_has_expired(kept, end, subjects):
    server = kept.start()
    for name in subjects:
        put(server, name, slots(1), tokens(100))
    began = time.monotonic()
    lease = reserve(server, *subjects, input_tokens=3, lifetime_ms=1_500)["reservation"]
    end(server)
    time.sleep(max(0, began + 1.6 - time.monotonic()))
    server = kept.start()
    eventually(lambda: all(show(server, name)["open_reservations"] == 0 for name in subjects),
               "it expires")
    assert [used(server, name, "slots") for name in subjects] == [0] * 8
    assert [used(server, name) for name in subjects] == [3] * 8  # as `expired` of a quota says
    assert state_of(server, lease) in ("expired", "unknown_reservation")


def repeats(server, subjects):
    """Calls under ids of the client's own, and the ends of a reservation that was made so."""
    first = {"subjects": subjects[:1], "input_tokens": 10, "id": "one", "lifetime_ms": MONTH_MS}
    several = {"subjects": subjects, "input_tokens": 20, "id": "all", "lifetime_ms": MONTH_MS}
    ended = {"subjects": subjects[2:6], "input_tokens": 30, "id": "ended", "lifetime_ms": MONTH_MS}
    answers = [call(server, "reserve", body).json() for body in (first, several, ended)]
    settle = {"reservation": answers[2]["reservation"], "input_tokens": 4, "output_tokens": 1}
    settled = call(server, "settle", settle).json()
    recorded = [call(server, name, {"subjects": subjects[:3], "input_tokens": 1, "id": name}).status
                for name in ("record", "consume")]
    return [answer["reservation"] for answer in answers], settled, recorded


@both_ends
def test_a_repeat_gets_the_same_answer(kept, end, subjects):
    server = kept.start()
    for name in subjects:
        put(server, name, {**tokens(1_000), "period_ms": YEAR_MS})
    before = repeats(server, subjects)
    assert before[2] == [200, 200]
    amounts = [used(server, name) for name in subjects]
    assert amounts == [32, 22, 27, 25, 25, 25, 20, 20]
    for _ in range(2):
        end(server)
        server = kept.start()
        assert repeats(server, subjects) == before
        assert [used(server, name) for name in subjects] == amounts
    other = call(server, "reserve", {"subjects": subjects[:1], "input_tokens": 11, "id": "one"})
    assert (other.status, other.json()["code"]) == (409, "id_in_use")


@both_ends
def test_a_reservation_that_was_bound_to_a_connection_is_over(kept, end, subjects):
    server = kept.start()
    for name in subjects:
        put(server, name, slots(1))
    peer = NativePeer(server)
    bound = peer.reserve(subjects, flags=CONNECTION_BOUND, lifetimeMs=MONTH_MS)
    assert bound.codes == ["ok"]
    if end is stop:
        peer.close()
    end(server)
    peer.close()
    server = kept.start()
    eventually(lambda: all(show(server, name)["open_reservations"] == 0 for name in subjects),
               "it has ended")
    assert reserve(server, *subjects)["code"] == "ok"


def test_ids_are_never_given_twice(kept, key):
    made = set()
    for _ in range(4):
        server = kept.start()
        put(server, key, tokens(1_000_000))
        for _ in range(30):
            reservation = reserve(server, key)["reservation"]
            assert reservation not in made
            made.add(reservation)
        kill(server)


# ------------------------------------------------------------------------ another number of shards

@pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)
@both_ends
def test_another_number_of_shards(kept, end):
    names = [f"subject{number}" for number in range(60)]
    server = kept.start(shards=1)
    for name in names:
        put(server, name, {**tokens(1_000), "period_ms": YEAR_MS}, slots(10))
    expected = dict.fromkeys(names, 0)
    leases = []

    def take(subjects, amount):
        made = reserve(server, *subjects, input_tokens=amount, lifetime_ms=MONTH_MS)
        leases.append((made["reservation"], subjects, amount))
        for name in subjects:
            expected[name] += amount

    def check():
        assert {name: used(server, name) for name in names} == expected
        assert sorted(listed_names(server)) == sorted(names)
        for lease, subjects, amount in leases:
            shown = shown_reservation(server, lease).json()
            assert (shown["state"], shown["subjects"], shown["input_tokens"]) == (
                "open", subjects, amount)

    for place in range(len(names)):  # those of several subjects come apart at the next start
        take(names[place:place + 1 + place % 4], place)
    for shards in (4, 2, 1):
        end(server)
        server = kept.start(shards=shards)
        check()
        for place in range(0, len(names), 6):  # with subjects of several shards
            take(names[place:place + 5], 7)
        for _ in range(20):
            lease, subjects, amount = leases.pop(0)
            assert call(server, "settle", {"reservation": lease, "input_tokens": 1}).status == 200
            for name in subjects:
                expected[name] += 1 - amount
        check()


@pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)
@both_ends
def test_calls_about_reservations_that_come_apart_reach_all_subjects(kept, end):
    names = [f"subject{number}" for number in range(12)]
    server = kept.start(shards=1)
    for name in names:
        put(server, name, {**tokens(100_000), "period_ms": YEAR_MS}, slots(100))
    calls = [{"subjects": (names + names)[place:place + 2 + place % 7], "input_tokens": 100,
              "lifetime_ms": MONTH_MS, "id": f"call {place}"} for place in range(24)]
    leases = [call(server, "reserve", body).json()["reservation"] for body in calls]
    end(server)
    server = kept.start(shards=4)

    def expect(charged, is_open):
        """The tokens of each call, and whether it still has its slots."""
        for name in names:
            of = [place for place, body in enumerate(calls) if name in body["subjects"]]
            shown = show(server, name)
            assert limit_of(shown, "tph")["used"] == sum(charged[place] for place in of)
            assert limit_of(shown, "slots")["used"] == sum(is_open[place] for place in of)
            assert shown["open_reservations"] == sum(is_open[place] for place in of)

    charged, is_open = [100] * 24, [True] * 24
    for body, lease in zip(calls, leases, strict=True):
        assert call(server, "reserve", body).json()["reservation"] == lease
        assert state_of(server, lease) == "open"
    expect(charged, is_open)
    with NativePeer(server) as peer:
        ids = [int(lease, 16) for lease in leases]
        settled = peer.settle(*ids[:8], inputTokens=[7] * 8)
        assert settled.codes == ["ok"] * 8
        assert peer.cancel(*ids[8:12]).codes == ["ok"] * 4
        assert peer.settle(*ids[:12]).codes == ["ok"] * 8 + ["alreadyCancelled"] * 4
    charged[:12], is_open[:12] = [7] * 8 + [0] * 4, [False] * 12
    for lease in leases[12:16]:
        body = {"reservation": lease, "input_tokens": 9}
        assert call(server, "settle", body).json()["late"] is False
    assert call(server, "cancel", {"reservation": leases[16]}).status == 200
    charged[12:17], is_open[12:17] = [9] * 4 + [0], [False] * 5
    expect(charged, is_open)
    for lease in leases[17:20]:
        extended = call(server, "extend", {"reservation": lease, "lifetime_ms": 2_000}).json()
        assert extended["lifetime_ms"] == 2_000
    eventually(lambda: all(state_of(server, lease) == "expired" for lease in leases[17:20]),
               "they expire")
    assert call(server, "settle", {"reservation": leases[17], "input_tokens": 3}).json()["late"]
    charged[17], is_open[17:20] = 3, [False] * 3
    eventually(lambda: not any(limit_of(show(server, name), "slots")["used"] > sum(
        is_open[place] for place, body in enumerate(calls) if name in body["subjects"])
                               for name in names), "their slots are free")
    expect(charged, is_open)
    end(server)
    server = kept.start(shards=2)
    expect(charged, is_open)
    for lease in leases[20:]:
        assert call(server, "settle", {"reservation": lease, "input_tokens": 1}).status == 200
    charged[20:], is_open[20:] = [1] * 4, [False] * 4
    expect(charged, is_open)


# -------------------------------------------------------------------------------- log and metrics

def test_a_server_that_keeps_nothing_says_so(start_server, kept):
    text = "no --state FILE: quotas put at run time, usage and reservations end with the server"
    without = start_server()
    assert [line["level"] for line in without.log if line["message"] == text] == ["INFO"]
    assert state_metrics(without) == {}
    assert text not in kept.start().messages()


def test_the_log_says_what_was_restored(kept, subjects):
    server = kept.start()
    new = server.wait_for_message("state: a new file")
    assert (new["level"], new["state"], new["subjects"]) == ("INFO", str(kept.path), 0)
    for name in subjects:
        put(server, name, tokens(100))
    reserve(server, subjects[0], lifetime_ms=MONTH_MS)
    reserve(server, *subjects[:5], lifetime_ms=MONTH_MS)
    ended = reserve(server, subjects[1], lifetime_ms=MONTH_MS, id="x")["reservation"]
    call(server, "cancel", {"reservation": ended})
    kill(server)
    time.sleep(0.1)
    restored = kept.start().wait_for_message("state: restored")
    assert (restored["level"], restored["state"]) == ("INFO", str(kept.path))
    assert restored["downtimeMillis"] >= 100 and restored["epoch"] >= 1
    assert restored["shardsBefore"] == server.shards
    assert restored["subjects"] == 8
    # Also those that have ended, and the parts of other shards.
    assert restored["reservations"] + restored["endedReservations"] >= 3
    assert [line for line in server.warnings() if "state" in line["message"]] == []


def test_metrics_have_what_was_written(kept, key):
    server = kept.start()
    assert status(server) == "running"
    put(server, key, tokens(1_000))
    wait_durable(server)
    first = totals(server)
    assert first["sluicegate_state_commits_total"] >= 1
    assert first["sluicegate_state_records_total"] >= 1
    assert first["sluicegate_state_file_bytes"] >= kept.path.stat().st_size > 0
    for _ in range(3):
        call(server, "record", {"subjects": [key], "input_tokens": 1})
        wait_durable(server)
    second = totals(server)
    assert second["sluicegate_state_commits_total"] == first["sluicegate_state_commits_total"] + 3
    assert second["sluicegate_state_records_total"] >= first["sluicegate_state_records_total"] + 3
    assert not any(value for name, value in second.items() if "state_failures" in name)
    time.sleep(0.1)  # nothing has changed: nothing is written
    assert state_metrics(server)["sluicegate_state_commits_total"] == (
        second["sluicegate_state_commits_total"])


def test_what_is_not_durable_yet_is_a_lag(kept, key):
    server = kept.start(sync_millis=60_000)
    put(server, key, tokens(1_000))
    call(server, "record", {"subjects": [key], "input_tokens": 1})
    began = time.monotonic()
    time.sleep(0.2)
    lag = state_metrics(server)["sluicegate_state_lag_seconds"]
    assert lag >= 0.2 or time.monotonic() - began > 50, lag
