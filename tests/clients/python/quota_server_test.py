"""Both clients' quotas against the real server: no reservation leaks, whatever ends it.

Method: every call on a server per engine, and its effect on usage; clients that are killed, a
server that is restarted. Each test has its own subjects, so one server serves them all.
"""

import asyncio
import contextlib
import itertools
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest
from real_server import client, server  # noqa: F401  (fixtures)
from server_process import ServerProcess, eventually
from threads import in_thread

import sluicegate
from sluicegate import (AsyncClient, Client, InvalidSubject, Limit, Quota, QuotaCode, QuotaDenied,
                        _frames, _quota_frames)

HOUR_S = 3_600
NUMBERS = itertools.count(1)


def address_of(server):
    return f"127.0.0.1:{server.native_port}"


@pytest.fixture
def subject():
    return f"subject{next(NUMBERS)}"


TOKENS = Limit("tokens", "tokens", 1_000, HOUR_S)
SLOTS = Limit("slots", "concurrency", 2)


def used(client, subject):
    """(used, reserved) of the first limit."""
    limit = client.usage(subject).limits[0]
    return limit.used, limit.reserved


TOO_LONG = "s" * 2_000
NAMED = [lambda client: client.usage(TOO_LONG), lambda client: client.usage(["s", TOO_LONG]),
         lambda client: client.get_quota(TOO_LONG), lambda client: client.remove_quota(TOO_LONG),
         lambda client: client.reset(TOO_LONG), lambda client: client.reserve(TOO_LONG),
         lambda client: client.put_quota(TOO_LONG, [TOKENS])]


def is_one_of_a_long_subject(error):
    return (error.code is QuotaCode.INVALID_SUBJECT and "s" * 80 in str(error)
            and re.match(r"subjects\[[01]\] \(2000 bytes\), s", str(error)) is not None
            and "(--max-key-bytes)" in str(error) and len(str(error)) < 300)


@pytest.mark.parametrize("call", NAMED)
def test_a_subject_that_is_too_long_fails_its_call_alone(client, subject, call):
    client.put_quota(subject, [SLOTS])
    with client.lease(subject):  # would end with the connection
        with pytest.raises(InvalidSubject) as raised:
            call(client)
        assert is_one_of_a_long_subject(raised.value)
        assert client.usage(subject).open_reservations == 1


@pytest.mark.parametrize("call", NAMED)
def test_a_subject_that_is_too_long_fails_its_coroutine_alone(server, subject, call):
    async def calls():
        async with AsyncClient(address_of(server)) as client:
            await client.put_quota(subject, [SLOTS])
            async with client.lease(subject):
                with pytest.raises(InvalidSubject) as raised:
                    await call(client)
                assert is_one_of_a_long_subject(raised.value)
                assert (await client.usage(subject)).open_reservations == 1
    asyncio.run(calls())


def test_a_reservation_is_charged_and_settled(client, subject):
    client.put_quota(subject, [TOKENS, SLOTS])
    with client.reserve(subject, input_tokens=300, max_output_tokens=200, limits=True) as held:
        assert held.code is QuotaCode.OK and held.id
        assert {limit.name: limit.used for limit in held.limits} == {"tokens": 500, "slots": 1}
        assert used(client, subject) == (500, 500)
        assert client.usage(subject).open_reservations == 1
        held.settle(250, 100)
        held.settle(250, 100)  # a repeat changes nothing
    assert used(client, subject) == (350, 0)
    assert client.usage(subject).limits[1].used == 0
    with pytest.raises(sluicegate.ReservationEnded) as raised:
        held.cancel()
    assert raised.value.code is QuotaCode.ALREADY_SETTLED


def test_a_block_without_settle_refunds(client, subject):
    client.put_quota(subject, [TOKENS])
    with client.reserve(subject, input_tokens=300):
        pass
    assert used(client, subject) == (0, 0)
    with pytest.raises(ZeroDivisionError), client.reserve(subject, input_tokens=300):
        1 / 0
    assert used(client, subject) == (0, 0)


@pytest.mark.parametrize(("on_exception", "charged"), [
    ("charge_reported", 125), ("charge_all", 600), ("refund", 0)])
def test_a_stream_that_breaks_is_charged(client, subject, on_exception, charged):
    client.put_quota(subject, [TOKENS])
    with pytest.raises(RuntimeError), client.reserve(
            subject, input_tokens=100, max_output_tokens=500,
            on_exception=on_exception) as reservation:
        for tokens in (10, 25):
            reservation.report(output_tokens=tokens)
        assert used(client, subject) == (600, 600)
        raise RuntimeError
    assert used(client, subject) == (charged, 0)


