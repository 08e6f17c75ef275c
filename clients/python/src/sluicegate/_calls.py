"""Batches: calls of one caller with many entries and one result, as acquire_many().

Flow:   a BatchCall is cut into BatchFrames; up to `window` of them are outstanding at a time.
Errors: the first error ends the call; its `partial` has the verdicts decided before.
Lives:  not thread-safe: the clients lock. A call whose completion is done (timed out, cancelled)
        sends no more frames, withdraws its queued entries, and releases permits granted to them
        later.
"""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _frames
from ._bounds import (AMOUNT_MAX, COSTS, MAX_REQUESTS, MAX_REQUESTS_IN_QUEUE, RELEASED_COSTS,
                      Bound)
from ._invalid import InvalidArgument, InvalidType, whole
from ._requests import APPROVED, DRAINING, QUEUED, Request, copy_of, expect, verdict_bytes
from .errors import (ConnectionLost, Draining, NotInterned, OwnerUnreachable, SluicegateError,
                     StaleHandles)
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


class BatchCall(abc.ABC):
    """A batch of one caller, with one result."""

    applies_policy = False  # the failure policy decides in place of the server
    may_resend = False  # after a loss, with requeue=True
    may_wait = False
    # Another server gets what this one does not decide: then each sent frame must be answered
    # first, as its entries may be decided.
    awaits_sent = False
    # An entry that still waits when the call is given up may be charged, and is not refunded.
    charges_when_given_up = False
    frame_entries_max = 8_192  # in addition to the client's own bound, and Welcome's

    def __init__(self, dispatcher: Dispatcher, completion: Any, count: int) -> None:
        self.dispatcher = dispatcher
        self.completion = completion
        self.count = count
        self.frames_out = 0  # outstanding, or about to be sent
        self.is_queued = False  # in the dispatcher, to send its next frame
        self._next = 0
        self._waiting: set[BatchFrame] = set()
        self._refusal: Draining | None = None  # ends the call once its sent frames are answered
        self.is_complete = False

    @abc.abstractmethod
    def encode(self, frame_id: int, positions: Positions) -> bytes: ...

    @abc.abstractmethod
    def take(self, frame: BatchFrame, answer: _frames.Answer) -> None: ...

    @abc.abstractmethod
    def result(self) -> Any: ...

    def take_granted(self, frame: BatchFrame, answer: _frames.GrantedAnswer) -> None:
        raise _frames.Malformed("Granted for a frame without waiting entries")

    def partial(self) -> Verdicts | QuotaResults | None:
        """The verdicts decided so far."""
        return None

    @property
    def has_sent(self) -> bool:
        """Whether some of its entries were sent, perhaps."""
        return self._next > 0

    @property
    def has_more(self) -> bool:
        return not self.is_complete and self._next < self.count and not self.completion.done()

    def next_frame(self, entries_max: int) -> BatchFrame:
        size = min(entries_max, self.frame_entries_max)
        start, self._next = self._next, min(self._next + size, self.count)
        self.frames_out += 1
        return BatchFrame(self, range(start, self._next))

    def frame_answered(self, frame: BatchFrame, answer: _frames.Answer) -> bool:
        self.take(frame, answer)
        self.frames_out -= 1
        if frame.queued:
            self._waiting.add(frame)
            if self.completion.done():
                frame.withdraw()
        self.go_on()
        return not frame.queued

    def frame_granted(self, frame: BatchFrame, answer: _frames.GrantedAnswer) -> bool:
        self.take_granted(frame, answer)
        if not frame.queued:
            self._waiting.discard(frame)
        self.go_on()
        return not frame.queued

    def frame_lost(self, frame: BatchFrame, error: ConnectionLost) -> None:
        if frame in self._waiting:
            self._waiting.discard(frame)
        else:
            self.frames_out -= 1
        positions = [frame.positions[n] for n in sorted(frame.queued)] or frame.positions
        self.entries_lost(positions, error)

    def entries_lost(self, positions: Positions, error: ConnectionLost) -> None:
        may_resend = self.may_resend and self.dispatcher.settings.requeue
        if may_resend and not self.is_complete and not self.completion.done():
            self.frames_out += 1
            self.dispatcher.resend(BatchFrame(self, positions))
        elif isinstance(error, Draining) and self.awaits_sent and self.frames_out:
            self._next, self._refusal = self.count, error
        else:
            self.fail(error)

    def go_on(self) -> None:
        if self.has_more:
            self.dispatcher.resume(self)
        elif self.frames_out or self._waiting or self.is_complete:
            return
        elif self._refusal is not None:
            self.fail(self._refusal)
        else:
            self._end()
            if not self.completion.done():
                self._deliver(self.result)

    def _deliver(self, result: Callable[[], Any]) -> None:
        try:
            self.completion.set_result(result())
        except SluicegateError as error:
            self.completion.set_exception(error)

    def _end(self) -> None:
        self.is_complete = True
        self.dispatcher.finished(1)

    def fail(self, error: Exception) -> None:
        """Ends the call; answers to its outstanding frames are ignored."""
        if self.is_complete:
            return
        self._end()
        self.withdraw()
        if self.completion.done():
            return
        if self.applies_policy and isinstance(error, ConnectionLost):
            verdict = self.dispatcher.policy_verdict
            if verdict is not None:
                self.completion.set_result(self.policy_result(verdict))
                return
        error = copy_of(error)
        if isinstance(error, SluicegateError):
            error.partial = self.partial()
        self.completion.set_exception(error)

    def policy_result(self, verdict: Verdict) -> Any:
        """The result with this verdict of the failure policy for all undecided entries."""
        raise NotImplementedError

    def withdraw(self) -> None:
        for frame in self._waiting:
            frame.withdraw()

    def discard(self) -> None:
        """The caller will never receive the outcomes so far, not even of a complete call."""


