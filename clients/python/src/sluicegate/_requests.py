"""Turns calls into frames, and answers into results for their completions.

Flow:   GatheredAcquires: single acquires of many callers in one frame; DirectAcquire: an acquire
        while there is no other call; ControlRequest, Withdrawal: other frames. Batches of one
        caller are in _calls.py.
Errors: a completion gets a result or an exception, once. One that is done already (timed out,
        cancelled) gets nothing: its queued entry is withdrawn, and a permit granted to it released.
Lives:  not thread-safe: the clients lock.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from . import _frames
from ._message import BYTES, UNSET_32, UNSET_64
from .errors import ConnectionLost, Draining, LimitExceeded
from .verdict import BY_BYTE, OUTCOME_DETAILS, Verdict, from_server, key_outcome

if TYPE_CHECKING:
    from ._dispatcher import Dispatcher

QUEUED, APPROVED, DRAINING = int(Verdict.QUEUED), int(Verdict.APPROVED), int(Verdict.DRAINING)


class Completion(Protocol):
    """Receives a result: a ThreadResult of the blocking client, a Future of asyncio."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


class AcquireOptions(NamedTuple):
    """The options of a single acquire; None in their place: the defaults."""

    cost: int = 1
    may_wait: bool = False
    wait_limit_ms: int = 0
    max_requests: int = UNSET_32
    max_requests_in_queue: int = UNSET_32
    window_ms: int = UNSET_64
    details: bool = False  # the result is a KeyOutcome


DEFAULTS = AcquireOptions()


class Request(abc.ABC):
    """One frame that expects an answer."""

    frame_id = 0
    size = 0  # bytes of the frame, while it is outstanding
    entries = 1
    is_gathered = False
    is_gathered_quotas = False

    @abc.abstractmethod
    def encode(self, frame_id: int) -> bytes: ...

    @abc.abstractmethod
    def answered(self, answer: _frames.Answer) -> bool:
        """Takes the answer; false while entries wait."""

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        raise _frames.Malformed("Granted for a frame without waiting entries")

    @abc.abstractmethod
    def failed(self, error: Exception) -> None:
        """The server refused the frame, or it cannot be encoded."""

    @abc.abstractmethod
    def lost(self, error: ConnectionLost) -> None:
        """The connection was lost: there will be no answer."""

    def without_done(self) -> Request | None:
        """The unsent request without the entries whose completions are done; None if all are."""
        return self

    def split(self) -> list[Request]:
        """Two smaller requests in place of this one, whose frame is too large."""
        raise LimitExceeded("the server allows no frame that could hold this entry")

    def drop_unencodable(self, error: Exception) -> list[Request]:
        """It cannot be encoded: fails the entries at fault, and returns requests for the others."""
        self.failed(error)
        return []


def expect(kind: type[Any], answer: _frames.Answer) -> None:
    if type(answer) is not kind:
        raise _frames.Malformed(f"{type(answer).__name__} where {kind.__name__} belongs")


def verdict_bytes(verdicts: bytes, count: int) -> bytes:
    """A byte per entry, also when the server sent one byte for all."""
    if count and not verdicts:
        raise _frames.Malformed("Granted of an Acquire without verdicts")
    return from_server(verdicts if len(verdicts) == count else verdicts * count)


# ---- single acquires -----------------------------------------------------------------------------

