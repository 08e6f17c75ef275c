#!/usr/bin/env python3
"""A thousand asyncio workers share one limit through one connection.

The calls of one loop iteration go out in one frame: a thousand workers cost little more than one.
Workers that are denied do something else instead of waiting.

    async_workers.py localhost:8081 [--workers 1000] [--limit 1500]
"""

import argparse
import asyncio
import collections

import sluicegate


async def work(client: sluicegate.AsyncClient, limit: int, asks: int,
               outcomes: collections.Counter[str]) -> None:
    @client.limited("shared", max_requests=limit)
    async def use_the_scarce_thing() -> None:
        await asyncio.sleep(0)

    for _ in range(asks):
        try:
            await use_the_scarce_thing()
            outcomes["did it"] += 1
        except sluicegate.Denied as denied:
            outcomes[denied.verdict.name.lower()] += 1


async def run(server: str, workers: int, limit: int, asks: int) -> None:
    outcomes: collections.Counter[str] = collections.Counter()
    async with sluicegate.AsyncClient(server) as client:
        await asyncio.gather(*[work(client, limit, asks, outcomes) for _ in range(workers)])
        state = await client.inspect("shared")
    print(", ".join(f"{what}: {count}" for what, count in sorted(outcomes.items())))
    if state is not None:
        print(f"the server counts {state.approved} in this window", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--limit", type=int, default=1_500)
    parser.add_argument("--asks", type=int, default=2, help="by each worker")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.server, arguments.workers, arguments.limit, arguments.asks))


if __name__ == "__main__":
    main()
