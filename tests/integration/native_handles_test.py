"""Native protocol: keys by handle. On every shard an entry by handle gets the decision of its key;
handles belong to a connection, and are bounded."""

import contextlib
import signal

from conftest import LONG_WINDOW
from http_peer import inspect, totals
from native_peer import (ALL_DETAILS, APPROVED, DENIED, DRAINING, HANDLES_FULL, INVALID_KEY, KEEP,
                         KEEP_WINDOW, NO_HANDLE, QUEUED, REMAINING, NativePeer,
                         acquire_by_handle_frame, acquire_frame, forget_frame, intern_frame)
from server_process import eventually, in_some_try


def keys_of_all_shards(key, count=64):
    return [f"{key}{number}" for number in range(count)]


def test_a_key_and_its_handle_share_one_limit(server, key):
    keys = keys_of_all_shards(key)
    with NativePeer(server) as peer:
        handles, verdicts = peer.intern(keys)
        assert verdicts == [APPROVED] * len(keys) and len(set(handles)) == len(keys)
        assert peer.ask(keys, maxRequests=[3] * len(keys)).verdicts == [APPROVED] * len(keys)
        assert peer.ask_by_handle(handles).verdicts == [APPROVED] * len(keys)
        assert peer.ask(keys).verdicts == [APPROVED] * len(keys)
        assert peer.ask_by_handle(handles).verdicts == [DENIED] * len(keys)
        assert peer.ask(keys).verdicts == [DENIED] * len(keys)
    for name in keys[:4]:
        state = inspect(server, name)
        assert state["NumApprovedThisWindow"] == 3, state
        assert state["NumDeniedThisWindow"] == 2, state


def test_interning_creates_no_key_and_takes_no_permit(server, key):
    with NativePeer(server) as peer:
        peer.intern([key])
        assert inspect(server, key) is None


def test_the_answer_is_one_byte_when_all_agree(server, key):
    with NativePeer(server) as peer:
        handles, _ = peer.intern(keys_of_all_shards(key))
        answer = peer.ask_by_handle(handles)
        assert answer.body == {"count": len(handles), "verdicts": bytes([APPROVED])}
        assert peer.ask_by_handle([]).body == {"count": 0}


def test_columns_mean_the_same_by_handle_as_by_key(server, key):
    names = [key + "a", key + "b", key + "c"]
    with NativePeer(server) as peer:
        handles, _ = peer.intern(names)
        answer = peer.ask_by_handle(handles * 2, costs=[2, 1, 1, 3, 1, 1], details=REMAINING,
                                    maxRequests=[5, 1, KEEP] * 2)
        assert answer.verdicts == [APPROVED] * 4 + [DENIED, APPROVED]
        assert answer.details == {"remaining": [3, 0, 99, 0, 0, 98]}
        details = peer.ask_by_handle(handles[:1], details=ALL_DETAILS).details
        assert details["limit"] == [5] and details["requestId"][0] > 0
        details = peer.ask_by_handle(handles, windowMs=[60_000, KEEP_WINDOW, 10_000],
                                     details=ALL_DETAILS).details
        assert details["windowMs"] == [60_000, 3_600_000, 10_000]


def test_an_entry_by_handle_waits_in_the_queue_of_its_key(server, key):
    with NativePeer(server) as peer, NativePeer(server) as other:
        [handle], _ = peer.intern([key])
        assert peer.ask([key], maxRequests=[1]).verdicts == [APPROVED]
        answer = peer.ask_by_handle([handle], flags=1)
        assert answer.verdicts == [QUEUED]
        # A newcomer by handle does not overtake it.
        assert peer.ask_by_handle([handle]).verdicts == [DENIED]
        other.release([key])
        other.read("done")
        assert peer.read_granted(1) == {(answer.id, 0): APPROVED}


def test_order_holds_between_frames_by_key_and_by_handle(server, key):
    """Thirty frames at once, by key or by handle: the first three take the permits."""
    with NativePeer(server) as peer:
        [handle], _ = peer.intern([key])
        assert peer.ask([key], maxRequests=[4]).verdicts == [APPROVED]
        frames = [acquire_frame(1_000 + number, [key]) if number % 3 == 0
                  else acquire_by_handle_frame(1_000 + number, [handle]) for number in range(30)]
        peer.send(b"".join(frames))
        verdicts = {}
        for _ in frames:
            answer = peer.read("verdicts")
            verdicts[answer.id - 1_000] = answer.verdicts[0]
        assert [verdicts[number] for number in range(30)] == [APPROVED] * 3 + [DENIED] * 27


def test_an_unknown_handle_is_an_invalid_key(server, key):
    with NativePeer(server) as peer, NativePeer(server) as stranger:
        assert peer.ask_by_handle([0, 5, NO_HANDLE]).verdicts == [INVALID_KEY] * 3
        [handle], _ = peer.intern([key])
        assert stranger.ask_by_handle([handle]).verdicts == [INVALID_KEY]
        not_held = NO_HANDLE - 1
        verdicts = peer.ask_by_handle([handle, not_held, handle]).verdicts
        assert verdicts == [APPROVED, INVALID_KEY, APPROVED]


def test_invalid_keys_get_no_handle(start_server, key):
    with NativePeer(start_server("--max-key-bytes", "50")) as peer:
        handles, verdicts = peer.intern([key, "", "k" * 51, "k" * 50])
        assert verdicts == [APPROVED, INVALID_KEY, INVALID_KEY, APPROVED]
        assert handles[1:3] == [NO_HANDLE] * 2 and NO_HANDLE not in (handles[0], handles[3])
        assert peer.intern([]) == ([], [])


