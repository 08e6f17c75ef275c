"""The answers to acquires: a Verdict or KeyOutcome for one entry, Verdicts for many.

Shape: one byte an entry, numbers as in docs/protocol.md ("Verdicts"); the client's failure policy
makes 254 and 255, which a server never sends. Detail columns are arrays, where requested.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, overload


class Verdict(enum.IntEnum):
    """The answer to one entry; true when the server, or the failure policy, approved it. str() is
    the name in small letters.
    """

    NONE = 0  # not answered; never sent
    APPROVED = 1
    DENIED = 2  # the limit is reached, or the key's queue is full
    QUEUED = 3  # waiting; never a final answer
    TABLE_FULL = 4  # no room for another key in the server
    WAITERS_FULL = 5  # no room for another waiter in the server
    OVERLOADED = 6
    NOT_ALLOWED = 7  # the operator disabled this override
    NEVER_FITS = 8  # the cost is above the key's limit
    INVALID_KEY = 9  # empty or too long, or a handle that the connection does not hold
    WAIT_LIMIT = 10  # waited as long as allowed
    WITHDRAWN = 11
    DRAINING = 12  # the server is shutting down
    HANDLES_FULL = 13
    OWNER_UNREACHABLE = 14
    CONNECTION_WAITERS_FULL = 15  # this connection has its share of the waiters
    KEY_WAITERS_FULL = 16  # this key has
    UNKNOWN = 253  # of a newer server: a refusal
    APPROVED_BY_POLICY = 254  # by the client, not by a server: on_failure="open"
    DENIED_BY_POLICY = 255  # by the client, not by a server: on_failure="closed"

    @property
    def approved(self) -> bool:
        return self in _APPROVING

    def __bool__(self) -> bool:
        return self in _APPROVING

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def decided_by_policy(self) -> bool:
        """True when the failure policy of the client decided, not a server."""
        return self in _BY_POLICY


_APPROVING = frozenset({Verdict.APPROVED, Verdict.APPROVED_BY_POLICY})
_BY_POLICY = frozenset({Verdict.APPROVED_BY_POLICY, Verdict.DENIED_BY_POLICY})
_NAMED = {int(verdict): verdict for verdict in Verdict}
# Indexed by the byte, so that a hot loop needs no call.
BY_BYTE: tuple[Verdict, ...] = tuple(_NAMED.get(byte, Verdict.UNKNOWN) for byte in range(256))
_IS_APPROVED = bytes(bool(verdict) for verdict in BY_BYTE)
_SAFE = bytes(Verdict.UNKNOWN if byte in _BY_POLICY else byte for byte in range(256))


def from_server(raw: bytes) -> bytes:
    """Replaces the failure policy's numbers by UNKNOWN: a server must not send them."""
    return raw.translate(_SAFE) if b"\xfe" in raw or b"\xff" in raw else raw


class Details(enum.IntFlag):
    """Columns that a call may request in addition to the verdicts."""

    NOTHING = 0
    LIMIT = 1
    WINDOW = 2
    REMAINING = 4
    RESET = 8
    RETRY_AFTER = 16
    REQUEST_ID = 32
    POSITION = 64
    ALL = 127


# Names, bits and array types, in the order of the wire.
DETAIL_COLUMNS: tuple[tuple[str, int, str], ...] = (
    ("limit", 1, "I"), ("window_ms", 2, "Q"), ("remaining", 4, "I"),
    ("reset_ms", 8, "Q"), ("retry_after_ms", 16, "Q"), ("request_id", 32, "Q"),
    ("position", 64, "I"),
)


# What a KeyOutcome has: all but the request's number, which the server would take for it, and the
# position.
OUTCOME_DETAILS = (Details.LIMIT | Details.WINDOW | Details.REMAINING | Details.RESET
                   | Details.RETRY_AFTER)
# The key's limit decided nothing: the figures that the server sends are not those of the key.
_UNDECIDED = frozenset({Verdict.NONE, Verdict.TABLE_FULL, Verdict.OVERLOADED, Verdict.NOT_ALLOWED,
                        Verdict.INVALID_KEY, Verdict.DRAINING, Verdict.HANDLES_FULL,
                        Verdict.OWNER_UNREACHABLE, Verdict.UNKNOWN})


