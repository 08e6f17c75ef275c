"""Nodes that keep their state start with another list: usage of other nodes' subjects is dropped,
and quotas that were put at run time go to those that own their subjects now.

Method: nodes of two shards with a state file each, stopped, and started with lists of another
order or length; `sluicegate state export` says which node keeps which quota. Owners are away at
first, have got another quota meanwhile, or are killed once they have taken theirs.
"""

import json

import pytest

from fleet import OURS, Node, free_ports, name_at, owner_of, secret_file
from http_peer import metrics
from quota_calls import call, limit_of, put, show, tokens, used
from server_process import eventually, run_binary

LEFT = "sluicegate_quotas_to_hand_over"
ONCE, NOW = [2, 0], [0, 1]  # node 0 alone runs at first, and owns what is node 1's then
ALL_TAKEN = "state: all quotas are handed over whose subjects other instances own now"
USAGE_LEFT_OUT = ("state: other instances of --instance-urls own some of the subjects now: their "
                  "usage was left out, and begins anew at their owners")


class Nodes:
    """Up to three nodes with a state file each, and the lists that they are started with."""

    def __init__(self, folder):
        self.folder, self.flags = folder, ["--peer-secret-file", secret_file(folder)]
        self.nodes = [Node(number, f"127.0.0.{number + 1}", port)
                      for number, port in enumerate(free_ports(3))]

    def __getitem__(self, number):
        return self.nodes[number].process

    def state(self, number):
        return str(self.folder / f"state{number}.db")

    def start(self, number, order):
        """With a list of the nodes with these numbers, in this order."""
        self.nodes[number].start(OURS, [self.nodes[place].url for place in order],
                                 ["--state", self.state(number), "--state-sync-millis", "20",
                                  *self.flags])
        return self[number]

    def start_all(self, order):
        for number in order:
            self.start(number, order)
        for number in order:
            others = [self.nodes[other] for other in order]
            eventually(lambda node=self.nodes[number], others=others: not node.lacks_links(others),
                       "it has its links")

    def stop(self, *numbers):
        for number in numbers:
            self.nodes[number].stop()

    def kept(self, number):
        """The quotas that were put at run time, in the node's state: each one's first amount."""
        result = run_binary("state", "export", self.state(number))
        assert result.returncode == 0, result
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        return {line["name"]: line["quota"]["limits"][0]["amount"] for line in lines
                if line["type"] == "run_time_quota"}

    def await_hand_over(self, *numbers):
        for number in numbers:
            eventually(lambda number=number: metrics(self[number])[LEFT] == 0,
                       f"all are handed over\n{self[number].output()}")


@pytest.fixture
def nodes(tmp_path):
    all_nodes = Nodes(tmp_path)
    yield all_nodes
    for node in all_nodes.nodes:
        if node.process:
            node.process.kill()


def names_of(number, order, name="name", count=20):
    """Subjects whose owner is the node of this number, with a list in this order."""
    place = order.index(number)
    names = (f"{name}{suffix}" for suffix in range(1_000))
    return [each for each in names if owner_of(each, len(order)) == place][:count]


def said(server, message):
    return [line for line in server.log if line["message"] == message]


def consume(server, subject, amount):
    return call(server, "consume", {"subjects": [subject], "input_tokens": amount}).status


@pytest.mark.parametrize("before, after", [([0, 1], [1, 0]), ([0, 1], [0, 1, 2]),
                                           ([2, 0, 1], [1, 2])])
