"""Section 2.7: how keys are created, and how they expire after three idle windows.
Run: `run --binary PATH expiry_test.py`, or `run --url http://HOST:PORT expiry_test.py`."""

import itertools
import time

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import Peer, ask, limits_of, permit, release, seen, settles, state_of

pytestmark = pytest.mark.section("2.7")


def idle(server, key, use):
    """Uses a key once and then only observes it, which does not keep it alive. Returns upper and
    lower bounds of the windows until it expired."""
    before = time.monotonic()
    use()
    after = alive = time.monotonic()
    while True:
        looked = time.monotonic()
        if state_of(server, key) is None:
            gone = time.monotonic()
            return (gone - before) / server.window_s, (alive - after) / server.window_s
        alive = looked
        assert alive - after < 30, "the key stays"
        time.sleep(0.01)


def check_life(expect, server, keys, use):
    """Between three and four windows."""
    early = []

    def gone_in_time():
        key = next(keys)
        gone, alive = idle(server, key, lambda: use(key))
        early.append(gone < 2.8)
        return alive < 4.4
    expect(seen(gone_in_time), gocc=True, of="expired in time")
    expect(any(early), gocc=False, of="expired early")


def test_idle_key_expires(ticking, expect, keys):
    check_life(expect, ticking, keys, lambda key: permit(ticking, key))


@pytest.mark.parametrize("what", ["an approval", "a denial", "a release"])
def test_use_keeps_a_key(ticking, expect, key, what):
    """Two windows after its creation: otherwise it would expire a window or two later."""
    def use():
        if what == "a release":
            release(ticking, key)
        for _ in range({"a release": 0, "an approval": 1, "a denial": 2}[what]):
            permit(ticking, key)

    permit(ticking, key, "maxRequests=1")
    time.sleep(2 * ticking.window_s)
    expect(idle(ticking, key, use)[0] < 2.8, gocc=False, of="expired early")


@pytest.mark.parametrize("what", ["/debug/:key", "DELETE"])
def test_key_is_not_created_by(ticking, expect, key, what):
    ask(ticking, *{"/debug/:key": ("GET", f"/debug/{key}"),
                   "DELETE": ("DELETE", f"/rate/{key}/1")}[what])
    expect(state_of(ticking, key), gocc=None)


def test_expired_key_is_forgotten(ticking, expect, key):
    permit(ticking, f"{key}other")
    defaults = limits_of(ticking, f"{key}other")
    permit(ticking, key, "maxRequests=7&maxRequestsInQueue=3")
    assert settles(lambda: state_of(ticking, key) is None, 30)
    permit(ticking, key)
    expect(limits_of(ticking, key) == defaults, gocc=True)


def test_returning_key_begins_a_new_window(ticking, expect, keys):
    early = []
    for key in itertools.islice(keys, 2):
        permit(ticking, key)
        assert settles(lambda: state_of(ticking, key) is None, 30)
        time.sleep(0.4 * ticking.window_s)
        began = time.monotonic()
        permit(ticking, key, "maxRequests=1")
        permit(ticking, key, "canWait=true")
        early.append((time.monotonic() - began) / ticking.window_s < 0.9)
    expect(early, gocc=[False, False])


def test_key_stays_while_someone_waits(ticking, expect, key):
    """Six windows with only waiters; the key lives until the last one is served."""
    permit(ticking, key, "maxRequests=1")
    peers = [Peer(ticking) for _ in range(6)]
    for peer in peers:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
    statuses = [peer.read().status for peer in peers]
    limit = limits_of(ticking, key)
    for peer in peers:
        peer.close()
    expect((statuses, limit and limit[0]), gocc=([200] * 6, 1))


@pytest.mark.parametrize("count, gocc", by_first([(2_000, 2_000)]))
def test_many_keys_live_at_once(steady, expect, key, count, gocc):
    with Peer(steady) as peer:
        for first in range(0, count, 500):
            peer.send(b"".join(request("POST", f"/rate/{key}{number}")
                               for number in range(first, first + 500)))
            assert [peer.read().status for _ in range(500)] == [200] * 500
    shown = ask(steady, "GET", "/debug").json()["Instances"]
    expect(sum(name.startswith(key) for name in shown), gocc=gocc)
