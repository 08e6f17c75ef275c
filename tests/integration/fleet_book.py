"""Judges what callers of a fleet saw: which answers no end of a node explains, and which keys had
another number of approvals than their limit.

Windows are longer than the test, so a key has one window in each life of its owner. A request whose
answer was lost, or that was on its way while the owner changed, may have been counted."""

import bisect
import collections
import dataclasses
import itertools

from fleet import GOCC, OURS
from fleet_load import Outcome

# So long after its return a node may still be taken for lost: the others connect again after up to
# a second, and the machine may stand still.
NOTICED_WITHIN_S = 5
COMPLAINTS_MAX = 20  # that are kept


@dataclasses.dataclass
class Window:
    """A key's count in one life of its owner."""

    approved: list = dataclasses.field(default_factory=list)  # requests, surely of this window
    possible: list = dataclasses.field(default_factory=list)  # of this one, of another, or lost
    denied: list = dataclasses.field(default_factory=list)


class Book:
    def __init__(self, nodes, asks):
        self.lives = [node.lives for node in nodes]
        self.complaints = []
        self.counts = collections.Counter()         # of each outcome
        self.ways = collections.Counter()           # approvals by entry node and owner
        self.exact = collections.Counter()          # windows that reached their limit, by life
        self.shared = collections.Counter()         # approvals of shared keys by way
        self.ended_waits = collections.Counter()    # requests for them that were not approved
        self._held = collections.defaultdict(list)  # permits of a shared key, by life of its owner
        self._strays = collections.Counter()        # releases there that may be of other lives
        self._unreleased = collections.Counter()    # permits there that may not have been released
        self._given_up = []
        windows = collections.defaultdict(Window)
        for ask in asks:
            self.counts[ask.outcome] += 1
            problem = self._problem(ask)
            if problem:
                self._complain(f"{problem}: {ask}")
            elif ask.key and ask.method != "DELETE" and ask.key.limit is not None:
                self._enter(ask, windows)
            if ask.outcome is Outcome.APPROVED:
                self.ways[ask.entry, ask.key.owner] += 1
            if ask.may_wait:
                self._wait(ask)
        for (key, life), window in windows.items():
            self._judge(key, life, window)
        for (key, life), permits in self._held.items():
            self._judge_held(key, life, permits)
        for ask in self._given_up:
            self._judge_given_up(ask)

    def _complain(self, text):
        if len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.append(text)

    # --- one answer

    def _kinds(self, ask):
        """What the entry node was while it had the request."""
        return {life.kind for life in self.lives[ask.entry]
                if life.spawned <= ask.answered and ask.sent <= life.ended}

    def _was_away(self, number, ask, noticed_within_s=0):
        """Whether the node ended or began while the request was on its way."""
        lives = self.lives[number]
        since = ask.sent
        if ask.may_wait:  # a wait is ended at once, not some time after its node was away
            since = max(since, ask.answered - NOTICED_WITHIN_S)
        return any(old.ending <= ask.answered and since <= new.ready + noticed_within_s
                   for old, new in zip(lives, lives[1:], strict=False))

    def _problem(self, ask):
        outcome = ask.outcome
        if outcome is Outcome.WRONG:
            return "a wrong answer"
        if outcome in (Outcome.LOST, Outcome.REFUSED):
            return None if self._was_away(ask.entry, ask) else "no answer, of a node that runs"
        owner = ask.key.owner
        if outcome is Outcome.GIVEN_UP:
            return "waited on after its node had ended" if self._outlives(ask) else None
        if outcome is Outcome.UNREACHABLE:
            is_explained = owner != ask.entry and self._was_away(owner, ask, NOTICED_WITHIN_S)
            return None if is_explained else "owner not reached, although it runs"
        if outcome is Outcome.DRAINING:
            is_explained = self._was_away(owner, ask) or self._was_away(ask.entry, ask)
            return None if is_explained else "503 of a node that runs"
        if outcome is Outcome.DENIED and ask.key.limit is None:
            return "denied, although each permit was released"
        # A gocc passes on no more than the status.
        may_lack_id = ask.method == "DELETE" or (ask.entry != owner and GOCC in self._kinds(ask))
        if outcome is Outcome.APPROVED and not ask.has_id and not may_lack_id:
            return "approved without an id"
        return None

    def _outlives(self, ask):
        """Whether it waited on when its owner had ended, or the node that was asked."""
        return any(life.spawned <= ask.sent <= life.ended < ask.answered - NOTICED_WITHIN_S
                   for number in (ask.entry, ask.key.owner) for life in self.lives[number])

    # --- counts

    def _lives_of(self, ask):
        """Places in the list of the owner's lives in which the request may have been decided."""
        return [place for place, life in enumerate(self.lives[ask.key.owner])
                if life.spawned <= ask.answered and ask.sent <= life.ended]

    def _enter(self, ask, windows):
        places = self._lives_of(ask)
        is_certain = len(places) == 1 and ask.outcome in (Outcome.APPROVED, Outcome.DENIED)
        if not places and ask.outcome is Outcome.APPROVED:
            self._complain(f"approved without an owner: {ask}")
        for place in places:
            window = windows[ask.key, place]
            if not is_certain:
                if ask.outcome not in (Outcome.DENIED, Outcome.DRAINING):
                    window.possible.append(ask)
            elif ask.outcome is Outcome.APPROVED:
                window.approved.append(ask)
            else:
                window.denied.append(ask)

    def _judge(self, key, life, window):
        where = f"{key}, life {life} of its owner"
        if len(window.approved) > key.limit:
            self._complain(f"{len(window.approved)} approved, limit {key.limit}: {where}")
        if not window.denied:
            return
        first = min(window.denied, key=lambda ask: ask.answered)
        sent = sorted(ask.sent for ask in [*window.approved, *window.possible])
        before = bisect.bisect_left(sent, first.answered)
        if before < key.limit:
            self._complain(f"denied after at most {before} approvals, limit {key.limit}: {where}: "
                           f"{first}")
        late = [ask for ask in window.approved if ask.sent > first.answered]
        if late:
            self._complain(f"approved after a denial: {where}: {first}, {late[0]}")
        if len(window.approved) == key.limit:
            self.exact[key.owner, life] += 1

    # --- permits of shared keys

    def _wait(self, ask):
        places = self._lives_of(ask)
        if ask.outcome is Outcome.APPROVED:
            self.shared[ask.entry, ask.key.owner] += 1
            self._hold(ask, places)
        else:
            self.ended_waits[ask.outcome] += 1
        if ask.outcome is Outcome.GIVEN_UP:
            self._given_up.append(ask)
        if self._may_leave_a_permit(ask):
            self._unreleased.update((ask.key, place) for place in places)

    def _may_leave_a_permit(self, ask):
        """In a life of the owner that goes on. A gocc does not pass on that a caller has left."""
        if ask.outcome is Outcome.APPROVED:
            return ask.release is None or ask.release.outcome is not Outcome.RELEASED
        return ask.outcome is Outcome.LOST or (
            ask.outcome is Outcome.GIVEN_UP and GOCC in self._kinds(ask))

    def _hold(self, ask, places):
        """A permit is surely held from its answer until its release is sent; it stays counted for
        as long as the owner lives when it is never released."""
        if len(places) == 1:
            until = ask.release.sent if ask.release else float("inf")
            self._held[ask.key, places[0]].append((ask.answered, until))
        for place in self._lives_of(ask.release) if ask.release else ():
            if places != [place]:
                self._strays[ask.key, place] += 1

    def _judge_held(self, key, life, permits):
        limit = key.shared + self._strays[key, life]
        steps = sorted([(until, -1) for _, until in permits] + [(since, 1) for since, _ in permits])
        most = max(itertools.accumulate(step for _, step in steps))
        if most > limit:
            self._complain(f"{most} held at once, limit {limit}: {key}, life {life} of its owner")

    def _judge_given_up(self, ask):
        """A gocc gives released permits to newcomers alone."""
        for place in self._lives_of(ask):
            taken = self._unreleased[ask.key, place]
            if self.lives[ask.key.owner][place].kind == OURS and taken < ask.key.shared:
                self._complain(f"waited in vain, {taken} permits taken: {ask}")

    def summary(self):
        counts = ", ".join(f"{outcome.name.lower()} {count}"
                           for outcome, count in self.counts.items())
        ended = ", ".join(f"{outcome.name.lower()} {count}"
                          for outcome, count in self.ended_waits.items())
        return (f"{counts}; {sum(self.exact.values())} windows reached their limit exactly; of "
                f"waiters {sum(self.shared.values())} approved, {ended or 'none'} else")
