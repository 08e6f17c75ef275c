"""The blocking client's quotas keep their promises to callers, whatever a server does.

Method: the scripted server of client_test.py: what is sent is read by pycapnp, what comes late, in
another order or not at all is told by events. What AsyncClient adds is in quota_aio_test.py.
"""

import os
import threading

import pytest
from client_test import in_thread
from fake_server import FakeServer, nobody
from frame_codecs import server_frame
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import Client, Limit, Quota, QuotaCode, QuotaDenied
from sluicegate._quota_frames import KEEP, UNTOLD

OK, QUEUED, TPM, RPM, EXCEEDS = b"\1", b"\4", b"\7", b"\6", b"\x17"
TPM_STATE = {"entries": [0], "subjects": [0], "names": b"tpm", "nameSizes": [3], "metrics": [3],
             "kinds": [2], "ceilings": [0], "violated": [1], "amounts": [30_000], "used": [29_900],
             "reserved": [900], "remaining": [100], "periodMs": [60_000], "resetMs": [41_000]}




def serve_quotas(peer):
    """Admits everything with ids from 0x0100000000000001 on; what was asked."""
    peer.welcome()
    asked, next_id = [], 0x0100_0000_0000_0001
    while (frame := peer.read()) is not None:
        asked.append(frame)
        if frame.kind == "reserve":
            count = len(frame.subjects)
            peer.quota_answers(frame, count=count, reservations=list(range(next_id,
                                                                           next_id + count)))
            next_id += count
        else:
            peer.quota_answers(frame)
    return asked


def kinds(frames):
    return [frame.kind for frame in frames]


# ---- reserve and settle --------------------------------------------------------------------------

def test_a_reservation_is_settled_with_what_was_used():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        with client.reserve("gpt-4o", input_tokens=900, max_output_tokens=500, lifetime=60,
                            owner="me") as reservation:
            assert reservation.is_open and reservation.id == 0x0100_0000_0000_0001
            assert reservation.code is QuotaCode.OK and reservation.subjects == ("gpt-4o",)
            reservation.settle(880, 312, cached_input_tokens=80, cost=7, requests=2)
            assert not reservation.is_open
    reserve, settle = server.returned[0]
    assert (reserve.subjects, reserve.body["inputTokens"], reserve.body["maxOutputTokens"],
            reserve.body["lifetimeMs"], reserve.body["owner"], reserve.body["flags"]) == (
        [["gpt-4o"]], [900], [500], 60_000, "me", 8)
    assert {name: value for name, value in settle.body.items() if name != "flags"} == {
        "reservations": [0x0100_0000_0000_0001], "requests": [2], "inputTokens": [880],
        "cachedInputTokens": [80], "outputTokens": [312], "costs": [7]}


def test_what_is_not_told_is_no_column():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        client.reserve(["{a}x", b"{a}y"]).settle()
    reserve, settle = server.returned[0]
    assert reserve.subjects == [["{a}x", "{a}y"]]
    for column in ("requests", "inputTokens", "maxOutputTokens", "costs", "ids"):
        assert not reserve.body.get(column), column
    for column in ("requests", "inputTokens", "cachedInputTokens", "outputTokens", "costs"):
        assert not settle.body.get(column), column


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_block_that_ends_without_settling_cancels(error):
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        try:
            with client.reserve("m"):
                if error is not None:
                    raise error
        except (ValueError, KeyboardInterrupt) as raised:
            assert type(raised) is error
    assert kinds(server.returned[0]) == ["reserve", "cancel"]


def test_a_block_that_ends_after_a_settlement_that_failed_cancels_nothing():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[9])
        peer.error(peer.read("settle").id, "badAmount")
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.Refused), client.reserve("m") as reservation:
            reservation.settle(1, 1)


def test_the_end_of_a_block_is_silent_when_the_server_is_gone():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[9])
    with FakeServer(script) as server, Client(server.address) as client:
        with client.reserve("m"):
            server._thread.join(TIMEOUT_S)


