"""Shared by both clients: the queue in front of the connection, and the handling of a loss. No I/O.

Flow:   submit_*() and start() queue; output() makes the frames that may be sent; receive()
        completes requests. connecting() -> bytes of Hello; disconnected() ends all outstanding
        requests.
Shape:  single calls gather in the next frame while two frames of them are outstanding: no timer
        delays them, and load makes frames larger. Batches send a frame each, round robin.
Errors: by the failure policy (Settings.on_failure); a completion gets the error of a request that
        cannot be sent.
Lives:  not thread-safe: the clients lock. Bound: `pending_max` calls.
"""

from __future__ import annotations

import math
import random
import re
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, SupportsFloat, TypeVar

from . import _frames
from ._bounds import (BACKOFF, CLIENT_NAME_BYTES, COST, MAX_REQUESTS, MAX_REQUESTS_IN_QUEUE,
                      OPTION_SPANS, OPTIONAL, OPTIONS, WAIT_LIMIT, WINDOW, Span)
from ._calls import BatchCall, ReleaseCall, origin_of, stale
from ._connection import Connection
from ._invalid import (InvalidArgument, InvalidType, LimitExceeded, SluicegateError, fitting,
                       one_of, seconds, utf8, whole)
from ._message import UNSET_32, UNSET_64
from ._quota_frames import CALLS_MAX
from ._quota_requests import (Cancellation, GatheredQuotaCalls, QuotaEntry, QuotaTerms,
                              SettleEntry)
from ._requests import (AcquireOptions, GatheredAcquires, NullCompletion, Request, Withdrawal,
                        copy_of)
from .errors import (Closed, ConnectionLost, Draining, ProtocolError, StaleHandles,
                     Unreachable)
from .verdict import Verdict

Result = TypeVar("Result")
GATHERED_OUT_MAX = 2  # frames of single calls: the server answers one while the next is on its way
WITHDRAW_ENTRIES_MAX = 1024  # of one frame

ADDRESS = re.compile(r"(\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})")


class Settings(NamedTuple):
    client_name: str = "sluicegate-python"
    shard: int | None = None
    on_failure: Literal["error", "open", "closed"] = "error"
    requeue: bool = False
    pending_max: int = 65_536
    when_full: Literal["block", "refuse"] = "block"
    window: int = 4
    frame_entries_max: int = 1024
    timeout: float | None = 30.0
    connect_timeout: float = 5.0
    backoff: tuple[float, float] = (0.05, 5.0)
    spin: float = 0.0
    kept_settles_max: int = 65_536
    settle_timeout: float = 5.0

    def checked(self) -> Settings:
        for bound in OPTIONS:
            value = getattr(self, bound.name)
            if value is not None or bound.name not in OPTIONAL:
                whole(bound, value)
        for span in OPTION_SPANS:
            value = getattr(self, span.name)
            if value is not None or span.name not in OPTIONAL:
                seconds(span, value)
        for name, allowed in (("on_failure", ("error", "open", "closed")),
                              ("when_full", ("block", "refuse"))):
            one_of(name, getattr(self, name), allowed)
        self._check_backoff()
        if not isinstance(self.client_name, str):
            raise InvalidType(f"client_name must be a str, not {self.client_name!r:.40}")
        fitting(CLIENT_NAME_BYTES, utf8("client_name", self.client_name))
        return self

    def _check_backoff(self) -> None:
        try:
            first, longest = self.backoff
        except (TypeError, ValueError):
            raise InvalidType("backoff must be the first and the longest pause, not "
                              f"{self.backoff!r:.40}") from None
        seconds(replace(BACKOFF, least=seconds(BACKOFF, first)), longest)


def parse_address(address: str) -> tuple[str, int]:
    """host:port, [ipv6]:port."""
    if not isinstance(address, str):
        raise InvalidType(f"an address is a str, such as localhost:8081, not {address!r:.80}")
    found = ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise InvalidArgument(f"{address!r:.80} is no address: write host:port, such as "
                              "localhost:8081")
    return found["ipv6"] or found["host"], int(found["port"])


