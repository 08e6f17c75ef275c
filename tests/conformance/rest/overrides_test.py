"""Section 2.5: overrides in requests, and the switches against them.
Run: `run --binary PATH overrides_test.py`, or `run --url http://HOST:PORT overrides_test.py`."""

import pytest

from expectation import by_first
from rest_peer import TEXT, ask, counts_of, limits_of, permit, state_of

pytestmark = pytest.mark.section("2.5")

HOUR = ("--window-millis", "3600000")
NO_RATE, NO_QUEUE = "--requests-can-set-rate=false", "--requests-can-mod-queue=false"


def test_overrides_stay_for_all_later_requests(server, expect, key):
    permit(server, key, "maxRequests=5&maxRequestsInQueue=3")
    permit(server, key)
    expect(limits_of(server, key), gocc=(5, 3))


def test_another_request_changes_overrides(server, expect, key):
    permit(server, key, "maxRequests=5&maxRequestsInQueue=3")
    permit(server, key, "maxRequests=6")
    permit(server, key, "maxRequestsInQueue=0")
    expect(limits_of(server, key), gocc=(6, 0))


def test_another_key_has_its_own_limits(server, expect, key):
    permit(server, f"{key}a", "maxRequests=5&maxRequestsInQueue=3")
    permit(server, f"{key}b")
    expect(limits_of(server, f"{key}b") == (5, 3), gocc=False)


@pytest.mark.parametrize("query", ["window_millis=60000", "WindowMillis=60000"])
def test_window_cannot_be_set(server, expect, key, query):
    permit(server, key, query)
    permit(server, f"{key}x")
    windows = [state_of(server, name)["Config"]["WindowMillis"] for name in (key, f"{key}x")]
    expect(windows[0] == windows[1], gocc=True)


@pytest.mark.parametrize("query, status, window", by_first([
    ("windowMillis=60000", 200, 60_000), ("windowMillis=%20", 200, 3_600_000),
    ("windowMillis=31536000000", 200, 31_536_000_000), ("windowMillis=5", 400, 3_600_000),
    ("windowMillis=x", 400, 3_600_000), ("windowMillis=31536000001", 400, 3_600_000)]))
def test_window(shared, expect, key, query, status, window):
    server = shared(*HOUR)
    permit(server, key)
    expect(permit(server, key, query), gocc=200, ours=status, topic="windowMillis")
    permit(server, key)
    expect(state_of(server, key)["Config"]["WindowMillis"], gocc=3_600_000, ours=window,
           topic="windowMillis", of="window")


def test_window_begins_anew_and_keeps_its_counters(shared, expect, key):
    server = shared(*HOUR)
    permit(server, key, "maxRequests=1")
    expect(permit(server, key, "windowMillis=60000"), gocc=429)
    expect(counts_of(server, key), gocc=(1, 1, 0), of="counters")


def test_refused_request_changes_nothing(server, expect, key):
    permit(server, key, "maxRequests=5&maxRequestsInQueue=3")
    permit(server, key, "maxRequests=6&maxRequestsInQueue=-1")
    permit(server, key, "maxRequests=6&canWait=maybe")
    expect(limits_of(server, key), gocc=(5, 3))


@pytest.mark.parametrize("flag, query, status", by_first([
    (NO_RATE, "maxRequests=5", 403), (NO_RATE, "maxRequestsInQueue=5", 200),
    (NO_QUEUE, "maxRequests=5", 200), (NO_QUEUE, "maxRequestsInQueue=5", 403)]))
def test_switch(shared, expect, key, flag, query, status):
    server = shared(*HOUR, flag)
    answer = ask(server, "POST", f"/rate/{key}?{query}")
    wanted = f"{query.split('=')[0]} query parameter is disabled".encode()
    expect(answer.status, gocc=status)
    if status == 403:
        expect((answer.brief(), state_of(server, key)), gocc=((403, TEXT, wanted), None),
               of="text, and no key")


@pytest.mark.parametrize("flag, query", [(NO_RATE, "maxRequests="), (NO_RATE, "maxRequests=%20"),
                                         (NO_QUEUE, "maxRequestsInQueue=")])
def test_empty_parameter_is_fine_for_the_switch(shared, expect, key, flag, query):
    expect(permit(shared(*HOUR, flag), key, query), gocc=200)


def test_refusal_takes_no_permit(shared, expect, key):
    server = shared(*HOUR, NO_RATE)
    permit(server, key)
    permit(server, key, "maxRequests=5")
    expect(counts_of(server, key), gocc=(1, 0, 0))
