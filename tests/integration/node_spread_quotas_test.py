"""One call about subjects of several nodes: all or nothing, whichever node is asked.

Method: three nodes on 127.0.0.1 to 127.0.0.3 with a secret; calls about a subject of each of them,
at all of them; then nodes that stand still or are killed in the middle of a call.
"""

import collections
import contextlib
import threading
import time

import pytest

from fleet import OURS, Fleet, name_at, quota_fleet, secret_file
from http_peer import HttpPeer, ask, metrics, request
from native_peer import CONNECTION_BOUND, NativePeer
from quota_calls import HOUR_MS, call, encoded, put, reserve, show, slots, tokens, used
from server_process import eventually, run_binary

LIFETIME_MS = 600_000


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with quota_fleet(tmp_path_factory.mktemp("fleet"), [OURS] * 3) as fleet:
        yield fleet


def subjects_of(key, count=3, name=""):
    """One of each node."""
    return [name_at(node, count, f"{key}{name}.") for node in range(count)]


def put_all(server, subjects, *limits):
    for subject in subjects:
        put(server, subject, *limits)


def all_used(server, subjects, name="tph"):
    return [used(server, subject, name) for subject in subjects]


# --------------------------------------------------------------------------------- what is charged

@pytest.mark.parametrize("first", range(3))
def test_all_subjects_are_charged(nodes, key, first):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100), slots(9))
    ordered = subjects[first:] + subjects[:first]
    for number, node in enumerate(nodes):
        made = reserve(node, *ordered, input_tokens=10, owner="somebody")
        assert int(made["reservation"], 16) >> 50 == first + 1
        assert [subject["name"] for subject in made["subjects"]] == ordered
        assert [subject["limits"][0]["used"] for subject in made["subjects"]] == [
            10 * (number + 1)] * 3
    assert all_used(nodes[first], subjects) == [30] * 3
    assert all_used(nodes[first], subjects, "slots") == [3] * 3


def test_one_subject_that_denies_leaves_the_others_as_they_are(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100))
    for full in range(3):
        call(nodes[0], "reset-all", {}, query="?cluster=true")
        assert call(nodes[1], "record", {"subjects": [subjects[full]],
                                         "input_tokens": 95}).status == 200
        for node in nodes:
            for name in ("reserve", "consume", "check"):
                answer = call(node, name, {"subjects": subjects, "input_tokens": 10})
                assert (answer.status, answer.json()["code"]) == (429, "tokens_exceeded")
                violated = answer.json()["violated"]
                assert [limit["subject"] for limit in violated] == [subjects[full]]
        assert all_used(nodes[2], subjects) == [95 if node == full else 0 for node in range(3)]


def test_other_calls_about_limits(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100))
    for number, node in enumerate(nodes):
        for name in ("check", "record", "consume"):
            assert call(node, name, {"subjects": subjects, "input_tokens": 5}).status == 200
        assert all_used(node, subjects) == [10 * (number + 1)] * 3
    assert call(nodes[0], "record", {"subjects": subjects, "input_tokens": 500}).status == 200
    assert all_used(nodes[1], subjects) == [530] * 3


def test_calls_of_one_frame(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100))
    entries = [subjects, [subjects[1]], subjects[::-1], [subjects[2], subjects[0]]] * 6
    with NativePeer(nodes[0]) as peer:
        answer = peer.reserve(*entries, inputTokens=[10] * len(entries))
    charged = collections.Counter()
    for names, code in zip(entries, answer.codes):
        assert code in ("ok", "tokensExceeded")
        charged.update(names if code == "ok" else [])
    assert all_used(nodes[1], subjects) == [10 * charged[subject] for subject in subjects]
    assert max(charged.values()) == 10


def test_a_subject_without_a_quota_limits_nothing(nodes, key):
    limited, free = subjects_of(key)[1:]
    put(nodes[0], limited, tokens(100))
    assert call(nodes[0], "consume", {"subjects": [free, limited],
                                      "input_tokens": 60}).json()["code"] == "ok"
    assert call(nodes[1], "consume", {"subjects": [limited, free],
                                      "input_tokens": 60}).status == 429
    answer = call(nodes[1], "consume", {"subjects": [free, limited], "input_tokens": -1})
    assert answer.status == 400


# ------------------------------------------------------------------------------------- their ends

