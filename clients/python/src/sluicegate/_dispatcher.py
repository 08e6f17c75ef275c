"""Shared by both clients: the queue in front of the connection, and the handling of a loss. No I/O.

Flow:   ask() and start() queue; output() makes the frames that may be sent; receive() completes
        requests. connecting() -> bytes of Hello; disconnected() ends all outstanding requests.
Shape:  single acquires gather in one batch while two batches are outstanding: no timer delays
        them, and load makes frames larger. Calls send a frame each, round robin.
Errors: by the failure policy (Settings.on_failure); a sink gets the error of a request that cannot
        be sent.
Lives:  not thread-safe: the clients lock. Bound: `max_pending` sinks.
"""

from __future__ import annotations

import math
import operator
import random
import re
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from . import _frames
from ._calls import Call, ReleaseCall, origin_of, stale
from ._connection import Connection
from ._quota_frames import CALLS_MAX
from ._quota_requests import Cancellation, Form, QuotaBatch, QuotaEntry
from ._requests import Batch, Entry, NullSink, Request, Withdrawal, copy_of
from .errors import (Closed, ConnectionLost, Draining, LimitExceeded, ProtocolError,
                     SluicegateError, StaleHandles, Unreachable)
from .verdict import Verdict

Result = TypeVar("Result")
BATCHES_OUT_MAX = 2  # one is answered while the next is on its way
WITHDRAW_ENTRIES_MAX = 1024  # of one frame
SHARD_MAX = 0xFFFFFFFE  # Hello has 32 bits, and 0 means none


ADDRESS = re.compile(r"(\[(?P<ipv6>[^][/\s]+)\]|(?P<host>[^][/\s]+)):(?P<port>[0-9]{1,5})")


