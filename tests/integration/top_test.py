"""`sluicegate top` on a terminal: its screen, its keys and signals, and that it restores the
terminal. Method: a pseudo-terminal; an emulator (pyte) turns its output into a screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

from conftest import LONG_WINDOW
from http_peer import ask_often
from server_process import (TIMEOUT_S, ServerProcess, binary, clean_environment, eventually,
                            run_binary)

ALTERNATE_SCREEN = b"\x1b[?1049h"
NORMAL_SCREEN = b"\x1b[?1049l"
HELP = "q quit"  # the beginning of the last row


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, *words, rows=24, columns=100):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.output = b""
        self.master, self.terminal = pty.openpty()
        self._set_size(rows, columns)
        self.settings = termios.tcgetattr(self.terminal)
        self.process = subprocess.Popen(
            [binary(), *words], stdin=self.terminal, stdout=self.terminal, stderr=subprocess.PIPE,
            env=clean_environment() | {"TERM": "xterm", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.master)
        os.close(self.terminal)

    def _set_size(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self._set_size(rows, columns)

    def read(self, wait_s=0.1):
        while select.select([self.master], [], [], wait_s)[0]:
            data = os.read(self.master, 65536)
            self.output += data
            self.stream.feed(data)
            wait_s = 0

    def rows(self):
        self.read()
        return [row.rstrip() for row in self.screen.display]

    def wait_for(self, condition, what):
        """The rows, once the condition is true and the last row, written last, is present."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            rows = self.rows()
            if rows[-1].startswith(HELP) and condition(rows):
                return rows
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline, f"not on the screen: {what}\n" + "\n".join(rows)

    def wait_for_help(self):
        self.wait_for(lambda rows: True, "the help")

    def type(self, text):
        os.write(self.master, text.encode())

    def ends(self):
        """Waits for the end; returns the exit code. Asserts that the terminal is restored."""
        eventually(lambda: self.read() or self.process.poll() is not None, "it ends")
        self.read()
        assert self.output.rindex(NORMAL_SCREEN) > self.output.rindex(ALTERNATE_SCREEN)
        assert termios.tcgetattr(self.terminal) == self.settings
        return self.process.returncode


def top(server, *flags, **options):
    address = f"127.0.0.1:{server.port}"
    return Terminal("top", address, "--interval-millis", "100", *flags, **options)


def keys_in(rows):
    """The keys in the order shown."""
    begin = next(number for number, row in enumerate(rows) if "KEY (by" in row)
    return [row.split()[-1] for row in rows[begin + 1:-1] if row]


def has_key(*keys):
    def shown(rows):
        return any("KEY (by" in row for row in rows) and keys_in(rows)[:len(keys)] == [*keys]
    return shown


@pytest.fixture
def busy_server(start_server):
    """Two keys: one has more requests, the other more denials."""
    server = start_server(*LONG_WINDOW, "--max-requests", "300")
    ask_often(server, "/rate/often", 300)
    ask_often(server, "/rate/denied?cost=300", 150)
    return server


def test_shows_shards_and_keys(busy_server):
    with top(busy_server) as terminal:
        rows = terminal.wait_for(has_key("often", "denied"), "both keys")
        assert f"at 127.0.0.1:{busy_server.port}" in rows[0]
        shards = [row.split()[0] for row in rows[3:3 + busy_server.shards]]
        assert shards == [str(number) for number in range(busy_server.shards)]
        terminal.type("q")
        assert terminal.ends() == 0


def test_sorts_by_the_chosen_column(busy_server):
    with top(busy_server) as terminal:
        terminal.wait_for(has_key("often", "denied"), "by decisions")
        terminal.type("n")
        terminal.wait_for(has_key("denied", "often"), "by denied")
        terminal.type("a")
        terminal.wait_for(has_key("often", "denied"), "by approved")
        terminal.type("q")
        assert terminal.ends() == 0


