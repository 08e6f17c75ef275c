"""The blocking client renews a lease while its object is referenced, and no longer.

Method: the scripted server of fake_server.py, which reads frames by pycapnp; events decide which
answers are late, reordered or missing. quota_aio_test.py tests what AsyncClient adds.
"""

import threading

import pytest
from fake_server import FakeServer
from quota_scripts import answer_late, grant_leases, kinds, serve_quotas
from server_process import TIMEOUT_S, eventually

from sluicegate import Client, TimedOut


def test_a_lease_reserves_a_slot_only():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        with client.lease("printer", lifetime=30, owner="me", connection_bound=True) as lease:
            assert lease.held
        assert not lease.held
        other = client.lease("printer")
        other.release()
    reserve, cancel, *_ = frames = server.returned[0]
    assert kinds(frames) == ["reserve", "cancel"] * 2
    assert reserve.body["requests"] == [0] and reserve.body["maxOutputTokens"] == [0]
    assert reserve.body["flags"] == 2 | 8 and cancel.body["flags"] == 0


def test_a_lease_may_have_several_subjects():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        with client.lease(["printer", "floor 3"]) as lease:
            assert lease.held
    reserve, cancel = server.returned[0]
    assert reserve.subjects == [["printer", "floor 3"]] and cancel.kind == "cancel"


def test_a_lease_is_renewed_until_it_is_released_or_forgotten():
    renewed = threading.Semaphore(0)
    script = grant_leases(renewed)
    with FakeServer(script) as server, Client(server.address) as client:
        with client.lease("printer", lifetime=1.5, renew=True) as lease:
            assert renewed.acquire(timeout=TIMEOUT_S) and renewed.acquire(timeout=TIMEOUT_S)
            assert lease.held
        forgotten = client.lease("printer", lifetime=0.3, renew=True)
        del forgotten
        eventually(lambda: not [thread for thread in threading.enumerate()
                                if thread.name == "sluicegate-renewal"], "no renewal is left")
    extends = [frame for frame in server.returned[0] if frame.kind == "extend"]
    assert len(extends) >= 2 and extends[0].body["lifetimeMs"] == 1_500


def test_a_lost_lease_is_not_held():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.quota_answers(peer.read("extend"), b"\x1f")
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        lease = client.lease("printer", lifetime=1.5, renew=True)
        eventually(lambda: not lease.is_open, "it is known to be lost")
        assert not lease.held


def test_a_lease_without_renewal_is_not_held_after_its_lifetime():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
    with FakeServer(script) as server, Client(server.address) as client:
        lease = client.lease("printer", lifetime=0.2, renew=True)
        server._thread.join(TIMEOUT_S)
        eventually(lambda: not lease.held, "its lifetime is over")


def test_a_lease_is_not_held_after_a_shorter_lifetime_of_an_unanswered_extend():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.read("extend")
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        lease = client.lease("printer", lifetime=30)
        with pytest.raises(TimedOut):
            lease.extend(0.01, timeout=0.05)
        assert lease.is_open and not lease.held


def test_a_lifetime_begins_with_the_call_not_with_the_answer():
    lifetime = 0.2
    with FakeServer(answer_late(lifetime)) as server, Client(server.address) as client:
        lease = client.lease("printer", lifetime=lifetime)
        assert not lease.held
        lease.extend()
        assert not lease.held
        lease.extend(30)
        assert lease.held
        lease.extend(lifetime)
        assert not lease.held
