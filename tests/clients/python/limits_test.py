"""The storages for the package `limits`, and its strategies over them, against the real server.

Method: the cases follow the package's own tests of its storages and strategies. Each runs over the
blocking storage and over that of asyncio, whose calls a loop of the test's own runs. Where a window
must move, the storage has the test's clock; the server's windows are longer than the test.
"""

import asyncio
import inspect
import json
import threading
import time

import limits.aio
import limits.aio.strategies
import limits.strategies
import pytest
from fake_server import unused_address
from fleet import secret_file
from limits import RateLimitItemPerHour, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import storage_from_string
from nodes_server_test import PATIENT, addresses, three_nodes
from real_server import client as client
from real_server import server as server
from real_server import serving
from server_process import eventually

import sluicegate
from sluicegate._limits_steps import LimitsSteps, PutQuotas
from sluicegate.limits_storage import AsyncSluicegateStorage, SluicegateStorage, StorageRefused

HOUR_S = 3600


class Ran:
    """A storage or limiter whose coroutines are run, so that one test serves both."""

    def __init__(self, target, run):
        self._target, self._run = target, run

    def __getattr__(self, name):
        function = getattr(self._target, name)

        def call(*args, **kwargs):
            answer = function(*args, **kwargs)
            return self._run(answer) if inspect.isawaitable(answer) else answer
        return call


class Opened:
    """Opens storages of one kind, and closes them."""

    def __init__(self, scheme):
        self._scheme = scheme
        self._runner = asyncio.Runner() if scheme.startswith("async") else None
        self.strategies = limits.aio.strategies if self._runner else limits.strategies
        self._storages = []

    def __call__(self, address, **options):
        """The storage itself."""
        storage = storage_from_string(f"{self._scheme}://{address}", **options)
        self._storages.append(self.ran(storage))
        return storage

    def ran(self, target):
        return Ran(target, self._runner.run if self._runner else None)

    def limiter(self, name, storage):
        return self.ran(getattr(self.strategies, f"{name}RateLimiter")(storage))

    def close(self):
        for storage in self._storages:
            storage.close()
        if self._runner:
            self._runner.close()


@pytest.fixture(params=["sluicegate", "async+sluicegate"])
def opened(request):
    opened = Opened(request.param)
    yield opened
    opened.close()


@pytest.fixture
def storage(opened, server):
    storage = opened(f"127.0.0.1:{server.native_port}")
    opened.ran(storage).reset()
    return storage


def fixed(opened, storage):
    return opened.limiter("FixedWindow", storage)


def moving(opened, storage):
    return opened.limiter("MovingWindow", storage)


def sliding(opened, storage, clock=None):
    if clock is not None:
        storage._steps = LimitsSteps("limits:", wall_clock=lambda: clock[0])
    return opened.limiter("SlidingWindowCounter", storage)


# ---- storage -------------------------------------------------------------------------------------

def test_the_uri_chooses_the_storage(opened, storage):
    assert isinstance(storage, (SluicegateStorage, AsyncSluicegateStorage))
    assert opened.ran(storage).check()


def test_options_are_of_the_query_or_keywords(opened, server):
    storage = opened(f"127.0.0.1:{server.native_port}?timeout=9&key_prefix=a:", key_prefix="b:")
    opened.ran(storage).reset()
    opened.ran(storage).incr("options", HOUR_S)
    with sluicegate.Client(f"127.0.0.1:{server.native_port}") as client:
        assert client.inspect("b:options").approved == 1
    assert storage._target.options == {"timeout": 9.0}


def test_of_several_addresses_the_first_that_answers_is_used(opened, server):
    storage = opened(f"{unused_address()},127.0.0.1:{server.native_port}")
    assert opened.ran(storage).check()


@pytest.mark.parametrize("uri, named", [
    ("sluicegate://", "uri"), ("sluicegate://a:1,", "uri"), ("sluicegate://a:1/0", "uri"),
    ("sluicegate://a:1?timeout=soon", "timeout"), ("sluicegate://a:1?timeout=-1", "timeout"),
    ("sluicegate://a:1?on_failure=open", "on_failure"), ("sluicegate://a:1?key_prefix=",
                                                         "key_prefix"),
    ("sluicegate://a:1?key_prefix=" + "k" * 225, "key_prefix")])
def test_a_mistake_in_the_uri_is_named(uri, named):
    with pytest.raises(sluicegate.InvalidArgument, match=named):
        storage_from_string(uri)


