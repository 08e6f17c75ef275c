"""The scripted server: decides at random, answers late and in another order, goes away and starts
again, and keeps a book of all that it received and of what the client has seen.

Shape: a key, or a subject, belongs to one call, so that the book knows every decision by its key.
"""

import dataclasses

from fake_server import WELCOME, ReceivedFrame
from native_peer import (APPROVED, CODES, DENIED, DRAINING, MAY_WAIT, QUEUED, SCHEMA, WAIT_LIMIT,
                         WITHDRAWN)
from world import Wire

from sluicegate import _frames

REFUSED, HANGS = "refused", "hangs"


def server_frame(**message):
    """As that of frame_codecs.py, for small frames: the simulation makes a great many."""
    builder = SCHEMA.ServerFrame.new_message()
    builder.from_dict(message)
    return builder.to_bytes()


@dataclasses.dataclass
class Visit:
    """One entry of one frame, as the server received it."""

    wire: Wire
    frame_id: int
    position: int
    key: str
    cost: int
    may_wait: bool
    codes: object  # the numbers of its outcomes: Verdicts or ReserveCodes
    arrived: float
    lifetime: float = 0.0
    outcome: int | None = None  # decided; not QUEUED
    decided: float | None = None
    reservation: int = 0
    queued_seen: float | None = None
    seen: float | None = None  # when the client had the outcome
    withdrawn: float | None = None  # when a Withdraw named it
    waits: bool = False


class Verdicts:
    approved, queued, denied, withdrawn, draining = APPROVED, QUEUED, DENIED, WITHDRAWN, DRAINING
    wait_limit = WAIT_LIMIT


class ReserveCodes:
    approved, queued, denied = CODES["ok"], CODES["queued"], CODES["tpmExceeded"]
    withdrawn, draining, wait_limit = CODES["withdrawn"], CODES["draining"], CODES["waitLimit"]


@dataclasses.dataclass
class Slot:
    """A reservation of the running server."""

    subject: str
    lifetime: float  # 0: without an end
    ends: float  # earlier than it was promised, if the server ends before
    promised: float
    extends: list = dataclasses.field(default_factory=list)  # when each arrived
    cancels: list = dataclasses.field(default_factory=list)


class Book:
    """What happened, by key or reservation."""

    def __init__(self):
        self.visits = {}
        self.releases = {}  # key -> costs
        self.slots = {}  # reservation -> Slot, of all instances
        self.failed_attempts = []  # to connect: when the client saw it
        self.wires = []
        self.client_ended = float("inf")  # it was closed, and its connection with it
        self.errors = []  # of the client, against the protocol


