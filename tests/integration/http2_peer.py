"""A peer of HTTP/2 by prior knowledge, that knows every frame it sends and receives. Its responses
have the form of HTTP/1.1, so that tests compare both versions."""

import http
import select
import time

import hpack
from hyperframe.frame import (ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame,
                              PingFrame, PriorityFrame, RstStreamFrame, SettingsFrame,
                              WindowUpdateFrame)

from http_peer import HttpPeer, Response

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES_MAX = 16_384
HEAD_BYTES = 9
WINDOW_BYTES = 65_535
WINDOW_BYTES_MAX = 2**31 - 1
STREAM_ID_MAX = 2**31 - 1
MAX_CONCURRENT_STREAMS = SettingsFrame.MAX_CONCURRENT_STREAMS
NO_ERROR, CANCEL = 0, 8
NAMES = {"ratelimit": "RateLimit", "ratelimit-policy": "RateLimit-Policy"}  # others: Like-This


class StreamReset(EOFError):
    """The server reset a stream that it had not answered."""


class NoHttp2(Exception):
    """The server answered in another version: its first line."""


class Http2Stream:
    """A request, and as much of its answer as has arrived."""

    def __init__(self, id, window):
        self.id, self.window = id, window
        self.heads, self.body = [], b""  # heads: of 100, then of the answer
        self.is_answered, self.error = False, None

    @property
    def is_over(self):
        return self.is_answered or self.error is not None

    def add_head(self, fields):
        (name, status), *headers = fields
        assert name == b":status", fields
        assert all(name == name.lower() for name, _ in headers), headers
        phrase = http.HTTPStatus(int(status)).phrase.encode()
        lines = [b"HTTP/1.1 " + status + b" " + phrase]
        for name, value in headers:
            text = name.decode()
            lines.append(NAMES.get(text, text.title()).encode() + b": " + value)
        self.heads.append(b"\r\n".join([*lines, b"", b""]))


