"""A client of several nodes asks the owner of a call's first subject, or the node that has the
reservation; what it cannot send there goes to its home server. Failures are what they are there.

Method: scripted servers that describe nodes (nodes_script.py); both clients.
"""

import asyncio
import contextlib
import json
import threading
import time

import pytest
from fake_server import IN_QUEUE_BEFORE_S, FakeServer, unused_address
from frame_codecs import server_frame
from native_peer import GOLDEN
from nodes_script import END, FIRST, HANDLED, SECOND, NodeScript, TwoNodes, nodes, port_of
from quota_scripts import QUEUED, usage_reply
from server_process import TIMEOUT_S, eventually
from threads import in_thread

import sluicegate
from sluicegate import AsyncClient, Client, Limit, Quota, QuotaCode, _caller
from sluicegate._lead import IDLE_CHECK_S
from sluicegate._nodes import owner_of_reservation, owner_of_subject

DRAINING = bytes([QuotaCode.DRAINING])
NAMES = [f"subject-{number}" for number in range(12)]
HOMES, SECONDS = ([name for name in NAMES if owner_of_subject(name.encode(), 2) == node]
                  for node in (0, 1))


def reservation_of(node, number=1):
    """The id of a reservation that this node of a list has."""
    return (node + 1) << 50 | number


class Admitting:
    """Admits each call about quotas, with ids of its node; for NodeScript.on_frame. `calls` has the
    kind of each, and its subject or reservation. `before` may handle a frame first."""

    def __init__(self, node, before=None):
        self.node, self.before, self.calls, self.numbers = node, before, [], 0

    def __call__(self, script, frame):
        named = self.named(frame)
        self.calls += [(frame.kind, name) for name in named]
        if self.before and (done := self.before(script, frame)):
            return done
        if frame.kind == "usage":
            script.peer.send(server_frame(id=frame.id, usageReply=usage_reply(named)))
        elif frame.kind == "reserve":
            ids = [reservation_of(self.node, self.numbers + at) for at in range(len(named))]
            self.numbers += len(named)
            script.peer.quota_answers(frame, count=len(named), reservations=ids)
        elif named or frame.kind == "reset":
            script.peer.quota_answers(frame, count=len(named) or 1)
        else:
            return None
        return HANDLED

    @staticmethod
    def named(frame):
        if frame.kind in ("reserve", "check", "consume", "record"):
            return [" ".join(names) for names in frame.subjects]
        if frame.kind == "usage":
            sizes = frame.body.get("subjectSizes")  # none: of all subjects
            return [name for names in frame.subjects for name in names] if sizes else []
        if frame.kind in ("quota", "reset"):
            return [bytes(frame.body["subject"]).decode()] if frame.body.get("subject") else []
        return list(frame.body.get("reservations", []))


class QuotaNodes(TwoNodes):
    """`calls` are those that home and the second node have seen."""

    def __init__(self, before=None):
        """`before`: the second node's."""
        servers = Admitting(0), Admitting(1, before)
        super().__init__(NodeScript(1, on_frame=servers[1]))
        self.home.on_frame, self.home_quotas = servers[0], servers[0]
        self.calls = [server.calls for server in servers]


class Caller:
    """A client of either kind, each of whose calls is made to its end."""

    def __init__(self, client, call, pause):
        self.client, self.call = client, call
        self.pause = pause  # for so many seconds, in which asyncio's loop runs

    def __getattr__(self, name):
        return lambda *arguments, **named: self.call(name, *arguments, **named)

    @property
    def lane(self):
        lanes = self.client._lanes._nodes._lanes
        return lanes[1] if len(lanes) == 2 else None

    def open_lane(self):
        def is_open():
            assert self.acquire(SECOND[0])
            return self.lane is not None and self.lane.is_open
        eventually(is_open, "a lane is open")
        return self


@contextlib.contextmanager
def blocking(addresses, **options):
    with Client(addresses, **options) as client:
        yield Caller(client, lambda name, *arguments, **named: getattr(client, name)(
            *arguments, **named), time.sleep)


