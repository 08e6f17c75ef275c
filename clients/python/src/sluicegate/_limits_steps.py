"""The questions of a storage of the package `limits` to a server: once for threads and for asyncio.

Flow:   a method yields questions, which are functions of a client; a storage of limits_storage.py
        asks its client, and sends the answers into the generator.
Shape:  a counter is a key, its count is limit - remaining. A moving window is a subject with one
        sliding limit of requests. Both are named key_prefix + key; a long name ends with a hash.
Units:  seconds, as in `limits`; milliseconds where a name ends in _ms.
Errors: those of the client; StorageRefused for a verdict that is neither yes nor no.
Bounds: remembers at most QUOTAS_MAX subjects; forgets the one that is idle first.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ._bounds import MAX_REQUESTS, NUMBER_MAX, RELEASED_COST, WINDOW, Bound
from ._invalid import InvalidArgument, whole
from ._key_bytes import DIGEST_BYTES, KEY_BYTES_KEPT, bounded
from .errors import QuotaDenied, SluicegateError
from .quota import Limit, LimitState, QuotaCode
from .verdict import Details, Verdict, Verdicts

Question = Callable[[Any], Any]
Result = TypeVar("Result")
Steps = Generator[Question, Any, Result]

COUNTED = Details.LIMIT | Details.REMAINING
COUNTER_MAX = NUMBER_MAX  # a fixed window counts also what is above the limit, as in `limits`
AMOUNT = Bound("amount", 0, NUMBER_MAX)
LIMIT = Bound("limit", MAX_REQUESTS.least, MAX_REQUESTS.most)
EXPIRY = Bound("expiry", 1, int(WINDOW.most))
SLIDING_EXPIRY = Bound("expiry of a sliding window counter", 1, EXPIRY.most // 2)
MOVING_LIMIT_NAME = "moving window"
PREFIX_BYTES_MAX = KEY_BYTES_KEPT - DIGEST_BYTES  # a long name keeps it whole, for reset()
QUOTAS_MAX = 100_000
REMOVED_AT_ONCE = 2  # more than one for each that is put, so that idle ones do not gather
DENIALS = frozenset({QuotaCode.REQUESTS_EXCEEDED, QuotaCode.RPM_EXCEEDED, QuotaCode.RPD_EXCEEDED,
                     QuotaCode.EXCEEDS_LIMIT, QuotaCode.BLOCKED, QuotaCode.QUEUE_AHEAD})
CURES = {
    Verdict.NOT_ALLOWED: "the server refuses limits and windows of a caller's own: start it with "
                         "--requests-can-set-rate and --requests-can-set-window",
    Verdict.TABLE_FULL: "the server has no room for another key: raise its --max-keys",
    Verdict.OVERLOADED: "the server has too much work: try again later",
    Verdict.DRAINING: "the server is shutting down: try again later",
    Verdict.OWNER_UNREACHABLE: "the node that owns the key does not answer: try again later",
}


class StorageRefused(SluicegateError):
    """The server did not decide a hit; the text has the cause and the cure."""


def counts(keys: Sequence[str], verdicts: Verdicts) -> list[int]:
    """The count of each key in its window."""
    for key, verdict in zip(keys, verdicts):
        if verdict is Verdict.INVALID_KEY:
            raise InvalidArgument(f"key {key!r:.80} is longer than the server allows: the storage "
                                  f"needs a --max-key-bytes of {KEY_BYTES_KEPT}")
        if verdict not in (Verdict.APPROVED, Verdict.DENIED, Verdict.NEVER_FITS):
            raise StorageRefused(f"{key!r:.80}: {verdict}: "
                                 f"{CURES.get(verdict, 'the server did not decide it')}")
    return [limit - remaining for limit, remaining in zip(verdicts.limit, verdicts.remaining)]


@dataclass(eq=False)
class PutQuota:
    subject: str
    expiry: int
    idle_at: float


class PutQuotas:
    """The subjects that got a quota from this process, with the time when each is idle. A server
    keeps a quota of run time until it is removed, so the storage removes those of idle keys."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._quotas: dict[str, PutQuota] = {}
        # Each once, by a time until which it is not idle; a use moves it later, when it is first.
        self._heap: list[tuple[float, int, PutQuota]] = []
        self._numbers = itertools.count()  # of equal times the first comes first

    def use(self, subject: str, expiry: int, was_put: bool = False) -> None:
        idle_at = self._monotonic() + 2 * expiry
        with self._lock:
            quota = self._quotas.get(subject)
            if quota is not None:
                quota.expiry, quota.idle_at = expiry, idle_at
            elif was_put:
                if len(self._quotas) >= QUOTAS_MAX:
                    self._forget(self._first())
                quota = self._quotas[subject] = PutQuota(subject, expiry, idle_at)
                heapq.heappush(self._heap, self._placed(quota))

    def take_idle(self) -> list[PutQuota]:
        """Forgets a few that are idle, the first ones."""
        now = self._monotonic()
        idle: list[PutQuota] = []
        with self._lock:
            while self._heap and len(idle) < REMOVED_AT_ONCE and self._first().idle_at <= now:
                idle.append(self._first())
                self._forget(idle[-1])
        return idle

    def _placed(self, quota: PutQuota) -> tuple[float, int, PutQuota]:
        return quota.idle_at, next(self._numbers), quota

    def _first(self) -> PutQuota:
        """The one that is idle first."""
        while True:
            place, _, quota = self._heap[0]
            if place >= quota.idle_at:
                return quota
            heapq.heapreplace(self._heap, self._placed(quota))

    def _forget(self, first: PutQuota) -> None:
        heapq.heappop(self._heap)
        del self._quotas[first.subject]


