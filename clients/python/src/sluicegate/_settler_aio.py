"""Delivers the asyncio client's kept settles (_kept_settles.py), by a task that lives as long as
there are some.

Flow:   keep() -> the task -> a batch of settles or records -> the book.
Units:  seconds.
Lives:  the task keeps the client alive; the end of its loop ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ._kept_settles import (CLOSE_POLL_S, KeptSettle, KeptSettles, SettleCounts,
                            calls_of, log_kept, log_losses)
from .errors import Closed, SluicegateError

if TYPE_CHECKING:
    from ._quota_aio import AsyncQuotaCalls


class AsyncSettler:
    def __init__(self, client: AsyncQuotaCalls) -> None:
        self._client = client
        self._book = KeptSettles(client._settings.kept_settles_max, client._settings.backoff)
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def counts(self) -> SettleCounts:
        return self._book.counts

    def keep(self, settle: KeptSettle, why: object = None) -> bool:
        """False: there is no room, or the client is closed. `why`: what the server did not do."""
        if self._closing.is_set() or not self._book.keep(settle):
            return False
        if self._task is None:
            if why is not None:
                log_kept(settle, why)
            self._task = asyncio.get_running_loop().create_task(self._run())
        return True

    async def close(self, timeout: float) -> None:
        """Gives what is kept a last chance. The caller then closes the client."""
        self._closing.set()
        task = self._task
        if task is not None:
            await asyncio.wait([task], timeout=timeout)
            task.cancel()
        self._book.give_up()
        log_losses(self._book.take_losses())

    async def _run(self) -> None:
        try:
            while (calls := await self._next_calls()) and await self._attempt(calls):
                pass
        finally:
            self._task = None

    async def _next_calls(self) -> list[KeptSettle]:
        now = self._client._monotonic()
        calls, losses = self._book.next_calls(now), self._book.take_losses()
        log_losses(losses)
        pause = self._book.pause(now)
        if calls and pause:
            if self._closing.is_set():  # which no pause may outlast
                await asyncio.sleep(min(pause, CLOSE_POLL_S))
            else:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), pause)
        return calls

    async def _attempt(self, calls: list[KeptSettle]) -> bool:
        """False: the client is closed."""
        client = self._client
        try:
            results = await client._many(calls_of(calls), self._book.attempt_s)
        except Closed:
            return False
        except SluicegateError as error:
            self._book.failed(calls, error, client._monotonic())
        else:
            self._book.answered(calls, results, client._monotonic())
        return True
