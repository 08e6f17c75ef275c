"""Sections 2.1 to 2.3: windows that begin with a key, their ends, and the handling of a request.
Run: `run --binary PATH windows_test.py`, or `run --url http://HOST:PORT windows_test.py`.

No case fails because the machine pauses for a moment: checks for early effects measure with a
margin, and checks for late effects try several times."""

import itertools
import time

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import Peer, ask, counts_of, limits_of, permit, seen, seen_of, settles, waiter


def first_wait(server, key):
    """The windows from a key's first request to the approval of the second, which waits."""
    began = time.monotonic()
    assert permit(server, key, "maxRequests=1") == 200
    assert permit(server, key, "canWait=true") == 200
    return (time.monotonic() - began) / server.window_s


# ------------------------------------------------------------------------------------ 2.1, windows

@pytest.mark.section("2.1")
def test_window_begins_with_the_first_request(ticking, expect, keys):
    """Windows aligned to multiples of the clock, or begun by another key, would end earlier."""
    waits = []
    for key in itertools.islice(keys, 3):
        waits.append(first_wait(ticking, key) >= 0.9)
        time.sleep(0.37 * ticking.window_s)
    expect(waits, gocc=[True] * 3)


@pytest.mark.section("2.1")
def test_window_ends_in_time(ticking, expect, keys):
    expect(seen(lambda: first_wait(ticking, next(keys)) < 1.4), gocc=True)


@pytest.mark.section("2.1")
def test_windows_follow_each_other_without_gaps(ticking, expect, keys):
    """A request in the middle of the second window does not begin one: a waiter behind it is
    served at the end of that window, half a window later."""
    def half_a_window():
        key = next(keys)
        permit(ticking, key, "maxRequests=1")
        time.sleep(1.5 * ticking.window_s)
        asked = time.monotonic()
        return (permit(ticking, key) == 200 and permit(ticking, key, "canWait=true") == 200
                and time.monotonic() - asked < 0.85 * ticking.window_s)
    expect(seen(half_a_window), gocc=True)


@pytest.mark.section("2.1")
def test_windows_do_not_end_early_later_on(ticking, expect, key):
    """A chain of waiting requests: the n-th is served n windows after the first, not before."""
    began = time.monotonic()
    permit(ticking, key, "maxRequests=1")
    early = []
    for number in range(1, 6):
        permit(ticking, key, "canWait=true")
        early.append((time.monotonic() - began) / ticking.window_s < number - 0.2)
    expect(early, gocc=[False] * 5)


@pytest.mark.section("2.1")
def test_twice_the_limit_around_a_boundary(ticking, expect, keys):
    def twice():
        key = next(keys)
        permit(ticking, key, "maxRequests=5")
        time.sleep(0.6 * ticking.window_s)
        began = time.monotonic()
        approved = sum(permit(ticking, key) == 200 for _ in range(4))
        while approved < 9 and time.monotonic() - began < ticking.window_s:
            approved += permit(ticking, key) == 200
            time.sleep(0.005)
        return approved == 9
    expect(seen(twice), gocc=True)


@pytest.mark.section("2.1")
def test_missed_windows_are_not_made_up_for(start, expect, keys):
    """The process is stopped over three ends of windows: afterwards it serves one waiter, not three
    at once."""
    server = start("--window-millis", "300")

    def left_waiting():
        key = next(keys)
        permit(server, key, "maxRequests=1")
        peers = [Peer(server) for _ in range(5)]
        for peer in peers:
            peer.send(request("POST", f"/rate/{key}?canWait=true"))
        settles(lambda: counts_of(server, key) == (1, 0, 4), 5)  # just after a window's end
        server.pause()
        time.sleep(3.4 * 0.3)
        server.resume()
        counts = counts_of(server, key)
        for peer in peers:
            peer.close()
        return counts[2]
    dropped = seen(lambda: left_waiting() >= 2)
    expect("dropped" if dropped else "made up for", gocc="dropped")


# --------------------------------------------------------------------------- 2.2, a window's end

def states(server, key, last, seconds=20):
    """The successive counts of a key, up to the last one."""
    came = [counts_of(server, key)]
    deadline = time.monotonic() + seconds
    while came[-1] not in (last, None) and time.monotonic() < deadline:
        state = counts_of(server, key)
        if state != came[-1]:
            came.append(state)
        time.sleep(0.002)
    return came


@pytest.mark.section("2.2")
def test_end_of_a_window_resets_both_counts_at_once(ticking, expect, keys):
    wanted = [(1, 2, 0), (0, 0, 0)]

    def try_once():
        key = next(keys)
        for query in ["maxRequests=1", "", ""]:
            permit(ticking, key, query)
        return states(ticking, key, (0, 0, 0))
    expect(seen_of(wanted, try_once), gocc=wanted)


@pytest.mark.section("2.2")
def test_end_of_a_window_serves_the_queue(ticking, expect, keys):
    """Serves at most as many waiters as the limit; they count in the new window."""
    wanted = [(3, 1, 5), (3, 0, 2), (2, 0, 0), (0, 0, 0)]

    def try_once():
        key = next(keys)
        for query in ["maxRequests=3", "", "", ""]:
            permit(ticking, key, query)
        peers = [Peer(ticking) for _ in range(5)]
        for peer in peers:
            peer.send(request("POST", f"/rate/{key}?canWait=true"))
        settles(lambda: (counts_of(ticking, key) or (0, 0, 5))[2] == 5, 0.1)
        came = states(ticking, key, (0, 0, 0))
        assert [peer.read().status for peer in peers] == [200] * 5
        for peer in peers:
            peer.close()
        return came
    expect(seen_of(wanted, try_once), gocc=wanted)


