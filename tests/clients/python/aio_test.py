"""The asyncio client keeps its contract with callers, whatever a server does, on both event loops.

Method: the scripted server of fake_server.py, in a thread beside the loop. client_*_test.py test
the behaviour of both clients (frames, refusals, losses); this tests what asyncio adds.
"""

import asyncio
import os
import socket
import threading

import pytest
from event_loops import wait_in_executor, run, until  # noqa: F401  (run is a fixture)
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from frame_codecs import server_frame
from server_process import TIMEOUT_S

import sluicegate
from sluicegate import AsyncClient, Verdict
from sluicegate._connection import Connection
from sluicegate._frames import Welcome


def approve(peer):
    peer.welcome()
    return peer.approve_all()


def test_calls_of_one_loop_iteration_share_a_frame(run):
    async def main(address):
        async with AsyncClient(address) as client:
            assert await client.acquire("first") is Verdict.APPROVED
            verdicts = await asyncio.gather(*[client.acquire(f"k{n}") for n in range(500)])
            assert verdicts == [Verdict.APPROVED] * 500
    with FakeServer(approve) as server:
        run(main(server.address))
    assert [len(frame.keys) for frame in server.returned[0]] == [1, 500]


def test_calls_gather_while_two_frames_are_outstanding(run):
    def script(peer):
        peer.welcome()
        held = [peer.read("acquire") for _ in range(2)]
        two_out.set()
        received.wait(TIMEOUT_S)
        for frame in held:
            peer.verdicts(frame)
        return [len(frame.keys) for frame in peer.approve_all()]

    async def main(address):
        async with AsyncClient(address) as client:
            calls = [asyncio.ensure_future(client.acquire("a"))]
            await until(lambda: client.welcome and client._dispatcher.connection.gathered_out)
            calls.append(asyncio.ensure_future(client.acquire("b")))
            await wait_in_executor(two_out)
            for n in range(7):
                calls.append(asyncio.ensure_future(client.acquire(f"k{n}")))
                await asyncio.sleep(0)
            received.set()
            assert all(await asyncio.gather(*calls))
    two_out, received = threading.Event(), threading.Event()
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[7]]


def test_every_kind_of_call(run):
    def script(peer):
        hello = peer.welcome()
        kinds = []
        for _ in range(8):
            received = peer.read()
            kinds.append(received.kind)
            if received.kind == "inspect":
                last = received.body["cursor"] or received.body.get("key")
                peer.send(server_frame(id=received.id, inspected={
                    "keys": b"ab", "keySizes": [2], "windowMs": [1], "maxRequests": [2],
                    "maxRequestsInQueue": [3], "approved": [4], "denied": [5], "waiting": [6],
                    "resetMs": [7], "cursor": 0 if last else 9}))
            elif received.kind == "intern":
                peer.send(server_frame(id=received.id, interned={
                    "handles": [4, 5], "verdicts": b"\1"}))
            elif received.kind in ("acquire", "acquireByHandle"):
                peer.verdicts(received, b"\1\2")
            elif received.kind == "ping":
                peer.send(server_frame(id=received.id, pong=None))
            else:
                peer.done(received)
        return hello.body["clientName"], kinds

    async def main(address):
        async with AsyncClient(address, client_name="all") as client:
            assert (await client.acquire_many(["a", "b"], [1, 2])).approved == [True, False]
            handles = await client.intern(["a", "b"])
            assert (await client.acquire_many_handles(handles)).count() == 1
            await client.forget(handles)
            await client.release("a", 2)
            await client.ping()
            assert (await client.inspect("ab"))[1:] == (0.001, 2, 3, 4, 5, 6, 0.007)
            assert [state.key async for state in client.inspect_all()] == [b"ab", b"ab"]
    with FakeServer(lambda peer: script(peer)) as server:
        with pytest.raises(sluicegate.ConnectionLost):  # the script ends before the last page
            run(main(server.address))
    assert server.returned == [("all", ["acquire", "intern", "acquireByHandle", "forget",
                                        "release", "ping", "inspect", "inspect"])]


