"""What the gates of the web integrations do while a server, or one of several, does not decide.

Goal:   keys that are answered stay limited, nothing holds up every request, and the log is short.
Method: clients whose acquire() is scripted, on a clock of the test; scripted and real servers.
"""

import asyncio
import inspect
import logging
import random

import pytest
from fake_server import FakeServer, unused_address
from nodes_script import FIRST, HANDLED, SECOND, NodeScript, TwoNodes, lane_is_open
from real_server import serving
from server_process import TIMEOUT_S, eventually
from web_contract import silent_server

import sluicegate
from sluicegate import KeyOutcome, TimedOut, Verdict
from sluicegate._web import WebLimit, WebRequest
from sluicegate._web_gates import (PAUSE_S, QUIET_S, SILENT_S, SILENT_TIMEOUTS, AsyncGate, Gate,
                                   Outage)

BY_KEY = WebLimit("{client}", "1000/minute", on_failure="closed", timeout=TIMEOUT_S)
POLICIES = pytest.mark.parametrize("policy", ["error", "open", "closed"])


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class ScriptedClient(sluicegate.Client):
    """Answers by answer(key), and counts its calls."""

    def __init__(self, answer):
        super().__init__(unused_address())
        self.answer, self.asked = answer, []

    def acquire(self, key, **_):
        self.asked.append(key)
        return self.answer(key)


def approved(_=None):
    return KeyOutcome(Verdict.APPROVED, 1_000, 60.0, 999, 1.0, 0.0)


def silent(_=None):
    raise TimedOut("no answer")


def request(key="a"):
    return WebRequest(None, "GET", "/", key, {}.get, 0)


def is_decided(gate, key="a"):
    return gate.ask(BY_KEY, request(key)).status != 503


def levels(caplog):
    """Of the lines about outages."""
    return [record.levelname for record in caplog.records if "on_failure" in record.message]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "sluicegate")
    return caplog


# ---- the log -------------------------------------------------------------------------------------

def test_a_handler_that_raises_disturbs_no_request():
    """Neither at the begin of an outage nor at its end."""
    class Handler(logging.Handler):
        def emit(self, record):
            raise RuntimeError("a handler")
    clock, handler, logger = Clock(), Handler(), logging.getLogger("sluicegate")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        outage = Outage("node-1:8081", clock)
        outage.failed("away")
        clock.now += QUIET_S
        outage.decided()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def test_an_outage_is_logged_once_at_its_begin_and_its_end(log):
    clock = Clock()
    outage = Outage("node-1:8081", clock)
    for _ in range(2):
        for _ in range(3):
            outage.failed("the cause")
        clock.now += QUIET_S
        outage.decided()
        outage.decided()
    assert levels(log) == ["WARNING", "INFO"] * 2
    assert "node-1:8081" in log.text and "the cause" in log.text
    assert "decided 3 requests" in log.text


@pytest.mark.parametrize("verdict", [Verdict.TABLE_FULL, Verdict.OWNER_UNREACHABLE, None])
def test_an_outage_with_decisions_in_it_is_one(verdict, log):
    clock = Clock()
    client = ScriptedClient(
        lambda key: approved() if key == b"a" else KeyOutcome(verdict) if verdict else silent())
    gate = Gate(client, clock)
    for _ in range(100):
        assert is_decided(gate, "a") and not is_decided(gate, "b")
        clock.now += 1.0
    assert levels(log) == ["WARNING"]
    clock.now += QUIET_S
    assert is_decided(gate, "a")
    assert levels(log) == ["WARNING", "INFO"] and "decided 100 requests" in log.text


# ---- what is spared ------------------------------------------------------------------------------

def silent_gate(clock, client):
    """A gate that spares requests."""
    gate = Gate(client, clock)
    for _ in range(SILENT_TIMEOUTS):
        gate.ask(BY_KEY, request())
    clock.now += max(SILENT_S, PAUSE_S)
    gate.ask(BY_KEY, request())
    client.asked.clear()
    return gate


