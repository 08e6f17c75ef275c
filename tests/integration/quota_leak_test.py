"""Slots cannot leak: clients are killed at every point of their exchange with the server, and all
slots are free again. Method: a client is a process that stops at a point and is killed there
(SIGKILL), or a socket that is reset; one slot a subject, and subjects of every shard. What is tied,
and what nobody can have been told of, has a lifetime of an hour, so that only the connection's end
can free it."""

import os
import signal
import time

import pytest

import http_peer
from http_peer import HttpPeer
from native_peer import MAY_WAIT, CONNECTION_BOUND, WANTS_LIMITS, NativePeer, frame_bytes, subject_columns
from server_process import eventually

HOUR_MS = 3_600_000
SHORT_MS = 400  # a lifetime that a test waits for
KINDS = ["native", "native, tied", "rest"]
ONE_SLOT = {"name": "slots", "metric": "concurrency", "amount": 1}
POINTS = ["before", "half a reserve", "reserve unanswered", "waiting", "admitted", "half a settle",
          "settle unanswered", "settled"]


def first_half(data):
    return data[:len(data) // 2]


class NativeClient:
    """Goes as far as a point, with all subjects in one frame."""

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

    def be_known(self):
        """The server has taken the connection up."""
        self.peer.ping()

    def reset(self):
        self.peer.reset()


def post(name, **body):
    data = http_peer.json.dumps(body).encode()
    return http_peer.request("POST", f"/v1/{name}", f"Content-Length: {len(data)}", body=data)


class RestClient:
    """The same over REST, with a connection for each subject."""

    def __init__(self, server, subjects, connection_bound, lifetime_ms=SHORT_MS):
        assert not connection_bound, "only native connections tie what they reserve"
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
                       max_wait_ms=60_000)
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

    def be_known(self):
        for peer in self.peers.values():
            assert peer.ask("GET", "/healthz").status == 200

    def reset(self):
        for peer in self.peers.values():
            peer.reset()


def client_of(kind, server, subjects, **options):
    make = RestClient if kind == "rest" else NativeClient
    return make(server, subjects, kind == "native, tied", **options)


def kill_at(client, point):
    """In a process of its own, which is killed where it stands."""
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
    arrived = os.read(reads, 1)  # nothing: it failed, and has ended
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
    told = peer.usage(*subjects)
    return (sum(told.body["openReservations"]), sum(told.body["waiting"]),
            sum(row["used"] for row in told.limits))


def can_take_all(peer, subjects):
    answer = peer.reserve(*subjects)
    taken = [reservation for reservation in answer.reservations if reservation != 0]
    if taken:
        assert peer.cancel(*taken).codes == ["ok"] * len(taken)
    return len(taken) == len(subjects)


@pytest.mark.parametrize("leave", [kill_at, reset_at])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_slot_stays_taken(server, key, kind, point, leave):
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
                       "nobody waits in the line of a client that is gone")
            assert peer.cancel(*held).codes == ["ok"] * len(held)
        eventually(lambda: states(peer, subjects) == (0, 0, 0), "all slots are free")
        # What was sent may have been read behind that look: it ends as well.
        eventually(lambda: can_take_all(peer, subjects), "every slot can be taken")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_granted_to_nobody_is_free_at_once(server, key, kind):
    """The slots come free in the same moment as those who wait for them go."""
    subjects = [f"{key}{number}" for number in range(6)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, ONE_SLOT)
        for _ in range(10):
            held = peer.reserve(*subjects, lifetimeMs=HOUR_MS).reservations
            client = client_of(kind, server, subjects, lifetime_ms=HOUR_MS)
            client.reach("waiting")
            server.pause()
            # The server finds both when it goes on: grants, and that nobody is there.
            peer.send(frame_bytes({"id": peer.take_id(), "cancel": {"reservations": held}}))
            client.reset()
            server.resume()
            assert peer.read("quotaAnswers").codes == ["ok"] * len(held)
            eventually(lambda: states(peer, subjects) == (0, 0, 0), "all slots are free")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_reserved_by_nobody_is_free_at_once(server, key, kind):
    """The server reads what was asked by clients that are gone."""
    subjects = [f"{key}{number}" for number in range(6)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, ONE_SLOT)
        for _ in range(10):
            client = client_of(kind, server, subjects, lifetime_ms=HOUR_MS)
            client.be_known()
            server.pause()
            client.reach("reserve unanswered")
            client.reset()
            server.resume()
            # What is read behind this look is seen by the next one: it would last an hour.
            eventually(lambda: states(peer, subjects) == (0, 0, 0), "all slots are free")


def test_what_lies_unsent_is_free_when_its_client_goes(server, key):
    """A client that does not read: the kernel takes the first answers, and the last lie in the
    server. Every answer is large and tells reservations, so that some of them lie there whole or in
    part wherever the kernel stops."""
    entries = 1_000
    subjects = [f"{key}{number}" for number in range(200)]
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, {**ONE_SLOT, "amount": entries})

        def open_ones():
            told = peer.usage(*subjects).body["openReservations"]
            return [subject for subject, count in zip(subjects, told, strict=True) if count]

        def has_stopped():
            """Some looks agree: in between two of them the server may itself have been held up."""
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
        eventually(has_stopped, "the server has written as much as it may")
        before = open_ones()
        assert len(before) < len(subjects), "all of it was sent"
        client.reset()
        eventually(lambda: before[-1] not in open_ones(), "what lay in the server is free")
        # What the kernel took may have been read: its lifetime ends it.
        assert before[0] in open_ones()