@pytest.mark.section("2.2")
def test_queue_precedes_newcomers(ticking, expect, keys):
    """A window that gave all permits to waiters has none for newcomers."""
    def newcomer_is_denied():
        key = next(keys)
        permit(ticking, key, "maxRequests=1")
        with Peer(ticking) as first, Peer(ticking) as second:
            first.send(request("POST", f"/rate/{key}?canWait=true"))
            second.send(request("POST", f"/rate/{key}?canWait=true"))
            first.socket.settimeout(20)
            assert {first.read().status, permit(ticking, key)} <= {200, 429}
            return counts_of(ticking, key) in [(1, 1, 1), (1, 1, 0)]
    expect(seen(newcomer_is_denied), gocc=True)


# ------------------------------------------------------------------- 2.3, handling of a request

@pytest.mark.section("2.3")
def test_denied_request_changes_the_limits_too(steady, expect, key):
    permit(steady, key, "maxRequests=2")
    status = permit(steady, key, "maxRequests=1&maxRequestsInQueue=9")
    expect((status, limits_of(steady, key)), gocc=(429, (1, 9)))


@pytest.mark.section("2.3")
def test_limit_holds_for_the_request_that_brings_it(steady, expect, key):
    statuses = [permit(steady, key, query)
                for query in ["maxRequests=1", "", "maxRequests=2", "maxRequests=2"]]
    expect(statuses, gocc=[200, 429, 200, 429])


@pytest.mark.section("2.3")
@pytest.mark.parametrize("query", ["", "&canWait=false"])
def test_queue_override_applies_without_waiting(steady, expect, key, query):
    permit(steady, key, f"maxRequestsInQueue=7{query}")
    expect(limits_of(steady, key)[1], gocc=7)


@pytest.mark.section("2.3")
@pytest.mark.parametrize("query", ["canWait=true", "canWait=false"])
def test_available_permit_is_given_at_once(steady, expect, key, query):
    expect((permit(steady, key, query), counts_of(steady, key)), gocc=(200, (1, 0, 0)))


@pytest.mark.section("2.3")
def test_full_window_queues_requests_that_can_wait(steady, expect, key):
    permit(steady, key, "maxRequests=1")
    with waiter(steady, key) as peer:
        expect((peer.is_silent(0.3), counts_of(steady, key)), gocc=(True, (1, 0, 1)))


@pytest.mark.section("2.3")
def test_full_queue_denies(steady, expect, key):
    permit(steady, key, "maxRequests=1&maxRequestsInQueue=2")
    with waiter(steady, key), waiter(steady, key):
        answer = ask(steady, "POST", f"/rate/{key}?canWait=true")
        expect((answer.brief(), counts_of(steady, key)), gocc=((429, None, b""), (1, 1, 2)))


@pytest.mark.section("2.3")
def test_denials_are_counted_whatever_the_cause(steady, expect, key):
    permit(steady, key, "maxRequests=1&maxRequestsInQueue=1")
    with waiter(steady, key):
        for query in ["", "canWait=true", "canWait=false", "canWait=true"]:
            permit(steady, key, query)
        expect(counts_of(steady, key), gocc=(1, 4, 1))


@pytest.mark.section("2.3")
def test_queue_of_length_0_by_request(steady, expect, key):
    permit(steady, key, "maxRequests=1&maxRequestsInQueue=0")
    expect((permit(steady, key, "canWait=true"), counts_of(steady, key)), gocc=(429, (1, 1, 0)))


@pytest.mark.section("2.3")
def test_queue_of_length_0_by_flag(start, expect, key):
    server = start("--window-millis", "3600000", "--max-requests-in-queue", "0")
    permit(server, key, "maxRequests=1")
    expect(permit(server, key, "canWait=true"), gocc=429)


@pytest.mark.section("2.3")
def test_lowered_limit_denies_for_the_rest_of_the_window(steady, expect, key):
    statuses = [permit(steady, key, query)
                for query in ["maxRequests=5", "", "", "maxRequests=2", "", "maxRequests=4", ""]]
    expect(statuses, gocc=[200, 200, 200, 429, 429, 200, 429])


@pytest.mark.section("2.3")
def test_raised_limit_while_someone_waits(steady, expect, key):
    """gocc: the newcomer that raises it is approved, the queue waits for the window's end."""
    permit(steady, key, "maxRequests=1")
    with waiter(steady, key), waiter(steady, key):
        status = permit(steady, key, "maxRequests=2")
        settles(lambda: counts_of(steady, key)[2] == 1, 5)
        expect((status, counts_of(steady, key)), gocc=(200, (2, 0, 2)), ours=(429, (2, 1, 1)),
               topic="queue fairness")


@pytest.mark.section("2.3")
@pytest.mark.parametrize("query, waiting", by_first([
    ("maxRequestsInQueue=1", 3), ("maxRequestsInQueue=0", 3)]))
def test_shortened_queue_keeps_its_waiters(steady, expect, key, query, waiting):
    permit(steady, key, "maxRequests=1")
    with waiter(steady, key) as one, waiter(steady, key) as two, waiter(steady, key) as three:
        permit(steady, key, query)
        silent = all(peer.is_silent(0.1) for peer in (one, two, three))
        expect((silent, counts_of(steady, key)[2]), gocc=(True, waiting))
        expect(permit(steady, key, "canWait=true"), gocc=429, of="newcomers")


@pytest.mark.section("2.3")
def test_lengthened_queue_admits_later_requests(steady, expect, key):
    permit(steady, key, "maxRequests=1&maxRequestsInQueue=0")
    expect(permit(steady, key, "canWait=true"), gocc=429, of="before")
    with waiter(steady, key, "&maxRequestsInQueue=1"):
        expect(permit(steady, key, "canWait=true"), gocc=429, of="full")
