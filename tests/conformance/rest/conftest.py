"""Fixtures of the REST conformance suite: the server under test, and expect(). See `run --help`."""

import collections
import itertools
import os
import secrets
import subprocess
import threading
import time

import pytest

import rest_peer
from expectation import Case, Expectations, expecter
from http_peer import inspect
from rest_peer import ASKED, permit
from server_process import clean_environment
from target import RunningServer, StartedServer, StartFailed

HOUR = ("--window-millis", "3600000")
SHORT_MILLIS = 250
IDLE_S_MAX = 60
RUN = secrets.token_hex(3)  # keys differ from those of an earlier run against the same server
KEY_NUMBERS = itertools.count(1)
EXPECTATIONS = pytest.StashKey[Expectations]()
SERVERS = pytest.StashKey[list]()


def pytest_addoption(parser):
    parser.addoption("--url")
    parser.addoption("--binary")
    parser.addoption("--flag", action="append", default=[])
    parser.addoption("--http2", action="store_true")
    parser.addoption("--target", choices=["gocc", "sluicegate"])


def pytest_configure(config):
    config.stash[EXPECTATIONS] = Expectations(config.getoption("--target"))
    if config.getoption("--http2"):
        rest_peer.speak_http2()


def pytest_collection_modifyitems(config, items):
    flags = " ".join(config.getoption("--flag"))
    if os.environ.get("SLUICEGATE_NO_URING") == "1" and "uring" in flags:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="SLUICEGATE_NO_URING=1"))
    if config.getoption("--http2"):
        for item in items:
            for mark in item.iter_markers("http1"):
                item.add_marker(pytest.mark.skip(reason=f"only HTTP/1.1 has {mark.args[0]}"))
    if config.getoption("--http2") and config.getoption("--target") == "gocc":
        for item in items:
            for mark in item.iter_markers("gocc_http1"):
                item.add_marker(pytest.mark.skip(reason=f"Go's HTTP/2 {mark.args[0]}"))


# ------------------------------------------------------------------------------------ expectations

@pytest.fixture
def expect(request):
    """expect(observed, gocc=..., ours=..., topic=...): accepts gocc's value, or the listed one."""
    ASKED.clear()
    return expecter(request.config.stash[EXPECTATIONS], Case(request.node, ASKED))


@pytest.fixture
def key():
    """A key that no other case uses; cases may append characters."""
    return f"{RUN}-{next(KEY_NUMBERS)}."


@pytest.fixture
def keys(key):
    """Several such keys, for a case that tries more than once."""
    return (f"{key}{number}." for number in itertools.count())


# ----------------------------------------------------------------------------------------- servers

@pytest.fixture(scope="session")
def binary(request):
    """The command of a server: its path, and the flags for every start."""
    path = request.config.getoption("--binary")
    if not path:
        pytest.skip("needs the binary, or a server with flags of its own (--binary)")
    return [path, *request.config.getoption("--flag")]


@pytest.fixture(scope="session")
def shared(request):
    """Servers shared by cases, by their flags."""
    servers = {}

    def get(*flags):
        if flags not in servers or not servers[flags].is_running():
            path, *always = request.getfixturevalue("binary")
            servers[flags] = StartedServer(path, *always, *flags)
        return servers[flags]

    yield get
    for server in servers.values():
        server.kill()


@pytest.fixture(scope="session")
def running(request):
    """The server of --url, if given, and the length of its windows."""
    url = request.config.getoption("--url")
    if not url:
        return None
    server = RunningServer(url)
    probe = f"{RUN}-probe"
    try:
        permit(server, probe)
    except OSError as error:
        pytest.exit(f"no server at {url}: {error}", 2)
    server.window_s = inspect(server, probe)["Config"]["WindowMillis"] / 1000
    return server


@pytest.fixture
def server(request, shared, running):
    """For cases that accept any length of windows: an hour, unless --url names a server."""
    chosen = running or shared(*HOUR)
    request.node.stash[SERVERS] = [chosen]
    yield chosen
    assert chosen.is_running(), f"the server is gone:\n{chosen.output()}"


@pytest.fixture
def steady(server, running):
    """For cases with counts that no window's end may reset."""
    if running and running.window_s < 60:
        pytest.skip("needs windows of a minute or longer (--window-millis 3600000)")
    return server


@pytest.fixture
def ticking(request, shared, running):
    """For cases in which windows pass; `window_s` is their length."""
    if running and running.window_s > 2:
        pytest.skip("needs windows of two seconds or shorter (--window-millis 300)")
    chosen = running or shared("--window-millis", str(SHORT_MILLIS))
    chosen.window_s = running.window_s if running else SHORT_MILLIS / 1000
    request.node.stash[SERVERS] = [chosen]
    yield chosen
    assert chosen.is_running(), f"the server is gone:\n{chosen.output()}"


class IdleConnection:
    """A connection of HTTP/2 that asks nothing."""

    def __init__(self, server):
        self._began = time.monotonic()
        self._seconds = None
        self._peer = rest_peer.Http2Peer(server)
        self._peer.socket.settimeout(2 * IDLE_S_MAX)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        self._peer.read_to_end()
        self._seconds = time.monotonic() - self._began

    def end(self):
        """How many seconds the server left it open, and the error of GOAWAY."""
        self._reader.join(max(0, self._began + IDLE_S_MAX - time.monotonic()))
        assert self._seconds is not None, f"it has not ended within {IDLE_S_MAX} s"
        return self._seconds, self._peer.go_aways[-1][1]


@pytest.fixture(scope="session")
def idle_connection(running, shared):
    return IdleConnection(running or shared(*HOUR))


@pytest.fixture(scope="session", autouse=True)
def begin_early(request):
    """The connection has been idle for a while when the case begins that awaits its end."""
    if any("idle_connection" in item.fixturenames for item in request.session.items):
        request.getfixturevalue("idle_connection")


@pytest.fixture
def try_start(request, binary):
    """Starts a server of the case's own: returns it, or a StartFailed with the reason."""
    servers = request.node.stash[SERVERS] = []

    def start(*flags, **options):
        path, *always = binary
        try:
            servers.append(StartedServer(path, *always, *flags, **options))
        except StartFailed as failure:
            return failure
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def start(try_start, expect):
    """Starts a server of the case's own, which must start."""
    def start_it(*flags, **options):
        result = try_start(*flags, **options)
        if isinstance(result, StartFailed):
            last = (result.errors.splitlines() or [""])[-1]
            expect(f"exit {result.code}: {last}", gocc="it starts", of=" ".join(flags))
        return result
    return start_it


@pytest.fixture
def run_binary(binary):
    """Runs the binary until its end, with only these arguments unless it should serve."""
    def run(*arguments, environment=None, serves=False):
        path, *always = binary
        words = [*always, "--port", "0", *arguments] if serves else arguments
        rest_peer.ASKED.append(" ".join(["(the binary)", *words]))
        try:
            return subprocess.run(
                [path, *words], capture_output=True, text=True, timeout=30, check=False,
                stdin=subprocess.DEVNULL, env=clean_environment() | (environment or {}))
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(late.cmd, "still running", "", "")
    return run


# ----------------------------------------------------------------------------------------- reports

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for server in item.stash.get(SERVERS, []):
            if isinstance(server, StartedServer):
                report.sections.append(("server", server.output()[-2_000:]))


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.section("differences from gocc")
    for line in config.stash[EXPECTATIONS].table():
        terminalreporter.line(line)
    reasons = collections.Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.items():
        terminalreporter.line(f"{count} cases skipped: {reason}")
