"""REST: the holders of concurrency slots. Method: raw requests; every test has subjects of its own,
and servers of its own where it lists all reservations."""

import threading

import pytest

from http_peer import ask
from native_peer import CONNECTION_BOUND, NativePeer
from quota_calls import PROBLEM, call, put, reserve, slots, tokens, waiting_call
from server_process import eventually


def page(server, query=""):
    response = ask(server, "GET", f"/v1/reservations{query}")
    assert response.status == 200, response
    return response.json()


def holders(server, subject=None, limit=100):
    """The rows of all pages."""
    rows, cursor = [], ""
    while cursor is not None:
        query = f"?limit={limit}" + (f"&subject={subject}" if subject else "")
        shown = page(server, query + (f"&cursor={cursor}" if cursor else ""))
        assert len(shown["reservations"]) <= limit
        rows += shown["reservations"]
        cursor = shown["cursor"]
    return rows


def show(server, reservation):
    return ask(server, "GET", f"/v1/reservations/{reservation}")


def test_a_holder_has_its_owner_and_its_remaining_lifetime(server, key):
    put(server, key, tokens(1_000), slots(2))
    taken = reserve(server, key, owner="job 7", requests=2, input_tokens=30, max_output_tokens=4,
                    cost=5, lifetime_ms=60_000)
    row, = holders(server, key)
    assert 0 <= row["held_ms"] < 30_000 and 30_000 < row["expires_in_ms"] <= 60_000
    assert row == {"reservation": taken["reservation"], "owner": "job 7", "subjects": [key],
                   "state": "open", "code": "ok", "requests": 2, "input_tokens": 30,
                   "output_tokens": 4, "cost": 5, "expires_in_ms": row["expires_in_ms"],
                   "held_ms": row["held_ms"], "connection_bound": False}
    shown = show(server, taken["reservation"]).json()
    assert {**shown, "held_ms": 0, "expires_in_ms": 0} == {**row, "held_ms": 0, "expires_in_ms": 0}
    second = reserve(server, key)["reservation"]
    owners = {row["reservation"]: row["owner"] for row in holders(server, key)}
    assert owners == {taken["reservation"]: "job 7", second: None}


def test_an_ended_reservation_holds_nothing_and_is_remembered(server, key):
    put(server, key, slots(3))
    settled = reserve(server, key, owner="a", input_tokens=9)["reservation"]
    expired = reserve(server, key, owner="b", lifetime_ms=10)["reservation"]
    assert call(server, "settle", {"reservation": settled, "input_tokens": 7}).status == 200
    eventually(lambda: holders(server, key) == [], "the subject has no holder")
    shown = show(server, settled).json()
    assert (shown["state"], shown["input_tokens"], shown["late"]) == ("settled", 7, False)
    assert "held_ms" not in shown and "expires_in_ms" not in shown
    shown = show(server, expired)
    if shown.status == 200:  # the server keeps it for as long again as it lived
        assert (shown.json()["state"], shown.json()["owner"]) == ("expired", "b")


def test_a_served_waiter_is_a_holder(server, key):
    put(server, key, slots(1))
    first = reserve(server, key, owner="first")["reservation"]
    with waiting_call(server, key, owner="second") as peer:
        assert [row["owner"] for row in holders(server, key)] == ["first"]
        call(server, "cancel", {"reservation": first})
        second = peer.read().json()["reservation"]
    row, = holders(server, key)
    assert (row["reservation"], row["owner"]) == (second, "second")


def test_a_connection_bound_reservation_is_listed_as_such(server, key):
    put(server, key, slots(2))
    with NativePeer(server) as peer:
        peer.reserve(key, flags=CONNECTION_BOUND, owner="a native client")
        row, = holders(server, key)
        assert (row["owner"], row["connection_bound"]) == ("a native client", True)
    eventually(lambda: holders(server, key) == [], "it ended with its connection")


def test_unknown_reservations(server, key):
    for wrong in ("0" * 16, "ffffffffffffffff", "x", "a/b", key):
        shown = show(server, wrong)
        assert (shown.status, shown.header("Content-Type")) == (404, PROBLEM), wrong
        assert shown.json()["code"] == "unknown_reservation"
    assert page(server, f"?subject={key}") == {"reservations": [], "cursor": None}


@pytest.mark.parametrize("query, code", [
    ("subject=", "invalid_subject"),
    ("subject=" + "x" * 1_025, "invalid_subject"),
    ("limit=0", "invalid_request"),
    ("limit=257", "invalid_request"),
    ("cursor=ff", "invalid_request"),
])
def test_invalid_queries_are_refused(server, query, code):
    refused = ask(server, "GET", f"/v1/reservations?{query}")
    assert (refused.status, refused.json()["code"]) == (400, code)


def test_pages_lead_through_all_shards_once(start_server):
    server = start_server("--shards", "2")
    ids = {}
    for number in range(20):
        put(server, f"{{page{number}}}.a", slots(99))
        put(server, f"{{page{number}}}.b", slots(99))
        for _ in range(5):
            names = [f"{{page{number}}}.{letter}" for letter in "ab"]
            ids[reserve(server, *names, owner=f"o{number}")["reservation"]] = names
    shards = {(int(reservation, 16) >> 34 & 0xFFFF) * 2 >> 16 for reservation in ids}
    assert shards == {0, 1}, "the shards that have them"
    for limit in (7, 99, 100, 256):
        rows = holders(server, limit=limit)
        assert len(rows) == len(ids)
        assert {row["reservation"]: row["subjects"] for row in rows} == ids
    for number in (0, 7, 19):
        rows = holders(server, f"%7Bpage{number}%7D.b", limit=2)
        assert len(rows) == 5 and {row["owner"] for row in rows} == {f"o{number}"}
    for reservation in ids:
        assert show(server, reservation).json()["subjects"] == ids[reservation]
        assert call(server, "settle", {"reservation": reservation}).status == 200
    assert holders(server) == []


def test_a_page_of_long_names_is_short(start_server):
    server = start_server("--max-key-bytes", "60000", "--max-subjects", "1000")
    name = "x" * 60_000
    put(server, name[:7_000], slots(99))
    ids = {reserve(server, name[:7_000], owner="\x01" * 128)["reservation"] for _ in range(30)}
    assert {row["reservation"] for row in holders(server, limit=256)} == ids
    assert len(page(server, "?limit=256")["reservations"]) < 30


def test_lists_holders_while_others_start_and_end(start_server):
    """Every listing has the holder that stays."""
    server = start_server("--shards", "2")
    names = [f"busy{number}" for number in range(8)]
    for name in names:
        put(server, name, slots(1_000))
    staying = {reserve(server, name, owner="stays")["reservation"] for name in names}
    done = threading.Event()

    def churn(name):
        while not done.is_set():
            reservation = reserve(server, name)["reservation"]
            call(server, "cancel", {"reservation": reservation})

    threads = [threading.Thread(target=churn, args=[name]) for name in names[:4]]
    for thread in threads:
        thread.start()
    try:
        for limit in (1, 3, 100) * 3:
            rows = [row["reservation"] for row in holders(server, limit=limit)]
            assert staying <= set(rows)
            assert all(rows.count(reservation) == 1 for reservation in staying)
    finally:
        done.set()
        for thread in threads:
            thread.join()
