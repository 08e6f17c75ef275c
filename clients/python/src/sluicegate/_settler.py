"""Delivers the blocking client's kept settles (_kept_settles.py), by a thread that lives as long as
there are some.

Flow:   keep() -> the thread -> a batch of settles or records -> the book.
Units:  seconds.
Lives:  the thread keeps the client alive; the end of the process ends it. A forked child starts
        with an empty book: its parent delivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._kept_settles import (CLOSE_POLL_S, KeptSettle, KeptSettles, SettleCounts,
                            calls_of, log_kept, log_losses)
from .errors import Closed, SluicegateError

if TYPE_CHECKING:
    from ._quota_client import QuotaCalls


class Settler:
    def __init__(self, client: QuotaCalls) -> None:
        self._client = client
        self._lock = client._system.lock()
        self._closing = client._system.event()
        self._book = KeptSettles(client._settings.kept_settles_max, client._settings.backoff)
        self._is_running = False  # the thread is

    @property
    def counts(self) -> SettleCounts:
        with self._lock:
            return self._book.counts

    def keep(self, settle: KeptSettle, why: object = None) -> bool:
        """False: there is no room, or the client is closed. `why`: what the server did not do."""
        with self._lock:
            if self._closing.is_set() or not self._book.keep(settle):
                return False
            starts, self._is_running = not self._is_running, True
        if starts:
            if why is not None:
                log_kept(settle, why)
            self._client._system.start_thread("sluicegate-settles", self._run)
        return True

    def close(self, timeout: float) -> None:
        """Gives what is kept a last chance. The caller then closes the client."""
        end = self._client._monotonic() + timeout
        self._closing.set()
        while self._runs() and self._client._monotonic() < end:
            self._client._system.sleep(CLOSE_POLL_S)
        with self._lock:
            self._book.give_up()
            losses = self._book.take_losses()
        log_losses(losses)

    def _runs(self) -> bool:
        with self._lock:
            return self._is_running

    def _run(self) -> None:
        try:
            while (calls := self._next_calls()) and self._attempt(calls):
                pass
        finally:
            with self._lock:
                self._is_running = False

    def _next_calls(self) -> list[KeptSettle]:
        with self._lock:
            now = self._client._monotonic()
            calls, losses = self._book.next_calls(now), self._book.take_losses()
            self._is_running = bool(calls)  # false before keep() may add one: it starts another
            pause = self._book.pause(now)
        log_losses(losses)
        if calls and pause:
            if self._closing.is_set():  # which no pause may outlast
                self._client._system.sleep(min(pause, CLOSE_POLL_S))
            else:
                self._closing.wait(pause)
        return calls

    def _attempt(self, calls: list[KeptSettle]) -> bool:
        """False: the client is closed."""
        client = self._client
        try:
            results = client._many(calls_of(calls), self._book.attempt_s)
        except Closed:
            return False
        except SluicegateError as error:
            with self._lock:
                self._book.failed(calls, error, client._monotonic())
        else:
            with self._lock:
                self._book.answered(calls, results, client._monotonic())
        return True
