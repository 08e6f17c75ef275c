"""Shared by both clients' quota calls: turns answers into results or errors, and makes questions.

Flow:   _quota_arguments.py -> a frame that many callers share (_quota_requests.py) -> here.
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
from .quota import (SOURCES, Decision, QuotaCode, Stats, Usage, quota_from_text, seconds_of,
                    stats_of, word)
from .verdict import Verdict

ENDED = frozenset({QuotaCode.ALREADY_SETTLED, QuotaCode.ALREADY_CANCELLED,
                   QuotaCode.ALREADY_EXPIRED})


# ---- outcomes ------------------------------------------------------------------------------------

def shown(names: Iterable[bytes]) -> str:
    return ", ".join(map(subject_text, names))


def admitted(answer: Outcome | Verdict, subjects: tuple[bytes, ...]) -> Outcome:
    """The outcome of a call that the server admitted; raises QuotaDenied if it did not."""
    outcome = outcome_of(answer)
    if not outcome.code.admits:
        raise QuotaDenied(outcome.code, shown(subjects), seconds_of(outcome.retry_ms),
                          tuple(limit for limit in outcome.limits if limit.violated))
    return outcome


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


def decision_of(answer: Outcome | Verdict) -> Decision:
    outcome = outcome_of(answer)
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


def usages(reply: UsageReply) -> list[Usage]:
    limits = states_of(reply.limits)
    return [Usage(subject_text(name), word(SOURCES, source), quota_from_text(quota, source),
                  tuple(limits.get(row, ())), reservations, waiting)
            for row, (name, source, quota, reservations, waiting) in enumerate(zip(
                reply.names, reply.sources, reply.quotas, reply.open_reservations, reply.waiting))]


def _single(answer: QuotaAnswers) -> QuotaCode:
    if answer.length != 1:
        raise _frames.Malformed("not the answer to one change")
    return outcomes(answer)[0].code


# ---- questions -----------------------------------------------------------------------------------

class QuotaBase(Base):
    """Makes the requests; `sink` receives the result."""

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
        def rows(reply: UsageReply) -> list[Usage]:
            found = dict(zip(reply.names, usages(reply)))
            if not found.keys() >= set(subjects):
                raise _frames.Malformed("no usage of some requested subjects")
            return [found[subject] for subject in subjects]
        return lambda sink: Question(
            self._dispatcher, sink, lambda frame_id: encode_usage(frame_id, subjects),
            UsageReply, rows)

    def _paging(self, cursor: int) -> Callable[[Any], Question]:
        return lambda sink: Question(
            self._dispatcher, sink, lambda frame_id: encode_usage(frame_id, cursor=cursor),
            UsageReply, lambda reply: (usages(reply), reply.cursor))
