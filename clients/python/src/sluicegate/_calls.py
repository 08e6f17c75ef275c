"""Calls with many entries of one caller and one result: acquire_many() and the like.

Flow:   a Call is cut into Pieces, a frame each; up to `window` of them are outstanding at a time.
Errors: the first error ends the call; its `partial` has the verdicts decided before.
Lives:  not thread-safe: the clients lock. A call whose sink is done (timed out, cancelled) sends
        no more frames, withdraws its queued entries, and releases permits granted to them later.
"""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _frames
from ._requests import APPROVED, DRAINING, QUEUED, Request, copy_of, expect, verdict_bytes
from .errors import ConnectionLost, Draining, NotInterned, SluicegateError, StaleHandles
from .quota import QuotaResults
from .verdict import DETAIL_COLUMNS, Verdict, Verdicts

if TYPE_CHECKING:
    from ._dispatcher import Dispatcher


Positions = range | list[int]


def pick(values: Any, positions: Positions) -> Any:
    if isinstance(positions, range):
        if len(positions) == len(values):
            return values
        return values[positions.start:positions.stop]
    return [values[n] for n in positions]


class Call(abc.ABC):
    """Many entries of one caller, with one result."""

    applies_policy = False  # the failure policy decides in place of the server
    may_ask_again = False  # with requeue=True
    may_wait = False
    frame_entries_max = 8_192  # in addition to the client's own bound, and Welcome's

    def __init__(self, dispatcher: Dispatcher, sink: Any, count: int) -> None:
        self.dispatcher = dispatcher
        self.sink = sink
        self.count = count
        self.pieces_out = 0  # outstanding, or about to be sent
        self.is_queued = False  # for its next piece
        self._next = 0
        self._waiting: set[Piece] = set()
        self.is_settled = False

    @abc.abstractmethod
    def encode(self, frame_id: int, positions: Positions) -> bytes: ...

    @abc.abstractmethod
    def take(self, piece: Piece, answer: _frames.Answer) -> None: ...

    @abc.abstractmethod
    def result(self) -> Any: ...

    def take_granted(self, piece: Piece, answer: _frames.GrantedAnswer) -> None:
        raise _frames.Malformed("Granted for a frame without waiting entries")

    def partial(self) -> Verdicts | QuotaResults | None:
        return None

    @property
    def has_more(self) -> bool:
        return not self.is_settled and self._next < self.count and not self.sink.done()

    def next_piece(self, entries_max: int) -> Piece:
        size = min(entries_max, self.frame_entries_max)
        start, self._next = self._next, min(self._next + size, self.count)
        self.pieces_out += 1
        return Piece(self, range(start, self._next))

    def piece_answered(self, piece: Piece, answer: _frames.Answer) -> bool:
        self.take(piece, answer)
        self.pieces_out -= 1
        if piece.queued:
            self._waiting.add(piece)
            if self.sink.done():
                self.dispatcher.withdraw(piece.frame_id, *piece.queued)
        self.go_on()
        return not piece.queued

    def piece_granted(self, piece: Piece, answer: _frames.GrantedAnswer) -> bool:
        self.take_granted(piece, answer)
        if not piece.queued:
            self._waiting.discard(piece)
        self.go_on()
        return not piece.queued

    def piece_lost(self, piece: Piece, error: ConnectionLost) -> None:
        if piece in self._waiting:
            self._waiting.discard(piece)
        else:
            self.pieces_out -= 1
        positions = [piece.positions[n] for n in sorted(piece.queued)] or piece.positions
        self.entries_lost(positions, error)

    def entries_lost(self, positions: Positions, error: ConnectionLost) -> None:
        again = self.may_ask_again and self.dispatcher.options.requeue
        if again and not self.is_settled and not self.sink.done():
            self.pieces_out += 1
            self.dispatcher.ask_again(Piece(self, positions))
        else:
            self.fail(error)

    def go_on(self) -> None:
        if self.has_more:
            self.dispatcher.resume(self)
        elif not self.pieces_out and not self._waiting and not self.is_settled:
            self._end()
            if not self.sink.done():
                self._deliver(self.result)

    def _deliver(self, result: Callable[[], Any]) -> None:
        try:
            self.sink.set_result(result())
        except SluicegateError as error:
            self.sink.set_exception(error)

    def _end(self) -> None:
        self.is_settled = True
        self.dispatcher.finished(1)

    def fail(self, error: Exception) -> None:
        """Ends the call; answers to its outstanding pieces are ignored."""
        if self.is_settled:
            return
        self._end()
        self.withdraw()
        if self.sink.done():
            return
        if self.applies_policy and isinstance(error, ConnectionLost):
            verdict = self.dispatcher.policy_verdict
            if verdict is not None:
                self.sink.set_result(self.decided_by_policy(verdict))
                return
        error = copy_of(error)
        if isinstance(error, SluicegateError):
            error.partial = self.partial()
        self.sink.set_exception(error)

    def decided_by_policy(self, verdict: Verdict) -> Any:
        raise NotImplementedError

    def withdraw(self) -> None:
        for piece in self._waiting:
            self.dispatcher.withdraw(piece.frame_id, *piece.queued)


