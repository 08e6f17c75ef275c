"""The book of a fleet's callers complains about each answer that nothing explains, and about no
other. Method: requests and lives of nodes are written down here, no server runs."""

import types

import pytest

from fleet import GOCC, OURS, Life, fnv1a, owner_of
from fleet_book import NOTICED_WITHIN_S, Book
from fleet_load import ENDINGS, Ask, Key, Keys, Outcome

LIMIT = 3
FOREVER = float("inf")
KEY = Key("k1", 0, LIMIT)
# Node 1 was a gocc until 100, node 0 never ends.
GOCC_UNTIL_100 = Life(GOCC, 0, 1, 100, 101)
OURS_SINCE_102 = Life(OURS, 102, 103)


def ask(outcome, at, *, key=KEY, entry=0, until=None, method="POST", has_id=True):
    return Ask(key, method, entry, at, until or at + 0.5, outcome, has_id)


def approved(at, **options):
    return ask(Outcome.APPROVED, at, **options)


def denied(at, **options):
    return ask(Outcome.DENIED, at, **options)


def book(*asks, first=OURS):
    lives = [[Life(first, 0, 1)], [GOCC_UNTIL_100, OURS_SINCE_102]]
    return Book([types.SimpleNamespace(lives=each) for each in lives], asks)


def complaint(*asks, **options):
    """The only one, without what it is about."""
    (text,) = book(*asks, **options).complaints
    return text.split(":")[0]


OF_NODE_1 = Key("k0", 1, LIMIT)
FULL = [approved(10), approved(11), approved(12)]


def test_hashes_as_gocc_does():
    vectors = {"a": 0xe40c292c, "my-key": 0xb3e680d1, "foobar": 0xbf9cf968, "%C3%A5": 0x1a9de275}
    assert {name: owner_of(name, 2**32) for name in vectors} == vectors
    assert fnv1a(b"") == 0x811c9dc5


def test_keys_are_spread_over_the_owners():
    keys = Keys(3, "p")
    assert [key.owner for key in keys.one_of_each_owner()] == [0, 1, 2]
    assert all(key.owner == owner_of(key.name, 3) for key in keys.scarce)
    assert {key.name.lstrip("pscare0123456789") for key in keys.scarce} <= set(ENDINGS)


def test_accepts_a_limit_that_is_reached():
    found = book(*FULL, denied(13), denied(14))
    assert found.complaints == []
    assert found.exact == {(0, 0): 1} and found.ways == {(0, 0): 3}


def test_finds_an_approval_too_many():
    assert complaint(*FULL, approved(12.1)) == "4 approved, limit 3"


def test_finds_a_denial_too_early():
    assert complaint(approved(10), approved(11), denied(12), denied(13)) == (
        "denied after at most 2 approvals, limit 3")


def test_finds_an_approval_after_a_denial():
    lost = ask(Outcome.LOST, 99.9, entry=1)
    asks = [approved(10), approved(11), lost, denied(100.5), approved(102)]
    assert complaint(*asks) == "approved after a denial"


def test_an_answer_that_was_lost_may_have_counted():
    lost = ask(Outcome.LOST, 99.9, entry=1)
    assert book(approved(10), approved(11), lost, denied(101)).complaints == []
    assert book(*FULL, lost, denied(101)).complaints == []


def test_counts_begin_again_with_the_owner():
    before = [*(approved(at, key=OF_NODE_1) for at in (10, 11, 12)), denied(13, key=OF_NODE_1)]
    after = [*(approved(at, key=OF_NODE_1) for at in (110, 111, 112)), denied(113, key=OF_NODE_1)]
    found = book(*before, *after)
    assert found.complaints == [] and found.exact == {(1, 0): 1, (1, 1): 1}
    assert complaint(*before, *after, approved(112.1, key=OF_NODE_1)) == "4 approved, limit 3"


