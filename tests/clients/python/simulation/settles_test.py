"""No settle is lost or charged twice, however often the server is killed, and whenever.

Method: the real clients in simulated time, with a failure policy, against a server that is killed
at random moments, answers late or not at all, and keeps its state or forgets everything. In the end
each instance of the server has charged each call at most once, and some instance each call that was
settled; one that keeps its state exactly once.
"""

import asyncio
import collections
import contextlib
import os
import random

import pytest
from baton import Deadlock, SimulatedSystem, Threads
from book import Book
from event_loop import Loop
from fake_server import WELCOME, ReceivedFrame
from native_peer import CODES
from server import HANGS, REFUSED, server_frame
from simulation_test import (RED_SEEDS, SimulatedAsyncClient, SimulatedClient, fresh_seeds,
                             red_seeds)
from world import Wire, World

from sluicegate import QuotaDenied, UnknownReservation, _frames
from sluicegate._dispatcher import Settings

SEEDS_OF_A_RUN = 100
LIFETIME_S = 3_600
OK, UNKNOWN = CODES["ok"], CODES["unknownReservation"]


class Server:
    """`charges` counts how often each instance has charged each subject."""

    def __init__(self, world):
        self.world = world
        self.book = Book()
        random = world.random
        self.keeps_state = world.chance(0.5)
        self._latency = random.choice([0.0001, 0.01])
        self._pause = random.choice([0.0005, 0.05])
        self._loses_answers = random.choice([0, 0.05])
        self._is_down = self._is_calm = False
        # Ended reservations; of a server that keeps its state a restart would look alike.
        self._forgets = 0 if self.keeps_state else random.choice([0, 0.5])
        self._next = 0
        self._start = 1
        self.charges = [collections.Counter()]
        self._subjects, self._ended, self._ids = {}, set(), set()
        self._wires, self._splitters = [], {}

    # --- its life

    def kill(self):
        self._is_down = True
        for wire in self._wires:
            wire.cut(ConnectionResetError("reset") if self.world.chance(0.5) else None)
        self._wires.clear()
        if not self.keeps_state:
            self.charges.append(collections.Counter())
            self._subjects, self._ended, self._ids = {}, set(), set()
        self._start += 1

    def start_again(self):
        self._is_down = False

    def calm_down(self):
        self._is_down, self._is_calm = False, True

    # --- connections, as the simulated sockets ask for them

    def connect(self):
        if self._is_down or not self._is_calm and self.world.chance(0.1):
            return self.world.random.choice([REFUSED, HANGS]), 0.001
        wire = Wire(self.world, self, len(self._splitters), self._latency)
        self._wires.append(wire)
        self._splitters[wire] = _frames.Splitter()
        self.book.wires.append(wire)
        return wire, 0.001

    def lost(self, wire):
        with contextlib.suppress(ValueError):
            self._wires.remove(wire)

    def received(self, wire, data):
        if wire in self._wires:
            for frame in map(ReceivedFrame, self._splitters[wire].feed(data)):
                self._take(wire, frame)

    def _take(self, wire, frame):
        if frame.kind == "hello":
            self._answer(wire, frame, welcome=WELCOME | {"instanceId": self._start})
        elif frame.kind == "ping":
            self._answer(wire, frame, pong=None)
        else:
            codes, reservations = self._decide(frame)
            body = {"count": len(codes), "codes": bytes(codes)}
            if reservations:
                body["reservations"] = reservations
            self._answer(wire, frame, quotaAnswers=body)

    def _answer(self, wire, frame, **message):
        if self._is_calm or not self.world.chance(self._loses_answers):
            self.world.after(self.world.random.expovariate(1 / self._pause), wire.send,
                             server_frame(id=frame.id, **message))

    # --- decisions, which take effect on arrival

    def _decide(self, frame):
        if frame.kind == "reserve":
            reservations = [self._reserve(names[0]) for names in frame.subjects]
            return [OK] * len(reservations), reservations
        if frame.kind == "record":
            return [self._record(*each) for each in zip(frame.subjects, ids_of(frame))], None
        return [self._end(number, frame.kind) for number in frame.body["reservations"]], None

    def _reserve(self, subject):
        self._next += 1
        self._subjects[self._next] = subject
        return self._next

    def _end(self, number, kind):
        if number not in self._subjects:
            return UNKNOWN
        if number not in self._ended and kind == "settle":
            self.charges[-1][self._subjects[number]] += 1
        self._ended.add(number)
        if self.world.chance(self._forgets):
            subjects = self._subjects
            self.world.after(self.world.random.expovariate(1 / 0.3),
                             lambda: subjects.pop(number, None))
        return OK

    def _record(self, names, id):
        if id not in self._ids:
            self.charges[-1][names[0]] += 1
        self._ids.add(id)
        return OK


def ids_of(frame):
    blob, ids = frame.body["ids"], []
    for size in frame.body["idSizes"]:
        ids.append(bytes(blob[:size]))
        blob = blob[size:]
    return ids


def plan_kills(world, server):
    when = world.now
    for _ in range(world.random.choice([1, 3, 8])):
        when += world.random.uniform(0.01, 1)
        world.at(when, server.kill)
        when += world.random.choice([0.01, 0.5, 3])
        world.at(when, server.start_again)


def settings(random):
    return Settings(
        on_failure=random.choice(["open", "closed"]), requeue=random.choice([False, True]),
        frame_entries_max=random.choice([2, 1024]), timeout=random.choice([0.3, 2.0]),
        connect_timeout=0.3, backoff=(0.02, 0.3), spin=0.0)


