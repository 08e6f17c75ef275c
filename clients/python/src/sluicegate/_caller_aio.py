"""The stages of an awaited call: wait for room, queue, wait for the answer or the time-out.

Flow:   _run_batch(), _run_control(), _run_quota_call(): what aio.py and _quota_aio.py call. aio.py
        itself queues single acquires; those gathered in one frame share a timer.
Units:  seconds.
Errors: a call ends with a result, an error or its time-out, whatever the server does. When its task
        is cancelled, its queued entries are withdrawn, and late grants released or cancelled.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ._base import Timeout
from ._calls import BatchCall
from ._dispatcher import Settings
from ._link_aio import AsyncLink
from ._quota_requests import Outcome, QuotaEntry, QuotaTerms
from ._requests import ControlRequest, GatheredAcquires, SharedTimer
from .errors import Closed, Overloaded, SluicegateError, TimedOut

# Acquires of several loop iterations gather in one frame while two frames are outstanding. They
# share a timer, so a frame accepts entries for no longer than this part of the time-out.
GATHERING = 1 / 16
# A cancelled acquire is not noticed at once, so a full client looks for them every so often.
SEEK_CANCELLED_S = 0.05


class AsyncCaller(AsyncLink):
    """Runs calls; an answer sets the future of its call."""

    def __init__(self, address: str | Sequence[str], settings: Settings,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(address, settings, monotonic)
        self._process = os.getpid()
        self._gathering_until = 0.0
        self._sought_cancelled = 0.0
        self._own_timers: set[asyncio.Future[Any]] = set()  # acquires that do not share one
        self._room: deque[asyncio.Future[None]] = deque()  # of the callers that wait for room
        self._dispatcher.on_gathering = self._start_shared_timer

    async def _run_control(self, make: Callable[[Any], ControlRequest], timeout: Timeout) -> Any:
        seconds = self._seconds(timeout, False, None)
        end = await self._wait_for_room(seconds)
        assert self._loop is not None
        future = self._loop.create_future()
        self._dispatcher.submit_control(make(future))
        return await self._answer(future, seconds, end, False, None)

    async def _run_quota_call(self, terms: QuotaTerms, entry: QuotaEntry,
                              timeout: float | None) -> Any:
        applies_policy = terms.needs_admission and not terms.may_wait
        try:
            end = await self._wait_for_room(timeout)
        except TimedOut:
            if not applies_policy or self._dispatcher.late_verdict is None:
                raise
            return self._dispatcher.late_verdict
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        self._dispatcher.submit_quota_call(terms, entry, future)
        try:
            return await self._answer(future, timeout, end, applies_policy, None)
        except BaseException:
            self._cancel_unwanted(future)
            raise

    def _cancel_unwanted(self, future: asyncio.Future[Any]) -> None:
        """For a task that was cancelled, or whose call timed out."""
        if not future.done() or future.cancelled() or future.exception() is not None:
            future.cancel()
            self._dispatcher.abandon(future)
        elif isinstance(future.result(), Outcome) and future.result().reservation:
            self._dispatcher.cancel_unwanted(future.result().reservation)  # not delivered
        self._flush_soon()

    async def _run_batch(self, make: Callable[[Any], BatchCall], timeout: float | None) -> Any:
        self._stop_after_fork()
        future = asyncio.get_running_loop().create_future()
        call = make(future)
        applies_policy = call.applies_policy and not call.may_wait
        try:
            end = await self._wait_for_room(timeout)
        except TimedOut:
            verdict = self._dispatcher.late_verdict
            if not applies_policy or verdict is None:
                raise
            return call.policy_result(verdict)
        self._dispatcher.start(call)
        try:
            return await self._answer(future, timeout, end, applies_policy, call)
        except asyncio.CancelledError:
            call.discard()
            raise
        finally:
            if not call.is_complete:  # timed out or cancelled
                call.withdraw()
            self._flush_soon()

    async def _answer(self, future: asyncio.Future[Any], timeout: float | None, end: float | None,
                      applies_policy: bool, call: BatchCall | None) -> Any:
        self._flush_soon()
        if timeout is None or end is None:
            return await future
        assert self._loop is not None
        timer = self._loop.call_at(end, self._time_out, future, timeout, applies_policy, call)
        try:
            return await future
        finally:
            timer.cancel()

    # --- room

    async def _wait_for_room(self, timeout: float | None) -> float | None:
        """Waits for room among the pending calls; the loop is known from here on.

        Returns when the call's time-out ends, which includes this wait.
        """
        self._stop_after_fork()
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._belong_to(loop)
        end = None if timeout is None else loop.time() + timeout
        while not self._has_room():
            if self._settings.when_full == "refuse":
                raise Overloaded(f"{self._dispatcher.pending} calls are pending (pending_max)")
            waiter: asyncio.Future[None] = loop.create_future()
            self._room.append(waiter)
            try:
                await asyncio.wait_for(waiter, None if end is None else end - loop.time())
            except asyncio.TimeoutError:
                raise TimedOut(f"no room among {self._dispatcher.pending} pending calls in time"
                               ) from None
        if self._dispatcher.is_closed:
            raise Closed("the client is closed")
        return end

    def _has_room(self) -> bool:
        if self._dispatcher.is_full:
            assert self._loop is not None
            if self._loop.time() - self._sought_cancelled >= SEEK_CANCELLED_S:
                self._sought_cancelled = self._loop.time()
                self._dispatcher.has_abandoned = True
            self._dispatcher.drop_abandoned()
        return not self._dispatcher.is_full or self._dispatcher.is_closed

    def _make_room(self) -> None:
        if not self._room or not self._has_room():
            return
        free = self._settings.pending_max - self._dispatcher.pending
        while self._room and (free > 0 or self._dispatcher.is_closed):
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

    def _stop_after_fork(self) -> None:
        if self._process != os.getpid():
            raise SluicegateError("this AsyncClient was made before the fork: make one in each "
                                  "process")

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None:
            raise SluicegateError("this AsyncClient belongs to another event loop: make one in "
                                  "each loop")
        self._loop = loop

    # --- time-outs

    def _time_out(self, future: asyncio.Future[Any], timeout: float, applies_policy: bool,
                  call: BatchCall | None = None) -> None:
        if future.done():
            return
        verdict = self._dispatcher.late_verdict if applies_policy else None
        if verdict is None:
            future.set_exception(TimedOut(f"no answer within {timeout} s"))
        else:
            future.set_result(verdict if call is None else call.policy_result(verdict))
        self._dispatcher.has_abandoned = True
        self._make_room()

    def _withdraw_if_waiting(self, future: asyncio.Future[Any]) -> None:
        """Withdraws a cancelled wait; one that ended normally is no waiting entry any more."""
        if future in self._dispatcher.waiting_entries:
            self._dispatcher.abandon(future)
            self._flush_soon()

    def _start_shared_timer(self, gathered: GatheredAcquires) -> None:
        """One timer for all entries with the default options."""
        timeout = self._settings.timeout
        if timeout is None or self._loop is None:
            return
        self._gathering_until = self._loop.time() + timeout * GATHERING
        timer = self._loop.call_later(timeout * (1 + GATHERING), self._time_out_gathered, gathered,
                                      timeout)
        gathered.timer = SharedTimer(timer.cancel)

    def _seal(self) -> None:
        """Ends the gathering when it is due. One timer for all frames: most are sent before."""
        self._sealing = None
        if self._dispatcher.is_gathering and self._settings.timeout is not None:
            assert self._loop is not None
            if self._loop.time() >= self._gathering_until:
                self._dispatcher.seal()
            else:
                self._sealing = self._loop.call_at(self._gathering_until, self._seal)

    def _time_out_gathered(self, gathered: GatheredAcquires, timeout: float) -> None:
        if self._dispatcher.is_open(gathered):
            self._dispatcher.seal()  # the loop was blocked: it must accept no further entry
        for completion in gathered.completions:
            if completion not in self._own_timers:
                self._time_out(completion, timeout, True)
