"""REST: quotas under /v1/, from a reservation to its end. Method: raw requests; every test has
subjects of its own, with periods of an hour unless it is about time."""

import signal
import time

import pytest

from http_peer import HttpPeer, ask, request
from quota_calls import (HOUR_MS, PROBLEM, call, encoded, limit_of, put, reserve, show, slots,
                         tokens, used, waiting_call)
from server_process import eventually


# ------------------------------------------------------------------------------------ subjects

def test_put_is_answered_as_a_get(server, key):
    shown = put(server, key, tokens(30_000), slots(4))
    assert shown == show(server, key)
    assert shown["source"] == "run_time"
    assert limit_of(shown, "tph") == {
        "name": "tph", "metric": "tokens", "amount": 30_000, "period_ms": HOUR_MS,
        "kind": "sliding", "used": 0, "reserved": 0, "remaining": 30_000,
        "reset_ms": limit_of(shown, "tph")["reset_ms"]}
    assert limit_of(shown, "slots")["remaining"] == 4
    assert (shown["open_reservations"], shown["waiting"]) == (0, 0)


def test_a_quota_that_is_not_valid_changes_nothing(server, key):
    before = put(server, key, tokens(10))
    data = encoded({"limits": [{"name": "a", "metric": "tokens", "amount": -1}, 7]})
    response = ask(server, "PUT", f"/v1/subjects/{key}", f"Content-Length: {len(data)}", body=data)
    assert (response.status, response.header("Content-Type")) == (400, PROBLEM)
    assert response.json()["code"] == "invalid_quota"
    assert len(response.json()["complaints"]) >= 2
    assert show(server, key)["limits"][0]["amount"] == before["limits"][0]["amount"]


def test_delete_removes_only_a_put_quota(server, key):
    put(server, key, tokens(10))
    assert ask(server, "DELETE", f"/v1/subjects/{key}").status == 204
    again = ask(server, "DELETE", f"/v1/subjects/{key}")
    assert (again.status, again.json()["code"]) == (404, "no_such_quota")
    gone = ask(server, "GET", f"/v1/subjects/{key}")
    assert (gone.status, gone.json()["code"]) == (404, "unknown_subject")


def test_names_in_paths_are_those_of_bodies(server, key):
    name = f"openai/{key} ü"
    put(server, f"openai/{key}%20%C3%BC", tokens(10))
    assert show(server, f"openai%2F{key}%20%c3%bc")["name"] == name
    assert reserve(server, name, input_tokens=4)["subjects"][0]["limits"][0]["used"] == 4


def test_pages_lead_through_all_subjects_once(start_server):
    server = start_server()
    names = {f"page{number}" for number in range(25)}
    for name in names:
        put(server, name, tokens(1))
    listed = []
    cursor = ""
    while cursor is not None:
        query = f"&cursor={cursor}" if cursor else ""
        page = ask(server, "GET", f"/v1/subjects?limit=7{query}").json()
        assert len(page["subjects"]) <= 7
        listed += [subject["name"] for subject in page["subjects"]]
        cursor = page["cursor"]
    assert sorted(listed) == sorted(names)


def test_a_page_of_long_names_is_cut_into_shorter_ones(start_server):
    """Its cursor continues at the cut."""
    server = start_server("--max-key-bytes", "8000", "--max-subjects", "1000")
    names = {f"{number:03d}" + "x" * 7000 for number in range(120)}
    for name in names:
        put(server, name, tokens(1))
    listed = []
    cursor = ""
    while cursor is not None:
        query = f"&cursor={cursor}" if cursor else ""
        page = ask(server, "GET", f"/v1/subjects?limit=256{query}")
        assert len(page.body) < 512 * 1024
        listed += [subject["name"] for subject in page.json()["subjects"]]
        cursor = page.json()["cursor"]
    assert sorted(listed) == sorted(names)


def test_subjects_and_keys_are_two_namespaces(server, key):
    put(server, key, {"name": "rph", "metric": "requests", "amount": 1})
    assert ask(server, "POST", f"/rate/{key}").status == 200
    assert reserve(server, key)["code"] == "ok"
    assert ask(server, "POST", f"/rate/{key}").status == 200
    assert call(server, "reserve", {"subjects": [key]}).status == 429


