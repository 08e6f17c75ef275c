"""Native protocol: entries that wait. Queued, then granted exactly once; withdrawn, served by
releases, refused when there are too many, and removed with their connection. Method: windows of an
hour, so that only releases and raised limits serve; the tests count every Granted frame."""

import itertools
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, queued, request, totals, waiting
from native_peer import (ALL_DETAILS, APPROVED, CONNECTION_WAITERS_FULL, DENIED, KEY_WAITERS_FULL,
                         NEVER_FITS, QUEUED, REMAINING, REQUEST_ID, WAIT_LIMIT, WAITERS_FULL,
                         WITHDRAWN, NativePeer, acquire_frame, ping_frame, release_frame,
                         withdraw_frame)
from server_process import eventually, in_some_try

MAY_WAIT = 1  # of `flags` and of `entryFlags`


def fill(peer, key, limit=1):
    """Takes all permits of the key and allows a long queue."""
    answer = peer.ask([key], maxRequests=[limit], costs=[limit], maxRequestsInQueue=[100_000])
    assert answer.verdicts == [APPROVED]


def release(peer, key, cost=1):
    """Sends a release and does not read the answer."""
    return peer.release([key], costs=[cost])


def test_queued_entry_is_granted_when_a_permit_is_released(server, key):
    with NativePeer(server) as peer, NativePeer(server) as other:
        fill(peer, key)
        answer = peer.ask([key], flags=MAY_WAIT)
        assert answer.verdicts == [QUEUED]
        assert peer.is_silent()
        release(other, key)
        other.read("done")
        granted = peer.read("granted")
        assert (granted.id, list(granted.entries), granted.verdicts) == (answer.id, [0], [APPROVED])
        assert peer.is_silent(), "the entry is granted once"
        release(other, key, 5)
        assert peer.is_silent()


def test_queued_entry_is_granted_at_the_windows_end(start_server, key):
    server = start_server("--window-millis", "400")
    names = (f"{key}{number}" for number in itertools.count())

    def all_wait_and_are_granted():
        name, started = next(names), time.monotonic()
        with NativePeer(server) as peer:
            fill(peer, name)
            answer = peer.ask([name] * 3, flags=MAY_WAIT)
            if answer.verdicts != [QUEUED] * 3:
                assert time.monotonic() - started >= 0.4  # only the window's end frees permits
                return False
            assert set(peer.read_granted(3).values()) == {APPROVED}
            assert time.monotonic() - started >= 1.2  # one in each of the next three windows
            return True
    in_some_try(all_wait_and_are_granted, "all three arrive before the window ends")


def test_entry_flags_choose_the_entries_that_may_wait(server, key):
    with NativePeer(server) as peer:
        fill(peer, key)
        answer = peer.ask([key] * 4, entryFlags=[0, MAY_WAIT, 0, MAY_WAIT])
        assert answer.verdicts == [DENIED, QUEUED, DENIED, QUEUED]
        assert waiting(server, key) == 2
        release(peer, key, 1)
        assert {peer.read().kind, peer.read().kind} == {"done", "granted"}
        assert waiting(server, key) == 1


def test_granted_never_comes_before_its_verdicts(server, key):
    """Both in one write: the server decides the release right after the entries that it serves."""
    with NativePeer(server) as peer:
        fill(peer, key, limit=5)
        for round_number in range(50):
            id = 1_000 + round_number
            peer.send(acquire_frame(id, [key] * 5, flags=MAY_WAIT)
                      + release_frame(5, [key], costs=[5]))
            answers = []
            granted = {}
            while len(granted) < 5 or not any(a.kind == "done" for a in answers):
                answers.append(peer.read())
                if answers[-1].kind == "granted":
                    assert any(a.kind == "verdicts" for a in answers), answers
                    assert answers[-1].id == id
                    granted.update(zip(answers[-1].entries, answers[-1].verdicts))
            assert next(a for a in answers if a.kind == "verdicts").verdicts == [QUEUED] * 5
            assert granted == {entry: APPROVED for entry in range(5)}
        assert peer.is_silent()


