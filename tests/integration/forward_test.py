"""Entries that another node forwards, and permits that it returns. Method: a peer plays the
other node and sends Forward and Refund over a socket; windows of an hour, so that only what the
frames do changes the counts; a client asks for these counts."""

import time

import pytest

from conftest import LONG_WINDOW
from http_peer import totals
from native_peer import (ALL_DETAILS, APPROVED, CONNECTION_WAITERS_FULL, DENIED, INVALID_KEY,
                         LIMIT, NEVER_FITS, NOT_ALLOWED, QUEUED, REMAINING, REQUEST_ID,
                         WAIT_LIMIT, WAITERS_FULL, WITHDRAWN, NativePeer, keyed_frame)
from server_process import eventually

FORWARD = 8  # of Welcome.features
ACQUIRE, RELEASE, LOOK = 0, 1, 2
MAY_WAIT, NODE_FULL, CONNECTION_FULL = 1, 2, 4
WANTS_DETAILS, TAKES_ID = 1, 2
PERMIT_BYTES = 32
KEEP = 0xFFFFFFFF


def approved(peer, key):
    """Permits of the key that are taken in its present window."""
    answer = peer.inspect(key=key.encode())
    return answer["approved"][0] if answer.get("approved") else 0


def set_limit(peer, key, limit):
    """Makes the key, with this limit and a long queue; takes one permit."""
    answer = peer.ask([key], maxRequests=[limit], maxRequestsInQueue=[100])
    assert answer.verdicts == [APPROVED]


def test_the_server_announces_it(server):
    with NativePeer(server) as peer:
        assert peer.welcome.body["features"] & FORWARD


def test_plain_entries_are_decided_in_their_order(server, key):
    keys = [f"{key}{number % 50}" for number in range(1_000)]
    with NativePeer(server) as peer:
        for name in sorted(set(keys)):
            set_limit(peer, name, 11)  # ten are left
        answer = peer.forward(keys)
        assert answer.verdicts == [APPROVED] * 500 + [DENIED] * 500
        assert "details" not in answer.body
        assert peer.forward([]).verdicts == []
        assert peer.forward(["", "x" * 5_000]).verdicts == [INVALID_KEY] * 2


def test_entries_do_what_each_of_them_asks(server, key):
    names = [f"{key}{name}" for name in "abcde"]
    with NativePeer(server) as peer:
        for name in names:
            set_limit(peer, name, 10)
        answer = peer.forward(names, operations=[ACQUIRE, RELEASE, LOOK, ACQUIRE, ACQUIRE],
                              costs=[3, 1, 5, 0, 99], details=ALL_DETAILS,
                              entryDetails=[WANTS_DETAILS | TAKES_ID, 0, WANTS_DETAILS,
                                            WANTS_DETAILS, 0])
        assert answer.verdicts == [APPROVED] * 4 + [NEVER_FITS]
        assert [approved(peer, name) for name in names] == [4, 0, 1, 1, 1]
        details = answer.details
        # A column has a number for every entry: 0 for one that wants none.
        assert details["limit"] == [10, 0, 10, 10, 0]
        assert details["remaining"] == [6, 0, 9, 9, 0]
        ids = details["requestId"]
        assert ids[0] > 0 and ids[1:] == [0, 0, 0, 0]


def test_each_entry_that_wants_an_id_gets_one(server, key):
    wishes = [0, WANTS_DETAILS | TAKES_ID, WANTS_DETAILS, WANTS_DETAILS | TAKES_ID] * 5
    names = [f"{key}{number}" for number in range(len(wishes))]  # of all shards
    with NativePeer(server) as peer:
        ids = peer.forward(names, details=REQUEST_ID, entryDetails=wishes).details["requestId"]
        with_id = [id for id, wish in zip(ids, wishes, strict=True) if wish & TAKES_ID]
        without = [id for id, wish in zip(ids, wishes, strict=True) if not wish & TAKES_ID]
        assert 0 not in with_id and len(set(with_id)) == len(with_id)
        assert set(without) == {0}


def test_details_for_all_need_no_column(server, key):
    with NativePeer(server) as peer:
        set_limit(peer, key, 5)
        answer = peer.forward([key, key], details=LIMIT | REMAINING)
        assert answer.details["limit"] == [5, 5]
        assert answer.details["remaining"] == [3, 2]


def test_overrides_hold_as_in_acquire(start_server, key):
    with NativePeer(start_server(*LONG_WINDOW)) as peer:
        answer = peer.forward([key] * 3, maxRequests=[2, KEEP, KEEP])
        assert answer.verdicts == [APPROVED, APPROVED, DENIED]
    with NativePeer(start_server("--requests-can-set-rate=false")) as peer:
        answer = peer.forward([key] * 2, maxRequests=[2, KEEP])
        assert answer.verdicts == [NOT_ALLOWED, APPROVED]


# ------------------------------------------------------------------------------------- waiting

