"""Section 2.4: requests that wait: the order and time of service, and clients that leave.
Run: `run --binary PATH waiting_test.py`, or `run --url http://HOST:PORT waiting_test.py`."""

import select
import signal
import time

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import Peer, counts_of, permit, seen, seen_of, settles, waiter, waiting

pytestmark = pytest.mark.section("2.4")


def queue_of(server, key, length):
    """Makes waiters; also returns whether their order is known: not if a window ended."""
    peers = []
    for number in range(length):
        peers.append(Peer(server))
        peers[-1].send(request("POST", f"/rate/{key}?canWait=true"))
        if not settles(lambda: waiting(server, key) == number + 1, 0.1):
            break
    return peers, len(peers) == length and waiting(server, key) == length


def served(peers, seconds=30):
    """Reads all answers: (number, monotonic time), in their order."""
    numbers = {peer.socket: number for number, peer in enumerate(peers)}
    came, deadline = [], time.monotonic() + seconds
    while numbers and time.monotonic() < deadline:
        ready, _, _ = select.select(list(numbers), [], [], 1)
        now = time.monotonic()
        came += sorted((numbers.pop(socket), now) for socket in ready)
    statuses = {peer.read().status for peer in peers}
    assert statuses == {200}, statuses
    return came


def close_all(peers):
    for peer in peers:
        peer.close()


# ----------------------------------------------------------------------------------------- order

def test_first_come_first_served(ticking, expect, keys):
    """One in each window, in the order of arrival."""
    def order():
        key = next(keys)
        permit(ticking, key, "maxRequests=1")
        peers, in_order = queue_of(ticking, key, 4)
        came = served(peers)
        close_all(peers)
        times = [at for _, at in came]
        return [number for number, _ in came] if in_order and len(set(times)) == 4 else "unclear"
    expect(seen_of([0, 1, 2, 3], order), gocc=[0, 1, 2, 3])


def windows_waited(server, key, limit, length):
    """The window in which each waiter is served; 0 is the window of arrival."""
    began = time.monotonic()
    for _ in range(limit):
        permit(server, key, f"maxRequests={limit}")
    peers, in_order = queue_of(server, key, length)
    came = served(peers)
    close_all(peers)
    windows = [int((at - began) / server.window_s + 0.1) for _, at in came]
    return windows if in_order else "unclear"


@pytest.mark.parametrize("limit, length, gocc", [(1, 3, [1, 2, 3]), (2, 5, [1, 1, 2, 2, 3]),
                                                 (5, 4, [1, 1, 1, 1])])
def test_place_p_waits_p_through_m_windows(ticking, expect, keys, limit, length, gocc):
    expect(seen_of(gocc, lambda: windows_waited(ticking, next(keys), limit, length)), gocc=gocc)


def test_no_waiter_is_served_early(ticking, expect, key):
    came = windows_waited(ticking, key, 1, 3)
    early = came != "unclear" and any(window < place for place, window in enumerate(came, 1))
    expect(early, gocc=False)


def test_wait_of_many_windows_is_no_error(ticking, expect, key):
    permit(ticking, key, "maxRequests=1")
    peers = [Peer(ticking) for _ in range(8)]
    for peer in peers:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
    expect(len(served(peers)), gocc=8)
    close_all(peers)


def test_no_bytes_while_waiting(steady, expect, key):
    permit(steady, key, "maxRequests=1")
    with waiter(steady, key) as peer:
        expect(peer.is_silent(1), gocc=True)


# ----------------------------------------------------------------------------------------- leaving

@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
def test_a_client_that_leaves_frees_its_place(steady, expect, key, how):
    permit(steady, key, "maxRequests=1")
    leaving, staying = waiter(steady, key), waiter(steady, key)
    getattr(leaving, how)()
    left = settles(lambda: waiting(steady, key) == 1, 30)
    expect((left, counts_of(steady, key), staying.is_silent(0.1)), gocc=(True, (1, 0, 1), True))
    leaving.close()
    staying.close()


def test_a_freed_place_can_be_taken(steady, expect, key):
    permit(steady, key, "maxRequests=1&maxRequestsInQueue=1")
    waiter(steady, key).close()
    assert settles(lambda: waiting(steady, key) == 0, 30)
    with waiter(steady, key) as peer:
        expect(peer.is_silent(0.1), gocc=True)


def test_a_client_that_leaves_costs_nothing(ticking, expect, keys):
    """The end of the window serves the next waiter in place of the one that left."""
    def served_in_the_first():
        key = next(keys)
        began = time.monotonic()
        permit(ticking, key, "maxRequests=1")
        peers, in_order = queue_of(ticking, key, 2)
        peers[0].close()
        status = peers[-1].read().status
        took = time.monotonic() - began
        close_all(peers)
        return in_order and status == 200 and took < 1.6 * ticking.window_s
    expect(seen(served_in_the_first), gocc=True)


@pytest.mark.http1("pipelining")
@pytest.mark.parametrize("behind, gocc", by_first([
    ("nothing", "noticed"), ("a request", "unnoticed"), ("a part of one", "unnoticed")]))
def test_leaving_with_more_sent_behind(steady, expect, key, behind, gocc):
    permit(steady, key, "maxRequests=1")
    peer = waiter(steady, key)
    if behind != "nothing":
        peer.send(request("GET", "/healthz")[:None if behind == "a request" else 9])
        time.sleep(0.05)
    peer.close()
    left = settles(lambda: waiting(steady, key) == 0, 5)
    expect("noticed" if left else "unnoticed", gocc=gocc, ours="noticed", topic="pipelining")


# ----------------------------------------------------------------------------------- the process

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signal_while_someone_waits(start, expect, key, number):
    server = start("--window-millis", "3600000")
    permit(server, key, "maxRequests=1")
    with waiter(server, key) as peer:
        server.signal(number)
        try:
            came = peer.read().status
        except (EOFError, ConnectionError):
            came = "connection lost"
    code = server.wait()
    expect((came, code), gocc=("connection lost", -number), ours=(503, 0), topic="shutdown")