def test_refreshes_itself(start_server):
    server = start_server(*LONG_WINDOW)
    with top(server) as terminal:
        terminal.wait_for(lambda rows: any("no requests" in row for row in rows), "no keys")
        ask_often(server, "/rate/first")
        terminal.wait_for(has_key("first"), "the first key")
        terminal.type("q")
        assert terminal.ends() == 0


def test_follows_the_size_of_the_terminal(busy_server):
    with top(busy_server) as terminal:
        terminal.wait_for_help()
        terminal.resize(40, 60)
        terminal.wait_for(lambda rows: len(rows) == 40 and not any(rows[-8:-1]),
                          "the help in the last row")
        terminal.resize(5, 20)
        terminal.wait_for(lambda rows: len(rows) == 5 and rows[-1] == "q quit   sort by: d"[:20],
                          "the help in the last row")
        terminal.type("q")
        assert terminal.ends() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_restores_the_terminal(server, number):
    with top(server) as terminal:
        terminal.wait_for_help()
        terminal.process.send_signal(number)
        assert terminal.ends() == 0


def test_a_hostile_key_is_shown_in_quotes(start_server):
    server = start_server(*LONG_WINDOW)
    ask_often(server, "/rate/%1B%5D0;title%07%1B%5B2J")
    with top(server) as terminal:
        terminal.wait_for(has_key(r'"\x1b]0;title\a\x1b[2J"'), "the key in quotes")
        assert b"\x1b]0;" not in terminal.output
        terminal.type("q")
        assert terminal.ends() == 0


def test_a_server_that_stops_and_restarts(engine, start_server):
    server = start_server(*LONG_WINDOW)
    with top(server, "--timeout-millis", "1000") as terminal:
        terminal.wait_for_help()
        assert server.stop() == 0
        terminal.wait_for(lambda rows: rows[1].startswith("NO ANSWER since"), "that it is gone")
        again = ServerProcess(*engine, *LONG_WINDOW, "--port", str(server.port))
        try:
            ask_often(again, "/rate/back")
            terminal.wait_for(lambda rows: rows[1] == "" and has_key("back")(rows), "the new one")
        finally:
            again.stop()
        terminal.type("q")
        assert terminal.ends() == 0


def test_a_silent_server_does_not_delay_quitting(start_server):
    server = start_server()
    with top(server, "--timeout-millis", "3600000") as terminal:
        terminal.wait_for_help()
        server.pause()
        time.sleep(0.3)  # it has sent its request by now; if not, it must end all the same
        terminal.type("q")
        try:
            assert terminal.ends() == 0
        finally:
            server.resume()


def test_once_prints_plain_text(busy_server):
    result = run_binary("top", f"127.0.0.1:{busy_server.port}", "--once")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    rows = result.stdout.splitlines()
    assert keys_in([*rows, ""]) == ["often", "denied"]
    result = run_binary("top", f"127.0.0.1:{busy_server.port}", "--keys", "1")
    assert result.returncode == 0 and "no terminal" in result.stderr
    assert keys_in([*result.stdout.splitlines(), ""]) == ["often"]


def test_an_unknown_terminal_is_one_line(server):
    # The library leaks memory for an unknown terminal.
    environment = clean_environment() | {"TERM": "no-such-terminal",
                                         "ASAN_OPTIONS": "detect_leaks=0"}
    master, terminal = pty.openpty()
    result = subprocess.run([binary(), "top", f"127.0.0.1:{server.port}"], stdin=terminal,
                            stdout=terminal, stderr=subprocess.PIPE, text=True, env=environment,
                            timeout=TIMEOUT_S, check=False)
    os.close(master)
    os.close(terminal)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ") and "TERM" in result.stderr


def test_a_missing_server_is_one_line(server):
    for address in ["127.0.0.1:1", f"127.0.0.1:{server.native_port}", "nonsense"]:
        result = run_binary("top", address, "--once")
        assert result.returncode == 2 and result.stdout == "", result
        assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("Error: ")