class SharedTimer:
    """The timer of one request and of the parts that replace it: the last one's end cancels it."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._requests = 1

    def share(self) -> SharedTimer:
        self._requests += 1
        return self

    def leave(self) -> None:
        self._requests -= 1
        if not self._requests:
            self._cancel()


class GatheredAcquires(Request):
    """Single acquires of many callers in one frame.

    `options_by_position` has those that differ from the defaults.
    """

    is_gathered = True

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.keys: list[str | bytes] = []
        self.completions: list[Any] = []
        self.options_by_position: dict[int, AcquireOptions] = {}
        self.wait_limit_ms = 0
        self._queued: set[int] = set()
        self.timer: SharedTimer | None = None  # of the entries with the default options

    @property
    def entries(self) -> int:  # type: ignore[override]
        return len(self.keys)

    def takes(self, options: AcquireOptions | None) -> bool:
        """Whether such an entry fits: a frame has one wait limit for all entries that may wait."""
        return (options is None or not options.may_wait
                or options.wait_limit_ms == self.wait_limit_ms
                or not any(other.may_wait for other in self.options_by_position.values()))

    def add(self, key: str | bytes, completion: Any, options: AcquireOptions | None) -> None:
        if options is not None:
            self.options_by_position[len(self.keys)] = options
            if options.may_wait:
                self.wait_limit_ms = options.wait_limit_ms
                self._dispatcher.waiting_entries[completion] = (self, len(self.keys))
        self.keys.append(key)
        self.completions.append(completion)

    def part(self, positions: Iterable[int]) -> GatheredAcquires:
        """A request for some of the entries, which replaces them."""
        part = GatheredAcquires(self._dispatcher)
        part.timer = self.timer and self.timer.share()
        for position in positions:
            part.add(self.keys[position], self.completions[position],
                     self.options_by_position.get(position))
        return part

    def _leave_timer(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.leave()

    def without_done(self) -> GatheredAcquires | None:
        live = self._live(range(len(self.completions)))
        if len(live) == len(self.completions):
            return self
        part = self.part(live) if live else None
        self._leave_timer()
        return part

    def _live(self, positions: Sequence[int]) -> list[int]:
        """The positions of entries that a caller waits for; ends the others."""
        live = [n for n in positions if not self.completions[n].done()]
        for position in positions:
            if self.completions[position].done():
                self._dispatcher.waiting_entries.pop(self.completions[position], None)
        self._dispatcher.finished(len(positions) - len(live))
        return live

    def split(self) -> list[Request]:
        half = len(self.keys) // 2
        if not half:
            return super().split()
        parts: list[Request] = [self.part(range(half)), self.part(range(half, len(self.keys)))]
        self._leave_timer()
        return parts

    def encode(self, frame_id: int) -> bytes:
        return _frames.encode_acquire(frame_id, _frames.encode_keys(self.keys), self._columns())

    def _columns(self) -> _frames.AcquireColumns:
        if not self.options_by_position:
            return _frames.NO_COLUMNS
        options = [self._options_of(position) for position in range(len(self.keys))]

        def column(values: list[int], default: int, name: str,
                   letter: str = "I") -> _frames.Column | None:
            is_needed = any(value != default for value in values)
            return _frames.numbers(values, name, letter) if is_needed else None

        wanted = OUTCOME_DETAILS if any(each.details for each in options) else 0
        return _frames.AcquireColumns(
            wanted, 0, self.wait_limit_ms, column([each.cost for each in options], 1, "cost"),
            column([each.max_requests for each in options], UNSET_32, "max_requests"),
            column([each.max_requests_in_queue for each in options], UNSET_32,
                   "max_requests_in_queue"),
            _frames.Column(BYTES, len(options), bytes(each.may_wait for each in options)),
            column([each.window_ms for each in options], UNSET_64, "window_ms", "Q"))

    def drop_unencodable(self, error: Exception) -> list[Request]:
        encodable = []
        for position, key in enumerate(self.keys):
            try:
                _frames.encode_keys([key])
                encodable.append(position)
            except (TypeError, ValueError) as bad_key:
                self._fail(position, bad_key)
        if len(encodable) < len(self.keys):
            parts: list[Request] = [self.part(encodable)] if encodable else []
            self._leave_timer()
            return parts
        return super().drop_unencodable(error)

    def answered(self, answer: _frames.Answer) -> bool:
        if type(answer) is not _frames.VerdictsAnswer or answer.length != len(self.completions):
            raise _frames.Malformed("not the answer to this Acquire")
        raw = answer.verdicts
        if self.options_by_position or DRAINING in raw or QUEUED in raw:
            self._answered_each(verdict_bytes(raw, answer.length), answer.details)
        else:
            self._answered_all(raw)
        self._leave_timer()  # an entry in a queue has its own
        return not self._queued

    def _answered_all(self, raw: bytes) -> None:
        if len(raw) == 1:
            verdict = BY_BYTE[from_server(raw)[0]]
            for completion in self.completions:
                if not completion.done():
                    completion.set_result(verdict)
        else:
            verdicts = map(BY_BYTE.__getitem__, from_server(raw))
            for completion, verdict in zip(self.completions, verdicts):
                if not completion.done():
                    completion.set_result(verdict)
        self._dispatcher.finished(len(self.completions))

    def _answered_each(self, raw: bytes, details: _frames.Columns | None) -> None:
        self._queued = {position for position, verdict in enumerate(raw) if verdict == QUEUED}
        for position in self._queued:
            if not self._may_wait(position):
                self._queued.clear()
                raise _frames.Malformed("an entry that must not wait was queued")
        for position, verdict in enumerate(raw):
            if verdict != QUEUED:
                self._complete(position, verdict, details, position)
            elif self.completions[position].done():
                self._dispatcher.withdraw(self.frame_id, position)

    def _options_of(self, position: int) -> AcquireOptions:
        return self.options_by_position.get(position, DEFAULTS)

    def _may_wait(self, position: int) -> bool:
        return self._options_of(position).may_wait

    def withdraw(self, position: int) -> None:
        """Withdraws a queued entry; answered() does so for one whose answer is still to come."""
        if position in self._queued:
            self._dispatcher.withdraw(self.frame_id, position)

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        raw = verdict_bytes(answer.verdicts, len(answer.entries))
        for row, (position, verdict) in enumerate(zip(answer.entries, raw)):
            if position not in self._queued or verdict == QUEUED:
                raise _frames.Malformed("an entry was granted that does not wait")
            self._queued.remove(position)
            self._complete(position, verdict, answer.details, row)
        return not self._queued

    def _complete(self, position: int, verdict: int, details: _frames.Columns | None,
                  row: int) -> None:
        """`row`: of this entry in the columns of `details`."""
        completion = self.completions[position]
        if verdict == DRAINING:
            self._lost([position], Draining("the server is shutting down"))
            return
        self._dispatcher.waiting_entries.pop(completion, None)
        if not completion.done():
            wants_details = self._options_of(position).details
            completion.set_result(key_outcome(verdict, details, row) if wants_details
                                  else BY_BYTE[verdict])
        elif verdict == APPROVED and self._may_wait(position):
            self._dispatcher.release_unwanted(self.keys[position],
                                              self.options_by_position[position].cost)
        self._dispatcher.finished(1)

    def failed(self, error: Exception) -> None:
        for position in sorted(self._queued) or range(len(self.completions)):
            self._fail(position, error)
        self._leave_timer()

    def _fail(self, position: int, error: Exception) -> None:
        completion = self.completions[position]
        self._dispatcher.waiting_entries.pop(completion, None)
        if not completion.done():
            completion.set_exception(copy_of(error))
        self._dispatcher.finished(1)

    def lost(self, error: ConnectionLost) -> None:
        self._lost(sorted(self._queued) or range(len(self.completions)), error)
        self._leave_timer()

    def _lost(self, positions: Sequence[int], error: ConnectionLost) -> None:
        dispatcher = self._dispatcher
        if dispatcher.settings.requeue:
            live = self._live(positions)
            if live:
                dispatcher.resend(self.part(live))
            return
        for position in positions:
            completion = self.completions[position]
            dispatcher.waiting_entries.pop(completion, None)
            if not completion.done():
                dispatcher.complete_by_policy(completion, error)
            self._dispatcher.finished(1)


def copy_of(error: Exception) -> Exception:
    """A copy per caller, so that each raises its own, with its own traceback."""
    try:
        copy = type(error)(*error.args)
    except TypeError:
        return error
    copy.__cause__ = error.__cause__
    return copy


class DirectAcquire(Request):
    """An acquire with the default options while no other call is pending: the fast path."""

    def __init__(self, dispatcher: Dispatcher, key: str | bytes, completion: Any) -> None:
        self._dispatcher = dispatcher
        self._key = key
        self._completion = completion

    def encode(self, frame_id: int) -> bytes:
        return _frames.encode_acquire(frame_id, _frames.encode_keys((self._key,)))

    def answered(self, answer: _frames.Answer) -> bool:
        if type(answer) is not _frames.VerdictsAnswer or answer.length != 1:
            raise _frames.Malformed("not the answer to this Acquire")
        verdict = answer.verdicts[0]
        if verdict == QUEUED:
            raise _frames.Malformed("an entry that must not wait was queued")
        if verdict == DRAINING:
            self.lost(Draining("the server is shutting down"))
        else:
            self._dispatcher.pending -= 1
            if not self._completion.done():
                self._completion.set_result(BY_BYTE[from_server(answer.verdicts)[0]])
        return True

    def failed(self, error: Exception) -> None:
        self._dispatcher.pending -= 1
        if not self._completion.done():
            self._completion.set_exception(copy_of(error))

    def lost(self, error: ConnectionLost) -> None:
        self._dispatcher.pending -= 1
        if self._completion.done():
            return
        if self._dispatcher.settings.requeue:
            self._dispatcher.submit_acquire(self._key, self._completion)
        else:
            self._dispatcher.complete_by_policy(self._completion, error)


class ControlRequest(Request):
    """A frame that the server answers by one frame: Inspect, Ping, Usage, QuotaChange, Reset."""

    def __init__(self, dispatcher: Dispatcher, completion: Any, encode: Callable[[int], bytes],
                 kind: type[Any], result: Callable[[Any], Any], may_resend: bool = True) -> None:
        self._dispatcher = dispatcher
        self._completion = completion
        self._encode = encode
        self._kind = kind
        self._result = result
        self._may_resend = may_resend

    def encode(self, frame_id: int) -> bytes:
        return self._encode(frame_id)

    def without_done(self) -> ControlRequest | None:
        if not self._completion.done():
            return self
        self._dispatcher.finished(1)
        return None

    def answered(self, answer: _frames.Answer) -> bool:
        expect(self._kind, answer)
        result = self._result(answer)
        self._dispatcher.finished(1)
        if not self._completion.done():
            self._completion.set_result(result)
        return True

    def failed(self, error: Exception) -> None:
        self._dispatcher.finished(1)
        if not self._completion.done():
            self._completion.set_exception(copy_of(error))

    def lost(self, error: ConnectionLost) -> None:
        may_resend = self._dispatcher.settings.requeue and self._may_resend
        if may_resend and not self._completion.done():
            self._dispatcher.resend(self)
        else:
            self.failed(error)


class Withdrawal(Request):
    """Withdraws queued entries whose callers wait no more."""

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
        """The entries left their queues with the connection."""


class NullCompletion:
    """Ignores the result: of requests that the client makes on its own."""

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        pass

    def set_exception(self, error: BaseException, /) -> None:
        pass