def test_a_connection_holds_a_handle_once(server, key):
    with NativePeer(server) as peer:
        handles, _ = peer.intern([key, key])
        assert handles[0] == handles[1] == peer.intern([key])[0][0]
        peer.forget(handles)
        assert peer.ask_by_handle(handles).verdicts == [INVALID_KEY] * 2
        peer.forget(handles)  # skipped


def test_entries_before_forget_are_decided(server, key):
    keys = keys_of_all_shards(key)
    with NativePeer(server) as peer:
        handles, _ = peer.intern(keys)
        peer.send(acquire_by_handle_frame(500, handles) + forget_frame(501, handles)
                  + acquire_by_handle_frame(502, handles))
        answers = {}
        for _ in range(3):
            answer = peer.read()
            answers[answer.id] = answer
        assert answers[500].verdicts == [APPROVED] * len(keys)
        assert answers[502].verdicts == [INVALID_KEY] * len(keys)
        # The keys kept their counts without their handles.
        assert peer.ask(keys, details=REMAINING).details["remaining"] == [98] * len(keys)


def test_an_expired_key_starts_a_new_window(start_server, key):
    server = start_server("--window-millis", "20", "--max-requests", "1")
    with NativePeer(server) as peer:
        [handle], _ = peer.intern([key])
        assert peer.ask_by_handle([handle]).verdicts == [APPROVED]
        # The sweep removes the expired key; its handle makes the key again.
        eventually(lambda: totals(server)["sluicegate_keys"] == 0, "the key expires")
        eventually(lambda: peer.ask_by_handle([handle]).verdicts == [APPROVED], "a new window")
        eventually(lambda: peer.ask([key]).verdicts == [APPROVED], "another")
        eventually(lambda: peer.ask_by_handle([handle]).verdicts == [APPROVED], "a new window")


def test_handles_are_bounded_and_reused(start_server, key):
    server = start_server("--max-handles", "8", *LONG_WINDOW)
    bound = -(-8 // server.shards)
    first = NativePeer(server)
    assert first.welcome.body["handlesMax"] == bound
    keys = keys_of_all_shards(key, bound + 2)
    handles, verdicts = first.intern(keys)
    assert verdicts == [APPROVED] * bound + [HANDLES_FULL] * 2
    assert handles[bound:] == [NO_HANDLE] * 2
    assert first.intern(keys[:1]) == (handles[:1], [APPROVED])
    assert totals(server)["sluicegate_handles"] == bound
    refused = 'sluicegate_decisions_total{outcome="handles_full"}'
    assert totals(server)[refused] == 2
    first.forget(handles[:1])
    assert first.intern(keys[-1:])[1] == [APPROVED]
    assert first.ask(keys).verdicts == [APPROVED] * len(keys)
    first.close()
    eventually(lambda: totals(server)["sluicegate_handles"] == 0, "the server freed them")
    with NativePeer(server) as second:
        _, verdicts = second.intern(keys[:bound])
        assert verdicts == [APPROVED] * bound
        assert second.ask(keys, details=REMAINING).details["remaining"] == [98] * len(keys)


def test_frees_many_handles_of_a_lost_connection(server, key):
    before = totals(server)["sluicegate_handles"]
    peer = NativePeer(server)
    for round in range(3):
        keys = [f"{key}-{round}-{number}" for number in range(4_000)]
        handles, verdicts = peer.intern(keys)
        assert verdicts == [APPROVED] * len(keys)
        assert peer.ask_by_handle(handles).verdicts == [APPROVED] * len(keys)
    assert totals(server)["sluicegate_handles"] == before + 12_000
    peer.reset()
    eventually(lambda: totals(server)["sluicegate_handles"] == before, "the server freed them")


def test_refuses_handles_of_too_much_text_together(start_server, key):
    """One frame may not name more text of other shards' keys than a shard can keep."""
    server = start_server("--max-key-bytes", "1024", *LONG_WINDOW)
    with NativePeer(server) as peer:
        # With two shards about half of them are the other one's.
        keys = [f"{key}-{number}".ljust(1_000, "x") for number in range(2_400)]
        handles = []
        for first in range(0, len(keys), 200):
            handles += peer.intern(keys[first:first + 200])[0]
        if server.shards == 1:
            assert peer.ask_by_handle(handles).verdicts == [APPROVED] * len(handles)
        else:
            peer.send(acquire_by_handle_frame(900, handles))
            peer.read_error("tooManyEntries", 900)
        assert peer.ask_by_handle(handles[:1_000]).verdicts == [APPROVED] * 1_000
        peer.ping()


def test_a_draining_server_gives_no_handles(start_server, key):
    def asks_in_its_grace():
        server = start_server("--drain-millis", "5000")
        with NativePeer(server) as peer:
            [handle], _ = peer.intern([key])
            server.signal(signal.SIGTERM)
            peer.read("goAway")
            with contextlib.suppress(OSError):
                peer.send(intern_frame(70, [key + "b"]) + acquire_by_handle_frame(71, [handle]))
            interned = peer.read_or_end()
            if interned is None:
                return False
            assert (interned.kind, interned.verdicts) == ("interned", [DRAINING])
            assert peer.read("verdicts").verdicts == [DRAINING]
            return True
    in_some_try(asks_in_its_grace, "the request arrives before the grace period ends")
