"""HTTP/2 in cleartext: the same answers as over HTTP/1.1, with several clients; upgrades, many
streams, waiters that leave, the log, and the drain. Method: other people's clients for whole
requests, and a peer of single frames for the rest. (h2spec checks the frames by the letter.)"""

import json
import re
import signal
import time

import pytest

from conftest import LONG_WINDOW
from http2_clients import HTTP2_CLIENTS, http1
from http2_peer import (MAX_CONCURRENT_STREAMS, NO_ERROR, STREAM_ID_MAX, WINDOW_BYTES, Http2Peer,
                        Http2Stream, NoHttp2)
from http_peer import HttpPeer, ask, inspect, queued, request, waiting
from quota_calls import HOUR_MS
from server_process import eventually, in_some_try

JSON = "Accept: application/json"
ENTRIES_LARGE = 1_000  # keys of a /debug that comes in parts

# ------------------------------------------------------------------------- the same answers

# Fields of JSON, and parts of headers, that differ between equal requests.
VARYING = {"request_id", "reservation", "expires_in_ms", "reset_ms", "retry_after_ms", "id",
           "created_ms", "expires_ms", "age_ms"}


def steady(value):
    """JSON without what varies."""
    if isinstance(value, dict):
        return {name: "#" if name in VARYING else steady(each) for name, each in value.items()}
    return [steady(each) for each in value] if isinstance(value, list) else value


