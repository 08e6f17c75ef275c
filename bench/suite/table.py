"""The summary in Markdown: targets, then every case."""

from . import shards, tails
from .records import cases, spread
from .suite import BEFORE, UNITS
from .targets import bottleneck, rows, written

TARGET_HEADER = ["what", "Sluicegate", "peer", "ratio", "target", "", "bottleneck"]
STEAL_PERCENT_MAX = 2  # a run that lost more to other machines is unreliable
# What the server is compared by with that of --against.
COMPARED = {"server_ns_each": "server CPU each", "per_s": "rate", "latency_us.p50": "p50",
            "latency_us.p99": "p99"}


def markdown(header, lines):
    """A table whose columns line up in a terminal too."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    rule = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths))
                     + " |" for line in [header, rule, *lines])


def with_range(values, text):
    """median (min to max)"""
    if values is None:
        return ""
    if values.low == values.high:
        return text(values.median)
    return f"{text(values.median)} ({text(values.low)} to {text(values.high)})"


def target_line(row):
    def text(value):
        return written(value, row.target.format)
    peer = f"{row.target.peer}: {with_range(row.peer, text)}" if row.peer else row.target.peer
    return [row.target.what, with_range(row.ours, text), peer,
            "" if row.ratio is None else f"{row.ratio:.2f}", row.target.bound_text(),
            row.verdict, row.bottleneck]


def target_table(records):
    """Of all cases but the tails, which have their aims beside them."""
    found = [target_line(row) for row in rows(records) if not tails.is_tail(row.target.case)]
    return markdown(TARGET_HEADER, found) if found else ""


def rate_text(value):
    return f"{value / 1e6:.3f} M" if value >= 1e5 else f"{value:,.0f}"


def case_line(records, case, who):
    def of(name, text):
        return with_range(spread(records, case, who, name), text)

    def median(name, text):
        values = spread(records, case, who, name)
        return text.format(values.median) if values else ""

    unit = next((UNITS[record["unit"]] for record in records if record["case"] == case
                 and record["who"] == who and "unit" in record), "")
    return [case, who, of("per_s", rate_text), unit, median("allowed_percent", "{:.0f} %"),
            median("ns_each", "{:,.1f}"), median("server_busy", "{:.0%}"),
            median("client_busy", "{:.0%}"), median("latency_us.p50", "{:,.0f}"),
            median("latency_us.p99", "{:,.0f}"), median("steal_percent", "{:.1f} %"),
            bottleneck(records, case, who)]


def case_table(records):
    return markdown(["case", "program", "median (min to max)", "", "allowed", "ns of CPU each",
                     "server", "load", "p50 us", "p99 us", "steal", "bottleneck"],
                    [case_line(records, *pair) for pair in cases(records)])


def ratio_to_before(records, case, who, name):
    """The ratio of the medians, or nothing."""
    now, before = (spread(records, case, one, name) for one in (who, who + BEFORE))
    return f"{now.median / before.median:.2f}" if now and before and before.median else ""


def before_table(records):
    """Ratios of each case to the same of the server of --against, or nothing."""
    both = cases(records)
    lines = [[case, who, *(ratio_to_before(records, case, who, name) for name in COMPARED)]
             for case, who in both if (case, who + BEFORE) in both]
    return markdown(["case", "program", *COMPARED.values()], lines) if lines else ""


def befores(records):
    return ", ".join(sorted({record["against"] for record in records if "against" in record}))


def conditions(records):
    """The conditions of the figures, in sentences."""
    first = records[0]
    commits = ", ".join(sorted({record["commit"] for record in records}))
    rounds = max(record["round"] for record in records)
    stolen = sum(record["steal_percent"] > STEAL_PERCENT_MAX for record in records)
    return (f"{first['cpu']}, {first['cores']} cores, Linux {first['kernel']}, commit {commits}; "
            f"medians of up to {rounds} interleaved rounds, both sides on one machine over "
            f"loopback.\n{stolen} of {len(records)} runs lost more than {STEAL_PERCENT_MAX} % of "
            "their CPU time to other machines (steal).")


def tail_parts(records):
    """The latencies of open loops, with the aims beside them, and notes on doubtful ones."""
    if not tails.lines(records):
        return []
    aims = [target_line(row) for row in rows(records) if tails.is_tail(row.target.case)]
    parts = [markdown(tails.HEADER, tails.lines(records))]
    if aims:
        parts.append(markdown(TARGET_HEADER, aims))
    return parts + (["\n".join(tails.notes(records))] if tails.notes(records) else [])


def other_shard_lines(records):
    """Sentences on the cost of entries for other shards."""
    lines = [f"- {load.case}: an entry for another shard costs {price:,.0f} ns more server CPU."
             for load in shards.LOADS
             if (price := shards.other_shard_price_ns(records, load.case)) is not None]
    share = shards.wake_share(records)
    if share is not None:
        lines.append(f"- The wake of a sleeping core is {share:.0%} of a lone request for "
                     "another shard's key.")
    return "\n".join(lines)


def summary(records, left_out=()):
    """The whole document."""
    parts = ["# The ladder", conditions(records)]
    if target_table(records):
        parts += ["## Targets", target_table(records)]
    parts += ["## Every case", case_table(records)]
    if before_table(records):
        parts += [f"## Times the server before ({befores(records)})", before_table(records)]
    if tail_parts(records):
        parts += ["## Tails", *tail_parts(records)]
    if other_shard_lines(records):
        parts += ["## Entries for other shards", other_shard_lines(records)]
    if left_out:
        parts += ["## Left out", "\n".join(f"- {line}" for line in left_out)]
    return "\n\n".join(parts) + "\n"