def test_many_callers_of_acquire_many(run):
    async def main(address):
        async with AsyncClient(address, frame_entries_max=10) as client:
            many = await asyncio.gather(*[
                client.acquire_many([f"{n}.{k}" for k in range(95)]) for n in range(20)])
            assert all(len(v) == 95 and v.all_approved for v in many)
    with FakeServer(approve) as server:
        run(main(server.address))
    assert sum(len(frame.keys) for frame in server.returned[0]) == 20 * 95
    assert max(len(frame.keys) for frame in server.returned[0]) == 10


@pytest.mark.parametrize("late", ["withdrawn", "approved", "not yet queued"])
@pytest.mark.parametrize("ending", ["cancel", "time out"])
@pytest.mark.parametrize("many", [False, True])
def test_withdraws_an_abandoned_wait(run, late, ending, many):
    def script(peer):
        peer.welcome()
        peer.pong()
        waits = peer.read("acquire")
        if late != "not yet queued":
            peer.verdicts(waits, b"\3")
        in_queue.set()
        assert given_up.wait(TIMEOUT_S)
        released = None
        if late == "not yet queued":
            peer.verdicts(waits, b"\1")
        else:
            withdraw = peer.read("withdraw")
            assert (withdraw.body["target"], list(withdraw.body["entries"])) == (waits.id, [0])
            peer.granted(waits, [0], b"\x0b" if late == "withdrawn" else b"\1")
            peer.done(withdraw)
        if late != "withdrawn":
            received = peer.read("release")
            released = received.keys, list(received.body["costs"])
            peer.done(received)
        peer.approve_all()
        return released

    async def main(address):
        async with AsyncClient(address) as client:
            await client.ping()
            timeout = IN_QUEUE_BEFORE_S if ending == "time out" else TIMEOUT_S
            call = asyncio.ensure_future(
                client.acquire_many(["w"], 3, wait=True, timeout=timeout) if many
                else client.acquire("w", 3, wait=True, timeout=timeout))
            if ending == "cancel":
                await wait_in_executor(in_queue)
                if late != "not yet queued":
                    await until(lambda: client._dispatcher.connection._waiting)
                call.cancel()
            with pytest.raises(asyncio.CancelledError if ending == "cancel"
                               else sluicegate.TimedOut):
                await call
            given_up.set()
            await until(lambda: not client._dispatcher.pending)
            await client.ping()
            assert not client._dispatcher.waiting_entries
    in_queue, given_up = threading.Event(), threading.Event()
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [None if late == "withdrawn" else ([b"w"], [3])]


def test_a_hanging_server(run):
    def script(peer):
        peer.welcome()
        over.wait(TIMEOUT_S)

    async def main(address):
        async with AsyncClient(address, timeout=0.1) as client:
            calls = [asyncio.ensure_future(client.acquire("a")) for _ in range(3)]
            for call in (*calls, client.acquire("a"), client.acquire("a", timeout=0.01),
                         client.acquire_many(["a"]), client.ping()):
                with pytest.raises(sluicegate.TimedOut, match="no answer within 0.[01]"):
                    await call
        async with AsyncClient(address, timeout=0.1, on_failure="closed",
                               connect_timeout=0.1) as client:
            assert await client.acquire("a") is Verdict.DENIED_BY_POLICY
            assert (await client.acquire_many(["a", "b"])).decided_by_policy
        over.set()
    over = threading.Event()
    with FakeServer(script) as server:
        run(main(server.address))


