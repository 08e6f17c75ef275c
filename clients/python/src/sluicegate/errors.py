"""What can go wrong: one class for each thing that a caller may do about it.

Errors: SluicegateError is the base of all. Those of a call for many keys carry `partial`: what was
        decided before, with Verdict.NONE for the rest.
"""

from __future__ import annotations

import enum

from .verdict import Verdict, Verdicts


class ErrorCode(enum.IntEnum):
    """Why the server refused a frame (docs/protocol.md, "Errors")."""

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
    UNKNOWN = 0xFFFF  # of a newer server: not worth a retry


class SluicegateError(Exception):
    """Base of all."""

    partial: Verdicts | None = None


class ConnectionLost(SluicegateError, ConnectionError):
    """The connection ended: the server may have decided the call, or not."""


class Unreachable(ConnectionLost):
    """No connection could be made: the call was not sent."""


class Draining(ConnectionLost):
    """The server shuts down and decided nothing."""


class TimedOut(SluicegateError, TimeoutError):
    """The call's time is over. What it still had in line was withdrawn."""


class Overloaded(SluicegateError):
    """`max_pending` calls are pending already; nothing was sent."""


class Closed(SluicegateError):
    """The client was closed before the call was answered."""


class ProtocolError(ConnectionLost):
    """The peer does not speak our protocol; the connection was given up."""


class LimitExceeded(SluicegateError, ValueError):
    """An argument can not be sent; nothing was sent."""


class Refused(SluicegateError):
    """The server answered with an Error frame: it changed nothing."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"the server refused the frame: {self.code.name.lower()}: {self.text}"


class NotInterned(SluicegateError):
    """Some keys got no handle (invalid_key, handles_full). `handles` has NO_HANDLE for those."""

    def __init__(self, text: str, handles: object, verdicts: Verdicts) -> None:
        super().__init__(text)
        self.handles = handles
        self.verdicts = verdicts


class StaleHandles(SluicegateError):
    """The handles are of a connection that is gone: intern the keys again. Nothing was asked."""


class Denied(SluicegateError):
    """Raised by the decorator: the call was not made."""

    def __init__(self, key: str | bytes, verdict: Verdict) -> None:
        super().__init__(key, verdict)
        self.key = key
        self.verdict = verdict

    def __str__(self) -> str:
        return f"{self.verdict.name.lower()}: {self.key!r}"