@contextlib.contextmanager
def with_asyncio(addresses, **options):
    client = AsyncClient(addresses, **options)

    async def call(name, *arguments, **named):
        result = getattr(client, name)(*arguments, **named)
        return [each async for each in result] if name == "subjects" else await result
    with asyncio.Runner() as runner:
        try:
            yield Caller(client, lambda *arguments, **named: runner.run(
                call(*arguments, **named)), lambda seconds: runner.run(asyncio.sleep(seconds)))
        finally:
            runner.run(client.close())


@pytest.fixture(params=[blocking, with_asyncio], ids=["threads", "asyncio"])
def connect(request):
    return request.param


# --- owners

@pytest.mark.parametrize("row", json.loads((GOLDEN / "node_hash.json").read_text())["rows"],
                         ids=lambda row: row["key"][:20])
def test_owners_of_subjects_are_those_of_the_golden_file(row):
    for count, owner in row["subjectOwners"].items():
        assert owner_of_subject(row["key"].encode(), int(count)) == owner


def test_a_reservation_is_with_the_node_in_its_id():
    assert [owner_of_reservation(reservation_of(node), 3) for node in range(-1, 4)] == [
        None, 0, 1, 2, None]
    assert owner_of_reservation(2**64 - 1, 3) is None


# --- where calls go

SUBJECT_CALLS = [("reserve", ("reserve", ())), ("lease", ("reserve", ())), ("check", ("check", ())),
                 ("consume", ("consume", ())), ("record", ("record", ())),
                 ("usage", ("usage", ())), ("get_quota", ("usage", ())),
                 ("put_quota", ("quota", (Quota(),))), ("remove_quota", ("quota", ())),
                 ("reset", ("reset", ()))]


def test_each_call_goes_to_the_owner_of_its_subject(connect):
    with QuotaNodes() as fleet, connect([fleet.address]) as client:
        client.open_lane()
        for node, subject in enumerate((HOMES[0], SECONDS[0])):
            for name, (kind, arguments) in SUBJECT_CALLS:
                getattr(client, name)(subject, *arguments)
                assert fleet.calls[node] == [(kind, subject)], name
                assert not fleet.calls[1 - node], name
                fleet.calls[node].clear()


def test_the_first_of_several_subjects_decides(connect):
    with QuotaNodes() as fleet, connect([fleet.address]) as client:
        client.open_lane()
        client.reserve([SECONDS[0], HOMES[0]])
        client.consume([HOMES[0], SECONDS[0]])
        client.usage([SECONDS[0], HOMES[0]])
        assert fleet.calls == [[("consume", f"{HOMES[0]} {SECONDS[0]}")],
                               [("reserve", f"{SECONDS[0]} {HOMES[0]}"), ("usage", SECONDS[0]),
                                ("usage", HOMES[0])]]


def test_settle_cancel_and_extend_go_to_the_node_that_has_the_reservation(connect):
    with QuotaNodes() as fleet, connect([fleet.address]) as client:
        client.open_lane()
        for node in (0, 1):
            for name in ("settle", "cancel", "extend"):
                getattr(client, name)(reservation_of(node))
                assert fleet.calls[node] == [(name, reservation_of(node))]
                assert not fleet.calls[1 - node]
                fleet.calls[node].clear()


def test_a_reservation_of_no_node_of_the_list_goes_home(connect):
    ids = [5, reservation_of(2), reservation_of(16_382)]
    with QuotaNodes() as fleet, connect([fleet.address]) as client:
        client.open_lane()
        for number in ids:
            client.settle(number)
        assert client.cancel_many(ids).all_admitted
        assert fleet.calls == [[*(("settle", number) for number in ids),
                                *(("cancel", number) for number in ids)], []]


def test_calls_without_a_subject_go_home(connect):
    with QuotaNodes() as fleet, connect([fleet.address]) as client:
        client.open_lane()
        fleet.second.kinds.clear()
        fleet.home.kinds.clear()
        client.reset_all()
        list(client.subjects())
        client.ping()
        assert fleet.home.kinds == ["reset", "usage", "ping"] and not fleet.second.kinds


def test_a_guard_settles_where_it_was_reserved():
    with QuotaNodes() as fleet, blocking([fleet.address]) as client:
        client.open_lane()
        with client.reserve(SECONDS[0]):
            pass
        with client.reserve(SECONDS[0]) as reservation:
            reservation.settle(1, 1)
        assert [kind for kind, _ in fleet.calls[1]] == ["reserve", "cancel", "reserve", "settle"]
        assert not fleet.calls[0]


