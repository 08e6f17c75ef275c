"""/metrics, /top and /debug agree with the test's own count of every decision: over pauses of the
process, ends of windows and waiters that come, leave and are served. Method: a seeded sequence of
requests whose answers the test counts; rates are compared where no clock matters."""

import collections
import json
import random
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, queued, request, totals
from server_process import eventually

LIMIT = 5
KEYS = [f"key{number}" for number in range(7)]


class Count:
    """The test's own: decisions of all keys and of each, and who waits."""

    def __init__(self, server):
        self.server = server
        self.outcomes = collections.Counter()
        self.approved = collections.Counter()  # permits taken in this window, by key
        self.denied = collections.Counter()
        self.waiters = {}  # key -> peers, the first in its queue first

    def ask(self, key, cost):
        approves = not self.waiters.get(key) and self.approved[key] + cost <= LIMIT
        response = ask(self.server, "POST", f"/rate/{key}?cost={cost}")
        assert response.status == (200 if approves else 429), (key, cost, response)
        self.outcomes["approved" if approves else "denied"] += 1
        if approves:
            self.approved[key] += cost
        else:
            self.denied[key] += 1

    def wait(self, key):
        if self.waiters.get(key) or self.approved[key] < LIMIT:
            return
        before = queued(self.server)
        peer = HttpPeer(self.server)
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
        eventually(lambda: queued(self.server) == before + 1, "it waits")
        self.waiters[key] = [peer]
        self.outcomes["queued"] += 1

    def leave(self, key):
        """A client that leaves its queue gets no outcome, so none is counted."""
        for peer in self.waiters.pop(key, []):
            peer.close()
            left = sum(map(len, self.waiters.values()))
            eventually(lambda: totals(self.server)["sluicegate_waiters"] == left, "it has left")

    def release(self, key):
        """Serves the waiter, if there is one."""
        if not self.approved[key]:
            return
        assert ask(self.server, "DELETE", f"/rate/{key}/1").status == 200
        self.approved[key] -= 1
        for peer in self.waiters.pop(key, []):
            assert peer.read().status == 200
            peer.close()
            self.outcomes["approved"] += 1
            self.approved[key] += 1

    def check(self):
        seen = totals(self.server)
        for outcome in ("approved", "denied", "queued"):
            assert (seen[f'sluicegate_decisions_total{{outcome="{outcome}"}}']
                    == self.outcomes[outcome]), outcome
        assert sum(value for name, value in seen.items()
                   if name.startswith("sluicegate_decisions_total")) == self.outcomes.total()
        assert seen["sluicegate_waiters"] == sum(map(len, self.waiters.values()))
        shards = json.loads(ask(self.server, "GET", "/top").body)["shards"]
        assert sum(shard["waiting"] for shard in shards) == seen["sluicegate_waiters"]
        for key in self.approved | self.denied:
            state = inspect(self.server, key)
            assert state["NumApprovedThisWindow"] == self.approved[key], key
            assert state["NumDeniedThisWindow"] == self.denied[key], key
            assert state["NumWaiting"] == len(self.waiters.get(key, [])), key


@pytest.mark.parametrize("seed", [1, 2])
def test_every_decision_is_counted_once(start_server, seed):
    server = start_server(*LONG_WINDOW, "--max-requests", str(LIMIT))
    count, chosen = Count(server), random.Random(seed)
    for step in range(120):
        key = chosen.choice(KEYS)
        action = chosen.choice(["ask", "ask", "ask", "wait", "leave", "release"])
        getattr(count, action)(key, *([chosen.randint(1, 3)] if action == "ask" else []))
        if step % 40 == 20:
            count.check()
            server.pause()
            time.sleep(0.3)
            server.resume()
        if step % 10 == 0:
            count.check()
    count.check()
    for key in list(count.waiters):
        count.leave(key)
    count.check()


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