def test_quotas_go_to_the_owners_of_the_new_list(nodes, before, after, key):
    nodes.start_all(before)
    names = [f"{key}{number}" for number in range(40)]
    for amount, name in enumerate(names, 100):
        put(nodes[before[0]], name, tokens(amount))
        assert consume(nodes[before[-1]], name, 60) == 200
    nodes.stop(*before)

    nodes.start_all(after)
    nodes.await_hand_over(*after)
    moved = 0
    for number in after:
        leaves = [name for name in names if before[owner_of(name, len(before))] == number
                  and after[owner_of(name, len(after))] != number]
        moved += len(leaves)
        warned = [line["subjects"] for line in said(nodes[number], USAGE_LEFT_OUT)]
        assert warned == ([len(leaves)] if leaves else [])
        if leaves:
            assert nodes[number].wait_for_message(ALL_TAKEN)["quotas"] == len(leaves)
    assert moved > 0
    at_removed = [name for name in names if before[owner_of(name, len(before))] not in after]
    for amount, name in enumerate(names, 100):
        if name in at_removed:
            continue  # that node does not run, so its quotas stay where they are
        stays = before[owner_of(name, len(before))] == after[owner_of(name, len(after))]
        assert used(nodes[after[0]], name) == (60 if stays else 0), name
        rest = amount - (60 if stays else 0)
        assert [consume(nodes[after[-1]], name, rest), consume(nodes[after[0]], name, 1)] == (
            [200, 429]), name
    nodes.stop(*after)
    for place, number in enumerate(after):
        assert nodes.kept(number) == {name: amount for amount, name in enumerate(names, 100)
                                      if owner_of(name, len(after)) == place
                                      and name not in at_removed}


def test_quotas_stay_in_the_state_until_their_owner_is_there(nodes, key):
    nodes.start(0, ONCE)
    names = names_of(1, NOW, key)
    for name in names:
        put(nodes[0], name, tokens(100))
    nodes.stop(0)
    for _ in range(2):  # also over a start without the owner
        nodes.start(0, NOW)
        assert metrics(nodes[0])[LEFT] == len(names)
        assert consume(nodes[0], names[0], 1) == 502
        nodes.stop(0)
        assert nodes.kept(0) == dict.fromkeys(names, 100)
        assert not said(nodes[0], ALL_TAKEN)
    nodes.start(0, NOW)
    nodes.start(1, NOW)
    nodes.await_hand_over(0)
    assert nodes[0].wait_for_message(ALL_TAKEN)["quotas"] == len(names)
    nodes[1].kill()  # it has said that it has them
    assert nodes.kept(1) == dict.fromkeys(names, 100)
    nodes.start(1, NOW)
    for name in names:
        assert [consume(nodes[1], name, 100), consume(nodes[1], name, 1)] == [200, 429]
    nodes.stop(0, 1)
    assert nodes.kept(0) == {}


def test_the_owner_keeps_a_quota_that_it_has_got_since_then(nodes, key):
    nodes.start(0, ONCE)
    old, new = names_of(1, NOW, key, 2)
    for name in (old, new):
        put(nodes[0], name, tokens(100))
    nodes.stop(0)
    nodes.start(1, NOW)
    put(nodes[1], new, tokens(70))
    nodes.start(0, NOW)
    nodes.await_hand_over(0)
    amounts = [limit_of(show(nodes[1], name), "tph")["amount"] for name in (old, new)]
    assert amounts == [100, 70]
    nodes.stop(0, 1)
    assert (nodes.kept(0), nodes.kept(1)) == ({}, {old: 100, new: 70})


def test_back_to_the_old_list_before_the_owner_was_there(nodes, key):
    nodes.start(0, ONCE)
    name = name_at(1, 2, key)
    put(nodes[0], name, tokens(100))
    nodes.stop(0)
    nodes.start(0, NOW)
    nodes.stop(0)
    nodes.start(0, ONCE)
    assert limit_of(show(nodes[0], name), "tph")["amount"] == 100
    assert metrics(nodes[0])[LEFT] == 0


def test_without_a_secret_quotas_stay_in_the_state(nodes, key):
    nodes.flags = []
    nodes.start(0, ONCE)
    name = name_at(1, 2, key)
    put(nodes[0], name, tokens(100))
    nodes.stop(0)
    nodes.start_all(NOW)
    line, = [line for line in nodes[0].warnings() if "cannot be handed over" in line["message"]]
    assert line["quotas"] == 1 and "--peer-secret-file" in line["message"]
    assert metrics(nodes[0])[LEFT] == 1
    nodes.stop(0, 1)
    assert (nodes.kept(0), nodes.kept(1)) == ({name: 100}, {})
