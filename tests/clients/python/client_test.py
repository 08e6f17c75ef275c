"""The blocking client keeps its promises to callers, whatever a server does.

Method: a scripted server that answers late, in pieces, in another order, wrongly or not at all.
Events decide what comes when, never a pause.
"""

import array
import os
import select
import socket
import sys
import threading

import pytest
from fake_server import WELCOME, FakeServer, nobody
from frame_codecs import server_frame
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import Client, Verdict
from sluicegate._core import Backoff


def in_thread(function, *arguments, **named):
    """A call in a thread of its own; join() gives its result or raises its error."""
    told = []

    def run():
        try:
            told.append((function(*arguments, **named), None))
        except BaseException as error:
            told.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(TIMEOUT_S)
        assert told, "the call did not end"
        result, error = told[0]
        if error is not None:
            raise error
        return result
    return join


def test_a_lone_acquire_and_its_hello():
    def script(peer):
        hello = peer.welcome()
        asked = peer.read("acquire")
        peer.verdicts(asked, b"\1")
        second = peer.read("acquire")
        peer.verdicts(second, b"\2")
        return hello.body, asked.keys, second.body
    with FakeServer(script) as server, Client(server.address, client_name="me", shard=2) as client:
        assert client.acquire("a") is Verdict.APPROVED
        assert client.acquire(b"b", 3, max_requests=7, max_requests_in_queue=0) is Verdict.DENIED
    hello, keys, second = server.returned[0]
    assert hello["clientName"] == "me" and hello["wantedShard"] == 3
    assert keys == [b"a"]
    assert (second["costs"], second["maxRequests"], second["maxRequestsInQueue"]) == (
        [3], [7], [0])


@pytest.mark.parametrize("spin", [0, 10 * TIMEOUT_S, 1e-6])
def test_an_answer_in_pieces(spin):
    """Whether a thread looks for it without sleeping, always, never, or in vain."""
    def script(peer):
        peer.welcome()
        for _ in range(2):
            asked = peer.read("acquire")
            frame = server_frame(id=asked.id, verdicts={"count": 1, "verdicts": b"\1"})
            for at in range(len(frame)):
                peer.send(frame[at:at + 1])
    with FakeServer(script) as server, Client(server.address, spin=spin) as client:
        assert client.acquire("a") and client.acquire("a")


def test_answers_in_another_order():
    go = threading.Event()

    def script(peer):
        peer.welcome()
        asked = [peer.read("acquire") for _ in range(4)]
        for frame in reversed(asked):
            peer.verdicts(frame, bytes([2 if b"3" in frame.keys else 1]))
        go.set()
        return [len(frame.keys) for frame in asked]
    with FakeServer(script) as server, Client(server.address, frame_entries=3) as client:
        verdicts = client.acquire_many([str(n) for n in range(12)])
        assert [bool(v) for v in verdicts] == [True] * 3 + [False] * 3 + [True] * 6
        assert verdicts.approved == [bool(v) for v in verdicts]
        assert not verdicts.all_approved and verdicts.count() == 9
        assert verdicts.count(Verdict.DENIED) == 3 and verdicts[3] is Verdict.DENIED
    assert server.returned == [[3, 3, 3, 3]]


def test_no_more_frames_than_the_window_and_welcome_allow():
    def script(peer):
        peer.welcome(outstandingFramesMax=2, frameEntriesMax=2)
        held, most = [], 0
        for _ in range(8):
            held.append(peer.read("acquire"))
            assert len(held[-1].keys) <= 2
            if len(held) == 2:
                # Nothing more comes before an answer: a ping of our own would be too late to see.
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


def test_a_frame_is_split_by_its_bytes():
    def script(peer):
        peer.welcome(frameBytesMax=8_192)
        frames = peer.approve_all()
        assert all(frame.size <= 8_192 for frame in frames)
        return [key for frame in frames for key in frame.keys]
    keys = [f"{n}".zfill(1_000) for n in range(40)]
    with FakeServer(script) as server, Client(server.address) as client:
        assert client.acquire_many(keys).all_approved
    assert sorted(server.returned[0]) == sorted(key.encode() for key in keys)


