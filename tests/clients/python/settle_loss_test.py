"""A settle outlives an outage: the client repeats it until a server takes it, or the lifetime ends.

Method: a scripted server that is lost before, while and after it decides; one that has forgotten
the reservation; both clients. kept_settles_test.py has the book by itself.
"""

import asyncio
import logging
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from awaited import AwaitedClient
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from quota_scripts import serve_quotas
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import AsyncClient, Client, QuotaCode, SettleCounts

ID = 0x0100_0000_0000_0001  # of the first reservation of serve_quotas
UNKNOWN, SETTLED, EXPIRED = b"\x1c", b"\x1d", b"\x1f"
SOON = {"backoff": (0.001, 0.01)}


@pytest.fixture(params=[Client, AwaitedClient])
def make(request):
    """A client with a failure policy, threads' or asyncio's."""
    def make(address, **options):
        return request.param(address, **({"on_failure": "open"} | SOON | options))
    return make


def reserve_then(*answers):
    """Admits a reserve as reservation ID; then answers settles so: codes, or None: by a loss."""
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[ID])
        return answer_in_turn(peer, answers)
    return script


def then(*answers):
    def script(peer):
        peer.welcome()
        return answer_in_turn(peer, answers)
    return script


def answer_in_turn(peer, answers):
    received = []
    for codes in answers:
        received.append(peer.read())
        if codes is None:
            return received
        peer.quota_answers(received[-1], codes)
    peer.read()
    return received


def await_counts(client, **expected):
    eventually(lambda: client.settles == SettleCounts(**expected),
               f"{expected}; it is {client.settles}")


def bodies(server):
    """The settles and records of all connections, without empty fields."""
    return [(frame.kind, {name: value for name, value in frame.body.items() if value})
            for frames in server.returned for frame in frames]


def test_lost_before_while_and_after_the_server_decides(make):
    """After two losses a foreground settle has failed; in the end it has been taken before."""
    with FakeServer(reserve_then(None), then(None), then(None), then(SETTLED)) as server, \
            make(server.address) as client:
        client.reserve("m", input_tokens=900).settle(880, 312)  # raises nothing
        await_counts(client, settled=1)
    sent = bodies(server)
    assert [kind for kind, _ in sent] == ["settle"] * 4
    assert all(body["reservations"] == [ID] and body["inputTokens"] == [880]
               and body["outputTokens"] == [312] for _, body in sent)


def test_a_silent_server_is_asked_again(make):
    def silent(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[ID])
        peer.read("settle")
        settles = 1
        while (frame := peer.read()) is not None:
            settles += 1
            peer.quota_answers(frame)
        return settles
    with FakeServer(silent) as server, make(server.address) as client:
        client.reserve("m").settle(1, 1, timeout=IN_QUEUE_BEFORE_S)
        await_counts(client, settled=1)
    assert server.returned == [2]


def test_a_server_that_has_forgotten_the_reservation_gets_a_record(make):
    with FakeServer(reserve_then(UNKNOWN, b"\1")) as server, make(server.address) as client:
        client.reserve(["m", "acme"], input_tokens=900, max_output_tokens=500, cost=7).settle(
            output_tokens=312)
        await_counts(client, recorded=1)
    (_, record), = [sent for sent in bodies(server) if sent[0] != "settle"]
    assert (record["subjects"], record["ids"]) == (b"macme", f"settle-{ID:016x}".encode())
    assert (record["inputTokens"], record["outputTokens"], record["costs"]) == ([900], [312], [7])


def test_a_record_that_is_lost_is_repeated_under_its_id(make):
    with FakeServer(reserve_then(UNKNOWN, None), then(None), then(b"\1")) as server, \
            make(server.address) as client:
        client.reserve("m", input_tokens=900).settle(880)
        await_counts(client, recorded=1)
    records = [body for kind, body in bodies(server) if kind == "record"]
    assert len(records) == 3 and {record["ids"] for record in records} == {
        f"settle-{ID:016x}".encode()}


def test_of_a_plain_id_the_client_does_not_know_the_subjects(make):
    with FakeServer(then(UNKNOWN)) as server, make(server.address) as client:
        with pytest.raises(sluicegate.UnknownReservation):
            client.settle(ID, 880)
        assert client.settles == SettleCounts()