def test_a_denial_charges_nothing_and_names_the_limit(client, subject):
    tag = f"{{{subject}}}"
    client.put_quota(tag, [Limit("all", "tokens", 10_000, HOUR_S)])
    client.put_quota(tag + "model", [TOKENS])
    client.record(tag + "model", input_tokens=900)
    with pytest.raises(QuotaDenied) as raised:
        client.reserve([tag, tag + "model"], input_tokens=200)
    error = raised.value
    assert error.code is QuotaCode.TOKENS_EXCEEDED and error.retryable and error.retry_after > 0
    limit, = error.violated
    assert (limit.name, limit.amount, limit.used, limit.remaining, limit.subject) == (
        "tokens", 1_000, 900, 100, 1)
    assert f"; {tag}model tokens: 900 of 1000 used; " in str(error)
    assert used(client, tag) == (0, 0)
    with pytest.raises(QuotaDenied) as raised:
        client.reserve([tag, tag + "model"], input_tokens=2_000)
    assert raised.value.code is QuotaCode.EXCEEDS_LIMIT and raised.value.retry_after is None


def test_subjects_that_the_server_does_not_take_are_no_denial(server, subject):
    def refuse(client):
        for call in (client.reserve, client.check, client.record, client.wait_for_capacity):
            more = (1,) if call == client.wait_for_capacity else ()
            with pytest.raises(sluicegate.InvalidSubject) as raised:
                call("x" * 2_000, *more)
            assert not isinstance(raised.value, QuotaDenied)
            assert isinstance(raised.value, (sluicegate.InvalidArgument, ValueError))
            assert raised.value.code is QuotaCode.INVALID_SUBJECT
        with pytest.raises(sluicegate.InvalidSubject):
            client.put_quota("x" * 2_000, [])

    async def main():
        async with AsyncClient(address_of(server)) as client:
            with pytest.raises(sluicegate.InvalidSubject):
                await client.reserve("x" * 2_000, wait=True)
            with pytest.raises(sluicegate.InvalidSubject):
                await client.check("x" * 2_000)
            with pytest.raises(sluicegate.InvalidSubject):
                await client.record("x" * 2_000)
    for on_failure in ("error", "open", "closed"):  # a mistake under every policy
        with Client(address_of(server), on_failure=on_failure) as client:
            refuse(client)
    asyncio.run(main())


def test_an_invalid_quota_names_the_limit_and_the_field(server, client, subject):
    wrong = [Limit("a", "requests", 1, kind="calendar", period="day", time_zone="Mars/Olympus"),
             Limit("b", "tokens", 1, 60), Limit("b", "tokens", 2, 60)]

    async def main():
        async with AsyncClient(address_of(server)) as other:
            await other.put_quota(subject, wrong)
    for put in (lambda: client.put_quota(subject, wrong), lambda: asyncio.run(main())):
        with pytest.raises(sluicegate.InvalidQuota) as raised:
            put()
        assert 'limits[0] ("a"), time_zone: there is no "Mars/Olympus"' in raised.value.detail
        assert 'limits[2] ("b"), name: is also the name' in raised.value.detail
        assert raised.value.detail in str(raised.value)
        assert isinstance(raised.value, sluicegate.InvalidArgument)
    assert client.get_quota(subject) is None


def test_a_repeat_with_the_same_id_gets_the_first_reservation(client, subject):
    client.put_quota(subject, [TOKENS])
    first = client.reserve(subject, input_tokens=300, id="mine")
    assert client.reserve(subject, input_tokens=300, id="mine").id == first.id
    assert used(client, subject) == (300, 300)


def test_a_settle_serves_the_queue(client, subject):
    client.put_quota(subject, [TOKENS])
    first = client.reserve(subject, input_tokens=900)
    second = in_thread(client.wait_for_capacity, subject, 400)
    eventually(lambda: client.usage(subject).waiting == 1, "it is queued")
    first.settle(100, 0)
    second().settle(400, 0)
    assert used(client, subject) == (500, 0)