def test_granted_has_the_requested_columns(server, key):
    with NativePeer(server) as peer:
        fill(peer, key, limit=2)
        answer = peer.ask([key] * 2, flags=MAY_WAIT, details=ALL_DETAILS)
        assert answer.verdicts == [QUEUED, QUEUED]
        assert answer.details["position"] == [1, 2]
        ids = list(answer.details["requestId"])
        release(peer, key, 1)
        frames = [peer.read(), peer.read()]
        granted = next(frame for frame in frames if frame.kind == "granted")
        assert list(granted.entries) == [0]
        assert granted.details["requestId"] == ids[:1]
        assert granted.details["remaining"] == [0]
        assert granted.details["limit"] == [2]
        assert "position" not in granted.details
        assert peer.ask([key], flags=MAY_WAIT, details=ALL_DETAILS).details["position"] == [2]


def test_release_serves_in_the_order_of_arrival(server, key):
    with NativePeer(server) as first, NativePeer(server) as second:
        fill(first, key)
        one = first.ask([key, key], flags=MAY_WAIT)
        two = second.ask([key], flags=MAY_WAIT)
        three = first.ask([key], flags=MAY_WAIT)
        with NativePeer(server) as releaser:
            for peer, expected in [(first, (one.id, 0)), (first, (one.id, 1)),
                                   (second, (two.id, 0)), (first, (three.id, 0))]:
                release(releaser, key)
                releaser.read("done")
                assert peer.read_granted(1) == {expected: APPROVED}
        assert first.is_silent() and second.is_silent()


def test_newcomer_never_overtakes_whatever_its_cost(server, key):
    with NativePeer(server) as peer:
        fill(peer, key, limit=10)
        big = peer.ask([key], costs=[5], flags=MAY_WAIT)
        release(peer, key, 4)
        peer.read("done")
        answer = peer.ask([key] * 3, costs=[1, 1, 4], entryFlags=[0, MAY_WAIT, 0])
        assert answer.verdicts == [DENIED, QUEUED, DENIED]
        release(peer, key, 1)
        frames = [peer.read(), peer.read()]
        granted = next(frame for frame in frames if frame.kind == "granted")
        assert granted.id == big.id


def test_both_dialects_share_one_queue(server, key):
    with NativePeer(server) as peer, HttpPeer(server) as http:
        fill(peer, key)
        first = peer.ask([key], flags=MAY_WAIT)
        http.send(request("POST", f"/rate/{key}?canWait=true"))
        eventually(lambda: waiting(server, key) == 2, "both wait")
        third = peer.ask([key], flags=MAY_WAIT)
        with NativePeer(server) as releaser:
            release(releaser, key)
            assert peer.read_granted(1) == {(first.id, 0): APPROVED}
            assert http.is_silent()
            release(releaser, key)
            assert http.read().status == 200
            assert peer.is_silent(0.05)
            release(releaser, key)
            assert peer.read_granted(1) == {(third.id, 0): APPROVED}


def test_lowered_limit_answers_waiters_that_can_never_fit(server, key):
    with NativePeer(server) as peer:
        fill(peer, key, limit=10)
        answer = peer.ask([key] * 3, costs=[8, 2, 7], flags=MAY_WAIT)
        assert answer.verdicts == [QUEUED] * 3
        peer.acquire([key], maxRequests=[5])
        granted, verdicts = {}, []
        while len(granted) < 2 or not verdicts:
            frame = peer.read()
            if frame.kind == "verdicts":
                verdicts = frame.verdicts
            else:
                granted.update({(frame.id, entry): verdict for entry, verdict
                                in zip(frame.entries, frame.verdicts, strict=True)})
        assert verdicts == [DENIED]
        assert granted == {(answer.id, 0): NEVER_FITS, (answer.id, 2): NEVER_FITS}
        assert waiting(server, key) == 1


# ------------------------------------------------------------------------------------- limits

