"""Builds the client's frames of quotas and reads the server's answers to them.

Flow:   columns -> encode_*() -> bytes; the body of an answer -> read_*() -> an answer.
Shape:  docs/protocol.md; the tests compare the numbers here with the schema. A column that is None
        is absent: the server's default applies to all entries.
Units:  milliseconds, tokens, requests, micro-units of cost; offsets in bytes.
Errors: Malformed for what a server must not send; ValueError for what cannot be encoded.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ._bounds import AMOUNT_MAX, REQUESTS, RESERVATION
from ._message import (BYTES, COMPOSITE, U16, U32, U64, U64_AT, Column, Malformed, Nested,
                       Struct, build, lay_out, numbers, packer, text)

CALLS_MAX = 2_048  # in one frame
USAGE_MAX = 256  # subjects of a usage request in one frame

# Flags.
MAY_WAIT, CONNECTION_BOUND, WANTS_LIMITS, WANTS_VIOLATED, KEEP_REQUESTS = 1, 2, 4, 8, 16

# Members of the unions.
RESERVE, CHECK, SETTLE, CANCEL, EXTEND, RECORD, USAGE, QUOTA, RESET, CONSUME = range(10, 20)
QUOTA_ANSWERS, USAGE_REPLY = 10, 11

_RESERVE_DATA = struct.Struct("<B3xIIxxxx")
_FLAGS = struct.Struct("<B7x")
_FLAGS_AND_LIFETIME = struct.Struct("<B3xI")
_FLAGS_AND_WAIT = struct.Struct("<B3xI")
_USAGE_DATA = struct.Struct("<QIxxxx")
_QUOTA_DATA = struct.Struct("<B3xI")
_LIMIT_DATA = struct.Struct("<HHHHQQB7x")


# ---- building -----------------------------------------------------------------------------------

class Subjects(NamedTuple):
    """The subjects of all entries: names end to end, their sizes, and the number per entry."""

    names: Column
    sizes: Column
    counts: Column | None  # None: one each


def encode_subjects(entries: Sequence[Sequence[bytes]]) -> Subjects:
    names = [name for entry in entries for name in entry]
    blob = b"".join(names)
    counts = None
    if len(names) != len(entries) or not all(entries):
        counts = Column(BYTES, len(entries), bytes(map(len, entries)))
    return Subjects(Column(BYTES, len(blob), blob),
                    Column(U16, len(names), packer(len(names), "H").pack(*map(len, names))), counts)


def amounts(values: Sequence[int] | None, what: str) -> Column | None:
    return numbers(values, what, "Q", 0, AMOUNT_MAX)


def requests(values: Sequence[int] | None) -> Column | None:
    return numbers(values, "requests", "I", REQUESTS.least, REQUESTS.most)


def _ids(reservations: Sequence[int]) -> Column | None:
    return numbers(reservations, "reservations", "Q", RESERVATION.least, RESERVATION.most)


class ReserveColumns(NamedTuple):
    """The columns and fields of a Reserve or Check, without its subjects."""

    flags: int = 0
    wait_limit_ms: int = 0
    lifetime_ms: int = 0  # 0: the server's default
    requests: Column | None = None
    input_tokens: Column | None = None
    max_output_tokens: Column | None = None
    costs: Column | None = None
    ids: Sequence[bytes] | None = None  # chosen by the client; b"": none
    owner: str = ""


def encode_reserve(frame_id: int, subjects: Subjects, columns: ReserveColumns,
                   kind: int = RESERVE) -> bytes:
    return build(frame_id, kind,
                 _RESERVE_DATA.pack(columns.flags, columns.wait_limit_ms, columns.lifetime_ms),
                 (*subjects, columns.requests, columns.input_tokens, columns.max_output_tokens,
                  columns.costs, *_own_ids(columns.ids), text(columns.owner)))


def _own_ids(ids: Sequence[bytes] | None) -> tuple[Column | None, Column | None]:
    """The columns of the client's own ids, and of their sizes."""
    if ids is None or not any(ids):
        return None, None
    blob = b"".join(ids)
    return (Column(BYTES, len(blob), blob),
            Column(U16, len(ids), packer(len(ids), "H").pack(*map(len, ids))))