def test_withdraws_an_abandoned_wait(client, subject):
    client.put_quota(subject, [SLOTS])
    leases = [client.lease(subject) for _ in range(2)]
    with pytest.raises(sluicegate.TimedOut):
        client.lease(subject, wait=True, timeout=0.05)
    eventually(lambda: client.usage(subject).waiting == 0, "the queue is empty")
    with pytest.raises(QuotaDenied) as raised:
        client.lease(subject, wait=True, wait_limit=0.05)
    assert raised.value.code is QuotaCode.WAIT_LIMIT
    for lease in leases:
        lease.release()
    assert used(client, subject) == (0, 0)


def test_leases_are_slots(client, subject):
    client.put_quota(subject, [SLOTS, Limit("requests", "requests", 1, HOUR_S)])
    with client.lease(subject), client.lease(subject, owner="me"):
        with pytest.raises(QuotaDenied) as raised:
            client.lease(subject)
        assert raised.value.code is QuotaCode.CONCURRENCY_EXCEEDED
    assert used(client, subject) == (0, 0)


def test_renewal_keeps_a_lease_and_without_it_the_lifetime_ends_it(client, subject):
    client.put_quota(subject, [SLOTS])
    with client.lease(subject, lifetime=1, renew=True) as renewed:
        client.lease(subject, lifetime=1)
        assert used(client, subject)[0] == 2
        eventually(lambda: used(client, subject)[0] == 1, "the one without renewal ends")
        threading.Event().wait(0.5)
        assert renewed.held and used(client, subject)[0] == 1
    assert used(client, subject)[0] == 0


def test_a_connection_bound_reservation_ends_with_its_connection(server, client, subject):
    client.put_quota(subject, [SLOTS])
    with Client(address_of(server)) as other:
        connection_bound, free = other.lease(subject, connection_bound=True), other.lease(subject)
        assert used(client, subject)[0] == 2
    eventually(lambda: used(client, subject)[0] == 1, "the connection-bound one ends")
    with pytest.raises(sluicegate.ReservationEnded) as raised:
        client.extend(connection_bound.id)
    assert raised.value.code is QuotaCode.ALREADY_EXPIRED
    client.cancel(free)


def test_a_reservation_outlives_a_lost_connection(client, subject):
    client.put_quota(subject, [TOKENS])
    held = client.reserve(subject, input_tokens=300)
    client._socket.shutdown(socket.SHUT_RDWR)
    held.settle(200, 0)
    assert used(client, subject) == (200, 0)


