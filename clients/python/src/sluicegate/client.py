"""The client for threads: blocking calls, any number of threads on one connection.

Flow:   a call queues, sends what may be sent, then waits. One waiting thread leads: it alone reads
        the socket, and tells the others. When its own answer has come, the next one leads. So a
        lone caller costs no thread switch, and many share frames.
Units:  seconds.
Errors: errors.py; a call ends with a result, an error or its time-out, whatever the server does.
Lives:  connects at the first call, and again at the first call after a loss. In a forked child the
        client begins anew, with a connection of its own.
"""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from . import _frames
from ._base import DEFAULT, Key, KeyState, Timeout, listed, unless_denied
from ._calls import AcquireCall, Call, ForgetCall, HandleCall, Handles, InternCall, ReleaseCall
from ._core import Core, Settings
from ._quota_client import QuotaCalls
from ._quota_requests import Form, Outcome, QuotaEntry
from ._requests import Lone, Question
from .errors import Closed, ConnectionLost, Overloaded, SluicegateError, TimedOut, Unreachable
from .verdict import Verdict, Verdicts

RECEIVE_BYTES = 65_536
IDLE_CHECK_S = 0.1  # a connection unused for longer may have been ended by the server
# recv() in the kernel ends after this long, to look at deadlines: unlike poll() it sets no
# high-resolution timer, which on a virtual machine costs more than the answer takes.
TICK_S = 0.05
TICK = struct.pack("ll", 0, round(TICK_S * 1e6))  # a timeval
SLEEPS_AFTER_SPIN = 8  # so far-away servers cost little
WITHDRAW_S = 1.0  # how long a timed-out wait stays to see that it is out of line
WITHDRAW_POLL_S = 0.01


class Slot:
    """Where a thread's answer goes. All of it happens under the client's lock."""

    __slots__ = ("_done", "error", "lock", "result", "thread")

    def __init__(self) -> None:
        self._done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.lock: threading.Lock | None = None  # held while the thread follows
        self.thread = 0  # which leads or follows

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


def open_socket(host: str, port: int, timeout: float) -> socket.socket:
    """Connected, without delay for small frames, and told when the peer has vanished."""
    opened = socket.create_connection((host, port), timeout)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(opened)
    return opened


