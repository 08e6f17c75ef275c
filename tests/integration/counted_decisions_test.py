"""/metrics, /top, /debug and usage agree with the test's own count of every decision, over REST and
the native protocol, for keys and for quotas: over pauses of the process, ends of windows, and
waiters that come, leave and are served. Method: seeded sequences of requests whose answers the test
counts. A rate is compared with the test's own rates over all stretches of about its length."""

import collections
import random
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, queued, request, totals
from native_peer import APPROVED, DENIED, MAY_WAIT, QUEUED, NativePeer
from quota_calls import call, put, show, tokens, waiting_call
from server_process import eventually

LIMIT = 5
KEYS = [f"key{number}" for number in range(7)]
RATES = ("decisions", "approved", "denied", "queued")
# Rates of shards span two seconds at most, and none that a pause of the process is a part of.
LONG_PAUSE_S = 2.3


def top(server):
    response = ask(server, "GET", "/top")
    assert response.status == 200
    return response.json()


def shard_rate(server, name="decisions"):
    return sum(shard[f"{name}PerSecond"] for shard in top(server)["shards"])


def decisions(seen):
    return {name: value for name, value in seen.items()
            if name.startswith("sluicegate_decisions_total")}


class Count:
    """The test's own: decisions of all keys and of each, and who waits."""

    def __init__(self, server):
        self.server = server
        self.native = NativePeer(server)
        self.outcomes = collections.Counter()
        self.approved = collections.Counter()  # permits taken in this window, by key
        self.denied = collections.Counter()
        self.waiters = {}  # key -> the peer that waits, and how its outcome is read

    def decide(self, key, cost):
        """Counts one entry; returns whether it is approved."""
        approves = key not in self.waiters and self.approved[key] + cost <= LIMIT
        self.outcomes["approved" if approves else "denied"] += 1
        if approves:
            self.approved[key] += cost
        else:
            self.denied[key] += 1
        return approves

    def ask(self, key, cost):
        approves = self.decide(key, cost)
        response = ask(self.server, "POST", f"/rate/{key}?cost={cost}")
        assert response.status == (200 if approves else 429), (key, cost, response)

    def ask_natively(self, key, cost):
        keys = [key, KEYS[0], key]
        expected = [APPROVED if self.decide(each, cost) else DENIED for each in keys]
        assert self.native.ask(keys, costs=[cost] * 3).verdicts == expected, (key, cost)

    def wait(self, key):
        if key in self.waiters or self.approved[key] < LIMIT:
            return
        before = queued(self.server)
        if before % 2:
            peer = NativePeer(self.server)
            assert peer.ask([key], flags=MAY_WAIT).verdicts == [QUEUED]
            self.waiters[key] = peer, lambda: peer.read("granted").verdicts == [APPROVED]
        else:
            peer = HttpPeer(self.server)
            peer.send(request("POST", f"/rate/{key}?canWait=true"))
            self.waiters[key] = peer, lambda: peer.read().status == 200
        eventually(lambda: queued(self.server) == before + 1, "it waits")
        self.outcomes["queued"] += 1

    def leave(self, key):
        """A client that leaves its queue gets no outcome, so none is counted."""
        if key not in self.waiters:
            return
        self.waiters.pop(key)[0].close()
        left = len(self.waiters)
        eventually(lambda: totals(self.server)["sluicegate_waiters"] == left, "it has left")

    def release(self, key):
        """Serves the waiter, if there is one."""
        if not self.approved[key]:
            return
        self.approved[key] -= 1
        if self.approved[key] % 2:
            self.native.release([key])
            self.native.read("done")
        else:
            assert ask(self.server, "DELETE", f"/rate/{key}/1").status == 200
        if key in self.waiters:
            peer, is_approved = self.waiters.pop(key)
            assert is_approved()
            peer.close()
            self.outcomes["approved"] += 1
            self.approved[key] += 1

    def check(self):
        seen = totals(self.server)
        for outcome in ("approved", "denied", "queued"):
            assert (seen[f'sluicegate_decisions_total{{outcome="{outcome}"}}']
                    == self.outcomes[outcome]), outcome
        assert sum(decisions(seen).values()) == self.outcomes.total()
        assert seen["sluicegate_waiters"] == len(self.waiters)
        shown = top(self.server)
        assert sum(shard["waiting"] for shard in shown["shards"]) == len(self.waiters)
        assert (sum(shard["keys"] for shard in shown["shards"])
                == len(self.approved | self.denied | self.waiters.keys()))
        for key in self.approved | self.denied:
            state = inspect(self.server, key)
            assert state["NumApprovedThisWindow"] == self.approved[key], key
            assert state["NumDeniedThisWindow"] == self.denied[key], key
            assert state["NumWaiting"] == (key in self.waiters), key

    def pause(self, seconds):
        self.server.pause()
        time.sleep(seconds)
        self.server.resume()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_decision_is_counted_once(start_server, seed):
    server = start_server(*LONG_WINDOW, "--max-requests", str(LIMIT))
    count, chosen = Count(server), random.Random(seed)
    for step in range(120):
        key = chosen.choice(KEYS)
        action = chosen.choice(["ask", "ask", "ask_natively", "wait", "leave", "release"])
        costs = [chosen.randint(1, 3)] if action.startswith("ask") else []
        getattr(count, action)(key, *costs)
        if step % 10 == 0:
            count.check()
        if step == 20:
            count.pause(0.3)
            count.check()
        if step == 60:
            count.pause(LONG_PAUSE_S)
            assert shard_rate(server) == 0, "what was decided before the pause is not the present"
            count.check()
    count.check()
    for key in list(count.waiters):
        count.leave(key)
    count.check()
    count.native.close()