def test_what_the_kernel_does_not_take_is_sent_later():
    def script(peer):
        peer.welcome()
        peer.send(server_frame(id=peer.read("ping").id, pong=None))
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
            eventually(lambda: client._core.pending == 4, "all have asked")
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
            eventually(lambda: client._core.pending == 33, "all have asked")
            everybody_asked.set()
            assert all(join() is Verdict.APPROVED for join in joins)
    assert server.returned == [32]


def test_a_bad_key_is_told_to_its_caller_alone():
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
            eventually(lambda: client._core.pending == 2, "two are outstanding")
            joins += [in_thread(client.acquire, f"good{n}") for n in range(3)]
            bad = in_thread(client.acquire, "bad\ud800")
            eventually(lambda: client._core.pending == 6, "all have asked")
            go.set()
            assert all(join() is Verdict.APPROVED for join in joins)
            with pytest.raises(ValueError, match="bad.*no UTF-8"):
                bad()
            with pytest.raises(TypeError, match="str or bytes, not int"):
                client.acquire(17)
            assert client.acquire("again")
    assert server.returned == [4]


# ---- what goes wrong -----------------------------------------------------------------------------

def lose(peer):
    peer.welcome()
    peer.read("acquire")


@pytest.mark.parametrize("policy, wanted", [("open", Verdict.PASSED_UNASKED),
                                            ("closed", Verdict.DENIED_UNASKED)])
def test_a_loss_under_a_policy(policy, wanted):
    def half(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), b"\2")
        peer.read("acquire")
    with FakeServer(lose, half) as server:
        with Client(server.address, on_failure=policy, frame_entries=2, window=1,
                    backoff=(0, 0)) as client:
            verdict = client.acquire("a")
            assert verdict is wanted and verdict.connection_lost
            assert bool(verdict) == (policy == "open")
            verdicts = client.acquire_many(list("abcdef"))
            assert list(verdicts) == [Verdict.DENIED] * 2 + [wanted] * 4
            assert verdicts.connection_lost


def test_a_loss_is_an_error_with_what_is_known():
    def half(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        peer.read("acquire")
    with FakeServer(lose, half) as server:
        with Client(server.address, frame_entries=2, window=1, backoff=(0, 0)) as client:
            with pytest.raises(sluicegate.ConnectionLost, match="closed the connection"):
                client.acquire("a")
            with pytest.raises(sluicegate.ConnectionLost) as caught:
                client.acquire_many(list("abcd"))
            assert list(caught.value.partial) == [Verdict.APPROVED] * 2 + [Verdict.NONE] * 2


def test_nobody_is_there_and_the_next_call_fails_at_once():
    with Client(nobody(), backoff=(3600, 3600)) as client:
        for _ in range(2):
            with pytest.raises(sluicegate.Unreachable):
                client.acquire("a")
        with pytest.raises(sluicegate.Unreachable, match="tried again in"):
            client.acquire_many(["a"])
        with pytest.raises(sluicegate.Unreachable):
            client.release("a")
    with Client(nobody(), on_failure="open") as client:
        assert client.acquire("a") is Verdict.PASSED_UNASKED
        with pytest.raises(sluicegate.Unreachable):  # nobody's guess would do
            client.inspect("a")


def test_a_connection_that_ended_while_idle_costs_no_call():
    def once(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
    with FakeServer(once, once) as server, Client(server.address) as client:
        assert client.acquire("a")
        assert select.select([client._socket], [], [], TIMEOUT_S)[0]  # its end
        client._used = 0.0  # long ago
        assert client.acquire("a")


def test_pauses_between_connections_grow_to_a_bound():
    backoff = Backoff(0.1, 1.0)
    pauses = []
    for _ in range(8):
        backoff.failed(100.0)
        pauses.append(backoff.not_before - 100.0)
    for pause, longest in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1], strict=True):
        assert longest / 2 <= pause <= longest
    assert len(set(pauses)) == len(pauses)  # jitter
    backoff.succeeded()
    assert backoff.not_before == 0.0


@pytest.mark.parametrize("many", [False, True])
def test_a_peer_that_answers_wrongly_is_not_asked_again_at_once(many):
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), count=2)
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address, backoff=(3600, 3600)) as client:
        for error in (sluicegate.ProtocolError, sluicegate.Unreachable):
            with pytest.raises(error):
                client.acquire_many(["a"]) if many else client.acquire("a")