def test_a_plain_id_is_repeated_all_the_same(make):
    with FakeServer(then(None), then(None), then(b"\1")) as server, \
            make(server.address) as client:
        client.settle(f"{ID:016x}", 880)
        await_counts(client, settled=1)


@pytest.mark.parametrize("code, error", [(EXPIRED, sluicegate.ReservationEnded),
                                         (b"\x1e", sluicegate.ReservationEnded)])
def test_an_answer_that_no_repeat_changes_is_raised(make, code, error):
    with FakeServer(reserve_then(code)) as server, make(server.address) as client:
        with pytest.raises(error):
            client.reserve("m").settle(1)
        assert client.settles == SettleCounts()


def test_without_a_policy_the_caller_decides(make):
    with FakeServer(reserve_then(None), then(None)) as server, \
            make(server.address, on_failure="error") as client:
        with pytest.raises(sluicegate.ConnectionLost):
            client.reserve("m").settle(1)
        assert client.settles == SettleCounts()


def test_settle_nowait_waits_for_nobody(make):
    """Under every policy; the server gets it all the same."""
    with FakeServer(reserve_then(None), then(None), then(b"\1")) as server, \
            make(server.address, on_failure="error") as client:
        reservation = client.reserve("m")
        reservation.settle_nowait(1, 2)
        assert not reservation.is_open
        await_counts(client, settled=1)
        with pytest.raises(sluicegate.InvalidArgument, match="input_tokens"):
            client.settle_nowait(ID, -1)


def test_many_share_a_frame(make):
    with FakeServer(serve_quotas) as server, make(server.address) as client:
        reserved = client.reserve_many(["m"] * 100)
        for reservation in reserved.reservations:
            client.settle_nowait(reservation, 1)
        await_counts(client, settled=100)
    settles = [frame for frame in server.returned[0] if frame.kind == "settle"]
    assert sum(len(frame.body["reservations"]) for frame in settles) == 100
    assert len(settles) < 100


def test_a_full_book_refuses(make):
    options = {"kept_settles_max": 1, "settle_timeout": 0}
    with make(unused_address(), **options) as client:
        client.settle(1, 5)
        with pytest.raises(sluicegate.Unreachable):
            client.settle(2, 5)
        with pytest.raises(sluicegate.Overloaded, match="1 settles are kept"):
            client.settle_nowait(2, 5)
        client.settle(1, 5)  # a repeat needs no room
        assert client.settles == SettleCounts(kept=1)


def test_a_lifetime_that_ends_ends_the_repeats(make, caplog):
    with FakeServer(reserve_then(None)) as server, make(
            server.address, connect_timeout=IN_QUEUE_BEFORE_S) as client:
        client.reserve("m", lifetime=IN_QUEUE_BEFORE_S).settle(1)
        server._listener.close()
        await_counts(client, lost=1)
        eventually(lambda: "no server took them before the end of the lifetime" in caplog.text,
                   "a line")


def test_an_extended_lifetime_counts_from_the_extension(make):
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[ID])
        peer.quota_answers(peer.read("extend"))
        peer.read("settle")
    with FakeServer(script) as server, make(
            server.address, settle_timeout=0, connect_timeout=IN_QUEUE_BEFORE_S) as client:
        reservation = client.reserve("m", lifetime=IN_QUEUE_BEFORE_S)
        reservation.extend(10 * TIMEOUT_S)
        reservation.settle(1)
        time.sleep(2 * IN_QUEUE_BEFORE_S)
        assert client.settles == SettleCounts(kept=1)


def test_what_the_policy_admitted_is_recorded(make):
    """No server has it. A caller that settles twice records twice, under one id: the server charges
    one of them."""
    with FakeServer(lambda peer: None, serve_quotas) as server, make(server.address) as client:
        reservation = client.reserve("m", input_tokens=900)
        assert reservation.decided_by_policy
        reservation.settle(880, 312)
        reservation.settle(880, 312)
        eventually(lambda: not client.settles.kept and client.settles.recorded, "a record")
    records = server.returned[1]
    assert {frame.kind for frame in records} == {"record"}
    assert {(*frame.body["inputTokens"], *frame.body["outputTokens"]) for frame in records} == {
        (880, 312)}
    ids = {frame.body["ids"] for frame in records}
    assert len(ids) == 1 and ids.pop().startswith(b"settle-")


