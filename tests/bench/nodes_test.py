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
    """A load of 1,000 decisions/s for 2 s, and of 1,000 before that, which costs the asked node 30
    ns each. `forwarded` of all rise that metric of the node that `forwards` names, which decides
    the others, and cost the other node 60 us in all."""
    counted = {(server, name): 100.0 for server in (ENTRY, OWNER)
               for name in (nodes.FORWARDED_METRIC, nodes.DECIDED_METRIC)}
    cpu_s = {ENTRY.pid: 5.0, OWNER.pid: 7.0}
    state = types.SimpleNamespace(forwarded=1_500, forwards=ENTRY, asked=[])

    def bench_of(_, server, *flags):
        state.asked.append((server, flags))
        if server == state.forwards:
            counted[server, nodes.FORWARDED_METRIC] += state.forwarded
            counted[server, nodes.DECIDED_METRIC] += 3_000 - state.forwarded
            cpu_s[OWNER.pid] += 60e-6
        return {"allowed_percent": 100, "per_s": 1_000.0, "seconds": 2.0, "server_ns_each": 30.0}
    monkeypatch.setattr(nodes.loads, "bench_of", bench_of)
    monkeypatch.setattr(nodes.events, "metric", lambda *what: counted[what])
    monkeypatch.setattr(nodes, "cpu_s", lambda pid: cpu_s[pid])
    return state


def test_both_nodes_count(measured):
    figures = nodes.half_forwarded(SUITE, (ENTRY, OWNER), 256)
    assert figures["server_ns_each"] == 30
    assert figures["both_ns_each"] == pytest.approx(30 + 60e-6 * 1e9 / 3_000)
    assert measured.asked == [(ENTRY, ("--batch=256", "--keys=100000"))]


def test_nodes_that_do_not_forward_are_no_measurement(measured):
    measured.forwarded = 800
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
