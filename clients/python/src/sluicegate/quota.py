"""Quotas as values: limits, how they stand, and what a client is told of them.

Shape:  names and words are those of the JSON of the REST API: `Limit(**limit)` takes a limit from
        there. Numbers are as in docs/protocol.md ("Quota codes"); those from 250 on are made by the
        client and never come from a server.
Units:  tokens, requests, micro-units of cost; milliseconds where a name ends in _ms, else seconds.
"""

from __future__ import annotations

import enum
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

from ._quota_frames import AMOUNT_MAX, LimitText, QuotaText

METRICS = ("requests", "input_tokens", "output_tokens", "tokens", "cost", "concurrency")
KINDS = ("concurrency", "fixed", "sliding", "gcra", "anchored_day", "rolling_day", "calendar")
CEILINGS = ("number", "unlimited", "block")
UNITS = ("none", "hour", "day", "week", "month")
SOURCES = ("none", "run_time", "file", "profile", "standard")
MINUTE_MS, DAY_MS = 60_000, 86_400_000
PERIOD_MS_MAX = 365 * DAY_MS
LIMIT_NAME_BYTES_MAX = 32
OVERTAKERS_MAX = 1_000

Amount = int | Literal["unlimited", "block"]


class QuotaCode(enum.IntEnum):
    """The outcome of a call; true when it was admitted, or done. str() is as in JSON."""

    NONE = 0  # not answered; never sent
    OK = 1
    UNLIMITED = 2  # admitted: none of its limits limits
    UNKNOWN_MODEL = 3  # admitted: subjects without a quota are allowed
    QUEUED = 4  # waiting; never a final answer
    RPD_EXCEEDED = 5
    RPM_EXCEEDED = 6
    TPM_EXCEEDED = 7
    REQUESTS_EXCEEDED = 8
    INPUT_TOKENS_EXCEEDED = 9
    OUTPUT_TOKENS_EXCEEDED = 10
    TOKENS_EXCEEDED = 11
    COST_EXCEEDED = 12
    CONCURRENCY_EXCEEDED = 13
    QUEUE_AHEAD = 14  # it would fit, but others wait, and it may not
    DEADLINE_UNMEETABLE = 15  # what it waits for certainly comes after its wait limit
    WAIT_LIMIT = 16  # waited as long as allowed
    WITHDRAWN = 17
    DRAINING = 18  # the server shuts down
    WAITERS_FULL = 19
    RESERVATIONS_FULL = 20
    SUBJECTS_FULL = 21
    ID_IN_USE = 22
    EXCEEDS_LIMIT = 23  # more than a limit allows at all
    BLOCKED = 24
    UNKNOWN_SUBJECT = 25
    SUBJECTS_APART = 26  # not held together by one {tag}
    INVALID_SUBJECT = 27
    UNKNOWN_RESERVATION = 28
    ALREADY_SETTLED = 29
    ALREADY_CANCELLED = 30
    ALREADY_EXPIRED = 31
    INVALID_QUOTA = 32
    NO_SUCH_QUOTA = 33
    INVALID_TOKENS = 251  # decide() of a negative number: nobody was asked
    UNKNOWN = 253  # of a newer server: a refusal
    PASSED_UNASKED = 254  # no server said so: on_failure="open"
    DENIED_UNASKED = 255  # no server said so: on_failure="closed"

    @property
    def admits(self) -> bool:
        return self in _ADMITTING

    def __bool__(self) -> bool:
        return self in _ADMITTING

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def reason(self) -> str:
        """A sentence, the reference's where it has one."""
        return _REASONS[self]

    @property
    def retryable(self) -> bool:
        """Whether the same call may be admitted later, without anybody changing a quota."""
        return (QuotaCode.RPD_EXCEEDED <= self <= QuotaCode.ID_IN_USE
                and self is not QuotaCode.WITHDRAWN or self is QuotaCode.DENIED_UNASKED)

    @property
    def connection_lost(self) -> bool:
        """No server decided this: the failure policy of the client did."""
        return self in (QuotaCode.PASSED_UNASKED, QuotaCode.DENIED_UNASKED)


_ADMITTING = frozenset({QuotaCode.OK, QuotaCode.UNLIMITED, QuotaCode.UNKNOWN_MODEL,
                        QuotaCode.PASSED_UNASKED})
