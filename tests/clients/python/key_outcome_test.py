"""With details=True a lone acquire has what its key had at that moment, and so have denials.

Method: a scripted server whose columns differ by entry; a server that decides nothing; the real
one.
"""

import asyncio
import pickle

import pytest
from event_loops import run  # noqa: F401  (a fixture)
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from real_server import client, server  # noqa: F401  (fixtures)
from server_process import TIMEOUT_S

import sluicegate
from sluicegate import AsyncClient, Client, Denied, KeyOutcome, Verdict

WANTED = 1 | 2 | 4 | 8 | 16  # not the request's number: the server would take one


def columns(*rows):
    """The details of entries, each (limit, window_ms, remaining, reset_ms, retry_after_ms)."""
    names = ("limit", "windowMs", "remaining", "resetMs", "retryAfterMs")
    return {name: list(values) for name, values in zip(names, zip(*rows))}


FREE, SPENT = (10, 60_000, 9, 59_500, 0), (10, 60_000, 0, 41_250, 41_250)
APPROVED = KeyOutcome(Verdict.APPROVED, 10, 60.0, 9, 59.5, 0.0)
DENIED = KeyOutcome(Verdict.DENIED, 10, 60.0, 0, 41.25, 41.25)


def answers_in_turn(peer):
    peer.welcome()
    first = peer.read("acquire")
    peer.verdicts(first, b"\1", details=columns(FREE))
    peer.verdicts(peer.read("acquire"), b"\2", details=columns(SPENT))
    peer.verdicts(peer.read("acquire"), b"\x08", details=columns(FREE))
    return first.body["details"]


def test_a_lone_acquire_has_what_remains_of_its_limit():
    with FakeServer(answers_in_turn) as server, Client(server.address) as client:
        outcome = client.acquire("a", details=True)
        assert outcome == APPROVED and outcome and outcome.approved
        assert not outcome.decided_by_policy
        denied = client.acquire("a", details=True)
        assert denied == DENIED and not denied and not denied.approved
        assert client.acquire("a", 11, details=True).retry_after is None  # it never fits
    assert server.returned == [WANTED]


@pytest.mark.parametrize("verdict", [4, 6, 7, 9, 12, 14, 200])
def test_figures_are_none_where_the_limit_decided_nothing(verdict):
    """The server sends those of a new key then."""
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), bytes([verdict]), details=columns(FREE))
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        try:
            assert client.acquire("a", details=True)[1:] == (None,) * 5
        except sluicegate.Draining:
            assert verdict == Verdict.DRAINING


def test_so_has_an_awaited_one(run):
    async def main(address):
        async with AsyncClient(address) as client:
            assert await client.acquire("a", details=True) == APPROVED
            assert await client.acquire("a", details=True) == DENIED
            assert (await client.acquire("a", 11, details=True)).retry_after is None
    with FakeServer(answers_in_turn) as server:
        run(main(server.address))
    assert server.returned == [WANTED]


def test_of_a_shared_frame_each_call_gets_its_own_row_and_only_if_it_wants_it(run):
    async def main(address):
        async with AsyncClient(address) as client:
            await client.ping()
            return await asyncio.gather(
                client.acquire("a"), client.acquire("b"), client.acquire("c", details=True),
                client.acquire("d", details=True))

    def script(peer):
        peer.welcome()
        peer.pong()
        received = peer.read("acquire")
        peer.verdicts(received, b"\1\2\1\2", details=columns(FREE, FREE, SPENT, SPENT))
        return len(received.keys)
    with FakeServer(script) as server:
        plain, refused, third, fourth = run(main(server.address))
    assert server.returned == [4]
    assert plain is Verdict.APPROVED and refused is Verdict.DENIED
    assert third == KeyOutcome(Verdict.APPROVED, 10, 60.0, 0, 41.25, 41.25)
    assert fourth == DENIED


def test_a_granted_waiter_has_the_row_of_its_grant():
    def script(peer):
        peer.welcome()
        received = peer.read("acquire")
        peer.verdicts(received, b"\3", details=columns(SPENT))
        peer.granted(received, [0], b"\1", details=columns(FREE))
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        assert client.acquire("a", wait=True, wait_limit=TIMEOUT_S, details=True) == APPROVED


def test_granted_waiters_of_one_frame_have_rows_of_their_own(run):
    """The rows are those of the grant, in its order."""
    def script(peer):
        peer.welcome()
        peer.pong()
        received = peer.read("acquire")
        peer.verdicts(received, b"\3", details=columns(SPENT, SPENT))
        peer.granted(received, [1, 0], b"\1", details=columns(FREE, SPENT))
        peer.read()

    async def main(address):
        async with AsyncClient(address) as client:
            await client.ping()
            return await asyncio.gather(*(client.acquire(key, wait=True, details=True)
                                          for key in "ab"))
    with FakeServer(script) as server:
        first, second = run(main(server.address))
    assert (first.remaining, second.remaining) == (0, 9)


@pytest.mark.parametrize("policy, verdict", [("open", Verdict.APPROVED_BY_POLICY),
                                             ("closed", Verdict.DENIED_BY_POLICY)])
def test_the_failure_policy_knows_a_verdict_alone(run, policy, verdict):
    expected = KeyOutcome(verdict)
    with Client(unused_address(), on_failure=policy) as client:
        outcome = client.acquire("a", details=True)
        assert outcome == expected and outcome.decided_by_policy
        assert bool(outcome) is (policy == "open") and outcome.retry_after is None

    def silent(peer):
        peer.welcome()
        peer.read("acquire")
        peer.read()

    async def main(address):
        async with AsyncClient(unused_address(), on_failure=policy) as client:
            assert await client.acquire("a", details=True) == expected
        async with AsyncClient(address, on_failure=policy) as client:
            assert await client.acquire("a", details=True, timeout=IN_QUEUE_BEFORE_S) == expected
    with FakeServer(silent) as server:
        run(main(server.address))


def test_denied_has_the_state_of_its_key():
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), b"\2", details=columns(SPENT))
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(Denied) as raised:
            client.limited("login:{user}")(lambda user: user)("ann")
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert (error.key, error.verdict) == ("login:ann", Verdict.DENIED)
        assert (error.limit, error.remaining, error.reset, error.retry_after) == (
            10, 0, 41.25, 41.25)
        assert str(error) == "denied: 'login:ann'; retry after 41.25 s"


def test_the_server_says_what_remains(client, request):
    key = request.node.name
    first = client.acquire(key, 2, max_requests=5, window=60, details=True)
    assert (first.verdict, first.limit, first.window, first.remaining, first.retry_after) == (
        Verdict.APPROVED, 5, 60.0, 3, 0.0)
    assert 0 < first.reset <= 60.0
    denied = client.acquire(key, 4, details=True)
    assert (denied.verdict, denied.limit, denied.remaining) == (Verdict.DENIED, 5, 3)
    assert 0 < denied.retry_after <= denied.reset <= 60.0
    assert client.acquire(key, 0, details=True).remaining == 3
    assert client.acquire(key, 6, details=True).retry_after is None
    with pytest.raises(sluicegate.InvalidArgument, match="cost"):
        client.acquire(key, -1, details=True)
