"""The asyncio client's quota calls keep their contract with callers, whatever a server does.

Method: the scripted server of fake_server.py, on both event loops. quota_client_*_test.py test the
behaviour of both clients; this tests what asyncio adds: reservations that are awaited or entered,
tasks that are cancelled, renewal by a task.
"""

import asyncio
import threading

import pytest
from event_loops import wait_in_executor, run, until  # noqa: F401  (run is a fixture)
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from frame_codecs import server_frame
from quota_scripts import (QUEUED, TPM, amounts, answer_late, grant_leases, kinds, lose,
                           serve_quotas, usage_reply)
from server_process import TIMEOUT_S

import sluicegate
from sluicegate import AsyncClient, QuotaCode


def test_a_reservation_may_be_entered_or_awaited(run):
    async def main(address):
        async with AsyncClient(address) as client:
            async with client.reserve("m", input_tokens=9) as reservation:
                await reservation.settle(5, 6)
            awaited = await client.reserve("m")
            await awaited.extend(5)
            await awaited.cancel(keep_requests=True)
            async with client.reserve("m"):
                pass
            async with client.lease(["printer", "floor 3"], owner="me") as lease:
                assert lease.held
            await client.wait_for_capacity("m", 7, timeout=1.5)
    with FakeServer(serve_quotas) as server:
        run(main(server.address))
    assert kinds(server.returned[0]) == [
        "reserve", "settle", "reserve", "extend", "cancel", "reserve", "cancel", "reserve",
        "cancel", "reserve"]
    assert server.returned[0][-1].body["waitLimitMs"] == 1_500


def test_calls_of_one_loop_iteration_share_a_frame_per_form(run):
    async def main(address):
        async with AsyncClient(address) as client:
            held = await asyncio.gather(*[client.reserve(f"s{n}", input_tokens=n)
                                          for n in range(200)])
            assert len({reservation.id for reservation in held}) == 200
            await asyncio.gather(*[reservation.settle(n, n) for n, reservation in enumerate(held)],
                                 client.record("m", output_tokens=1), client.check("m"))
    with FakeServer(serve_quotas) as server:
        run(main(server.address))
    frames = server.returned[0]
    assert sorted(kinds(frames)) == ["check", "record", "reserve", "settle"]
    assert frames[0].body["inputTokens"] == list(range(200))


def cancelled_stream(run, reports=(), **options):
    """The kinds of frames of a task that is cancelled inside its block, after reports of output
    tokens, and the amounts of the last one."""
    async def main(address):
        async with AsyncClient(address) as client:
            inside = asyncio.Event()

            async def work():
                async with client.reserve("m", **options) as reservation:
                    for tokens in reports:
                        reservation.report(output_tokens=tokens)
                    inside.set()
                    await asyncio.sleep(3600)
            task = asyncio.ensure_future(work())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    with FakeServer(serve_quotas) as server:
        run(main(server.address))
    return kinds(server.returned[0]), amounts(server.returned[0][-1])


def test_cancels_the_reservation_when_its_task_is_cancelled(run):
    assert cancelled_stream(run) == (["reserve", "cancel"], {})


def test_cancels_a_late_reservation_of_a_cancelled_task(run):
    asked_for = threading.Event()
    given_up = threading.Event()

    def script(peer):
        peer.welcome()
        received = peer.read("reserve")
        asked_for.set()
        assert given_up.wait(30)
        peer.quota_answers(received, reservations=[81])
        return peer.read("cancel").body["reservations"]

    async def main(address):
        async with AsyncClient(address) as client:
            task = asyncio.ensure_future(client.reserve("m").__aenter__())
            await wait_in_executor(asked_for)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            given_up.set()
            await until(lambda: client._dispatcher.pending == 0)
            await asyncio.sleep(0)
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[81]]


