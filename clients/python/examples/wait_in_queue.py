#!/usr/bin/env python3
"""Threads that wait in the server's queue instead of being denied.

Ten visitors want through a gate that lets two pass per window. They wait in the server's queue,
which is first in, first out; no client polls. One visitor is in a hurry and gives up.

    wait_in_queue.py localhost:8081
"""

import argparse
import threading
import time

import sluicegate

GATE = "gate"
VISITORS = 10


def visit(client: sluicegate.Client, number: int, started: float) -> None:
    try:
        verdict = client.acquire(GATE, wait=True, max_requests=2,
                                 timeout=0.05 if number == VISITORS - 1 else None)
        outcome = verdict.name.lower()
    except sluicegate.TimedOut:
        outcome = "gave up"  # and was withdrawn from the queue: it takes no permit later
    print(f"visitor {number}: {outcome} after {time.monotonic() - started:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    arguments = parser.parse_args()
    started = time.monotonic()
    with sluicegate.Client(arguments.server) as client:
        visitors = [threading.Thread(target=visit, args=(client, number, started))
                    for number in range(VISITORS)]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()


if __name__ == "__main__":
    main()
