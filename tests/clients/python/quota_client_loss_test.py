"""Which calls the blocking client repeats after a loss, and which answers end a connection.

Method: the scripted server of fake_server.py, which reads frames by pycapnp; events decide which
answers are late, reordered or missing. quota_aio_test.py tests what AsyncClient adds.
"""

import pytest
from fake_server import FakeServer, unused_address
from quota_scripts import QUEUED, kinds, lose, serve_quotas

import sluicegate
from sluicegate import Client, QuotaCode, QuotaDenied


def test_sends_settle_cancel_and_extend_once_more_after_a_loss():
    for kind in ("settle", "cancel", "extend"):
        with FakeServer(lose(kind, True), serve_quotas) as server, \
                Client(server.address) as client:
            client.ping()
            getattr(client, kind)(5)
        assert kinds(server.returned[1]) == [kind]


def test_does_not_send_a_settle_a_third_time():
    with FakeServer(lose("settle", True), lose("settle")) as server, \
            Client(server.address) as client:
        client.ping()
        with pytest.raises(sluicegate.ConnectionLost):
            client.settle(5)
    assert len(server.returned) == 2


def test_sends_settle_many_once_more_after_a_loss():
    with FakeServer(lose("settle", True), serve_quotas) as server, \
            Client(server.address, frame_entries_max=2) as client:
        client.ping()
        assert client.settle_many([1, 2, 3]).all_admitted
    frames = server.returned[1]
    assert sorted(n for frame in frames for n in frame.body["reservations"]) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["reserve", "record", "consume", "check"])
def test_does_not_repeat_calls_that_would_charge_twice(kind):
    with FakeServer(lose(kind)) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ConnectionLost):
            getattr(client, kind)("m")


def test_requeue_repeats_reserves_but_no_records():
    with FakeServer(lose("reserve"), serve_quotas) as server, \
            Client(server.address, requeue=True) as client:
        assert client.reserve("m").id
    for kind in ("record", "consume"):
        with FakeServer(lose(kind)) as server, Client(server.address, requeue=True) as client:
            with pytest.raises(sluicegate.ConnectionLost):
                getattr(client, kind)("m")


@pytest.mark.parametrize("kind", ["record", "consume"])
def test_requeue_repeats_charges_with_an_id(kind):
    with FakeServer(lose(kind), serve_quotas) as server, \
            Client(server.address, requeue=True) as client:
        getattr(client, kind)("m", id="job 7")


def test_requeue_repeats_a_batch_only_if_every_entry_has_an_id():
    with FakeServer(lose("consume"), serve_quotas) as server, \
            Client(server.address, requeue=True) as client:
        assert client.consume_many(["a", "b"], ids=["1", "2"]).all_admitted
    with FakeServer(lose("consume")) as server, Client(server.address, requeue=True) as client:
        with pytest.raises(sluicegate.SluicegateError):
            client.consume_many(["a", "b"], ids=["1", None])


def test_the_failure_policy_decides_only_reserve_and_check():
    with Client(unused_address(), on_failure="open") as client:
        with client.reserve("m", input_tokens=1) as reservation:
            assert reservation.decided_by_policy and reservation.id == 0
            reservation.extend(5)
            reservation.cancel()  # no server has it
        assert client.can_send("m", 5) and client.check("m").code.decided_by_policy
        results = client.reserve_many(["a", "b"])
        assert results.decided_by_policy and results.all_admitted
        assert list(results.reservations) == [0, 0]
        with pytest.raises(sluicegate.Unreachable):
            client.record("m")
        with pytest.raises(sluicegate.Unreachable):
            client.extend(5)
    with Client(unused_address(), on_failure="closed") as client:
        with pytest.raises(QuotaDenied) as raised:
            client.reserve("m")
        code = raised.value.code
        assert code is QuotaCode.DENIED_BY_POLICY and code.decided_by_policy
        assert not client.can_send("m", 5)


def test_a_draining_server_has_decided_nothing():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), b"\x12")
        received = peer.read("reserve")
        peer.quota_answers(received, QUEUED)
        peer.reserve_granted(received, [0], b"\x12")
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        for wait in (False, True):
            with pytest.raises(sluicegate.Draining):
                client.reserve("m", wait=wait)


# ---- peers that break the protocol ---------------------------------------------------------------

@pytest.mark.parametrize("answer", [
    lambda peer, received: peer.quota_answers(received, count=2),
    lambda peer, received: peer.quota_answers(received, QUEUED),  # it may not wait
    lambda peer, received: peer.done(received),
    lambda peer, received: peer.reserve_granted(received, [0])])
def test_an_invalid_answer_ends_the_connection(answer):
    def script(peer):
        peer.welcome()
        answer(peer, peer.read("reserve"))
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.ProtocolError):
            client.reserve("m")
