"""What is asked, and who is told: calls become frames here, and answers become results.

Flow:   Batch: single acquires of many callers, one frame. Call: one caller's many entries, cut into
        pieces of a frame each, up to `window` of them outstanding at a time.
Errors: a sink gets a result or an exception, once; one that is done already (timed out, cancelled)
        is passed over, and what it still had in line or was granted goes back to the server.
Lives:  not safe for threads; the clients see to that.
"""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from . import _frames
from .errors import (ConnectionLost, Draining, LimitExceeded, NotInterned, SluicegateError,
                     StaleHandles)
from .verdict import BY_BYTE, DETAIL_COLUMNS, Verdict, Verdicts, from_server

if TYPE_CHECKING:
    from ._core import Core

_QUEUED, _APPROVED, _DRAINING = int(Verdict.QUEUED), int(Verdict.APPROVED), int(Verdict.DRAINING)


class Sink(Protocol):
    """Where a result goes: a Slot of the sync client, a Future of asyncio."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


class Entry(NamedTuple):
    """What a single acquire brings beside its key, where that is not the default."""

    cost: int = 1
    may_wait: bool = False
    wait_limit_ms: int = 0
    max_requests: int = _frames.KEEP
    max_requests_in_queue: int = _frames.KEEP


class Request(abc.ABC):
    """One frame that expects an answer."""

    frame_id = 0
    size = 0  # bytes of the frame, while it is outstanding
    entries = 1
    is_batch = False

    @abc.abstractmethod
    def encode(self, frame_id: int) -> bytes: ...

    @abc.abstractmethod
    def answered(self, answer: _frames.Answer) -> bool:
        """False while entries wait."""

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        raise _frames.Malformed("Granted for a frame without waiting entries")

    @abc.abstractmethod
    def failed(self, error: Exception) -> None:
        """The frame was refused, or can not be encoded."""

    @abc.abstractmethod
    def lost(self, error: ConnectionLost) -> None:
        """There will be no answer any more."""

    def split(self) -> list[Request]:
        """Two smaller requests in place of this one, whose frame is too large."""
        raise LimitExceeded("the server allows no frame that could hold this entry")

    def unfit(self, error: Exception) -> list[Request]:
        """It can not be encoded: tells whose fault it is; what can be sent without them."""
        self.failed(error)
        return []


def expect(kind: type[Any], answer: _frames.Answer) -> None:
    if type(answer) is not kind:
        raise _frames.Malformed(f"{type(answer).__name__} where {kind.__name__} belongs")


def told(verdicts: bytes, count: int) -> bytes:
    """A byte an entry, whether it came as one byte or as many."""
    return from_server(verdicts if len(verdicts) == count else verdicts * count)


# ---- single acquires -----------------------------------------------------------------------------

class Batch(Request):
    """Single acquires that go in one frame; `extras` holds those that are not plain."""

    is_batch = True

    def __init__(self, core: Core) -> None:
        self._core = core
        self.keys: list[str | bytes] = []
        self.sinks: list[Any] = []
        self.extras: dict[int, Entry] = {}
        self.wait_limit_ms = 0
        self._queued: set[int] = set()
        self.on_answer: Callable[[], object] | None = None  # as to end a timer

    @property
    def entries(self) -> int:  # type: ignore[override]
        return len(self.keys)

    def takes(self, entry: Entry | None) -> bool:
        """A frame has one wait limit for all of its entries that wait."""
        return (entry is None or not entry.may_wait or entry.wait_limit_ms == self.wait_limit_ms
                or not any(other.may_wait for other in self.extras.values()))

    def add(self, key: str | bytes, sink: Any, entry: Entry | None) -> None:
        if entry is not None:
            self.extras[len(self.keys)] = entry
            if entry.may_wait:
                self.wait_limit_ms = entry.wait_limit_ms
                self._core.places[sink] = (self, len(self.keys))
        self.keys.append(key)
        self.sinks.append(sink)

    def part(self, positions: Iterable[int]) -> Batch:
        """A batch of some of the entries, which takes their places."""
        part = Batch(self._core)
        for position in positions:
            part.add(self.keys[position], self.sinks[position], self.extras.get(position))
        return part

    def without_done(self) -> Batch | None:
        """Entries given up before they were sent are not sent."""
        live = [n for n, sink in enumerate(self.sinks) if not sink.done()]
        if len(live) == len(self.sinks):
            return self
        for sink in self.sinks:
            if sink.done():
                self._core.places.pop(sink, None)
        self._core.finished(len(self.sinks) - len(live))
        return self.part(live) if live else None

    def split(self) -> list[Request]:
        half = len(self.keys) // 2
        if not half:
            return super().split()
        return [self.part(range(half)), self.part(range(half, len(self.keys)))]

    def encode(self, frame_id: int) -> bytes:
        return _frames.encode_acquire(frame_id, _frames.encode_keys(self.keys), self._columns())

    def _columns(self) -> _frames.Extras:
        if not self.extras:
            return _frames.PLAIN
        plain, extras = Entry(), self.extras
        entries = [extras.get(position, plain) for position in range(len(self.keys))]

        def column(values: list[int], default: int, name: str) -> _frames.Column | None:
            return _frames.numbers(values, name) if any(v != default for v in values) else None

        return _frames.Extras(
            0, 0, self.wait_limit_ms, column([entry.cost for entry in entries], 1, "cost"),
            column([entry.max_requests for entry in entries], _frames.KEEP, "max_requests"),
            column([entry.max_requests_in_queue for entry in entries], _frames.KEEP,
                   "max_requests_in_queue"),
            _frames.Column(2, len(entries), bytes(entry.may_wait for entry in entries)))

    def unfit(self, error: Exception) -> list[Request]:
        fit = []
        for position, key in enumerate(self.keys):
            try:
                _frames.encode_keys([key])
                fit.append(position)
            except (TypeError, ValueError) as bad_key:
                self._fail(position, bad_key)
        if len(fit) < len(self.keys):
            return [self.part(fit)] if fit else []
        return super().unfit(error)

    def answered(self, answer: _frames.Answer) -> bool:
        if type(answer) is not _frames.VerdictsAnswer or answer.length != len(self.sinks):
            raise _frames.Malformed("not the answer to this Acquire")
        if self.on_answer is not None and not self.extras:
            self.on_answer()
        raw = answer.verdicts
        if self.extras or _DRAINING in raw or _QUEUED in raw:
            return self._answered_each(told(raw, answer.length))
        if len(raw) == 1:
            verdict = BY_BYTE[from_server(raw)[0]]
            for sink in self.sinks:
                if not sink.done():
                    sink.set_result(verdict)
        else:
            for sink, verdict in zip(self.sinks, map(BY_BYTE.__getitem__, from_server(raw))):
                if not sink.done():
                    sink.set_result(verdict)
        self._core.finished(len(self.sinks))
        return True

    def _answered_each(self, raw: bytes) -> bool:
        self._queued = {position for position, verdict in enumerate(raw) if verdict == _QUEUED}
        for position in self._queued:
            if not self._may_wait(position):
                self._queued.clear()
                raise _frames.Malformed("an entry that must not wait was queued")
        for position, verdict in enumerate(raw):
            if verdict != _QUEUED:
                self._settle(position, verdict)
            elif self.sinks[position].done():
                self._core.withdraw(self.frame_id, position)
        return not self._queued

    def _may_wait(self, position: int) -> bool:
        entry = self.extras.get(position)
        return entry is not None and entry.may_wait

    def withdraw(self, position: int) -> None:
        """Out of line if it is in line; if it is not yet, its answer will see to it."""
        if position in self._queued:
            self._core.withdraw(self.frame_id, position)

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        for position, verdict in zip(answer.entries, told(answer.verdicts, len(answer.entries))):
            if position not in self._queued or verdict == _QUEUED:
                raise _frames.Malformed("an entry was granted that does not wait")
            self._queued.remove(position)
            self._settle(position, verdict)
        return not self._queued

    def _settle(self, position: int, verdict: int) -> None:
        sink = self.sinks[position]
        if verdict == _DRAINING:
            self._lost([position], Draining("the server shuts down"))
            return
        self._core.places.pop(sink, None)
        if not sink.done():
            sink.set_result(BY_BYTE[verdict])
        elif verdict == _APPROVED and self._may_wait(position):
            self._core.give_back(self.keys[position], self.extras[position].cost)
        self._core.finished(1)

    def failed(self, error: Exception) -> None:
        for position in sorted(self._queued) or range(len(self.sinks)):
            self._fail(position, error)

    def _fail(self, position: int, error: Exception) -> None:
        sink = self.sinks[position]
        self._core.places.pop(sink, None)
        if not sink.done():
            sink.set_exception(copy_of(error))
        self._core.finished(1)

    def lost(self, error: ConnectionLost) -> None:
        self._lost(sorted(self._queued) or range(len(self.sinks)), error)

    def _lost(self, positions: Sequence[int], error: ConnectionLost) -> None:
        core = self._core
        if core.options.requeue:
            live = [n for n in positions if not self.sinks[n].done()]
            self._core.finished(len(positions) - len(live))
            if live:
                core.ask_again(self.part(live))
            return
        for position in positions:
            sink = self.sinks[position]
            core.places.pop(sink, None)
            if not sink.done():
                core.settle_by_policy(sink, error)
            self._core.finished(1)


def copy_of(error: Exception) -> Exception:
    """Each caller raises its own, with its own traceback."""
    try:
        copy = type(error)(*error.args)
    except TypeError:
        return error
    copy.__cause__ = error.__cause__
    return copy


class Lone(Request):
    """A plain acquire of a caller who is alone: the shortest way there is."""

    def __init__(self, core: Core, key: str | bytes, sink: Any) -> None:
        self._core = core
        self._key = key
        self._sink = sink

    def encode(self, frame_id: int) -> bytes:
        return _frames.encode_acquire(frame_id, _frames.encode_keys((self._key,)))

    def answered(self, answer: _frames.Answer) -> bool:
        if type(answer) is not _frames.VerdictsAnswer or answer.length != 1:
            raise _frames.Malformed("not the answer to this Acquire")
        verdict = answer.verdicts[0]
        if verdict == _QUEUED:
            raise _frames.Malformed("an entry that must not wait was queued")
        if verdict == _DRAINING:
            self.lost(Draining("the server shuts down"))
        else:
            self._core.pending -= 1
            if not self._sink.done():
                self._sink.set_result(BY_BYTE[from_server(answer.verdicts)[0]])
        return True

    def failed(self, error: Exception) -> None:
        self._core.pending -= 1
        if not self._sink.done():
            self._sink.set_exception(copy_of(error))

    def lost(self, error: ConnectionLost) -> None:
        self._core.pending -= 1
        if self._sink.done():
            return
        if self._core.options.requeue:
            self._core.ask(self._key, self._sink)
        else:
            self._core.settle_by_policy(self._sink, error)


# ---- many entries of one caller ------------------------------------------------------------------

Positions = range | list[int]


def pick(values: Any, positions: Positions) -> Any:
    if isinstance(positions, range):
        if len(positions) == len(values):
            return values
        return values[positions.start:positions.stop]
    return [values[n] for n in positions]


class Call(abc.ABC):
    """Many entries of one caller, told in one result."""

    applies_policy = False  # the failure policy decides in the server's place
    may_ask_again = False  # with requeue=True
    may_wait = False

    def __init__(self, core: Core, sink: Any, count: int) -> None:
        self.core = core
        self.sink = sink
        self.count = count
        self.pieces_out = 0  # outstanding, or about to be
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

    def partial(self) -> Verdicts | None:
        return None

    @property
    def has_more(self) -> bool:
        return not self.is_settled and self._next < self.count and not self.sink.done()

    def next_piece(self, entries_max: int) -> Piece:
        start, self._next = self._next, min(self._next + entries_max, self.count)
        self.pieces_out += 1
        return Piece(self, range(start, self._next))

    def piece_answered(self, piece: Piece, answer: _frames.Answer) -> bool:
        self.take(piece, answer)
        self.pieces_out -= 1
        if piece.queued:
            self._waiting.add(piece)
            if self.sink.done():
                self.core.withdraw(piece.frame_id, *piece.queued)
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
        again = self.may_ask_again and self.core.options.requeue
        if again and not self.is_settled and not self.sink.done():
            self.pieces_out += 1
            self.core.ask_again(Piece(self, positions))
        else:
            self.fail(error)

    def go_on(self) -> None:
        if self.has_more:
            self.core.resume(self)
        elif not self.pieces_out and not self._waiting and not self.is_settled:
            self._end()
            if not self.sink.done():
                self._tell(self.result)

    def _tell(self, result: Callable[[], Any]) -> None:
        try:
            self.sink.set_result(result())
        except SluicegateError as error:
            self.sink.set_exception(error)

    def _end(self) -> None:
        self.is_settled = True
        self.core.finished(1)

    def fail(self, error: Exception) -> None:
        """Ends the call; what is outstanding of it is answered to nobody."""
        if self.is_settled:
            return
        self._end()
        self.withdraw()
        if self.sink.done():
            return
        if self.applies_policy and isinstance(error, ConnectionLost):
            verdict = self.core.policy_verdict
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
            self.core.withdraw(piece.frame_id, *piece.queued)


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
    """Columns of an acquire for many; a number holds for all entries."""

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

    def __init__(self, core: Core, sink: Any, keys: Sequence[str | bytes],
                 options: Options = NO_OPTIONS, count: int | None = None) -> None:
        super().__init__(core, sink, len(keys) if count is None else count)
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
        raw = told(answer.verdicts, answer.length)
        if self.sink.done() or self.is_settled:
            self._give_back(piece.positions, raw)
        self._store(piece.positions, raw)
        if answer.details:
            self._store_details(piece.positions, answer.details)
        if _QUEUED in raw:
            if not self.may_wait:
                raise _frames.Malformed("an entry that must not wait was queued")
            piece.queued.update(n for n, verdict in enumerate(raw) if verdict == _QUEUED)
        if _DRAINING in raw:
            self._drained([p for p, verdict in zip(piece.positions, raw) if verdict == _DRAINING])

    def take_granted(self, piece: Piece, answer: _frames.GrantedAnswer) -> None:
        entries = answer.entries.tolist()
        raw = told(answer.verdicts, len(entries))
        if not piece.queued.issuperset(entries) or _QUEUED in raw:
            raise _frames.Malformed("an entry was granted that does not wait")
        piece.queued.difference_update(entries)
        positions = [piece.positions[entry] for entry in entries]
        if self.sink.done() or self.is_settled:
            self._give_back(positions, raw)
        self._store(positions, raw)
        if answer.details:
            self._store_details(positions, answer.details)
        if _DRAINING in raw:
            self._drained([p for p, verdict in zip(positions, raw) if verdict == _DRAINING])

    def _drained(self, positions: list[int]) -> None:
        self.entries_lost(positions, Draining("the server shuts down"))

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

    def _give_back(self, positions: Positions, raw: bytes) -> None:
        """Nobody waits for this answer any more: permits that somebody stood in line for."""
        if self.may_wait:
            for position, verdict in zip(positions, raw):
                if verdict == _APPROVED:
                    cost = self._costs[position] if self._costs is not None else 1
                    self.core.give_back(self.keys[position], cost)

    def result(self) -> Verdicts:
        return Verdicts(bytes(self._raw), self._columns)

    def partial(self) -> Verdicts:
        return Verdicts(bytes(self._raw or bytes(self.count)).translate(_UNDECIDED), self._columns)

    def decided_by_policy(self, verdict: Verdict) -> Verdicts:
        raw = self.partial().raw.replace(b"\0", bytes([verdict]))
        return Verdicts(raw, self._columns)


# What a server said but did not decide.
_UNDECIDED = bytes(0 if byte in (_QUEUED, _DRAINING) else byte for byte in range(256))


class HandleCall(AcquireCall):
    """acquire_many_handles(). Numbers mean nothing to another connection: never asked there.

    Entries do not wait: a permit that comes too late could not be given back by its number.
    """

    may_ask_again = False

    def __init__(self, core: Core, sink: Any, handles: bytes, generation: int,
                 options: Options = NO_OPTIONS) -> None:
        super().__init__(core, sink, (), options, len(handles) >> 2)
        self._handles = handles
        self._generation = generation

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        if self._generation != self.core.generation:
            raise stale()
        return _frames.encode_acquire_by_handle(
            frame_id, slice_of(self._handles, positions), self.extras(positions))


def slice_of(handles: bytes, positions: Positions) -> bytes:
    assert isinstance(positions, range)  # only what is asked again is out of order
    return handles[4 * positions.start:4 * positions.stop]


def stale() -> StaleHandles:
    return StaleHandles("these handles are of a connection that is gone: intern the keys again")


class ReleaseCall(Call):
    """release(), release_many()."""

    def __init__(self, core: Core, sink: Any, keys: Sequence[str | bytes],
                 costs: int | Sequence[int] | None) -> None:
        super().__init__(core, sink, len(keys))
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

    def __init__(self, core: Core, sink: Any, keys: Sequence[str | bytes]) -> None:
        super().__init__(core, sink, len(keys))
        self._keys = keys
        self._handles = array("I", bytes(4 * len(keys)))
        self._raw = bytearray(len(keys))
        self._generation = 0  # that of the first frame

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        self._generation = self._generation or self.core.generation
        if self._generation != self.core.generation:
            raise stale()  # the first part of the numbers is void
        return _frames.encode_intern(frame_id, _frames.encode_keys(pick(self._keys, positions)))

    def take(self, piece: Piece, answer: _frames.Answer) -> None:
        if (type(answer) is not _frames.InternedAnswer or not isinstance(piece.positions, range)
                or len(answer.handles) != len(piece.positions)):
            raise _frames.Malformed("not the answer to this Intern")
        place = slice(piece.positions.start, piece.positions.stop)
        self._handles[place] = answer.handles
        self._raw[place] = told(answer.verdicts, len(answer.handles))

    def result(self) -> Handles:
        handles = Handles(self._handles, (self.core.identity, self._generation))
        self.core.interned(self._generation)
        verdicts = Verdicts(bytes(self._raw))
        if not verdicts.all_approved:
            missing = next(n for n, verdict in enumerate(verdicts) if not verdict)
            raise NotInterned(
                f"{len(verdicts) - verdicts.count()} of {len(verdicts)} keys got no handle: "
                f"{verdicts[missing].name.lower()} for {self._keys[missing]!r:.80}",
                handles, verdicts)
        return handles


class Handles(array):  # type: ignore[type-arg]  # array('I'), which knows its connection
    """Numbers of keys: an array('I') that remembers which connection they are of."""

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
    """Whose numbers these are, through memoryviews and numpy's views; None if that is not told."""
    for _ in range(16):
        if isinstance(buffer, Handles):
            return buffer.origin
        buffer = buffer.obj if isinstance(buffer, memoryview) else getattr(buffer, "base", None)
        if buffer is None:
            break
    return None