def test_requeue_asks_again_on_the_next_connection():
    def half(peer):
        peer.welcome()
        asked = peer.read("acquire")
        peer.verdicts(asked, b"\1\3\3")
        peer.granted(asked, [1])

    def rest(peer):
        peer.welcome()
        asked = peer.read("acquire")
        peer.verdicts(asked, b"\2")
        return asked.keys
    with FakeServer(lose, half, rest) as server:
        with Client(server.address, requeue=True, backoff=(0.01, 0.01)) as client:
            verdicts = client.acquire_many(["a", "b", "c"], wait=True)
            assert [int(v) for v in verdicts] == [1, 1, 2]
    assert server.returned[-1] == [b"c"]


def test_draining_is_a_loss_and_the_client_goes_on_elsewhere():
    def drain(peer):
        peer.welcome()
        asked = peer.read("acquire")
        peer.go_away()
        peer.verdicts(asked, b"\x0c")
        assert peer.read() is None

    def refuse(peer):
        hello = peer.read("hello")
        peer.error(hello.id, "draining")

    def serve(peer):
        peer.welcome()
        peer.approve_all()
    with FakeServer(drain, refuse, serve) as server:
        with Client(server.address, backoff=(0.001, 0.001)) as client:
            with pytest.raises(sluicegate.Draining):
                client.acquire("a")
            with pytest.raises(sluicegate.Draining):
                eventually(lambda: client.acquire("a"), "never: the second one refuses")
            assert eventually(lambda: approved_or_unreachable(client), "the third one serves")


def approved_or_unreachable(client):
    try:
        return client.acquire("a")
    except sluicegate.Unreachable:
        return False


def test_errors_of_the_server_are_told():
    def script(peer):
        peer.welcome()
        peer.error(peer.read("acquire").id, "badCost", "too much")
        peer.verdicts(peer.read("acquire"))
        asked = peer.read("acquire")
        peer.error(0, "tooManyOutstanding")
        return asked
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.Refused, match="bad_cost: too much") as caught:
            client.acquire("a")
        assert caught.value.code is sluicegate.ErrorCode.BAD_COST
        assert client.acquire("a")
        with pytest.raises(sluicegate.ConnectionLost, match="too_many_outstanding"):
            client.acquire("a")


@pytest.mark.parametrize("answer", [
    lambda asked: b"\xff" * 16,
    lambda asked: server_frame(id=asked.id + 1, verdicts={"count": 1, "verdicts": b"\1"}),
    lambda asked: server_frame(id=asked.id, verdicts={"count": 2, "verdicts": b"\1"}),
    lambda asked: server_frame(id=asked.id, verdicts={"count": 1, "verdicts": b"\3"}),
    lambda asked: server_frame(id=asked.id, done=None),
    lambda asked: server_frame(id=asked.id, granted={"entries": [0], "verdicts": b"\1"}),
    lambda asked: server_frame(id=1, welcome={"version": 1}),
], ids=["bytes", "id", "count", "queued", "kind", "granted", "welcome"])
@pytest.mark.parametrize("many", [False, True])
def test_a_peer_that_speaks_otherwise(answer, many):
    def script(peer):
        peer.welcome()
        peer.send(answer(peer.read("acquire")))
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ProtocolError):
            client.acquire_many(["a"]) if many else client.acquire("a")


@pytest.mark.parametrize("first", [b"HTTP/1.1 400 Bad Request\r\n\r\n",
                                   server_frame(id=1, pong=None),
                                   server_frame(id=1, welcome={"version": 2})])
def test_a_peer_that_is_no_sluicegate(first):
    def script(peer):
        peer.read("hello")
        peer.send(first)
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ProtocolError):
            client.acquire("a")


def test_an_unknown_verdict_is_a_refusal():
    def script(peer):
        peer.welcome()
        for raw in (b"\xc8", b"\xfe", b"\xff"):
            peer.verdicts(peer.read("acquire"), raw)
    with FakeServer(script) as server, Client(server.address) as client:
        for _ in range(3):
            verdict = client.acquire("a")
            assert not verdict and verdict is Verdict.UNKNOWN and not verdict.connection_lost


# ---- time-outs, waiting --------------------------------------------------------------------------

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
        over.wait(TIMEOUT_S)
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, on_failure="open", timeout=0.05) as client:
            assert client.acquire("a") is Verdict.PASSED_UNASKED
            assert client.acquire_many(["a", "b"]).connection_lost
            with pytest.raises(sluicegate.TimedOut):  # who asked to wait wants to know
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