class Settings(NamedTuple):
    client_name: str = "sluicegate-python"
    shard: int | None = None
    on_failure: Literal["error", "open", "closed"] = "error"
    requeue: bool = False
    max_pending: int = 65_536
    when_full: Literal["wait", "error"] = "wait"
    window: int = 4
    frame_entries: int = 1024
    timeout: float | None = 30.0
    connect_timeout: float = 5.0
    backoff: tuple[float, float] = (0.05, 5.0)
    spin: float = 0.0

    def checked(self) -> Settings:
        for name, least in (("max_pending", 1), ("window", 1), ("frame_entries", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name, allowed in (("on_failure", ("error", "open", "closed")),
                              ("when_full", ("wait", "error"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, "
                                 f"not {getattr(self, name)!r}")
        if self.shard is not None:
            whole("shard", self.shard, 0, SHARD_MAX)
        try:
            self.client_name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"client_name {self.client_name!r:.80} has no UTF-8: {error.reason}"
                             ) from None
        return self


def parse_address(address: str) -> tuple[str, int]:
    """host:port, [ipv6]:port."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a str as localhost:8081, not {address!r:.80}")
    found = ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise ValueError(f"{address!r:.80} is no address: write host:port, as localhost:8081")
    return found["ipv6"] or found["host"], int(found["port"])


def milliseconds(seconds: float | None, what: str) -> int:
    """Rounds up, so that a wait never ends early; 0 stands for none."""
    if seconds is None:
        return 0
    if not 0 < seconds <= _frames.WAIT_LIMIT_MS_MAX / 1000:
        raise LimitExceeded(f"{what} must be more than 0 and at most "
                            f"{_frames.WAIT_LIMIT_MS_MAX // 1000} seconds, not {seconds}")
    return math.ceil(seconds * 1000)


def entry_of(cost: int, wait: bool, wait_limit: float | None, max_requests: int | None,
             max_requests_in_queue: int | None) -> Entry:
    return Entry(whole("cost", cost, 1), bool(wait), milliseconds(wait_limit, "wait_limit"),
                 _frames.KEEP if max_requests is None else whole("max_requests", max_requests, 1),
                 _frames.KEEP if max_requests_in_queue is None
                 else whole("max_requests_in_queue", max_requests_in_queue, 0))


def whole(name: str, value: int, least: int, most: int = _frames.NUMBER_MAX) -> int:
    """Checks a number when the call is made: later it would spoil a frame with other entries."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r:.40}") from None
    if not least <= number <= most:
        raise LimitExceeded(f"{name} must be {least} to {most}, not {number}")
    return number


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
    def __init__(self, settings: Settings) -> None:
        self.options = settings.checked()
        self.identity = object()
        self.connection: Connection | None = None
        self.generation = 0  # of connections
        self.backoff = Backoff(*settings.backoff)
        self.last_error: ConnectionLost | None = None
        self.pending = 0  # sinks without a result yet
        self.has_abandoned = False
        self.is_closed = False
        # Of single entries that may wait.
        self.places: dict[Any, tuple[Batch | QuotaBatch, int]] = {}
        self.on_batch: Callable[[Batch], object] | None = None
        self._open = Batch(self)  # gathers
        self._batches: deque[Batch] = deque()  # full, or followed by another
        self._quota_batches: deque[QuotaBatch] = deque()
        self._open_quotas: dict[Form, QuotaBatch] = {}  # of the quota batches, those that gather
        self._again: deque[Request] = deque()  # sent first
        self._calls: deque[Call] = deque()  # may send their next piece
        self._withdrawals: dict[int, list[int]] = {}
        self._unwanted_permits: list[tuple[str | bytes, int]] = []  # to be released
        self._unwanted_reservations: list[int] = []  # to be cancelled
        self._oldest_handles = 0  # generation of the first handles
        self.policy_verdict = {"error": None, "open": Verdict.APPROVED_BY_POLICY,
                               "closed": Verdict.DENIED_BY_POLICY}[settings.on_failure]

    # --- requests

    @property
    def is_full(self) -> bool:
        return self.pending >= self.options.max_pending

    def ask(self, key: str | bytes, sink: Any, entry: Entry | None = None) -> None:
        """A single acquire."""
        self.pending += 1
        batch = self._open
        if len(batch.keys) >= self.options.frame_entries or not batch.takes(entry):
            self._batches.append(batch)
            batch = self._open = Batch(self)
        if not batch.keys and self.on_batch is not None:
            self.on_batch(batch)
        batch.add(key, sink, entry)

    def ask_quota(self, form: Form, entry: QuotaEntry, sink: Any) -> None:
        """A single call about quotas: calls of the same form gather in one frame."""
        self.pending += 1
        batch = self._open_quotas.get(form)
        if batch is None or batch.entries >= min(self.options.frame_entries, CALLS_MAX):
            batch = self._open_quotas[form] = QuotaBatch(self, form)
            self._quota_batches.append(batch)
        batch.add(entry, sink)

    def seal(self) -> None:
        """Closes the open batch: later acquires gather in another one."""
        if self._open.keys:
            self._batches.append(self._open)
            self._open = Batch(self)

    def is_open(self, batch: Batch) -> bool:
        return batch is self._open

    def start(self, call: Call) -> None:
        self.pending += 1
        call.go_on()

    def ask_question(self, question: Request) -> None:
        self.pending += 1
        self._again.append(question)

    def resume(self, call: Call) -> None:
        if call.pieces_out < self.options.window and not call.is_queued:
            call.is_queued = True
            self._calls.append(call)

    def ask_again(self, request: Request) -> None:
        self._again.append(request)

    def generation_of(self, handles: object) -> int:
        """The generation of these handles; StaleHandles unless it is the current connection's."""
        origin = origin_of(handles)
        if origin is None:
            # Valid only if all handles so far are of one connection: then they cannot be mixed up.
            origin = (self.identity, self._oldest_handles)
        if origin[0] is not self.identity:
            raise StaleHandles("these handles are of another client")
        if origin[1] != self.generation or self.connection is None:
            raise stale()
        return self.generation

    def interned(self, generation: int) -> None:
        self._oldest_handles = self._oldest_handles or generation

    # --- abandoned calls

    def abandon(self, sink: Any) -> None:
        """The caller of a single call waits no more; its sink is done."""
        self.has_abandoned = True
        place = self.places.get(sink)
        if place is not None:
            batch, position = place
            batch.withdraw(position)

    def drop_abandoned(self) -> None:
        """Drops abandoned calls that are not sent: a hanging server must not fill the client."""
        if not self.has_abandoned:
            return
        self.has_abandoned = False
        self.seal()
        live = [batch.without_done() for batch in self._batches]
        self._batches = deque(batch for batch in live if batch is not None)
        self._open_quotas.clear()
        live_quotas = [batch.without_done() for batch in self._quota_batches]
        self._quota_batches = deque(batch for batch in live_quotas if batch is not None)
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            call.is_queued = False
            call.go_on()

    def withdraw(self, frame_id: int, *entries: int) -> None:
        self._withdrawals.setdefault(frame_id, []).extend(entries)

    def release_unwanted(self, key: str | bytes, cost: int) -> None:
        self._unwanted_permits.append((key, cost))

    def cancel_unwanted(self, reservation: int) -> None:
        """Its caller never received it: it will be cancelled, which refunds its charge."""
        self._unwanted_reservations.append(reservation)

    # --- completed calls

    def finished(self, sinks: int) -> None:
        self.pending -= sinks

    def settle_by_policy(self, sink: Any, error: ConnectionLost) -> None:
        if self.policy_verdict is None:
            sink.set_exception(copy_of(error))
        else:
            sink.set_result(self.policy_verdict)

    # --- the connection

    def may_connect(self, now: float) -> bool:
        return now >= self.backoff.not_before

    def connecting(self) -> bytes:
        """Called when a TCP connection is established; returns the bytes to send first."""
        self.connection = Connection()
        return self.connection.opening(self.options.client_name, self.options.shard)

    def receive(self, data: bytes) -> None:
        """Raises ConnectionLost when the connection is no longer usable."""
        connection = self.connection
        assert connection is not None
        was_welcome = connection.welcome is not None
        self._guarded(connection.receive, data)
        if not was_welcome and connection.welcome is not None:
            self.generation += 1
        if connection.answers:
            self.backoff.succeeded()
        if connection.going_away is not None and connection.is_idle:
            raise Draining(f"the server is shutting down: {connection.going_away}")

    def receive_lone(self, data: bytes) -> bool:
        """receive() for the most frequent answer; False, without effect, for any other."""
        assert self.connection is not None
        return self._guarded(self.connection.receive_lone, data)

    @staticmethod
    def _guarded(receive: Callable[[bytes], Result], data: bytes) -> Result:
        try:
            return receive(data)
        except _frames.Malformed as error:
            raise ProtocolError(f"the peer does not speak the protocol: {error}") from error

    def disconnected(self, error: ConnectionLost, now: float) -> None:
        """Ends every outstanding request as lost; with requeue=True it is sent again."""
        connection, self.connection = self.connection, None
        self.last_error = error
        if connection is None or not connection.answers:
            self.backoff.failed(now)
        self._withdrawals.clear()
        if connection is not None:
            kept = list(self._again)
            self._again.clear()
            for request in connection.end():
                request.lost(error)
            self._again.extend(kept)

    def fail_queued(self, error: SluicegateError) -> None:
        """Fails all requests that were not sent; with requeue=True only if the client is closed."""
        if not self.options.requeue or self.is_closed:
            self._fail_queued(error, is_lost=isinstance(error, ConnectionLost))

    def fail_all(self, error: ConnectionLost) -> None:
        """Fails everything after disconnected(), in whatever state an interrupted call left it."""
        self._withdrawals.clear()
        self._unwanted_permits.clear()
        self._unwanted_reservations.clear()
        self._fail_queued(error, is_lost=not self.options.requeue)
        self.places.clear()
        self.pending = 0

    def _fail_queued(self, error: Any, is_lost: bool) -> None:
        self.seal()
        requests: list[Request] = [*self._again, *self._batches, *self._quota_batches]
        calls = list(self._calls)
        for queue in (self._again, self._batches, self._quota_batches, self._calls):
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
        return bool(self._open.keys or self._batches or self._again or self._calls
                    or self._quota_batches)

    @property
    def is_quiet(self) -> bool:
        """True when no call is pending."""
        connection = self.connection
        return (not self.pending and connection is not None and connection.is_idle
                and connection.takes_requests and not self.has_cleanup)

    @property
    def is_gathering(self) -> bool:
        """True when single acquires are in a batch that more may join."""
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
        if self.has_cleanup:
            self._add_cleanup()
        while (request := self._next_request(connection)) is not None:
            frame = self._encoded(connection, request)
            if frame is None:
                continue
            if not connection.fits(len(frame)):
                self._again.appendleft(request)
                break
            connection.send(request, frame)
            frames.append(frame)
        self.has_abandoned = self.has_abandoned and self.wants_to_send
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _add_cleanup(self) -> None:
        for target, entries in self._withdrawals.items():
            for start in range(0, len(entries), WITHDRAW_ENTRIES_MAX):
                self._again.append(Withdrawal(target, entries[start:start + WITHDRAW_ENTRIES_MAX]))
        self._withdrawals.clear()
        if self._unwanted_permits:
            keys, costs = zip(*self._unwanted_permits)
            self._unwanted_permits.clear()
            self.start(ReleaseCall(self, NullSink(), keys, costs))

        for start in range(0, len(self._unwanted_reservations), CALLS_MAX):
            self._again.append(Cancellation(self._unwanted_reservations[start:start + CALLS_MAX]))
        self._unwanted_reservations = []

    def _next_request(self, connection: Connection) -> Request | None:
        if self._again:
            return self._again.popleft()
        while connection.batches_out < BATCHES_OUT_MAX and (self._batches or self._open.keys):
            batch = self._next_batch()
            if batch is not None:
                return batch
        while connection.quota_batches_out < BATCHES_OUT_MAX and self._quota_batches:
            quotas = self._next_quota_batch()
            if quotas is not None:
                return quotas
        while self._calls:
            call = self._calls.popleft()
            call.is_queued = False
            if call.has_more:
                piece = call.next_piece(self.options.frame_entries)
                call.go_on()
                return piece
            call.go_on()
        return None

    def _next_batch(self) -> Batch | None:
        if not self._batches:
            self.seal()
        batch = self._batches.popleft()
        return batch.without_done() if self.has_abandoned else batch

    def _next_quota_batch(self) -> QuotaBatch | None:
        batch = self._quota_batches.popleft()
        if self._open_quotas.get(batch.form) is batch:
            del self._open_quotas[batch.form]
        return batch.without_done() if self.has_abandoned else batch

    def _encoded(self, connection: Connection, request: Request) -> bytes | None:
        """None when it cannot be sent: then it was split, or its sinks got the error."""
        assert connection.welcome is not None
        try:
            if request.entries <= connection.welcome.frame_entries_max:
                frame = connection.encode(request)
                if len(frame) <= connection.welcome.frame_bytes_max:
                    return frame
            self._again.extendleft(reversed(request.split()))
        except (TypeError, ValueError, struct.error, SluicegateError) as error:
            for rest in request.unfit(error):
                self._again.appendleft(rest)
        return None
