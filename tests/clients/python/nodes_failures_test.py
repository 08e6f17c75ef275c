"""A client of several nodes: owners that shut down or cannot be reached, and calls that only the
owner can answer.

Method: scripted servers that describe nodes (nodes_script.py); both clients.
"""

import asyncio
import threading
import time

import pytest
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from frame_codecs import server_frame
from nodes_script import (END, FIRST, HANDLED, KEYS, SECOND, Clock, NodeScript, TwoNodes,
                          errors_of_tasks, is_put_off, lane_is_open, nodes, open_lane, port_of,
                          try_lane, was_tried)
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import AsyncClient, Client, Verdict

DRAINING = bytes([Verdict.DRAINING])
RETRY_S = 30  # as documented


class Shutdown(NodeScript):
    """The first frame with several keys gets `draining`, after all the later ones are approved."""

    def __init__(self, frames):
        super().__init__(1, on_frame=self.take)
        self.frames, self.batch = frames, []

    def take(self, _, frame):
        if frame.kind != "acquire" or len(frame.keys) == 1:
            return None
        self.batch.append(frame)
        if len(self.batch) < self.frames:
            return HANDLED
        self.peer.verdicts(self.batch[0], DRAINING)
        self.peer.go_away()
        for later in self.batch[1:]:
            self.keys += [key.decode() for key in later.keys]
            self.peer.verdicts(later)
        return HANDLED


def expect_each_key_once(fleet):
    assert sorted(fleet.home.keys + fleet.second.keys) == sorted(KEYS)


