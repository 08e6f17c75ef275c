"""Cap'n Proto messages, without a library: the parts of all frames.

Flow:   parts -> lay_out(), build() -> a frame; a frame -> Segments -> Struct -> numbers, columns.
Shape:  every frame is built in one segment, structs before their columns, as Cap'n Proto's own
        builders do.
Units:  sizes and offsets in bytes, unless named _words; little-endian on any machine.
Errors: Malformed for what a peer must not send; ValueError for what cannot be encoded.
Source: Cap'n Proto encoding specification.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Union

from ._bounds import NUMBER_MAX

# In a column: this entry has no value, as if the column were absent.
UNSET_32, UNSET_64 = 2**32 - 1, 2**64 - 1

BYTES, U16, U32, U64, COMPOSITE = 2, 3, 4, 5, 7  # element sizes in a list pointer
FRAME_HEAD = struct.Struct("<IIHHHHQQ")  # table, root pointer, id, kind
U64_AT = struct.Struct("<Q")
PAD = tuple(bytes(n) for n in range(8))
NULL = bytes(8)
TRAVERSED_BYTES_MAX = 64 << 20  # of one frame


class Malformed(Exception):
    """The peer sent bytes that are not a frame of this protocol."""


# ---- building -----------------------------------------------------------------------------------

class Column(NamedTuple):
    """A list: the code of its element size in a pointer, the number of elements, their bytes.

    For structs (COMPOSITE): the number of their words, and a tag before them.
    """

    element: int
    length: int
    data: bytes

    @property
    def pointer(self) -> int:
        """A pointer to the list, without its offset."""
        return 1 | self.element << 32 | self.length << 35


class Nested(NamedTuple):
    """A struct within another one: its data, its pointers, then the targets of the pointers."""

    data_words: int
    pointers: int
    data: bytes

    @property
    def pointer(self) -> int:
        return self.data_words << 32 | self.pointers << 48


Part = Union[Column, Nested, None]


@lru_cache(maxsize=256)
def packer(count: int, letter: str) -> struct.Struct:
    return struct.Struct(f"<{count}{letter}")


def numbers(values: Sequence[int] | None, what: str, letter: str = "I", lowest: int = 1,
            highest: int = NUMBER_MAX) -> Column | None:
    """A column of integers; None stays None, which means the default for all."""
    if values is None or not len(values):
        return None
    element = {"B": BYTES, "H": U16, "I": U32, "Q": U64}[letter]
    try:
        data = packer(len(values), letter).pack(*values)
    except struct.error:
        raise ValueError(f"{what} must be whole numbers from {lowest} to {highest}") from None
    return Column(element, len(values), data)


def text(value: str) -> Column | None:
    if not value:
        return None
    data = value.encode() + b"\0"
    return Column(BYTES, len(data), data)


def lay_out(data: bytes, parts: Sequence[Part]) -> bytes:
    """A struct: its data (whole words), its pointers, and its parts in the pointers' order."""
    behind = len(parts)  # words from the pointer to the next part
    head, tail = [data], list[bytes]()
    for part in parts:
        behind -= 1
        if part is None:
            head.append(NULL)
        else:
            head.append(U64_AT.pack(part.pointer | behind << 2))
            content = part.data
            tail += content, PAD[-len(content) & 7]
            behind += (len(content) + 7) >> 3
    return b"".join((*head, *tail))


def build(frame_id: int, kind: int, data: bytes, parts: Sequence[Part]) -> bytes:
    """A frame of one segment: the frame's struct, then its body."""
    body = lay_out(data, parts)
    return b"".join((
        FRAME_HEAD.pack(0, 4 + (len(body) >> 3), 0, 0, 2, 1, frame_id, kind),
        U64_AT.pack(len(data) >> 3 << 32 | len(parts) << 48), body))


# ---- reading ------------------------------------------------------------------------------------

_ARRAYS = {BYTES: "B", U16: "H", U32: "I", U64: "Q"}
_WIDTHS = {BYTES: 1, U16: 2, U32: 4, U64: 8}


