#!/usr/bin/env python3
"""Tasks that share a moving window of the package limits, with asyncio.

    limit_tasks.py localhost:8081 [--tasks 20] [--limit "10 per hour"]
"""

import argparse
import asyncio

import limits
import limits.aio.strategies
import limits.storage

import sluicegate.limits_storage


async def run(server: str, tasks: int, text: str) -> None:
    limit = limits.parse(text)
    storage = limits.storage.storage_from_string(f"async+sluicegate://{server}")
    assert isinstance(storage, sluicegate.limits_storage.AsyncSluicegateStorage)
    limiter = limits.aio.strategies.MovingWindowRateLimiter(storage)
    hits = await asyncio.gather(*[limiter.hit(limit, "tasks") for _ in range(tasks)])
    left = (await limiter.get_window_stats(limit, "tasks")).remaining
    print(f"approved: {sum(hits)}, denied: {hits.count(False)}, left: {left}")
    await storage.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--limit", default="10 per hour")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.server, arguments.tasks, arguments.limit))


if __name__ == "__main__":
    main()
