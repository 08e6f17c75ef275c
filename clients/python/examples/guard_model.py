#!/usr/bin/env python3
"""A gateway to a language model: tenants share a model, and nobody goes over their tokens.

Each stream reserves the most tokens that it may use, for its model and its tenant together, and
reports what it has used as the tokens come. When it ends, also by an error or because its caller
left, that is settled, and the server refunds the rest. While the server is away the gateway goes
on (on_failure="open"), and the client settles later what was used meanwhile. In the end the
provider's bill and the server's books are compared. The provider is a stand-in.

    sluicegate --state gateway.state
    guard_model.py localhost:8081           # or with --hold: then kill the server, press Enter,
                                            # and start it again
"""

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator

import sluicegate

MODEL, TENANTS, TRIAL = "example-model", ("acme", "globex", "initech"), "trial"
PROMPT = "Say something kind about rate limits. " * 20
OUTPUT_MAX = 400
HOUR = 3_600


class Provider:
    """Sends its answer in pieces, and sometimes hangs up. `bill` has the tokens of each tenant."""

    def __init__(self) -> None:
        self.bill: Counter[str] = Counter()
        self.may_answer = asyncio.Event()

    async def stream(self, tenant: str, input_tokens: int) -> AsyncIterator[int]:
        """The number of output tokens in each piece; the first piece has none."""
        self.bill[tenant] += input_tokens
        yield 0
        await self.may_answer.wait()
        for _ in range(random.randint(1, 20)):
            await asyncio.sleep(random.uniform(0.01, 0.1))
            if random.random() < 0.02:
                raise ConnectionError("the provider hung up")
            tokens = random.randint(1, OUTPUT_MAX // 20)
            self.bill[tenant] += tokens
            yield tokens


class Gateway:
    def __init__(self, client: sluicegate.AsyncClient, provider: Provider) -> None:
        self._client = client
        self._provider = provider
        self.outcomes: Counter[str] = Counter()
        self.under_way = 0

    async def put_quotas(self) -> None:
        """Of each tenant and the model; a reservation that nobody settles is refunded."""
        for name in (MODEL, *TENANTS, TRIAL):
            amount = 20_000 if name == TRIAL else 1_000_000_000
            await self._client.put_quota(
                name, [sluicegate.Limit("tokens", "tokens", amount, HOUR, "fixed")],
                expired="refund")

    async def serve(self, tenant: str) -> None:
        """One stream, from its admission to its end."""
        try:
            await self._answer(tenant)
            self.outcomes["complete"] += 1
        except sluicegate.QuotaDenied:  # .retry_after says when to try again
            self.outcomes["denied"] += 1
        except ConnectionError:
            self.outcomes["broken"] += 1
        except asyncio.CancelledError:
            self.outcomes["left by their callers"] += 1
            raise

    async def _answer(self, tenant: str) -> None:
        input_tokens, output_tokens = sluicegate.estimate_tokens(PROMPT), 0
        async with self._client.reserve([MODEL, tenant], input_tokens=input_tokens,
                                        max_output_tokens=OUTPUT_MAX,
                                        lifetime=300) as reservation:
            async for tokens in self._provider.stream(tenant, input_tokens):
                output_tokens += tokens
                reservation.report(input_tokens=input_tokens, output_tokens=output_tokens)
                self.under_way += not tokens

    async def books(self) -> dict[str, int]:
        """What the server has charged, without what is still reserved."""
        usages = await self._client.usage([MODEL, *TENANTS, TRIAL])
        return {usage.subject: usage.limits[0].used - usage.limits[0].reserved
                for usage in usages}


async def run(arguments: argparse.Namespace) -> bool:
    provider = Provider()
    async with sluicegate.AsyncClient(arguments.server, on_failure="open") as client:
        gateway = Gateway(client, provider)
        await gateway.put_quotas()
        before = await gateway.books()
        streams = [asyncio.create_task(gateway.serve(random.choice((*TENANTS, TRIAL))))
                   for _ in range(arguments.streams)]
        while gateway.under_way + gateway.outcomes.total() < arguments.streams:
            await asyncio.sleep(0.01)
        print(f"{gateway.under_way} streams are under way", flush=True)
        if arguments.hold:
            await asyncio.to_thread(sys.stdin.readline)
        provider.may_answer.set()
        await asyncio.sleep(0.2)
        for stream in random.sample(streams, len(streams) // 10):  # these callers leave
            stream.cancel()
        await asyncio.wait(streams)
        while client.settles.kept:
            await asyncio.sleep(0.1)
        print(", ".join(f"{count} {what}" for what, count in sorted(gateway.outcomes.items())))
        print(f"settles that no server took at once: {client.settles}")
        bill = provider.bill | Counter({MODEL: provider.bill.total()})
        return agree(bill, before, await gateway.books())


def agree(bill: Counter[str], before: dict[str, int], after: dict[str, int]) -> bool:
    charged = {name: after[name] - before[name] for name in after}
    for name, tokens in charged.items():
        print(f"{name:13} the provider's bill {bill[name]:9,}   the server's books {tokens:9,}")
    return all(bill[name] == tokens for name, tokens in charged.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--streams", type=int, default=1_000, help="all of them at once")
    parser.add_argument("--hold", action="store_true",
                        help="let the provider answer when Enter is pressed")
    if not asyncio.run(run(parser.parse_args())):
        sys.exit("the books do not agree")
    print("the books agree")


if __name__ == "__main__":
    main()