def test_permits_of_a_grant_can_be_refunded(server, key):
    names = [f"{key}{number}" for number in range(8)]  # of all shards
    with NativePeer(server) as node, NativePeer(server) as client:
        for name in names:
            set_limit(client, name, 1)
        answer = node.forward(names, flags=MAY_WAIT, waitLimitMs=0)
        assert answer.verdicts == [QUEUED] * len(names)
        client.release(names)
        client.read("done")
        permits, granted = b"", 0
        while granted < len(names):
            outcome = node.read("granted")
            assert outcome.id == answer.id and set(outcome.verdicts) == {APPROVED}
            assert len(outcome.body["permits"]) == PERMIT_BYTES * len(outcome.entries)
            granted += len(outcome.entries)
            permits += outcome.body["permits"]
        assert [approved(client, name) for name in names] == [1] * len(names)
        node.refund(permits=permits)
        for name in names:  # other shards get them a little later
            assert eventually(lambda name=name: approved(client, name) == 0,
                              "the permit is credited")
        # Again: there is nothing left to credit, and nothing else is touched.
        assert client.ask(names).verdicts == [APPROVED] * len(names)


def test_only_approved_entries_have_permits(server, key):
    other = f"{key} other"
    with NativePeer(server) as node, NativePeer(server) as client:
        for name in (key, other):
            set_limit(client, name, 1)
        answer = node.forward([key, other, key], entryFlags=[MAY_WAIT] * 3,
                              waitLimitsMs=[0, 1, 0])
        assert answer.verdicts == [QUEUED] * 3
        late = node.read("granted")
        assert (list(late.entries), late.verdicts) == ([1], [WAIT_LIMIT])
        assert not late.body.get("permits")
        node.withdraw(answer.id, [2])
        kinds = [node.read() for _ in range(2)]
        left = next(answer for answer in kinds if answer.kind == "granted")
        assert (list(left.entries), left.verdicts) == ([2], [WITHDRAWN])
        assert not left.body.get("permits")
        client.release([key])
        outcome = node.read("granted")
        assert (list(outcome.entries), outcome.verdicts) == ([0], [APPROVED])
        assert len(outcome.body["permits"]) == PERMIT_BYTES


def test_an_acquire_that_waits_gets_no_permits(server, key):
    with NativePeer(server) as peer, NativePeer(server) as client:
        set_limit(client, key, 1)
        assert peer.ask([key], flags=MAY_WAIT).verdicts == [QUEUED]
        client.release([key])
        assert not peer.read("granted").body.get("permits")


def test_a_node_without_room_for_a_waiter_says_so(server, key):
    with NativePeer(server) as peer:
        set_limit(peer, key, 1)
        answer = peer.forward([key] * 4, entryFlags=[MAY_WAIT | NODE_FULL,
                                                     MAY_WAIT | CONNECTION_FULL, 0, NODE_FULL])
        assert answer.verdicts == [WAITERS_FULL, CONNECTION_WAITERS_FULL, DENIED, DENIED]
        assert peer.is_silent()


def test_waiters_of_a_lost_node_leave(server, key):
    with NativePeer(server) as client:
        set_limit(client, key, 1)
        with NativePeer(server) as node:
            assert node.forward([key], flags=MAY_WAIT).verdicts == [QUEUED]
        assert eventually(lambda: not client.inspect(key=key.encode())["waiting"][0],
                          "the waiter has left")
        assert totals(server)["sluicegate_waiters"] == 0


# --------------------------------------------------------------------------------- answers too late

def test_what_was_approved_too_late_is_credited(server, key):
    names = [f"{key}{number}" for number in range(8)]
    with NativePeer(server) as node, NativePeer(server) as client:
        for name in names:
            set_limit(client, name, 10)
        time.sleep(0.3)  # the server leaves a margin of 100 ms for the clocks of its shards
        answer = node.forward(names, costs=[2] * len(names))
        assert answer.verdicts == [APPROVED] * len(names)
        node.refund(names, target=answer.id, costs=[2] * len(names))
        assert [approved(client, name) for name in names] == [1] * len(names)


@pytest.mark.parametrize("reason", ["younger window", "unknown frame"])
def test_nothing_is_credited(server, key, reason):
    with NativePeer(server) as node, NativePeer(server) as client:
        target = node.forward([f"{key} other"]).id
        set_limit(client, key, 10)  # its window begins behind the frame
        if reason == "unknown frame":
            target += 1_000
        node.refund([key], target=target)
        assert approved(client, key) == 1


def test_forged_permits_change_nothing(server, key):
    with NativePeer(server) as peer:
        set_limit(peer, key, 10)
        for permit in [bytes(PERMIT_BYTES), b"\xff" * PERMIT_BYTES, bytes(range(PERMIT_BYTES))]:
            peer.refund(permits=permit * 100)
        assert approved(peer, key) == 1
        peer.ping()


def test_wrong_frames_are_refused_and_change_nothing(server, key):
    with NativePeer(server) as peer:
        set_limit(peer, key, 10)
        for kind, columns, code in [
                ("forward", {"operations": [3]}, "badFlag"),
                ("forward", {"operations": [RELEASE], "costs": [0]}, "badCost"),
                ("forward", {"entryDetails": [4]}, "badFlag"),
                ("forward", {"waitLimitsMs": [3_600_001]}, "badWaitLimit"),
                ("refund", {"permits": b"x" * 33}, "badColumns"),
                ("refund", {"costs": [0]}, "badCost")]:
            id = peer.take_id()
            peer.send(keyed_frame(kind, id, [key], **columns))
            peer.read_error(code, id)
        assert approved(peer, key) == 1
