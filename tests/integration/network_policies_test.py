"""What callers are granted of each key while a node is lost, and when it is back: never more than
--peer-failure allows, whatever the fault is.

Method: nodes in namespaces (cut_fleet.py), and a caller at each that asks for all keys, one request
after the other: before a fault, in it, and afterwards, each time for more than the limits together.
The book has what was granted at which node. A request that is under way when its owner is lost may
be counted although its caller is not granted it: one for each caller and key at most."""

import collections
import concurrent.futures
import contextlib
import itertools

import pytest

from cut_fleet import FAULTS, NODES, CutFleet, lost_ways, own_namespace, why_not
from fleet import owner_of
from http_peer import HttpPeer

LIMIT = 6
KEYS_OF_EACH = 2
FLAGS = ("-m", LIMIT, "-w", 3_600_000)
POLICIES = ["error", "closed", "local", "open"]
BEFORE, FAULT, AFTER = "before", "in the fault", "afterwards"
# What the asked node does with a key of a node that it has lost.
STATUSES = {"error": {502}, "closed": {429}, "local": {200, 429}, "open": {200}}

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")


@pytest.fixture(scope="module", params=POLICIES)
def fleet(request):
    with own_namespace(), CutFleet(*FLAGS, "--peer-failure", request.param) as nodes:
        nodes.policy = request.param
        yield nodes


class Book:
    """The answers to requests for keys that no other test has."""

    def __init__(self, fleet, prefix):
        self.fleet = fleet
        self.keys = []  # with their owners, so many of each
        for number in itertools.count():
            key = f"{prefix}{number}".replace(" ", ".")
            owner = owner_of(key, NODES)
            if sum(owner == other for _, other in self.keys) < KEYS_OF_EACH:
                self.keys.append((key, owner))
            if len(self.keys) == NODES * KEYS_OF_EACH:
                break
        self.answers = collections.Counter()  # by key, node, phase, status, whether degraded

    def ask(self, phase, entries, times):
        with concurrent.futures.ThreadPoolExecutor(len(entries)) as callers:
            for answers in callers.map(lambda entry: self._ask_at(phase, entry, times), entries):
                self.answers += answers

    def _ask_at(self, phase, entry, times):
        answers = collections.Counter()
        with HttpPeer(self.fleet.nodes[entry].process) as peer:
            for _, (key, _) in itertools.product(range(times), self.keys):
                answer = peer.ask("POST", f"/rate/{key}")
                is_degraded = answer.header("sluicegate-degraded") is not None
                answers[key, entry, phase, answer.status, is_degraded] += 1
        return answers

    def count(self, key, entries, phases, statuses=(200,), degraded=(False,)):
        return sum(self.answers[place] for place in
                   itertools.product([key], entries, phases, statuses, degraded))

    def statuses(self, key, entry, phase):
        return {place[3] for place in self.answers if place[:3] == (key, entry, phase)}


def check_lost_way(book, key, entry, policy):
    """The policy alone answers there in the fault."""
    assert book.statuses(key, entry, FAULT) <= STATUSES[policy], (key, entry)
    granted = book.count(key, [entry], [FAULT])
    degraded = book.count(key, [entry], [FAULT], degraded=[True])
    if policy == "local":
        assert granted == LIMIT, f"{key}: its own count, at node {entry}"
    else:
        assert granted == 0, (key, entry)
    assert (degraded > 0) == (policy == "open"), (key, entry)


def check_key(book, key, owner, fault, policy):
    lost = {entry for entry, of in lost_ways(fault) if of == owner}
    nodes, others = range(NODES), set(range(NODES)) - lost
    for entry in lost:
        check_lost_way(book, key, entry, policy)
    assert book.count(key, nodes, [BEFORE, AFTER], degraded=[True]) == 0, key
    assert book.count(key, others, [FAULT], degraded=[True]) == 0, key
    # What the owner has granted: all that no other node has decided in its place.
    before = book.count(key, nodes, [BEFORE])
    by_owner = before + book.count(key, others, [FAULT]) + book.count(key, nodes, [AFTER])
    begins_afresh = fault == "killed" and owner == 1
    most = LIMIT + (before if begins_afresh else 0)
    least = most - (0 if begins_afresh else len(lost))
    assert least <= by_owner <= most, f"{key} of node {owner}: {by_owner}, {book.answers}"
    if policy in ("error", "closed"):
        assert by_owner == book.count(key, nodes, [BEFORE, FAULT, AFTER]), key


@contextlib.contextmanager
def fault_in(fleet, fault):
    with FAULTS[fault](fleet):
        yield
        fleet.await_lost(fault)
    fleet.await_links()


@pytest.mark.parametrize("fault", FAULTS)
def test_callers_are_granted_what_the_policy_allows(fleet, fault):
    book = Book(fleet, f"{fault}.")
    book.ask(BEFORE, range(NODES), 1)
    assert all(book.count(key, range(NODES), [BEFORE]) == NODES for key, _ in book.keys)
    with fault_in(fleet, fault):
        book.ask(FAULT, range(NODES) if fault.startswith("cut") else [0, 2], LIMIT + 2)
    book.ask(AFTER, range(NODES), LIMIT + 1)
    for key, owner in book.keys:
        check_key(book, key, owner, fault, fleet.policy)
