"""Sections 1.6 and 1.8: /healthz, and the effect of request headers. logging_*_test.py check their
effect on the log. Run: `run --binary PATH headers_test.py`, or
`run --url http://HOST:PORT headers_test.py`."""

import pytest

from expectation import Like
from rest_peer import ask, counts_of, permit


@pytest.mark.section("1.6")
@pytest.mark.parametrize("target", ["/healthz", "/healthz?x=y"])
def test_health(server, expect, target):
    answer = ask(server, "GET", target)
    node = r"Sluicegate-Node: native=\d+, shards=\d+, instance=[0-9a-f]{16}\r\n"
    expect((answer.raw, answer.body),
           gocc=(b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 0\r\n\r\n", b""),
           ours=(Like(f"HTTP/1.1 200 OK\r\n{node}Date: now\r\nContent-Length: 0\r\n\r\n"), b""),
           topic="extra headers")


@pytest.mark.section("1.6")
@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_health_is_empty_whatever_is_accepted(server, expect, accept):
    expect(ask(server, "GET", "/healthz", f"Accept: {accept}").brief(), gocc=(200, None, b""))


@pytest.mark.section("1.8")
@pytest.mark.parametrize("host", [
    "localhost", "other.example", "10.0.0.1:1", "[::1]:80",
    pytest.param("", marks=pytest.mark.http1("an empty Host"))])
def test_host_does_not_matter(server, expect, key, host):
    answer = ask(server, "POST", f"/rate/{key}", f"Host: {host}", version="1.0")
    expect(answer.status, gocc=200)


@pytest.mark.section("1.8")
@pytest.mark.parametrize("name", ["X-Correlation-ID", "X-Request-Id", "x-request-id"])
def test_ids_of_the_caller_are_not_echoed(server, expect, key, name):
    answer = ask(server, "POST", f"/rate/{key}", f"{name}: abc")
    expect([header for header in answer.names() if "-I" in header.upper()], gocc=[])


@pytest.mark.section("1.8")
@pytest.mark.parametrize("header", [
    "X-HTTP-Method-Override: DELETE", "X-Forwarded-For: 10.0.0.1", "X-Original-URL: /rate/other/1",
    "Range: bytes=0-0", "If-None-Match: *", "Content-Encoding: gzip", "Accept-Charset: utf-16"])
def test_other_headers_do_not_matter(steady, expect, key, header):
    permit(steady, key)
    answer = ask(steady, "POST", f"/rate/{key}", header)
    expect((answer.status, answer.body.isdigit(), counts_of(steady, key)),
           gocc=(200, True, (2, 0, 0)))
