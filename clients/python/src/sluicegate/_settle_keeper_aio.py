"""Delivers the asyncio client's kept settles (_kept_settles.py), by a task that lives as long as
there are some.

Flow:   keep() -> the task -> a batch of settles or records -> the book.
Units:  seconds.
Lives:  the task keeps the client alive; the end of its loop ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from ._kept_settles import CLOSE_POLL_S, KeptSettle, KeptSettles, SettleCounts, calls_of
from ._log import write_lines
from .errors import Closed, SluicegateError

if TYPE_CHECKING:
    from ._quota_aio import AsyncQuotaCalls


class AsyncSettleKeeper:
    def __init__(self, client: AsyncQuotaCalls) -> None:
        self._client = client
        self._book = KeptSettles(client._settings.kept_settles_max, client._settings.backoff)
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def counts(self) -> SettleCounts:
        return self._book.counts

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    def keep(self, settle: KeptSettle, why: object = None) -> bool:
        """False: there is no room, or the client is closed. `why`: an attempt failed already."""
        loop = self._loop()
        if self._closing.is_set() or not self._book.keep(settle):
            return False
        if why is not None:
            self._book.warn(why)
        self._start(loop)
        write_lines(self._book.take_lines())
        return True

    def lose(self, name: str, why: object) -> None:
        """Of a settle that could not be kept, and nobody else reports."""
        self._book.lose(name, why)
        write_lines(self._book.take_lines())

    async def flush(self, timeout: float | None) -> bool:
        """Waits until nothing is kept; False: not in time."""
        loop = self._loop()
        end = None if timeout is None else loop.time() + timeout
        while self._book.counts.kept:
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                return False
            await asyncio.wait([self._start(loop)], timeout=left)
        return True

    async def close(self, timeout: float) -> None:
        """Gives what is kept a last chance. The caller then closes the client."""
        self._closing.set()
        try:
            await self.flush(timeout)
        finally:
            if self._task is not None:
                self._task.cancel()
            self._book.give_up()
            write_lines(self._book.take_lines())

    def _loop(self) -> asyncio.AbstractEventLoop:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None or self._client._loop not in (None, loop):
            raise SluicegateError("an AsyncClient settles in its own event loop only")
        return loop

    def _start(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        return self._task

    async def _run(self) -> None:
        try:
            while (calls := await self._next_calls()) and await self._attempt(calls):
                pass
        except asyncio.CancelledError:
            kept = self._book.counts.kept
            if kept and not self._closing.is_set():
                write_lines([(logging.WARNING, f"{kept} settles are kept, and the task that "
                              "repeats them was cancelled: the next settle or close() goes on")])
            raise

    async def _next_calls(self) -> list[KeptSettle]:
        pause = self._book.pause(self._client._monotonic()) if self._book.counts.kept else 0.0
        if pause and self._closing.is_set():  # which no pause may outlast
            await asyncio.sleep(min(pause, CLOSE_POLL_S))
        elif pause:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause)
        while True:
            calls = self._book.next_calls(self._client._monotonic())
            lines = self._book.take_lines()
            if not lines or calls:
                break
            write_lines(lines)  # a handler may keep another settle
        write_lines(lines)
        return calls

    async def _attempt(self, calls: list[KeptSettle]) -> bool:
        """False: the client is closed."""
        client = self._client
        try:
            results = await client._many(calls_of(calls), self._book.attempt_s)
        except Closed:
            return False
        except SluicegateError as error:
            self._book.failed(calls, error, client._monotonic(), client._server_start)
        else:
            self._book.answered(calls, results, client._monotonic(), client._server_start)
        write_lines(self._book.take_lines())
        return True
