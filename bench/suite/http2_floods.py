"""Floods of HTTP/2 frames, ordinary requests at the same byte rate, and a lone client beside both.

Flow:   Flood.run() in a process of its own; Lone beside it.
Shape:  a flood is a script of bytes for one connection, which is opened anew when the script or the
        connection ends. What is slow on purpose has a share of the byte rate, and so have the
        ordinary requests beside it.
Units:  seconds, bytes.
"""

import contextlib
import socket
import struct
import time
import typing

from .machine import Trouble

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 8, 9)
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
GET, POST, SCHEME_HTTP, PATH, AUTHORITY = b"\x82", b"\x83", b"\x86", b"\x04", b"\x01"  # HPACK's

ORDINARY = "ordinary requests"
SCRIPT_BYTES = 1 << 20
STREAMS_AT_ONCE = 100
PIECE_BYTES = 4096
TIMEOUT_S = 30


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def text(value):
    """Of HPACK, up to 126 bytes."""
    return bytes([len(value)]) + value


def head(path, method=POST):
    return method + SCHEME_HTTP + PATH + text(path) + AUTHORITY + text(b"localhost")


def ask(stream):
    """What an ordinary client sends: every connection has the same keys."""
    return frame(HEADERS, END_STREAM | END_HEADERS, stream,
                 head(b"/rate/user-%010d" % (stream % 20_000)))


def repeated(piece, opening=b""):
    return opening + piece * (SCRIPT_BYTES // len(piece))


class Script(typing.NamedTuple):
    data: bytes
    settings: bytes = b""
    piece_bytes: int = PIECE_BYTES  # sent at once
    share: float = 1  # of the byte rate
    reads: bool = True  # what the server sends


def window_setting(size):
    """The first window of every answer."""
    return struct.pack(">HI", 4, size)


def on_streams(piece_of):
    size = len(piece_of(1))
    return b"".join(piece_of(2 * number + 1) for number in range(SCRIPT_BYTES // size))


LARGE_FIELD = text(b"x") + b"\x7f\xa1\x1e" + b"y" * 4000


# A field in the connection's table, and its index.
INDEXED_FIELD, LAST_INDEXED = b"\x40" + LARGE_FIELD, b"\xbe"
BOMB_BYTES = 20_000  # a whole frame arrives at once


def header_bomb():
    """One field in the table, and thousands of times its index of one byte."""
    return frame(HEADERS, END_STREAM | END_HEADERS, 1,
                 head(b"/healthz") + INDEXED_FIELD + LAST_INDEXED * 10_000)


def later_bomb():
    """The field was put into the table by an earlier head."""
    return (frame(HEADERS, END_STREAM | END_HEADERS, 1, head(b"/healthz") + INDEXED_FIELD)
            + frame(HEADERS, END_STREAM | END_HEADERS, 3,
                    head(b"/healthz") + LAST_INDEXED * 16_000))


def trailers_bomb(stream):
    return (asked_with_body(stream)
            + frame(HEADERS, END_STREAM | END_HEADERS, stream,
                    INDEXED_FIELD + LAST_INDEXED * 12_000))


def large_body(stream):
    """Above the 64 KiB that the server takes, without an end."""
    return asked_with_body(stream) + frame(DATA, 0, stream, bytes(16_000)) * 5


def unread_answers(stream):
    """No byte of the answers may be sent."""
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, head(b"/openapi.json", GET))


def asked_with_body(stream):
    return frame(HEADERS, END_HEADERS, stream, head(b"/v1/reserve"))


def stalled_body(stream):
    return asked_with_body(stream) + frame(DATA, 0, stream, b'{"subjects":')


CONTENT_LENGTH = b"\x0f\x0d" + text(b"1")  # by its name's index, 28


# Each of these makes the server reset the stream.
def window_overflow(stream):
    return asked_with_body(stream) + frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**31 - 1))


def wrong_length(stream):
    return (frame(HEADERS, END_HEADERS, stream, head(b"/v1/reserve") + CONTENT_LENGTH)
            + frame(DATA, END_STREAM, stream, b"22"))


def invalid_field(stream):
    return frame(HEADERS, END_STREAM | END_HEADERS, stream,
                 head(b"/healthz") + b"\0" + text(b"X") + text(b"y"))


# All but its last byte, each byte alone.
SLOW_HEAD = frame(HEADERS, END_STREAM | END_HEADERS, 1,
                  head(b"/healthz") + b"\0" + LARGE_FIELD)[:-1]
OPENED = asked_with_body(1)
WIDE_WINDOW = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 65_536))  # the connection's
FLOODS = {
    "streams above 250": Script(on_streams(asked_with_body)),
    "rapid reset": Script(on_streams(
        lambda stream: ask(stream) + frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))),
    "window overflow": Script(on_streams(window_overflow)),
    "wrong length": Script(on_streams(wrong_length)),
    "invalid field": Script(on_streams(invalid_field)),
    "continuation": Script(repeated(frame(CONTINUATION, 0, 1),
                                    frame(HEADERS, END_STREAM, 1, head(b"/healthz")))),
    "settings": Script(repeated(frame(SETTINGS))),
    "ping": Script(repeated(frame(PING, 0, 0, bytes(8)))),
    "header bomb": Script(header_bomb(), piece_bytes=BOMB_BYTES),
    "bomb behind a head": Script(later_bomb(), piece_bytes=BOMB_BYTES),
    "bomb in trailers": Script(on_streams(trailers_bomb), piece_bytes=BOMB_BYTES),
    "empty data": Script(repeated(frame(DATA, 0, 1), OPENED)),
    "padding": Script(repeated(frame(DATA, PADDED, 1, b"\0"), OPENED)),
    "window update": Script(repeated(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))),
    "priority": Script(repeated(frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 7)))),
    "slow head": Script(SLOW_HEAD, piece_bytes=1, share=0.01),
    "closed window": Script(on_streams(unread_answers), window_setting(0)),
    "full sockets": Script(WIDE_WINDOW + on_streams(unread_answers), window_setting(2**31 - 1),
                           reads=False),
    "large body": Script(on_streams(large_body)),
    # As many as may be open at once, then on another connection.
    "stalled bodies": Script(b"".join(stalled_body(2 * number + 1) for number in range(250))),
}


