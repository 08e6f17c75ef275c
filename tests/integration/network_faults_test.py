"""Nodes that die, stand still, or are cut off: the others notice, answer by --peer-failure without
waiting, and go on when the node is back. A caller that leaves is missed by the owner at once.

Method: three nodes in namespaces (cut_fleet.py). The times that docs/nodes.md promises are printed;
ten times as long is a failure."""

import statistics
import time

import pytest

from cut_fleet import FAULTS, NODES, CutFleet, own_namespace, why_not
from fleet import name_at
from http_peer import HttpPeer, ask, inspect
from server_process import eventually

NOTICED_S, FAILURE_S, WAITER_GONE_S = 1.0, 0.005, 0.1  # as documented
SLACK = 10
FAILURES = 500
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


@pytest.mark.parametrize("fault", FAULTS)
def test_the_owner_is_lost_and_found_again(fleet, fault):
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
        print(f"{fault}: back after {back * 1000:.0f} ms")
    fleet.await_links()


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
