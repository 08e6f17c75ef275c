"""Consume, and ids of consume and record: over REST and natively, on one shard and on several.
Method: raw requests; every test has subjects of its own, with periods of an hour."""

import pytest

from http_peer import HttpPeer, ask, request
from native_peer import MAY_WAIT, NativePeer, subject_columns
from quota_calls import call, encoded, limit_of, put, reserve, show, slots, tokens, used
from server_process import eventually


@pytest.fixture
def subjects(server, key):
    """A model and a tenant, most probably of different server."""
    names = [f"model-{key}", f"tenant-{key}", f"user-{key}"]
    for name in names:
        put(server, name, tokens(100))
    return names


def consume(server, subjects, **fields):
    return call(server, "consume", {"subjects": subjects, **fields})


def test_consume_charges_what_fits_and_leaves_nothing_open(server, subjects):
    put(server, subjects[1], tokens(100), slots(1))
    answer = consume(server, subjects, input_tokens=60, cached_input_tokens=20, output_tokens=1)
    assert answer.status == 200
    assert answer.json()["code"] == "ok" and "reservation" not in answer.json()
    assert [subject["name"] for subject in answer.json()["subjects"]] == subjects
    assert [used(server, subject) for subject in subjects] == [41] * 3
    assert show(server, subjects[1])["open_reservations"] == 0
    assert limit_of(show(server, subjects[1]), "slots")["used"] == 0
    assert ask(server, "GET", f"/v1/reservations?subject={subjects[0]}").json()["reservations"] == []


def test_what_does_not_fit_is_denied_and_charged_nowhere(server, subjects):
    put(server, subjects[2], tokens(10))
    denied = consume(server, subjects, input_tokens=11)
    assert (denied.status, denied.json()["code"]) == (429, "exceeds_limit")
    assert [row["subject"] for row in denied.json()["violated"]] == [subjects[2]]
    assert [used(server, subject) for subject in subjects] == [0] * 3


def test_it_needs_a_free_slot(server, subjects):
    put(server, subjects[0], slots(1))
    assert consume(server, subjects).status == 200
    reserve(server, *subjects)
    assert consume(server, subjects).json()["code"] == "concurrency_exceeded"


def test_it_waits_in_its_place(server, subjects):
    put(server, subjects[1], slots(1))
    held = reserve(server, *subjects)["reservation"]
    data = encoded({"subjects": subjects, "input_tokens": 7, "wait_limit_ms": 60_000})
    with HttpPeer(server) as peer:
        peer.send(request("POST", "/v1/consume", f"Content-Length: {len(data)}", body=data))
        eventually(lambda: show(server, subjects[0])["waiting"] == 1, "it waits")
        assert used(server, subjects[0]) == 0
        call(server, "settle", {"reservation": held})
        answer = peer.read()
    assert answer.status == 200 and answer.json()["code"] == "ok"
    assert used(server, subjects[0]) == 7


def test_its_wait_ends(server, subjects):
    put(server, subjects[0], slots(1))
    reserve(server, *subjects)
    answer = consume(server, subjects, wait_limit_ms=20)
    assert (answer.status, answer.json()["code"]) == (429, "wait_limit")


@pytest.mark.parametrize("way", ["consume", "record"])
def test_an_id_is_charged_once(server, subjects, way):
    body = {"subjects": subjects, "input_tokens": 60, "id": "job 7"}
    for _ in range(2):
        answer = call(server, way, body)
        assert answer.status == 200
        assert answer.json()["subjects"][0]["limits"][0]["used"] == 60
    assert [used(server, subject) for subject in subjects] == [60] * 3
    others = [{**body, "input_tokens": 59}, {**body, "subjects": subjects[::-1]}]
    for other in others:
        answer = call(server, way, other)
        assert (answer.status, answer.json()["code"]) == (409, "id_in_use")
    for other_way in {"consume", "record", "reserve"} - {way}:
        assert call(server, other_way, body).json()["code"] == "id_in_use"
    assert [used(server, subject) for subject in subjects] == [60] * 3


def test_an_id_is_forgotten_after_the_default_lifetime(start_server, tmp_path, key):
    file = tmp_path / "quotas.json"
    file.write_text('{"quotas": {"default_lifetime_ms": 50, "subjects": []}}')
    server = start_server("--config-file", str(file))
    put(server, key, tokens(100))
    body = {"subjects": [key], "input_tokens": 10, "id": "a"}
    assert call(server, "consume", body).status == 200
    eventually(lambda: call(server, "consume", body).status == 200 and used(server, key) > 10,
               "it is charged again")


def test_natively(server, subjects):
    with NativePeer(server) as peer:
        two = subject_columns([subjects[0], subjects[1:]])
        answer = peer.call("consume", {**two, "inputTokens": [60, 101], "requests": [1, 1]})
        assert answer.codes == ["ok", "exceedsLimit"]
        assert answer.reservations == [] and list(answer.body["retryAfterMs"]) == [0, -1]
        ids = {"ids": b"xy", "idSizes": [1, 1], "inputTokens": [10, 20]}
        for kind in ("consume", "record", "consume"):
            codes = peer.call(kind, {**two, **ids}).codes
            assert codes == (["idInUse"] * 2 if kind == "record" else ["ok", "ok"])
    assert [used(server, subject) for subject in subjects] == [70, 20, 20]


def test_natively_a_wait_ends_with_a_code(server, subjects):
    with NativePeer(server) as peer:
        put(server, subjects[0], slots(1))
        held = peer.reserve(subjects[0]).reservations[0]
        frame = {**subject_columns([subjects]), "inputTokens": [9], "flags": MAY_WAIT}
        assert peer.call("consume", frame).codes == ["queued"]
        peer.settle(held)
        granted = peer.read("granted")
        assert granted.codes == ["ok"] and granted.reservations == []
    assert used(server, subjects[1]) == 9
