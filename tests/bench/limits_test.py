"""loopback_limits measures what it says, ends in time, and answers every request it was sent.

Method: the program with tiny runs; items that do not fit into receive buffers evenly; requests cut
everywhere. What it measured is only checked for being there.

    limits_test.py PROGRAM
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

PROGRAM = sys.argv.pop(1)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
REQUEST = b"GET /rate/a HTTP/1.1\r\nHost: a\r\n\r\n"


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=False, capture_output=True, text=True,
                          timeout=30)


def expect_open_loop(test, line, rate):
    """Latencies from fixed times; how long they are depends on the machine."""
    latency = line["latency_us"]
    test.assertGreater(latency["p50"], 0)
    test.assertLessEqual(latency["p50"], latency["p99"])
    test.assertLessEqual(latency["p99"], latency["p999"])
    test.assertLessEqual(latency["p999"], latency["max"])
    test.assertEqual(line["open_loop"]["rate"], rate)
    test.assertIn("kept_up", line["open_loop"])


class FakeRedis:
    """Answers every command of five lines with the same line, after `delay_s`."""

    def __init__(self, reply, delay_s=0.0):
        self.reply, self.delay_s = reply, delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.keys = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        rest = b""
        with peer, contextlib.suppress(ConnectionError):  # the load ends as it likes
            while got := peer.recv(1 << 16):
                *lines, rest = (rest + got).split(b"\r\n")
                commands = len(lines) // 5
                self.keys.update(lines[4:5 * commands:5])
                time.sleep(self.delay_s)
                peer.sendall(self.reply * commands)
                rest = b"\r\n".join([*lines[5 * commands:], rest])

    def close(self):
        self.listener.close()


class Redis(unittest.TestCase):
    def load(self, reply, *arguments, delay_s=0.0):
        server = FakeRedis(reply, delay_s)
        self.addCleanup(server.close)
        done = run("redis", "--port", str(server.port), "--keys", "100", "--connections", "2",
                   "--json", *arguments)
        return server, done

    def test_asks_for_every_key(self):
        server, done = self.load(b":12\r\n", "--batch", "7", "--seconds", "0.3")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = json.loads(done.stdout)
        self.assertEqual(line["limit"], "redis")
        self.assertEqual(line["requests"] % 7, 0)
        self.assertGreater(line["requests_per_s"], 0)
        self.assertEqual(len(server.keys), 98)  # 14 whole pipelines
        self.assertEqual({len(key) for key in server.keys}, {15})

    def test_a_late_reply_counts_from_the_time_it_was_due(self):
        # One pipeline in flight, and each takes 20 ms: of ten that are due meanwhile the last one
        # is much later than 20 ms.
        _, done = self.load(b":1\r\n", "--batch", "5", "--window", "1", "--rate", "5000",
                            "--seconds", "0.5", "--server-pid", str(os.getpid()), delay_s=0.02)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = json.loads(done.stdout)
        expect_open_loop(self, line, 5000)
        self.assertFalse(line["open_loop"]["kept_up"])
        self.assertGreater(line["latency_us"]["p50"], 60_000)
        self.assertIn("overload", done.stderr)
        self.assertGreater(line["server_cpu_s"], 0)

    def test_an_error_of_the_server_ends_the_run(self):
        _, done = self.load(b"-ERR no\r\n", "--batch", "7", "--seconds", "0.3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("something else than a number", done.stderr)


class Measures(unittest.TestCase):
    def measure(self, *arguments):
        done = run(*arguments, "--seconds", "0.1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1)
        self.assertIn("CPU", done.stderr)
        return json.loads(lines[0])

    def test_raw(self):
        line = self.measure("raw")
        self.assertEqual(line["limit"], "raw")
        self.assertGreater(line["bytes_per_s"], 0)
        self.assertGreaterEqual(line["seconds"], 0.1)

    @unittest.skipIf(os.environ.get("SLUICEGATE_NO_URING") == "1", "SLUICEGATE_NO_URING=1")
    def test_echo(self):
        for flags in ((), ("--item-bytes", "276", "--batch", "256"), ("--batch", "1"),
                      ("--item-bytes", "13", "--batch", "7", "--connections", "3"),
                      ("--item-bytes", "5", "--batch", "1001", "--window", "100")):
            with self.subTest(flags=flags):
                line = self.measure("echo", *flags)
                self.assertEqual(line["limit"], "echo")
                self.assertGreater(line["items_per_s"], 0)
                # Frames may be on their way when the counts begin, and when they end.
                said = line["parameters"]
                window_items = said["connections"] * said["window"] * said["batch"]
                self.assertAlmostEqual(line["bytes_out"], line["items"] * said["item_bytes"],
                                       delta=window_items * said["item_bytes"])

    @unittest.skipIf(os.environ.get("SLUICEGATE_NO_URING") == "1", "SLUICEGATE_NO_URING=1")
    def test_echo_at_fixed_times(self):
        line = self.measure("echo", "--batch", "10", "--item-bytes", "50", "--connections", "3",
                            "--rate", "20000")
        expect_open_loop(self, line, 20_000)
        self.assertLess(line["items_per_s"], 60_000)  # the schedule's rate, not the echo's
        self.assertGreaterEqual(line["server_page_faults"]["minor"], 0)

    def test_each_command_has_help(self):
        for command in ([], ["raw"], ["echo"], ["redis"], ["http"]):
            done = run(*command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage:", done.stdout)

    def test_names_the_fault(self):
        for status, arguments in ((1, []),
                                  (1, ["raw", "--seconds", "0"]),
                                  (1, ["raw", "--batch", "1"]),
                                  (2, ["raw", "--client-cpu", "100000"]),
                                  (2, ["echo", "--batch", "65536", "--window", "1024"]),
                                  (2, ["echo", "--client-cpu", "100000"]),
                                  (2, ["redis", "--batch", "2", "--keys", "1"]),
                                  (2, ["redis", "--server-pid", "-5"])):
            done = run(*arguments)
            self.assertEqual(done.returncode, status, arguments)
            self.assertNotEqual(done.stderr, "")


class Http(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([PROGRAM, "http", "--seconds", "20", "--json"], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.port = json.loads(self.server.stdout.readline())["port"]

    def connect(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.addCleanup(peer.close)
        return peer

    def expect_answers(self, peer, count):
        got = b""
        while len(got) < count * len(ANSWER):
            got += peer.recv(1 << 16)
        self.assertEqual(got, ANSWER * count)

    def report_after(self, sent_signal):
        self.server.send_signal(sent_signal)
        line = json.loads(self.server.stdout.readline())
        self.assertEqual(self.server.wait(timeout=10), 0)
        return line

    def test_answers_requests_cut_anywhere(self):
        peer = self.connect()
        for cut in range(1, len(REQUEST)):
            peer.sendall(REQUEST[:cut])
            time.sleep(0.002)
            peer.sendall(REQUEST[cut:])
            self.expect_answers(peer, 1)
        self.assertEqual(self.report_after(signal.SIGTERM)["requests"], len(REQUEST) - 1)

    def test_answers_many_at_once(self):
        peer = self.connect()
        peer.sendall(REQUEST * 5_000)
        self.expect_answers(peer, 5_000)
        self.connect().sendall(REQUEST[:-1])  # not a request yet
        line = self.report_after(signal.SIGINT)
        self.assertEqual(line["requests"], 5_000)
        self.assertEqual(line["limit"], "http")

    def test_ends_by_itself(self):
        done = run("http", "--seconds", "0.1")
        self.assertEqual(done.returncode, 0)
        self.assertGreater(int(done.stdout.splitlines()[0]), 0)


if __name__ == "__main__":
    unittest.main()
