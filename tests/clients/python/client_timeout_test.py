"""Time-outs, waits and a full client: every call of the blocking client ends, and frees its room.

Method: a scripted server that answers late, in pieces, in another order, wrongly or not at all.
Events decide the order, never a pause. A call that has to time out is made on an established
connection; if an answer must arrive before, its time-out is long enough for a slow machine.
"""

import contextlib
import select
import socket
import threading
import time

import pytest
from fake_server import IN_QUEUE_BEFORE_S, FakeServer
from server_process import TIMEOUT_S, eventually
from threads import in_thread

import sluicegate
from sluicegate import Client, Verdict, _sockets


def test_a_hanging_server():
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        over.wait(TIMEOUT_S)
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address) as client:
            assert client.acquire("a", timeout=TIMEOUT_S)
            for timeout in (0.01, 0.2):
                with pytest.raises(sluicegate.TimedOut, match=f"within {timeout} s"):
                    client.acquire("a", timeout=timeout)
            with pytest.raises(TimeoutError):
                client.acquire_many(["a"], timeout=0.01)
            with pytest.raises(sluicegate.TimedOut):
                client.ping(timeout=0.01)
        over.set()


def test_a_hanging_server_under_a_policy():
    def script(peer):
        peer.welcome()
        peer.pong()
        over.wait(TIMEOUT_S)
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, on_failure="open", timeout=0.05) as client:
            client.ping(timeout=TIMEOUT_S)
            assert client.acquire("a") is Verdict.APPROVED_BY_POLICY
            assert client.acquire_many(["a", "b"]).decided_by_policy
            with pytest.raises(sluicegate.TimedOut):  # no policy for calls that wait
                client.acquire("a", wait=True, timeout=0.05)
        over.set()


def test_no_welcome_in_time():
    def script(peer):
        peer.read("hello")
        over.wait(TIMEOUT_S)
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, connect_timeout=0.1) as client:
            with pytest.raises(sluicegate.Unreachable):
                client.acquire("a")
        over.set()


def test_a_waiting_call_does_not_block_other_calls():
    def script(peer):
        peer.welcome()
        waits = peer.read("acquire")
        assert waits.body["entryFlags"] == [1] or list(waits.body["entryFlags"]) == [1]
        assert waits.body["waitLimitMs"] == 2_500
        peer.verdicts(waits, b"\3")
        for _ in range(3):
            peer.verdicts(peer.read("acquire"))
        peer.granted(waits, [0])
    with FakeServer(script) as server, Client(server.address) as client:
        waiting = in_thread(client.acquire, "w", wait=True, wait_limit=2.4991)
        waiting_entries = client._dispatcher.waiting_entries
        eventually(lambda: any(request._queued for request, _ in list(waiting_entries.values())),
                   "it is queued")
        for n in range(3):
            assert client.acquire(f"k{n}")
        assert waiting() is Verdict.APPROVED


@pytest.mark.parametrize("late", ["withdrawn", "approved"])
@pytest.mark.parametrize("many", [False, True])
def test_withdraws_a_timed_out_wait(late, many):
    """And releases a permit that was granted in that very moment."""
    def script(peer):
        peer.welcome()
        peer.pong()
        waits = peer.read("acquire")
        peer.verdicts(waits, b"\3")
        withdraw = peer.read("withdraw")
        assert withdraw.body["target"] == waits.id and list(withdraw.body["entries"]) == [0]
        peer.granted(waits, [0], b"\x0b" if late == "withdrawn" else b"\1")
        peer.done(withdraw)
        released = None
        if late == "approved":
            released = peer.read("release")
            peer.done(released)
            released = released.keys, list(released.body["costs"])
        peer.approve_all()
        return released
    with FakeServer(script) as server:
        with Client(server.address) as client:
            client.ping()
            with pytest.raises(sluicegate.TimedOut):
                if many:
                    client.acquire_many(["w"], 3, wait=True, timeout=IN_QUEUE_BEFORE_S)
                else:
                    client.acquire("w", 3, wait=True, timeout=IN_QUEUE_BEFORE_S)
            client.ping()
            assert not client._dispatcher.waiting_entries and not client._dispatcher.pending
    assert server.returned == [([b"w"], [3]) if late == "approved" else None]


# ---- room ----------------------------------------------------------------------------------------

def test_a_full_client_raises_or_waits():
    def script(peer):
        peer.welcome()
        peer.pong()
        held = peer.read("acquire")
        go.wait(TIMEOUT_S)
        peer.verdicts(held)
        peer.approve_all()
    for when_full in ("refuse", "block"):
        go = threading.Event()
        with FakeServer(script) as server:
            with Client(server.address, pending_max=1, when_full=when_full) as client:
                client.ping()
                first = in_thread(client.acquire, "a")
                eventually(lambda c=client: c._dispatcher.pending == 1, "one is pending")
                if when_full == "refuse":
                    with pytest.raises(sluicegate.Overloaded, match="1 calls are pending"):
                        client.acquire("b")
                    go.set()
                else:
                    with pytest.raises(sluicegate.TimedOut, match="no room"):
                        client.acquire("b", timeout=0.01)
                    second = in_thread(client.acquire, "b")
                    go.set()
                    assert second()
                assert first()


