"""Both clients against the real server: decisions are the server's, and none is lost or doubled.

Method: every call on a server per engine; then a server that is killed again and again under load,
where every call must end exactly once, with an answer or with the documented error.
"""

import asyncio
import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
import uvloop
from real_server import LONG_WINDOW, client, free_port, server, serving  # noqa: F401  (fixtures)
from server_process import TIMEOUT_S, ServerProcess, eventually

import sluicegate
from sluicegate import AsyncClient, Client, Details, Verdict, _frames
from sluicegate._requests import ControlRequest

@pytest.fixture
def key(request):
    return f"{request.node.name}:"


def test_single_calls(client, key):
    assert client.acquire(key, 98, max_requests=100) is Verdict.APPROVED
    assert client.acquire(key, 3) is Verdict.DENIED
    assert client.acquire(key, 101) is Verdict.NEVER_FITS
    assert client.acquire("") is Verdict.INVALID_KEY
    assert client.acquire(key + "ключ🔑") and client.acquire(b"\xff" + key.encode())
    state = client.inspect(key)
    assert (state.approved, state.denied, state.max_requests) == (98, 1, 100)
    client.release(key, 8)
    assert client.inspect(key).approved == 90
    client.reset_key(key)
    assert client.inspect(key).approved == 0
    assert client.inspect(key + "none") is None
    client.ping()
    assert client.welcome.version == 1


def test_a_window_of_ones_own(client, key):
    """Five a minute, and many keys at once with a window each."""
    assert [bool(client.acquire(key, max_requests=5, window=60)) for _ in range(6)] == [
        *[True] * 5, False]
    assert client.inspect(key).window == 60.0
    keys, windows = [f"{key}{n}" for n in range(3_000)], [60 + n / 1000 for n in range(3_000)]
    verdicts = client.acquire_many(keys, window=windows, details=Details.WINDOW)
    assert list(verdicts.window) == pytest.approx(windows)
    handles = client.intern(keys)
    verdicts = client.acquire_many_handles(handles, window=10, details=Details.WINDOW)
    assert set(verdicts.window) == {10.0}


def test_many_calls(client, key):
    keys = [f"{key}{n}" for n in range(5_000)] + [f"{key}é{n}".encode() for n in range(10)]
    assert client.acquire_many(keys, max_requests=2).all_approved
    verdicts = client.acquire_many(keys * 2, details=Details.ALL)
    assert verdicts.count() == len(keys) == verdicts.count(Verdict.DENIED)
    assert set(verdicts.limit) == {2} and set(verdicts.remaining) == {0}
    assert all(retry > 0 for retry in verdicts.retry_after[len(keys):])
    assert len(set(verdicts.request_id)) == len(verdicts)
    with pytest.raises(ValueError, match="details=Details.LIMIT"):
        client.acquire_many(keys[:1]).limit
    client.release_many(keys, 2)
    assert client.acquire_many(keys, 2).all_approved
    found = {state.key for state in client.inspect_all() if state.key.startswith(key.encode())}
    assert found == {k if isinstance(k, bytes) else k.encode() for k in keys}
    assert len(client.acquire_many([])) == 0


def test_frames_as_large_as_they_may_be(client, key):
    long = [f"{key}{n}".ljust(1_000, "x") for n in range(3_000)]
    assert client.acquire_many(long, details=Details.ALL).all_approved
    with Client(client.address, frame_entries_max=1_000_000, window=64) as large:
        assert large.acquire_many([f"{key}y{n}" for n in range(50_000)]).all_approved


def test_handles(client, key):
    keys = [f"{key}{n}" for n in range(2_500)]
    handles = client.intern(keys)
    assert client.acquire_many_handles(handles, max_requests=3, costs=2).all_approved
    assert client.acquire_many_handles(memoryview(handles)[1_000:]).all_approved
    assert client.acquire_many(keys).count() == 1_000
    client.forget(handles[:10])
    assert client.acquire_many_handles(handles)[0] is Verdict.INVALID_KEY


def test_waiting(client, key):
    assert client.acquire(key, max_requests=1)
    assert client.acquire(key, wait=True, wait_limit=0.02) is Verdict.WAIT_LIMIT
    with pytest.raises(sluicegate.TimedOut):
        client.acquire(key, wait=True, timeout=0.02)
    assert client.inspect(key).waiting == 0
    verdicts = []
    waiter = threading.Thread(target=lambda: verdicts.append(client.acquire(key, wait=True)))
    waiter.start()
    eventually(lambda: client.inspect(key).waiting == 1, "it waits")
    client.release(key)
    waiter.join(TIMEOUT_S)
    assert verdicts == [Verdict.APPROVED]
    with pytest.raises(sluicegate.TimedOut):
        client.acquire_many([key, key + "free"], wait=True, timeout=0.05)
    assert client.inspect(key).waiting == 0


