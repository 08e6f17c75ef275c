"""The log, beyond gocc's lines (tests/conformance checks these): slow readers, several requests in
one write, long heads, keys of other shards, and the lines left out by default."""

import json
import signal
import socket
import subprocess
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, metrics, request, totals
from native_peer import NativePeer
from server_process import (NO_CONFIG_FILE, NO_STATE_FILE, TIMEOUT_S, binary, clean_environment,
                            eventually)

UNKNOWN_RELEASE = "Received release request for unknown instance"
GAVE_UP = "client gave up on request. context cancelled before receiving response"


def lines(server, message, count):
    """The lines of this message, of which there are `count`. Ends the server: a line that it logs
    twice comes after the first one, perhaps after the test has looked."""
    assert server.stop() == 0
    found = [line for line in server.log if line["message"] == message]
    assert len(found) == count, server.output()
    return found


def test_logs_only_problems_by_default(start_server, key):
    server = start_server(*LONG_WINDOW)
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    ask(server, "POST", f"/rate/{key}")
    ask(server, "GET", "/no")
    ask(server, "POST", f"/rate/{key}?cost=-1")
    line = lines(server, "cost out of bounds", 1)[0]
    assert (line["level"], line["key"]) == ("WARN", key)
    assert server.messages() == [NO_CONFIG_FILE, "limits", NO_STATE_FILE, "ready",
                                 "cost out of bounds", "draining", "stopped"]


def test_logs_requests_of_one_write_in_order(start_server, key):
    server = start_server(*LONG_WINDOW, "--log2xx", "--log4xx")
    headers = [f"X-Request-Id: {i}" for i in range(40)]  # more than the memory for heads can hold
    with HttpPeer(server) as peer:
        peer.send(b"".join(request("POST", f"/rate/{key}?maxRequests=30", header)
                           for header in headers))
        statuses = [peer.read().status for _ in headers]
    assert server.stop() == 0
    logged = [line for line in server.log if "id" in line]
    assert [line["id"] for line in logged] == [str(i) for i in range(40)]
    assert [line["response"]["status"] for line in logged] == statuses
    assert {line["message"] for line in logged} == {"Incoming request", "Too Many Requests"}
    assert all(line["response"]["latency"] > 0 for line in logged)


def test_logs_long_heads_in_part(start_server, key):
    server = start_server(*LONG_WINDOW, "--log2xx")
    long_headers = [f"X-Long-{number}: " + "x" * 2_000 for number in range(3)]
    with HttpPeer(server) as peer:
        for name in ("first", "second"):
            response = peer.ask("POST", f"/rate/{key}{name}?{'q' * 1_500}", *long_headers,
                                f"X-Request-Id: {name}", f"X-Correlation-ID: {name}", "X-Behind: 1")
            assert response.status == 200
        assert peer.ask("DELETE", f"/rate/{key}none/1", *long_headers,
                        "X-Correlation-ID: third").status == 200
    for name, line in zip(("first", "second"), lines(server, "Incoming request", 3)):
        logged = line["request"]
        assert line["id"] == name
        assert logged["path"] == f"/rate/{key}{name}" and logged["host"] == "localhost"
        assert logged["query"] == "q" * 1_024 + "…"
        assert logged["header"]["X-Long-0"] == ["x" * 1_024 + "…"]
        assert "X-Behind" not in logged["header"]
    assert lines(server, UNKNOWN_RELEASE, 1)[0]["correlation-id"] == "third"


def test_logs_waiters_when_they_are_served_and_when_they_leave(start_server, key):
    server = start_server(*LONG_WINDOW, "--log2xx", "--log4xx")
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    served, leaves = HttpPeer(server), HttpPeer(server)
    for peer, name in ((served, "served"), (leaves, "leaves")):
        peer.send(request("POST", f"/rate/{key}?canWait=true", f"X-Correlation-ID: {name}"))
        assert peer.is_silent()
    leaves.close()
    server.wait_for_message(GAVE_UP)
    ask(server, "DELETE", f"/rate/{key}/1")
    assert served.read().status == 200
    served.close()
    gone = lines(server, GAVE_UP, 1)[0]
    assert (gone["level"], gone["correlation-id"], gone["key"]) == ("WARN", "leaves", key)
    waited = [line for line in lines(server, "Incoming request", 3)
              if line["request"]["query"] == "canWait=true"]
    assert waited[0]["response"]["latency"] > 100_000_000
    left = lines(server, "", 1)[0]
    assert left["response"]["status"] == 499


def test_release_of_an_unknown_key_on_any_shard(start_server):
    server = start_server(*LONG_WINDOW)
    keys = [f"key{i}" for i in range(8)]
    with HttpPeer(server) as peer:
        for known in keys[::2]:
            peer.ask("POST", f"/rate/{known}")
        for each in keys:
            assert peer.ask("DELETE", f"/rate/{each}/1").status == 200
    logged = lines(server, UNKNOWN_RELEASE, 4)
    assert [line["key"] for line in logged] == keys[1::2]


def test_refusals_while_draining_are_errors(start_server, key):
    server = start_server(*LONG_WINDOW)
    ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
        assert peer.is_silent()
        server.signal(signal.SIGTERM)
        assert peer.read().status == 503
    assert server.wait() == 0
    line = lines(server, "Service Unavailable", 1)[0]
    assert (line["level"], line["response"]["status"]) == ("ERROR", 503)
    assert line["request"]["params"] == {"key": key}


