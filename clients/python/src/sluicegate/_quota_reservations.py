"""The state of a reservation and of a lease, shared by both clients.

Units:  seconds.
Lives:  belongs to the process that made it: in a forked child nothing happens when a block ends.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from ._invalid import one_of
from ._kept_settles import (DEFAULT_LIFETIME_S, KeptSettle, has_usage, record_id,
                            record_id_of_none, record_of)
from ._quota_arguments import settle_call, subject_text
from ._quota_requests import Outcome, QuotaTerms, ReserveEntry, SettleEntry
from .quota import LimitState, QuotaCode
from .errors import ConnectionLost, Overloaded, SluicegateError, TimedOut

# What a block that an exception ends does with its reservation.
OnException = Literal["charge_reported", "charge_all", "refund"]

RENEWALS = 3  # in a lifetime: two may fail
RETRIES = 10  # in a lifetime, after a renewal that failed


def check_on_exception(value: OnException) -> None:
    one_of("on_exception", value, get_args(OnException))


class Used(NamedTuple):
    """Amounts as settle() takes them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int = 0
    cost: int | None = None
    requests: int | None = None


class ReservationState:
    """A reservation, as far as the client knows its state."""

    _on_exception: OnException = "charge_reported"
    _record_id = b""  # of its usage, where no server has it

    def __init__(self, outcome: Outcome, terms: QuotaTerms, entry: ReserveEntry,
                 monotonic: Callable[[], float], server_start: int | None) -> None:
        self.id: int = outcome.reservation
        # OK, UNLIMITED, UNKNOWN_SUBJECT_ALLOWED, or ADMITTED_BY_POLICY.
        self.code: QuotaCode = outcome.code
        self.subjects: tuple[str, ...] = tuple(map(subject_text, entry.subjects))
        self.limits: tuple[LimitState, ...] = outcome.limits  # of every subject, with limits=True
        self.is_open: bool = True
        self._process = os.getpid()
        self._monotonic = monotonic
        self._reserved = entry
        self._server_start = server_start
        self._lifetime_s = terms.lifetime_ms / 1000  # 0: the server's default
        self._begin = monotonic()
        self._reported: Used | None = None

    def report(self, *, input_tokens: int | None = None, output_tokens: int | None = None,
               cached_input_tokens: int | None = None, cost: int | None = None,
               requests: int | None = None) -> None:
        """Keeps what was used so far, in total; sends nothing. A block that ends without settle()
        settles that, also when an exception or a cancelled task ends it, as a stream may.

        An amount that was never reported stays as reserved.
        """
        given = {"input_tokens": input_tokens, "output_tokens": output_tokens,
                 "cached_input_tokens": cached_input_tokens, "cost": cost, "requests": requests}
        reported = (self._reported or Used())._replace(
            **{name: value for name, value in given.items() if value is not None})
        settle_call(self.id or 1, *reported)  # raises for an amount that could not be settled
        self._reported = reported

    def _mark_ended(self) -> None:
        self.is_open = False

    def _used_at_end(self, has_failed: bool) -> Used | None:
        """What a block settles that ends without doing so; None: it cancels."""
        if has_failed and self._on_exception == "refund":
            return None
        if has_failed and self._on_exception == "charge_all":
            return Used()
        return self._reported

    def _kept_settle(self, entry: SettleEntry) -> KeptSettle | None:
        """For repeats of this settle; None: there is nothing to charge."""
        if self.id:
            return KeptSettle(entry, record_of(entry, self._reserved, record_id(self.id)),
                              self._begin + self._repeated_s, self._server_start)
        self._record_id = self._record_id or record_id_of_none()
        record = record_of(entry, self._reserved, self._record_id)
        if not self.decided_by_policy or not has_usage(record):
            return None
        return KeptSettle(entry, record, self._monotonic() + self._repeated_s, is_forgotten=True)

    @property
    def _repeated_s(self) -> float:
        """A server takes the settle of an expired reservation for one more lifetime."""
        return 2 * self._lifetime_s or DEFAULT_LIFETIME_S

    def _outlives(self, lifetime: float | None) -> None:
        """The server has extended it."""
        self._lifetime_s = lifetime or self._lifetime_s
        self._begin = self._monotonic()

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} {self.id:016x} of {', '.join(self.subjects)}: "
                f"{'open' if self.is_open else 'ended'}>")

    @property
    def decided_by_policy(self) -> bool:
        """True when on_failure="open" admitted it: no server has it. Its settle records the
        usage."""
        return self.code.decided_by_policy

    @property
    def _ends_with_block(self) -> bool:
        return self.is_open and self._process == os.getpid()


def mark_ended(reservation: object) -> None:
    """Its block sends nothing more, also if the settle fails."""
    if isinstance(reservation, ReservationState):
        reservation._mark_ended()


def is_without_server(reservation: object) -> bool:
    """Whether the failure policy admitted it: no server has it."""
    return isinstance(reservation, ReservationState) and not reservation.id


class LeaseState(ReservationState):
    """A lease is held until it is ended, or a renewal did not succeed in time."""

    def __init__(self, outcome: Outcome, terms: QuotaTerms, entry: ReserveEntry,
                 monotonic: Callable[[], float], server_start: int | None) -> None:
        super().__init__(outcome, terms, entry, monotonic, server_start)
        self._lifetime: float | None = None  # None: only the server knows it
        self._held_until = math.inf

    @property
    def held(self) -> bool:
        return self.is_open and self._monotonic() < self._held_until

    def _extends(self, since: float, lifetime: float | None) -> None:
        """The server may shorten the lease, and its answer be lost."""
        if lifetime is not None:
            self._held_until = min(self._held_until, since + lifetime)

    def _extended(self, since: float, lifetime: float | None) -> None:
        self._lifetime = self._lifetime if lifetime is None else lifetime
        if self._lifetime is not None:
            self._held_until = since + self._lifetime

    def _renewed(self, since: float, lifetime: float) -> float:
        """Returns the pause before the next renewal; 0: too late, its holder may have left."""
        if not self.held:
            return 0.0
        self._extended(since, lifetime)
        return lifetime / RENEWALS

    def _not_renewed(self, error: SluicegateError, lifetime: float) -> float:
        """Returns the pause before the next attempt; 0: stop renewing."""
        if not isinstance(error, (ConnectionLost, Overloaded, TimedOut)):
            self.is_open = False
        return lifetime / RETRIES if self.held else 0.0
