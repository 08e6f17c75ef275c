"""REST: requests that wait in a key's queue: their order, their times, clients that leave early.
Method: windows of an hour, so that only releases serve; short windows where the window serves."""

import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, queued, request, totals, waiting
from server_process import eventually


def wait_in_queue(server, key, query=""):
    """A waiting client; it is behind the waiters before it, even if some have left."""
    before = queued(server)
    peer = HttpPeer(server)
    peer.send(request("POST", f"/rate/{key}?canWait=true{query}"))
    eventually(lambda: queued(server) == before + 1, "it waits")
    return peer


def fill(server, key, limit=1):
    """Takes all permits of the key."""
    assert ask(server, "POST", f"/rate/{key}?maxRequests={limit}&cost={limit}").status == 200


def release(server, key, cost=1):
    assert ask(server, "DELETE", f"/rate/{key}/1?cost={cost}").status == 200


def test_waiting_request_is_held(server, key):
    fill(server, key)
    with wait_in_queue(server, key) as peer:
        assert peer.is_silent(0.3)
    assert inspect(server, key)["NumDeniedThisWindow"] == 0


def test_debug_shows_the_first_waiters(server, key):
    fill(server, key, limit=9)
    assert "Waiters" not in inspect(server, key)
    with wait_in_queue(server, key, "&cost=3"), wait_in_queue(server, key, "&cost=9"):
        shown = inspect(server, key)
        assert shown["NumWaiting"] == 2
        assert shown["Waiters"] == [{"Position": 1, "Cost": 3}, {"Position": 2, "Cost": 9}]
        release(server, key, 3)
        eventually(lambda: inspect(server, key)["Waiters"] == [{"Position": 1, "Cost": 9}],
                   "the second is next")


def test_approves_at_once_while_permits_are_left(server, key):
    response = ask(server, "POST", f"/rate/{key}?canWait=true")
    assert (response.status, response.rate_limit()["r"]) == (200, 99)


def test_waiters_are_served_at_the_windows_ends(start_server, key):
    """As many as a window has permits. (A test below, independent of time, checks their order.)"""
    server = start_server("--window-millis", "400", "--max-requests", "2")
    started = time.monotonic()
    ask(server, "POST", f"/rate/{key}?cost=2")
    peers = [HttpPeer(server) for _ in range(4)]
    for peer in peers:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
    answers = [peer.read() for peer in peers]
    took = time.monotonic() - started
    assert [answer.status for answer in answers] == [200] * 4
    assert len({answer.body for answer in answers}) == 4
    assert took >= 0.8, "the fourth needs the third window"
    for peer in peers:
        peer.close()


def test_waiter_is_not_served_before_the_window_ends(start_server, key):
    server = start_server("--window-millis", "500")
    started = time.monotonic()
    first = ask(server, "POST", f"/rate/{key}?maxRequests=1")
    with HttpPeer(server) as peer:
        response = peer.ask("POST", f"/rate/{key}?canWait=true")
    waited = time.monotonic() - started
    assert first.status == response.status == 200
    assert waited >= 0.5


def test_release_serves_the_head_of_the_queue_at_once(server, key):
    fill(server, key)
    peers = [wait_in_queue(server, key) for _ in range(3)]
    for served, peer in enumerate(peers):
        release(server, key)
        assert peer.read().status == 200
        assert all(later.is_silent(0.03) for later in peers[served + 1:])
        assert waiting(server, key) == 2 - served
    for peer in peers:
        peer.close()


def test_a_reset_of_the_key_serves_all_who_fit(server, key):
    fill(server, key, limit=3)
    peers = [wait_in_queue(server, key) for _ in range(5)]
    response = ask(server, "DELETE", f"/rate/{key}")
    assert (response.status, response.body) == (200, b"")
    assert [peer.read().status for peer in peers[:3]] == [200] * 3
    assert all(later.is_silent(0.03) for later in peers[3:])
    state = inspect(server, key)
    assert (state["NumApprovedThisWindow"], state["NumWaiting"]) == (3, 2)
    assert state["Config"]["MaxRequestsPerWindow"] == 3
    for peer in peers:
        peer.close()


def test_a_reset_of_an_unknown_key_makes_none(server, key):
    assert ask(server, "DELETE", f"/rate/{key}").status == 200
    assert inspect(server, key) is None
    assert ask(server, "DELETE", "/rate/%20").status == 400