class LimitsSteps:
    def __init__(self, key_prefix: str, wall_clock: Callable[[], float] = time.time,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._prefix = key_prefix
        self._now = wall_clock
        self._put_quotas = PutQuotas(monotonic)

    def _name(self, key: str) -> str:
        """Callers choose parts of keys: no key may be an error, which stops the limits of all."""
        name = bounded((self._prefix + key).encode("utf-8", "backslashreplace"))
        return name.decode("utf-8", "ignore")  # a character that the end cuts is in the hash

    @staticmethod
    def _read(names: Sequence[str], details: Details = COUNTED) -> Steps[Verdicts]:
        """A cost of 0 takes nothing, and makes no key."""
        verdicts: Verdicts = yield lambda client: client.acquire_many(names, costs=0,
                                                                      details=details)
        return verdicts

    # --- fixed window

    def increment(self, key: str, expiry: int, amount: int) -> Steps[int]:
        name, amount = self._name(key), whole(AMOUNT, amount)
        window = whole(EXPIRY, expiry)
        verdicts = yield lambda client: client.acquire_many(
            [name], costs=[amount], max_requests=COUNTER_MAX, window=window, details=COUNTED)
        count, = counts([name], verdicts)
        return count if verdicts[0] else count + amount

    def count(self, key: str) -> Steps[int]:
        name = self._name(key)
        return counts([name], (yield from self._read([name])))[0]

    def expiry(self, key: str) -> Steps[float]:
        """When the window ends; now, if nothing is counted."""
        name = self._name(key)
        verdicts = yield from self._read([name], COUNTED | Details.RESET)
        return self._now() + (verdicts.reset[0] if counts([name], verdicts)[0] else 0)

    # --- sliding window counter

    def _windows(self, key: str, expiry: int, now: float) -> list[str]:
        """The keys of the previous and of the present window, as the other storages name them."""
        return [self._name(f"{key}/{int(start / expiry)}") for start in (now - expiry, now)]

    def acquire_sliding(self, key: str, limit: int, expiry: int, amount: int) -> Steps[bool]:
        """The previous window does not change any more. So what it leaves of the limit is the
        present key's limit, and the server decides that atomically."""
        limit, amount = whole(LIMIT, limit), whole(AMOUNT, amount)
        now, window = self._now(), 2 * whole(SLIDING_EXPIRY, expiry)
        previous, present = self._windows(key, expiry, now)
        before, = counts([previous], (yield from self._read([previous])))
        room = limit - math.floor(before * (1 - now / expiry % 1))
        if room < amount:
            return False
        if amount == 0:
            return True
        verdicts = yield lambda client: client.acquire_many(
            [present], costs=[amount], max_requests=room, window=window, details=COUNTED)
        counts([present], verdicts)
        return bool(verdicts[0])

    def sliding_window(self, key: str, expiry: int) -> Steps[tuple[int, float, int, float]]:
        now = self._now()
        names = self._windows(key, whole(SLIDING_EXPIRY, expiry), now)
        before, present = counts(names, (yield from self._read(names)))
        left = (1 - now / expiry % 1) * expiry
        return before, left if before else 0.0, present, left + expiry

    def clear_sliding(self, key: str, expiry: int) -> Steps[None]:
        names = self._windows(key, whole(SLIDING_EXPIRY, expiry), self._now())
        yield lambda client: client.release_many(names, RELEASED_COST.most)

    # --- moving window

    def acquire_moving(self, key: str, limit: int, expiry: int, amount: int) -> Steps[bool]:
        subject, amount = self._name(key), whole(AMOUNT, amount)
        wanted = Limit(MOVING_LIMIT_NAME, "requests", whole(LIMIT, limit),
                       whole(EXPIRY, expiry))
        if amount > limit:
            return False
        self._put_quotas.use(subject, expiry)
        admitted = yield from self._consume(subject, wanted, amount)
        if admitted is None:
            yield lambda client: client.put_quota(subject, [wanted])
            self._put_quotas.use(subject, expiry, was_put=True)
            admitted = yield from self._consume(subject, wanted, amount)
            with contextlib.suppress(SluicegateError):  # the next hit of a new key tries again
                yield from self._remove_idle()
        if admitted is None:
            raise StorageRefused(f"{subject!r:.80}: somebody else changes its quota: leave names "
                                 "that begin with the key_prefix to the storage")
        return admitted

    @staticmethod
    def _consume(subject: str, wanted: Limit, amount: int) -> Steps[bool | None]:
        """None: the subject has not this limit, so that the answer does not count."""
        try:
            decision = yield lambda client: client.consume(subject, requests=amount, limits=True)
        except QuotaDenied as denied:
            if denied.code is QuotaCode.UNKNOWN_SUBJECT:
                return None
            if denied.code not in DENIALS:
                raise
            if same(wanted, denied.violated):
                return False
        else:
            return True if same(wanted, decision.limits) else None
        usage = yield lambda client: client.usage(subject)
        return False if same(wanted, usage.limits) else None

    def _remove_idle(self) -> Steps[None]:
        """A hit of another process between both questions would be forgotten; it comes after two
        periods without any."""
        for quota in self._put_quotas.take_idle():
            usage = yield lambda client: client.usage(quota.subject)
            if any(limit.used for limit in usage.limits):  # by another process
                self._put_quotas.use(quota.subject, quota.expiry, was_put=True)
            else:
                yield lambda client: client.remove_quota(quota.subject)

    def moving_window(self, key: str, limit: int, expiry: int) -> Steps[tuple[float, int]]:
        """The start is an expiry before the server has room for one more than now: that is when
        the oldest hit leaves the window."""
        subject = self._name(key)
        wanted = Limit(MOVING_LIMIT_NAME, "requests", whole(LIMIT, limit),
                       whole(EXPIRY, expiry))
        decision = yield lambda client: client.check(subject, requests=1)
        state = same(wanted, decision.limits)
        now = self._now()
        if state is None or not state.used:
            return now, 0
        if state.remaining:
            one_more = state.remaining + 1
            decision = yield lambda client: client.check(subject, requests=one_more)
        return now + (decision.retry_after or 0.0) - expiry, state.used

    # --- all

    def clear(self, key: str) -> Steps[None]:
        """The key's fixed and moving window: `limits` does not say which it means."""
        name = self._name(key)
        yield lambda client: client.release_many([name], RELEASED_COST.most)
        yield lambda client: client.reset(name)

    def reset(self) -> Steps[int]:
        """Clears what has the prefix, and nothing else. Reads all keys and subjects of the server.
        """
        prefix = self._prefix.encode()
        states = yield lambda client: client.inspect_all()
        keys = [state.key for state in states if state.approved and state.key.startswith(prefix)]
        if keys:
            yield lambda client: client.release_many(keys, RELEASED_COST.most)
        usages = yield lambda client: client.subjects()
        subjects = [usage for usage in usages if usage.subject.startswith(self._prefix)]
        for usage in subjects:
            yield from self._forget(usage.subject, usage.source == "run_time")
        return len(keys) + sum(any(limit.used for limit in usage.limits) for usage in subjects)

    @staticmethod
    def _forget(subject: str, is_put: bool) -> Steps[None]:
        """The quota of a configuration file stays, without usage."""
        yield lambda client: client.remove_quota(subject) if is_put else client.reset(subject)

    @staticmethod
    def check() -> Steps[bool]:
        try:
            yield lambda client: client.ping()
        except SluicegateError:
            return False
        return True


def same(wanted: Limit, limits: Sequence[LimitState]) -> LimitState | None:
    """The state of that limit, whatever its name is in a configuration file."""
    return next((limit for limit in limits if (
        limit.metric, limit.kind, limit.amount, limit.period) == (
        wanted.metric, wanted.kind, wanted.amount, wanted.period)), None)
