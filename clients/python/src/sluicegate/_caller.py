"""The stages of a blocking call: wait for room, send, wait for the answer or the time-out.

Flow:   _run(): any call; _ask_alone(): a plain acquire while there is no other call, without a
        queue; _run_question(), _run_many(), _ask_quota(): the calls of _quota_client.py.
Units:  seconds.
Errors: a call ends with a result, an error or its time-out, whatever the server does. Afterwards
        its queued entries are withdrawn, and grants that arrive late are released or cancelled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ._base import Key, Timeout
from ._calls import Call
from ._lead import IDLE_CHECK_S, Lead, Slot
from ._link import TICK_S
from ._quota_requests import Form, Outcome, QuotaEntry
from ._requests import Lone, Question
from .errors import Closed, ConnectionLost, Overloaded, SluicegateError, TimedOut

WITHDRAW_S = 1.0  # how long a timed-out call waits until its withdrawal is confirmed


class Caller(Lead):
    """Runs calls; `submit` queues a call, under the lock."""

    def _run_question(self, make: Callable[[Slot], Question], timeout: Timeout) -> Any:
        slot = Slot()
        return self._run(slot, lambda: self._dispatcher.ask_question(make(slot)),
                         self._seconds(timeout, False, None))

    def _ask_quota(self, form: Form, entry: QuotaEntry, timeout: Timeout,
                   wait_limit: float | None) -> Any:
        slot = Slot()
        try:
            return self._run(slot, lambda: self._dispatcher.ask_quota(form, entry, slot),
                             self._seconds(timeout, form.may_wait, wait_limit),
                             waits=form.may_wait, applies_policy=form.needs_admission)
        except BaseException:
            if isinstance(slot.result, Outcome):  # interrupted just when the answer arrived
                self._cancel_unwanted(slot.result)
            raise

    def _cancel_unwanted(self, outcome: Outcome) -> None:
        """Cancels a reservation that its caller never received."""
        if outcome.reservation:
            with self._lock:
                self._dispatcher.cancel_unwanted(outcome.reservation)
                self._send_queued()

    def _run_many(self, make: Callable[[Slot], Call], timeout: float | None) -> Any:
        slot = Slot()
        return self._run_call(slot, make(slot), timeout)

    def _run_call(self, slot: Slot, call: Call, timeout: float | None) -> Any:
        return self._run(slot, lambda: self._dispatcher.start(call), timeout, call=call,
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
                    self._leave_queue(slot, call)
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
                        raise Overloaded(f"{self._dispatcher.pending} calls are pending "
                                         "(max_pending)")
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

    def _finish(self, slot: Slot, deadline: float | None, timeout: float | None,
                call: Call | None = None, waits: bool = False,
                applies_policy: bool = False) -> None:
        if not self._drive(slot, deadline, slot.done):
            self._time_out(slot, call, timeout, waits, applies_policy)

    # --- alone

    def _ask_alone(self, key: Key, slot: Slot, timeout: float | None) -> bool:
        """A plain acquire while there is no other call: one send, one receive, and no queue.

        False: nothing was done, so the caller uses _run(). An answer that does not arrive at once
        is awaited as in _run().
        """
        start = time.monotonic()
        try:
            if not self._send_alone(key, slot, timeout, start):
                return False
            if not slot.done():
                self._finish(slot, None if timeout is None else start + timeout, timeout,
                             applies_policy=True)
        finally:
            if self._leader is slot:  # interrupted; no other thread sets it
                with self._lock:
                    self._hand_over()
        return True

    def _send_alone(self, key: Key, slot: Slot, timeout: float | None, start: float) -> bool:
        """Sends, and takes the answer if it arrives at once."""
        dispatcher = self._dispatcher
        try:
            with self._lock:
                opened, connection = self._socket, dispatcher.connection
                if (opened is None or connection is None or self._leader is not None
                        or self._unsent or not dispatcher.is_quiet
                        or start - self._used > IDLE_CHECK_S
                        or timeout is not None and timeout < TICK_S):
                    return False
                request = Lone(dispatcher, key, slot)
                frame = connection.encode(request)
                slot.thread = threading.get_ident()
                self._leader = slot
                connection.send(request, frame)
                dispatcher.pending += 1
                self._send(frame)
            try:
                data = self._receive_soon(opened)
            except OSError:
                data = b""  # nothing yet, or the end, which the next read reports again
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

    def _take_lone(self, data: bytes) -> None:
        try:
            if not self._dispatcher.receive_lone(data):
                self._take(data, "")
                return
        except ConnectionLost as error:
            self._drop(error)
        self._used = time.monotonic()
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
        slot = Slot()
        with self._lock:
            self._room[slot] = None
        try:
            if not self._drive(slot, deadline, self._has_room):
                raise TimedOut(f"no room among {self._dispatcher.pending} pending calls in time")
        finally:
            with self._lock:
                self._room.pop(slot, None)

    def _time_out(self, slot: Slot, call: Call | None, timeout: float | None, waits: bool,
                  applies_policy: bool) -> None:
        """Ends the call, withdraws its queued entries, and waits for the confirmation."""
        with self._lock:
            if slot.done():
                return
            verdict = self._verdict_in_place(call, waits, applies_policy)
            if verdict is None:
                slot.set_exception(TimedOut(f"no answer within {timeout} s"))
            else:
                slot.set_result(verdict)
            self._leave_queue(slot, call)
        if waits:
            self._drive(slot, time.monotonic() + WITHDRAW_S,
                        lambda: self._has_left_queue(slot, call))

    def _leave_queue(self, slot: Slot, call: Call | None) -> None:
        """For a slot that is done without an answer of the server."""
        if call is None:
            self._dispatcher.abandon(slot)
        else:
            self._dispatcher.has_abandoned = True
            call.withdraw()
        self._send_queued()
        self._signal_room()

    def _verdict_in_place(self, call: Call | None, waits: bool, applies_policy: bool) -> Any:
        """The failure policy's result for a time-out; None: it is an error."""
        verdict = None if waits or not applies_policy else self._dispatcher.policy_verdict
        return verdict if verdict is None or call is None else call.decided_by_policy(verdict)

    def _has_left_queue(self, slot: Slot, call: Call | None) -> bool:
        return slot not in self._dispatcher.places if call is None else call.is_settled