def test_a_lease_is_renewed_where_it_is_held(connect):
    renewed = threading.Event()

    def note(_, frame):
        if frame.kind == "extend":
            renewed.set()
    with QuotaNodes(note) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        lease = client.lease(SECONDS[0], lifetime=1, renew=True)
        eventually(lambda: client.pause(0.01) or renewed.is_set(), "it is renewed")
        assert not fleet.calls[0] and lease.held
        client.cancel(lease)
        lease._stop.set() if connect is blocking else lease._renewal.cancel()


# --- batches

def test_a_batch_is_cut_by_owner_and_has_its_results_in_its_order(connect):
    with QuotaNodes() as fleet, connect([fleet.address], frame_entries_max=2) as client:
        client.open_lane()
        results = client.reserve_many(NAMES)
        assert results.all_admitted and len(set(results.reservations)) == len(NAMES)
        for name, reservation in zip(NAMES, results.reservations):
            assert owner_of_reservation(reservation, 2) == owner_of_subject(name.encode(), 2)
        assert client.settle_many(results.reservations).all_admitted
        assert client.consume_many([[name, "other"] for name in NAMES]).all_admitted
        for node, names in enumerate((HOMES, SECONDS)):
            assert fleet.calls[node] == (
                [("reserve", name) for name in names]
                + [("settle", reservation) for name, reservation in zip(NAMES, results.reservations)
                   if name in names]
                + [("consume", f"{name} other") for name in names])
        assert len(client.reserve_many([])) == 0
        with pytest.raises(sluicegate.InvalidArgument, match=r"input_tokens\[1\]"):
            client.reserve_many(NAMES[:2], input_tokens=[1, -1])


def test_a_loss_on_a_lane_raises_with_the_results_of_the_others(connect):
    with QuotaNodes(lose("reserve")) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        with pytest.raises(sluicegate.ConnectionLost) as caught:
            client.reserve_many(NAMES)
        partial = caught.value.partial
        assert partial.count() == len(HOMES) == len([n for n in partial.reservations if n])
        assert len(fleet.calls[0]) == len(HOMES)


@pytest.mark.parametrize("policy, code", [("open", QuotaCode.ADMITTED_BY_POLICY),
                                          ("closed", QuotaCode.DENIED_BY_POLICY)])
def test_the_failure_policy_decides_what_a_lane_lost(connect, policy, code):
    with QuotaNodes(lose("reserve")) as fleet, \
            connect([fleet.address], on_failure=policy) as client:
        client.open_lane()
        results = client.reserve_many(NAMES)
        assert [results[NAMES.index(name)] for name in HOMES] == [QuotaCode.OK] * len(HOMES)
        assert {results[NAMES.index(name)] for name in SECONDS} == {code}


def test_the_failure_policy_leaves_what_a_lane_decided_before(connect):
    def lose_the_second(script, _):
        return END if script.kinds.count("reserve") == 2 else None
    with QuotaNodes(lose_the_second) as fleet, connect(
            [fleet.address], on_failure="open", frame_entries_max=1, window=1) as client:
        client.open_lane()
        results = client.reserve_many(SECONDS)
        assert list(results) == [QuotaCode.OK] + [QuotaCode.ADMITTED_BY_POLICY] * (
            len(SECONDS) - 1)
        assert list(results.reservations) == [reservation_of(1, 0)] + [0] * (len(SECONDS) - 1)


@pytest.mark.parametrize("kind", ["reserve", "consume"])
def test_the_failure_policy_leaves_what_a_lane_decided_in_time(connect, kind):
    """As with one server, which has charged it."""
    def answer_the_first(script, frame):
        return HANDLED if frame.kind == kind and script.kinds.count(kind) > 1 else None
    with QuotaNodes(answer_the_first) as fleet, connect(
            [fleet.address], on_failure="closed", frame_entries_max=1, window=1) as client:
        client.open_lane()
        results = getattr(client, f"{kind}_many")(SECONDS, timeout=IN_QUEUE_BEFORE_S)
        assert list(results) == [QuotaCode.OK] + [QuotaCode.DENIED_BY_POLICY] * (len(SECONDS) - 1)
        assert results.reservations[0] == (reservation_of(1, 0) if kind == "reserve" else 0)
        client.pause(0.3)
        client.check(HOMES[0])
        assert "cancel" not in fleet.second.kinds