def test_a_request_of_two_lives_counts_in_one_of_them():
    asks = [approved(at, key=OF_NODE_1) for at in (10, 11, 110, 111)]
    over_both = approved(99, until=110, key=OF_NODE_1)
    assert book(*asks, over_both, denied(112, key=OF_NODE_1)).complaints == []


def test_finds_an_approval_while_there_was_no_owner():
    assert complaint(approved(101.1, until=101.9, key=OF_NODE_1)) == "approved without an owner"


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.REFUSED])
def test_only_a_node_that_ends_leaves_out_answers(outcome):
    assert book(ask(outcome, 99.9, entry=1)).complaints == []
    assert book(ask(outcome, 102.9, entry=1)).complaints == []
    for entry, at in ((0, 100), (1, 50), (1, 103.1)):
        assert complaint(ask(outcome, at, entry=entry)) == "no answer, of a node that runs"


def test_only_an_owner_that_ends_is_not_reached():
    assert book(ask(Outcome.UNREACHABLE, 100, key=OF_NODE_1)).complaints == []
    late = 103 + NOTICED_WITHIN_S
    assert book(ask(Outcome.UNREACHABLE, late - 1, key=OF_NODE_1)).complaints == []
    for at, entry, key in ((50, 0, OF_NODE_1), (late + 1, 0, OF_NODE_1), (100, 0, KEY),
                           (100, 1, KEY), (100, 1, OF_NODE_1)):
        assert complaint(ask(Outcome.UNREACHABLE, at, entry=entry, key=key)) == (
            "owner not reached, although it runs")


def test_only_a_node_that_ends_answers_503():
    assert book(ask(Outcome.DRAINING, 100, entry=1)).complaints == []
    assert book(ask(Outcome.DRAINING, 100, key=OF_NODE_1)).complaints == []
    assert complaint(ask(Outcome.DRAINING, 100)) == "503 of a node that runs"
    assert complaint(ask(Outcome.DRAINING, 50, entry=1)) == "503 of a node that runs"


def test_only_a_forwarding_gocc_leaves_out_the_id():
    bare = {"has_id": False}
    assert book(approved(50, entry=1, **bare)).complaints == []
    assert book(approved(50, key=OF_NODE_1, **bare), first=GOCC).complaints == []
    for at, entry, key in ((50, 1, OF_NODE_1), (50, 0, OF_NODE_1), (110, 1, KEY)):
        assert complaint(approved(at, entry=entry, key=key, **bare)) == "approved without an id"
    released = ask(Outcome.RELEASED, 50, method="DELETE", **bare)
    assert book(released).complaints == []


def test_a_key_without_a_limit_is_never_denied():
    free = Key("r", 0, None)
    assert book(*(approved(at, key=free) for at in range(10, 20))).complaints == []
    assert complaint(denied(10, key=free)) == "denied, although each permit was released"


def test_finds_a_wrong_answer():
    assert complaint(ask(Outcome.WRONG, 100, entry=1)) == "a wrong answer"


ANSWERS = [
    ("POST", 200, b"17", Outcome.APPROVED),
    ("GET", 200, b"", Outcome.APPROVED),
    ("GET", 200, b"text", Outcome.WRONG),
    ("DELETE", 200, b"", Outcome.RELEASED),
    ("DELETE", 200, b"1", Outcome.WRONG),
    ("DELETE", 429, b"", Outcome.WRONG),
    ("GET", 429, b"", Outcome.DENIED),
    ("GET", 429, b"1", Outcome.WRONG),
    ("GET", 404, b"", Outcome.WRONG),
    ("GET", 502, b"failed to forward request to correct instance", Outcome.UNREACHABLE),
    ("GET", 502, b"Bad Gateway", Outcome.WRONG),
    ("GET", 503, b"", Outcome.DRAINING),
]


@pytest.mark.parametrize("method, status, body, outcome", ANSWERS)
def test_reads_answers(method, status, body, outcome):
    seen = Ask(KEY, method, 0)
    seen.note(types.SimpleNamespace(status=status, body=body))
    assert (seen.outcome, seen.has_id) == (outcome, bool(body))
    assert seen.answered < FOREVER


