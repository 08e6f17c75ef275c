"""Servers and loads as processes: this module ends every process it starts, also after Ctrl-C."""

import contextlib
import resource
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

from .machine import Trouble


@dataclass(frozen=True)
class Server:
    """A server under load."""
    pid: int
    port: int
    native_port: int = 0
    host: str = "127.0.0.1"


def end(started):
    """Sends SIGTERM first: a load may have a server of its own to end."""
    if started.poll() is None:
        started.send_signal(signal.SIGTERM)
    try:
        started.wait(timeout=15)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()


@contextlib.contextmanager
def process(command, **options):
    """Starts a process and ends it by its id when the block ends."""
    words = [str(word) for word in command]
    try:
        started = subprocess.Popen(words, stdin=subprocess.DEVNULL, **options)
    except OSError as fault:
        raise Trouble(f"cannot start {words[0]}: {fault}") from fault
    try:
        yield started
    finally:
        end(started)


def wait_for_port(port, started, name):
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if started.poll() is not None:
            raise Trouble(f"{name} ended at once with exit code {started.returncode}: "
                          "start it by hand to see why")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.02)
    raise Trouble(f"{name} did not open its port within 15 s: start it by hand to see why")


@dataclass(frozen=True)
class Output:
    """The output of a load, and its time."""
    text: str
    cpu_s: float
    elapsed_s: float
    command: str


def run(command, timeout_s, errors_too=False):
    """Runs a load until it ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    errors_to = subprocess.STDOUT if errors_too else subprocess.PIPE
    with process(command, stdout=subprocess.PIPE, stderr=errors_to, text=True) as load:
        words = " ".join(load.args)
        try:
            text, errors = load.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as fault:
            raise Trouble(f"no end of {words} within {timeout_s:.0f} s") from fault
    elapsed_s = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if load.returncode != 0:
        last = (errors or text).strip().splitlines()[-1:] or ["it printed nothing"]
        raise Trouble(f"{words} failed: {last[0]}")
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Output(text, used_s, elapsed_s, words)
