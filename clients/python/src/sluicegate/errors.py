"""The errors of the clients: one class for each way in which a caller may react.

Errors: SluicegateError is the base of all. Errors of a call for many keys carry `partial`: the
        verdicts decided before, with Verdict.NONE for the rest.
"""

from __future__ import annotations

import enum
from typing import Any

from ._invalid import InvalidArgument as InvalidArgument
from ._invalid import InvalidType as InvalidType
from ._invalid import LimitExceeded as LimitExceeded
from ._invalid import SluicegateError as SluicegateError
from .quota import Amount, LimitState, QuotaCode
from .verdict import KeyOutcome, Verdict, Verdicts


class ErrorCode(enum.IntEnum):
    """Why the server refused a frame (docs/protocol.md, "Errors"). str() is the name in small
    letters.
    """

    NONE = 0
    MALFORMED = 1
    FRAME_TOO_LARGE = 2
    HELLO_EXPECTED = 3
    UNEXPECTED_HELLO = 4
    UNSUPPORTED_VERSION = 5
    UNSUPPORTED = 6
    BAD_COLUMNS = 7
    TOO_MANY_ENTRIES = 8
    BAD_COST = 9
    BAD_OVERRIDE = 10
    BAD_WAIT_LIMIT = 11
    ID_IN_USE = 12
    TOO_MANY_OUTSTANDING = 13
    TOO_MANY_CONNECTIONS = 14
    DRAINING = 15
    HELLO_TIMEOUT = 16
    BAD_FLAG = 17
    BAD_AMOUNT = 18
    BAD_LIFETIME = 19
    BAD_SUBJECT = 20
    FRAME_TIMEOUT = 21
    SECRET_EXPECTED = 22
    UNKNOWN = 0xFFFF  # of a newer server: not worth a retry

    def __str__(self) -> str:
        return self.name.lower()


class ConnectionLost(SluicegateError, ConnectionError):
    """The connection ended: the server may have decided the call, or not."""


class Unreachable(ConnectionLost):
    """No connection could be made: the call was not sent."""


class Draining(ConnectionLost):
    """The server is shutting down and decided nothing."""


class OwnerUnreachable(SluicegateError):
    """The node that owns a key does not answer, or is a gocc and takes no such release: nothing of
    that key was released."""

    def __init__(self, key: str | bytes) -> None:
        super().__init__(f"{key!r}: nothing was released: the node that owns the key does not "
                         "answer (try again later), or is a gocc, which takes releases of one "
                         "permit alone")
        self.key = key


class TimedOut(SluicegateError, TimeoutError):
    """The call timed out. Its entries that still waited in a queue were withdrawn."""


class Overloaded(SluicegateError):
    """`pending_max` calls are pending already; nothing was sent."""


class Closed(SluicegateError):
    """The client was closed before the call was answered."""


class ProtocolError(ConnectionLost):
    """The peer does not speak this protocol; the client closed the connection."""


