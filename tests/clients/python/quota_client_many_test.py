"""reserve_many(), settle_many(), cancel_many(): each entry gets its outcome, and none leaks.

Method: the scripted server of fake_server.py, which reads frames by pycapnp; events decide which
answers are late, reordered or missing. quota_aio_test.py tests what AsyncClient adds.
"""

import threading

import pytest
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from quota_scripts import kinds, serve_quotas
from server_process import TIMEOUT_S, eventually
from threads import in_thread

import sluicegate
from sluicegate import Client, QuotaCode


def test_reserve_many_and_settle_many_are_cut_into_frames():
    with FakeServer(serve_quotas) as server, Client(server.address, frame_entries_max=2) as client:
        results = client.reserve_many(["a", ["{t}b", "{t}c"], "d"], input_tokens=[1, 2, 3],
                                      max_output_tokens=9, ids=["x", None, None], lifetime=1)
        assert results.all_admitted and results.admitted == [True] * 3
        first = 0x0100_0000_0000_0001
        assert list(results.reservations) == [first, first + 1, first + 2]
        assert list(results) == [QuotaCode.OK] * 3 and results[1:].count() == 2
        assert client.settle_many(results.reservations, output_tokens=[4, 5, 6]).all_admitted
        assert client.cancel_many(results.reservations, keep_requests=True).count() == 3
    frames = server.returned[0]
    assert kinds(frames) == ["reserve"] * 2 + ["settle"] * 2 + ["cancel"] * 2
    assert [names for frame in frames[:2] for names in frame.subjects] == [
        ["a"], ["{t}b", "{t}c"], ["d"]]
    assert frames[0].body["inputTokens"] == [1, 2] and frames[1].body["inputTokens"] == [3]
    assert bytes(frames[0].body["ids"]) == b"x" and frames[0].body["idSizes"] == [1, 0]
    assert [frame.body["outputTokens"] for frame in frames[2:4]] == [[4, 5], [6]]
    assert frames[4].body["flags"] == 16


def test_sends_nothing_for_empty_lists():
    with Client(unused_address()) as client:
        assert list(client.settle_many([])) == [] and client.reserve_many([]).all_admitted


def test_calls_abandoned_before_they_were_sent_leave_room():
    """A server that hangs must not fill the client."""
    def script(peer):
        peer.welcome()
        peer.pong()
        held = [peer.read("reserve") for _ in range(2)]
        assert given_up.wait(TIMEOUT_S)
        for frame in held:
            peer.quota_answers(frame, reservations=[1])
        cancelled, received = 0, []
        while cancelled < 2 or not received:  # in one frame or two, as the threads run
            frame = peer.read()
            if frame.kind == "cancel":
                cancelled += len(frame.body["reservations"])
            else:
                received += frame.subjects
        return received
    given_up = threading.Event()
    with FakeServer(script) as server, \
            Client(server.address, pending_max=4, when_full="refuse") as client:
        client.ping()
        for _ in range(4):
            with pytest.raises(sluicegate.TimedOut):
                client.reserve("m", timeout=0.05)
        assert client._dispatcher.pending == 4
        last = in_thread(client.reserve, "n")
        eventually(lambda: client._dispatcher.pending == 3, "it has the place of those two")
        given_up.set()
        with pytest.raises(sluicegate.ConnectionLost):
            last()
    assert server.returned == [[["n"]]]


def test_keeps_to_the_servers_calls_per_frame():
    with FakeServer(serve_quotas) as server, \
            Client(server.address, frame_entries_max=8_000) as client:
        assert client.settle_many(range(1, 5_001)).all_admitted
    assert [len(frame.body["reservations"]) for frame in server.returned[0]] == [2_048, 2_048, 904]


def test_some_of_many_are_denied_and_others_wait():
    def script(peer):
        peer.welcome()
        received = peer.read("reserve")
        peer.quota_answers(received, b"\1\4\7", reservations=[5, 0, 0], retryAfterMs=[0, 0, 1_500])
        peer.reserve_granted(received, [1], b"\1", reservations=[6])
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        results = client.reserve_many(["a", "b", "c"], wait=True)
        assert list(results) == [QuotaCode.OK, QuotaCode.OK, QuotaCode.TPM_EXCEEDED]
        assert list(results.reservations) == [5, 6, 0]
        assert results.retry_after == [0.0, 0.0, 1.5]


def test_cancels_reservations_of_a_timed_out_reserve_many():
    def script(peer):
        peer.welcome()
        peer.pong()
        received = peer.read("reserve")
        peer.quota_answers(received, b"\1\4", reservations=[5, 0])
        frames = [peer.read(), peer.read()]
        for frame in frames:
            if frame.kind == "withdraw":
                peer.reserve_granted(received, [1], b"\x11")
                peer.done(frame)
        return {frame.kind: frame.body for frame in frames}
    with FakeServer(script) as server, Client(server.address) as client:
        client.ping()
        with pytest.raises(sluicegate.TimedOut):
            client.reserve_many(["a", "b"], wait=True, timeout=IN_QUEUE_BEFORE_S)
    assert server.returned[0]["cancel"]["reservations"] == [5]
    assert server.returned[0]["withdraw"]["entries"] == [1]


def test_cancels_in_frames_as_small_as_the_server_takes():
    def script(peer):
        peer.welcome(frameEntriesMax=2)
        peer.quota_answers(peer.read("reserve"), reservations=[5, 6])
        peer.quota_answers(peer.read("reserve"), b"\1\4", reservations=[7, 0])
        cancelled = []
        while len(cancelled) < 3:
            frame = peer.read()
            if frame.kind == "cancel":
                assert len(frame.body["reservations"]) <= 2
                cancelled += frame.body["reservations"]
                peer.quota_answers(frame)
        return sorted(cancelled)
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.TimedOut):
            client.reserve_many(["a", "b", "c", "d"], wait=True, timeout=IN_QUEUE_BEFORE_S)
    assert server.returned == [[5, 6, 7]]


def test_reports_the_reservations_made_before_a_loss():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.read("reserve")
    with FakeServer(script) as server, \
            Client(server.address, frame_entries_max=1, window=1) as client:
        with pytest.raises(sluicegate.ConnectionLost) as raised:
            client.reserve_many(["a", "b"])
        assert list(raised.value.partial) == [QuotaCode.OK, QuotaCode.NONE]
        assert list(raised.value.partial.reservations) == [5, 0]
