"""The targets of the runs, and whether they are met."""

from dataclasses import dataclass

from . import events, nodes, shards, rungs, tails
from .records import Spread, spread
from .suite import OURS

BUSY = 0.95  # of a core: that side limits a run

# The divisor and the text format of each figure.
FORMATS = {"per_s": (1e6, "{:.2f} M/s"), "bytes_per_s": (1e6, "{:,.0f} MB/s"),
           "us": (1, "{:.2f} us"), "ns": (1, "{:.1f} ns"), "bytes": (1, "{:.1f} bytes")}


@dataclass(frozen=True)
class Target:
    """A figure of ours, or its ratio to a peer's, and its bound if it has one."""
    what: str
    case: str
    bound: float | None
    figure: str = "per_s"
    peer: str = ""
    peer_figure: str = ""
    peer_case: str = ""  # if it is another one
    at_most: bool = False
    difference: bool = False  # the bound is of ours minus the peer's, not of their ratio
    format: str = "per_s"
    scale: float = 1  # of the figure in the records, to that of the format
    who: str = OURS

    @property
    def of_ratio(self):
        return bool(self.peer)

    def bound_text(self):
        if self.bound is None:
            return ""
        sign = "<=" if self.at_most else ">="
        if self.difference:
            return f"{sign} {self.peer} + {written(self.bound, self.format)}"
        if self.of_ratio:
            return f"{sign} {self.bound:g} x"
        return f"{sign} {written(self.bound, self.format)}"

    def is_met(self, value):
        return value <= self.bound if self.at_most else value >= self.bound


@dataclass(frozen=True)
class Row:
    """The results of the runs for a target."""
    target: Target
    ours: Spread
    peer: Spread | None
    ratio: float | None
    verdict: str
    bottleneck: str


def written(value, format_name):
    divisor, text = FORMATS[format_name]
    return text.format(value / divisor)


def rate(what, case, bound):
    return Target(what, case, bound)


def against(what, case, peer, bound):
    return Target(what, case, bound, peer=peer)


def cpu_against(what, case, peer, bound):
    return Target(what, case, bound, figure="server_ns_each", peer=peer, at_most=True,
                  format="us", scale=1e-3)


def tail(what, case, bound, **other):
    return Target(what, case, bound, figure="latency_us.p99", at_most=True, format="us", **other)


def tail_targets(batch):
    case = tails.case_of(batch)
    what = f"{case}, p99"
    return [tail(what, case, tails.MOST_US),
            tail(f"{what}, against Redis's", case, 1, peer=tails.REDIS),
            tail(f"{what}, above the echo's", case, tails.ECHO_EXCESS_US, peer=tails.ECHO,
                 difference=True),
            *(tail(f"{one}: p99, to that without", one, tails.EVENT_TIMES, peer=tails.WITHOUT)
              for one in (tails.event_case(event, batch) for event in events.EVENTS))]


def node_targets(batch):
    """Of half of the entries, the CPU time of the node that was asked, and of both."""
    case, peer = nodes.case_of(batch), "server_ns_each"
    return [Target(f"{case}, half forwarded, against one node: {what}, CPU per decision", case,
                   aim if batch == 1024 else None, figure=figure, who=nodes.HALF,
                   peer=nodes.ALONE, peer_figure=peer, at_most=True, format="ns")
            for what, figure, aim in (("the node that was asked", peer, nodes.ENTRY_AIM),
                                      ("both nodes", "both_ns_each", nodes.BOTH_AIM))]


KEYED_1M = rungs.keyed_case(1_000_000)

