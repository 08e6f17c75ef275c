"""A native peer built from proto/sluicegate.capnp by pycapnp: an implementation of the protocol
that shares no code with the server's."""

import pathlib
import select
import socket
import struct

import capnp

from server_process import TIMEOUT_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "proto" / "golden"
SCHEMA = capnp.load(str(ROOT / "proto" / "sluicegate.capnp"),
                    imports=[str(pathlib.Path(capnp.__file__).parents[1])])
KEEP = 0xFFFFFFFF
KEEP_WINDOW = 2**64 - 1

# Numbers of docs/protocol.md, "Verdicts".
APPROVED, DENIED, QUEUED, TABLE_FULL, WAITERS_FULL = 1, 2, 3, 4, 5
CONNECTION_WAITERS_FULL, KEY_WAITERS_FULL = 15, 16
NOT_ALLOWED, NEVER_FITS, INVALID_KEY, WAIT_LIMIT, WITHDRAWN, DRAINING = 7, 8, 9, 10, 11, 12
HANDLES_FULL, OWNER_UNREACHABLE = 13, 14

NO_HANDLE = 0xFFFFFFFF

# Numbers of QuotaCode by their names in the schema: CODES["tpmExceeded"].
CODES = SCHEMA.QuotaCode.schema.enumerants
# Flags of frames about quotas.
MAY_WAIT, CONNECTION_BOUND, WANTS_LIMITS, WANTS_VIOLATED, KEEP_REQUESTS = 1, 2, 4, 8, 16
UNSET = 2**64 - 1

# Bits of `details`.
LIMIT, WINDOW, REMAINING, RESET, RETRY, REQUEST_ID = 1, 2, 4, 8, 16, 32
ALL_DETAILS = 127


def frame_bytes(message, segment_words=None):
    """One ClientFrame; with `segment_words` the builder starts small and adds segments."""
    builder = SCHEMA.ClientFrame.new_message(num_first_segment_words=segment_words or 40_000)
    builder.from_dict(message)
    return builder.to_bytes()


def acquire_frame(id, keys, *, segment_words=None, **columns):
    """Columns and fields as the schema names them: costs, maxRequests, entryFlags, flags, ..."""
    keys = [key if isinstance(key, bytes) else key.encode() for key in keys]
    body = {"keys": b"".join(keys), "keySizes": [len(key) for key in keys], **columns}
    return frame_bytes({"id": id, "acquire": body}, segment_words)


def keyed_frame(kind, id, keys, **columns):
    """A frame of keys and columns: release, forward, refund."""
    keys = [key if isinstance(key, bytes) else key.encode() for key in keys]
    body = {"keys": b"".join(keys), "keySizes": [len(key) for key in keys], **columns}
    return frame_bytes({"id": id, kind: body})


def release_frame(id, keys, **columns):
    return keyed_frame("release", id, keys, **columns)


def acquire_by_handle_frame(id, handles, **columns):
    return frame_bytes({"id": id, "acquireByHandle": {"handles": list(handles), **columns}})


def intern_frame(id, keys):
    keys = [key if isinstance(key, bytes) else key.encode() for key in keys]
    return frame_bytes({"id": id, "intern": {"keys": b"".join(keys),
                                             "keySizes": [len(key) for key in keys]}})


def forget_frame(id, handles):
    return frame_bytes({"id": id, "forget": {"handles": list(handles)}})


def withdraw_frame(id, target, entries=()):
    return frame_bytes({"id": id, "withdraw": {"target": target, "entries": list(entries)}})


def inspect_frame(id, **fields):
    return frame_bytes({"id": id, "inspect": fields})


def subject_columns(entries):
    """The columns of entries that are a subject, or a list of subjects."""
    lists = [[entry] if isinstance(entry, str) else entry for entry in entries]
    names = [name.encode() for names in lists for name in names]
    counts = [len(names) for names in lists]
    return {"subjects": b"".join(names), "subjectSizes": [len(name) for name in names],
            **({} if set(counts) <= {1} else {"subjectCounts": counts})}


