"""Floods: many connections that send prepared requests, and a lone client beside them.

Flow:   Flood.fill() while the server stands still, or Flood.run() in a process of its own; Lone
        beside it.
Units:  seconds, bytes.
"""

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time

from .machine import ROOT, Trouble

sys.path.insert(0, str(ROOT / "clients/python/src"))

from sluicegate import _frames as frames  # noqa: E402  (after the path)
from sluicegate import _quota_frames as quota_frames  # noqa: E402

KEYS = 1_000_000
SUBJECTS = 512
# Of every subject: as many as one may have.
LIMITS = [{"name": f"limit-{number}", "metric": "requests", "amount": 10**12,
           "period_ms": 60_000 * (number + 1)} for number in range(16)]
CONFIGURATION = {"keys": [], "quotas": {"subjects": [
    {"subject": "^{.*}tenant-", "subject_is_regex": True, "limits": LIMITS}]}}

RECEIVE_BYTES = 1 << 18
WELCOME_TIMEOUT_S = 30
SWEEP_S = 0.02
QUIET_S = 0.3


def key(number):
    return f"user-{number % KEYS:015d}"


def subjects_of(number):
    """Eight that lie on one shard."""
    return [f"{{{number % 64}}}tenant-{place}".encode() for place in range(8)]


def acquire(number, frame_id):
    first = (number * 15 + frame_id) * 8192
    return frames.encode_acquire(frame_id,
                                 frames.encode_keys([key(first + i) for i in range(8192)]))


def check(number, frame_id):
    entries = [subjects_of(number + i) for i in range(256)]
    return quota_frames.encode_reserve(frame_id, quota_frames.encode_subjects(entries),
                                       quota_frames.ReserveColumns(), quota_frames.CHECK)


def usage(_, frame_id):
    return quota_frames.encode_usage(frame_id)


def inspect(_, frame_id):
    return frames.encode_inspect(frame_id)


def debug(_, __):
    return b"GET /debug?limit=1000 HTTP/1.1\r\nHost: a\r\n\r\n"


# name -> (encodes one request, whether over REST, requests of a backlog)
FLOODS = {
    "acquire": (acquire, False, 15),
    "check": (check, False, 15),
    "usage": (usage, False, 256),
    "inspect": (inspect, False, 256),
    "debug": (debug, True, 256),
}


def prepare(server):
    """Makes what pages are about: keys, and subjects with all their limits."""
    with greeted(server.native_port) as connection:
        connection.sendall(acquire(0, 2))
        read_frame(connection)
        entries = [[f"{{{number}}}tenant-0".encode()] for number in range(SUBJECTS)]
        connection.sendall(quota_frames.encode_record(
            3, quota_frames.encode_subjects(entries), quota_frames.Used()))
        read_frame(connection)


def greeted(port):
    """A connection that the server has welcomed."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=WELCOME_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(frames.encode_hello(1))
    read_frame(connection)
    return connection


def read_frame(connection):
    head = read_exactly(connection, 8)
    segments, words = struct.unpack("<II", head)
    if segments != 0:
        raise Trouble("the server answered in several segments")
    return head + read_exactly(connection, 8 * words)


def read_exactly(connection, size):
    parts = []
    while size > 0:
        part = connection.recv(size)
        if not part:
            raise Trouble("the server ended a connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Flood:
    """Connections that all send the same kind of request."""

    def __init__(self, name, server, connections):
        encode, is_rest, self.count = FLOODS[name]
        self.connections = [
            socket.create_connection(("127.0.0.1", server.port)) if is_rest
            else greeted(server.native_port) for _ in range(connections)]
        # Few are prepared: the same bytes on several connections.
        prepared = [[encode(number, 2 + place) for place in range(self.count)]
                    for number in range(min(8, connections))]
        self.requests = [prepared[number % len(prepared)] for number in range(connections)]
        self.is_rest = is_rest
        self.places = [0] * connections  # in what each sends again and again
        for connection in self.connections:
            connection.setblocking(False)

    def fill(self):
        """Sends to every connection the requests that its sockets take; the rest of one that was
        begun is kept for finish(). Returns how many were begun."""
        self.rest = {}
        requests_count = 0
        for connection, requests in zip(self.connections, self.requests):
            for request in requests:
                sent = send_some(connection, request)
                if sent == 0:
                    break
                requests_count += 1
                if sent < len(request):
                    self.rest[connection] = request[sent:]
                    break
        return requests_count

    def finish(self):
        """Sends the rests, and reads until every connection has been silent for a while. Seldom: a
        load that works beside the server would slow it down."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            time.sleep(SWEEP_S)
            moved = sum(receive_some(connection) for connection in self.connections)
            for connection, rest in self.rest.items():
                sent = send_some(connection, rest)
                self.rest[connection] = rest[sent:]
                moved += sent
            if moved > 0:
                quiet_since = time.monotonic()

    def run(self, seconds, reads=True):
        """Keeps every connection full of requests; returns the bytes of the answers per second."""
        queues = [memoryview(b"".join(requests)) for requests in self.requests]
        received = 0
        with selectors.DefaultSelector() as selector:
            events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
            for number, connection in enumerate(self.connections):
                selector.register(connection, events, number)
            start = time.monotonic()
            while time.monotonic() - start < seconds:
                for selected, ready in selector.select(timeout=0.05):
                    number = selected.data
                    if ready & selectors.EVENT_READ:
                        received += len(self.connections[number].recv(RECEIVE_BYTES))
                    if ready & selectors.EVENT_WRITE:
                        queue, place = queues[number], self.places[number]
                        place += send_some(self.connections[number],
                                           queue[place:place + RECEIVE_BYTES])
                        self.places[number] = place % len(queue)
        return received / (time.monotonic() - start)

    def close(self):
        for connection in self.connections:
            connection.close()


def send_some(connection, content):
    try:
        return connection.send(content)
    except BlockingIOError:
        return 0


def receive_some(connection):
    try:
        return len(connection.recv(RECEIVE_BYTES))
    except BlockingIOError:
        return 0


class Lone:
    """A client with one request at a time, ahead of the flood on the load's core."""

    def __init__(self, server):
        self.connection = greeted(server.native_port)

    def send(self):
        self.connection.sendall(frames.encode_ping(7))

    def receive(self):
        read_frame(self.connection)

    def latencies(self, seconds, pause_s=0.001):
        """Of one ping after the other, with a pause in between."""
        taken = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.perf_counter()
            self.send()
            self.receive()
            taken.append(time.perf_counter() - start)
            time.sleep(pause_s)
        return sorted(taken)

    def close(self):
        self.connection.close()


def cpu_s(pid):
    """The CPU time that a process has used so far, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock that clock_getcpuclockid(3) names


def prefer_this_process():
    """Lets the lone client run as soon as its answer is there; as root only."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def write_configuration(folder):
    path = folder / "fairness.json"
    path.write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    return path