def test_a_forked_child_leaves_its_parents_reservation_alone():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        with client.reserve("m") as reservation:
            child = os.fork()
            if not child:
                reservation.__exit__()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            reservation.settle()
    assert kinds(server.returned[0]) == ["reserve", "settle"]


def test_a_denial_names_the_limits_and_when_to_retry():
    def script(peer):
        peer.welcome()
        states = {name: value * 2 if isinstance(value, (list, bytes)) else value
                  for name, value in TPM_STATE.items()}
        states |= {"violated": [0, 1], "names": b"rpmtpm", "subjects": [0, 1]}
        peer.quota_answers(peer.read("reserve"), TPM, retryMs=[41_250], limits=states)
        peer.quota_answers(peer.read("reserve"), EXCEEDS, retryMs=[-1])
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(QuotaDenied) as told:
            client.reserve("gpt-4o", input_tokens=900)
        error = told.value
        assert error.code is QuotaCode.TPM_EXCEEDED and error.retryable
        assert error.retry_after == 41.25 and error.reason == "per-minute token limit reached"
        limit, = error.violated
        assert (limit.name, limit.metric, limit.kind, limit.amount, limit.used, limit.reserved,
                limit.remaining, limit.period_ms, limit.reset_ms, limit.subject) == (
            "tpm", "tokens", "sliding", 30_000, 29_900, 900, 100, 60_000, 41_000, 1)
        assert str(error) == ("gpt-4o: tpm_exceeded: per-minute token limit reached; "
                              "tpm: 29900 of 30000 used; again in 41.25 s")
        with pytest.raises(QuotaDenied) as told:
            client.reserve("gpt-4o", input_tokens=90_000)
        assert told.value.retry_after is None and not told.value.retryable


@pytest.mark.parametrize("code, error", [
    (b"\x1c", sluicegate.UnknownReservation), (b"\x1d", sluicegate.ReservationEnded),
    (b"\x1e", sluicegate.ReservationEnded), (b"\x1f", sluicegate.ReservationEnded),
    (b"\xfe", sluicegate.QuotaError)])
def test_what_ended_is_told_by_settle_cancel_and_extend(code, error):
    def script(peer):
        peer.welcome()
        for kind in ("settle", "cancel", "extend"):
            peer.quota_answers(peer.read(kind), code)
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        for call in (client.settle, client.cancel, client.extend):
            with pytest.raises(error, match="reservation 00000000000000ff") as told:
                call("00000000000000ff")
            assert told.value.code in (code[0], QuotaCode.UNKNOWN)


def test_cancel_may_keep_the_requests_and_extend_tells_a_lifetime():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        client.cancel(5, keep_requests=True)
        client.extend(5, 90.0005)
        client.extend(5)
    cancel, first, second = server.returned[0]
    assert cancel.body["flags"] == 16 and cancel.body["reservations"] == [5]
    assert (first.body["lifetimeMs"], second.body["lifetimeMs"]) == (90_001, 0)


@pytest.mark.parametrize("call", [
    lambda c: c.reserve([]), lambda c: c.reserve("x" * 70_000), lambda c: c.reserve(""),
    lambda c: c.reserve(list("abcdefghi")), lambda c: c.reserve("a", input_tokens=-1),
    lambda c: c.reserve("a", cost=2**63), lambda c: c.reserve("a", requests=2**32),
    lambda c: c.reserve("a", lifetime=0.001), lambda c: c.reserve("a", lifetime=1e9),
    lambda c: c.reserve("a", id="x" * 129), lambda c: c.reserve("a", wait_limit=1),
    lambda c: c.reserve("a", wait=True, wait_limit=4_000), lambda c: c.settle(1, -5),
    lambda c: c.settle(1, 5, cached_input_tokens=6), lambda c: c.settle(-1),
    lambda c: c.settle("xyz"), lambda c: c.record("a", input_tokens=1, cached_input_tokens=2),
    lambda c: c.lease("a", renew=True), lambda c: c.reserve_many(["a"], ids=["x", "y"]),
    lambda c: c.reserve_many(["a", "b"], costs=[1]), lambda c: c.set_quota("a", [{
        "name": "x", "metric": "tokens", "amount": -1, "period_ms": 1_000}])])
