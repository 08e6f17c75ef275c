"""A client of several nodes sends each key to its owner, and what it cannot send there to another
node, without an error.

Method: scripted servers that describe nodes; golden hashes; both clients.
"""

import asyncio
import json
import socket
import threading

import pytest
from fake_server import FakeServer, unused_address
from native_peer import GOLDEN
from nodes_script import (END, FIRST, HANDLED, KEYS, SECOND, Clock, NodeScript, TwoNodes,
                          errors_of_tasks, is_put_off, lane_is_open, nodes, open_lane, port_of,
                          try_lane, was_tried)
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import AsyncClient, Client, Details, Verdict
from sluicegate._lead import IDLE_CHECK_S
from sluicegate._nodes import owner_of


def lose_the_last(_, frame):
    return END if frame.kind == "acquire" and SECOND[-1].encode() in frame.keys else None


@pytest.mark.parametrize("row", json.loads((GOLDEN / "node_hash.json").read_text())["rows"],
                         ids=lambda row: row["key"][:20])
def test_owners_are_those_of_the_golden_file(row):
    for count, owner in row["keyOwners"].items():
        assert owner_of(row["key"], int(count)) == owner
        assert owner_of(row["key"].encode(), int(count)) == owner


def test_each_key_goes_to_its_owner():
    with TwoNodes() as fleet, Client([fleet.address]) as client:
        eventually(lambda: lane_is_open(client), "a lane is open")
        fleet.home.keys.clear()
        fleet.second.keys.clear()
        for key in KEYS:
            assert client.acquire(key)
            client.release(key)
            client.inspect(key)
        assert fleet.home.keys == [key for key in FIRST for _ in range(3)]
        assert fleet.second.keys == [key for key in SECOND for _ in range(3)]


def test_each_key_goes_to_its_owner_with_asyncio():
    async def ask(fleet):
        async with AsyncClient([fleet.address]) as client:
            await open_lane(client)
            fleet.home.keys.clear()
            fleet.second.keys.clear()
            assert all(await asyncio.gather(*map(client.acquire, KEYS)))
            assert fleet.home.keys == FIRST and fleet.second.keys == SECOND
            for key in KEYS:
                await client.release(key)
                await client.inspect(key)
            assert fleet.second.keys == SECOND + [key for key in SECOND for _ in range(2)]
    with TwoNodes() as fleet:
        asyncio.run(ask(fleet))


def test_a_batch_has_its_results_in_its_order():
    with TwoNodes() as fleet, Client([fleet.address], frame_entries_max=2) as client:
        eventually(lambda: lane_is_open(client), "a lane is open")
        verdicts = client.acquire_many(KEYS, list(range(1, 13)), details=Details.REMAINING)
        assert verdicts.all_approved and list(verdicts.remaining) == list(range(12))
        client.release_many(KEYS, 2)
        assert set(fleet.home.keys) & set(SECOND[1:]) == set()
        assert fleet.second.keys[-len(SECOND):] == SECOND
        assert len(client.acquire_many([])) == 0
        with pytest.raises(sluicegate.InvalidArgument, match=r"costs\[3\]"):
            client.acquire_many(KEYS, [1, 1, 1, -1] + [1] * 8)


def test_a_batch_has_its_results_in_its_order_with_asyncio():
    async def ask(fleet):
        async with AsyncClient([fleet.address]) as client:
            await open_lane(client)
            verdicts = await client.acquire_many(KEYS, details=Details.REMAINING)
            assert verdicts.all_approved and list(verdicts.remaining) == list(range(12))
            await client.release_many(KEYS, 2)
            assert fleet.second.keys[-len(SECOND):] == SECOND
    with TwoNodes() as fleet:
        asyncio.run(ask(fleet))


def test_a_string_stays_one_connection():
    with TwoNodes() as fleet:
        with Client(fleet.address) as client:
            assert client.acquire_many(KEYS).all_approved
        assert fleet.home.keys == KEYS and "topology" not in fleet.home.kinds
        with Client(fleet.servers[1].address) as client:  # its script must end, too
            client.ping()


def test_a_server_that_describes_no_nodes_gets_all_keys():
    def old(peer):
        peer.welcome(features=15)
        return [frame.kind for frame in peer.approve_all()]
    with FakeServer(old) as server:
        with Client([server.address]) as client:
            assert client.acquire_many(KEYS).all_approved and client.acquire("a")
    assert server.returned == [["acquire", "acquire"]]


def test_an_owner_out_of_reach_is_no_error():
    port = port_of(unused_address())
    home = NodeScript(0)
    home.reply = lambda frame_id: nodes(frame_id, [port_of(server.address), port])
    with FakeServer(home) as server:
        with Client([server.address]) as client:
            for _ in range(20):
                assert client.acquire_many(KEYS).all_approved and client.acquire(SECOND[0])
            lane = client._lanes._nodes._lanes[1]
            eventually(lambda: not lane.is_opening and lane.retry_at > 0, "the lane was tried")
            assert not lane.is_open
    assert home.keys == (KEYS + SECOND[:1]) * 20


