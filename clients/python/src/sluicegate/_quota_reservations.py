"""The state of a reservation and of a lease, shared by both clients.

Units:  seconds.
Lives:  belongs to the process that made it: in a forked child nothing happens when a block ends.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from ._quota_arguments import subject_text
from ._quota_requests import Outcome
from .errors import ConnectionLost, Overloaded, SluicegateError, TimedOut

RENEWALS = 3  # in a lifetime: two may fail
RETRIES = 10  # in a lifetime, after a renewal that failed


class ReservationState:
    """A reservation, as far as the client knows its state."""

    def __init__(self, outcome: Outcome, subjects: tuple[bytes, ...],
                 monotonic: Callable[[], float]) -> None:
        self.id = outcome.reservation
        self.code = outcome.code  # OK, UNLIMITED, UNKNOWN_SUBJECT_ALLOWED, or ADMITTED_BY_POLICY
        self.subjects = tuple(map(subject_text, subjects))
        self.limits = outcome.limits  # of every subject, with limits=True
        self.is_open = True
        self._process = os.getpid()
        self._monotonic = monotonic

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} {self.id:016x} of {', '.join(self.subjects)}: "
                f"{'open' if self.is_open else 'ended'}>")

    @property
    def decided_by_policy(self) -> bool:
        """True when on_failure="open" admitted it: no server has it, and settling does nothing."""
        return self.code.decided_by_policy

    @property
    def _ends_with_block(self) -> bool:
        return self.is_open and self._process == os.getpid()


class LeaseState(ReservationState):
    """A lease is held until it is ended, or a renewal did not succeed in time."""

    def __init__(self, outcome: Outcome, subjects: tuple[bytes, ...],
                 monotonic: Callable[[], float]) -> None:
        super().__init__(outcome, subjects, monotonic)
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
