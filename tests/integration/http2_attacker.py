"""A raw HTTP/2 peer: sends exact frames, also such as no client sends, and notes the answers."""

import collections
import select
import socket
import struct

import hpack

from server_process import TIMEOUT_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 7, 8, 9)
ACK, END_STREAM, END_HEADERS, PADDED = 1, 1, 4, 8
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR = 0, 1, 2
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11
INITIAL_WINDOW_SIZE = 4

METHODS = {"GET": b"\x82", "POST": b"\x83"}  # of HPACK's static table
SCHEME_HTTP = b"\x86"
LAST_INDEXED = b"\xbe"  # the field that was put into the connection's table last


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, prefix_bits, first=0):
    """HPACK, 5.1."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([first | value])
    data, value = bytearray([first | most]), value - most
    while value >= 128:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data + bytes([value]))


def text(value):
    return integer(len(value), 7) + value


def field(name, value, indexed=False):
    """A field without Huffman code; `indexed` puts it into the connection's table, at index 62."""
    return (b"\x40" if indexed else b"\x00") + text(name) + text(value)


def head(path, method="GET"):
    return (METHODS[method] + SCHEME_HTTP + b"\x04" + text(path.encode()) + b"\x01"
            + text(b"localhost"))


def ask_frame(stream, path, method="GET", more=b"", has_body=False):
    """A request in one frame of HEADERS."""
    flags = END_HEADERS | (0 if has_body else END_STREAM)
    return frame(HEADERS, flags, stream, head(path, method) + more)


def streams(count):
    """The numbers of the first streams of a client."""
    return range(1, 2 * count, 2)


def window_setting(size):
    """SETTINGS with the first window of every stream."""
    return frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, size))


class Http2Attacker:
    """A connection by prior knowledge, or with the bytes of `begin` instead.

    What it has read: `goodbye` is the error of GOAWAY, `resets` the errors of RST_STREAM, `heads`
    the fields of answers, `bodies` their bodies, `opened` by how much the windows of its own bodies
    were opened, 0 for the connection; `ended`: the server ended the connection."""

    def __init__(self, server, settings=frame(SETTINGS), receive_buffer=None, begin=b""):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = bytearray()
        self.goodbye, self.ended = None, False
        self.trips_count = 0
        self.trips_seen = 0
        self.decoder = hpack.Decoder()
        self.resets, self.heads, self.bodies, self.complete = {}, {}, {}, set()
        self.opened = collections.Counter()
        self.send(begin or PREFACE + settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # --- sending

    def send(self, data):
        self.socket.sendall(data)

    def flood(self, data, reads=True):
        """Sends as long as the server takes it, and reads meanwhile."""
        view = memoryview(data)
        self.socket.setblocking(False)
        while view and not self.ended:
            readable, writable, _ = select.select([self.socket] if reads else [], [self.socket],
                                                  [], TIMEOUT_S)
            assert readable or writable, "the server neither takes nor ends it"
            if readable:
                self._receive()
            if writable and not self.ended:
                try:
                    view = view[self.socket.send(view[:65_536]):]
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    self.ended = True
        self.socket.settimeout(TIMEOUT_S)

    # --- reading

    def reads_in(self, seconds):
        """Reads what arrives within this time, if anything does."""
        if select.select([self.socket], [], [], seconds)[0]:
            self._receive()

    def _receive(self):
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        self.ended = not data
        self.pending += data
        at = 0
        while len(self.pending) >= at + 9:
            size = int.from_bytes(self.pending[at:at + 3], "big")
            if len(self.pending) < at + 9 + size:
                break
            kind, flags = self.pending[at + 3], self.pending[at + 4]
            stream = int.from_bytes(self.pending[at + 5:at + 9], "big")
            self._note(kind, flags, stream, bytes(self.pending[at + 9:at + 9 + size]))
            at += 9 + size
        del self.pending[:at]

    def _note(self, kind, flags, stream, payload):
        if kind == GOAWAY:
            self.goodbye = int.from_bytes(payload[4:8], "big")
        elif kind == RST_STREAM:
            self.resets[stream] = int.from_bytes(payload, "big")
        elif kind == HEADERS:
            fields = dict(self.decoder.decode(payload))
            self.heads.setdefault(stream, []).append(fields)
        elif kind == DATA:
            self.bodies[stream] = self.bodies.get(stream, b"") + payload
        elif kind == WINDOW_UPDATE:
            self.opened[stream] += int.from_bytes(payload, "big")
        elif kind == PING and flags & ACK and payload[:4] == b"trip":
            self.trips_seen = int.from_bytes(payload[4:], "big")
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.complete.add(stream)

    def upgraded(self):
        """Reads the answer of HTTP/1.1 to a request to go on in HTTP/2."""
        while b"\r\n\r\n" not in self.pending:
            self.pending += self.socket.recv(1)
        answer, self.pending = bytes(self.pending), bytearray()
        return answer.startswith(b"HTTP/1.1 101 ")

    def until(self, condition):
        """Reads until it holds, or the connection has ended; returns whether it holds."""
        while not condition() and not self.ended:
            self._receive()
        return condition()

    def until_end(self):
        """Reads to the connection's end; returns the error of GOAWAY, None without one."""
        self.until(lambda: self.ended)
        return self.goodbye

    def status(self, stream):
        """Waits for the whole answer."""
        assert self.until(lambda: stream in self.complete), (self.goodbye, self.resets)
        return int(self.heads[stream][-1][":status"])

    def round_trip(self):
        """When this returns, the server has taken all that was sent before."""
        self.trips_count += 1
        self.send(frame(PING, 0, 0, b"trip" + self.trips_count.to_bytes(4, "big")))
        return self.until(lambda: self.trips_seen == self.trips_count)