def test_an_owner_out_of_reach_is_no_error_with_asyncio():
    async def ask(address):
        async with AsyncClient([address]) as client:
            for _ in range(20):
                assert (await client.acquire_many(KEYS)).all_approved
                assert await client.acquire(SECOND[0])
            await try_lane(client, Clock(client))
            assert not client._lanes._nodes._lanes[1].is_open
    port = port_of(unused_address())
    home = NodeScript(0)
    home.reply = lambda frame_id: nodes(frame_id, [port_of(server.address), port])
    with FakeServer(home) as server:
        asyncio.run(ask(server.address))
    assert home.keys[:20 * (len(KEYS) + 1)] == (KEYS + SECOND[:1]) * 20


# Just before the next attempt is due, and then just after.
NOT_DUE_S, DUE_S = 29.9, 0.2


def test_an_owner_is_tried_again_every_30_s_until_it_is_back():
    with TwoNodes(absences=2) as fleet, Client([fleet.address]) as client:
        clock, attempts = Clock(client), fleet.servers[1].returned
        for count in (1, 2):
            eventually(lambda: was_tried(client, clock), "the lane was tried")
            clock.now += NOT_DUE_S
            assert client.acquire_many(KEYS).all_approved and client.acquire(SECOND[1])
            assert is_put_off(client, clock) and len(attempts) == count
            assert fleet.home.keys[-1] == SECOND[1]
            clock.now += DUE_S
        eventually(lambda: lane_is_open(client), "a lane is open")
        fleet.second.keys.clear()
        assert client.acquire_many(KEYS).all_approved
        assert fleet.second.keys == SECOND


def test_an_owner_is_tried_again_every_30_s_until_it_is_back_with_asyncio():
    async def ask(fleet):
        with errors_of_tasks() as errors:
            await ask_again(fleet)
        assert errors == []

    async def ask_again(fleet):
        async with AsyncClient([fleet.address], backoff=(0, 0)) as client:
            clock, attempts = Clock(client), fleet.servers[1].returned
            for count in (1, 2):
                await try_lane(client, clock)
                clock.now += NOT_DUE_S
                assert (await client.acquire_many(KEYS)).all_approved
                assert await client.acquire(SECOND[1])
                assert is_put_off(client, clock) and len(attempts) == count
                assert fleet.home.keys[-1] == SECOND[1]
                clock.now += DUE_S
            await open_lane(client)
            fleet.second.keys.clear()
            assert (await client.acquire_many(KEYS)).all_approved
            assert fleet.second.keys == SECOND
    with TwoNodes(absences=2) as fleet:
        asyncio.run(ask(fleet))


def test_another_server_at_the_owners_address_is_not_taken_for_it():
    with TwoNodes(NodeScript(7)) as fleet, Client([fleet.address]) as client:
        assert client.acquire("a")
        client.acquire(SECOND[0])
        lane = client._lanes._nodes._lanes[1]
        eventually(lambda: lane.retry_at > 0 and not lane.is_opening, "the lane was tried")
        assert client.acquire_many(SECOND).all_approved and not lane.is_open
        assert fleet.second.keys == [] and fleet.home.keys[-len(SECOND):] == SECOND


def test_a_name_that_does_not_resolve_stands_for_the_first_address():
    with TwoNodes(host=b"a-name.invalid") as fleet, Client([fleet.address]) as client:
        eventually(lambda: lane_is_open(client), "a lane is open")
        assert client.acquire(SECOND[1])
        assert fleet.second.keys[-1] == SECOND[1]


@pytest.mark.parametrize("many", [False, True])
def test_calls_go_home_when_the_owner_is_gone(many):
    def end(script, frame):
        if frame.kind == "acquire" and frame.keys == [SECOND[-1].encode()]:
            script.peer.verdicts(frame)
            return END
        return None
    with TwoNodes(NodeScript(1, on_frame=end)) as fleet:
        with Client([fleet.address]) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            client.acquire(SECOND[-1])  # answered, then the connection ends
            lane = client._lanes._nodes._lanes[1]
            fleet.servers[1]._thread.join(TIMEOUT_S)
            fleet.servers[1]._listener.close()
            threading.Event().wait(2 * IDLE_CHECK_S)  # a younger one is not checked
            fleet.home.keys.clear()
            if many:
                assert client.acquire_many(KEYS).all_approved
                assert sorted(fleet.home.keys) == sorted(KEYS)
            else:
                assert client.acquire(SECOND[2]) and fleet.home.keys == [SECOND[2]]
            assert not lane.is_open
            assert client.acquire(SECOND[2])