class Paced:
    """Asks at a steady pace, and keeps when each answer came."""

    def __init__(self):
        self.times = []  # (when, key, outcome)

    def rates(self, key=None, outcome="decisions"):
        """The least and the greatest rate over all stretches of one to two and a half seconds."""
        times = [when for when, its_key, its_outcome in self.times
                 if key in (None, its_key) and outcome in ("decisions", its_outcome)]
        first, last = self.times[0][0], self.times[-1][0]
        rates = []
        for length in (1.0, 1.5, 2.0, 2.5):
            begin = first
            while begin + length <= last:
                rates.append(sum(begin <= when < begin + length for when in times) / length)
                begin += 0.05
        return min(rates), max(rates)


def assert_within(rate, bounds, what):
    least, greatest = bounds
    assert 0.85 * least - 1 <= rate <= 1.15 * greatest + 1, (what, rate, bounds)


# Of each round: the first two of "often" are approved, then its limit is reached.
ROUND = ["often", "seldom", "often", "natively", "often"]
ROUND_S = 0.05


def test_rates_are_those_of_the_tests_own_count(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000")
    own = Paced()
    with HttpPeer(server) as rest, NativePeer(server) as native:
        started = time.monotonic()
        for number in range(round(6 / ROUND_S)):
            for key in ROUND:
                if key == "natively":
                    approved = native.ask([key], costs=[1 + number % 2 * 1_000_000]
                                          ).verdicts == [APPROVED]
                else:
                    approved = rest.ask("POST", f"/rate/{key}").status == 200
                own.times.append((time.monotonic(), key, "approved" if approved else "denied"))
            time.sleep(max(0, started + (number + 1) * ROUND_S - time.monotonic()))
        shown = top(server)
        for name in RATES:
            rate = sum(shard[f"{name}PerSecond"] for shard in shown["shards"])
            assert_within(rate, own.rates(outcome=name), name)
        assert [key["key"] for key in shown["keys"]][0] == "often"
        assert {key["key"] for key in shown["keys"]} == set(ROUND)
        for key in shown["keys"]:
            for name in RATES:
                assert_within(key[f"{name}PerSecond"], own.rates(key["key"], name),
                              (key["key"], name))
            assert key["decisionsPerSecondMax"] == key["decisionsPerSecond"], "nothing is estimated"
    counted = totals(server)
    assert sum(decisions(counted).values()) == len(own.times)
    # After a whole span without requests none is left, and keys have half of their rate or less.
    time.sleep(2.5)
    eventually(lambda: shard_rate(server) == 0, "the rates of shards are zero")
    before = {key["key"]: key["decisionsPerSecond"] for key in shown["keys"]}
    for key in top(server)["keys"]:
        assert key["decisionsPerSecond"] <= 0.6 * before[key["key"]], key
    assert decisions(totals(server)) == decisions(counted)


NATIVE_CODES = {"ok": "ok", "tokens_exceeded": "tokensExceeded", "queue_ahead": "queueAhead"}


class QuotaCount:
    """The test's own: reservations by outcome, their ends, and the tokens of each subject."""

    AMOUNT = 100

    def __init__(self, server, subjects):
        self.server = server
        self.subjects = subjects
        self.native = NativePeer(server)
        self.reserves, self.ends = collections.Counter(), collections.Counter()
        self.used = dict.fromkeys(subjects, 0)
        self.open = []  # (reservation, subject, tokens)
        self.waiters = {}  # subject -> (peer, tokens)
        for subject in subjects:
            put(server, subject, tokens(self.AMOUNT))

    def reserve(self, chosen, natively):
        subject, amount = chosen.choice(self.subjects), chosen.randint(1, 60)
        outcome = ("tokens_exceeded" if self.used[subject] + amount > self.AMOUNT
                   else "queue_ahead" if subject in self.waiters else "ok")
        fits = outcome == "ok"
        if natively:
            answer = self.native.reserve(subject, inputTokens=[amount])
            assert answer.codes == [NATIVE_CODES[outcome]], answer
            reservation = answer.reservations[0] if fits else None
        else:
            response = call(self.server, "reserve", {"subjects": [subject], "input_tokens": amount})
            assert response.status == (200 if fits else 429), response
            reservation = int(response.json()["reservation"], 16) if fits else None
        self.reserves[outcome] += 1
        if fits:
            self.used[subject] += amount
            self.open.append((reservation, subject, amount))

    def end(self, chosen):
        """Settles with less than was reserved, or cancels."""
        if not self.open:
            return
        reservation, subject, amount = self.open.pop(chosen.randrange(len(self.open)))
        spent = chosen.randint(0, amount)
        if chosen.random() < 0.5:
            assert self.native.settle(reservation, inputTokens=[spent]).codes == ["ok"]
            self.ends["settled"] += 1
            self.ends["tokens_refunded"] += amount - spent
            self.used[subject] -= amount - spent
        else:
            assert self.native.cancel(reservation).codes == ["ok"]
            self.ends["cancelled"] += 1
            self.ends["tokens_refunded"] += amount
            self.used[subject] -= amount
        self.serve(subject)

    def record(self, chosen):
        subject, amount = chosen.choice(self.subjects), chosen.randint(1, 5)
        assert call(self.server, "record", {"subjects": [subject], "input_tokens": amount}
                    ).status == 200
        self.ends["recorded"] += 1
        self.used[subject] += amount

    def wait(self, chosen):
        subject = chosen.choice(self.subjects)
        amount = max(self.AMOUNT - self.used[subject], 0) + chosen.randint(1, 30)
        may_be_freed = sum(reserved for _, its, reserved in self.open if its == subject)
        # Where only the end of the hour could help, it would not wait.
        if subject in self.waiters or self.used[subject] - may_be_freed + amount > self.AMOUNT:
            return
        self.waiters[subject] = waiting_call(self.server, subject, input_tokens=amount), amount
        self.reserves["queued"] += 1

    def serve(self, subject):
        """Where the waiter fits, it has been admitted."""
        if subject not in self.waiters:
            return
        peer, amount = self.waiters[subject]
        if self.used[subject] + amount > self.AMOUNT:
            return
        del self.waiters[subject]
        response = peer.read()
        assert response.status == 200, response
        peer.close()
        self.reserves["ok"] += 1
        self.ends["waited"] += 1
        self.used[subject] += amount
        self.open.append((int(response.json()["reservation"], 16), subject, amount))

    def check(self):
        seen = totals(self.server)
        outcomes = {name: value for name, value in seen.items()
                    if name.startswith("sluicegate_quota_reserves_total") and value}
        assert outcomes == {f'sluicegate_quota_reserves_total{{outcome="{outcome}"}}': count
                            for outcome, count in self.reserves.items()}
        for end in ("settled", "cancelled", "recorded", "waited", "tokens_refunded", "expired",
                    "unknown_subjects"):
            assert seen[f"sluicegate_quota_{end}_total"] == self.ends[end], end
        assert seen["sluicegate_reservations"] == len(self.open)
        assert seen["sluicegate_quota_waiters"] == len(self.waiters)
        for subject in self.subjects:
            shown = show(self.server, subject)
            assert shown["limits"][0]["used"] == self.used[subject], subject
            assert shown["waiting"] == (subject in self.waiters), subject
            row, = self.native.usage(subject).limits
            assert row["used"] == self.used[subject], subject


@pytest.mark.parametrize("seed", [1, 2])
def test_every_reservation_is_counted_once(start_server, seed):
    server = start_server()
    chosen = random.Random(seed)
    count = QuotaCount(server, [f"subject{number}" for number in range(3)])
    for step in range(200):
        action = chosen.choice(["rest", "native", "end", "wait"] * 2 + ["record"])
        if action in ("rest", "native"):
            count.reserve(chosen, action == "native")
        else:
            getattr(count, action)(chosen)
        if step % 10 == 0:
            count.check()
        if step == 70:
            server.pause()
            time.sleep(LONG_PAUSE_S)
            server.resume()
            count.check()
    while count.open:
        count.end(chosen)
    count.check()
    assert count.reserves.keys() == {"queued", *NATIVE_CODES}, count.reserves
    assert {"settled", "cancelled", "recorded", "waited"} <= count.ends.keys(), count.ends
    for peer, _ in count.waiters.values():
        peer.close()
    count.native.close()


def test_counters_go_on_where_a_window_ends(start_server):
    server = start_server("--window-millis", "200", "--max-requests", "1")
    own = collections.Counter()
    for _ in range(4):
        for _ in range(3):
            own[ask(server, "POST", "/rate/k").status] += 1
        time.sleep(0.25)  # a window ends, and on a slow machine more
    seen = totals(server)
    assert seen['sluicegate_decisions_total{outcome="approved"}'] == own[200] >= 4
    assert seen['sluicegate_decisions_total{outcome="denied"}'] == own[429]
