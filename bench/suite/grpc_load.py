#!/usr/bin/env python3
"""Loads gubernator over gRPC: calls of 1,000 checks, one in flight on each of a few connections.

    grpc_load.py PORT [--seconds N] [--keys N] [--connections N]

Implements the needed part of HTTP/2, because the standard library has none. Decodes every answer
and counts its verdicts. Prints one line of JSON.
"""

import argparse
import json
import random
import resource
import socket
import struct
import threading
import time

CHECKS = 1000
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FRAME_BYTES_MAX = 16384
WINDOW_BYTES = 65535  # HTTP/2's initial window
WINDOW_BYTES_MAX = (1 << 31) - 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


# ------------------------------------------------------------------------------ the bytes


def varint(value):
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def check(key):
    """One RateLimitReq: name, unique_key, hits, limit, duration."""
    return (b"\x0a\x05bench" + b"\x12" + varint(len(key)) + key + b"\x18\x01"
            + b"\x20" + varint(1_000_000_000) + b"\x28" + varint(3_600_000))


def call(keys):
    """A gRPC message of a GetRateLimitsReq."""
    body = bytearray()
    for key in keys:
        one = check(key)
        body += b"\x0a" + varint(len(one)) + one
    return struct.pack(">BI", 0, len(body)) + bytes(body)


def verdicts(message):
    """(approved, denied, failed) of the gRPC message of a GetRateLimitsResp.

    A RateLimitResp omits a status of 0, so its first field identifies it: limit, status or error.
    """
    counts = {0x10: 0, 0x08: 0}
    failed, at = 0, 5
    while at < len(message):
        bytes_count, at = read_varint(message, at + 1)
        first = message[at] if bytes_count else None
        if first in counts:
            counts[first] += 1
        else:
            failed += 1
        at += bytes_count
    return counts[0x10], counts[0x08], failed


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """HPACK: a literal that is not indexed."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request_headers():
    return b"".join(header(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"localhost"),
        (b":path", b"/pb.gubernator.V1/GetRateLimits"), (b"te", b"trailers"),
        (b"content-type", b"application/grpc")))


# -------------------------------------------------------------------------- a connection


class Connection:
    """One call at a time."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.window = WINDOW_BYTES
        self.stream = 1
        self.unread = b""
        self.headers = request_headers()
        settings = struct.pack(">HI", 4, WINDOW_BYTES_MAX)  # as much as an answer may be
        update = struct.pack(">I", WINDOW_BYTES_MAX - WINDOW_BYTES)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, settings)
                            + frame(WINDOW_UPDATE, 0, 0, update))

    def take(self, count):
        while len(self.unread) < count:
            got = self.socket.recv(1 << 16)
            if not got:
                raise ConnectionError("the server closed the connection")
            self.unread += got
        taken, self.unread = self.unread[:count], self.unread[count:]
        return taken

    def next_frame(self):
        """The next frame, after the acknowledgements that the protocol requires."""
        head = self.take(9)
        kind, flags = head[3], head[4]
        payload = self.take(int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and head[5:9] == b"\0\0\0\0":
            self.window += int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            raise ConnectionError("the server ended the connection")
        return kind, flags, payload

    def ask(self, message):
        """Sends a call; returns the message of its answer."""
        while self.window < len(message):
            self.next_frame()
        out = frame(HEADERS, END_HEADERS, self.stream, self.headers)
        for begin in range(0, len(message), FRAME_BYTES_MAX):
            part = message[begin:begin + FRAME_BYTES_MAX]
            last = begin + FRAME_BYTES_MAX >= len(message)
            out += frame(DATA, END_STREAM if last else 0, self.stream, part)
        self.window -= len(message)
        self.stream += 2
        self.socket.sendall(out)
        answer = b""
        while True:
            kind, flags, payload = self.next_frame()
            if kind == DATA:
                answer += payload
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return answer


# ---------------------------------------------------------------------------------- the load


class Load:
    """Counts of all connections; the calls are encoded before the clock starts."""

    def __init__(self, keys_count):
        numbers = list(range(keys_count))
        random.Random(1).shuffle(numbers)
        keys = [b"user-%010d" % number for number in numbers]
        self.calls = [call(keys[begin:begin + CHECKS])
                      for begin in range(0, keys_count, CHECKS)]
        self.turn = 0
        self.lock = threading.Lock()
        self.figures = {"calls": 0, "approved": 0, "denied": 0, "failed": 0, "bytes_out": 0,
                        "bytes_in": 0}
        self.latencies_us = []
        self.fault = None

    def next_call(self):
        with self.lock:
            self.turn += 1
            return self.calls[self.turn % len(self.calls)]

    def work(self, port, until):
        try:
            connection = Connection(port)
            while time.monotonic() < until:
                message = self.next_call()
                begin = time.monotonic()
                answer = connection.ask(message)
                self.note(message, answer, time.monotonic() - begin)
        except OSError as fault:
            self.fault = fault

    def note(self, message, answer, elapsed_s):
        approved, denied, failed = verdicts(answer)
        with self.lock:
            for name, more in (("calls", 1), ("approved", approved), ("denied", denied),
                               ("failed", failed), ("bytes_out", len(message)),
                               ("bytes_in", len(answer))):
                self.figures[name] += more
            self.latencies_us.append(1e6 * elapsed_s)


def run(port, keys, connections, seconds):
    load = Load(keys)
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.monotonic()
    threads = [threading.Thread(target=load.work, args=(port, begin + seconds), daemon=True)
               for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    if load.fault or not load.latencies_us:
        raise SystemExit(f"Error: {load.fault or 'no call was answered'}")
    latencies = sorted(load.latencies_us)
    return load.figures | {
        "seconds": elapsed_s, "keys": keys, "connections": connections, "batch": CHECKS,
        "client_cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "distinct_keys": min(load.turn, len(load.calls)) * CHECKS,
        "latency_us": {"p50": latencies[len(latencies) // 2],
                       "p99": latencies[len(latencies) * 99 // 100], "max": latencies[-1]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=4)
    options = parser.parse_args()
    print(json.dumps(run(options.port, options.keys, options.connections, options.seconds)))


if __name__ == "__main__":
    main()