@pytest.mark.parametrize("policy, wanted", [("open", Verdict.APPROVED_BY_POLICY),
                                            ("closed", Verdict.DENIED_BY_POLICY)])
def test_the_failure_policy_decides_what_was_lost_on_a_lane(policy, wanted):
    with TwoNodes(NodeScript(1, on_frame=lose_the_last)) as fleet:
        with Client([fleet.address], on_failure=policy) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            verdicts = client.acquire_many(KEYS)
            assert [verdicts[KEYS.index(key)] for key in FIRST] == [Verdict.APPROVED] * len(FIRST)
            assert {verdicts[KEYS.index(key)] for key in SECOND} == {wanted}


def test_a_loss_on_a_lane_raises_with_the_verdicts_of_the_others():
    with TwoNodes(NodeScript(1, on_frame=lose_the_last)) as fleet:
        with Client([fleet.address]) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            with pytest.raises(sluicegate.ConnectionLost) as caught:
                client.acquire_many(KEYS)
            assert caught.value.partial.count() == len(FIRST)


def test_with_requeue_what_was_lost_on_a_lane_goes_home():
    with TwoNodes(NodeScript(1, on_frame=lose_the_last)) as fleet:
        with Client([fleet.address], requeue=True) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            assert client.acquire_many(KEYS).all_approved
            assert sorted(fleet.home.keys[-len(KEYS):]) == sorted(KEYS)


def test_a_change_of_nodes_moves_their_keys():
    later = NodeScript(2)
    with FakeServer(later) as third, TwoNodes() as fleet:
        with Client([fleet.address]) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            fleet.home.peer.send(nodes(0, [fleet.ports[0], port_of(third.address)],
                                       ids=(100, 102)))

            def has_moved():
                client.acquire(SECOND[0])
                return later.keys
            eventually(has_moved, "keys go to the new node")
            assert client.acquire(FIRST[0]) and fleet.home.keys[-1] == FIRST[0]
            assert later.keys[-1] == SECOND[0]


def test_the_next_address_is_home_when_the_first_is_out_of_reach():
    for make in (Client, None):
        with FakeServer(lambda peer: (peer.welcome(), peer.approve_all())) as server:
            addresses = [unused_address(), server.address]
            if make:
                with Client(addresses) as client:
                    assert client.acquire("a")
            else:
                async def ask():
                    async with AsyncClient(addresses) as client:
                        assert await client.acquire("a")
                asyncio.run(ask())


def test_a_silent_first_address_takes_its_part_of_the_time_only():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with FakeServer(lambda peer: (peer.welcome(), peer.approve_all())) as server:
            addresses = [f"127.0.0.1:{silent.getsockname()[1]}", server.address]
            with Client(addresses, connect_timeout=1.0) as client:
                assert client.acquire("a")


@pytest.mark.parametrize("addresses", [[], ["a"], [None], ["a:1", "b"], ()])
def test_addresses_that_are_none_are_refused(addresses):
    for client in (Client, AsyncClient):
        with pytest.raises(sluicegate.InvalidArgument, match="address"):
            client(addresses)


def test_a_host_that_is_none_has_no_lane():
    home = NodeScript(0)
    home.reply = lambda frame_id: nodes(frame_id, [1, 1], host=b"a b/c")
    with FakeServer(home) as server, Client([server.address]) as client:
        for _ in range(3):
            assert client.acquire_many(KEYS).all_approved
        assert client._lanes._nodes._lanes == [None, None]


def test_a_cancelled_acquire_is_withdrawn_from_its_owner():
    async def ask(fleet):
        async with AsyncClient([fleet.address]) as client:
            await open_lane(client)
            asked = asyncio.ensure_future(client.acquire(SECOND[0], wait=True))
            while "withdraw" not in fleet.second.kinds:
                await asyncio.sleep(0.01)
                if waits.is_set():
                    asked.cancel()
            assert asked.cancelled()
    waits = threading.Event()

    def queue(script, frame):
        if frame.kind == "acquire" and any(frame.body.get("entryFlags", b"")):
            script.waiting = frame
            script.peer.verdicts(frame, b"\3")
            waits.set()
            return HANDLED
        if frame.kind == "withdraw":
            script.peer.done(frame)
            script.peer.granted(script.waiting, [0], bytes([Verdict.WITHDRAWN]))
            return HANDLED
        return None
    with TwoNodes(NodeScript(1, on_frame=queue)) as fleet:
        asyncio.run(ask(fleet))


def test_close_ends_lanes_too():
    with TwoNodes() as fleet:
        client = Client([fleet.address])
        eventually(lambda: lane_is_open(client), "a lane is open")
        client.close()
        for key in KEYS:
            with pytest.raises(sluicegate.Closed):
                client.acquire(key)
        with pytest.raises(sluicegate.Closed):
            client.acquire_many(KEYS)