class ForgetCall(Call):
    """forget()."""

    def __init__(self, core: Core, sink: Any, handles: bytes, generation: int) -> None:
        super().__init__(core, sink, len(handles) >> 2)
        self._handles = handles
        self._generation = generation

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        if self._generation != self.core.generation:
            raise stale()
        return _frames.encode_forget(frame_id, slice_of(self._handles, positions))

    def take(self, piece: Piece, answer: _frames.Answer) -> None:
        expect(_frames.DoneAnswer, answer)

    def result(self) -> None:
        return None


class Question(Request):
    """A frame that is answered by one frame: Inspect, Ping."""

    def __init__(self, core: Core, sink: Any, encode: Callable[[int], bytes], kind: type[Any],
                 result: Callable[[Any], Any]) -> None:
        self._core = core
        self._sink = sink
        self._encode = encode
        self._kind = kind
        self._result = result

    def encode(self, frame_id: int) -> bytes:
        return self._encode(frame_id)

    def answered(self, answer: _frames.Answer) -> bool:
        expect(self._kind, answer)
        self._core.finished(1)
        if not self._sink.done():
            self._sink.set_result(self._result(answer))
        return True

    def failed(self, error: Exception) -> None:
        self._core.finished(1)
        if not self._sink.done():
            self._sink.set_exception(copy_of(error))

    def lost(self, error: ConnectionLost) -> None:
        if self._core.options.requeue and not self._sink.done():
            self._core.ask_again(self)
        else:
            self.failed(error)


class Withdrawal(Request):
    """Entries that nobody waits for any more leave the line."""

    def __init__(self, target: int, entries: list[int]) -> None:
        self._target = target
        self._entries = entries

    def encode(self, frame_id: int) -> bytes:
        return _frames.encode_withdraw(frame_id, self._target, self._entries)

    def answered(self, answer: _frames.Answer) -> bool:
        expect(_frames.DoneAnswer, answer)
        return True

    def failed(self, error: Exception) -> None:
        pass

    def lost(self, error: ConnectionLost) -> None:
        """What stood in line left it with the connection."""


class Nobody:
    """The sink of what a client does by itself."""

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        pass

    def set_exception(self, error: BaseException, /) -> None:
        pass