def test_wait_limit(server, key):
    with NativePeer(server) as peer:
        fill(peer, key)
        started = time.monotonic()
        long = peer.ask([key], flags=MAY_WAIT, waitLimitMs=3_600_000)
        short = peer.ask([key] * 2, flags=MAY_WAIT, waitLimitMs=300)
        assert short.verdicts == [QUEUED] * 2
        assert peer.read_granted(2) == {(short.id, 0): WAIT_LIMIT, (short.id, 1): WAIT_LIMIT}
        assert time.monotonic() - started >= 0.3
        assert waiting(server, key) == 1
        release(peer, key)
        frames = {frame.kind: frame for frame in (peer.read(), peer.read())}
        assert frames["granted"].id == long.id


def test_smaller_of_both_wait_limits_holds(start_server, key):
    server = start_server(*LONG_WINDOW, "--max-wait-millis", "400")
    with NativePeer(server) as peer:
        fill(peer, key)
        started = time.monotonic()
        limits = {10: 0, 11: 3_600_000, 12: 150}
        # All at once, so that their wait limits begin together.
        peer.send(b"".join(acquire_frame(id, [key], flags=MAY_WAIT, waitLimitMs=limit)
                           for id, limit in limits.items()))
        assert [peer.read("verdicts").verdicts for _ in limits] == [[QUEUED]] * 3
        assert peer.read_granted(1) == {(12, 0): WAIT_LIMIT}
        assert time.monotonic() - started >= 0.15
        assert peer.read_granted(2) == {(10, 0): WAIT_LIMIT, (11, 0): WAIT_LIMIT}
        assert time.monotonic() - started >= 0.4


def test_full_queue_denies(server, key):
    with NativePeer(server) as peer:
        peer.ask([key], maxRequests=[1], maxRequestsInQueue=[2])
        answer = peer.ask([key] * 4, flags=MAY_WAIT)
        assert answer.verdicts == [QUEUED, QUEUED, DENIED, DENIED]


def test_more_waiters_than_the_server_holds(start_server, key):
    server = start_server(*LONG_WINDOW, "--max-waiters", "3", "--shards", "1")
    peers = [NativePeer(server) for _ in range(4)]
    assert peers[0].welcome.body["waitingEntriesMax"] == 3
    keys = [f"{key}{number}" for number in range(4)]
    for name in keys:
        fill(peers[0], name)
    for peer, name in zip(peers[:3], keys):
        assert peer.ask([name], flags=MAY_WAIT).verdicts == [QUEUED]
    assert peers[3].ask([keys[3]], flags=MAY_WAIT).verdicts == [WAITERS_FULL]
    assert peers[3].ask([key + "free"], flags=MAY_WAIT).verdicts == [APPROVED]
    peers[0].close()
    eventually(lambda: waiting(server, keys[0]) == 0, "its place is free")
    assert peers[3].ask([keys[3]], flags=MAY_WAIT).verdicts == [QUEUED]
    for peer in peers:
        peer.close()


def test_one_connection_holds_as_many_waiters_as_places_are_free(start_server, key):
    server = start_server(*LONG_WINDOW, "--max-waiters", "100", "--shards", "1")
    keys = [f"{key}{number}" for number in range(100)]
    with NativePeer(server) as peer, NativePeer(server) as other:
        for name in keys:
            fill(peer, name)
        waits = peer.ask(keys[:60], flags=MAY_WAIT).verdicts
        assert waits == [QUEUED] * 50 + [CONNECTION_WAITERS_FULL] * 10
        waits = [peer.ask([name], flags=MAY_WAIT).verdicts[0] for name in keys[60:]]
        assert waits == [CONNECTION_WAITERS_FULL] * 40
        assert other.ask(keys[50:75], flags=MAY_WAIT).verdicts == [QUEUED] * 25
        assert ask(server, "POST", f"/rate/{keys[80]}?canWait=true&maxWaitMillis=1").status == 429
        peer.close()
        eventually(lambda: waiting(server, keys[0]) == 0, "its places are free")
        assert other.ask(keys[75:100], flags=MAY_WAIT).verdicts == [QUEUED] * 25


