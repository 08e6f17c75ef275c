"""The blocking client settles or cancels each reservation once, whatever its caller does.

Method: the scripted server of fake_server.py, which reads frames by pycapnp; events decide which
answers are late, reordered or missing. quota_aio_test.py tests what AsyncClient adds.
"""

import contextlib
import os
import pickle
import threading

import pytest
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from frame_codecs import server_frame
from quota_scripts import EXCEEDS, QUEUED, TPM, TPM_STATE, amounts, kinds, serve_quotas
from server_process import TIMEOUT_S, eventually
from threads import in_thread

import sluicegate
from sluicegate import Client, QuotaCode, QuotaDenied
from sluicegate._message import UNSET_32, UNSET_64


def test_settles_a_reservation_with_the_used_amounts():
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


def test_unset_amounts_have_no_column():
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


def test_a_block_with_a_failed_settle_does_not_cancel():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[9])
        peer.error(peer.read("settle").id, "badAmount")
        assert peer.read() is None
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.Refused), client.reserve("m") as reservation:
            reservation.settle(1, 1)


def test_the_end_of_a_block_raises_nothing_without_a_server():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), reservations=[9])
    with FakeServer(script) as server, Client(server.address, connect_timeout=1) as client:
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
        peer.quota_answers(peer.read("reserve"), TPM, retryAfterMs=[41_250], limits=states)
        peer.quota_answers(peer.read("reserve"), EXCEEDS, retryAfterMs=[-1])
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(QuotaDenied) as raised:
            client.reserve("gpt-4o", input_tokens=900)
        error = raised.value
        assert error.code is QuotaCode.TPM_EXCEEDED and error.retryable
        assert error.retry_after == 41.25 and error.reason == "per-minute token limit reached"
        assert (error.limit, error.remaining, error.reset) == (30_000, 100, 41.0)
        limit, = error.violated
        assert (limit.name, limit.metric, limit.kind, limit.amount, limit.used, limit.reserved,
                limit.remaining, limit.period, limit.reset, limit.subject) == (
            "tpm", "tokens", "sliding", 30_000, 29_900, 900, 100, 60.0, 41.0, 1)
        assert str(error) == ("gpt-4o: tpm_exceeded: per-minute token limit reached; "
                              "tpm: 29900 of 30000 used; retry after 41.25 s")
        assert error.subjects == ("gpt-4o",)
        with pytest.raises(QuotaDenied) as raised:
            client.reserve("gpt-4o", input_tokens=90_000)
        assert raised.value.retry_after is None and not raised.value.retryable
        assert (raised.value.limit, raised.value.remaining, raised.value.reset) == (None,) * 3


def test_a_denial_names_the_subject_of_each_limit_where_there_are_several():
    def script(peer):
        peer.welcome()
        peer.quota_answers(peer.read("reserve"), TPM, retryAfterMs=[41_250],
                           limits=TPM_STATE | {"subjects": [1]})
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(QuotaDenied) as raised:
            client.reserve(["gpt-4o", "acme"], input_tokens=900)
    assert str(raised.value) == (
        "gpt-4o, acme: tpm_exceeded: per-minute token limit reached; "
        "acme tpm: 29900 of 30000 used; retry after 41.25 s")
    assert pickle.loads(pickle.dumps(raised.value)).subjects == ("gpt-4o", "acme")


@pytest.mark.parametrize("code, error", [
    (b"\x1c", sluicegate.UnknownReservation), (b"\x1d", sluicegate.ReservationEnded),
    (b"\x1e", sluicegate.ReservationEnded), (b"\x1f", sluicegate.ReservationEnded),
    (b"\xfe", sluicegate.QuotaError)])
def test_settle_cancel_and_extend_raise_for_an_ended_reservation(code, error):
    def script(peer):
        peer.welcome()
        for kind in ("settle", "cancel", "extend"):
            peer.quota_answers(peer.read(kind), code)
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        for call in (client.settle, client.cancel, client.extend):
            with pytest.raises(error, match="reservation 00000000000000ff") as raised:
                call("00000000000000ff")
            assert raised.value.code in (code[0], QuotaCode.UNKNOWN)


def test_cancel_may_keep_the_requests_and_extend_sends_a_lifetime():
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
    lambda c: c.reserve_many(["a", "b"], costs=[1]), lambda c: c.put_quota("a", [{
        "name": "x", "metric": "tokens", "amount": -1, "period_ms": 1_000}])])
def test_rejects_arguments_that_cannot_be_sent(call):
    with Client(unused_address()) as client, pytest.raises(ValueError):
        call(client)