def test_a_batch_waits_for_its_withdrawal_once_whatever_the_number_of_silent_nodes(monkeypatch):
    withdraw_s = 2.0
    monkeypatch.setattr(_caller, "WITHDRAW_S", withdraw_s)
    with QuotaNodes(keep_silent("consume")) as fleet, blocking([fleet.address]) as client:
        client.open_lane()
        fleet.home_quotas.before = keep_silent("consume")
        start = time.monotonic()
        with pytest.raises(sluicegate.TimedOut):
            client.consume_many(NAMES, wait=True, timeout=IN_QUEUE_BEFORE_S)
        assert time.monotonic() - start < IN_QUEUE_BEFORE_S + 1.8 * withdraw_s


@pytest.mark.parametrize("names", [HOMES, SECONDS], ids=["home", "lane"])
def test_the_failure_policy_decides_a_batch_for_which_there_is_no_room(names):
    with QuotaNodes(keep_silent("usage")) as fleet, \
            blocking([fleet.address], on_failure="closed", pending_max=1) as client:
        client.open_lane()
        fleet.home_quotas.before = keep_silent("usage")
        with pytest.raises(sluicegate.TimedOut):
            client.usage(names[0], timeout=IN_QUEUE_BEFORE_S)
        results = client.reserve_many(names, timeout=IN_QUEUE_BEFORE_S)
        assert list(results) == [QuotaCode.DENIED_BY_POLICY] * len(names)
        with pytest.raises(sluicegate.TimedOut, match="no room"):
            client.reserve_many(names, wait=True, timeout=IN_QUEUE_BEFORE_S)


@pytest.mark.parametrize("kind, ids, is_repeated", [
    ("reserve", None, True), ("consume", None, False), ("consume", list("abcdefghijkl"), True)])
def test_with_requeue_a_lost_batch_goes_home_if_it_may_be_repeated(connect, kind, ids,
                                                                   is_repeated):
    with QuotaNodes(lose(kind)) as fleet, connect([fleet.address], requeue=True) as client:
        client.open_lane()
        call = getattr(client, f"{kind}_many")
        if is_repeated:
            assert call(NAMES, ids=ids).all_admitted
            assert sorted(fleet.calls[0]) == sorted((kind, name) for name in NAMES)
        else:
            with pytest.raises(sluicegate.ConnectionLost):
                call(NAMES)
            assert len(fleet.calls[0]) == len(HOMES)


def test_a_batch_goes_home_where_the_owner_shuts_down(connect):
    def drain(script, frame):
        if frame.kind != "reserve":
            return None
        codes = DRAINING if script.kinds.count("reserve") == 2 else b"\1"
        script.peer.quota_answers(frame, codes * len(frame.subjects), count=len(frame.subjects),
                                  reservations=[] if codes == DRAINING else [7] * 2)
        return HANDLED
    with QuotaNodes(drain) as fleet, \
            connect([fleet.address], frame_entries_max=2, window=1) as client:
        client.open_lane()
        results = client.reserve_many(SECONDS)
        assert results.all_admitted and list(results.reservations[:2]) == [7, 7]
        assert fleet.calls[0] == [("reserve", name) for name in SECONDS[2:]]


@pytest.mark.parametrize("ids, goes_home", [(None, False), (["1", "2"], True)])
def test_a_batch_that_waits_goes_home_only_if_nothing_is_charged_twice(connect, ids, goes_home):
    """The second node answers one frame, and none of the other one, which may be charged."""
    held = []

    def drain(script, frame):
        if frame.kind == "consume":
            held.append(frame)
            if len(held) == 2:
                script.peer.quota_answers(held[0], DRAINING)
            return HANDLED
        return None
    with QuotaNodes(drain) as fleet, connect([fleet.address], frame_entries_max=1) as client:
        client.open_lane()
        if goes_home:
            assert client.consume_many(SECONDS[:2], ids=ids, wait=True).all_admitted
            assert fleet.calls[0] == [("consume", name) for name in SECONDS[:2]]
        else:
            with pytest.raises(sluicegate.Draining):
                client.consume_many(SECONDS[:2], wait=True)
            assert not fleet.calls[0]


