"""Sections 1.1 and 1.7: the methods of each path, and the answers to all other requests.
Run: `run --binary PATH routes_test.py`, or `run --url http://HOST:PORT routes_test.py`."""

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import Peer, ask, counts_of, exchange, state_of

NOT_FOUND = (b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nDate: now\r\n"
             b"Content-Length: 24\r\n\r\n", b'{"message":"Not Found"}\n')

KNOWN = [("/rate/k", "OPTIONS, GET, POST"), ("/rate/k/id", "OPTIONS, DELETE"),
         ("/rate/k/id/more", "OPTIONS, DELETE"), ("/rate//id", "OPTIONS, DELETE"),
         ("/debug", "OPTIONS, GET"), ("/debug/k", "OPTIONS, GET"), ("/debug/k/", "OPTIONS, GET"),
         ("/debug/a/b", "OPTIONS, GET"), ("/healthz", "OPTIONS, GET")]

UNKNOWN = ["/", "/rate", "/rate/", "/rate/k/", "/debug/", "/healthz/", "/Rate/k", "/RATE/k/1",
           "/DEBUG", "/Healthz", "//rate/k", "/rate//", "/x/rate/k", "/rates/k", "/ratek",
           "/%72ate/k", "/rate%2Fk", "/%68ealthz", "/.", "/..",
           pytest.param("*", marks=pytest.mark.http1("* as the target of any method"))]


@pytest.mark.section("1.1")
@pytest.mark.parametrize("method, target, gocc", [
    ("GET", "/rate/k", 200), ("POST", "/rate/k", 200), ("DELETE", "/rate/k/1", 200),
    ("GET", "/debug", 200), ("GET", "/debug/k", 200), ("GET", "/healthz", 200)])
def test_route(server, expect, key, method, target, gocc):
    ask(server, "POST", f"/rate/{key}")
    expect(ask(server, method, target.replace("/k", f"/{key}")).status, gocc=gocc)


@pytest.mark.section("1.1")
@pytest.mark.parametrize("target", ["/healthz?x=y", "/healthz?", "/debug?", "/rate/k?", "/debug??"])
def test_query_does_not_matter_for_the_route(server, expect, target):
    expect(ask(server, "GET", target).status, gocc=200)


@pytest.mark.section("1.7")
@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_path(server, expect, path):
    for method in ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "BREW"]:
        if (method, path) != ("OPTIONS", "*"):  # transport_test.py checks that
            answer = ask(server, method, path)
            expect((answer.raw, answer.body), gocc=NOT_FOUND, of=method)


OURS = {"/rate/k": "OPTIONS, GET, POST, DELETE"}  # where more methods are known

METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH", "TRACE", "PROPFIND", "BREW", "get"]


def expect_allow(expect, path, allow, observed, answer_with, **of):
    """`answer_with(allow)` is the answer with this Allow."""
    ours = {"ours": answer_with(OURS[path].encode()), "topic": "more paths"} if path in OURS else {}
    expect(observed, gocc=answer_with(allow.encode()), **ours, **of)


def expect_not_allowed(server, expect, method, path, allow):
    answer = ask(server, method, path)
    expect_allow(expect, path, allow, (answer.raw, answer.body), lambda allowed: (
        b"HTTP/1.1 405 Method Not Allowed\r\nAllow: %s\r\nContent-Type: application/json"
        b"\r\nDate: now\r\nContent-Length: 33\r\n\r\n" % allowed,
        b'{"message":"Method Not Allowed"}\n'), of=method)


@pytest.mark.section("1.7")
@pytest.mark.parametrize("path, allow", by_first(KNOWN))
def test_method_that_a_path_does_not_have(server, expect, path, allow):
    for method in METHODS:
        if method not in OURS.get(path, allow):
            expect_not_allowed(server, expect, method, path, allow)


@pytest.mark.http1("CONNECT with a path")
@pytest.mark.section("1.7")
@pytest.mark.parametrize("path, allow", by_first(KNOWN))
def test_connect(server, expect, path, allow):
    expect_not_allowed(server, expect, "CONNECT", path, allow)


@pytest.mark.section("1.7")
@pytest.mark.parametrize("path, allow", by_first(KNOWN))
def test_options(server, expect, path, allow):
    answer, closed = exchange(server, request("OPTIONS", path))
    expect_allow(expect, path, allow, (answer.raw, closed), lambda allowed: (
        b"HTTP/1.1 204 No Content\r\nAllow: %s\r\nDate: now\r\n\r\n" % allowed, False))


@pytest.mark.section("1.7")
@pytest.mark.parametrize("path, allow", by_first(KNOWN))
def test_head_is_not_implied_by_get(server, expect, path, allow):
    with Peer(server) as peer:
        answer = peer.ask("HEAD", path)
        after = peer.ask("GET", "/healthz").status  # no body was left over
    expect_allow(expect, path, allow, (answer.raw, after), lambda allowed: (
        b"HTTP/1.1 405 Method Not Allowed\r\nAllow: %s\r\nDate: now\r\n\r\n" % allowed, 200))


@pytest.mark.section("1.7")
def test_head_of_an_unknown_path(server, expect):
    with Peer(server) as peer:
        answer = peer.ask("HEAD", "/none")
        after = peer.ask("GET", "/healthz").status
    expect((answer.raw, after), gocc=(b"HTTP/1.1 404 Not Found\r\nDate: now\r\n\r\n", 200))


@pytest.mark.section("1.7")
def test_delete_of_a_key(server, expect, key):
    ask(server, "POST", f"/rate/{key}")
    answer = ask(server, "DELETE", f"/rate/{key}")
    expect((answer.status, answer.body, counts_of(server, key)[0]),
           gocc=(405, b'{"message":"Method Not Allowed"}\n', 1), ours=(200, b"", 0),
           topic="more paths")


@pytest.mark.section("1.7")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS", "DELETE", "post"])
def test_wrong_method_takes_no_permit(server, expect, key, method):
    ask(server, method, f"/rate/{key}")
    expect(state_of(server, key), gocc=None)


@pytest.mark.section("1.7")
def test_key_with_a_slash_is_no_key(server, expect, key):
    answer = ask(server, "GET", f"/rate/{key}/b")
    expect((answer.status, state_of(server, f"{key}/b")), gocc=(405, None))
