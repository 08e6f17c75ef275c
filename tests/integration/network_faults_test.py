"""Nodes that die, stand still, or are cut off: the others notice, answer by --peer-failure without
waiting, and go on when the node is back. A caller that leaves is missed by the owner at once.

Method: three nodes in namespaces (cut_fleet.py). The times that docs/nodes.md promises are printed;
ten times as long is a failure."""

import statistics
import time

import pytest

from cut_fleet import FAULTS, NODES, CutFleet, lost_ways, own_namespace, why_not
from fleet import name_at
from http_peer import HttpPeer, ask, inspect
from server_process import eventually

NOTICED_S, FAILURE_S, WAITER_GONE_S, BACK_S = 1.0, 0.005, 0.1, 1.0  # as documented
SLACK = 10
FAILURES = 500
REASONS = {"killed": {"the connection has ended", "Connection reset by peer"}}
KEYS = [name_at(node, NODES) for node in range(NODES)]

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")


@pytest.fixture(scope="module")
def fleet():
    with own_namespace(), CutFleet("--max-requests", "1000000", "-w", "3600000") as nodes:
        yield nodes


def times_until(status, peer, key, bound_s):
    """Asks again and again until the answer has this status; returns how long that took."""
    began = time.monotonic()
    while time.monotonic() - began < bound_s:
        if peer.ask("POST", f"/rate/{key}").status == status:
            return time.monotonic() - began
    raise AssertionError(f"no {status} within {bound_s} s")


def p99(seconds):
    return statistics.quantiles(seconds, n=100)[-1]


def check(what, seconds, promised_s):
    print(f"{what}: {seconds * 1000:.1f} ms (promised: {promised_s * 1000:.0f})")
    assert seconds <= SLACK * promised_s, what


class Lines:
    """What each node logs of each other one from now on."""

    def __init__(self, fleet):
        self.logs = [node.process.log for node in fleet.nodes]
        self.begins = [len(log) for log in self.logs]
        self.names = [f"{node.host}:{node.port}" for node in fleet.nodes]

    def of(self, number, other):
        """Without what is the same in all lines."""
        lines = self.logs[number][self.begins[number]:]
        return [{field: value for field, value in line.items() if field not in ("time", "source")}
                for line in lines if line.get("node") == self.names[other]]

    def check(self, fault):
        """Each loss is logged once, and so is each return. What a node that was killed or paused
        itself logs depends on which of its links it misses."""
        lost = lost_ways(fault)
        for number, other in lost:
            eventually(lambda way=(number, other): len(self.of(*way)) > 1, "it is connected again")
            name, (gone, back) = {"node": self.names[other]}, self.of(number, other)
            assert gone.pop("reason") in REASONS.get(fault, {"silent"})
            assert gone == {"level": "WARN", "message": "node lost", **name}
            assert back == {"level": "INFO", "message": "node connected", **name}
        for way in {(0, 2), (2, 0), (2, 1)} - lost:
            assert self.of(*way) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_the_owner_is_lost_and_found_again(fleet, fault):
    lines = Lines(fleet)
    with HttpPeer(fleet.nodes[0].process) as peer:
        assert peer.ask("POST", f"/rate/{KEYS[1]}").status == 200
        with FAULTS[fault](fleet):
            check(f"{fault}: noticed", times_until(502, peer, KEYS[1], 30), NOTICED_S)
            failures = []
            for _ in range(FAILURES):
                asked = time.monotonic()
                assert peer.ask("POST", f"/rate/{KEYS[1]}").status == 502
                failures.append(time.monotonic() - asked)
            check(f"{fault}: failures after that, p99", p99(failures), FAILURE_S)
            assert peer.ask("POST", f"/rate/{KEYS[0]}").status == 200
            assert peer.ask("POST", f"/rate/{KEYS[2]}").status == 200
            fleet.await_lost(fault)
        back = times_until(200, peer, KEYS[1], 30)
        check(f"{fault}: back", back, BACK_S)
    fleet.await_links()
    lines.check(fault)


def test_the_owner_misses_a_waiter_whose_caller_has_left(fleet):
    gone = []
    for attempt in range(20):
        key = name_at(1, NODES, f"wait{attempt}.")
        owner = fleet.nodes[1].process
        asked = ask(fleet.nodes[0].process, "POST", f"/rate/{key}?maxRequests=1")
        assert asked.status == 200
        with HttpPeer(fleet.nodes[0].process) as peer:
            peer.send(f"POST /rate/{key}?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            eventually(lambda key=key: inspect(owner, key)["NumWaiting"] == 1, "it waits")
        left = time.monotonic()
        eventually(lambda key=key: inspect(owner, key)["NumWaiting"] == 0, "the waiter is gone")
        gone.append(time.monotonic() - left)
    check("a remote waiter is gone after its caller, the slowest of 20", max(gone), WAITER_GONE_S)
