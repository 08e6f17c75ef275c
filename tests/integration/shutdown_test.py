"""SIGTERM and SIGINT: every request read gets an answer, no answer is cut, the exit code is 0.
Method: load over both dialects during the signal; each client records its requests."""

import signal
import threading
import time

import pytest

from conftest import LONG_WINDOW
from fleet import GOCC, OURS, Fleet, name_at
from gocc_program import gocc, why_no_gocc
from http_peer import HttpPeer, ask, begin_a_request, inspect, request
from native_peer import APPROVED, DENIED, DRAINING, NativePeer, acquire_frame, hello_frame
from server_process import eventually, in_some_try

MAY_WAIT = 1


class RestClient(threading.Thread):
    """Sends requests until the server ends the connection, `depth` of them pipelined."""

    def __init__(self, server, name, depth):
        super().__init__()
        self.server, self.name_of_key, self.depth = server, name, depth
        self.statuses, self.fault, self.closed_with = [], None, None

    def run(self):
        try:
            with HttpPeer(self.server) as peer:
                announced_close = False
                while True:
                    try:
                        peer.send(request("POST", f"/rate/{self.name_of_key}") * self.depth)
                    except OSError:
                        assert announced_close, "reset without an announced end"
                        return
                    for _ in range(self.depth):
                        try:
                            response = peer.read()
                        except EOFError:
                            assert not peer.pending, f"ended within an answer: {peer.pending}"
                            self.closed_with = "end"
                            return
                        self.statuses.append(response.status)
                        if response.header("Connection") == "close":
                            assert peer.rest() == b""
                            self.closed_with = "Connection: close"
                            return
        except BaseException as fault:
            self.fault = fault


class NativeClient(threading.Thread):
    """Keeps frames in flight until GoAway; then only reads."""

    def __init__(self, server, name):
        super().__init__()
        self.server, self.name_of_key = server, name
        self.fault, self.signal_sent = None, threading.Event()
        self.sent, self.owed, self.verdicts, self.received_go_away = {}, set(), set(), False

    def run(self):
        try:
            with NativePeer(self.server) as peer:
                while True:
                    while not self.received_go_away and len(self.sent) < 8:
                        before = not self.signal_sent.is_set()
                        id = peer.take_id()
                        try:
                            peer.send(acquire_frame(id, [self.name_of_key] * 20))
                        except OSError:
                            self.received_go_away = True
                            break
                        self.sent[id] = 20
                        # Sent whole before the signal: the server must answer it.
                        if before and not self.signal_sent.is_set():
                            self.owed.add(id)
                    answer = peer.read()
                    if answer is None:
                        return
                    if answer.kind == "goAway":
                        assert answer.id == 0 and answer.body["reason"]
                        self.received_go_away = True
                        continue
                    assert answer.kind == "verdicts", answer
                    assert answer.body["count"] == self.sent.pop(answer.id)
                    self.owed.discard(answer.id)
                    self.verdicts.update(answer.verdicts)
        except BaseException as fault:
            self.fault = fault


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_under_load_leaves_no_request_unanswered(start_server, number):
    server = start_server(*LONG_WINDOW, "--drain-millis", "20000")
    rest = [RestClient(server, f"r{client}", depth) for client, depth in enumerate([1, 1, 5, 50])]
    native = [NativeClient(server, f"n{client}") for client in range(4)]
    with NativePeer(server) as waiter, HttpPeer(server) as http_waiter:
        waiter.ask(["w"], maxRequests=[1])
        queued = waiter.ask(["w"] * 30, flags=MAY_WAIT)
        http_waiter.send(request("POST", "/rate/w?canWait=true") + request("GET", "/healthz"))
        eventually(lambda: inspect(server, "w")["NumWaiting"] == 31, "all wait")
        for client in rest + native:
            client.start()
        eventually(lambda: all(len(client.statuses) > 50 for client in rest)
                   and all(client.verdicts for client in native), "all are under way")
        for client in native:
            client.signal_sent.set()
        server.signal(number)

        # Waiters get a definite answer.
        response = http_waiter.read()
        assert response.status == 503
        assert response.body == b"the server is shutting down"
        assert response.header("Connection") == "close"
        assert http_waiter.rest() == b""
        granted, went_away = {}, False
        while (answer := waiter.read()) is not None:
            if answer.kind == "goAway":
                went_away = True
                continue
            granted.update({(answer.id, entry): verdict for entry, verdict
                            in zip(answer.entries, answer.verdicts, strict=True)})
        assert went_away
        assert granted == {(queued.id, entry): DRAINING for entry in range(30)}
    assert server.wait() == 0
    for client in rest + native:
        client.join(30)
        assert not client.is_alive()
        assert client.fault is None, repr(client.fault)
    for client in rest:
        assert set(client.statuses) <= {200, 429, 503}
        assert client.closed_with
    for client in native:
        assert client.received_go_away
        assert not client.owed
        assert client.verdicts <= {APPROVED, DENIED, DRAINING}
    drained = next(line for line in server.log if line["message"] == "draining")
    assert drained["signal"] == number.name
    assert server.messages()[-1] == "stopped"
    assert server.log[-1]["connectionsForceClosed"] == 0