# ------------------------------------------------------------------------ reserve, settle, cancel

def test_reserve_takes_the_estimate_and_settle_refunds_the_rest(server, key):
    put(server, key, tokens(2_000), slots(1))
    taken = reserve(server, key, input_tokens=900, max_output_tokens=500, lifetime_ms=60_000)
    assert len(taken["reservation"]) == 16
    assert taken["code"] == "ok"
    assert 59_000 <= taken["expires_in_ms"] <= 60_000
    limit = limit_of(taken["subjects"][0], "tph")
    assert (limit["used"], limit["reserved"], limit["remaining"]) == (1_400, 1_400, 600)
    settled = call(server, "settle", {"reservation": taken["reservation"], "input_tokens": 880,
                                      "output_tokens": 312})
    assert settled.status == 200
    assert settled.json() == {
        "reservation": taken["reservation"], "state": "settled", "requests": 1,
        "input_tokens": 880, "output_tokens": 312, "cost": 0, "late": False}
    after = show(server, key)
    limit = limit_of(after, "tph")
    assert (limit["used"], limit["reserved"], limit["remaining"]) == (1_192, 0, 808)
    assert limit_of(after, "slots")["used"] == 0
    assert after["open_reservations"] == 0


@pytest.mark.parametrize("end, more", [("settle", {"input_tokens": 3}), ("cancel", {}),
                                       ("extend", {"lifetime_ms": 50_000})])
def test_a_repeat_gets_the_same_answer(server, key, end, more):
    put(server, key, tokens(100))
    taken = reserve(server, key, input_tokens=9)
    body = {"reservation": taken["reservation"], **more}
    first = call(server, end, body)
    time.sleep(0.01)
    again = call(server, end, body)
    assert (first.status, again.status) == (200, 200)
    assert first.raw == again.raw
    assert first.body == again.body


def test_only_one_end_counts(server, key):
    put(server, key, tokens(100))
    settled = reserve(server, key, input_tokens=9)["reservation"]
    cancelled = reserve(server, key, input_tokens=9)["reservation"]
    assert call(server, "settle", {"reservation": settled}).status == 200
    assert call(server, "cancel", {"reservation": cancelled}).status == 200
    for name, reservation, code in (("cancel", settled, "already_settled"),
                                    ("extend", settled, "already_settled"),
                                    ("settle", cancelled, "already_cancelled"),
                                    ("extend", cancelled, "already_cancelled")):
        response = call(server, name, {"reservation": reservation})
        assert (response.status, response.json()["code"]) == (409, code)
    assert used(server, key) == 9


@pytest.mark.parametrize("name", ["settle", "cancel", "extend"])
@pytest.mark.parametrize("reservation", ["0000000000000000", "ffffffffffffffff", "nonsense", ""])
def test_an_id_never_assigned_is_not_found(server, name, reservation):
    response = call(server, name, {"reservation": reservation})
    assert (response.status, response.json()["code"]) == (404, "unknown_reservation")
    assert response.header("Content-Type") == PROBLEM


def test_a_cancelled_request_may_have_been_made(server, key):
    put(server, key, tokens(100), {"name": "rph", "metric": "requests", "amount": 5})
    for keeps, requests in ((False, 0), (True, 1)):
        taken = reserve(server, key, input_tokens=9)
        call(server, "cancel", {"reservation": taken["reservation"], "keep_requests": keeps})
        assert used(server, key, "rph") == requests
        assert used(server, key) == 0


def test_a_deficit_is_charged_and_later_calls_wait(server, key):
    put(server, key, tokens(100))
    taken = reserve(server, key, input_tokens=90)
    call(server, "settle", {"reservation": taken["reservation"], "input_tokens": 150})
    limit = limit_of(show(server, key), "tph")
    assert (limit["used"], limit["remaining"]) == (150, 0)
    assert call(server, "reserve", {"subjects": [key], "input_tokens": 1}).status == 429