class Calls:
    """Of one seed: the names of those that were settled, and how each is."""

    def __init__(self, world):
        self._random = world.random
        self.settled = []
        self._count = 0

    def plan(self):
        """(a pause before, the subject, a pause before its end, how it ends) of each call."""
        for _ in range(self._random.randint(2, 8)):
            self._count += 1
            yield (self._random.expovariate(5), f"s{self._count}", self._random.expovariate(5),
                   self._random.choice(["settle", "twice", "nowait", "many", "block",
                                        "cancelled"]))


def caller_in_thread(calls, plan, client, threads):
    def pause(seconds):
        threads.wait(lambda: False, threads.world.now + seconds)
    for before, subject, between, way in plan:
        pause(before)
        try:
            reservation = client.reserve(subject, input_tokens=5, lifetime=LIFETIME_S)
        except QuotaDenied:
            continue
        calls.settled.append(subject)
        if way == "block":
            with reservation:
                reservation.report(output_tokens=1)
                pause(between)
            continue
        pause(between)
        if way == "many":
            client.settle_many([reservation], output_tokens=1)
        elif way == "nowait":
            reservation.settle_nowait(output_tokens=1)
        else:
            reservation.settle(output_tokens=1)
        if way == "twice":
            pause(between)
            with contextlib.suppress(UnknownReservation):  # forgotten since
                reservation.settle(output_tokens=1)


async def caller_in_task(calls, plan, client):
    for before, subject, between, way in plan:
        await asyncio.sleep(before)
        try:
            reservation = await client.reserve(subject, input_tokens=5, lifetime=LIFETIME_S)
        except QuotaDenied:
            continue
        calls.settled.append(subject)
        if way == "block":
            async with reservation:
                reservation.report(output_tokens=1)
                await asyncio.sleep(between)
            continue
        if way == "cancelled":
            task = asyncio.ensure_future(reservation.settle(output_tokens=1))
            await asyncio.sleep(between / 10)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            continue
        await asyncio.sleep(between)
        if way == "many":
            await client.settle_many([reservation], output_tokens=1)
        elif way == "nowait":
            reservation.settle_nowait(output_tokens=1)
        else:
            await reservation.settle(output_tokens=1)
        if way == "twice":
            await asyncio.sleep(between)
            with contextlib.suppress(UnknownReservation):  # forgotten since
                await reservation.settle(output_tokens=1)


def play_threads(seed):
    random.seed(seed)  # of the backoff
    world = World(seed)
    server, threads, calls = Server(world), Threads(world), Calls(world)
    plan_kills(world, server)
    client = SimulatedClient(settings(world.random), SimulatedSystem(threads, server))
    for number in range(world.random.randint(1, 6)):
        threads.start(f"caller {number}", caller_in_thread, calls, list(calls.plan()), client,
                      threads)
    try:
        threads.wait(lambda: not any(task.name.startswith("caller") for task in threads.tasks),
                     world.now + 300)
        server.calm_down()
        threads.wait(lambda: not client.settles.kept, world.now + 300)
        client.close()
    except Deadlock:
        raise threads.failure from None
    return server, calls, client.settles


def play_tasks(seed):
    random.seed(seed)
    world = World(seed)
    server, calls = Server(world), Calls(world)
    plan_kills(world, server)
    loop = Loop(world, server)

    async def main():
        client = SimulatedAsyncClient(settings(world.random), world.monotonic)
        await asyncio.gather(*(caller_in_task(calls, list(calls.plan()), client)
                               for _ in range(world.random.randint(1, 6))))
        server.calm_down()
        end = world.now + 300
        while client.settles.kept and world.now < end:
            await asyncio.sleep(0.05)
        await client.close()
        await asyncio.sleep(0)
        return client.settles
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        counts = runner.run(main())
    return server, calls, counts


def check(server, calls, counts):
    assert not counts.kept and not counts.lost, counts
    charged = sum(server.charges, collections.Counter())
    for subject in calls.settled:
        assert charged[subject] >= 1, f"{subject} was settled, and no server has charged it"
    for charges in server.charges:
        twice = [subject for subject, times in charges.items() if times > 1]
        assert not twice, f"one server has charged {twice} more than once"
    assert set(charged) <= set(calls.settled), "charged though never settled"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("play", [play_threads, play_tasks])
def test_no_settle_is_lost_or_charged_twice(play, capsys):
    seen = collections.Counter()
    with capsys.disabled():
        chosen = [*red_seeds(f"settles_{play.__name__}"), *fresh_seeds(),
                  *range(1, 1 + int(os.environ.get("SEEDS", SEEDS_OF_A_RUN)))]
    if "SEED" in os.environ:
        chosen = [int(os.environ["SEED"])]
    for seed in chosen:
        try:
            server, calls, counts = play(seed)
            check(server, calls, counts)
        except Exception as error:
            raise AssertionError(
                f"\nrepeat with: SEED={seed} pytest simulation/settles_test.py -k {play.__name__}"
                f"\nand keep the seed in simulation/{RED_SEEDS.name} as "
                f"settles_{play.__name__}") from error
        seen.update({"settled": counts.settled, "recorded": counts.recorded,
                     "with state": server.keeps_state, "at once": len(calls.settled)})
    if len(chosen) >= SEEDS_OF_A_RUN:
        assert all(seen[what] > 10 for what in ("settled", "recorded", "with state")), seen
