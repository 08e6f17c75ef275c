"""A call of the blocking client gets its own answer, in whatever order and pieces answers arrive.

Method: a scripted server that answers late, in pieces, in another order, wrongly or not at all.
Events decide the order, never a pause.
"""

import array
import os
import socket
import threading

import pytest
from fake_server import FakeServer
from frame_codecs import server_frame
from server_process import TIMEOUT_S, eventually
from threads import in_thread

import sluicegate
from sluicegate import Client, Verdict


def test_a_lone_acquire_and_its_hello():
    def script(peer):
        hello = peer.welcome()
        received = peer.read("acquire")
        peer.verdicts(received, b"\1")
        second = peer.read("acquire")
        peer.verdicts(second, b"\2")
        return hello.body, received.keys, second.body
    with FakeServer(script) as server, Client(server.address, client_name="me", shard=2) as client:
        assert client.acquire("a") is Verdict.APPROVED
        assert client.acquire(b"b", 3, max_requests=7, max_requests_in_queue=0,
                              window=60) is Verdict.DENIED
    hello, keys, second = server.returned[0]
    assert hello["clientName"] == "me" and hello["wantedShard"] == 3
    assert keys == [b"a"]
    assert (second["costs"], second["maxRequests"], second["maxRequestsInQueue"],
            second["windowMs"]) == ([3], [7], [0], [60_000])


@pytest.mark.parametrize("spin", [0, 10 * TIMEOUT_S, 1e-6])
def test_reassembles_an_answer_that_arrives_in_pieces(spin):
    """Whether a thread spins for it always, never, or in vain."""
    def script(peer):
        peer.welcome()
        for _ in range(2):
            received = peer.read("acquire")
            frame = server_frame(id=received.id, verdicts={"count": 1, "verdicts": b"\1"})
            for at in range(len(frame)):
                peer.send(frame[at:at + 1])
    with FakeServer(script) as server, Client(server.address, spin=spin) as client:
        assert client.acquire("a") and client.acquire("a")


def test_matches_answers_in_another_order():
    go = threading.Event()

    def script(peer):
        peer.welcome()
        received = [peer.read("acquire") for _ in range(4)]
        for frame in reversed(received):
            peer.verdicts(frame, bytes([2 if b"3" in frame.keys else 1]))
        go.set()
        return [len(frame.keys) for frame in received]
    with FakeServer(script) as server, Client(server.address, frame_entries_max=3) as client:
        verdicts = client.acquire_many([str(n) for n in range(12)])
        assert [bool(v) for v in verdicts] == [True] * 3 + [False] * 3 + [True] * 6
        assert verdicts.approved == [bool(v) for v in verdicts]
        assert not verdicts.all_approved and verdicts.count() == 9
        assert verdicts.count(Verdict.DENIED) == 3 and verdicts[3] is Verdict.DENIED
    assert server.returned == [[3, 3, 3, 3]]


def test_keeps_to_the_frames_of_window_and_welcome():
    def script(peer):
        peer.welcome(outstandingFramesMax=2, frameEntriesMax=2)
        held, most = [], 0
        for _ in range(8):
            held.append(peer.read("acquire"))
            assert len(held[-1].keys) <= 2
            if len(held) == 2:
                # No more frames arrive before an answer; a ping here would be too late to check it.
                peer.socket.setblocking(False)
                with pytest.raises(BlockingIOError):
                    peer.socket.recv(1)
                peer.socket.settimeout(TIMEOUT_S)
                peer.verdicts(held.pop(0))
        for frame in held:
            peer.verdicts(frame)
        return most
    with FakeServer(script) as server, Client(server.address) as client:
        assert client.acquire_many([str(n) for n in range(16)]).all_approved


def test_splits_a_frame_that_has_too_many_bytes():
    def script(peer):
        peer.welcome(frameBytesMax=8_192)
        frames = peer.approve_all()
        assert all(frame.size <= 8_192 for frame in frames)
        return [key for frame in frames for key in frame.keys]
    keys = [f"{n}".zfill(1_000) for n in range(40)]
    with FakeServer(script) as server, Client(server.address) as client:
        assert client.acquire_many(keys).all_approved
    assert sorted(server.returned[0]) == sorted(key.encode() for key in keys)


def test_sends_later_what_the_kernel_does_not_take():
    def script(peer):
        peer.welcome()
        peer.pong()
        assert go.wait(TIMEOUT_S)
        return sum(len(frame.keys) for frame in peer.approve_all())
    go = threading.Event()
    keys = [str(n).zfill(1_000) for n in range(2_000)]
    with FakeServer(script) as server:
        with Client(server.address) as client:
            client.ping()
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            joins = [in_thread(client.acquire_many, keys) for _ in range(3)]
            eventually(lambda: client._unsent, "not all was taken")
            joins.append(in_thread(client.acquire, "one more"))
            eventually(lambda: client._dispatcher.pending == 4, "all have received")
            with pytest.raises(sluicegate.TimedOut):
                client.acquire_many(keys, timeout=0.02)
            go.set()
            assert all(join().all_approved for join in joins[:3]) and joins[3]()
    assert server.returned[0] >= 3 * 2_000 + 1


