"""Quotas over three nodes: each subject has one owner, whichever node is asked.

Method: three nodes on 127.0.0.1 to 127.0.0.3 with a secret; calls in both dialects at all of them,
each about a subject whose owner is known; then nodes that are killed, and fleets that do not
forward quota calls.
"""

import contextlib
import json
import os
import time

import pytest

from fleet import GOCC, OURS, Fleet, name_at, quota_fleet, secret_file
from gocc_program import gocc, why_no_gocc
from http_peer import HttpPeer, ask, request
from native_peer import CONNECTION_BOUND, MAY_WAIT, NativePeer
from quota_calls import call, encoded, put, reserve, show, slots, tokens, used
from server_process import eventually

@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with quota_fleet(tmp_path_factory.mktemp("fleet"), [OURS] * 3) as fleet:
        yield fleet


@pytest.fixture
def subject_at(key):
    """A subject of this test whose owner is that node of three."""
    def named(node, name="", count=3):
        return name_at(node, count, key + name)
    return named


def all_nodes(subject_at):
    return [subject_at(node) for node in range(3)]


def post(server, path, body):
    data = encoded(body)
    return ask(server, "POST", path, f"Content-Length: {len(data)}", body=data)




# ------------------------------------------------------------------------------- one limit

def test_a_limit_holds_over_all_nodes(nodes, subject_at):
    for owner, subject in enumerate(all_nodes(subject_at)):
        put(nodes[(owner + 1) % 3], subject, tokens(100))
        answers = [call(node, "consume", {"subjects": [subject], "input_tokens": 25}).status
                   for node in [*nodes, *nodes]]
        assert answers == [200] * 4 + [429] * 2
        assert [used(node, subject) for node in nodes] == [100] * 3


def test_a_limit_holds_over_all_nodes_natively(nodes, subject_at):
    subjects = all_nodes(subject_at)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(NativePeer(node)) for node in nodes]
        for subject in subjects:
            peers[0].put_quota(subject, {"name": b"tpm", "metric": "tokens", "kind": "fixed",
                                         "amount": 90, "periodMs": 3_600_000})
        for peer in peers:  # entries for three nodes in one frame
            answer = peer.reserve(*subjects, inputTokens=[40] * 3)
            admitted = peer is not peers[2]
            assert answer.codes == ["ok" if admitted else "tokensExceeded"] * 3
            if admitted:
                assert len(set(answer.reservations)) == 3
                assert peers[2].settle(*answer.reservations, inputTokens=[30] * 3).codes == (
                    ["ok"] * 3)
        reply = peers[1].usage(*subjects)
        assert reply.body["names"] == "".join(subjects).encode()
        assert list(reply.body["limits"]["used"]) == [60] * 3


def test_many_calls_in_one_frame(nodes, subject_at):
    subjects = all_nodes(subject_at) * 300
    with NativePeer(nodes[0]) as peer:
        for subject in subjects[:3]:
            put(nodes[0], subject, tokens(150))
        answer = peer.reserve(*subjects, kind="consume", inputTokens=[1] * 900)
        assert answer.codes == ["ok"] * 450 + ["tokensExceeded"] * 450


def test_the_subjects_of_one_tag_are_on_one_node(nodes, key):
    names = [f"{{{key}}}{name}" for name in "abc"]
    for name in names:
        put(nodes[0], name, tokens(100))
    for node in nodes:
        reserve(node, *names, input_tokens=30)
    denied = call(nodes[0], "reserve", {"subjects": names, "input_tokens": 30})
    assert denied.status == 429 and denied.json()["code"] == "tokens_exceeded"
    assert [limit["subject"] for limit in denied.json()["violated"]] == names


# --------------------------------------------------------------------------------- whole answers

