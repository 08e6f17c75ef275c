"""--state and SIGKILL: clients of both protocols keep books, the server is killed at random moments
and begins again with the same file; also stopped, and with another number of shards each time.

Method: a reader of /metrics notes up to which moment everything was durable. What was answered
before that must be there; what was asked later may be, or not. Each call has an id of the client's
own, so after the restart the clients repeat what may be lost, and then usage is theirs to the unit.
Some subjects are only ever named together, on several shards: their usage is always equal.
`KILLS` is how often all engines together are killed; `tools/test long` has more.
"""

import itertools
import json
import math
import os
import random
import subprocess
import threading
import time

import pytest

from conftest import ENGINES, ONE_ENGINE
from http_peer import HttpPeer, ask, metrics
from native_peer import NativePeer
from quota_calls import encoded, put, show, slots, tokens
from server_process import ServerProcess, clean_environment
from state_calls import change_quota, kill_now, status, stop

KILLS = math.ceil(int(os.environ.get("KILLS", "30")) / len(ENGINES))
MONTH_MS = 30 * 86_400_000
# Each is named as a whole. A `record` over several shards is no reservation, and may be there for
# some subjects only until it is repeated with the same number of shards: with others, only those
# are recorded that have the shard of their tag.
GROUPS = [[f"{name}{number}" for number in range(size)] for name, size in {
    "a": 3, "b": 3, "c": 5, "d": 8, "e": 2, "{v}": 1, "{w}": 2, "{x}": 3, "{y}": 5, "{z}": 1
}.items()]
TAGGED = [group for group, names in enumerate(GROUPS) if names[0].startswith("{")]
LEASES_MAX = 40
FOREVER_AGO = -math.inf
SHARDS = [1, 2, 4, 1, 8, 3]  # of the starts, one after the other, again and again


class Wrong(Exception):
    """An answer that no kill explains."""


class Refused(EOFError):
    """The server shuts down: it has changed nothing."""


def check(condition, *what):
    if not condition:
        raise Wrong(*what)


class Use:
    """One use of a group's tokens: charged at once (`record`), or reserved and settled later.
    A time of an answer is None until there is one."""

    def __init__(self, kind, group, dice, number):
        self.kind = kind
        self.group = group
        self.subjects = GROUPS[self.group]
        self.amount = dice.randint(1, 1_000)
        self.settled_amount = dice.randint(0, 1_500)
        self.id = f"use {number}"
        self.answered_at = None
        self.reservation = None  # as REST writes it
        self.settle_asked = False
        self.settled_at = None

    def fields(self):
        return {"subjects": self.subjects, "input_tokens": self.amount, "id": self.id}

    def final_amount(self):
        return self.settled_amount if self.settle_asked else self.amount


class Quota:
    """A quota that one client puts and removes; an amount of 0 is none."""

    def __init__(self, number):
        self.subject = f"put{number}"
        self.answered = 0
        self.asked = 0  # equals `answered`, but for a call on its way


class Book:
    """All clients' uses of a round, the leases of earlier ones, and the sums of what is final."""

    def __init__(self, seed, recorded):
        self.recorded = recorded  # groups
        self.dice = random.Random(seed)
        self.numbers = iter(range(10**9))
        self.final = [0] * len(GROUPS)
        self.leases = []
        self.quotas = [Quota(number) for number in range(2)]
        self.uses = []  # of the round
        self.durable_before = FOREVER_AGO
        self.killed = False
        # Figures.
        self.calls = self.lost = self.certain = self.halves = 0
        self.oldest_loss_s = 0.0

    def new_use(self, kind, dice):
        group = dice.choice(self.recorded if kind == "record" else range(len(GROUPS)))
        use = Use(kind, group, dice, next(self.numbers))
        self.uses.append(use)
        return use

    def is_certain(self, answered_at):
        return answered_at is not None and answered_at < self.durable_before

    def note_loss(self, answered_at, killed_at):
        if answered_at is not None:
            self.lost += 1
            self.oldest_loss_s = max(self.oldest_loss_s, killed_at - answered_at)


