"""Delivers the blocking client's kept settles (_kept_settles.py), by a thread that lives as long as
there are some.

Flow:   keep() -> the thread -> a batch of settles or records -> the book.
Units:  seconds.
Lives:  the thread keeps the client alive; the end of the process ends it. A forked child starts
        with an empty book: its parent delivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._kept_settles import CLOSE_POLL_S, KeptSettle, KeptSettles, SettleCounts, calls_of
from ._log import write_lines
from .errors import Closed, SluicegateError

if TYPE_CHECKING:
    from ._quota_client import QuotaCalls


class SettleKeeper:
    def __init__(self, client: QuotaCalls) -> None:
        self._client = client
        self._lock = client._system.lock()
        self._closing = client._system.event()
        self._book = KeptSettles(client._settings.kept_settles_max, client._settings.backoff)
        self._run_of: object | None = None  # the thread that delivers; None: there is none

    @property
    def counts(self) -> SettleCounts:
        with self._lock:
            return self._book.counts

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    def keep(self, settle: KeptSettle, why: object = None) -> bool:
        """False: there is no room, or the client is closed. `why`: an attempt failed already."""
        with self._lock:
            if self._closing.is_set() or not self._book.keep(settle):
                return False
            if why is not None:
                self._book.warn(why)
            lines = self._book.take_lines()
        self._start()
        write_lines(lines)
        return True

    def lose(self, name: str, why: object) -> None:
        """Of a settle that could not be kept, and nobody else reports."""
        with self._lock:
            self._book.lose(name, why)
            lines = self._book.take_lines()
        write_lines(lines)

    def flush(self, timeout: float | None) -> bool:
        """Waits until nothing is kept; False: not in time."""
        end = None if timeout is None else self._client._monotonic() + timeout
        while self.counts.kept:
            if end is not None and self._client._monotonic() >= end:
                return False
            self._start()
            self._client._system.sleep(CLOSE_POLL_S)
        return True

    def close(self, timeout: float) -> None:
        """Gives what is kept a last chance. The caller then closes the client."""
        self._closing.set()
        self.flush(timeout)
        with self._lock:
            self._book.give_up()
            lines = self._book.take_lines()
        write_lines(lines)

    def _start(self) -> None:
        """A thread, if there is none. If the system has none to give, the next call tries again."""
        with self._lock:
            if self._run_of is not None:
                return
            run = self._run_of = object()
        try:
            self._client._system.start_thread("sluicegate-settles", self._run, run)
        except RuntimeError:
            self._ended(run)

    def _ended(self, run: object) -> None:
        with self._lock:
            if self._run_of is run:  # not that of a thread that was started since
                self._run_of = None

    def _run(self, run: object) -> None:
        try:
            while (calls := self._next_calls()) and self._attempt(calls):
                pass
        finally:
            self._ended(run)

    def _next_calls(self) -> list[KeptSettle]:
        with self._lock:
            now = self._client._monotonic()
            pause = self._book.pause(now) if self._book.counts.kept else 0.0
        if pause and self._closing.is_set():  # which no pause may outlast
            self._client._system.sleep(min(pause, CLOSE_POLL_S))
        elif pause:
            self._closing.wait(pause)
        with self._lock:
            calls = self._book.next_calls(self._client._monotonic())
            lines = self._book.take_lines()
            if not calls:
                self._run_of = None  # before keep() may add one: it starts another thread
        write_lines(lines)
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
                self._book.failed(calls, error, client._monotonic(), client._server_start)
                lines = self._book.take_lines()
        else:
            with self._lock:
                self._book.answered(calls, results, client._monotonic(), client._server_start)
                lines = self._book.take_lines()
        write_lines(lines)
        return True
