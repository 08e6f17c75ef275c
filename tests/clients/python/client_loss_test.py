"""The blocking client tells its callers of a loss and of a peer that speaks otherwise, and goes on.

Method: a scripted server that answers late, in pieces, in another order, wrongly or not at all.
Events decide what comes when, never a pause.
"""

import select

import pytest
from fake_server import FakeServer, nobody
from frame_codecs import server_frame
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import Client, Verdict
from sluicegate._dispatcher import Backoff


def lose(peer):
    peer.welcome()
    peer.read("acquire")


@pytest.mark.parametrize("policy, wanted", [("open", Verdict.PASSED_UNASKED),
                                            ("closed", Verdict.DENIED_UNASKED)])
def test_a_loss_under_a_policy(policy, wanted):
    def half(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), b"\2")
        peer.read("acquire")
    with FakeServer(lose, half) as server:
        with Client(server.address, on_failure=policy, frame_entries=2, window=1,
                    backoff=(0, 0)) as client:
            verdict = client.acquire("a")
            assert verdict is wanted and verdict.connection_lost
            assert bool(verdict) == (policy == "open")
            verdicts = client.acquire_many(list("abcdef"))
            assert list(verdicts) == [Verdict.DENIED] * 2 + [wanted] * 4
            assert verdicts.connection_lost


def test_a_loss_is_an_error_with_what_is_known():
    def half(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"))
        peer.read("acquire")
    with FakeServer(lose, half) as server:
        with Client(server.address, frame_entries=2, window=1, backoff=(0, 0)) as client:
            with pytest.raises(sluicegate.ConnectionLost, match="closed the connection"):
                client.acquire("a")
            with pytest.raises(sluicegate.ConnectionLost) as caught:
                client.acquire_many(list("abcd"))
            assert list(caught.value.partial) == [Verdict.APPROVED] * 2 + [Verdict.NONE] * 2


def test_nobody_is_there_and_the_next_call_fails_at_once():
    with Client(nobody(), backoff=(3600, 3600)) as client:
        for _ in range(2):
            with pytest.raises(sluicegate.Unreachable):
                client.acquire("a")
        with pytest.raises(sluicegate.Unreachable, match="tried again in"):
            client.acquire_many(["a"])
        with pytest.raises(sluicegate.Unreachable):
            client.release("a")
    with Client(nobody(), on_failure="open") as client:
        assert client.acquire("a") is Verdict.PASSED_UNASKED
        with pytest.raises(sluicegate.Unreachable):  # nobody's guess would do
            client.inspect("a")


def test_a_connection_that_ended_while_idle_costs_no_call():
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


@pytest.mark.parametrize("many", [False, True])
def test_a_peer_that_answers_wrongly_is_not_asked_again_at_once(many):
    def script(peer):
        peer.welcome()
        peer.verdicts(peer.read("acquire"), count=2)
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address, backoff=(3600, 3600)) as client:
        for error in (sluicegate.ProtocolError, sluicegate.Unreachable):
            with pytest.raises(error):
                client.acquire_many(["a"]) if many else client.acquire("a")


def test_requeue_asks_again_on_the_next_connection():
    def half(peer):
        peer.welcome()
        asked = peer.read("acquire")
        peer.verdicts(asked, b"\1\3\3")
        peer.granted(asked, [1])

    def rest(peer):
        peer.welcome()
        asked = peer.read("acquire")
        peer.verdicts(asked, b"\2")
        return asked.keys
    with FakeServer(lose, half, rest) as server:
        with Client(server.address, requeue=True, backoff=(0.01, 0.01)) as client:
            verdicts = client.acquire_many(["a", "b", "c"], wait=True)
            assert [int(v) for v in verdicts] == [1, 1, 2]
    assert server.returned[-1] == [b"c"]


def test_draining_is_a_loss_and_the_client_goes_on_elsewhere():
    def drain(peer):
        peer.welcome()
        asked = peer.read("acquire")
        peer.go_away()
        peer.verdicts(asked, b"\x0c")
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

def test_errors_of_the_server_are_told():
    def script(peer):
        peer.welcome()
        peer.error(peer.read("acquire").id, "badCost", "too much")
        peer.verdicts(peer.read("acquire"))
        asked = peer.read("acquire")
        peer.error(0, "tooManyOutstanding")
        return asked
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.Refused, match="bad_cost: too much") as caught:
            client.acquire("a")
        assert caught.value.code is sluicegate.ErrorCode.BAD_COST
        assert client.acquire("a")
        with pytest.raises(sluicegate.ConnectionLost, match="too_many_outstanding"):
            client.acquire("a")


@pytest.mark.parametrize("answer", [
    lambda asked: b"\xff" * 16,
    lambda asked: server_frame(id=asked.id + 1, verdicts={"count": 1, "verdicts": b"\1"}),
    lambda asked: server_frame(id=asked.id, verdicts={"count": 2, "verdicts": b"\1"}),
    lambda asked: server_frame(id=asked.id, verdicts={"count": 1, "verdicts": b"\3"}),
    lambda asked: server_frame(id=asked.id, done=None),
    lambda asked: server_frame(id=asked.id, granted={"entries": [0], "verdicts": b"\1"}),
    lambda asked: server_frame(id=1, welcome={"version": 1}),
], ids=["bytes", "id", "count", "queued", "kind", "granted", "welcome"])
@pytest.mark.parametrize("many", [False, True])
def test_a_peer_that_speaks_otherwise(answer, many):
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
def test_a_peer_that_is_no_sluicegate(first):
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
            assert not verdict and verdict is Verdict.UNKNOWN and not verdict.connection_lost