def test_every_call_to_a_silent_server_times_out(run):
    """An entry that joins a batch late has its full time-out: a batch gathers for 1/16 of it."""
    def script(peer):
        peer.welcome()
        peer.pong()
        over.wait(TIMEOUT_S)

    async def main(address):
        async with AsyncClient(address, timeout=0.16) as client:
            await client.ping(timeout=TIMEOUT_S)
            for _ in range(5):  # one after another: the third finds two outstanding
                with pytest.raises(sluicegate.TimedOut):
                    await client.acquire("a")
        async with AsyncClient(address, timeout=0.8) as client:
            loop = asyncio.get_running_loop()
            client._dispatcher.connection = silent = Connection()
            silent.welcome = Welcome(1, 1, 0, 0, 1, 1 << 18, 0, 99, 99, 1 << 18, 1, 1, 99, 0, 0, "")
            client._transport, client._loop = Sponge(), loop
            began = []

            async def ask():
                began.append(loop.time())
                with pytest.raises(sluicegate.TimedOut):
                    await client.acquire("a")
                return loop.time()
            calls = []
            for _ in range(3):
                calls.append(asyncio.ensure_future(ask()))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await until(lambda: not client._dispatcher.is_gathering)  # without further calls
            calls.append(asyncio.ensure_future(ask()))
            ended = await asyncio.gather(*calls)
            assert all(end - begin > 0.7 for begin, end in zip(began, ended, strict=True))
            client._transport = None
        over.set()
    over = threading.Event()
    with FakeServer(script) as server:
        run(main(server.address))


class Sponge:
    def write(self, data):
        pass


