"""Builds the client's frames and reads the server's.

Flow:   keys and columns -> encode_*() -> bytes; bytes -> Splitter -> decode() -> an answer.
Shape:  docs/protocol.md; frames of quotas are in _quota_frames.py. The tests compare the numbers
        here with the schema.
Units:  sizes and offsets in bytes, unless named _words; little-endian on any machine.
Errors: Malformed for what a server must not send; ValueError for what cannot be encoded.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Union

from ._bounds import KEY_BYTES
from ._bounds import NUMBER_MAX as NUMBER_MAX
from ._invalid import InvalidArgument, InvalidType, LimitExceeded
from ._message import BYTES, FRAME_HEAD, NULL, PAD, U16, U32, U64, U64_AT, Segments, Struct
from ._message import Column as Column
from ._message import Malformed as Malformed
from ._message import build, packer, text
from ._message import numbers as numbers
from ._quota_frames import QUOTA_ANSWERS, USAGE_REPLY, read_quota_answers, read_usage_reply
from ._quota_frames import QuotaAnswers as QuotaAnswers
from ._quota_frames import UsageReply as UsageReply

PROTOCOL_VERSION = 1
NO_HANDLE = 0xFFFFFFFF
FLAG_MAY_WAIT = 1

# Bounds of frames from a server; today's sends 512 KiB in one segment.
FRAME_BYTES_MAX = 16 << 20
SEGMENTS_MAX = 8

# Members of the unions.
HELLO, ACQUIRE, ACQUIRE_BY_HANDLE, RELEASE, WITHDRAW = 1, 2, 3, 4, 5
INSPECT, INTERN, FORGET, PING = 6, 7, 8, 9
TOPOLOGY = 22  # behind the quotas' (_quota_frames.py) and those between nodes
WELCOME, VERDICTS, GRANTED, DONE, INTERNED, INSPECTED, PONG, ERROR, GO_AWAY = range(1, 10)
TOPOLOGY_REPLY = 12
FEATURE_TOPOLOGY = 16  # of Welcome
FNV1A = 1  # TopologyReply.node_hash


# ---- columns ------------------------------------------------------------------------------------

class Keys(NamedTuple):
    """Keys as two columns."""

    blob: bytes
    sizes: bytes
    length: int


def encode_keys(keys: Sequence[str | bytes]) -> Keys:
    """Joins the keys before it measures them: the join loads them into the processor's cache."""
    count = len(keys)
    try:
        text = "".join(keys)  # type: ignore[arg-type]  # bytes raise TypeError
        if text.isascii():
            return Keys(text.encode(), packer(count, "H").pack(*map(len, keys)), count)
    except TypeError:
        pass
    except struct.error:
        raise _key_fault(keys) from None
    return _encode_mixed_keys(keys)


def _encode_mixed_keys(keys: Sequence[str | bytes]) -> Keys:
    try:
        parts = [key.encode() if isinstance(key, str) else bytes(memoryview(key)) for key in keys]
        sizes = packer(len(parts), "H").pack(*map(len, parts))
    except (UnicodeEncodeError, struct.error):
        raise _key_fault(keys) from None
    except TypeError:
        wrong = next(key for key in keys if not isinstance(key, (str, bytes, bytearray)))
        raise InvalidType(f"a key is str or bytes, not {type(wrong).__name__}") from None
    return Keys(b"".join(parts), sizes, len(parts))


def _key_fault(keys: Sequence[str | bytes]) -> InvalidArgument:
    """The error for the first of these keys that cannot be encoded."""
    for key in keys:
        try:
            size = len(key.encode() if isinstance(key, str) else key)
        except UnicodeEncodeError as error:
            return InvalidArgument(f"the key {key!r:.80} has no UTF-8: {error.reason}")
        if size > KEY_BYTES.most:
            return LimitExceeded(f"the key {key!r:.80} has {size} bytes; at most {KEY_BYTES.most}")
    return InvalidArgument("a key cannot be encoded")


