"""A server that runs the scripts of a test, one per connection, in their order."""

import contextlib
import socket
import threading

from frame_codecs import server_frame
from native_peer import SCHEMA
from server_process import TIMEOUT_S

from sluicegate import _frames

WELCOME = {"version": 1, "shards": 1, "routingHash": "xxh3", "frameBytesMax": 262_144,
           "frameEntriesMax": 8_192, "outstandingFramesMax": 1_024,
           "outstandingBytesMax": 1_048_576, "waitingEntriesMax": 16_384, "handlesMax": 1_000,
           "keyBytesMax": 1_024, "serverVersion": "fake"}

# A time-out that passes after the call was sent, or queued by the server, also on a slow machine.
IN_QUEUE_BEFORE_S = 0.6


class ReceivedFrame:
    """A received ClientFrame, read by pycapnp."""

    def __init__(self, frame):
        with SCHEMA.ClientFrame.from_bytes(frame) as message:
            self.kind, self.id = str(message.which()), message.id
            self.body = message.to_dict().get(self.kind) or {}
        self.size = len(frame)

    @property
    def keys(self):
        blob, keys = self.body["keys"], []
        for size in self.body["keySizes"]:
            keys.append(bytes(blob[:size]))
            blob = blob[size:]
        return keys

    @property
    def subjects(self):
        """A list of names per entry, as text."""
        blob, names = self.body["subjects"], []
        for size in self.body["subjectSizes"]:
            names.append(bytes(blob[:size]).decode())
            blob = blob[size:]
        names = iter(names)
        counts = self.body.get("subjectCounts") or [1] * len(self.body["subjectSizes"])
        return [[next(names) for _ in range(count)] for count in counts]

    def __repr__(self):
        return f"<{self.kind} {self.id} {str(self.body)[:200]}>"


class Peer:
    """The server's end of one connection."""

    def __init__(self, accepted):
        self.socket = accepted
        self.socket.settimeout(TIMEOUT_S)
        self._splitter = _frames.Splitter()
        self._frames = []

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def read(self, kind=None):
        """The next frame; None at the end."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                assert kind is None, f"ended instead of {kind}"
                return None
            self._frames += [ReceivedFrame(frame) for frame in self._splitter.feed(data)]
        received = self._frames.pop(0)
        assert kind in (None, received.kind), f"{received} instead of {kind}"
        return received

    def welcome(self, **changed):
        hello = self.read("hello")
        self.send(server_frame(id=hello.id, welcome=WELCOME | changed))
        return hello

    def pong(self):
        """Answers a Ping, by which a test makes sure that the client is connected."""
        self.send(server_frame(id=self.read("ping").id, pong=None))

    def verdicts(self, received, raw=b"\1", **details):
        count = len(received.body.get("keySizes", received.body.get("handles", [])))
        body = {"count": count, "verdicts": raw}
        self.send(server_frame(id=received.id, verdicts=body | details))

    def granted(self, received, entries, raw=b"\1", **columns):
        self.send(server_frame(id=received.id, granted={"entries": entries, "verdicts": raw,
                                                     **columns}))

    def reserve_granted(self, received, entries, codes=b"\1", **columns):
        self.send(server_frame(id=received.id, granted={"entries": entries, "codes": codes,
                                                        **columns}))

    def quota_answers(self, received, codes=b"\1", count=None, **columns):
        """`count`: if it differs from the number of reservations or subjects in the request."""
        if count is None:
            body = received.body
            count = len(body.get("reservations") or body.get("subjectCounts")
                        or body.get("subjectSizes", [0]))
        self.send(server_frame(id=received.id, quotaAnswers={"count": count, "codes": codes,
                                                          **columns}))

    def done(self, received):
        self.send(server_frame(id=received.id, done=None))

    def error(self, frame_id, code, text="because"):
        self.send(server_frame(id=frame_id, error={"code": code, "text": text}))

    def go_away(self):
        self.send(server_frame(id=0, goAway={"reason": "a test"}))

    def approve_all(self):
        """Approves until the client ends the connection; returns the requests."""
        received = []
        while (frame := self.read()) is not None:
            received.append(frame)
            if frame.kind in ("acquire", "acquireByHandle"):
                self.verdicts(frame)
            elif frame.kind == "ping":
                self.send(server_frame(id=frame.id, pong=None))
            elif frame.kind == "intern":
                count = len(frame.keys)
                self.send(server_frame(id=frame.id, interned={
                    "handles": list(range(count)), "verdicts": b"\1"}))
            else:
                self.done(frame)
        return received


class FakeServer:
    """Runs `scripts`, one per connection; raises their exceptions at the end."""

    def __init__(self, *scripts):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TIMEOUT_S)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._scripts = scripts
        self.errors = []
        self.returned = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:  # the test failed already: its scripts may never end
            self._listener.close()
            return
        self._thread.join(2 * TIMEOUT_S)
        self._listener.close()
        assert not self._thread.is_alive(), "a script did not end"
        if self.errors:
            raise self.errors[0]

    def _run(self):
        for script in self._scripts:
            try:
                accepted, _ = self._listener.accept()
                with contextlib.closing(accepted):
                    self.returned.append(script(Peer(accepted)))
            except BaseException as error:  # raised by the test's own thread
                self.errors.append(error)
                return


def unused_address():
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"
