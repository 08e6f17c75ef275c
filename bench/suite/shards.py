"""Two shards against one, the extra cost of an entry for another shard, and of a lone such request.

Server and load share the two cores, so only CPU time per decision is meaningful, not the rates.
"""

from functools import partial

from . import loads
from .machine import Trouble
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
OTHER_SHARD_BATCHES = (1, 64, 1024)


def other_shard_case(batch):
    return f"shards: half for the other shard, batch {batch}"


def other_shard_price_ns(records, batch):
    """The extra cost of an entry for another shard, from runs where half of them were; or None."""
    two = spread(records, other_shard_case(batch), TWO, "server_ns_each")
    one = spread(records, other_shard_case(batch), ONE, "server_ns_each")
    return 2 * (two.median - one.median) if two and one else None


def wake_share(records):
    """The share of the wake of the key's shard in a lone request for another shard's key, or None.

    The other shard polls for the answer before it sleeps: most times it needs no wake.
    """
    wake = spread(records, WAKE_CASE, WAKE, "latency_us.p50")
    lone_p50 = spread(records, LONE_CASE, TWO, "latency_us.p50")
    return wake.median / lone_p50.median if wake and lone_p50 else None


def two_shards_run(suite, *flags):
    figures = loads.own_bench(suite, *flags, cores=f"{suite.server_cpu},{suite.client_cpu}")
    if figures["allowed_percent"] < 100:
        raise Trouble("requests were denied that should not be: see `sluicegate bench` by hand")
    return figures | {"pinning": "shared cores"}


def wake_run(suite):
    """Measures how long one core takes to wake another that sleeps in io_uring."""
    program = suite.build / "bench/micro/wake_bench"
    output = run([program, "--benchmark_filter=uring", "--benchmark_format=json"], 120)
    return {"latency_us": {"p50": google_benchmark_p50(output.text)}}


def pair(suite, case, *flags):
    return [contender for who, shards in ((TWO, 2), (ONE, 1))
            for contender in suite.contend(case, who, two_shards_run, f"--shards={shards}", *flags)]


def half_other_shard(suite, batch):
    """The other shard owns half of the keys of one connection, against none."""
    return pair(suite, other_shard_case(batch), "--connections=1", f"--batch={batch}",
                f"--keys={KEYS // 10}")


def lone(suite):
    flags = ("--connections=1", "--batch=1", "--window=1", "--keys=1000",
             f"--client-cpu={suite.client_cpu}", *([] if suite.io else ["--io=uring"]))
    return [*suite.contend(LONE_CASE, TWO, two_shards_run, *flags, "--shards=2", "--misroute"),
            *suite.contend(LONE_CASE, ONE, two_shards_run, *flags, "--shards=1"),
            Contender(WAKE_CASE, WAKE, partial(wake_run, suite))]


def shards(suite):
    suite.interleave("shards", [
        *pair(suite, SCALING_CASE, "--route", f"--keys={KEYS}"),
        *(one for batch in OTHER_SHARD_BATCHES for one in half_other_shard(suite, batch)),
        *lone(suite)])
