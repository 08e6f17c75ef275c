"""Quotas as values: limits, their current state, and the outcomes of calls.

Shape:  names and words are those of the JSON of the REST API: `Limit(**limit)` takes a limit from
        there. Numbers are as in docs/protocol.md ("Quota codes"); the client makes those from 250
        on, which a server never sends.
Units:  tokens, requests, micro-units of cost; milliseconds where a name ends in _ms, else seconds.
"""

from __future__ import annotations

import enum
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, overload, get_args

from ._bounds import (DAY_S, LIMIT_AMOUNT, LIMIT_NAME_BYTES, LIMITS, OVERTAKERS, PERIOD_MS,
                      period)
from ._invalid import InvalidArgument, InvalidType, LimitExceeded, one_of, seconds, utf8, whole
from ._quota_frames import LimitText, QuotaText

Metric = Literal["requests", "input_tokens", "output_tokens", "tokens", "cost", "concurrency"]
Kind = Literal["concurrency", "fixed", "sliding", "gcra", "anchored_day", "rolling_day", "calendar"]
Unit = Literal["hour", "day", "week", "month"]  # of a calendar
Source = Literal["none", "run_time", "file", "profile", "default"]
Expired = Literal["keep", "refund"]  # the charge of an expired reservation
Amount = int | Literal["unlimited", "block"]

# In the order of the wire's numbers. A newer server may have more: of those it is "unknown".
METRICS: tuple[Metric, ...] = get_args(Metric)
KINDS: tuple[Kind, ...] = get_args(Kind)
CEILINGS = ("number", "unlimited", "block")
UNITS = ("none", *get_args(Unit))
SOURCES: tuple[Source, ...] = get_args(Source)
MINUTE_S = 60


class QuotaCode(enum.IntEnum):
    """The outcome of a call; true when it was admitted or done. str() is the name in JSON."""

    NONE = 0  # not answered; never sent
    OK = 1
    UNLIMITED = 2  # admitted: all of its limits are unlimited
    UNKNOWN_SUBJECT_ALLOWED = 3  # admitted: subjects without a quota are allowed
    UNKNOWN_MODEL = 3  # go-ratelimit's name of it, for the callers of decide()
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
    QUEUE_AHEAD = 14  # it would fit, but others wait ahead and it may not wait
    DEADLINE_UNMEETABLE = 15  # it would certainly have to wait longer than its wait limit
    WAIT_LIMIT = 16  # waited as long as allowed
    WITHDRAWN = 17
    DRAINING = 18  # the server is shutting down
    WAITERS_FULL = 19
    RESERVATIONS_FULL = 20
    SUBJECTS_FULL = 21
    ID_IN_USE = 22
    EXCEEDS_LIMIT = 23  # more than the whole amount of a limit
    BLOCKED = 24
    UNKNOWN_SUBJECT = 25
    SUBJECTS_APART = 26  # of a call that may wait: they belong to several nodes
    INVALID_SUBJECT = 27
    UNKNOWN_RESERVATION = 28
    ALREADY_SETTLED = 29
    ALREADY_CANCELLED = 30
    ALREADY_EXPIRED = 31
    INVALID_QUOTA = 32
    NO_SUCH_QUOTA = 33
    CONNECTION_WAITERS_FULL = 34  # this connection has its share of the waiters
    SUBJECT_WAITERS_FULL = 35  # a subject has
    NOT_DURABLE = 36  # nothing was changed: the server cannot write its state file now
    MEMORY_ONLY = 37  # changed, but not written to the state file: a restart may undo it
    OWNER_UNREACHABLE = 38  # another node decides it, and does not answer, or cannot be asked
    FAILED_CLOSED = 39  # denied for that reason (--peer-failure closed)
    KEPT = 252  # of settle_many(): no server took it yet, and the client repeats it
    INVALID_TOKENS = 251  # decide() of a negative number: nothing was sent
    UNKNOWN = 253  # of a newer server: a refusal
    ADMITTED_BY_POLICY = 254  # by the client, not by a server: on_failure="open"
    DENIED_BY_POLICY = 255  # by the client, not by a server: on_failure="closed"

    @property
    def admits(self) -> bool:
        return self in _ADMITTING

    def __bool__(self) -> bool:
        return self in _ADMITTING

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def reason(self) -> str:
        """A sentence that explains it, the same as in the reference where that has one."""
        return _REASONS[self]

    @property
    def retryable(self) -> bool:
        """Whether the same call may be admitted later without a change of a quota."""
        return self in _RETRYABLE

    @property
    def decided_by_policy(self) -> bool:
        """True when the failure policy of the client decided, not a server."""
        return self in (QuotaCode.ADMITTED_BY_POLICY, QuotaCode.DENIED_BY_POLICY)


