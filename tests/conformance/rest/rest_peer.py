"""The raw peers of the integration tests, for answers of any server: they keep their requests for
messages, and accept answers without Date, as when Go's HTTP layer refuses a head. Peer speaks the
version that the run is about."""

import re
import socket
import time

import http_peer
from http1_over_http2 import TranslatingPeer
from http_peer import DATE, HttpPeer, Response, request
from server_process import eventually

ASKED = []  # request lines of the running case

TEXT = "text/plain; charset=UTF-8"
JSON = "application/json"


class Answer(Response):
    def __init__(self, head, body):
        self.dated = DATE.search(head) is not None
        if not self.dated:
            head = head[:-2] + b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
        super().__init__(head, body)
        if not self.dated:
            self.headers.pop()

    def names(self):
        """The names of all headers, sorted."""
        return sorted(name for name, _ in self.headers)

    def brief(self):
        """The fields that most cases check."""
        return self.status, self.header("Content-Type"), self.body


class Http1Peer(HttpPeer):
    def send(self, data):
        ASKED.append(data.splitlines()[0][:200].decode("latin-1"))
        super().send(data)

    def read(self, head_only=False):
        answer = Answer(self._until(b"\r\n\r\n"), b"")
        if head_only or answer.status in (100, 101, 204):
            return answer
        if answer.header("Transfer-Encoding") == "chunked":
            answer.body = self._chunked_body()
        elif answer.header("Content-Length") is None:
            answer.body = self.rest()
        else:
            answer.body = self._exactly(int(answer.header("Content-Length")))
        return answer

    def is_closed(self):
        """Whether the server has ended the connection, checked by another request."""
        try:
            super().send(request("GET", "/healthz"))
            return self.socket.recv(1) == b""
        except (ConnectionError, EOFError):
            return True


class Http2Peer(TranslatingPeer):
    response_type = Answer

    def send(self, data):
        ASKED.append(f"over HTTP/2: {data.splitlines()[0][:200].decode('latin-1')}")
        super().send(data)

    def response(self, stream):
        """The length comes last, as over HTTP/1.1: Go's HTTP/2 puts it before the date."""
        stream.heads[-1] = re.sub(rb"(Content-Length: \d+\r\n)(.*)(\r\n)$", rb"\2\1\3",
                                  stream.heads[-1], flags=re.DOTALL)
        return super().response(stream)

    def is_closed(self):
        """The same."""
        try:
            super().send(request("GET", "/healthz"))
            self.read()
            return False
        except (ConnectionError, EOFError):
            return True


Peer = Http1Peer


def speak_http2():
    """From now on Peer is one of HTTP/2. Before test modules import it."""
    global Peer
    Peer = Http2Peer


def ask(server, method, target, *headers, **options):
    """One request on a connection of its own."""
    with Peer(server) as peer:
        return peer.ask(method, target, *headers, **options)


def exchange(server, data):
    """Sends bytes on a new connection: returns the answer, and whether the connection ended."""
    with Peer(server) as peer:
        peer.send(data)
        answer = peer.read()
        return answer, peer.is_closed()


def permit(server, key, query=""):
    """Asks for a permit; returns the status."""
    return ask(server, "POST", f"/rate/{key}{query and '?'}{query}").status


def release(server, key, number="1"):
    return ask(server, "DELETE", f"/rate/{key}/{number}").status


def state_of(server, key):
    """The state in /debug/:key, or None. Messages do not list this request."""
    return http_peer.inspect(server, key)


def counts_of(server, key):
    """(approved, denied, waiting), or None."""
    state = state_of(server, key)
    if state is None:
        return None
    return state["NumApprovedThisWindow"], state["NumDeniedThisWindow"], state["NumWaiting"]


def limits_of(server, key):
    """(limit, queue), or None."""
    state = state_of(server, key)
    return state and (state["Config"]["MaxRequestsPerWindow"],
                      state["Config"]["MaxRequestsInQueue"])


def keys_of(server):
    """All live keys, as /debug names them."""
    return list(http_peer.ask(server, "GET", "/debug").json()["Instances"])


def waiting(server, key):
    state = state_of(server, key)
    return state["NumWaiting"] if state else 0


def waiter(server, key, query=""):
    """A waiting client, behind the waiters before it. For servers with long windows."""
    before = waiting(server, key)
    peer = Peer(server)
    peer.send(request("POST", f"/rate/{key}?canWait=true{query}"))
    eventually(lambda: waiting(server, key) == before + 1, "it waits")
    return peer


def settles(condition, seconds):
    """Whether it becomes true in time: for effects that one server has at once, another never."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def seen(try_once, tries=10):
    """Whether it is true in one of several tries: a paused machine may hide the effect, and a
    server without it never shows it."""
    return any(try_once() for _ in range(tries))


def seen_of(wanted, try_once, tries=10):
    """The same for a value: `wanted` if one of several tries returned it, else the last value."""
    for _ in range(tries):
        value = try_once()
        if value == wanted:
            break
    return value


def free_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]