class Rest:
    """The calls about uses over REST; times are those of the answers."""

    def __init__(self, server):
        self.peer = HttpPeer(server)

    def post(self, name, body):
        data = encoded(body)
        answer = self.peer.ask("POST", f"/v1/{name}", f"Content-Length: {len(data)}", body=data)
        if answer.status == 503 and answer.json()["code"] == "draining":
            raise Refused
        check(answer.status == 200, name, body, answer)
        return answer.json()

    def record(self, uses):
        for use in uses:
            self.post("record", use.fields())
            use.answered_at = time.monotonic()

    def reserve(self, uses):
        for use in uses:
            answer = self.post("reserve", {**use.fields(), "lifetime_ms": MONTH_MS})
            use.reservation, use.answered_at = answer["reservation"], time.monotonic()

    def settle(self, uses):
        for use in uses:
            use.settle_asked = True
            answer = self.post("settle", {"reservation": use.reservation,
                                          "input_tokens": use.settled_amount})
            use.settled_at = time.monotonic()
            check(answer["input_tokens"] == use.settled_amount and not answer["late"], answer)


class Native:
    """The same, with all uses in one frame."""

    def __init__(self, server):
        self.peer = NativePeer(server)

    def entries(self, uses):
        ids = [use.id.encode() for use in uses]
        return {"inputTokens": [use.amount for use in uses], "ids": b"".join(ids),
                "idSizes": [len(id) for id in ids]}

    def record(self, uses):
        subjects = [name.encode() for use in uses for name in use.subjects]
        answer = self.peer.call("record", {
            "subjects": b"".join(subjects), "subjectSizes": [len(name) for name in subjects],
            "subjectCounts": [len(use.subjects) for use in uses], **self.entries(uses)})
        self.note(uses, answer)

    def note(self, uses, answer):
        check(set(answer.codes) <= {"ok", "draining"}, answer)
        now = time.monotonic()
        for use, code in zip(uses, answer.codes, strict=True):
            use.answered_at = now if code == "ok" else None
        if "draining" in answer.codes:
            raise Refused

    def reserve(self, uses):
        answer = self.peer.reserve(*(use.subjects for use in uses), lifetimeMs=MONTH_MS,
                                   **self.entries(uses))
        for use, reservation in zip(uses, answer.reservations, strict=True):
            use.reservation = f"{reservation:016x}" if reservation else None
        self.note(uses, answer)

    def settle(self, uses):
        for use in uses:
            use.settle_asked = True
        answer = self.peer.settle(*(int(use.reservation, 16) for use in uses),
                                  inputTokens=[use.settled_amount for use in uses])
        check(set(answer.codes) == {"ok"}, answer)
        now = time.monotonic()
        for use in uses:
            use.settled_at = now


class Client(threading.Thread):
    """Calls `step` until the server is killed."""

    def __init__(self, book):
        super().__init__(daemon=True)
        self.book, self.dice, self.fault = book, random.Random(book.dice.random()), None

    def run(self):
        try:
            while not self.book.killed:
                self.step()
        except (OSError, EOFError, AssertionError) as fault:
            self.fault = None if self.book.killed else fault
        except BaseException as fault:
            self.fault = fault


class User(Client):
    def __init__(self, book, peer, leases):
        super().__init__(book)
        self.peer, self.open = peer, leases

    def step(self):
        count = self.dice.randint(1, 6)
        kind = self.dice.choice(["record", "reserve", "reserve", "settle", "settle"])
        if kind == "settle":
            self.dice.shuffle(self.open)
            chosen = [self.open.pop() for _ in range(min(count, len(self.open)))]
            if chosen:
                self.peer.settle(chosen)
        else:
            uses = [self.book.new_use(kind, self.dice) for _ in range(count)]
            (self.peer.record if kind == "record" else self.peer.reserve)(uses)
            self.open += uses if kind == "reserve" else []
        self.book.calls += 1


class Putter(Client):
    def __init__(self, book, server, quota):
        super().__init__(book)
        self.server, self.quota = server, quota

    def step(self):
        quota = self.quota
        removes = quota.answered != 0 and self.dice.random() < 0.3
        quota.asked = 0 if removes else quota.answered + self.dice.randint(1, 100)
        if removes:
            answer = change_quota(self.server, "DELETE", quota.subject)
        else:
            answer = change_quota(self.server, "PUT", quota.subject,
                                  {**tokens(quota.asked), "period_ms": MONTH_MS})
        if answer.status == 503:
            raise Refused
        check(answer.status in (200, 204), answer)
        quota.answered = quota.asked


