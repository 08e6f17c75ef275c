"""A raw HTTP/1.1 peer: sends exact bytes, and keeps the exact bytes of the answers."""

import json
import re
import select
import socket
import struct

from server_process import TIMEOUT_S

DATE = re.compile(rb"Date: (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} "
                  rb"\d\d:\d\d:\d\d GMT\r\n")


def request(method, target, *headers, version="1.1", body=b""):
    """The bytes of a request, with `Host` unless the version is 1.0."""
    lines = [f"{method} {target} HTTP/{version}"]
    if version == "1.1":
        lines.append("Host: localhost")
    lines += headers
    return "\r\n".join([*lines, "", ""]).encode() + body


class Response:
    """One response; `raw` is its head as received, with a fixed value of `Date`."""

    def __init__(self, head, body):
        self.raw, dates = DATE.subn(b"Date: now\r\n", head)
        assert dates == 1 or head.startswith(b"HTTP/1.1 100 "), f"no proper Date in {head}"
        status_line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        self.version, status, self.reason = status_line.split(" ", 2)
        self.status = int(status)
        self.headers = [tuple(line.split(": ", 1)) for line in lines]
        self.body = body

    def header(self, name):
        values = [value for header, value in self.headers if header.lower() == name.lower()]
        assert len(values) < 2, f"{name} comes twice: {values}"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def rate_limit(self):
        """r and t of RateLimit, q and w of RateLimit-Policy."""
        r, t = re.fullmatch(r'"window";r=(\d+);t=(\d+)', self.header("RateLimit")).groups()
        q, w = re.fullmatch(r'"window";q=(\d+);w=(\d+)',
                            self.header("RateLimit-Policy")).groups()
        return {"r": int(r), "t": int(t), "q": int(q), "w": int(w)}

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


class HttpPeer:
    """One connection; keeps the `chunks` of the last chunked body."""

    def __init__(self, server, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""
        self.chunks = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- sending

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, method, target, *headers, **options):
        """Sends one request and reads its answer."""
        self.send(request(method, target, *headers, **options))
        return self.read(head_only=method == "HEAD")

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends the connection with RST, like a process killed with unread bytes."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # --- reading

    def _more(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError(f"closed within a response, after {self.pending[-200:]}")
        self.pending += data

    def _until(self, mark):
        while mark not in self.pending:
            self._more()
        end = self.pending.index(mark) + len(mark)
        data, self.pending = self.pending[:end], self.pending[end:]
        return data

    def _exactly(self, count):
        while len(self.pending) < count:
            self._more()
        data, self.pending = self.pending[:count], self.pending[count:]
        return data

    def _chunked_body(self):
        self.chunks = []
        while True:
            size = int(self._until(b"\r\n"), 16)
            self.chunks.append(self._exactly(size))
            assert self._exactly(2) == b"\r\n"
            if size == 0:
                return b"".join(self.chunks)

    def read(self, head_only=False):
        """The next response."""
        response = Response(self._until(b"\r\n\r\n"), b"")
        if head_only or response.status in (100, 204):
            return response
        if response.header("Transfer-Encoding") == "chunked":
            response.body = self._chunked_body()
        elif response.header("Content-Length") is None:
            response.body = self.rest()
        else:
            response.body = self._exactly(int(response.header("Content-Length")))
        return response

    def rest(self):
        """All bytes up to the connection's end."""
        parts, self.pending = [self.pending], b""
        while True:
            try:
                parts.append(self.socket.recv(65536))
            except ConnectionResetError as error:
                rest = b"".join(parts)
                raise AssertionError(f"reset after {len(rest)} bytes: {rest[-200:]}") from error
            if not parts[-1]:
                return b"".join(parts)

    def is_silent(self, seconds=0.1):
        """Whether neither bytes nor an end arrive for a while."""
        return not self.pending and not select.select([self.socket], [], [], seconds)[0]


def ask(server, method, target, *headers, **options):
    """One request on a connection of its own."""
    with HttpPeer(server) as peer:
        return peer.ask(method, target, *headers, **options)


def begin_a_request(peer):
    """Sends a part of a head; the server has read it, since it came with a request."""
    peer.send(request("GET", "/healthz") + b"POST /rate/k HTTP/1.1\r\n")
    assert peer.read().status == 200


def ask_often(server, path, times=100):
    """POSTs it repeatedly over one connection, since a single request soon fades from GET /top."""
    with HttpPeer(server) as peer:
        for _ in range(times):
            peer.ask("POST", path)


def inspect(server, key):
    """The state in GET /debug/:key, or None."""
    response = ask(server, "GET", f"/debug/{key}")
    return response.json() if response.status == 200 else None


def waiting(server, key):
    """The number of the key's waiters."""
    state = inspect(server, key)
    return state["NumWaiting"] if state else 0


def metrics(server):
    """Every series of GET /metrics: its line without the value -> the value."""
    text = ask(server, "GET", "/metrics").body.decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    values = (line.rsplit(" ", 1) for line in lines)
    return {name: float(value) if "." in value else int(value) for name, value in values}


def totals(server):
    """The same, added up over the shards: `sluicegate_keys`, `sluicegate_x_total{outcome="y"}`."""
    sums = {}
    for series, value in metrics(server).items():
        name = re.sub(r'shard="\d+",?', "", series).removesuffix("{}")
        sums[name] = sums.get(name, 0) + value
    return sums


def queued(server):
    """The number of entries ever queued."""
    return totals(server)['sluicegate_decisions_total{outcome="queued"}']