def hello_frame(id=1, **fields):
    return frame_bytes({"id": id, "hello": {"version": 1, **fields}})


def ping_frame(id):
    return frame_bytes({"id": id, "ping": None})


class Answer:
    """A ServerFrame: `kind`, `id`, and its body as a dictionary without null fields."""

    def __init__(self, data):
        with SCHEMA.ServerFrame.from_bytes(data, traversal_limit_in_words=2**24) as frame:
            self.kind = frame.which()
            if not isinstance(self.kind, str):
                self.kind = str(self.kind)
            self.id = frame.id
            self.body = frame.to_dict().get(self.kind)

    @property
    def verdicts(self):
        """A verdict per entry, also when one byte stands for all."""
        verdicts = self.body.get("verdicts", b"")
        columns = {"granted": "entries", "interned": "handles"}
        column = columns.get(self.kind)
        count = len(self.body.get(column, [])) if column else self.body["count"]
        assert len(verdicts) in (1, count) or count == len(verdicts) == 0, self
        return list(verdicts) if len(verdicts) == count else list(verdicts) * count

    @property
    def codes(self):
        """The name of a QuotaCode per entry."""
        codes = self.body.get("codes", b"")
        count = len(self.body["entries"]) if self.kind == "granted" else self.body["count"]
        assert len(codes) in (1, count) or count == len(codes) == 0, self
        names = {number: name for name, number in CODES.items()}
        return [names[code] for code in (codes if len(codes) == count else codes * count)]

    @property
    def reservations(self):
        return list(self.body.get("reservations", []))

    @property
    def limits(self):
        """The columns of LimitStates as rows with names."""
        states = dict(self.body["limits"])
        states.pop("leftOut", None)
        names, blob = [], states.pop("names", b"")
        for size in states.pop("nameSizes", []):
            names.append(blob[:size].decode())
            blob = blob[size:]
        rows = zip(*states.values(), strict=True)
        return [{"name": name, **dict(zip(states, row, strict=True))}
                for name, row in zip(names, rows, strict=True)]

    @property
    def entries(self):
        return self.body["entries"]

    @property
    def details(self):
        return self.body["details"]

    @property
    def code(self):
        return str(self.body["code"])

    def __repr__(self):
        return f"<{self.kind} {self.id} {str(self.body)[:300]}>"


