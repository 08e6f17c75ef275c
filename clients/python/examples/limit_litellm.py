#!/usr/bin/env python3
"""Calls to a model through LiteLLM, all at once, that stay within the model's tokens together.

The callback reserves before each call, waits for room in the server's queue, and settles what
LiteLLM reports. With --mock LiteLLM answers by itself, without a model.

    limit_litellm.py localhost:8081 --model gpt-4o --calls 20 [--mock "an answer"]
"""

import argparse
import asyncio

import litellm

import sluicegate
import sluicegate.litellm


async def ask(model: str, mock: str | None) -> int:
    try:
        answer = await litellm.acompletion(
            model=model, messages=[{"role": "user", "content": "Say something kind."}],
            max_tokens=200, mock_response=mock)
    except litellm.RateLimitError as error:
        print(f"denied: {error}", flush=True)
        return 0
    return int(answer.usage.total_tokens)


async def run(server: str, model: str, calls: int, mock: str | None) -> None:
    callback = sluicegate.litellm.SluicegateCallback(server, wait_limit=30, lifetime=120)
    litellm.callbacks = [callback]
    tokens = await asyncio.gather(*[ask(model, mock) for _ in range(calls)])
    await callback.close(timeout=30)  # LiteLLM reports the end of a call a moment later
    print(f"answers: {sum(map(bool, tokens))}, tokens: {sum(tokens)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--model", default="gpt-4o")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=1_000, help="of the model, in --period")
    parser.add_argument("--period", type=float, default=1, help="in seconds")
    parser.add_argument("--mock", help="an answer of LiteLLM's own, without a model")
    arguments = parser.parse_args()
    with sluicegate.Client(arguments.server) as client:
        client.put_quota(arguments.model, [sluicegate.Limit("tpm", "tokens", arguments.tokens,
                                                            arguments.period)])
        asyncio.run(run(arguments.server, arguments.model, arguments.calls, arguments.mock))
        limit, = client.usage(arguments.model).limits
    print(f"reserved and never settled: {limit.reserved}")


if __name__ == "__main__":
    main()