def shape(value):
    """The names in JSON."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value[:1]] if isinstance(value, list) else None


def comparable(seen, name, body_of):
    headers = dict(seen.headers)
    length = headers.pop("content-length", None)
    assert length is None or not seen.body or int(length) == len(seen.body)
    for header in ("ratelimit", "retry-after"):
        if header in headers:
            headers[header] = re.sub(r"(^|t=)\d+", r"\1#", headers[header])
    if body_of is None and seen.body.isdigit():
        body = "a number"
    elif body_of is None and "json" in headers.get("content-type", ""):
        body = steady(json.loads(seen.body))
    else:
        body = (body_of or bytes)(seen.body)
    return json.loads(json.dumps((seen.status, headers, repr(body), length is None))
                      .replace(name, "NAME"))


def series_of(body):
    return sorted({line.rsplit(b" ", 1)[0] for line in body.splitlines()})


def shape_of_top(body):
    return shape(json.loads(body))


def conversation(ask, server, name):
    """What a client sees of every endpoint: a description of each answer."""
    came = {}

    def see(label, method, target, *headers, body=None, body_of=None):
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        seen = ask(server, method, target, *headers, body=body)
        came[label] = comparable(seen, name, body_of)
        return seen

    rate = f"/rate/{name}"
    see("approved", "POST", f"{rate}?maxRequests=3")
    see("approved by GET", "GET", rate)
    see("approved as JSON", "POST", rate, JSON)
    see("denied", "POST", rate)
    see("denied as JSON", "POST", rate, JSON)
    see("waits in vain", "POST", f"{rate}?canWait=true&maxWaitMillis=20")
    see("with a body", "POST", rate, body=b"hello")
    see("bad", "POST", f"{rate}?maxRequests=x")
    see("no key", "POST", "/rate/%20")
    see("debug", "GET", f"/debug/{name}")
    see("debug of none", "GET", f"/debug/{name}none")
    see("small debug", "GET", f"/debug?prefix={name}")
    see("large debug", "GET", "/debug?prefix=large")
    see("released", "DELETE", f"{rate}/1")
    see("healthz", "GET", "/healthz")
    see("metrics", "GET", "/metrics", body_of=series_of)
    see("top", "GET", "/top", body_of=shape_of_top)
    see("openapi", "GET", "/openapi.json")
    see("404", "GET", "/none")
    see("405", "PUT", rate)
    see("OPTIONS", "OPTIONS", rate)
    see("HEAD", "HEAD", rate)
    see("417", "POST", rate, "Expect: something")
    see("431", "POST", rate, "X-Long: " + "x" * 9_000)

    limit = {"name": "tph", "metric": "tokens", "amount": 100, "period_ms": HOUR_MS}
    see("put", "PUT", f"/v1/subjects/{name}", body={"limits": [limit]})
    asked = {"subjects": [name], "max_output_tokens": 60}
    reserved = see("reserve", "POST", "/v1/reserve", body=asked).json()
    see("check", "POST", "/v1/check", body=asked)
    see("reserve waits in vain", "POST", "/v1/reserve", body=asked | {"wait_limit_ms": 20})
    see("show reservation", "GET", f"/v1/reservations/{reserved['reservation']}",
        body_of=shape_of_top)
    see("settle", "POST", "/v1/settle", body={"reservation": reserved["reservation"],
                                              "output_tokens": 7})
    see("settle of none", "POST", "/v1/settle", body={"reservation": "none"})
    see("no JSON", "POST", "/v1/reserve", body=b"{")
    see("show", "GET", f"/v1/subjects/{name}")
    see("delete", "DELETE", f"/v1/subjects/{name}")
    see("413", "POST", "/v1/reserve", body=b" " * 70_000)
    return came


@pytest.fixture(scope="module")
def large(shared_server):
    """Makes GET /debug large."""
    with HttpPeer(shared_server) as peer:
        peer.send(b"".join(request("POST", f"/rate/large{i}") for i in range(ENTRIES_LARGE)))
        assert [peer.read().status for _ in range(ENTRIES_LARGE)] == [200] * ENTRIES_LARGE


@pytest.mark.parametrize("client", HTTP2_CLIENTS)
def test_answers_are_those_of_http_1(server, large, key, client):
    over_http1 = conversation(http1, server, f"{key}one.")
    over_http2 = conversation(client, server, f"{key}two.")
    different = {label: (over_http1[label], over_http2[label]) for label in over_http1
                 if over_http1[label] != over_http2[label]}
    assert different == {}
    statuses = {label: seen[0] for label, seen in over_http2.items()}
    assert set(statuses.values()) >= {200, 204, 400, 404, 405, 413, 417, 429, 431}, statuses
    assert over_http2["large debug"][3], "it has no length"


# ------------------------------------------------------------------------------------- upgrades

SETTINGS = "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"
UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", SETTINGS)
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


class UpgradedPeer(Http2Peer):
    """A connection whose first request became stream 1; `before` was sent in front of it."""

    def __init__(self, server, *words, before=b""):
        self.first, self.before = request(*words, *UPGRADE), before
        super().__init__(server)

    def begin_connection(self):
        self.send(self.before + self.first)
        for _ in range(self.before.count(b"\r\n\r\n")):
            assert HttpPeer.read(self).status == 200
        assert self._until(b"\r\n\r\n") == SWITCHING
        self.streams[1] = Http2Stream(1, WINDOW_BYTES)
        self.begin_http2()
        self.await_settings()


def test_upgrade_goes_on_in_http_2(server, key):
    over_http1 = ask(server, "POST", f"/rate/{key}0?maxRequests=2", JSON)
    with UpgradedPeer(server, "POST", f"/rate/{key}?maxRequests=2", JSON) as peer:
        answer = peer.read_stream(1)
        assert (answer.status, list(answer.json())) == (200, ["request_id"])
        assert [name for name, _ in answer.headers] == [name for name, _ in over_http1.headers]
        assert [peer.ask("POST", f"/rate/{key}").status for _ in range(2)] == [200, 429]
    assert inspect(server, key)["NumApprovedThisWindow"] == 2


def test_upgrade_of_a_head(server):
    with UpgradedPeer(server, "HEAD", "/healthz") as peer:
        answer = peer.read_stream(1)
        assert (answer.status, answer.body) == (405, b"")
        assert peer.ask("GET", "/healthz").status == 200


def test_upgrade_behind_other_requests(server, key):
    before = request("POST", f"/rate/{key}") + request("GET", "/healthz")
    with UpgradedPeer(server, "POST", f"/rate/{key}", before=before) as peer:
        assert peer.read_stream(1).status == 200
    assert inspect(server, key)["NumApprovedThisWindow"] == 2


def test_upgraded_request_waits(server, key):
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with UpgradedPeer(server, "POST", f"/rate/{key}?canWait=true") as peer:
        eventually(lambda: waiting(server, key) == 1, "it waits")
        assert peer.ask("GET", "/healthz").status == 200
        ask(server, "DELETE", f"/rate/{key}/1")
        assert peer.read_stream(1).status == 200


IGNORED = {
    "no settings": ("Connection: Upgrade", "Upgrade: h2c"),
    "settings not named": ("Connection: Upgrade", "Upgrade: h2c", SETTINGS),
    "upgrade not named": ("Connection: HTTP2-Settings", "Upgrade: h2c", SETTINGS),
    "settings twice": (*UPGRADE, SETTINGS),
    "no base64": (*UPGRADE[:2], "HTTP2-Settings: %%%%%%%%"),
    "setting out of bounds": (*UPGRADE[:2], "HTTP2-Settings: AAIAAAAF"),
    "part of a setting": (*UPGRADE[:2], "HTTP2-Settings: AAMAAABk"[:-2]),
    "another protocol": (UPGRADE[0], "Upgrade: websocket", SETTINGS),
    "over TLS": (UPGRADE[0], "Upgrade: h2", SETTINGS),
}


@pytest.mark.parametrize("headers", IGNORED.values(), ids=IGNORED)
def test_invalid_upgrade_is_ignored(server, key, headers):
    with HttpPeer(server) as peer:
        assert peer.ask("POST", f"/rate/{key}", *headers).status == 200
        assert peer.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("framing, body", [
    ("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")])
def test_upgrade_with_a_body_is_ignored(server, key, framing, body):
    with HttpPeer(server) as peer:
        answer = peer.ask("POST", f"/rate/{key}", *UPGRADE, framing, body=body)
        assert (answer.status, answer.version) == (200, "HTTP/1.1")
        assert peer.ask("GET", "/healthz").status == 200


def test_echo_does_not_speak_http_2(start_server, key):
    server = start_server("--server-type", "echo")
    with pytest.raises(NoHttp2, match="^HTTP/1.1 505 HTTP Version Not Supported$"):
        Http2Peer(server)
    with HttpPeer(server) as peer:
        assert peer.ask("POST", f"/rate/{key}", *UPGRADE).status == 200
        assert peer.ask("GET", "/healthz").status == 200


# ------------------------------------------------------------------------------ streams, waiters

STREAMS_MAX = 250


def test_streams_at_once_are_answered_in_any_order(server, key):
    keys = [f"{key}{number}" for number in range(STREAMS_MAX)]
    with Http2Peer(server) as peer, HttpPeer(server) as releasing:
        assert peer.settings[MAX_CONCURRENT_STREAMS] == STREAMS_MAX
        first = [peer.request("POST", f"/rate/{each}?maxRequests=1") for each in keys]
        assert {peer.read_stream(id).status for id in first} == {200}
        before = queued(server)
        ids = [peer.request("POST", f"/rate/{each}?canWait=true") for each in keys]
        eventually(lambda: queued(server) == before + STREAMS_MAX, "all wait")
        assert peer.is_silent()
        waiting_ids = set(ids)
        for each, id in reversed(list(zip(keys, ids))):
            assert releasing.ask("DELETE", f"/rate/{each}/1").status == 200
            assert peer.read_any(waiting_ids) == id
            assert peer.read_stream(id).status == 200
            waiting_ids.remove(id)


def test_streams_with_keys_of_several_shards_get_their_own_answers(server, key):
    limits = range(1, STREAMS_MAX + 1)
    with Http2Peer(server) as peer:
        ids = [peer.request("POST", f"/rate/{key}{limit}?maxRequests={limit}")
               for limit in limits]
        for id, limit in zip(ids, limits):
            answer = peer.read_stream(id)
            assert (answer.status, answer.rate_limit()["q"]) == (200, limit)


def test_stream_beyond_the_bound_ends_the_connection(server, key):
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with Http2Peer(server) as peer:
        for _ in range(STREAMS_MAX):
            peer.request("POST", f"/rate/{key}?canWait=true")
        eventually(lambda: waiting(server, key) == STREAMS_MAX, "all wait")
        peer.request("POST", f"/rate/{key}?canWait=true")
        peer.read_to_end()
        assert [error for _, error in peer.go_aways] == [1]  # PROTOCOL_ERROR
    eventually(lambda: waiting(server, key) == 0, "all have left")


@pytest.mark.parametrize("target", ["/debug?prefix=large", "/openapi.json", "/metrics"])
def test_large_answer_waits_for_a_window(server, large, target):
    """Also that of /debug, which is not there as a whole."""
    whole = ask(server, "GET", target)
    with Http2Peer(server, stream_window=0) as peer:
        id = peer.request("GET", target)
        stream = peer.streams[id]
        while not stream.heads:
            peer.receive_frame()
        assert peer.is_silent(0.5)
        for _ in range(3):
            before = len(stream.body)
            peer.open_window(id, 1_000)
            while len(stream.body) < before + 1_000:
                peer.receive_frame()
            assert len(stream.body) == before + 1_000
        peer.open_window(id, 2**30)
        answer = peer.read_stream(id)
        assert answer.status == 200
        assert target == "/metrics" or answer.body == whole.body


def test_reset_streams_leave_the_queue(server, key):
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with Http2Peer(server) as peer:
        ids = [peer.request("POST", f"/rate/{key}?canWait=true") for _ in range(10)]
        eventually(lambda: waiting(server, key) == 10, "all wait")
        for id in ids[::2]:
            peer.reset_stream(id)
        eventually(lambda: waiting(server, key) == 5, "half of them left")
        ask(server, "DELETE", f"/rate/{key}/1")
        assert peer.read_any(ids[1::2]) == ids[1], "the first that stayed is served"
        assert (peer.ask("GET", "/healthz").status, waiting(server, key)) == (200, 4)


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
def test_waiters_leave_when_the_connection_ends(server, key, how):
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with Http2Peer(server) as peer:
        for _ in range(10):
            peer.request("POST", f"/rate/{key}?canWait=true")
        eventually(lambda: waiting(server, key) == 10, "all wait")
        getattr(peer, how)()
        eventually(lambda: waiting(server, key) == 0, "all left")


# ------------------------------------------------------------------------------------- the log

def logged(server, send, key):
    """The lines about this key, without times and without the number of its test."""
    before = len(server.log)
    send()
    eventually(lambda: any("response" in line and key in line["request"]["path"]
                           for line in server.log[before:]), "it is logged")
    lines = [line for line in server.log[before:] if key in str(line)]
    text = re.sub(r'"(time|latency)": ("[^"]*"|\d+)', r'"\1": 0', json.dumps(lines))
    return json.loads(text.replace(key, "KEY"))


HEADERS = ("X-Correlation-ID: of the caller", "X-Request-Id: seven", "Referer: http://a/b",
           "X-Two: 1", "X-Two: 2", "Cookie: secret")


@pytest.mark.parametrize("method, path", [
    ("POST", "/rate/{}?maxRequests=5"), ("POST", "/rate/{}?canWait=x"), ("PUT", "/rate/{}"),
    ("GET", "/debug/{}"), ("DELETE", "/rate/{}/1"), ("GET", "/{}"),
    ("GET", "/v1/subjects/{}"), ("POST", "/rate/{}?canWait=true&maxRequests=0")])
def test_log_line_is_that_of_http_1(start_server, method, path):
    server = start_server(*LONG_WINDOW, "--log2xx", "--log4xx")
    with HttpPeer(server) as old, Http2Peer(server) as new:
        lines = [logged(server, lambda: peer.ask(method, path.format(key), *HEADERS), key)
                 for peer, key in ((old, "key-1"), (new, "key-2"))]
    assert lines[0] == lines[1]
    assert lines[1][-1]["id"] == "seven" and "secret" not in str(lines)
    about_app = lines[1][:-1]
    assert all(line.get("correlation-id", "of the caller") == "of the caller" for line in about_app)
    assert about_app or method != "POST" or "canWait=x" not in path


@pytest.mark.parametrize("path, status", [("/rate/KEY%zz", 400), ("/v1/reserve?KEY", 413)])
def test_invalid_request_is_not_logged_as_in_http_1(start_server, key, path, status):
    server = start_server(*LONG_WINDOW, "--log2xx", "--log4xx")
    body = b" " * 70_000 if status == 413 else b""
    with Http2Peer(server) as peer:
        assert peer.ask("POST", path.replace("KEY", key), body=body).status == status
        logged(server, lambda: peer.ask("POST", f"/rate/{key}-last"), f"{key}-last")
    lines = [line for line in server.log if key in str(line) and f"{key}-last" not in str(line)]
    assert not lines


def test_waiter_that_leaves_is_logged_as_in_http_1(start_server, key):
    server = start_server(*LONG_WINDOW, "--log2xx", "--log4xx")
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with Http2Peer(server) as peer:
        id = peer.request("POST", f"/rate/{key}?canWait=true", "X-Correlation-ID: leaves")
        eventually(lambda: waiting(server, key) == 1, "it waits")
        peer.reset_stream(id)
        gone = server.wait_for_message(
            "client gave up on request. context cancelled before receiving response")
    assert (gone["level"], gone["correlation-id"], gone["key"]) == ("WARN", "leaves", key)
    line = server.wait_for_message("")
    assert (line["response"]["status"], line["request"]["query"]) == (499, "canWait=true")


# ----------------------------------------------------------------------------------- the drain

DRAIN_SECONDS = 20


def test_drain_answers_waiters_and_ends_each_connection(start_server, key):
    def sends_in_the_grace():
        server = start_server(*LONG_WINDOW, "--drain-millis", str(DRAIN_SECONDS * 1000))
        ask(server, "POST", f"/rate/{key}?maxRequests=1")
        with Http2Peer(server) as peer, Http2Peer(server) as idle:
            waiter = peer.request("POST", f"/rate/{key}?canWait=true", JSON)
            eventually(lambda: waiting(server, key) == 1, "it waits")
            started = time.monotonic()
            server.signal(signal.SIGTERM)
            while not peer.go_aways:
                peer.receive_frame()
            assert peer.go_aways == [(STREAM_ID_MAX, NO_ERROR)]
            late = [peer.request("GET", "/healthz"), peer.request("POST", f"/rate/{key}0")]
            peer.read_to_end()
            idle.read_to_end()
            assert server.wait() == 0
            assert time.monotonic() - started < DRAIN_SECONDS
        assert server.log[-1]["connectionsForceClosed"] == 0
        answer = peer.read_stream(waiter)
        assert answer.status == 503 and b"the server is shutting down" in answer.body
        assert idle.go_aways == [(STREAM_ID_MAX, NO_ERROR), (0, NO_ERROR)]
        assert len(peer.go_aways) == 2
        last, error = peer.go_aways[1]
        assert error == NO_ERROR and last in (waiter, *late)
        answers = [peer.streams[id] for id in late]
        assert [each.is_answered for each in answers] == [id <= last for id in late]
        if last != late[-1]:
            return False
        assert [peer.response(each).status for each in answers] == [503, 503]
        return True
    in_some_try(sends_in_the_grace, "the requests arrive before the second GOAWAY")


@pytest.mark.parametrize("milliseconds", [0, 100])
def test_short_drain_names_its_last_stream(start_server, milliseconds):
    """So the client knows which requests it may send again."""
    server = start_server("--drain-millis", str(milliseconds), "--header-timeout-millis", "60000")
    with Http2Peer(server) as peer:
        stream = peer.begin("POST", "/v1/reserve", has_body=True)
        peer.ping()
        server.signal(signal.SIGTERM)
        peer.read_to_end()
        assert server.wait() == 0
        assert peer.go_aways == [(STREAM_ID_MAX, NO_ERROR), (stream, NO_ERROR)]


def test_drain_does_not_wait_for_a_body_for_ever(start_server):
    server = start_server("--drain-millis", "400", "--header-timeout-millis", "60000")
    with Http2Peer(server) as peer:
        peer.begin("POST", "/v1/reserve", has_body=True)
        peer.ping()
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert time.monotonic() - started >= 0.35
    assert server.log[-1]["connectionsForceClosed"] == 1