def test_newcomer_never_overtakes(server, key):
    fill(server, key, limit=3)
    with wait_in_queue(server, key, "&cost=3") as peer:
        release(server, key, cost=2)
        # Two permits are free, but the head of the queue needs three.
        assert ask(server, "POST", f"/rate/{key}").status == 429
        with wait_in_queue(server, key) as behind:
            assert peer.is_silent(0.05) and behind.is_silent(0.05)
            release(server, key)
            assert peer.read().status == 200
            assert behind.is_silent(0.05)
            release(server, key)
            assert behind.read().status == 200


def test_raised_limit_serves_waiters(server, key):
    fill(server, key)
    peers = [wait_in_queue(server, key) for _ in range(3)]
    # Two more permits for the queue, none for the request that raised the limit.
    assert ask(server, "POST", f"/rate/{key}?maxRequests=3").status == 429
    assert [peer.read().status for peer in peers[:2]] == [200, 200]
    assert peers[2].is_silent(0.05)
    for peer in peers:
        peer.close()


def test_lowered_limit_answers_waiters_that_can_never_fit(server, key):
    fill(server, key, limit=5)
    with wait_in_queue(server, key, "&cost=4") as peer:
        assert ask(server, "POST", f"/rate/{key}?maxRequests=3").status == 429
        response = peer.read()
        assert (response.status, response.body) == (400, b"cost exceeds maxRequests")


def test_full_queue_denies(server, key):
    assert ask(server, "POST", f"/rate/{key}?maxRequests=1&maxRequestsInQueue=2").status == 200
    peers = [wait_in_queue(server, key) for _ in range(2)]
    response = ask(server, "POST", f"/rate/{key}?canWait=true")
    assert (response.status, response.body) == (429, b"")
    state = inspect(server, key)
    assert (state["NumWaiting"], state["NumDeniedThisWindow"]) == (2, 1)
    for peer in peers:
        peer.close()


def test_queue_of_length_0_denies(server, key):
    assert ask(server, "POST", f"/rate/{key}?maxRequests=1&maxRequestsInQueue=0").status == 200
    assert ask(server, "POST", f"/rate/{key}?canWait=true").status == 429


def test_too_many_waiters_in_the_server_get_503(start_server):
    server = start_server(*LONG_WINDOW, "--max-waiters", "4", "--shards", "1")
    for name in ["a", "b", "c"]:
        fill(server, name)
    peers = [wait_in_queue(server, name) for name in ["a", "b", "b", "c"]]
    response = ask(server, "POST", "/rate/a?canWait=true")
    assert response.status == 503
    assert response.body == b"too many requests are waiting (--max-waiters)"
    peers[1].close()
    peers[2].close()
    eventually(lambda: waiting(server, "b") == 0, "the waiters left")
    with wait_in_queue(server, "a") as peer:
        release(server, "a")
        assert peers[0].read().status == 200
        release(server, "a")
        assert peer.read().status == 200
    peers[0].close()
    peers[3].close()


# -------------------------------------------------------------------------------- wait limits

def test_max_wait_millis_ends_the_wait_with_429(server, key):
    fill(server, key)
    with HttpPeer(server) as peer:
        before = time.monotonic()
        response = peer.ask("POST", f"/rate/{key}?canWait=true&maxWaitMillis=250")
        assert time.monotonic() - before >= 0.25
        assert (response.status, response.body) == (429, b"")
        assert int(response.header("Retry-After")) > 0
        assert peer.ask("GET", "/healthz").status == 200
    assert waiting(server, key) == 0
    release(server, key)
    assert ask(server, "POST", f"/rate/{key}").status == 200  # the permit was not taken


def test_server_wide_wait_limit_holds_for_all(start_server, key):
    server = start_server(*LONG_WINDOW, "--max-wait-millis", "200")
    fill(server, key)
    for query in ["", "&maxWaitMillis=0", "&maxWaitMillis=3600000"]:
        before = time.monotonic()
        assert ask(server, "POST", f"/rate/{key}?canWait=true{query}").status == 429
        assert time.monotonic() - before >= 0.2


def test_wait_limit_of_one_waiter_does_not_affect_others(server, key):
    fill(server, key)
    with wait_in_queue(server, key) as first, \
            wait_in_queue(server, key, "&maxWaitMillis=200") as second, \
            wait_in_queue(server, key) as third:
        assert second.read().status == 429
        assert first.is_silent(0.05) and third.is_silent(0.05)
        release(server, key)
        assert first.read().status == 200
        release(server, key)
        assert third.read().status == 200


