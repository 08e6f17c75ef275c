"""The client for asyncio: awaitable calls, any number of tasks on one connection.

Flow:   the calls of one loop iteration are sent together at its end (_link_aio.py); answers set
        futures (_caller_aio.py).
Units:  seconds.
Errors: errors.py; a call ends with a result, an error or its time-out, whatever the server does.
Lives:  belongs to one event loop, asyncio's or uvloop's; connects at the first call, and again at
        the first call after a loss. It is not for a forked child.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import weakref
from asyncio import _get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, overload

from . import _frames
from ._base import DEFAULT, Key, KeyState, Timeout, listed, unless_denied, with_details
from ._bounds import RELEASED_COST
from ._calls import AcquireCall, ForgetCall, HandleCall, Handles, InternCall, ReleaseCall
from ._dispatcher import Settings
from ._invalid import whole
from ._kept_settles import report_kept
from ._node_lanes_aio import AsyncNodeLanes
from ._node_quotas_aio import AsyncNodeQuotas
from ._quota_aio import AsyncQuotaCalls
from ._requests import AcquireOptions
from .errors import InvalidType, TimedOut
from .verdict import KeyOutcome, Verdict, Verdicts


class AsyncClient(AsyncQuotaCalls):
    """Client for asyncio; the README explains the options."""

    _lanes: AsyncNodeLanes | None = None  # None: of a single address

    def __init__(self, address: str | Sequence[str], *, timeout: float | None = 30.0,
                 on_failure: Literal["error", "open", "closed"] = "error", requeue: bool = False,
                 pending_max: int = 65_536, when_full: Literal["block", "refuse"] = "block",
                 window: int = 4, frame_entries_max: int = 1024, connect_timeout: float = 5.0,
                 backoff: tuple[float, float] = (0.05, 5.0), shard: int | None = None,
                 kept_settles_max: int = 65_536, settle_timeout: float = 5.0,
                 client_name: str = "sluicegate-python") -> None:
        super().__init__(address, Settings(client_name, shard, on_failure, requeue, pending_max,
                                           when_full, window, frame_entries_max, timeout,
                                           connect_timeout, backoff,
                                           kept_settles_max=kept_settles_max,
                                           settle_timeout=settle_timeout))
        if self._learns_nodes:
            self._lanes = AsyncNodeLanes(self)
            self._node_quotas = AsyncNodeQuotas(self, self._lanes)
        _CLIENTS.add(self)

    def _lane_client(self, host: str, port: int) -> AsyncClient:
        """For one node. It does not know the failure policy of losses, which home may answer."""
        settings = self._settings._replace(on_failure="error", requeue=False, shard=None)
        lane = AsyncClient.__new__(AsyncClient)
        AsyncQuotaCalls.__init__(lane, f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                                 settings)
        lane._dispatcher.late_verdict = self._dispatcher.late_verdict
        _CLIENTS.add(lane)
        return lane

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every outstanding call with Closed. A closed client stays closed.

        Where settles are kept, the client first tries to deliver them, for `settle_timeout`.
        """
        try:
            await self._settle_keeper.close(self._settings.settle_timeout)
        finally:
            if not self._dispatcher.is_closed:
                self._dispatcher.close()
                self._make_room()
                await self._disconnect()
            if self._lanes is not None:
                await self._lanes.close()

    # --- calls

    @overload
    def acquire(self, key: Key, cost: int = 1, *, wait: bool = ..., wait_limit: float | None = ...,
                max_requests: int | None = ..., max_requests_in_queue: int | None = ...,
                window: float | None = ..., details: Literal[False] = False,
                timeout: Timeout = ...) -> Awaitable[Verdict]: ...
    @overload
    def acquire(self, key: Key, cost: int = 1, *, wait: bool = ..., wait_limit: float | None = ...,
                max_requests: int | None = ..., max_requests_in_queue: int | None = ...,
                window: float | None = ..., details: Literal[True],
                timeout: Timeout = ...) -> Awaitable[KeyOutcome]: ...
    def acquire(self, key: Key, cost: int = 1, *, wait: bool = False,
                wait_limit: float | None = None, max_requests: int | None = None,
                max_requests_in_queue: int | None = None, window: float | None = None,
                details: bool = False,
                timeout: Timeout = DEFAULT) -> Awaitable[Verdict] | Awaitable[KeyOutcome]:
        """Acquires `cost` permits of one key. The Verdict is true when the server approved them.

        `max_requests`, `max_requests_in_queue` and `window` set the key's limit, queue length
        and window from now on, for all callers: max_requests=5, window=60 is 5 a minute.
        With details=True the result is a KeyOutcome: the Verdict, what remains of the limit, and
        when to try again. The calls of one loop iteration are sent together at its end.
        """
        answer: Awaitable[Verdict]
        if self._lanes is not None and (lane := self._lanes.lane_of(key)) is not None:
            answer = self._lanes.acquire(lane, key, wait, (
                cost, wait, wait_limit, max_requests, max_requests_in_queue, window, timeout,
                details))
        elif details:
            answer = self._acquire_here(key, cost, wait, wait_limit, max_requests,
                                        max_requests_in_queue, window, timeout, details)
        else:  # hundreds of thousands a second: without one more argument
            return self._acquire_here(key, cost, wait, wait_limit, max_requests,
                                      max_requests_in_queue, window, timeout)
        return awaited_with_details(answer) if details else answer

    def _acquire_here(self, key: Key, cost: int, wait: bool, wait_limit: float | None,
                      max_requests: int | None, max_requests_in_queue: int | None,
                      window: float | None, timeout: Timeout,
                      details: bool = False) -> Awaitable[Verdict]:
        dispatcher = self._dispatcher
        if (dispatcher.is_closed or dispatcher.pending >= self._settings.pending_max
                or self._loop is None or _get_running_loop() is not self._loop):
            return self._acquire_when_possible(key, cost, wait, wait_limit, max_requests,
                                               max_requests_in_queue, window, timeout, details)
        if (cost == 1 and not wait and timeout is DEFAULT and wait_limit is None
                and max_requests is None and max_requests_in_queue is None and window is None
                and not details):
            future: asyncio.Future[Verdict] = self._loop.create_future()
            dispatcher.submit_acquire(key, future)
            if not self._flush_is_due:
                self._flush_is_due = True
                self._loop.call_soon(self._flush)
            return future
        return self._acquire_with_options(
            key, self._acquire_options(cost, wait, wait_limit, max_requests, max_requests_in_queue,
                                       window, details),
            self._seconds(timeout, wait, wait_limit))

    def _acquire_with_options(self, key: Key, options: AcquireOptions | None,
                              timeout: float | None,
                              end: float | None = None) -> asyncio.Future[Verdict]:
        """An acquire with other options than the defaults, or with its own time-out.

        `end`: when the time-out ends, if it has begun already.
        """
        assert self._loop is not None
        future: asyncio.Future[Verdict] = self._loop.create_future()
        self._dispatcher.submit_acquire(key, future, options)
        self._flush_soon()
        self._own_timers.add(future)
        future.add_done_callback(self._own_timers.discard)
        waits = options is not None and options.may_wait
        if timeout is not None:
            if end is None:
                end = self._loop.time() + timeout
            timer = self._loop.call_at(end, self._time_out, future, timeout, not waits)
            future.add_done_callback(lambda _: timer.cancel())
        if waits:
            future.add_done_callback(self._withdraw_if_waiting)
        return future

    async def _acquire_when_possible(self, key: Key, cost: int, wait: bool,
                                     wait_limit: float | None, max_requests: int | None,
                                     max_requests_in_queue: int | None, window: float | None,
                                     timeout: Timeout, details: bool) -> Verdict:
        seconds = self._seconds(timeout, wait, wait_limit)
        options = self._acquire_options(cost, wait, wait_limit, max_requests,
                                        max_requests_in_queue, window, details)
        try:
            end = await self._wait_for_room(seconds)
        except TimedOut:
            verdict = self._dispatcher.late_verdict
            if wait or verdict is None:
                raise
            return verdict
        return await self._acquire_with_options(key, options, seconds, end)

    async def acquire_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                           wait: bool = False, wait_limit: float | None = None,
                           max_requests: int | Sequence[int] | None = None,
                           max_requests_in_queue: int | Sequence[int] | None = None,
                           window: float | Sequence[float] | None = None,
                           details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """Acquires each key independently: some may be approved and others denied.

        A list has a value for each key, a number holds for all. As with acquire(), a key keeps
        its `max_requests`, `max_requests_in_queue` and `window`.
        """
        wanted = listed(keys)
        options = self._batch_options(costs, wait, wait_limit, max_requests, max_requests_in_queue,
                                      window, details)
        seconds = self._seconds(timeout, wait, wait_limit)
        if self._lanes is not None:
            return await self._lanes.acquire_many(wanted, options, seconds)
        verdicts: Verdicts = await self._run_batch(
            lambda completion: AcquireCall(self._dispatcher, completion, wanted, options), seconds)
        return verdicts

    async def intern(self, keys: Iterable[Key], *, timeout: Timeout = DEFAULT) -> Handles:
        """Handles for keys: an array('I'). Raises NotInterned when a key gets none."""
        wanted = listed(keys)
        handles: Handles = await self._run_batch(
            lambda completion: InternCall(self._dispatcher, completion, wanted),
            self._seconds(timeout, False, None))
        return handles

    async def acquire_many_handles(self, handles: Any,
                                   costs: int | Sequence[int] | None = None, *,
                                   max_requests: int | Sequence[int] | None = None,
                                   max_requests_in_queue: int | Sequence[int] | None = None,
                                   window: float | Sequence[float] | None = None,
                                   details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """acquire_many() for interned keys: `handles` is any buffer of their 32-bit handles.

        Raises StaleHandles when they are not of the current connection.
        """
        data = _frames.handle_bytes(handles)
        options = self._batch_options(costs, False, None, max_requests, max_requests_in_queue,
                                      window, details)
        seconds = self._seconds(timeout, False, None)
        generation = self._dispatcher.generation_of(handles)
        verdicts: Verdicts = await self._run_batch(
            lambda completion: HandleCall(self._dispatcher, completion, data, generation, options),
            seconds)
        return verdicts

    async def forget(self, handles: Any, *, timeout: Timeout = DEFAULT) -> None:
        """Frees the handles. They must not be used again: other keys may get them."""
        data = _frames.handle_bytes(handles)
        generation = self._dispatcher.generation_of(handles)
        await self._run_batch(
            lambda completion: ForgetCall(self._dispatcher, completion, data, generation),
            self._seconds(timeout, False, None))

    async def release(self, key: Key, cost: int = 1, *, timeout: Timeout = DEFAULT) -> None:
        """Releases permits, for example after work that was never done."""
        await self.release_many([key], whole(RELEASED_COST, cost), timeout=timeout)

    async def release_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                           timeout: Timeout = DEFAULT) -> None:
        wanted, seconds = listed(keys), self._seconds(timeout, False, None)
        if self._lanes is not None:
            await self._lanes.release_many(wanted, costs, seconds)
            return
        await self._run_batch(
            lambda completion: ReleaseCall(self._dispatcher, completion, wanted, costs), seconds)

    async def reset_key(self, key: Key, *, timeout: Timeout = DEFAULT) -> None:
        """Releases all permits of the key's window. Its limits and the window's end stay."""
        await self.release(key, RELEASED_COST.most, timeout=timeout)

    async def inspect(self, key: Key, *, timeout: Timeout = DEFAULT) -> KeyState | None:
        """The state of a key; None when the server does not know it.

        Of several nodes only the owner knows it: raises Unreachable while that is not connected.
        """
        request = self._inspect_request(key)
        state: KeyState | None
        if self._lanes is None:
            state = await self._run_control(request, timeout)
        else:
            state = await self._lanes.ask_owner(
                key, lambda client, left: client._run_control(client._inspect_request(key), left),
                self._seconds(timeout, False, None))
        return state

    async def inspect_all(self, *, timeout: Timeout = DEFAULT) -> AsyncIterator[KeyState]:
        """All keys, a page at a time: `timeout` applies to each page."""
        cursor = 0
        while True:
            page, cursor = await self._run_control(self._inspect_page_request(cursor), timeout)
            for state in page:
                yield state
            if not cursor:
                return

    async def ping(self, *, timeout: Timeout = DEFAULT) -> None:
        await self._run_control(self._ping_request, timeout)

    def _guard(self, function: Callable[..., Any], key_of: Callable[..., Key],
               options: dict[str, Any]) -> Callable[..., Any]:
        if not (inspect.iscoroutinefunction(function)
                or inspect.iscoroutinefunction(getattr(function, "__call__", None))):
            raise InvalidType(f"{function!r:.80} is no coroutine function: Client.limited() is for "
                              "plain ones")

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            key = key_of(*args, **kwargs)
            unless_denied(key, await self.acquire(key, details=True, **options))
            return await function(*args, **kwargs)
        return guarded


async def awaited_with_details(answer: Awaitable[Verdict | KeyOutcome]) -> KeyOutcome:
    return with_details(await answer)


_CLIENTS: weakref.WeakSet[AsyncClient] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._end_in_child()


atexit.register(report_kept, _CLIENTS)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