def test_a_batch_that_times_out_cancels_what_its_parts_have_reserved(connect):
    with QuotaNodes(keep_silent("reserve")) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        with pytest.raises(sluicegate.TimedOut) as caught:
            client.reserve_many(NAMES, timeout=IN_QUEUE_BEFORE_S)
        assert caught.value.partial is None
        cancelled = [("cancel", reservation_of(0, number)) for number in range(len(HOMES))]
        eventually(lambda: client.pause(0.01) or fleet.calls[0][len(HOMES):] == cancelled,
                   "they are cancelled")


def test_a_batch_that_is_cancelled_cancels_what_its_parts_have_reserved():
    async def ask(fleet):
        async with AsyncClient([fleet.address]) as client:
            while not (client._lanes._nodes.count == 2 and client._lanes._nodes._lanes[1].is_open):
                await client.acquire(SECOND[0])
                await asyncio.sleep(0.01)
            asked = asyncio.ensure_future(client.reserve_many(NAMES))
            while len(fleet.calls[0]) < len(HOMES) or not fleet.calls[1]:
                await asyncio.sleep(0.01)
            await client.ping()  # the answer of home has arrived before
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await client.ping()
            assert [kind for kind, _ in fleet.calls[0]] == (
                ["reserve"] * len(HOMES) + ["cancel"] * len(HOMES))
    with QuotaNodes(keep_silent("reserve")) as fleet:
        asyncio.run(ask(fleet))


def test_a_batch_that_is_interrupted_cancels_what_its_parts_have_reserved():
    with QuotaNodes() as fleet, blocking([fleet.address]) as client:
        client.open_lane()

        def interrupted(*_):
            eventually(lambda: len(fleet.calls[1]) == len(SECONDS), "the lane's part was sent")
            raise KeyboardInterrupt
        client.client._finish = interrupted  # the last part's
        with pytest.raises(KeyboardInterrupt):
            client.reserve_many(NAMES)
        del client.client._finish
        client.ping()
        eventually(lambda: [kind for kind, _ in fleet.calls[1]] == (
            ["reserve"] * len(SECONDS) + ["cancel"] * len(SECONDS)), "they are cancelled")


# --- owners that are not connected, or lost

def lose(kind):
    return lambda _, frame: END if frame.kind == kind else None


def keep_silent(kind):
    return lambda _, frame: HANDLED if frame.kind == kind else None


def test_calls_go_home_while_the_owner_is_out_of_reach(connect):
    quotas = Admitting(0)
    home = NodeScript(0, lambda frame_id: nodes(frame_id, ports), quotas)
    with FakeServer(home) as server, connect([server.address]) as client:
        ports = [port_of(server.address), port_of(unused_address())]
        client.ping()
        for name, (_, arguments) in SUBJECT_CALLS:
            getattr(client, name)(SECONDS[0], *arguments)
        client.settle(reservation_of(1))
        assert client.consume_many(NAMES).all_admitted
    assert quotas.calls == (
        [(kind, SECONDS[0]) for _, (kind, _) in SUBJECT_CALLS] + [("settle", reservation_of(1))]
        + [("consume", name) for name in NAMES])


CALLS = [("reserve", SECONDS[1]), ("consume", SECONDS[1]), ("record", SECONDS[1]),
         ("usage", SECONDS[1]), ("reset", SECONDS[1]), ("settle", reservation_of(1)),
         ("reserve_many", SECONDS), ("settle_many", [reservation_of(1)])]


@pytest.mark.parametrize("name, argument", CALLS, ids=[name for name, _ in CALLS])
def test_calls_go_home_when_the_owner_was_lost_before(connect, name, argument):
    def end(script, frame):
        if frame.kind == "reset":
            script.peer.quota_answers(frame, count=1)
            return END
        return None
    with QuotaNodes(end) as fleet, connect([fleet.address], connect_timeout=0.3) as client:
        client.open_lane()
        client.reset(SECONDS[0])  # answered, then the connection ends
        fleet.servers[1]._thread.join(TIMEOUT_S)
        fleet.servers[1]._listener.close()
        client.pause(2 * IDLE_CHECK_S)  # the blocking client checks no younger one
        getattr(client, name)(argument)
        assert fleet.calls[0] and fleet.calls[1] == [("reset", SECONDS[0])]
        assert not client.lane.is_open


