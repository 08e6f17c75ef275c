"""Shared by both clients' calls to several nodes: who owns an entry, whether a call that failed may
go to another node, and batches whose entries have several owners: cut, and put together again.

Flow:   a part for each way -> its outcome -> Assembly -> the batch's result.
Errors: an error of one part ends the batch, once the other parts have ended; its `partial` has the
        outcomes of all parts.
"""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ._bounds import COSTS, MAX_REQUESTS, MAX_REQUESTS_IN_QUEUE
from ._calls import WINDOWS_MS, BatchCall, BatchOptions, spread
from ._invalid import SluicegateError
from ._nodes import Lane, fits_lane, owner_of, owner_of_reservation, owner_of_subject
from ._quota_requests import QuotaEntry, SettleEntry
from .errors import Closed, ConnectionLost, Draining, TimedOut, Unreachable
from .quota import QuotaResults
from .verdict import DETAIL_COLUMNS, Verdict, Verdicts

Numbers = Sequence[int] | None
Results = TypeVar("Results", Verdicts, QuotaResults)


# ---- owners --------------------------------------------------------------------------------------

def owners_of_keys(keys: Iterable[str | bytes], nodes_count: int) -> list[int | None]:
    """Places in the list; None: the home connection, whose client names the fault of the key."""
    return [owner_of(key, nodes_count) if fits_lane(key) else None for key in keys]


def owner_of_call(entry: QuotaEntry, nodes_count: int) -> int | None:
    """The place of the node that decides the call: the first subject's owner, or the node that has
    the reservation. None: the list has no such node."""
    if isinstance(entry, SettleEntry):
        return owner_of_reservation(entry.reservation, nodes_count)
    return owner_of_subject(entry.subjects[0], nodes_count)


# ---- batches -------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """The arguments of acquire_many(), checked, with a number for each key."""

    keys: Sequence[str | bytes]
    costs: Numbers
    max_requests: Numbers
    max_requests_in_queue: Numbers
    window_ms: Numbers
    options: BatchOptions

    @classmethod
    def of(cls, keys: Sequence[str | bytes], options: BatchOptions) -> Batch:
        count = len(keys)
        return cls(keys, spread(options.costs, count, COSTS),
                   spread(options.max_requests, count, MAX_REQUESTS),
                   spread(options.max_requests_in_queue, count, MAX_REQUESTS_IN_QUEUE),
                   spread(options.window_ms, count, WINDOWS_MS), options)

    def part(self, positions: list[int]) -> tuple[list[str | bytes], BatchOptions]:
        def pick(numbers: Numbers) -> list[int] | None:
            return None if numbers is None else [numbers[n] for n in positions]

        return [self.keys[n] for n in positions], self.options._replace(
            costs=pick(self.costs), max_requests=pick(self.max_requests),
            max_requests_in_queue=pick(self.max_requests_in_queue),
            window_ms=pick(self.window_ms))


class Part(Protocol):
    """The entries of a batch that go one way."""

    positions: list[int]
    error: SluicegateError | None
    result: Any

    @property
    def lane(self) -> Lane[Any] | None: ...
    @property
    def call(self) -> BatchCall | None: ...


class Assembly(abc.ABC, Generic[Results]):
    """The result of a batch, from those of its parts."""

    def __init__(self, count: int, letters: Mapping[str, str]) -> None:
        """`letters`: the array's type of each column."""
        self._raw = bytearray(count)
        self._columns: dict[str, array[int]] = {
            name: array(letter, bytes(count * (4 if letter == "I" else 8)))
            for name, letter in letters.items()}
        self._error: SluicegateError | None = None

    @abc.abstractmethod
    def _results(self) -> Results: ...

    @staticmethod
    @abc.abstractmethod
    def _columns_of(results: Results) -> Mapping[str, Sequence[int]]: ...

    def add(self, positions: list[int], results: Results) -> None:
        for position, outcome in zip(positions, results.raw):
            self._raw[position] = outcome
        columns = self._columns_of(results)
        for name, column in self._columns.items():
            for position, value in zip(positions, columns.get(name, ())):
                column[position] = value

    def fail(self, positions: list[int], error: SluicegateError, policy: Verdict | None) -> None:
        """Of several errors that the failure policy does not decide the first counts."""
        if error.partial is not None:
            self.add(positions, error.partial)  # type: ignore[arg-type]
        if policy is None or not isinstance(error, ConnectionLost):
            self._error = self._error or error
            return
        for position in undecided(positions, error):
            self._raw[position] = policy

    def of(self, parts: Iterable[Part], policy: Verdict | None) -> Results:
        """The result of all parts. `policy`: the failure policy's verdict for what was lost."""
        for part in parts:
            if part.error is not None:
                self.fail(part.positions, part.error, policy)
            elif part.result is not None:
                self.add(part.positions, part.result)
        return self.result()

    def result(self) -> Results:
        results = self._results()
        if self._error is None:
            return results
        self._error.partial = results
        raise self._error


