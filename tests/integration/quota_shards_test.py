"""Calls that name any subjects, whichever shards have them: all or nothing, in both dialects.

Method: the same calls on servers with one, two and four shards; then connections that fight for
the same subjects, held against a count of their own.
"""

import random
import threading

import pytest

from http_peer import ask
from native_peer import CONNECTION_BOUND, NativePeer
from quota_calls import call, put, reserve, show, slots, tokens, used
from server_process import eventually


@pytest.fixture
def subjects(key):
    """So many that several of them are on other shards."""
    return [f"{key}{number}" for number in range(8)]


def native_slots(amount):
    return {"name": b"slots", "metric": "concurrency", "kind": "concurrency", "amount": amount}


def reserved(server, subject):
    return show(server, subject)["limits"][0]["reserved"]


def test_all_subjects_or_none(server, subjects):
    for subject in subjects:
        put(server, subject, tokens(100))
    put(server, subjects[5], tokens(10))
    denied = call(server, "reserve", {"subjects": subjects, "input_tokens": 11})
    assert denied.status == 429
    assert [limit["subject"] for limit in denied.json()["violated"]] == [subjects[5]]
    assert denied.json()["code"] == "exceeds_limit" and not denied.json()["retryable"]
    assert [used(server, subject) for subject in subjects] == [0] * 8
    admitted = reserve(server, *subjects, input_tokens=10)
    assert [subject["name"] for subject in admitted["subjects"]] == subjects
    assert [subject["limits"][0]["used"] for subject in admitted["subjects"]] == [10] * 8
    body = {"reservation": admitted["reservation"], "input_tokens": 4}
    for _ in range(2):  # a repeat changes nothing
        assert call(server, "settle", body).json()["input_tokens"] == 4
    assert [used(server, subject) for subject in subjects] == [4] * 8
    assert [reserved(server, subject) for subject in subjects] == [0] * 8


def test_check_record_and_usage(server, subjects):
    for subject in subjects:
        put(server, subject, tokens(100))
    assert call(server, "check", {"subjects": subjects, "input_tokens": 100}).status == 200
    assert call(server, "record", {"subjects": subjects, "input_tokens": 30}).status == 200
    assert call(server, "check", {"subjects": subjects, "input_tokens": 71}).status == 429
    assert [used(server, subject) for subject in subjects] == [30] * 8


def test_a_duplicate_is_a_mistake(server, subjects):
    response = call(server, "reserve", {"subjects": [*subjects[:3], subjects[0]]})
    assert response.status == 400


def test_expired_parts_free_their_slots(server, subjects):
    for subject in subjects:
        put(server, subject, slots(1))
    reserve(server, *subjects, lifetime_ms=50)
    eventually(lambda: all(show(server, subject)["open_reservations"] == 0
                           for subject in subjects), "slots are free")
    reserve(server, *reversed(subjects))


def test_a_lost_connection_frees_its_slots_everywhere(server, subjects):
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, native_slots(1))
        assert peer.reserve(subjects, flags=CONNECTION_BOUND).codes == ["ok"]
        assert call(server, "reserve", {"subjects": subjects[3:4]}).status == 429
    eventually(lambda: all(show(server, subject)["open_reservations"] == 0
                           for subject in subjects), "slots are free")


def test_a_reservation_is_listed_once_with_all_subjects(server, subjects):
    for subject in subjects:
        put(server, subject, tokens(100))
    made = reserve(server, *subjects, owner="job 7")["reservation"]
    for query in (f"?subject={subjects[0]}", f"?subject={subjects[6]}", ""):
        listed = ask(server, "GET", f"/v1/reservations{query}").json()["reservations"]
        own, = (row for row in listed if row["reservation"] == made)
        assert (own["owner"], own["subjects"]) == ("job 7", subjects), query
        assert own["expires_in_ms"] > 0
    shown = ask(server, "GET", f"/v1/reservations/{made}").json()
    assert (shown["owner"], shown["subjects"]) == ("job 7", subjects)


def test_a_repeat_gets_the_same_and_another_order_none(server, subjects):
    body = {"subjects": subjects, "input_tokens": 1, "id": "job"}
    first = call(server, "reserve", body).json()["reservation"]
    assert call(server, "reserve", body).json()["reservation"] == first
    turned = call(server, "reserve", {**body, "subjects": subjects[::-1]})
    assert (turned.status, turned.json()["code"]) == (409, "id_in_use")


def test_connections_that_fight_never_pass_a_limit(server, subjects):
    """Frames of calls with drawn subjects; what is admitted stays open until the end."""
    slots_each, rounds = 5, 25
    with NativePeer(server) as peer:
        for subject in subjects:
            peer.put_quota(subject, native_slots(slots_each))
    failures = []

    def fight(seed):
        dice = random.Random(seed)
        try:
            with NativePeer(server) as peer:
                for _ in range(rounds):
                    frame = [dice.sample(subjects, dice.randint(1, 4))
                             for _ in range(dice.randint(1, 8))]
                    answer = peer.reserve(*frame)
                    admitted = [number for number in answer.reservations if number]
                    assert set(answer.codes) <= {"ok", "concurrencyExceeded"}, answer
                    if admitted:
                        assert set(peer.cancel(*admitted).codes) == {"ok"}
        except BaseException as error:  # reported by the test
            failures.append(error)

    fighters = [threading.Thread(target=fight, args=(seed,)) for seed in range(6)]
    for fighter in fighters:
        fighter.start()
    while any(fighter.is_alive() for fighter in fighters):
        for subject in subjects:
            limits = show(server, subject)["limits"]
            assert limits[0]["used"] <= slots_each, (subject, limits)
    for fighter in fighters:
        fighter.join()
    assert not failures, failures
    for subject in subjects:
        shown = show(server, subject)
        assert (shown["open_reservations"], shown["limits"][0]["used"]) == (0, 0), shown