_REASONS = {
    QuotaCode.NONE: "",
    QuotaCode.OK: "within quota",
    QuotaCode.UNLIMITED: "all limits are unlimited",
    QuotaCode.UNKNOWN_MODEL: "model has no configured quota",
    QuotaCode.QUEUED: "waiting in line",
    QuotaCode.RPD_EXCEEDED: "daily request limit reached",
    QuotaCode.RPM_EXCEEDED: "per-minute request limit reached",
    QuotaCode.TPM_EXCEEDED: "per-minute token limit reached",
    QuotaCode.REQUESTS_EXCEEDED: "request limit reached",
    QuotaCode.INPUT_TOKENS_EXCEEDED: "input token limit reached",
    QuotaCode.OUTPUT_TOKENS_EXCEEDED: "output token limit reached",
    QuotaCode.TOKENS_EXCEEDED: "token limit reached",
    QuotaCode.COST_EXCEEDED: "cost limit reached",
    QuotaCode.CONCURRENCY_EXCEEDED: "all slots are in use",
    QuotaCode.QUEUE_AHEAD: "others wait in line before it: wait too, or ask again later",
    QuotaCode.DEADLINE_UNMEETABLE:
        "no capacity can come before the wait limit: allow a longer wait",
    QuotaCode.WAIT_LIMIT: "waited as long as allowed",
    QuotaCode.WITHDRAWN: "taken out of line by the client",
    QuotaCode.DRAINING: "the server is shutting down: ask another one, or this one again",
    QuotaCode.WAITERS_FULL: "too many requests wait (--max-waiters)",
    QuotaCode.RESERVATIONS_FULL: "too many reservations are open (--max-reservations)",
    QuotaCode.SUBJECTS_FULL: "too many subjects are in use (--max-subjects)",
    QuotaCode.ID_IN_USE:
        "this id names another request, or one that still waits: choose another one",
    QuotaCode.EXCEEDS_LIMIT: "more than the limit allows at all: ask for less",
    QuotaCode.BLOCKED: "a limit blocks everything",
    QuotaCode.UNKNOWN_SUBJECT: "subject has no configured quota, and unknown ones are denied",
    QuotaCode.SUBJECTS_APART: "subjects of one request must share the same {tag} in their names",
    QuotaCode.INVALID_SUBJECT:
        "subjects must be 1 to 8 different names that are not empty or too long",
    QuotaCode.UNKNOWN_RESERVATION: "no reservation has this id, or it ended and is forgotten",
    QuotaCode.ALREADY_SETTLED: "the reservation was settled before",
    QuotaCode.ALREADY_CANCELLED: "the reservation was cancelled before",
    QuotaCode.ALREADY_EXPIRED: "the reservation's lifetime has ended",
    QuotaCode.INVALID_QUOTA: "the quota is not valid",
    QuotaCode.NO_SUCH_QUOTA: "no quota was put for this subject: the configuration file's stays",
    QuotaCode.INVALID_TOKENS: "estimated tokens must be non-negative",
    QuotaCode.UNKNOWN: "a newer server's reason",
    QuotaCode.PASSED_UNASKED: "no server was asked, and this client passes then",
    QuotaCode.DENIED_UNASKED: "no server was asked, and this client denies then",
}
_MADE_HERE = range(250, 256)
_NAMED = {int(code): code for code in QuotaCode if code not in _MADE_HERE}
# Indexed by the byte that a server sent.
CODE_OF: tuple[QuotaCode, ...] = tuple(_NAMED.get(n, QuotaCode.UNKNOWN) for n in range(256))
_FROM_SERVER = bytes(CODE_OF)
_ADMITS = bytes(code in _ADMITTING for code in range(256))


def codes_from_server(codes: bytes, count: int) -> bytes:
    """A byte an entry, whether it came as one byte or as many."""
    return (codes if len(codes) == count else codes * count).translate(_FROM_SERVER)


def word(words: Sequence[str], number: int) -> str:
    """Of an enumerator; a newer server's has none here."""
    return words[number] if number < len(words) else "unknown"


def number_of(words: Sequence[str], wanted: str, what: str) -> int:
    try:
        return words.index(wanted)
    except ValueError:
        raise ValueError(f"{what} must be one of {', '.join(words)}, not {wanted!r:.40}") from None