ONCE = [("reserve", "reserve", {}), ("check", "check", {}), ("consume", "consume", {}),
        ("record", "record", {}), ("record", "record", {"id": "a"}), ("usage", "usage", {}),
        ("reset", "reset", {}), ("remove_quota", "quota", {})]


@pytest.mark.parametrize("name, kind, options", ONCE)
def test_a_call_that_was_lost_with_its_owner_is_not_repeated(connect, name, kind, options):
    with QuotaNodes(lose(kind)) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        with pytest.raises(sluicegate.ConnectionLost):
            getattr(client, name)(SECONDS[0], **options)
        assert not fleet.calls[0] and fleet.calls[1] == [(kind, SECONDS[0])]


@pytest.mark.parametrize("name, kind, options, is_repeated", [
    ("reserve", "reserve", {}, True), ("consume", "consume", {}, False),
    ("consume", "consume", {"id": "a"}, True), ("record", "record", {}, False),
    ("record", "record", {"id": "a"}, True), ("usage", "usage", {}, True),
    ("reset", "reset", {}, False), ("remove_quota", "quota", {}, False)])
def test_with_requeue_a_lost_call_goes_home_if_it_may_be_repeated(connect, name, kind, options,
                                                                  is_repeated):
    with QuotaNodes(lose(kind)) as fleet, connect([fleet.address], requeue=True) as client:
        client.open_lane()
        if is_repeated:
            getattr(client, name)(SECONDS[0], **options)
        else:
            with pytest.raises(sluicegate.ConnectionLost):
                getattr(client, name)(SECONDS[0], **options)
        assert fleet.calls[0] == [(kind, SECONDS[0])] * is_repeated


@pytest.mark.parametrize("kind", ["settle", "cancel", "extend"])
def test_a_lost_settle_goes_home_if_the_owner_cannot_be_reached_again(connect, kind):
    with QuotaNodes(lose(kind)) as fleet, connect([fleet.address], connect_timeout=0.3) as client:
        client.open_lane()
        getattr(client, kind)(reservation_of(1))
        assert fleet.calls == [[(kind, reservation_of(1))]] * 2


@pytest.mark.parametrize("policy", ["open", "closed"])
def test_the_failure_policy_decides_single_calls_that_a_lane_lost(connect, policy):
    for kind in ("reserve", "record"):
        with QuotaNodes(lose(kind)) as fleet, \
                connect([fleet.address], on_failure=policy) as client:
            client.open_lane()
            if kind == "record":  # nobody admits it
                with pytest.raises(sluicegate.ConnectionLost):
                    client.record(SECONDS[0])
            elif policy == "open":
                assert client.reserve(SECONDS[0]).decided_by_policy
            else:
                with pytest.raises(sluicegate.QuotaDenied) as caught:
                    client.reserve(SECONDS[0])
                assert caught.value.code.decided_by_policy
            assert not fleet.calls[0]


@pytest.mark.parametrize("call, kind", [
    (lambda client, **named: client.reserve(SECONDS[0], **named), "reserve"),
    (lambda client, **named: client.acquire(SECOND[1], **named), "acquire")],
    ids=["reserve", "acquire"])
def test_the_failure_policy_does_not_decide_what_was_not_lost(connect, call, kind):
    answers = {"refused": lambda script, frame: script.peer.error(frame.id, "badCost"),
               "silent": lambda script, frame: None}

    def answer(script, frame):
        if frame.kind != kind or frame.kind == "acquire" and frame.keys != [SECOND[1].encode()]:
            return None
        answers[how](script, frame)
        return HANDLED
    with QuotaNodes(answer) as fleet, connect([fleet.address], on_failure="open") as client:
        client.open_lane()
        how = "silent"
        with pytest.raises(sluicegate.TimedOut):  # after a wait in the queue, perhaps
            call(client, wait=True, timeout=IN_QUEUE_BEFORE_S)
        how = "refused"
        with pytest.raises(sluicegate.Refused):
            call(client)


