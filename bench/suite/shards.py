"""Loads on several shards: routed to the keys' owners, for keys of all shards, for another shard's.

Where server and load share the two cores, only CPU time per decision is meaningful, not the rates.
"""

import contextlib
from dataclasses import dataclass
from functools import partial

from . import loads, servers
from .machine import Trouble, need
from .parse import google_benchmark_p50
from .processes import run
from .records import spread
from .servers import KEYS
from .suite import Contender

ONE, TWO = "one shard", "two shards"
WAKE = "one core wakes another"
SCALING_CASE = "shards: two shards, keys by owner"
LONE_CASE = "shards: a lone request"
WAKE_CASE = "shards: a wake"

ROUTED, MIXED, OTHER = "routed", "mixed", "all another shard's"
HOLDING = "routed, holding another shard's handle"
WAYS = {ROUTED: ("--route",), MIXED: (), OTHER: ("--misroute",),
        HOLDING: ("--route", "--other-handle")}
NEEDS = {HOLDING: ("--other-handle",)}  # flags that an earlier load tool may lack
CONNECTIONS = 4


@dataclass(frozen=True)
class Load:
    """A load that is routed, and the same in other ways, in turn."""
    shards: int
    batch: int
    aims: dict  # way: at most so many times the routed CPU time of a decision; None: no aim
    by_handle: bool = False

    @property
    def case(self):
        return (f"shards: {self.shards} shards, by {'handle' if self.by_handle else 'key'}, "
                f"batch {self.batch:,}")

    @property
    def flags(self):
        # Routing needs a connection to each shard.
        return (f"--shards={self.shards}", f"--batch={self.batch}", f"--keys={KEYS}",
                f"--connections={max(CONNECTIONS, self.shards)}",
                *(["--handles"] if self.by_handle else []))


LOADS = [
    Load(2, 1, {MIXED: 1.4, OTHER: 1.4}),
    Load(2, 64, {MIXED: 1.6, OTHER: 1.6}),
    Load(2, 256, {MIXED: 1.5, OTHER: 1.5}),
    Load(2, 1024, {MIXED: 1.5, OTHER: 1.5}),
    Load(2, 1, {MIXED: None, OTHER: None}, by_handle=True),
    Load(2, 64, {MIXED: None, OTHER: None}, by_handle=True),
    Load(2, 256, {MIXED: 3.5, OTHER: 5, HOLDING: 1.05}, by_handle=True),
    Load(8, 64, {MIXED: 3}),
    Load(8, 256, {MIXED: 2.2}),
    Load(8, 1024, {MIXED: 2.2}),
]

# Of another shard's keys, a handle costs at most so many times what the key's text does.
HANDLE_BATCHES = (1, 64, 256)
HANDLE_AIM = 1

LOAD_SHARE = 70  # percent of the closed loop's rate
OPEN_LOOP_BATCHES = (64, 256)
OPEN_LOOP_AIM = 2  # times the routed p99


@dataclass(frozen=True)
class Rest:
    """REST on two shards that share a core, and on one."""
    case: str
    depth: int
    cpu_aim: float  # at most so many times one shard's CPU time of a request
    rate_aim: float | None  # at least so many times one shard's rate


REST = [
    Rest("shards: REST, 16 pipelined", loads.PIPELINED, 1.5, 0.65),
    Rest("shards: REST, one in flight", 1, 1.2, None),
]


def open_loop_case(batch):
    return f"shards: open loop at {LOAD_SHARE} %, batch {batch}"


def other_shard_price_ns(records, case):
    """The extra cost of an entry for another shard, or None."""
    other = spread(records, case, OTHER, "server_ns_each")
    routed = spread(records, case, ROUTED, "server_ns_each")
    return other.median - routed.median if other and routed else None


def wake_share(records):
    """The share of the wake of the key's shard in a lone request for another shard's key, or None.

    The other shard polls for the answer before it sleeps: most times it needs no wake.
    """
    wake = spread(records, WAKE_CASE, WAKE, "latency_us.p50")
    lone_p50 = spread(records, LONE_CASE, TWO, "latency_us.p50")
    return wake.median / lone_p50.median if wake and lone_p50 else None


def approved(figures):
    if figures["allowed_percent"] < 100:
        raise Trouble("requests were denied that should not be: see `sluicegate bench` by hand")
    return figures


def shared_cores_run(suite, *flags):
    """The shards have both cores, so the load shares them."""
    figures = loads.own_bench(suite, *flags, cores=f"{suite.server_cpu},{suite.client_cpu}")
    return approved(figures) | {"pinning": "shared cores"}


def open_loop_run(suite, *flags):
    """The shards share a core: the load spins until a frame is due, and needs one of its own."""
    bench = partial(loads.own_bench, suite, *flags)
    return approved(loads.open_loop(bench, bench()["per_s"], LOAD_SHARE))


def wake_run(suite):
    """Measures how long one core takes to wake another that sleeps in io_uring."""
    program = suite.build / "bench/micro/wake_bench"
    output = run([program, "--benchmark_filter=uring", "--benchmark_format=json"], 120)
    return {"latency_us": {"p50": google_benchmark_p50(output.text)}}


def scaling(suite):
    return [contender for who, shards in ((TWO, 2), (ONE, 1)) for contender in suite.contend(
        SCALING_CASE, who, shared_cores_run, f"--shards={shards}", "--route", f"--keys={KEYS}")]


def between(suite):
    return [contender for load in LOADS for way in (ROUTED, *load.aims)
            for contender in suite.contend(load.case, way, shared_cores_run, *load.flags,
                                           *WAYS[way], needs=NEEDS.get(way, ()))]


def open_loop(suite):
    return [contender for batch in OPEN_LOOP_BATCHES for way in (ROUTED, MIXED)
            for contender in suite.contend(open_loop_case(batch), way, open_loop_run,
                                           *Load(2, batch, {}).flags, *WAYS[way])]


def lone(suite):
    flags = ("--connections=1", "--batch=1", "--window=1", "--keys=1000",
             f"--client-cpu={suite.client_cpu}", *([] if suite.io else ["--io=uring"]))
    return [*suite.contend(LONE_CASE, TWO, shared_cores_run, *flags, "--shards=2", "--misroute"),
            *suite.contend(LONE_CASE, ONE, shared_cores_run, *flags, "--shards=1"),
            Contender(WAKE_CASE, WAKE, partial(wake_run, suite))]


def rest(suite, stack):
    need("taskset", "wrk")
    running = [(who + end, stack.enter_context(servers.sluicegate(version, shards=shards)))
               for who, shards in ((TWO, 2), (ONE, 1)) for end, version in suite.versions()]
    return [Contender(load.case, who, partial(loads.wrk, suite, server, load.depth))
            for load in REST for who, server in running]


def shards(suite):
    suite.interleave("shards", [*scaling(suite), *between(suite)])
    suite.interleave("shards", lone(suite))
    suite.interleave("shards", open_loop(suite))
    with contextlib.ExitStack() as stack:
        suite.interleave("shards", rest(suite, stack))
