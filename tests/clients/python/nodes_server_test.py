"""Limits hold exactly over three real nodes, whichever address the clients were given first, also
while an owner is away; with it back, its keys go there again.

Method: three servers on 127.0.0.1 to 127.0.0.3, clients of both kinds, and the servers' own counts.
"""

import asyncio
import collections
import contextlib
import json
import threading

import pytest
from awaited import AwaitedClient
from fleet import OURS, Fleet, secret_file
from http_peer import metrics
from server_process import TIMEOUT_S, eventually

from sluicegate import (AsyncClient, Client, ConnectionLost, OwnerUnreachable, QuotaError,
                        Verdict)
from sluicegate._nodes import owner_of, owner_of_subject

LIMIT = 50
KEYS = [f"key:{number}" for number in range(30)]


# What an owner counts and does not answer in time no client has: not so where a slow machine lets a
# node stand still.
PATIENT = ["--peer-timeout-millis", "20000", "--peer-silence-millis", "20000"]


@contextlib.contextmanager
def three_nodes(*flags):
    with Fleet([OURS] * 3, "--window-millis", "3600000", "--max-requests", str(LIMIT),
               *flags) as fleet:
        eventually(lambda: all(is_connected(fleet, number) for number in range(3)),
                   "each node knows all others")
        yield fleet


def address(node):
    return f"{node.host}:{node.process.wait_for_message('ready')['nativePort']}"


def addresses(fleet, first=0):
    """All, beginning with this one."""
    return [address(fleet.nodes[(first + number) % 3]) for number in range(3)]


def is_connected(fleet, number):
    """As each shard of the node sees it: each has connections of its own to the others."""
    with Client(address(fleet.nodes[number])) as client:
        client.ping()
        shards = client.welcome.shards
    return all(knows_all(address(fleet.nodes[number]), shard, number) for shard in range(shards))


def knows_all(one, shard, number):
    with Client([one], shard=shard) as client:
        client.ping()
        client.ping()
        topology = client._dispatcher.topology
        assert topology is not None and topology.own_node == number
        return (client.welcome.shard == shard
                and all(node.native_port and node.instance_id for node in topology.nodes))


OPENING = [f"open:{number}" for number in range(30)]


def open_lanes(client):
    return [lane is not None and lane.is_open for lane in client._lanes._nodes._lanes].count(True)


def is_direct(client):
    client.acquire_many(OPENING)
    return open_lanes(client) == 2


async def become_direct(client):
    await succeed(lambda: client.acquire_many(OPENING), "all lanes are open",
                  lambda _: open_lanes(client) == 2)


async def succeed(call, what, is_good=bool):
    """Calls until the result is good; what was under way when a node was killed is lost."""
    for _ in range(int(TIMEOUT_S / 0.01)):
        with contextlib.suppress(ConnectionLost):
            if is_good(await call()):
                return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {TIMEOUT_S} s: {what}")