def test_a_loss_ends_every_call_and_the_next_call_reconnects(run):
    def lose(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        peer.read("acquire")

    async def main(address):
        async with AsyncClient(address) as client:
            assert await client.acquire("a")
            results = await asyncio.gather(*[client.acquire("a") for _ in range(5)],
                                        client.acquire_many(["b"]), return_exceptions=True)
            assert all(isinstance(error, sluicegate.ConnectionLost) for error in results)
            assert await client.acquire("a")
    with FakeServer(lose, approve) as server:
        run(main(server.address))


def test_calls_fail_without_a_server(run):
    async def main():
        async with AsyncClient(unused_address(), backoff=(3600, 3600)) as client:
            with pytest.raises(sluicegate.Unreachable):
                await client.acquire("a")
            with pytest.raises(sluicegate.Unreachable, match="next attempt in"):
                await client.acquire("a")
            with pytest.raises(sluicegate.Unreachable):
                await client.acquire_many(["a"])
        async with AsyncClient(unused_address(), on_failure="open") as client:
            assert await client.acquire("a") is Verdict.APPROVED_BY_POLICY
    run(main())


def test_rejects_an_invalid_host_name(run):
    async def main():
        async with AsyncClient("my..host:8081", timeout=None) as client:
            with pytest.raises(sluicegate.Unreachable, match="my..host:8081"):
                await client.acquire("a")
    run(main())


def test_requeue_sends_calls_again(run):
    def lose(peer):
        peer.welcome()
        peer.read("acquire")

    async def main(address):
        async with AsyncClient(address, requeue=True, backoff=(0.001, 0.001)) as client:
            assert all(await asyncio.gather(*[client.acquire(f"{n}") for n in range(5)]))
            assert (await client.acquire_many(["a", "b"])).all_approved
    with FakeServer(lose, lose, approve) as server:
        run(main(server.address))
    assert len(server.returned[2][0].keys) == 5


def test_a_peer_that_breaks_the_protocol(run):
    def script(peer):
        peer.welcome()
        peer.read("acquire")
        peer.send(b"\xff" * 64)
        assert peer.read() is None

    def no_hello(peer):
        peer.read("hello")
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert peer.read() is None

    async def main(address):
        async with AsyncClient(address, backoff=(0, 0)) as client:
            for _ in range(2):
                with pytest.raises(sluicegate.ProtocolError):
                    await client.acquire("a")
    with FakeServer(script, no_hello) as server:
        run(main(server.address))


@pytest.mark.parametrize("bad", [{"cost": 2.5}, {"max_requests": 7.5}, {"cost": "1"},
                                 {"max_requests_in_queue": 0.5}, {"window": "1"}])
def test_a_bad_argument_fails_only_its_own_call(run, bad):
    async def main(address):
        async with AsyncClient(address) as client:
            await client.ping()
            good = [client.acquire("a"), client.acquire("b", 2)]
            with pytest.raises(TypeError, match="must be a (whole )?number"):
                await client.acquire("bad", **bad)
            assert await asyncio.gather(*good) == [Verdict.APPROVED] * 2
            for details in (-1, 128, 1000):
                with pytest.raises(ValueError, match="details must be 0 to 127"):
                    await client.acquire_many(["a"], details=details)
    with FakeServer(approve) as server:
        run(main(server.address))


@pytest.mark.parametrize("wait", [2, "yes"])
def test_any_true_value_of_wait_waits(run, wait):
    async def main(address):
        async with AsyncClient(address) as client:
            good = client.acquire("a")
            assert await client.acquire("b", wait=wait) and await good
            assert (await client.acquire_many(["a"], wait=wait)).all_approved
    with FakeServer(approve) as server:
        run(main(server.address))


def test_a_full_client_raises_or_waits(run):
    def script(peer):
        peer.welcome()
        held = peer.read("acquire")
        go.wait(TIMEOUT_S)
        peer.verdicts(held)
        peer.approve_all()

    async def main(address, when_full):
        async with AsyncClient(address, pending_max=1, when_full=when_full) as client:
            first = asyncio.ensure_future(client.acquire("a"))
            await until(lambda: client._dispatcher.pending)
            if when_full == "refuse":
                with pytest.raises(sluicegate.Overloaded):
                    await client.acquire("b")
                go.set()
            else:
                with pytest.raises(sluicegate.TimedOut, match="no room"):
                    await client.acquire("b", timeout=0.01)
                others = [asyncio.ensure_future(client.acquire("c")) for _ in range(5)]
                others.append(asyncio.ensure_future(client.acquire_many(["d"])))
                go.set()
                await asyncio.gather(*others)
            assert await first
    for when_full in ("refuse", "block"):
        go = threading.Event()
        with FakeServer(script) as server:
            run(main(server.address, when_full))


def test_failure_policy_decides_when_there_is_no_room_in_time(run):
    def script(peer):
        peer.welcome()
        peer.pong()
        over.wait(TIMEOUT_S)

    async def main(address):
        async with AsyncClient(address, pending_max=1, on_failure="closed") as client:
            await client.ping()
            with pytest.raises(sluicegate.TimedOut):
                await client.ping(timeout=0.01)
            for _ in range(3):
                assert await client.acquire("a", timeout=0.01) is Verdict.DENIED_BY_POLICY
            assert (await client.acquire_many(["a"], timeout=0.01)).decided_by_policy
            with pytest.raises(sluicegate.TimedOut, match="no room"):
                await client.acquire("a", wait=True, timeout=0.01)
            with pytest.raises(sluicegate.TimedOut, match="no room"):
                await client.release("a", timeout=0.01)
        over.set()
    over = threading.Event()
    with FakeServer(script) as server:
        run(main(server.address))


def test_closing_ends_every_call(run):
    def script(peer):
        peer.welcome()
        while peer.read() is not None:
            pass

    async def main(address):
        client = AsyncClient(address)
        calls = [asyncio.ensure_future(call) for call in (
            client.acquire("a"), client.acquire("b", wait=True), client.acquire_many(["c"]),
            client.ping())]
        await until(lambda: client._dispatcher.pending == 4 and client.welcome)
        await client.close()
        for call in calls:
            with pytest.raises(sluicegate.Closed):
                await call
        with pytest.raises(sluicegate.Closed):
            await client.acquire("a")
        await client.close()
    with FakeServer(script) as server:
        run(main(server.address))


def test_closing_while_it_connects(run):
    def script(peer):
        assert peer.read("hello") and peer.read() is None

    async def main(address):
        client = AsyncClient(address)
        call = asyncio.ensure_future(client.acquire("a"))
        await until(lambda: client._dispatcher.connection)
        await client.close()
        with pytest.raises(sluicegate.Closed):
            await call
    with FakeServer(script) as server:
        run(main(server.address))


def test_the_decorator(run):
    def script(peer):
        peer.welcome()
        first = peer.read("acquire")
        peer.verdicts(first)
        peer.verdicts(peer.read("acquire"), b"\2")
        return first.keys

    async def main(address):
        async with AsyncClient(address) as client:
            @client.limited("user:{user}")
            async def greet(user):
                return f"hello {user}"
            assert await greet("ann") == "hello ann"
            with pytest.raises(sluicegate.Denied):
                await greet(user="bob")
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[b"user:ann"]]


