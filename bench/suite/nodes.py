"""Keys of another node: a node whose client asks for keys of both, beside one that is alone.

Both nodes have one shard and share the server's core: only CPU time per decision is meaningful,
not the rate. The other node decides half of the entries, so the aims of a forwarded entry are here
those of the mean of one that is forwarded and one that is not: at least 70 % of local decisions per
CPU second for the entry node alone makes (1 + 1 / 0.7) / 2 times the CPU time, 40 % for both
nodes together (1 + 1 / 0.4) / 2 times.
"""

import contextlib
from functools import partial

from . import events, loads, servers
from .machine import Trouble, cpu_s, free_port
from .shards import approved
from .suite import Contender

ALONE, HALF, FORWARDED = "one node", "two nodes, half forwarded", "another node's key"
BATCHES = (64, 256, 1024)
ENTRY_AIM, BOTH_AIM = 1.21, 1.75
LONE_CASE = "nodes: a lone request"
LONE_AIM = 2.5
KEYS = 100_000
FORWARDED_METRIC = "sluicegate_node_forwarded_total"
DECIDED_METRIC = "sluicegate_decisions_total"  # by the node itself
LONE_FLAGS = ("--connections=1", "--batch=1", "--window=1", "--distribution=one")


def case_of(batch):
    return f"nodes: batch {batch:,}"


@contextlib.contextmanager
def two_nodes(suite):
    """They share the keys, and are connected."""
    hosts = [f"127.0.0.{number}" for number in (1, 2)]
    ports = [free_port() for _ in hosts]
    urls = ",".join(f"http://{host}:{port}" for host, port in zip(hosts, ports))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(servers.sluicegate(
            suite, host=host, port=port, flags=(f"--instance-urls={urls}",)))
            for host, port in zip(hosts, ports)]


def alone(suite, server, batch):
    return approved(loads.bench_of(suite, server, f"--batch={batch}", f"--keys={KEYS}"))


def half_forwarded(suite, nodes, batch):
    """The owner's CPU time is divided by all that it was sent, also while the load warmed up."""
    entry, owner = nodes
    forwarded, own = events.metric(entry, FORWARDED_METRIC), events.metric(entry, DECIDED_METRIC)
    owner_cpu_s = cpu_s(owner.pid)
    figures = alone(suite, entry, batch)
    owner_cpu_s = cpu_s(owner.pid) - owner_cpu_s
    forwarded = events.metric(entry, FORWARDED_METRIC) - forwarded
    own = events.metric(entry, DECIDED_METRIC) - own
    if forwarded < 0.3 * (forwarded + own):
        raise Trouble("the nodes are not connected: hardly an entry was forwarded")
    return figures | {
        "both_ns_each": figures["server_ns_each"] + 1e9 * owner_cpu_s / (forwarded + own)}


def lone(suite, server):
    return approved(loads.bench_of(suite, server, *LONE_FLAGS))


def lone_forwarded(suite, nodes):
    """Of the node that does not own the key."""
    for node in nodes:
        before = events.metric(node, FORWARDED_METRIC)
        figures = lone(suite, node)
        if events.metric(node, FORWARDED_METRIC) > before:
            return figures
    raise Trouble("no node has forwarded the key: both may own it, if they are not connected")


def nodes(suite):
    with contextlib.ExitStack() as stack:
        running = [(end, stack.enter_context(servers.sluicegate(version)),
                    stack.enter_context(two_nodes(version))) for end, version in suite.versions()]
        suite.interleave("nodes", [
            contender for batch in BATCHES for end, single, fleet in running for contender in (
                Contender(case_of(batch), HALF + end,
                          partial(half_forwarded, suite, fleet, batch)),
                Contender(case_of(batch), ALONE + end, partial(alone, suite, single, batch)))])
        suite.interleave("nodes", [
            contender for end, single, fleet in running for contender in (
                Contender(LONE_CASE, FORWARDED + end, partial(lone_forwarded, suite, fleet)),
                Contender(LONE_CASE, ALONE + end, partial(lone, suite, single)))])