def test_a_connections_share_does_not_depend_on_the_shards(start_server, key):
    """Other shards report how many of their connections' entries wait."""
    server = start_server(*LONG_WINDOW, "--max-waiters", "1000", "--shards", "4")
    keys = [f"{key}{number}" for number in range(1_000)]
    with NativePeer(server) as peer, NativePeer(server) as other:
        assert peer.welcome.body["shard"] != other.welcome.body["shard"]
        for name in keys:
            fill(peer, name)
        assert peer.ask(keys, flags=MAY_WAIT).verdicts.count(QUEUED) == 500
        assert other.ask(keys, flags=MAY_WAIT).verdicts.count(QUEUED) == 250


def test_one_key_has_as_many_waiters_as_places_are_free(start_server, key):
    server = start_server(*LONG_WINDOW, "--max-waiters", "20", "--shards", "1")
    peers = [NativePeer(server) for _ in range(12)]
    fill(peers[0], key)
    fill(peers[0], key + "other")
    waits = [peer.ask([key], flags=MAY_WAIT).verdicts[0] for peer in peers]
    assert waits == [QUEUED] * 10 + [KEY_WAITERS_FULL] * 2
    refusal = ask(server, "POST", f"/rate/{key}?canWait=true")
    assert refusal.status == 503 and b"for this key" in refusal.body
    assert peers[10].ask([key + "other"], flags=MAY_WAIT).verdicts == [QUEUED]
    for peer in peers:
        peer.close()


# ----------------------------------------------------------------------------------- withdraw

def outcomes(peer, done_id, count):
    """The answers to a Withdraw: its Done, and Granted frames, in any order."""
    granted, done = {}, False
    while not done or len(granted) < count:
        frame = peer.read()
        if frame.kind == "done":
            assert frame.id == done_id and not done
            done = True
        else:
            for entry, verdict in zip(frame.entries, frame.verdicts, strict=True):
                assert (frame.id, entry) not in granted
                granted[frame.id, entry] = verdict
    return granted


def test_withdraw_all(server, key):
    with NativePeer(server) as peer:
        fill(peer, key)
        answer = peer.ask([key] * 5, flags=MAY_WAIT)
        other = peer.ask([key], flags=MAY_WAIT)
        granted = outcomes(peer, peer.withdraw(answer.id), 5)
        assert granted == {(answer.id, entry): WITHDRAWN for entry in range(5)}
        assert waiting(server, key) == 1
        release(peer, key)
        frames = {frame.kind: frame for frame in (peer.read(), peer.read())}
        assert frames["granted"].id == other.id
        assert peer.is_silent()


def test_withdraw_all_grants_none_of_them(server, key):
    """The first one is too expensive for what is free, the others are not."""
    with NativePeer(server) as peer:
        fill(peer, key, limit=10)
        answer = peer.ask([key] * 4, costs=[10, 1, 1, 1], flags=MAY_WAIT)
        release(peer, key, 5)
        peer.read("done")
        granted = outcomes(peer, peer.withdraw(answer.id), 4)
        assert granted == {(answer.id, entry): WITHDRAWN for entry in range(4)}


def test_withdraws_some_also_twice_and_some_that_do_not_wait(server, key):
    with NativePeer(server) as peer:
        fill(peer, key)
        answer = peer.ask([key] * 6, entryFlags=[1, 1, 0, 1, 1, 1])
        assert answer.verdicts == [QUEUED, QUEUED, DENIED, QUEUED, QUEUED, QUEUED]
        granted = outcomes(peer, peer.withdraw(answer.id, [3, 0, 3, 2, 77, 4_294_967_295]), 2)
        assert granted == {(answer.id, 0): WITHDRAWN, (answer.id, 3): WITHDRAWN}
        assert outcomes(peer, peer.withdraw(answer.id, [0, 3]), 0) == {}
        assert peer.is_silent(0.05)
        assert waiting(server, key) == 3
        granted = outcomes(peer, peer.withdraw(answer.id), 3)
        assert granted == {(answer.id, entry): WITHDRAWN for entry in (1, 4, 5)}


def test_withdraw_of_an_unknown_target_is_ignored(server, key):
    with NativePeer(server) as peer, NativePeer(server) as other:
        fill(peer, key)
        answer = peer.ask([key], flags=MAY_WAIT)
        assert outcomes(other, other.withdraw(answer.id), 0) == {}  # another connection's id
        assert outcomes(peer, peer.withdraw(987_654), 0) == {}
        assert waiting(server, key) == 1