@pytest.mark.parametrize("when_full", ["refuse", "block"])
def test_a_client_full_of_time_outs_recovers_when_the_server_does(when_full):
    """No caller with an outstanding call waits any more: the caller that waits for room reads."""
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        held = [peer.read("acquire") for _ in range(2)]
        go.wait(TIMEOUT_S)
        for frame in held:
            peer.verdicts(frame)
        answered.set()
        return len(peer.approve_all())
    go, answered = threading.Event(), threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, pending_max=2, when_full=when_full) as client:
            assert client.acquire("first")
            for _ in range(2):
                with pytest.raises(sluicegate.TimedOut):
                    client.acquire("a", timeout=0.05)
            with pytest.raises(sluicegate.Overloaded if when_full == "refuse"
                               else sluicegate.TimedOut):
                client.acquire("b", timeout=0.01)
            go.set()
            assert answered.wait(TIMEOUT_S)
            if when_full == "refuse":
                assert select.select([client._socket], [], [], TIMEOUT_S)[0]
                eventually(lambda: approved_or_overloaded(client), "the answers have come")
            else:
                assert client.acquire("c", timeout=TIMEOUT_S)
    assert server.returned == [1]


def approved_or_overloaded(client):
    try:
        return client.acquire("c", timeout=TIMEOUT_S)
    except sluicegate.Overloaded:
        return False


def test_failure_policy_decides_when_there_is_no_room_in_time():
    def script(peer):
        peer.welcome()
        peer.pong()
        over.wait(TIMEOUT_S)
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, pending_max=1, on_failure="open") as client:
            client.ping()
            with pytest.raises(sluicegate.TimedOut):
                client.ping(timeout=0.01)
            for _ in range(3):
                assert client.acquire("a", timeout=0.01) is Verdict.APPROVED_BY_POLICY
            verdicts = client.acquire_many(["a", "b"], timeout=0.01)
            assert list(verdicts) == [Verdict.APPROVED_BY_POLICY] * 2
            with pytest.raises(sluicegate.TimedOut, match="no room"):
                client.acquire("a", wait=True, timeout=0.01)
            with pytest.raises(sluicegate.TimedOut, match="no room"):
                client.release("a", timeout=0.01)
        over.set()


def test_a_client_full_of_time_outs_reconnects():
    def hang(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        peer.read("acquire")
        over.wait(TIMEOUT_S)

    def serve(peer):
        peer.welcome()
        peer.approve_all()
    over = threading.Event()
    with FakeServer(hang, serve) as server:
        with Client(server.address, pending_max=1, backoff=(0, 0)) as client:
            assert client.acquire("first")
            with pytest.raises(sluicegate.TimedOut):
                client.acquire("a", timeout=0.05)
            over.set()
            assert client.acquire("b", timeout=TIMEOUT_S)


def test_calls_that_timed_out_before_they_were_sent_take_no_room():
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        held = [peer.read("acquire") for _ in range(3)]
        over.wait(TIMEOUT_S)
        for frame in held:
            peer.verdicts(frame)
        return len(peer.approve_all())
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, pending_max=4) as client:
            assert client.acquire("first")
            for _ in range(5):
                with pytest.raises(sluicegate.TimedOut, match="no answer"):
                    client.acquire("a", timeout=0.05)
            over.set()
            assert client.acquire("b", timeout=TIMEOUT_S)


# ---- closing -------------------------------------------------------------------------------------

def test_closing_while_it_connects():
    def script(peer):
        assert peer.read("hello")
        greeted.set()
        assert peer.read() is None
    greeted = threading.Event()
    with FakeServer(script) as server:
        client = Client(server.address, connect_timeout=10 * TIMEOUT_S)
        calls = [in_thread(client.acquire, "a", timeout=None) for _ in range(2)]
        assert greeted.wait(TIMEOUT_S)
        eventually(lambda: client._dispatcher.pending == 2, "both have received")
        client.close()
        for call in calls:
            with pytest.raises(sluicegate.Closed):
                call()


def test_closing_ends_every_call():
    def script(peer):
        peer.welcome()
        while peer.read() is not None:
            pass
    with FakeServer(script) as server:
        client = Client(server.address)
        joins = [in_thread(client.acquire, "a") for _ in range(5)]
        joins.append(in_thread(client.acquire_many, ["a", "b"], wait=True))
        joins.append(in_thread(client.ping))
        eventually(lambda: client._dispatcher.pending == 7, "all have received")
        eventually(lambda: client.welcome, "it is connected")
        client.close()
        for join in joins:
            with pytest.raises(sluicegate.Closed):
                join()
        with pytest.raises(sluicegate.Closed, match="the client is closed"):
            client.acquire("a")
        client.close()


def test_a_connection_attempt_of_weeks_does_not_end_within_a_second():
    """The system's calls take milliseconds as an int, in which 50 days are less than a second."""
    weeks_s = 2**32 / 1000 + 0.5

    def script(peer):
        time.sleep(1)
        peer.welcome()
        peer.pong()
    with FakeServer(script) as server, Client(server.address, connect_timeout=weeks_s) as client:
        client.ping(timeout=None)


def test_a_connection_that_is_made_waits_for_no_more_than_poll_can():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        with _sockets.open_socket(*listener.getsockname(), 2**32 / 1000) as opened:
            assert opened.gettimeout() < 2**31 / 1000
