"""The most shards that --shards takes: answers about all of them are large, and have room.

Method: clients that do not read what they asked for until nothing moves any more."""

import socket
import struct
import time

import pytest

from conftest import ONE_ENGINE, end
from http2_attacker import WINDOW_UPDATE, Http2Attacker, ask_frame, frame, streams, window_setting
from server_process import TIMEOUT_S, ServerProcess

SHARDS_MAX = 256
OUTPUT_HIGH_BYTES = 256 * 1024  # unsent answers, beyond which no request is read
LARGE_BYTES = 1024 * 1024       # /metrics has more


@pytest.fixture(scope="module", name="server")
def _server():
    tables = ("--max-keys", "--max-handles", "--max-subjects", "--max-reservations",
              "--max-waiters", "--max-connections")
    server = ServerProcess(ONE_ENGINE[0].split("-")[0], SHARDS_MAX,
                           *(part for table in tables for part in (table, "1000")))
    yield server
    end(server)


def request(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def read_body(stream):
    """The body of the next answer, which is a 200 with a length."""
    assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
    size = None
    while (line := stream.readline()) != b"\r\n":
        name, value = line.split(b": ")
        size = int(value) if name == b"Content-Length" else size
    return stream.read(size)


def test_large_answers_behind_unsent_ones(server):
    """Of those that the kernel does not take, one is in flight, and the next begins behind as much
    unsent output as there may be."""
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(TIMEOUT_S)
        peer.connect((server.host, server.port))
        stream = peer.makefile("rb")
        peer.sendall(request("/openapi.json"))
        small_count = OUTPUT_HIGH_BYTES // len(read_body(stream))
        assert small_count > 0
        paths = 10 * ["/metrics", *small_count * ["/openapi.json"]]
        peer.sendall(b"".join(map(request, paths)))
        for index, path in enumerate(paths):
            if index < 2 * (1 + small_count):  # wherever sending stops, it does so with one
                time.sleep(0.3)                # of the large answers in flight
            assert server.is_running(), server.output()
            body = read_body(stream)
            if path == "/metrics":
                assert len(body) > LARGE_BYTES
                assert f'sluicegate_keys{{shard="{SHARDS_MAX - 1}"}} 0\n'.encode() in body


def test_large_answers_without_a_window(server):
    """Over HTTP/2 the shards gather one of them at a time."""
    with Http2Attacker(server, settings=window_setting(0)) as peer:
        asked = streams(4)
        peer.send(b"".join(ask_frame(stream, "/metrics") for stream in asked))
        assert peer.until(lambda: peer.heads)
        peer.reads_in(1)
        assert list(peer.heads) == [1] and not peer.resets
        peer.send(b"".join(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**30))
                           for stream in (0, *asked)))
        assert peer.until(lambda: len(peer.complete) == len(asked))
        assert all(len(peer.bodies[stream]) > LARGE_BYTES for stream in asked)