class Http2Peer(HttpPeer):
    """One connection. By default its windows have room for answers of any size."""

    response_type = Response

    def __init__(self, server, receive_buffer=None, stream_window=WINDOW_BYTES_MAX):
        super().__init__(server, receive_buffer)
        self.stream_window = stream_window
        self.streams, self.settings, self.go_aways = {}, None, []
        self.is_acknowledged = False
        self.window = WINDOW_BYTES  # for bodies, of the connection
        self.answer_frames_count = 0
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self._block, self._block_ends_stream = b"", False
        self.pongs_count = 0
        self.begin_connection()

    def begin_connection(self):
        self.begin_http2()
        while len(self.pending) < 5:
            self._more()
        if self.pending.startswith(b"HTTP/"):
            raise NoHttp2(self._until(b"\r\n").rstrip().decode())
        self.await_settings()

    def begin_http2(self):
        settings = {SettingsFrame.ENABLE_PUSH: 0,
                    SettingsFrame.INITIAL_WINDOW_SIZE: self.stream_window}
        self.socket.sendall(PREFACE + SettingsFrame(settings=settings).serialize()
                            + WindowUpdateFrame(0, window_increment=2**30).serialize())

    def await_settings(self):
        while self.settings is None or not self.is_acknowledged:
            self.receive_frame()

    # --- sending

    def send_frame(self, frame):
        self.socket.sendall(frame.serialize())

    def begin(self, method, target, *headers, has_body=False):
        """Sends a head; returns the stream's number."""
        id = max([-1, *self.streams]) + 2
        fields = [(":method", method), (":scheme", "http"), (":authority", "localhost"),
                  (":path", target)]
        for header in headers:
            name, value = header.split(":", 1)
            fields.append((name.lower(), value.strip()))
        self.send_head(id, fields, has_body)
        return id

    def send_head(self, id, fields, has_body=False):
        self.streams[id] = Http2Stream(
            id, self.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW_BYTES))
        # The package takes a second for each 100 kB of Huffman code.
        is_short = sum(len(value) for _, value in fields) < FRAME_BYTES_MAX
        block = self._encoder.encode(fields, huffman=is_short)
        parts = [block[at:at + FRAME_BYTES_MAX] for at in range(0, len(block), FRAME_BYTES_MAX)]
        frames = [HeadersFrame(id, parts[0]), *(ContinuationFrame(id, part) for part in parts[1:])]
        if not has_body:
            frames[0].flags.add("END_STREAM")
        frames[-1].flags.add("END_HEADERS")
        self.socket.sendall(b"".join(frame.serialize() for frame in frames))

    def send_body(self, id, data, is_last=True):
        """Waits for windows; stops when the answer does not wait for the body."""
        stream = self.streams[id]
        while data or is_last:
            room = min(FRAME_BYTES_MAX, stream.window, self.window)
            if stream.is_over:
                return
            if data and room <= 0:
                self.receive_frame()
                continue
            part, data = data[:max(room, 0)], data[max(room, 0):]
            ends = is_last and not data
            self.send_frame(DataFrame(id, part, flags=["END_STREAM"] if ends else []))
            stream.window -= len(part)
            self.window -= len(part)
            if ends:
                return

    def request(self, method, target, *headers, body=None):
        """Sends a whole request; returns the stream's number."""
        if body is None:
            return self.begin(method, target, *headers)
        id = self.begin(method, target, *headers, f"Content-Length: {len(body)}", has_body=True)
        self.send_body(id, body)
        return id

    def ask(self, method, target, *headers, body=None):
        return self.read_stream(self.request(method, target, *headers, body=body))

    def reset_stream(self, id, error=CANCEL):
        self.streams[id].error = error
        self.send_frame(RstStreamFrame(id, error_code=error))

    def open_window(self, id, bytes_count):
        self.send_frame(WindowUpdateFrame(id, window_increment=bytes_count))

    def ping(self):
        """Returns when the server has read all that was sent before."""
        self.pongs_count = 0
        self.send_frame(PingFrame(0, opaque_data=b"ping" * 2))
        while self.pongs_count == 0:
            self.receive_frame()

    # --- reading

    def receive_frame(self):
        head = self._exactly(HEAD_BYTES)
        frame, size = Frame.parse_frame_header(memoryview(head))
        frame.parse_body(memoryview(self._exactly(size)))
        stream = self.streams.get(frame.stream_id)
        if isinstance(frame, (HeadersFrame, ContinuationFrame, DataFrame, RstStreamFrame)):
            self.answer_frames_count += 1
            assert stream is not None, f"a frame of an unknown stream: {frame}"
            assert not stream.is_answered or isinstance(frame, RstStreamFrame), f"late: {frame}"
        if isinstance(frame, HeadersFrame):
            self._block, self._block_ends_stream = b"", "END_STREAM" in frame.flags
        if isinstance(frame, (HeadersFrame, ContinuationFrame)):
            self._block += frame.data
            if "END_HEADERS" in frame.flags:
                stream.add_head(self._decoder.decode(self._block, raw=True))
                stream.is_answered = self._block_ends_stream
        elif isinstance(frame, DataFrame):
            stream.body += frame.data
            stream.is_answered = "END_STREAM" in frame.flags
        elif isinstance(frame, RstStreamFrame):
            stream.error = frame.error_code
        elif isinstance(frame, GoAwayFrame):
            self.answer_frames_count += 1
            self.go_aways.append((frame.last_stream_id, frame.error_code))
        elif isinstance(frame, WindowUpdateFrame):
            if stream:
                stream.window += frame.window_increment
            elif frame.stream_id == 0:
                self.window += frame.window_increment
        elif isinstance(frame, PingFrame):
            assert "ACK" in frame.flags
            self.pongs_count += 1
        elif isinstance(frame, SettingsFrame) and "ACK" in frame.flags:
            self.is_acknowledged = True
        elif isinstance(frame, SettingsFrame):
            self.settings = dict(frame.settings)
            self.send_frame(SettingsFrame(flags=["ACK"]))
        else:
            assert not isinstance(frame, PriorityFrame), frame

    def read_stream(self, id):
        """The response on a stream: 100 before the answer, where it was sent."""
        stream = self.streams[id]
        while not stream.is_over and not self._has_continue(stream):
            self.receive_frame()
        if self._has_continue(stream):
            return self.response_type(stream.heads.pop(0), b"")
        if not stream.is_answered:
            raise StreamReset(f"stream {id} was reset: {stream.error}")
        return self.response(stream)

    @staticmethod
    def _has_continue(stream):
        return bool(stream.heads) and stream.heads[0].startswith(b"HTTP/1.1 100 ")

    def response(self, stream):
        return self.response_type(stream.heads[-1], stream.body)

    def read_any(self, ids):
        """The number of the stream among `ids` whose answer is whole first."""
        while True:
            whole = next((id for id in ids if self.streams[id].is_over), None)
            if whole is not None:
                return whole
            self.receive_frame()

    def read_to_end(self):
        """Receives frames until the server ends the connection between two of them."""
        while True:
            try:
                self.receive_frame()
            except EOFError:
                assert not self.pending, f"ended within a frame: {self.pending}"
                return

    def is_silent(self, seconds=0.1):
        """Whether neither a part of an answer nor an end arrives for a while."""
        before, deadline = self.answer_frames_count, time.monotonic() + seconds
        while self.answer_frames_count == before:
            left = max(0, deadline - time.monotonic())
            if not self.pending and not select.select([self.socket], [], [], left)[0]:
                return True
            try:
                self.receive_frame()
            except EOFError:
                return False
        return False