def test_expired_reservations_free_their_slot(server, key):
    put(server, key, tokens(100), slots(1))
    taken = reserve(server, key, input_tokens=40, lifetime_ms=50)
    eventually(lambda: show(server, key)["open_reservations"] == 0, "it expires")
    assert used(server, key, "slots") == 0
    assert used(server, key) == 40
    late = call(server, "settle", {"reservation": taken["reservation"], "input_tokens": 10})
    if late.status == 200:  # otherwise the server has already forgotten it
        assert late.json()["late"] is True
        assert used(server, key) == 10


def test_expired_reservations_are_refunded_if_the_quota_refunds(server, key):
    put(server, key, tokens(100), expired="refund")
    reserve(server, key, input_tokens=40, lifetime_ms=50)
    eventually(lambda: used(server, key) == 0, "it is refunded")


def test_extended_reservations_live_longer(server, key):
    put(server, key, slots(1))
    taken = reserve(server, key, lifetime_ms=1_000)
    extended = call(server, "extend", {"reservation": taken["reservation"], "lifetime_ms": 60_000})
    assert extended.json() == {"reservation": taken["reservation"], "state": "open",
                               "lifetime_ms": 60_000}
    time.sleep(1.1)
    assert used(server, key, "slots") == 1


def test_the_same_id_gets_the_first_answer(server, key):
    put(server, key, tokens(100))
    first = reserve(server, key, input_tokens=9, id=f"{key}mine")
    again = reserve(server, key, input_tokens=9, id=f"{key}mine")
    assert first["reservation"] == again["reservation"]
    assert used(server, key) == 9
    other = call(server, "reserve", {"subjects": [key], "input_tokens": 8, "id": f"{key}mine"})
    assert (other.status, other.json()["code"]) == (409, "id_in_use")


# ------------------------------------------------------------------------------------- denials

def test_denial_names_the_violated_limit_and_takes_nothing(server, key):
    put(server, key, tokens(100), {"name": "rph", "metric": "requests", "amount": 1}, slots(5))
    reserve(server, key, input_tokens=60)
    denied = call(server, "reserve", {"subjects": [key], "input_tokens": 50})
    assert (denied.status, denied.header("Content-Type")) == (429, PROBLEM)
    body = denied.json()
    assert body["status"] == 429
    assert body["retryable"] is True
    assert {limit["name"] for limit in body["violated"]} == {"tph", "rph"}
    limit = next(limit for limit in body["violated"] if limit["name"] == "tph")
    assert limit == {"subject": key, "name": "tph", "metric": "tokens", "amount": 100,
                     "used": 60, "reserved": 60, "remaining": 40, "reset_ms": limit["reset_ms"]}
    assert 0 < body["retry_after_ms"] <= HOUR_MS * 2
    seconds = int(denied.header("Retry-After"))
    assert seconds - 1 <= body["retry_after_ms"] / 1000 <= seconds
    assert '"tph";r=40;t=' in denied.header("RateLimit")
    assert '"tph";q=100;w=3600' in denied.header("RateLimit-Policy")
    after = show(server, key)
    assert limit_of(after, "slots")["used"] == 1
    assert limit_of(after, "tph")["used"] == 60


@pytest.mark.parametrize("amount, code", [(100, "exceeds_limit"), ("block", "blocked")])
def test_an_amount_that_can_never_fit_has_a_code_of_its_own(server, key, amount, code):
    put(server, key, tokens(amount))
    denied = call(server, "reserve", {"subjects": [key], "input_tokens": 101})
    body = denied.json()
    assert (denied.status, body["code"]) == (429, code)
    assert (body["retryable"], body["retry_after_ms"]) == (False, None)
    assert denied.header("Retry-After") is None