def test_answers_are_the_owners(nodes, subject_at):
    """Another node answers as the owner does, but for ids and times."""
    def scrubbed(response):
        body = json.loads(response.body) if response.body else None
        text = json.dumps(body, sort_keys=True)
        if body and "reservation" in body:
            text = text.replace(body["reservation"], "ID")
        names = [name for name, _ in response.headers if name not in ("Date", "X-Request-Id")]
        return response.status, names, "".join(c for c in text if not c.isdigit())
    owner, other = subject_at(0, "a"), subject_at(0, "b")  # the same for two subjects of a node
    assert len(owner) == len(other)
    seen = []
    for server, subject in ((nodes[0], owner), (nodes[1], other)):
        answers = []
        def asks(response):
            answers.append(scrubbed(response))
            return response
        def same(name, **fields):
            return asks(call(server, name, {"subjects": [subject], "input_tokens": 10, **fields}))
        quota = encoded({"limits": [{**tokens(100), "period_ms": 3_600_000}, slots(2)]})
        asks(ask(server, "PUT", f"/v1/subjects/{subject}", f"Content-Length: {len(quota)}",
                 body=quota))
        held = same("reserve", owner="somebody").json()["reservation"]
        same("check")
        same("check", input_tokens=95)
        same("consume", input_tokens=1_000)
        same("record")
        asks(ask(server, "GET", f"/v1/subjects/{subject}"))
        asks(ask(server, "GET", f"/v1/subjects/{subject}/reservations"))
        asks(ask(server, "GET", f"/v1/reservations/{held}"))
        asks(call(server, "extend", {"reservation": held, "lifetime_ms": 60_000}))
        asks(call(server, "settle", {"reservation": held, "input_tokens": 4}))
        asks(call(server, "settle", {"reservation": held, "input_tokens": 4}))
        asks(call(server, "cancel", {"reservation": held}))
        asks(post(server, f"/v1/subjects/{subject}/reset", {}))
        asks(ask(server, "DELETE", f"/v1/subjects/{subject}"))
        asks(ask(server, "GET", f"/v1/subjects/{subject}"))
        name = "".join(c for c in subject if not c.isdigit())
        seen.append([(status, names, text.replace(name, "SUBJECT"))
                     for status, names, text in answers])
    assert seen[0] == seen[1]


def test_reservations_are_ended_at_any_node(nodes, subject_at):
    for owner, subject in enumerate(all_nodes(subject_at)):
        put(nodes[0], subject, tokens(100), slots(9))
        made = [reserve(node, subject, input_tokens=10)["reservation"] for node in nodes]
        assert len({int(reservation, 16) >> 50 for reservation in made}) == 1
        for number, reservation in enumerate(made):
            at = nodes[(number + 1) % 3]
            assert call(at, "extend", {"reservation": reservation,
                                       "lifetime_ms": 600_000}).status == 200
            for node in nodes:  # a repeat changes nothing
                settled = call(node, "settle", {"reservation": reservation, "input_tokens": 1})
                assert (settled.status, settled.json()["input_tokens"]) == (200, 1)
        assert used(nodes[owner], subject) == 3
        assert used(nodes[owner], subject, "slots") == 0


def test_a_client_id_is_one_over_all_nodes(nodes, subject_at):
    subject = subject_at(1)
    put(nodes[0], subject, tokens(100))
    made = [reserve(node, subject, input_tokens=10, id="mine")["reservation"] for node in nodes]
    assert len(set(made)) == 1
    assert used(nodes[0], subject) == 10


# --------------------------------------------------------------------------------------- waiting

def waiter(server, *subjects, **fields):
    data = encoded({"subjects": subjects, "wait_limit_ms": 60_000, **fields})
    peer = HttpPeer(server)
    peer.send(request("POST", "/v1/reserve", f"Content-Length: {len(data)}", body=data))
    return peer


def waiting(server, subject, count):
    eventually(lambda: show(server, subject)["waiting"] == count, f"{count} wait")


def test_callers_of_all_nodes_wait_in_one_queue(nodes, subject_at):
    for subject in all_nodes(subject_at):
        put(nodes[0], subject, slots(1), tokens(100))
        held = reserve(nodes[1], subject)["reservation"]
        with contextlib.ExitStack() as stack:
            peers = []
            for node in nodes:
                peers.append(stack.enter_context(waiter(node, subject, input_tokens=5)))
                waiting(nodes[0], subject, len(peers))
            for peer in peers:
                assert peer.is_silent(0.05)
                call(nodes[2], "cancel", {"reservation": held})
                answer = peer.read()
                assert answer.status == 200, answer
                held = answer.json()["reservation"]
                limits = answer.json()["subjects"][0]["limits"]
                assert [limit["name"] for limit in limits] == ["slots", "tph"]
        call(nodes[0], "cancel", {"reservation": held})
        waiting(nodes[0], subject, 0)


def test_a_caller_that_leaves_is_gone_at_the_owner(nodes, subject_at):
    subject = subject_at(2)
    put(nodes[0], subject, slots(1))
    held = reserve(nodes[0], subject)["reservation"]
    with waiter(nodes[1], subject):
        waiting(nodes[2], subject, 1)
    waiting(nodes[2], subject, 0)
    call(nodes[1], "cancel", {"reservation": held})
    eventually(lambda: show(nodes[2], subject)["open_reservations"] == 0, "nothing is held")