def test_of_a_silent_server_one_request_a_second_waits(log):
    clock, client = Clock(), ScriptedClient(silent)
    gate = silent_gate(clock, client)
    for _ in range(8):
        clock.now += PAUSE_S / 8
        assert [is_decided(gate) for _ in range(3)] == [False] * 3
    assert len(client.asked) == 1
    client.answer = approved
    clock.now += PAUSE_S
    assert [is_decided(gate) for _ in range(3)] == [True] * 3
    assert levels(log) == ["WARNING"]


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_keys_that_are_answered_stay_limited_beside_silent_ones(share):
    clock, order = Clock(), random.Random(7)
    gate = Gate(ScriptedClient(lambda key: approved() if key == b"a" else silent()), clock)
    for _ in range(2_000):
        clock.now += 0.01
        if order.random() < share:
            assert not is_decided(gate, "b")
        else:
            assert is_decided(gate, "a")


def test_a_short_stall_opens_nothing():
    clock, client = Clock(), ScriptedClient(silent)
    gate = Gate(client, clock)
    for _ in range(20):
        for _ in range(20):
            is_decided(gate)
        clock.now += SILENT_S / 21
    client.answer = approved
    assert is_decided(gate)


def test_a_few_lost_answers_open_nothing():
    clock, client = Clock(), ScriptedClient(silent)
    gate = Gate(client, clock)
    for _ in range(4):
        clock.now += 100 * SILENT_S
        assert not is_decided(gate)
    client.answer = approved
    assert is_decided(gate)


def test_a_failure_at_once_spares_nothing():
    """Nobody waits for it, and the server may be back at any moment."""
    clock, client = Clock(), ScriptedClient(silent)
    gate = silent_gate(clock, client)

    def lose(_):
        raise sluicegate.ConnectionLost("lost")
    client.answer = lose
    clock.now += PAUSE_S
    assert [is_decided(gate) for _ in range(3)] == [False] * 3
    assert len(client.asked) == 3


def test_a_silent_node_spares_its_own_keys_alone():
    def ignore_acquires(_, frame):
        return HANDLED if is_silent and frame.kind == "acquire" else None
    is_silent, clock = False, Clock()
    hasty = WebLimit("{client}", on_failure="closed", timeout=0.05)
    with TwoNodes(NodeScript(1, on_frame=ignore_acquires)) as fleet, sluicegate.Client(
            [fleet.address]) as client:
        eventually(lambda: lane_is_open(client), "a lane is open")
        is_silent, gate = True, Gate(client, clock)
        # The other node gives no answer meanwhile, because nobody asks it.
        assert_spares(clock, client, lambda: gate.ask(hasty, request(SECOND[0])))
        fleet.home.keys.clear()
        assert all(is_decided(gate, key) for key in FIRST)
        assert fleet.home.keys == FIRST
        assert gate.ask(hasty, request(SECOND[1])).status == 503


@POLICIES
def test_a_silent_server_is_spared_whatever_the_clients_policy(policy):
    clock, hasty = Clock(), WebLimit("{client}", on_failure="closed", timeout=0.05)
    with silent_server() as address, sluicegate.Client(
            address, timeout=TIMEOUT_S, on_failure=policy) as client:
        assert_spares(clock, client, lambda gate=Gate(client, clock): gate.ask(hasty, request()))


@POLICIES
def test_a_silent_server_is_spared_whatever_the_asynchronous_clients_policy(policy):
    clock, hasty = Clock(), WebLimit("{client}", on_failure="closed", timeout=0.05)
    with silent_server() as address, asyncio.Runner() as runner:
        client = sluicegate.AsyncClient(address, timeout=TIMEOUT_S, on_failure=policy)
        gate = AsyncGate(client, clock)
        assert_spares(clock, client, lambda: runner.run(gate.ask(hasty, request())))
        runner.run(client.close())


