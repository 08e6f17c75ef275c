"""Requests that wait at an owner that is a gocc. It knows no wait limit of ours, so the node that
was asked ends such a wait (RST_STREAM), and that of a caller that has left; then it is gone from
gocc's queue at once.

Method: a fleet of a Sluicegate and a gocc, whose keys are asked for at the Sluicegate, in both
dialects; the gocc reports how many wait there. Windows are so long that it ends no wait itself."""

import time

import pytest

from fleet import GOCC, OURS, Fleet, name_at
from gocc_program import gocc, why_no_gocc
from http1_over_http2 import TranslatingPeer
from http_peer import HttpPeer, ask, request, waiting
from native_peer import APPROVED, MAY_WAIT, QUEUED, WAIT_LIMIT, NativePeer
from server_process import eventually

WINDOW_MS = 3_600_000
SHORT_WINDOW_MS = 6_000
LIMIT_MS = 1_500  # time enough to see it wait at the gocc
GONE_S, SLACK = 0.1, 10  # as between our nodes, and what a busy machine may add
LIMIT_S = (LIMIT_MS - 1) / 1000  # at least: nodes count whole milliseconds
ENDED_S = 5  # a wait with a limit, at the latest

pytestmark = pytest.mark.skipif(not gocc(), reason=why_no_gocc())


@pytest.fixture(scope="module")
def nodes():
    with Fleet([OURS, GOCC], "-m", "1", "-w", WINDOW_MS) as fleet:
        ours, owner = [node.process for node in fleet.nodes]
        ours.native_port = ours.wait_for_message("ready")["nativePort"]
        yield ours, owner


@pytest.fixture
def full_key(nodes, key):
    """A key of the gocc whose only permit is taken."""
    name = name_at(1, 2, key)
    assert ask(nodes[0], "POST", f"/rate/{name}").status == 200
    return name


def await_waiters(owner, key, count):
    eventually(lambda: waiting(owner, key) == count, f"{count} wait at the gocc")


def await_gone(owner, key, began):
    """All that waited there."""
    await_waiters(owner, key, 0)
    took = time.monotonic() - began
    print(f"gone from the gocc's queue after {took * 1000:.1f} ms")
    assert took < SLACK * GONE_S


def test_a_wait_limit_ends_a_wait(nodes, full_key):
    ours, owner = nodes
    began = time.monotonic()
    with HttpPeer(ours) as peer:
        peer.send(request("POST", f"/rate/{full_key}?canWait=true&maxWaitMillis={LIMIT_MS}"))
        await_waiters(owner, full_key, 1)
        assert peer.read().status == 429
        ended = time.monotonic()
        assert LIMIT_S <= ended - began < ENDED_S
        await_gone(owner, full_key, ended)
        # The connection and the way to the gocc are as they were.
        assert peer.ask("POST", f"/rate/{full_key}").status == 429
        assert peer.ask("POST", f"/rate/{name_at(1, 2, full_key)}").status == 200


def test_a_wait_limit_ends_a_native_wait(nodes, full_key):
    ours, owner = nodes
    with NativePeer(ours) as peer:
        began = time.monotonic()
        asked = peer.ask([full_key] * 2, flags=MAY_WAIT, waitLimitMs=LIMIT_MS)
        assert asked.verdicts == [QUEUED] * 2
        await_waiters(owner, full_key, 2)
        outcomes = []
        while len(outcomes) < 2:
            outcomes += peer.read("granted").verdicts
        assert outcomes == [WAIT_LIMIT] * 2
        ended = time.monotonic()
        assert LIMIT_S <= ended - began < ENDED_S
        await_gone(owner, full_key, ended)


def test_one_that_has_reached_its_limit_leaves_its_place_to_the_next(key):
    """The gocc serves the head of its queue when a window begins, one in each here."""
    with Fleet([OURS, GOCC], "-m", "1", "-w", SHORT_WINDOW_MS) as fleet:
        ours, owner = [node.process for node in fleet.nodes]
        name = name_at(1, 2, key)
        began = time.monotonic()
        assert ask(ours, "POST", f"/rate/{name}").status == 200
        with HttpPeer(ours) as first, HttpPeer(ours) as second:
            first.send(request("POST", f"/rate/{name}?canWait=true&maxWaitMillis={LIMIT_MS}"))
            await_waiters(owner, name, 1)
            second.send(request("POST", f"/rate/{name}?canWait=true"))
            await_waiters(owner, name, 2)
            assert first.read().status == 429
            await_waiters(owner, name, 1)
            assert second.read().status == 200
            assert time.monotonic() - began < 1.5 * SHORT_WINDOW_MS / 1000, "of the next window"


@pytest.mark.parametrize("peer_type", [HttpPeer, TranslatingPeer])
@pytest.mark.parametrize("limit", ["", "&maxWaitMillis=60000"])
def test_a_caller_that_leaves_is_gone(nodes, full_key, peer_type, limit):
    ours, owner = nodes
    gone = peer_type(ours)
    gone.send(request("POST", f"/rate/{full_key}?canWait=true{limit}"))
    await_waiters(owner, full_key, 1)
    left = time.monotonic()
    gone.close()
    await_gone(owner, full_key, left)


def test_a_native_caller_that_leaves_is_gone(nodes, full_key):
    ours, owner = nodes
    peer = NativePeer(ours)
    assert peer.ask([full_key] * 3, flags=MAY_WAIT).verdicts == [QUEUED] * 3
    await_waiters(owner, full_key, 3)
    left = time.monotonic()
    peer.close()
    await_gone(owner, full_key, left)


def test_a_permit_goes_to_nobody_who_has_left(nodes, full_key):
    """It goes to the next one that asks for it."""
    ours, owner = nodes
    gone = HttpPeer(ours)
    gone.send(request("POST", f"/rate/{full_key}?canWait=true"))
    await_waiters(owner, full_key, 1)
    gone.close()
    await_waiters(owner, full_key, 0)
    assert ask(ours, "DELETE", f"/rate/{full_key}/1").status == 200
    with NativePeer(ours) as peer:
        assert peer.ask([full_key]).verdicts == [APPROVED]
