"""A peer that tests use as one of HTTP/1.1, but each request is a stream of HTTP/2, and each answer
arrives in the form of HTTP/1.1, in the order of the requests. A relay of such peers is for clients
that do not speak HTTP/2."""

import collections
import contextlib
import re
import socketserver
import threading

from http2_peer import MAX_CONCURRENT_STREAMS, Http2Peer
from http_peer import HttpPeer, Response

# A connection of HTTP/1.1 is framed by these.
FRAMING = {"connection", "transfer-encoding", "keep-alive"}


def unchunked(data):
    """The body of these chunks, and the bytes behind them; None if the last one is missing."""
    body = b""
    while b"\r\n" in data:
        size, data = data.split(b"\r\n", 1)
        count = int(size, 16)
        if len(data) < count + 2:
            return None
        body, data = body + data[:count], data[count + 2:]
        if count == 0:
            return body, data
    return None


class TranslatingPeer(Http2Peer):
    """send(), read() and ask() of HttpPeer, over HTTP/2."""

    def __init__(self, server, receive_buffer=None):
        self._unsent = b""       # a part of a head, or of chunks
        self._body_stream = None  # its body is not complete
        self._body_bytes = None   # that are missing; None: chunks
        self._unread = collections.deque()  # streams in the order of their requests
        super().__init__(server, receive_buffer)

    def send(self, data):
        self._unsent += data
        while self._send_body() if self._body_stream else self._send_head():
            pass

    @property
    def is_between_requests(self):
        return not self._unsent and not self._body_stream

    @property
    def has_unread(self):
        return bool(self._unread)

    @staticmethod
    def field_value(value):
        return value.strip(b" \t")

    def _send_head(self):
        if b"\r\n\r\n" not in self._unsent:
            return False
        head, self._unsent = self._unsent.split(b"\r\n\r\n", 1)
        request_line, *lines = head.split(b"\r\n")
        method, target, _ = request_line.split(b" ")
        headers = [(name.decode().lower(), self.field_value(value))
                   for name, value in (line.split(b":", 1) for line in lines)]
        values = dict(headers)
        is_chunked = values.get("transfer-encoding") == b"chunked"
        has_length = values.get("content-length", b"0") != b"0"
        authority = [(b":authority", values["host"])] if values.get("host") else []
        fields = [(b":method", method), (b":scheme", b"http"), *authority, (b":path", target),
                  *((name, value) for name, value in headers if name not in FRAMING | {"host"})]
        self._await_room()
        id = max([-1, *self.streams]) + 2
        self.send_head(id, fields, has_body=is_chunked or has_length)
        self._unread.append(id)
        if is_chunked or has_length:
            self._body_stream = id
            self._body_bytes = int(values["content-length"]) if has_length else None
        return True

    def _await_room(self):
        """The server takes so many streams at once."""
        most = self.settings.get(MAX_CONCURRENT_STREAMS, 100)
        while sum(not self.streams[id].is_over for id in self._unread) >= most:
            self.receive_frame()

    def _send_body(self):
        if self._body_bytes is None:
            found = unchunked(self._unsent)
            if not found:
                return False
            body, self._unsent = found
            is_last = True
        else:
            body = self._unsent[:self._body_bytes]
            self._unsent = self._unsent[len(body):]
            self._body_bytes -= len(body)
            is_last = self._body_bytes == 0
            if not body and not is_last:
                return False
        self.send_body(self._body_stream, body, is_last)
        if is_last:
            self._body_stream = None
        return is_last

    def read(self, head_only=False):
        """The answer to the oldest request without one."""
        answer = self.read_stream(self._unread[0])
        if answer.status != 100:
            self._unread.popleft()
        return answer

    def ask(self, method, target, *headers, **options):
        return HttpPeer.ask(self, method, target, *headers, **options)

    def response(self, stream):
        """As HTTP/1.1 frames a body of unknown length: in chunks."""
        head = stream.heads[-1]
        if stream.body and b"\r\nContent-Length: " not in head:
            head = head[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"
        return self.response_type(head, stream.body)


class RelayedResponse(Response):
    def __init__(self, head, body):
        super().__init__(head, body)
        if self.header("Transfer-Encoding") == "chunked":
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        self.sent = head + body


class RelayPeer(TranslatingPeer):
    response_type = RelayedResponse

    @staticmethod
    def field_value(value):
        """HTTP/2 has no control characters in it: a server resets the stream, and there would be no
        answer to relay."""
        return re.sub(rb"[\x00-\x1f\x7f]", b"?", value.strip(b" \t"))


class Relay(socketserver.ThreadingTCPServer):
    """Passes on the requests of each connection over one of HTTP/2."""

    daemon_threads = True

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with RelayPeer(self.server.target) as peer:
                while data := self.request.recv(65_536):
                    peer.send(data)
                    while peer.is_between_requests and peer.has_unread:
                        self.request.sendall(peer.read().sent)
                        self.server.answers_count += 1

    def __init__(self, target):
        self.target, self.answers_count = target, 0
        super().__init__((target.host, 0), self.Handler)

    @property
    def port(self):
        return self.server_address[1]


@contextlib.contextmanager
def relay(target):
    """A relay in front of this server."""
    with Relay(target) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