def assert_spares(clock, client, ask):
    acquire, asked = client.acquire, []

    def counted(*args, **options):
        asked.append(args)
        return acquire(*args, **options)
    client.acquire = counted
    for _ in range(SILENT_TIMEOUTS):
        assert ask().status == 503
    assert len(asked) == SILENT_TIMEOUTS
    for _ in range(3):
        clock.now += max(SILENT_S, PAUSE_S)
        asked.clear()
        assert [ask().status for _ in range(20)] == [503] * 20
        assert len(asked) == 1


# ---- losses --------------------------------------------------------------------------------------

def hangs_up(peer):
    peer.welcome()
    peer.read("acquire")


def approves(peer):
    peer.welcome()
    while (frame := peer.read()) is not None:
        peer.verdicts(frame)


def test_a_gate_asks_again_after_a_loss(log):
    clock = Clock()
    with FakeServer(hangs_up, approves) as server:
        gate = Gate(server.address, clock)
        assert not is_decided(gate)
        eventually(lambda: is_decided(gate), "the next connection decides")
        clock.now += QUIET_S
        assert is_decided(gate)
        gate.close()
    assert levels(log) == ["WARNING", "INFO"]


def test_an_asynchronous_gate_asks_again_after_a_loss(log):
    clock = Clock()

    async def main(address):
        gate = AsyncGate(address, clock)
        assert (await gate.ask(BY_KEY, request())).status == 503
        while (await gate.ask(BY_KEY, request())).denies:
            await asyncio.sleep(0.01)
        clock.now += QUIET_S
        assert not (await gate.ask(BY_KEY, request())).denies
        await gate.close()
    with FakeServer(hangs_up, approves) as server:
        asyncio.run(main(server.address))
    assert levels(log) == ["WARNING", "INFO"]


def test_a_closed_client_is_an_outage(log):
    client = sluicegate.Client(unused_address())
    client.close()
    assert not Gate(client).ask(WebLimit("all"), request()).denies
    assert levels(log) == ["WARNING"]


def test_a_client_of_another_loop_is_a_mistake():
    gate, limit = AsyncGate(sluicegate.AsyncClient(unused_address())), WebLimit("all")
    asyncio.run(gate.ask(limit, request()))
    with pytest.raises(sluicegate.SluicegateError, match="another event loop"):
        asyncio.run(gate.ask(limit, request()))


def test_clients_of_closed_loops_are_forgotten():
    gate, limit = AsyncGate(unused_address()), WebLimit("all")
    for _ in range(3):
        asyncio.run(gate.ask(limit, request()))
    assert len(gate._own) == 1


# ---- keys that are too long for the server -------------------------------------------------------

@pytest.mark.parametrize("kind", [Gate, AsyncGate])
def test_long_keys_are_limited_by_a_server_of_short_ones(kind, log):
    """The first request of all, too, which cannot know the server's bound."""
    limit = WebLimit("{client}", "1/hour", timeout=TIMEOUT_S)
    with serving("epoll-1", "--max-key-bytes", "20") as server, asyncio.Runner() as runner:
        gate = kind(f"127.0.0.1:{server.native_port}")

        def run(result):
            return runner.run(result) if inspect.isawaitable(result) else result
        assert [run(gate.ask(limit, request(key * 300))).status for key in "aabab"] == [
            0, 429, 0, 429, 429]
        run(gate.close())
        # The bound is known also before the next connection is made.
        assert gate._key_bytes_max == 20
    assert levels(log) == []


def test_a_key_that_is_too_long_for_one_of_the_nodes_is_no_outage(log):
    client = ScriptedClient(lambda _: KeyOutcome(Verdict.INVALID_KEY))
    assert Gate(client).ask(WebLimit("{client}"), request("x" * 40)).status == 400
    assert levels(log) == [] and len(client.asked) == 1
