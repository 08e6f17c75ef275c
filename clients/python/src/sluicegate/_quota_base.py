"""Shared by both clients' quota calls: makes the requests, and results or errors of the answers.

Flow:   _quota_arguments.py -> a frame that many callers share (_quota_requests.py) -> here.
Errors: QuotaDenied, UnknownReservation, ReservationEnded, InvalidQuota, QuotaError: errors.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from . import _frames
from . import _quota_arguments as arguments
from ._base import Base
from ._dispatcher import Dispatcher
from ._kept_settles import (DEFAULT_LIFETIME_S, LATER, OUTAGES, KeptSettle, SettleCounts,
                            with_kept)
from ._nodes import SLOT_BIT
from ._quota_arguments import Calls, subject_text
from ._quota_frames import (QuotaAnswers, QuotaText, UsageReply, encode_put, encode_remove,
                            encode_reset, encode_usage)
from ._quota_requests import (Outcome, QuotaBatchCall, SettleEntry, outcome_of, outcomes,
                              states_of)
from ._quota_reservations import ReservationState, mark_ended
from ._requests import ControlRequest
from .errors import (Closed, InvalidQuota, InvalidSubject, Overloaded, QuotaDenied, QuotaError,
                     ReservationEnded, SluicegateError, UnknownReservation, Unreachable)
from .quota import (SOURCES, Decision, QuotaCode, QuotaResults, Stats, Usage, quota_from_text,
                    seconds_of, stats_of, word)
from .verdict import Verdict

MakeControl = Callable[[Any], ControlRequest]  # for a Completion

ENDED = frozenset({QuotaCode.ALREADY_SETTLED, QuotaCode.ALREADY_CANCELLED,
                   QuotaCode.ALREADY_EXPIRED})


# ---- outcomes ------------------------------------------------------------------------------------

def shown(names: Iterable[bytes]) -> str:
    return ", ".join(f"{subject_text(name):.80}" for name in names)


def admitted(answer: Outcome | Verdict, subjects: tuple[bytes, ...]) -> Outcome:
    """The outcome of a call that the server admitted; raises QuotaDenied if it did not."""
    outcome = outcome_of(answer)
    unless_invalid(outcome.code, subjects)
    if not outcome.code.admits:
        raise QuotaDenied(outcome.code, shown(subjects), seconds_of(outcome.retry_after_ms),
                          tuple(limit for limit in outcome.limits if limit.violated),
                          tuple(map(subject_text, subjects)))
    return outcome


def unless_invalid(code: QuotaCode, subjects: Sequence[bytes]) -> None:
    """A caller's mistake is no denial."""
    if code is QuotaCode.INVALID_SUBJECT:
        raise InvalidSubject(code, longest(subjects))
    if code is QuotaCode.SUBJECTS_APART:
        raise InvalidSubject(code, shown(subjects))


def longest(subjects: Sequence[bytes]) -> str:
    """The name at fault: the client has checked all but the length that the server allows."""
    place = max(range(len(subjects)), key=lambda at: len(subjects[at]))
    return f"subjects[{place}] ({len(subjects[place])} bytes), {shown([subjects[place]])}"


def unless_ended(outcome: Outcome, reservation: int) -> None:
    """For settle, cancel and extend: raises unless the reservation was open."""
    what, code = f"reservation {reservation:016x}", outcome.code
    if code is QuotaCode.OK:
        return
    if code is QuotaCode.UNKNOWN_RESERVATION:
        raise UnknownReservation(code, what)
    if code in ENDED:
        raise ReservationEnded(code, what)
    raise QuotaError(code, what)


def decision_of(answer: Outcome | Verdict, subjects: tuple[bytes, ...]) -> Decision:
    outcome = outcome_of(answer)
    code = outcome.code
    unless_invalid(code, subjects)
    return Decision(code.admits, code, code.reason,
                    0.0 if code.admits else seconds_of(outcome.retry_after_ms),
                    stats_of(outcome.limits), outcome.limits)


INVALID_TOKENS = Decision(False, QuotaCode.INVALID_TOKENS, QuotaCode.INVALID_TOKENS.reason, None,
                          Stats(), ())


def by_reference(decision: Decision) -> Decision:
    """With go-ratelimit's words for a model without a quota."""
    if decision.code is not QuotaCode.UNKNOWN_SUBJECT_ALLOWED:
        return decision
    return decision._replace(reason="model has no configured quota")


def is_negative(tokens: int) -> bool:
    return isinstance(tokens, int) and tokens < 0