def test_the_decorator_refuses_plain_functions():
    client = AsyncClient(unused_address())
    with pytest.raises(TypeError, match="no coroutine function"):
        @client.limited("user:{user}")
        def greet(user):
            return user


def test_raises_in_another_loop_or_process():
    async def ask(client):
        return await client.acquire("a")
    client = AsyncClient(unused_address())
    with pytest.raises(sluicegate.Unreachable):
        asyncio.run(ask(client))
    with pytest.raises(sluicegate.SluicegateError, match="another event loop"):
        asyncio.run(asyncio.wait_for(client.acquire_many(["a"]), TIMEOUT_S))
    client = AsyncClient(unused_address())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(ask(client))
        except sluicegate.SluicegateError as error:
            os._exit(0 if "before the fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("call", [lambda c: c.acquire("a"), lambda c: c.acquire("a", 2),
                                  lambda c: c.acquire_many(["a"]), lambda c: c.ping()])
def test_every_call_raises_in_another_loop(call):
    async def ask(client):
        return await call(client)
    with FakeServer(approve) as server:
        client = AsyncClient(server.address)
        asyncio.run(ask(client))
        with pytest.raises(sluicegate.SluicegateError, match="another event loop"):
            asyncio.run(asyncio.wait_for(ask(client), TIMEOUT_S))
        client._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("call", [lambda c: c.acquire("a"), lambda c: c.acquire("a", 2),
                                  lambda c: c.acquire_many(["a"]), lambda c: c.ping()])
def test_calls_raise_in_a_forked_child(call):
    """And no call of the child, before or after the fork, is sent on the parent's connection."""
    async def main(address):
        async with AsyncClient(address) as client:
            assert await client.acquire("first")
            received = client.acquire("once")
            child = os.fork()
            if child == 0:
                try:
                    client._flush()  # as the loop would do
                    await call(client)
                except sluicegate.SluicegateError as error:
                    os._exit(0 if "before the fork" in str(error) else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert await received and await client.acquire("last")
    with FakeServer(approve) as server:
        asyncio.run(main(server.address))
    assert [frame.keys for frame in server.returned[0]] == [[b"first"], [b"once"], [b"last"]]


def test_withdraws_a_queued_frame_of_a_cancelled_batch_once(run):
    """Its answer arrives after the cancellation, and before the task runs again."""
    def script(peer):
        peer.welcome()
        waits = peer.read("acquire")
        peer.verdicts(waits, b"\3")
        withdraw = peer.read("withdraw")
        peer.done(withdraw)
        peer.pong()
        return list(withdraw.body["entries"])

    async def main(address):
        async with AsyncClient(address) as client:
            task = asyncio.ensure_future(client.acquire_many(["a"], wait=True))
            received = client._dispatcher.receive

            def receive(data):
                if client.welcome is not None:
                    task.cancel()
                received(data)
            client._dispatcher.receive = receive
            with pytest.raises(asyncio.CancelledError):
                await task
            client._dispatcher.receive = received
            await client.ping()
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[0]]
