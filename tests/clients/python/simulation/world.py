"""The simulated world: its clock, its events, and the wires between a client and the server.

Units: seconds. Nothing here reads a real clock: the same seed does the same everywhere.
"""

import heapq
import itertools
import random


class World:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = 1_000.0
        self._events = []
        self._order = itertools.count()

    def monotonic(self):
        return self.now

    def at(self, when, act, *arguments):
        heapq.heappush(self._events, (max(when, self.now), next(self._order), act, arguments))

    def after(self, delay, act, *arguments):
        self.at(self.now + delay, act, *arguments)

    @property
    def next_event(self):
        return self._events[0][0] if self._events else float("inf")

    def run_due(self):
        while self._events and self._events[0][0] <= self.now:
            _, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)

    def chance(self, probability):
        return self.random.random() < probability


class Wire:
    """The bytes of one connection, each way in order, late and in parts.

    `end` is the client's: arrived(bytes) and broke(error); an error None is an orderly end.
    """

    def __init__(self, world, server, number, latency):
        self.world = world
        self.server = server
        self.number = number
        self.end = None
        self._early = []  # parts that arrived before the client had its end
        self._error = None
        self.lost_at = None  # when the client saw the end, or ended it itself
        self.ready_at = float("inf")  # when the client had Welcome
        self.goes_away = None  # when the server said so: then a client sends nothing more
        self.stalls = []  # (from, until): the kernel takes no bytes of the client
        self.is_cut = False  # the server sends nothing more
        self._latency = latency
        self._to_server = self._to_client = world.now

    def _delay(self):
        return self._latency * self.world.random.uniform(0.5, 2)

    # --- the client's end

    def attach(self, end):
        self.end = end
        if self.lost_at is not None:
            end.broke(self._error)
        for part, seen in self._early:
            self._arrive(part, seen)

    def from_client(self, data):
        self._to_server = max(self._to_server, self.world.now + self._delay())
        self.world.at(self._to_server, self.server.received, self, bytes(data))

    def close_by_client(self):
        if self.lost_at is None:
            self.lost_at = self.world.now
            self.world.at(self._to_server, self.server.lost, self)

    # --- the server's end

    def send(self, frame, seen=None):
        """`seen` is called when the client has the whole frame."""
        if self.is_cut:
            return
        places = sorted(self.world.random.sample(range(1, len(frame)), 2))
        parts = [frame]
        if self.world.chance(0.3):
            parts = [frame[:places[0]], frame[places[0]:places[1]], frame[places[1]:]]
        for part in parts:
            self._to_client = max(self._to_client, self.world.now + self._delay())
            self.world.at(self._to_client, self._arrive, part,
                          seen if part is parts[-1] else None)

    def _arrive(self, part, seen):
        if self.end is None:
            self._early.append((part, seen))
        elif self.lost_at is None:
            self.end.arrived(part)
            if seen is not None:
                seen()

    def cut(self, error=None):
        """Ends the connection; bytes on their way are lost with an error."""
        if self.is_cut:
            return
        self.is_cut = True
        when = self.world.now + self._delay()
        self.world.at(when if error else max(when, self._to_client), self._break, error)

    def _break(self, error):
        if self.lost_at is None:
            self.lost_at, self._error = self.world.now, error
            if self.end is not None:
                self.end.broke(error)
