"""The slowest answers: an open loop at 70 % of each program's own rate, and what events add to it.

Latency counts from the time at which a frame was due. All loads run the same loop of the load tool;
the echo sends frames as large as Sluicegate's, and as many a second.
"""

import contextlib
from functools import partial

from . import events, loads, servers
from .machine import Trouble
from .records import cases, spread
from .suite import OURS, Contender

LOAD_SHARE = 70  # percent of the closed loop's rate
BATCHES = (64, 256)
STEAL_PERCENT_MAX = 0.2  # a run with more is repeated, and its figures do not count
ECHO, REDIS = "echo", "redis"
MOST_US = 1_000  # the aims of p99
ECHO_EXCESS_US = 300
WITHOUT = f"{OURS}, without the event"
EVENT_TIMES = 2  # p99 with an event, to that without


def case_of(batch):
    return f"tails: open loop at {LOAD_SHARE} %, batch {batch}"


def closed_case(batch):
    return f"tails: closed loop, batch {batch}"


def echo_flags(figures):
    """An echo whose frames and replies are as large as those of the figures, and as frequent."""
    frames = figures["frames_per_s"]
    # An item is answered with 4 bytes: as many items as the reply has.
    items = max(round(figures["bytes_in_per_s"] / frames / 4), 1)
    item_bytes = max(round(figures["bytes_out_per_s"] / frames / items), 4)
    return (f"--batch={items}", f"--item-bytes={item_bytes}", f"--rate={frames * items:.0f}",
            f"--connections={figures['connections']}", f"--window={figures['depth']}")


class Rounds:
    """The runs of one batch size; each uses the rates that the runs before it found."""

    def __init__(self, suite, batch, redis=None):
        self.suite, self.batch, self.redis = suite, batch, redis
        self.bench = partial(loads.own_bench, suite, f"--batch={batch}")
        self.ours = self.peer = self.open_figures = None

    def closed(self):
        self.ours = self.bench()
        return self.ours

    def open(self):
        self.open_figures = loads.open_loop(self.bench, (self.ours or self.closed())["per_s"],
                                            LOAD_SHARE)
        return self.open_figures

    def echo(self):
        flags = echo_flags(self.open_figures or self.open())
        return loads.limits(self.suite, "echo", *flags)

    def beside(self, event, happens):
        rate = int((self.ours or self.closed())["per_s"] * LOAD_SHARE / 100)
        return events.run(self.suite, event, happens, self.batch, rate) | {
            "asked_per_s": rate, "load_percent": LOAD_SHARE}

    def redis_closed(self):
        self.peer = loads.redis_pipelines(self.suite, self.redis, self.batch)
        return self.peer

    def redis_open(self):
        run = partial(loads.redis_pipelines, self.suite, self.redis, self.batch)
        return loads.open_loop(run, (self.peer or self.redis_closed())["per_s"], LOAD_SHARE)


def quiet(case, who, run):
    return Contender(case, who, run, steal_percent_max=STEAL_PERCENT_MAX)


def contenders_of(suite, batch, redis):
    closed, case = closed_case(batch), case_of(batch)
    contenders = []
    for end, version in suite.versions():
        ours = Rounds(version, batch)
        contenders += [quiet(closed, OURS + end, ours.closed), quiet(case, OURS + end, ours.open)]
        if not end:
            contenders.append(quiet(case, ECHO, ours.echo))
    if redis:
        peer = Rounds(suite, batch, redis)
        contenders += [quiet(closed, REDIS, peer.redis_closed),
                       quiet(case, REDIS, peer.redis_open)]
    return contenders


def tails(suite):
    if not suite.knows("--rate"):
        return
    with contextlib.ExitStack() as stack:
        redis = suite.offered(stack, servers.redis)
        if redis:
            with contextlib.suppress(Trouble):  # its runs report why
                loads.redis_pipelines(suite, redis, max(BATCHES))  # it has the keys then
        suite.interleave("tails", [one for batch in BATCHES
                                   for one in contenders_of(suite, batch, redis)])


# ---------------------------------------------------------------------------------- events


def event_case(event, batch):
    return f"tails: {event.name}, batch {batch}"


def events_of(suite, batch):
    """The closed loop, then the same load without and with each event."""
    contenders = []
    for end, version in suite.versions():
        ours = Rounds(version, batch)
        contenders.append(quiet(closed_case(batch), OURS + end, ours.closed))
        contenders += [quiet(event_case(event, batch), who + end,
                             partial(ours.beside, event, happens))
                       for event in events.EVENTS
                       for who, happens in ((WITHOUT, False), (OURS, True))]
    return contenders


def tails_events(suite):
    if suite.knows("--rate", "--new-keys"):
        suite.interleave("tails-events", [one for batch in BATCHES
                                          for one in events_of(suite, batch)])


# ------------------------------------------------------------------------------- the summary


def is_tail(case):
    return case.startswith("tails: ") and not case.startswith("tails: closed loop")


def line_of(records, case, who):
    def of(name, text="{:,.0f}"):
        values = spread(records, case, who, name)
        if values is None:
            return ""
        if values.low == values.high:
            return text.format(values.median)
        return (f"{text.format(values.median)} ({text.format(values.low)} to "
                f"{text.format(values.high)})")

    return [case, who, of("frames_per_s"), *(of(f"latency_us.{name}") for name in
                                             ("p50", "p99", "p999", "max")),
            of("send_delay_us.p99"),
            of("page_faults.minor"), of("page_faults.major"), of("steal_percent", "{:.2f}"),
            of("happened")]


HEADER = ["case", "program", "frames/s", "p50 us", "p99 us", "p99.9 us", "max us",
          "sent late, p99 us", "minor faults", "major", "steal %", "happened"]


def lines(records):
    """The lines of the table of tails; without a closed loop's, whose rate stands in the cases."""
    return [line_of(records, case, who) for case, who in cases(records) if is_tail(case)]


def notes(records):
    """Sentences on runs that do not count, or that say something else than they seem to."""
    found = []
    for case, who in cases(records):
        runs = [record for record in records if (record["case"], record["who"]) == (case, who)]
        if not is_tail(case):
            continue
        if any(record.get("disturbed") for record in runs):
            found.append(f"- {case}, {who}: all runs lost more than {STEAL_PERCENT_MAX} % to other "
                         "machines (steal); the figures are doubtful.")
        if not all(record.get("kept_up", True) for record in runs):
            found.append(f"- {case}, {who}: behind its schedule in some runs; the latencies are "
                         "those of an overload.")
    return found