@pytest.mark.parametrize("owners", [[0], [0, 2]], ids=["of_one_node", "of_two_nodes"])
def test_a_caller_of_a_node_that_stops_has_its_answer(tmp_path, subject_at, owners):
    with quota_fleet(tmp_path, [OURS] * 3) as fleet:
        subjects = [subject_at(owner) for owner in owners]
        put(fleet[0], subjects[0], slots(1))
        for subject in subjects[1:]:
            put(fleet[0], subject, slots(9))
        reserve(fleet[0], subjects[0])
        with waiter(fleet[1], *subjects) as peer:
            waiting(fleet[0], subjects[0], 1)
            assert fleet[1].stop() == 0
            answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (503, "draining")
        waiting(fleet[0], subjects[0], 0)


def test_a_wait_ends_at_its_limit_with_the_limits_in_the_way(nodes, subject_at):
    subject = subject_at(0)
    put(nodes[0], subject, slots(1))
    reserve(nodes[0], subject)
    answer = call(nodes[1], "reserve", {"subjects": [subject], "wait_limit_ms": 50})
    assert (answer.status, answer.json()["code"]) == (429, "wait_limit")
    assert answer.json()["violated"][0]["name"] == "slots"


def test_native_waiters_are_granted_and_withdrawn(nodes, subject_at):
    subject = subject_at(1)
    put(nodes[0], subject, slots(1))
    held = reserve(nodes[0], subject)["reservation"]
    with NativePeer(nodes[2]) as peer:
        answer = peer.reserve(subject, subject, flags=MAY_WAIT)
        assert answer.codes == ["queued"] * 2
        peer.withdraw(answer.id, [1])
        assert peer.read("done")
        granted = peer.read("granted")
        assert (granted.entries, granted.codes) == ([1], ["withdrawn"])
        call(nodes[0], "cancel", {"reservation": held})
        granted = peer.read("granted")
        assert (granted.entries, granted.codes) == ([0], ["ok"])
        assert peer.cancel(*granted.reservations).codes == ["ok"]


def test_position_in_queues_of_several_nodes(nodes, subject_at):
    subject = subject_at(1)
    put(nodes[0], subject, slots(1))
    held = reserve(nodes[0], subject)["reservation"]
    with waiter(nodes[2], subject):
        waiting(nodes[0], subject, 1)
        with waiter(nodes[0], subject, id="mine"):
            waiting(nodes[0], subject, 2)
            for node in nodes:
                answer = call(node, "position", {"subjects": [subject], "id": "mine"})
                assert answer.json()["subjects"] == [{"name": subject, "position": 2}]
    waiting(nodes[0], subject, 0)
    call(nodes[0], "cancel", {"reservation": held})


def test_bound_reservations_end_with_their_connection(nodes, subject_at):
    subjects = all_nodes(subject_at)
    for subject in subjects:
        put(nodes[0], subject, slots(5))
    with NativePeer(nodes[1]) as peer:
        assert peer.reserve(*subjects, flags=CONNECTION_BOUND).codes == ["ok"] * 3
        assert [show(nodes[2], subject)["open_reservations"] for subject in subjects] == [1] * 3
    for subject in subjects:
        eventually(lambda subject=subject: show(nodes[2], subject)["open_reservations"] == 0,
                   "it ends")


# -------------------------------------------------------------------------------------- failures

def owner(node):
    return f"the owner, {node.host}:{node.port},"


@pytest.mark.parametrize("policy, status, code", [
    ("error", 502, "owner_unreachable"), ("closed", 429, "failed_closed"),
    ("local", 502, "owner_unreachable")])
def test_without_its_owner_a_call_is_answered_by_the_policy(tmp_path, subject_at, policy, status,
                                                            code):
    with quota_fleet(tmp_path, [OURS] * 2, "--peer-failure", policy) as (first, second):
        mine, theirs = subject_at(0, count=2), subject_at(1, count=2)
        for subject in (mine, theirs):
            put(first, subject, slots(1), tokens(100))
        held = reserve(first, theirs)["reservation"]
        with waiter(first, theirs) as waits:
            waiting(first, theirs, 1)
            second.kill()
            answer = waits.read()
            assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        answer = call(first, "reserve", {"subjects": [theirs]})
        assert (answer.status, answer.json()["code"]) == (status, code)
        assert answer.json()["detail"] == f"{owner(second)} does not answer"
        answer = call(first, "settle", {"reservation": held})
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        assert ask(first, "GET", f"/v1/subjects/{theirs}").status == 502
        with NativePeer(first) as peer:
            names = {"owner_unreachable": "ownerUnreachable", "failed_closed": "failedClosed"}
            assert peer.reserve(mine, theirs).codes == ["ok", names[code]]


def test_waiters_of_a_node_that_dies_leave_the_queue(tmp_path, subject_at):
    with quota_fleet(tmp_path, [OURS] * 2) as (first, second):
        subject = subject_at(0, count=2)
        put(first, subject, slots(1))
        reserve(first, subject)
        with waiter(second, subject):
            waiting(first, subject, 1)
            second.kill()
            waiting(first, subject, 0)


