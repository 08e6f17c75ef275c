"""What each caller must have seen, from the server's book: its outcome and when, and what the
client had to report to the server afterwards.

Shape: a call ends with the earliest of its answer, the loss of its connection (unless it is sent
       again), its time-out and its cancellation. Where two come within SLACK_S, either is right.
"""

import asyncio
import collections
import dataclasses
from typing import Literal

from book import REFUSED

from sluicegate import (ConnectionLost, NotInterned, Overloaded, QuotaCode, QuotaError, Refused,
                        StaleHandles, TimedOut, Verdict)
from sluicegate._caller import WITHDRAW_S
from sluicegate._caller_aio import GATHERING, SEEK_CANCELLED_S
from sluicegate._quota_reservations import RETRIES

NEVER = float("inf")
SLACK_S = 0.003  # poll() counts milliseconds
# A thread helps to send, or a leader connects, for at most so long.
HELP_S = 0.06
BACKOFF_S = 1.0


@dataclasses.dataclass(frozen=True)
class Traits:
    """Of a method of the clients."""

    applies_policy: bool  # the failure policy decides where the server does not
    # After a loss: never, once more, or only with requeue=True, which includes the former.
    resends: Literal["never", "once", "requeue"]


ADMISSION, CHANGE = Traits(True, "requeue"), Traits(False, "once")
QUESTION, ACTION = Traits(False, "requeue"), Traits(False, "never")
TRAITS = {
    "acquire": ADMISSION, "acquire_many": ADMISSION, "reserve": ADMISSION, "lease": ADMISSION,
    "reserve_many": ADMISSION, "check": ADMISSION, "acquire_many_handles": Traits(True, "never"),
    "settle": CHANGE, "cancel": CHANGE, "extend": CHANGE, "settle_many": CHANGE,
    "cancel_many": CHANGE, "ping": QUESTION, "inspect": QUESTION, "reset": ACTION,
    "record": ACTION, "consume": Traits(True, "never"), "intern": ACTION, "forget": ACTION,
    "release": ACTION, "release_many": ACTION}