def milliseconds(value: float | None, span: Span = WAIT_LIMIT) -> int:
    """Rounds up, so that a wait never ends early; 0 stands for none."""
    if value is None:
        return 0
    number = seconds(span, value)
    if not number:
        raise LimitExceeded(f"{span.name} must be more than 0 seconds; without wait=True a call "
                            "does not wait")
    return math.ceil(number * 1000)


def to_milliseconds(span: Span, value: SupportsFloat) -> int:
    """Of a length; the nearest whole number."""
    return round(seconds(span, value) * 1000)


def windows_ms(windows: float | Sequence[float] | None) -> int | list[int] | None:
    """Of a batch: one for all, or one each."""
    if windows is None:
        return None
    if isinstance(windows, (str, bytes)) or not hasattr(type(windows), "__getitem__"):
        return to_milliseconds(WINDOW, windows)  # type: ignore[arg-type]
    return [to_milliseconds(replace(WINDOW, name=f"window[{index}]"), window)
            for index, window in enumerate(windows)]  # type: ignore[arg-type]


def acquire_options(cost: int, wait: bool, wait_limit: float | None, max_requests: int | None,
                    max_requests_in_queue: int | None,
                    window: float | None = None, details: bool = False) -> AcquireOptions:
    return AcquireOptions(
        whole(COST, cost), bool(wait), milliseconds(wait_limit),
        UNSET_32 if max_requests is None else whole(MAX_REQUESTS, max_requests),
        UNSET_32 if max_requests_in_queue is None
        else whole(MAX_REQUESTS_IN_QUEUE, max_requests_in_queue),
        UNSET_64 if window is None else to_milliseconds(WINDOW, window), bool(details))


