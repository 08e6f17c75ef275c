"""REST: what a GET tells of subjects and what a PUT takes. Method: raw requests; every test has
subjects of its own."""

from http_peer import ask
from quota_calls import call, encoded, put, show, tokens


def test_only_the_first_things_that_are_wrong_are_told(server, key):
    data = encoded({"limits": [{f"field{number}": 0 for number in range(60)}] * 16})
    response = ask(server, "PUT", f"/v1/subjects/{key}", f"Content-Length: {len(data)}", body=data)
    body = response.json()
    assert response.status == 400 and len(response.body) < 8_000
    assert len(body["complaints"]) == 20
    assert body["complaints_left_out"] >= 16 * 60 - 20


def test_names_that_are_not_utf_8_leave_json_valid(server, key):
    put(server, f"%FF{key}%E2%82", tokens(10))
    shown = "\ufffd" + key + "\ufffd"
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