def test_all_subjects_or_none(server, key):
    rich, poor = f"{{{key}}}rich", f"{{{key}}}poor"
    for subject, amount in ((rich, 100), (poor, 10)):
        put(server, subject.replace("{", "%7B").replace("}", "%7D"), tokens(amount))
    denied = call(server, "reserve", {"subjects": [rich, poor], "input_tokens": 11})
    assert denied.status == 429
    assert [limit["subject"] for limit in denied.json()["violated"]] == [poor]
    both = reserve(server, rich, poor, input_tokens=10)
    assert [subject["name"] for subject in both["subjects"]] == [rich, poor]
    assert [subject["limits"][0]["used"] for subject in both["subjects"]] == [10, 10]


def test_a_call_that_may_wait_names_any_subjects(server, key):
    tight, wide = f"{key}a", f"{key}b"
    put(server, tight, tokens(10))
    put(server, wide, tokens(100))
    reserve(server, tight, input_tokens=10)
    waits = {"subjects": [wide, tight], "input_tokens": 1, "wait_limit_ms": 30}
    response = call(server, "reserve", waits)
    assert (response.status, response.json()["code"]) == (429, "wait_limit")
    assert [limit["subject"] for limit in response.json()["violated"]] == [tight]


def test_unknown_subjects_are_allowed_without_a_trace(server, key):
    assert reserve(server, key, input_tokens=5)["code"] == "unknown_subject_allowed"
    assert ask(server, "GET", f"/v1/subjects/{key}").status == 404


def test_check_answers_like_reserve_and_changes_nothing(server, key):
    put(server, key, tokens(10))
    fits = call(server, "check", {"subjects": [key], "input_tokens": 10})
    assert fits.status == 200
    assert "reservation" not in fits.json()
    assert used(server, key) == 0
    denied = call(server, "check", {"subjects": [key], "input_tokens": 11, "wait_limit_ms": 1000})
    assert (denied.status, denied.json()["code"]) == (429, "exceeds_limit")


def test_record_charges_without_a_reservation(server, key):
    put(server, key, tokens(10), {"name": "in", "metric": "input_tokens", "amount": 100})
    recorded = call(server, "record", {"subjects": [key], "input_tokens": 30,
                                       "cached_input_tokens": 20, "output_tokens": 1})
    assert recorded.status == 200
    assert limit_of(recorded.json()["subjects"][0], "tph")["used"] == 11
    assert used(server, key, "in") == 10


def test_reset_clears_usage_but_not_open_reservations(server, key):
    put(server, key, tokens(100), slots(2))
    call(server, "record", {"subjects": [key], "input_tokens": 30})
    reserve(server, key, input_tokens=20)
    response = call(server, "reset", {"subject": key})
    assert (response.status, response.json()) == (200, {"subject": key})
    after = show(server, key)
    assert limit_of(after, "slots")["used"] == 1
    assert limit_of(after, "tph")["used"] == limit_of(after, "tph")["reserved"]


def test_reset_all_clears_every_shard(start_server):
    server = start_server()
    names = [f"all{number}" for number in range(16)]
    for name in names:
        put(server, name, tokens(10))
        call(server, "record", {"subjects": [name], "input_tokens": 5})
    assert ask(server, "POST", "/v1/reset-all").status == 200
    assert [used(server, name) for name in names] == [0] * len(names)


# ------------------------------------------------------------------------------------- waiting

def test_a_waiting_reservation_is_held_until_it_fits(server, key):
    put(server, key, tokens(100), slots(1))
    first = reserve(server, key, input_tokens=10)
    with waiting_call(server, key, input_tokens=20) as peer:
        assert peer.is_silent(0.2)
        call(server, "settle", {"reservation": first["reservation"]})
        answer = peer.read()
        assert answer.status == 200
        assert answer.json()["code"] == "ok"
        limit = limit_of(answer.json()["subjects"][0], "tph")
        assert (limit["used"], limit["reserved"]) == (30, 20)
        assert answer.json()["expires_in_ms"] > 0
        # The connection stays open, and the reservation is usable.
        data = encoded({"reservation": answer.json()["reservation"]})
        ended = peer.ask("POST", "/v1/cancel", f"Content-Length: {len(data)}", body=data)
        assert ended.json()["state"] == "cancelled"


