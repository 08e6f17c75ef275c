"""Judges what callers of a fleet saw: which answers no end of a node explains, and which keys had
another number of approvals than their limit.

Windows are longer than the test, so a key has one window in each life of its owner. A request whose
answer was lost, or that was on its way while the owner changed, may have been counted."""

import bisect
import collections
import dataclasses

from fleet import GOCC
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
        for (key, life), window in windows.items():
            self._judge(key, life, window)

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
        return any(old.ending <= ask.answered and ask.sent <= new.ready + noticed_within_s
                   for old, new in zip(lives, lives[1:], strict=False))

    def _problem(self, ask):
        outcome = ask.outcome
        if outcome is Outcome.WRONG:
            return "a wrong answer"
        if outcome in (Outcome.LOST, Outcome.REFUSED):
            return None if self._was_away(ask.entry, ask) else "no answer, of a node that runs"
        owner = ask.key.owner
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

    def summary(self):
        counts = ", ".join(f"{outcome.name.lower()} {count}"
                           for outcome, count in self.counts.items())
        return f"{counts}; {sum(self.exact.values())} windows reached their limit exactly"