_ADMITTING = frozenset({QuotaCode.OK, QuotaCode.UNLIMITED, QuotaCode.UNKNOWN_SUBJECT_ALLOWED,
                        QuotaCode.ADMITTED_BY_POLICY})
_RETRYABLE = frozenset({code for code in QuotaCode
                        if QuotaCode.RPD_EXCEEDED <= code <= QuotaCode.SUBJECTS_FULL
                        and code is not QuotaCode.WITHDRAWN}
                       | {QuotaCode.CONNECTION_WAITERS_FULL, QuotaCode.SUBJECT_WAITERS_FULL,
                          QuotaCode.NOT_DURABLE, QuotaCode.MEMORY_ONLY,
                          QuotaCode.OWNER_UNREACHABLE, QuotaCode.FAILED_CLOSED,
                          QuotaCode.DENIED_BY_POLICY})
_REASONS = {
    QuotaCode.NONE: "",
    QuotaCode.OK: "within quota",
    QuotaCode.UNLIMITED: "all limits are unlimited",
    QuotaCode.UNKNOWN_SUBJECT_ALLOWED:
        "subject has no configured quota, and unknown ones are allowed",
    QuotaCode.QUEUED: "waiting in the queue",
    QuotaCode.RPD_EXCEEDED: "daily request limit reached",
    QuotaCode.RPM_EXCEEDED: "per-minute request limit reached",
    QuotaCode.TPM_EXCEEDED: "per-minute token limit reached",
    QuotaCode.REQUESTS_EXCEEDED: "request limit reached",
    QuotaCode.INPUT_TOKENS_EXCEEDED: "input token limit reached",
    QuotaCode.OUTPUT_TOKENS_EXCEEDED: "output token limit reached",
    QuotaCode.TOKENS_EXCEEDED: "token limit reached",
    QuotaCode.COST_EXCEEDED: "cost limit reached",
    QuotaCode.CONCURRENCY_EXCEEDED: "concurrency limit reached",
    QuotaCode.QUEUE_AHEAD: "other requests are ahead in the queue: wait too, or ask again later",
    QuotaCode.DEADLINE_UNMEETABLE:
        "no capacity can come before the wait limit: allow a longer wait",
    QuotaCode.WAIT_LIMIT: "waited as long as allowed",
    QuotaCode.WITHDRAWN: "withdrawn from the queue by the client",
    QuotaCode.DRAINING: "the server is shutting down: use another server, or try again later",
    QuotaCode.WAITERS_FULL: "too many requests wait (--max-waiters)",
    QuotaCode.RESERVATIONS_FULL:
        "too many reservations are open on a shard: the shards share --max-reservations, and each "
        "reservation takes a place on every shard of its subjects",
    QuotaCode.SUBJECTS_FULL: "too many subjects are in use (--max-subjects)",
    QuotaCode.ID_IN_USE:
        "this id names another request, or one that still waits: choose another one",
    QuotaCode.EXCEEDS_LIMIT: "more than the limit allows at all: ask for less",
    QuotaCode.BLOCKED: "a limit blocks everything",
    QuotaCode.UNKNOWN_SUBJECT: "subject has no configured quota, and unknown ones are denied",
    QuotaCode.SUBJECTS_APART:
        "it may wait, and several nodes have its subjects: use a common {tag}",
    QuotaCode.INVALID_SUBJECT:
        "subjects must be 1 to 8 different names, none empty or longer than the server allows "
        "(--max-key-bytes)",
    QuotaCode.UNKNOWN_RESERVATION: "no reservation has this id, or it ended and is forgotten",
    QuotaCode.ALREADY_SETTLED: "the reservation was settled before",
    QuotaCode.ALREADY_CANCELLED: "the reservation was cancelled before",
    QuotaCode.ALREADY_EXPIRED: "the reservation's lifetime has ended",
    QuotaCode.INVALID_QUOTA: "the quota is not valid",
    QuotaCode.NO_SUCH_QUOTA: "no quota was put for this subject: the configuration file's stays",
    QuotaCode.CONNECTION_WAITERS_FULL:
        "too many requests of this connection wait: it holds as many places as are free "
        "(--max-waiters)",
    QuotaCode.SUBJECT_WAITERS_FULL:
        "too many requests wait for this subject: they hold as many places as are free "
        "(--max-waiters)",
    QuotaCode.NOT_DURABLE:
        "nothing was changed: the server cannot write its state file (--state) now, and its log "
        "says why: try again later",
    QuotaCode.MEMORY_ONLY:
        "changed in memory only: the server could not write its state file (--state), and its log "
        "says why: repeat the call once it can, or a restart may undo the change",
    QuotaCode.OWNER_UNREACHABLE:
        "the node that has the subject or the reservation does not answer (sluicegate_node_links "
        "in /metrics: try again later), is a gocc, or has not the --peer-secret-file of this one",
    QuotaCode.FAILED_CLOSED:
        "the node that has the subject does not answer, and this one denies meanwhile "
        "(--peer-failure closed): try again later",
    QuotaCode.KEPT: "no server took it yet: the client repeats it",
    QuotaCode.INVALID_TOKENS: "estimated tokens must be non-negative",
    QuotaCode.UNKNOWN: "a newer server's reason",
    QuotaCode.ADMITTED_BY_POLICY: "no server decided: the client's failure policy admits",
    QuotaCode.DENIED_BY_POLICY: "no server decided: the client's failure policy denies",
}
_MADE_HERE = range(250, 256)
_NAMED = {int(code): code for code in QuotaCode if code not in _MADE_HERE}
# Indexed by the byte that a server sent.
CODE_OF: tuple[QuotaCode, ...] = tuple(_NAMED.get(n, QuotaCode.UNKNOWN) for n in range(256))
_FROM_SERVER = bytes(CODE_OF)
_ADMITS = bytes(code in _ADMITTING for code in range(256))


