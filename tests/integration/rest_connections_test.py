"""REST: connections between requests. Keep-alive, pipelining, bodies, time-outs.
Method: raw bytes, sent in one piece or in many, and the order of the answers."""

import contextlib
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, request, totals
from server_process import eventually

CONNECTIONS = "sluicegate_connections"


# ---------------------------------------------------------------------- keep-alive, pipelining

def test_connection_is_kept_alive(server, key):
    with HttpPeer(server) as peer:
        for left in [99, 98, 97]:
            response = peer.ask("POST", f"/rate/{key}")
            assert response.rate_limit()["r"] == left
            assert response.header("Connection") is None
        assert peer.is_silent()


@pytest.mark.parametrize("options, kept", [
    ({"version": "1.1"}, True), ({"version": "1.0"}, False)])
def test_version_decides_whether_the_connection_is_kept(server, key, options, kept):
    with HttpPeer(server) as peer:
        response = peer.ask("POST", f"/rate/{key}", **options)
        assert response.status == 200
        assert response.version == f"HTTP/{options['version']}"
        assert response.header("Connection") == (None if kept else "close")
        assert peer.is_silent(0.05) if kept else peer.rest() == b""


def test_http_1_0_can_ask_to_be_kept(server, key):
    with HttpPeer(server) as peer:
        for _ in range(2):
            response = peer.ask("POST", f"/rate/{key}", "Connection: keep-alive", version="1.0")
            assert response.header("Connection") == "keep-alive"


def test_connection_close_is_obeyed_and_later_requests_are_dropped(server, key):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}")
                  + request("POST", f"/rate/{key}", "Connection: close")
                  + request("POST", f"/rate/{key}"))
        assert peer.read().header("Connection") is None
        assert peer.read().header("Connection") == "close"
        assert peer.rest() == b""
    assert inspect(server, key)["NumApprovedThisWindow"] == 2


def test_pipelined_answers_of_all_kinds_are_in_order(server, key):
    mixed = [(request("POST", f"/rate/{key}"), 200), (request("GET", "/no"), 404),
             (request("GET", "/healthz"), 200), (request("POST", f"/rate/{key}?cost=-1"), 400),
             (request("HEAD", "/debug"), 405), (request("GET", f"/debug/{key}"), 200),
             (request("PUT", "/debug"), 405), (request("OPTIONS", "/debug"), 204),
             (request("DELETE", f"/rate/{key}/1"), 200), (request("GET", "/metrics"), 200),
             (request("POST", f"/rate/{key}?cost=101"), 400), (request("GET", "/debug"), 200)]
    with HttpPeer(server) as peer:
        peer.send(b"".join(data for data, _ in mixed) * 3)
        approved = []
        for round_number in range(3):
            for data, status in mixed:
                response = peer.read(head_only=data.startswith(b"HEAD"))
                assert response.status == status, data
                if data.startswith(b"POST") and status == 200:
                    approved.append(response.rate_limit()["r"])
                if data.startswith(b"GET /debug/"):
                    # The server has decided the requests before it, not those behind.
                    assert response.json()["NumApprovedThisWindow"] == 1, round_number
        assert approved == [99, 99, 99]  # each of them was released
        assert peer.is_silent(0.05)


def test_two_thousand_requests_in_one_write(server, key):
    count = 2_000
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?maxRequests={count}") * count)
        left = [peer.read().rate_limit()["r"] for _ in range(count)]
    assert left == list(range(count - 1, -1, -1))


def test_pipelined_answers_about_many_keys_are_in_order(server, key):
    """Several shards have the keys, each of which has a limit of its own, shown by its answers."""
    limits = range(1, 301)
    first = [request("POST", f"/rate/{key}{limit}?maxRequests={limit}") for limit in limits]
    again = [request("POST", f"/rate/{key}{limit}?cost={limit}", "Accept: application/json")
             for limit in limits]
    shown = request("GET", f"/debug/{key}1")
    with HttpPeer(server) as peer:
        peer.send(b"".join(first + [shown] + again + [shown]))
        peer.half_close()
        for limit in limits:
            response = peer.read()
            assert (response.status, response.rate_limit()["q"]) == (200, limit)
            assert response.rate_limit()["r"] == limit - 1
        assert peer.read().json()["NumApprovedThisWindow"] == 1
        for limit in limits:
            response = peer.read()
            assert (response.status, response.json()["key"]) == (429, f"{key}{limit}")
        assert peer.read().json()["NumDeniedThisWindow"] == 1
        assert peer.rest() == b""