KILLED = """
import os, signal, sys, sluicegate
client = sluicegate.Client(sys.argv[1])
with client.lease(sys.argv[2], lifetime=0.5), client.lease(sys.argv[2], connection_bound=True):
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_slots_of_a_killed_process_are_freed(server, client, subject):
    client.put_quota(subject, [SLOTS])
    source = os.path.dirname(os.path.dirname(sluicegate.__file__))
    done = subprocess.run([sys.executable, "-c", KILLED, address_of(server), subject],
                          env=os.environ | {"PYTHONPATH": source}, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL and done.stdout == "held\n", done.stderr
    eventually(lambda: used(client, subject)[0] == 0, "both slots are free")


def test_processes_that_are_killed_at_any_moment_leak_nothing(server, client, subject):
    client.put_quota(subject, [SLOTS, TOKENS])

    def work():
        with Client(address_of(server)) as own:
            while True:
                with own.reserve(subject, input_tokens=10, wait=True, lifetime=0.5) as held:
                    held.extend(0.5)
                with own.lease(subject, wait=True, connection_bound=True):
                    pass

    for turn in range(30):
        children = []
        for _ in range(3):
            child = os.fork()
            if not child:
                try:
                    work()
                finally:
                    os._exit(1)
            children.append(child)
        threading.Event().wait(0.002 * turn)
        for child in children:
            os.kill(child, signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
    eventually(lambda: used(client, subject)[0] == 0 and client.usage(subject).waiting == 0,
               "every slot is free")


def test_a_connection_that_ends_at_any_byte_leaks_nothing(server, client, subject):
    """In the middle of a frame too, by a close or by a reset."""
    client.put_quota(subject, [SLOTS])
    names = _quota_frames.encode_subjects([[subject.encode()]] * 3)
    flags = _quota_frames.CONNECTION_BOUND | _quota_frames.MAY_WAIT
    stream = _frames.encode_hello(1) + b"".join(
        _quota_frames.encode_reserve(frame_id, names, _quota_frames.ReserveColumns(flags))
        for frame_id in (2, 3))
    for cut in range(len(stream) + 1):
        with socket.create_connection((server.host, server.native_port)) as peer:
            if cut % 2:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.sendall(stream[:cut])
            if cut % 3 == 0:
                peer.settimeout(0.001)
                with contextlib.suppress(OSError):
                    peer.recv(1 << 16)
    eventually(lambda: used(client, subject)[0] == 0 and client.usage(subject).waiting == 0,
               "every slot is free")


def test_check_changes_nothing_and_record_charges_without_a_decision(client, subject):
    assert client.check(subject).code is QuotaCode.UNKNOWN_SUBJECT_ALLOWED
    decision = client.decide(subject, 1)
    assert decision.code is QuotaCode.UNKNOWN_MODEL  # go-ratelimit's name
    assert decision.reason == "model has no configured quota"  # and its words
    assert client.usage(subject).source == "none" and client.get_quota(subject) is None
    client.put_quota(subject, [Limit("rpm", "requests", 2, 60),
                               Limit("tpm", "tokens", 1_000, 60)])
    assert client.can_send(subject, 1_000) and not client.can_send(subject, 1_001)
    client.record_usage(subject, 600, 500)
    decision = client.decide(subject, 10)
    assert (decision.allowed, str(decision.code), decision.reason) == (
        False, "tpm_exceeded", "per-minute token limit reached")
    assert 0 < decision.retry_after <= 120 and decision.stats.tpm == 1_100
    assert client.stats(subject) == sluicegate.Stats(1, 2, 1_100, 1_000, 0, 0)
    assert client.all_stats()[subject].rpm == 1 and subject in client.models()
    client.reset(subject)
    assert client.can_send(subject, 1_000)


def test_consume_charges_what_fits_and_leaves_nothing_open(client, subject):
    other = subject + ".tenant"
    client.put_quota(subject, [TOKENS])
    client.put_quota(other, [Limit("tph", "tokens", 500, HOUR_S)])
    both = [subject, other]
    charged = client.consume(both, input_tokens=300, output_tokens=100, limits=True)
    assert charged.allowed and [limit.used for limit in charged.limits] == [400, 400]
    assert client.usage(subject).open_reservations == 0
    with pytest.raises(QuotaDenied) as raised:
        client.consume(both, input_tokens=101)
    assert [limit.subject for limit in raised.value.violated] == [1]
    assert [used(client, each)[0] for each in both] == [400, 400]
    for _ in range(2):  # a repeat is charged once
        client.consume(both, input_tokens=50, id="job 7")
        client.record(both, input_tokens=20, id="job 8")
    with pytest.raises(sluicegate.QuotaError):
        client.record(both, input_tokens=20, id="job 7")
    assert [used(client, each)[0] for each in both] == [470, 470]
    results = client.consume_many([both, [other]], input_tokens=[30, 1])
    assert results.admitted == [True, False]


def test_consume_waits_for_room(client, subject):
    client.put_quota(subject, [SLOTS])
    slots = [client.reserve(subject) for _ in range(SLOTS.amount)]
    waiting = in_thread(client.consume, subject, wait=True)
    eventually(lambda: client.usage(subject).waiting == 1, "it waits")
    slots[0].cancel()
    assert waiting().allowed
    client.reserve(subject)  # the slot is free again
    with pytest.raises(QuotaDenied):
        client.consume(subject, wait=True, wait_limit=0.01)


def test_cached_tokens_are_charged_where_the_limit_counts_them(client, subject):
    client.put_quota(subject, [TOKENS, Limit("all", "tokens", 1_000, HOUR_S, count_cached=True)])
    client.reserve(subject, input_tokens=500).settle(400, 100, cached_input_tokens=300)
    client.record(subject, input_tokens=50, cached_input_tokens=50)
    assert [limit.used for limit in client.usage(subject).limits] == [200, 550]


def test_get_quota_returns_quotas_of_every_kind(client, subject):
    quota = Quota((
        TOKENS, SLOTS, Limit("fixed", "requests", 5, 10, "fixed"),
        Limit("gcra", "cost", 2**63 - 1, 60, "gcra"),
        Limit("day", "requests", 0, kind="anchored_day"),
        Limit("rolling", "input_tokens", "unlimited", kind="rolling_day"),
        Limit("month", "tokens", "block", kind="calendar", period="month",
              time_zone="America/Los_Angeles", count_cached=True)), "refund", 3)
    client.put_quota(subject, quota)
    assert client.get_quota(subject) == quota
    assert client.remove_quota(subject) and not client.remove_quota(subject)
    assert client.get_quota(subject) is None


def test_a_rejected_quota_changes_nothing(client, subject):
    client.put_quota(subject, [TOKENS])
    for wrong in ([TOKENS, TOKENS], [Limit("m", "cost", 1, kind="calendar", period="day",
                                           time_zone="Atlantis/Center")]):
        with pytest.raises(sluicegate.InvalidQuota):
            client.put_quota(subject, wrong)
    assert client.get_quota(subject) == Quota((TOKENS,))


def test_pages_contain_every_subject(client, subject):
    names = {f"{subject}.{n}" for n in range(600)}
    for name in names:
        client.put_quota(name, [TOKENS])
    subjects = [usage.subject for usage in client.subjects()]
    assert names <= set(subjects)
    usages = client.usage(sorted(names))
    assert [usage.subject for usage in usages] == sorted(names)
    assert {usage.source for usage in usages} == {"run_time"}


def test_entries_of_many_are_decided_independently(client, subject):
    client.put_quota(subject, [Limit("tokens", "tokens", 5_000, HOUR_S)])
    results = client.reserve_many([subject] * 6_000, input_tokens=1)
    assert results.count() == 5_000 and results.count(QuotaCode.TOKENS_EXCEEDED) == 1_000
    ids = [number for number in results.reservations if number]
    assert len(set(ids)) == 5_000 and used(client, subject) == (5_000, 5_000)
    assert client.settle_many(ids[:3_000], input_tokens=0).all_admitted
    assert client.cancel_many(ids[3_000:]).all_admitted
    assert used(client, subject) == (0, 0)
    again = client.settle_many([*ids[:2], ids[-1], 12345])
    assert list(again) == [QuotaCode.OK, QuotaCode.OK, QuotaCode.ALREADY_CANCELLED,
                           QuotaCode.UNKNOWN_RESERVATION]


def test_threads_never_hold_more_than_the_limit(client, subject):
    client.put_quota(subject, [SLOTS])
    lock, holding, most = threading.Lock(), [0], [0]

    def work():
        for _ in range(10):
            with client.lease(subject, wait=True):
                with lock:
                    holding[0] += 1
                    most[0] = max(most[0], holding[0])
                threading.Event().wait(0.001)
                with lock:
                    holding[0] -= 1
    for join in [in_thread(work) for _ in range(12)]:
        join()
    assert most == [2] and used(client, subject) == (0, 0)


def test_tasks_that_are_cancelled_anywhere_leak_nothing(server, client, subject):
    """At every point of the exchange, one loop iteration later each time."""
    client.put_quota(subject, [SLOTS, TOKENS])

    async def work(client):
        async with client.reserve(subject, input_tokens=10, wait=True, lifetime=3600) as held:
            await asyncio.sleep(0.001)
            await held.extend(3600)

    async def main():
        async with AsyncClient(address_of(server)) as client:
            for turns in range(40):
                tasks = [asyncio.ensure_future(work(client)) for _ in range(6)]
                for _ in range(turns):
                    await asyncio.sleep(0.0002)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            while client._dispatcher.pending:  # a Ping overtakes answers of other shards
                await asyncio.sleep(0.001)
            await client.ping()
    asyncio.run(main())
    eventually(lambda: used(client, subject)[0] == 0 and client.usage(subject).waiting == 0,
               "every slot is free")
    assert client.usage(subject).limits[1].used == 0


def test_ids_of_an_earlier_start_are_unknown(subject):
    servers = [ServerProcess("epoll", 1)]
    try:
        with Client(address_of(servers[0])) as client:
            held = client.reserve(subject, input_tokens=5)
            servers[0].kill()
            servers.append(ServerProcess("epoll", 1,
                                         native_port=servers[0].native_port))
            eventually(lambda: answers(client), "connected again")
            with pytest.raises(sluicegate.UnknownReservation):
                held.settle(5, 0)
    finally:
        for server in servers:
            server.stop()


def answers(client):
    try:
        client.ping()
    except sluicegate.ConnectionLost:
        return False
    return True


def test_reset_all_clears_all_usage(client, subject):
    client.put_quota(subject, [TOKENS])
    client.record(subject, input_tokens=600)
    held = client.reserve(subject, input_tokens=300)
    client.reset_all()
    assert used(client, subject)[1] == 300  # open reservations stay
    held.cancel()
    assert used(client, subject) == (0, 0)