def test_nothing_is_recorded_of_one_that_was_cancelled_or_used_nothing(make):
    with make(unused_address()) as client:
        client.reserve("m", input_tokens=900).cancel()
        client.lease("m").settle()
        assert client.settles == SettleCounts()


def test_a_block_that_reported_settles_that(make):
    with FakeServer(reserve_then(None), then(None), then(b"\1")) as server, \
            make(server.address) as client:
        with client.reserve("m") as reservation:
            reservation.report(output_tokens=17)
        await_counts(client, settled=1)
    assert bodies(server)[-1][1]["outputTokens"] == [17]


def test_settle_many_says_which_are_kept(make):
    def first(peer):
        peer.welcome()
        frames = [peer.read("settle"), peer.read("settle")]
        peer.quota_answers(frames[0])
        return frames

    def second(peer):
        peer.welcome()
        peer.read("settle")
    with FakeServer(first, second, serve_quotas) as server, \
            make(server.address, frame_entries_max=2) as client:
        results = client.settle_many([1, 2, 3, 4], input_tokens=5)
        assert list(results) == [QuotaCode.OK] * 2 + [QuotaCode.KEPT] * 2
        assert not results.all_admitted
        await_counts(client, settled=2)


def test_settle_many_without_a_policy_or_room_raises(make):
    for options in ({"on_failure": "error"}, {"kept_settles_max": 1, "settle_timeout": 0}):
        with make(unused_address(), **options) as client:
            with pytest.raises(sluicegate.Unreachable) as raised:
                client.settle_many([1, 2])
            assert list(raised.value.partial) == [QuotaCode.NONE] * 2


def test_close_gives_what_is_kept_a_last_chance(make):
    """The pause after the failures would be longer than the test."""
    with FakeServer(reserve_then(None), then(None), then(None), then(b"\1")) as server:
        with make(server.address, backoff=(0.05, 1e6), settle_timeout=TIMEOUT_S) as client:
            client.reserve("m").settle(1)
        assert client.settles == SettleCounts(settled=1)


def test_close_does_not_wait_longer_than_its_time(make, caplog):
    with make(unused_address(), settle_timeout=0.05) as client:
        client.settle(ID, 5)
        client.close()
        assert client.settles == SettleCounts(lost=1)
        with pytest.raises(sluicegate.Closed):
            client.settle_nowait(ID, 5)
    line, = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.getMessage() == (
        "settles lost: 1 (the client was closed before a server took them): "
        f"reservation {ID:016x}")


def test_the_log_says_once_that_settles_are_kept(make, caplog):
    with make(unused_address(), settle_timeout=0) as client:
        for reservation in range(1, 6):
            client.settle(reservation, 5)
    warning, = [record.getMessage() for record in caplog.records
                if record.levelno == logging.WARNING and "repeated" in record.getMessage()]
    assert warning.startswith("the settle of reservation 0000000000000001, and those that follow, "
                              "are repeated until a server takes them: ")


def test_a_handler_of_the_log_may_call_the_client():
    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(client.settles)
            client.settle_nowait(7, 1) if len(seen) == 1 else None
    seen = []
    handler = Handler()
    logging.getLogger("sluicegate").addHandler(handler)
    try:
        with Client(unused_address(), on_failure="open", settle_timeout=0.02, **SOON) as client:
            client.settle(1, 5)
    finally:
        logging.getLogger("sluicegate").removeHandler(handler)
    assert len(seen) >= 2


def test_a_cancelled_task_leaves_its_settle_to_the_client():
    asked = threading.Event()

    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[ID])
        peer.read("settle")
        asked.set()
        peer.quota_answers(peer.read("settle"), SETTLED)
        peer.read()

    async def main(address):
        async with AsyncClient(address, on_failure="closed", **SOON) as client:
            reservation = await client.reserve("m")
            task = asyncio.ensure_future(reservation.settle(1, 2))
            while not asked.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.settles == SettleCounts(kept=1)
            while client.settles.kept:
                await asyncio.sleep(0.001)
            assert client.settles == SettleCounts(settled=1)
    with FakeServer(script) as server:
        asyncio.run(asyncio.wait_for(main(server.address), 2 * TIMEOUT_S))


