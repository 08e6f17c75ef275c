"""Scripted servers that describe nodes, and the client's lane to the second one."""

import asyncio
import contextlib
import gc

from fake_server import FakeServer
from frame_codecs import server_frame
from server_process import TIMEOUT_S

from sluicegate import AsyncClient
from sluicegate._nodes import owner_of
from sluicegate._system import System

KEYS = [f"key:{number}" for number in range(12)]
FEATURES = 31
END, HANDLED = "end", "handled"
FIRST, SECOND = ([key for key in KEYS if owner_of(key, 2) == node] for node in (0, 1))


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def nodes(frame_id, ports, own=0, host=b"127.0.0.1", ids=(100, 101)):
    """Node 0 has the instance 100, node 1 101. The port 0: home does not know that node yet."""
    count = len(ports)
    known = [int(port > 0) for port in ports]
    return server_frame(id=frame_id, topologyReply={
        "listDigest": 1, "nodeHash": "fnv1a", "ownNode": own, "hosts": host * count,
        "hostSizes": [len(host)] * count, "restPorts": [80] * count, "nativePorts": ports,
        "shards": known, "routingSeeds": known,
        "instanceIds": [number * is_known for number, is_known in zip(ids, known)]})


class Clock(System):
    """Its seconds pass when a test says so."""

    def __init__(self, client):
        """The client's and its lanes' from now on; of asyncio's, only that of the lanes' attempts:
        its connections have the loop's."""
        self.now = 1_000.0
        if isinstance(client, AsyncClient):
            client._lanes._now = self.monotonic
        else:
            client._system, client._monotonic = self, self.monotonic

    def monotonic(self):
        return self.now


class NodeScript:
    """Approves, and describes the nodes when it is asked. `keys` are those that it was asked for.

    `on_frame` may return END, after which the connection ends, or HANDLED.
    """

    def __init__(self, number, reply=None, on_frame=None):
        self.number, self.reply, self.on_frame = number, reply, on_frame
        self.keys, self.kinds, self.peer = [], [], None

    def __call__(self, peer):
        self.peer = peer
        peer.welcome(features=FEATURES, instanceId=100 + self.number)
        while (frame := peer.read()) is not None:
            self.kinds.append(frame.kind)
            done = self.on_frame and self.on_frame(self, frame)
            if done == END:
                return
            if done == HANDLED:
                continue
            if frame.kind == "topology":
                peer.send(self.reply(frame.id))
            elif frame.kind == "ping":
                peer.send(server_frame(id=frame.id, pong=None))
            elif frame.kind == "acquire":
                keys = [key.decode() for key in frame.keys]
                self.keys += keys
                peer.verdicts(frame, bytes([1]) * len(keys), details={
                    "remaining": [int(key.split(":")[1]) for key in keys]}
                    if frame.body["details"] else {})
            elif frame.kind == "inspect":
                self.keys.append(bytes(frame.body["key"]).decode())
                peer.send(server_frame(id=frame.id, inspected={}))
            else:
                self.keys += [key.decode() for key in frame.keys]
                peer.done(frame)


def hang_up(_):
    """A script."""


class TwoNodes:
    """Two scripted nodes, the first of which is the client's home."""

    def __init__(self, second=None, host=b"127.0.0.1", absences=0):
        """So many connections to the second one end before its script has one."""
        self.second = second or NodeScript(1)
        self.home = NodeScript(0, lambda frame_id: nodes(frame_id, self.ports, host=host))
        self.servers = [FakeServer(self.home), FakeServer(*[hang_up] * absences, self.second)]
        self.ports = [port_of(server.address) for server in self.servers]
        self.address = self.servers[0].address

    def __enter__(self):
        for server in self.servers:
            server.__enter__()
        return self

    def __exit__(self, *error):
        for server in self.servers:
            server.__exit__(*error)


def lane_is_open(client):
    """Also asks, as the client learns of the nodes with the answers to its calls."""
    assert client.acquire(SECOND[0])
    lanes = client._lanes._nodes._lanes
    return len(lanes) == 2 and lanes[1] is not None and lanes[1].is_open


def was_tried(client, clock):
    """Whether an attempt to open the lane has failed, and the next one is not due. Asks, too."""
    assert client.acquire(SECOND[0])
    return is_put_off(client, clock)


async def try_lane(client, clock):
    """Asks until was_tried()."""
    for _ in range(int(TIMEOUT_S / 0.01)):
        assert await client.acquire(SECOND[0])
        if is_put_off(client, clock):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the lane was not tried")


def is_put_off(client, clock):
    lanes = client._lanes._nodes._lanes
    return len(lanes) == 2 and not lanes[1].is_opening and lanes[1].retry_at > clock.now


@contextlib.contextmanager
def errors_of_tasks():
    """Errors of tasks of the running loop for which nobody waits."""
    errors = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: errors.append(type(context["exception"])))
    yield errors
    gc.collect()  # the loop reports them when their tasks are deleted


async def open_lane(client):
    for _ in range(int(TIMEOUT_S / 0.01)):
        await client.acquire(SECOND[0])
        lanes = client._lanes._nodes._lanes
        if len(lanes) == 2 and lanes[1] is not None and lanes[1].is_open:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no lane")