def test_waiters_are_served_in_their_order(server, key):
    put(server, key, slots(1))
    holder = reserve(server, key)["reservation"]
    peers = [waiting_call(server, key) for _ in range(3)]
    for peer in peers:
        call(server, "cancel", {"reservation": holder})
        holder = peer.read().json()["reservation"]
        peer.close()


def test_a_wait_that_times_out_reports_the_reason(server, key):
    put(server, key, slots(1))
    reserve(server, key)
    started = time.monotonic()
    answer = call(server, "reserve", {"subjects": [key], "wait_limit_ms": 150})
    assert time.monotonic() - started >= 0.15
    body = answer.json()
    assert (answer.status, body["code"]) == (429, "wait_limit")
    assert [limit["name"] for limit in body["violated"]] == ["slots"]
    assert body["retryable"] is True
    assert show(server, key)["waiting"] == 0


def test_a_wait_that_cannot_help_is_refused_at_once(server, key):
    put(server, key, {"name": "f", "metric": "tokens", "amount": 10, "kind": "fixed",
                      "period_ms": HOUR_MS})
    call(server, "record", {"subjects": [key], "input_tokens": 10})
    answer = call(server, "reserve", {"subjects": [key], "input_tokens": 1, "wait_limit_ms": 1000})
    assert (answer.status, answer.json()["code"]) == (429, "deadline_unmeetable")


def test_a_lowered_quota_answers_its_waiters(server, key):
    put(server, key, tokens(100), slots(1))
    reserve(server, key)
    with waiting_call(server, key, input_tokens=50) as peer:
        put(server, key, tokens(40), slots(1))
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (429, "exceeds_limit")
        assert answer.json()["retryable"] is False


@pytest.mark.parametrize("leave", [HttpPeer.close, HttpPeer.reset, HttpPeer.half_close])
def test_a_client_that_leaves_is_removed_from_the_queue(server, key, leave):
    put(server, key, slots(1))
    holder = reserve(server, key)["reservation"]
    peer = waiting_call(server, key)
    leave(peer)
    eventually(lambda: show(server, key)["waiting"] == 0, "the waiter left the queue")
    call(server, "cancel", {"reservation": holder})
    assert show(server, key)["open_reservations"] == 0
    peer.close()


def test_shutdown_answers_waiters_and_newcomers(start_server, key):
    server = start_server()
    put(server, key, slots(1))
    holder = reserve(server, key)["reservation"]
    with waiting_call(server, key) as peer, HttpPeer(server) as other:
        data = encoded({"reservation": holder})
        other.send(request("POST", "/v1/settle", f"Content-Length: {len(data)}",
                           "Expect: 100-continue"))
        assert other.read().status == 100, "the head is read"
        server.signal(signal.SIGTERM)
        answer = peer.read()
        assert (answer.status, answer.json()["code"]) == (503, "draining")
        assert answer.header("Retry-After") == "1"
        assert answer.header("Connection") == "close"
        other.send(data)
        assert other.read().json()["state"] == "settled"
    assert server.wait() == 0


# ------------------------------------------------------------------------- requests as bytes

def test_chunked_bodies_are_bodies(server, key):
    put(server, key, tokens(10))
    body = encoded({"subjects": [key], "input_tokens": 3})
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
    answer = ask(server, "POST", "/v1/reserve", "Transfer-Encoding: chunked",
                 body=chunked + b"0\r\n\r\n")
    assert answer.status == 200
    assert used(server, key) == 3


def test_waits_for_the_whole_body_before_deciding(server, key):
    put(server, key, tokens(10))
    data = encoded({"subjects": [key], "input_tokens": 3})
    whole = request("POST", "/v1/record", f"Content-Length: {len(data)}", body=data)
    with HttpPeer(server) as peer:
        for byte in range(len(whole)):
            peer.send(whole[byte:byte + 1])
            if byte == len(whole) - 2:
                assert used(server, key) == 0
        assert peer.read().status == 200
    assert used(server, key) == 3