def test_withdraw_of_the_head_serves_the_next_waiter_that_fits(server, key):
    with NativePeer(server) as peer:
        fill(peer, key, limit=10)
        head = peer.ask([key], costs=[10], flags=MAY_WAIT)
        behind = peer.ask([key], flags=MAY_WAIT)
        release(peer, key, 5)
        peer.read("done")
        granted = outcomes(peer, peer.withdraw(head.id), 2)
        assert granted == {(head.id, 0): WITHDRAWN, (behind.id, 0): APPROVED}


def test_acquire_and_its_withdraw_in_one_write(server, key):
    with NativePeer(server) as peer:
        fill(peer, key)
        peer.send(acquire_frame(50, [key] * 2, flags=MAY_WAIT) + withdraw_frame(51, 50))
        frames = [peer.read() for _ in range(3)]
        assert frames[0].kind == "verdicts" and frames[0].verdicts == [QUEUED, QUEUED]
        assert sorted(frame.kind for frame in frames[1:]) == ["done", "granted"]
        granted = next(frame for frame in frames if frame.kind == "granted")
        assert granted.verdicts == [WITHDRAWN, WITHDRAWN]
        assert waiting(server, key) == 0


def test_id_is_in_use_while_its_entries_wait(server, key):
    with NativePeer(server) as peer:
        fill(peer, key)
        answer = peer.ask([key] * 2, flags=MAY_WAIT)
        for data in [acquire_frame(answer.id, [key]), release_frame(answer.id, [key]),
                     withdraw_frame(answer.id, answer.id)]:
            peer.send(data)
            peer.read_error("idInUse", answer.id)
        assert waiting(server, key) == 2
        release(peer, key)
        peer.read(), peer.read()
        peer.send(acquire_frame(answer.id, [key]))  # one entry still waits
        peer.read_error("idInUse", answer.id)
        outcomes(peer, peer.withdraw(answer.id), 1)
        peer.send(acquire_frame(answer.id, [key + "b"]))
        assert peer.read("verdicts").verdicts == [APPROVED]


# --------------------------------------------------------------------------------------- many

def test_a_thousand_waiters_of_one_key_on_one_connection(server, key):
    with NativePeer(server) as peer, NativePeer(server) as other:
        fill(peer, key)
        answers = [peer.ask([key] * 100, flags=MAY_WAIT) for _ in range(10)]
        assert waiting(server, key) == 1_000
        other.ask([key], maxRequests=[501])
        granted = peer.read_granted(500)
        assert granted == {(answer.id, entry): APPROVED for answer in answers[:5]
                           for entry in range(100)}
        assert peer.is_silent()
        other.ask([key], maxRequests=[2_000])
        granted = peer.read_granted(500)
        assert granted == {(answer.id, entry): APPROVED for answer in answers[5:]
                           for entry in range(100)}
        assert peer.is_silent()
    state = inspect(server, key)
    assert (state["NumApprovedThisWindow"], state["NumWaiting"]) == (1_002, 0)


def test_a_thousand_keys_with_waiters_on_one_connection(server, key):
    keys = [f"{key}-{number}" for number in range(1_000)]
    with NativePeer(server) as peer, NativePeer(server) as other:
        other.ask(keys, maxRequests=[1] * 1_000)
        answer = peer.ask(keys, flags=MAY_WAIT, details=REQUEST_ID)
        assert answer.verdicts == [QUEUED] * 1_000
        other.release(keys)
        granted = peer.read_granted(1_000)
        assert granted == {(answer.id, entry): APPROVED for entry in range(1_000)}
        assert peer.is_silent(0.05)


