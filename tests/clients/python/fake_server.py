"""A server that does what a test tells it: scripts of one connection each, in their order."""

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

# A time-out that comes when the answer, that it waits in line, has come: also on a slow machine.
IN_QUEUE_BEFORE_S = 0.6


class Asked:
    """A ClientFrame as pycapnp reads it."""

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
        """Of each entry a list, as text."""
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
            self._frames += [Asked(frame) for frame in self._splitter.feed(data)]
        asked = self._frames.pop(0)
        assert kind in (None, asked.kind), f"{asked} instead of {kind}"
        return asked

    def welcome(self, **changed):
        hello = self.read("hello")
        self.send(server_frame(id=hello.id, welcome=WELCOME | changed))
        return hello

    def pong(self):
        """To a client that looks first whether it is connected: then its calls are sent at once."""
        self.send(server_frame(id=self.read("ping").id, pong=None))

    def verdicts(self, asked, raw=b"\1", **details):
        count = len(asked.body.get("keySizes", asked.body.get("handles", [])))
        body = {"count": count, "verdicts": raw}
        self.send(server_frame(id=asked.id, verdicts=body | details))

    def granted(self, asked, entries, raw=b"\1", **columns):
        self.send(server_frame(id=asked.id, granted={"entries": entries, "verdicts": raw,
                                                     **columns}))

    def quota_answers(self, asked, codes=b"\1", count=None, **columns):
        """`count`: where it is not that of the reservations or subjects asked."""
        if count is None:
            body = asked.body
            count = len(body.get("reservations") or body.get("subjectCounts")
                        or body.get("subjectSizes", [0]))
        self.send(server_frame(id=asked.id, quotaAnswers={"count": count, "codes": codes,
                                                          **columns}))

    def done(self, asked):
        self.send(server_frame(id=asked.id, done=None))

    def error(self, frame_id, code, text="because"):
        self.send(server_frame(id=frame_id, error={"code": code, "text": text}))

    def go_away(self):
        self.send(server_frame(id=0, goAway={"reason": "a test"}))

    def approve_all(self):
        """Until the client ends the connection; what was asked."""
        asked = []
        while (frame := self.read()) is not None:
            asked.append(frame)
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
        return asked


class FakeServer:
    """Runs `scripts`, one for each connection; what one raised is raised at the end."""

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
            except BaseException as error:  # told by the test's own thread
                self.errors.append(error)
                return


def nobody():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"
