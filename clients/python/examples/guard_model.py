#!/usr/bin/env python3
"""Workers that call a language model together without ever going over its tokens per minute.

Each call reserves the most tokens that it may use, waiting in the server's queue for them, and
settles the tokens it used: the server refunds the rest at once. When a call fails, its reservation
is cancelled, which refunds everything. The model is a stand-in; put your own call in its place.

    guard_model.py localhost:8081
"""

import argparse
import random
import threading
import time
from typing import NamedTuple

import sluicegate

MODEL = "example-model"
PROMPT = "Say something kind about rate limits. " * 20
OUTPUT_MAX = 400


class Answer(NamedTuple):
    input_tokens: int
    output_tokens: int


def ask_the_model(prompt: str) -> Answer:
    time.sleep(random.uniform(0.01, 0.05))
    if random.random() < 0.1:
        raise ConnectionError("the model hung up")
    return Answer(sluicegate.estimate_tokens(prompt), random.randint(50, OUTPUT_MAX))


def guarded(client: sluicegate.Client) -> Answer:
    with client.reserve(MODEL, input_tokens=sluicegate.estimate_tokens(PROMPT),
                        max_output_tokens=OUTPUT_MAX, wait=True, wait_limit=30,
                        lifetime=60) as reservation:
        answer = ask_the_model(PROMPT)
        reservation.settle(answer.input_tokens, answer.output_tokens)
        return answer


def work(client: sluicegate.Client, calls: int, used: list[int]) -> None:
    for _ in range(calls):
        try:
            answer = guarded(client)
            used.append(answer.input_tokens + answer.output_tokens)
        except ConnectionError as error:
            print(f"refunded: {error}", flush=True)
        except sluicegate.QuotaDenied as denied:
            print(f"denied: {denied}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--calls", type=int, default=5, help="of each worker")
    parser.add_argument("--tokens", type=int, default=10_000, help="of the model, in --period")
    parser.add_argument("--period", type=float, default=1, help="in seconds")
    arguments = parser.parse_args()
    used: list[int] = []
    with sluicegate.Client(arguments.server) as client:
        client.put_quota(MODEL, [sluicegate.Limit("tokens", "tokens", arguments.tokens,
                                                  arguments.period)])
        workers = [threading.Thread(target=work, args=(client, arguments.calls, used))
                   for _ in range(arguments.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        limit, = client.usage(MODEL).limits
    print(f"answers: {len(used)}, tokens: {sum(used)}")
    print(f"reserved and never settled: {limit.reserved}")


if __name__ == "__main__":
    main()