def codes_from_server(codes: bytes, count: int) -> bytes:
    """A byte per entry, also when the server sent one byte for all."""
    return (codes if len(codes) == count else codes * count).translate(_FROM_SERVER)


def word(words: Sequence[Any], number: int) -> Any:
    """The word of an enumerator; "unknown" for one that only a newer server has."""
    return words[number] if number < len(words) else "unknown"


def number_of(words: Sequence[str], wanted: str, what: str) -> int:
    one_of(what, wanted, words)
    return words.index(wanted)


@dataclass(frozen=True)
class Limit:
    """One limit of a quota: an amount of a metric per period.

    `amount` is a number, "unlimited" or "block". `period` is in seconds; of kind "calendar" it is
    "hour", "day", "week" or "month" of `time_zone`. Days need none, and a concurrency limit needs
    neither kind nor period.
    """

    name: str
    metric: Metric
    amount: Amount
    period: float | Unit = 0
    kind: Kind | Literal[""] = ""  # "sliding"; concurrency: "concurrency"
    time_zone: str = ""  # calendar: "UTC"
    count_cached: bool = False  # cached input tokens count too

    def __post_init__(self) -> None:
        """Fills in the defaults, and refuses what the server would refuse."""
        for field in ("name", "kind", "time_zone"):
            if not isinstance(getattr(self, field), str):
                raise InvalidType(f"{field} must be a str, not {getattr(self, field)!r:.40}")
        name = LIMIT_NAME_BYTES
        if not name.least <= len(utf8("name", self.name)) <= name.most:
            raise InvalidArgument(f"name must have {name.least} to {name.most} bytes, not "
                                  f"{self.name!r:.80}")
        number_of(METRICS, self.metric, "metric")
        is_concurrency = self.metric == "concurrency"
        default = "concurrency" if is_concurrency else "sliding"
        object.__setattr__(self, "kind", self.kind or default)
        number_of(KINDS, self.kind, "kind")
        if is_concurrency != (self.kind == "concurrency"):
            raise InvalidArgument(f"kind of a limit of {self.metric} cannot be {self.kind!r}")
        if self.kind == "calendar":
            object.__setattr__(self, "time_zone", self.time_zone or "UTC")
            if self.period not in UNITS[1:]:
                raise InvalidArgument(f"period must be one of {', '.join(UNITS[1:])}, not "
                                      f"{self.period!r:.40}")
        elif self.time_zone:
            raise InvalidArgument("time_zone is for limits of kind 'calendar' only")
        elif self.kind in ("anchored_day", "rolling_day"):
            object.__setattr__(self, "period", self.period or DAY_S)
        if self.count_cached and self.metric not in ("input_tokens", "tokens"):
            raise InvalidArgument("count_cached is for limits of input_tokens and tokens only")
        self._check_numbers()

    def _check_numbers(self) -> None:
        if self.kind != "calendar":
            seconds(period(self.kind), self.period)  # type: ignore[arg-type]
        if isinstance(self.amount, str):
            number_of(CEILINGS[1:], self.amount, "amount")
        else:
            whole(LIMIT_AMOUNT, self.amount)

    def as_text(self) -> LimitText:
        number = 0 if isinstance(self.amount, str) else self.amount
        ceiling = CEILINGS.index(self.amount) if isinstance(self.amount, str) else 0
        unit, period_ms = 0, 0
        if isinstance(self.period, str):
            unit = UNITS.index(self.period)
        else:
            period_ms = round(self.period * 1000)
        return LimitText(self.name, METRICS.index(self.metric), KINDS.index(self.kind), ceiling,
                         unit, number, period_ms, self.time_zone, self.count_cached)


