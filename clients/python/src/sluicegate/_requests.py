"""Turns calls into frames, and answers into results for their sinks.

Flow:   Batch: single acquires of many callers, one frame; Lone: the acquire of a single caller.
        Question, Withdrawal: other frames. Frames of many entries of one caller are in _calls.py.
Errors: a sink gets a result or an exception, once. A sink that is done already (timed out,
        cancelled) is skipped: its queued entry is withdrawn, and a permit granted to it released.
Lives:  not thread-safe: the clients lock.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from . import _frames
from .errors import ConnectionLost, Draining, LimitExceeded
from .verdict import BY_BYTE, Verdict, from_server

if TYPE_CHECKING:
    from ._dispatcher import Dispatcher

QUEUED, APPROVED, DRAINING = int(Verdict.QUEUED), int(Verdict.APPROVED), int(Verdict.DRAINING)


class Sink(Protocol):
    """Receives a result: a Slot of the blocking client, a Future of asyncio."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


class Entry(NamedTuple):
    """The options of a single acquire that differ from the defaults."""

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
    is_quota_batch = False

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

    def split(self) -> list[Request]:
        """Two smaller requests in place of this one, whose frame is too large."""
        raise LimitExceeded("the server allows no frame that could hold this entry")

    def unfit(self, error: Exception) -> list[Request]:
        """It cannot be encoded: fails the entries at fault, and returns requests for the others."""
        self.failed(error)
        return []


def expect(kind: type[Any], answer: _frames.Answer) -> None:
    if type(answer) is not kind:
        raise _frames.Malformed(f"{type(answer).__name__} where {kind.__name__} belongs")


def verdict_bytes(verdicts: bytes, count: int) -> bytes:
    """A byte per entry, also when the server sent one byte for all."""
    return from_server(verdicts if len(verdicts) == count else verdicts * count)


# ---- single acquires -----------------------------------------------------------------------------

class Batch(Request):
    """Single acquires in one frame; `extras` has the options of those that are not plain."""

    is_batch = True

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.keys: list[str | bytes] = []
        self.sinks: list[Any] = []
        self.extras: dict[int, Entry] = {}
        self.wait_limit_ms = 0
        self._queued: set[int] = set()
        self.on_answer: Callable[[], object] | None = None  # for example cancels a timer

    @property
    def entries(self) -> int:  # type: ignore[override]
        return len(self.keys)

    def takes(self, entry: Entry | None) -> bool:
        """Whether the entry fits: a frame has one wait limit for all entries that may wait."""
        return (entry is None or not entry.may_wait or entry.wait_limit_ms == self.wait_limit_ms
                or not any(other.may_wait for other in self.extras.values()))

    def add(self, key: str | bytes, sink: Any, entry: Entry | None) -> None:
        if entry is not None:
            self.extras[len(self.keys)] = entry
            if entry.may_wait:
                self.wait_limit_ms = entry.wait_limit_ms
                self._dispatcher.places[sink] = (self, len(self.keys))
        self.keys.append(key)
        self.sinks.append(sink)

    def part(self, positions: Iterable[int]) -> Batch:
        """A batch of some of the entries, which replaces them."""
        part = Batch(self._dispatcher)
        for position in positions:
            part.add(self.keys[position], self.sinks[position], self.extras.get(position))
        return part

    def without_done(self) -> Batch | None:
        """The batch without the entries whose sinks are done."""
        live = [n for n, sink in enumerate(self.sinks) if not sink.done()]
        if len(live) == len(self.sinks):
            return self
        for sink in self.sinks:
            if sink.done():
                self._dispatcher.places.pop(sink, None)
        self._dispatcher.finished(len(self.sinks) - len(live))
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
        if self.extras or DRAINING in raw or QUEUED in raw:
            return self._answered_each(verdict_bytes(raw, answer.length))
        if len(raw) == 1:
            verdict = BY_BYTE[from_server(raw)[0]]
            for sink in self.sinks:
                if not sink.done():
                    sink.set_result(verdict)
        else:
            for sink, verdict in zip(self.sinks, map(BY_BYTE.__getitem__, from_server(raw))):
                if not sink.done():
                    sink.set_result(verdict)
        self._dispatcher.finished(len(self.sinks))
        return True

    def _answered_each(self, raw: bytes) -> bool:
        self._queued = {position for position, verdict in enumerate(raw) if verdict == QUEUED}
        for position in self._queued:
            if not self._may_wait(position):
                self._queued.clear()
                raise _frames.Malformed("an entry that must not wait was queued")
        for position, verdict in enumerate(raw):
            if verdict != QUEUED:
                self._settle(position, verdict)
            elif self.sinks[position].done():
                self._dispatcher.withdraw(self.frame_id, position)
        return not self._queued

    def _may_wait(self, position: int) -> bool:
        entry = self.extras.get(position)
        return entry is not None and entry.may_wait

    def withdraw(self, position: int) -> None:
        """Withdraws a queued entry; answered() does so for one whose answer is still to come."""
        if position in self._queued:
            self._dispatcher.withdraw(self.frame_id, position)

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        raw = verdict_bytes(answer.verdicts, len(answer.entries))
        for position, verdict in zip(answer.entries, raw):
            if position not in self._queued or verdict == QUEUED:
                raise _frames.Malformed("an entry was granted that does not wait")
            self._queued.remove(position)
            self._settle(position, verdict)
        return not self._queued

    def _settle(self, position: int, verdict: int) -> None:
        sink = self.sinks[position]
        if verdict == DRAINING:
            self._lost([position], Draining("the server is shutting down"))
            return
        self._dispatcher.places.pop(sink, None)
        if not sink.done():
            sink.set_result(BY_BYTE[verdict])
        elif verdict == APPROVED and self._may_wait(position):
            self._dispatcher.release_unwanted(self.keys[position], self.extras[position].cost)
        self._dispatcher.finished(1)

    def failed(self, error: Exception) -> None:
        for position in sorted(self._queued) or range(len(self.sinks)):
            self._fail(position, error)

    def _fail(self, position: int, error: Exception) -> None:
        sink = self.sinks[position]
        self._dispatcher.places.pop(sink, None)
        if not sink.done():
            sink.set_exception(copy_of(error))
        self._dispatcher.finished(1)

    def lost(self, error: ConnectionLost) -> None:
        self._lost(sorted(self._queued) or range(len(self.sinks)), error)

    def _lost(self, positions: Sequence[int], error: ConnectionLost) -> None:
        dispatcher = self._dispatcher
        if dispatcher.options.requeue:
            live = [n for n in positions if not self.sinks[n].done()]
            self._dispatcher.finished(len(positions) - len(live))
            if live:
                dispatcher.ask_again(self.part(live))
            return
        for position in positions:
            sink = self.sinks[position]
            dispatcher.places.pop(sink, None)
            if not sink.done():
                dispatcher.settle_by_policy(sink, error)
            self._dispatcher.finished(1)


