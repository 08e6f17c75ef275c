"""The blocking client reports a loss, and a peer that breaks the protocol, and stays usable.

Method: a scripted server that answers late, in pieces, in another order, wrongly or not at all.
Events decide the order, never a pause.
"""

import select

import pytest
from fake_server import FakeServer, unused_address
from frame_codecs import server_frame
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import Client, Verdict
from sluicegate._dispatcher import Backoff


def lose(peer):
    peer.welcome()
    peer.read("acquire")


@pytest.mark.parametrize("policy, wanted", [("open", Verdict.APPROVED_BY_POLICY),
                                            ("closed", Verdict.DENIED_BY_POLICY)])
def test_failure_policy_decides_after_a_loss(policy, wanted):
    def half(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), b"\2")
        peer.read("acquire")
    with FakeServer(lose, half) as server:
        with Client(server.address, on_failure=policy, frame_entries_max=2, window=1,
                    backoff=(0, 0)) as client:
            verdict = client.acquire("a")
            assert verdict is wanted and verdict.decided_by_policy
            assert bool(verdict) == (policy == "open")
            verdicts = client.acquire_many(list("abcdef"))
            assert list(verdicts) == [Verdict.DENIED] * 2 + [wanted] * 4
            assert verdicts.decided_by_policy


def test_a_loss_raises_with_the_partial_verdicts():
    def half(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        peer.read("acquire")
    with FakeServer(lose, half) as server:
        with Client(server.address, frame_entries_max=2, window=1, backoff=(0, 0)) as client:
            with pytest.raises(sluicegate.ConnectionLost, match="closed the connection"):
                client.acquire("a")
            with pytest.raises(sluicegate.ConnectionLost) as caught:
                client.acquire_many(list("abcd"))
            assert list(caught.value.partial) == [Verdict.APPROVED] * 2 + [Verdict.NONE] * 2


def test_without_a_server_the_next_call_fails_at_once():
    with Client(unused_address(), backoff=(3600, 3600)) as client:
        for _ in range(2):
            with pytest.raises(sluicegate.Unreachable):
                client.acquire("a")
        with pytest.raises(sluicegate.Unreachable, match="next attempt in"):
            client.acquire_many(["a"])
        with pytest.raises(sluicegate.Unreachable):
            client.release("a")
    with Client(unused_address(), on_failure="open") as client:
        assert client.acquire("a") is Verdict.APPROVED_BY_POLICY
        with pytest.raises(sluicegate.Unreachable):  # no policy can answer it
            client.inspect("a")


def test_replaces_an_idle_connection_that_ended():
    def once(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
    with FakeServer(once, once) as server, Client(server.address) as client:
        assert client.acquire("a")
        assert select.select([client._socket], [], [], TIMEOUT_S)[0]  # its end
        client._used = 0.0  # long ago
        assert client.acquire("a")


def test_pauses_between_connections_grow_to_a_bound():
    backoff = Backoff(0.1, 1.0)
    pauses = []
    for _ in range(8):
        backoff.failed(100.0)
        pauses.append(backoff.not_before - 100.0)
    for pause, longest in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1], strict=True):
        assert longest / 2 <= pause <= longest
    assert len(set(pauses)) == len(pauses)  # jitter
    backoff.succeeded()
    assert backoff.not_before == 0.0


def test_pauses_have_their_bound_however_long_the_server_is_away():
    backoff = Backoff(0.05, 5.0)
    for _ in range(5_000):  # some five hours
        backoff.failed(100.0)
        assert backoff.not_before <= 105.0


@pytest.mark.parametrize("many", [False, True])
def test_backs_off_from_a_peer_that_answers_wrongly(many):
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), count=2)
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address, backoff=(3600, 3600)) as client:
        for error in (sluicegate.ProtocolError, sluicegate.Unreachable):
            with pytest.raises(error):
                client.acquire_many(["a"]) if many else client.acquire("a")


def test_requeue_sends_calls_again_on_the_next_connection():
    def half(peer):
        peer.welcome()
        received = peer.read("acquire")
        peer.verdicts(received, b"\1\3\3")
        peer.granted(received, [1])

    def rest(peer):
        peer.welcome()
        received = peer.read("acquire")
        peer.verdicts(received, b"\2")
        return received.keys
    with FakeServer(lose, half, rest) as server:
        with Client(server.address, requeue=True, backoff=(0.01, 0.01)) as client:
            verdicts = client.acquire_many(["a", "b", "c"], wait=True)
            assert [int(v) for v in verdicts] == [1, 1, 2]
    assert server.returned[-1] == [b"c"]