class BatchFrame(Request):
    """A frame of a BatchCall."""

    def __init__(self, call: BatchCall, positions: Positions) -> None:
        self.call = call
        self.positions = positions
        self.entries = len(positions)
        self.queued: set[int] = set()  # entries of the frame that wait
        self._is_withdrawn = False

    def encode(self, frame_id: int) -> bytes:
        return self.call.encode(frame_id, self.positions)

    def without_done(self) -> BatchFrame | None:
        if not self.call.completion.done():
            return self
        self.call.frames_out -= 1
        self.call.go_on()
        return None

    def split(self) -> list[Request]:
        half = len(self.positions) // 2
        if not half:
            return super().split()
        self.call.frames_out += 1
        return [BatchFrame(self.call, self.positions[:half]),
                BatchFrame(self.call, self.positions[half:])]

    def answered(self, answer: _frames.Answer) -> bool:
        return self.call.frame_answered(self, answer)

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        return self.call.frame_granted(self, answer)

    def withdraw(self) -> None:
        """Once: the answer to a frame and the end of its call may both cause it."""
        if not self._is_withdrawn:
            self._is_withdrawn = True
            self.call.dispatcher.withdraw(self.frame_id, *self.queued)

    def failed(self, error: Exception) -> None:
        self.call.frames_out -= 1
        self.call.fail(error)

    def lost(self, error: ConnectionLost) -> None:
        self.call.frame_lost(self, error)


WINDOWS_MS = Bound("window", 0, AMOUNT_MAX)  # checked as seconds before


class BatchOptions(NamedTuple):
    """The options of acquire_many(); a number applies to all entries."""

    costs: int | Sequence[int] | None = None
    max_requests: int | Sequence[int] | None = None
    max_requests_in_queue: int | Sequence[int] | None = None
    may_wait: bool = False
    wait_limit_ms: int = 0
    details: int = 0
    window_ms: int | Sequence[int] | None = None


NO_OPTIONS = BatchOptions()