class Backoff:
    """Decides when the client may connect next: exponential, with jitter. Time is an argument."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0
        self.not_before = 0.0

    def failed(self, now: float) -> None:
        delay = min(self._first * 2 ** min(self._failures, 30), self._longest)
        self._failures += 1
        self.not_before = now + delay * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        self._failures = 0
        self.not_before = 0.0


class Dispatcher:
    def __init__(self, settings: Settings, *, learns_nodes: bool = False) -> None:
        self.settings = settings.checked()
        self._learns_nodes = learns_nodes
        self._asks_for_nodes = False  # the next bytes do
        self.topology: _frames.TopologyReply | None = None  # as a server last reported it
        self.identity = object()
        self.connection: Connection | None = None
        self.generation = 0  # of connections
        self.backoff = Backoff(*settings.backoff)
        self.last_error: ConnectionLost | None = None
        self.pending = 0  # calls without a result
        self.has_abandoned = False
        self.is_closed = False
        # Single calls that may wait: the request of each, and its position there.
        self.waiting_entries: dict[Any, tuple[GatheredAcquires | GatheredQuotaCalls, int]] = {}
        self.on_gathering: Callable[[GatheredAcquires], object] | None = None
        self._open = GatheredAcquires(self)  # still accepts entries
        self._gathered: deque[GatheredAcquires] = deque()  # accept no more entries
        self._gathered_quotas: deque[GatheredQuotaCalls] = deque()
        # Those of _gathered_quotas that still accept entries.
        self._open_quotas: dict[QuotaTerms, GatheredQuotaCalls] = {}
        self._sent_first: deque[Request] = deque()
        self._shards = 1  # of the server, by the last Welcome
        self._calls: deque[BatchCall] = deque()  # those that may send their next frame
        self._withdrawals: dict[int, list[int]] = {}
        self._unwanted_permits: list[tuple[str | bytes, int]] = []  # to be released
        self._unwanted_reservations: list[int] = []  # to be cancelled
        self._oldest_handles = 0  # generation of the first handles
        self.policy_verdict = {"error": None, "open": Verdict.APPROVED_BY_POLICY,
                               "closed": Verdict.DENIED_BY_POLICY}[settings.on_failure]
        self.late_verdict = self.policy_verdict  # for a time-out; a lane's is that of home

    # --- requests

    @property
    def is_full(self) -> bool:
        return self.pending >= self.settings.pending_max

    def submit_acquire(self, key: str | bytes, completion: Any,
                       options: AcquireOptions | None = None) -> None:
        self.pending += 1
        gathered = self._open
        if len(gathered.keys) >= self.settings.frame_entries_max or not gathered.takes(options):
            self._gathered.append(gathered)
            gathered = self._open = GatheredAcquires(self)
        if not gathered.keys and self.on_gathering is not None:
            self.on_gathering(gathered)
        gathered.add(key, completion, options)

    def submit_quota_call(self, terms: QuotaTerms, entry: QuotaEntry, completion: Any) -> None:
        """Calls with the same terms gather in one frame."""
        self.pending += 1
        if isinstance(entry, SettleEntry) and self._shards > 1:
            terms = terms.for_shard_of(entry.reservation, self._shards)
        gathered = self._open_quotas.get(terms)
        if gathered is None or gathered.entries >= min(self.settings.frame_entries_max, CALLS_MAX):
            gathered = self._open_quotas[terms] = GatheredQuotaCalls(self, terms)
            self._gathered_quotas.append(gathered)
        gathered.add(entry, completion)

    def seal(self) -> None:
        """Ends the gathering: acquires submitted later gather in another request."""
        if self._open.keys:
            self._gathered.append(self._open)
            self._open = GatheredAcquires(self)

    def is_open(self, gathered: GatheredAcquires) -> bool:
        return gathered is self._open

    def start(self, call: BatchCall) -> None:
        self.pending += 1
        call.go_on()

    def submit_control(self, request: Request) -> None:
        self.pending += 1
        self._sent_first.append(request)

    def resume(self, call: BatchCall) -> None:
        if call.frames_out < self.settings.window and not call.is_queued:
            call.is_queued = True
            self._calls.append(call)

    def resend(self, request: Request) -> None:
        self._sent_first.append(request)

    def generation_of(self, handles: object) -> int:
        """The generation of these handles; StaleHandles unless it is the current connection's."""
        origin = origin_of(handles)
        if origin is None:
            # Their connection is certain only if all handles so far are of one connection.
            origin = (self.identity, self._oldest_handles)
        if origin[0] is not self.identity:
            raise StaleHandles("these handles are of another client")
        if origin[1] != self.generation or self.connection is None:
            raise stale()
        return self.generation

    def interned(self, generation: int) -> None:
        self._oldest_handles = self._oldest_handles or generation

    # --- abandoned calls

    def abandon(self, completion: Any) -> None:
        """The caller of a single call waits no more; its completion is done."""
        self.has_abandoned = True
        found = self.waiting_entries.get(completion)
        if found is not None:
            gathered, position = found
            gathered.withdraw(position)

    def drop_abandoned(self) -> None:
        """Drops abandoned calls that are not sent: a hanging server must not fill the client."""
        if not self.has_abandoned:
            return
        self.has_abandoned = False
        self.seal()
        self._open_quotas.clear()
        queues: tuple[deque[Any], ...] = (self._sent_first, self._gathered, self._gathered_quotas)
        for queue in queues:
            for _ in range(len(queue)):
                live = queue.popleft().without_done()
                if live is not None:
                    queue.append(live)
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            call.is_queued = False
            call.go_on()

    def withdraw(self, frame_id: int, *entries: int) -> None:
        self._withdrawals.setdefault(frame_id, []).extend(entries)

    def release_unwanted(self, key: str | bytes, cost: int) -> None:
        self._unwanted_permits.append((key, cost))

    def cancel_unwanted(self, reservation: int) -> None:
        """Its caller never received it; the cancellation refunds its charge."""
        self._unwanted_reservations.append(reservation)

    # --- completed calls

    def finished(self, calls: int) -> None:
        self.pending -= calls

    def complete_by_policy(self, completion: Any, error: ConnectionLost) -> None:
        if self.policy_verdict is None:
            completion.set_exception(copy_of(error))
        else:
            completion.set_result(self.policy_verdict)

    # --- the connection

    def may_connect(self, now: float) -> bool:
        return now >= self.backoff.not_before

    def connecting(self) -> bytes:
        """Called when a TCP connection is established; returns the bytes to send first."""
        self.connection = Connection()
        return self.connection.opening(self.settings.client_name, self.settings.shard)

    def receive(self, data: bytes) -> None:
        """Raises ConnectionLost when the connection is no longer usable."""
        connection = self.connection
        assert connection is not None
        was_welcome = connection.welcome is not None
        self._guarded(connection.receive, data)
        if not was_welcome and connection.welcome is not None:
            self.generation += 1
            self._shards = connection.welcome.shards
            self._asks_for_nodes = (self._learns_nodes and connection.welcome.features
                                    & _frames.FEATURE_TOPOLOGY != 0)
        if connection.topology is not None:
            self.topology = connection.topology
        if connection.answers:
            self.backoff.succeeded()
        if connection.going_away is not None and connection.is_idle:
            raise Draining(f"the server is shutting down: {connection.going_away}")

    def receive_single_verdict(self, data: bytes) -> bool:
        """receive() for the most frequent answer; False, without effect, for any other."""
        assert self.connection is not None
        return self._guarded(self.connection.receive_single_verdict, data)

    @staticmethod
    def _guarded(receive: Callable[[bytes], Result], data: bytes) -> Result:
        try:
            return receive(data)
        except _frames.Malformed as error:
            raise ProtocolError(f"no answer of the native protocol: {error}") from error

    def disconnected(self, error: ConnectionLost, now: float) -> None:
        """Ends every outstanding request as lost; with requeue=True it is resent."""
        connection, self.connection = self.connection, None
        self.last_error = error
        if connection is None or not connection.answers:
            self.backoff.failed(now)
        if connection is not None:
            unsent = [request for request in self._sent_first
                      if not isinstance(request, Withdrawal)]  # of this connection's frames
            self._sent_first.clear()
            for request in connection.end():
                request.lost(error)  # perhaps puts it into _sent_first
            self._sent_first.extend(unsent)
        self._withdrawals.clear()  # also those of calls that just ended: no frame waits any more

    def fail_queued(self, error: SluicegateError) -> None:
        """Fails all requests that were not sent; with requeue=True only if the client is closed."""
        if not self.settings.requeue or self.is_closed:
            self._fail_queued(error, is_lost=isinstance(error, ConnectionLost))

    def fail_all(self, error: ConnectionLost) -> None:
        """Fails everything after disconnected(), in whatever state an interrupted call left it."""
        self._withdrawals.clear()
        self._unwanted_permits.clear()
        self._unwanted_reservations.clear()
        self._fail_queued(error, is_lost=not self.settings.requeue)
        self.waiting_entries.clear()
        self.pending = 0

    def _fail_queued(self, error: Any, is_lost: bool) -> None:
        self.seal()
        requests: list[Request] = [*self._sent_first, *self._gathered, *self._gathered_quotas]
        calls = list(self._calls)
        for queue in (self._sent_first, self._gathered, self._gathered_quotas, self._calls):
            queue.clear()
        self._open_quotas.clear()
        for request in requests:
            if is_lost:
                request.lost(error)
            else:
                request.failed(error)
        for call in calls:
            call.fail(error)

    def unreachable(self, now: float) -> Unreachable:
        wait = max(0.0, self.backoff.not_before - now)
        return Unreachable(f"no connection ({self.last_error}); next attempt in {wait:.2f} s")

    def close(self) -> None:
        self.is_closed = True
        connection, self.connection = self.connection, None
        error = Closed("the client was closed")
        for request in connection.end() if connection else ():
            request.failed(error)
        self.fail_queued(error)
        self._withdrawals.clear()
        self._unwanted_permits.clear()
        self._unwanted_reservations.clear()

    @property
    def wants_to_send(self) -> bool:
        return bool(self._open.keys or self._gathered or self._sent_first or self._calls
                    or self._gathered_quotas)

    @property
    def is_quiet(self) -> bool:
        """True when no call is pending."""
        connection = self.connection
        return (not self.pending and connection is not None and connection.is_idle
                and connection.takes_requests and not self.has_cleanup)

    @property
    def is_gathering(self) -> bool:
        """True when unsent acquires are in a request that still accepts more."""
        return bool(self._open.keys)

    @property
    def has_cleanup(self) -> bool:
        return bool(self._withdrawals or self._unwanted_permits or self._unwanted_reservations)

    # --- frames

    def output(self) -> bytes:
        """Frames to be sent now, as many as the window and Welcome allow."""
        connection = self.connection
        if connection is None or not connection.takes_requests:
            return b""
        frames: list[bytes] = []
        if self._asks_for_nodes:
            self._asks_for_nodes = False
            frames.append(connection.topology_question())
        if self.has_cleanup:
            self._add_cleanup()
        while (request := self._next_request(connection)) is not None:
            frame = self._encoded(connection, request)
            if frame is None:
                continue
            if not connection.fits(len(frame)):
                self._sent_first.appendleft(request)
                break
            connection.send(request, frame)
            frames.append(frame)
        self.has_abandoned = self.has_abandoned and self.wants_to_send
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _add_cleanup(self) -> None:
        for target, entries in self._withdrawals.items():
            for start in range(0, len(entries), WITHDRAW_ENTRIES_MAX):
                self._sent_first.append(
                    Withdrawal(target, entries[start:start + WITHDRAW_ENTRIES_MAX]))
        self._withdrawals.clear()
        if self._unwanted_permits:
            keys, costs = zip(*self._unwanted_permits)
            self._unwanted_permits.clear()
            self.start(ReleaseCall(self, NullCompletion(), keys, costs))
        reservations, self._unwanted_reservations = self._unwanted_reservations, []
        for start in range(0, len(reservations), CALLS_MAX):
            self._sent_first.append(Cancellation(reservations[start:start + CALLS_MAX]))

    def _next_request(self, connection: Connection) -> Request | None:
        while self._sent_first:
            first = self._sent_first.popleft()
            live = first.without_done() if self.has_abandoned else first
            if live is not None:
                return live
        while connection.gathered_out < GATHERED_OUT_MAX and (self._gathered or self._open.keys):
            gathered = self._next_gathered()
            if gathered is not None:
                return gathered
        while connection.gathered_quotas_out < GATHERED_OUT_MAX and self._gathered_quotas:
            quotas = self._next_gathered_quotas()
            if quotas is not None:
                return quotas
        while self._calls:
            call = self._calls.popleft()
            call.is_queued = False
            if call.has_more:
                frame = call.next_frame(self.settings.frame_entries_max)
                call.go_on()
                return frame
            call.go_on()
        return None

    def _next_gathered(self) -> GatheredAcquires | None:
        if not self._gathered:
            self.seal()
        gathered = self._gathered.popleft()
        return gathered.without_done() if self.has_abandoned else gathered

    def _next_gathered_quotas(self) -> GatheredQuotaCalls | None:
        gathered = self._gathered_quotas.popleft()
        if self._open_quotas.get(gathered.terms) is gathered:
            del self._open_quotas[gathered.terms]
        return gathered.without_done() if self.has_abandoned else gathered

    def _encoded(self, connection: Connection, request: Request) -> bytes | None:
        """None when it cannot be sent: then it was split, or its completions got the error."""
        assert connection.welcome is not None
        try:
            if request.entries <= connection.welcome.frame_entries_max:
                frame = connection.encode(request)
                if len(frame) <= connection.welcome.frame_bytes_max:
                    return frame
            self._sent_first.extendleft(reversed(request.split()))
        except (TypeError, ValueError, struct.error, SluicegateError) as error:
            for rest in request.drop_unencodable(error):
                self._sent_first.appendleft(rest)
        return None