class Piece(Request):
    """A frame of a call."""

    def __init__(self, call: Call, positions: Positions) -> None:
        self.call = call
        self.positions = positions
        self.entries = len(positions)
        self.queued: set[int] = set()  # entries of the frame that wait

    def encode(self, frame_id: int) -> bytes:
        return self.call.encode(frame_id, self.positions)

    def split(self) -> list[Request]:
        half = len(self.positions) // 2
        if not half:
            return super().split()
        self.call.pieces_out += 1
        return [Piece(self.call, self.positions[:half]), Piece(self.call, self.positions[half:])]

    def answered(self, answer: _frames.Answer) -> bool:
        return self.call.piece_answered(self, answer)

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        return self.call.piece_granted(self, answer)

    def failed(self, error: Exception) -> None:
        self.call.pieces_out -= 1
        self.call.fail(error)

    def lost(self, error: ConnectionLost) -> None:
        self.call.piece_lost(self, error)


class Options(NamedTuple):
    """Columns of an acquire for many keys; a number applies to all entries."""

    costs: int | Sequence[int] | None = None
    max_requests: int | Sequence[int] | None = None
    max_requests_in_queue: int | Sequence[int] | None = None
    may_wait: bool = False
    wait_limit_ms: int = 0
    details: int = 0


NO_OPTIONS = Options()


def spread(values: int | Sequence[int] | None, count: int, what: str) -> Sequence[int] | None:
    if values is None:
        return None
    if isinstance(values, int):
        return [values] * count
    if len(values) != count:
        raise ValueError(f"{len(values)} {what} for {count} entries: give one each, or one number")
    return values