class KeyOutcome(NamedTuple):
    """The answer to one acquire with details=True: its verdict, and the state of its key at that
    moment. True when approved. Where the limit decided nothing, the verdict is all there is.
    """

    verdict: Verdict
    limit: int | None = None  # permits per window
    window: float | None = None  # its length in seconds
    remaining: int | None = None  # permits left in this window
    reset: float | None = None  # seconds until the window ends
    retry_after: float | None = None  # seconds until a retry may help; None: unknown, or never

    def __bool__(self) -> bool:
        return self.verdict.approved

    @property
    def approved(self) -> bool:
        return self.verdict.approved

    @property
    def decided_by_policy(self) -> bool:
        """True when the failure policy of the client decided, not a server."""
        return self.verdict.decided_by_policy


def key_outcome(verdict: int, columns: Mapping[str, Sequence[int]] | None,
                position: int) -> KeyOutcome:
    """Of an entry that a server answered."""
    known = BY_BYTE[verdict]
    if not columns or known in _UNDECIDED:
        return KeyOutcome(known)

    def of(name: str) -> int:
        return columns[name][position] if name in columns else 0

    return KeyOutcome(known, of("limit"), of("window_ms") / 1000, of("remaining"),
                      of("reset_ms") / 1000,
                      None if known is Verdict.NEVER_FITS else of("retry_after_ms") / 1000)


class Verdicts(Sequence[Verdict]):
    """Verdicts in the order of the keys. `raw` has a byte each; all else is computed on access."""

    __slots__ = ("_columns", "raw")

    def __init__(self, raw: bytes, columns: dict[str, array[int]] | None = None) -> None:
        self.raw: bytes = raw
        self._columns = columns or {}

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> Verdict: ...
    @overload
    def __getitem__(self, index: slice) -> Verdicts: ...
    def __getitem__(self, index: int | slice) -> Verdict | Verdicts:
        if isinstance(index, slice):
            return Verdicts(self.raw[index],
                            {name: column[index] for name, column in self._columns.items()})
        return BY_BYTE[self.raw[index]]

    def __iter__(self) -> Iterator[Verdict]:
        return map(BY_BYTE.__getitem__, self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdicts) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        shown = ", ".join(verdict.name.lower() for verdict in self[:8])
        return f"<Verdicts {len(self)}: {shown}{', ...' if len(self) > 8 else ''}>"

    @property
    def approved(self) -> list[bool]:
        """One bool an entry."""
        return memoryview(self.raw.translate(_IS_APPROVED)).cast("?").tolist()  # type: ignore

    @property
    def all_approved(self) -> bool:
        return self.count() == len(self.raw)

    def count(self, value: object = None) -> int:
        """The number of entries with this verdict; without an argument, of approved ones."""
        if value is None:
            return self.raw.count(Verdict.APPROVED) + self.raw.count(Verdict.APPROVED_BY_POLICY)
        return self.raw.count(value) if isinstance(value, int) and 0 <= value < 256 else 0

    @property
    def decided_by_policy(self) -> bool:
        """True when the failure policy, not a server, decided at least one entry."""
        return any(verdict in self.raw for verdict in _BY_POLICY)

    def _column(self, name: str) -> array[int]:
        try:
            return self._columns[name]
        except KeyError:
            wanted = name.removesuffix("_ms")
            raise ValueError(f"{wanted} was not requested: pass details=Details."
                             f"{wanted.upper()}") from None

    def _seconds(self, name: str) -> array[float]:
        return array("d", [number / 1000 for number in self._column(name)])

    @property
    def limit(self) -> array[int]:
        """Permits per window."""
        return self._column("limit")

    @property
    def window(self) -> array[float]:
        """The length of the window, in seconds."""
        return self._seconds("window_ms")

    @property
    def remaining(self) -> array[int]:
        """Permits left in this window."""
        return self._column("remaining")

    @property
    def reset(self) -> array[float]:
        """Seconds until the window ends."""
        return self._seconds("reset_ms")

    @property
    def retry_after(self) -> array[float]:
        """Seconds after which a retry may help; 0: at once, or never."""
        return self._seconds("retry_after_ms")

    @property
    def request_id(self) -> array[int]:
        return self._column("request_id")

    @property
    def position(self) -> array[int]:
        """The place that an entry had in its key's queue when it joined; 1 is served next, and 0
        says that it did not wait."""
        return self._column("position")