def keep_alive(opened: socket.socket) -> None:
    """A peer that is gone without a word is noticed within half a minute."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4),
                        ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Client(QuotaCalls):
    """Blocking client; see the README for what the options mean."""

    def __init__(self, address: str, *, timeout: float | None = 30.0,
                 on_failure: Literal["error", "open", "closed"] = "error", requeue: bool = False,
                 max_pending: int = 65_536, when_full: Literal["wait", "error"] = "wait",
                 window: int = 4, frame_entries: int = 1024, connect_timeout: float = 5.0,
                 backoff: tuple[float, float] = (0.05, 5.0), shard: int | None = None,
                 client_name: str = "sluicegate-python", spin: float = 100e-6) -> None:
        super().__init__(address, Settings(client_name, shard, on_failure, requeue, max_pending,
                                           when_full, window, frame_entries, timeout,
                                           connect_timeout, backoff, spin))
        self._begin()
        _CLIENTS.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._room: dict[Slot, None] = {}  # those who wait for it
        self._leader: Slot | None = None
        self._followers: dict[Slot, None] = {}
        self._socket: socket.socket | None = None
        self._opening: socket.socket | None = None  # until its Welcome has come
        self._unsent = b""
        self._used = 0.0  # when something was received
        self._sleeps_left = 0  # before it is tried again to look without sleeping

    def _begin_in_child(self) -> None:
        """After a fork: the connection is the parent's, and so are the threads that wait."""
        if self._socket is not None:
            self._socket.close()
        was_closed = self._core.is_closed
        self._core = Core(self._settings)
        self._core.is_closed = was_closed
        self._begin()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Every call that is outstanding ends with Closed. A closed client stays closed."""
        with self._lock:
            if self._core.is_closed:
                return
            self._core.close()
            opened, self._socket = self._socket, None
            if opened is not None:
                shut_down(opened)  # wakes the leader
                opened.close()
            if self._opening is not None:
                shut_down(self._opening)
            self._tell_room()

    # --- what may be asked

    def acquire(self, key: Key, cost: int = 1, *, wait: bool = False,
                wait_limit: float | None = None, max_requests: int | None = None,
                max_requests_in_queue: int | None = None, timeout: Timeout = DEFAULT) -> Verdict:
        """Asks for `cost` permits of one key. The Verdict is true when they were taken."""
        entry = self._entry(cost, wait, wait_limit, max_requests, max_requests_in_queue)
        slot = Slot()
        seconds = self._seconds(timeout, wait, wait_limit)
        if entry is not None or not self._ask_alone(key, slot, seconds):
            self._run(slot, lambda: self._core.ask(key, slot, entry), seconds, waits=wait,
                      applies_policy=True)
        elif slot.error is not None:
            raise slot.error
        verdict: Verdict = slot.result
        return verdict

    def acquire_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                     wait: bool = False, wait_limit: float | None = None,
                     max_requests: int | Sequence[int] | None = None,
                     max_requests_in_queue: int | Sequence[int] | None = None,
                     details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """Asks for every key by itself: some may be approved and others denied."""
        slot = Slot()
        call = AcquireCall(self._core, slot, listed(keys), self._options(
            costs, wait, wait_limit, max_requests, max_requests_in_queue, details))
        verdicts: Verdicts = self._run_call(slot, call, self._seconds(timeout, wait, wait_limit))
        return verdicts

    def intern(self, keys: Iterable[Key], *, timeout: Timeout = DEFAULT) -> Handles:
        """Numbers for keys: an array('I'). Raises NotInterned when a key gets none."""
        slot = Slot()
        handles: Handles = self._run_call(
            slot, InternCall(self._core, slot, listed(keys)), self._seconds(timeout, False, None))
        return handles

    def acquire_many_handles(self, handles: Any, costs: int | Sequence[int] | None = None, *,
                             max_requests: int | Sequence[int] | None = None,
                             max_requests_in_queue: int | Sequence[int] | None = None,
                             details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """acquire_many() for keys that were interned: any buffer of their 32-bit numbers.

        Raises StaleHandles when they are not of the present connection.
        """
        slot = Slot()
        data = _frames.handle_bytes(handles)
        with self._lock:
            self._check_idle()
            generation = self._core.generation_of(handles)
        call = HandleCall(self._core, slot, data, generation, self._options(
            costs, False, None, max_requests, max_requests_in_queue, details))
        verdicts: Verdicts = self._run_call(slot, call, self._seconds(timeout, False, None))
        return verdicts

    def forget(self, handles: Any, *, timeout: Timeout = DEFAULT) -> None:
        """Gives the numbers up. They must not be used again: other keys may get them."""
        slot = Slot()
        with self._lock:
            generation = self._core.generation_of(handles)
        self._run_call(slot, ForgetCall(self._core, slot, _frames.handle_bytes(handles),
                                        generation), self._seconds(timeout, False, None))

    def release(self, key: Key, cost: int = 1, *, timeout: Timeout = DEFAULT) -> None:
        """Gives permits back, as after work that was never done."""
        self.release_many([key], cost, timeout=timeout)

    def release_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                     timeout: Timeout = DEFAULT) -> None:
        slot = Slot()
        self._run_call(slot, ReleaseCall(self._core, slot, listed(keys), costs),
                       self._seconds(timeout, False, None))

    def inspect(self, key: Key, *, timeout: Timeout = DEFAULT) -> KeyState | None:
        """What the server knows of a key; None if nothing."""
        state: KeyState | None = self._run_question(self._inspection(key), timeout)
        return state

    def inspect_all(self, *, timeout: Timeout = DEFAULT) -> Iterator[KeyState]:
        """Every key, a page at a time: `timeout` is for each page."""
        cursor = 0
        while True:
            page, cursor = self._run_question(self._page(cursor), timeout)
            yield from page
            if not cursor:
                return

    def ping(self, *, timeout: Timeout = DEFAULT) -> None:
        self._run_question(self._pinging, timeout)

    def _guard(self, function: Callable[..., Any], key_of: Callable[..., Key],
               options: dict[str, Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            key = key_of(*args, **kwargs)
            unless_denied(key, self.acquire(key, **options))
            return function(*args, **kwargs)
        return guarded

    # --- a call's life

    def _run_question(self, make: Callable[[Slot], Question], timeout: Timeout) -> Any:
        slot = Slot()
        return self._run(slot, lambda: self._core.ask_question(make(slot)),
                         self._seconds(timeout, False, None))

    def _ask_quota(self, form: Form, entry: QuotaEntry, timeout: Timeout,
                   wait_limit: float | None) -> Any:
        slot = Slot()
        try:
            return self._run(slot, lambda: self._core.ask_quota(form, entry, slot),
                             self._seconds(timeout, form.may_wait, wait_limit),
                             waits=form.may_wait, applies_policy=form.asks)
        except BaseException:
            if isinstance(slot.result, Outcome):  # interrupted just when it was told
                self._forgo(slot.result)
            raise

    def _forgo(self, outcome: Outcome) -> None:
        """Nobody will ever hear of this reservation."""
        if outcome.reservation:
            with self._lock:
                self._core.cancel_unwanted(outcome.reservation)
                self._send_queued()

    def _run_many(self, make: Callable[[Slot], Call], timeout: float | None) -> Any:
        slot = Slot()
        return self._run_call(slot, make(slot), timeout)

    def _run_call(self, slot: Slot, call: Call, timeout: float | None) -> Any:
        return self._run(slot, lambda: self._core.start(call), timeout, call=call,
                         waits=call.may_wait, applies_policy=call.applies_policy)

    def _run(self, slot: Slot, submit: Callable[[], None], timeout: float | None, *,
             call: Call | None = None, waits: bool = False, applies_policy: bool = False) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._submit(submit):
            try:
                self._wait_for_room(deadline)
            except TimedOut:
                verdict = self._verdict_in_place(call, waits, applies_policy)
                if verdict is None:
                    raise
                slot.set_result(verdict)
                return verdict
        try:
            self._finish(slot, deadline, timeout, call, waits, applies_policy)
        except BaseException:
            with self._lock:
                if not slot.done():
                    slot.set_exception(TimedOut("the call was interrupted"))
                    self._leave_line(slot, call)
            raise
        if slot.error is not None:
            raise slot.error
        return slot.result

    def _submit(self, submit: Callable[[], None]) -> bool:
        """False: there is no room."""
        try:
            with self._lock:
                if not self._has_room():
                    if self._settings.when_full == "error":
                        raise Overloaded(f"{self._core.pending} calls are pending (max_pending)")
                    return False
                if self._core.is_closed:
                    raise Closed("the client is closed")
                self._check_idle()
                submit()
                self._send_queued()
        except SluicegateError:
            raise
        except BaseException:
            self._interrupted()
            raise
        return True

    def _finish(self, slot: Slot, deadline: float | None, timeout: float | None,
                call: Call | None = None, waits: bool = False,
                applies_policy: bool = False) -> None:
        if not self._drive(slot, deadline, slot.done):
            self._time_out(slot, call, timeout, waits, applies_policy)

    def _ask_alone(self, key: Key, slot: Slot, timeout: float | None) -> bool:
        """A plain acquire while nobody else asks: one send, one receive, and no queue between.

        False: nothing was done, take the long way. What does not come at once does so too.
        """
        start = time.monotonic()
        try:
            if not self._send_alone(key, slot, timeout, start):
                return False
            if not slot.done():
                self._finish(slot, None if timeout is None else start + timeout, timeout,
                             applies_policy=True)
        finally:
            if self._leader is slot:  # interrupted; nobody else sets it
                with self._lock:
                    self._hand_over()
        return True

    def _send_alone(self, key: Key, slot: Slot, timeout: float | None, start: float) -> bool:
        """Sends, and takes what comes at once."""
        core = self._core
        try:
            with self._lock:
                opened, connection = self._socket, core.connection
                if (opened is None or connection is None or self._leader is not None
                        or self._unsent or not core.is_quiet or start - self._used > IDLE_CHECK_S
                        or timeout is not None and timeout < TICK_S):
                    return False
                request = Lone(core, key, slot)
                frame = connection.encode(request)
                slot.thread = threading.get_ident()
                self._leader = slot
                connection.send(request, frame)
                core.pending += 1
                self._send(frame)
            try:
                data = self._receive_soon(opened)
            except OSError:
                data = b""  # nothing yet, or the end, which is met again
            with self._lock:
                if data and opened is self._socket:
                    self._take_lone(data)
                if slot.done():
                    self._hand_over()
        except BaseException:
            if self._leader is slot:  # otherwise nothing was sent
                self._interrupted()
            raise
        return True

    def _interrupted(self) -> None:
        """By a signal's handler that raised while something was sent or taken.

        Nobody knows what was, so the connection is given up, and with it all that was asked.
        """
        error = ConnectionLost("the connection was given up: a call on it was interrupted")
        with self._lock:
            if self._socket is not None:
                shut_down(self._socket)  # wakes the leader
            self._drop(error)
            self._core.fail_all(error)
            for slot in self._followers:
                if slot not in self._room and not slot.done():
                    slot.set_exception(error)
            self._tell_room()

    def _take_lone(self, data: bytes) -> None:
        try:
            if not self._core.receive_lone(data):
                self._take(data, "")
                return
        except ConnectionLost as error:
            self._drop(error)
        self._used = time.monotonic()
        if self._core.pending:
            self._send_queued()
        self._tell_room()

    def _has_room(self) -> bool:
        """Also when the client is closed: then there is nothing to wait for."""
        core = self._core
        if core.is_full and not core.is_closed:
            core.drop_abandoned()
            if core.is_full and self._leader is None:
                self._look("the server closed the connection")  # nobody else does
        return not core.is_full or core.is_closed

    def _wait_for_room(self, deadline: float | None) -> None:
        """Leads when nobody does: those who should be answered may all have timed out."""
        slot = Slot()
        with self._lock:
            self._room[slot] = None
        try:
            if not self._drive(slot, deadline, self._has_room):
                raise TimedOut(f"no room among {self._core.pending} pending calls in time")
        finally:
            with self._lock:
                self._room.pop(slot, None)

    def _tell_room(self) -> None:
        core = self._core
        if self._room:
            if core.is_full:
                core.drop_abandoned()
            if not core.is_full or core.is_closed:
                for slot in self._room:
                    slot.wake()

    def _time_out(self, slot: Slot, call: Call | None, timeout: float | None, waits: bool,
                  applies_policy: bool) -> None:
        """The caller waits no more. What it has in line is withdrawn, and seen off."""
        with self._lock:
            if slot.done():
                return
            verdict = self._verdict_in_place(call, waits, applies_policy)
            if verdict is None:
                slot.set_exception(TimedOut(f"no answer within {timeout} s"))
            else:
                slot.set_result(verdict)
            self._leave_line(slot, call)
        if waits:
            self._drive(slot, time.monotonic() + WITHDRAW_S, lambda: self._is_seen_off(slot, call))

    def _leave_line(self, slot: Slot, call: Call | None) -> None:
        """Of a slot that is done, though the server did not say so."""
        if call is None:
            self._core.abandon(slot)
        else:
            self._core.has_abandoned = True
            call.withdraw()
        self._send_queued()
        self._tell_room()

    def _verdict_in_place(self, call: Call | None, waits: bool, applies_policy: bool) -> Any:
        """What the failure policy says to a time-out; None: that it is an error."""
        verdict = None if waits or not applies_policy else self._core.policy_verdict
        return verdict if verdict is None or call is None else call.decided_by_policy(verdict)

    def _is_seen_off(self, slot: Slot, call: Call | None) -> bool:
        return slot not in self._core.places if call is None else call.is_settled

    # --- leading and following

    def _drive(self, slot: Slot, deadline: float | None, is_over: Callable[[], bool]) -> bool:
        """Until it is over, or the deadline has passed: then False."""
        try:
            while True:
                with self._lock:
                    if is_over():
                        return True
                    if deadline is not None and time.monotonic() >= deadline:
                        return False
                    lock = self._follow(slot)
                    behind = self._socket if self._unsent else None
                if lock is None:
                    self._lead(deadline, is_over)
                elif behind is not None:
                    self._help_sending(behind)
                else:
                    left = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
                    # Who sees off what it gave up is woken by nobody.
                    lock.acquire(timeout=left if not slot.done() else min(left, WITHDRAW_POLL_S))
        finally:
            with self._lock:
                self._followers.pop(slot, None)
                if self._leader is slot:
                    self._hand_over()

    def _follow(self, slot: Slot) -> threading.Lock | None:
        """A lock to wait for behind the leader; None: this thread leads."""
        slot.thread = threading.get_ident()
        leader = self._leader
        if leader is None or leader is not slot and leader.thread == slot.thread:
            self._leader = slot  # in the second case it was interrupted while it handed over
        if self._leader is slot:
            return None
        if slot.lock is None:
            slot.lock = threading.Lock()
            slot.lock.acquire()
            self._followers[slot] = None
        return slot.lock

    def _hand_over(self) -> None:
        self._leader = None  # first: an interruption here leaves the lead to whoever wants it
        while self._followers:
            slot = next(iter(self._followers))
            del self._followers[slot]
            if slot.lock is not None:
                self._leader = slot
                slot.wake()
                return

    def _lead(self, deadline: float | None, is_over: Callable[[], bool]) -> None:
        """Reads until it is over or the deadline has passed."""
        while True:
            with self._lock:
                if is_over():
                    return
                opened = self._socket
                has_rest = bool(self._unsent)
            if opened is None:
                self._connect(deadline)
            elif has_rest or deadline is not None and deadline - time.monotonic() < TICK_S:
                self._wait_and_receive(opened, deadline, has_rest)
            else:
                self._receive(opened, self._receive_soon)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _wait_and_receive(self, opened: socket.socket, deadline: float | None,
                          has_rest: bool) -> None:
        """To the millisecond, or while there is something to be sent too."""
        wait_s = TICK_S if deadline is None else min(TICK_S, max(0.0, deadline - time.monotonic()))
        try:
            readable, writable = poll_once(opened, has_rest, wait_s)
        except ValueError:  # closed meanwhile
            return
        if writable:
            self._send_rest(opened)
        if readable:
            self._receive(opened, lambda ready: ready.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT))

    def _help_sending(self, opened: socket.socket) -> None:
        """By a follower: the leader may be within recv()."""
        try:
            _, writable = poll_once(opened, True, TICK_S, read=False)
        except ValueError:
            return
        if writable:
            self._send_rest(opened)

    # --- the socket

    def _send_queued(self) -> None:
        if self._socket is not None:
            frames = self._core.output()
            if frames:
                self._send(frames)

    def _send(self, frames: bytes) -> None:
        """Never blocks: the leader sends the rest. Welcome bounds it (outstandingBytesMax)."""
        assert self._socket is not None
        if self._unsent:
            frames = self._unsent + frames
        try:
            sent = self._socket.send(frames, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            sent = len(frames)  # the reader learns why, perhaps in the server's own words
        self._unsent = frames[sent:]

    def _send_rest(self, opened: socket.socket) -> None:
        try:
            with self._lock:
                if opened is self._socket and self._unsent:
                    self._send(b"")
        except BaseException:
            self._interrupted()
            raise

    def _receive_soon(self, opened: socket.socket) -> bytes:
        """Looks for the answer a moment before it sleeps; not while that never paid of late.

        A thread that sleeps comes back late and to a cold cache, most of all on a virtual machine.
        """
        if self._sleeps_left or self._followers or not self._settings.spin:
            self._sleeps_left = max(0, self._sleeps_left - 1)
            return opened.recv(RECEIVE_BYTES)
        end = time.perf_counter() + self._settings.spin
        while time.perf_counter() < end:
            try:
                return opened.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
        self._sleeps_left = SLEEPS_AFTER_SPIN
        return opened.recv(RECEIVE_BYTES)

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

    def _take(self, data: bytes, why: str) -> None:
        self._used = time.monotonic()
        try:
            if not data:
                raise ConnectionLost(why)
            self._core.receive(data)
        except ConnectionLost as error:
            self._drop(error)
        if self._core.wants_to_send or self._core.has_chores:
            self._send_queued()
        self._tell_room()

    def _drop(self, error: ConnectionLost) -> None:
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()
        self._unsent = b""
        self._core.disconnected(error, time.monotonic())

    def _check_idle(self) -> None:
        """A connection that ended while nobody used it is replaced, and costs no call."""
        if (self._socket is None or self._leader is not None
                or time.monotonic() - self._used < IDLE_CHECK_S):
            return
        connection = self._core.connection
        if connection is not None and connection.is_idle:
            self._look("the server closed the idle connection")

    def _look(self, why: str) -> None:
        """Takes what has come, and does not wait for more."""
        if self._socket is None:
            return
        try:
            data = self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._take(data, why)

    # --- connecting

    def _connect(self, deadline: float | None) -> None:
        """By the leader. What is queued fails when there is no server, or it is too early."""
        now = time.monotonic()
        with self._lock:
            if not self._core.may_connect(now):
                pause = self._core.backoff.not_before - now
                self._core.fail_queued(self._core.unreachable(now))
                self._tell_room()
            else:
                pause = 0.0
        if pause:
            if self._settings.requeue:  # otherwise nothing is left to wait for
                self._pause(pause, deadline)
            return
        limit = now + self._settings.connect_timeout
        own_end = limit if deadline is None else min(limit, deadline)
        try:
            self._introduce(own_end)
        except TimeoutError as error:
            own_time_is_over = own_end < limit and time.monotonic() >= own_end
            self._failed_to_connect(error, gives_up=not own_time_is_over)
        except Exception as error:  # as UnicodeError of a host's name
            self._failed_to_connect(error, gives_up=True)

    def _pause(self, seconds: float, deadline: float | None) -> None:
        end = time.monotonic() + seconds
        if deadline is not None:
            end = min(end, deadline)
        while (left := end - time.monotonic()) > 0 and not self._core.is_closed:
            time.sleep(min(left, TICK_S))

    def _introduce(self, end: float) -> None:
        """Hello and Welcome on a new socket; it becomes the client's when that is done."""
        opened = open_socket(self._host, self._port, max(0.001, end - time.monotonic()))
        try:
            with self._lock:
                self._stop_if_closed()
                self._opening = opened
                hello = self._core.connecting()
            opened.sendall(hello)
            while self.welcome is None:
                opened.settimeout(max(0.001, end - time.monotonic()))
                data = opened.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionLost("the server closed the connection before its Welcome")
                with self._lock:
                    self._stop_if_closed()
                    self._core.receive(data)
            opened.settimeout(None)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TICK)
            with self._lock:
                self._settle_in(opened)
        except BaseException:
            opened.close()
            raise
        finally:
            self._opening = None

    def _stop_if_closed(self) -> None:
        if self._core.is_closed:
            raise ConnectionLost("the client was closed")

    def _settle_in(self, opened: socket.socket) -> None:
        self._stop_if_closed()
        self._socket = opened
        self._used = time.monotonic()
        self._send_queued()

    def _failed_to_connect(self, cause: Exception, gives_up: bool) -> None:
        error: ConnectionLost = Unreachable(f"{self.address}: {cause}")
        if isinstance(cause, ConnectionLost):
            error = type(cause)(f"{self.address}: {cause}")
        error.__cause__ = cause
        with self._lock:
            if not gives_up:  # the leader's own time is over, not the connection's
                self._core.connection = None
                return
            self._core.disconnected(error, time.monotonic())
            self._core.fail_queued(error)
            self._tell_room()


def poll_once(opened: socket.socket, write: bool, wait_s: float, *,
              read: bool = True) -> tuple[bool, bool]:
    """(readable, writable), both when it is broken; ValueError when it was closed."""
    poll = select.poll()
    poll.register(opened, (select.POLLIN if read else 0) | (select.POLLOUT if write else 0))
    events = sum(found for _, found in poll.poll(math.ceil(wait_s * 1000)))
    broken = bool(events & (select.POLLERR | select.POLLHUP | select.POLLNVAL))
    return (read and (broken or bool(events & select.POLLIN)),
            broken or bool(events & select.POLLOUT))


def shut_down(opened: socket.socket) -> None:
    try:
        opened.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