def test_requeue_ends_a_timed_out_wait_whose_withdrawal_is_lost():
    def lose_withdrawal(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), b"\3")
        peer.read("withdraw")

    def reconnected(peer):
        peer.welcome()
        peer.pong()
    with FakeServer(lose_withdrawal, reconnected) as server:
        with Client(server.address, requeue=True, backoff=(0, 0)) as client:
            with pytest.raises(sluicegate.TimedOut):
                client.acquire("a", wait=True, timeout=0.05)
            client.ping()
            assert client._dispatcher.waiting_entries == {} and client._dispatcher.pending == 0


def test_draining_is_a_loss_and_the_client_reconnects():
    def drain(peer):
        peer.welcome()
        received = peer.read("acquire")
        peer.go_away()
        peer.verdicts(received, b"\x0c")
        assert peer.read() is None

    def refuse(peer):
        hello = peer.read("hello")
        peer.error(hello.id, "draining")

    def serve(peer):
        peer.welcome()
        peer.approve_all()
    with FakeServer(drain, refuse, serve) as server:
        with Client(server.address, backoff=(0.001, 0.001)) as client:
            with pytest.raises(sluicegate.Draining):
                client.acquire("a")
            with pytest.raises(sluicegate.Draining):
                eventually(lambda: client.acquire("a"), "never: the second one refuses")
            assert eventually(lambda: approved_or_unreachable(client), "the third one serves")


def approved_or_unreachable(client):
    try:
        return client.acquire("a")
    except sluicegate.Unreachable:
        return False


# ---- peers ---------------------------------------------------------------------------------------

def test_raises_the_errors_of_the_server():
    def script(peer):
        peer.welcome()
        peer.error(peer.read("acquire").id, "badCost", "too much")
        peer.verdicts(peer.read("acquire"))
        received = peer.read("acquire")
        peer.error(0, "tooManyOutstanding")
        return received
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.Refused, match="bad_cost: too much") as caught:
            client.acquire("a")
        assert caught.value.code is sluicegate.ErrorCode.BAD_COST
        assert client.acquire("a")
        with pytest.raises(sluicegate.ConnectionLost, match="too_many_outstanding"):
            client.acquire("a")


@pytest.mark.parametrize("answer", [
    lambda received: b"\xff" * 16,
    lambda received: server_frame(id=received.id + 1, verdicts={"count": 1, "verdicts": b"\1"}),
    lambda received: server_frame(id=received.id, verdicts={"count": 2, "verdicts": b"\1"}),
    lambda received: server_frame(id=received.id, verdicts={"count": 1, "verdicts": b"\3"}),
    lambda received: server_frame(id=received.id, done=None),
    lambda received: server_frame(id=received.id, granted={"entries": [0], "verdicts": b"\1"}),
    lambda received: server_frame(id=1, welcome={"version": 1}),
], ids=["bytes", "id", "count", "queued", "kind", "granted", "welcome"])
@pytest.mark.parametrize("many", [False, True])
def test_a_peer_that_breaks_the_protocol(answer, many):
    def script(peer):
        peer.welcome()
        peer.send(answer(peer.read("acquire")))
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ProtocolError):
            client.acquire_many(["a"]) if many else client.acquire("a")


@pytest.mark.parametrize("first", [b"HTTP/1.1 400 Bad Request\r\n\r\n",
                                   server_frame(id=1, pong=None),
                                   server_frame(id=1, welcome={"version": 2})])
def test_a_peer_of_another_protocol(first):
    def script(peer):
        peer.read("hello")
        peer.send(first)
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ProtocolError):
            client.acquire("a")


def test_an_unknown_verdict_is_a_refusal():
    def script(peer):
        peer.welcome()
        for raw in (b"\xc8", b"\xfe", b"\xff"):
            peer.verdicts(peer.read("acquire"), raw)
    with FakeServer(script) as server, Client(server.address) as client:
        for _ in range(3):
            verdict = client.acquire("a")
            assert not verdict and verdict is Verdict.UNKNOWN and not verdict.decided_by_policy


def test_withdraws_nothing_of_a_lost_connection():
    """Frame ids begin anew on the next one: there a Withdraw would hit another frame."""
    def script(peer):
        peer.welcome()
        for _ in range(2):
            peer.verdicts(peer.read("acquire"), b"\3")

    def next_script(peer):
        peer.welcome()
        peer.pong()
        return peer.read()
    with FakeServer(script, next_script) as server, \
            Client(server.address, frame_entries_max=1) as client:
        with pytest.raises(sluicegate.ConnectionLost):
            client.acquire_many(["a", "b"], wait=True)
        client.ping()
    assert server.returned == [None, None]
