"""--peer-failure also answers what had been sent to a node before it was lost: each policy in its
way, and nothing is sent a second time.

Method: fleets of two; the owner stands still (SIGSTOP) when it is asked. Its limit is one permit an
hour, so that what it counts, and what the asked node counts itself, shows in the next answers.
"""

import concurrent.futures
import contextlib

import pytest

from conftest import LONG_WINDOW
from fleet import OURS, Fleet, owner_of
from http_peer import ask, metrics
from native_peer import APPROVED, DENIED, NativePeer
from server_process import eventually

KEYS = [key for key in (f"key{i}" for i in range(1_000)) if owner_of(key, 2) == 1]


@contextlib.contextmanager
def owner_stands_still(policy):
    flags = [*LONG_WINDOW, "-m", "1", "--peer-failure", policy, "--peer-silence-millis", "300"]
    with Fleet([OURS, OURS], *flags) as fleet:
        fleet.nodes[1].process.pause()
        try:
            yield fleet
        finally:
            fleet.nodes[1].process.resume()
            eventually(lambda: not fleet.nodes[0].lacks_links(fleet.nodes), "it is connected again")


def failed(fleet):
    """Entries that were left to the policy."""
    return sum(value for name, value in metrics(fleet.nodes[0].process).items()
               if name.startswith("sluicegate_node_failed_total{"))


@pytest.mark.parametrize("policy, status, degraded", [
    ("error", 502, None), ("closed", 429, None), ("open", 200, "owner unreachable"),
    ("local", 200, None)])
def test_what_was_sent_is_answered_by_the_policy(policy, status, degraded):
    with owner_stands_still(policy) as fleet:
        asked = fleet.nodes[0].process
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            answers = list(callers.map(lambda key: ask(asked, "POST", f"/rate/{key}"), KEYS[:8]))
        assert [answer.status for answer in answers] == [status] * 8
        assert {answer.header("sluicegate-degraded") for answer in answers} == {degraded}
        assert failed(fleet) == 8


def test_what_this_node_decides_instead_is_in_its_own_count():
    with owner_stands_still("local") as fleet:
        asked = fleet.nodes[0].process
        asked.native_port = asked.wait_for_message("ready")["nativePort"]
        keys = KEYS[:100]
        with NativePeer(asked) as peer:
            assert peer.ask(keys + keys).verdicts == [APPROVED] * 100 + [DENIED] * 100
            assert failed(fleet) == 200, "all of them had been sent"
            # The same shards decide when nothing is sent to the owner any more.
            assert peer.ask(keys).verdicts == [DENIED] * 100
            peer.release(keys)
            peer.read("done")
            assert peer.ask(keys).verdicts == [APPROVED] * 100
    # The owner has counted what was sent to it once, and nothing of the rest.


def test_a_request_that_may_wait_waits_here():
    with owner_stands_still("local") as fleet:
        asked = fleet.nodes[0].process
        assert ask(asked, "POST", f"/rate/{KEYS[0]}").status == 200
        with concurrent.futures.ThreadPoolExecutor(1) as callers:
            waits = callers.submit(ask, asked, "POST", f"/rate/{KEYS[0]}?canWait=true")
            eventually(lambda: ask(asked, "GET", f"/debug/{KEYS[0]}").json()["NumWaiting"] == 1,
                       "it waits in this node's queue")
            assert ask(asked, "DELETE", f"/rate/{KEYS[0]}/1").status == 200
            assert waits.result().status == 200


def test_one_that_was_sent_may_wait_here_as_well():
    with owner_stands_still("local") as fleet:
        asked = fleet.nodes[0].process
        with concurrent.futures.ThreadPoolExecutor(2) as callers:
            both = [callers.submit(ask, asked, "POST", f"/rate/{KEYS[0]}?canWait=true")
                    for _ in range(2)]
            eventually(lambda: ask(asked, "GET", f"/debug/{KEYS[0]}").status == 200
                       and ask(asked, "GET", f"/debug/{KEYS[0]}").json()["NumWaiting"] == 1,
                       "the first is approved, the other waits")
            assert ask(asked, "DELETE", f"/rate/{KEYS[0]}/1").status == 200
            assert [one.result().status for one in both] == [200, 200]
