"""Section 1.0: connections, heads, bodies, and features that do not exist.
Run: `run --binary PATH transport_test.py`, or `run --url http://HOST:PORT transport_test.py`."""

import os
import socket
import struct

import pytest

from expectation import Like, by_first, named
from http2_attacker import (ACK, CANCEL, CONTINUATION, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM,
                            HEADERS, NO_ERROR, PREFACE, PROTOCOL_ERROR, RST_STREAM, SETTINGS,
                            WINDOW_UPDATE, Http2Attacker, ask_frame, field, frame, head, streams)
from http2_peer import MAX_CONCURRENT_STREAMS, NoHttp2
from http_peer import request
from rest_peer import (TEXT, Http1Peer, Http2Peer, Peer, ask, counts_of, exchange, free_port,
                       permit, settles, state_of, waiter, waiting)

pytestmark = pytest.mark.section("1.0")

# ----------------------------------------------------------------------------------------- ports

@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_listens_on_all_interfaces(shared, expect, host):
    if host == "::1" and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("needs IPv6")
    port = shared("--window-millis", "3600000").port
    with socket.create_connection((host, port), 30) as peer:
        peer.sendall(request("GET", "/healthz"))
        expect(peer.recv(4_096).split(b"\r\n")[0], gocc=b"HTTP/1.1 200 OK")


def test_port_0_is_any_free_one(start, expect):
    server = start(port=0)
    expect(ask(server, "GET", "/healthz").status, gocc=200)


def test_port_is_the_one_asked_for(start, expect):
    server = start(port=free_port())
    expect(ask(server, "GET", "/healthz").status, gocc=200)


# ---------------------------------------------------------------------------------- server types

@pytest.mark.parametrize("kind", ["echo", "echo-http2"])
def test_server_type_speaks_http_1(start, expect, kind, key):
    server = start("--server-type", kind)
    with Http1Peer(server) as peer:
        answer = peer.ask("POST", f"/rate/{key}")
    expect((answer.status, answer.body), gocc=(200, b"1"))


@pytest.mark.parametrize("kind, gocc", by_first([("echo", "no"), ("echo-http2", "yes")]))
def test_server_type_speaks_http_2(start, expect, kind, gocc):
    try:
        Http2Peer(start("-s", kind)).close()
        spoken = "yes"
    except NoHttp2:
        spoken = "no"
    expect(spoken, gocc=gocc)


@pytest.mark.gocc_http1("has no server type fast")
@pytest.mark.parametrize("method, path, ours", by_first([
    ("GET", "/healthz", (200, b"")), ("POST", "/rate/k?maxRequests=x", (400, None)),
    ("PUT", "/no/such/path", (404, None)), ("DELETE", "/debug", (405, None))]))
def test_server_type_fast(shared, expect, method, path, ours):
    answer = ask(shared("--server-type", "fast"), method, path)
    body = answer.body if answer.status == 200 else None
    expect((answer.status, body), gocc=(200, b""), ours=ours, topic="server-type")


@pytest.mark.gocc_http1("has no server type fast")
def test_server_header_of_server_type_fast(shared, expect):
    answer = ask(shared("--server-type", "fast"), "GET", "/healthz")
    expect(answer.header("Server"), gocc="fasthttp", ours=None, topic="server-type")


# ----------------------------------------------------------------------------------------- HTTP/2

def test_http_2_by_prior_knowledge(server, expect, key):
    with Http2Peer(server) as peer:
        answer = peer.ask("POST", f"/rate/{key}")
    expect((answer.status, answer.body.isdigit()), gocc=(200, True))


def test_http_2_streams_of_a_connection(server, expect):
    with Http2Peer(server) as peer:
        expect(peer.settings.get(MAX_CONCURRENT_STREAMS), gocc=250)


HTTP2_SETTINGS = "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"
UPGRADE = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"]


def test_http_2_by_upgrade(server, expect):
    with Http1Peer(server) as peer:
        peer.send(request("GET", "/healthz", *UPGRADE, HTTP2_SETTINGS))
        line = peer._until(b"\r\n")
    expect(line, gocc=b"HTTP/1.1 101 Switching Protocols\r\n")


