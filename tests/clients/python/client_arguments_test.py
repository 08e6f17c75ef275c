"""Calls raise at once for invalid arguments; the decorator acquires the key of the arguments.

Method: invalid arguments, options and addresses, and a scripted server that receives none of them.
"""

import pytest
from fake_server import FakeServer, unused_address

import sluicegate
from sluicegate import Client, Verdict


@pytest.mark.parametrize("call, error", [
    (lambda c: c.acquire("a", -1), "cost must be 0 to"),
    (lambda c: c.acquire("a", max_requests=2_000_000_000), "max_requests must be"),
    (lambda c: c.acquire("a", wait=True, wait_limit=7200), "wait_limit must be"),
    (lambda c: c.acquire_many("abc"), "pass a list of keys"),
    (lambda c: c.acquire_many(["a"], [1, 2]), "2 costs for 1 entries"),
    (lambda c: c.acquire_many(["a"], [-1]), r"costs\[0\] must be 0 to"),
    (lambda c: c.inspect(""), "the key is empty"),
    (lambda c: c.acquire_many_handles([1, 2]), "bytes-like"),
])
def test_rejects_invalid_arguments(call, error):
    def script(peer):
        peer.welcome()
        peer.approve_all()
    with FakeServer(script) as server, Client(server.address) as client:
        client.ping()
        with pytest.raises((ValueError, TypeError), match=error):
            call(client)
        assert client.acquire("a")
        assert not client._dispatcher.pending


@pytest.mark.parametrize("address", ["localhost", ":80", "host:", "host:99999", "host:http",
                                     "http://localhost:8081", "[::1:8081", "::1]:8081",
                                     "host:\u0661"])
def test_rejects_invalid_addresses(address):
    with pytest.raises(ValueError, match="write host:port"):
        Client(address)


def test_rejects_an_address_of_another_type():
    with pytest.raises(TypeError, match="an address is a str"):
        Client(None)
    client = Client("[::1]:8081")
    assert client._addresses == [("::1", 8081)]


@pytest.mark.parametrize("option", [{"shard": -2}, {"shard": 1 << 32}, {"shard": 1.5},
                                    {"client_name": "a\udc80"}])
@pytest.mark.parametrize("kind", [Client, sluicegate.AsyncClient])
def test_rejects_options_that_hello_cannot_carry(option, kind):
    with pytest.raises((ValueError, TypeError), match=next(iter(option))):
        kind("localhost:8081", **option)


def test_rejects_an_invalid_host_name():
    with Client("my..host:8081") as client:
        with pytest.raises(sluicegate.Unreachable, match="my..host:8081"):
            client.acquire("a")


# ---- the decorator -------------------------------------------------------------------------------

def test_the_decorator():
    def script(peer):
        peer.welcome()
        first = peer.read("acquire")
        peer.verdicts(first)
        second = peer.read("acquire")
        peer.verdicts(second, b"\2")
        return first.keys + second.keys
    with FakeServer(script) as server, Client(server.address) as client:
        @client.limited("login:{user}:{tries}")
        def login(user, tries=3):
            """Logs in."""
            return user + "!"

        @client.limited(lambda n: f"n{n}", cost=2)
        def number(n):
            raise AssertionError("called though denied")

        assert login("ann") == "ann!" and login.__doc__ == "Logs in."
        with pytest.raises(sluicegate.Denied, match="denied: 'n7'") as caught:
            number(7)
        assert caught.value.verdict is Verdict.DENIED
    assert server.returned == [[b"login:ann:3", b"n7"]]


@pytest.mark.parametrize("key", ["login:{unknown}", "{}", "{0}", "{unknown.name}"])
def test_the_decorator_rejects_unknown_argument_names(key):
    client = Client(unused_address())
    with pytest.raises(ValueError, match="no argument of the function: it has user, more"):
        @client.limited(key)
        def login(user, **more):
            raise AssertionError("called")

    @client.limited("{user.name}:{more[tries]}")
    def allowed(user, **more):
        raise AssertionError("called")