def handle_bytes(handles: object) -> bytes:
    """The bytes of a buffer of 32-bit numbers, in the byte order of the wire."""
    try:
        view = memoryview(handles)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidType(f"handles are a buffer of 32-bit numbers, as array('I'): {error}"
                          ) from None
    if view.itemsize != 4 or view.format not in ("I", "L", "i", "l", "<I", "<L", "=I", "@I"):
        raise InvalidType(f"handles are a buffer of 32-bit numbers, as array('I'), not of format "
                          f"{view.format!r} with {view.itemsize} bytes")
    if sys.byteorder == "little":
        return view.tobytes()
    swapped = array("I", view.tobytes())
    swapped.byteswap()
    return swapped.tobytes()


# ---- building -----------------------------------------------------------------------------------

def _key_columns(keys: Keys) -> tuple[Column, Column]:
    return Column(BYTES, len(keys.blob), keys.blob), Column(U16, keys.length, keys.sizes)


def encode_hello(frame_id: int, client_name: str = "", wanted_shard: int | None = None,
                 token: str = "", version: int = PROTOCOL_VERSION) -> bytes:
    shard = 0 if wanted_shard is None else wanted_shard + 1
    return build(frame_id, HELLO, struct.pack("<HHI", version, 0, shard),
                 (text(client_name), text(token)))


class AcquireColumns(NamedTuple):
    """The optional fields and columns of an Acquire; most frames have none."""

    details: int = 0
    flags: int = 0
    wait_limit_ms: int = 0
    costs: Column | None = None
    max_requests: Column | None = None
    max_requests_in_queue: Column | None = None
    entry_flags: Column | None = None
    window_ms: Column | None = None


NO_COLUMNS = AcquireColumns()
# The most frequent frames have no optional columns, and are packed at once: segment table, root
# pointer, frame, pointer to the body, data, pointers to the columns, five null pointers.
_FAST_ACQUIRE = struct.Struct("<IIQQQQQIIIIQQQQQ")
_ROOT = 1 << 48 | 2 << 32
_BODY_OF_ACQUIRE = 7 << 48 | 1 << 32
_FAST_BY_HANDLE = struct.Struct("<IIQQQQQIIQQQQQ")
_BODY_OF_BY_HANDLE = 6 << 48 | 1 << 32


def encode_acquire(frame_id: int, keys: Keys, columns: AcquireColumns = NO_COLUMNS) -> bytes:
    if columns is not NO_COLUMNS:
        return build(frame_id, ACQUIRE, _acquire_data(columns),
                     (*_key_columns(keys), *columns[3:]))
    blob, sizes, count = keys
    blob_bytes, size_bytes = len(blob), len(sizes)
    blob_words, size_words = (blob_bytes + 7) >> 3, (size_bytes + 7) >> 3
    head = _FAST_ACQUIRE.pack(
        0, 12 + blob_words + size_words, _ROOT, frame_id, ACQUIRE, _BODY_OF_ACQUIRE, 0,
        6 << 2 | 1, blob_bytes << 3 | BYTES, (5 + blob_words) << 2 | 1, count << 3 | U16,
        0, 0, 0, 0, 0)
    return b"".join((head, blob, PAD[-blob_bytes & 7], sizes, PAD[-size_bytes & 7]))


def _acquire_data(columns: AcquireColumns) -> bytes:
    return struct.pack("<BBHI", columns.details, columns.flags, 0, columns.wait_limit_ms)


def encode_acquire_by_handle(frame_id: int, handles: bytes,
                             columns: AcquireColumns = NO_COLUMNS) -> bytes:
    count = len(handles) >> 2
    if columns is not NO_COLUMNS:
        return build(frame_id, ACQUIRE_BY_HANDLE, _acquire_data(columns),
                     (Column(U32, count, handles), *columns[3:]))
    head = _FAST_BY_HANDLE.pack(
        0, 11 + ((count + 1) >> 1), _ROOT, frame_id, ACQUIRE_BY_HANDLE, _BODY_OF_BY_HANDLE, 0,
        5 << 2 | 1, count << 3 | U32, 0, 0, 0, 0, 0)
    return b"".join((head, handles, PAD[-len(handles) & 7]))


