#!/usr/bin/env python3
"""A batch job that paces itself: many permits a call, and a pause until a retry may help.

Each item has a tenant, and every tenant has a limit. The job keeps denied items for later; the
server reports when a retry may help, so the job sleeps exactly that long. If a run fails after it
took permits, it releases them.

    paced_job.py localhost:8081 [--items 2000] [--tenants 4] [--limit 300]
"""

import argparse
import time

from sluicegate import Client, Details


def work(item: int) -> None:
    """What the job is about."""


def do_what_is_allowed(client: Client, items: list[int], tenants: int,
                       limit: int) -> tuple[list[int], float]:
    """Returns the items that are left, and for how many seconds to sleep."""
    keys = [f"job:{item % tenants}" for item in items]
    verdicts = client.acquire_many(keys, max_requests=limit, details=Details.RETRY_AFTER)
    approved = [item for item, verdict in zip(items, verdicts) if verdict]
    for number, item in enumerate(approved):
        try:
            work(item)
        except Exception:
            client.release_many([f"job:{left % tenants}" for left in approved[number:]])
            raise
    left = [item for item, verdict in zip(items, verdicts) if not verdict]
    waits = [retry for retry, verdict in zip(verdicts.retry_after, verdicts) if not verdict]
    return left, min(waits, default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--tenants", type=int, default=4)
    parser.add_argument("--limit", type=int, default=300, help="items per tenant and window")
    arguments = parser.parse_args()
    items = list(range(arguments.items))
    with Client(arguments.server) as client:
        while items:
            before = len(items)
            items, pause = do_what_is_allowed(client, items, arguments.tenants, arguments.limit)
            print(f"{before - len(items)} done, {len(items)} left", flush=True)
            if items:
                time.sleep(max(pause, 0.001))


if __name__ == "__main__":
    main()