def test_logs_the_length_of_a_debug_body(start_server):
    server = start_server(*LONG_WINDOW, "--log2xx")
    small = ask(server, "GET", "/debug")
    with HttpPeer(server) as peer:
        for i in range(50):
            peer.ask("POST", f"/rate/k{i}", "X-Request-Id: filler")
    large = ask(server, "GET", "/debug")
    assert small.header("Content-Length") and large.header("Transfer-Encoding") == "chunked"
    logged = [line for line in lines(server, "Incoming request", 52) if "id" not in line]
    assert [line["response"]["length"] for line in logged] == [len(small.body), len(large.body)]


def test_logs_expired_keys_at_debug_level(start_server, key):
    server = start_server("--window-millis", "20", "--log-level", "DEBUG")
    ask(server, "POST", f"/rate/{key}")
    server.wait_for_message("key expired")
    line = lines(server, "key expired", 1)[0]
    assert (line["level"], line["key"]) == ("DEBUG", key)


def name_of(peer):
    return "%s:%d" % peer.socket.getsockname()


def logged_changes(server):
    """All lines about quotas, without the fields of every line. Ends the server, as lines()."""
    assert server.stop() == 0
    return [{name: value for name, value in line.items()
             if name not in ("time", "level", "source")}
            for line in server.log if line["level"] == "INFO" and "peer" in line]


def test_logs_the_peer_that_changes_quotas(start_server):
    """Over both dialects, for subjects of every shard; a refused change is not logged."""
    server = start_server()
    names = [f"gpt{number}" for number in range(8)]
    limit = {"name": "rpm", "metric": "requests", "amount": 5, "period_ms": 60_000,
             "kind": "sliding"}
    body = json.dumps({"limits": [limit], "overtakers": 2}).encode()
    with HttpPeer(server) as rest, NativePeer(server) as native:
        expected = []
        rest_name, native_name = name_of(rest), name_of(native)
        for name in names:
            rest.ask("PUT", f"/v1/subjects/{name}", f"Content-Length: {len(body)}", body=body)
            expected.append({"message": "quota put", "peer": rest_name, "subject": name,
                             "quota": {"limits": [limit], "overtakers": 2}})
            assert native.call("reset", {"subject": name.encode()}).codes == ["ok"]
            expected.append({"message": "usage reset", "peer": native_name, "subject": name})
            assert rest.ask("DELETE", f"/v1/subjects/{name}").status == 204
            assert rest.ask("DELETE", f"/v1/subjects/{name}").status == 404
            expected.append({"message": "quota removed", "peer": rest_name, "subject": name})
        assert rest.ask("POST", "/v1/reset-all", "Content-Length: 0").status == 200
        expected.append({"message": "usage of all subjects reset", "peer": rest_name})
        assert rest.ask("PUT", "/v1/subjects/bad", "Content-Length: 2", body=b"{}").status == 400
    logged = logged_changes(server)
    # Shards write at the same time, each in its order.
    for peer in (rest_name, native_name):
        assert ([line for line in logged if line["peer"] == peer] ==
                [line for line in expected if line["peer"] == peer])
    assert len(logged) == len(expected)


def test_logs_unknown_subjects_at_intervals(start_server, key):
    server = start_server()
    body = json.dumps({"subjects": [key]}).encode()
    with HttpPeer(server) as peer:
        for _ in range(50):
            assert peer.ask("POST", "/v1/reserve", f"Content-Length: {len(body)}",
                            body=body).status == 200
    assert totals(server)["sluicegate_quota_unknown_subjects_total"] == 50
    line = lines(server, "subject without a quota", 1)[0]
    assert (line["level"], line["subject"], line["times"]) == ("WARN", key, 1)


def test_logs_only_errors_at_error_level(engine):
    """Not even the ready line: the test connects instead."""
    io, shards = engine
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [binary(), "--bind", "127.0.0.1", "--port", str(port), "--native-port", "0", "--io", io,
         "--shards", str(shards), "--pin=false", "--log-level", "ERROR"],
        stdout=subprocess.PIPE, env=clean_environment(), text=True)

    class Server:
        host = "127.0.0.1"

    Server.port = port

    def answers():
        try:
            return ask(Server, "POST", "/rate/k?cost=-1").status == 400
        except ConnectionRefusedError:
            return False
    eventually(answers, "it answers")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (0, "")


@pytest.fixture
def unread_server(engine):
    """A server with a log that is not read beyond its start: (port, process)."""
    io, shards = engine
    process = subprocess.Popen(
        [binary(), "--bind", "127.0.0.1", "--port", "0", "--native-port", "0", "--io", io,
         "--shards", str(shards), "--pin=false", "--log4xx"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment())
    while (line := json.loads(process.stdout.readline()))["message"] != "ready":
        pass
    yield line["port"], process
    process.kill()
    process.wait()


def test_an_unread_log_stops_neither_answers_nor_the_end(unread_server):
    class Server:
        host, port = "127.0.0.1", unread_server[0]
    process = unread_server[1]
    batch = request("POST", "/rate/k?cost=-1") * 100
    with HttpPeer(Server) as peer:
        for _ in range(120):  # two lines each: more than pipe and queue can hold
            peer.send(batch)
            assert [peer.read().status for _ in range(100)] == [400] * 100
    assert metrics(Server)["sluicegate_log_lines_lost_total"] > 0
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert time.monotonic() - started < 15, "the server waits two seconds for the log"