def test_refusals(client, key):
    with pytest.raises(sluicegate.Refused, match="bad_flag"):
        client._run_control(lambda completion: ControlRequest(
            client._dispatcher, completion,
            lambda frame_id: _frames.encode_acquire(
                frame_id, _frames.encode_keys([key]), _frames.AcquireColumns(details=128)),
            _frames.VerdictsAnswer, bool), None)
    assert client.acquire(key)


def test_threads_and_tasks_together_never_exceed_a_limit(server, client, key):
    def asks():
        for _ in range(100):
            verdicts.append(client.acquire(key, max_requests=1_000))

    async def tasks():
        async with AsyncClient(client.address) as other:
            return await asyncio.gather(*[other.acquire(key) for _ in range(1_000)])
    verdicts = []
    threads = [threading.Thread(target=asks) for _ in range(8)]
    for thread in threads:
        thread.start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        verdicts += runner.run(tasks())
    for thread in threads:
        thread.join(TIMEOUT_S)
    verdicts += client.acquire_many([key] * 500)
    assert Counter(verdicts) == {Verdict.APPROVED: 1_000, Verdict.DENIED: 1_300}


def test_a_cancelled_wait_takes_no_permit(client, key):
    async def main():
        async with AsyncClient(client.address) as other:
            assert await other.acquire(key, max_requests=1)
            calls = [asyncio.ensure_future(other.acquire(key, wait=True)) for _ in range(50)]
            while (await other.inspect(key)).waiting < 50:
                await asyncio.sleep(0.001)
            for call in calls[:-1]:
                call.cancel()
            await other.release(key)  # on its way together with the withdrawals
            assert await calls[-1] is Verdict.APPROVED
            while (await other.inspect(key)).waiting or other._dispatcher.pending:
                await asyncio.sleep(0.001)
            assert (await other.inspect(key)).approved == 1
    asyncio.run(asyncio.wait_for(main(), 2 * TIMEOUT_S))


# ---- a server that dies --------------------------------------------------------------------------

DOCUMENTED = (sluicegate.ConnectionLost, sluicegate.StaleHandles)
KILLS = 5


class Ledger:
    """Counts the calls that began, and how they ended."""

    def __init__(self):
        self.begun = 0
        self.ended = Counter()
        self.over = False
        self._lock = threading.Lock()

    def begin(self):
        with self._lock:
            self.begun += 1

    def end(self, how):
        with self._lock:
            self.ended[how] += 1

    def answers(self):
        return self.ended["answer"]

    def check(self):
        assert sum(self.ended.values()) == self.begun
        assert set(self.ended) == {"answer", "documented error"}, self.ended


def kill_again_and_again(port, ledger):
    """Kills the server whenever some more calls were answered; the last one stays."""
    for number in range(KILLS + 1):
        server = ServerProcess("epoll", 2, "--max-requests", "1000000000", native_port=port)
        try:
            before = ledger.answers()
            eventually(lambda b=before: ledger.answers() > b + 500, f"answers of server {number}")
        finally:
            if number == KILLS:
                ledger.over = True
            else:
                server.kill()
    return server


def calls_of(number):
    """The kinds of calls in turn; each takes a client."""
    return [lambda c: c.acquire(f"k{number % 100}"),
            lambda c: c.acquire(f"w{number % 7}", wait=True, wait_limit=0.02, max_requests=1),
            lambda c: c.acquire_many([f"m{n}" for n in range(3_000)]),
            lambda c: c.inspect("k1"), lambda c: c.release("k2"), lambda c: c.ping()]