# ----------------------------------------------------------------------------------- pipelines

def test_nothing_behind_a_waiting_request_is_decided(server, key):
    fill(server, key)
    with wait_in_queue(server, key) as peer:
        peer.send(request("POST", f"/rate/{key}other") * 2 + request("GET", "/healthz"))
        assert peer.is_silent(0.2)
        assert inspect(server, f"{key}other") is None
        release(server, key)
        assert peer.read().status == 200
        assert [peer.read().rate_limit()["r"] for _ in range(2)] == [99, 98]
        assert peer.read().status == 200


def test_pipeline_of_waiting_requests_is_served_one_by_one(server, key):
    fill(server, key)
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait=true") * 3)
        for _ in range(3):
            eventually(lambda: waiting(server, key) == 1, "one waits")
            assert peer.is_silent(0.03)
            release(server, key)
            assert peer.read().status == 200
        assert waiting(server, key) == 0


def test_answers_before_a_waiting_request_come_at_once(server, key):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?maxRequests=1") + request("GET", "/no")
                  + request("POST", f"/rate/{key}?canWait=true") + request("GET", "/healthz"))
        assert [peer.read().status for _ in range(2)] == [200, 404]
        assert peer.is_silent(0.1)
        release(server, key)
        assert [peer.read().status for _ in range(2)] == [200, 200]


# ------------------------------------------------------------------------------------- leaving

@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
@pytest.mark.parametrize("behind", [b"", request("GET", "/healthz"), b"GET /part",
                                    b"x" * 20_000], ids=["none", "request", "part", "much"])
def test_waiting_client_that_leaves_frees_its_place(server, key, how, behind):
    """Bytes sent behind its request, parsed or not, do not hide that the client has left."""
    fill(server, key)
    leaving = wait_in_queue(server, key)
    staying = wait_in_queue(server, key)
    leaving.send(behind)
    time.sleep(0.02)
    getattr(leaving, how)()
    eventually(lambda: waiting(server, key) == 1, "its place is free")
    if how == "half_close":
        assert leaving.rest() == b""
        leaving.close()
    release(server, key)
    assert staying.read().status == 200  # the permit went to the client that stayed
    state = inspect(server, key)
    assert (state["NumApprovedThisWindow"], state["NumWaiting"]) == (1, 0)
    staying.close()


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
@pytest.mark.parametrize("connected_before", [False, True])
def test_client_that_leaves_before_its_request_is_read_does_not_wait(server, key, how, connected_before):
    """The server sees connection, request and end all at once."""
    fill(server, key)
    peer = None
    if connected_before:
        peer = HttpPeer(server)
        assert peer.ask("GET", "/healthz").status == 200
    before = queued(server)
    server.pause()
    try:
        peer = peer or HttpPeer(server)
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
        getattr(peer, how)()
    finally:
        server.resume()
    # No request waits while this one is still unread, either.
    eventually(lambda: queued(server) == before + 1, "the request was read")
    eventually(lambda: waiting(server, key) == 0, "no waiter is left", timeout_s=10)
    release(server, key)
    assert ask(server, "POST", f"/rate/{key}").status == 200
    assert ask(server, "POST", f"/rate/{key}").status == 429
    peer.close()


def test_five_hundred_waiting_connections_of_which_half_disappear(start_server, key):
    server = start_server(*LONG_WINDOW)
    assert ask(server, "POST", f"/rate/{key}?maxRequests=1&maxRequestsInQueue=1000").status == 200
    peers = [HttpPeer(server) for _ in range(500)]
    for peer in peers:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
    eventually(lambda: waiting(server, key) == 500, "all wait")
    assert totals(server)["sluicegate_waiters"] == 500
    for number, peer in enumerate(peers[::2]):
        peer.reset() if number % 2 else peer.close()
    eventually(lambda: waiting(server, key) == 250, "half of them are gone")
    ask(server, "POST", f"/rate/{key}?maxRequests=251")
    assert [peer.read().status for peer in peers[1::2]] == [200] * 250
    state = inspect(server, key)
    assert (state["NumApprovedThisWindow"], state["NumWaiting"]) == (251, 0)
    for peer in peers[1::2]:
        peer.close()