class Used(NamedTuple):
    """The columns of used amounts of a Settle, Record or Consume."""

    requests: Column | None = None
    input_tokens: Column | None = None
    cached_input_tokens: Column | None = None
    output_tokens: Column | None = None
    costs: Column | None = None


def encode_settle(frame_id: int, reservations: Sequence[int], used: Used, flags: int = 0) -> bytes:
    return build(frame_id, SETTLE, _FLAGS.pack(flags), (_ids(reservations), *used))


def encode_cancel(frame_id: int, reservations: Sequence[int], flags: int = 0) -> bytes:
    return build(frame_id, CANCEL, _FLAGS.pack(flags), (_ids(reservations),))


def encode_extend(frame_id: int, reservations: Sequence[int], lifetime_ms: int,
                  flags: int = 0) -> bytes:
    return build(frame_id, EXTEND, _FLAGS_AND_LIFETIME.pack(flags, lifetime_ms),
                 (_ids(reservations),))


def encode_record(frame_id: int, subjects: Subjects, used: Used, flags: int = 0,
                  ids: Sequence[bytes] | None = None) -> bytes:
    return build(frame_id, RECORD, _FLAGS.pack(flags), (*subjects, *used, *_own_ids(ids)))


def encode_consume(frame_id: int, subjects: Subjects, used: Used, flags: int = 0,
                   wait_limit_ms: int = 0, ids: Sequence[bytes] | None = None) -> bytes:
    return build(frame_id, CONSUME, _FLAGS_AND_WAIT.pack(flags, wait_limit_ms),
                 (*subjects, *used, *_own_ids(ids)))


def encode_usage(frame_id: int, subjects: Sequence[bytes] = (), cursor: int = 0,
                 limit: int = 0) -> bytes:
    """Encodes a request for the usage of these subjects; without any, of a page of all."""
    names, sizes, _ = encode_subjects([(name,) for name in subjects])
    return build(frame_id, USAGE, _USAGE_DATA.pack(cursor, limit),
                 (names, sizes) if subjects else (None, None))


class LimitText(NamedTuple):
    """A limit as on the wire: enumerators as numbers."""

    name: str
    metric: int
    kind: int
    ceiling: int
    unit: int
    amount: int
    period_ms: int
    time_zone: str
    count_cached: bool


class QuotaText(NamedTuple):
    limits: Sequence[LimitText] = ()
    refund_expired: bool = False
    overtakers_max: int = 0
    profile: str = ""


def encode_put(frame_id: int, subject: bytes, quota: QuotaText) -> bytes:
    return build(frame_id, QUOTA, bytes(8), (_data(subject), _quota(quota)))


def encode_remove(frame_id: int, subject: bytes) -> bytes:
    return build(frame_id, QUOTA, _FLAGS.pack(1), (_data(subject), None))


def encode_reset(frame_id: int, subject: bytes, is_all: bool = False) -> bytes:
    return build(frame_id, RESET, _FLAGS.pack(is_all), (_data(subject) if subject else None,))


def _data(content: bytes) -> Column:
    return Column(BYTES, len(content), content)


def _quota(quota: QuotaText) -> Nested:
    data = _QUOTA_DATA.pack(quota.refund_expired, quota.overtakers_max)
    return Nested(1, 2, lay_out(data, (_limits(quota.limits), text(quota.profile))))


_LIMIT_WORDS, _LIMIT_POINTERS = 4, 2


def _limits(limits: Sequence[LimitText]) -> Column | None:
    """A list of structs: a tag, the structs side by side, then all their texts."""
    if not limits:
        return None
    step = _LIMIT_WORDS + _LIMIT_POINTERS
    words = len(limits) * step
    head, tail = list[bytes](), list[bytes]()
    behind = words  # from the list's first word to the next text
    for index, limit in enumerate(limits):
        head.append(_LIMIT_DATA.pack(limit.metric, limit.kind, limit.ceiling, limit.unit,
                                     limit.amount, limit.period_ms, limit.count_cached))
        for number, part in enumerate((text(limit.name), text(limit.time_zone)), 1):
            if part is None:
                head.append(bytes(8))
                continue
            pointer_at = index * step + _LIMIT_WORDS + number  # the word behind the pointer
            head.append(U64_AT.pack(part.pointer | (behind - pointer_at) << 2))
            tail.append(part.data + bytes(-len(part.data) & 7))
            behind += len(tail[-1]) >> 3
    tag = U64_AT.pack(len(limits) << 2 | _LIMIT_WORDS << 32 | _LIMIT_POINTERS << 48)
    return Column(COMPOSITE, words, b"".join((tag, *head, *tail)))


