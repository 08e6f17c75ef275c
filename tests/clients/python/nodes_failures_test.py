"""A client of several nodes: owners that shut down or cannot be reached, and calls that only the
owner can answer.

Method: scripted servers that describe nodes (nodes_script.py); both clients.
"""

import asyncio

import pytest
from fake_server import FakeServer, unused_address
from frame_codecs import server_frame
from nodes_script import (HANDLED, SECOND, NodeScript, TwoNodes, nodes,
                          port_of)

import sluicegate
from sluicegate import AsyncClient, Client


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