SECOND_FRAMES = -(-len(SECOND) // 3)


def test_a_batch_goes_home_where_the_owner_shuts_down():
    with TwoNodes(Shutdown(SECOND_FRAMES)) as fleet:
        with Client([fleet.address], frame_entries_max=3) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            fleet.home.keys.clear()
            fleet.second.keys.clear()
            assert client.acquire_many(KEYS).all_approved
            expect_each_key_once(fleet)


def test_a_batch_goes_home_where_the_owner_shuts_down_with_asyncio():
    async def ask(fleet):
        async with AsyncClient([fleet.address], frame_entries_max=3) as client:
            await open_lane(client)
            fleet.home.keys.clear()
            fleet.second.keys.clear()
            assert (await client.acquire_many(KEYS)).all_approved
            expect_each_key_once(fleet)
    with TwoNodes(Shutdown(SECOND_FRAMES)) as fleet:
        asyncio.run(ask(fleet))


def test_releases_that_a_node_may_have_taken_do_not_go_home():
    def go_away(script, frame):
        if frame.kind != "release":
            return None
        script.peer.send(server_frame(id=frame.id, done=None),
                         server_frame(id=0, goAway={"reason": "a test"}))
        return END
    with TwoNodes(NodeScript(1, on_frame=go_away)) as fleet:
        with Client([fleet.address], window=1, frame_entries_max=1, connect_timeout=0.3) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            fleet.home.keys.clear()
            with pytest.raises(sluicegate.ConnectionLost):
                client.release_many(SECOND)
            assert fleet.home.keys == []


def test_a_call_that_goes_home_keeps_its_time_out():
    pause_s, timeout_s = 0.4, 0.6
    longest_s = pause_s + timeout_s - 0.1  # a time-out that began again would end later

    def drain_late(script, frame):
        if frame.kind == "acquire" and frame.keys == [SECOND[1].encode()]:
            threading.Event().wait(pause_s)
            script.peer.verdicts(frame, DRAINING)
            return HANDLED
        return None

    def be_silent(_, frame):
        return HANDLED if frame.kind == "acquire" and frame.keys == [SECOND[1].encode()] else None

    async def ask_with_asyncio(fleet):
        async with AsyncClient([fleet.address]) as client:
            await open_lane(client)
            fleet.home.on_frame = be_silent
            loop = asyncio.get_running_loop()
            start = loop.time()
            with pytest.raises(sluicegate.TimedOut):
                await client.acquire(SECOND[1], timeout=timeout_s)
            assert loop.time() - start < longest_s
    with TwoNodes(NodeScript(1, on_frame=drain_late)) as fleet:
        asyncio.run(ask_with_asyncio(fleet))
    with TwoNodes(NodeScript(1, on_frame=drain_late)) as fleet:
        with Client([fleet.address]) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            fleet.home.on_frame = be_silent
            start = time.monotonic()
            with pytest.raises(sluicegate.TimedOut):
                client.acquire(SECOND[1], timeout=timeout_s)
            assert time.monotonic() - start < longest_s


@pytest.mark.parametrize("is_silent", [0, 1])
def test_what_arrived_counts_though_another_owner_is_silent(is_silent):
    def be_silent(_, frame):
        return HANDLED if frame.kind == "acquire" and len(frame.keys) > 1 else None
    with TwoNodes(NodeScript(1, on_frame=be_silent if is_silent else None)) as fleet:
        with Client([fleet.address], on_failure="open") as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            fleet.home.on_frame = None if is_silent else be_silent
            verdicts = client.acquire_many(KEYS, timeout=IN_QUEUE_BEFORE_S)
            decided = SECOND if not is_silent else FIRST
            assert [key for key, verdict in zip(KEYS, verdicts)
                    if verdict is Verdict.APPROVED] == decided


# --- lanes of nodes that are others now

class CallWhenLocked:
    """A client's lock, which finds a call pending once it is taken."""

    def __init__(self, client):
        self.client, self.lock = client, client._lock

    def __enter__(self):
        self.lock.acquire()
        self.client._dispatcher.pending += 1

    def __exit__(self, *_):
        self.lock.release()


def test_a_call_that_comes_when_its_lane_is_to_be_closed_keeps_it_open():
    """It would end as if nothing had been sent, and be charged a second time at home."""
    with TwoNodes() as fleet, Client([fleet.address]) as client:
        eventually(lambda: lane_is_open(client), "a lane is open")
        retired = client._lanes._nodes._lanes[1].client
        lock, retired._lock = retired._lock, CallWhenLocked(retired)
        assert not retired._close_if_idle() and retired.is_usable
        retired._lock, retired._dispatcher.pending = lock, 0
        assert retired._close_if_idle() and not retired.is_usable


def test_the_lane_of_a_former_node_is_closed_after_a_late_answer():
    may_answer = threading.Event()

    def answer_late(_, frame):
        if frame.kind == "acquire" and frame.keys == [SECOND[1].encode()]:
            assert may_answer.wait(TIMEOUT_S)
    later = NodeScript(2)
    with FakeServer(later) as third, TwoNodes(NodeScript(1, on_frame=answer_late)) as fleet:
        with Client([fleet.address]) as client:
            eventually(lambda: lane_is_open(client), "a lane is open")
            lane = client._lanes._nodes._lanes[1]
            with pytest.raises(sluicegate.TimedOut):
                client.acquire(SECOND[1], timeout=IN_QUEUE_BEFORE_S)
            fleet.home.peer.send(nodes(0, [fleet.ports[0], port_of(third.address)],
                                       ids=(100, 102)))
            eventually(lambda: lane_is_open(client) and later.keys, "keys go to the new node")
            assert client._lanes._retired == [lane.client] and lane.client.is_usable
            may_answer.set()
            eventually(lambda: client.acquire(FIRST[0]) and not client._lanes._retired,
                       "the former lane is closed")
            assert not lane.client.is_usable


# --- calls that only the owner can answer

def knows_the_key(script, frame):
    if frame.kind != "inspect":
        return None
    key = bytes(frame.body["key"])
    script.keys.append(key.decode())
    script.peer.send(server_frame(id=frame.id, inspected={
        "keys": key, "keySizes": [len(key)], "windowMs": [1], "maxRequests": [1],
        "maxRequestsInQueue": [0], "approved": [7], "denied": [0], "waiting": [0],
        "resetMs": [1]}))
    return HANDLED


def test_inspect_asks_the_owner_though_its_lane_is_not_open_yet():
    with TwoNodes(NodeScript(1, on_frame=knows_the_key)) as fleet:
        with Client([fleet.address]) as client:
            assert client.inspect(SECOND[0]).approved == 7
            assert fleet.second.keys == [SECOND[0]]


def test_inspect_asks_the_owner_though_its_lane_is_not_open_yet_with_asyncio():
    async def ask(fleet):
        async with AsyncClient([fleet.address]) as client:
            assert (await client.inspect(SECOND[0])).approved == 7
            assert fleet.second.keys == [SECOND[0]]
    with TwoNodes(NodeScript(1, on_frame=knows_the_key)) as fleet:
        asyncio.run(ask(fleet))


def home_beside_an_owner_out_of_reach():
    home, ports = NodeScript(0), []
    home.reply = lambda frame_id: nodes(frame_id, ports)
    server = FakeServer(home)
    ports += [port_of(server.address), port_of(unused_address())]
    return server


def test_inspect_fails_while_the_owner_is_out_of_reach():
    with home_beside_an_owner_out_of_reach() as server, Client([server.address]) as client:
        assert client.acquire(SECOND[0])
        for _ in range(2):
            with pytest.raises(sluicegate.Unreachable, match="owner"):
                client.inspect(SECOND[0])


def test_inspect_fails_while_the_owner_is_out_of_reach_with_asyncio():
    async def ask(address):
        async with AsyncClient([address]) as client:
            for _ in range(2):
                with pytest.raises(sluicegate.Unreachable, match="owner"):
                    await client.inspect(SECOND[0])
    with home_beside_an_owner_out_of_reach() as server:
        asyncio.run(ask(server.address))


# --- finding nodes

def no_thread(_):
    raise RuntimeError("can't start new thread")


def no_memory(_):
    raise MemoryError


def test_an_owner_is_tried_again_after_no_thread_could_be_started():
    with TwoNodes() as fleet, Client([fleet.address]) as client:
        clock, known = Clock(client), client._lanes._nodes
        open_lane_of, known._open_lane = known._open_lane, no_thread
        eventually(lambda: was_tried(client, clock), "the lane was tried")
        known._open_lane = open_lane_of
        clock.now += RETRY_S - 0.1
        assert client.acquire(SECOND[0]) and is_put_off(client, clock)
        clock.now += 0.2
        eventually(lambda: lane_is_open(client), "a lane is open")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_owner_is_tried_again_after_an_attempt_that_raised():
    with TwoNodes() as fleet, Client([fleet.address]) as client:
        clock, lanes = Clock(client), client._lanes
        address_of, lanes._address_of = lanes._address_of, no_memory
        eventually(lambda: was_tried(client, clock), "the lane was tried")
        lanes._address_of = address_of
        clock.now += RETRY_S
        eventually(lambda: lane_is_open(client), "a lane is open")


def test_an_owner_is_tried_again_after_an_attempt_that_raised_with_asyncio():
    async def ask(fleet):
        with errors_of_tasks() as errors:
            await ask_again(fleet)
        assert errors == [MemoryError]

    async def ask_again(fleet):
        async with AsyncClient([fleet.address]) as client:
            clock, lanes = Clock(client), client._lanes
            address_of, lanes._address_of = lanes._address_of, no_memory
            await try_lane(client, clock)
            lanes._address_of = address_of
            clock.now += RETRY_S
            await open_lane(client)
    with TwoNodes() as fleet:
        asyncio.run(ask(fleet))


def test_the_home_that_was_lost_is_tried_first():
    with FakeServer(lambda peer: (peer.welcome(), peer.approve_all())) as server:
        with Client([unused_address(), server.address]) as client:
            assert client.acquire("a")
            assert client._addresses_to_try()[0] == ("127.0.0.1", port_of(server.address))


def test_the_home_that_was_lost_is_tried_first_with_asyncio():
    async def ask(address):
        async with AsyncClient([unused_address(), address]) as client:
            assert await client.acquire("a")
            assert client._addresses_to_try()[0] == ("127.0.0.1", port_of(address))
    with FakeServer(lambda peer: (peer.welcome(), peer.approve_all())) as server:
        asyncio.run(ask(server.address))


def test_a_server_that_has_no_place_among_its_nodes_is_a_protocol_error():
    home = NodeScript(0)
    home.reply = lambda frame_id: nodes(frame_id, [1, 2], own=2)
    with FakeServer(home) as server, Client([server.address]) as client:
        with pytest.raises(sluicegate.ProtocolError, match="the server is node 2 of 2"):
            client.acquire(KEYS[0])
