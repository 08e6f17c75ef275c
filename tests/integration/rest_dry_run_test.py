"""REST: ?dry_run=true reports what an administrative call would change, and changes nothing.
Method: the same call with and without it, and a GET and the log after each."""

import pytest

from http_peer import ask
from quota_calls import call, encoded, limit_of, put, reserve, show, slots, tokens
from server_process import eventually


def send(server, method, path, body=None):
    if body is None:
        return ask(server, method, path, "Content-Length: 0")
    data = encoded(body)
    return ask(server, method, path, f"Content-Length: {len(data)}", body=data)


def state(server, subject):
    """The answer of GET, without the fields that time changes."""
    reported = show(server, subject)
    return {**reported, "limits": [{**limit, "reset_ms": 0} for limit in reported["limits"]]}


def changes(server):
    return [line["message"] for line in server.log if line["level"] == "INFO" and "peer" in line]


@pytest.fixture
def used_subject(server, key):
    put(server, key, tokens(1_000), slots(2))
    call(server, "record", {"subjects": [key], "input_tokens": 300})
    reserve(server, key, input_tokens=50)
    return key


NEW = {"limits": [{"name": "tph", "metric": "tokens", "amount": 10, "period_ms": 3_600_000,
                   "kind": "sliding"}]}


def calls_on(subject):
    return [("PUT", f"/v1/subjects/{subject}", NEW), ("POST", "/v1/reset", {"subject": subject}),
            ("DELETE", f"/v1/subjects/{subject}", None), ("POST", "/v1/reset-all", None)]


def test_a_dry_run_changes_nothing(server, used_subject):
    before = state(server, used_subject)
    assert limit_of(before, "tph")["used"] == 350
    # The log is written later than the answer.
    eventually(lambda: any(line.get("subject") == used_subject for line in server.log),
               "the log has the change that made the subject")
    for method, path, body in calls_on(used_subject):
        changes_before = changes(server)
        answer = send(server, method, path + "?dry_run=true", body)
        assert answer.status == 200, answer
        reported = answer.json()
        assert reported.pop("dry_run") is True
        if path != "/v1/reset-all":
            assert reported["subject"] == used_subject
            assert limit_of(reported["present"], "tph")["used"] == 350
        assert reported.get("quota") == (NEW if method == "PUT" else None)
        assert state(server, used_subject) == before
        assert changes(server) == changes_before


def test_the_same_call_without_dry_run_makes_the_reported_change(server, used_subject):
    path = f"/v1/subjects/{used_subject}"
    put_now = send(server, "PUT", path + "?dry_run=false", NEW)
    assert put_now.status == 200 and "dry_run" not in put_now.json()
    assert limit_of(show(server, used_subject), "tph")["amount"] == 10
    assert limit_of(show(server, used_subject), "tph")["used"] == 350
    assert send(server, "POST", "/v1/reset", {"subject": used_subject}).status == 200
    assert limit_of(show(server, used_subject), "tph")["used"] == 50  # open reservations stay
    call(server, "record", {"subjects": [used_subject], "input_tokens": 7})
    assert send(server, "POST", "/v1/reset-all").json() == {}
    assert limit_of(show(server, used_subject), "tph")["used"] == 50
    assert send(server, "DELETE", path).status == 204
    assert ask(server, "GET", path).status == 404


def test_subject_without_a_quota_has_no_present_state(server, key):
    path = f"/v1/subjects/{key}"
    assert send(server, "PUT", path + "?dry_run=true", NEW).json() == {
        "dry_run": True, "subject": key, "quota": NEW}
    assert send(server, "POST", "/v1/reset?dry_run=true", {"subject": key}).json() == {
        "dry_run": True, "subject": key}
    for query in ("", "?dry_run=true"):
        refused = send(server, "DELETE", path + query)
        assert (refused.status, refused.json()["code"]) == (404, "no_such_quota")
    assert ask(server, "GET", path).status == 404


def test_wrong_calls_are_refused_alike(server, used_subject):
    path = f"/v1/subjects/{used_subject}"
    for method, where, body in (("PUT", path, {"limits": [{"name": "x"}]}), ("PUT", path, b"{"),
                                ("POST", "/v1/reset", {}), ("POST", "/v1/reset-all", {"x": 1})):
        plain, dry = (send(server, method, where + query, body) for query in ("", "?dry_run=true"))
        assert plain.status == dry.status == 400 and plain.json() == dry.json()


def test_an_unclear_dry_run_does_nothing(server, used_subject):
    before = state(server, used_subject)
    for query in ("?dry_run", "?dry_run=1", "?dry_run=TRUE"):
        for method, path, body in calls_on(used_subject):
            refused = send(server, method, path + query, body)
            assert refused.status == 400
            assert refused.json()["detail"] == "dry_run: must be true or false"
    for query in ("?dry-run=true", "?dryRun=true", "?dry_run=true&limit=1", "?x=1;dry_run=true",
                  "?dry_run=%zz", "?dry_run=false&dry_run=true"):
        for method, path, body in calls_on(used_subject):
            refused = send(server, method, path + query, body)
            assert refused.status == 400
            assert refused.json()["detail"].startswith("the query: ")
    refused = call(server, "record", {"subjects": [used_subject]}, query="?dry_run=true")
    assert refused.status == 400 and "dry_run: not supported here" in refused.json()["detail"]
    assert state(server, used_subject) == before
