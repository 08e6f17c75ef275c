"""loopback_limits measures what it says, ends in time, and answers every request it was sent.

Method: the program with tiny runs; items that do not fit into receive buffers evenly; requests cut
everywhere. What it measured is only checked for being there.

    limits_test.py PROGRAM
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = sys.argv.pop(1)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
REQUEST = b"GET /rate/a HTTP/1.1\r\nHost: a\r\n\r\n"


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=False, capture_output=True, text=True,
                          timeout=30)


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
                item_bytes = line["parameters"]["item_bytes"]
                self.assertEqual(line["bytes_out"], line["items"] * item_bytes)

    def test_each_command_has_help(self):
        for command in ([], ["raw"], ["echo"], ["http"]):
            done = run(*command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage:", done.stdout)

    def test_names_the_fault(self):
        for status, arguments in ((1, []),
                                  (1, ["raw", "--seconds", "0"]),
                                  (1, ["raw", "--batch", "1"]),
                                  (2, ["raw", "--client-cpu", "100000"]),
                                  (2, ["echo", "--batch", "65536", "--window", "1024"]),
                                  (2, ["echo", "--client-cpu", "100000"])):
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