class LagReader(Client):
    """Everything that was answered before `durable_before` is on the disk."""

    def __init__(self, book, server):
        super().__init__(book)
        self.server = server

    def step(self):
        asked_at = time.monotonic()
        lag_s = metrics(self.server)["sluicegate_state_lag_seconds"]
        # The metric has whole milliseconds; its clock was read behind `asked_at`.
        before = asked_at - (lag_s + 0.001 if lag_s > 0 else 0)
        self.book.durable_before = max(self.book.durable_before, before)
        time.sleep(0.003)


def run_and_end(server, book, end):
    """A round of load; returns when the server was killed, or stopped."""
    leases = book.leases
    users = [User(book, protocol(server), leases[number::4])
             for number, protocol in enumerate([Rest, Native, Rest, Native])]
    clients = [LagReader(book, server), *users,
               *(Putter(book, server, quota) for quota in book.quotas)]
    for client in clients:
        client.start()
    time.sleep(book.dice.choice([0.01, 0.1, 0.3]) * book.dice.random() * 2)
    faults = [client.fault for client in clients if client.fault]
    book.killed = True
    killed_at = time.monotonic()
    end(server)
    for client in clients:
        client.join(30)
        assert not client.is_alive(), "a client hangs"
    faults += [client.fault for client in clients if client.fault]
    assert not faults, (faults, server.output())
    if end is stop:
        book.durable_before = math.inf  # a clean end loses nothing that was answered
    return killed_at


def state_of(peer, use):
    answer = peer.ask("GET", f"/v1/reservations/{use.reservation}")
    check(answer.status == 200 or answer.json()["code"] == "unknown_reservation", answer)
    return answer.json() if answer.status == 200 else {"state": "unknown"}


class Audit:
    """The state after a restart, before anybody changes it."""

    def __init__(self, server, book, killed_at):
        self.server, self.book, self.killed_at = server, book, killed_at
        self.low, self.high = list(book.final), list(book.final)
        self.unknown = []  # answered reservations that are lost

    def check_all(self):
        with HttpPeer(self.server) as peer:
            for use in [*self.book.leases, *self.book.uses]:
                self.add(use, *(self.reserved(peer, use) if use.kind == "reserve"
                                else self.recorded(use)))
        for group, subjects in enumerate(GROUPS):
            amounts = [show(self.server, name)["limits"][0]["used"] for name in subjects]
            difference = max(amounts) - min(amounts)
            assert difference <= self.half_recorded(group), (
                "a part is missing", subjects, amounts, self.explain(group, difference))
            self.book.halves += difference > 0
            assert self.low[group] <= min(amounts) <= max(amounts) <= self.high[group], (
                subjects, self.low[group], amounts, self.high[group])
        for quota in self.book.quotas:
            answer = ask(self.server, "GET", f"/v1/subjects/{quota.subject}")
            amount = answer.json()["limits"][0]["amount"] if answer.status == 200 else 0
            assert amount in (quota.answered, quota.asked), (quota.__dict__, answer)
            quota.answered = quota.asked = amount

    def half_recorded(self, group):
        """What some subjects may lack of records that are not certain."""
        if group in TAGGED:
            return 0
        return sum(use.amount for use in self.book.uses if use.kind == "record"
                   and use.group == group and not self.book.is_certain(use.answered_at))

    def explain(self, group, difference):
        """Uses that the difference between two subjects of a group may come from."""
        return [use.__dict__ for use in [*self.book.leases, *self.book.uses]
                if use.group == group and difference in (
                    use.amount, use.settled_amount, abs(use.amount - use.settled_amount))]

    def add(self, use, low, high):
        self.low[use.group] += low
        self.high[use.group] += high

    def recorded(self, use):
        is_certain = self.book.is_certain(use.answered_at)
        self.book.certain += is_certain
        return (use.amount if is_certain else 0), use.amount

    def reserved(self, peer, use):
        if use.reservation is None:  # its answer was lost
            return 0, use.amount
        shown = state_of(peer, use)
        must_be_open = self.book.is_certain(use.answered_at)
        must_be_settled = self.book.is_certain(use.settled_at)
        self.book.certain += must_be_open + must_be_settled
        allowed = {"settled"} if must_be_settled else {"open"}
        if use.settle_asked:
            allowed.add("settled")
        if not must_be_open:
            allowed.add("unknown")
        assert shown["state"] in allowed, (use.__dict__, shown, self.book.durable_before,
                                           self.killed_at)
        if shown["state"] == "unknown":
            self.unknown.append(use)
            self.book.note_loss(use.answered_at, self.killed_at)
            return 0, 0
        if shown["state"] == "open":
            self.book.note_loss(use.settled_at, self.killed_at)
        assert shown["state"] == "open" or shown["input_tokens"] == use.settled_amount, shown
        return shown["input_tokens"], shown["input_tokens"]