def test_killed_under_threads():
    port, ledger = free_port(), Ledger()

    def work(number):
        while not ledger.over:
            number += 1
            ledger.begin()
            try:
                calls_of(number)[number % 6](client)
                ledger.end("answer")
            except DOCUMENTED:
                ledger.end("documented error")
                time.sleep(0.001)
            except BaseException as error:
                ledger.end(repr(error))
    with Client(f"127.0.0.1:{port}", backoff=(0.01, 0.05)) as client:
        threads = [threading.Thread(target=work, args=(n * 1_000,), daemon=True) for n in range(12)]
        for thread in threads:
            thread.start()
        server = kill_again_and_again(port, ledger)
        for thread in threads:
            thread.join(2 * TIMEOUT_S)
            assert not thread.is_alive(), "a call did not end"
        assert not client._dispatcher.pending and not client._dispatcher.waiting_entries
    server.kill()
    ledger.check()
    assert ledger.ended["documented error"] >= KILLS


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_killed_under_tasks(loop):
    port, ledger = free_port(), Ledger()

    async def work(client, number):
        while not ledger.over:
            number += 1
            ledger.begin()
            try:
                await calls_of(number)[number % 6](client)
                ledger.end("answer")
            except DOCUMENTED:
                ledger.end("documented error")
                await asyncio.sleep(0.001)
            except BaseException as error:
                ledger.end(repr(error))

    async def main():
        async with AsyncClient(f"127.0.0.1:{port}", backoff=(0.01, 0.05)) as client:
            tasks = [asyncio.ensure_future(work(client, n * 1_000)) for n in range(100)]
            server = await asyncio.get_running_loop().run_in_executor(
                None, kill_again_and_again, port, ledger)
            await asyncio.wait_for(asyncio.gather(*tasks), 2 * TIMEOUT_S)
            assert not client._dispatcher.pending and not client._dispatcher.waiting_entries
            return server
    with asyncio.Runner(loop_factory=loop) as runner:
        server = runner.run(main())
    server.kill()
    ledger.check()
    assert ledger.ended["documented error"] >= KILLS


@pytest.mark.parametrize("policy", ["open", "closed"])
def test_killed_under_a_policy_no_acquire_raises(policy):
    port, ledger, seen = free_port(), Ledger(), Counter()

    def work():
        while not ledger.over:
            ledger.begin()
            verdicts = client.acquire_many(["a", "b", "c"])
            seen.update(verdicts)
            ledger.end("answer" if not verdicts.decided_by_policy else "documented error")
    with Client(f"127.0.0.1:{port}", on_failure=policy, backoff=(0.01, 0.05)) as client:
        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        server = kill_again_and_again(port, ledger)
        for thread in threads:
            thread.join(TIMEOUT_S)
    server.kill()
    ledger.check()
    by_policy = {"open": Verdict.APPROVED_BY_POLICY, "closed": Verdict.DENIED_BY_POLICY}[policy]
    assert set(seen) == {Verdict.APPROVED, by_policy}


def test_requeue_outlives_a_killed_server():
    """Every call finally gets an answer, although servers are killed during calls."""
    port, ledger = free_port(), Ledger()

    def work():
        while not ledger.over:
            ledger.begin()
            client.acquire("a")
            client.acquire_many(["b"] * 3_000)
            ledger.end("answer")
    with Client(f"127.0.0.1:{port}", requeue=True, timeout=None, backoff=(0.01, 0.05)) as client:
        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        server = kill_again_and_again(port, ledger)
        for thread in threads:
            thread.join(2 * TIMEOUT_S)
            assert not thread.is_alive()
    server.kill()
    assert ledger.ended["answer"] == ledger.begun


def test_a_stopping_server_ends_waits_as_draining():
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(Stopping()))
        client = stack.enter_context(Client(f"127.0.0.1:{server.native_port}"))
        assert client.acquire("a", max_requests=1)
        errors = []

        def wait():
            try:
                client.acquire("a", wait=True)
            except sluicegate.SluicegateError as error:
                errors.append(type(error))
        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: client.inspect("a").waiting == 1, "it waits")
        assert server.stop() == 0
        waiter.join(TIMEOUT_S)
        assert errors == [sluicegate.Draining]
        with pytest.raises(sluicegate.ConnectionLost):
            client.acquire("a")


class Stopping(ServerProcess):
    def __init__(self):
        super().__init__("epoll", 1, *LONG_WINDOW)

    def close(self):
        if self.is_running():
            self.kill()


# ---- memory --------------------------------------------------------------------------------------

RSS = """
import sys, sluicegate
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
with sluicegate.Client(sys.argv[1]) as client:
    def ask(start, count):
        for at in range(start, start + count, 1000):
            keys = [f"user:{n:010d}" for n in range(at, at + 1000)]
            assert len(client.acquire_many(keys)) == 1000
    ask(0, 100_000)
    before = resident()
    ask(100_000, 1_000_000)
    print(resident() - before)
"""


def test_memory_does_not_grow_with_the_number_of_keys():
    with serving("epoll-1", "--max-keys", "10000") as server:
        done = subprocess.run(
            [sys.executable, "-c", RSS, f"127.0.0.1:{server.native_port}"],
            env=os.environ | {"PYTHONPATH": str(pathlib.Path(sluicegate.__file__).parents[1])},
            capture_output=True, text=True, timeout=100, check=True)
    assert int(done.stdout) < 2 << 20, done.stdout
