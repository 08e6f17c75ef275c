"""Draws the plots: throughput by batch size and by keys, latency by load. Needs matplotlib."""

import os
import pathlib
import re
import subprocess
import sys

from . import rungs
from .machine import ROOT, Trouble, report
from .records import FILE, cases, latest, load, spread
from .suite import OURS

CURE = "install matplotlib: tools/setup does, or .venv/bin/pip install matplotlib"


def series(records, pattern, figure="per_s"):
    """{who: [(x, spread), ...]}: x is the number that `pattern` finds in a case's name."""
    lines = {}
    for case, who in cases(records):
        match = re.fullmatch(pattern, case)
        values = spread(records, case, who, figure)
        if match and values:
            lines.setdefault(who, []).append((int(match[1].replace(",", "")), values))
    return {who: sorted(points, key=lambda point: point[0]) for who, points in lines.items()}


def load_series(records, batch):
    """{percentile: [(percent of the closed loop's rate, spread), ...]} of the open loop."""
    lines = {}
    for percentile in ("p50", "p99", "p999"):
        for share in rungs.LOAD_SHARES:
            case = rungs.open_loop_case(batch, share)
            values = spread(records, case, OURS, f"latency_us.{percentile}")
            if values:
                lines.setdefault(percentile, []).append((share, values))
    return lines


def draw_lines(axes, lines, scale, prefix=""):
    """A line for each, with bars from the smallest to the largest run."""
    for name, points in lines.items():
        medians = [values.median / scale for _, values in points]
        below = [(values.median - values.low) / scale for _, values in points]
        above = [(values.high - values.median) / scale for _, values in points]
        axes.errorbar([x for x, _ in points], medians, yerr=[below, above], marker="o",
                      capsize=3, label=prefix + name)


def finish(plot, axes, path, title, x_label, y_label):
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.3)
    axes.legend()
    for suffix in (".svg", ".png"):
        plot.savefig(path.with_suffix(suffix), bbox_inches="tight", dpi=120)


def throughput(pyplot, lines, path, title, x_label):
    plot, axes = pyplot.subplots(figsize=(7, 4.5))
    draw_lines(axes, lines, 1e6)
    axes.set_xscale("log")
    ticks = sorted({x for points in lines.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{x:,}" for x in ticks], minor=False)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    finish(plot, axes, path, title, x_label, "million decisions/s, median, min to max")
    pyplot.close(plot)


def latency(pyplot, lines_by_batch, path):
    plot, axes = pyplot.subplots(figsize=(7, 4.5))
    for batch, lines in lines_by_batch.items():
        draw_lines(axes, lines, 1, f"batch {batch}, ")
    axes.set_xticks(rungs.LOAD_SHARES)
    axes.set_yscale("log")
    finish(plot, axes, path, "Latency by load, open loop, from the intended time",
           "% of the closed loop's rate", "us, median, min to max")
    pyplot.close(plot)


def draw_all(pyplot, records, folder):
    """Draws the plots for which there are records; returns their paths without suffix."""
    drawn = []
    for name, pattern, title, x_label in (
            ("throughput_by_batch", r"R4 batch (\d+)", "Throughput by batch size, 1,000,000 keys",
             "keys in a frame"),
            ("throughput_by_keys", r"R4 keyed 256, ([\d,]+) keys",
             "Throughput by number of keys, batch 256", "different keys")):
        lines = series(records, pattern)
        if lines:
            throughput(pyplot, lines, folder / name, title, x_label)
            drawn.append(folder / name)
    by_batch = {batch: lines for batch in rungs.OPEN_LOOP_BATCHES
                if (lines := load_series(records, batch))}
    if by_batch:
        latency(pyplot, by_batch, folder / "latency_by_load")
        drawn.append(folder / "latency_by_load")
    return drawn


def pyplot_here():
    try:
        import matplotlib  # noqa: PLC0415  (only the plots need it)
    except ImportError as fault:
        raise Trouble(f"no plots without matplotlib: {CURE}") from fault
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sluicegate"  # the same runs draw the same file
    from matplotlib import pyplot  # noqa: PLC0415
    return pyplot


def draw(folder):
    """Draws the plots of a folder's lines."""
    if not (folder / FILE).exists():
        raise Trouble(f"there is no {FILE} in {folder}: run bench/ladder --out {folder} first")
    drawn = draw_all(pyplot_here(), latest(load(folder)), folder)
    for path in drawn:
        report(f"{path}.svg and .png")
    if not drawn:
        report("no plots: none of the runs is of R4 or R6")


def draw_anywhere(folder):
    """With this Python, or with that of .venv, where tools/setup puts matplotlib."""
    venv_python = ROOT / ".venv/bin/python3"
    try:
        draw(folder)
    except Trouble:
        in_venv = pathlib.Path(sys.prefix) == ROOT / ".venv"
        if in_venv or not os.access(venv_python, os.X_OK):
            raise
        command = [venv_python, ROOT / "bench/ladder", "--plots-only", folder]
        if subprocess.run(command, check=False).returncode != 0:
            raise