# ---- a server that has forgotten the reservation, restarted or not -------------------------------

OF_A_LONE_SERVER = 0x1234


def forgets(start, *answers):
    """A connection to a server of this start: admits, or answers settles and records so."""
    def script(peer):
        peer.welcome(instanceId=start)
        received = []
        for codes in answers:
            frame = peer.read()
            if frame is None:
                return received
            received.append(frame)
            if codes is None:
                return received
            peer.quota_answers(frame, codes, **(
                {"reservations": [OF_A_LONE_SERVER]} if frame.kind == "reserve" else {}))
        peer.read()
        return received
    return script


@pytest.mark.parametrize("start, counts, kinds", [
    (1, SettleCounts(settled=1), ["reserve", "settle", "settle", "settle"]),
    (2, SettleCounts(recorded=1), ["reserve", "settle", "settle", "settle", "record"])])
def test_usage_is_recorded_only_if_the_server_was_restarted(make, start, counts, kinds):
    """Else it has charged the settle whose answer was lost, and has forgotten it since."""
    with FakeServer(forgets(1, b"\1", None), forgets(1, None), forgets(start, UNKNOWN, b"\1")) \
            as server, make(server.address, settle_timeout=TIMEOUT_S) as client:
        client.reserve("m", input_tokens=900).settle(880, 312)
        assert client.flush_settles(TIMEOUT_S)
        assert client.settles == counts
    assert [frame.kind for frames in server.returned for frame in frames] == kinds


def test_a_settle_that_no_restart_explains_is_raised(make):
    with FakeServer(forgets(1, b"\1", UNKNOWN)) as server, make(server.address) as client:
        with pytest.raises(sluicegate.UnknownReservation):
            client.reserve("m").settle(1)
        assert client.settles == SettleCounts()


# ---- blocks --------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["settle", "settle_nowait", "settle_many"])
def test_a_block_does_not_cancel_what_the_client_settles(make, how):
    with FakeServer(serve_quotas) as server, make(server.address) as client:
        with client.reserve("m") as reservation:
            plain = getattr(reservation, "_wrapped", reservation)
            getattr(client, how)([plain] if how == "settle_many" else plain)
            assert not reservation.is_open
        assert client.flush_settles(TIMEOUT_S)
    assert [frame.kind for frame in server.returned[0]] == ["reserve", "settle"]


def test_a_block_whose_settle_cannot_be_kept_is_counted_and_logged(make, caplog):
    options = {"kept_settles_max": 0, "settle_timeout": 0}
    with FakeServer(reserve_then(None), then(None)) as server, \
            make(server.address, **options) as client:
        with client.reserve("m") as reservation:
            reservation.report(output_tokens=5)
        assert client.settles == SettleCounts(lost=1)
    line, = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert line.startswith("settles lost: 1 (") and f"{ID:016x}" in line


# ---- what disturbs the delivery ------------------------------------------------------------------

def test_a_handler_of_the_log_that_raises_stops_nothing(make):
    class Handler(logging.Handler):
        def emit(self, record):
            raise RuntimeError("a handler")
    handler, logger = Handler(), logging.getLogger("sluicegate")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with FakeServer(reserve_then(None), then(None), then(b"\1")) as server, \
                make(server.address) as client:
            client.reserve("m").settle(1)
            await_counts(client, settled=1)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def test_a_thread_that_cannot_be_started_is_tried_again(monkeypatch):
    starts = iter([False, True])

    def start_thread(self, *arguments):
        if not next(starts, True):
            raise RuntimeError("can't start new thread")
        real(self, *arguments)
    real = sluicegate._system.System.start_thread
    monkeypatch.setattr(sluicegate._system.System, "start_thread", start_thread)
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        client.settle_nowait(1, 5)
        assert client.settles == SettleCounts(kept=1)
        assert client.flush_settles(TIMEOUT_S) and client.settles == SettleCounts(settled=1)