def test_waiting_for_a_grant_while_others_ask():
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
        eventually(lambda: any(b._queued for b, _ in list(client._core.places.values())),
                   "it is in line")
        for n in range(3):
            assert client.acquire(f"k{n}")
        assert waiting() is Verdict.APPROVED


@pytest.mark.parametrize("late", ["withdrawn", "approved"])
@pytest.mark.parametrize("many", [False, True])
def test_a_timed_out_wait_leaves_the_line(late, many):
    """And a permit that was granted in that very moment goes back."""
    def script(peer):
        peer.welcome()
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
            with pytest.raises(sluicegate.TimedOut):
                if many:
                    client.acquire_many(["w"], 3, wait=True, timeout=0.05)
                else:
                    client.acquire("w", 3, wait=True, timeout=0.05)
            client.ping()
            assert not client._core.places and not client._core.pending
    assert server.returned == [([b"w"], [3]) if late == "approved" else None]


def test_a_full_client_says_so_or_waits():
    def script(peer):
        peer.welcome()
        peer.send(server_frame(id=peer.read("ping").id, pong=None))
        held = peer.read("acquire")
        go.wait(TIMEOUT_S)
        peer.verdicts(held)
        peer.approve_all()
    for when_full in ("error", "wait"):
        go = threading.Event()
        with FakeServer(script) as server:
            with Client(server.address, max_pending=1, when_full=when_full) as client:
                client.ping()
                first = in_thread(client.acquire, "a")
                eventually(lambda c=client: c._core.pending == 1, "one is pending")
                if when_full == "error":
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


@pytest.mark.parametrize("when_full", ["error", "wait"])
def test_a_client_full_of_time_outs_recovers_when_the_server_does(when_full):
    """Nobody who should be answered waits any more: who wants room reads."""
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
        with Client(server.address, max_pending=2, when_full=when_full) as client:
            assert client.acquire("first")
            for _ in range(2):
                with pytest.raises(sluicegate.TimedOut):
                    client.acquire("a", timeout=0.05)
            with pytest.raises(sluicegate.Overloaded if when_full == "error"
                               else sluicegate.TimedOut):
                client.acquire("b", timeout=0.01)
            go.set()
            assert answered.wait(TIMEOUT_S)
            if when_full == "error":
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


def test_no_room_in_time_is_a_time_out_for_the_policy_too():
    def script(peer):
        peer.welcome()
        over.wait(TIMEOUT_S)
    over = threading.Event()
    with FakeServer(script) as server:
        with Client(server.address, max_pending=1, on_failure="open") as client:
            with pytest.raises(sluicegate.TimedOut):
                client.ping(timeout=0.01)
            for _ in range(3):
                assert client.acquire("a", timeout=0.01) is Verdict.PASSED_UNASKED
            verdicts = client.acquire_many(["a", "b"], timeout=0.01)
            assert list(verdicts) == [Verdict.PASSED_UNASKED] * 2
            with pytest.raises(sluicegate.TimedOut, match="no room"):
                client.acquire("a", wait=True, timeout=0.01)
            with pytest.raises(sluicegate.TimedOut, match="no room"):
                client.release("a", timeout=0.01)
        over.set()


def test_a_client_full_of_time_outs_connects_again():
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
        with Client(server.address, max_pending=1, backoff=(0, 0)) as client:
            assert client.acquire("first")
            with pytest.raises(sluicegate.TimedOut):
                client.acquire("a", timeout=0.05)
            over.set()
            assert client.acquire("b", timeout=TIMEOUT_S)


def test_what_timed_out_before_it_was_sent_takes_no_room():
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
        with Client(server.address, max_pending=4) as client:
            assert client.acquire("first")
            for _ in range(5):
                with pytest.raises(sluicegate.TimedOut, match="no answer"):
                    client.acquire("a", timeout=0.05)
            over.set()
            assert client.acquire("b", timeout=TIMEOUT_S)


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
        eventually(lambda: client._core.pending == 2, "both have asked")
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
        eventually(lambda: client._core.pending == 7, "all have asked")
        eventually(lambda: client.welcome, "it is connected")
        client.close()
        for join in joins:
            with pytest.raises(sluicegate.Closed):
                join()
        with pytest.raises(sluicegate.Closed, match="the client is closed"):
            client.acquire("a")
        client.close()