@dataclass(frozen=True)
class Quota:
    """The limits of a subject. Without limits its use is unlimited."""

    limits: tuple[Limit, ...] = ()
    expired: Expired = "keep"  # the charge of an expired reservation
    overtakers: int = 0  # how many calls may overtake the head of the queue
    source: Source = "run_time"
    profile: str = ""  # the profile that it came from, if any

    def as_text(self) -> QuotaText:
        one_of("expired", self.expired, get_args(Expired))
        whole(OVERTAKERS, self.overtakers)
        limits = limits_of(self.limits)
        if len(limits) > LIMITS.most:
            raise LimitExceeded(f"limits has {len(limits)}; at most {LIMITS.most} are allowed")
        return QuotaText([limit.as_text() for limit in limits], self.expired == "refund",
                         self.overtakers)


def limits_of(limits: Iterable[Limit | Mapping[str, object]]) -> tuple[Limit, ...]:
    """Converts limits given as values, or as dicts of the REST API's JSON."""
    if isinstance(limits, (str, bytes, Mapping)) or not isinstance(limits, Iterable):
        raise InvalidType(f"limits must be a list of limits, not {limits!r:.40}")
    return tuple(limit if isinstance(limit, Limit) else _limit_of(limit, f"limits[{index}]")
                 for index, limit in enumerate(limits))


def _limit_of(given: Mapping[str, object], place: str) -> Limit:
    if not isinstance(given, Mapping):
        raise InvalidType(f"{place} must be a Limit, or a dict of its fields, not {given!r:.40}")
    known = [*(field.name for field in fields(Limit)), "period_ms"]
    for name in given:
        if name not in known:
            raise InvalidArgument(f"{place}: no such field {name!r:.40}; there are "
                                  f"{', '.join(known)}")
    if given.get("name"):
        place += f' ("{given["name"]!s:.40}")'
    missing = [name for name in ("name", "metric", "amount") if name not in given]
    if missing:
        raise InvalidArgument(f"{place}: {' and '.join(missing)} "
                              f"{'is' if len(missing) == 1 else 'are'} missing")
    values = dict(given)
    period_ms = values.pop("period_ms", 0)  # the JSON's
    try:
        if period_ms:
            number = whole(PERIOD_MS, period_ms)  # type: ignore[arg-type]
            values.setdefault("period", number / 1000)
        return Limit(**values)  # type: ignore[arg-type]
    except InvalidArgument as error:
        raise type(error)(f"{place}, {error}") from None


def limit_from_text(text: LimitText) -> Limit:
    """A server's limit, unchecked: a newer server may send one that this client would refuse."""
    limit = object.__new__(Limit)
    values: dict[str, object] = {
        "name": text.name, "metric": word(METRICS, text.metric),
        "amount": text.amount if text.ceiling == 0 else word(CEILINGS, text.ceiling),
        "period": word(UNITS, text.unit) if text.unit else text.period_ms / 1000,
        "kind": word(KINDS, text.kind), "time_zone": text.time_zone,
        "count_cached": text.count_cached}
    for name, value in values.items():
        object.__setattr__(limit, name, value)
    return limit


def quota_from_text(text: QuotaText, source: int) -> Quota | None:
    if source == 0:
        return None
    return Quota(tuple(map(limit_from_text, text.limits)),
                 "refund" if text.refund_expired else "keep", text.overtakers_max,
                 word(SOURCES, source), text.profile)