def each_of(values: Iterable[Any], what: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InvalidType(f"{what} must be a list, not {values!r:.40}") from None


def spread(values: int | Sequence[int] | None, count: int,
           bound: Bound) -> Sequence[int] | None:
    """A number for each entry."""
    if values is None:
        return None
    if isinstance(values, (str, bytes)) or not hasattr(type(values), "__getitem__"):
        return [whole(bound, values)] * count  # type: ignore[arg-type]
    numbers: Sequence[int] = values  # type: ignore[assignment]
    if len(numbers) != count:
        raise InvalidArgument(f"{len(numbers)} {bound.name} for {count} entries: give one each, or "
                              "one number")
    # Of thousands of numbers nearly all are fine: the check of one after the other takes longer.
    are_ints = not set(map(type, numbers)) - {int}
    if not (are_ints and (not count or bound.least <= min(numbers)
                          and max(numbers) <= bound.most)):
        for index, number in enumerate(numbers):
            try:
                whole(bound, number)
            except InvalidArgument:
                whole(bound.at(index), number)  # raises, and names the place
    return numbers


class AcquireCall(BatchCall):
    """acquire_many()."""

    applies_policy = True
    may_resend = True

    def __init__(self, dispatcher: Dispatcher, completion: Any, keys: Sequence[str | bytes],
                 options: BatchOptions = NO_OPTIONS, count: int | None = None) -> None:
        super().__init__(dispatcher, completion, len(keys) if count is None else count)
        self.keys = keys
        self.options = options
        self.may_wait = options.may_wait
        self._costs = spread(options.costs, self.count, COSTS)
        self._limits = spread(options.max_requests, self.count, MAX_REQUESTS)
        self._queues = spread(options.max_requests_in_queue, self.count, MAX_REQUESTS_IN_QUEUE)
        self._windows = spread(options.window_ms, self.count, WINDOWS_MS)
        self._raw: bytes | bytearray = b""
        self._details: dict[str, array[int]] = {
            name: array(letter, bytes(self.count * (4 if letter == "I" else 8)))
            for name, bit, letter in DETAIL_COLUMNS if options.details & bit}

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        return _frames.encode_acquire(frame_id, _frames.encode_keys(pick(self.keys, positions)),
                                      self.columns(positions))

    def columns(self, positions: Positions) -> _frames.AcquireColumns:
        if self.options is NO_OPTIONS:
            return _frames.NO_COLUMNS

        def column(values: Sequence[int] | None, name: str,
                   letter: str = "I") -> _frames.Column | None:
            if values is None:
                return None
            return _frames.numbers(pick(values, positions), name, letter)

        return _frames.AcquireColumns(
            int(self.options.details), _frames.FLAG_MAY_WAIT if self.may_wait else 0,
            self.options.wait_limit_ms, column(self._costs, "costs"),
            column(self._limits, "max_requests"),
            column(self._queues, "max_requests_in_queue"),
            window_ms=column(self._windows, "window_ms", "Q"))

    def take(self, frame: BatchFrame, answer: _frames.Answer) -> None:
        if type(answer) is not _frames.VerdictsAnswer or answer.length != len(frame.positions):
            raise _frames.Malformed("not the answer to this Acquire")
        raw = verdict_bytes(answer.verdicts, answer.length)
        if self.completion.done() or self.is_complete:
            self._release_unwanted(frame.positions, raw)
        self._store(frame.positions, raw)
        if answer.details:
            self._store_details(frame.positions, answer.details)
        if QUEUED in raw:
            if not self.may_wait:
                raise _frames.Malformed("an entry that must not wait was queued")
            frame.queued.update(n for n, verdict in enumerate(raw) if verdict == QUEUED)
        if DRAINING in raw:
            self._drained([p for p, verdict in zip(frame.positions, raw) if verdict == DRAINING])

    def take_granted(self, frame: BatchFrame, answer: _frames.GrantedAnswer) -> None:
        entries = answer.entries.tolist()
        raw = verdict_bytes(answer.verdicts, len(entries))
        if not frame.queued.issuperset(entries) or QUEUED in raw:
            raise _frames.Malformed("an entry was granted that does not wait")
        frame.queued.difference_update(entries)
        positions = [frame.positions[entry] for entry in entries]
        if self.completion.done() or self.is_complete:
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
            self._raw = raw  # one frame had all entries
            return
        if not isinstance(self._raw, bytearray):
            self._raw = bytearray(self._raw or bytes(self.count))
        if isinstance(positions, range):
            self._raw[positions.start:positions.stop] = raw
        else:
            for position, verdict in zip(positions, raw):
                self._raw[position] = verdict

    def _store_details(self, positions: Positions, details: _frames.Columns) -> None:
        for name, column in self._details.items():
            if name in details:
                for position, value in zip(positions, details[name]):
                    column[position] = value

    def _release_unwanted(self, positions: Positions, raw: bytes) -> None:
        """Releases permits that were granted after a wait whose caller has left."""
        if self.may_wait:
            for position, verdict in zip(positions, raw):
                if verdict == APPROVED:
                    cost = self._costs[position] if self._costs is not None else 1
                    if cost:
                        self.dispatcher.release_unwanted(self.keys[position], cost)

    def result(self) -> Verdicts:
        return Verdicts(bytes(self._raw), self._details)

    def partial(self) -> Verdicts:
        return Verdicts(bytes(self._raw or bytes(self.count)).translate(_UNDECIDED), self._details)

    def policy_result(self, verdict: Verdict) -> Verdicts:
        raw = self.partial().raw.replace(b"\0", bytes([verdict]))
        return Verdicts(raw, self._details)


# Verdicts that are no decisions become 0.
_UNDECIDED = bytes(0 if byte in (QUEUED, DRAINING) else byte for byte in range(256))


class HandleCall(AcquireCall):
    """acquire_many_handles(). Handles are never sent on another connection than their own.

    Entries do not wait: the client could not release a late permit by its handle.
    """

    may_resend = False

    def __init__(self, dispatcher: Dispatcher, completion: Any, handles: bytes, generation: int,
                 options: BatchOptions = NO_OPTIONS) -> None:
        super().__init__(dispatcher, completion, (), options, len(handles) >> 2)
        self._handles = handles
        self._generation = generation

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        if self._generation != self.dispatcher.generation:
            raise stale()
        return _frames.encode_acquire_by_handle(
            frame_id, slice_of(self._handles, positions), self.columns(positions))


def slice_of(handles: bytes, positions: Positions) -> bytes:
    assert isinstance(positions, range)  # only entries that are resent are out of order
    return handles[4 * positions.start:4 * positions.stop]


def stale() -> StaleHandles:
    return StaleHandles("these handles are of a lost connection: intern the keys again")


class ReleaseCall(BatchCall):
    """release(), release_many()."""

    def __init__(self, dispatcher: Dispatcher, completion: Any, keys: Sequence[str | bytes],
                 costs: int | Sequence[int] | None) -> None:
        super().__init__(dispatcher, completion, len(keys))
        self._keys = keys
        self._costs = spread(costs, len(keys), RELEASED_COSTS)
        self._unreleased: int | None = None  # the first key whose owner could not be asked

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        costs = None if self._costs is None else _frames.numbers(
            pick(self._costs, positions), "costs")
        return _frames.encode_release(frame_id, _frames.encode_keys(pick(self._keys, positions)),
                                      costs)

    def take(self, frame: BatchFrame, answer: _frames.Answer) -> None:
        if type(answer) is not _frames.VerdictsAnswer:
            expect(_frames.DoneAnswer, answer)
            return
        if answer.length != len(frame.positions):
            raise _frames.Malformed("not the answer to this Release")
        raw = verdict_bytes(answer.verdicts, answer.length)
        place = raw.find(Verdict.OWNER_UNREACHABLE)
        if place >= 0 and self._unreleased is None:
            self._unreleased = frame.positions[place]

    def result(self) -> None:
        if self._unreleased is not None:
            raise OwnerUnreachable(self._keys[self._unreleased])


class InternCall(BatchCall):
    """intern()."""

    def __init__(self, dispatcher: Dispatcher, completion: Any,
                 keys: Sequence[str | bytes]) -> None:
        super().__init__(dispatcher, completion, len(keys))
        self._keys = keys
        self._handles = array("I", bytes(4 * len(keys)))
        self._raw = bytearray(len(keys))
        self._generation = 0  # that of the first frame

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        self._generation = self._generation or self.dispatcher.generation
        if self._generation != self.dispatcher.generation:
            raise stale()  # the handles of earlier frames are invalid now
        return _frames.encode_intern(frame_id, _frames.encode_keys(pick(self._keys, positions)))

    def take(self, frame: BatchFrame, answer: _frames.Answer) -> None:
        if (type(answer) is not _frames.InternedAnswer or not isinstance(frame.positions, range)
                or len(answer.handles) != len(frame.positions)):
            raise _frames.Malformed("not the answer to this Intern")
        place = slice(frame.positions.start, frame.positions.stop)
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
                f"{verdicts[missing]} for {self._keys[missing]!r:.80}",
                handles, verdicts)
        return handles


if TYPE_CHECKING:
    Numbers = array[int]
else:
    Numbers = array  # which Python 3.11 cannot subscript


class Handles(Numbers):  # array('I')
    """Handles of keys: an array('I') with their connection as `origin`."""

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


class ForgetCall(BatchCall):
    """forget()."""

    def __init__(self, dispatcher: Dispatcher, completion: Any, handles: bytes,
                 generation: int) -> None:
        super().__init__(dispatcher, completion, len(handles) >> 2)
        self._handles = handles
        self._generation = generation

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        if self._generation != self.dispatcher.generation:
            raise stale()
        return _frames.encode_forget(frame_id, slice_of(self._handles, positions))

    def take(self, frame: BatchFrame, answer: _frames.Answer) -> None:
        expect(_frames.DoneAnswer, answer)

    def result(self) -> None:
        return None