class Server:
    def __init__(self, world):
        self.world = world
        self.book = Book()
        self.is_down = False
        self.is_calm = False  # at the end: everything is answered, and soon
        self._instance = 1
        self._next_reservation = 1 << 56
        self._splitters = {}
        self._frames = {}  # (wire, frame id) -> Visits
        self._open = set()  # wires
        random = world.random
        self._latency = random.choice([0.0001, 0.002, 0.02])
        self._pause = random.choice([0.0005, 0.02, 0.3])  # before an answer, on average
        self._denies = random.choice([0.1, 0.5])
        self._queues = random.choice([0.2, 0.9])
        self._drains = random.choice([0, 0, 0.05])
        self._hangs = random.choice([0, 0, 0.1])
        self._refuses_connections = random.choice([0, 0, 0.2])
        self._welcome = WELCOME | random.choice(
            [{}, {}, {"frameEntriesMax": 3}, {"outstandingFramesMax": 2}])

    @property
    def is_prompt(self):
        """Whether no answer takes long."""
        return (self._latency < 0.01 and self._pause < 0.05
                and self._welcome["outstandingFramesMax"] > 2)

    # --- connections

    def connect(self):
        """(how it ends, the delay until then)"""
        delay = 2 * self._latency * self.world.random.uniform(0.5, 2)
        if self.is_down or not self.is_calm and self.world.chance(self._refuses_connections):
            return REFUSED, delay
        if not self.is_calm and self.world.chance(self._hangs):
            return HANGS, delay
        wire = Wire(self.world, self, len(self.book.wires), self._latency)
        self.book.wires.append(wire)
        self._open.add(wire)
        self._splitters[wire] = _frames.Splitter()
        return wire, delay

    def go_down(self, way):
        """Ends all connections and forgets what it held: the next start is another instance."""
        if way == "goes away":
            for wire in self._wires():
                wire.goes_away = self.world.now
                wire.send(server_frame(id=0, goAway={"reason": "a simulation"}))
            self.world.after(self.world.random.uniform(0, 0.5), self.go_down, "closes")
            return
        self.is_down = True
        for wire in self._wires():
            wire.cut(ConnectionResetError("reset") if way == "resets" else None)
        self._forget()

    def _wires(self):
        return sorted(self._open, key=lambda wire: wire.number)

    def _forget(self):
        self._open.clear()
        self._frames.clear()
        self._instance += 1
        for slot in self.book.slots.values():
            slot.ends = min(slot.ends, self.world.now)

    def start_again(self):
        self.is_down = False

    def calm_down(self):
        """No more faults; every frame gets its answer."""
        self.is_calm = True
        self.is_down = False

    def lost(self, wire):
        wire.is_cut = True
        self._open.discard(wire)
        for key in [key for key in self._frames if key[0] is wire]:
            del self._frames[key]

    # --- frames

    def received(self, wire, data):
        if wire not in self._open:
            return
        for frame in self._splitters[wire].feed(data):
            self._take(wire, ReceivedFrame(frame))

    def _take(self, wire, frame):
        handlers = {"hello": self._hello, "acquire": self._acquire, "reserve": self._reserve,
                    "withdraw": self._withdraw, "release": self._release, "ping": self._ping,
                    "cancel": self._change, "extend": self._change, "settle": self._change}
        handlers[frame.kind](wire, frame)

    def _later(self, act, *arguments):
        pause = 0.001 if self.is_calm else self._pause
        self.world.after(self.world.random.expovariate(1 / pause), act, *arguments)

    def _hello(self, wire, frame):
        if self.is_calm or not self.world.chance(self._hangs):
            self._later(wire.send, server_frame(id=frame.id, welcome=self._welcome | {
                "instanceId": self._instance}))

    def _ping(self, wire, frame):
        self._later(wire.send, server_frame(id=frame.id, pong=None))

    def _acquire(self, wire, frame):
        body = frame.body
        costs = body.get("costs") or [1] * len(frame.keys)
        flags = body.get("entryFlags") or bytes(len(frame.keys))
        self._enter(wire, frame, [
            Visit(wire, frame.id, n, key.decode(), cost, bool((flag | body["flags"]) & MAY_WAIT),
                  Verdicts, self.world.now)
            for n, (key, cost, flag) in enumerate(zip(frame.keys, costs, flags))])

    def _reserve(self, wire, frame):
        self._enter(wire, frame, [
            Visit(wire, frame.id, n, names[0], 1, bool(frame.body["flags"] & MAY_WAIT),
                  ReserveCodes, self.world.now, lifetime=frame.body["lifetimeMs"] / 1000)
            for n, names in enumerate(frame.subjects)])

    def _enter(self, wire, frame, visits):
        for visit in visits:
            self.book.visits.setdefault(visit.key, []).append(visit)
        self._frames[wire, frame.id] = visits
        self._later(self._answer, wire, visits)

    def _answer(self, wire, visits):
        if wire not in self._open:
            return
        outcomes = [self._decide(visit) for visit in visits]
        kind = "verdicts" if visits[0].codes is Verdicts else "quotaAnswers"
        column = "verdicts" if visits[0].codes is Verdicts else "codes"
        raw = bytes(outcomes)
        if len(set(raw)) == 1 and self.world.chance(0.5):
            raw = raw[:1]
        body = {"count": len(visits), column: raw}
        if any(visit.reservation for visit in visits):
            body["reservations"] = [visit.reservation for visit in visits]
        wire.send(server_frame(id=visits[0].frame_id, **{kind: body}),
                  lambda: self._seen(visits, outcomes))
        for visit, outcome in zip(visits, outcomes):
            if outcome == visit.codes.queued:
                self.world.after(self.world.random.expovariate(1 / 0.4), self._grant, visit)

    def _decide(self, visit):
        codes, chance = visit.codes, self.world.chance
        if visit.withdrawn is not None:
            outcome = codes.withdrawn
        elif not self.is_calm and chance(self._drains):
            outcome = codes.draining
        elif visit.may_wait and chance(self._queues):
            visit.waits = True
            return codes.queued
        else:
            outcome = codes.denied if chance(self._denies) else codes.approved
        self._end(visit, outcome)
        return outcome

    def _end(self, visit, outcome):
        visit.outcome, visit.decided, visit.waits = outcome, self.world.now, False
        if visit.codes is ReserveCodes and outcome == visit.codes.approved:
            visit.reservation = self._next_reservation
            self._next_reservation += 1
            ends = self.world.now + visit.lifetime if visit.lifetime else float("inf")
            self.book.slots[visit.reservation] = Slot(visit.key, visit.lifetime, ends, ends)

    def _seen(self, visits, outcomes):
        for visit, outcome in zip(visits, outcomes):
            if outcome == visit.codes.queued:
                visit.queued_seen = self.world.now
            else:
                visit.seen = self.world.now

    def _grant(self, visit, outcome=None):
        if visit.waits and visit.wire in self._open:
            codes = visit.codes
            self._end(visit, outcome or (codes.wait_limit if self.world.chance(0.2)
                                         else codes.approved))
            column = "verdicts" if codes is Verdicts else "codes"
            body = {"entries": [visit.position], column: bytes([visit.outcome])}
            if visit.reservation:
                body["reservations"] = [visit.reservation]
            visit.wire.send(server_frame(id=visit.frame_id, granted=body),
                            lambda: self._seen([visit], [visit.outcome]))

    def _withdraw(self, wire, frame):
        visits = self._frames.get((wire, frame.body["target"]))
        if visits is None:
            self.book.errors.append(f"Withdraw of an unknown frame {frame.body['target']}")
            return
        for position in frame.body["entries"]:
            visit = visits[position]
            if visit.withdrawn is not None:
                self.book.errors.append(f"{visit.key} was withdrawn twice")
            visit.withdrawn = self.world.now
            self._grant(visit, visit.codes.withdrawn)
        wire.send(server_frame(id=frame.id, done=None))

    def _release(self, wire, frame):
        costs = frame.body.get("costs") or [1] * len(frame.keys)
        for key, cost in zip(frame.keys, costs):
            self.book.releases.setdefault(key.decode(), []).append(cost)
        self._later(wire.send, server_frame(id=frame.id, done=None))

    def _change(self, wire, frame):
        """Cancel, Settle and Extend take effect at once, and are answered later."""
        codes = [self._changed(frame, number) for number in frame.body["reservations"]]
        self._later(wire.send, server_frame(id=frame.id, quotaAnswers={
            "count": len(codes), "codes": bytes(codes)}))

    def _changed(self, frame, number):
        slot, now = self.book.slots.get(number), self.world.now
        if slot is None:
            return CODES["unknownReservation"]
        if frame.kind == "extend":
            slot.extends.append(now)
        else:
            slot.cancels.append(now)
        if now >= slot.ends:
            return CODES["alreadyExpired"]
        slot.ends = now
        if frame.kind == "extend":
            slot.lifetime = frame.body["lifetimeMs"] / 1000 or slot.lifetime
            slot.ends = slot.promised = now + slot.lifetime
        return CODES["ok"]
