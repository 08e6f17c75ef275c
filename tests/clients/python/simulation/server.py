"""The scripted server: decides at random, answers late and in another order, goes away and starts
again, and keeps a book of all that it received and of what the client has seen.
"""

from book import REFUSED as REFUSED_FRAME
from book import Book, QuotaCodes, Slot, Verdicts, Visit
from fake_server import WELCOME, ReceivedFrame
from native_peer import CODES, MAY_WAIT, NO_HANDLE, SCHEMA
from world import Wire

from sluicegate import _frames

REFUSED, HANGS = "refused", "hangs"

# Frames whose entries the server decides when it answers; the others take effect on arrival.
DECIDED = ("acquire", "acquireByHandle", "reserve", "check", "record", "consume", "inspect",
           "reset", "intern")
ADMITTED = ("acquire", "acquireByHandle", "reserve", "check", "consume")  # not in a drain
REFUSABLE = (*ADMITTED, "record", "intern", "inspect", "reset")


def server_frame(**message):
    """As that of frame_codecs.py, for small frames: the simulation makes a great many."""
    builder = SCHEMA.ServerFrame.new_message()
    builder.from_dict(message)
    return builder.to_bytes()


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
        self._handles = {}  # wire -> {handle: key}
        self._open = set()  # wires
        random = world.random
        self._latency = random.choice([0.0001, 0.002, 0.02])
        self._pause = random.choice([0.0005, 0.02, 0.3])  # before an answer, on average
        self._denies = random.choice([0.1, 0.5])
        self._queues = random.choice([0.2, 0.9])
        self._drains = random.choice([0, 0, 0.05])
        self._hangs = random.choice([0, 0, 0.1])
        self._refuses = random.choice([0, 0, 0.05])
        self._refuses_connections = random.choice([0, 0, 0.2])
        self._lacks_handles = random.choice([0, 0.2])
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
        self._handles[wire] = {}
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
        self._forget_all()

    def _wires(self):
        return sorted(self._open, key=lambda wire: wire.number)

    def _forget_all(self):
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
        handlers = {"hello": self._hello, "withdraw": self._withdraw, "ping": self._ping}
        handlers.get(frame.kind, self._enter)(wire, frame)

    def _later(self, act, *arguments):
        pause = 0.001 if self.is_calm else self._pause
        self.world.after(self.world.random.expovariate(1 / pause), act, *arguments)

    def _hello(self, wire, frame):
        if self.is_calm or not self.world.chance(self._hangs):
            def is_ready():
                wire.ready_at = self.world.now
            self._later(wire.send, server_frame(id=frame.id, welcome=self._welcome | {
                "instanceId": self._instance}), is_ready)

    def _ping(self, wire, frame):
        self._later(wire.send, server_frame(id=frame.id, pong=None))

    def _check_size(self, kind, count):
        if count > self._welcome["frameEntriesMax"]:
            self.book.errors.append(f"{kind} of {count} entries, more than Welcome allows")

    def _enter(self, wire, frame):
        visits = [Visit(wire, frame.kind, frame.id, position, name, codes, self.world.now,
                        **columns)
                  for position, (name, codes, columns) in enumerate(self._entries(wire, frame))]
        for visit in visits:
            self.book.visits.setdefault(visit.name, []).append(visit)
            if visit.kind not in DECIDED:
                self._end(visit, self._take_effect(visit, frame))
        self._frames[wire, frame.id] = visits
        self._check_size(frame.kind, len(visits))
        self._later(self._answer, wire, visits)

    def _entries(self, wire, frame):
        """(name, codes, columns) of each."""
        body, kind = frame.body, frame.kind
        if kind in ("acquire", "release", "intern"):
            costs = body.get("costs") or [1] * len(frame.keys)
            flags = body.get("entryFlags") or bytes(len(frame.keys))
            prefix = "" if kind == "acquire" else f"{kind}:"
            return [(prefix + key.decode(), Verdicts, {
                "cost": cost, "may_wait": bool((flag | body.get("flags", 0)) & MAY_WAIT)})
                for key, cost, flag in zip(frame.keys, costs, flags)]
        if kind in ("acquireByHandle", "forget"):
            return self._entries_by_handle(wire, frame)
        if kind in ("reserve", "check", "record", "consume"):
            prefix = "" if kind == "reserve" else f"{kind}:"
            may_wait = kind in ("reserve", "consume") and bool(body["flags"] & MAY_WAIT)
            return [(prefix + names[0], QuotaCodes, {
                "may_wait": may_wait, "lifetime": body.get("lifetimeMs", 0) / 1000})
                for names in frame.subjects]
        if kind in ("settle", "cancel", "extend"):
            suffix = f":{body['lifetimeMs']}" if kind == "extend" else ""
            return [(f"{kind}:{number:x}{suffix}", QuotaCodes, {"reservation": number})
                    for number in body["reservations"]]
        if kind == "inspect":
            return [(f"inspect:{body['key'].decode()}", Verdicts, {})]
        return [(f"reset:{body['subject'].decode()}", QuotaCodes, {})]

    def _entries_by_handle(self, wire, frame):
        keys, costs = self._handles[wire], frame.body.get("costs")
        entries = []
        for position, handle in enumerate(frame.body["handles"]):
            if handle not in keys:
                self.book.errors.append(f"{frame.kind} of a handle that its connection lacks")
                keys[handle] = "?"
            name = (f"forget:{keys[handle]}" if frame.kind == "forget"
                    else f"{keys[handle]}#{costs[position]}")
            entries.append((name, Verdicts, {"handle": handle}))
        return entries

    def _take_effect(self, visit, frame):
        if visit.kind == "release":
            self.book.releases.setdefault(visit.name.removeprefix("release:"), []).append(
                visit.cost)
        elif visit.kind == "forget":
            self._handles[visit.wire].pop(visit.handle, None)
        else:
            slot = self.book.slots.get(visit.reservation)
            if slot is None:
                return CODES["unknownReservation"]
            return slot.change(visit.kind, self.world.now, frame.body.get("lifetimeMs", 0) / 1000)
        return visit.codes.approved

    # --- answers

    def _answer(self, wire, visits):
        if wire not in self._open:
            return
        kind, frame_id = visits[0].kind, visits[0].frame_id
        if not self.is_calm and kind in REFUSABLE and self.world.chance(self._refuses):
            self._refuse(wire, visits)
            return
        outcomes = [self._decide(visit) if visit.kind in DECIDED else visit.outcome
                    for visit in visits]
        wire.send(server_frame(id=frame_id, **self._answer_to(kind, visits, outcomes)),
                  lambda: self._seen(visits, outcomes))
        for visit, outcome in zip(visits, outcomes):
            if outcome == visit.codes.queued:
                self.world.after(self.world.random.expovariate(1 / 0.4), self._grant, visit)

    def _refuse(self, wire, visits):
        """By an error, which says that the server drains, or that the frame is at fault."""
        drains = visits[0].kind in ADMITTED and self.world.chance(0.5)
        for visit in visits:
            self._end(visit, visit.codes.draining if drains else REFUSED_FRAME)
        wire.send(server_frame(id=visits[0].frame_id, error={
            "code": "draining" if drains else "badCost", "text": "a simulation"}),
            lambda: self._seen(visits, [visit.outcome for visit in visits]))

    def _answer_to(self, kind, visits, outcomes):
        raw = bytes(outcomes)
        if len(set(raw)) == 1 and self.world.chance(0.5):
            raw = raw[:1]
        if kind in ("acquire", "acquireByHandle"):
            return {"verdicts": {"count": len(visits), "verdicts": raw}}
        if kind in ("release", "forget"):
            return {"done": None}
        if kind == "intern":
            return {"interned": {"handles": [visit.handle for visit in visits], "verdicts": raw}}
        if kind == "inspect":
            return {"inspected": inspected(visits[0])}
        body = {"count": len(visits), "codes": raw}
        if kind == "reserve" and any(visit.reservation for visit in visits):
            body["reservations"] = [visit.reservation for visit in visits]
        return {"quotaAnswers": body}

    def _decide(self, visit):
        codes, chance = visit.codes, self.world.chance
        if visit.withdrawn is not None:
            outcome = codes.withdrawn
        elif visit.kind in ADMITTED and not self.is_calm and chance(self._drains):
            outcome = codes.draining
        elif visit.may_wait and chance(self._queues):
            visit.waits = True
            return codes.queued
        elif visit.kind == "intern":
            outcome = self._intern(visit)
        elif visit.kind == "reset":
            outcome = codes.approved
        else:
            outcome = codes.denied if chance(self._denies) else codes.approved
        self._end(visit, outcome)
        return outcome

    def _intern(self, visit):
        """Each connection numbers its handles from 0, so those of another name other keys."""
        if self.world.chance(self._lacks_handles):
            visit.handle = NO_HANDLE
            return visit.codes.no_handle
        keys = self._handles[visit.wire]
        visit.handle = max(keys, default=-1) + 1
        keys[visit.handle] = visit.name.removeprefix("intern:")
        return visit.codes.approved

    def _end(self, visit, outcome):
        visit.outcome, visit.decided, visit.waits = outcome, self.world.now, False
        if visit.kind == "reserve" and outcome == visit.codes.approved:
            visit.reservation = self._next_reservation
            self._next_reservation += 1
            ends = self.world.now + visit.lifetime if visit.lifetime else float("inf")
            self.book.slots[visit.reservation] = Slot(visit.name, visit.lifetime, ends, ends)

    def _seen(self, visits, outcomes):
        for visit, outcome in zip(visits, outcomes):
            if outcome == visit.codes.queued:
                visit.queued_seen = self.world.now
            else:
                visit.seen = self.world.now
                self.book.when_seen.pop(visit.name, lambda: None)()

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
        self._check_size(frame.kind, len(frame.body["entries"]))
        for position in frame.body["entries"]:
            visit = visits[position]
            if visit.withdrawn is not None:
                self.book.errors.append(f"{visit.name} was withdrawn twice")
            visit.withdrawn = self.world.now
            self._grant(visit, visit.codes.withdrawn)
        wire.send(server_frame(id=frame.id, done=None))


def inspected(visit):
    """The state of a key that the server knows, or none."""
    if visit.outcome != visit.codes.approved:
        return {}
    key = visit.name.removeprefix("inspect:").encode()
    columns = ("windowMs", "maxRequests", "maxRequestsInQueue", "approved", "denied", "waiting",
               "resetMs")
    return {"keys": key, "keySizes": [len(key)], **{column: [1] for column in columns}}
