"""The stages of a blocking call: wait for room, send, wait for the answer or the time-out.

Flow:   _run(): any call; _acquire_directly(): an acquire with the default options while no other
        call is pending, without a queue; _run_batch(), _run_control(), _run_quota_call(): what
        client.py and _quota_client.py call.
Units:  seconds.
Errors: a call ends with a result, an error or its time-out, whatever the server does. Afterwards
        its queued entries are withdrawn, and grants that arrive late are released or cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ._base import Key, Timeout
from ._calls import BatchCall
from ._lead import IDLE_CHECK_S, LeaderFollowers, ThreadResult
from ._link import TICK_S
from ._quota_requests import Outcome, QuotaEntry, QuotaTerms
from ._requests import ControlRequest, DirectAcquire
from .errors import Closed, ConnectionLost, Overloaded, SluicegateError, TimedOut

WITHDRAW_S = 1.0  # until when, after its time-out, a call waits for its withdrawal's confirmation


class Caller(LeaderFollowers):
    """Runs calls; `submit` queues a call, under the lock."""

    def _run_control(self, make: Callable[[ThreadResult], ControlRequest], timeout: Timeout) -> Any:
        completion = ThreadResult()
        return self._run(completion, lambda: self._dispatcher.submit_control(make(completion)),
                         self._seconds(timeout, False, None))

    def _run_quota_call(self, terms: QuotaTerms, entry: QuotaEntry,
                        timeout: float | None) -> Any:
        completion = ThreadResult()
        try:
            return self._run(
                completion, lambda: self._dispatcher.submit_quota_call(terms, entry, completion),
                timeout, waits=terms.may_wait, applies_policy=terms.needs_admission)
        except BaseException:
            if isinstance(completion.result, Outcome):  # interrupted just when the answer arrived
                self._cancel_unwanted(completion.result)
            raise

    def _cancel_unwanted(self, outcome: Outcome) -> None:
        """Cancels a reservation that its caller never received."""
        if outcome.reservation:
            with self._lock:
                self._dispatcher.cancel_unwanted(outcome.reservation)
                self._send_queued()

    def _run_quota_batch(self, make: Callable[[ThreadResult], BatchCall],
                         timeout: float | None) -> Any:
        completion = ThreadResult()
        call = make(completion)
        try:
            return self._run_batch(completion, call, timeout)
        except SluicegateError:
            raise
        except BaseException:  # interrupted, perhaps just when the answer arrived
            self._discard(call)
            raise

    def _discard(self, call: BatchCall) -> None:
        with self._lock:
            call.discard()
            self._send_queued()

    def _run_batch(self, completion: ThreadResult, call: BatchCall, timeout: float | None) -> Any:
        return self._run(completion, lambda: self._dispatcher.start(call), timeout, call=call,
                         waits=call.may_wait, applies_policy=call.applies_policy)

    def _run(self, completion: ThreadResult, submit: Callable[[], None], timeout: float | None, *,
             call: BatchCall | None = None, waits: bool = False,
             applies_policy: bool = False) -> Any:
        deadline = None if timeout is None else self._monotonic() + timeout
        self._begin_call(completion, submit, deadline, call, waits, applies_policy)
        return self._end_call(completion, deadline, timeout, call, waits, applies_policy)

    def _begin_call(self, completion: ThreadResult, submit: Callable[[], None],
                    deadline: float | None, call: BatchCall | None = None, waits: bool = False,
                    applies_policy: bool = False) -> None:
        """Queues, and sends what may be sent. If there is no room in time, the failure policy may
        complete the call."""
        try:
            while not self._submit(submit):
                self._wait_for_room(deadline)
        except TimedOut:
            result = self._policy_result(call, waits, applies_policy)
            if result is None:
                raise
            completion.set_result(result)

    def _end_call(self, completion: ThreadResult, deadline: float | None, timeout: float | None,
                  call: BatchCall | None = None, waits: bool = False,
                  applies_policy: bool = False) -> Any:
        try:
            self._finish(completion, deadline, timeout, call, waits, applies_policy)
        except BaseException:
            self._interrupt_call(completion, call)
            raise
        if completion.error is not None:
            raise completion.error
        return completion.result

    def _interrupt_call(self, completion: ThreadResult, call: BatchCall | None) -> None:
        with self._lock:
            if not completion.done():
                completion.set_exception(TimedOut("the call was interrupted"))
                self._leave_queue(completion, call)

    def _submit(self, submit: Callable[[], None]) -> bool:
        """False: there is no room."""
        try:
            with self._lock:
                if not self._has_room():
                    if self._settings.when_full == "refuse":
                        raise Overloaded(f"{self._dispatcher.pending} calls are pending "
                                         "(pending_max)")
                    return False
                if self._dispatcher.is_closed:
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

    def _finish(self, completion: ThreadResult, deadline: float | None, timeout: float | None,
                call: BatchCall | None = None, waits: bool = False,
                applies_policy: bool = False) -> None:
        if not self._drive(completion, deadline, completion.done):
            self._time_out(completion, call, timeout, waits, applies_policy)
            if waits and deadline is not None:
                self._drive(completion, deadline + WITHDRAW_S,
                            lambda: self._has_left_queue(completion, call))

    # --- the fast path

    def _acquire_directly(self, key: Key, completion: ThreadResult, timeout: float | None) -> bool:
        """One send, one receive and no queue; only while no other call is pending.

        False: it did nothing, so the caller uses _run(). It waits for a late answer as _run() does.
        """
        start = self._monotonic()
        try:
            if not self._send_directly(key, completion, timeout, start):
                return False
            if not completion.done():
                self._finish(completion, None if timeout is None else start + timeout, timeout,
                             applies_policy=True)
        finally:
            if self._leader is completion:  # interrupted; no other thread sets it
                with self._lock:
                    self._hand_over()
        return True

    def _send_directly(self, key: Key, completion: ThreadResult, timeout: float | None,
                       start: float) -> bool:
        """Sends, and takes the answer if it arrives at once. False: it did nothing."""
        dispatcher = self._dispatcher
        try:
            with self._lock:
                opened, connection = self._socket, dispatcher.connection
                if (opened is None or connection is None or self._leader is not None
                        or self._unsent or not dispatcher.is_quiet
                        or start - self._used > IDLE_CHECK_S
                        or timeout is not None and timeout < TICK_S):
                    return False
                request = DirectAcquire(dispatcher, key, completion)
                frame = connection.encode(request)
                completion.thread = threading.get_ident()
                self._leader = completion
                connection.send(request, frame)
                dispatcher.pending += 1
                self._send(frame)
            try:
                data = self._receive_soon(opened)
            except OSError:
                data = b""  # nothing yet, or the end, which the next read reports again
            with self._lock:
                if data and opened is self._socket:
                    self._take_direct_answer(data)
                if completion.done():
                    self._hand_over()
        except BaseException:
            if self._leader is completion:  # otherwise nothing was sent
                self._interrupted()
            raise
        return True

    def _take_direct_answer(self, data: bytes) -> None:
        try:
            if not self._dispatcher.receive_single_verdict(data):
                self._take(data, "")
                return
        except ConnectionLost as error:
            self._drop(error)
        self._used = self._monotonic()
        if self._dispatcher.pending:
            self._send_queued()
        self._signal_room()

    # --- room, and time-outs

    def _has_room(self) -> bool:
        """True also when the client is closed: then there is nothing to wait for."""
        dispatcher = self._dispatcher
        if dispatcher.is_full and not dispatcher.is_closed:
            dispatcher.drop_abandoned()
            if dispatcher.is_full and self._leader is None:
                self._check_closed("the server closed the connection")  # no leader reads
        return not dispatcher.is_full or dispatcher.is_closed

    def _wait_for_room(self, deadline: float | None) -> None:
        """Leads if no thread does: all callers with outstanding calls may have timed out."""
        completion = ThreadResult()
        with self._lock:
            self._room[completion] = None
        try:
            if not self._drive(completion, deadline, self._has_room):
                raise TimedOut(f"no room among {self._dispatcher.pending} pending calls in time")
        finally:
            with self._lock:
                self._room.pop(completion, None)

    def _time_out(self, completion: ThreadResult, call: BatchCall | None, timeout: float | None,
                  waits: bool, applies_policy: bool) -> None:
        """Ends the call, and withdraws its queued entries."""
        with self._lock:
            if completion.done():
                return
            result = self._policy_result(call, waits, applies_policy)
            if result is None:
                completion.set_exception(TimedOut(f"no answer within {timeout} s"))
            else:
                completion.set_result(result)
            self._leave_queue(completion, call)

    def _leave_queue(self, completion: ThreadResult, call: BatchCall | None) -> None:
        """For a completion that is done without an answer of the server."""
        if call is None:
            self._dispatcher.abandon(completion)
        else:
            self._dispatcher.has_abandoned = True
            call.withdraw()
        self._send_queued()
        self._signal_room()

    def _policy_result(self, call: BatchCall | None, waits: bool, applies_policy: bool) -> Any:
        """The failure policy's result for a time-out; None: it is an error."""
        verdict = None if waits or not applies_policy else self._dispatcher.late_verdict
        return verdict if verdict is None or call is None else call.policy_result(verdict)

    def _has_left_queue(self, completion: ThreadResult, call: BatchCall | None) -> bool:
        if call is None:
            return completion not in self._dispatcher.waiting_entries
        return call.is_complete
