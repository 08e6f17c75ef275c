"""Each caller of either client sees what it must whatever a server does, and nothing is left over.

Method: the real clients in simulated time, against a scripted server that answers late, in parts
and in another order, queues, grants across a withdrawal, drains, closes and starts again; random
callers time out, cancel, batch and hold leases. model.py says what each must see.

SEED=N repeats one seed; SEEDS=N plays the first N, FRESH_SEEDS=N as many fresh ones, which are
printed. Those in red_seeds.txt come first.
"""

import asyncio
import collections
import os
import random
import sys
from pathlib import Path

import pytest
from baton import Deadlock, SimulatedSystem, Threads
from callers import Callers, perform_in_thread, settings
from callers_aio import perform
from event_loop import Loop
from model import OUTCOMES, TRAITS, Model
from server import Server
from world import World

from sluicegate import AsyncClient, Client, SluicegateError
from sluicegate._caller import Caller
from sluicegate._quota_aio import AsyncQuotaCalls

SEEDS_OF_A_RUN = 100
FRESH_SEEDS_OF_A_RUN = 1
RED_SEEDS = Path(__file__).with_name("red_seeds.txt")
ADDRESS = "simulated:1"


class SimulatedClient(Client):
    def __init__(self, settings, system):  # instead of Client's
        Caller.__init__(self, ADDRESS, settings, system)


class SimulatedAsyncClient(AsyncClient):
    def __init__(self, settings, monotonic):  # instead of AsyncClient's
        AsyncQuotaCalls.__init__(self, ADDRESS, settings, monotonic)


def red_seeds(name):
    lines = [line.split(maxsplit=2) for line in RED_SEEDS.read_text().splitlines()
             if line and not line.startswith("#")]
    assert {line[0].removeprefix("settles_") for line in lines} <= {
        "play_threads", "play_tasks"}, lines
    return [int(seed) for test, seed, _ in lines if test == name]


def seeds(name):
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    first = range(1, 1 + int(os.environ.get("SEEDS", SEEDS_OF_A_RUN)))
    return [*red_seeds(name), *fresh_seeds(), *first]


def fresh_seeds():
    count = int(os.environ.get("FRESH_SEEDS", FRESH_SEEDS_OF_A_RUN))
    fresh = [random.SystemRandom().getrandbits(32) for _ in range(count)]
    print("\nfresh seeds:", *fresh, flush=True)
    return fresh


def plan_outages(world, server):
    """Some are so short that the client finds a new server at once."""
    when, random = world.now, world.random
    longest = random.choice([0.3, 2])
    for _ in range(random.choice([0, 0, 1, 3, 8])):
        when += random.uniform(0.01, longest)
        way = random.choice(["closes", "resets", "goes away"])
        world.at(when, server.go_down, way)
        if way == "goes away" or random.random() < 0.5:
            when += random.uniform(0.6, 2)
        world.at(when, server.start_again)


def leftovers(client):
    """What must be gone when no call is pending any more."""
    dispatcher = client._dispatcher
    connection = dispatcher.connection
    found = {
        "pending": dispatcher.pending, "waiting": dispatcher.waiting_entries,
        "unsent": dispatcher.wants_to_send, "cleanup": dispatcher.has_cleanup,
        "open quotas": dispatcher._open_quotas, "room": client._room,
        "outstanding": connection is not None and not connection.is_idle}
    return {name: what for name, what in found.items() if what}


def play_threads(seed):
    random.seed(seed)  # of the backoff
    world = World(seed)
    server, threads = Server(world), Threads(world)
    plan_outages(world, server)
    chosen = settings(world.random)
    callers = Callers(world, server, chosen, may_cancel=False)
    client = SimulatedClient(chosen, SimulatedSystem(threads, server))
    for number, script in enumerate(callers.scripts()):
        threads.start(f"caller {number}", perform_in_thread, script, client, threads)
    try:
        threads.wait(lambda: len(threads.tasks) == 1, world.now + 300)
        left = [task.name for task in threads.tasks[1:]]
        server.calm_down()
        settle_threads(client, threads)
        left += list(leftovers(client).items()) + [client._leader] * bool(client._leader)
        server.book.client_ended = world.now
        client.close()
    except Deadlock:
        raise threads.failure from None
    return server, callers, chosen, left


def settle_threads(client, threads):
    """Pings, because only a waiting thread reads."""
    for _ in range(60):
        threads.wait(lambda: False, threads.world.now + 0.05)
        try:
            client.ping()
        except SluicegateError:
            continue
        if not leftovers(client):
            return


def play_tasks(seed):
    random.seed(seed)
    world = World(seed)
    server = Server(world)
    plan_outages(world, server)
    chosen = settings(world.random)
    callers = Callers(world, server, chosen, may_cancel=True)
    loop = Loop(world, server)

    async def main():
        client = SimulatedAsyncClient(chosen, world.monotonic)
        tasks = [loop.create_task(perform(script, client, server)) for script in callers.scripts()]
        await asyncio.wait(tasks, timeout=300)
        left = [task for task in tasks if not task.done()]
        for task in tasks:
            if task.done():
                task.result()
        server.calm_down()
        for _ in range(60):
            try:
                await client.ping()
            except SluicegateError:
                pass
            if not leftovers(client):
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0)  # done callbacks cancel timers
        left += list(leftovers(client).items()) + [
            timer for timer in loop.timers if timer is not client._sealing]
        server.book.client_ended = world.now
        await client.close()
        await asyncio.sleep(0)
        return left + [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        left = runner.run(main())
    return server, callers, chosen, left


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("play", [play_threads, play_tasks])
def test_every_seed_agrees_with_the_model(play, capsys):
    seen = collections.Counter()
    with capsys.disabled():
        chosen_seeds = seeds(play.__name__)
    for seed in chosen_seeds:
        again = (f"\nrepeat with: SEED={seed} {sys.executable} -m pytest -c pytest.ini "
                 f"simulation/simulation_test.py -k {play.__name__}\n"
                 f"and keep the seed in simulation/{RED_SEEDS.name}")
        try:
            server, callers, chosen, left = play(seed)
        except Exception as error:
            raise AssertionError(again) from error
        model = Model(server, callers, chosen, play is play_tasks)
        failures = model.check() + [f"left behind: {each}" for each in left]
        assert not failures, "\n".join(
            [*failures[:5], f"{len(failures)} failures, {chosen}", again])
        seen += model.seen
    for (method, outcome), times in sorted(seen.items()):
        print(f"{times:8} {method}: {outcome}")
    if len(chosen_seeds) >= SEEDS_OF_A_RUN:
        wanted = OUTCOMES | ({"cancelled"} if play is play_tasks else set())
        assert {outcome for _, outcome in seen} == wanted
        assert {method for method, outcome in seen if outcome == "answer"} == TRAITS.keys()
