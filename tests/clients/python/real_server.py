"""The real server for tests of both clients, one for each engine, and a client of it."""

import contextlib
import os
import socket

import pytest
from server_process import ServerProcess

from sluicegate import Client

ENGINES = os.environ.get("SLUICEGATE_ENGINES", "uring-2 epoll-1").split()
LONG_WINDOW = ("--window-millis", "3600000")


def free_port():
    """For a server that is started again on the same port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(engine, *flags, **options):
    io, shards = engine.split("-")
    server = ServerProcess(io, int(shards), *LONG_WINDOW, *flags, **options)
    try:
        yield server
        assert server.is_running(), server.output()
        assert server.stop() == 0 and server.errors == [], server.output()
    finally:
        if server.is_running():
            server.kill()


@pytest.fixture(scope="module", params=ENGINES)
def server(request):
    if request.param.startswith("uring") and os.environ.get("SLUICEGATE_NO_URING") == "1":
        pytest.skip("SLUICEGATE_NO_URING=1")
    with serving(request.param) as server:
        yield server


@pytest.fixture
def client(server):
    with Client(f"127.0.0.1:{server.native_port}") as client:
        yield client