def test_client_that_leaves_does_not_disturb_the_next_one(server, key):
    """The second connection may get the first one's place while shards still decide."""
    for round_number in range(50):
        name = f"{key}{round_number}-"
        peer = HttpPeer(server)
        peer.send(b"".join(request("POST", f"/rate/{name}{number}?maxRequests=7")
                           for number in range(50)))
        peer.reset()
        with HttpPeer(server) as next_peer:
            response = next_peer.ask("POST", f"/rate/{name}next?maxRequests=8")
            assert (response.status, response.rate_limit()["q"]) == (200, 8)
            assert next_peer.is_silent(0.005)


def test_request_may_come_byte_by_byte(server, key):
    data = (request("POST", f"/rate/{key}", "Content-Length: 5", body=b"hello")
            + request("POST", f"/rate/{key}", "Transfer-Encoding: chunked",
                      body=b"5;x=y\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n")
            + request("GET", f"/debug/{key}"))
    with HttpPeer(server) as peer:
        for byte in data:
            peer.send(bytes([byte]))
            time.sleep(0.0005)  # mostly one byte per TCP segment
        assert [peer.read().rate_limit()["r"] for _ in range(2)] == [99, 98]
        assert peer.read().json()["NumApprovedThisWindow"] == 2


FAULTS = {"malformed": b"zz\r\n", "malformed after data": b"2\r\nab\r\nzz\r\n",
          "too large": b"f000\r\n" + 0xf000 * b"x" + b"\r\n1001\r\n",
          "too long extensions": b"1;" + 9_000 * b"x" + b"\r\n"}


@pytest.mark.parametrize("target", ["/rate/{key}", "/healthz", "/metrics", "/debug", "/nowhere",
                                    "/v1/reserve"])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_one_request_gets_one_answer(server, key, target, fault):
    head = request("POST", target.format(key=key), "Transfer-Encoding: chunked")
    with HttpPeer(server) as together, HttpPeer(server) as apart:
        together.send(head + fault)
        apart.send(head)
        if target != "/v1/reserve":
            apart.read()
        apart.send(fault)
        together.read()
        assert together.rest() == b""
        if target == "/v1/reserve":
            assert apart.read().status in (400, 413, 431)
        assert apart.rest() == b""


@pytest.mark.parametrize("headers", [["Transfer-Encoding: chunked"],
                                     ["Transfer-Encoding: chunked", "Connection: close"],
                                     ["Content-Length: 100000000"]], ids=str)
def test_endless_body_is_cut_off(server, headers):
    chunk = b"4000\r\n" + 0x4000 * b"x" + b"\r\n"
    buffers = 32 * 2**20  # of the kernel, both sides, and what the server discards
    with HttpPeer(server) as peer:
        peer.send(request("GET", "/healthz", *headers))
        sent = 0
        with pytest.raises(OSError):
            while sent < 10 * buffers:
                peer.send(chunk)
                sent += len(chunk)
        assert sent < buffers


def test_pipeline_cut_anywhere_gives_the_same_answers(server, key):
    data = request("POST", f"/rate/{key}?maxRequests=1000") * 2 + request("GET", "/healthz")
    for cut in range(1, len(data), 7):
        with HttpPeer(server) as peer:
            peer.send(data[:cut])
            time.sleep(0.001)
            peer.send(data[cut:])
            assert [peer.read().status for _ in range(3)] == [200, 200, 200], cut


def test_half_closed_client_still_gets_its_answers(server, key):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}") * 3 + request("GET", "/debug"))
        peer.half_close()
        assert [peer.read().rate_limit()["r"] for _ in range(3)] == [99, 98, 97]
        assert peer.read().status == 200
        assert peer.rest() == b""


def test_half_closed_client_that_reads_late_gets_all_its_answers(start_server):
    server = start_server(*LONG_WINDOW)
    data = request("POST", "/rate/k")
    with HttpPeer(server, receive_buffer=16_384) as peer:
        peer.socket.settimeout(1)
        sent = 0
        try:
            while sent < 64 << 20:
                sent += peer.socket.send(data * 1_000 if sent % len(data) == 0
                                         else data[sent % len(data):])
        except TimeoutError:
            pass
        assert sent < 64 << 20, "the server reads without end"
        peer.socket.settimeout(30)
        peer.half_close()
        answers = peer.rest().count(b"HTTP/1.1 ")
        assert answers == sent // len(data)