class Segments:
    """The segments of a frame.

    Checks every pointer against the end of its segment. Bounds the bytes that all pointers lead to,
    because many of them may point to the same bytes.
    """

    def __init__(self, frame: bytes) -> None:
        self._left = TRAVERSED_BYTES_MAX
        count = int.from_bytes(frame[:4], "little") + 1
        start = 8 * (count // 2 + 1)
        self.frame = frame
        self.bounds: list[tuple[int, int]] = []
        for words in struct.unpack_from(f"<{count}I", frame, 4):
            self.bounds.append((start, start + 8 * words))
            start += 8 * words
        if start != len(frame):
            raise Malformed("a frame whose segments do not add up to it")

    def word(self, segment: int, at: int) -> int:
        start, end = self.bounds[segment]
        if not start <= at <= end - 8:
            raise Malformed("a pointer outside its segment")
        return int(U64_AT.unpack_from(self.frame, at)[0])

    def follow(self, segment: int, at: int) -> tuple[int, int, int]:
        """The pointer at `at`, through far pointers: (pointer, segment, place of its target)."""
        pointer = self.word(segment, at)
        if pointer & 3 != 2:
            return pointer, segment, at + 8 + 8 * _signed_offset(pointer)
        pad, pad_segment = 8 * (pointer >> 3 & 0x1FFFFFFF), pointer >> 32
        if pad_segment >= len(self.bounds):
            raise Malformed("a pointer into a segment that is not there")
        pad += self.bounds[pad_segment][0]
        inner = self.word(pad_segment, pad)
        if not pointer & 4:
            if inner & 3 == 2:
                raise Malformed("a far pointer to a far pointer")
            return inner, pad_segment, pad + 8 + 8 * _signed_offset(inner)
        target_segment = inner >> 32
        if inner & 7 != 2 or target_segment >= len(self.bounds):
            raise Malformed("an invalid landing pad of a far pointer")
        target = self.bounds[target_segment][0] + 8 * (inner >> 3 & 0x1FFFFFFF)
        return self.word(pad_segment, pad + 8), target_segment, target

    def check(self, segment: int, at: int, size: int) -> None:
        start, end = self.bounds[segment]
        if not (start <= at and at + size <= end):
            raise Malformed("a target outside its segment")
        self._left -= size + 8
        if self._left < 0:
            raise Malformed("a frame that points to the same bytes again and again")


def _signed_offset(pointer: int) -> int:
    offset = pointer >> 2 & 0x3FFFFFFF
    return offset - 0x40000000 if offset & 0x20000000 else offset


class Struct:
    """A struct of a peer older or newer than this schema: fields that it lacks are zero."""

    def __init__(self, segments: Segments, segment: int, at: int, data_bytes: int,
                 pointers: int) -> None:
        self._segments = segments
        self._segment = segment
        self._data = at
        self._data_bytes = data_bytes
        self._pointers = pointers

    @classmethod
    def at(cls, segments: Segments, segment: int, at: int) -> Struct | None:
        """The struct that the pointer at `at` points to; None where it is null."""
        pointer, segment, target = segments.follow(segment, at)
        if not pointer:
            return None
        if pointer & 3:
            raise Malformed("another pointer where a struct belongs")
        data_bytes, pointers = 8 * (pointer >> 32 & 0xFFFF), pointer >> 48
        segments.check(segment, target, data_bytes + 8 * pointers)
        return cls(segments, segment, target, data_bytes, pointers)

    def number(self, offset: int, size: int) -> int:
        if offset + size > self._data_bytes:
            return 0
        at = self._data + offset
        return int.from_bytes(self._segments.frame[at:at + size], "little")

    def child(self, index: int) -> Struct | None:
        """None where the pointer is null."""
        if index >= self._pointers:
            return None
        return Struct.at(self._segments, self._segment, self._place(index))

    def children(self, index: int) -> list[Struct]:
        """A list of structs; none where the pointer is null."""
        if index >= self._pointers:
            return []
        pointer, segment, at = self._segments.follow(self._segment, self._place(index))
        if not pointer:
            return []
        if pointer & 3 != 1 or pointer >> 32 & 7 != COMPOSITE:
            raise Malformed("another pointer where a list of structs belongs")
        words = pointer >> 35
        self._segments.check(segment, at, 8 + 8 * words)
        tag = self._segments.word(segment, at)
        count, data_words, pointers = tag >> 2 & 0x3FFFFFFF, tag >> 32 & 0xFFFF, tag >> 48
        step = data_words + pointers
        if tag & 3 or count * step > words or count and not step:
            raise Malformed("an invalid list of structs, or one longer than its words")
        return [Struct(self._segments, segment, at + 8 + 8 * step * n, 8 * data_words, pointers)
                for n in range(count)]

    def _place(self, index: int) -> int:
        return self._data + self._data_bytes + 8 * index

    def data(self, index: int, element: int = BYTES) -> bytes:
        """The bytes of a list of exactly this element size; empty where there is none."""
        if index >= self._pointers:
            return b""
        pointer, segment, at = self._segments.follow(self._segment, self._place(index))
        if not pointer:
            return b""
        if pointer & 3 != 1 or pointer >> 32 & 7 != element:
            raise Malformed("another pointer where a list of this type belongs")
        size = _WIDTHS[element] * (pointer >> 35)
        self._segments.check(segment, at, size)
        return self._segments.frame[at:at + size]

    def column(self, index: int, element: int) -> array[int]:
        values = array(_ARRAYS[element], self.data(index, element))
        if sys.byteorder != "little":
            values.byteswap()
        return values

    def text(self, index: int) -> str:
        data = self.data(index)
        if data[-1:] not in (b"", b"\0"):
            raise Malformed("a text without its NUL")
        return data[:-1].decode("utf-8", "replace")