BATCHES = ("settle_many", "cancel_many")
OUTCOMES = {"answer", "lost", "timed out", "no room", "refused", "stale"}


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
        self.seen = collections.Counter()  # (method, kind of outcome)

    def check(self):
        for call in self.calls:
            if not call.started:
                continue  # its caller did not come to it
            if call.returns != 1:
                self._fail(call, f"ended {call.returns} times")
                continue
            self._check_call(call)
            self._check_sends(call)
            self._check_partial(call)
        self._check_names()
        self._check_permits()
        self._check_queues()
        self._check_reservations()
        self._check_changes()
        self._check_renewals()
        return self.failures

    def _fail(self, call, what):
        self.failures.append(
            f"{call.method}{call.arguments} {call.options} from {call.started:.4f} to "
            f"{call.ended}: {call.result!r} {call.error!r}: {what}")

    # --- outcomes

    def _check_call(self, call):
        answered, lost, refused = self._answered(call), self._lost(call), self._refused(call)
        earliest_end, latest_end = self._deadlines(call)
        cancelled = NEVER if call.cancelled is None else call.cancelled
        kind = self._kind(call)
        self.seen[call.kind, kind] += 1
        # A thread whose call timed out stays until its withdrawal is confirmed.
        in_time = latest_end if self.is_aio else earliest_end - SLACK_S
        due = [when for when in (answered, lost, refused, cancelled) if when < in_time]
        if call.ended > min([*due, latest_end]) + self._slack(call):
            self._fail(call, f"ended late: answered {answered}, lost {lost}, refused {refused}, "
                             f"cancelled {cancelled}, timed out {latest_end} at the latest")
        checks = {"answer": self._check_answer, "no room": self._check_no_room,
                  "lost": self._check_loss, "cancelled": self._check_cancelled,
                  "timed out": self._check_time_out, "refused": self._check_refusal,
                  "stale": self._check_stale}
        if kind in checks:
            checks[kind](call, answered, min(lost, refused), earliest_end)
        else:
            self._fail(call, "unexpected outcome")

    def _slack(self, call):
        """A thread that helps to send does not notice its own answer meanwhile."""
        helps = any(begin <= call.ended and end >= call.started
                    for wire in self.book.wires for begin, end in wire.stalls)
        return HELP_S if helps else SLACK_S

    def _kind(self, call):
        error = call.error
        if isinstance(error, asyncio.CancelledError):
            return "cancelled"
        if isinstance(error, Overloaded) or isinstance(error, TimedOut) and "room" in str(error):
            return "no room"
        for kind, what in ((TimedOut, "timed out"), (ConnectionLost, "lost"),
                           (Refused, "refused"), (StaleHandles, "stale")):
            if isinstance(error, kind):
                return what
        if not self._has_result(call):
            return "unexpected"
        if not any(code.decided_by_policy for code in self._codes(call)):
            return "answer"
        if call.ended >= self._deadlines(call)[0] - SLACK_S:
            return "timed out"
        return "lost"

    @staticmethod
    def _codes(call):
        error, result = call.error, call.result
        if isinstance(error, QuotaError):
            return [error.code]
        if isinstance(error, NotInterned):
            return list(error.verdicts)
        if call.kind == "acquire":
            return [result]
        if call.kind in ("reserve", "lease", "check", "consume"):
            return [result.code]
        if call.kind == "inspect":
            return [Verdict.DENIED if result is None else Verdict.APPROVED]
        if result is not None and call.kind != "intern":
            return list(result)
        return [QuotaCode.OK] * len(call.keys)  # APPROVED has the same number

    @staticmethod
    def _has_result(call):
        return call.error is None or isinstance(call.error, (QuotaError, NotInterned))

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
        return (visit.seen is not None
                and visit.outcome not in (visit.codes.draining, REFUSED))

    def _entry_answered(self, key):
        return min((visit.seen for visit in self._visits(key) if self._is_final(visit)),
                   default=NEVER)

    def _answered(self, call):
        return max(map(self._entry_answered, call.keys), default=NEVER)

    def _lost(self, call):
        """When the last visit of an entry was lost that its client may make."""
        resends = TRAITS[call.kind].resends
        if self.settings.requeue and resends != "never":
            return NEVER
        losses = [self._losses(key) for key in call.keys]
        if resends == "once":
            losses = [each[1:] for each in losses]
        return min((loss for each in losses for loss in each), default=NEVER)

    def _losses(self, key):
        """When each visit of an entry was lost."""
        losses = map(self._visit_lost, self._visits(key))
        return sorted(loss for loss in losses if loss < NEVER)

    def _refused(self, call):
        return min((visit.seen for key in call.keys for visit in self._visits(key)
                    if visit.outcome == REFUSED and visit.seen is not None), default=NEVER)

    @staticmethod
    def _visit_lost(visit):
        if visit.seen is not None:
            return visit.seen if visit.outcome == visit.codes.draining else NEVER
        return NEVER if visit.wire.lost_at is None else visit.wire.lost_at

    def _check_answer(self, call, answered, lost, earliest_end):
        if not call.keys:
            return  # a ping, which has no name
        if not answered - SLACK_S <= call.ended <= answered + self._slack(call):
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
                if not TRAITS[call.kind].applies_policy:
                    self._fail(call, f"the failure policy decided {key}")
                if self._entry_answered(key) < call.ended - SLACK_S:
                    self._fail(call, f"the failure policy decided {key}, which was answered")
            elif int(code) not in self._outcomes(key):
                self._fail(call, f"{code!r} of {key} was not sent")
        self._check_numbers(call)

    def _outcomes(self, key):
        return [visit.outcome for visit in self._visits(key) if self._is_final(visit)]

    def _check_numbers(self, call):
        """Reservations and handles are those that the server gave to these entries."""
        result = call.error if isinstance(call.error, NotInterned) else call.result
        if isinstance(call.error, QuotaError):
            return
        if call.kind in ("reserve", "lease"):
            self._check_each(call, "reservation", [result.id], self._codes(call))
        elif call.kind == "reserve_many":
            self._check_each(call, "reservation", result.reservations, self._codes(call))
        elif call.kind == "intern":
            handles = result.handles if isinstance(result, NotInterned) else result
            self._check_each(call, "handle", handles, self._codes(call))

    def _check_each(self, call, what, numbers, codes):
        for key, number, code in zip(call.keys, numbers, codes, strict=True):
            sent = [getattr(visit, what) for visit in self._visits(key) if self._is_final(visit)
                    and visit.outcome == int(code)]
            if number not in (sent or [0]):
                self._fail(call, f"{what} {number:x} of {key} was not sent")

    def _check_partial(self, call):
        """An error has the outcomes before it, and no others."""
        partial = getattr(call.error, "partial", None)
        if partial is None:
            if (call.kind in ("acquire_many", "acquire_many_handles", "reserve_many")
                    and self._kind(call) in ("lost", "refused", "stale") and call.error is not None
                    and any(self._visits(key) for key in call.keys)):
                self._fail(call, "its error lacks the outcomes before it")
            return
        for key, code in zip(call.keys, partial, strict=True):
            if int(code) and int(code) not in self._outcomes(key):
                self._fail(call, f"{code!r} of {key} was not sent: {partial!r}")
            if not int(code) and self._entry_answered(key) < call.ended - SLACK_S:
                self._fail(call, f"{key} was answered, and is missing in {partial!r}")
        if call.kind == "reserve_many":
            self._check_each(call, "reservation", partial.reservations, partial)

    def _check_sends(self, call):
        """Each entry is sent again only after a loss, and only where it may be."""
        resends = TRAITS[call.kind].resends
        most = 2 if resends == "once" else 1
        if self.settings.requeue and resends != "never":
            most = NEVER
        for key in call.keys:
            visits = self._visits(key)
            if len(visits) > most and call.kind not in BATCHES:
                self._fail(call, f"{key} was sent {len(visits)} times")
            for earlier, later in zip(visits, visits[1:]):
                if self._visit_lost(earlier) > later.arrived:
                    self._fail(call, f"{key} was sent again, and had not been lost")

    def _check_names(self):
        """Every visit by handle was somebody's: handles of a lost connection name other keys."""
        wanted = {key for call in self.calls for key in call.keys}
        for name, visits in self.book.visits.items():
            if visits[0].kind in ("acquireByHandle", "forget") and name not in wanted:
                self.failures.append(f"nobody asked for {name}")

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
        if pending < self.settings.pending_max - self._own_requests(call.ended):
            self._fail(call, f"no room while at most {pending} calls were pending")

    def _own_requests(self, now):
        """Releases and renewals, which the client makes by itself, are calls too.

        A renewal that timed out stays pending while there is a connection.
        """
        own = {key for call in self.calls for key in call.keys}
        releases = sum(len(costs) for key, costs in self.book.releases.items()
                       if f"release:{key}" not in own)
        renewed = [begun for _, _, begun, _, _ in self.leases if begun <= now]
        return releases + len(renewed) * (1 + RETRIES)

    def _may_be_pending(self, call, refused):
        """Not ended, or ended while the server still has to answer a frame with its entries."""
        now = refused.ended
        if not call.started or call.started > now:
            return False
        if call.ended is None or call.ended >= now - SLACK_S or not call.keys:
            return True
        if call.cancelled is not None and call.cancelled >= refused.started - SEEK_CANCELLED_S:
            return True
        if TRAITS[call.kind] is CHANGE:  # needs no caller
            return self._answered(call) >= now - SLACK_S
        # A call that was cancelled before and not sent is dropped when its room is needed.
        return any(visit.arrived - HELP_S <= now and (visit.seen or NEVER) >= now - SLACK_S
                   for key in call.keys for visit in self._visits(key))

    def _check_loss(self, call, answered, lost, earliest_end):
        traits = TRAITS[call.kind]
        if answered < call.ended - SLACK_S:
            self._fail(call, f"was answered before, at {answered}")
        if self.settings.requeue and traits.resends != "never":
            self._fail(call, "lost in spite of requeue=True")
        if self._has_result(call):
            self._check_codes(call)
        elif self.settings.on_failure != "error" and traits.applies_policy:
            self._fail(call, "an error in spite of on_failure")
        own = [loss for key in call.keys for loss in self._losses(key)]
        if any(loss - SLACK_S <= call.ended <= loss + self._slack(call) for loss in own):
            return
        # Without a connection calls fail until the pause between two attempts is over.
        was_sent = call.keys and all(self._visits(key) for key in call.keys)
        losses = [*self.book.failed_attempts,
                  *(wire.lost_at for wire in self.book.wires if wire.lost_at is not None)]
        if was_sent and traits.resends != "once" or not any(
                call.ended - BACKOFF_S <= loss <= call.ended + SLACK_S for loss in losses):
            self._fail(call, f"lost without a loss: {own}")

    def _check_refusal(self, call, answered, lost, earliest_end):
        refused = self._refused(call)
        if not refused - SLACK_S <= call.ended <= refused + self._slack(call):
            self._fail(call, "refused, and the server did not refuse it then")

    def _check_stale(self, call, answered, lost, earliest_end):
        """The connection of its handles, or of its own first frame, is lost."""
        if call.kind not in ("intern", "acquire_many_handles", "forget"):
            self._fail(call, "it has no handles")
        interned_by = call.interned_by or call
        wires = {visit.wire for key in interned_by.keys for visit in self._visits(key)}
        if isinstance(interned_by.error, NotInterned) or interned_by is call:
            wires = self.book.wires  # handles without an origin are stale after any loss
        if not any(wire.lost_at is not None and wire.lost_at <= call.ended + SLACK_S
                   for wire in wires):
            self._fail(call, "its handles' connection was not lost")

    def _check_time_out(self, call, answered, lost, earliest_end):
        if call.ended < earliest_end - SLACK_S:
            self._fail(call, f"timed out before {earliest_end}")
        if min(answered, lost) < earliest_end - SLACK_S:
            self._fail(call, f"timed out after its answer at {answered} or loss at {lost}")
        if self._has_result(call):
            self._check_codes(call)
        elif (self.settings.on_failure != "error" and not call.waits
              and TRAITS[call.kind].applies_policy):
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
        return call.ended if kind in ("lost", "refused", "stale") else NEVER

    def _survived(self, wire):
        return wire.lost_at is None or wire.lost_at >= self.book.client_ended

    def _own_calls(self, *methods):
        return [call for call in self.calls
                if call.kind in methods and call.returns == 1]

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
        for call in self._own_calls("acquire", "acquire_many", "reserve", "reserve_many",
                                    "lease"):
            left = self._left_at(call)
            if left == NEVER or not call.waits:
                continue
            for visit in (visit for key in call.keys for visit in self._visits(key)):
                ended = min(visit.decided or NEVER, visit.wire.lost_at or NEVER,
                            visit.wire.goes_away or NEVER)
                due = max(left, visit.queued_seen or NEVER) + 0.3
                if visit.withdrawn is None and ended > due:
                    self._fail(call, f"{visit.name} stayed in its queue")

    def _check_reservations(self):
        """A reservation that no caller got is cancelled, once; its owner ends any other."""
        ended = {key for call in self.calls for key in call.keys}
        for number, slot in self.book.slots.items():
            visit = next(visit for visit in self._visits(slot.subject)
                         if visit.reservation == number)
            if visit.seen is None:
                continue
            cancels, name = len(slot.cancels), f"{number:x} of {slot.subject}"
            if number in self.delivered:
                if cancels and f"cancel:{number:x}" not in ended:
                    self.failures.append(f"reservation {name} was cancelled, and its owner did "
                                         "not wish it")
            elif cancels > 1 or self._survived(visit.wire) and not cancels:
                self.failures.append(f"reservation {name}, which nobody got, was cancelled "
                                     f"{cancels} times")

    def _check_changes(self):
        """A settle, cancel or extend reaches the server though its caller has left."""
        if self.settings.pending_max < 100:
            return  # it may have left before there was room
        wires = [wire for wire in self.book.wires if self._survived(wire)]
        for call in self._own_calls("settle", "cancel", "extend"):
            if self._kind(call) not in ("timed out", "cancelled") or self._visits(call.keys[0]):
                continue
            if any(wire.goes_away is None and wire.ready_at < call.started for wire in wires):
                self._fail(call, "did not reach the server")

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
