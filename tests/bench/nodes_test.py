"""Half of the entries forwarded: the CPU time of both nodes, and the aims of the rung `nodes`.

Method: loads and counters replaced by figures; lines of runs made by hand.
"""

import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from suite import nodes, targets  # noqa: E402
from suite.machine import Trouble  # noqa: E402
from suite.servers import Server  # noqa: E402

ENTRY, OWNER = Server(1, 11, 12, "127.0.0.1"), Server(2, 21, 22, "127.0.0.2")
SUITE = types.SimpleNamespace(seconds=2)


@pytest.fixture
def measured(monkeypatch):
    """A load of 1,000 decisions/s for 2 s that costs the asked node 30 ns each; `forwarded` of them
    rise the metric of the node that `forwards` names, and cost the other one 40 us in all."""
    counted = {ENTRY: 100.0, OWNER: 0.0}
    cpu_s = {ENTRY.pid: 5.0, OWNER.pid: 7.0}
    state = types.SimpleNamespace(forwarded=1_000, forwards=ENTRY, asked=[])

    def bench_of(_, server, *flags):
        state.asked.append((server, flags))
        if server == state.forwards:
            counted[server] += state.forwarded
            cpu_s[OWNER.pid] += 40e-6
        return {"allowed_percent": 100, "per_s": 1_000.0, "seconds": 2.0, "server_ns_each": 30.0}
    monkeypatch.setattr(nodes.loads, "bench_of", bench_of)
    monkeypatch.setattr(nodes.events, "metric", lambda server, _: counted[server])
    monkeypatch.setattr(nodes, "cpu_s", lambda pid: cpu_s[pid])
    return state


def test_both_nodes_count(measured):
    figures = nodes.half_forwarded(SUITE, (ENTRY, OWNER), 256)
    assert figures["server_ns_each"] == 30
    assert figures["both_ns_each"] == pytest.approx(30 + 20)
    assert measured.asked == [(ENTRY, ("--batch=256", "--keys=100000"))]


def test_nodes_that_do_not_forward_are_no_measurement(measured):
    measured.forwarded = 500
    with pytest.raises(Trouble, match="not connected"):
        nodes.half_forwarded(SUITE, (ENTRY, OWNER), 256)


@pytest.mark.parametrize("forwards, asked", [(ENTRY, [ENTRY]), (OWNER, [ENTRY, OWNER])])
def test_a_lone_request_goes_to_the_node_that_forwards_it(measured, forwards, asked):
    measured.forwards = forwards
    nodes.lone_forwarded(SUITE, (ENTRY, OWNER))
    assert [server for server, _ in measured.asked] == asked


def test_a_key_that_nobody_forwards_is_no_measurement(measured):
    measured.forwarded = 0
    with pytest.raises(Trouble, match="no node has forwarded"):
        nodes.lone_forwarded(SUITE, (ENTRY, OWNER))


@pytest.mark.parametrize("asked_ns, both_ns, verdicts", [(12, 17, ["met", "met"]),
                                                         (12.2, 17.6, ["MISSED", "MISSED"])])
def test_aims_hold_for_the_mean_of_both_kinds_of_entries(asked_ns, both_ns, verdicts):
    runs = [{"case": nodes.case_of(1024), "who": nodes.HALF, "server_ns_each": asked_ns,
             "both_ns_each": both_ns},
            {"case": nodes.case_of(1024), "who": nodes.ALONE, "server_ns_each": 10.0}]
    assert [row.verdict for row in targets.rows(runs)] == verdicts