def test_what_can_not_be_sent_is_refused_before(call):
    with Client(nobody()) as client, pytest.raises(ValueError):
        call(client)


# ---- many callers --------------------------------------------------------------------------------

def test_calls_of_many_threads_that_agree_share_a_frame():
    """While two frames are out the others gather: a frame for each form."""
    go, out = threading.Event(), threading.Event()

    def script(peer):
        peer.welcome()
        held = [peer.read("reserve") for _ in range(2)]
        out.set()
        assert go.wait(TIMEOUT_S)
        for number, frame in enumerate(held):
            peer.quota_answers(frame, reservations=[number + 1])
        rest = [peer.read("reserve") for _ in range(2)]
        for frame in rest:
            count = len(frame.subjects)
            peer.quota_answers(frame, count=count, reservations=list(range(count)))
        peer.read()
        return rest
    with FakeServer(script) as server, Client(server.address) as client:
        calls = [in_thread(client.reserve, "first")]
        eventually(lambda: client.welcome and client._core.connection.quota_batches_out == 1, "one")
        calls.append(in_thread(client.reserve, "second"))
        assert out.wait(TIMEOUT_S)
        for number in range(8):
            calls.append(in_thread(client.reserve, f"s{number}", input_tokens=number,
                                   lifetime=None if number % 2 else 5))
        eventually(lambda: client._core.pending == 10, "all are pending")
        go.set()
        for join in calls:
            assert join().code is QuotaCode.OK
    short, long = sorted(server.returned[0], key=lambda frame: -frame.body["lifetimeMs"])
    assert (short.body["lifetimeMs"], long.body["lifetimeMs"]) == (5_000, 0)
    for frame, odd in ((short, 0), (long, 1)):
        assert sorted(zip([names[0] for names in frame.subjects], frame.body["inputTokens"])) == [
            (f"s{n}", n) for n in range(odd, 8, 2)]


def test_settlements_that_tell_different_amounts_share_a_frame():
    go, out = threading.Event(), threading.Event()

    def script(peer):
        peer.welcome()
        held = [peer.read("settle") for _ in range(2)]
        out.set()
        assert go.wait(TIMEOUT_S)
        for frame in held:
            peer.quota_answers(frame)
        rest = peer.read("settle")
        peer.quota_answers(rest)
        peer.read()
        return rest.body
    with FakeServer(script) as server, Client(server.address) as client:
        calls = [in_thread(client.settle, 1)]
        eventually(lambda: client.welcome and client._core.connection.quota_batches_out == 1, "one")
        calls.append(in_thread(client.settle, 2))
        assert out.wait(TIMEOUT_S)
        for arguments in ((3, 10, 20), (4,), (5, None, 7)):
            calls.append(in_thread(client.settle, *arguments))
            eventually(lambda: client._core.pending == arguments[0], "pending")
        go.set()
        for join in calls:
            join()
    body = server.returned[0]
    assert body["reservations"] == [3, 4, 5]
    assert body["inputTokens"] == [10, UNTOLD, UNTOLD] and body["outputTokens"] == [20, UNTOLD, 7]
    assert body.get("requests", []) == [] and KEEP == 0xFFFFFFFF


# ---- waiting -------------------------------------------------------------------------------------

def test_a_reservation_that_waits_is_granted_later():
    def script(peer):
        peer.welcome()
        asked = peer.read("reserve")
        peer.quota_answers(asked, QUEUED)
        peer.granted(asked, [0], b"\1", reservations=[77])
        peer.quota_answers(peer.read("settle"))
        peer.read()
        return asked.body
    with FakeServer(script) as server, Client(server.address) as client:
        reservation = client.wait_for_capacity("m", 500, timeout=2.5)
        assert reservation.id == 77
        reservation.settle(400, 0)
    body = server.returned[0]
    assert (body["flags"], body["waitLimitMs"], body["inputTokens"], body["maxOutputTokens"]) == (
        9, 2_500, [500], [0])


