"""The settles that no server has taken yet: each is repeated until one does, or its reservation's
lifetime ends. No I/O.

Flow:   keep() -> next_calls() -> a batch of settles, or of records for what the server has
        forgotten -> answered() or failed() -> the next attempt, after pause().
Units:  seconds of the caller's monotonic clock.
Errors: keep() refuses when `most` are kept.
Lives:  not thread-safe: the delivering thread and the callers share a lock.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ._dispatcher import Backoff
from ._invalid import SluicegateError
from ._log import LOG
from ._message import UNSET_32, UNSET_64
from ._quota_frames import CALLS_MAX, RECORD, SETTLE
from ._quota_requests import QuotaTerms, RecordEntry, ReserveEntry, SettleEntry
from .errors import ConnectionLost, Overloaded, QuotaError, TimedOut
from .quota import QuotaCode, QuotaResults

# Of a reservation whose lifetime only the server knows; its default is a minute.
LIFETIME_S = 600.0
ATTEMPT_S = 1.0  # for an answer: the first attempt of several that have none has so long,
ATTEMPT_S_MAX = 30.0  # each further one twice as long, up to this
CLOSE_POLL_S = 0.005  # how often a client that closes looks whether all are delivered
SHOWN_MAX = 8  # of the reservations in one line of the log

# What a settle ends as, by the server's answer. Any other answer ends it without effect.
SETTLED = frozenset({QuotaCode.OK, QuotaCode.ALREADY_SETTLED})
# The server may take it later.
LATER = frozenset({QuotaCode.NONE, QuotaCode.DRAINING, QuotaCode.OWNER_UNREACHABLE,
                   QuotaCode.RESERVATIONS_FULL, QuotaCode.SUBJECTS_FULL, QuotaCode.NOT_DURABLE})

OUTAGES = (ConnectionLost, TimedOut, Overloaded)  # no server has taken it, or none that answered


class SettleCounts(NamedTuple):
    """What became of the settles that the server did not take at once."""

    kept: int = 0  # the client repeats them now
    settled: int = 0  # the server took them later
    recorded: int = 0  # the server had forgotten the reservation: it has the usage as a record
    lost: int = 0  # the lifetime ended first, or the server refused them: the log has each


class KeptSettle(NamedTuple):
    """One settle, with all that its repeats need."""

    entry: SettleEntry
    record: RecordEntry | None  # for a server that has forgotten the reservation; None: unknown
    end: float  # of the reservation's lifetime
    is_forgotten: bool = False  # the server has no such reservation: the record is due

    @property
    def name(self) -> str:
        if self.entry.reservation:
            return f"reservation {self.entry.reservation:016x}"
        return f"{self.record.id.decode()} (admitted by the failure policy)" if self.record else ""


def record_of(entry: SettleEntry, reserved: ReserveEntry, id: bytes) -> RecordEntry:
    """The usage of a settle as a record. As in the settle, what it does not give is what was
    reserved; 0 where only the server knows that."""
    def used(value: int, reserved_value: int) -> int:
        known = reserved_value if value == UNSET_64 else value
        return 0 if known == UNSET_64 else known

    return RecordEntry(
        reserved.subjects, reserved.requests if entry.requests == UNSET_32 else entry.requests,
        used(entry.input_tokens, reserved.input_tokens), entry.cached_input_tokens,
        used(entry.output_tokens, reserved.max_output_tokens), used(entry.cost, reserved.cost), id)


def record_id(reservation: int) -> bytes:
    """The same in each process that settles this reservation: the server charges one of them."""
    return f"settle-{reservation:016x}".encode()


def record_id_of_none() -> bytes:
    """Of a reservation that no server has: the failure policy admitted it."""
    return f"settle-{secrets.token_hex(16)}".encode()


def kept_after(error: SluicegateError, settle: KeptSettle) -> KeptSettle | None:
    """What to repeat after a settle that failed so; None: a repeat cannot help."""
    if isinstance(error, QuotaError):
        return kept_with_code(error.code, settle)
    return settle if isinstance(error, OUTAGES) else None


def kept_with_code(code: QuotaCode, settle: KeptSettle) -> KeptSettle | None:
    """The same of an entry of a batch."""
    if code is QuotaCode.UNKNOWN_RESERVATION:
        return settle._replace(is_forgotten=True) if settle.record is not None else None
    return settle if code in LATER else None


class KeptSettles:
    """The book of one client."""

    def __init__(self, most: int, backoff: tuple[float, float]) -> None:
        self._most = most
        self._backoff = Backoff(*backoff)
        self.attempt_s = ATTEMPT_S  # for the next answer
        self._kept: dict[int | bytes, KeptSettle] = {}  # in their order
        self._settled = self._recorded = self._lost = 0
        self._losses: list[str] = []
        self._frame_max = CALLS_MAX

    @property
    def counts(self) -> SettleCounts:
        return SettleCounts(len(self._kept), self._settled, self._recorded, self._lost)

    def keep(self, settle: KeptSettle) -> bool:
        """False: there is no room. Of several settles of one reservation the first counts, as it
        does in the server."""
        key = _key(settle)
        if len(self._kept) >= self._most and key not in self._kept:
            return False
        kept = self._kept.setdefault(key, settle)
        if settle.is_forgotten and not kept.is_forgotten:
            self._kept[key] = settle
        return True

    def pause(self, now: float) -> float:
        """Until the next attempt."""
        return max(0.0, self._backoff.not_before - now)

    def next_calls(self, now: float) -> list[KeptSettle]:
        """For one frame: settles, or else records; empty when nothing is kept. Drops those whose
        lifetime has ended."""
        self._end([kept for kept in self._kept.values() if kept.end <= now],
                  "the lifetime ended before a server answered")
        for is_forgotten in (False, True):
            chosen = [kept for kept in self._kept.values() if kept.is_forgotten == is_forgotten]
            if chosen:
                return chosen[:self._frame_max]
        return []

    def answered(self, calls: Sequence[KeptSettle], results: QuotaResults, now: float) -> None:
        self._frame_max = CALLS_MAX
        self.attempt_s = ATTEMPT_S
        self._take(calls, results)
        if any(code in LATER for code in results):
            self._backoff.failed(now)
        else:
            self._backoff.succeeded()

    def failed(self, calls: Sequence[KeptSettle], error: SluicegateError, now: float) -> None:
        """The attempt had no answer; `partial` of the error may have some."""
        if isinstance(error.partial, QuotaResults):
            self._take(calls, error.partial)
        if isinstance(error, TimedOut):
            self.attempt_s = min(2 * self.attempt_s, ATTEMPT_S_MAX)
        if isinstance(error, OUTAGES):
            self._backoff.failed(now)
        elif len(calls) > 1:  # the frame was refused: which of them is at fault?
            self._frame_max = len(calls) // 2
        else:
            self._end(list(calls), str(error))

    def give_up(self) -> None:
        """The client was closed."""
        self._end(list(self._kept.values()), "the client was closed before a server answered")

    def _take(self, calls: Sequence[KeptSettle], results: QuotaResults) -> None:
        refused: dict[QuotaCode, list[KeptSettle]] = {}
        for call, code in zip(calls, results):
            if code in LATER or _key(call) not in self._kept:
                continue
            if call.is_forgotten and code.admits:
                self._recorded += 1
            elif not call.is_forgotten and code in SETTLED:
                self._settled += 1
            elif code is QuotaCode.UNKNOWN_RESERVATION and call.record is not None:
                self._kept[_key(call)] = call._replace(is_forgotten=True)
                continue
            else:
                refused.setdefault(code, []).append(call)
                continue
            del self._kept[_key(call)]
        for code, ended in refused.items():
            self._end(ended, f"{code}: {code.reason}")

    def _end(self, ended: list[KeptSettle], why: str) -> None:
        """Of settles that nothing can deliver any more."""
        if not ended:
            return
        for kept in ended:
            del self._kept[_key(kept)]
        self._lost += len(ended)
        more = "" if len(ended) <= SHOWN_MAX else f" and {len(ended) - SHOWN_MAX} more"
        self._losses.append(f"settles lost: {len(ended)} ({why}): "
                            + ", ".join(kept.name for kept in ended[:SHOWN_MAX]) + more)

    def take_losses(self) -> list[str]:
        """Lines for the log, which the caller writes without its lock: a handler of the log may
        call the client."""
        losses, self._losses = self._losses, []
        return losses


def _key(settle: KeptSettle) -> int | bytes:
    """A reservation, or the id of a record where no server has one."""
    if settle.entry.reservation or settle.record is None:
        return settle.entry.reservation
    return settle.record.id


def log_kept(settle: KeptSettle, why: object) -> None:
    """Of the first one: those that follow have the same cause."""
    LOG.warning("the settle of %s is repeated until a server takes it, and so are those that "
                "follow: %s", settle.name, why)


def log_losses(losses: Sequence[str]) -> None:
    for loss in losses:
        LOG.error(loss)


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