def test_connections_that_end_within_a_request_leave_nothing_behind(start_server):
    server = start_server(*LONG_WINDOW, "--header-timeout-millis", "600000")
    for data in [b"", b"POST /ra", request("POST", "/rate/k", "Content-Length: 9", body=b"x")]:
        for end in ["close", "half_close", "reset"]:
            peer = HttpPeer(server)
            peer.send(data)
            getattr(peer, end)()
            if end == "half_close":
                peer.rest()
                peer.close()
    eventually(lambda: totals(server)[CONNECTIONS] == 1, "all connections are gone but one")


# ------------------------------------------------------------------------------------- bodies

@pytest.mark.parametrize("headers, body", [
    (["Content-Length: 0"], b""),
    (["Content-Length: 11"], b"hello world"),
    (["Content-Length: 65536"], b"x" * 65_536),
    (["Content-Length: 37"], request("POST", "/rate/not-me")[:37]),
    (["Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    (["Transfer-Encoding: Chunked"], b"B\r\nhello world\r\n0\r\n\r\n"),
    (["Transfer-Encoding: chunked"], b"b;a=b\r\nhello world\r\n00\r\nX: y\r\n\r\n"),
    (["Transfer-Encoding: chunked"], b"1000\r\n" + b"y" * 4096 + b"\r\n0\r\n\r\n"),
    (["Content-Type: application/json", "Content-Length: 2"], b"{}"),
])
def test_body_is_discarded(server, key, headers, body):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}", *headers, body=body)
                  + request("GET", f"/debug/{key}"))
        assert peer.read().rate_limit()["r"] == 99
        assert peer.read().json()["NumApprovedThisWindow"] == 1
        assert peer.is_silent(0.05)


def test_answer_does_not_wait_for_the_body(server, key):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}", "Content-Length: 10"))
        assert peer.read().status == 200
        peer.send(b"0123456789" + request("GET", "/healthz"))
        assert peer.read().status == 200


def test_expect_100_continue_gets_its_100(server, key):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}", "Expect: 100-continue", "Content-Length: 5"))
        response = peer.read()
        assert (response.status, response.raw) == (100, b"HTTP/1.1 100 Continue\r\n\r\n")
        assert peer.read().status == 200
        peer.send(b"hello" + request("GET", "/healthz"))
        assert peer.read().status == 200
    with HttpPeer(server) as peer:  # a request without a body gets no 100
        assert peer.ask("POST", f"/rate/{key}", "Expect: 100-continue").status == 200


def test_missing_body_takes_one_permit_and_ends_the_connection(start_server, key):
    server = start_server(*LONG_WINDOW, "--header-timeout-millis", "1000")
    before, peers = time.monotonic(), []
    for headers in [["Content-Length: 10"], ["Transfer-Encoding: chunked"],
                    ["Content-Length: 10", "Expect: 100-continue"]]:
        peers.append(HttpPeer(server))
        peers[-1].send(request("POST", f"/rate/{key}", *headers, body=b""))
    for peer in peers:
        response = peer.read()
        if response.status == 100:
            response = peer.read()
        assert response.status == 200
    for peer in peers:
        assert peer.rest() == b""
        assert time.monotonic() - before >= 0.95
        peer.close()
    assert inspect(server, key)["NumApprovedThisWindow"] == 3


# ---------------------------------------------------------------------------------- time-outs

def test_slow_dripper_is_ended(start_server):
    server = start_server("--header-timeout-millis", "300")
    before = time.monotonic()
    with HttpPeer(server) as peer:
        with pytest.raises((BrokenPipeError, ConnectionResetError, EOFError, TimeoutError)):
            for byte in request("GET", "/healthz", "X-Slow: " + "z" * 5_000):
                peer.send(bytes([byte]))  # steady progress, never a whole head
                if not peer.is_silent(0.02):
                    assert peer.socket.recv(1) == b""
                    raise EOFError
        assert 0.25 <= time.monotonic() - before < 20  # all of it takes 100 s