class Refused(SluicegateError):
    """The server answered with an Error frame: it changed nothing."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"the server refused the frame: {self.code}: {self.text}"


class NotInterned(SluicegateError):
    """Some keys got no handle (invalid_key, handles_full). `handles` has NO_HANDLE for those."""

    def __init__(self, text: str, handles: object, verdicts: Verdicts) -> None:
        super().__init__(text)
        self.handles = handles
        self.verdicts = verdicts


class StaleHandles(SluicegateError):
    """The handles are of a lost connection: intern the keys again. Nothing was sent."""


class Denied(SluicegateError):
    """Raised by the decorator: the call was not made."""

    def __init__(self, key: str | bytes, outcome: KeyOutcome) -> None:
        super().__init__(key, outcome)
        self.key = key
        self.outcome = outcome

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict

    @property
    def limit(self) -> int | None:
        """Permits per window; None, like the others, where the limit decided nothing."""
        return self.outcome.limit

    @property
    def remaining(self) -> int | None:
        """Permits left in this window."""
        return self.outcome.remaining

    @property
    def reset(self) -> float | None:
        """Seconds until the window ends."""
        return self.outcome.reset

    @property
    def retry_after(self) -> float | None:
        """Seconds until a retry may help; None: unknown, or never."""
        return self.outcome.retry_after

    def __str__(self) -> str:
        text = f"{self.verdict}: {self.key!r}"
        return text if not self.retry_after else f"{text}; retry after {self.retry_after:g} s"


class QuotaError(SluicegateError):
    """The server refused a call about quotas: `code` has the cause, `reason` a sentence for it."""

    def __init__(self, code: QuotaCode, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what  # the subjects, or the reservation

    @property
    def reason(self) -> str:
        return self.code.reason

    def __str__(self) -> str:
        return f"{self.what}: {self.code}: {self.reason}"


class QuotaDenied(QuotaError):
    """Not admitted: nothing was charged anywhere.

    `retry_after` is the number of seconds after which a retry may help (0: at once; None: never);
    `violated` has the limits that deny, and their current state (after a wait none); `subjects`
    has the names of the call, for the limits' `subject`.
    """

    def __init__(self, code: QuotaCode, what: str, retry_after: float | None = None,
                 violated: tuple[LimitState, ...] = (), subjects: tuple[str, ...] = ()) -> None:
        super().__init__(code, what)
        self.args: tuple[Any, ...] = (code, what, retry_after, violated, subjects)
        self.retry_after = retry_after
        self.violated = violated
        self.subjects = subjects

    @property
    def retryable(self) -> bool:
        """Whether the same call may be admitted later without a change of a quota."""
        return self.code.retryable

    @property
    def limit(self) -> Amount | None:
        """The amount of the limit that denies the longest; None where `violated` has none."""
        longest = self._longest
        return longest and longest.amount

    @property
    def remaining(self) -> int | None:
        """What is left of that limit: less than the call wanted."""
        longest = self._longest
        return longest and longest.remaining

    @property
    def reset(self) -> float | None:
        """Seconds until that limit's usage is 0, if no call is charged meanwhile."""
        longest = self._longest
        return longest and longest.reset

    @property
    def _longest(self) -> LimitState | None:
        return max(self.violated, key=lambda limit: limit.reset, default=None)

    def __str__(self) -> str:
        parts = [super().__str__()]
        if self.violated:
            parts.append(", ".join(
                f"{self._subject_of(limit)}{limit.name}: {limit.used} of {limit.amount} used"
                for limit in self.violated))
        if self.retryable and self.retry_after is not None:
            parts.append(f"retry after {self.retry_after:g} s")
        return "; ".join(parts)

    def _subject_of(self, limit: LimitState) -> str:
        """The subject whose limit it is, where the call has several."""
        if len(self.subjects) < 2 or limit.subject >= len(self.subjects):
            return ""
        return f"{self.subjects[limit.subject]:.80} "


class UnknownReservation(QuotaError):
    """No reservation has this id: it ended and is forgotten, or the server was restarted."""


class ReservationEnded(QuotaError):
    """It was settled, cancelled or expired before (see `code`); nothing was changed."""


class InvalidQuota(QuotaError, InvalidArgument):
    """The server rejected the quota; the one before stays in force.

    `detail` names the limits and fields at fault ("" if the server gave none).
    """

    def __init__(self, code: QuotaCode, what: str, detail: str = "") -> None:
        super().__init__(code, what)
        self.args: tuple[Any, ...] = (code, what, detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"{super().__str__()}: {self.detail}" if self.detail else super().__str__()


class InvalidSubject(QuotaError, InvalidArgument):
    """The subjects cannot be asked together, or a name is longer than the server allows: no
    denial."""


class CountTokensError(SluicegateError):
    """count_tokens() got no number; the text names the step, `status` is the HTTP status."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status