@pytest.mark.parametrize("first", range(3))
def test_limits_are_exact_over_all_nodes(first):
    with three_nodes(*PATIENT) as fleet, Client(addresses(fleet, first)) as client:
        approved = collections.Counter()

        def ask(many):
            for _ in range(LIMIT // 2):
                if many:
                    approved.update(key for key, verdict in zip(KEYS, client.acquire_many(KEYS))
                                    if verdict)
                else:
                    approved.update(key for key in KEYS if client.acquire(key))
        threads = [threading.Thread(target=ask, args=(many,)) for many in (True, False, True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert approved == dict.fromkeys(KEYS, LIMIT)
        eventually(lambda: is_direct(client), "all lanes are open")
        assert not client.acquire_many(KEYS).count()


def test_limits_are_exact_over_all_nodes_with_asyncio():
    async def ask(fleet):
        async with AsyncClient(addresses(fleet, 1)) as client:
            approved = collections.Counter()
            for _ in range(LIMIT + 5):
                verdicts = await asyncio.gather(*map(client.acquire, KEYS))
                approved.update(key for key, verdict in zip(KEYS, verdicts) if verdict)
            assert approved == dict.fromkeys(KEYS, LIMIT)
            lanes = client._lanes._nodes._lanes
            assert [lane is not None and lane.is_open for lane in lanes] == [True, False, True]
            assert not (await client.acquire_many(KEYS)).count()
            await client.release_many(KEYS, 2)
            assert (await client.acquire_many(KEYS, 2)).all_approved
    with three_nodes(*PATIENT) as fleet:
        asyncio.run(ask(fleet))


def test_a_waiter_is_served_by_its_owner():
    with three_nodes() as fleet, Client(addresses(fleet)) as client:
        eventually(lambda: is_direct(client), "all lanes are open")
        for key in KEYS[:9]:
            assert client.acquire(key, LIMIT, max_requests_in_queue=10)
            timer = threading.Timer(0.05, client.release, (key,))
            timer.start()
            assert client.acquire(key, wait=True, wait_limit=TIMEOUT_S)
            timer.join()


def test_an_owner_that_was_killed_is_asked_directly_again_when_it_is_back():
    with three_nodes() as fleet, Client(addresses(fleet)) as client:
        eventually(lambda: is_direct(client), "all lanes are open")
        keys = [key for key in KEYS if owner_of(key, 3) == 2]
        others = [key for key in KEYS if owner_of(key, 3) != 2]
        fleet.nodes[2].process.kill()

        def is_lost():
            """The other nodes answer for it: by --peer-failure, its owner is unreachable."""
            try:
                return client.acquire(keys[0]) is Verdict.OWNER_UNREACHABLE
            except ConnectionLost:  # what was under way
                return False
        eventually(is_lost, "the others answer for it")
        for key in keys:
            assert client.acquire(key) is Verdict.OWNER_UNREACHABLE
        assert client.acquire_many(others).all_approved
        fleet.nodes[2].start(OURS, fleet.urls, fleet.flags)
        eventually(lambda: client.acquire(keys[1]), "its keys are decided again")
        eventually(lambda: is_direct(client), "all lanes are open")
        verdicts = client.acquire_many(keys[2:] * (LIMIT + 5))
        assert verdicts.count() == LIMIT * len(keys[2:])


def test_an_owner_that_was_killed_is_asked_directly_again_with_asyncio():
    keys = [key for key in KEYS if owner_of(key, 3) == 2]
    others = [key for key in KEYS if owner_of(key, 3) != 2]

    async def ask(fleet):
        async with AsyncClient(addresses(fleet)) as client:
            await become_direct(client)
            fleet.nodes[2].process.kill()
            await succeed(lambda: client.acquire(keys[0]), "the others answer for it",
                          lambda verdict: verdict is Verdict.OWNER_UNREACHABLE)
            verdicts = await asyncio.gather(*map(client.acquire, keys))
            assert set(verdicts) == {Verdict.OWNER_UNREACHABLE}
            assert (await client.acquire_many(others)).all_approved
            fleet.nodes[2].start(OURS, fleet.urls, fleet.flags)
            await succeed(lambda: client.acquire(keys[1]), "its keys are decided again")
            await become_direct(client)
            verdicts = await client.acquire_many(keys[2:] * (LIMIT + 5))
            assert verdicts.count() == LIMIT * len(keys[2:])
    with three_nodes() as fleet:
        asyncio.run(ask(fleet))


def test_the_first_address_may_be_the_one_that_is_killed():
    with three_nodes() as fleet, Client(addresses(fleet)) as client:
        eventually(lambda: is_direct(client), "all lanes are open")
        others = [key for key in KEYS if owner_of(key, 3) != 0]
        fleet.nodes[0].process.kill()
        assert client.acquire_many(others).all_approved

        def is_lost():
            try:
                verdicts = client.acquire_many(KEYS)
            except ConnectionLost:
                return False
            return {verdicts[KEYS.index(key)] for key in KEYS if key not in others} == {
                Verdict.OWNER_UNREACHABLE}
        eventually(is_lost, "another node is home")
        assert client.acquire_many(others).all_approved
        fleet.nodes[0].start(OURS, fleet.urls, fleet.flags)
        eventually(lambda: client.acquire_many(KEYS).all_approved, "all keys are decided again")


def test_the_first_address_may_be_the_one_that_is_killed_with_asyncio():
    others = [key for key in KEYS if owner_of(key, 3) != 0]

    async def ask(fleet):
        async with AsyncClient(addresses(fleet)) as client:
            await become_direct(client)
            fleet.nodes[0].process.kill()
            assert (await client.acquire_many(others)).all_approved
            await succeed(
                lambda: client.acquire_many(KEYS), "another node is home",
                lambda verdicts: {verdicts[KEYS.index(key)] for key in KEYS if key not in others}
                == {Verdict.OWNER_UNREACHABLE})
            assert (await client.acquire_many(others)).all_approved
            fleet.nodes[0].start(OURS, fleet.urls, fleet.flags)
            await succeed(lambda: client.acquire_many(KEYS), "all keys are decided again",
                          lambda verdicts: verdicts.all_approved)
    with three_nodes() as fleet:
        asyncio.run(ask(fleet))


def quota_calls(client, subject):
    """Of each kind, about one subject; of asyncio's client they are awaited."""
    yield client.put_quota(subject, [{"name": "rpm", "metric": "requests", "kind": "fixed",
                                      "period_ms": 3_600_000, "amount": 100},
                                     {"name": "slots", "metric": "concurrency", "amount": 2}])
    yield client.check(subject)
    yield client.consume(subject)
    yield client.record(subject)
    yield client.reserve_many([subject] * 2)
    yield client.usage(subject)
    yield client.reset(subject)
    yield client.remove_quota(subject)


def forwarded(fleet):
    """How many calls and entries the nodes have forwarded to each other."""
    return sum(value for node in fleet.nodes for series, value in metrics(node.process).items()
               if series.startswith("sluicegate_node_forwarded_total{"))


SUBJECTS = [f"subject-{number}" for number in range(6)]


def test_no_node_forwards_a_quota_call_of_one_subject(tmp_path):
    assert {owner_of_subject(name.encode(), 3) for name in SUBJECTS} == {0, 1, 2}
    secret = ("--peer-secret-file", secret_file(tmp_path))
    with three_nodes(*secret) as fleet, Client(addresses(fleet, 1)) as client:
        eventually(lambda: is_direct(client), "all lanes are open")
        before = forwarded(fleet)
        for subject in SUBJECTS:
            for _ in quota_calls(client, subject):
                pass
            with client.reserve(subject) as reservation:
                reservation.extend(30)
                reservation.settle(1, 1)
            with client.lease(subject):
                pass
        results = client.reserve_many(SUBJECTS)
        assert results.all_admitted
        assert client.settle_many(results.reservations).all_admitted
        assert forwarded(fleet) == before
        with Client(address(fleet.nodes[1])) as alone:  # knows no other node
            for subject in SUBJECTS:
                alone.consume(subject)
        assert forwarded(fleet) > before


def test_no_node_forwards_a_quota_call_of_one_subject_with_asyncio(tmp_path):
    async def ask(fleet):
        async with AsyncClient(addresses(fleet, 1)) as client:
            await become_direct(client)
            before = forwarded(fleet)
            for subject in SUBJECTS:
                for call in quota_calls(client, subject):
                    await call
                async with client.reserve(subject) as reservation:
                    await reservation.extend(30)
                    await reservation.settle(1, 1)
            results = await client.reserve_many(SUBJECTS)
            assert (await client.cancel_many(results.reservations)).all_admitted
            assert forwarded(fleet) == before
    secret = ("--peer-secret-file", secret_file(tmp_path))
    with three_nodes(*secret) as fleet:
        asyncio.run(ask(fleet))


def test_quotas_are_one_over_all_nodes(tmp_path):
    secret = ("--peer-secret-file", secret_file(tmp_path))
    with three_nodes(*secret) as fleet, Client(addresses(fleet, 1)) as client:
        eventually(lambda: is_direct(client), "all lanes are open")
        for subject in SUBJECTS:
            client.put_quota(subject, [{"name": "slots", "metric": "concurrency", "amount": 2}])
        with Client(address(fleet.nodes[1])) as alone:
            for subject in SUBJECTS:
                assert alone.get_quota(subject) is not None
                with client.lease(subject):
                    usage = alone.usage(subject)
                    assert usage.limits[0].used == 1
            with client.lease(SUBJECTS):
                assert [usage.limits[0].used for usage in client.usage(SUBJECTS)] == [1] * 6


RELEASES = {
    "release": lambda client, key: client.release(key),
    "release_many": lambda client, key: client.release_many([key, key]),
    "reset_key": lambda client, key: client.reset_key(key),
}


def a_node_without_its_neighbour(fleet):
    """The address of one, and a key of the other, which is dead."""
    fleet.nodes.pop(1).process.kill()
    return address(fleet.nodes[0]), next(key for key in KEYS if owner_of(key, 3) == 1)


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_a_release_that_does_not_reach_the_owner_is_an_error(release):
    with three_nodes() as fleet:
        node, key = a_node_without_its_neighbour(fleet)
        with Client(node) as client:
            with pytest.raises(OwnerUnreachable, match="nothing was released") as caught:
                release(client, key)
            assert caught.value.key == key
            client.release(next(key for key in KEYS if owner_of(key, 3) == 0))


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_a_release_that_does_not_reach_the_owner_is_an_error_with_asyncio(release):
    async def ask(node, key):
        async with AsyncClient(node) as client:
            with pytest.raises(OwnerUnreachable):
                await release(client, key)
    with three_nodes() as fleet:
        asyncio.run(ask(*a_node_without_its_neighbour(fleet)))


QUOTAS = {"quotas": {"subjects": [{"subject": name, "limits": [
    {"name": "tokens", "metric": "tokens", "kind": "fixed", "amount": 10**9,
     "period_ms": 3_600_000}]} for name in SUBJECTS]}}


@pytest.mark.parametrize("kind", [Client, AwaitedClient])
def test_settles_of_a_node_that_is_away_reach_it_when_it_is_back(kind, tmp_path):
    """Those of the others are not held up: their reservations end at once."""
    config = tmp_path / "quotas.json"
    config.write_text(json.dumps(QUOTAS))
    flags = ("--peer-secret-file", secret_file(tmp_path), "--config-file", str(config))
    away = [name for name in SUBJECTS if owner_of_subject(name.encode(), 3) == 1]

    def used(client):
        with contextlib.suppress(QuotaError, ConnectionLost):  # the other nodes find it by and by
            return usage_of_each(client)

    def usage_of_each(client):
        return {usage.subject: (usage.limits[0].used, usage.limits[0].reserved)
                for usage in client.usage(SUBJECTS)}
    with three_nodes(*flags) as fleet, kind(addresses(fleet, 0), on_failure="closed",
                                            backoff=(0.01, 0.05)) as client:
        reserved = [client.reserve(name, input_tokens=10, lifetime=600) for name in SUBJECTS * 5]
        fleet.nodes[1].process.kill()
        for reservation in reserved:
            reservation.settle(7, 0)
        assert client.settles.kept <= 5 * len(away) and not client.settles.lost
        fleet.nodes[1].start(OURS, fleet.urls, fleet.flags)
        eventually(lambda: not client.settles.kept, "all settles taken")
        counts = client.settles
        assert counts.recorded == 5 * len(away) and not counts.lost
        eventually(lambda: used(client) == dict.fromkeys(SUBJECTS, (35, 0)), "usage of each")