@pytest.mark.parametrize("verdict, code, retry_after", [
    (b"\x0a", QuotaCode.WAIT_LIMIT, 0), (b"\x0b", QuotaCode.WITHDRAWN, None),
    (b"\x08", QuotaCode.EXCEEDS_LIMIT, None), (b"\xfd", QuotaCode.UNKNOWN, None)])
def test_a_wait_may_end_in_vain(verdict, code, retry_after):
    def script(peer):
        peer.welcome()
        asked = peer.read("reserve")
        peer.quota_answers(asked, QUEUED)
        peer.granted(asked, [0], verdict)
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(QuotaDenied) as told:
            client.reserve("m", wait=True)
        assert (told.value.code, told.value.retry_after) == (code, retry_after)


def test_a_wait_that_times_out_leaves_the_line_and_gives_back_what_it_is_granted():
    def script(peer):
        peer.welcome()
        asked = peer.read("reserve")
        peer.quota_answers(asked, QUEUED)
        withdraw = peer.read("withdraw")
        assert withdraw.body == {"target": asked.id, "entries": [0]}
        peer.granted(asked, [0], b"\1", reservations=[78])  # it crossed the withdrawal
        peer.done(withdraw)
        return peer.read("cancel").body["reservations"]
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.TimedOut):
            client.reserve("m", wait=True, timeout=0.05)
        eventually(lambda: client._core.pending == 0, "seen off")
    assert server.returned == [[78]]


@pytest.mark.parametrize("own_id", [None, "mine"])
def test_a_reservation_that_comes_too_late_is_cancelled_unless_it_has_an_id_to_repeat(own_id):
    late = threading.Event()

    def script(peer):
        peer.welcome()
        asked = peer.read("reserve")
        assert late.wait(TIMEOUT_S)
        peer.quota_answers(asked, reservations=[79])
        frames = []
        while (frame := peer.read()) is not None:
            frames.append(frame)
            if frame.kind == "ping":
                peer.send(server_frame(id=frame.id, pong=None))
            else:
                peer.quota_answers(frame)
        return [frame.kind for frame in frames if frame.kind != "ping"]
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.TimedOut):
            client.reserve("m", timeout=0.05, id=own_id)
        late.set()
        client.ping()
        client.ping()
    assert server.returned == [[] if own_id else ["cancel"]]


def test_an_interrupted_reserve_that_was_told_already_gives_back():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[80])
        return peer.read("cancel").body["reservations"]
    with FakeServer(script) as server, Client(server.address) as client:
        finish = client._finish

        def interrupted(*arguments):
            finish(*arguments)
            client._finish = finish
            raise KeyboardInterrupt
        client._finish = interrupted
        with pytest.raises(KeyboardInterrupt):
            client.reserve("m")
    assert server.returned == [[80]]


# ---- a loss of the connection --------------------------------------------------------------------

def lose(kind, after_ping=False):
    """A connection that was of use before is replaced at once."""
    def script(peer):
        peer.welcome()
        if after_ping:
            peer.send(server_frame(id=peer.read("ping").id, pong=None))
        peer.read(kind)
    return script


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
        with pytest.raises(QuotaDenied) as told:
            client.reserve("m")
        assert told.value.code is QuotaCode.DENIED_UNASKED and told.value.code.connection_lost
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


# ---- many at once --------------------------------------------------------------------------------

def test_reserve_many_and_settle_many_are_cut_into_frames():
    with FakeServer(serve_quotas) as server, Client(server.address, frame_entries=2) as client:
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


def test_nothing_is_asked_for_none():
    with Client(nobody()) as client:
        assert list(client.settle_many([])) == [] and client.reserve_many([]).all_admitted


