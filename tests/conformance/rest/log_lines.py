"""Shared by the cases about the log: servers with flags of their own, and their lines."""

import time

import pytest

from http_peer import request
from rest_peer import Peer, ask, permit, settles, waiting
from target import StartFailed

HOUR = ("--window-millis", "3600000")
NO_SOURCE = "--log-includes-source=false"
ALL = (*HOUR, NO_SOURCE, "--log2xx", "--log4xx")
MARK = "X-Correlation-ID"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


@pytest.fixture
def logging(shared, expect):
    """A server shared by cases; a failed start is a difference."""
    def get(*flags):
        try:
            return shared(*flags)
        except StartFailed as failure:
            expect(failure.brief(), gocc="it starts", of=" ".join(flags))
    return get


def lines_after(server, action):
    """The JSON lines of `action`: all lines before those of a later request, and of a moment after
    it, since other shards may write later."""
    before = len(server.log)
    action()
    mark = f"end-{time.monotonic_ns()}"
    ask(server, "POST", "/rate/the-end?canWait=x", f"{MARK}: {mark}")
    came = settles(lambda: any(line.get("correlation-id") == mark
                               for line in server.log[before:]), 10)
    assert came, "a refused request is logged"
    time.sleep(0.05)
    return [line for line in server.log[before:]
            if line.get("correlation-id") != mark
            and line.get("request", {}).get("path") != "/rate/the-end"]


def of_requests(lines):
    return [line for line in lines if "response" in line]


def wait_and_leave(server, key):
    permit(server, key, "maxRequests=1")
    peer = Peer(server)
    peer.send(request("POST", f"/rate/{key}?canWait=true", f"{MARK}: abc"))
    assert settles(lambda: waiting(server, key) == 1, 30)
    peer.close()
    assert settles(lambda: waiting(server, key) == 0, 30)