def test_threads_share_a_connection_and_its_frames():
    def script(peer):
        peer.welcome()
        first = peer.read("acquire")
        started.set()
        assert everybody_asked.wait(TIMEOUT_S)
        peer.verdicts(first)
        return sum(len(frame.keys) for frame in peer.approve_all())
    started, everybody_asked = threading.Event(), threading.Event()
    with FakeServer(script) as server:
        with Client(server.address) as client:
            joins = [in_thread(client.acquire, "first")]
            assert started.wait(TIMEOUT_S)
            joins += [in_thread(client.acquire, f"k{n}") for n in range(32)]
            eventually(lambda: client._dispatcher.pending == 33, "all have received")
            everybody_asked.set()
            assert all(join() is Verdict.APPROVED for join in joins)
    assert server.returned == [32]


def test_a_bad_key_fails_only_its_own_call():
    def script(peer):
        peer.welcome()
        for _ in range(2):
            held = peer.read("acquire")
            started.release()
            go.wait(TIMEOUT_S)
            peer.verdicts(held)
        return sum(len(frame.keys) for frame in peer.approve_all())
    started, go = threading.Semaphore(0), threading.Event()
    with FakeServer(script) as server:
        with Client(server.address) as client:
            joins = []
            for n in range(2):
                joins.append(in_thread(client.acquire, f"first{n}"))
                assert started.acquire(timeout=TIMEOUT_S) if n == 0 else True
            eventually(lambda: client._dispatcher.pending == 2, "two are outstanding")
            joins += [in_thread(client.acquire, f"good{n}") for n in range(3)]
            bad = in_thread(client.acquire, "bad\ud800")
            eventually(lambda: client._dispatcher.pending == 6, "all have received")
            go.set()
            assert all(join() is Verdict.APPROVED for join in joins)
            with pytest.raises(ValueError, match="bad.*no UTF-8"):
                bad()
            with pytest.raises(TypeError, match="str or bytes, not int"):
                client.acquire(17)
            assert client.acquire("again")
    assert server.returned == [4]


# ---- handles -------------------------------------------------------------------------------------

def test_never_sends_handles_of_a_lost_connection():
    def script(peer):
        peer.welcome()
        received = peer.read("intern")
        peer.send(server_frame(id=received.id, interned={"handles": [5, 6], "verdicts": b"\1"}))
        by_handle = []
        for _ in range(4):
            by_handle.append(peer.read("acquireByHandle"))
            peer.verdicts(by_handle[-1])
        return [list(frame.body["handles"]) for frame in by_handle]

    def second(peer):
        peer.welcome()
        received = peer.approve_all()
        return [(frame.kind, list(frame.body.get("handles", []))) for frame in received]
    with FakeServer(script, second) as server:
        with Client(server.address) as client:
            handles = client.intern(["a", "b"])
            assert isinstance(handles, array.array) and handles.typecode == "I"
            plain = array.array("I", handles)
            for buffer in (handles, handles[1:], memoryview(handles)[:1], plain):
                assert client.acquire_many_handles(buffer).all_approved
            eventually(lambda: lost_by_now(client), "the loss is noticed")
            for buffer in (handles, handles[1:], memoryview(handles)[:1], plain):
                with pytest.raises(sluicegate.StaleHandles, match="intern"):
                    client.acquire_many_handles(buffer)
            fresh = client.intern(["a", "b"])
            for old in (handles, handles[1:], memoryview(handles), plain, array.array("I", fresh)):
                with pytest.raises(sluicegate.StaleHandles):
                    client.acquire_many_handles(old)
            assert client.acquire_many_handles(fresh).all_approved
    assert server.returned[0] == [[5, 6], [6], [5], [5, 6]]
    assert [frame for frame in server.returned[1] if frame[0] == "acquireByHandle"] == [
        ("acquireByHandle", [0, 1])]


def lost_by_now(client):
    """Whether a ping has reached the second server."""
    try:
        client.ping()
    except sluicegate.ConnectionLost:
        return False
    return client._dispatcher.generation == 2


def test_handles_of_another_client_are_refused():
    def script(peer):
        peer.welcome()
        peer.approve_all()
    with FakeServer(script) as one, FakeServer(script) as two:
        with Client(one.address) as first, Client(two.address) as second:
            handles = first.intern(["a"])
            second.intern(["b"])
            with pytest.raises(sluicegate.StaleHandles, match="another client"):
                second.acquire_many_handles(handles)


def test_reports_keys_without_a_handle():
    def script(peer):
        peer.welcome()
        received = peer.read("intern")
        peer.send(server_frame(id=received.id, interned={
            "handles": [3, 0xFFFFFFFF], "verdicts": b"\1\x0d"}))
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.NotInterned, match="1 of 2 .*handles_full for 'b'") as caught:
            client.intern(["a", "b"])
        assert list(caught.value.handles) == [3, sluicegate.NO_HANDLE]


# ---- forks ---------------------------------------------------------------------------------------

def test_a_forked_child_has_its_own_connection():
    def script(peer):
        peer.welcome()
        return len(peer.approve_all())
    with FakeServer(script) as parents:
        with Client(parents.address) as client:
            assert client.acquire("a")
            with FakeServer(script) as childs:
                host, port = childs.address.split(":")
                client._addresses = [(host, int(port))]
                child = os.fork()
                if child == 0:
                    try:
                        approved = client.acquire("child", timeout=TIMEOUT_S)
                        client.close()
                        os._exit(0 if approved else 1)
                    finally:
                        os._exit(2)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert client.acquire("a")  # the parent's connection is still open
    assert parents.returned == [2] and childs.returned == [1]
