"""Concurrency slots cannot leak: the tests kill clients at every point of their exchange with the
server, and all slots become free. Method: a client is a process that stops at a point and is killed
there (SIGKILL), or a socket that is reset; one slot a subject, and subjects of every shard.
Reservations that are connection-bound or undelivered have a lifetime of an hour, so that only the
connection's end can free them."""

import os
import signal
import time

import pytest

import http_peer
from http_peer import HttpPeer
from native_peer import (CONNECTION_BOUND, MAY_WAIT, WANTS_LIMITS, NativePeer, frame_bytes,
                         subject_columns)
from server_process import eventually

HOUR_MS = 3_600_000
SHORT_MS = 400  # a lifetime that a test waits for
KINDS = ["native", "native, connection-bound", "rest"]
ONE_SLOT = {"name": "slots", "metric": "concurrency", "amount": 1}
POINTS = ["before", "half a reserve", "reserve unanswered", "waiting", "admitted", "half a settle",
          "settle unanswered", "settled"]


def first_half(data):
    return data[:len(data) // 2]


class NativeClient:
    """Proceeds to a point, with all subjects in one frame."""

    def __init__(self, server, subjects, connection_bound, lifetime_ms=SHORT_MS):
        self.peer = NativePeer(server)
        self.subjects = subjects
        self.flags = MAY_WAIT | (CONNECTION_BOUND if connection_bound else 0)
        self.lifetime_ms = HOUR_MS if connection_bound else lifetime_ms

    def frame(self, kind, body):
        return frame_bytes({"id": self.peer.take_id(), kind: body})

    def reach(self, point):
        if point == "before":
            return
        reserve = self.frame("reserve", {**subject_columns(self.subjects), "flags": self.flags,
                                         "lifetimeMs": self.lifetime_ms})
        if point == "half a reserve":
            return self.peer.send(first_half(reserve))
        self.peer.send(reserve)
        if point == "reserve unanswered":
            return
        answer = self.peer.read("quotaAnswers")
        expected = "queued" if point == "waiting" else "ok"
        assert answer.codes == [expected] * len(self.subjects), answer
        if point in ("waiting", "admitted"):
            return
        settle = self.frame("settle", {"reservations": answer.reservations})
        if point == "half a settle":
            return self.peer.send(first_half(settle))
        self.peer.send(settle)
        if point == "settled":
            answer = self.peer.read("quotaAnswers")
            assert answer.codes == ["ok"] * len(self.subjects), answer

    def wait_until_served(self):
        """Returns when the server serves the connection."""
        self.peer.ping()

    def reset(self):
        self.peer.reset()


def post(name, **body):
    data = http_peer.json.dumps(body).encode()
    return http_peer.request("POST", f"/v1/{name}", f"Content-Length: {len(data)}", body=data)


class RestClient:
    """The same over REST, with a connection for each subject."""

    def __init__(self, server, subjects, connection_bound, lifetime_ms=SHORT_MS):
        assert not connection_bound, "only native reservations can be connection-bound"
        self.lifetime_ms = lifetime_ms
        self.peers = {subject: HttpPeer(server) for subject in subjects}

    def reach(self, point):
        for subject, peer in self.peers.items():
            self.reach_with(peer, subject, point)
        if point == "waiting":
            assert all(peer.is_silent(0.05) for peer in self.peers.values())

    def reach_with(self, peer, subject, point):
        if point == "before":
            return
        reserve = post("reserve", subjects=[subject], lifetime_ms=self.lifetime_ms,
                       wait_limit_ms=60_000)
        if point == "half a reserve":
            return peer.send(first_half(reserve))
        peer.send(reserve)
        if point in ("reserve unanswered", "waiting"):
            return
        response = peer.read()
        assert response.status == 200, response
        if point == "admitted":
            return
        settle = post("settle", reservation=response.json()["reservation"])
        if point == "half a settle":
            return peer.send(first_half(settle))
        peer.send(settle)
        if point == "settled":
            response = peer.read()
            assert response.status == 200, response

    def wait_until_served(self):
        for peer in self.peers.values():
            assert peer.ask("GET", "/healthz").status == 200

    def reset(self):
        for peer in self.peers.values():
            peer.reset()


def client_of(kind, server, subjects, **options):
    make = RestClient if kind == "rest" else NativeClient
    return make(server, subjects, kind == "native, connection-bound", **options)


def kill_at(client, point):
    """Runs the client in a process and kills it at the point."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            client().reach(point)
            os.write(writes, b"!")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writes)
    arrived = os.read(reads, 1)  # empty: the client failed and ended
    os.close(reads)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert arrived == b"!", f"the client did not get as far as {point!r}"


def reset_at(client, point):
    peer = client()
    peer.reach(point)
    peer.reset()


def states(peer, subjects):
    """(open, waiting, slots in use) of all subjects together."""
    usage = peer.usage(*subjects)
    return (sum(usage.body["openReservations"]), sum(usage.body["waiting"]),
            sum(row["used"] for row in usage.limits))


def can_take_all(peer, subjects):
    answer = peer.reserve(*subjects)
    taken = [reservation for reservation in answer.reservations if reservation != 0]
    if taken:
        assert peer.cancel(*taken).codes == ["ok"] * len(taken)
    return len(taken) == len(subjects)


@pytest.mark.parametrize("leave", [kill_at, reset_at])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_slot_leaks(server, key, kind, point, leave):
    subjects = [f"{key}{number}" for number in range(6)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, ONE_SLOT)
        held = []
        if point == "waiting":
            held = peer.reserve(*subjects, lifetimeMs=HOUR_MS).reservations
        leave(lambda: client_of(kind, server, subjects), point)
        if held:
            eventually(lambda: states(peer, subjects) == (len(subjects), 0, len(subjects)),
                       "a killed client has no waiters")
            assert peer.cancel(*held).codes == ["ok"] * len(held)
        eventually(lambda: states(peer, subjects) == (0, 0, 0), "all slots are free")
        # The server may read sent frames after that check: these reservations end as well.
        eventually(lambda: can_take_all(peer, subjects), "every slot can be taken")


@pytest.mark.parametrize("kind", KINDS)
def test_grants_without_a_client_are_cancelled_at_once(server, key, kind):
    """The slots become free in the same moment as their waiters leave."""
    subjects = [f"{key}{number}" for number in range(6)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, ONE_SLOT)
        for _ in range(10):
            held = peer.reserve(*subjects, lifetimeMs=HOUR_MS).reservations
            client = client_of(kind, server, subjects, lifetime_ms=HOUR_MS)
            client.reach("waiting")
            server.pause()
            # When the server goes on, it finds both the grants and the ended connections.
            peer.send(frame_bytes({"id": peer.take_id(), "cancel": {"reservations": held}}))
            client.reset()
            server.resume()
            assert peer.read("quotaAnswers").codes == ["ok"] * len(held)
            eventually(lambda: states(peer, subjects) == (0, 0, 0), "all slots are free")


@pytest.mark.parametrize("kind", KINDS)
def test_reservations_without_a_client_are_cancelled_at_once(server, key, kind):
    """The server reads the requests of clients that have left."""
    subjects = [f"{key}{number}" for number in range(6)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, ONE_SLOT)
        for _ in range(10):
            client = client_of(kind, server, subjects, lifetime_ms=HOUR_MS)
            client.wait_until_served()
            server.pause()
            client.reach("reserve unanswered")
            client.reset()
            server.resume()
            # The next check sees reservations made after this one: they would last an hour.
            eventually(lambda: states(peer, subjects) == (0, 0, 0), "all slots are free")


def test_unsent_reservations_are_cancelled_when_the_client_leaves(server, key):
    """A client that does not read: the kernel takes the first answers, and the last stay in the
    server. Every answer is large and contains reservations, so that some stay there whole or in
    part wherever the kernel stops."""
    entries = 1_000
    subjects = [f"{key}{number}" for number in range(200)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, {**ONE_SLOT, "amount": entries})

        def open_ones():
            usage = peer.usage(*subjects).body["openReservations"]
            return [subject for subject, count in zip(subjects, usage, strict=True) if count]

        def has_stopped():
            """Several checks agree: between only two of them the server may have been suspended."""
            before = open_ones()
            for _ in range(3):
                time.sleep(0.1)
                if open_ones() != before:
                    return False
            return before

        client = NativePeer(server, receive_buffer=4_096)
        for subject in subjects:
            client.send(frame_bytes({"id": client.take_id(), "reserve": {
                **subject_columns([subject] * entries), "flags": WANTS_LIMITS,
                "lifetimeMs": HOUR_MS}}))
        eventually(has_stopped, "the server has written as much as it can")
        before = open_ones()
        assert len(before) < len(subjects), "all of it was sent"
        client.reset()
        eventually(lambda: before[-1] not in open_ones(), "undelivered reservations are cancelled")
        # The client may have read the answers in the kernel: only their lifetime ends those.
        assert before[0] in open_ones()