# ---- many callers --------------------------------------------------------------------------------

def test_calls_of_many_threads_with_equal_terms_share_a_frame():
    """While two frames are outstanding the other calls gather: a frame per form."""
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
        eventually(lambda: client.welcome
                   and client._dispatcher.connection.gathered_quotas_out == 1, "one")
        calls.append(in_thread(client.reserve, "second"))
        assert out.wait(TIMEOUT_S)
        for number in range(8):
            calls.append(in_thread(client.reserve, f"s{number}", input_tokens=number,
                                   lifetime=None if number % 2 else 5))
        eventually(lambda: client._dispatcher.pending == 10, "all are pending")
        go.set()
        for join in calls:
            assert join().code is QuotaCode.OK
    short, long = sorted(server.returned[0], key=lambda frame: -frame.body["lifetimeMs"])
    assert (short.body["lifetimeMs"], long.body["lifetimeMs"]) == (5_000, 0)
    for frame, odd in ((short, 0), (long, 1)):
        assert sorted(zip([names[0] for names in frame.subjects], frame.body["inputTokens"])) == [
            (f"s{n}", n) for n in range(odd, 8, 2)]


def test_settles_with_different_amounts_share_a_frame():
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
        eventually(lambda: client.welcome
                   and client._dispatcher.connection.gathered_quotas_out == 1, "one")
        calls.append(in_thread(client.settle, 2))
        assert out.wait(TIMEOUT_S)
        for arguments in ((3, 10, 20), (4,), (5, None, 7)):
            calls.append(in_thread(client.settle, *arguments))
            eventually(lambda: client._dispatcher.pending == arguments[0], "pending")
        go.set()
        for join in calls:
            join()
    body = server.returned[0]
    assert body["reservations"] == [3, 4, 5]
    assert body["inputTokens"] == [10, UNSET_64, UNSET_64]
    assert body["outputTokens"] == [20, UNSET_64, 7]
    assert body.get("requests", []) == [] and UNSET_32 == 0xFFFFFFFF


# ---- waiting -------------------------------------------------------------------------------------

def test_a_reservation_that_waits_is_granted_later():
    def script(peer):
        peer.welcome()
        received = peer.read("reserve")
        peer.quota_answers(received, QUEUED)
        peer.reserve_granted(received, [0], b"\1", reservations=[77])
        peer.quota_answers(peer.read("settle"))
        peer.read()
        return received.body
    with FakeServer(script) as server, Client(server.address) as client:
        reservation = client.wait_for_capacity("m", 500, timeout=2.5)
        assert reservation.id == 77
        reservation.settle(400, 0)
    body = server.returned[0]
    assert (body["flags"], body["waitLimitMs"], body["inputTokens"], body["maxOutputTokens"]) == (
        9, 2_500, [500], [0])


@pytest.mark.parametrize("sent, code, retry_after", [
    (b"\x10", QuotaCode.WAIT_LIMIT, 0.25), (b"\x11", QuotaCode.WITHDRAWN, None),
    (b"\x17", QuotaCode.EXCEEDS_LIMIT, None), (b"\x18", QuotaCode.BLOCKED, None),
    (b"\xfd", QuotaCode.UNKNOWN, None)])
def test_a_wait_may_end_in_vain(sent, code, retry_after):
    def script(peer):
        peer.welcome()
        received = peer.read("reserve")
        peer.quota_answers(received, QUEUED)
        retry_after_ms = -1 if retry_after is None else int(1_000 * retry_after)
        peer.reserve_granted(received, [0], sent, retryAfterMs=[retry_after_ms])
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(QuotaDenied) as raised:
            client.reserve("m", wait=True)
        assert (raised.value.code, raised.value.retry_after) == (code, retry_after)


def test_withdraws_a_timed_out_wait_and_cancels_its_late_grant():
    def script(peer):
        peer.welcome()
        peer.pong()
        received = peer.read("reserve")
        peer.quota_answers(received, QUEUED)
        withdraw = peer.read("withdraw")
        assert withdraw.body == {"target": received.id, "entries": [0]}
        # Sent before the withdrawal arrived.
        peer.reserve_granted(received, [0], b"\1", reservations=[78])
        peer.done(withdraw)
        return peer.read("cancel").body["reservations"]
    with FakeServer(script) as server, Client(server.address) as client:
        client.ping()
        with pytest.raises(sluicegate.TimedOut):
            client.reserve("m", wait=True, timeout=IN_QUEUE_BEFORE_S)
        eventually(lambda: client._dispatcher.pending == 0, "seen off")
    assert server.returned == [[78]]