def test_idle_server_stops_at_once(start_server):
    server = start_server("--drain-millis", "60000")
    with HttpPeer(server) as http, NativePeer(server) as native:
        http.ask("GET", "/healthz")
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert native.read("goAway").id == 0
        assert native.is_at_end()
        assert http.rest() == b""
    assert server.wait() == 0
    assert time.monotonic() - started < 30
    assert server.messages()[-2:] == ["draining", "stopped"]


def test_connections_in_the_accept_queue_are_answered(start_server):
    server = start_server(*LONG_WINDOW)
    server.pause()
    peers = [HttpPeer(server) for _ in range(20)]
    for peer in peers:
        peer.send(request("POST", "/rate/late"))
    native = NativePeer(server, hello=False)
    native.send(hello_frame())
    server.signal(signal.SIGTERM)
    server.resume()
    for peer in peers:
        response = peer.read()
        assert response.status in (200, 503)
        assert peer.rest() == b""
        peer.close()
    answer = native.read()
    if answer.kind == "welcome":
        answer = native.read()
        assert answer.kind == "goAway"
    else:
        assert (answer.kind, answer.code) == ("error", "draining")
    assert native.is_at_end()
    native.close()
    assert server.wait() == 0
    assert server.log[-1]["connectionsForceClosed"] == 0


def test_pending_answers_are_flushed(start_server):
    """A client that reads slowly still gets all of its answers."""
    server = start_server(*LONG_WINDOW, "--drain-millis", "20000")
    with NativePeer(server, receive_buffer=16_384) as peer:
        ids = [peer.acquire([b"k"] * 4_000, details=63) for _ in range(15)]
        answers = [peer.read("verdicts")]
        server.signal(signal.SIGTERM)
        while (answer := peer.read()) is not None:
            if answer.kind != "goAway":
                answers.append(answer)
            time.sleep(0.005)
        assert sorted(answer.id for answer in answers) == ids
    assert server.wait() == 0
    assert server.log[-1]["connectionsForceClosed"] == 0


def test_lingering_connections_are_cut_and_counted(start_server):
    server = start_server("--drain-millis", "400", "--header-timeout-millis", "60000")
    with HttpPeer(server) as peer:
        begin_a_request(peer)
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert time.monotonic() - started >= 0.35
    assert server.messages()[-1] == "stopped"
    assert server.log[-1]["connectionsForceClosed"] == 1


def test_second_signal_ends_at_once(start_server):
    server = start_server("--drain-millis", "600000", "--header-timeout-millis", "600000")
    with HttpPeer(server) as peer:
        begin_a_request(peer)
        server.signal(signal.SIGTERM)
        server.wait_for_message("draining")
        assert peer.is_silent()
        assert server.is_running()
        server.signal(signal.SIGTERM)
        assert server.wait() != 0
    assert server.messages()[-1] == "stopped before draining ended: second signal"


def test_readiness_fails_while_draining(start_server):
    def asks_in_its_grace():
        server = start_server("--drain-millis", "20000")
        with HttpPeer(server) as holder, HttpPeer(server) as peer:
            begin_a_request(holder)  # keeps the server from stopping
            assert peer.ask("GET", "/healthz").status == 200
            server.signal(signal.SIGTERM)
            server.wait_for_message("draining")
            try:
                response = peer.ask("GET", "/healthz")
            except (EOFError, ConnectionError):
                return False
        assert response.status == 503
        assert response.header("Connection") == "close"
        return True
    in_some_try(asks_in_its_grace, "the request arrives before the grace period ends")


def test_port_is_free_again_at_once(start_server):
    server = start_server()
    with HttpPeer(server) as peer:
        assert peer.ask("GET", "/healthz").status == 200
        server.signal(signal.SIGTERM)
        assert peer.rest() == b""  # the server ends first: TIME_WAIT is on its side
    assert server.wait() == 0
    start_server("--port", str(server.port), "--native-port", str(server.native_port))


@pytest.mark.parametrize("owner_kind", [
    OURS, pytest.param(GOCC, marks=pytest.mark.skipif(not gocc(), reason=why_no_gocc()))])
def test_a_caller_that_waits_at_another_node_has_its_answer(owner_kind):
    with Fleet([OURS, owner_kind], "-m", "1", *LONG_WINDOW) as fleet:
        asked, owner = fleet.nodes
        path = f"/rate/{name_at(owner.number, 2)}"
        assert ask(asked.process, "POST", path).status == 200
        with HttpPeer(asked.process) as peer:
            peer.send(request("POST", f"{path}?canWait=true"))
            assert peer.is_silent(0.3)
            asked.stop()
            fleet.nodes.remove(asked)
            assert peer.read().status == 503