# --- shared keys, for which callers wait

SHARED = Key("k1", 0, None, shared=2)
SHARED_OF_NODE_1 = Key("k0", 1, None, shared=2)


def held(since, until, *, key=SHARED, entry=0, sent=None, outcome=Outcome.RELEASED):
    """A permit that was asked for at `sent`; without `until` it is not released."""
    got = ask(Outcome.APPROVED, sent or since - 0.1, key=key, entry=entry, until=since)
    if until:
        got.release = ask(outcome, until, key=key, entry=entry, method="DELETE", until=until + 0.01)
    return got


def waited(outcome, since, until, **options):
    return ask(outcome, since, until=until, **{"key": SHARED, **options})


def test_permits_are_handed_from_one_to_the_next():
    found = book(held(10, 11), held(10, 12), held(11, 13, sent=10), held(12, 14, sent=10))
    assert found.complaints == [] and found.shared == {(0, 0): 4}


def test_finds_more_held_at_once_than_the_limit():
    assert complaint(held(10, 12), held(10, 12), held(11.5, 13)) == "3 held at once, limit 2"
    assert complaint(held(10, None), held(50, 52), held(51, 53)) == "3 held at once, limit 2"


def test_permits_of_an_earlier_life_are_not_held_in_the_next():
    old = [held(50, None, key=SHARED_OF_NODE_1), held(51, None, key=SHARED_OF_NODE_1)]
    new = [held(110, 112, key=SHARED_OF_NODE_1), held(111, 113, key=SHARED_OF_NODE_1)]
    assert book(*old, *new).complaints == []
    stray = held(99, 111.2, key=SHARED_OF_NODE_1)  # its release frees another one's permit
    third = held(111.5, 112.5, key=SHARED_OF_NODE_1)
    assert book(*new, stray, third).complaints == []
    assert complaint(*new, third) == "3 held at once, limit 2"


def test_only_a_node_that_ends_ends_waits():
    long_ago = {"key": SHARED_OF_NODE_1}
    for outcome in (Outcome.UNREACHABLE, Outcome.DRAINING):
        assert book(waited(outcome, 50, 100.2, **long_ago)).complaints == []
        assert book(waited(outcome, 50, 120, **long_ago)).complaints != []
        assert book(waited(outcome, 50, 100.2)).complaints != []
    assert book(waited(Outcome.LOST, 50, 100.2, entry=1)).complaints == []
    assert complaint(waited(Outcome.LOST, 50, 120, entry=1)) == "no answer, of a node that runs"
    assert complaint(waited(Outcome.DENIED, 50, 51)) == "denied, although each permit was released"


def test_finds_a_wait_that_outlives_its_node():
    left = [held(60, None), held(61, None)]
    late = 101 + NOTICED_WITHIN_S
    assert book(*left, waited(Outcome.GIVEN_UP, 95, late - 1, entry=1)).complaints == []
    for at in ({"entry": 1}, {"key": SHARED_OF_NODE_1}):
        assert "waited on after its node had ended" in [
            text.split(":")[0] for text in
            book(*left, waited(Outcome.GIVEN_UP, 95, late + 1, **at)).complaints]


def test_finds_a_wait_in_vain():
    assert book(held(10, None), held(11, None), waited(Outcome.GIVEN_UP, 12, 20)).complaints == []
    lost = waited(Outcome.LOST, 99, 100.2, entry=1)
    assert book(held(10, None), lost, waited(Outcome.GIVEN_UP, 110, 118)).complaints == []
    for taken, asks in enumerate(([], [held(10, None), held(10, 11)])):
        assert complaint(*asks, waited(Outcome.GIVEN_UP, 12, 20)) == (
            f"waited in vain, {taken} permits taken")
    assert book(waited(Outcome.GIVEN_UP, 12, 20), first=GOCC).complaints == []
