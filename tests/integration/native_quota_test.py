"""Native protocol: quotas. Reserve, settle, cancel, extend, record, show, change; all or nothing,
waiting in the queue, connection-bound. Method: limits of an hour, so that no amount is released by
time; each test has subjects of its own."""

import contextlib
import signal
import time

from native_peer import (CONNECTION_BOUND, KEEP, KEEP_REQUESTS, MAY_WAIT, UNSET, WANTS_LIMITS,
                         WANTS_VIOLATED, NativePeer, frame_bytes, subject_columns)
from server_process import in_some_try

HOUR_MS = 3_600_000


def limit(name, metric, amount, **fields):
    times = {} if metric == "concurrency" else {"kind": "sliding", "periodMs": HOUR_MS}
    return {"name": name, "metric": metric, "amount": amount, **times, **fields}


TOKENS = limit("tokens", "tokens", 1_000)
ONE_SLOT = limit("slots", "concurrency", 1)


def used(peer, subject):
    """The used amount of each limit of the subject."""
    return {row["name"]: row["used"] for row in peer.usage(subject).limits}


def test_welcome_announces_quotas(server):
    with NativePeer(server) as peer:
        assert peer.welcome.body["features"] & 1


def test_reserves_up_to_the_limit_and_settles_the_usage(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS)
        answer = peer.reserve(key, inputTokens=[600], maxOutputTokens=[300])
        assert answer.codes == ["ok"] and len(answer.reservations) == 1
        denied = peer.reserve(key, inputTokens=[200], flags=WANTS_VIOLATED)
        assert denied.codes == ["tokensExceeded"] and denied.reservations == []
        assert 0 < denied.body["retryAfterMs"][0] <= HOUR_MS * 1.1
        row, = denied.limits
        assert (row["name"], row["violated"], row["amounts"]) == ("tokens", 1, 1_000)
        assert (row["used"], row["reserved"], row["remaining"]) == (900, 900, 100)

        settled = peer.settle(*answer.reservations, inputTokens=[600], outputTokens=[100])
        assert settled.codes == ["ok"]
        assert peer.settle(*answer.reservations, inputTokens=[1]).codes == ["ok"], "a repeat"
        assert used(peer, key) == {"tokens": 700}
        assert peer.reserve(key, inputTokens=[200]).codes == ["ok"]


def test_unset_amounts_stay_as_reserved(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, limit("in", "inputTokens", 1_000), limit("out", "outputTokens", 1_000),
                       limit("rpd", "requests", 100))
        first, second = peer.reserve(key, key, requests=[2, KEEP], inputTokens=[100, 200],
                                     maxOutputTokens=[10, 20]).reservations
        answer = peer.settle(first, second, requests=[KEEP, 5], inputTokens=[UNSET, 150],
                             outputTokens=[7, UNSET])
        assert answer.codes == ["ok", "ok"]
        assert used(peer, key) == {"in": 250, "out": 27, "rpd": 7}


def test_an_amount_that_can_never_fit_has_a_code_of_its_own(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS)
        answer = peer.reserve(key, inputTokens=[1_001])
        assert answer.codes == ["exceedsLimit"] and list(answer.body["retryAfterMs"]) == [-1]


def test_all_subjects_or_none(server, key):
    tenant, model = f"{{{key}}}", f"{{{key}}}.model"
    with NativePeer(server) as peer:
        peer.put_quota(tenant, TOKENS)
        peer.put_quota(model, limit("tokens", "tokens", 100))
        assert peer.reserve([tenant, model], inputTokens=[101]).codes == ["exceedsLimit"]
        assert used(peer, tenant) == used(peer, model) == {"tokens": 0}
        assert peer.reserve([tenant, model], inputTokens=[60]).codes == ["ok"]
        assert used(peer, tenant) == used(peer, model) == {"tokens": 60}
        assert peer.reserve(["apart" + key, model], flags=MAY_WAIT).codes == ["ok"]


def test_cancel_refunds(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS, limit("rpm", "requests", 10))
        first, second = peer.reserve(key, key, inputTokens=[100, 100]).reservations
        assert peer.cancel(first).codes == ["ok"]
        assert used(peer, key) == {"tokens": 100, "rpm": 1}
        assert peer.cancel(second, flags=KEEP_REQUESTS).codes == ["ok"]
        assert used(peer, key) == {"tokens": 0, "rpm": 1}
        assert peer.cancel(first).codes == ["ok"], "a repeat"
        assert peer.settle(first).codes == ["alreadyCancelled"]


