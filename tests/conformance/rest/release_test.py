"""Sections 1.4 and 2.6: releasing a permit.
Run: `run --binary PATH release_test.py`, or `run --url http://HOST:PORT release_test.py`."""

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import (TEXT, Peer, ask, counts_of, permit, release, settles, state_of, waiter,
                       waiting)


def filled(server, key, limit):
    """A key without permits."""
    with Peer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?maxRequests={limit}") * limit)
        assert [peer.read().status for _ in range(limit)] == [200] * limit


# --------------------------------------------------------------------------------- 1.4, the answer

@pytest.mark.section("1.4")
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("number", ["1", "0", "-1", "999999999999999999999999", "no-number", "%00"])
def test_release_is_always_200_and_empty(server, expect, key, live, number):
    if live:
        permit(server, key)
    answer = ask(server, "DELETE", f"/rate/{key}/{number}")
    expect((answer.raw, answer.body),
           gocc=(b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 0\r\n\r\n", b""))


@pytest.mark.section("1.4")
@pytest.mark.parametrize("path, status, text", by_first([
    ("/rate//5", 400, "empty key provided"), ("/rate/%20/5", 400, "empty key provided"),
    ("/rate/k/%20", 400, "empty id provided"), ("/rate/k/%E3%80%80", 400, "empty id provided"),
    ("/rate/%20/%20", 400, "empty key provided")]))
def test_release_with_empty_key_or_id(server, expect, path, status, text):
    expect(ask(server, "DELETE", path).brief(), gocc=(status, TEXT, text.encode()))


@pytest.mark.section("1.4")
@pytest.mark.parametrize("path, status", by_first([("/rate/k/", 404), ("/rate/k", 405),
                                                   ("/rate/", 404), ("/rate", 404)]))
def test_release_without_an_id(server, expect, path, status):
    resets = {"ours": 200, "topic": "more paths"} if path == "/rate/k" else {}
    expect(ask(server, "DELETE", path).status, gocc=status, **resets)


@pytest.mark.section("1.4")
@pytest.mark.parametrize("query", ["?canWait=maybe", "?maxRequests=x", "?ik=true", "?x=%zz"])
def test_release_has_no_parameters(server, expect, key, query):
    expect(ask(server, "DELETE", f"/rate/{key}/1{query}").status, gocc=200)


@pytest.mark.section("1.4")
@pytest.mark.parametrize("query, gocc, ours", by_first([
    ("?cost=2", (200, 4), (200, 3)), ("?cost=x", (200, 4), (400, 5))]))
def test_release_of_several(steady, expect, key, query, gocc, ours):
    filled(steady, key, 5)
    status = ask(steady, "DELETE", f"/rate/{key}/1{query}").status
    expect((status, counts_of(steady, key)[0]), gocc=gocc, ours=ours, topic="cost, maxWaitMillis")


@pytest.mark.gocc_http1("serves the streams of a connection at once")
@pytest.mark.section("1.4")
def test_release_precedes_the_next_request_of_the_client(steady, expect, key):
    filled(steady, key, 1)
    turns = 50
    with Peer(steady) as peer:
        for _ in range(turns):
            peer.ask("DELETE", f"/rate/{key}/1")
            if permit(steady, key) != 200:
                break
        else:
            peer.send((request("DELETE", f"/rate/{key}/1") + request("POST", f"/rate/{key}"))
                      * turns)
            statuses = [peer.read().status for _ in range(2 * turns)]
            expect(statuses, gocc=[200] * 2 * turns, of="in one write")
            return
    expect("denied", gocc="approved")


# -------------------------------------------------------------------------------- 2.6, the effect

@pytest.mark.section("2.6")
def test_release_frees_one_permit(steady, expect, key):
    filled(steady, key, 2)
    release(steady, key)
    expect(counts_of(steady, key), gocc=(1, 0, 0))
    expect([permit(steady, key) for _ in range(2)], gocc=[200, 429], of="then")


@pytest.mark.section("2.6")
def test_release_repeated(steady, expect, key):
    filled(steady, key, 3)
    counts = []
    for _ in range(5):
        release(steady, key, "1")
        counts.append(counts_of(steady, key)[0])
    expect(counts, gocc=[2, 1, 0, 0, 0])


@pytest.mark.section("2.6")
@pytest.mark.parametrize("what", ["a denied request's", "an invented one", "another key's"])
def test_release_with_any_id(steady, expect, key, what):
    filled(steady, key, 1)
    number = "12345678"
    if what == "a denied request's":  # its number follows that of the next approval
        permit(steady, key)
        number = str(int(ask(steady, "POST", f"/rate/{key}other").body) - 1)
    elif what == "another key's":
        number = ask(steady, "POST", f"/rate/{key}other").body.decode()
    release(steady, key, number)
    expect(counts_of(steady, key)[0], gocc=0)


@pytest.mark.section("2.6")
def test_release_leaves_denials_alone(steady, expect, key):
    filled(steady, key, 1)
    permit(steady, key)
    release(steady, key)
    expect(counts_of(steady, key), gocc=(0, 1, 0))


@pytest.mark.section("2.6")
def test_release_of_an_earlier_window_frees_a_permit_of_this_one(start, expect, tmp_path, key):
    """Windows are short until the second one has begun; then the file makes them so long that it
    does not end."""
    path = tmp_path / "limits.json"
    path.write_text('{"keys":[]}')
    server = start("--window-millis", "250", "--config-file", str(path))
    number = ask(server, "POST", f"/rate/{key}?maxRequests=1").body.decode()
    assert settles(lambda: counts_of(server, key) == (0, 0, 0), 30)
    path.write_text('{"keys":[{"key_pattern":"%s","window_millis":3600000}]}' % key)
    permit(server, key, "maxRequests=1")
    assert settles(lambda: state_of(server, key)["Config"]["WindowMillis"] == 3_600_000, 30)
    expect(settles(lambda: permit(server, key, "maxRequests=1") == 429, 5), gocc=True, of="full")
    release(server, key, number)
    expect(permit(server, key), gocc=200, of="then")


@pytest.mark.section("2.6")
def test_release_of_an_unknown_key_creates_no_key(server, expect, key):
    release(server, key)
    expect(state_of(server, key), gocc=None)


@pytest.mark.section("2.6")
def test_release_while_someone_waits(steady, expect, key):
    """gocc: the permit is free, and the waiter keeps waiting."""
    filled(steady, key, 1)
    with waiter(steady, key) as peer:
        release(steady, key)
        served = settles(lambda: waiting(steady, key) == 0, 5)
        expect((served, counts_of(steady, key)), gocc=(False, (0, 0, 1)), ours=(True, (1, 0, 0)),
               topic="queue fairness")
        if served:
            expect(peer.read().status, gocc=200, of="its answer")


@pytest.mark.section("2.6")
def test_newcomer_after_a_release_while_someone_waits(steady, expect, key):
    filled(steady, key, 1)
    with waiter(steady, key):
        release(steady, key)
        expect(permit(steady, key), gocc=200, ours=429, topic="queue fairness")