BOUND_KEPT_S = 30  # as documented


@contextlib.contextmanager
def bound_by_a_node_that_is_killed(tmp_path, subject_at):
    """The fleet, three subjects with a reservation each that a client of node 1 has bound, and when
    that node was killed. The last one's reservation is also one of the second's subject."""
    with Fleet([OURS] * 3, "--peer-secret-file", secret_file(tmp_path)) as fleet:
        entry = fleet.nodes[1].process
        entry.native_port = entry.wait_for_message("ready")["nativePort"]
        alone, shared, first = subject_at(0, "a"), subject_at(2, "b"), subject_at(0, "c")
        for subject in (alone, shared, first):
            put(fleet.nodes[0].process, subject, slots(5))
        with NativePeer(entry) as peer:
            answer = peer.reserve(alone, shared, [first, shared], flags=CONNECTION_BOUND)
            assert answer.codes == ["ok"] * 3
            killed = time.monotonic()
            entry.kill()
            yield fleet, {alone: 1, shared: 2, first: 1}, killed
        if not entry.is_running():
            fleet.nodes = [node for node in fleet.nodes if node.process.is_running()]


def are_open(fleet, counts):
    """Whether both nodes that are left say so."""
    return all(show(fleet.nodes[asked].process, subject)["open_reservations"] == count
               for asked in (0, 2) for subject, count in counts.items())


def test_what_a_client_of_a_node_that_dies_has_bound_stays_at_first(tmp_path, subject_at):
    with bound_by_a_node_that_is_killed(tmp_path, subject_at) as (fleet, wanted, _):
        for number in (0, 2):
            eventually(lambda node=fleet.nodes[number]: node.links_to(fleet.nodes[1]) == 0,
                       "it has lost the node")
        time.sleep(0.3)
        assert are_open(fleet, wanted)


@pytest.mark.skipif(os.environ.get("LONG") != "1", reason="takes half a minute: LONG=1")
@pytest.mark.parametrize("is_started_again", [False, True])
def test_what_a_client_of_a_node_that_dies_has_bound_ends_after_30_s(tmp_path, subject_at,
                                                                     is_started_again):
    """Its connections to the owners end when it is killed, also if it is started again."""
    with bound_by_a_node_that_is_killed(tmp_path, subject_at) as (fleet, wanted, killed):
        if is_started_again:
            fleet.start_again(1)
        while time.monotonic() < killed + BOUND_KEPT_S - 1:
            assert are_open(fleet, wanted) or time.monotonic() > killed + BOUND_KEPT_S
            time.sleep(0.2)
        eventually(lambda: are_open(fleet, dict.fromkeys(wanted, 0)), "they end", 10)
        assert time.monotonic() > killed + BOUND_KEPT_S
        for subject in wanted:
            for _ in range(5):  # the slots are free again
                reserve(fleet.nodes[0].process, subject)


def test_a_paused_owner_is_lost_and_its_late_reservation_cancelled(tmp_path, subject_at):
    with quota_fleet(tmp_path, [OURS] * 2, "--peer-timeout-millis", "300",
                  "--peer-silence-millis", "60000") as (first, second):
        subject = subject_at(1, count=2)
        put(first, subject, slots(3))
        second.pause()
        started = time.monotonic()
        answer = call(first, "reserve", {"subjects": [subject]})
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        assert time.monotonic() - started < 10
        second.resume()
        eventually(lambda: show(second, subject)["open_reservations"] == 0, "it is cancelled")


def test_without_a_secret_no_quota_call_is_forwarded(subject_at):
    with Fleet([OURS] * 2) as fleet:
        first, second = (node.process for node in fleet.nodes)
        answer = call(first, "reserve", {"subjects": [subject_at(1, count=2)]})
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        assert answer.json()["detail"] == (f"{owner(second)} takes no quota calls of this node: "
                                           "give both the same --peer-secret-file")
        put(first, subject_at(0, count=2), slots(1))
        assert reserve(first, subject_at(0, count=2))
        assert second.is_running()


@pytest.mark.skipif(gocc() is None, reason=why_no_gocc())
def test_a_gocc_keeps_no_quotas(tmp_path, subject_at):
    with Fleet([OURS, GOCC]) as fleet:
        first, second = fleet.nodes[0].process, fleet.nodes[1]
        answer = call(first, "reserve", {"subjects": [subject_at(1, count=2)]})
        assert (answer.status, answer.json()["code"]) == (502, "owner_unreachable")
        assert answer.json()["detail"] == f"{owner(second)} is a gocc, which keeps no quotas"
        put(first, subject_at(0, count=2), slots(1))
        assert reserve(first, subject_at(0, count=2))