def test_ends_reach_all_parts(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100), slots(9))
    for first in range(3):
        ordered = subjects[first:] + subjects[:first]
        for number, node in enumerate(nodes):
            made = [reserve(node, *ordered, input_tokens=10)["reservation"] for _ in range(2)]
            at = nodes[(number + 1) % 3]
            assert call(at, "extend", {"reservation": made[0],
                                       "lifetime_ms": LIFETIME_MS}).status == 200
            assert all_used(at, subjects, "slots") == [2] * 3
            for each in nodes:  # a repeat changes nothing
                assert call(each, "settle", {"reservation": made[0],
                                             "input_tokens": 1}).status == 200
                assert call(each, "cancel", {"reservation": made[1]}).status == 200
            assert all_used(at, subjects) == [1] * 3
            assert all_used(at, subjects, "slots") == [0] * 3
            call(at, "reset-all", {}, query="?cluster=true")


def test_slots_are_free_everywhere_when_the_lifetime_ends(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, slots(1))
    reserve(nodes[0], *subjects, lifetime_ms=300)
    assert call(nodes[1], "reserve", {"subjects": subjects}).status == 429
    for subject in subjects:
        eventually(lambda subject=subject: used(nodes[2], subject, "slots") == 0, "it is free")
    held = reserve(nodes[1], *subjects, lifetime_ms=LIFETIME_MS)["reservation"]
    assert call(nodes[0], "settle", {"reservation": held}).status == 200


def test_each_node_lists_the_reservations_of_its_subjects(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, slots(5))
    held = reserve(nodes[2], *subjects, owner="somebody")["reservation"]
    for node, subject in zip(nodes, subjects):
        listed = ask(node, "GET", f"/v1/reservations?subject={subject}").json()["reservations"]
        assert [(row["reservation"], row["subjects"]) for row in listed] == [(held, [subject])]
    home = run_binary("quota", "holders", subjects[0], "--rest-address",
                      f"{nodes[0].host}:{nodes[0].port}")
    assert home.stdout.splitlines()[1].endswith(f"{subjects[0]},(2 more)"), home
    shown = ask(nodes[1], "GET", f"/v1/reservations/{held}").json()  # by its home
    assert (shown["owner"], shown["subjects"]) == ("somebody", subjects[:1])
    assert shown["subjects_left_out"] == 2
    every = ask(nodes[1], "GET", "/v1/reservations?cluster=true").json()["nodes"]
    assert sum(row["reservation"] == held
               for node in every for row in node["answer"]["reservations"]) == 1
    assert call(nodes[1], "cancel", {"reservation": held}).status == 200


def test_bound_reservations_end_with_their_connection(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, slots(5))
    with NativePeer(nodes[1]) as peer:
        assert peer.reserve(subjects, subjects[::-1], flags=CONNECTION_BOUND).codes == ["ok"] * 2
        assert all_used(nodes[2], subjects, "slots") == [2] * 3
    for subject in subjects:
        eventually(lambda subject=subject: used(nodes[2], subject, "slots") == 0, "it ends")


def test_a_client_id_is_one_over_all_nodes(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100))
    made = [reserve(node, *subjects, input_tokens=10, id="mine")["reservation"] for node in nodes]
    assert len(set(made)) == 1
    answer = call(nodes[0], "reserve", {"subjects": subjects[::-1], "input_tokens": 10,
                                        "id": "mine"})
    assert (answer.status, answer.json()["code"]) == (409, "id_in_use")
    for node in nodes:
        assert call(node, "record", {"subjects": subjects, "input_tokens": 7,
                                     "id": "used"}).status == 200
    assert all_used(nodes[0], subjects) == [17] * 3


# ---------------------------------------------------------------------------- many at the same time