def test_withdraws_the_wait_of_a_cancelled_task(run):
    def script(peer):
        peer.welcome()
        received = peer.read("reserve")
        peer.quota_answers(received, QUEUED)
        withdraw = peer.read("withdraw")
        peer.reserve_granted(received, [0], b"\x11")
        peer.done(withdraw)
        peer.read()
        return withdraw.body["entries"]

    async def main(address):
        async with AsyncClient(address) as client:
            task = asyncio.ensure_future(client.reserve("m", wait=True).__aenter__())
            await until(lambda: client.welcome and client._dispatcher.connection._waiting)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: client._dispatcher.pending == 0)
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[0]]


@pytest.mark.parametrize("many", [False, True])
def test_cancels_an_undelivered_reservation_of_a_cancelled_task(run, many):
    """Answer and cancellation both arrive before the task runs again."""
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[82])
        return peer.read("cancel").body["reservations"]

    async def main(address):
        async with AsyncClient(address) as client:
            task = asyncio.ensure_future(client.reserve_many(["m"]) if many
                                         else client.reserve("m").__aenter__())
            answered = client._dispatcher.finished

            def finished(count):
                answered(count)
                if many:  # its future has no result yet
                    asyncio.get_running_loop().call_soon(task.cancel)
                else:
                    task.cancel()
            client._dispatcher.finished = finished
            with pytest.raises(asyncio.CancelledError):
                await task
            client._dispatcher.finished = answered
            await asyncio.sleep(0)
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[82]]


def test_withdraws_a_wait_that_timed_out(run):
    def script(peer):
        peer.welcome()
        peer.pong()
        received = peer.read("reserve")
        peer.quota_answers(received, QUEUED)
        withdraw = peer.read("withdraw")
        peer.reserve_granted(received, [0], b"\1", reservations=[83])
        peer.done(withdraw)
        return peer.read("cancel").body["reservations"]

    async def main(address):
        async with AsyncClient(address) as client:
            await client.ping()
            with pytest.raises(sluicegate.TimedOut):
                await client.reserve("m", wait=True, timeout=IN_QUEUE_BEFORE_S)
            await until(lambda: client._dispatcher.pending == 0)
            await asyncio.sleep(0)
    with FakeServer(script) as server:
        run(main(server.address))
    assert server.returned == [[83]]


def test_many_usage_and_quotas(run):
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), b"\1\7", reservations=[5, 0], retryAfterMs=[0, 9])
        peer.quota_answers(peer.read("settle"))
        for cursor in (0, 7):
            peer.send(server_frame(id=peer.read("usage").id,
                                   usageReply=usage_reply(["a"], 7 - cursor)))
        peer.send(server_frame(id=peer.read("usage").id, usageReply=usage_reply(["b"])))
        for kind in ("quota", "quota", "reset", "reset"):
            peer.quota_answers(peer.read(kind), count=1)
        peer.quota_answers(peer.read("quota"), b"\x24", count=1)
        peer.quota_answers(peer.read("reset"), b"\x25", count=1)
        peer.quota_answers(peer.read("check"), TPM, retryAfterMs=[1_500])
        peer.read()

    async def main(address):
        async with AsyncClient(address) as client:
            results = await client.reserve_many(["a", "b"])
            assert list(results) == [QuotaCode.OK, QuotaCode.TPM_EXCEEDED]
            assert (await client.settle_many(results.reservations[:1])).all_admitted
            assert [usage.subject async for usage in client.subjects()] == ["a", "a"]
            assert (await client.stats("b")).max_tpm == 0
            await client.put_quota("a", [])
            assert await client.remove_quota("a")
            await client.reset("a")
            await client.reset_all()
            with pytest.raises(sluicegate.QuotaError, match="not_durable: nothing was changed"):
                await client.remove_quota("a")
            with pytest.raises(sluicegate.QuotaError, match="memory_only: changed in memory only"):
                await client.reset("a")
            decision = await client.decide("a", 5)
            assert not decision and decision.retry_after == 1.5
            assert not await client.decide("a", -5)
            with pytest.raises(sluicegate.InvalidArgument, match="input_tokens"):
                await client.can_send("a", -5)  # a mistake is no denial
    with FakeServer(script) as server:
        run(main(server.address))


