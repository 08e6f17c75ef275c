"""What the blocking client asks again after a loss, and what never; which answers end a connection.

Method: the scripted server of fake_server.py: what is sent is read by pycapnp, what comes late, in
another order or not at all is told by events. What AsyncClient adds is in quota_aio_test.py.
"""

import pytest
from fake_server import FakeServer, nobody
from quota_scripts import QUEUED, kinds, lose, serve_quotas

import sluicegate
from sluicegate import Client, QuotaCode, QuotaDenied


def test_settle_cancel_and_extend_are_asked_once_more_after_a_loss():
    for kind in ("settle", "cancel", "extend"):
        with FakeServer(lose(kind, True), serve_quotas) as server, \
                Client(server.address) as client:
            client.ping()
            getattr(client, kind)(5)
        assert kinds(server.returned[1]) == [kind]


def test_but_only_once():
    with FakeServer(lose("settle", True), lose("settle")) as server, \
            Client(server.address) as client:
        client.ping()
        with pytest.raises(sluicegate.ConnectionLost):
            client.settle(5)
    assert len(server.returned) == 2


def test_settlements_of_many_are_asked_once_more_too():
    with FakeServer(lose("settle", True), serve_quotas) as server, \
            Client(server.address, frame_entries=2) as client:
        client.ping()
        assert client.settle_many([1, 2, 3]).all_admitted
    frames = server.returned[1]
    assert sorted(n for frame in frames for n in frame.body["reservations"]) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["reserve", "record", "check"])
def test_what_a_repeat_would_charge_twice_is_not_asked_again(kind):
    with FakeServer(lose(kind)) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ConnectionLost):
            getattr(client, kind)("m")


def test_requeue_asks_reservations_again_but_no_records():
    with FakeServer(lose("reserve"), serve_quotas) as server, \
            Client(server.address, requeue=True) as client:
        assert client.reserve("m").id
    with FakeServer(lose("record")) as server, Client(server.address, requeue=True) as client:
        with pytest.raises(sluicegate.ConnectionLost):
            client.record("m")


def test_the_failure_policy_decides_reserve_and_check_and_nothing_else():
    with Client(nobody(), on_failure="open") as client:
        with client.reserve("m", input_tokens=1) as reservation:
            assert reservation.connection_lost and reservation.id == 0
            reservation.extend(5)
            reservation.settle(1, 1)  # nobody knows of it
        assert client.can_send("m", 5) and client.check("m").code.connection_lost
        results = client.reserve_many(["a", "b"])
        assert results.connection_lost and results.all_admitted
        assert list(results.reservations) == [0, 0]
        with pytest.raises(sluicegate.Unreachable):
            client.record("m")
        with pytest.raises(sluicegate.Unreachable):
            client.settle(5)
    with Client(nobody(), on_failure="closed") as client:
        with pytest.raises(QuotaDenied) as reported:
            client.reserve("m")
        assert reported.value.code is QuotaCode.DENIED_UNASKED and reported.value.code.connection_lost
        assert not client.can_send("m", 5)


def test_a_draining_server_has_decided_nothing():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), b"\x12")
        asked = peer.read("reserve")
        peer.quota_answers(asked, QUEUED)
        peer.granted(asked, [0], b"\x0c")
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        for wait in (False, True):
            with pytest.raises(sluicegate.Draining):
                client.reserve("m", wait=wait)


# ---- peers that break the protocol ---------------------------------------------------------------

@pytest.mark.parametrize("answer", [
    lambda peer, asked: peer.quota_answers(asked, count=2),
    lambda peer, asked: peer.quota_answers(asked, QUEUED),  # it may not wait
    lambda peer, asked: peer.done(asked),
    lambda peer, asked: peer.granted(asked, [0])])
def test_an_answer_that_no_server_may_give_ends_the_connection(answer):
    def script(peer):
        peer.welcome()
        answer(peer, peer.read("reserve"))
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ProtocolError):
            client.reserve("m")