@dataclass(frozen=True)
class Limit:
    """One limit of a quota: how much of a metric, over which time.

    `amount` is a number, "unlimited" or "block". `period` ("hour", "day", "week", "month") and
    `time_zone` are of kind "calendar" only; a concurrency limit has neither kind nor period.
    """

    name: str
    metric: str
    amount: Amount
    period_ms: int = 0
    kind: str = ""  # "sliding"; concurrency: "concurrency"
    period: str = ""
    time_zone: str = ""  # calendar: "UTC"
    count_cached: bool = False  # cached input tokens count, too

    def __post_init__(self) -> None:
        """What was left out gets its name; what the server would refuse is refused."""
        if not 0 < len(self.name.encode()) <= LIMIT_NAME_BYTES_MAX:
            raise ValueError(f"the name of a limit must have 1 to {LIMIT_NAME_BYTES_MAX} bytes, "
                             f"not {self.name!r:.80}")
        number_of(METRICS, self.metric, "metric")
        slots = self.metric == "concurrency"
        object.__setattr__(self, "kind", self.kind or ("concurrency" if slots else "sliding"))
        number_of(KINDS, self.kind, "kind")
        if slots != (self.kind == "concurrency"):
            raise ValueError(f"a limit of {self.metric} can not be of kind {self.kind!r}")
        if self.kind == "calendar":
            object.__setattr__(self, "time_zone", self.time_zone or "UTC")
            if self.period not in UNITS[1:]:
                raise ValueError(f"period must be one of {', '.join(UNITS[1:])}, not "
                                 f"{self.period!r:.40}")
        elif self.period or self.time_zone:
            raise ValueError("period and time_zone are of limits of kind 'calendar' only")
        if self.kind in ("anchored_day", "rolling_day"):
            object.__setattr__(self, "period_ms", self.period_ms or DAY_MS)
        if self.count_cached and self.metric not in ("input_tokens", "tokens"):
            raise ValueError("count_cached is of limits of input_tokens and tokens only")
        self._check_numbers()

    def _check_numbers(self) -> None:
        lowest, highest = {"concurrency": (0, 0), "calendar": (0, 0), "anchored_day": (DAY_MS, DAY_MS),
                           "rolling_day": (DAY_MS, DAY_MS)}.get(self.kind, (10, PERIOD_MS_MAX))
        if not lowest <= self.period_ms <= highest:
            raise ValueError(f"period_ms of a limit of kind {self.kind} must be {lowest} to "
                             f"{highest}, not {self.period_ms}")
        if isinstance(self.amount, str):
            number_of(CEILINGS[1:], self.amount, "amount")
        elif not 0 <= self.amount <= AMOUNT_MAX:
            raise ValueError(f"amount must be 0 to {AMOUNT_MAX}, 'unlimited' or 'block', not "
                             f"{self.amount}")

    def as_text(self) -> LimitText:
        number = 0 if isinstance(self.amount, str) else self.amount
        ceiling = CEILINGS.index(self.amount) if isinstance(self.amount, str) else 0
        return LimitText(self.name, METRICS.index(self.metric), KINDS.index(self.kind), ceiling,
                         UNITS.index(self.period or "none"), number, self.period_ms,
                         self.time_zone, self.count_cached)


@dataclass(frozen=True)
class Quota:
    """What a subject may use. No limits at all limit nothing."""

    limits: tuple[Limit, ...] = ()
    expired: Literal["keep", "refund"] = "keep"  # what becomes of an expired reservation's charge
    overtakers: int = 0  # how many may pass the head of the line
    source: str = "run_time"  # as in SOURCES
    profile: str = ""  # the one it came from, if it did

    def as_text(self) -> QuotaText:
        if self.expired not in ("keep", "refund"):
            raise ValueError(f"expired must be keep or refund, not {self.expired!r:.40}")
        if not 0 <= self.overtakers <= OVERTAKERS_MAX:
            raise ValueError(f"overtakers must be 0 to {OVERTAKERS_MAX}, not {self.overtakers}")
        return QuotaText([limit.as_text() for limit in self.limits], self.expired == "refund",
                         self.overtakers)


def limits_of(limits: Iterable[Limit | Mapping[str, object]]) -> tuple[Limit, ...]:
    """Limits as they may be given: values, or the JSON of the REST API as dicts."""
    return tuple(limit if isinstance(limit, Limit) else Limit(**limit)  # type: ignore[arg-type]
                 for limit in limits)


def limit_from_text(reported: LimitText) -> Limit:
    """What a server says; a newer one's may be what this client would not put."""
    limit = object.__new__(Limit)
    fields: dict[str, object] = {
        "name": reported.name, "metric": word(METRICS, reported.metric),
        "amount": reported.amount if reported.ceiling == 0 else word(CEILINGS, reported.ceiling),
        "period_ms": reported.period_ms, "kind": word(KINDS, reported.kind),
        "period": word(UNITS, reported.unit) if reported.unit else "", "time_zone": reported.time_zone,
        "count_cached": reported.count_cached}
    for name, value in fields.items():
        object.__setattr__(limit, name, value)
    return limit


