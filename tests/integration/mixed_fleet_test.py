"""Fleets of three, of gocc and Sluicegate in any mix, and each order in which the nodes of such a
fleet are replaced while callers ask. Where gocc could not be built, Sluicegate has its place.

Method: callers at all nodes keep each request with its times (fleet_load.py). Afterwards the nodes'
lives must explain each answer, and each key's limit its approvals (fleet_book.py). At each node
others wait for permits of keys that all nodes' callers share.
`FLEET_REQUESTS` is the number of requests in each order, and to each mix that nobody is restarted
in; `tools/test long` has 100,000."""

import contextlib
import itertools
import math
import os
import threading
import time

import pytest

from fleet import GOCC, OURS, OURS_TAKES_A_LIST, Fleet, name_at
from gocc_program import gocc, why_no_gocc
from fleet_book import Book
from fleet_load import LIMIT, Keys, Load, Outcome
from http_peer import HttpPeer, ask
from server_process import eventually

NODES = 3
WAYS = list(itertools.product(range(NODES), repeat=2))  # entry node, owner
REQUESTS = int(os.environ.get("FLEET_REQUESTS", "12000"))
STILL_REQUESTS = int(os.environ.get("FLEET_REQUESTS", "4000"))
FLAGS = ("--max-requests", str(LIMIT), "--window-millis", "3600000")
ORDERS = list(itertools.permutations(range(NODES)))
KINDS = ([GOCC] if gocc() else []) + ([OURS] if OURS_TAKES_A_LIST else [])
NO_FLEET = "Sluicegate takes no list of instances yet, and " + why_no_gocc()
ANSWERED = {Outcome.APPROVED, Outcome.RELEASED, Outcome.DENIED}

WINDOW_MS = 300
WINDOW_LIMIT = 5
ASKING_S = 2