class Connection:
    """One connection of a flood, or of ordinary requests, which waits for its answers."""

    def __init__(self, port, script):
        self.port, self.script = port, script
        self.piece_bytes = script.piece_bytes
        self.socket = None
        self.open()

    def open(self):
        self.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        self.socket.setblocking(False)
        start = PREFACE + frame(SETTINGS, 0, 0, self.script.settings)
        self.socket.send(start)
        self.left = memoryview(self.script.data)
        self.received = 0
        return len(start)

    def send(self):
        """Sends some, and drops what has arrived; returns the number of bytes that were sent."""
        try:
            if self.script.reads and not self.read():
                return self.open()
            sent = self.socket.send(self.left[:self.piece_bytes])
        except BlockingIOError:
            return 0
        except OSError:  # ended by the server
            return self.open()
        self.left = self.left[sent:]
        return sent + (0 if self.left else self.open())

    def read(self):
        """Drops what has arrived; false: the server has ended the connection."""
        with contextlib.suppress(BlockingIOError):
            while data := self.socket.recv(1 << 18):
                self.received += len(data)
            return False
        return True

    def close(self):
        if self.socket:
            self.socket.close()


class Ordinary(Connection):
    """At most STREAMS_AT_ONCE requests without an answer, which is a frame of HEADERS."""

    def open(self):
        self.pending, self.answers_count, self.asked_count = b"", 0, 0
        return super().open()

    def send(self):
        try:
            with contextlib.suppress(BlockingIOError):
                if not (data := self.socket.recv(1 << 18)):
                    raise Trouble("the server ended a connection of ordinary requests")
                self.count(self.pending + data)
        except OSError as fault:
            raise Trouble(f"ordinary requests: {fault}") from fault
        room = STREAMS_AT_ONCE + self.answers_count - self.asked_count
        count = min(room, self.piece_bytes // 64 + 1)
        requests = b"".join(ask(2 * (self.asked_count + number) + 1) for number in range(count))
        if requests:
            self.asked_count += count
            self.socket.setblocking(True)
            self.socket.sendall(requests)
            self.socket.setblocking(False)
        return len(requests)

    def count(self, data):
        at = 0
        while len(data) >= at + 9:
            size = int.from_bytes(data[at:at + 3], "big")
            if len(data) < at + 9 + size:
                break
            self.answers_count += data[at + 3] == HEADERS
            at += 9 + size
        self.pending = data[at:]


class Flood:
    def __init__(self, name, port, connections, bytes_per_s, is_ordinary=False):
        """`is_ordinary`: the requests that this flood is compared with."""
        script = FLOODS[name]
        self.bytes_per_s = bytes_per_s * script.share
        if is_ordinary:
            script = Script(b"", piece_bytes=script.piece_bytes)
        kind = Ordinary if is_ordinary else Connection
        self.connections = [kind(port, script) for _ in range(connections)]

    def run(self, seconds):
        """Returns the bytes per second that the sockets took."""
        begin, sent, turn = time.monotonic(), 0, 0
        while (elapsed := time.monotonic() - begin) < seconds:
            if sent >= self.bytes_per_s * elapsed:
                time.sleep(0.0005)
                continue
            turn = (turn + 1) % len(self.connections)
            sent += self.connections[turn].send()
        return sent / (time.monotonic() - begin)

    def close(self):
        for connection in self.connections:
            connection.close()


class Lone:
    """A client of HTTP/2 with one request at a time."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(PREFACE + frame(SETTINGS))
        self.stream, self.pending = 1, b""

    def ask(self):
        self.socket.sendall(frame(HEADERS, END_STREAM | END_HEADERS, self.stream,
                                  head(b"/healthz", GET)))
        while self.read_frame() != (HEADERS, self.stream):
            pass
        self.stream += 2

    def read_frame(self):
        while len(self.pending) < 9 or len(self.pending) < 9 + self.payload_bytes():
            if not (data := self.socket.recv(65_536)):
                raise Trouble("the server ended the lone client's connection")
            self.pending += data
        kind, stream = self.pending[3], int.from_bytes(self.pending[5:9], "big")
        self.pending = self.pending[9 + self.payload_bytes():]
        return kind, stream

    def payload_bytes(self):
        return int.from_bytes(self.pending[:3], "big")

    def latencies(self, seconds, pause_s=0.001):
        """Of one request after the other, with a pause in between; sorted."""
        taken, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.perf_counter()
            self.ask()
            taken.append(time.perf_counter() - start)
            time.sleep(pause_s)
        return sorted(taken)

    def close(self):
        self.socket.close()
