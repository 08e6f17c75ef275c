"""What each caller must have seen, from the server's book: its outcome and when, and what the
client had to report to the server afterwards.

Shape: a call ends with the earliest of its answer, the loss of its connection (unless it is sent
       again), its time-out and its cancellation. Where two come within SLACK_S, either is right.
"""

import asyncio

from server import ReserveCodes

from sluicegate import (Closed, ConnectionLost, Overloaded, QuotaDenied, TimedOut, Verdict)
from sluicegate._caller import WITHDRAW_S
from sluicegate._caller_aio import GATHERING, SEEK_CANCELLED_S

NEVER = float("inf")
SLACK_S = 0.003  # poll() counts milliseconds
# A thread helps to send, or a leader connects, for at most so long.
HELP_S = 0.06
BACKOFF_S = 1.0


class Model:
    def __init__(self, server, callers, settings, is_aio):
        self.is_prompt = server.is_prompt
        self.book = book = server.book
        self.calls = callers.calls
        self.delivered = callers.delivered
        self.leases = callers.leases
        self.settings = settings
        self.is_aio = is_aio
        self.failures = [*callers.failures, *book.errors]
        self.seen_outcomes = set()

    def check(self):
        for call in self.calls:
            if not call.started:
                continue  # its caller did not come to it
            if call.returns != 1:
                self._fail(call, f"ended {call.returns} times")
            elif call.target is None:
                self._check_call(call)
        self._check_permits()
        self._check_queues()
        self._check_reservations()
        self._check_renewals()
        return self.failures

    def _fail(self, call, what):
        self.failures.append(
            f"{call.method}{call.arguments} {call.options} from {call.started:.4f} to "
            f"{call.ended}: {call.result!r} {call.error!r}: {what}")

    # --- outcomes

    def _check_call(self, call):
        answered = self._answered(call)
        lost = self._lost(call)
        earliest_end, latest_end = self._deadlines(call)
        cancelled = NEVER if call.cancelled is None else call.cancelled
        kind = self._kind(call)
        self.seen_outcomes.add(kind)
        # A thread whose call timed out stays until its withdrawal is confirmed.
        in_time = latest_end if self.is_aio else earliest_end - SLACK_S
        due = [when for when in (answered, lost, cancelled) if when < in_time]
        if call.ended > min([*due, latest_end]) + SLACK_S:
            self._fail(call, f"ended late: answered {answered}, lost {lost}, cancelled "
                             f"{cancelled}, timed out {latest_end} at the latest")
        checks = {"answer": self._check_answer, "no room": self._check_no_room,
                  "lost": self._check_loss, "cancelled": self._check_cancelled,
                  "timed out": self._check_time_out}
        if kind in checks:
            checks[kind](call, answered, lost, earliest_end)
        else:
            self._fail(call, "unexpected outcome")

    def _kind(self, call):
        error = call.error
        if isinstance(error, asyncio.CancelledError):
            return "cancelled"
        if isinstance(error, Overloaded) or isinstance(error, TimedOut) and "room" in str(error):
            return "no room"
        if isinstance(error, TimedOut):
            return "timed out"
        if isinstance(error, ConnectionLost):
            return "lost"
        if isinstance(error, Closed) or error is not None and not isinstance(error, QuotaDenied):
            return "unexpected"
        if not any(code.decided_by_policy for code in self._codes(call)):
            return "answer"
        if call.ended >= self._deadlines(call)[0] - SLACK_S:
            return "timed out"
        return "lost"

    @staticmethod
    def _codes(call):
        if isinstance(call.error, QuotaDenied):
            return [call.error.code]
        if call.method in ("reserve", "lease"):
            return [call.result.code]
        return {"acquire": lambda: [call.result], "acquire_many": lambda: list(call.result),
                "ping": list}[call.method]()

    @staticmethod
    def _has_result(call):
        return call.error is None or isinstance(call.error, QuotaDenied)

    def _deadlines(self, call):
        """When it may time out, and when it must have ended."""
        if call.timeout is None:
            return NEVER, NEVER
        latest = call.deadline
        if self.is_aio:
            return call.deadline, latest + (call.timeout * GATHERING if call.shares_a_timer else 0)
        return call.deadline, latest + HELP_S + (WITHDRAW_S if call.waits else 0)

    def _visits(self, key):
        return self.book.visits.get(key, [])

    @staticmethod
    def _is_final(visit):
        return visit.seen is not None and visit.outcome != visit.codes.draining

    def _entry_answered(self, key):
        return min((visit.seen for visit in self._visits(key) if self._is_final(visit)),
                   default=NEVER)

    def _answered(self, call):
        return max(map(self._entry_answered, call.keys), default=NEVER)

    def _lost(self, call):
        if self.settings.requeue:
            return NEVER
        return min((self._visit_lost(visit) for key in call.keys for visit in self._visits(key)),
                   default=NEVER)

    @staticmethod
    def _visit_lost(visit):
        if visit.seen is not None:
            return visit.seen if visit.outcome == visit.codes.draining else NEVER
        return NEVER if visit.wire.lost_at is None else visit.wire.lost_at

    def _check_answer(self, call, answered, lost, earliest_end):
        if not call.keys:
            return  # a ping
        if abs(call.ended - answered) > SLACK_S:
            self._fail(call, f"ended at another time than its answer: {answered}")
        self._check_codes(call)

    def _check_codes(self, call):
        """Each entry's outcome is the server's, or the failure policy's if there was none."""
        policy = {"error": None, "open": Verdict.APPROVED_BY_POLICY,
                  "closed": Verdict.DENIED_BY_POLICY}[self.settings.on_failure]
        for key, code in zip(call.keys, self._codes(call), strict=True):
            if code.decided_by_policy:
                if policy is None or int(code) != int(policy):
                    self._fail(call, f"{code!r} is not that of on_failure")
                if self._entry_answered(key) < call.ended - SLACK_S:
                    self._fail(call, f"the failure policy decided {key}, which was answered")
            elif int(code) not in [visit.outcome for visit in self._visits(key)
                                   if self._is_final(visit)]:
                self._fail(call, f"{code!r} of {key} was not sent")

    def _check_no_room(self, call, *_):
        """Refused, or timed out before it was sent: so many calls must have been pending."""
        if isinstance(call.error, Overloaded) and self.settings.when_full != "refuse":
            self._fail(call, "refused though calls are to wait for room")
        if any(self._visits(key) for key in call.keys):
            self._fail(call, "was sent in spite of its refusal")
        if isinstance(call.error, TimedOut) and call.ended < call.deadline - SLACK_S:
            self._fail(call, "timed out early")
        pending = sum(self._may_be_pending(other, call) for other in self.calls
                      if other is not call)
        if pending < self.settings.pending_max - self._own_requests:
            self._fail(call, f"no room while at most {pending} calls were pending")

    @property
    def _own_requests(self):
        """Releases and renewals, which the client makes by itself, are calls too."""
        return sum(map(len, self.book.releases.values())) + len(self.leases)

    def _may_be_pending(self, call, refused):
        """Not ended, or ended while the server still has to answer a frame with its entries."""
        now = refused.ended
        if not call.started or call.started > now:
            return False
        if call.ended is None or call.ended >= now - SLACK_S or not call.keys:
            return True
        if call.cancelled is not None and call.cancelled >= refused.started - SEEK_CANCELLED_S:
            return True
        # A call that was cancelled before and not sent is dropped when its room is needed.
        return any(visit.arrived - HELP_S <= now and (visit.seen or NEVER) >= now - SLACK_S
                   for key in call.keys for visit in self._visits(key))

    def _check_loss(self, call, answered, lost, earliest_end):
        if answered < call.ended - SLACK_S:
            self._fail(call, f"was answered before, at {answered}")
        if self.settings.requeue and not isinstance(call.error, Closed) and call.keys:
            self._fail(call, "lost in spite of requeue=True")
        if self._has_result(call):
            self._check_codes(call)
        elif self.settings.on_failure != "error" and call.keys:
            self._fail(call, "an error in spite of on_failure")
        losses = [lost, *self.book.failed_attempts,
                  *(wire.lost_at for wire in self.book.wires if wire.lost_at is not None)]
        if not any(call.ended - BACKOFF_S <= loss <= call.ended + SLACK_S for loss in losses):
            self._fail(call, "lost without a loss")

    def _check_time_out(self, call, answered, lost, earliest_end):
        if call.ended < earliest_end - SLACK_S:
            self._fail(call, f"timed out before {earliest_end}")
        if min(answered, lost) < earliest_end - SLACK_S:
            self._fail(call, f"timed out after its answer at {answered} or loss at {lost}")
        if self._has_result(call):
            self._check_codes(call)
        elif self.settings.on_failure != "error" and not call.waits and call.keys:
            self._fail(call, "an error in spite of on_failure")

    def _check_cancelled(self, call, answered, lost, earliest_end):
        if call.cancelled is None or abs(call.ended - call.cancelled) > SLACK_S:
            self._fail(call, f"cancelled at {call.cancelled}")

    # --- what the server had to hear

    def _left_at(self, call):
        """When its caller left without an answer; NEVER: it did not."""
        kind = self._kind(call)
        if kind == "cancelled":
            return call.cancelled
        if kind == "timed out":
            return min(call.ended, call.deadline)
        return call.ended if kind == "lost" else NEVER

    def _survived(self, wire):
        return wire.lost_at is None or wire.lost_at >= self.book.client_ended

    def _own_calls(self, *methods):
        return [call for call in self.calls
                if call.method in methods and call.returns == 1 and call.target is None]

    def _check_permits(self):
        """A permit granted after a wait whose caller had left is released, once."""
        for call in self._own_calls("acquire", "acquire_many"):
            left = self._left_at(call)
            for key in call.keys:
                releases = len(self.book.releases.get(key, []))
                unwanted = [visit for visit in self._visits(key)
                            if call.waits and visit.outcome == visit.codes.approved
                            and visit.seen is not None and visit.seen >= left - SLACK_S]
                sure = [visit for visit in unwanted
                        if self._survived(visit.wire) and visit.seen > left + SLACK_S]
                if not len(sure) <= releases <= len(unwanted):
                    self._fail(call, f"{key}: {releases} releases of {len(unwanted)} permits that "
                                     "nobody got")

    def _check_queues(self):
        """The server receives a Withdraw for each queued entry whose caller has left."""
        for call in self._own_calls("acquire", "acquire_many", "reserve", "lease"):
            left = self._left_at(call)
            if left == NEVER or not call.waits:
                continue
            for visit in (visit for key in call.keys for visit in self._visits(key)):
                ended = min(visit.decided or NEVER, visit.wire.lost_at or NEVER,
                            visit.wire.goes_away or NEVER)
                due = max(left, visit.queued_seen or NEVER) + 0.3
                if visit.withdrawn is None and ended > due:
                    self._fail(call, f"{visit.key} stayed in its queue")

    def _check_reservations(self):
        """A reservation that no caller got is cancelled, once; its owner ends any other."""
        for key, visits in self.book.visits.items():
            for visit in visits:
                slot = self.book.slots.get(visit.reservation)
                if visit.codes is not ReserveCodes or slot is None or visit.seen is None:
                    continue
                if len(slot.cancels) > 1 + self.settings.requeue + 1:
                    self.failures.append(f"reservation of {key} was ended {len(slot.cancels)} "
                                         "times")
                if (visit.reservation not in self.delivered and self._survived(visit.wire)
                        and len(slot.cancels) != 1):
                    self.failures.append(f"reservation of {key}, which nobody got, was cancelled "
                                         f"{len(slot.cancels)} times")

    def _check_renewals(self):
        """A lease is renewed in time while its server answers, and then never lost."""
        for number, lifetime, begun, until, was_held in self.leases:
            slot = self.book.slots[number]
            losses = [wire.lost_at for wire in self.book.wires if wire.lost_at is not None]
            losses += self.book.failed_attempts
            if any(begun - lifetime <= loss <= until for loss in losses):
                continue
            moments = [begun, *(when for when in slot.extends if when < until), until]
            gap = max(later - earlier for earlier, later in zip(moments, moments[1:]))
            if was_held and gap > 1.6 * lifetime:
                self.failures.append(f"lease {number:x} was not renewed for {gap:.2f} s")
            if not was_held and self.is_prompt and lifetime > 1:
                self.failures.append(f"lease {number:x} was lost without a cause")
            if gap > 0.75 * lifetime > 0.75 and self.is_prompt:
                self.failures.append(f"lease {number:x} was renewed late, after {gap:.2f} s")