def test_ids_never_assigned_are_unknown(server):
    with NativePeer(server) as peer:
        for id in (0, 1, 2**63, UNSET):
            assert peer.settle(id).codes == ["unknownReservation"], id
            assert peer.cancel(id).codes == ["unknownReservation"], id
            extended = peer.call("extend", {"reservations": [id]})
            assert extended.codes == ["unknownReservation"], id


def test_check_changes_nothing(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS)
        assert peer.reserve(key, kind="check", inputTokens=[900]).codes == ["ok"]
        assert peer.reserve(key, kind="check", inputTokens=[900]).reservations == []
        assert used(peer, key) == {"tokens": 0}


def test_record_charges_without_a_reservation(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS, limit("all", "tokens", 5_000, countCached=True))
        answer = peer.call("record", {**subject_columns([key]), "flags": WANTS_LIMITS,
                                      "inputTokens": [1_500], "cachedInputTokens": [300],
                                      "outputTokens": [100]})
        assert answer.codes == ["ok"]
        assert [row["used"] for row in answer.limits] == [1_300, 1_600]
        assert used(peer, key) == {"tokens": 1_300, "all": 1_600}
        assert peer.reserve(key, inputTokens=[1]).codes == ["tokensExceeded"]


def test_a_client_id_is_admitted_once(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS)
        ids = {"ids": b"call-1", "idSizes": [6]}
        first = peer.reserve(key, inputTokens=[100], **ids)
        again = peer.reserve(key, inputTokens=[100], **ids)
        assert first.reservations == again.reservations != []
        assert used(peer, key) == {"tokens": 100}


# ---- waiting -------------------------------------------------------------------------------------

