#!/usr/bin/env python3
"""Leases: many holders share a few slots, and no slot is ever lost.

Ten people share two printers. Each waits for a slot, holds it for the duration of the job, and
renews it meanwhile, so that the lifetime may be short: when a laptop dies in the middle of a job,
the slot is free again half a second later, without anyone's help.

    share_printer.py localhost:8081
"""

import argparse
import asyncio
import time

import sluicegate

PRINTERS = "printers"
SLOTS = 2
LIFETIME = 0.5


class Room:
    """Counts how many printers hum at the same time."""

    def __init__(self) -> None:
        self.humming = self.most = 0

    async def print_something(self, seconds: float) -> None:
        self.humming += 1
        self.most = max(self.most, self.humming)
        await asyncio.sleep(seconds)
        self.humming -= 1


async def visit(client: sluicegate.AsyncClient, number: int, room: Room, started: float) -> None:
    async with client.lease(PRINTERS, owner=f"person {number}", lifetime=LIFETIME, wait=True,
                            renew=True) as lease:
        await room.print_something(0.1 if number else 2 * LIFETIME)  # the first has a long one
        state = "held it all the time" if lease.held else "lost the slot"
    print(f"person {number}: {state}, done after {time.monotonic() - started:.2f} s", flush=True)


async def share(server: str) -> None:
    started, room = time.monotonic(), Room()
    async with sluicegate.AsyncClient(server) as client:
        await client.put_quota(PRINTERS, [sluicegate.Limit("slots", "concurrency", SLOTS)])
        await client.lease(PRINTERS, owner="a laptop that died", lifetime=LIFETIME)
        await asyncio.gather(*(visit(client, number, room, started) for number in range(10)))
        usage = await client.usage(PRINTERS)
    print(f"at most {room.most} at a time; {usage.limits[0].used} of {SLOTS} slots are taken now")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    asyncio.run(share(parser.parse_args().server))


if __name__ == "__main__":
    main()