# ---- interruptions --------------------------------------------------------------------------------

class Interruption(BaseException):
    """As a signal's handler raises it."""


def interrupt_at(name, line):
    """Raises once, when this line of a function of the client begins."""
    code = getattr(Client, name).__code__

    def trace(frame, event, _):
        if frame.f_code is not code:
            return trace if event == "call" else None
        if event == "line" and frame.f_lineno == line:
            sys.settrace(None)
            raise Interruption
        return trace
    sys.settrace(trace)


def lines_of(name):
    """Those that are run, but the first: a `try` that nothing was done in yet."""
    lines = {line for _, _, line in getattr(Client, name).__code__.co_lines() if line is not None}
    return [(name, line) for line in sorted(lines)[1:]]


@pytest.mark.parametrize("name, line", [
    *lines_of("_ask_alone"), *lines_of("_send_alone"), *lines_of("_take_lone"),
    *lines_of("_receive"), *lines_of("_take"), *lines_of("_submit"), *lines_of("_send")])
def test_an_interrupted_call_ends_no_other(name, line):
    """At every line of sending and receiving: the call after it is answered."""
    def script(peer):
        hello = peer.read()
        if hello is not None:
            peer.send(server_frame(id=hello.id, welcome=WELCOME))
            peer.approve_all()
    with FakeServer(script, script) as server:
        try:
            with Client(server.address, backoff=(0, 0)) as client:
                client.ping()
                for call in (lambda: client.acquire("a"), lambda: client.acquire_many(["b"])):
                    interrupt_at(name, line)
                    try:
                        call()
                    except Interruption:
                        break
                    finally:
                        sys.settrace(None)
                assert client.acquire("c", timeout=TIMEOUT_S) is Verdict.APPROVED
                assert client.acquire_many(["c"], timeout=TIMEOUT_S).all_approved
                assert client._leader is None and not client._core.pending
        finally:
            socket.create_connection(server.address.split(":")).close()  # if nobody else came


@pytest.mark.parametrize("many", [False, True])
def test_an_interrupted_wait_leaves_the_line(many, monkeypatch):
    def script(peer):
        peer.welcome()
        waits = peer.read("acquire")
        peer.verdicts(waits, b"\3")
        withdraw = peer.read("withdraw")
        assert withdraw.body["target"] == waits.id and list(withdraw.body["entries"]) == [0]
        peer.granted(waits, [0], b"\x0b")
        peer.done(withdraw)
        peer.approve_all()

    def lead_until_in_line(client, deadline, is_over):
        lead(client, deadline, lambda: is_over() or client._core.connection
             and client._core.connection._waiting)
        if client._core.connection._waiting:
            raise Interruption
    lead = Client._lead
    with FakeServer(script) as server, Client(server.address) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Client, "_lead", lead_until_in_line)
            with pytest.raises(Interruption):
                client.acquire_many(["w"], wait=True) if many else client.acquire("w", wait=True)
        client.ping()
        assert not client._core.places and not client._core.pending


# ---- handles, forks, arguments -------------------------------------------------------------------

def test_handles_of_a_lost_connection_are_never_asked():
    def script(peer):
        peer.welcome()
        asked = peer.read("intern")
        peer.send(server_frame(id=asked.id, interned={"handles": [5, 6], "verdicts": b"\1"}))
        by_handle = []
        for _ in range(4):
            by_handle.append(peer.read("acquireByHandle"))
            peer.verdicts(by_handle[-1])
        return [list(frame.body["handles"]) for frame in by_handle]

    def second(peer):
        peer.welcome()
        asked = peer.approve_all()
        return [(frame.kind, list(frame.body.get("handles", []))) for frame in asked]
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
    """Whether a ping has met the second server."""
    try:
        client.ping()
    except sluicegate.ConnectionLost:
        return False
    return client._core.generation == 2


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


def test_keys_without_a_handle_are_told():
    def script(peer):
        peer.welcome()
        asked = peer.read("intern")
        peer.send(server_frame(id=asked.id, interned={
            "handles": [3, 0xFFFFFFFF], "verdicts": b"\1\x0d"}))
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.NotInterned, match="1 of 2 .*handles_full for 'b'") as caught:
            client.intern(["a", "b"])
        assert list(caught.value.handles) == [3, sluicegate.NO_HANDLE]