pytestmark = pytest.mark.timeout(120 + REQUESTS // 50)


def skipped(values_count):
    return [pytest.param(*[None] * values_count, marks=pytest.mark.skip(NO_FLEET))]


def replacements():
    """What is replaced by what: gocc by Sluicegate, the other way round, and Sluicegate by itself,
    in each order."""
    kinds = [(GOCC, OURS), (OURS, GOCC), (OURS, OURS)] if len(KINDS) == 2 else [
        (kind, kind) for kind in KINDS]
    cases = [(old, new, order) for old, new in kinds for order in ORDERS]
    return [pytest.param(*case, id=f"{case[0]}-by-{case[1]}-{''.join(map(str, case[2]))}")
            for case in cases] or skipped(3)


def mixes(every=True):
    """Fleets of these kinds: every one, or those whose ends are alike."""
    return [pytest.param(kinds, id="-".join(kinds))
            for kinds in itertools.product(KINDS, repeat=NODES)
            if every or kinds[0] == kinds[-1]] or skipped(1)


def judge(fleet, load):
    """The book of a load that has ended; prints its figures."""
    book = Book(fleet.nodes, load.asks())
    print(book.summary())
    lives = "\n".join(f"{node.number}: {node.lives}" for node in fleet.nodes)
    assert not book.complaints, "\n".join([*book.complaints, book.summary(), lives,
                                           fleet.output()])
    assert all(book.ways[way] for way in WAYS), book.ways
    assert all(book.shared[entry, owner.number] for entry, owner in
               itertools.product(range(NODES), fleet.nodes) if owner.kind == OURS), book.shared
    return book


def limits_are_exact(fleet, prefix, requests):
    """While nobody is restarted: each key that has a denial was approved as often as it may be."""
    with Load(fleet, requests, prefix, prefix) as load:
        pass
    book = judge(fleet, load)
    assert set(book.counts) - {Outcome.GIVEN_UP} <= ANSWERED
    assert sum(book.exact.values()) == len(load.keys.scarce) + len(load.keys.overridden)


def await_all_ways(fleet):
    """Each node reaches each owner."""
    def answers(entry, key):
        node = fleet.nodes[entry]
        with HttpPeer(node) as peer:
            peer.send(f"GET /rate/{key.name} HTTP/1.1\r\nHost: {node.host}\r\n\r\n".encode())
            return peer.read().status in (200, 429)
    keys = Keys(NODES, "way").one_of_each_owner()
    for entry, key in itertools.product(range(NODES), keys):
        eventually(lambda: answers(entry, key), f"{entry} reaches {key}\n{fleet.output()}")


@contextlib.contextmanager
def fleet_of(kinds, *flags):
    with Fleet(kinds, *flags) as fleet:
        await_all_ways(fleet)
        yield fleet


def test_gocc_takes_part():
    """Reports fleets without gocc as a skipped test."""
    if not gocc():
        pytest.skip(why_no_gocc())


@pytest.mark.parametrize("kinds", mixes())
def test_limits_are_exact_over_all_nodes(kinds):
    with fleet_of(kinds, *FLAGS) as fleet:
        limits_are_exact(fleet, "exact", STILL_REQUESTS)


@pytest.mark.parametrize("old, new, order", replacements())
def test_nodes_are_replaced_one_by_one(old, new, order):
    with fleet_of([old] * NODES, *FLAGS) as fleet:
        with Load(fleet, REQUESTS, f"{old} {new} {order}") as load:
            for step, number in enumerate(order, 1):
                load.await_share(step / (NODES + 1))
                fleet.replace(number, new)
        book = judge(fleet, load)
        for number, life in itertools.product(range(NODES), range(2)):
            assert book.exact[number, life] > 0, f"no limit reached in life {life} of {number}"
        await_all_ways(fleet)
        limits_are_exact(fleet, "afterwards", REQUESTS // 3)


def wait_in_turn(node, names, until, approved):
    """Asks for one permit after the other, waits for each, and counts them."""
    with HttpPeer(node) as peer:
        for name in itertools.cycle(names):
            if time.monotonic() > until:
                return
            peer.send(f"POST /rate/{name}?canWait=true HTTP/1.1\r\nHost: {node.host}\r\n\r\n"
                      .encode())
            response = peer.read()
            if response.status != 200:
                approved.append(f"{name} at {node.number}: {response}")
                return
            approved.append(name)


@pytest.mark.parametrize("kinds", mixes(every=False))
def test_waiters_at_all_nodes_share_windows(kinds):
    with fleet_of(kinds, "--max-requests", str(WINDOW_LIMIT),
                  "--window-millis", str(WINDOW_MS)) as fleet:
        names = [key.name for key in Keys(NODES, "wait").one_of_each_owner()]
        begin, approved = time.monotonic(), []
        callers = [threading.Thread(target=wait_in_turn, args=(
            node, names[shift:] + names[:shift], begin + ASKING_S, approved))
            for node in fleet.nodes for shift in range(NODES) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        windows = math.ceil((time.monotonic() - begin) * 1_000 / WINDOW_MS) + 1
        print({name: approved.count(name) for name in names}, windows)
        assert set(approved) == set(names)
        for name in names:
            assert 2 * WINDOW_LIMIT <= approved.count(name) <= windows * WINDOW_LIMIT, name


@pytest.mark.skipif(not gocc(), reason=why_no_gocc())
def test_finds_nodes_that_count_for_themselves():
    """With one host name for all, a gocc does not forward: each has a count of its own."""
    with Fleet([GOCC] * NODES, *FLAGS, hosts=["127.0.0.1"] * NODES) as fleet:
        with Load(fleet, STILL_REQUESTS, "apart") as load:
            pass
        book = Book(fleet.nodes, load.asks())
        assert any("approved, limit" in complaint for complaint in book.complaints)


@pytest.mark.skipif(not gocc(), reason=why_no_gocc())
def test_an_owner_that_is_a_gocc_is_named():
    with Fleet([OURS, GOCC], *FLAGS) as fleet:
        key = name_at(1, 2)
        name = f"{fleet.nodes[1].host}:{fleet.nodes[1].port}"
        text = f"the owner of this key, {name}, is a gocc, which takes no such request"
        for method, target in [("POST", f"/rate/{key}?cost=5"), ("GET", f"/rate/{key}?cost=0"),
                               ("POST", f"/rate/{key}?windowMillis=60000"),
                               ("DELETE", f"/rate/{key}/7?cost=5"), ("DELETE", f"/rate/{key}")]:
            refused = ask(fleet.nodes[0].process, method, target)
            assert (refused.status, refused.body.decode()) == (502, text), target
        refused = ask(fleet.nodes[0].process, "POST", f"/rate/{key}?cost=5",
                      "Accept: application/json")
        assert refused.json() == {"error": text, "key": key}
