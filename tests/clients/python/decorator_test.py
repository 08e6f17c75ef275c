"""limited(): a rate, what a denial has, and mistakes, which raise when the decorator is made.

Method: a server that is not there shows that a mistake needs no call; the real one decides.
"""

import asyncio
import re

import pytest
from fake_server import unused_address
from real_server import serving

import sluicegate
from sluicegate import AsyncClient, Client, InvalidArgument, Rate


@pytest.fixture(scope="module")
def address():
    with serving("epoll-1") as server:
        yield f"127.0.0.1:{server.native_port}"


# ---- a rate, and denials -------------------------------------------------------------------------

@pytest.mark.parametrize("rate", ["2/hour", Rate(2, 3_600)])
def test_a_rate_limits_the_calls_of_a_key(address, rate):
    with Client(address) as client:
        @client.limited(f"{rate}:{{user}}", rate)
        def search(user):
            return user

        assert [search("ann"), search("ann"), search("bob")] == ["ann", "ann", "bob"]
        with pytest.raises(sluicegate.Denied) as raised:
            search("ann")
    denied = raised.value
    assert (denied.limit, denied.remaining) == (2, 0)
    assert 0 < denied.reset <= 3_600 and 0 < denied.retry_after <= 3_600
    assert "retry after" in str(denied)


def test_a_rate_limits_coroutines(address):
    async def main():
        async with AsyncClient(address) as client:
            @client.limited("coroutine:{user}", "1/hour", cost=1)
            async def search(user):
                return user

            assert await search("ann") == "ann"
            with pytest.raises(sluicegate.Denied) as raised:
                await search("ann")
            assert (raised.value.limit, raised.value.remaining) == (1, 0)
    asyncio.run(main())


def test_a_key_may_be_static(address):
    with Client(address) as client:
        for key in ("one {{key}}", b"bytes"):
            @client.limited(key, "1/hour")
            def work():
                return "done"

            assert work() == "done"
            pytest.raises(sluicegate.Denied, work)
        assert client.inspect("one {key}").approved == client.inspect(b"bytes").approved == 1


# ---- mistakes ------------------------------------------------------------------------------------

MISTAKES = [
    ({"rate": "5/fortnight"}, "is no rate"),
    ({"rate": 5}, "rate must be a str or a Rate"),
    ({"rate": "5/minute", "max_requests": 5}, "rate and max_requests are both given"),
    ({"rate": "5/minute", "window": 60}, "rate and window are both given"),
    ({"costs": 1}, "'costs' is no option: there are rate, cost,"),
    ({"details": True}, "'details' is no option"),
    ({"cost": -1}, "cost must be 0 to 1000000000, not -1"),
    ({"cost": "1"}, "cost must be a whole number"),
    ({"cost": 6, "rate": "5/minute"}, "cost 6 is above the limit of 5"),
    ({"max_requests": 0}, "max_requests must be"),
    ({"max_requests_in_queue": -1}, "max_requests_in_queue must be"),
    ({"window": 0.009}, "window must be"), ({"window_ms": 60_000}, "is no option"),
    ({"wait_limit": 1}, "wait_limit is given without wait"),
    ({"wait": True, "wait_limit": 0}, "wait_limit must be more than 0"),
    ({"wait": True, "wait_limit": "1"}, "wait_limit must be a number"),
    ({"timeout": -1}, "timeout must be"),
    ({"key": ""}, "the key is empty"),
    ({"key": b""}, "the key is empty"),
    ({"key": "x" * 65_536}, "key has 65536 bytes"),
    ({"key": "\ud800"}, "has no UTF-8"),
    ({"key": "{user"}, "is no format"),
    ({"key": "{user!x}"}, r"key '\{user!x\}' is no format: .*!r, !s or !a"),
    ({"key": 7}, "key must be a format"),
]


async def coroutine_key(user):
    raise AssertionError("called")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("arguments, text", [
    *MISTAKES, ({"key": coroutine_key}, "key is a coroutine function")],
    ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_a_mistake_raises_when_the_decorator_is_made(kind, arguments, text):
    client = kind(unused_address())
    with pytest.raises(InvalidArgument, match=text):
        client.limited(**({"key": "login:{user}"} | arguments))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_takes_every_option_of_acquire(kind):
    client = kind(unused_address())
    client.limited("login:{user}", cost=2, wait=True, wait_limit=1.5, max_requests=5,
                   max_requests_in_queue=3, window=60, timeout=None)
    client.limited("login:{user}", max_requests=None, wait_limit=None)


@pytest.mark.parametrize("key", ["{0}", "{}", "{nobody}"])
def test_a_key_of_unknown_arguments_is_named(key):
    with pytest.raises(InvalidArgument, match=f"^key '{re.escape(key)}' names "):
        Client(unused_address()).limited(key)(lambda user: user)


def test_a_key_may_have_conversions(address):
    with Client(address) as client:
        @client.limited("conversions:{user!r}:{user!s}:{user!a:>4}")
        def work(user):
            return user

        assert work("ü") == "ü"
        assert client.inspect("conversions:'ü':ü:'\\xfc'").approved == 1
