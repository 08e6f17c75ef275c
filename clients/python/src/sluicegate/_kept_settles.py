"""The settles that no server has taken yet: each is repeated until one does, or its time ends. No
I/O.

Flow:   keep() -> next_calls() -> a batch of settles, or of records for reservations that the
        server has forgotten -> answered() or failed() -> the next attempt, after pause().
Units:  seconds of the caller's monotonic clock.
Errors: keep() refuses when `most` are kept.
Lives:  not thread-safe: the delivering thread and the callers share a lock.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ._dispatcher import Backoff
from ._invalid import SluicegateError
from ._log import Line, write_lines
from ._message import UNSET_32, UNSET_64
from ._quota_frames import CALLS_MAX, RECORD, SETTLE
from ._quota_requests import QuotaTerms, RecordEntry, ReserveEntry, SettleEntry
from .errors import ConnectionLost, Overloaded, TimedOut, Unreachable
from .quota import QuotaCode, QuotaResults

# Repeats end after it where the lifetime is the server's default, which only the server knows.
DEFAULT_LIFETIME_S = 600.0
ATTEMPT_S = 1.0  # for an answer: the first attempt of several that have none has so long,
ATTEMPT_S_MAX = 30.0  # each further one twice as long, up to this
PAUSE_S = 0.01  # between attempts, at least
CLOSE_POLL_S = 0.005  # how often a client that closes looks whether all are delivered
SHOWN_MAX = 8  # of the reservations in one line of the log

# With one of these codes the server has the settle; with one of the others it may take it later.
SETTLED = frozenset({QuotaCode.OK, QuotaCode.ALREADY_SETTLED})
LATER = frozenset({QuotaCode.NONE, QuotaCode.DRAINING, QuotaCode.OWNER_UNREACHABLE,
                   QuotaCode.RESERVATIONS_FULL, QuotaCode.SUBJECTS_FULL})

OUTAGES = (ConnectionLost, TimedOut, Overloaded)  # no server has taken it, or none that answered


class SettleCounts(NamedTuple):
    """What became of the settles that the server did not take at once."""

    kept: int = 0  # the client repeats them now
    settled: int = 0  # the server took them later
    recorded: int = 0  # the server had forgotten the reservation: it has the usage as a record
    lost: int = 0  # their time ended first, or the server refused them: the log has each


@dataclass(slots=True)
class KeptSettle:
    """One settle, with all that its repeats need."""

    entry: SettleEntry
    record: RecordEntry | None  # for a server that has forgotten the reservation; None: unknown
    end: float  # no repeat after it, but for the first attempt
    server_start: int | None = None  # of the server that made the reservation; None: unknown
    is_forgotten: bool = False  # no server has the reservation: the record is due
    attempts: int = 0
    was_sent: bool = False  # without an answer: a server may have taken it

    @property
    def key(self) -> int | bytes:
        """The reservation, or the id of the record where no server has one."""
        if self.entry.reservation or self.record is None:
            return self.entry.reservation
        return self.record.id

    @property
    def name(self) -> str:
        if self.entry.reservation:
            return f"reservation {self.entry.reservation:016x}"
        return f"{self.record.id.decode()} (admitted by the failure policy)" if self.record else ""

    def forgotten_by(self, server_start: int | None) -> bool:
        """Of a server that does not know the reservation: whether it was started since, so that it
        has charged nothing. One that was not has ended the reservation before, and charged it.
        """
        return self.record is not None and (
            None in (self.server_start, server_start) or self.server_start != server_start)


ServerStart = Callable[[int], int | None]  # of the server that has a reservation


def record_of(entry: SettleEntry, reserved: ReserveEntry, id: bytes) -> RecordEntry:
    """The usage of a settle as a record. As in the settle, what it does not give is what was
    reserved; 0 where only the server knows that."""
    def used(value: int, reserved_value: int) -> int:
        known = reserved_value if value == UNSET_64 else value
        return 0 if known == UNSET_64 else known

    input_tokens = used(entry.input_tokens, reserved.input_tokens)
    return RecordEntry(
        reserved.subjects, reserved.requests if entry.requests == UNSET_32 else entry.requests,
        input_tokens, min(entry.cached_input_tokens, input_tokens),
        used(entry.output_tokens, reserved.max_output_tokens), used(entry.cost, reserved.cost), id)


def has_usage(record: RecordEntry) -> bool:
    return bool(record.requests or record.input_tokens or record.output_tokens or record.cost)


def record_id(reservation: int) -> bytes:
    """The same in each process that settles this reservation: the server charges one of them."""
    return f"settle-{reservation:016x}".encode()


def record_id_of_none() -> bytes:
    """Of a reservation that no server has: the failure policy admitted it."""
    return f"settle-{secrets.token_hex(16)}".encode()


class KeptSettles:
    """The book of one client."""

    def __init__(self, most: int, backoff: tuple[float, float]) -> None:
        self._most = most
        self._backoff = Backoff(*backoff)
        self._not_before = 0.0
        self.attempt_s = ATTEMPT_S  # for the next answer
        self._kept: dict[int | bytes, KeptSettle] = {}  # those tried last at the end
        self._settled = self._recorded = self._lost = 0
        self._has_warned = False  # of those that are kept now
        self._lines: list[Line] = []
        self._frame_max = CALLS_MAX

    @property
    def counts(self) -> SettleCounts:
        return SettleCounts(len(self._kept), self._settled, self._recorded, self._lost)

    def keep(self, settle: KeptSettle) -> bool:
        """False: there is no room. Of several settles of one reservation the first counts, as it
        does in the server."""
        key = settle.key
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= self._most:
                return False
            self._kept[key] = settle
            return True
        if kept.record is None:  # it was kept by the plain id
            kept.record, kept.server_start = settle.record, settle.server_start
        kept.is_forgotten = kept.is_forgotten or settle.is_forgotten
        return True

    def pause(self, now: float) -> float:
        """Until the next attempt."""
        return max(0.0, self._not_before - now)

    def next_calls(self, now: float) -> list[KeptSettle]:
        """For one frame, of settles or of records: those whose last attempt is the oldest. Drops
        those whose time has ended. Empty when nothing is kept."""
        self._end([kept for kept in self._kept.values() if kept.attempts and kept.end <= now],
                  "no server took them before the end of the lifetime")
        calls: list[KeptSettle] = []
        for kept in self._kept.values():
            if not calls or kept.is_forgotten == calls[0].is_forgotten:
                calls.append(kept)
                if len(calls) == self._frame_max:
                    break
        for kept in calls:
            kept.attempts += 1
            self._kept[kept.key] = self._kept.pop(kept.key)
        return calls

    def answered(self, calls: Sequence[KeptSettle], results: QuotaResults, now: float,
                 server_start: ServerStart) -> None:
        self._frame_max = CALLS_MAX
        self.attempt_s = ATTEMPT_S
        self._take(calls, results, server_start)
        later = next((code for code in results if code in LATER), None)
        if later is None:
            self._backoff.succeeded()
        else:
            self._wait(now, f"{later}: {later.reason}")

    def failed(self, calls: Sequence[KeptSettle], error: SluicegateError, now: float,
               server_start: ServerStart) -> None:
        """The attempt had no answer; `partial` of the error may have some."""
        if isinstance(error.partial, QuotaResults):
            self._take(calls, error.partial, server_start)
        if isinstance(error, TimedOut):
            self.attempt_s = min(2 * self.attempt_s, ATTEMPT_S_MAX)
        if isinstance(error, OUTAGES):
            for call in calls:
                call.was_sent = call.was_sent or not isinstance(error, (Unreachable, Overloaded))
            self._wait(now, error)
        elif len(calls) > 1:  # the frame was refused: which of them is at fault?
            self._frame_max = len(calls) // 2
        else:
            self._end(list(calls), str(error))

    def _wait(self, now: float, why: object) -> None:
        self._backoff.failed(now)
        self._not_before = max(self._backoff.not_before, now + PAUSE_S)
        self.warn(why)

    def give_up(self) -> None:
        """The client was closed."""
        self._end(list(self._kept.values()), "the client was closed before a server took them")

    def lose(self, name: str, why: object) -> None:
        """Of one that could not be kept, and nobody else reports."""
        self._lost += 1
        self._lines.append((logging.ERROR, f"settles lost: 1 ({why}): {name}"))

    def _take(self, calls: Sequence[KeptSettle], results: QuotaResults,
              server_start: ServerStart) -> None:
        refused: dict[str, list[KeptSettle]] = {}
        for call, code in zip(calls, results):
            if code in LATER or call.key not in self._kept:
                continue
            if call.is_forgotten and code.admits:
                self._recorded += 1
            elif not call.is_forgotten and code in SETTLED:
                self._settled += 1
            elif code is QuotaCode.UNKNOWN_RESERVATION and call.forgotten_by(
                    server_start(call.entry.reservation)):
                call.is_forgotten = True
                continue
            elif code is QuotaCode.UNKNOWN_RESERVATION and call.was_sent:
                self._settled += 1  # its answer was lost, and the server has forgotten it since
            else:
                refused.setdefault(f"{code}: {code.reason}", []).append(call)
                continue
            del self._kept[call.key]
        for why, ended in refused.items():
            self._end(ended, why)
        self._has_warned = self._has_warned and bool(self._kept)

    def _end(self, ended: list[KeptSettle], why: str) -> None:
        """Of settles that nothing can deliver any more."""
        ended = [kept for kept in ended if self._kept.pop(kept.key, None) is not None]
        if not ended:
            return
        self._lost += len(ended)
        more = "" if len(ended) <= SHOWN_MAX else f" and {len(ended) - SHOWN_MAX} more"
        self._lines.append((logging.ERROR, f"settles lost: {len(ended)} ({why}): " + ", ".join(
            kept.name for kept in ended[:SHOWN_MAX]) + more))

    # --- the log

    def warn(self, why: object) -> None:
        """Once, until nothing is kept any more: those that follow have the same cause."""
        if not self._has_warned and self._kept:
            self._has_warned = True
            first = next(iter(self._kept.values()))
            self._lines.append((logging.WARNING, f"the settle of {first.name}, and those that "
                                f"follow, are repeated until a server takes them: {why}"))

    def take_lines(self) -> list[Line]:
        """Lines for the log, which the caller writes without its lock: a handler of the log may
        call the client."""
        lines, self._lines = self._lines, []
        return lines


class HasSettles(Protocol):
    address: str

    @property
    def settles(self) -> SettleCounts: ...


def report_kept(clients: Iterable[HasSettles]) -> None:
    """At the end of the program: of clients that were not closed."""
    for client in list(clients):
        kept = client.settles.kept
        if kept:
            write_lines([(logging.ERROR, f"settles lost: {kept} (the program ends, and the client "
                          f"of {client.address} was not closed)")])


def calls_of(kept: Sequence[KeptSettle]) -> tuple[QuotaTerms, Sequence[SettleEntry | RecordEntry]]:
    """One frame's."""
    if kept[0].is_forgotten:
        return QuotaTerms(RECORD), [each.record for each in kept if each.record is not None]
    return QuotaTerms(SETTLE), [each.entry for each in kept]


def with_kept(results: QuotaResults, kept: Iterable[int]) -> QuotaResults:
    """settle_many()'s results, where the settles at these places are kept."""
    raw = bytearray(results.raw)
    for position in kept:
        raw[position] = QuotaCode.KEPT
    return QuotaResults(bytes(raw), results.reservations, results._retry_after_ms)
