"""Calls that wait for several subjects, whichever shards have them.

Method: a call that names eight subjects waits for one of them that is held; then every end that a
wait can have, in both dialects. Afterwards nothing waits or is held on any shard.
"""

import signal
import time

import pytest

from http_peer import HttpPeer, request
from native_peer import CONNECTION_BOUND, MAY_WAIT, NativePeer
from quota_calls import call, encoded, limit_of, put, reserve, show, slots, tokens
from server_process import eventually


@pytest.fixture
def subjects(server, key):
    """So many that several of them are on other shards; each has one slot."""
    names = [f"{key}{number}" for number in range(8)]
    for name in names:
        put(server, name, slots(1), tokens(100))
    return names


def hold(server, *names):
    return reserve(server, *names)["reservation"]


def cancel(server, reservation):
    assert call(server, "cancel", {"reservation": reservation}).status == 200


def waits(server, names, count=1):
    eventually(lambda: all(show(server, name)["waiting"] == count for name in names),
               "it waits for all its subjects")


def start_waiting(server, names, **fields):
    data = encoded({"subjects": names, "wait_limit_ms": 60_000, **fields})
    peer = HttpPeer(server)
    peer.send(request("POST", "/v1/reserve", f"Content-Length: {len(data)}", body=data))
    return peer


def check_nothing_is_left(server, names):
    """Neither a waiter nor a reservation, on any shard."""
    eventually(lambda: all((show(server, name)["waiting"], show(server, name)["open_reservations"])
                           == (0, 0) for name in names), "nothing is left")


def test_a_waiter_is_admitted_once_all_subjects_have_room(server, subjects):
    held = [hold(server, subjects[0]), hold(server, subjects[4]), hold(server, subjects[7])]
    with start_waiting(server, subjects, input_tokens=10) as peer:
        waits(server, subjects)
        for reservation in held:
            assert peer.is_silent(0.1)
            cancel(server, reservation)
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (200, "ok")
        shown = answer.json()["subjects"]
        assert [subject["name"] for subject in shown] == subjects
        assert [limit_of(subject, "tph")["used"] for subject in shown] == [10] * 8
    assert [show(server, name)["open_reservations"] for name in subjects] == [1] * 8
    cancel(server, answer.json()["reservation"])
    check_nothing_is_left(server, subjects)


def positions(server, names, id):
    answer = call(server, "position", {"subjects": names, "id": id})
    assert answer.status == 200, answer.body
    return [(each["name"], each["position"]) for each in answer.json()["subjects"]]


def test_a_waiter_has_a_position_in_each_queue(server, subjects):
    held = hold(server, subjects[3])
    free = subjects[0] + "-without-quota"
    with start_waiting(server, subjects[2:5]) as first:
        waits(server, subjects[2:5])
        with start_waiting(server, [*subjects, free][1:], id="job") as second:
            waits(server, subjects[2:5], 2)
            assert positions(server, [*subjects, free][1:], "job") == [
                *((name, 2 if name in subjects[2:5] else 1) for name in subjects[1:]), (free, 0)]
            assert call(server, "position", {"subjects": subjects, "id": "job"}).status == 404
            cancel(server, held)
            cancel(server, first.read().json()["reservation"])
            cancel(server, second.read().json()["reservation"])
    answer = call(server, "position", {"subjects": [*subjects, free][1:], "id": "job"})
    assert (answer.status, answer.json()["code"]) == (404, "not_waiting")
    for body in ({"subjects": subjects}, {"id": "job"}, {"subjects": subjects, "id": ""}):
        assert call(server, "position", body).status == 400
    check_nothing_is_left(server, subjects)


def test_a_waiter_holds_nothing_but_its_places(server, subjects):
    held = hold(server, subjects[5])
    with start_waiting(server, subjects, input_tokens=60) as peer:
        waits(server, subjects)
        for name in subjects:
            assert limit_of(show(server, name), "tph")["used"] == 0
        denied = call(server, "reserve", {"subjects": subjects[2:3]})
        assert (denied.status, denied.json()["code"]) == (429, "queue_ahead")
        cancel(server, held)
        cancel(server, peer.read().json()["reservation"])
    check_nothing_is_left(server, subjects)


def test_waiters_that_share_subjects_are_served_in_their_order(server, subjects):
    held = hold(server, subjects[3])
    calls = [subjects[:4], subjects[3:6], [subjects[5], subjects[0]], subjects[2:4]]
    peers = []
    for names in calls:
        before = show(server, names[0])["waiting"]
        peers.append(start_waiting(server, names))
        eventually(lambda: show(server, names[0])["waiting"] == before + 1, "it waits")
    cancel(server, held)
    for peer in peers:
        answer = peer.read()
        assert answer.status == 200
        cancel(server, answer.json()["reservation"])
        peer.close()
    check_nothing_is_left(server, subjects)


def test_a_wait_that_times_out_reports_what_was_in_the_way(server, subjects):
    held = hold(server, subjects[6])
    started = time.monotonic()
    answer = call(server, "reserve", {"subjects": subjects, "wait_limit_ms": 150})
    assert time.monotonic() - started >= 0.15
    assert (answer.status, answer.json()["code"]) == (429, "wait_limit")
    assert [(limit["subject"], limit["name"]) for limit in answer.json()["violated"]] == [
        (subjects[6], "slots")]
    cancel(server, held)
    check_nothing_is_left(server, subjects)