@pytest.mark.parametrize("own_id", [None, "mine"])
def test_cancels_a_late_reservation_unless_it_has_a_client_id(own_id):
    late = threading.Event()

    def script(peer):
        peer.welcome()
        peer.pong()
        received = peer.read("reserve")
        assert late.wait(TIMEOUT_S)
        peer.quota_answers(received, reservations=[79])
        frames = []
        while (frame := peer.read()) is not None:
            frames.append(frame)
            if frame.kind == "ping":
                peer.send(server_frame(id=frame.id, pong=None))
            else:
                peer.quota_answers(frame)
        return [frame.kind for frame in frames if frame.kind != "ping"]
    with FakeServer(script) as server, Client(server.address) as client:
        client.ping()
        with pytest.raises(sluicegate.TimedOut):
            client.reserve("m", timeout=0.05, id=own_id)
        late.set()
        client.ping()
        client.ping()
    assert server.returned == [[] if own_id else ["cancel"]]


@pytest.mark.parametrize("many", [False, True])
def test_cancels_the_reservation_of_an_interrupted_reserve(many):
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
            client.reserve_many(["m"]) if many else client.reserve("m")
    assert server.returned == [[80]]


# ------------------------------------------------------------------- what a block leaves behind

def ended_block(error=None, report=None, **options):
    """The kinds of frames of a block, and the amounts of the last one."""
    with FakeServer(serve_quotas) as server, Client(server.address) as client:
        with contextlib.suppress(ValueError, KeyboardInterrupt), \
                client.reserve("m", input_tokens=900, max_output_tokens=500,
                               **options) as reservation:
            if report:
                report(reservation)
            if error:
                raise error
    return kinds(server.returned[0]), amounts(server.returned[0][-1])


def reports_twice(reservation):
    reservation.report(input_tokens=880, output_tokens=10)
    reservation.report(output_tokens=25, cached_input_tokens=80, cost=3, requests=2)


REPORTED = (["reserve", "settle"], {"requests": [2], "inputTokens": [880], "outputTokens": [25],
                                    "cachedInputTokens": [80], "costs": [3]})
RESERVED = ["reserve", "settle"], {}
CANCELLED = ["reserve", "cancel"], {}


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_block_settles_what_was_reported_last(error):
    assert ended_block(error, reports_twice) == REPORTED


def test_what_was_not_reported_stays_as_reserved():
    assert ended_block(ValueError, lambda one: one.report(output_tokens=25)) == (
        ["reserve", "settle"], {"outputTokens": [25]})


@pytest.mark.parametrize(("on_exception", "report", "expected"), [
    ("charge_reported", None, CANCELLED),
    ("charge_reported", reports_twice, REPORTED),
    ("charge_all", None, RESERVED),
    ("charge_all", reports_twice, RESERVED),
    ("refund", None, CANCELLED),
    ("refund", reports_twice, CANCELLED),
])
def test_on_exception_says_what_a_block_with_one_leaves(on_exception, report, expected):
    assert ended_block(ValueError, report, on_exception=on_exception) == expected


@pytest.mark.parametrize("on_exception", ["charge_reported", "charge_all", "refund"])
def test_on_exception_concerns_blocks_with_one_alone(on_exception):
    assert ended_block(None, None, on_exception=on_exception) == CANCELLED
    assert ended_block(None, reports_twice, on_exception=on_exception) == REPORTED


def test_a_settle_counts_in_place_of_reports():
    def report_and_settle(reservation):
        reservation.report(output_tokens=25)
        reservation.settle(1, 2)
    assert ended_block(ValueError, report_and_settle) == (
        ["reserve", "settle"], {"inputTokens": [1], "outputTokens": [2]})


def test_a_report_of_a_wrong_amount_changes_nothing():
    def report(reservation):
        reservation.report(output_tokens=25)
        with pytest.raises(sluicegate.InvalidArgument, match="output_tokens"):
            reservation.report(output_tokens=-1)
        with pytest.raises(sluicegate.InvalidType, match="cost"):
            reservation.report(output_tokens=30, cost="much")
    assert ended_block(ValueError, report) == (["reserve", "settle"], {"outputTokens": [25]})


def test_on_exception_must_be_one_of_three():
    with Client(unused_address()) as client:
        with pytest.raises(sluicegate.InvalidArgument, match="charge_reported, charge_all, refund"):
            client.reserve("m", on_exception="charge")