def test_waits_in_the_queue_and_is_granted_its_reservation(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        holder, = peer.reserve(key).reservations
        waiting = peer.reserve(key, key, flags=MAY_WAIT)
        assert waiting.codes == ["queued", "queued"]
        assert peer.is_silent()
        assert peer.usage(key).body["waiting"][0] == 2

        peer.send(frame_bytes({"id": 99_999, "cancel": {"reservations": [holder]}}))
        answers = {answer.kind: answer for answer in (peer.read(), peer.read())}
        granted = answers["granted"]
        assert granted.id == waiting.id and list(granted.entries) == [0]
        assert granted.codes == ["ok"]
        assert answers["quotaAnswers"].codes == ["ok"]
        assert peer.is_silent(), "the second still waits"


def test_withdraws_a_waiter(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        peer.reserve(key)
        waiting = peer.reserve(key, key, flags=MAY_WAIT)
        peer.withdraw(waiting.id, [1])
        answers = {answer.kind: answer for answer in (peer.read(), peer.read())}
        assert list(answers["granted"].entries) == [1]
        assert answers["granted"].codes == ["withdrawn"]
        assert "reservations" not in answers["granted"].body


def test_waits_no_longer_than_allowed(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        peer.reserve(key)
        assert peer.reserve(key, flags=MAY_WAIT, waitLimitMs=100).codes == ["queued"]
        granted = peer.read("granted")
        assert (granted.codes, granted.body["retryAfterMs"]) == (["waitLimit"], [1_000])


# ---- how reservations end ------------------------------------------------------------------------

def test_a_lifetime_frees_the_slot(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        peer.send(frame_bytes({"id": 100, "reserve": {**subject_columns([key]), "lifetimeMs": 600}})
                  + frame_bytes({"id": 101, "reserve": {**subject_columns([key]),
                                                        "flags": MAY_WAIT}}))
        reservation, = peer.read("quotaAnswers").reservations
        assert peer.read("quotaAnswers").codes == ["queued"]
        granted = peer.read("granted")
        assert granted.codes == ["ok"] and granted.body["reservations"][0] != reservation
        late = peer.call("extend", {"reservations": [reservation], "lifetimeMs": 1_000})
        assert late.codes == ["alreadyExpired"]


def test_an_extension_keeps_the_slot(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        reservation, = peer.reserve(key, lifetimeMs=1_000).reservations
        extended = peer.call("extend", {"reservations": [reservation], "lifetimeMs": 60_000})
        assert extended.codes == ["ok"]
        time.sleep(1.2)
        assert peer.reserve(key).codes == ["concurrencyExceeded"]


def test_connection_bound_reservations_end_with_their_connection(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        for leave in (NativePeer.close, NativePeer.half_close, NativePeer.reset):
            holder = NativePeer(server)
            connection_bound = holder.reserve(key, flags=CONNECTION_BOUND)
            assert connection_bound.codes == ["ok"]
            assert peer.reserve(key, flags=MAY_WAIT).codes == ["queued"]
            leave(holder)
            granted = peer.read("granted")
            assert granted.codes == ["ok"]
            assert peer.cancel(*granted.reservations).codes == ["ok"]
            holder.close()


def test_other_reservations_outlive_their_connection(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        with NativePeer(server) as holder:
            reservation, = holder.reserve(key).reservations
        assert peer.reserve(key).codes == ["concurrencyExceeded"]
        assert peer.cancel(reservation).codes == ["ok"]
        assert peer.reserve(key).codes == ["ok"]


def test_a_waiter_of_an_ended_connection_costs_nothing(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        reservation, = peer.reserve(key).reservations
        with NativePeer(server) as leaver:
            assert leaver.reserve(key, flags=MAY_WAIT).codes == ["queued"]
        assert peer.reserve(key, flags=MAY_WAIT).codes == ["queued"]
        while peer.usage(key).body["waiting"][0] == 2:
            time.sleep(0.01)
        peer.send(frame_bytes({"id": 99_999, "cancel": {"reservations": [reservation]}}))
        kinds = {answer.kind: answer for answer in (peer.read(), peer.read())}
        assert kinds["granted"].codes == ["ok"]


def test_a_server_that_shuts_down_settles_but_reserves_nothing(start_server):
    def settles_and_reserves():
        server = start_server()
        with NativePeer(server) as peer:
            peer.put_quota("model", ONE_SLOT)
            reservation, = peer.reserve("model").reservations
            waiting = peer.reserve("model", flags=MAY_WAIT)
            server.signal(signal.SIGTERM)
            answers = {}
            while 0 not in answers:  # GoAway; another shard may have been first
                answer = peer.read()
                answers[answer.id] = answer
            assert answers[0].kind == "goAway"
            with contextlib.suppress(OSError):  # the server's grace period has ended
                peer.send(frame_bytes({"id": 1_000, "settle": {"reservations": [reservation]}})
                          + frame_bytes({"id": 1_001, "reserve": subject_columns(["model"])}))
            while (answer := peer.read_or_end()) is not None:
                answers[answer.id] = answer
        if 1_000 not in answers:
            return False
        # Another shard may also be last, and have settled before the shutdown reached it.
        assert answers[waiting.id].codes in (["draining"], ["ok"])
        assert answers[1_000].codes == ["ok"]
        assert answers[1_001].codes == ["draining"]
        return True
    in_some_try(settles_and_reserves, "the calls arrive before the server's grace period ends")


# ---- quotas --------------------------------------------------------------------------------------

def test_usage_shows_quotas_as_put(server, key):
    calendar = limit("cost", "cost", 5, kind="calendar", periodMs=0, unit="month",
                     timeZone="America/Los_Angeles")
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS, calendar, refundExpired=True, overtakersMax=3)
        reply = peer.usage(key, "unknown" + key).body
        assert list(reply["sources"]) == [1, 0]
        quota = reply["quotas"][0]
        assert quota["refundExpired"] and quota["overtakersMax"] == 3
        assert [row["name"] for row in quota["limits"]] == ["tokens", "cost"]
        assert quota["limits"][1]["timeZone"] == "America/Los_Angeles"
        assert reply["names"] == (key + "unknown" + key).encode()


def test_pages_list_every_subject_once(start_server):
    server = start_server()
    names = {f"subject{index}" for index in range(300)}
    with NativePeer(server) as peer:
        for name in names:
            peer.put_quota(name, TOKENS)
        seen, cursor = [], 0
        while True:
            page = peer.usage(cursor=cursor, limit=70).body
            blob = page.get("names", b"")
            assert len(page.get("nameSizes", [])) <= 70
            for size in page.get("nameSizes", []):
                seen.append(blob[:size].decode())
                blob = blob[size:]
            if not (cursor := page["cursor"]):
                break
        assert sorted(seen) == sorted(names)


def test_quotas_are_removed_and_refused(server, key):
    with NativePeer(server) as peer:
        subject = {"subject": key.encode()}
        assert peer.call("quota", {**subject, "remove": True}).codes == ["noSuchQuota"]
        twice = {"limits": [TOKENS, TOKENS]}
        answer = peer.call("quota", {**subject, "quota": twice})
        assert answer.codes == ["invalidQuota"]
        assert answer.body["detail"] == (
            'limits[1] ("tokens"), name: is also the name of an earlier limit: names must differ')
        many = {"limits": [{**TOKENS, "name": f"limit {number}"} for number in range(17)]}
        answer = peer.call("quota", {**subject, "quota": many})
        assert (answer.codes, answer.body["detail"]) == (
            ["invalidQuota"], "limits: has 17; at most 16 are allowed")
        newer = {"limits": [TOKENS, {**TOKENS, "name": "kittens", "metric": 6}]}
        answer = peer.call("quota", {**subject, "quota": newer})
        assert (answer.codes, answer.body["detail"]) == (
            ["invalidQuota"], 'limits[1] ("kittens"), metric: is unknown to this server')
        huge = {"limits": [{**TOKENS, "amount": 2**63}]}
        answer = peer.call("quota", {**subject, "quota": huge})
        assert (answer.codes, answer.body["detail"]) == (
            ["invalidQuota"], f'limits[0] ("tokens"), amount: must be at most {2**63 - 1}')
        peer.put_quota(key, limit("rpm", "requests", 0))
        assert peer.reserve(key).codes == ["exceedsLimit"]
        assert peer.call("quota", {**subject, "remove": True}).codes == ["ok"]
        assert peer.reserve(key).codes == ["unknownSubjectAllowed"]


def test_reset_clears_usage_and_keeps_slots(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, TOKENS, ONE_SLOT)
        reservation, = peer.reserve(key, inputTokens=[500]).reservations
        peer.settle(reservation)
        peer.reserve(key, inputTokens=[100])
        assert used(peer, key) == {"tokens": 600, "slots": 1}
        assert peer.call("reset", {"subject": key.encode()}).codes == ["ok"]
        assert used(peer, key)["slots"] == 1
        assert used(peer, key)["tokens"] <= 100


def test_reset_of_all_reaches_every_shard(start_server):
    server = start_server()
    names = [f"subject{index}" for index in range(20)]
    with NativePeer(server) as peer:
        for name in names:
            peer.put_quota(name, TOKENS)
        for reservation in peer.reserve(*names, inputTokens=[500] * 20).reservations:
            assert peer.settle(reservation).codes == ["ok"]
        assert peer.call("reset", {"all": True}).codes == ["ok"]
        assert {row["used"] for row in peer.usage(*names).limits} == {0}


# ---- batches -------------------------------------------------------------------------------------

def test_a_batch_over_all_shards_is_decided_in_order(server, key):
    names = [f"{key}{index % 50}" for index in range(2_000)]
    with NativePeer(server) as peer:
        for name in names[:50]:
            peer.put_quota(name, limit("rpm", "requests", 30))
        answer = peer.reserve(*names)
        assert answer.codes == ["ok"] * 1_500 + ["requestsExceeded"] * 500
        reservations = answer.reservations
        assert len(set(reservations[:1_500])) == 1_500 and set(reservations[1_500:]) == {0}
        settled = peer.settle(*reservations[:1_500], requests=[0] * 1_500)
        assert settled.codes == ["ok"] * 1_500
        assert {row["used"] for row in peer.usage(*names[:50]).limits} == {0}


def test_pipelined_frames_are_answered_with_their_ids(server, key):
    names = [f"{key}{index}" for index in range(10)]
    with NativePeer(server) as peer:
        for name in names:
            peer.put_quota(name, limit("rpm", "requests", 50))
        frames = b"".join(frame_bytes({"id": 1_000 + index, "reserve": subject_columns(names)})
                          for index in range(100))
        peer.send(frames)
        codes = {}
        for _ in range(100):
            answer = peer.read("quotaAnswers")
            codes[answer.id] = answer.codes
        assert sorted(codes) == list(range(1_000, 1_100))
        for index in range(100):
            expected = "ok" if index < 50 else "requestsExceeded"
            assert codes[1_000 + index] == [expected] * 10, index


def test_an_id_that_another_shard_decides_is_in_use(server, key):
    refused = 0
    with NativePeer(server) as peer:
        for number in range(30):
            id = 1_000 + number
            twice = [frame_bytes({"id": id, kind: subject_columns([f"{key}{number}"])})
                     for kind in ("reserve", "record")]
            peer.send(b"".join(twice))
            for answer in (peer.read(), peer.read()):
                assert answer.id == id
                if answer.kind == "error":
                    assert answer.code == "idInUse"
                    refused += 1
    assert (refused > 0) == (server.shards > 1)


def test_an_id_that_waits_is_in_use(server, key):
    with NativePeer(server) as peer:
        peer.put_quota(key, ONE_SLOT)
        peer.reserve(key)
        waiting = peer.reserve(key, flags=MAY_WAIT)
        peer.send(frame_bytes({"id": waiting.id, "reserve": subject_columns([key])}))
        peer.read_error("idInUse", waiting.id)