def repeat_what_may_be_lost(server, book, unknown):
    """As careful clients do; then all of it is there exactly once."""
    rest = Rest(server)
    lost = set(unknown)
    uses = [*book.leases, *book.uses]
    rest.record([use for use in uses
                 if use.kind == "record" and not book.is_certain(use.answered_at)])
    reserved = [use for use in uses if use.kind == "reserve"]
    rest.reserve([use for use in reserved if use.reservation is None or use in lost])
    rest.settle([use for use in reserved if use.settle_asked])
    still_open = [use for use in reserved if not use.settle_asked]
    rest.settle(still_open[LEASES_MAX:])
    book.leases = still_open[:LEASES_MAX]
    for use in uses:
        if use.kind == "record" or use.settle_asked:
            book.final[use.group] += use.final_amount()
    for use in book.leases:
        use.answered_at = FOREVER_AGO  # durable before the next kill: see begin_round()


def check_exactly(server, book):
    for group, subjects in enumerate(GROUPS):
        leases = [use for use in book.leases if use.group == group]
        expected = book.final[group] + sum(use.amount for use in leases)
        for name in subjects:
            shown = show(server, name)
            used, held = (limit["used"] for limit in shown["limits"])
            assert (used, held, shown["open_reservations"]) == (
                expected, len(leases), len(leases)), (name, shown)


def begin_round(server, book):
    """What earlier rounds have left is durable, so only this one's calls may be lost."""
    while metrics(server)["sluicegate_state_lag_seconds"] > 0:
        time.sleep(0.001)
    assert status(server) == "running"
    book.uses, book.killed, book.durable_before = [], False, time.monotonic()


def kill_while_it_starts(command, dice):
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=clean_environment()) as process:
        time.sleep(0.06 * dice.random())
        process.kill()


def play(io, shards, ends, recorded, tmp_path):
    """Each start has the next number of shards; each round ends in one of these ways."""
    seed = random.randrange(2**32)
    book = Book(seed, recorded)
    config = tmp_path / "quotas.json"
    config.write_text(json.dumps({"quotas": {"default_lifetime_ms": 3_600_000, "subjects": [
        {"subject": f"file{number}", "limits": [{**tokens(9), "period_ms": MONTH_MS}]}
        for number in range(8)]}}))

    def start():
        return ServerProcess(io, next(shards), "--state", str(tmp_path / "state.db"),
                             "--config-file", str(config), "--state-sync-millis",
                             str(book.dice.choice([10, 50, 100])))

    server = start()
    try:
        for subjects in GROUPS:
            for name in subjects:
                put(server, name, {**tokens(2**50), "period_ms": MONTH_MS}, slots(1_000_000))
        for _ in range(KILLS):
            begin_round(server, book)
            killed_at = run_and_end(server, book, book.dice.choice(ends))
            if book.dice.random() < 0.2:
                kill_while_it_starts(server.command, book.dice)
            server = start()
            audit = Audit(server, book, killed_at)
            audit.check_all()
            repeat_what_may_be_lost(server, book, audit.unknown)
            check_exactly(server, book)
        assert server.stop() == 0, server.output()
    except BaseException:
        print(f"seed {seed}\n{server.output()}")
        raise
    finally:
        if server.is_running():
            server.kill()
    print(f"{KILLS} ends, {book.calls} calls; {book.certain} answers had to be there, and were; "
          f"{book.lost} were lost, the oldest {1000 * book.oldest_loss_s:.0f} ms before its kill; "
          f"{book.halves} groups had a record in part")
    assert book.calls > 0


@pytest.mark.timeout(120 + 20 * KILLS)
def test_the_books_agree_after_each_kill(engine, tmp_path):
    io, shards = engine
    play(io, itertools.repeat(shards), [kill_now], range(len(GROUPS)), tmp_path)


@pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)
@pytest.mark.timeout(120 + 20 * KILLS)
def test_the_books_agree_with_another_number_of_shards_after_each_end(engine, tmp_path):
    """Under load, by SIGKILL or SIGTERM; the leases of earlier starts go on, and are settled."""
    play(engine[0], itertools.cycle(SHARDS), [kill_now, stop], TAGGED, tmp_path)