def test_a_call_that_went_to_another_server_does_not_go_home(connect):
    """The connection was lost when the call had chosen it; then it led to the wrong server."""
    def answer_behind_the_call(script, frame):
        if frame.kind == "consume":
            script.peer.send(server_frame(id=pings.pop(), pong=None))
        elif frame.kind == "ping":
            pings.append(frame.id)
        return HANDLED
    pings, wrong = [], NodeScript(7, on_frame=answer_behind_the_call)
    fleet = QuotaNodes(lose("reset"))
    fleet.servers[1]._scripts += (wrong,)
    with fleet, connect([fleet.address]) as client:
        lane = client.open_lane().lane
        with pytest.raises(sluicegate.ConnectionLost):
            client.reset(SECONDS[0])
        eventually(lambda: client.acquire(SECOND[0]) and client.pause(0.01) or pings,
                   "the lane is being opened")
        client.client._lanes.lane_to = lambda owner: lane
        with pytest.raises(sluicegate.ConnectionLost, match="another server"):
            client.consume(SECONDS[0])
        assert not fleet.calls[0] and not lane.is_open


@pytest.mark.parametrize("waits", [False, True])
def test_a_call_goes_home_where_the_owner_shuts_down(connect, waits):
    def drain(script, frame):
        if frame.kind != "reserve":
            return None
        script.peer.quota_answers(frame, QUEUED if waits else DRAINING)
        if waits:
            script.peer.reserve_granted(frame, [0], DRAINING)
        return HANDLED
    with QuotaNodes(drain) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        assert client.reserve(SECONDS[0], wait=waits).id == reservation_of(0, 0)


@pytest.mark.parametrize("name, kind", [("reserve", "reserve"), ("reset", "reset")])
def test_a_call_that_goes_home_keeps_its_time_out(connect, name, kind):
    pause_s, timeout_s = 0.4, 0.6
    longest_s = pause_s + timeout_s - 0.1  # a time-out that began again would end later

    def refuse_late(script, frame):
        if frame.kind != kind:
            return None
        threading.Event().wait(pause_s)
        script.peer.error(frame.id, "draining")
        return HANDLED
    with QuotaNodes(refuse_late) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        fleet.home_quotas.before = keep_silent(kind)
        start = time.monotonic()
        with pytest.raises(sluicegate.TimedOut):
            getattr(client, name)(SECONDS[0], timeout=timeout_s)
        assert time.monotonic() - start < longest_s
        assert fleet.calls[0] == [(kind, SECONDS[0])]


def test_limits_that_can_be_read_once_go_home_all_the_same(connect):
    """A second reading of them would put an empty quota."""
    def refuse(script, frame):
        script.peer.error(frame.id, "draining")
        return HANDLED

    def amounts(_, frame):
        put.append([limit["amount"] for limit in frame.body["quota"].get("limits", [])])
    put = []
    with QuotaNodes(refuse) as fleet, connect([fleet.address]) as client:
        client.open_lane()
        fleet.home_quotas.before = amounts
        client.put_quota(SECONDS[0], (Limit(name, "requests", amount, period=60)
                                      for name, amount in (("a", 5), ("b", 7))))
        assert put == [[5, 7]]


@pytest.mark.parametrize("asks_owner", [False, True])
def test_a_late_reservation_is_cancelled_at_its_owner(asks_owner):
    may_answer = threading.Event()

    def answer_late(script, frame):
        if frame.kind != "reserve":
            return None
        assert may_answer.wait(TIMEOUT_S)
        return None
    with QuotaNodes(answer_late) as fleet, blocking([fleet.address]) as client:
        client.open_lane()
        with pytest.raises(sluicegate.TimedOut):
            client.reserve(SECONDS[0], timeout=IN_QUEUE_BEFORE_S)
        may_answer.set()
        if asks_owner:
            client.reset(SECONDS[0])  # its answer comes after the late one

        def is_cancelled():
            client.reset(HOMES[0])
            return ("cancel", reservation_of(1, 0)) in fleet.calls[1]
        eventually(is_cancelled, "it is cancelled")
        assert {kind for kind, _ in fleet.calls[0]} == {"reset"}


