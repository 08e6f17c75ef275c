"""What happens to a server beside its load: growth, expiry, a reload, GET /debug.

Each event has a server of its own, prepared for it; then the load runs while it happens, or
without.
"""

import contextlib
import json
import os
import re
import socket
import threading
import urllib.request
from dataclasses import dataclass
from typing import Callable

from . import loads, servers
from .machine import Trouble
from .servers import KEYS

NEW_KEYS = 1_100_000  # to a million: a table that doubles does so once
RULES = 10_000
OTHER_KEY_BYTES = loads.KEY_BYTES + 1  # keys of this length are none of the load's
PREPARE_S = 1.2  # at least from the last answer to keys that will expire, to the load's start
IDLE_WINDOWS = 3  # after which the server forgets a key
DEBUG_PAUSE_S = 0.05
SHOWN_BYTES = 4 << 20
WAKE_BYTES = 512 << 10  # of an answer that is thrown away


# ------------------------------------------------------------------------ what is counted


def metric(server, name):
    """The sum of a metric over all shards."""
    with urllib.request.urlopen(f"http://{server.host}:{server.port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in
               re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)", text, re.MULTILINE))


@contextlib.contextmanager
def counted(server, name, least):
    """Yields figures that have how much the metric rose meanwhile; too little is no event."""
    figures = {}
    before = metric(server, name)
    yield figures
    figures["happened"] = metric(server, name) - before
    if figures["happened"] < least:
        raise Trouble(f"{name} rose by {figures['happened']:,.0f} during the load instead of "
                      f"{least:,}: longer runs (--seconds) leave it more time")


@contextlib.contextmanager
def beside(work):
    """Runs work(ended) on a thread of its own, until it returns after `ended` is set."""
    ended, failures = threading.Event(), []

    def guarded():
        try:
            work(ended)
        except OSError as fault:
            failures.append(fault)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise Trouble(f"the event failed beside the load: {failures[0]}")


# ------------------------------------------------------------------------------- growth


def ask_once(suite, server, *flags):
    """Every key once, and as little load as possible."""
    loads.bench_of(suite, server, "--warm-up-seconds=0", *flags, seconds=0.01)


@contextlib.contextmanager
def growing(suite, happens):
    with servers.sluicegate(suite, max_keys=4 * KEYS) as server:
        if not happens:  # the same keys, and no new one among them
            ask_once(suite, server, f"--keys={KEYS + NEW_KEYS}")
        yield server


@contextlib.contextmanager
def growth(_, server):
    # The load itself asks for the keys; some of the last ones may miss the end of the run.
    with counted(server, "sluicegate_keys", 1.8 * KEYS) as figures:
        yield figures


# ------------------------------------------------------------------------------- expiry


@contextlib.contextmanager
def expiring(suite, happens):
    # A quarter of the run has passed when the keys are due to be forgotten.
    window_s = (PREPARE_S + suite.seconds / 4) / IDLE_WINDOWS
    with servers.sluicegate(suite, max_keys=4 * KEYS,
                            window_millis=round(1000 * window_s)) as server:
        if happens:
            ask_once(suite, server, f"--keys={KEYS}", f"--key-bytes={OTHER_KEY_BYTES}")
        yield server


@contextlib.contextmanager
def expiry(_, server):
    with counted(server, "sluicegate_keys_expired_total", KEYS // 2) as figures:
        yield figures


# ------------------------------------------------------------------------------- reload


def rules_text(most):
    """Exact keys and patterns, and a last rule that gives every key of the load a limit."""
    keys = [{"key_pattern": f"tenant-{number:06d}" if number % 2 else f"^team-{number:06d}-",
             "key_pattern_is_regex": number % 2 == 0, "max_requests_per_window": 1000 + number}
            for number in range(RULES - 1)]
    keys.append({"key_pattern": ".*", "key_pattern_is_regex": True,
                 "max_requests_per_window": most})
    return json.dumps({"keys": keys})


def rules_file(suite):
    return suite.scratch / "rules.json"


@contextlib.contextmanager
def reloading(suite, _):
    path = rules_file(suite)
    path.write_text(rules_text(1_000_000_000))
    with servers.sluicegate(suite, flags=(f"--config-file={path}",)) as server:
        yield server


@contextlib.contextmanager
def reload(suite, server):
    """One file, written before: only its name changes beside the load, when a quarter is over."""
    path = rules_file(suite)
    changed = path.with_suffix(".changed")
    changed.write_text(rules_text(999_999_999))

    def rename(ended):
        if not ended.wait(PREPARE_S + suite.seconds / 4):
            os.replace(changed, path)

    with counted(server, "sluicegate_rules_adopted_total", 1) as figures, beside(rename):
        yield figures


# -------------------------------------------------------------------------------- debug


def read_debug(server, ended):
    """Throws the answer away in the kernel; True when it was whole before the end."""
    scratch = bytearray(SHOWN_BYTES)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WAKE_BYTES)
        peer.sendall(b"GET /debug HTTP/1.1\r\nHost: ladder\r\nConnection: close\r\n\r\n")
        while not ended.is_set():
            if peer.recv_into(scratch, 0, socket.MSG_TRUNC) == 0:
                return True
    return False


@contextlib.contextmanager
def plain(suite, _):
    with servers.sluicegate(suite) as server:
        yield server


@contextlib.contextmanager
def debug(suite, server):
    """One answer after the other. The reader shares the load's core, where it costs little."""
    figures = {"happened": 0}

    def ask(ended):
        os.sched_setaffinity(threading.get_native_id(), {suite.client_cpu})
        while not ended.wait(DEBUG_PAUSE_S):
            figures["happened"] += read_debug(server, ended)

    with beside(ask):
        yield figures
    if not figures["happened"]:
        raise Trouble("no GET /debug was answered during the load: longer runs (--seconds) leave "
                      "it more time")


# --------------------------------------------------------------------------------- all


@dataclass(frozen=True)
class Event:
    name: str
    server: Callable  # (suite, happens): a context with the server that is ready for it
    happening: Callable  # (suite, server): a context during which it happens
    flags: tuple = ()  # of the load, with and without the event


EVENTS = [
    Event("a growing table", growing, growth, (f"--new-keys={NEW_KEYS}",)),
    Event("a million keys expire", expiring, expiry),
    Event("10,000 rules reload", reloading, reload),
    Event("/debug of a million keys", plain, debug),
]


def run(suite, event, happens, batch, rate):
    """The load at a rate, with the event or without."""
    flags = (f"--batch={batch}", f"--keys={KEYS}", f"--rate={rate}", "--warm-up-seconds=0.2",
             *event.flags)
    with event.server(suite, happens) as server:
        if not happens:
            return loads.bench_of(suite, server, *flags)
        with event.happening(suite, server) as happened:
            figures = loads.bench_of(suite, server, *flags)
        return figures | happened