class NativePeer:
    """One connection; sends Hello unless `hello` is false."""

    def __init__(self, server, hello=True, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((server.host, server.native_port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""
        self.next_id = 1
        if hello:
            self.send(hello_frame(self.take_id()))
            self.welcome = self.read("welcome")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def take_id(self):
        self.next_id += 1
        return self.next_id - 1

    # --- sending

    def send(self, data):
        self.socket.sendall(data)

    def acquire(self, keys, **columns):
        """Sends an Acquire; returns its id."""
        id = self.take_id()
        self.send(acquire_frame(id, keys, **columns))
        return id

    def ask(self, keys, **columns):
        """Sends an Acquire and reads its Verdicts."""
        id = self.acquire(keys, **columns)
        answer = self.read("verdicts")
        assert answer.id == id, answer
        return answer

    def release(self, keys, **columns):
        id = self.take_id()
        self.send(release_frame(id, keys, **columns))
        return id

    def forward(self, keys, **columns):
        """Sends a Forward and reads its Verdicts."""
        id = self.take_id()
        self.send(keyed_frame("forward", id, keys, **columns))
        answer = self.read("verdicts")
        assert answer.id == id, answer
        return answer

    def refund(self, keys=(), **columns):
        id = self.take_id()
        self.send(keyed_frame("refund", id, keys, **columns))
        assert self.read("done").id == id

    def withdraw(self, target, entries=()):
        id = self.take_id()
        self.send(withdraw_frame(id, target, entries))
        return id

    def intern(self, keys):
        """Sends an Intern and reads the answer: handles and verdicts."""
        id = self.take_id()
        self.send(intern_frame(id, keys))
        answer = self.read("interned")
        assert answer.id == id, answer
        return list(answer.body.get("handles", [])), answer.verdicts

    def ask_by_handle(self, handles, **columns):
        """Sends an AcquireByHandle and reads its Verdicts."""
        id = self.take_id()
        self.send(acquire_by_handle_frame(id, handles, **columns))
        answer = self.read("verdicts")
        assert answer.id == id, answer
        return answer

    def forget(self, handles):
        id = self.take_id()
        self.send(forget_frame(id, handles))
        assert self.read("done").id == id

    def inspect(self, **fields):
        id = self.take_id()
        self.send(inspect_frame(id, **fields))
        answer = self.read("inspected")
        assert answer.id == id, answer
        return answer.body

    def call(self, kind, body, answered_by="quotaAnswers"):
        """Sends a frame about quotas and reads its answer."""
        id = self.take_id()
        self.send(frame_bytes({"id": id, kind: body}))
        answer = self.read(answered_by)
        assert answer.id == id, answer
        return answer

    def reserve(self, *entries, kind="reserve", **columns):
        return self.call(kind, {**subject_columns(entries), **columns})

    def settle(self, *reservations, **columns):
        return self.call("settle", {"reservations": list(reservations), **columns})

    def cancel(self, *reservations, **columns):
        return self.call("cancel", {"reservations": list(reservations), **columns})

    def put_quota(self, subject, *limits, **quota):
        answer = self.call("quota", {"subject": subject.encode(),
                                     "quota": {"limits": list(limits), **quota}})
        assert answer.codes == ["ok"], answer

    def usage(self, *subjects, **fields):
        return self.call("usage", {**subject_columns(subjects), **fields}, "usageReply")

    def ping(self):
        """A round trip: the server has read all frames sent before."""
        id = self.take_id()
        self.send(ping_frame(id))
        answer = self.read("pong")
        assert answer.id == id, answer

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # --- reading

    def _frame_size(self):
        """The size of the first frame in `pending`; None while it is unknown."""
        if len(self.pending) < 8:
            return None
        segments = struct.unpack_from("<I", self.pending)[0] + 1
        assert segments == 1, f"the server sends one segment, not {segments}"
        size = 8 + 8 * struct.unpack_from("<I", self.pending, 4)[0]
        assert size <= 524_288, f"a frame of {size} bytes"
        return size

    def read(self, kind=None):
        """The next frame, which must be of `kind`; None at the connection's end."""
        while (size := self._frame_size()) is None or len(self.pending) < size:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError as error:
                raise AssertionError(f"reset after {self.pending[:80]!r}") from error
            if not data:
                assert not self.pending, f"ended within a frame: {self.pending[:80]!r}"
                assert kind is None, f"ended instead of {kind}"
                return None
            self.pending += data
        answer = Answer(self.pending[:size])
        self.pending = self.pending[size:]
        assert kind in (None, answer.kind), f"{answer} instead of {kind}"
        return answer

    def read_or_end(self):
        """The next frame; None at the end, also after a reset by a server with unread input."""
        try:
            return self.read()
        except AssertionError as fault:
            if isinstance(fault.__cause__, ConnectionResetError):
                return None
            raise

    def read_error(self, code, id=None):
        answer = self.read("error")
        assert answer.code == code, answer
        assert id is None or answer.id == id, answer
        assert answer.body["text"], answer
        return answer

    def is_at_end(self):
        """Whether the connection ends without further frames."""
        return self.read() is None

    def is_silent(self, seconds=0.1):
        return not self.pending and not select.select([self.socket], [], [], seconds)[0]

    def read_granted(self, count):
        """Reads Granted frames until `count` entries have arrived: (id, entry) -> verdict."""
        granted = {}
        while len(granted) < count:
            answer = self.read("granted")
            for entry, verdict in zip(answer.entries, answer.verdicts, strict=True):
                assert (answer.id, entry) not in granted, f"{answer.id}, {entry} came twice"
                granted[answer.id, entry] = verdict
        return granted
