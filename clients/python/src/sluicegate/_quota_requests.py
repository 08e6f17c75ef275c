"""Turns calls about quotas into frames, and the answers into outcomes for their completions.

Flow:   GatheredQuotaCalls: single calls of many callers with the same QuotaTerms, in one frame;
        QuotaBatchCall: a batch of one caller; Cancellation: of reservations that their callers
        never received.
Errors: a completion gets an Outcome or an exception, once. If it is done already (timed out,
        cancelled), its reservation is cancelled, unless it has an id chosen by the client.
Lives:  not thread-safe: the clients lock. After the loss of a connection, undecided calls of
        settle, cancel and extend are sent once more, because a repeat changes nothing; reserve and
        check only with requeue=True; record and consume then, too, if they have ids.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from . import _frames
from ._calls import BatchCall, BatchFrame, Positions, pick
from ._message import UNSET_32, UNSET_64
from ._quota_frames import (CALLS_MAX, CANCEL, CHECK, CONSUME, EXTEND, MAY_WAIT, RECORD, RESERVE,
                            SETTLE, LimitStates, QuotaAnswers, ReserveColumns, Used, amounts,
                            encode_cancel, encode_consume, encode_extend, encode_record,
                            encode_reserve, encode_settle, encode_subjects, requests)
from ._requests import Request, copy_of, expect
from .errors import ConnectionLost, Draining, Unreachable
from .quota import (CEILINGS, CODE_OF, KINDS, METRICS, LimitState, QuotaCode, QuotaResults,
                    codes_from_server, word)
from .verdict import Verdict

if TYPE_CHECKING:
    from ._dispatcher import Dispatcher

QUEUED, DRAINING = int(QuotaCode.QUEUED), int(QuotaCode.DRAINING)
REPEATABLE = frozenset({SETTLE, CANCEL, EXTEND})  # a repeat changes nothing


class QuotaTerms(NamedTuple):
    """What all calls of one frame have in common."""

    kind: int
    flags: int = 0
    wait_limit_ms: int = 0
    lifetime_ms: int = 0
    owner: str = ""
    shard: int = 0  # of the reservations: a frame for one shard needs no further shard messages

    def for_shard_of(self, reservation: int, shards: int) -> QuotaTerms:
        """These terms for the shard that the id of a reservation leads to.

        The layout of ids is proto/reservation_id.hpp's.
        """
        return self._replace(shard=(reservation >> 34 & 0xFFFF) * shards >> 16)

    @property
    def may_wait(self) -> bool:
        return self.kind in (RESERVE, CONSUME) and bool(self.flags & MAY_WAIT)

    @property
    def needs_admission(self) -> bool:
        """Whether the server admits or denies the call: then the failure policy can too."""
        return self.kind in (RESERVE, CHECK, CONSUME)

    def may_repeat(self, entries: Sequence[Any]) -> bool:
        """Whether nothing is charged twice if the server gets these entries twice."""
        return self.kind not in (RECORD, CONSUME) or all(entry.id for entry in entries)


class ReserveEntry(NamedTuple):
    """An entry of reserve or check."""

    subjects: tuple[bytes, ...]
    requests: int = 1
    input_tokens: int = 0
    max_output_tokens: int = UNSET_64
    cost: int = 0
    id: bytes = b""


class SettleEntry(NamedTuple):
    """An entry of settle, or of cancel and extend, which only have the reservation."""

    reservation: int
    requests: int = UNSET_32
    input_tokens: int = UNSET_64
    cached_input_tokens: int = 0
    output_tokens: int = UNSET_64
    cost: int = UNSET_64


class RecordEntry(NamedTuple):
    """An entry of record or consume."""

    subjects: tuple[bytes, ...]
    requests: int = 1
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    id: bytes = b""


QuotaEntry = Union[ReserveEntry, SettleEntry, RecordEntry]


class Outcome(NamedTuple):
    """The outcome of one call."""

    code: QuotaCode
    reservation: int = 0
    retry_after_ms: int = 0
    limits: tuple[LimitState, ...] = ()


def outcome_of(answer: Outcome | Verdict) -> Outcome:
    """The outcome of a call; converts the verdict of the failure policy."""
    return Outcome(QuotaCode(int(answer)), 0, -1) if isinstance(answer, Verdict) else answer


# ---- frames --------------------------------------------------------------------------------------

def encode(terms: QuotaTerms, frame_id: int, entries: Sequence[Any]) -> bytes:
    if terms.kind == CANCEL:
        return encode_cancel(frame_id, [entry[0] for entry in entries], terms.flags)
    if terms.kind == EXTEND:
        return encode_extend(frame_id, [entry[0] for entry in entries], terms.lifetime_ms,
                             terms.flags)
    first, *columns = zip(*entries)
    if terms.kind == SETTLE:
        return encode_settle(frame_id, first, _used(columns, UNSET_32, UNSET_64), terms.flags)
    subjects = encode_subjects(first)
    if terms.kind in (RECORD, CONSUME):
        *amounts_used, own_ids = columns
        used = _used(amounts_used, 1, 0)
        if terms.kind == RECORD:
            return encode_record(frame_id, subjects, used, terms.flags, own_ids)
        return encode_consume(frame_id, subjects, used, terms.flags, terms.wait_limit_ms, own_ids)
    counts, inputs, outputs, costs, ids = columns
    return encode_reserve(frame_id, subjects, ReserveColumns(
        terms.flags, terms.wait_limit_ms, terms.lifetime_ms, _requests(counts, 1),
        _amounts(inputs, 0, "input_tokens"), _amounts(outputs, UNSET_64, "max_output_tokens"),
        _amounts(costs, 0, "cost"), ids, terms.owner), terms.kind)


def _requests(values: Sequence[int], default: int) -> _frames.Column | None:
    return None if values.count(default) == len(values) else requests(values)


def _amounts(values: Sequence[int], default: int, what: str) -> _frames.Column | None:
    return None if values.count(default) == len(values) else amounts(values, what)


def _used(columns: Sequence[Sequence[int]], unset_requests: int, unset: int) -> Used:
    counts, inputs, cached, outputs, costs = columns
    return Used(_requests(counts, unset_requests), _amounts(inputs, unset, "input_tokens"),
                _amounts(cached, 0, "cached_input_tokens"),
                _amounts(outputs, unset, "output_tokens"), _amounts(costs, unset, "cost"))


def states_of(limits: LimitStates | None) -> dict[int, list[LimitState]]:
    """The limits of each entry that has some; subjects are numbered from 0."""
    found: dict[int, list[LimitState]] = {}
    if limits is None:
        return found
    for row in zip(limits.entries, limits.subjects, limits.names, limits.metrics, limits.kinds,
                   limits.ceilings, limits.violated, limits.amounts, limits.used, limits.reserved,
                   limits.remaining, limits.period_ms, limits.reset_ms):
        (entry, subject, name, metric, kind, ceiling, violated, amount, used, reserved, remaining,
         period_ms, reset_ms) = row
        found.setdefault(entry, []).append(LimitState(
            subject, name.decode("utf-8", "replace"), word(METRICS, metric), word(KINDS, kind),
            amount if ceiling == 0 else word(CEILINGS, ceiling),
            used, reserved, remaining, period_ms / 1000, reset_ms / 1000, bool(violated)))
    return found


def outcomes(answer: QuotaAnswers) -> list[Outcome]:
    """An outcome per entry."""
    codes = codes_from_server(answer.codes, answer.length)
    zeros = [0] * answer.length
    limits = states_of(answer.limits)
    return [Outcome(CODE_OF[code], reservation, retry_after_ms, tuple(limits.get(entry, ())))
            for entry, (code, reservation, retry_after_ms) in enumerate(zip(
                codes, answer.reservations or zeros, answer.retry_after_ms or zeros))]


def granted(answer: _frames.GrantedAnswer) -> list[Outcome]:
    if not answer.codes:
        raise _frames.Malformed("Granted of a Reserve or Consume without codes")
    codes = [CODE_OF[code] for code in codes_from_server(answer.codes, len(answer.entries))]
    zeros = [0] * len(codes)
    return [Outcome(*each) for each in zip(codes, answer.reservations or zeros,
                                           answer.retry_after_ms or zeros)]


def expect_answers(answer: _frames.Answer, count: int) -> QuotaAnswers:
    if type(answer) is not QuotaAnswers or answer.length != count:
        raise _frames.Malformed("not the answer to this frame of quotas")
    return answer


# ---- single calls --------------------------------------------------------------------------------

class GatheredQuotaCalls(Request):
    """Single calls of many callers in one frame."""

    is_gathered_quotas = True

    def __init__(self, dispatcher: Dispatcher, terms: QuotaTerms) -> None:
        self._dispatcher = dispatcher
        self.terms = terms
        self._entries: list[QuotaEntry] = []
        self._completions: list[Any] = []
        self._queued: set[int] = set()
        self._was_resent = False

    @property
    def entries(self) -> int:  # type: ignore[override]
        return len(self._entries)

    def add(self, entry: QuotaEntry, completion: Any) -> None:
        if self.terms.may_wait:
            self._dispatcher.waiting_entries[completion] = (self, len(self._entries))
        self._entries.append(entry)
        self._completions.append(completion)

    def _part(self, positions: Iterable[int]) -> GatheredQuotaCalls:
        """A request for some of the calls, which replaces them."""
        part = GatheredQuotaCalls(self._dispatcher, self.terms)
        part._was_resent = self._was_resent
        for position in positions:
            part.add(self._entries[position], self._completions[position])
        return part

    def without_done(self) -> GatheredQuotaCalls | None:
        """Keeps settle, cancel and extend, which need no caller, while there is a connection.

        Without one they would fill a client that refuses calls, so that none of them connects.
        """
        if self.terms.kind in REPEATABLE and self._dispatcher.connection is not None:
            return self
        live = self._live(range(len(self._completions)))
        return self if len(live) == len(self._completions) else self._part(live) if live else None

    def _live(self, positions: Sequence[int]) -> list[int]:
        """The positions of calls that a caller waits for; ends the others."""
        live = [n for n in positions if not self._completions[n].done()]
        for position in positions:
            if self._completions[position].done():
                self._dispatcher.waiting_entries.pop(self._completions[position], None)
        self._dispatcher.finished(len(positions) - len(live))
        return live

    def split(self) -> list[Request]:
        half = len(self._entries) // 2
        if not half:
            return super().split()
        return [self._part(range(half)), self._part(range(half, len(self._entries)))]

    def encode(self, frame_id: int) -> bytes:
        return encode(self.terms, frame_id, self._entries)

    def answered(self, answer: _frames.Answer) -> bool:
        results = outcomes(expect_answers(answer, len(self._completions)))
        queued = {n for n, outcome in enumerate(results) if outcome.code == QUEUED}
        if queued and not self.terms.may_wait:
            raise _frames.Malformed("a call that must not wait was queued")
        self._queued = queued
        for position, outcome in enumerate(results):
            if position not in queued:
                self._complete(position, outcome)
            elif self._completions[position].done():
                self._dispatcher.withdraw(self.frame_id, position)
        return not queued

    def withdraw(self, position: int) -> None:
        """Withdraws a queued call; answered() does so for one whose answer is still to come."""
        if position in self._queued:
            self._dispatcher.withdraw(self.frame_id, position)

    def granted(self, answer: _frames.GrantedAnswer) -> bool:
        if not self._queued.issuperset(answer.entries):
            raise _frames.Malformed("a call was granted that does not wait")
        for position, outcome in zip(answer.entries, granted(answer)):
            self._queued.discard(position)
            self._complete(position, outcome)
        return not self._queued

    def _complete(self, position: int, outcome: Outcome) -> None:
        completion = self._completions[position]
        if outcome.code == DRAINING and self.terms.needs_admission:
            self._lost([position], Draining("the server is shutting down"))
            return
        self._dispatcher.waiting_entries.pop(completion, None)
        if not completion.done():
            completion.set_result(outcome)
        elif outcome.reservation and not _has_own_id(self._entries[position]):
            self._dispatcher.cancel_unwanted(outcome.reservation)
        self._dispatcher.finished(1)

    def failed(self, error: Exception) -> None:
        for position in sorted(self._queued) or range(len(self._completions)):
            completion = self._completions[position]
            self._dispatcher.waiting_entries.pop(completion, None)
            if not completion.done():
                completion.set_exception(copy_of(error))
            self._dispatcher.finished(1)

    def lost(self, error: ConnectionLost) -> None:
        self._lost(sorted(self._queued) or range(len(self._completions)), error)

    def _lost(self, positions: Sequence[int], error: ConnectionLost) -> None:
        if self._may_resend(error):
            keeps_all = self.terms.kind in REPEATABLE
            live = list(positions) if keeps_all else self._live(positions)
            if live:
                part = self._part(live)
                part._was_resent = True
                self._dispatcher.resend(part)
            return
        for position in positions:
            completion = self._completions[position]
            self._dispatcher.waiting_entries.pop(completion, None)
            if completion.done():
                pass
            elif self.terms.needs_admission:
                self._dispatcher.complete_by_policy(completion, error)
            else:
                completion.set_exception(copy_of(error))
            self._dispatcher.finished(1)

    def _may_resend(self, error: ConnectionLost) -> bool:
        if self._dispatcher.settings.requeue:
            return self.terms.may_repeat(self._entries)
        return (self.terms.kind in REPEATABLE and not self._was_resent
                and not isinstance(error, Unreachable))


def _has_own_id(entry: QuotaEntry) -> bool:
    return type(entry) is ReserveEntry and bool(entry.id)


class Cancellation(Request):
    """Cancels reservations that their callers never received."""

    def __init__(self, reservations: list[int]) -> None:
        self._reservations = reservations
        self.entries = len(reservations)

    def encode(self, frame_id: int) -> bytes:
        return encode_cancel(frame_id, self._reservations)

    def split(self) -> list[Request]:
        half = len(self._reservations) // 2
        if not half:
            return super().split()
        return [Cancellation(self._reservations[:half]), Cancellation(self._reservations[half:])]

    def answered(self, answer: _frames.Answer) -> bool:
        expect(QuotaAnswers, answer)
        return True

    def failed(self, error: Exception) -> None:
        pass

    def lost(self, error: ConnectionLost) -> None:
        """The reservations end with their lifetime."""


# ---- batches of one caller -----------------------------------------------------------------------

class QuotaBatchCall(BatchCall):
    """reserve_many(), consume_many(), settle_many(), cancel_many()."""

    frame_entries_max = CALLS_MAX

    def __init__(self, dispatcher: Dispatcher, completion: Any, terms: QuotaTerms,
                 entries: Sequence[QuotaEntry]) -> None:
        super().__init__(dispatcher, completion, len(entries))
        self.terms = terms
        self.applies_policy = terms.needs_admission
        self.may_resend = terms.may_repeat(entries)
        self.may_wait = terms.may_wait
        self.charges_when_given_up = self.may_wait and not self.may_resend
        self._entries = entries
        self._raw = bytearray(self.count)
        self._reservations = array("Q", bytes(8 * self.count))
        self._retry_after_ms = array("q", bytes(8 * self.count))
        self._is_decided_by_policy = False  # the completion has the reservations admitted before
        self._lost_in = 0  # the connection after whose loss frames were resent; 0: none

    def encode(self, frame_id: int, positions: Positions) -> bytes:
        return encode(self.terms, frame_id, pick(self._entries, positions))

    def take(self, frame: BatchFrame, answer: _frames.Answer) -> None:
        results = outcomes(expect_answers(answer, len(frame.positions)))
        if any(outcome.code == QUEUED for outcome in results) and not self.may_wait:
            raise _frames.Malformed("a call that must not wait was queued")
        frame.queued.update(n for n, outcome in enumerate(results) if outcome.code == QUEUED)
        self._take_outcomes(frame.positions, results)

    def take_granted(self, frame: BatchFrame, answer: _frames.GrantedAnswer) -> None:
        if not frame.queued.issuperset(answer.entries):
            raise _frames.Malformed("a call was granted that does not wait")
        frame.queued.difference_update(answer.entries)
        self._take_outcomes([frame.positions[n] for n in answer.entries], granted(answer))

    def _take_outcomes(self, positions: Positions, results: Sequence[Outcome]) -> None:
        is_unwanted = self.completion.done() or self.is_complete
        drained = []
        for position, outcome in zip(positions, results):
            if outcome.code == DRAINING and self.terms.needs_admission:
                drained.append(position)
            elif is_unwanted:
                self._cancel_unwanted(position, outcome.reservation)
            else:
                self._raw[position] = outcome.code
                self._reservations[position] = outcome.reservation
                self._retry_after_ms[position] = outcome.retry_after_ms
        if drained:
            self.entries_lost(drained, Draining("the server is shutting down"))

    def _cancel_unwanted(self, position: int, reservation: int) -> None:
        if reservation and not _has_own_id(self._entries[position]):
            self.dispatcher.cancel_unwanted(reservation)

    def entries_lost(self, positions: Positions, error: ConnectionLost) -> None:
        if self._may_resend_once(error) and not self.is_complete and not self.completion.done():
            self._lost_in = self.dispatcher.generation
            self.frames_out += 1
            self.dispatcher.resend(BatchFrame(self, positions))
        else:
            super().entries_lost(positions, error)

    def _may_resend_once(self, error: ConnectionLost) -> bool:
        return (self.terms.kind in REPEATABLE and not isinstance(error, Unreachable)
                and self._lost_in in (0, self.dispatcher.generation))

    def withdraw(self) -> None:
        """Also cancels the reservations so far, if the caller will never receive them."""
        super().withdraw()
        if self.completion.done() and not self._is_decided_by_policy:
            self.discard()

    def discard(self) -> None:
        if self.terms.kind == RESERVE:
            for position, reservation in enumerate(self._reservations):
                self._cancel_unwanted(position, reservation)
                self._reservations[position] = 0

    def result(self) -> QuotaResults:
        return QuotaResults(bytes(self._raw), self._reservations, self._retry_after_ms)

    def partial(self) -> QuotaResults:
        raw = bytes(0 if code == QUEUED else code for code in self._raw)
        return QuotaResults(raw, self._reservations[:], self._retry_after_ms[:])

    def policy_result(self, verdict: Verdict) -> QuotaResults:
        self._is_decided_by_policy = True
        partial = self.partial()
        return QuotaResults(partial.raw.replace(b"\0", bytes([verdict])), partial.reservations,
                            partial._retry_after_ms)