def test_a_forked_child_has_a_connection_of_its_own():
    def script(peer):
        peer.welcome()
        return len(peer.approve_all())
    with FakeServer(script) as parents:
        with Client(parents.address) as client:
            assert client.acquire("a")
            with FakeServer(script) as childs:
                client._host, client._port = childs.address.split(":")
                child = os.fork()
                if child == 0:
                    try:
                        approved = client.acquire("child", timeout=TIMEOUT_S)
                        client.close()
                        os._exit(0 if approved else 1)
                    finally:
                        os._exit(2)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert client.acquire("a")  # the parent's connection still stands
    assert parents.returned == [2] and childs.returned == [1]


@pytest.mark.parametrize("call, error", [
    (lambda c: c.acquire("a", 0), "cost must be 1 to"),
    (lambda c: c.acquire("a", max_requests=2_000_000_000), "max_requests must be"),
    (lambda c: c.acquire("a", wait=True, wait_limit=7200), "wait_limit must be"),
    (lambda c: c.acquire_many("abc"), "pass a list of keys"),
    (lambda c: c.acquire_many(["a"], [1, 2]), "2 costs for 1 entries"),
    (lambda c: c.acquire_many(["a"], [-1]), "costs must be whole numbers"),
    (lambda c: c.inspect(""), "the key is empty"),
    (lambda c: c.acquire_many_handles([1, 2]), "bytes-like"),
])
def test_arguments_that_make_no_sense(call, error):
    def script(peer):
        peer.welcome()
        peer.approve_all()
    with FakeServer(script) as server, Client(server.address) as client:
        client.ping()
        with pytest.raises((ValueError, TypeError), match=error):
            call(client)
        assert client.acquire("a")
        assert not client._core.pending


@pytest.mark.parametrize("address", ["localhost", ":80", "host:", "host:99999", "host:http",
                                     "http://localhost:8081", "[::1:8081", "::1]:8081",
                                     "host:\u0661"])
def test_addresses_that_are_none(address):
    with pytest.raises(ValueError, match="write host:port"):
        Client(address)


def test_an_address_of_another_type():
    with pytest.raises(TypeError, match="an address is a str"):
        Client(None)
    client = Client("[::1]:8081")
    assert (client._host, client._port) == ("::1", 8081)


@pytest.mark.parametrize("option", [{"shard": -2}, {"shard": 1 << 32}, {"shard": 1.5},
                                    {"client_name": "a\udc80"}])
@pytest.mark.parametrize("kind", [Client, sluicegate.AsyncClient])
def test_what_no_hello_can_say(option, kind):
    with pytest.raises((ValueError, TypeError), match=next(iter(option))):
        kind("localhost:8081", **option)


def test_a_name_that_no_host_can_have():
    with Client("my..host:8081") as client:
        with pytest.raises(sluicegate.Unreachable, match="my..host:8081"):
            client.acquire("a")


def test_the_decorator():
    def script(peer):
        peer.welcome()
        first = peer.read("acquire")
        peer.verdicts(first)
        second = peer.read("acquire")
        peer.verdicts(second, b"\2")
        return first.keys + second.keys
    with FakeServer(script) as server, Client(server.address) as client:
        @client.limited("login:{user}:{tries}")
        def login(user, tries=3):
            """Logs in."""
            return user + "!"

        @client.limited(lambda n: f"n{n}", cost=2)
        def number(n):
            raise AssertionError("called though denied")

        assert login("ann") == "ann!" and login.__doc__ == "Logs in."
        with pytest.raises(sluicegate.Denied, match="denied: 'n7'") as caught:
            number(7)
        assert caught.value.verdict is Verdict.DENIED
    assert server.returned == [[b"login:ann:3", b"n7"]]


@pytest.mark.parametrize("key", ["login:{nobody}", "{}", "{0}", "{nobody.name}"])
def test_the_decorator_knows_the_arguments(key):
    client = Client(nobody())
    with pytest.raises(ValueError, match="no argument of the function: it has user, more"):
        @client.limited(key)
        def login(user, **more):
            raise AssertionError("called")

    @client.limited("{user.name}:{more[tries]}")
    def allowed(user, **more):
        raise AssertionError("called")
