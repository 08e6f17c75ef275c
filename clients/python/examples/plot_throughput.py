#!/usr/bin/env python3
"""An experiment: how throughput grows with the number of keys in a call, as a plot.

Every size is measured several times, the sizes in turn, so that a slow moment of the machine does
not fall on one of them; the plot shows the medians and the range. Needs matplotlib.

    plot_throughput.py localhost:8081 throughput.svg [--seconds 0.2] [--rounds 5]
"""

import argparse
import statistics
import time

import matplotlib

import sluicegate

matplotlib.use("Agg")  # a file, not a window
import matplotlib.pyplot as pyplot  # noqa: E402

SIZES = [1, 4, 16, 64, 256, 1_000, 4_000]


def decisions_per_s(client: sluicegate.Client, size: int, seconds: float) -> float:
    keys = [f"user:{number:010d}" for number in range(size)]
    calls, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds or not calls:
        client.acquire_many(keys)
        calls += 1
    return calls * size / elapsed


def plot(rates: dict[int, list[float]], path: str) -> None:
    medians = [statistics.median(rates[size]) for size in SIZES]
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.fill_between(SIZES, [min(rates[size]) for size in SIZES],
                      [max(rates[size]) for size in SIZES], alpha=0.2)
    axes.loglog(SIZES, medians, marker="o")
    axes.set_xlabel("keys in a call")
    axes.set_ylabel("decisions per second")
    axes.grid(True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("plot", help="the file to draw, as throughput.svg")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rates: dict[int, list[float]] = {size: [] for size in SIZES}
    with sluicegate.Client(arguments.server) as client:
        for _ in range(arguments.rounds):
            for size in SIZES:
                rates[size].append(decisions_per_s(client, size, arguments.seconds))
    for size in SIZES:
        print(f"{size:5} keys: {statistics.median(rates[size]):12,.0f} decisions/s", flush=True)
    plot(rates, arguments.plot)


if __name__ == "__main__":
    main()