def quota_from_text(reported: QuotaText, source: int) -> Quota | None:
    if source == 0:
        return None
    return Quota(tuple(map(limit_from_text, reported.limits)), "refund" if reported.refund_expired else "keep",
                 reported.overtakers_max, word(SOURCES, source), reported.profile)


class LimitState(NamedTuple):
    """A limit as it stands. `used` holds all that is charged, open reservations included."""

    subject: int  # its place among the subjects that were asked
    name: str
    metric: str
    kind: str
    amount: Amount
    used: int  # may exceed the amount
    reserved: int  # the part of `used` that is still open
    remaining: int  # never below 0
    period_ms: int  # calendar: of the present period; concurrency: 0
    reset_ms: int  # until nothing of it is used any more, if nobody asks
    violated: bool  # it denies what was asked


class Stats(NamedTuple):
    """Used and allowed, as the reference tells it; a maximum of 0 is no limit."""

    rpm: int = 0
    max_rpm: int = 0
    tpm: int = 0
    max_tpm: int = 0
    rpd: int = 0
    max_rpd: int = 0


def stats_of(limits: Iterable[LimitState]) -> Stats:
    """Of the first subject: its limits of requests and tokens per minute, and of requests a day."""
    found: dict[str, int] = {}
    for limit in limits:
        name = {("requests", MINUTE_MS): "rpm", ("tokens", MINUTE_MS): "tpm",
                ("requests", DAY_MS): "rpd"}.get((limit.metric, limit.period_ms))
        if name is not None and name not in found and limit.subject == 0:
            found[name] = limit.used
            found[f"max_{name}"] = limit.amount if isinstance(limit.amount, int) else 0
    return Stats(**found)


class Decision(NamedTuple):
    """What reserve() would be told now; true when it would be admitted."""

    allowed: bool
    code: QuotaCode
    reason: str
    retry_after: float | None  # seconds; 0: allowed, or at once; None: never
    stats: Stats
    limits: tuple[LimitState, ...]  # every limit of every subject

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def retryable(self) -> bool:
        return self.code.retryable

    @property
    def violated(self) -> tuple[LimitState, ...]:
        return tuple(limit for limit in self.limits if limit.violated)


class Usage(NamedTuple):
    """A subject as it stands."""

    subject: str
    source: str  # where its quota came from, as in SOURCES
    quota: Quota | None  # None: unknown subject
    limits: tuple[LimitState, ...]
    open_reservations: int
    waiting: int

    @property
    def stats(self) -> Stats:
        return stats_of(self.limits)


class QuotaResults(Sequence[QuotaCode]):
    """Outcomes in the order asked. `raw` has a byte each; everything else is made when asked."""

    __slots__ = ("raw", "reservations", "retry_ms")

    def __init__(self, raw: bytes, reservations: array[int], retry_ms: array[int]) -> None:
        self.raw = raw
        self.reservations = reservations  # ids, an array('Q'); 0 where none was admitted
        self.retry_ms = retry_ms  # an array('q'): when asking again may help; -1: never

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> QuotaCode: ...
    @overload
    def __getitem__(self, index: slice) -> QuotaResults: ...
    def __getitem__(self, index: int | slice) -> QuotaCode | QuotaResults:
        if isinstance(index, slice):
            return QuotaResults(self.raw[index], self.reservations[index], self.retry_ms[index])
        return QuotaCode(self.raw[index])

    def __iter__(self) -> Iterator[QuotaCode]:
        return map(QuotaCode, self.raw)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:8]))
        return f"<QuotaResults {len(self)}: {shown}{', ...' if len(self) > 8 else ''}>"

    @property
    def admitted(self) -> list[bool]:
        """One bool an entry."""
        return list(map(bool, self.raw.translate(_ADMITS)))

    @property
    def all_admitted(self) -> bool:
        return self.count() == len(self.raw)

    def count(self, value: object = None) -> int:
        """How many entries have this code; without one, how many are admitted or done."""
        if value is None:
            return sum(self.raw.translate(_ADMITS))
        return self.raw.count(value) if isinstance(value, int) and 0 <= value < 256 else 0

    @property
    def connection_lost(self) -> bool:
        """At least one entry was decided by the failure policy, not by a server."""
        return bool({QuotaCode.PASSED_UNASKED, QuotaCode.DENIED_UNASKED} & set(self.raw))


def seconds_of(retry_ms: int) -> float | None:
    """Of a retry_ms: None is never; rounded up to whole milliseconds already."""
    return None if retry_ms < 0 else retry_ms / 1000


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its characters, rounded up.

    Good enough to reserve by; settle() replaces it by what was used. Any function from text to a
    number may stand in its place: a tokenizer of the model's maker is closer.
    """
    return math.ceil(len(text) / 4)
