"""What both clients do alike about quotas: answers to results or errors, and what one frame asks.

Flow:   _quota_arguments.py -> a frame that the calls of many share (_quota_requests.py) -> here.
Errors: QuotaDenied, UnknownReservation, ReservationEnded, InvalidQuota, QuotaError: errors.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _frames
from ._base import Base
from ._dispatcher import Dispatcher
from ._quota_arguments import Calls, Limits, quota_text, subject_text
from ._quota_frames import (QuotaAnswers, UsageReply, encode_put, encode_remove, encode_reset,
                            encode_usage)
from ._quota_requests import ManyCall, Outcome, outcome_of, outcomes, states_of
from ._requests import Question
from .errors import InvalidQuota, QuotaDenied, QuotaError, ReservationEnded, UnknownReservation
from .quota import (SOURCES, Decision, QuotaCode, Stats, Usage, quota_from_text, seconds_of, stats_of,
                    word)
from .verdict import Verdict

ENDED = frozenset({QuotaCode.ALREADY_SETTLED, QuotaCode.ALREADY_CANCELLED,
                   QuotaCode.ALREADY_EXPIRED})


# ---- outcomes ------------------------------------------------------------------------------------

def shown(names: Iterable[bytes]) -> str:
    return ", ".join(map(subject_text, names))


def admitted(reported: Outcome | Verdict, subjects: tuple[bytes, ...]) -> Outcome:
    """Of what somebody has to admit; else QuotaDenied."""
    outcome = outcome_of(reported)
    if not outcome.code.admits:
        raise QuotaDenied(outcome.code, shown(subjects), seconds_of(outcome.retry_ms),
                          tuple(limit for limit in outcome.limits if limit.violated))
    return outcome


def unless_ended(outcome: Outcome, reservation: int) -> None:
    """Of settle, cancel and extend."""
    what, code = f"reservation {reservation:016x}", outcome.code
    if code is QuotaCode.OK:
        return
    if code is QuotaCode.UNKNOWN_RESERVATION:
        raise UnknownReservation(code, what)
    if code in ENDED:
        raise ReservationEnded(code, what)
    raise QuotaError(code, what)


def decision_of(reported: Outcome | Verdict) -> Decision:
    outcome = outcome_of(reported)
    code = outcome.code
    return Decision(code.admits, code, code.reason,
                    0.0 if code.admits else seconds_of(outcome.retry_ms),
                    stats_of(outcome.limits), outcome.limits)


INVALID_TOKENS = Decision(False, QuotaCode.INVALID_TOKENS, QuotaCode.INVALID_TOKENS.reason, None,
                          Stats(), ())


def unless_changed(code: QuotaCode, subject: bytes) -> None:
    if code is QuotaCode.INVALID_QUOTA:
        raise InvalidQuota(code, subject_text(subject))
    if not code.admits:
        raise QuotaError(code, subject_text(subject))


def was_deleted(code: QuotaCode, subject: bytes) -> bool:
    """False: there was nothing to delete."""
    if code is QuotaCode.NO_SUCH_QUOTA:
        return False
    unless_changed(code, subject)
    return True


def usages(reported: UsageReply) -> list[Usage]:
    limits = states_of(reported.limits)
    return [Usage(subject_text(name), word(SOURCES, source), quota_from_text(quota, source),
                  tuple(limits.get(row, ())), reservations, waiting)
            for row, (name, source, quota, reservations, waiting) in enumerate(zip(
                reported.names, reported.sources, reported.quotas, reported.open_reservations, reported.waiting))]


def _single(answer: QuotaAnswers) -> QuotaCode:
    if answer.length != 1:
        raise _frames.Malformed("not the answer to one change")
    return outcomes(answer)[0].code


# ---- questions -----------------------------------------------------------------------------------

class QuotaBase(Base):
    """What is sent; `sink` is where the result goes."""

    _dispatcher: Dispatcher

    def _many_calls(self, calls: Calls) -> Callable[[Any], ManyCall]:
        form, entries = calls
        return lambda sink: ManyCall(self._dispatcher, sink, form, entries)

    def _changing(self, encode: Callable[[int], bytes]) -> Callable[[Any], Question]:
        return lambda sink: Question(self._dispatcher, sink, encode, QuotaAnswers, _single,
                                     may_ask_again=False)

    def _putting(self, subject: bytes, limits: Limits, expired: str | None,
                 overtakers: int | None) -> Callable[[Any], Question]:
        text = quota_text(limits, expired, overtakers)
        return self._changing(lambda frame_id: encode_put(frame_id, subject, text))

    def _removing(self, subject: bytes) -> Callable[[Any], Question]:
        return self._changing(lambda frame_id: encode_remove(frame_id, subject))

    def _resetting(self, subject: bytes, is_all: bool = False) -> Callable[[Any], Question]:
        return self._changing(lambda frame_id: encode_reset(frame_id, subject, is_all))

    def _using(self, subjects: Sequence[bytes]) -> Callable[[Any], Question]:
        def rows(reported: UsageReply) -> list[Usage]:
            found = dict(zip(reported.names, usages(reported)))
            if not found.keys() >= set(subjects):
                raise _frames.Malformed("usage of other subjects than were asked")
            return [found[subject] for subject in subjects]
        return lambda sink: Question(
            self._dispatcher, sink, lambda frame_id: encode_usage(frame_id, subjects), UsageReply, rows)

    def _paging(self, cursor: int) -> Callable[[Any], Question]:
        return lambda sink: Question(
            self._dispatcher, sink, lambda frame_id: encode_usage(frame_id, cursor=cursor), UsageReply,
            lambda reported: (usages(reported), reported.cursor))