def test_what_was_given_up_before_it_was_sent_leaves_room_for_others():
    """A server that hangs must not fill the client."""
    def script(peer):
        peer.welcome()
        held = [peer.read("reserve") for _ in range(2)]
        assert given_up.wait(TIMEOUT_S)
        for frame in held:
            peer.quota_answers(frame, reservations=[1])
        cancelled, asked = 0, []
        while cancelled < 2 or not asked:  # in one frame or two, as the threads run
            frame = peer.read()
            if frame.kind == "cancel":
                cancelled += len(frame.body["reservations"])
            else:
                asked += frame.subjects
        return asked
    given_up = threading.Event()
    with FakeServer(script) as server, \
            Client(server.address, max_pending=4, when_full="error") as client:
        for _ in range(4):
            with pytest.raises(sluicegate.TimedOut):
                client.reserve("m", timeout=0.05)
        assert client._core.pending == 4
        last = in_thread(client.reserve, "n")
        eventually(lambda: client._core.pending == 3, "it has the place of those two")
        given_up.set()
        with pytest.raises(sluicegate.ConnectionLost):
            last()
    assert server.returned == [[["n"]]]


def test_no_frame_has_more_calls_than_a_server_takes():
    with FakeServer(serve_quotas) as server, \
            Client(server.address, frame_entries=8_000) as client:
        assert client.settle_many(range(1, 5_001)).all_admitted
    assert [len(frame.body["reservations"]) for frame in server.returned[0]] == [2_048, 2_048, 904]


def test_some_of_many_are_denied_and_others_wait():
    def script(peer):
        peer.welcome()
        asked = peer.read("reserve")
        peer.quota_answers(asked, b"\1\4\7", reservations=[5, 0, 0], retryMs=[0, 0, 1_500])
        peer.granted(asked, [1], b"\1", reservations=[6])
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        results = client.reserve_many(["a", "b", "c"], wait=True)
        assert list(results) == [QuotaCode.OK, QuotaCode.OK, QuotaCode.TPM_EXCEEDED]
        assert list(results.reservations) == [5, 6, 0] and list(results.retry_ms) == [0, 0, 1_500]


def test_many_that_time_out_are_given_back():
    def script(peer):
        peer.welcome()
        asked = peer.read("reserve")
        peer.quota_answers(asked, b"\1\4", reservations=[5, 0])
        frames = [peer.read(), peer.read()]
        for frame in frames:
            if frame.kind == "withdraw":
                peer.granted(asked, [1], b"\x0b")
                peer.done(frame)
        return {frame.kind: frame.body for frame in frames}
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.TimedOut):
            client.reserve_many(["a", "b"], wait=True, timeout=0.05)
    assert server.returned[0]["cancel"]["reservations"] == [5]
    assert server.returned[0]["withdraw"]["entries"] == [1]


def test_what_was_reserved_before_a_loss_is_told():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.read("reserve")
    with FakeServer(script) as server, \
            Client(server.address, frame_entries=1, window=1) as client:
        with pytest.raises(sluicegate.ConnectionLost) as told:
            client.reserve_many(["a", "b"])
        assert list(told.value.partial) == [QuotaCode.OK, QuotaCode.NONE]
        assert list(told.value.partial.reservations) == [5, 0]


# ---- leases --------------------------------------------------------------------------------------

def test_a_lease_is_a_slot_and_nothing_else():
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        with client.lease("printer", lifetime=30, owner="me", tied=True) as lease:
            assert lease.held
        assert not lease.held
        other = client.lease("printer")
        other.release()
    reserve, cancel, *_ = frames = server.returned[0]
    assert kinds(frames) == ["reserve", "cancel"] * 2
    assert reserve.body["requests"] == [0] and reserve.body["maxOutputTokens"] == [0]
    assert reserve.body["flags"] == 2 | 8 and cancel.body["flags"] == 0