def encode_release(frame_id: int, keys: Keys, costs: Column | None = None) -> bytes:
    return build(frame_id, RELEASE, b"", (*_key_columns(keys), costs))


def encode_withdraw(frame_id: int, target: int, entries: Sequence[int] = ()) -> bytes:
    return build(frame_id, WITHDRAW, U64_AT.pack(target),
                 (numbers(entries, "entries", lowest=0),))


def encode_inspect(frame_id: int, key: bytes = b"", cursor: int = 0, limit: int = 0) -> bytes:
    return build(frame_id, INSPECT, struct.pack("<QII", cursor, limit, 0),
                 (Column(BYTES, len(key), key) if key else None,))


def encode_intern(frame_id: int, keys: Keys) -> bytes:
    return build(frame_id, INTERN, b"", _key_columns(keys))


def encode_forget(frame_id: int, handles: bytes) -> bytes:
    return build(frame_id, FORGET, b"", (Column(U32, len(handles) >> 2, handles),))


def encode_ping(frame_id: int) -> bytes:
    return FRAME_HEAD.pack(0, 4, 0, 0, 2, 1, frame_id, PING) + NULL


def encode_topology(frame_id: int) -> bytes:
    return FRAME_HEAD.pack(0, 4, 0, 0, 2, 1, frame_id, TOPOLOGY) + NULL


# ---- answers ------------------------------------------------------------------------------------

class Welcome(NamedTuple):
    id: int
    version: int
    routing_hash: int
    shard: int
    shards: int
    frame_bytes_max: int
    routing_seed: int
    frame_entries_max: int
    outstanding_frames_max: int
    outstanding_bytes_max: int
    waiting_entries_max: int
    handles_max: int
    key_bytes_max: int
    instance_id: int
    features: int
    server_version: str
    rest_port: int = 0  # of the same host; 0: the server does not announce it


Columns = dict[str, "array[int]"]


class VerdictsAnswer(NamedTuple):
    """`verdicts` is one byte when all are equal; `details` has the requested columns by name."""

    id: int
    length: int  # entries answered
    verdicts: bytes
    details: Columns | None


class GrantedAnswer(NamedTuple):
    id: int
    entries: array[int]
    verdicts: bytes  # of an Acquire; else empty
    details: Columns | None
    codes: bytes  # of a Reserve; else empty
    reservations: array[int]  # likewise
    retry_after_ms: array[int]  # likewise


class DoneAnswer(NamedTuple):
    id: int


class InternedAnswer(NamedTuple):
    id: int
    handles: array[int]
    verdicts: bytes


class InspectedAnswer(NamedTuple):
    id: int
    cursor: int
    keys: list[bytes]
    window_ms: array[int]
    max_requests: array[int]
    max_requests_in_queue: array[int]
    approved: array[int]
    denied: array[int]
    waiting: array[int]
    reset_ms: array[int]


class PongAnswer(NamedTuple):
    id: int


class TopologyNode(NamedTuple):
    host: str  # empty: not known
    rest_port: int
    native_port: int  # 0: not known yet; likewise below
    shards: int
    routing_seed: int
    instance_id: int


class TopologyReply(NamedTuple):
    """The nodes that share the keys, in the order of their list; `id` is 0 after a change."""

    id: int
    list_digest: int
    node_hash: int
    own_node: int  # the place of the server that sent this
    nodes: list[TopologyNode]


class ErrorAnswer(NamedTuple):
    id: int
    code: int
    text: str


class GoAway(NamedTuple):
    id: int
    reason: str


class UnknownAnswer(NamedTuple):
    """An answer of a kind that this client does not know."""

    id: int
    kind: int


Answer = Union[Welcome, VerdictsAnswer, GrantedAnswer, DoneAnswer, InternedAnswer, InspectedAnswer,
               PongAnswer, ErrorAnswer, GoAway, QuotaAnswers, UsageReply,
               TopologyReply, UnknownAnswer]


# ---- splitting ----------------------------------------------------------------------------------

