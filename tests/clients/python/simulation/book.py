"""What the scripted server received and decided, and when the client could know it.

Shape: each entry of a frame has a name that only one call of a run uses: the key of an acquire, the
       subject of a reserve, else its kind too ("settle:ID", "record:SUBJECT"), so that the book has
       every decision under its name.
"""

import dataclasses

from native_peer import (APPROVED, CODES, DENIED, DRAINING, HANDLES_FULL, QUEUED, WAIT_LIMIT,
                         WITHDRAWN)
from world import Wire

REFUSED = -1  # an outcome: the server answered the frame by an error


class Verdicts:
    approved, queued, denied, withdrawn, draining = APPROVED, QUEUED, DENIED, WITHDRAWN, DRAINING
    wait_limit, no_handle = WAIT_LIMIT, HANDLES_FULL


class QuotaCodes:
    approved, queued, denied = CODES["ok"], CODES["queued"], CODES["tpmExceeded"]
    withdrawn, draining, wait_limit = CODES["withdrawn"], CODES["draining"], CODES["waitLimit"]


ENDED = {"settle": CODES["alreadySettled"], "cancel": CODES["alreadyCancelled"]}


@dataclasses.dataclass
class Visit:
    """One entry of one frame, as the server received it."""

    wire: Wire
    kind: str  # of the frame
    frame_id: int
    position: int
    name: str
    codes: object  # the numbers of its outcomes: Verdicts or QuotaCodes
    arrived: float
    cost: int = 1
    may_wait: bool = False
    lifetime: float = 0.0
    outcome: int | None = None  # decided; not QUEUED
    decided: float | None = None
    reservation: int = 0
    handle: int = 0
    queued_seen: float | None = None
    seen: float | None = None  # when the client had the outcome
    withdrawn: float | None = None  # when a Withdraw named it
    waits: bool = False


@dataclasses.dataclass
class Slot:
    """A reservation of the running server."""

    subject: str
    lifetime: float  # 0: without an end
    ends: float  # earlier than it was promised, if the server ends before
    promised: float
    ended_by: str | None = None  # "settle" or "cancel", the first one
    extends: list = dataclasses.field(default_factory=list)  # when each arrived
    settles: list = dataclasses.field(default_factory=list)
    cancels: list = dataclasses.field(default_factory=list)

    def change(self, kind, now, lifetime):
        """Returns the code of a settle, cancel or extend that arrives now."""
        {"settle": self.settles, "cancel": self.cancels, "extend": self.extends}[kind].append(now)
        if self.ended_by is not None:
            return QuotaCodes.approved if self.ended_by == kind else ENDED[self.ended_by]
        if now >= self.ends:
            return CODES["alreadyExpired"]
        if kind == "extend":
            self.lifetime = lifetime or self.lifetime
            self.ends = self.promised = now + self.lifetime
        else:
            self.ended_by, self.ends = kind, now
        return QuotaCodes.approved


class Book:
    """What happened, by name or reservation."""

    def __init__(self):
        self.visits = {}
        self.releases = {}  # key -> costs
        self.slots = {}  # reservation -> Slot, of all instances
        self.when_seen = {}  # name -> what to do when the client gets its outcome
        self.failed_attempts = []  # to connect: when the client saw it
        self.wires = []
        self.client_ended = float("inf")  # it was closed, and its connection with it
        self.errors = []  # of the client, against the protocol