def test_an_interruption_while_late_answers_are_taken_ends_their_connection():
    """It is unknown what was taken: without the end, later calls would wait for lost answers."""
    may_answer = threading.Event()

    def answer_late(_, frame):
        if frame.kind == "reserve":
            assert may_answer.wait(TIMEOUT_S)

    def interrupted(_):
        raise KeyboardInterrupt
    with QuotaNodes(answer_late) as fleet, blocking([fleet.address]) as client:
        lane = client.open_lane().lane
        with pytest.raises(sluicegate.TimedOut):
            client.reserve(SECONDS[0], timeout=IN_QUEUE_BEFORE_S)
        lane.client._dispatcher.receive = interrupted
        may_answer.set()
        with pytest.raises(KeyboardInterrupt):
            eventually(lambda: client.check(HOMES[0]).allowed is None, "it is interrupted")
        assert not lane.client.is_usable and not lane.client._dispatcher.pending


def test_close_ends_calls_that_wait_at_their_owner():
    waits = threading.Event()

    def queue(script, frame):
        if frame.kind != "reserve":
            return None
        script.peer.quota_answers(frame, QUEUED)
        waits.set()
        return HANDLED
    with QuotaNodes(queue) as fleet, blocking([fleet.address]) as client:
        client.open_lane()
        join = in_thread(client.reserve, SECONDS[0], wait=True)
        assert waits.wait(TIMEOUT_S)
        client.client.close()
        with pytest.raises(sluicegate.Closed):
            join()
        with pytest.raises(sluicegate.Closed):
            client.reserve(SECONDS[0])
        assert not fleet.calls[0]


def test_a_lane_stays_when_its_node_becomes_home(connect):
    """Connection-bound reservations would end with it. Once it is lost, home has its calls."""
    later = NodeScript(1, on_frame=Admitting(1))  # the second node's end of the new home connection
    second = NodeScript(1, on_frame=Admitting(1))
    home = NodeScript(0, lambda frame_id: nodes(frame_id, ports))
    home.on_frame = lambda _, frame: END if frame.kind == "ping" else None
    later.reply = lambda frame_id: nodes(frame_id, ports, own=1)
    servers = FakeServer(home), FakeServer(ending_later(second), later)
    ports = [port_of(server.address) for server in servers]
    with servers[0], servers[1], connect([server.address for server in servers]) as client:
        client.open_lane()
        client.reserve(SECONDS[0], connection_bound=True)
        lane = client.lane
        with pytest.raises(sluicegate.ConnectionLost):
            client.ping()
        servers[0]._listener.close()

        def has_moved():
            client.acquire("key:1")
            client.acquire("key:2")
            return client.client._lanes._nodes.topology.own_node == 1
        eventually(has_moved, "the second node is home")
        second.on_frame.calls.clear()
        client.settle(reservation_of(1, 0))
        assert client.lane is lane and second.on_frame.calls == [("settle", reservation_of(1, 0))]
        assert lane.client.is_usable and not later.on_frame.calls
        second.on_frame.before = lose("reset")
        with pytest.raises(sluicegate.ConnectionLost):
            client.reset(SECONDS[0])
        client.record(SECONDS[0])
        assert later.on_frame.calls == [("record", SECONDS[0])]
        assert not lane.is_open and not lane.is_opening


def test_a_lane_stays_while_home_does_not_know_its_node_yet(connect):
    """As home was just started; connection-bound reservations would end with the lane."""
    with QuotaNodes() as fleet, connect([fleet.address]) as client:
        client.open_lane()
        client.reserve(SECONDS[0], connection_bound=True)
        lane = client.lane
        for port in (0, fleet.ports[1]):
            fleet.home.peer.send(nodes(0, [fleet.ports[0], port]))

            def is_reported():
                client.acquire(FIRST[0])
                return client.client._lanes._nodes.topology.nodes[1].native_port == port
            eventually(is_reported, "the client knows what home knows")
            client.extend(reservation_of(1, 0))
            assert client.lane is lane and lane.client.is_usable
        assert [kind for kind, _ in fleet.calls[1]] == ["reserve", "extend", "extend"]


def ending_later(script):
    """Runs the script beside those of later connections."""
    def run(peer):
        copy = type(peer)(peer.socket.dup())

        def to_its_end():
            with copy.socket:
                script(copy)
        threading.Thread(target=to_its_end, daemon=True).start()
    return run