class Splitter:
    """Cuts a stream into frames. Keeps at most one partial frame, of at most FRAME_BYTES_MAX."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._needed = 8  # bytes that the frame at the front has at least

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Whole frames, in order. Joins the received parts only once a frame can be complete."""
        if self._held:
            self._parts.append(data)
            self._held += len(data)
            if self._held < self._needed:
                return
            data = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        start, available = 0, len(data)
        while True:
            self._needed = needed = frame_bytes(data, start)
            if available - start < needed:
                break
            if start == 0 and needed == available:
                self._needed = 8
                yield data
                return
            yield data[start:start + needed]
            start += needed
        if start < available:
            self._parts.append(data[start:])
            self._held = available - start

    @property
    def is_within_a_frame(self) -> bool:
        return self._held > 0


def frame_bytes(data: bytes, start: int = 0) -> int:
    """The size of the frame that begins here, or the part that is known so far."""
    available = len(data) - start
    if available < 8:
        return 8
    segments = int.from_bytes(data[start:start + 4], "little") + 1
    if segments == 1:
        size = 8 + 8 * int.from_bytes(data[start + 4:start + 8], "little")
    elif data[start:start + 4] == b"HTTP":
        raise Malformed("this is the REST port; the native one is another, 8081 by default")
    elif segments > SEGMENTS_MAX:
        raise Malformed(f"a frame of {segments} segments; at most {SEGMENTS_MAX}")
    else:
        size = 8 * (segments // 2 + 1)
        if available < size:
            return size
        size += 8 * sum(struct.unpack_from(f"<{segments}I", data, start + 4))
    if size > FRAME_BYTES_MAX:
        raise Malformed(f"a frame of {size} bytes; at most {FRAME_BYTES_MAX}")
    return size


# ---- reading ------------------------------------------------------------------------------------

# A Verdicts frame without details, in standard layout: table, root, id, kind, pointer to the body,
# count, pointer to the verdicts, pointer to the details.
_FAST_VERDICTS = struct.Struct("<IIQQQQQIIQ")
_BODY_OF_VERDICTS = 2 << 48 | 1 << 32
_AFTER_POINTERS = 1 << 2 | 1


def decode(frame: bytes) -> Answer:
    """Decodes one ServerFrame. Fast path: recognises the most frequent one by its fixed words."""
    if len(frame) >= 72:
        (table, _, root, frame_id, kind, body, count, pointer, size,
         details) = _FAST_VERDICTS.unpack_from(frame)
        if (body == _BODY_OF_VERDICTS and kind == VERDICTS and root == _ROOT
                and pointer == _AFTER_POINTERS and not details and not table and size & 7 == BYTES
                and 64 + (size >> 3) <= len(frame)
                and (size >> 3 == count or size >> 3 == 1 and count)):
            return VerdictsAnswer(frame_id, count & 0xFFFFFFFF, frame[64:64 + (size >> 3)], None)
    return _decode_any(frame)


def _decode_any(frame: bytes) -> Answer:
    if len(frame) < 8 or frame_bytes(frame) != len(frame):
        raise Malformed("not one whole frame")
    segments = Segments(frame)
    root = Struct.at(segments, 0, segments.bounds[0][0]) or Struct(segments, 0, 0, 0, 0)
    frame_id, kind = root.number(0, 8), root.number(8, 2)
    if kind == DONE:
        return DoneAnswer(frame_id)
    if kind == PONG:
        return PongAnswer(frame_id)
    reader = _READERS.get(kind)
    if reader is None:
        return UnknownAnswer(frame_id, kind)
    body = root.child(0)
    if body is None:
        raise Malformed("a frame without its body")
    return reader(frame_id, body)


def _read_welcome(frame_id: int, body: Struct) -> Welcome:
    number = body.number
    return Welcome(
        frame_id, number(0, 2), number(2, 2), number(4, 4), number(8, 4), number(12, 4),
        number(16, 8), number(24, 4), number(28, 4), number(32, 4), number(36, 4), number(40, 4),
        number(44, 4), number(48, 8), number(56, 8), body.text(0),
        number(64, 2))


def _read_verdicts(frame_id: int, body: Struct) -> VerdictsAnswer:
    count = body.number(0, 4)
    return VerdictsAnswer(frame_id, count, _checked(body.data(0), count),
                          _read_details(body.child(1), count))


def _read_granted(frame_id: int, body: Struct) -> GrantedAnswer:
    entries, reservations, codes = body.column(0, U32), body.column(3, U64), body.data(4)
    count = len(entries)
    retries = array("q", body.column(5, U64).tobytes())
    for column, name in (reservations, "reservations"), (retries, "retry hints"):
        if len(column) not in (0, count):
            raise Malformed(f"{len(column)} {name} for {count} entries")
    if codes:
        return GrantedAnswer(frame_id, entries, b"", None, _checked(codes, count), reservations,
                             retries)
    return GrantedAnswer(frame_id, entries, _checked(body.data(1), count),
                         _read_details(body.child(2), count), b"", reservations, retries)


def _checked(verdicts: bytes, count: int) -> bytes:
    if len(verdicts) != count and (len(verdicts) != 1 or not count):
        raise Malformed(f"{len(verdicts)} verdicts for {count} entries")
    return verdicts


def _read_details(body: Struct | None, count: int) -> Columns | None:
    if body is None:
        return None
    columns: Columns = {}
    for index, (name, element) in enumerate((
            ("limit", U32), ("window_ms", U64), ("remaining", U32),
            ("reset_ms", U64), ("retry_after_ms", U64), ("request_id", U64),
            ("position", U32))):
        column = body.column(index, element)
        if len(column):
            if len(column) != count:
                raise Malformed(f"{len(column)} values of {name} for {count} entries")
            columns[name] = column
    return columns


def _read_interned(frame_id: int, body: Struct) -> InternedAnswer:
    handles = body.column(0, U32)
    return InternedAnswer(frame_id, handles, _checked(body.data(1), len(handles)))


def _read_inspected(frame_id: int, body: Struct) -> InspectedAnswer:
    blob, sizes = body.data(0), body.column(1, U16)
    if sum(sizes) != len(blob):
        raise Malformed("key sizes that do not add up to the keys")
    keys, start = [], 0
    for size in sizes:
        keys.append(blob[start:start + size])
        start += size
    columns = [body.column(2, U64), *(body.column(n, U32) for n in range(3, 8)),
               body.column(8, U64)]
    if any(len(column) != len(keys) for column in columns):
        raise Malformed("columns of different length")
    return InspectedAnswer(frame_id, body.number(0, 8), keys, *columns)


def _read_topology(frame_id: int, body: Struct) -> TopologyReply:
    blob, sizes = body.data(0), body.column(1, U16)
    if sum(sizes) != len(blob):
        raise Malformed("host sizes that do not add up to the hosts")
    hosts, start = [], 0
    for size in sizes:
        hosts.append(blob[start:start + size].decode("utf-8", "replace"))
        start += size
    columns = [*(body.column(n, U16) for n in (2, 3)), body.column(4, U32),
               *(body.column(n, U64) for n in (5, 6))]
    if any(len(column) != len(hosts) for column in columns):
        raise Malformed("columns of different length")
    own = body.number(10, 2)
    if own >= max(1, len(hosts)):
        raise Malformed(f"the server is node {own} of {len(hosts)}")
    nodes = [TopologyNode(*row) for row in zip(hosts, *columns)]
    return TopologyReply(frame_id, body.number(0, 8), body.number(8, 2), own, nodes)


def _read_error(frame_id: int, body: Struct) -> ErrorAnswer:
    return ErrorAnswer(frame_id, body.number(0, 2), body.text(0))


def _read_go_away(frame_id: int, body: Struct) -> GoAway:
    return GoAway(frame_id, body.text(0))


_READERS: dict[int, Callable[[int, Struct], Answer]] = {
    WELCOME: _read_welcome, VERDICTS: _read_verdicts, GRANTED: _read_granted,
    INTERNED: _read_interned, INSPECTED: _read_inspected, ERROR: _read_error,
    GO_AWAY: _read_go_away, QUOTA_ANSWERS: read_quota_answers, USAGE_REPLY: read_usage_reply,
    TOPOLOGY_REPLY: _read_topology,
}