def test_increments_are_counted_and_end_with_the_window(opened, storage):
    asked, key = opened.ran(storage), f"ends:{time.time()}"  # a key that was never used
    before = time.time()
    assert asked.get(key) == 0 and asked.get_expiry(key) <= time.time()
    assert asked.incr(key, 1) == 1
    eventually(lambda: asked.get(key) == 0, "the window ends")
    assert before + 0.99 <= time.time()


def test_an_increment_has_an_amount(opened, storage):
    asked = opened.ran(storage)
    assert asked.incr("k", HOUR_S, amount=1) == 1
    assert asked.incr("k", HOUR_S, amount=10) == 11
    assert asked.get("k") == 11
    assert 0 < asked.get_expiry("k") - time.time() <= HOUR_S


def test_a_counter_that_is_full_denies(opened, storage):
    asked = opened.ran(storage)
    assert asked.incr("k", HOUR_S, amount=10**9) == 10**9
    assert asked.incr("k", HOUR_S, amount=2) == 10**9 + 2


def test_clear_is_for_one_key(opened, storage):
    asked = opened.ran(storage)
    asked.incr("a", HOUR_S)
    asked.incr("b", HOUR_S)
    asked.acquire_entry("a", 2, HOUR_S)
    asked.clear("a")
    assert asked.get("a") == 0 and asked.get("b") == 1
    assert asked.get_moving_window("a", 2, HOUR_S)[1] == 0


def test_reset_clears_its_prefix_and_nothing_else(opened, storage, client):
    asked = opened.ran(storage)
    for number in range(10):
        asked.incr(f"LIMITER/{number}", HOUR_S)
        asked.incr(f"OTHER/{number}", HOUR_S)
    asked.acquire_entry("moving", 5, HOUR_S)
    client.acquire("somebody's", 3, max_requests=9)
    client.put_quota("somebody's", [sluicegate.Limit("rpm", "requests", 9, 60)])
    assert asked.reset() == 21
    assert asked.get("LIMITER/3") == 0 and asked.reset() == 0
    assert client.inspect("somebody's").approved == 3
    assert client.get_quota("somebody's") is not None
    assert client.get_quota("limits:moving") is None
    client.reset_key("somebody's")


@pytest.mark.parametrize("wraps", [True, False])
def test_a_storage_that_is_away_raises_as_limits_wants_it(opened, wraps):
    asked = opened.ran(opened(unused_address(), wrap_exceptions=wraps))
    error = StorageError if wraps else sluicegate.Unreachable
    for call in (lambda: asked.incr("k", 1), lambda: asked.get("k"), lambda: asked.get_expiry("k"),
                 lambda: asked.clear("k"), lambda: asked.reset(),
                 lambda: asked.acquire_entry("k", 1, 1),
                 lambda: asked.get_moving_window("k", 1, 1),
                 lambda: asked.acquire_sliding_window_entry("k", 1, 1),
                 lambda: asked.get_sliding_window("k", 1),
                 lambda: asked.clear_sliding_window("k", 1)):
        with pytest.raises(error):
            call()
    assert asked.check() is False


def test_a_mistake_is_named(opened, storage):
    asked = opened.ran(storage)
    for named, call in (
            ("expiry", lambda: asked.incr("k", 400 * 86_400)),
            ("amount", lambda: asked.incr("k", 1, amount=-1)),
            ("limit", lambda: asked.acquire_entry("k", 0, 1)),
            ("expiry", lambda: asked.acquire_sliding_window_entry("k", 1, 200 * 86_400))):
        with pytest.raises(sluicegate.InvalidArgument, match=named):
            call()


@pytest.mark.parametrize("key", ["k" * 3_000, "\u00e9" * 3_000, "\U0001f600" * 3_000,
                                 "k" * 242 + "\u20ac" * 9, "\udc80", "k\0k", ""])
def test_no_key_is_a_mistake_and_each_is_counted_alone(opened, storage, key):
    """Callers choose parts of keys, and an error stops the limits of all in Flask-Limiter."""
    asked, other = opened.ran(storage), key + "!"
    assert [asked.incr(key, HOUR_S), asked.incr(key, HOUR_S), asked.incr(other, HOUR_S)] == [
        1, 2, 1]
    assert asked.get(key) == 2 and asked.get_expiry(key) > time.time()
    assert [asked.acquire_entry(each, 2, HOUR_S) for each in (key, key, key, other)] == [
        True, True, False, True]
    assert asked.get_moving_window(key, 2, HOUR_S)[1] == 2
    storage._steps = LimitsSteps("limits:", wall_clock=lambda: 1_000_000.0 * HOUR_S)
    assert [asked.acquire_sliding_window_entry(each, 2, HOUR_S)
            for each in (key, key, key, other)] == [True, True, False, True]
    assert asked.get_sliding_window(key, HOUR_S)[2] == 2
    asked.clear(key)
    assert asked.get(key) == 0 and asked.get(other) == 1
    assert asked.reset() == 4  # each window is a key