def test_limits_are_exact_and_nothing_is_refused_without_reason(nodes, key):
    """Callers at all nodes ask for all subjects in different orders, some of which deny others:
    what is admitted is what fits, to the last one."""
    subjects = subjects_of(key)
    amount, asked_each = 90, 40
    put_all(nodes[0], subjects, {**tokens(amount), "period_ms": 3_600_000})
    admitted = collections.Counter()

    def asks(number):
        with NativePeer(nodes[number % 3]) as peer:
            for turn in range(asked_each):
                names = collections.deque(subjects)
                names.rotate(number + turn)
                code = peer.reserve(list(names), kind="consume", inputTokens=[1]).codes[0]
                assert code in ("ok", "tokensExceeded"), code
                admitted[code] += 1
    threads = [threading.Thread(target=asks, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert admitted == {"ok": amount, "tokensExceeded": 6 * asked_each - amount}
    assert all_used(nodes[0], subjects) == [amount] * 3


# ---------------------------------------------------------------------------------------- failures

def test_without_one_of_its_nodes_a_call_leaves_nothing(tmp_path, key):
    with quota_fleet(tmp_path, [OURS] * 3, "--peer-timeout-millis", "500") as fleet:
        subjects = subjects_of(key)
        put_all(fleet[0], subjects, tokens(100), slots(9))
        held = reserve(fleet[0], *subjects, input_tokens=1)["reservation"]
        fleet[2].kill()
        for name in ("reserve", "consume", "check", "record"):
            answer = call(fleet[0], name, {"subjects": subjects, "input_tokens": 10})
            assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        answer = call(fleet[1], "extend", {"reservation": held})
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        assert call(fleet[1], "settle", {"reservation": held, "input_tokens": 3}).status == 200
        for subject in subjects[:2]:
            eventually(lambda subject=subject: used(fleet[1], subject) == 3, "only the first")
            assert used(fleet[1], subject, "slots") == 0


@pytest.mark.parametrize("paused", [1, 2])
def test_what_a_paused_node_has_charged_is_refunded(tmp_path, key, paused):
    with quota_fleet(tmp_path, [OURS] * 3, "--peer-timeout-millis", "300",
                     "--peer-silence-millis", "60000") as fleet:
        subjects = subjects_of(key)
        put_all(fleet[0], subjects, tokens(100), slots(9))
        fleet[paused].pause()
        answer = call(fleet[0], "reserve", {"subjects": subjects, "input_tokens": 10,
                                            "lifetime_ms": LIFETIME_MS})
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        fleet[paused].resume()
        time.sleep(1)  # the part may be charged for a moment
        for subject in subjects:
            eventually(lambda subject=subject: used(fleet[0], subject) == 0, "nothing is charged")
            assert show(fleet[0], subject)["open_reservations"] == 0


def test_parts_whose_home_dies_end_with_their_lifetime(tmp_path, key):
    with quota_fleet(tmp_path, [OURS] * 3) as fleet:
        subjects = subjects_of(key)
        put_all(fleet[0], subjects, slots(1))
        reserve(fleet[1], *subjects, lifetime_ms=1_500)
        fleet[0].kill()
        assert used(fleet[1], subjects[1], "slots") == used(fleet[1], subjects[2], "slots") == 1
        for subject in subjects[1:]:
            eventually(lambda subject=subject: used(fleet[1], subject, "slots") == 0, "it is over")


def test_a_call_waits_for_the_verdict_on_another_one(tmp_path, key):
    """While a node stands still, the call that has asked it holds what the others have; a call that
    these holds are in the way of is admitted once they are gone."""
    with quota_fleet(tmp_path, [OURS] * 3, "--peer-timeout-millis", "1000",
                     "--peer-silence-millis", "60000") as fleet:
        subjects = subjects_of(key)
        put_all(fleet[0], subjects, tokens(10))
        fleet[2].pause()
        answers = []
        first = threading.Thread(target=lambda: answers.append(
            call(fleet[0], "consume", {"subjects": subjects, "input_tokens": 10})))
        first.start()
        eventually(lambda: show(fleet[1], subjects[1])["limits"][0]["reserved"] == 10, "it is held")
        second = call(fleet[1], "consume", {"subjects": [subjects[1]], "input_tokens": 10})
        first.join()
        fleet[2].resume()
        assert answers[0].status == 502
        assert second.status == 200, second
        assert ask(fleet[0], "GET", f"/v1/subjects/{subjects[0]}").json()["limits"][0]["used"] == 0


# ---------------------------------------------------------------------------------- calls that wait

def waiter(server, subjects, **fields):
    """A client that waits for all of them."""
    data = encoded({"subjects": subjects, "wait_limit_ms": 60_000, **fields})
    peer = HttpPeer(server)
    peer.send(request("POST", "/v1/reserve", f"Content-Length: {len(data)}", body=data))
    return peer


def are_waiting(server, subjects, count):
    for subject in subjects:
        eventually(lambda subject=subject: show(server, subject)["waiting"] == count,
                   f"{count} wait")


def end(server, answer):
    assert call(server, "cancel", {"reservation": answer["reservation"]}).status == 200


@pytest.mark.parametrize("full", range(3))
def test_a_call_waits_until_all_its_subjects_have_room(nodes, key, full):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, slots(1))
    held = reserve(nodes[0], subjects[full])
    late = call(nodes[1], "reserve", {"subjects": subjects, "wait_limit_ms": 50})
    assert (late.status, late.json()["code"]) == (429, "wait_limit")
    are_waiting(nodes[0], subjects, 0)
    with waiter(nodes[1], subjects) as peer:
        are_waiting(nodes[0], subjects, 1)
        assert peer.is_silent(0.05)
        behind = call(nodes[2], "reserve", {"subjects": [subjects[(full + 1) % 3]]})
        assert (behind.status, behind.json()["code"]) == (429, "queue_ahead")
        end(nodes[2], held)
        answer = peer.read()
    assert answer.status == 200, answer
    assert all_used(nodes[0], subjects, "slots") == [1] * 3
    are_waiting(nodes[0], subjects, 0)
    end(nodes[0], answer.json())
    assert all_used(nodes[0], subjects, "slots") == [0] * 3


def test_calls_are_served_in_the_order_of_their_arrival(nodes, key):
    """Whichever nodes are asked, and whichever subject is the first."""
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, slots(1))
    held = reserve(nodes[0], *subjects)
    with contextlib.ExitStack() as stack:
        peers = []
        for place in range(6):
            ordered = subjects[place % 3:] + subjects[:place % 3]
            peers.append(stack.enter_context(waiter(nodes[place % 2], ordered)))
            are_waiting(nodes[0], subjects, place + 1)
        for peer in peers:
            end(nodes[0], held)
            answer = peer.read()
            assert answer.status == 200, answer
            held = answer.json()
    end(nodes[0], held)