# ---- answers ------------------------------------------------------------------------------------

class LimitStates(NamedTuple):
    """Columns of equal length; `entries` has the entry that each limit belongs to."""

    left_out: int
    entries: array[int]
    subjects: bytes
    names: list[bytes]
    metrics: bytes
    kinds: bytes
    ceilings: bytes
    violated: bytes
    amounts: array[int]
    used: array[int]
    reserved: array[int]
    remaining: array[int]
    period_ms: array[int]
    reset_ms: array[int]


class QuotaAnswers(NamedTuple):
    """`codes` is one byte when all are equal; other columns are empty when they are absent."""

    id: int
    length: int  # entries answered
    codes: bytes
    reservations: array[int]
    retry_after_ms: array[int]  # -1: never
    limits: LimitStates | None
    detail: str = ""  # of an invalid quota: the fields at fault


class UsageReply(NamedTuple):
    id: int
    cursor: int
    names: list[bytes]
    sources: bytes
    open_reservations: array[int]
    waiting: array[int]
    quotas: list[QuotaText]
    limits: LimitStates | None


def read_quota_answers(frame_id: int, body: Struct) -> QuotaAnswers:
    count, codes = body.number(0, 4), body.data(0)
    if len(codes) != count and (len(codes) != 1 or not count):
        raise Malformed(f"{len(codes)} codes for {count} entries")
    reservations = body.column(1, U64)
    retry_after_ms = array("q", body.column(2, U64).tobytes())
    if len(reservations) not in (0, count) or len(retry_after_ms) not in (0, count):
        raise Malformed("columns whose lengths differ from the answer's")
    return QuotaAnswers(frame_id, count, codes, reservations, retry_after_ms,
                        _read_states(body.child(3), count), body.text(4))


def read_usage_reply(frame_id: int, body: Struct) -> UsageReply:
    names = _cut(body.data(0), body.column(1, U16))
    sources, quotas = body.data(2), [_read_quota(quota) for quota in body.children(5)]
    columns = body.column(3, U32), body.column(4, U32)
    if any(len(column) != len(names) for column in (sources, *columns, quotas)):
        raise Malformed("columns of different length")
    return UsageReply(frame_id, body.number(0, 8), names, sources, *columns, quotas,
                     _read_states(body.child(6), len(names)))


def _read_states(body: Struct | None, entries_count: int) -> LimitStates | None:
    if body is None:
        return None
    entries, names = body.column(0, U32), _cut(body.data(2), body.data(3))
    states = LimitStates(
        body.number(0, 4), entries, body.data(1), names, body.data(4), body.data(5), body.data(6),
        body.data(7), *(body.column(n, U64) for n in range(8, 14)))
    if any(len(column) != len(entries) for column in states[2:]):
        raise Malformed("columns of different length")
    if any(entry >= entries_count for entry in entries):
        raise Malformed("a limit of an entry that is not there")
    return states


def _cut(blob: bytes, sizes: Sequence[int]) -> list[bytes]:
    if sum(sizes) != len(blob):
        raise Malformed("sizes that do not add up to the names")
    names, start = [], 0
    for size in sizes:
        names.append(blob[start:start + size])
        start += size
    return names


def _read_quota(body: Struct) -> QuotaText:
    return QuotaText([_read_limit(limit) for limit in body.children(0)],
                     bool(body.number(0, 1) & 1), body.number(4, 4), body.text(1))


def _read_limit(body: Struct) -> LimitText:
    number = body.number
    return LimitText(body.text(0), number(0, 2), number(2, 2), number(4, 2), number(6, 2),
                     number(8, 8), number(16, 8), body.text(1), bool(number(24, 1) & 1))
