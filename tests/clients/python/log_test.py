"""The clients log what happens to their connections, and a handler may call the client.

Method: a scripted server that is lost; both clients, whose lines are the same.
"""

import logging

import pytest
from awaited import AwaitedClient
from fake_server import FakeServer, unused_address

import sluicegate
from sluicegate import Client


@pytest.mark.parametrize("kind", [Client, AwaitedClient])
def test_a_connection_that_is_made_lost_and_made_again(kind, caplog):
    def first(peer):
        peer.welcome()
        peer.read("acquire")

    def second(peer):
        peer.welcome()
        peer.approve_all()
    caplog.set_level(logging.INFO, logger="sluicegate")
    with FakeServer(first, second) as server, kind(server.address, backoff=(0, 0)) as client:
        with pytest.raises(sluicegate.ConnectionLost):
            client.acquire("a")
        assert client.acquire("b")
    assert caplog.messages == [
        f"connected to {server.address}, version fake",
        f"connection to {server.address} lost: the server closed the connection",
        f"connected to {server.address}, version fake"]
    assert {record.name for record in caplog.records} == {"sluicegate"}


@pytest.mark.parametrize("kind", [Client, AwaitedClient])
def test_one_that_cannot_be_made(kind, caplog):
    caplog.set_level(logging.INFO, logger="sluicegate")
    address = unused_address()
    with kind(address) as client, pytest.raises(sluicegate.Unreachable):
        client.acquire("a")
    line, = caplog.messages
    assert line.startswith(f"no connection: {address}: ")
    assert "refused" in line or "Connect call failed" in line


def test_a_handler_may_call_the_client():
    class Handler(logging.Handler):
        def emit(self, record):
            seen.append((record.getMessage(), client.welcome is not None))
            if len(seen) == 1:
                verdicts.append(client.acquire("of the handler"))
    seen, verdicts = [], []
    logger = logging.getLogger("sluicegate")
    handler = Handler()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with FakeServer(lambda peer: [peer.welcome(), peer.approve_all()]) as server, \
                Client(server.address) as client:
            assert client.acquire("a")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert len(seen) == 1 and verdicts[0]