@pytest.mark.parametrize("headers, body, ours", named([
    ("of known length", ["Content-Length: 5"], b"hello", 200),
    ("in chunks", ["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n", 200),
    ("of 400 kB", ["Content-Length: 400000"], b"x" * 400_000, 413)]))
def test_http_2_by_upgrade_with_a_body(server, expect, key, headers, body, ours):
    with Http1Peer(server) as peer:
        peer.send(request("POST", f"/rate/{key}", *UPGRADE, HTTP2_SETTINGS, *headers))
        expect(peer.is_silent(1), gocc=True, ours=False, topic="Upgrade: h2c",
               of="silent without it")
        try:
            peer.send(body)
        except ConnectionError:  # it need not read all of it
            pass
        expect(peer.read().status, gocc=101, ours=ours, topic="Upgrade: h2c", of="then")


NO_UPGRADE = [
    ("no settings", UPGRADE, 500),
    ("settings twice", [*UPGRADE, HTTP2_SETTINGS, HTTP2_SETTINGS], 500),
    ("settings that are no base64", [*UPGRADE, "HTTP2-Settings: %%%%%%%%"], 500),
    ("a part of a setting", [*UPGRADE, "HTTP2-Settings: AAMAAA"], 101),
    ("a setting out of bounds", [*UPGRADE, "HTTP2-Settings: AAIAAAAF"], 101),
    ("an Upgrade that Connection omits",
     ["Connection: HTTP2-Settings", "Upgrade: h2c", HTTP2_SETTINGS], 101),
    ("settings that Connection omits",
     ["Connection: Upgrade", "Upgrade: h2c", HTTP2_SETTINGS], 200),
    ("another protocol", [UPGRADE[0], "Upgrade: websocket", HTTP2_SETTINGS], 200)]


@pytest.mark.parametrize("headers, gocc", named(NO_UPGRADE))
def test_http_2_by_invalid_upgrade(server, expect, key, headers, gocc):
    with Http1Peer(server) as peer:
        answer = peer.ask("POST", f"/rate/{key}", *headers)
    expect(answer.status, gocc=gocc, ours=200, topic="Upgrade: h2c" if gocc != 200 else None)


@pytest.mark.parametrize("data, gocc, ours", named([
    ("another word", b"INVALID CONNECTION PREFACE\r\n\r\n", 400, "no answer"),
    ("another end", PREFACE.replace(b"SM", b"SN"), "no answer", 505),
    ("another version", PREFACE.replace(b"2.0", b"2.1"), 505, 505)]))
def test_http_2_by_broken_preface(server, expect, data, gocc, ours):
    with Http1Peer(server) as peer:
        peer.send(data)
        try:
            answer = peer.read().status
        except (ConnectionError, EOFError):
            answer = "no answer"
        expect((answer, peer.is_closed()), gocc=(gocc, True), ours=(ours, True),
               topic="broken preface" if gocc != ours else None)


def end_of(peer, stream):
    """What the server does about a request."""
    peer.until(lambda: stream in peer.complete | peer.resets.keys() or peer.goodbye is not None)
    if peer.goodbye is not None:
        return "GOAWAY", peer.goodbye
    if stream in peer.resets:
        return "RST_STREAM", peer.resets[stream]
    return ("answer", peer.status(stream)) if stream in peer.complete else "the connection ends"


def test_http_2_stream_above_the_announced_number(steady, expect, key):
    permit(steady, key, "maxRequests=1")
    with Http2Attacker(steady) as peer:
        assert peer.round_trip(), "its settings have arrived"
        peer.send(frame(SETTINGS, ACK))
        for stream in streams(250):
            peer.send(ask_frame(stream, f"/rate/{key}?canWait=true&maxRequestsInQueue=1000",
                                "POST"))
        peer.send(ask_frame(501, "/healthz"))
        expect(end_of(peer, 501), gocc=("RST_STREAM", PROTOCOL_ERROR),
               ours=("GOAWAY", PROTOCOL_ERROR), topic="HTTP/2 bounds")


# More than the server takes of each, but no more than Go's library takes.
BEYOND_BOUNDS = [
    ("resets", b"".join(ask_frame(stream, "/healthz")
                        + frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
                        for stream in streams(900)), ("GOAWAY", ENHANCE_YOUR_CALM)),
    ("frames without use", frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 2_500,
     ("GOAWAY", ENHANCE_YOUR_CALM)),
    ("settings in a frame",
     frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", 0x70 + i, 1) for i in range(33))),
     ("GOAWAY", ENHANCE_YOUR_CALM)),
    ("parts of a head",
     frame(HEADERS, END_STREAM, 1, head("/healthz"))
     + frame(CONTINUATION, 0, 1, field(b"x", b"y")) * 9 + frame(CONTINUATION, END_HEADERS, 1),
     "the connection ends")]


@pytest.mark.parametrize("data, ours", named(BEYOND_BOUNDS))
def test_http_2_request_behind_many(server, expect, data, ours):
    with Http2Attacker(server) as peer:
        peer.flood(data + ask_frame(2_001, "/healthz"))
        expect(end_of(peer, 2_001), gocc=("answer", 200), ours=ours, topic="HTTP/2 bounds")


def test_http_2_connection_without_a_stream(idle_connection, expect):
    seconds, error = idle_connection.end()
    # A server counts from its clock's last reading, which may be older than the connection.
    expect((True if seconds >= 29.5 else seconds, error), gocc=(True, NO_ERROR))


@pytest.mark.section("2.4")
@pytest.mark.parametrize("how", ["stream reset", "connection lost"])
def test_http_2_waiter_leaves(steady, expect, key, how):
    permit(steady, key, "maxRequests=1")
    with Http2Peer(steady) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
        assert settles(lambda: waiting(steady, key) == 1, 30)
        peer.reset_stream(1) if how == "stream reset" else peer.close()
        left = settles(lambda: waiting(steady, key) == 0, 30)
    expect("its place is free" if left else "it waits", gocc="its place is free")


# ------------------------------------------------------------------------------------- connections

def test_connection_is_kept(server, expect):
    with Peer(server) as peer:
        answers = [peer.ask("GET", "/healthz") for _ in range(3)]
    expect([(answer.status, answer.header("Connection")) for answer in answers],
           gocc=[(200, None)] * 3)


@pytest.mark.http1("Connection: close")
def test_connection_is_closed_when_asked(server, expect):
    answer, closed = exchange(server, request("GET", "/healthz", "Connection: close"))
    expect((answer.status, answer.header("Connection"), closed), gocc=(200, "close", True))


@pytest.mark.http1("HTTP/1.0")
@pytest.mark.parametrize("headers, gocc", named([
    ("plain", [], (200, True)), ("keep-alive", ["Connection: keep-alive"], (200, False))]))
def test_http_1_0(server, expect, headers, gocc):
    answer, closed = exchange(server, request("GET", "/healthz", *headers, version="1.0"))
    expect((answer.status, closed), gocc=gocc)


def test_pipelined_requests_are_answered_in_their_order(server, expect, key):
    targets = [f"/rate/{key}", "/healthz", "/no", f"/rate/{key}", "/rate/%20"]
    with Peer(server) as peer:
        peer.send(b"".join(request("GET", target) for target in targets))
        statuses = [peer.read().status for _ in targets]
    expect(statuses, gocc=[200, 200, 404, 200, 400])


@pytest.mark.http1("pipelining")
def test_nothing_behind_a_waiting_request_is_decided(steady, expect, key):
    permit(steady, key, "maxRequests=1")
    with waiter(steady, key) as peer:
        peer.send(request("POST", f"/rate/{key}behind"))
        silent = peer.is_silent(0.3)
        expect((silent, state_of(steady, f"{key}behind")), gocc=(True, None))


# ----------------------------------------------------------------------------------------- heads

def test_head_of_many_kilobytes(server, expect):
    answer = ask(server, "GET", "/healthz", "X-Much: " + "x" * 20_000)
    expect(answer.status, gocc=200, ours=431, topic="limits")


@pytest.mark.http1("an answer to a head of any size")
def test_head_of_more_than_a_megabyte(server, expect):
    with Peer(server) as peer:
        try:
            peer.send(request("GET", "/healthz", "X-Much: " + "x" * 1_100_000))
        except ConnectionError:  # it need not read all of it
            pass
        answer = peer.read()
        expect((answer.status, answer.reason, peer.is_closed()),
               gocc=(431, "Request Header Fields Too Large", True))


STRICT = [
    ("a folded header", ["Host: x", "X-A: a\r\n b"], (200, False)),
    ("Transfer-Encoding: gzip, chunked", ["Host: x", "Transfer-Encoding: gzip, chunked"],
     (501, True)),
    ("Transfer-Encoding: identity", ["Host: x", "Transfer-Encoding: identity"], (501, True)),
    ("the same Content-Length twice", ["Host: x", "Content-Length: 0", "Content-Length: 0"],
     (200, False)),
    ("two values of Content-Length", ["Host: x", "Content-Length: 0", "Content-Length: 1"],
     (400, True)),
    ("Host twice", ["Host: x", "Host: x"], (400, True)),
    ("no Host", ["X-A: b"], (400, True)),
]


@pytest.mark.http1("its syntax of heads")
@pytest.mark.parametrize("headers, gocc", named(STRICT))
def test_odd_head(server, expect, headers, gocc):
    data = "\r\n".join(["GET /healthz HTTP/1.1", *headers, "", ""]).encode()
    answer, closed = exchange(server, data)
    expect((answer.status, closed), gocc=gocc, ours=(400, True), topic="strictness")


BAD = [("no request line", b"hello\r\n\r\n"),
       ("a blank in the path", b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
       ("a control byte in the path", b"GET /a\x01b HTTP/1.1\r\nHost: x\r\n\r\n"),
       ("no slash in front", b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
       ("a blank in a header's name", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX A: b\r\n\r\n"),
       ("a blank before a colon", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n"),
       ("Content-Length: x", b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"),
       ("a blank in Host", b"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n"),
       ("an empty line in front", b"\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")]


@pytest.mark.http1("its syntax of heads")
@pytest.mark.parametrize("data", named(BAD))
def test_malformed_head(server, expect, data):
    answer, closed = exchange(server, data)
    expect((answer.status, answer.header("Connection"), closed), gocc=(400, "close", True))


@pytest.mark.http1("a version in the request line")
def test_unsupported_version(server, expect):
    answer, closed = exchange(server, b"GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n")
    expect((answer.status, closed), gocc=(505, True))


# gocc accepts these, but its specification does not mention them.
@pytest.mark.gocc_http1("gives these to the endpoints")
@pytest.mark.parametrize("method, target, headers, gocc", by_first([
    ("OPTIONS", "*", [], 200), ("GET", "/healthz", ["Expect: x"], 417)]))
def test_odd_request(server, expect, method, target, headers, gocc):
    expect(ask(server, method, target, *headers).status, gocc=gocc)


LENIENT = [
    ("a target with scheme and host", b"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     None),
    ("lines without carriage return", b"GET /healthz HTTP/1.1\nHost: x\n\n", 200, 400),
    ("chunked and a Content-Length", b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, 400),
    ("HTTP/1.2", b"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n", 200, 505),
]


@pytest.mark.http1("its syntax of heads")
@pytest.mark.parametrize("data, gocc, ours", named(LENIENT))
def test_lenient(server, expect, data, gocc, ours):
    answer, _ = exchange(server, data)
    expect(answer.status, gocc=gocc, ours=ours, topic="HTTP by the letter" if ours else None)


# ----------------------------------------------------------------------------------------- bodies

BODY = b"canWait=maybe&maxRequests=x&maxRequestsInQueue=-1"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "application/json",
                                  "multipart/form-data; boundary=x", "none at all"])
def test_body_is_never_read_for_parameters(server, expect, key, kind):
    for method in ("GET", "POST"):
        answer = ask(server, method, f"/rate/{key}", f"Content-Type: {kind}",
                     f"Content-Length: {len(BODY)}", body=BODY)
        expect((answer.status, answer.body.isdigit()), gocc=(200, True), of=method)


def test_body_does_not_disturb_what_follows(server, expect, key):
    chunks = b"5\r\nhello\r\n0\r\n\r\n"
    with Peer(server) as peer:
        peer.send(request("POST", f"/rate/{key}", "Content-Length: 5", body=b"hello"))
        peer.send(request("POST", f"/rate/{key}", "Transfer-Encoding: chunked", body=chunks))
        peer.send(request("POST", "/none", "Content-Length: 5", body=b"hello"))
        peer.send(request("GET", "/healthz"))
        statuses = [peer.read().status for _ in range(4)]
    expect(statuses, gocc=[200, 200, 404, 200])


@pytest.mark.gocc_http1("does not wait for a body that nobody reads")
def test_answer_waits_for_the_body(steady, expect, key):
    with Peer(steady) as peer:
        peer.send(request("POST", f"/rate/{key}", "Content-Length: 5"))
        assert settles(lambda: state_of(steady, key) is not None, 30), "it is not decided"
        expect(peer.is_silent(0.4), gocc=True, ours=False, topic="request bodies",
               of="silent without it")
        peer.send(b"hello")
        expect(peer.read().status, gocc=200, of="then")
    # The permit was taken once, before the body arrived.
    expect(counts_of(steady, key), gocc=(1, 0, 0), of="permits")


@pytest.mark.gocc_http1("does not wait for a body that nobody reads")
def test_expect_100_continue(steady, expect, key):
    with Peer(steady) as peer:
        peer.send(request("POST", f"/rate/{key}", "Content-Length: 5", "Expect: 100-continue"))
        first = "silence" if peer.is_silent(0.4) else peer.read().status
        expect(first, gocc="silence", ours=100, topic="request bodies")
        peer.send(b"hello")
        expect(peer.read().status, gocc=200, of="then")


def answer_to_long_body(server, key, size):
    with Peer(server) as peer:
        try:
            peer.send(request("POST", f"/rate/{key}", f"Content-Length: {size}", body=b"x" * size))
        except ConnectionError:  # it need not read all of it
            pass
        return peer.read()


@pytest.mark.parametrize("size", [200_000, 400_000])
def test_long_body(server, expect, key, size):
    expect(answer_to_long_body(server, key, size).status, gocc=200, ours=413, topic="limits")


@pytest.mark.http1("an end of the connection behind an answer")
@pytest.mark.parametrize("size, gocc", by_first([(200_000, None), (400_000, "close")]))
def test_connection_after_a_long_body(server, expect, key, size, gocc):
    answer = answer_to_long_body(server, key, size)
    expect(answer.header("Connection"), gocc=gocc, ours="close", topic="limits")


@pytest.mark.parametrize("body", [b"", pytest.param(b"hello", marks=pytest.mark.gocc_http1(
    "notices the end of any stream"))], ids=["none", "some"])
def test_waiter_with_a_body_hangs_up(steady, expect, key, body):
    permit(steady, key, "maxRequests=1")
    peer = Peer(steady)
    peer.send(request("POST", f"/rate/{key}?canWait=true", f"Content-Length: {len(body)}",
                      body=body))
    assert settles(lambda: waiting(steady, key) == 1, 30)
    peer.close()
    left = settles(lambda: waiting(steady, key) == 0, 5)
    expect("noticed" if left else "unnoticed", gocc="unnoticed" if body else "noticed",
           ours="noticed", topic="request bodies")


# --------------------------------------------------------------------------- missing features

@pytest.mark.parametrize("target, gocc, ours", named([
    ("/healthz", "/healthz", "", "Sluicegate-Node"),
    ("400", "/rate/%20", "Content-Type", "Content-Type"),
    ("200", "/rate/KEY", "Content-Type", "Content-Type RateLimit RateLimit-Policy"),
    ("429", "/rate/KEY?maxRequests=1", "", "RateLimit RateLimit-Policy Retry-After"),
    ("/debug", "/debug/KEY", "Content-Type", "Content-Type"),
    ("404", "/no", "Content-Type", "Content-Type")]))
def test_headers(steady, expect, key, target, gocc, ours):
    permit(steady, key)
    headers = ["Accept-Encoding: gzip, br", "Origin: http://other.example", "X-Correlation-ID: abc",
               "X-Request-Id: def", "Access-Control-Request-Method: POST"]
    answer = ask(steady, "GET", target.replace("KEY", key), *headers)
    names = [name for name in answer.names() if name not in ("Content-Length", "Date")]
    expect((len(answer.headers) - len(names), " ".join(names)), gocc=(2, gocc), ours=(2, ours),
           topic="extra headers")


def test_date_is_there(server, expect):
    shape = r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"
    expect(ask(server, "GET", "/healthz").header("Date"), gocc=Like(shape))


@pytest.mark.parametrize("path, gocc, ours", by_first([
    ("/", 404, 404), ("/metrics", 404, 200), ("/version", 404, 404), ("/index.html", 404, 404),
    ("/debug/pprof", 404, 404), ("/debug/vars", 404, 404), ("/favicon.ico", 404, 404)]))
def test_missing_pages(server, expect, path, gocc, ours):
    expect(ask(server, "GET", path).status, gocc=gocc, ours=ours, topic="more paths")


def test_no_authentication(server, expect, key):
    answer = ask(server, "POST", f"/rate/{key}", "Authorization: Basic bm9ib2R5Om5vdGhpbmc=")
    expect((answer.status, answer.header("WWW-Authenticate")), gocc=(200, None))


def test_type_of_text(server, expect):
    expect(ask(server, "GET", "/rate/%20").header("Content-Type"), gocc=TEXT)