def test_pipelined_requests_are_answered_in_order(server, key):
    put(server, key, tokens(100))
    data = encoded({"subjects": [key], "input_tokens": 1})
    one = request("POST", "/v1/record", f"Content-Length: {len(data)}", body=data)
    rate = request("POST", f"/rate/{key}", "Accept: application/json")
    with HttpPeer(server) as peer:
        peer.send((one + rate) * 20)
        for count in range(1, 21):
            assert peer.read().json()["subjects"][0]["limits"][0]["used"] == count
            assert "request_id" in peer.read().json()


def test_a_body_that_is_expected_is_asked_for(server, key):
    data = encoded({"subjects": [key]})
    with HttpPeer(server) as peer:
        peer.send(request("POST", "/v1/check", f"Content-Length: {len(data)}",
                          "Expect: 100-continue"))
        assert peer.read().status == 100
        peer.send(data)
        assert peer.read().status == 200


@pytest.mark.parametrize("body, code", [
    (b"", "invalid_request"), (b"{", "invalid_request"), (b"[]", "invalid_request"),
    ({}, "invalid_request"), ({"subjects": ["a"], "tokens": 1}, "invalid_request"),
    ({"subjects": ["a"], "requests": 1.5}, "invalid_request"),
    ({"subjects": ["a"], "input_tokens": -1}, "invalid_tokens"),
    ({"subjects": ["a", "a"]}, "invalid_subject"), ({"subjects": [""]}, "invalid_subject"),
    ({"subjects": ["x" * 1025]}, "invalid_subject"),
    (b'{"subjects": ["a"], "subjects": ["b"]}', "invalid_request")])
def test_bad_values_are_refused(server, body, code):
    response = call(server, "reserve", body)
    assert (response.status, response.json()["code"]) == (400, code)
    assert response.header("Content-Type") == PROBLEM
    assert response.header("Connection") is None


def test_too_large_a_body_ends_the_connection(server):
    response = ask(server, "POST", "/v1/reserve", "Content-Length: 65537")
    assert response.status == 413


@pytest.mark.parametrize("path, allow", [
    ("/v1/subjects", "OPTIONS, GET"), ("/v1/subjects/a", "OPTIONS, GET, PUT, DELETE"),
    ("/v1/reserve", "OPTIONS, POST"), ("/openapi.json", "OPTIONS, GET")])
def test_other_methods_are_not_allowed(server, path, allow):
    for method in ("PATCH", "HEAD"):
        response = ask(server, method, path)
        assert (response.status, response.header("Allow")) == (405, allow)
    options = ask(server, "OPTIONS", path)
    assert (options.status, options.header("Allow")) == (204, allow)


# ------------------------------------------------------------------------------------- headers

def test_headers_in_a_providers_style(server, key):
    put(server, key, {"name": "rpm", "metric": "requests", "amount": 60, "period_ms": 60_000},
        tokens(30_000))
    body = {"subjects": [key], "input_tokens": 1_000, "max_output_tokens": 0}
    openai = call(server, "check", body, "X-RateLimit-Style: openai")
    assert openai.header("x-ratelimit-limit-requests") == "60"
    assert openai.header("x-ratelimit-remaining-tokens") == "30000"
    assert openai.header("x-ratelimit-reset-requests") == "0ms"
    anthropic = call(server, "check", body, query="?headers=anthropic")
    assert anthropic.header("anthropic-ratelimit-tokens-limit") == "30000"
    assert anthropic.header("anthropic-ratelimit-requests-reset").endswith("Z")
    assert anthropic.header("x-ratelimit-limit-requests") is None
    denied = call(server, "reserve", {**body, "requests": 61}, "X-RateLimit-Style: openai")
    assert denied.json()["code"] == "exceeds_limit"
    reserve(server, key, requests=60)
    denied = call(server, "reserve", body, "X-RateLimit-Style: openai")
    assert int(denied.header("retry-after-ms")) == denied.json()["retry_after_ms"]
    assert call(server, "check", body, "X-RateLimit-Style: other").status == 400


def test_the_description_is_served(server):
    response = ask(server, "GET", "/openapi.json")
    assert (response.status, response.header("Content-Type")) == (200, "application/json")
    assert response.json()["openapi"] == "3.1.0"