def unless_changed(answer: Change, subject: bytes) -> None:
    code = answer.code
    if code is QuotaCode.INVALID_QUOTA:
        raise InvalidQuota(code, shown([subject]), answer.detail)
    unless_invalid(code, [subject])
    if not code.admits:
        raise QuotaError(code, shown([subject]))


def was_removed(answer: Change, subject: bytes) -> bool:
    """False: there was nothing to remove."""
    if answer.code is QuotaCode.NO_SUCH_QUOTA:
        return False
    unless_changed(answer, subject)
    return True


def usages(reply: UsageReply) -> list[Usage]:
    limits = states_of(reply.limits)
    return [Usage(subject_text(name), word(SOURCES, source), quota_from_text(quota, source),
                  tuple(limits.get(row, ())), reservations, waiting)
            for row, (name, source, quota, reservations, waiting) in enumerate(zip(
                reply.names, reply.sources, reply.quotas, reply.open_reservations, reply.waiting))]


def usages_of(subjects: Sequence[bytes], found: dict[bytes, Usage],
              welcome: _frames.Welcome | None) -> list[Usage]:
    """The server leaves out names that are longer than it allows, and those whose owner does not
    answer."""
    left_out = [subject for subject in subjects if subject not in found]
    if not left_out:
        return [found[subject] for subject in subjects]
    if welcome is not None and len(max(left_out, key=len)) > welcome.key_bytes_max:
        raise InvalidSubject(QuotaCode.INVALID_SUBJECT, longest(subjects))
    raise QuotaError(QuotaCode.OWNER_UNREACHABLE, shown(left_out))


def partial_results(error: BaseException | None, count: int) -> QuotaResults:
    """The outcomes that a batch had before this error; NONE of the others."""
    partial = getattr(error, "partial", None)
    if isinstance(partial, QuotaResults):
        return partial
    return QuotaResults(bytes(count), array("Q", bytes(8 * count)), array("q", bytes(8 * count)))


class Change(NamedTuple):
    """The answer to a change of a quota, or of its usage."""

    code: QuotaCode
    detail: str = ""


def _single(answer: QuotaAnswers) -> Change:
    if answer.length != 1:
        raise _frames.Malformed("not the answer to one change")
    return Change(outcomes(answer)[0].code, answer.detail)


# ---- requests ------------------------------------------------------------------------------------

class AnySettleKeeper(Protocol):
    """A SettleKeeper, or an AsyncSettleKeeper."""

    @property
    def counts(self) -> SettleCounts: ...
    @property
    def is_closing(self) -> bool: ...
    def keep(self, settle: KeptSettle, why: object = None) -> bool: ...
    def lose(self, name: str, why: object) -> None: ...