def test_a_server_for_short_keys_is_reported(opened):
    with serving("epoll-1", "--max-key-bytes", "100") as server:
        asked = opened.ran(opened(f"127.0.0.1:{server.native_port}"))
        with pytest.raises(sluicegate.InvalidArgument, match="--max-key-bytes of 256"):
            asked.incr("k" * 200, 1)


def test_a_server_that_forbids_windows_of_callers_is_reported(opened):
    with serving("epoll-1", "--requests-can-set-rate=false") as server:
        asked = opened.ran(opened(f"127.0.0.1:{server.native_port}"))
        with pytest.raises(StorageRefused, match="--requests-can-set-rate"):
            asked.incr("k", 1)


# ---- fixed window --------------------------------------------------------------------------------

def test_fixed_window(opened, storage):
    limiter, limit = fixed(opened, storage), RateLimitItemPerHour(10, 2)
    assert limiter.get_window_stats(limit).remaining == 10
    assert all([limiter.hit(limit) for _ in range(10)])
    assert not limiter.test(limit) and not limiter.hit(limit)
    stats = limiter.get_window_stats(limit)
    assert stats.remaining == 0
    assert 0 < stats.reset_time - time.time() <= 2 * HOUR_S
    limiter.clear(limit)
    assert limiter.hit(limit)


def test_fixed_window_with_costs(opened, storage):
    limiter, limit = fixed(opened, storage), RateLimitItemPerHour(10, 2)
    assert not limiter.hit(limit, "k1", cost=11)
    assert limiter.hit(limit, "k2", cost=5)
    assert limiter.get_window_stats(limit, "k2").remaining == 5
    assert limiter.test(limit, "k2", cost=5) and not limiter.test(limit, "k2", cost=6)
    assert not limiter.hit(limit, "k2", cost=6)


# ---- moving window -------------------------------------------------------------------------------

def test_moving_window(opened, storage):
    limiter, limit = moving(opened, storage), RateLimitItemPerHour(2)
    stats = limiter.get_window_stats(limit)
    assert stats.remaining == 2 and abs(stats.reset_time - time.time() - HOUR_S) < 60
    started = time.time()
    assert limiter.hit(limit) and limiter.test(limit) and limiter.hit(limit)
    assert not limiter.test(limit) and not limiter.hit(limit)
    stats = limiter.get_window_stats(limit)
    assert stats.remaining == 0
    # A hit leaves the window a fifteenth of the period late at most.
    assert started + HOUR_S - 0.1 <= stats.reset_time <= time.time() + HOUR_S * 16 / 15 + 0.1


def test_moving_window_is_all_or_nothing(opened, storage):
    limiter, limit = moving(opened, storage), RateLimitItemPerHour(10)
    assert not limiter.hit(limit, "k", cost=11)
    assert limiter.hit(limit, "k", cost=9)
    assert not limiter.test(limit, "k", cost=2) and not limiter.hit(limit, "k", cost=2)
    assert limiter.get_window_stats(limit, "k").remaining == 1
    assert limiter.hit(limit, "k")
    assert not limiter.hit(limit, "k")
    limiter.clear(limit, "k")
    assert limiter.get_window_stats(limit, "k").remaining == 10 and limiter.hit(limit, "k")


def test_moving_window_forgets_old_hits(opened, storage):
    limiter, limit = moving(opened, storage), RateLimitItemPerSecond(3)
    started = time.time()
    assert limiter.hit(limit, cost=3)
    eventually(lambda: limiter.hit(limit, cost=3), "the hits leave the window")
    assert time.time() - started >= 0.99


def test_moving_window_of_another_limit_replaces_the_quota(opened, storage):
    asked = opened.ran(storage)
    assert asked.acquire_entry("k", 2, HOUR_S, 2)
    assert not asked.acquire_entry("k", 2, HOUR_S)
    assert asked.acquire_entry("k", 5, HOUR_S, 3)  # a limit that grows keeps its usage
    assert not asked.acquire_entry("k", 5, HOUR_S)
    assert asked.acquire_entry("k", 5, 2 * HOUR_S, 5)  # of another period: begins anew