def test_a_caller_that_leaves_is_in_nobodys_way(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, slots(1))
    held = reserve(nodes[0], subjects[0])
    with waiter(nodes[1], subjects):
        are_waiting(nodes[0], subjects, 1)
    are_waiting(nodes[0], subjects, 0)
    reserve(nodes[0], *subjects[1:])
    end(nodes[0], held)


def test_a_consume_waits(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(10))
    held = reserve(nodes[0], subjects[2], input_tokens=8)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(
        call(nodes[0], "consume", {"subjects": subjects, "input_tokens": 5,
                                   "wait_limit_ms": 30_000})))
    asking.start()
    are_waiting(nodes[0], subjects, 1)
    end(nodes[1], held)
    asking.join()
    assert answers[0].status == 200, answers
    assert all_used(nodes[0], subjects) == [5] * 3


def test_a_quota_that_can_never_admit_it_ends_a_wait(nodes, key):
    subjects = subjects_of(key)
    put_all(nodes[0], subjects, tokens(100), slots(1))
    held = reserve(nodes[0], subjects[0])
    with waiter(nodes[1], subjects, input_tokens=50) as peer:
        are_waiting(nodes[0], subjects, 1)
        put(nodes[0], subjects[2], tokens(20), slots(1))
        answer = peer.read()
    assert (answer.status, answer.json()["code"]) == (429, "exceeds_limit")
    are_waiting(nodes[0], subjects, 0)
    end(nodes[0], held)


@contextlib.contextmanager
def waiting_fleet(tmp_path, key, asked=0, full=0):
    """A fleet of three, and a call at one of it that waits for subjects of all: one has no slot."""
    with quota_fleet(tmp_path, [OURS] * 3, "--peer-timeout-millis", "300") as fleet:
        subjects = subjects_of(key)
        put_all(fleet[0], subjects, slots(1))
        held = reserve(fleet[0], subjects[full])
        with waiter(fleet[asked], subjects) as peer:
            are_waiting(fleet[asked], subjects, 1)
            yield fleet, subjects, held, peer


def test_a_long_wait_costs_no_links(tmp_path, key):
    """Its home asks again every two time-outs, and each time the full node has it wait on."""
    with waiting_fleet(tmp_path, key, full=2) as (fleet, _, held, peer):
        assert peer.is_silent(2)
        end(fleet[0], held)
        answer = peer.read()
        assert answer.status == 200, answer
        lost = [value for node in fleet for name, value in metrics(node).items()
                if name.startswith("sluicegate_node_links_lost_total")]
        assert lost == [0] * 6


@pytest.mark.parametrize("dead", [1, 2])
def test_a_node_that_dies_ends_the_waits_for_its_subjects(tmp_path, key, dead):
    with waiting_fleet(tmp_path, key) as (fleet, subjects, _, peer):
        fleet[dead].kill()
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        are_waiting(fleet[0], [subjects[0], subjects[3 - dead]], 0)


def test_waiters_of_a_node_that_dies_leave_the_queues_of_others(tmp_path, key):
    with waiting_fleet(tmp_path, key, asked=1) as (fleet, subjects, _, peer):
        fleet[0].kill()
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        are_waiting(fleet[1], subjects[1:], 0)
        reserve(fleet[1], *subjects[1:])


def test_a_part_of_the_longest_lifetime_is_there_after_a_start(tmp_path, key):
    """It outlives its home, whose lifetime begins when all nodes of the call have answered."""
    with Fleet([OURS] * 2, "--peer-secret-file", secret_file(tmp_path), "--state",
               tmp_path / "state{node}.db", "--peer-timeout-millis", 60_000) as fleet:
        home, other = fleet.nodes
        subjects = subjects_of(key, 2)
        put_all(home.process, subjects, slots(1))
        held = reserve(home.process, *subjects, lifetime_ms=30 * 24 * HOUR_MS)
        fleet.replace(other.number, OURS)
        assert all_used(other.process, subjects, "slots") == [1, 1]
        end(other.process, held)
        assert all_used(home.process, subjects, "slots") == [0, 0]