def test_settles_whose_task_was_cancelled_are_delivered_all_the_same(caplog):
    async def main(address):
        async with AsyncClient(address, settle_timeout=TIMEOUT_S, **SOON) as client:
            client.settle_nowait(1, 5)
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
            assert client.settles == SettleCounts(kept=1)
        assert client.settles == SettleCounts(settled=1)
    with FakeServer(serve_quotas) as server:
        asyncio.run(main(server.address))
    assert "1 settles are kept, and the task that repeats them was cancelled" in caplog.text


def test_a_block_that_a_cancelled_task_leaves_does_not_wait_for_the_server():
    """It is settled all the same, in the background."""
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[ID])
        settle = peer.read("settle")
        left.wait(TIMEOUT_S)
        peer.quota_answers(settle)
        peer.read()
        return settle.body["outputTokens"]
    left = threading.Event()

    async def stream(client, started):
        async with client.reserve("m") as reservation:
            reservation.report(output_tokens=17)
            started.set()
            await asyncio.sleep(10 * TIMEOUT_S)

    async def main(address):
        async with AsyncClient(address, timeout=None, settle_timeout=TIMEOUT_S) as client:
            started = asyncio.Event()
            task = asyncio.ensure_future(stream(client, started))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            left.set()
            assert await client.flush_settles(TIMEOUT_S)
            assert client.settles == SettleCounts(settled=1)
    with FakeServer(script) as server:
        asyncio.run(asyncio.wait_for(main(server.address), 4 * TIMEOUT_S))
    assert server.returned == [[17]]


def test_a_cancelled_settle_many_is_kept():
    asked = threading.Event()

    def script(peer):
        peer.welcome()
        peer.read("settle")
        asked.set()
        peer.quota_answers(peer.read("settle"), SETTLED)
        peer.read()

    async def main(address):
        async with AsyncClient(address, on_failure="open", **SOON) as client:
            task = asyncio.ensure_future(client.settle_many([1, 2]))
            while not asked.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.settles == SettleCounts(kept=2)
            assert await client.flush_settles() and client.settles == SettleCounts(settled=2)
    with FakeServer(script) as server:
        asyncio.run(asyncio.wait_for(main(server.address), 2 * TIMEOUT_S))


def test_a_close_that_is_cancelled_closes_all_the_same():
    async def main():
        client = AsyncClient(unused_address(), settle_timeout=10 * TIMEOUT_S, **SOON)
        client.settle_nowait(1, 5)
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0.05)
        with pytest.raises(sluicegate.Closed):
            client.settle_nowait(2, 5)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert client.settles == SettleCounts(lost=1)
        with pytest.raises(sluicegate.Closed):
            await client.ping()
    asyncio.run(asyncio.wait_for(main(), 2 * TIMEOUT_S))


def test_an_asyncio_client_settles_in_its_own_loop_only():
    async def main(address):
        async with AsyncClient(address) as client:
            with pytest.raises(sluicegate.SluicegateError, match="in its own event loop only"):
                await asyncio.to_thread(client.settle_nowait, 1, 5)
            assert client.settles == SettleCounts()
    asyncio.run(main(unused_address()))


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_a_program_that_ends_without_close_says_what_it_loses(kind):
    program = f"""
import asyncio, sluicegate
async def main():
    global client
    client = sluicegate.{kind}("{unused_address()}", on_failure="open")
    client.settle_nowait(1, 5)
    client.settle_nowait(2, 5)
    await asyncio.sleep(0.1)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=2 * TIMEOUT_S, check=True, env=os.environ | {
                              "PYTHONPATH": str(pathlib.Path(sluicegate.__file__).parents[1])})
    assert "settles lost: 2 (the program ends, and the client of 127.0.0.1:" in done.stderr


def test_flush_settles_has_a_time_of_its_own(make):
    with make(unused_address(), settle_timeout=0) as client:
        assert client.flush_settles()
        client.settle_nowait(1, 5)
        assert not client.flush_settles(0.05)
        with pytest.raises(sluicegate.InvalidArgument, match="timeout"):
            client.flush_settles(-1)
