"""Servers for the tests. Every test runs on both kernel interfaces, io_uring and epoll, and on one,
two and four shards, unless SLUICEGATE_ENGINES names others."""

import itertools
import os
import resource
import shutil
import tempfile

import pytest

from quota_calls import call, put, slots, tokens
from server_process import ServerProcess, binary
from state_calls import Kept, kill

SERVERS = pytest.StashKey[list]()
KEY_NUMBERS = itertools.count(1)

# Windows that do not end while a test runs, so that the counts stay.
LONG_WINDOW = ("--window-millis", "3600000")


@pytest.fixture(scope="session", autouse=True)
def many_descriptors():
    """Raises the limit of descriptors: some tests hold a thousand connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = hard if hard != resource.RLIM_INFINITY else 65_536
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 65_536), hard))


ENGINES = os.environ.get("SLUICEGATE_ENGINES", "uring-1 epoll-2 uring-4").split()

# For what takes long and does not depend on the engine: the second, which by default has several
# shards, or the first if there is no second.
ONE_ENGINE = ENGINES[1:2] or ENGINES[:1]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request):
    """--io and --shards. Without io_uring its tests fail, unless SLUICEGATE_ENGINES omits it."""
    io, shards = request.param.split("-")
    if io == "uring" and os.environ.get("SLUICEGATE_NO_URING") == "1":
        pytest.skip("SLUICEGATE_NO_URING=1")
    return io, int(shards)


@pytest.fixture(scope="session")
def io(engine):
    """The value of --io."""
    return engine[0]


def end(server):
    """Ends a server that is still running, and asserts that it ended cleanly."""
    was_running = server.is_running()
    code = server.stop()
    assert server.errors == [], server.output()
    assert not was_running or code == 0, server.output()


@pytest.fixture(scope="module")
def shared_server(engine):
    server = ServerProcess(*engine, *LONG_WINDOW)
    yield server
    end(server)


@pytest.fixture
def server(shared_server, request):
    """One server for all tests of a module, with windows of an hour; tests use their own `key`."""
    request.node.stash[SERVERS] = [shared_server]
    yield shared_server
    assert shared_server.is_running(), shared_server.output()


@pytest.fixture
def start_server(engine, request):
    """Starts servers with flags for one test, and ends them after it; `shards` other than the
    engine's only if given."""
    servers = request.node.stash[SERVERS] = []

    def start(*flags, shards=None, **options):
        server = ServerProcess(engine[0], shards or engine[1], *flags, **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        end(server)


@pytest.fixture
def kept(start_server, tmp_path):
    """Servers with one state file."""
    return Kept(start_server, tmp_path / "state.db")


@pytest.fixture
def written(kept):
    """Its file is there, with its FILE-wal, after a crash: of 1,000 tokens a month 7 are used."""
    kept.server = kept.start()
    put(kept.server, "a", {**tokens(1_000), "period_ms": 30 * 86_400_000}, slots(9))
    call(kept.server, "record", {"subjects": ["a"], "input_tokens": 7})
    kill(kept.server)
    return kept


@pytest.fixture
def become_nobody(monkeypatch):
    """Makes a process that is started with this `preexec` another user's. The server's binary is
    copied to where this user may read: a checkout can be in a folder that is closed to others."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    def become():
        os.setgid(65_534)
        os.setuid(65_534)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setenv("SLUICEGATE", shutil.copy(binary(), folder))
        yield become


@pytest.fixture
def key():
    """A key that no other test uses."""
    return f"key{next(KEY_NUMBERS)}."  # tests append numbers of their own


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for server in item.stash.get(SERVERS, []):
            report.sections.append(("server", server.output()))