TARGETS = [
    Target("in process, 1 M keys", "R0 decide_existing_keys/1000000", 50e6),
    Target("in process, 20 M keys", "R0 decide_existing_keys/20000000", 25e6),
    rate("keyed, batch 256, 10 k keys", rungs.keyed_case(10_000), 45e6),
    rate("keyed, batch 256, 1 M keys", KEYED_1M, 30e6),
    rate("keyed, batch 256, 10 M keys", rungs.keyed_case(10_000_000), 20e6),
    against("keyed against Redis INCR -P 64", KEYED_1M, "redis", 25),
    against("keyed against gubernator, 1,000 checks a call", KEYED_1M, "gubernator", 150),
    against("keyed against throttlecrab -P 256", KEYED_1M, "throttlecrab", 150),
    rate("handles, batch 256", rungs.handles_case(256), 75e6),
    rate("handles, batch 4,096", rungs.handles_case(4096), 105e6),
    against("handles of 256 against Redis INCR -P 64", rungs.handles_case(256), "redis", 65),
    against("handles of 4,096 against Redis INCR -P 64", rungs.handles_case(4096), "redis", 65),
    rate("batch 1, 256 in flight", rungs.PIPELINED_CASE, 4e6),
    rate("client, keyed", rungs.CLIENT_CASE, 15e6),
    against("client, handles, against snail's echo of 4 bytes", rungs.CLIENT_HANDLES_CASE,
            "snail", 1.2),
    cpu_against("REST, server CPU per request, against nginx", rungs.REST_CASE, "nginx", 0.9),
    against("REST pipelined against the constant loop", rungs.REST_PIPELINED_CASE,
            "constant loop", 0.6),
    against("REST pipelined against nginx", rungs.REST_PIPELINED_CASE, "nginx", 6),
    *(target for case in (rungs.HTTP2_CASE, rungs.HTTP2_FEW_CASE) for target in (
        cpu_against(f"{case}, server CPU per request, against nginx", case, "nginx", 0.4),
        cpu_against(f"{case}, server CPU per request, against gocc", case, "gocc", 0.067),
        against(f"{case}, against gocc", case, "gocc", 5))),
    Target("request bytes against raw loopback", rungs.RAW_CASE, 0.2, figure="bytes_out_per_s",
           peer="raw loopback", peer_figure="per_s", format="bytes_per_s"),
    Target("request bytes by handle against raw loopback", rungs.RAW_HANDLES_CASE, None,
           figure="bytes_out_per_s", peer="raw loopback", peer_figure="per_s",
           format="bytes_per_s"),
    Target("a lone request against Redis PING, p50", rungs.IDLE_CASE, 1.2,
           figure="latency_us.p50", peer="redis", at_most=True, format="us"),
    Target("open loop, batch 64, half load, p99", rungs.open_loop_case(64, 50), 1000,
           figure="latency_us.p99", at_most=True, format="us"),
    Target("memory beside a key's 15 bytes", rungs.MEMORY_CASE, 40, figure="bytes_beside_key",
           at_most=True, format="bytes"),
    Target("two shards against one, server CPU per decision", shards.SCALING_CASE, 1.2,
           figure="server_ns_each", who=shards.TWO, peer=shards.ONE, at_most=True, format="ns"),
    *(Target(f"{load.case}: {way} against routed, server CPU per decision", load.case, aim,
             figure="server_ns_each", who=way, peer=shards.ROUTED, at_most=True, format="ns")
      for load in shards.LOADS for way, aim in load.aims.items()),
    *(Target(f"shards: another shard's keys, batch {batch}: by handle against as text, server CPU "
             "per decision", shards.Load(2, batch, {}, by_handle=True).case, shards.HANDLE_AIM,
             figure="server_ns_each", who=shards.OTHER, peer=shards.OTHER,
             peer_case=shards.Load(2, batch, {}).case, at_most=True, format="ns")
      for batch in shards.HANDLE_BATCHES),
    *(Target(f"{shards.open_loop_case(batch)}: mixed against routed, p99",
             shards.open_loop_case(batch), shards.OPEN_LOOP_AIM, figure="latency_us.p99",
             who=shards.MIXED, peer=shards.ROUTED, at_most=True, format="us")
      for batch in shards.OPEN_LOOP_BATCHES),
    *(Target(f"{load.case}: two shards against one on one core, server CPU per request",
             load.case, load.cpu_aim, figure="server_ns_each", who=shards.TWO, peer=shards.ONE,
             at_most=True, format="us", scale=1e-3) for load in shards.REST),
    *(Target(f"{load.case}: two shards against one on one core, rate", load.case, load.rate_aim,
             who=shards.TWO, peer=shards.ONE) for load in shards.REST),
    Target("a lone request for another shard's key against an own one, p50", shards.LONE_CASE, 1.7,
           figure="latency_us.p50", who=shards.TWO, peer=shards.ONE, at_most=True, format="us"),
    *(target for batch in nodes.BATCHES for target in node_targets(batch)),
    Target("a lone request for another node's key against an own one, p50", nodes.LONE_CASE,
           nodes.LONE_AIM, figure="latency_us.p50", who=nodes.FORWARDED, peer=nodes.ALONE,
           at_most=True, format="us"),
    *(target for batch in tails.BATCHES for target in tail_targets(batch)),
]


def bottleneck(records, case, who):
    """The side that limits the run: when it is not the server, the figure is a lower bound."""
    kept_up = spread(records, case, who, "kept_up")
    if kept_up and not kept_up.low:
        return "behind its schedule"
    server = spread(records, case, who, "server_busy")
    client = spread(records, case, who, "client_busy")
    if server and server.median >= BUSY:
        return "server"
    # The client of an open loop spins: its CPU time means nothing.
    if client and client.median >= BUSY and not kept_up:
        return "client"
    return "neither" if server and client else ""


def scaled(values, scale):
    return Spread(value * scale for value in values.values) if values else None


def verdict(target, value):
    if value is None:
        return "no peer"
    if target.bound is None:
        return ""
    return "met" if target.is_met(value) else "MISSED"


def row(records, target):
    """None when the case was not run."""
    ours = scaled(spread(records, target.case, target.who, target.figure), target.scale)
    if not ours:
        return None
    peer = scaled(spread(records, target.peer_case or target.case, target.peer,
                         target.peer_figure or target.figure),
                  target.scale) if target.of_ratio else None
    ratio = ours.median / peer.median if peer and peer.median else None
    value = ratio if target.of_ratio else ours.median
    if target.difference and peer:
        value = ours.median - peer.median
    return Row(target, ours, peer, ratio, verdict(target, value),
               bottleneck(records, target.case, target.who))


def rows(records):
    return [found for target in TARGETS if (found := row(records, target))]
