"""The client for asyncio: awaitable calls, any number of tasks on one connection.

Flow:   what a turn of the loop asks is sent together at its end; answers set futures.
Units:  seconds.
Errors: errors.py; a call ends with a result, an error or its time-out, whatever the server does.
Lives:  belongs to one event loop, asyncio's or uvloop's; connects at the first call, and again at
        the first call after a loss. It is not for a forked child.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import weakref
from asyncio import _get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, cast

from . import _frames
from ._base import DEFAULT, Key, KeyState, Timeout, listed, unless_denied
from ._calls import AcquireCall, Call, ForgetCall, HandleCall, Handles, InternCall, ReleaseCall
from ._core import Settings
from ._quota_aio import AsyncQuotaCalls
from ._quota_requests import Form, Outcome, QuotaEntry
from ._requests import Batch, Entry, Question
from ._sockets import keep_alive
from .errors import Closed, ConnectionLost, Overloaded, SluicegateError, TimedOut, Unreachable
from .verdict import Verdict, Verdicts

# Entries of several turns gather in one batch while the window is full; they share a time-out, so
# a batch gathers for no longer than this part of it.
GATHERING = 1 / 16


class AsyncClient(AsyncQuotaCalls):
    """Client for asyncio; see the README for what the options mean."""

    def __init__(self, address: str, *, timeout: float | None = 30.0,
                 on_failure: Literal["error", "open", "closed"] = "error", requeue: bool = False,
                 max_pending: int = 65_536, when_full: Literal["wait", "error"] = "wait",
                 window: int = 4, frame_entries: int = 1024, connect_timeout: float = 5.0,
                 backoff: tuple[float, float] = (0.05, 5.0), shard: int | None = None,
                 client_name: str = "sluicegate-python") -> None:
        super().__init__(address, Settings(client_name, shard, on_failure, requeue, max_pending,
                                           when_full, window, frame_entries, timeout,
                                           connect_timeout, backoff))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()
        self._transport: asyncio.Transport | None = None
        self._protocol: _Protocol | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._flush_is_due = False
        self._gathering_until = 0.0
        self._sealing: asyncio.TimerHandle | None = None
        self._room: deque[asyncio.Future[None]] = deque()  # those who wait for it
        self._core.on_batch = self._time_batch
        _CLIENTS.add(self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Every call that is outstanding ends with Closed. A closed client stays closed."""
        if self._core.is_closed:
            return
        self._core.close()
        self._make_room()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait([connecting])
        protocol, self._protocol, self._transport = self._protocol, None, None
        if protocol is not None:
            protocol.transport.abort()  # everybody was told: nothing is left to be sent
            await protocol.closed

    # --- what may be asked

    def acquire(self, key: Key, cost: int = 1, *, wait: bool = False,
                wait_limit: float | None = None, max_requests: int | None = None,
                max_requests_in_queue: int | None = None,
                timeout: Timeout = DEFAULT) -> Awaitable[Verdict]:
        """Asks for `cost` permits of one key. The Verdict is true when they were taken.

        What one turn of the loop asks goes out together at its end.
        """
        core = self._core
        if (core.is_closed or core.pending >= self._settings.max_pending or self._loop is None
                or _get_running_loop() is not self._loop):
            return self._acquire_when_possible(key, cost, wait, wait_limit, max_requests,
                                               max_requests_in_queue, timeout)
        if (cost == 1 and not wait and timeout is DEFAULT and wait_limit is None
                and max_requests is None and max_requests_in_queue is None):
            future: asyncio.Future[Verdict] = self._loop.create_future()
            core.ask(key, future)
            if not self._flush_is_due:
                self._flush_is_due = True
                self._loop.call_soon(self._flush)
            return future
        return self._acquire_special(
            key, self._entry(cost, wait, wait_limit, max_requests, max_requests_in_queue),
            self._seconds(timeout, wait, wait_limit))

    def _acquire_special(self, key: Key, entry: Entry | None,
                         timeout: float | None) -> asyncio.Future[Verdict]:
        """With options, or a time-out of its own."""
        assert self._loop is not None
        future: asyncio.Future[Verdict] = self._loop.create_future()
        self._core.ask(key, future, entry)
        self._flush_soon()
        waits = entry is not None and entry.may_wait
        if timeout is not None:
            timer = self._loop.call_later(timeout, self._time_out, future, timeout, not waits)
            future.add_done_callback(lambda _: timer.cancel())
        if waits:
            future.add_done_callback(self._given_up)
        return future

    async def _acquire_when_possible(self, key: Key, cost: int, wait: bool,
                                     wait_limit: float | None, max_requests: int | None,
                                     max_requests_in_queue: int | None,
                                     timeout: Timeout) -> Verdict:
        try:
            await self._admit(self._seconds(timeout, wait, wait_limit))
        except TimedOut:
            verdict = self._core.policy_verdict
            if wait or verdict is None:
                raise
            return verdict
        return await self.acquire(key, cost, wait=wait, wait_limit=wait_limit,
                                  max_requests=max_requests, timeout=timeout,
                                  max_requests_in_queue=max_requests_in_queue)

    async def acquire_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                           wait: bool = False, wait_limit: float | None = None,
                           max_requests: int | Sequence[int] | None = None,
                           max_requests_in_queue: int | Sequence[int] | None = None,
                           details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """Asks for every key by itself: some may be approved and others denied."""
        wanted = listed(keys)
        options = self._options(costs, wait, wait_limit, max_requests, max_requests_in_queue,
                                details)
        verdicts: Verdicts = await self._run_call(
            lambda sink: AcquireCall(self._core, sink, wanted, options),
            self._seconds(timeout, wait, wait_limit))
        return verdicts

    async def intern(self, keys: Iterable[Key], *, timeout: Timeout = DEFAULT) -> Handles:
        """Numbers for keys: an array('I'). Raises NotInterned when a key gets none."""
        wanted = listed(keys)
        handles: Handles = await self._run_call(
            lambda sink: InternCall(self._core, sink, wanted), self._seconds(timeout, False, None))
        return handles

    async def acquire_many_handles(self, handles: Any,
                                   costs: int | Sequence[int] | None = None, *,
                                   max_requests: int | Sequence[int] | None = None,
                                   max_requests_in_queue: int | Sequence[int] | None = None,
                                   details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """acquire_many() for keys that were interned: any buffer of their 32-bit numbers.

        Raises StaleHandles when they are not of the present connection.
        """
        data = _frames.handle_bytes(handles)
        options = self._options(costs, False, None, max_requests, max_requests_in_queue, details)
        generation = self._core.generation_of(handles)
        verdicts: Verdicts = await self._run_call(
            lambda sink: HandleCall(self._core, sink, data, generation, options),
            self._seconds(timeout, False, None))
        return verdicts

    async def forget(self, handles: Any, *, timeout: Timeout = DEFAULT) -> None:
        """Gives the numbers up. They must not be used again: other keys may get them."""
        data = _frames.handle_bytes(handles)
        generation = self._core.generation_of(handles)
        await self._run_call(lambda sink: ForgetCall(self._core, sink, data, generation),
                             self._seconds(timeout, False, None))

    async def release(self, key: Key, cost: int = 1, *, timeout: Timeout = DEFAULT) -> None:
        """Gives permits back, as after work that was never done."""
        await self.release_many([key], cost, timeout=timeout)

    async def release_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                           timeout: Timeout = DEFAULT) -> None:
        wanted = listed(keys)
        await self._run_call(lambda sink: ReleaseCall(self._core, sink, wanted, costs),
                             self._seconds(timeout, False, None))

    async def inspect(self, key: Key, *, timeout: Timeout = DEFAULT) -> KeyState | None:
        """What the server knows of a key; None if nothing."""
        state: KeyState | None = await self._run_question(self._inspection(key), timeout)
        return state

    async def inspect_all(self, *, timeout: Timeout = DEFAULT) -> AsyncIterator[KeyState]:
        """Every key, a page at a time: `timeout` is for each page."""
        cursor = 0
        while True:
            page, cursor = await self._run_question(self._page(cursor), timeout)
            for state in page:
                yield state
            if not cursor:
                return

    async def ping(self, *, timeout: Timeout = DEFAULT) -> None:
        await self._run_question(self._pinging, timeout)

    def _guard(self, function: Callable[..., Any], key_of: Callable[..., Key],
               options: dict[str, Any]) -> Callable[..., Any]:
        if not (inspect.iscoroutinefunction(function)
                or inspect.iscoroutinefunction(getattr(function, "__call__", None))):
            raise TypeError(f"{function!r:.80} is no coroutine function: Client.limited() is for "
                            "plain ones")

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            key = key_of(*args, **kwargs)
            unless_denied(key, await self.acquire(key, **options))
            return await function(*args, **kwargs)
        return guarded

    # --- a call's life

    async def _ask_quota(self, form: Form, entry: QuotaEntry, timeout: Timeout,
                         wait_limit: float | None) -> Any:
        seconds = self._seconds(timeout, form.may_wait, wait_limit)
        applies_policy = form.asks and not form.may_wait
        try:
            await self._admit(seconds)
        except TimedOut:
            if not applies_policy or self._core.policy_verdict is None:
                raise
            return self._core.policy_verdict
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        self._core.ask_quota(form, entry, future)
        try:
            return await self._answer(future, seconds, applies_policy, None)
        except BaseException:
            self._forgo(future)
            raise

    def _forgo(self, future: asyncio.Future[Any]) -> None:
        """Of a task that was cancelled, or whose time is over."""
        if not future.done() or future.cancelled() or future.exception() is not None:
            future.cancel()
            self._core.abandon(future)
        elif isinstance(future.result(), Outcome) and future.result().reservation:
            self._core.cancel_unwanted(future.result().reservation)  # told, but never heard
        self._flush_soon()

    async def _run_many(self, make: Callable[[Any], Call], timeout: float | None) -> Any:
        return await self._run_call(make, timeout)

    async def _run_call(self, make: Callable[[Any], Call], timeout: float | None) -> Any:
        self._stop_after_fork()
        future = asyncio.get_running_loop().create_future()
        call = make(future)
        applies_policy = call.applies_policy and not call.may_wait
        try:
            await self._admit(timeout)
        except TimedOut:
            verdict = self._core.policy_verdict
            if not applies_policy or verdict is None:
                raise
            return call.decided_by_policy(verdict)
        self._core.start(call)
        try:
            return await self._answer(future, timeout, applies_policy, call)
        finally:
            if not call.is_settled:  # timed out or cancelled
                call.withdraw()
                self._flush_soon()

    async def _run_question(self, make: Callable[[Any], Question], timeout: Timeout) -> Any:
        seconds = self._seconds(timeout, False, None)
        await self._admit(seconds)
        assert self._loop is not None
        future = self._loop.create_future()
        self._core.ask_question(make(future))
        return await self._answer(future, seconds, False, None)

    async def _answer(self, future: asyncio.Future[Any], timeout: float | None,
                      applies_policy: bool, call: Call | None) -> Any:
        self._flush_soon()
        if timeout is None:
            return await future
        assert self._loop is not None
        timer = self._loop.call_later(timeout, self._time_out, future, timeout, applies_policy,
                                      call)
        try:
            return await future
        finally:
            timer.cancel()

    async def _admit(self, timeout: float | None) -> None:
        """Waits for room among the pending calls; the loop is known from here on."""
        self._stop_after_fork()
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._belong_to(loop)
        while not self._has_room():
            if self._settings.when_full == "error":
                raise Overloaded(f"{self._core.pending} calls are pending (max_pending)")
            waiter: asyncio.Future[None] = loop.create_future()
            self._room.append(waiter)
            try:
                await asyncio.wait_for(waiter, timeout)
            except asyncio.TimeoutError:
                raise TimedOut(f"no room among {self._core.pending} pending calls in time"
                               ) from None
        if self._core.is_closed:
            raise Closed("the client is closed")

    def _has_room(self) -> bool:
        if self._core.is_full:
            self._core.drop_abandoned()
        return not self._core.is_full or self._core.is_closed

    def _stop_after_fork(self) -> None:
        if self._process != os.getpid():
            raise SluicegateError("this AsyncClient was made before the fork: make one in each "
                                  "process")

    def _end_in_child(self) -> None:
        """The connection is the parent's: nothing may be written there, nor closed."""
        self._core.is_closed = True
        self._loop = self._transport = self._protocol = None

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None:
            raise SluicegateError("this AsyncClient belongs to another event loop: make one in "
                                  "each loop")
        self._loop = loop

    def _make_room(self) -> None:
        if not self._room or not self._has_room():
            return
        free = self._settings.max_pending - self._core.pending
        while self._room and (free > 0 or self._core.is_closed):
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

    # --- time-outs

    def _time_batch(self, batch: Batch) -> None:
        """One timer for all of a batch."""
        timeout = self._settings.timeout
        if timeout is None or self._loop is None:
            return
        self._gathering_until = self._loop.time() + timeout * GATHERING
        timer = self._loop.call_later(timeout * (1 + GATHERING), self._time_out_batch, batch,
                                      timeout)
        batch.on_answer = timer.cancel

    def _seal(self) -> None:
        """One timer for all batches: most are sent before it is over."""
        self._sealing = None
        if self._core.is_gathering and self._settings.timeout is not None:
            assert self._loop is not None
            if self._loop.time() >= self._gathering_until:
                self._core.seal()
            else:
                self._sealing = self._loop.call_at(self._gathering_until, self._seal)

    def _time_out_batch(self, batch: Batch, timeout: float) -> None:
        if self._core.is_open(batch):
            self._core.seal()  # the loop was held up: nobody joins it any more
        for position, sink in enumerate(batch.sinks):
            if position not in batch.extras:  # those have timers of their own
                self._time_out(sink, timeout, True)

    def _time_out(self, future: asyncio.Future[Any], timeout: float, applies_policy: bool,
                  call: Call | None = None) -> None:
        if future.done():
            return
        verdict = self._core.policy_verdict if applies_policy else None
        if verdict is None:
            future.set_exception(TimedOut(f"no answer within {timeout} s"))
        else:
            future.set_result(verdict if call is None else call.decided_by_policy(verdict))
        self._core.has_abandoned = True
        self._make_room()

    def _given_up(self, future: asyncio.Future[Any]) -> None:
        """A wait that ended by itself has no place any more; a cancelled one leaves the line."""
        if future in self._core.places:
            self._core.abandon(future)
            self._flush_soon()

    # --- the connection

    def _flush_soon(self) -> None:
        if not self._flush_is_due and self._loop is not None:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        core = self._core
        if self._transport is None:
            if core.wants_to_send and self._connecting is None and not core.is_closed:
                self._connect_or_fail()
            return
        frames = core.output()
        if frames:
            self._transport.write(frames)
        if self._sealing is None and core.is_gathering:
            self._seal()

    def _connect_or_fail(self) -> None:
        assert self._loop is not None
        now = self._loop.time()
        if self._core.may_connect(now) or self._settings.requeue:
            self._connecting = self._loop.create_task(self._connect())
        else:
            self._core.fail_queued(self._core.unreachable(now))
            self._make_room()

    async def _connect(self) -> None:
        assert self._loop is not None
        await asyncio.sleep(max(0.0, self._core.backoff.not_before - self._loop.time()))
        error: ConnectionLost
        try:
            await asyncio.wait_for(self._introduce(), self._settings.connect_timeout)
            self._connecting = None
            self._flush()
            return
        except asyncio.TimeoutError:
            error = Unreachable(f"{self.address}: no Welcome within "
                                f"{self._settings.connect_timeout} s")
        except ConnectionLost as lost:
            error = type(lost)(f"{self.address}: {lost}")
            error.__cause__ = lost
        except Exception as cause:  # as UnicodeError of a host's name
            error = Unreachable(f"{self.address}: {cause}")
            error.__cause__ = cause
        self._connecting = None
        self._core.disconnected(error, self._loop.time())
        self._core.fail_queued(error)
        self._make_room()
        self._flush_soon()  # with requeue, what is queued tries again

    async def _introduce(self) -> None:
        """Hello and Welcome; the connection becomes the client's when that is done."""
        assert self._loop is not None
        transport, protocol = await self._loop.create_connection(
            lambda: _Protocol(self), self._host, self._port)
        try:
            opened = transport.get_extra_info("socket")
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(opened)
            transport.write(self._core.connecting())
            await protocol.welcomed
            if protocol.error is not None:
                raise protocol.error
        except BaseException:
            transport.abort()
            raise
        self._transport, self._protocol = transport, protocol

    def _received(self, data: bytes) -> None:
        """By the protocol; raises ConnectionLost when the connection is of no use any more."""
        self._core.receive(data)
        if self._core.wants_to_send or self._core.has_chores:
            self._flush()
        if self._room:
            self._make_room()

    def _lost(self, protocol: _Protocol, error: ConnectionLost) -> None:
        if protocol is not self._protocol:
            return
        assert self._loop is not None
        self._transport = self._protocol = None
        self._core.disconnected(error, self._loop.time())
        self._make_room()
        self._flush_soon()


class _Protocol(asyncio.Protocol):
    """The bytes of one connection."""

    transport: asyncio.Transport

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        loop = asyncio.get_running_loop()
        self.welcomed: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.error: ConnectionLost | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        if self.error is not None or self._client._core.is_closed:
            return
        try:
            self._client._received(data)
        except ConnectionLost as error:
            self._end(error)
            self.transport.abort()
            return
        if not self.welcomed.done() and self._client.welcome is not None:
            self.welcomed.set_result(None)

    def connection_lost(self, cause: Exception | None) -> None:
        self._end(ConnectionLost("the server closed the connection" if cause is None
                                 else f"the connection broke: {cause}"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _end(self, error: ConnectionLost) -> None:
        if self.error is not None:
            return
        self.error = error
        if not self.welcomed.done():
            self.welcomed.set_exception(error)
        self._client._lost(self, error)


_CLIENTS: weakref.WeakSet[AsyncClient] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._end_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
