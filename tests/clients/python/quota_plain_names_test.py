"""Calls of both clients that name a model, a tenant and a user, without a tag.

Method: the real server with two and with four shards; each name is the first in turn, since its
shard is the call's home.
"""

import asyncio
import contextlib

import pytest
from real_server import client, serving  # noqa: F401  (a fixture)
from server_process import eventually
from threads import in_thread

from sluicegate import AsyncClient, Limit, QuotaCode, QuotaDenied

HOUR_S = 3_600
SLOT = Limit("slots", "concurrency", 1)


def tokens(amount):
    return Limit("tokens", "tokens", amount, HOUR_S)


@pytest.fixture(scope="module", params=("epoll-2", "epoll-4"))
def server(request):
    with serving(request.param) as server:
        yield server


@pytest.fixture(params=range(3))
def names(client, request):  # noqa: F811
    names = ["gpt-4o", "acme", "user-17"]
    yield names[request.param:] + names[:request.param]
    for name in names:
        client.reset(name)
        client.remove_quota(name)


def used(client, name):  # noqa: F811
    limit = client.usage(name).limits[0]
    return limit.used, limit.reserved


def test_a_guard_settles_or_cancels_them_all(client, names):  # noqa: F811
    for name in names:
        client.put_quota(name, [tokens(1_000)])
    with client.reserve(names, input_tokens=50, max_output_tokens=40) as held:
        assert [used(client, name) for name in names] == [(90, 90)] * 3
        held.settle(30, 10)
    assert [used(client, name) for name in names] == [(40, 0)] * 3
    with contextlib.suppress(ZeroDivisionError), client.reserve(names, input_tokens=90):
        1 / 0
    assert [used(client, name) for name in names] == [(40, 0)] * 3
    assert client.consume(names, input_tokens=5).code is QuotaCode.OK
    client.record(names, input_tokens=5)
    assert client.check(names, input_tokens=950).allowed
    assert [used(client, name) for name in names] == [(50, 0)] * 3


@pytest.mark.parametrize("tight", range(3))
def test_a_denial_names_the_subject_and_charges_nothing(client, names, tight):  # noqa: F811
    for name in names:
        client.put_quota(name, [tokens(100 if name == names[tight] else 1_000)])
    client.record(names[tight], input_tokens=60)
    with pytest.raises(QuotaDenied) as raised:
        client.reserve(names, input_tokens=90)
    error = raised.value
    assert error.code is QuotaCode.TOKENS_EXCEEDED
    limit, = error.violated
    assert (limit.subject, limit.used, limit.remaining) == (tight, 60, 40)
    assert f"; {names[tight]} tokens: 60 of 100 used; " in str(error)
    assert [used(client, name)[0] for name in names] == [
        60 if name == names[tight] else 0 for name in names]


def test_a_lease_holds_a_slot_of_each(client, names):  # noqa: F811
    for name in names:
        client.put_quota(name, [SLOT])
    with client.lease(names):
        for name in names:
            with pytest.raises(QuotaDenied) as raised:
                client.lease(name)
            assert raised.value.code is QuotaCode.CONCURRENCY_EXCEEDED
    assert [used(client, name) for name in names] == [(0, 0)] * 3


@pytest.mark.parametrize("held", range(3))
def test_a_call_waits_for_all_of_them(client, names, held):  # noqa: F811
    for name in names:
        client.put_quota(name, [SLOT])
    lease = client.lease(names[held])
    second = in_thread(client.reserve, names, wait=True)
    eventually(lambda: all(client.usage(name).waiting == 1 for name in names), "it is queued")
    lease.release()
    second().settle()
    assert [used(client, name) for name in names] == [(0, 0)] * 3


def test_many_calls_in_one_frame_never_exceed_the_subject_that_they_share(client, names):  # noqa: F811
    shared = names[0]
    users = [f"user-of-{shared}-{number}" for number in range(50)]
    client.put_quota(shared, [tokens(1_000)])
    for user in users:
        client.put_quota(user, [tokens(100)])
    calls = [[shared, user] if number % 2 else [user, shared] for number, user in enumerate(users)]
    results = client.reserve_many(calls, input_tokens=50, max_output_tokens=0)
    admitted = [place for place, code in enumerate(results) if code is QuotaCode.OK]
    assert admitted == list(range(20)) and used(client, shared) == (1_000, 1_000)
    made = [results.reservations[place] for place in admitted]
    assert all(code is QuotaCode.OK for code in client.settle_many(made, input_tokens=10))
    assert used(client, shared) == (200, 0)
    for user in users:
        client.remove_quota(user)


def test_the_same_in_coroutines(server, client, names):  # noqa: F811
    for name in names:
        client.put_quota(name, [tokens(100), SLOT])

    async def calls():
        async with AsyncClient(f"127.0.0.1:{server.native_port}") as other:
            async with other.reserve(names, input_tokens=90) as held:
                waiting = asyncio.ensure_future(other.reserve(names, input_tokens=60, wait=True))
                while (await other.usage(names[2])).waiting == 0:
                    await asyncio.sleep(0.001)
                await held.settle(30, 0)
            second = await waiting
            await second.settle(20, 0)
            with pytest.raises(QuotaDenied) as raised:
                await other.reserve(names, input_tokens=60)
            assert {limit.subject for limit in raised.value.violated} == {0, 1, 2}
            async with other.lease(names):
                pass
    asyncio.run(calls())
    assert [used(client, name) for name in names] == [(50, 0)] * 3