class LimitState(NamedTuple):
    """The current state of a limit. `used` is the total charge, with open reservations."""

    subject: int  # index among the subjects of the call
    name: str
    metric: Metric | Literal["unknown"]
    kind: Kind | Literal["unknown"]
    amount: Amount
    used: int  # may exceed the amount
    reserved: int  # the part of `used` that belongs to open reservations
    remaining: int  # never below 0
    period: float  # in seconds; calendar: of the current period; concurrency: 0
    reset: float  # seconds until its usage is 0 if no call is charged
    violated: bool  # it denies the call


class Stats(NamedTuple):
    """Usage and limits by the reference's names; a maximum of 0 is no limit."""

    rpm: int = 0
    max_rpm: int = 0
    tpm: int = 0
    max_tpm: int = 0
    rpd: int = 0
    max_rpd: int = 0


BY_REFERENCE: dict[tuple[str, float], str] = {
    ("requests", MINUTE_S): "rpm", ("tokens", MINUTE_S): "tpm", ("requests", DAY_S): "rpd"}


def stats_of(limits: Iterable[LimitState]) -> Stats:
    """The first subject's limits of requests and tokens per minute, and of requests per day."""
    found: dict[str, int] = {}
    for limit in limits:
        name = BY_REFERENCE.get((limit.metric, limit.period))
        if name is not None and name not in found and limit.subject == 0:
            found[name] = limit.used
            found[f"max_{name}"] = limit.amount if isinstance(limit.amount, int) else 0
    return Stats(**found)


class Decision(NamedTuple):
    """The outcome that reserve() would have now; true when it would be admitted."""

    allowed: bool
    code: QuotaCode
    reason: str
    retry_after: float | None  # seconds; 0: allowed, or retry at once; None: never
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
    """The current state of a subject."""

    subject: str
    source: Source | Literal["unknown"]  # the origin of its quota
    quota: Quota | None  # None: unknown subject
    limits: tuple[LimitState, ...]
    open_reservations: int
    waiting: int

    @property
    def stats(self) -> Stats:
        return stats_of(self.limits)


class QuotaResults(Sequence[QuotaCode]):
    """Outcomes in the order of the entries. `raw` has a byte each; the rest is made on access."""

    __slots__ = ("_retry_after_ms", "raw", "reservations")

    def __init__(self, raw: bytes, reservations: array[int], retry_after_ms: array[int]) -> None:
        self.raw: bytes = raw
        # Ids, an array('Q'); 0 where none was admitted.
        self.reservations: array[int] = reservations
        self._retry_after_ms = retry_after_ms  # -1: never

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> QuotaCode: ...
    @overload
    def __getitem__(self, index: slice) -> QuotaResults: ...
    def __getitem__(self, index: int | slice) -> QuotaCode | QuotaResults:
        if isinstance(index, slice):
            return QuotaResults(self.raw[index], self.reservations[index],
                                self._retry_after_ms[index])
        return QuotaCode(self.raw[index])

    def __iter__(self) -> Iterator[QuotaCode]:
        return map(QuotaCode, self.raw)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:8]))
        return f"<QuotaResults {len(self)}: {shown}{', ...' if len(self) > 8 else ''}>"

    @property
    def retry_after(self) -> list[float | None]:
        """Seconds after which a retry of each entry may help; None: never."""
        return list(map(seconds_of, self._retry_after_ms))

    @property
    def admitted(self) -> list[bool]:
        """One bool an entry."""
        return list(map(bool, self.raw.translate(_ADMITS)))

    @property
    def all_admitted(self) -> bool:
        return self.count() == len(self.raw)

    def count(self, value: object = None) -> int:
        """The number of entries with this code; without an argument, of those admitted or done."""
        if value is None:
            return sum(self.raw.translate(_ADMITS))
        return self.raw.count(value) if isinstance(value, int) and 0 <= value < 256 else 0

    @property
    def decided_by_policy(self) -> bool:
        """True when the failure policy, not a server, decided at least one entry."""
        return bool({QuotaCode.ADMITTED_BY_POLICY, QuotaCode.DENIED_BY_POLICY} & set(self.raw))


def seconds_of(retry_after_ms: int) -> float | None:
    """Converts a retry_after_ms, which the server has rounded up; None: never."""
    return None if retry_after_ms < 0 else retry_after_ms / 1000


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text: a quarter of its characters, rounded up.

    Good enough for a reservation; settle() replaces it by the tokens used. Any function from text
    to a number may replace it: a tokenizer of the model's vendor is more exact.
    """
    return math.ceil(len(text) / 4)