def test_silent_connection_is_ended_at_the_header_time_out(start_server):
    server = start_server("--header-timeout-millis", "200")
    with HttpPeer(server) as peer:
        assert peer.rest() == b""


def test_idle_connection_is_ended(start_server, key):
    server = start_server("--idle-timeout-millis", "300", "--header-timeout-millis", "60000")
    with HttpPeer(server) as peer:
        before = time.monotonic()
        assert peer.ask("POST", f"/rate/{key}").status == 200
        assert peer.rest() == b""
        assert time.monotonic() - before >= 0.25


def test_waiting_request_is_not_idle(start_server, key):
    server = start_server(*LONG_WINDOW, "--idle-timeout-millis", "600",
                          "--header-timeout-millis", "600")
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
        assert peer.is_silent(1.2)
        ask(server, "DELETE", f"/rate/{key}/1")
        assert peer.read().status == 200


# ------------------------------------------------------------------------------------- bounds

def test_connections_above_the_maximum_get_503(start_server):
    server = start_server("--max-connections", "3")
    held = [HttpPeer(server) for _ in range(3)]
    assert [peer.ask("GET", "/healthz").status for peer in held] == [200] * 3
    for _ in range(5):
        with HttpPeer(server) as peer:
            peer.send(request("POST", "/rate/k"))
            response = peer.read()
            assert (response.status, response.header("Connection")) == (503, "close")
            assert b"--max-connections" in response.body
            assert peer.rest() == b""
    assert held[0].ask("GET", "/debug/k").status == 404  # the server decided none of their requests
    assert [peer.ask("GET", "/healthz").status for peer in held] == [200] * 3
    held.pop().close()

    def served():
        with HttpPeer(server) as peer:
            return peer.ask("GET", "/healthz").status == 200
    eventually(served, "a place is free again")
    for peer in held:
        peer.close()


def test_silent_refused_connections_are_bounded_and_block_no_others(start_server):
    server = start_server("--max-connections", "1")
    with HttpPeer(server) as held:
        assert held.ask("GET", "/healthz").status == 200
        # Eight times as many as a shard answers at once.
        silent = [HttpPeer(server) for _ in range(512)]
        held.send(request("POST", "/rate/k"))
        assert held.read().status == 200
        endings = [peer.rest() for peer in silent]
        assert any(ending.startswith(b"HTTP/1.1 503") for ending in endings)
        assert b"" in endings, "more were answered than a shard has room for"

        def gets_the_reason():
            with HttpPeer(server) as newcomer, contextlib.suppress(OSError, AssertionError):
                newcomer.send(request("POST", "/rate/k"))
                return newcomer.rest().startswith(b"HTTP/1.1 503")
        eventually(gets_the_reason, "a newcomer gets the reason again")


def test_full_table_is_reported_and_recovers(start_server):
    server = start_server("--max-keys", "50", "--window-millis", "500")
    answers = {}
    with HttpPeer(server) as peer:
        peer.send(b"".join(request("POST", f"/rate/k{number}?maxRequests=1")
                           for number in range(200)))
        for number in range(200):
            response = peer.read()
            answers.setdefault(response.status, []).append(response.body)
    assert set(answers) == {200, 503}, {status: len(all) for status, all in answers.items()}
    assert 50 <= len(answers[200]) < 200
    assert set(answers[503]) == {b"the key table is full (--max-keys)"}
    eventually(lambda: ask(server, "POST", "/rate/another").status == 200, "room for other keys")


def test_client_that_does_not_read_delays_only_itself(start_server):
    server = start_server(*LONG_WINDOW)
    with HttpPeer(server) as peer:
        peer.send(b"".join(request("POST", f"/rate/{'k' * 900}{n}") for n in range(300)))
        for _ in range(300):
            peer.read()
    before = server.resident_bytes()
    with HttpPeer(server, receive_buffer=16_384) as lazy:
        lazy.socket.settimeout(1)
        data = request("GET", "/debug")
        sent = 0
        try:
            while sent < 64 << 20:
                sent += lazy.socket.send(data * 1_000)
        except TimeoutError:
            pass
        assert sent < 64 << 20, "the server reads without end"
        assert server.resident_bytes() - before < 32 << 20
        assert ask(server, "GET", "/healthz").status == 200
        # Once the client reads, the answers arrive.
        lazy.socket.settimeout(30)
        for _ in range(20):
            assert len(lazy.read().json()["Instances"]) == 300
