"""Nodes compare their rules, and say which one has others, until it has the same again.

Method: a fleet of two, each with a configuration file of its own, which the test changes, or with
another flag.
"""

import contextlib
import json

import pytest

from fleet import OURS, Node, ending, free_ports
from http_peer import ask, metrics
from server_process import eventually

DIFFER = ("another node has other rules than this one: give all nodes the same --instance-urls in "
          "the same order, flags (--peer-timeout-millis, too), --config-file and profiles")


def rules(limit):
    return json.dumps({"keys": [{"key_pattern": "api", "max_requests_per_window": limit}]})


def other(nodes, node):
    return next(f"{one.host}:{one.port}" for one in nodes if one is not node)


def differs(nodes, node):
    name = other(nodes, node)
    return metrics(node.process)[f'sluicegate_node_rules_differ{{node="{name}"}}']


def warnings(nodes, node):
    name = other(nodes, node)
    return [line for line in node.process.warnings()
            if line["message"] == DIFFER and line["node"] == name]


@contextlib.contextmanager
def two_nodes(flags_of, order=1):
    """`order`: -1 turns the list of the second one."""
    nodes = [Node(number, f"127.0.0.{number + 1}", port)
             for number, port in enumerate(free_ports(2))]
    with ending(nodes):
        for node in nodes:
            urls = [node.url for node in nodes]
            node.start(OURS, urls[::order] if node.number == 1 else urls, flags_of(node.number))
        yield nodes


@pytest.fixture
def fleet(tmp_path):
    files = [tmp_path / f"rules{number}.json" for number in range(2)]
    for file in files:
        file.write_text(rules(5))
    with two_nodes(lambda number: ["--config-file", str(files[number])]) as nodes:
        yield nodes


def test_a_node_with_other_rules_is_named(fleet, tmp_path):
    header = [ask(node.process, "GET", "/healthz").header("sluicegate-node") for node in fleet]
    assert header[0].split("rules=")[1] == header[1].split("rules=")[1]
    (tmp_path / "rules0.json").write_text(rules(6))
    for node in fleet:
        eventually(lambda node=node: differs(fleet, node) == 1, "the metric says so", 60)
        eventually(lambda node=node: warnings(fleet, node), "the log says so")
    for line, opposite in zip(warnings(fleet, fleet[0]), warnings(fleet, fleet[1]), strict=True):
        assert line["rules"] == opposite["ownRules"] != line["ownRules"] == opposite["rules"]
    (tmp_path / "rules1.json").write_text(rules(6))
    for node in fleet:
        eventually(lambda node=node: differs(fleet, node) == 0, "they have the same", 60)
        assert len(warnings(fleet, node)) == 1


def test_a_node_with_another_peer_timeout_is_named():
    with two_nodes(lambda number: ["--peer-timeout-millis", str(2_000 + number)]) as nodes:
        for node in nodes:
            eventually(lambda node=node: differs(nodes, node) == 1, "the metric says so", 60)
            eventually(lambda node=node: warnings(nodes, node), "the log says so")


def test_a_node_with_another_list_is_named():
    with two_nodes(lambda number: [], order=-1) as nodes:
        for node in nodes:
            eventually(lambda node=node: differs(nodes, node) == 1, "the metric says so", 60)
            eventually(lambda node=node: warnings(nodes, node), "the log says so")