class VerdictsAssembly(Assembly[Verdicts]):
    """acquire_many()'s."""

    def __init__(self, count: int, details: int) -> None:
        super().__init__(count, {name: letter for name, bit, letter in DETAIL_COLUMNS
                                 if details & bit})

    def _results(self) -> Verdicts:
        return Verdicts(bytes(self._raw), self._columns)

    @staticmethod
    def _columns_of(results: Verdicts) -> Mapping[str, Sequence[int]]:
        return results._columns


class QuotaAssembly(Assembly[QuotaResults]):
    """reserve_many()'s and others'."""

    def __init__(self, count: int) -> None:
        super().__init__(count, {"reservations": "Q", "retry_after_ms": "q"})

    def _results(self) -> QuotaResults:
        return QuotaResults(bytes(self._raw), **self._columns)

    @staticmethod
    def _columns_of(results: QuotaResults) -> Mapping[str, Sequence[int]]:
        return {"reservations": results.reservations, "retry_after_ms": results._retry_after_ms}


# ---- what a lane did not answer ------------------------------------------------------------------

OPENING_POLL_S = 0.005  # of calls that only the owner can answer, while its lane opens


def owner_unreachable() -> Unreachable:
    return Unreachable("the key's owner is not connected, and other nodes do not know its keys")


def withhold_results(error: BaseException) -> bool:
    """Whether a batch of quota calls ends without results, so that all that its parts have reserved
    is to be cancelled: it timed out, or was interrupted or cancelled. Takes them from the error."""
    if isinstance(error, TimedOut):
        error.partial = None
        return True
    return not isinstance(error, SluicegateError)


def goes_home(error: SluicegateError, requeue: bool) -> bool:
    """Whether entries that a lane left undecided may be asked again over the home connection: they
    were not sent, or not decided because the node shuts down, or the caller takes that risk. A lane
    that is closed had no calls."""
    return isinstance(error, (Unreachable, Closed, Draining)) or (
        requeue and isinstance(error, ConnectionLost))


def part_goes_home(error: SluicegateError, requeue: bool, call: BatchCall | None) -> bool:
    """A release has no outcomes that show what was done: it goes home only if nothing of it was
    sent. The same holds for a call that may be charged for entries that still waited."""
    is_known = call is None or not call.has_sent or (
        error.partial is not None and not call.charges_when_given_up)
    return is_known and goes_home(error, requeue)


def undecided(positions: list[int], error: SluicegateError) -> list[int]:
    """The positions without an outcome in the error's `partial`."""
    if error.partial is None:
        return positions
    return [position for position, outcome in zip(positions, error.partial.raw) if not outcome]


def leave_to_home(parts: Iterable[Part], requeue: bool,
                  failed: Callable[[Lane[Any]], None]) -> list[list[int]]:
    """The positions, by part, that lanes left undecided and that the home connection is asked for.
    Their parts keep the outcomes so far instead of the error. `failed`: for lanes that lead
    nowhere."""
    left: list[list[int]] = []
    for part in parts:
        error = part.error
        if part.lane is None or error is None:
            continue
        if isinstance(error, Unreachable):
            failed(part.lane)
        if part_goes_home(error, requeue, part.call):
            left.append(undecided(part.positions, error))
            part.error, part.result = None, error.partial
    return left