def test_a_thousand_waiting_connections_of_which_half_disappear(start_server, key):
    server = start_server(*LONG_WINDOW)
    peers = [NativePeer(server) for _ in range(1_000)]
    with NativePeer(server) as other:
        fill(other, key)
        sent = [peer.acquire([key], flags=MAY_WAIT) for peer in peers]
        for peer in peers:
            assert peer.read("verdicts").verdicts == [QUEUED]
        for number, peer in enumerate(peers[::2]):
            peer.reset() if number % 2 else peer.close()
        eventually(lambda: waiting(server, key) == 500, "half of them are gone")
        assert totals(server)["sluicegate_waiters"] == 500
        # The next grants go to the remaining connections, one to each.
        other.ask([key], maxRequests=[501])
        for peer, id in list(zip(peers, sent))[1::2]:
            assert peer.read_granted(1) == {(id, 0): APPROVED}
    state = inspect(server, key)
    assert (state["NumApprovedThisWindow"], state["NumWaiting"]) == (501, 0)
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
def test_waiting_client_that_leaves_frees_its_places(server, key, how):
    with NativePeer(server) as staying, NativePeer(server) as other:
        fill(other, key)
        leaving = NativePeer(server)
        leaving.ask([key] * 50, flags=MAY_WAIT)
        last = staying.ask([key], flags=MAY_WAIT)
        assert waiting(server, key) == 51
        leaving.send(ping_frame(9) + b"\x00\x00\x00\x00\xff")  # and a part of a frame
        leaving.read("pong")
        getattr(leaving, how)()
        eventually(lambda: waiting(server, key) == 1, "its places are free")
        if how == "half_close":
            assert leaving.is_at_end()
            leaving.close()
        release(other, key)
        assert staying.read_granted(1) == {(last.id, 0): APPROVED}
        assert inspect(server, key)["NumApprovedThisWindow"] == 1


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
def test_removes_waiters_when_request_and_end_arrive_together(server, key, how):
    with NativePeer(server) as other:
        fill(other, key)
        leaving = NativePeer(server)
        before = queued(server)
        server.pause()
        try:
            leaving.acquire([key] * 10, flags=MAY_WAIT)
            getattr(leaving, how)()
        finally:
            server.resume()
        # No entry waits while the request is still unread, either.
        eventually(lambda: queued(server) == before + 10, "the request was read")
        eventually(lambda: waiting(server, key) == 0, "no waiter is left", timeout_s=10)
        release(other, key)
        other.read("done")
        assert other.ask([key, key]).verdicts == [APPROVED, DENIED]
        leaving.close()


def test_waiters_of_a_client_that_does_not_read_are_not_lost(server, key):
    """Granted while its connection is full of unread answers: delivered once the client reads."""
    entries = 2_000
    with NativePeer(server, receive_buffer=16_384) as lazy, NativePeer(server) as other:
        fill(other, key)
        ids = []
        for _ in range(5):
            ids.append(lazy.acquire([key] * entries, flags=MAY_WAIT, details=ALL_DETAILS))
        eventually(lambda: waiting(server, key) == 5 * entries, "all wait")
        other.ask([key], maxRequests=[1 + 5 * entries])
        assert waiting(server, key) == 0
        verdicts, granted = {}, {}
        while len(granted) < 5 * entries or len(verdicts) < 5:
            frame = lazy.read()
            if frame.kind == "verdicts":
                verdicts[frame.id] = frame.verdicts
                continue
            assert frame.id in verdicts, "Granted before Verdicts"
            for entry, verdict in zip(frame.entries, frame.verdicts, strict=True):
                assert (frame.id, entry) not in granted
                granted[frame.id, entry] = verdict
        assert all(verdicts[id] == [QUEUED] * entries for id in ids)
        assert set(granted.values()) == {APPROVED}


def test_one_outcome_when_wait_limit_and_permit_coincide(server, key):
    """Each entry gets one outcome, whichever comes first."""
    with NativePeer(server) as peer, NativePeer(server) as other:
        fill(other, key, limit=50)
        answer = peer.ask([key] * 50, flags=MAY_WAIT, waitLimitMs=200, details=REMAINING)
        assert answer.verdicts == [QUEUED] * 50
        time.sleep(0.19)
        for _ in range(25):
            release(other, key)
        granted = peer.read_granted(50)
        assert set(granted.values()) <= {APPROVED, WAIT_LIMIT}
        for _ in range(25):
            other.read("done")
        approved = list(granted.values()).count(APPROVED)
        assert inspect(server, key)["NumApprovedThisWindow"] == 25 + approved
        assert peer.is_silent(0.05)
