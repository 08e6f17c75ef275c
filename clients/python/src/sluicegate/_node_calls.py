"""The parts of a batch whose keys have several owners: cut, and put together again.

Flow:   cut() -> a part for each way -> its outcome -> Assembly -> the batch's result.
Errors: an error of one part ends the batch, once the other parts have ended; its `partial` has the
        verdicts of all parts.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ._bounds import COSTS, MAX_REQUESTS, MAX_REQUESTS_IN_QUEUE, WINDOW_MS
from ._calls import BatchCall, BatchOptions, spread
from ._invalid import SluicegateError
from .errors import Closed, ConnectionLost, Draining, TimedOut, Unreachable
from .verdict import DETAIL_COLUMNS, Verdict, Verdicts

Numbers = Sequence[int] | None


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
                   spread(options.window_ms, count, WINDOW_MS), options)

    def part(self, positions: list[int]) -> tuple[list[str | bytes], BatchOptions]:
        def pick(numbers: Numbers) -> list[int] | None:
            return None if numbers is None else [numbers[n] for n in positions]

        return [self.keys[n] for n in positions], self.options._replace(
            costs=pick(self.costs), max_requests=pick(self.max_requests),
            max_requests_in_queue=pick(self.max_requests_in_queue),
            window_ms=pick(self.window_ms))


class Assembly:
    """The result of a batch, from those of its parts."""

    def __init__(self, count: int, details: int) -> None:
        self._raw = bytearray(count)
        self._columns: dict[str, array[int]] = {
            name: array(letter, bytes(count * (4 if letter == "I" else 8)))
            for name, bit, letter in DETAIL_COLUMNS if details & bit}
        self._error: SluicegateError | None = None

    def add(self, positions: list[int], verdicts: Verdicts) -> None:
        for position, verdict in zip(positions, verdicts.raw):
            self._raw[position] = verdict
        for name, column in self._columns.items():
            for position, value in zip(positions, verdicts._columns.get(name, ())):
                column[position] = value

    def fail(self, positions: list[int], error: SluicegateError) -> None:
        """Of several errors the first counts."""
        if isinstance(error.partial, Verdicts):
            self.add(positions, error.partial)
        self._error = self._error or error

    def result(self) -> Verdicts:
        verdicts = Verdicts(bytes(self._raw), self._columns)
        if self._error is None:
            return verdicts
        self._error.partial = verdicts
        raise self._error


OPENING_POLL_S = 0.005  # of calls that only the owner can answer, while its lane opens


def owner_unreachable() -> Unreachable:
    return Unreachable("the key's owner is not connected, and other nodes do not know its keys")


def part_goes_home(error: SluicegateError, requeue: bool, call: BatchCall | None) -> bool:
    """A call without verdicts, a release, is asked again only if nothing of it was sent."""
    is_known = error.partial is not None or call is None or not call.has_sent
    return is_known and goes_home(error, requeue)


def undecided(positions: list[int], error: SluicegateError) -> list[int]:
    """The positions without a verdict in the error's `partial`."""
    if not isinstance(error.partial, Verdicts):
        return positions
    return [position for position, verdict in zip(positions, error.partial.raw) if not verdict]


def goes_home(error: SluicegateError, requeue: bool) -> bool:
    """Whether entries that a lane left undecided may be asked again over the home connection: they
    were not sent, or not decided because the node shuts down, or the caller takes that risk. A lane
    that is closed had no calls."""
    return isinstance(error, (Unreachable, Closed, Draining)) or (
        requeue and isinstance(error, ConnectionLost))


def policy_of(error: SluicegateError, waits: bool, verdict: Verdict | None) -> Verdict | None:
    """The failure policy's verdict for this error; None: the caller gets the error."""
    if isinstance(error, ConnectionLost) or isinstance(error, TimedOut) and not waits:
        return verdict
    return None


def by_policy(error: SluicegateError, count: int, verdict: Verdict) -> Verdicts:
    raw = error.partial.raw if isinstance(error.partial, Verdicts) else bytes(count)
    return Verdicts(raw.replace(b"\0", bytes([verdict])))