class AcquireCall(Call):
    """acquire_many()."""

    applies_policy = True
    may_ask_again = True

    def __init__(self, dispatcher: Dispatcher, sink: Any, keys: Sequence[str | bytes],
                 options: Options = NO_OPTIONS, count: int | None = None) -> None:
        super().__init__(dispatcher, sink, len(keys) if count is None else count)
        self.keys = keys
        self.options = options
        self.may_wait = options.may_wait
        self._costs = spread(options.costs, self.count, "costs")
        self._limits = spread(options.max_requests, self.count, "max_requests")
        self._queues = spread(options.max_requests_in_queue, self.count, "max_requests_in_queue")
        self._raw: bytes | bytearray = b""
        self._columns: dict[str, array[int]] = {
            name: array(letter, bytes(self.count * (4 if letter == "I" else 8)))
            for name, bit, letter in DETAIL_COLUMNS if options.details & bit}

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        return _frames.encode_acquire(frame_id, _frames.encode_keys(pick(self.keys, positions)),
                                      self.extras(positions))

    def extras(self, positions: Positions) -> _frames.Extras:
        if self.options is NO_OPTIONS:
            return _frames.PLAIN

        def column(values: Sequence[int] | None, name: str) -> _frames.Column | None:
            return None if values is None else _frames.numbers(pick(values, positions), name)

        return _frames.Extras(
            int(self.options.details), _frames.FLAG_MAY_WAIT if self.may_wait else 0,
            self.options.wait_limit_ms, column(self._costs, "costs"),
            column(self._limits, "max_requests"),
            column(self._queues, "max_requests_in_queue"))

    def take(self, piece: Piece, answer: _frames.Answer) -> None:
        if type(answer) is not _frames.VerdictsAnswer or answer.length != len(piece.positions):
            raise _frames.Malformed("not the answer to this Acquire")
        raw = verdict_bytes(answer.verdicts, answer.length)
        if self.sink.done() or self.is_settled:
            self._release_unwanted(piece.positions, raw)
        self._store(piece.positions, raw)
        if answer.details:
            self._store_details(piece.positions, answer.details)
        if QUEUED in raw:
            if not self.may_wait:
                raise _frames.Malformed("an entry that must not wait was queued")
            piece.queued.update(n for n, verdict in enumerate(raw) if verdict == QUEUED)
        if DRAINING in raw:
            self._drained([p for p, verdict in zip(piece.positions, raw) if verdict == DRAINING])

    def take_granted(self, piece: Piece, answer: _frames.GrantedAnswer) -> None:
        entries = answer.entries.tolist()
        raw = verdict_bytes(answer.verdicts, len(entries))
        if not piece.queued.issuperset(entries) or QUEUED in raw:
            raise _frames.Malformed("an entry was granted that does not wait")
        piece.queued.difference_update(entries)
        positions = [piece.positions[entry] for entry in entries]
        if self.sink.done() or self.is_settled:
            self._release_unwanted(positions, raw)
        self._store(positions, raw)
        if answer.details:
            self._store_details(positions, answer.details)
        if DRAINING in raw:
            self._drained([p for p, verdict in zip(positions, raw) if verdict == DRAINING])

    def _drained(self, positions: list[int]) -> None:
        self.entries_lost(positions, Draining("the server is shutting down"))

    def _store(self, positions: Positions, raw: bytes) -> None:
        if len(raw) == self.count and isinstance(positions, range):
            self._raw = raw  # one frame held all of it
            return
        if not isinstance(self._raw, bytearray):
            self._raw = bytearray(self._raw or bytes(self.count))
        if isinstance(positions, range):
            self._raw[positions.start:positions.stop] = raw
        else:
            for position, verdict in zip(positions, raw):
                self._raw[position] = verdict

    def _store_details(self, positions: Positions, details: _frames.Columns) -> None:
        for name, column in self._columns.items():
            if name in details:
                for position, value in zip(positions, details[name]):
                    column[position] = value

    def _release_unwanted(self, positions: Positions, raw: bytes) -> None:
        """Releases permits that were granted after a wait whose caller has left."""
        if self.may_wait:
            for position, verdict in zip(positions, raw):
                if verdict == APPROVED:
                    cost = self._costs[position] if self._costs is not None else 1
                    self.dispatcher.release_unwanted(self.keys[position], cost)

    def result(self) -> Verdicts:
        return Verdicts(bytes(self._raw), self._columns)

    def partial(self) -> Verdicts:
        return Verdicts(bytes(self._raw or bytes(self.count)).translate(_UNDECIDED), self._columns)

    def decided_by_policy(self, verdict: Verdict) -> Verdicts:
        raw = self.partial().raw.replace(b"\0", bytes([verdict]))
        return Verdicts(raw, self._columns)


# Verdicts that are no decisions become 0.
_UNDECIDED = bytes(0 if byte in (QUEUED, DRAINING) else byte for byte in range(256))


class HandleCall(AcquireCall):
    """acquire_many_handles(). Handles are valid on one connection: never sent on another one.

    Entries do not wait: the client could not release a late permit by its handle.
    """

    may_ask_again = False

    def __init__(self, dispatcher: Dispatcher, sink: Any, handles: bytes, generation: int,
                 options: Options = NO_OPTIONS) -> None:
        super().__init__(dispatcher, sink, (), options, len(handles) >> 2)
        self._handles = handles
        self._generation = generation

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        if self._generation != self.dispatcher.generation:
            raise stale()
        return _frames.encode_acquire_by_handle(
            frame_id, slice_of(self._handles, positions), self.extras(positions))


def slice_of(handles: bytes, positions: Positions) -> bytes:
    assert isinstance(positions, range)  # only entries sent a second time are out of order
    return handles[4 * positions.start:4 * positions.stop]


