"""Quota calls of tests over REST: requests under /v1/, and the quotas for them.

Tests use subjects of their own; a limit's period is an hour unless a test is about time.
"""

import json

from http_peer import HttpPeer, ask, request
from server_process import eventually

PROBLEM = "application/problem+json"
HOUR_MS = 3_600_000


def encoded(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def call(server, name, body, *headers, query=""):
    """POSTs to /v1/`name`."""
    data = encoded(body)
    return ask(server, "POST", f"/v1/{name}{query}", f"Content-Length: {len(data)}", *headers,
               body=data)


def put(server, subject, *limits, **quota):
    """Sets a subject's quota; a limit's period is an hour unless given."""
    full = [limit if "kind" in limit or "period_ms" in limit or limit["metric"] == "concurrency"
            else {**limit, "period_ms": HOUR_MS} for limit in limits]
    data = encoded({"limits": full, **quota})
    response = ask(server, "PUT", f"/v1/subjects/{subject}", f"Content-Length: {len(data)}",
                   body=data)
    assert response.status == 200, response
    return response.json()


def show(server, subject):
    response = ask(server, "GET", f"/v1/subjects/{subject}")
    assert response.status == 200, response
    return response.json()


def limit_of(subject, name):
    return next(limit for limit in subject["limits"] if limit["name"] == name)


def used(server, subject, name="tph"):
    return limit_of(show(server, subject), name)["used"]


def reserve(server, *subjects, **fields):
    response = call(server, "reserve", {"subjects": subjects, **fields})
    assert response.status == 200, response
    return response.json()


def tokens(amount, name="tph"):
    return {"name": name, "metric": "tokens", "amount": amount}


def slots(amount):
    return {"name": "slots", "metric": "concurrency", "amount": amount}


def waiting_call(server, subject, **fields):
    """A client that waits in the subject's queue."""
    before = show(server, subject)["waiting"]
    data = encoded({"subjects": [subject], "wait_limit_ms": 60_000, **fields})
    peer = HttpPeer(server)
    peer.send(request("POST", "/v1/reserve", f"Content-Length: {len(data)}", body=data))
    eventually(lambda: show(server, subject)["waiting"] == before + 1, "it waits")
    return peer