def test_sends_a_settle_once_more_after_a_loss(run):
    async def main(address):
        async with AsyncClient(address) as client:
            await client.ping()
            await client.settle(5)
    with FakeServer(lose("settle", True), serve_quotas) as server:
        run(main(server.address))
    assert kinds(server.returned[1]) == ["settle"]


def test_the_failure_policy_decides(run):
    async def main(address):
        async with AsyncClient(address, on_failure="open") as client:
            async with client.reserve("m") as reservation:
                assert reservation.decided_by_policy
            with pytest.raises(sluicegate.Unreachable):
                await client.record("m")
        async with AsyncClient(address, on_failure="closed", timeout=0.2, pending_max=1) as client:
            with pytest.raises(sluicegate.QuotaDenied) as raised:
                await client.reserve("m")
            assert raised.value.code is QuotaCode.DENIED_BY_POLICY
    run(main(unused_address()))


def test_a_lease_is_renewed_until_it_is_released(run):
    renewed = threading.Semaphore(0)
    script = grant_leases(renewed)

    async def main(address):
        async with AsyncClient(address) as client:
            async with client.lease("printer", lifetime=1.2, renew=True) as lease:
                for _ in range(2):
                    assert await asyncio.get_running_loop().run_in_executor(
                        None, lambda: renewed.acquire(timeout=TIMEOUT_S))
                assert lease.held
            assert not lease.held
            await until(lease._renewal.done)
    with FakeServer(script) as server:
        run(main(server.address))
    assert kinds(server.returned[0])[0] == "reserve" and kinds(server.returned[0])[-1] == "cancel"


def test_a_lost_lease_is_not_held(run):
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.quota_answers(peer.read("extend"), b"\x1f")
        peer.read()

    async def main(address):
        async with AsyncClient(address) as client:
            lease = await client.lease("printer", lifetime=1.5, renew=True)
            await until(lambda: not lease.is_open)
            assert not lease.held
    with FakeServer(script) as server:
        run(main(server.address))


def test_a_lease_is_not_held_after_a_shorter_lifetime_of_an_unanswered_extend(run):
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.read("extend")
        peer.read()

    async def main(address):
        async with AsyncClient(address) as client:
            lease = await client.lease("printer", lifetime=30)
            with pytest.raises(sluicegate.TimedOut):
                await lease.extend(0.01, timeout=0.05)
            assert lease.is_open and not lease.held
    with FakeServer(script) as server:
        run(main(server.address))


def test_a_lifetime_begins_with_the_call_not_with_the_answer(run):
    lifetime = 0.2

    async def main(address):
        async with AsyncClient(address) as client:
            lease = await client.lease("printer", lifetime=lifetime)
            assert not lease.held
            await lease.extend()
            assert not lease.held
            await lease.extend(30)
            assert lease.held
            await lease.extend(lifetime)
            assert not lease.held
    with FakeServer(answer_late(lifetime)) as server:
        run(main(server.address))


def test_a_cancelled_stream_is_charged_for_what_it_has_reported(run):
    assert cancelled_stream(run, [10, 25]) == (
        ["reserve", "settle"], {"outputTokens": [25]})


@pytest.mark.parametrize(("on_exception", "last"), [("charge_all", "settle"), ("refund", "cancel")])
def test_a_cancelled_stream_is_charged_as_on_exception_says(run, on_exception, last):
    assert cancelled_stream(run, [10, 25], on_exception=on_exception) == (
        ["reserve", last], {})


def test_on_exception_must_be_one_of_three(run):
    async def main():
        async with AsyncClient(unused_address()) as client:
            with pytest.raises(sluicegate.InvalidArgument, match="on_exception"):
                await client.reserve("m", on_exception="charge")
    run(main())
