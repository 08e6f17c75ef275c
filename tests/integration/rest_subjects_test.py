"""REST: GET and PUT of subjects. Method: raw requests; every test has subjects of its own."""

from http_peer import ask
from quota_calls import HOUR_MS, call, encoded, limit_of, put, show, tokens


def test_reports_only_the_first_faults(server, key):
    data = encoded({"limits": [{f"field{number}": 0 for number in range(60)}] * 16})
    response = ask(server, "PUT", f"/v1/subjects/{key}", f"Content-Length: {len(data)}", body=data)
    body = response.json()
    assert response.status == 400 and len(response.body) < 8_000
    assert len(body["complaints"]) == 20
    assert body["complaints_left_out"] >= 16 * 60 - 20


EVERY_KIND = [
    {"name": "fixed", "metric": "requests", "amount": 7, "period_ms": 60_000, "kind": "fixed"},
    {"name": "sliding", "metric": "tokens", "amount": 1_000, "period_ms": HOUR_MS},
    {"name": "gcra", "metric": "input_tokens", "amount": 9, "period_ms": HOUR_MS,
     "kind": "gcra", "count_cached": True},
    {"name": "anchored", "metric": "output_tokens", "amount": 0, "kind": "anchored_day"},
    {"name": "rolling", "metric": "requests", "amount": "unlimited", "kind": "rolling_day"},
    {"name": "month", "metric": "cost", "amount": 2**63 - 1, "kind": "calendar",
     "period": "month", "time_zone": "America/Los_Angeles"},
    {"name": "hour", "metric": "cost", "amount": 5, "kind": "calendar", "period": "hour"},
    {"name": "blocked", "metric": "cost", "amount": "block", "period_ms": 60_000},
    {"name": "slots", "metric": "concurrency", "amount": 4},
    {"name": "all \u00fc \"slots\"", "metric": "concurrency", "amount": "unlimited"}]


def test_the_answer_of_get_can_be_edited_and_put(server, key):
    put(server, key, *EVERY_KIND, expired="refund", overtakers=3)
    call(server, "record", {"subjects": [key], "requests": 2, "input_tokens": 5})
    first = show(server, key)
    data = encoded(first)
    again = ask(server, "PUT", f"/v1/subjects/{key}", f"Content-Length: {len(data)}", body=data)
    assert again.status == 200, again
    timeless = [[{**limit, "reset_ms": 0} for limit in shown["limits"]]
                for shown in (first, again.json())]
    assert timeless[0] == timeless[1]  # usage too, since nothing has changed
    assert {**first, "limits": []} == {**again.json(), "limits": []}
    limit_of(first, "fixed")["amount"] = 9
    first.update(name="another", overtakers=0)
    data = encoded(first)
    edited = ask(server, "PUT", f"/v1/subjects/{key}", f"Content-Length: {len(data)}", body=data)
    shown = edited.json()
    assert (shown["name"], shown["overtakers"]) == (key, 0)
    assert (limit_of(shown, "fixed")["amount"], limit_of(shown, "fixed")["used"]) == (9, 2)
    # Misspelt fields, and fields of answers only: the server could not know the intention.
    for wrong in ("limit", "useds"):
        limit = {**limit_of(first, "fixed"), wrong: 8}
        data = encoded({"limits": [limit]})
        assert ask(server, "PUT", f"/v1/subjects/{key}", f"Content-Length: {len(data)}",
                   body=data).json()["code"] == "invalid_quota"


def test_names_that_are_not_utf_8_leave_json_valid(server, key):
    put(server, f"%FF{key}%E2%82", tokens(10))
    shown = "\ufffd" + key + "\ufffd\ufffd"  # one for each byte
    assert show(server, f"%ff{key}%e2%82")["name"] == shown
    cursor, names = "", []
    while cursor is not None:
        page = ask(server, "GET", "/v1/subjects" + (f"?cursor={cursor}" if cursor else ""))
        page.body.decode("utf-8")
        names += [subject["name"] for subject in page.json()["subjects"]]
        cursor = page.json()["cursor"]
    assert shown in names
    body = b'{"subjects": ["\xff%s\xe2\x82"]}' % key.encode()
    refused = call(server, "reserve", body)
    assert (refused.status, refused.json()["code"]) == (400, "invalid_request")
    assert ask(server, "DELETE", f"/v1/subjects/%FF{key}%E2%82").status == 204
