"""A minimal HTTP/2 client: literal headers, one frame at a time."""

import struct

from rest_peer import ASKED, Peer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS, ACK = 1, 4, 1
MAX_CONCURRENT_STREAMS = 3
POST, GET, SCHEME_HTTP, PATH, AUTHORITY = 0x83, 0x82, 0x86, 4, 1  # of HPACK's static table
STATUS_200 = 0x88


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Http2Peer(Peer):
    """One connection by prior knowledge. `settings` is None when the server has no HTTP/2;
    `refusal` is its answer instead."""

    def __init__(self, server):
        super().__init__(server)
        self.settings, self.refusal = None, b""
        ASKED.append("the preface of HTTP/2")
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))
        if self._exactly(5) == b"HTTP/":
            self.refusal = b"HTTP/" + self._until(b"\r\n").rstrip()
            return
        self.pending = self._last + self.pending
        kind, _, _, payload = self.read_frame()
        assert kind == SETTINGS
        pairs = [struct.unpack_from(">HI", payload, at) for at in range(0, len(payload), 6)]
        self.settings = dict(pairs)
        self.socket.sendall(frame(SETTINGS, ACK, 0))

    def _exactly(self, count):
        self._last = super()._exactly(count)
        return self._last

    def ask_on(self, stream, path, method=POST):
        """Sends a request on a new stream."""
        ASKED.append(f"POST {path} HTTP/2")
        block = bytes([method, SCHEME_HTTP, PATH, len(path)]) + path.encode()
        block += bytes([AUTHORITY, 9]) + b"localhost"
        self.socket.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, block))

    def reset_stream(self, stream):
        self.socket.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))  # CANCEL

    def read_frame(self):
        head = self._exactly(9)
        payload = self._exactly(int.from_bytes(head[:3], "big"))
        return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, payload

    def answer(self, stream):
        """Reads an answer: whether its status is 200, and its body."""
        is_200, body = False, b""
        while True:
            kind, flags, of, payload = self.read_frame()
            if of != stream:
                continue
            if kind == HEADERS:
                is_200 = payload[0] == STATUS_200
            elif kind == DATA:
                body += payload
            if flags & END_STREAM:
                return is_200, body