def test_a_lease_is_renewed_until_it_is_released_or_forgotten():
    renewed = threading.Semaphore(0)

    def script(peer):
        peer.welcome()
        asked = []
        while (frame := peer.read()) is not None:
            asked.append(frame)
            peer.quota_answers(frame, **({"reservations": [5]} if frame.kind == "reserve" else {}))
            if frame.kind == "extend":
                renewed.release()
        return asked
    with FakeServer(script) as server, Client(server.address) as client:
        with client.lease("printer", lifetime=0.3, renew=True) as lease:
            assert renewed.acquire(timeout=TIMEOUT_S) and renewed.acquire(timeout=TIMEOUT_S)
            assert lease.held
        forgotten = client.lease("printer", lifetime=0.3, renew=True)
        del forgotten
        eventually(lambda: not [thread for thread in threading.enumerate()
                                if thread.name == "sluicegate-renewal"], "no renewal is left")
    extends = [frame for frame in server.returned[0] if frame.kind == "extend"]
    assert len(extends) >= 2 and extends[0].body["lifetimeMs"] == 300


def test_a_lease_that_is_gone_is_not_held():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
        peer.quota_answers(peer.read("extend"), b"\x1f")
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        lease = client.lease("printer", lifetime=0.03, renew=True)
        eventually(lambda: not lease.held, "it is known to be lost")
        assert not lease.is_open


def test_a_lease_that_can_not_be_renewed_is_not_held_after_its_lifetime():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[5])
    with FakeServer(script) as server, Client(server.address) as client:
        lease = client.lease("printer", lifetime=0.2, renew=True)
        server._thread.join(TIMEOUT_S)
        eventually(lambda: not lease.held, "its lifetime is over")


# ---- usage and quotas ----------------------------------------------------------------------------

def usage_told(names, cursor=0, **changed):
    count = len(names)
    return {"names": "".join(names).encode(), "nameSizes": [len(name) for name in names],
            "sources": [2] * count, "openReservations": [3] * count, "waiting": [1] * count,
            "quotas": [{"limits": [{"name": "tpm", "metric": "tokens", "kind": "sliding",
                                    "amount": 30_000, "periodMs": 60_000}],
                        "refundExpired": True, "overtakersMax": 2}] * count,
            "cursor": cursor} | changed


def test_usage_of_one_and_of_many():
    def script(peer):
        peer.welcome()
        peer.send(server_frame(id=peer.read("usage").id,
                               usageTold=usage_told(["a"], limits=TPM_STATE)))
        second = peer.read("usage")
        peer.send(server_frame(id=second.id, usageTold=usage_told(["b", "a"])))  # another order
        peer.send(server_frame(id=peer.read("usage").id,
                               usageTold=usage_told(["c"], sources=[0], quotas=[{}])))
        peer.read()
        return second.subjects
    with FakeServer(script) as server, Client(server.address) as client:
        usage = client.usage("a")
        assert (usage.subject, usage.source, usage.open_reservations, usage.waiting) == (
            "a", "file", 3, 1)
        assert usage.quota == Quota((Limit("tpm", "tokens", 30_000, 60_000),), "refund", 2, "file")
        assert usage.limits[0].used == 29_900
        assert usage.stats == sluicegate.Stats(tpm=29_900, max_tpm=30_000)
        assert [usage.subject for usage in client.usage(["a", "b"])] == ["a", "b"]
        assert client.get_quota("c") is None
    assert server.returned == [[["a"], ["b"]]]


def test_usage_of_many_is_asked_in_frames_of_a_bounded_size():
    def script(peer):
        peer.welcome()
        sizes = []
        while (asked := peer.read()) is not None:
            names = [name for name, in asked.subjects]
            sizes.append(len(names))
            peer.send(server_frame(id=asked.id, usageTold=usage_told(names)))
        return sizes
    with FakeServer(script) as server, Client(server.address) as client:
        assert len(client.usage([f"s{n}" for n in range(300)])) == 300
        assert len(client.usage([f"s{n}".zfill(1_000) for n in range(100)])) == 100
        assert client.usage([]) == []
    assert server.returned == [[256, 44, 65, 35]]


def test_subjects_come_page_by_page():
    def script(peer):
        peer.welcome()
        cursors = []
        for _ in range(3):
            for names, cursor in ((["a", "b"], 7), (["c"], 0)):
                asked = peer.read("usage")
                cursors.append(asked.body["cursor"])
                peer.send(server_frame(id=asked.id, usageTold=usage_told(names, cursor)))
        peer.read()
        return cursors
    with FakeServer(script) as server, Client(server.address) as client:
        assert [usage.subject for usage in client.subjects()] == ["a", "b", "c"]
        assert client.models() == ["a", "b", "c"]
        assert client.all_stats() == dict.fromkeys("abc", sluicegate.Stats())
    assert server.returned == [[0, 7] * 3]