def test_moving_window_takes_the_quota_of_a_configuration_file(opened, tmp_path):
    path = tmp_path / "limits.json"
    path.write_text(json.dumps({"quotas": {"unknown_subjects": "deny", "subjects": [
        {"subject": "^limits:.*/3/1/hour$", "subject_is_regex": True, "limits": [
            {"name": "3 an hour", "metric": "requests", "amount": 3, "period_ms": 3_600_000}]}]}}))
    with serving("epoll-1", "--config-file", str(path)) as server:
        address = f"127.0.0.1:{server.native_port}"
        limiter = moving(opened, opened(address))
        hits = [limiter.hit(RateLimitItemPerHour(3), "a") for _ in range(5)]
        others = [limiter.hit(RateLimitItemPerHour(2), "b") for _ in range(4)]
        assert hits == [True] * 3 + [False] * 2 and others == [True] * 2 + [False] * 2
        with sluicegate.Client(address) as client:
            sources = {usage.subject: usage.source for usage in client.subjects()}
        assert sources["limits:LIMITER/a/3/1/hour"] == "file"
        assert sources["limits:LIMITER/b/2/1/hour"] == "run_time"


def test_quotas_of_idle_keys_are_removed(opened, storage, client):
    clock = [0.0]
    storage._steps = LimitsSteps("limits:", monotonic=lambda: clock[0])
    asked = opened.ran(storage)
    asked.acquire_entry("idle", 2, 1)
    asked.acquire_entry("in use", 2, HOUR_S)
    eventually(lambda: not client.usage("limits:idle").limits[0].used, "the hit leaves the window")
    asked.acquire_entry("new", 2, 1)
    assert client.get_quota("limits:idle") is not None  # not idle for long enough
    clock[0] = 3.0 * HOUR_S  # "in use" is idle for this process, but the server counts its hit
    asked.acquire_entry("newer", 2, 1)
    assert client.get_quota("limits:idle") is None
    assert client.get_quota("limits:in use") is not None


def test_a_quota_that_another_process_uses_is_removed_later(opened, storage, client):
    clock = [0.0]
    storage._steps = LimitsSteps("limits:", monotonic=lambda: clock[0])
    asked = opened.ran(storage)
    asked.acquire_entry("shared", 2, HOUR_S)
    for key in ("a", "b"):
        clock[0] += 2.0 * HOUR_S
        asked.acquire_entry(key, 2, 24 * HOUR_S)
        assert client.get_quota("limits:shared") is not None
    client.reset("limits:shared")  # as if its hits had left the window
    clock[0] += 2.0 * HOUR_S
    asked.acquire_entry("c", 2, HOUR_S)
    assert client.get_quota("limits:shared") is None


def test_idle_quotas_of_short_periods_are_found_behind_long_ones():
    clock = [0.0]
    quotas = PutQuotas(lambda: clock[0])
    for subject in ("day 1", "day 2", "day 3"):
        quotas.use(subject, 86_400, was_put=True)
    removed = []
    for number in range(1_000):
        clock[0] += 0.125
        quotas.use(f"second {number}", 1, was_put=True)
        removed += [quota.subject for quota in quotas.take_idle()]
    assert removed == [f"second {number}" for number in range(1_000 - 16)]


def test_a_use_keeps_a_quota():
    clock = [0.0]
    quotas = PutQuotas(lambda: clock[0])
    quotas.use("never put", 1)
    quotas.use("used", 1, was_put=True)
    for second in range(1, 10):
        clock[0] = float(second)
        quotas.use("used", 1)
        assert quotas.take_idle() == []
    clock[0] += 2.0
    assert [quota.subject for quota in quotas.take_idle()] == ["used"]
    assert quotas.take_idle() == []


def test_of_too_many_quotas_the_one_that_is_idle_first_is_forgotten(monkeypatch):
    monkeypatch.setattr(sluicegate._limits_steps, "QUOTAS_MAX", 3)
    clock = [0.0]
    quotas = PutQuotas(lambda: clock[0])
    for subject, expiry in (("a", 5), ("b", 9), ("c", 6), ("d", 8)):
        quotas.use(subject, expiry, was_put=True)
    quotas.use("c", 10)
    quotas.use("e", 7, was_put=True)
    clock[0] = 100.0
    idle = [quota.subject for _ in range(3) for quota in quotas.take_idle()]
    assert idle == ["e", "b", "c"]


# ---- sliding window counter ----------------------------------------------------------------------

