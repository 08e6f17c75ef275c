"""Chooses the thread that reads the one connection: the leader, which wakes the other threads.

Flow:   _drive(): a thread waits until its call ends. The first thread leads: it alone reads the
        socket. The others follow: each sleeps on its own lock until its answer has arrived, or it
        becomes the leader. So a single caller costs no thread switch.
Units:  seconds.
Errors: an interruption, at whatever line, passes the lead to another thread. If it is unknown
        which bytes were sent or taken, the client drops the connection.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from ._link import RECEIVE_BYTES, TICK_S, Link
from ._sockets import shut_down
from .errors import ConnectionLost

IDLE_CHECK_S = 0.1  # the server may have closed a connection that was unused for longer
SLEEPS_AFTER_SPIN = 8  # so that spinning costs little with distant servers
WITHDRAW_POLL_S = 0.01  # a follower that awaits its withdrawal is not woken by it, so it polls


class ThreadResult:
    """The Completion of a thread's call; wakes the thread. Used under the client's lock only."""

    __slots__ = ("_done", "error", "lock", "result", "thread")

    def __init__(self) -> None:
        self._done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.lock: threading.Lock | None = None  # held while the thread follows
        self.thread = 0  # the one that leads or follows

    def done(self) -> bool:
        return self._done

    def set_result(self, result: Any, /) -> None:
        self._done = True
        self.result = result
        if self.lock is not None:
            self.wake()

    def set_exception(self, error: BaseException, /) -> None:
        self._done = True
        self.error = error
        self.wake()

    def wake(self) -> None:
        lock, self.lock = self.lock, None
        if lock is not None:
            lock.release()


class LeaderFollowers(Link):
    """Manages the threads that wait for their answers, or for room."""

    def _begin(self) -> None:
        super()._begin()
        self._room: dict[ThreadResult, None] = {}  # of the threads that wait for room
        self._leader: ThreadResult | None = None
        self._followers: dict[ThreadResult, None] = {}
        self._sleeps_left = 0  # receives that sleep at once, before the next one spins again

    def _drive(self, own: ThreadResult, deadline: float | None,
               is_over: Callable[[], bool]) -> bool:
        """Waits until `is_over`; False when the deadline has passed. `own` is this thread's."""
        try:
            while True:
                with self._lock:
                    if is_over():
                        return True
                    if deadline is not None and self._monotonic() >= deadline:
                        return False
                    lock = self._follow(own)
                    behind = self._socket if self._unsent else None
                if lock is None:
                    self._lead(deadline, is_over)
                elif behind is not None:
                    self._help_sending(behind)
                else:
                    left = -1.0 if deadline is None else max(0.0, deadline - self._monotonic())
                    # No thread wakes one that waits for its withdrawal.
                    lock.acquire(timeout=left if not own.done() else min(left, WITHDRAW_POLL_S))
        finally:
            with self._lock:
                self._followers.pop(own, None)
                if self._leader is own:
                    self._hand_over()

    def _follow(self, own: ThreadResult) -> threading.Lock | None:
        """The lock that this thread waits for as a follower; None: it leads."""
        own.thread = threading.get_ident()
        leader = self._leader
        if leader is None or leader is not own and leader.thread == own.thread:
            self._leader = own  # in the second case it was interrupted during _hand_over()
        if self._leader is own:
            return None
        if own.lock is None:
            own.lock = self._system.lock()
            own.lock.acquire()
            self._followers[own] = None
        return own.lock

    def _hand_over(self) -> None:
        self._leader = None  # first: after an interruption here any thread may lead
        while self._followers:
            follower = next(iter(self._followers))
            del self._followers[follower]
            if follower.lock is not None:
                self._leader = follower
                follower.wake()
                return

    def _leader_is_absent(self) -> bool:
        return self._leader is None

    def _signal_room(self) -> None:
        dispatcher = self._dispatcher
        if self._room:
            if dispatcher.is_full:
                dispatcher.drop_abandoned()
            if not dispatcher.is_full or dispatcher.is_closed:
                for waiting in self._room:
                    waiting.wake()

    def _interrupted(self) -> None:
        """Called when a signal handler raised while bytes were sent or taken.

        It is unknown which bytes were, so this drops the connection and ends all its calls.
        """
        error = ConnectionLost("the connection was dropped: a call on it was interrupted")
        with self._lock:
            if self._socket is not None:
                shut_down(self._socket)  # wakes the leader
            self._drop(error)
            self._dispatcher.fail_all(error)
            for follower in self._followers:
                if follower not in self._room and not follower.done():
                    follower.set_exception(error)
            self._signal_room()

    # --- the leader

    def _lead(self, deadline: float | None, is_over: Callable[[], bool]) -> None:
        """Reads until `is_over`, or the deadline has passed."""
        while True:
            with self._lock:
                if is_over():
                    return
                opened = self._socket
                has_rest = bool(self._unsent)
            if opened is None:
                self._connect(deadline)
            elif has_rest or deadline is not None and deadline - self._monotonic() < TICK_S:
                self._wait_and_receive(opened, deadline, has_rest)
            else:
                self._receive(opened, self._receive_soon)
            if deadline is not None and self._monotonic() >= deadline:
                return

    def _wait_and_receive(self, opened: socket.socket, deadline: float | None,
                          has_rest: bool) -> None:
        """For a deadline to the millisecond, or while there are bytes to send."""
        wait_s = TICK_S
        if deadline is not None:
            wait_s = min(TICK_S, max(0.0, deadline - self._monotonic()))
        try:
            readable, writable = self._system.poll_once(opened, has_rest, wait_s)
        except ValueError:  # closed meanwhile
            return
        if writable:
            self._send_rest(opened)
        if readable:
            self._receive(opened, lambda ready: ready.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT))

    def _receive(self, opened: socket.socket, receive: Callable[[socket.socket], bytes]) -> None:
        try:
            try:
                data = receive(opened)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                data, why = b"", f"the connection broke: {error}"
            else:
                why = "the server closed the connection"
            with self._lock:
                if opened is self._socket:
                    self._take(data, why)
        except BaseException:
            self._interrupted()
            raise

    def _receive_soon(self, opened: socket.socket) -> bytes:
        """Spins for a moment before it sleeps, unless spinning was useless lately.

        A thread that sleeps resumes late and with a cold cache, most of all on a virtual machine.
        """
        if self._sleeps_left or self._followers or not self._settings.spin:
            self._sleeps_left = max(0, self._sleeps_left - 1)
            return opened.recv(RECEIVE_BYTES)
        end = self._monotonic() + self._settings.spin
        while self._monotonic() < end:
            try:
                return opened.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
        self._sleeps_left = SLEEPS_AFTER_SPIN
        return opened.recv(RECEIVE_BYTES)

    def _check_idle(self) -> None:
        """Drops a connection that ended while it was idle, before a call is lost on it."""
        if (self._socket is None or self._leader is not None
                or self._monotonic() - self._used < IDLE_CHECK_S):
            return
        connection = self._dispatcher.connection
        if connection is not None and connection.is_idle:
            self._check_closed("the server closed the idle connection")

    # --- bytes that the kernel did not take at once

    def _help_sending(self, opened: socket.socket) -> None:
        """Called by a follower: the leader may be inside recv()."""
        try:
            _, writable = self._system.poll_once(opened, True, TICK_S, read=False)
        except ValueError:
            return
        if writable:
            self._send_rest(opened)

    def _send_rest(self, opened: socket.socket) -> None:
        try:
            with self._lock:
                if opened is self._socket and self._unsent:
                    self._send(b"")
        except BaseException:
            self._interrupted()
            raise