class QuotaBase(Base):
    """What needs no waiting."""

    _dispatcher: Dispatcher
    _settle_keeper: AnySettleKeeper

    # --- settles that no server took

    def settle_nowait(self, reservation: ReservationState | int | str,
                      input_tokens: int | None = None, output_tokens: int | None = None,
                      cached_input_tokens: int = 0, cost: int | None = None,
                      requests: int | None = None) -> None:
        """Reservation.settle_nowait(), also by the id as a number or 16 hexadecimal digits."""
        _, entry = arguments.settle_call(
            reservation, input_tokens, output_tokens, cached_input_tokens, cost, requests)
        mark_ended(reservation)
        self._keep(reservation, entry)

    @property
    def settles(self) -> SettleCounts:
        """What became of the settles that the client repeats in the background."""
        return self._settle_keeper.counts

    @property
    def _keeps_settles(self) -> bool:
        """A failure policy answers callers without a server: then no settle may be lost."""
        return self._settings.on_failure != "error"

    def _kept_settle(self, reservation: Any, entry: SettleEntry) -> KeptSettle | None:
        """For repeats of a settle; None: there is nothing to charge."""
        if isinstance(reservation, ReservationState):
            return reservation._kept_settle(entry)
        return KeptSettle(entry, None, self._monotonic() + DEFAULT_LIFETIME_S)

    def _server_start(self, reservation: int) -> int | None:
        """Of the server that has this reservation; None: unknown. What is known of other nodes may
        be a moment old, so only of a server without them.
        """
        welcome = self.welcome
        return None if welcome is None or reservation >> SLOT_BIT else welcome.instance_id or None

    def _keep(self, reservation: Any, entry: SettleEntry) -> None:
        settle = self._kept_settle(reservation, entry)
        if settle is None:
            return
        if self._dispatcher.is_closed or self._settle_keeper.is_closing:
            raise Closed("the client is closed")
        if not self._settle_keeper.keep(settle):
            raise Overloaded(f"{self.settles.kept} settles are kept (kept_settles_max)")

    def _is_kept(self, error: BaseException, reservation: Any, entry: SettleEntry) -> bool:
        """Whether the client repeats a settle that failed so, and its call returns. After an
        interruption it does not return, but a server may not have the settle.
        """
        settle = self._kept_settle(reservation, entry) if self._keeps_settles else None
        if settle is None:
            return False
        if not isinstance(error, SluicegateError):
            settle.was_sent = True
            self._settle_keeper.keep(settle)
            return False
        code = error.code if isinstance(error, QuotaError) else QuotaCode.NONE
        settle.was_sent = not isinstance(error, (QuotaError, Unreachable, Overloaded))
        if not isinstance(error, (*OUTAGES, QuotaError)) or not self._may_repeat(settle, code):
            return False
        return self._settle_keeper.keep(settle, None if settle.is_forgotten else error)

    def _may_repeat(self, settle: KeptSettle, code: QuotaCode) -> bool:
        """Whether a repeat may help after this code; prepares it."""
        settle.is_forgotten = settle.is_forgotten or (
            code is QuotaCode.UNKNOWN_RESERVATION
            and settle.forgotten_by(self._server_start(settle.entry.reservation)))
        return settle.is_forgotten or code in LATER

    def _settled(self, reservations: Sequence[Any], calls: Calls, results: QuotaResults | None,
                 error: BaseException | None = None) -> QuotaResults:
        """The results of settle_many(), where the client keeps what no server took; raises the
        error unless it keeps all of that."""
        if results is None:
            results = partial_results(error, len(reservations))
        is_outage = error is None or isinstance(error, OUTAGES)
        if self._keeps_settles and not results.all_admitted and (
                is_outage or not isinstance(error, SluicegateError)):
            results = self._keep_undelivered(reservations, calls, results, error)
        if error is not None and not (is_outage and all(results.raw)):
            raise error
        return results

    def _keep_undelivered(self, reservations: Sequence[Any], calls: Calls, results: QuotaResults,
                          error: BaseException | None) -> QuotaResults:
        kept = []
        for position, (reservation, entry, code) in enumerate(zip(
                reservations, calls[1], results)):
            settle = self._kept_settle(reservation, entry)
            if settle is None or not self._may_repeat(settle, code):
                continue
            settle.was_sent = error is not None and not isinstance(error, (Unreachable, Overloaded))
            if self._settle_keeper.keep(settle, None if settle.is_forgotten else error):
                kept.append(position)
        return with_kept(results, kept)

    # --- requests: each method returns a function that makes one for a Completion

    def _quota_batch(self, calls: Calls) -> Callable[[Any], QuotaBatchCall]:
        terms, entries = calls
        return lambda completion: QuotaBatchCall(self._dispatcher, completion, terms, entries)

    def _change_request(self, encode: Callable[[int], bytes]) -> MakeControl:
        return lambda completion: ControlRequest(self._dispatcher, completion, encode,
                                                 QuotaAnswers, _single, may_resend=False)

    def _put_request(self, subject: bytes, text: QuotaText) -> MakeControl:
        return self._change_request(lambda frame_id: encode_put(frame_id, subject, text))

    def _remove_request(self, subject: bytes) -> MakeControl:
        return self._change_request(lambda frame_id: encode_remove(frame_id, subject))

    def _reset_request(self, subject: bytes, is_all: bool = False) -> MakeControl:
        return self._change_request(lambda frame_id: encode_reset(frame_id, subject, is_all))

    def _usage_request(self, subjects: Sequence[bytes]) -> MakeControl:
        """For usages_of()."""
        def rows(reply: UsageReply) -> dict[bytes, Usage]:
            if not set(subjects).issuperset(reply.names):
                raise _frames.Malformed("usage of a subject that was not requested")
            return dict(zip(reply.names, usages(reply)))
        return lambda completion: ControlRequest(
            self._dispatcher, completion, lambda frame_id: encode_usage(frame_id, subjects),
            UsageReply, rows)

    def _usage_page_request(self, cursor: int) -> MakeControl:
        return lambda completion: ControlRequest(
            self._dispatcher, completion, lambda frame_id: encode_usage(frame_id, cursor=cursor),
            UsageReply, lambda reply: (usages(reply), reply.cursor))