def stale() -> StaleHandles:
    return StaleHandles("these handles are of a lost connection: intern the keys again")


class ReleaseCall(Call):
    """release(), release_many()."""

    def __init__(self, dispatcher: Dispatcher, sink: Any, keys: Sequence[str | bytes],
                 costs: int | Sequence[int] | None) -> None:
        super().__init__(dispatcher, sink, len(keys))
        self._keys = keys
        self._costs = spread(costs, len(keys), "costs")

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        costs = None if self._costs is None else _frames.numbers(
            pick(self._costs, positions), "costs")
        return _frames.encode_release(frame_id, _frames.encode_keys(pick(self._keys, positions)),
                                      costs)

    def take(self, piece: Piece, answer: _frames.Answer) -> None:
        expect(_frames.DoneAnswer, answer)

    def result(self) -> None:
        return None


class InternCall(Call):
    """intern()."""

    def __init__(self, dispatcher: Dispatcher, sink: Any, keys: Sequence[str | bytes]) -> None:
        super().__init__(dispatcher, sink, len(keys))
        self._keys = keys
        self._handles = array("I", bytes(4 * len(keys)))
        self._raw = bytearray(len(keys))
        self._generation = 0  # that of the first frame

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        self._generation = self._generation or self.dispatcher.generation
        if self._generation != self.dispatcher.generation:
            raise stale()  # the handles of the first part are invalid now
        return _frames.encode_intern(frame_id, _frames.encode_keys(pick(self._keys, positions)))

    def take(self, piece: Piece, answer: _frames.Answer) -> None:
        if (type(answer) is not _frames.InternedAnswer or not isinstance(piece.positions, range)
                or len(answer.handles) != len(piece.positions)):
            raise _frames.Malformed("not the answer to this Intern")
        place = slice(piece.positions.start, piece.positions.stop)
        self._handles[place] = answer.handles
        self._raw[place] = verdict_bytes(answer.verdicts, len(answer.handles))

    def result(self) -> Handles:
        handles = Handles(self._handles, (self.dispatcher.identity, self._generation))
        self.dispatcher.interned(self._generation)
        verdicts = Verdicts(bytes(self._raw))
        if not verdicts.all_approved:
            missing = next(n for n, verdict in enumerate(verdicts) if not verdict)
            raise NotInterned(
                f"{len(verdicts) - verdicts.count()} of {len(verdicts)} keys got no handle: "
                f"{verdicts[missing].name.lower()} for {self._keys[missing]!r:.80}",
                handles, verdicts)
        return handles


class Handles(array):  # type: ignore[type-arg]  # array('I')
    """Handles of keys: an array('I') that remembers their connection."""

    origin: tuple[object, int] | None

    def __new__(cls, numbers: Iterable[int] = (),
                origin: tuple[object, int] | None = None) -> Handles:
        handles = cast(Handles, super().__new__(cls, "I", numbers))
        handles.origin = origin
        return handles

    def __getitem__(self, index: Any) -> Any:
        found: Any = super().__getitem__(index)
        return Handles(found, self.origin) if isinstance(index, slice) else found

    def __copy__(self) -> Handles:
        return Handles(self, self.origin)


def origin_of(buffer: object) -> tuple[object, int] | None:
    """The origin of handles, through memoryviews and numpy's views; None if it is unknown."""
    for _ in range(16):
        if isinstance(buffer, Handles):
            return buffer.origin
        buffer = buffer.obj if isinstance(buffer, memoryview) else getattr(buffer, "base", None)
        if buffer is None:
            break
    return None


class ForgetCall(Call):
    """forget()."""

    def __init__(self, dispatcher: Dispatcher, sink: Any, handles: bytes, generation: int) -> None:
        super().__init__(dispatcher, sink, len(handles) >> 2)
        self._handles = handles
        self._generation = generation

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        if self._generation != self.dispatcher.generation:
            raise stale()
        return _frames.encode_forget(frame_id, slice_of(self._handles, positions))

    def take(self, piece: Piece, answer: _frames.Answer) -> None:
        expect(_frames.DoneAnswer, answer)

    def result(self) -> None:
        return None