def copy_of(error: Exception) -> Exception:
    """A copy per caller, so that each raises its own, with its own traceback."""
    try:
        copy = type(error)(*error.args)
    except TypeError:
        return error
    copy.__cause__ = error.__cause__
    return copy


class Lone(Request):
    """A plain acquire when there is no other call: the fast path."""

    def __init__(self, dispatcher: Dispatcher, key: str | bytes, sink: Any) -> None:
        self._dispatcher = dispatcher
        self._key = key
        self._sink = sink

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
            if not self._sink.done():
                self._sink.set_result(BY_BYTE[from_server(answer.verdicts)[0]])
        return True

    def failed(self, error: Exception) -> None:
        self._dispatcher.pending -= 1
        if not self._sink.done():
            self._sink.set_exception(copy_of(error))

    def lost(self, error: ConnectionLost) -> None:
        self._dispatcher.pending -= 1
        if self._sink.done():
            return
        if self._dispatcher.options.requeue:
            self._dispatcher.ask(self._key, self._sink)
        else:
            self._dispatcher.settle_by_policy(self._sink, error)


class Question(Request):
    """A frame that the server answers by one frame: Inspect, Ping, Usage, QuotaChange, Reset."""

    def __init__(self, dispatcher: Dispatcher, sink: Any, encode: Callable[[int], bytes],
                 kind: type[Any], result: Callable[[Any], Any],
                 may_ask_again: bool = True) -> None:
        self._dispatcher = dispatcher
        self._sink = sink
        self._encode = encode
        self._kind = kind
        self._result = result
        self._may_ask_again = may_ask_again

    def encode(self, frame_id: int) -> bytes:
        return self._encode(frame_id)

    def answered(self, answer: _frames.Answer) -> bool:
        expect(self._kind, answer)
        result = self._result(answer)
        self._dispatcher.finished(1)
        if not self._sink.done():
            self._sink.set_result(result)
        return True

    def failed(self, error: Exception) -> None:
        self._dispatcher.finished(1)
        if not self._sink.done():
            self._sink.set_exception(copy_of(error))

    def lost(self, error: ConnectionLost) -> None:
        again = self._dispatcher.options.requeue and self._may_ask_again
        if again and not self._sink.done():
            self._dispatcher.ask_again(self)
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


class NullSink:
    """The sink of requests that the client makes on its own."""

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        pass

    def set_exception(self, error: BaseException, /) -> None:
        pass
