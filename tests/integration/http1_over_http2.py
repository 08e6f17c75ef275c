"""A peer that tests use as one of HTTP/1.1, but each request is a stream of HTTP/2, and each answer
arrives in the form of HTTP/1.1, in the order of the requests."""

import collections

from http2_peer import MAX_CONCURRENT_STREAMS, Http2Peer
from http_peer import HttpPeer

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

    def _send_head(self):
        if b"\r\n\r\n" not in self._unsent:
            return False
        head, self._unsent = self._unsent.split(b"\r\n\r\n", 1)
        request_line, *lines = head.split(b"\r\n")
        method, target, _ = request_line.split(b" ")
        headers = [(name.decode().lower(), value.strip(b" \t"))
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