def test_a_wait_that_cannot_help_is_refused_at_once(server, subjects):
    answer = call(server, "reserve", {"subjects": subjects, "input_tokens": 101,
                                      "wait_limit_ms": 60_000})
    assert (answer.status, answer.json()["code"]) == (429, "exceeds_limit")
    check_nothing_is_left(server, subjects)


def test_a_quota_that_rules_the_waiter_out_ends_the_wait(server, subjects):
    held = hold(server, subjects[1])
    with start_waiting(server, subjects, input_tokens=50) as peer:
        waits(server, subjects)
        put(server, subjects[1], slots(1), tokens(40))
        cancel(server, held)
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (429, "exceeds_limit")
    check_nothing_is_left(server, subjects)


@pytest.mark.parametrize("ruled_out", [
    (tokens(20), "exceeds_limit"), ({**tokens(20), "amount": "block"}, "blocked")])
def test_a_waiter_that_is_ruled_out_behind_others_holds_up_nobody(server, subjects, ruled_out):
    held, between, model = subjects[:3]
    limit, code = ruled_out
    holder = hold(server, held)
    with start_waiting(server, [held, between]) as first:
        waits(server, [held, between])
        with start_waiting(server, [between, model], input_tokens=50) as second:
            waits(server, [model])
            put(server, model, slots(1), limit)
            denied = second.read()
            assert (denied.status, denied.json()["code"]) == (429, code)
            assert [(each["subject"], each["name"]) for each in denied.json()["violated"]
                    if each["name"] == "tph"] == [(model, "tph")]
            put(server, model, slots(1), tokens(20))
            cancel(server, reserve(server, model, input_tokens=1)["reservation"])
        waits(server, [held, between])
        cancel(server, holder)
        cancel(server, first.read().json()["reservation"])
    check_nothing_is_left(server, subjects)


@pytest.mark.parametrize("place", range(8))
def test_it_ends_at_once_though_another_subject_is_full(server, subjects, place):
    """Wherever the subject is that rules it out, and the one that stays full."""
    held = hold(server, subjects[(place + 3) % 8])
    with start_waiting(server, subjects, input_tokens=50) as peer:
        waits(server, subjects)
        put(server, subjects[place], slots(1), tokens(40))
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (429, "exceeds_limit")
    cancel(server, held)
    check_nothing_is_left(server, subjects)


def test_more_slots_admit_a_waiter(server, subjects):
    held = hold(server, subjects[2])
    with start_waiting(server, subjects) as peer:
        waits(server, subjects)
        put(server, subjects[2], slots(2), tokens(100))
        cancel(server, peer.read().json()["reservation"])
    cancel(server, held)
    check_nothing_is_left(server, subjects)


@pytest.mark.parametrize("leave", [HttpPeer.close, HttpPeer.reset])
def test_a_client_that_leaves_is_in_no_queue(server, subjects, leave):
    held = hold(server, subjects[7])
    peer = start_waiting(server, subjects)
    waits(server, subjects)
    leave(peer)
    waits(server, subjects, 0)
    cancel(server, held)
    check_nothing_is_left(server, subjects)
    peer.close()


def test_native_waiters_are_granted_or_withdrawn(server, subjects):
    held = hold(server, subjects[4])
    with NativePeer(server) as peer:
        both = peer.reserve(subjects, subjects[1:3], flags=MAY_WAIT)
        assert both.codes == ["queued", "queued"]
        waits(server, subjects[1:3], 2)
        peer.withdraw(both.id, [0])
        outcomes = {}
        while len(outcomes) < 2:
            answer = peer.read()
            if answer.kind != "granted":
                continue  # to Withdraw
            outcomes.update(zip(answer.entries, answer.codes))
        assert outcomes == {0: "withdrawn", 1: "ok"}
    cancel(server, held)


def test_a_connection_that_is_lost_ends_what_it_waited_for(server, subjects):
    held = hold(server, subjects[4])
    with NativePeer(server) as peer:
        assert peer.reserve(subjects, flags=MAY_WAIT | CONNECTION_BOUND).codes == ["queued"]
        waits(server, subjects)
    waits(server, subjects, 0)
    cancel(server, held)
    check_nothing_is_left(server, subjects)


def test_a_repeat_of_a_waiting_id_is_refused_and_later_answered(server, subjects):
    held = hold(server, subjects[4])
    body = {"subjects": subjects, "id": "job"}
    with start_waiting(server, subjects, id="job") as peer:
        waits(server, subjects)
        assert call(server, "reserve", body).json()["code"] == "id_in_use"
        cancel(server, held)
        made = peer.read().json()["reservation"]
    assert call(server, "reserve", body).json()["reservation"] == made
    cancel(server, made)


def test_a_drain_ends_waits_with_its_own_code(start_server, key):
    server = start_server("--drain-millis", "5000")
    names = [f"{key}{number}" for number in range(8)]
    for name in names:
        put(server, name, slots(1))
    hold(server, names[3])
    with start_waiting(server, names) as peer:
        waits(server, names)
        server.signal(signal.SIGTERM)
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (503, "draining")
    assert server.wait() == 0