def test_sliding_window_counter(opened, storage):
    clock = [1_000_000.0 * HOUR_S]  # the beginning of a window
    limiter, limit = sliding(opened, storage, clock), RateLimitItemPerHour(10)
    assert limiter.get_window_stats(limit).remaining == 10
    assert all([limiter.hit(limit) for _ in range(10)])
    assert not limiter.hit(limit) and not limiter.test(limit)
    assert opened.ran(storage).get_sliding_window(limit.key_for(), HOUR_S) == (
        0, 0.0, 10, 2 * HOUR_S)
    clock[0] += 1.25 * HOUR_S  # 10 of the window before count three quarters
    assert limiter.get_window_stats(limit).remaining == 3
    assert limiter.test(limit, cost=3) and not limiter.test(limit, cost=4)
    assert not limiter.hit(limit, cost=4) and limiter.hit(limit, cost=3)
    assert not limiter.hit(limit)
    clock[0] += 0.5 * HOUR_S  # now a quarter
    assert limiter.hit(limit, cost=5) and not limiter.hit(limit)
    clock[0] += 2 * HOUR_S
    assert limiter.get_window_stats(limit).remaining == 10


def test_sliding_window_counter_is_cleared(opened, storage):
    clock = [1_000_000.0 * HOUR_S]
    limiter, limit = sliding(opened, storage, clock), RateLimitItemPerHour(10)
    assert limiter.hit(limit, cost=10)
    clock[0] += 1.1 * HOUR_S
    assert limiter.hit(limit) and not limiter.hit(limit)
    limiter.clear(limit)
    assert limiter.get_window_stats(limit).remaining == 10 and limiter.hit(limit, cost=10)


def test_sliding_window_counter_with_costs(opened, storage):
    limiter, limit = sliding(opened, storage, [1_000_000.0 * HOUR_S]), RateLimitItemPerHour(10)
    assert not limiter.hit(limit, "k1", cost=11)
    assert limiter.hit(limit, "k2", cost=5)
    assert not limiter.hit(limit, "k2", cost=6)
    assert limiter.get_window_stats(limit, "k2").remaining == 5
    assert limiter.hit(limit, "k2", cost=0) and limiter.hit(limit, "k2", cost=5)


# ---- many at once --------------------------------------------------------------------------------

@pytest.mark.parametrize("strategy", ["FixedWindow", "MovingWindow", "SlidingWindowCounter"])
def test_threads_never_get_more_than_the_limit(server, strategy):
    storage = storage_from_string(f"sluicegate://127.0.0.1:{server.native_port}")
    storage.reset()
    storage._steps = LimitsSteps("limits:", wall_clock=lambda: 1_000_000.0 * HOUR_S)
    limiter = getattr(limits.strategies, f"{strategy}RateLimiter")(storage)
    hits = []
    threads = [threading.Thread(target=lambda: hits.append(limiter.hit(RateLimitItemPerHour(5))))
               for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    storage.close()
    assert (len(hits), sum(hits)) == (40, 5)


@pytest.mark.parametrize("strategy", ["FixedWindow", "MovingWindow", "SlidingWindowCounter"])
def test_tasks_never_get_more_than_the_limit(server, strategy):
    async def main():
        storage = storage_from_string(f"async+sluicegate://127.0.0.1:{server.native_port}")
        await storage.reset()
        storage._steps = LimitsSteps("limits:", wall_clock=lambda: 1_000_000.0 * HOUR_S)
        limiter = getattr(limits.aio.strategies, f"{strategy}RateLimiter")(storage)
        hits = await asyncio.gather(*(limiter.hit(RateLimitItemPerHour(5)) for _ in range(200)))
        await storage.close()
        return hits
    assert sum(asyncio.run(main())) == 5


def test_minutes_and_seconds_are_limits_of_their_own(opened, storage):
    limiter = fixed(opened, storage)
    assert limiter.hit(RateLimitItemPerMinute(1), "k")
    assert limiter.hit(RateLimitItemPerHour(1), "k")


def test_nodes_share_the_limits_and_reset_clears_all(opened, tmp_path):
    with three_nodes("--peer-secret-file", secret_file(tmp_path), *PATIENT) as fleet:
        storages = [opened(",".join(addresses(fleet, first))) for first in range(3)]
        keys = [f"key:{number}" for number in range(12)]
        for asked in map(opened.ran, storages):
            for key in keys:
                asked.incr(key, HOUR_S)
                assert asked.acquire_entry(key, 3, HOUR_S)
        asked = opened.ran(storages[0])
        assert [asked.get(key) for key in keys] == [3] * 12
        assert not any(asked.acquire_entry(key, 3, HOUR_S) for key in keys)
        assert asked.reset() == 24
        assert [asked.get(key) for key in keys] == [0] * 12
        assert all(asked.acquire_entry(key, 3, HOUR_S) for key in keys)