def test_quotas_are_put_and_deleted_and_usage_is_reset():
    def script(peer):
        peer.welcome()
        put = peer.read("quota")
        peer.quota_answers(put, count=1)
        peer.quota_answers(peer.read("quota"), b"\x20", count=1)
        for code in (b"\1", b"\x21"):
            removal = peer.read("quota")
            assert removal.body["remove"]
            peer.quota_answers(removal, code, count=1)
        resets = [peer.read("reset")]
        peer.quota_answers(resets[0], count=1)
        resets.append(peer.read("reset"))
        peer.quota_answers(resets[1], count=1)
        peer.read()
        return put.body, [(bytes(r.body.get("subject", b"")), r.body["all"]) for r in resets]
    with FakeServer(script) as server, Client(server.address) as client:
        client.set_quota("gpt-4o", [
            Limit("tpm", "tokens", 30_000, 60_000), Limit("slots", "concurrency", 4),
            {"name": "month", "metric": "tokens", "amount": "block", "kind": "calendar",
             "period": "month", "time_zone": "America/Los_Angeles", "count_cached": True}],
            expired="refund", overtakers=3)
        with pytest.raises(sluicegate.InvalidQuota):
            client.set_quota("gpt-4o", Quota())
        assert client.delete_quota("gpt-4o") and not client.delete_quota("gpt-4o")
        client.reset("gpt-4o")
        client.reset_all()
    put, resets = server.returned[0]
    tpm, slots, month = put["quota"]["limits"]
    assert put["quota"]["refundExpired"] and put["quota"]["overtakersMax"] == 3
    assert (tpm["name"], tpm["metric"], tpm["kind"], tpm["amount"], tpm["periodMs"]) == (
        "tpm", "tokens", "sliding", 30_000, 60_000)
    assert (slots["metric"], slots["kind"], slots["periodMs"]) == ("concurrency", "slots", 0)
    assert (month["ceiling"], month["unit"], month["timeZone"], month["countCached"]) == (
        "block", "month", "America/Los_Angeles", True)
    assert resets == [(b"gpt-4o", False), (b"", True)]


# ---- by the reference's names --------------------------------------------------------------------

def test_decide_tells_codes_reasons_and_stats():
    def script(peer):
        peer.welcome()
        asked = peer.read("check")
        peer.quota_answers(asked, TPM, retryMs=[41_000], limits=TPM_STATE)
        peer.quota_answers(peer.read("check"), b"\3")
        record = peer.read("record")
        peer.quota_answers(record)
        peer.quota_answers(peer.read("record"), b"\x19", retryMs=[-1])
        peer.read()
        return asked.body, record.body
    with FakeServer(script) as server, Client(server.address) as client:
        decision = client.decide("gpt-4o", 500)
        assert not decision and decision.code is QuotaCode.TPM_EXCEEDED
        assert str(decision.code) == "tpm_exceeded" and decision.retry_after == 41.0
        assert decision.stats == sluicegate.Stats(tpm=29_900, max_tpm=30_000)
        assert [limit.name for limit in decision.violated] == ["tpm"] and decision.retryable
        assert client.can_send("gpt-5", 500)
        client.record_usage("gpt-4o", 880, 312)
        with pytest.raises(QuotaDenied):
            client.record("nobody")
        negative = client.decide("gpt-4o", -1)
        assert (negative.allowed, str(negative.code), negative.reason) == (
            False, "invalid_tokens", "estimated tokens must be non-negative")
    check, record = server.returned[0]
    assert (check["flags"], check["inputTokens"], check["maxOutputTokens"]) == (4, [500], [0])
    assert (record["inputTokens"], record["outputTokens"]) == ([880], [312])


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
