"""Section 1.5: the output of /debug, byte for byte.
Run: `run --binary PATH debug_test.py`, or `run --url http://HOST:PORT debug_test.py`."""

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import (JSON, TEXT, Peer, ask, counts_of, keys_of, limits_of, permit, state_of,
                       waiter)

pytestmark = pytest.mark.section("1.5")

HOUR = ("--window-millis", "3600000")
ONE = ('{"Key":"KEY","Config":{"WindowMillis":3600000,"MaxRequestsPerWindow":100,'
       '"MaxRequestsInQueue":400},"NumApprovedThisWindow":1,"NumDeniedThisWindow":0,'
       '"NumWaiting":0,"Found":true}')
PRETTY = """{
  "Key": "KEY",
  "Config": {
    "WindowMillis": 3600000,
    "MaxRequestsPerWindow": 100,
    "MaxRequestsInQueue": 400
  },
  "NumApprovedThisWindow": 1,
  "NumDeniedThisWindow": 0,
  "NumWaiting": 0,
  "Found": true
}
"""


def test_one_key(shared, expect, key):
    server = shared(*HOUR)
    permit(server, key)
    answer = ask(server, "GET", f"/debug/{key}")
    body = (ONE.replace("KEY", key) + "\n").encode()
    expect((answer.raw, answer.body), gocc=(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: now\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body), body))


def test_unknown_key(server, expect, key):
    answer = ask(server, "GET", f"/debug/{key}")
    expect((answer.raw, answer.body), gocc=(
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=UTF-8\r\nDate: now\r\n"
        b"Content-Length: 13\r\n\r\n", b"Key not found"))


def test_no_keys(start, expect):
    answer = ask(start(), "GET", "/debug")
    expect(answer.brief(), gocc=(200, JSON, b'{"Instances":{}}\n'))


def test_few_keys(start, expect):
    server = start(*HOUR)
    for key in "ba":
        permit(server, key)
    body = ask(server, "GET", "/debug").body
    instances = ",".join(f'"{key}":{ONE.replace("KEY", key)}' for key in "ab")
    expect(body, gocc=f'{{"Instances":{{{instances}}}}}\n'.encode())


@pytest.mark.parametrize("keys, gocc", by_first([(0, "its length"), (2, "its length"),
                                                 (100, "chunks")]))
def test_how_the_body_is_framed(start, expect, keys, gocc):
    server = start(*HOUR)
    for key in range(keys):
        permit(server, str(key))
    answer = ask(server, "GET", "/debug")
    came = "its length" if answer.header("Content-Length") else "chunks"
    expect((came, answer.header("Transfer-Encoding")),
           gocc=(gocc, "chunked" if gocc == "chunks" else None))


def test_keys_are_sorted_by_their_bytes(start, expect):
    server = start(*HOUR)
    paths = ["%FF", "b", "a%3Cb", "%C3%A5", "B", "a", "a%20a", "0", "~", "-", "%F0%9F%9A%A6",
             "%EF%BF%BD", "aa", "10", "9", "_", "a%00"]
    for path in paths:
        assert permit(server, path) == 200
    body = ask(server, "GET", "/debug").body.decode()
    names = ["-", "0", "10", "9", "B", "_", "a", "a\\u0000", "a a", "a\\u003cb", "aa", "b", "~",
             "å", "🚦"]
    places = [body.find(f'"{name}":{{"Key"') for name in names]
    expect(min(places) >= 0 and places == sorted(places), gocc=True)


@pytest.mark.parametrize("path, text", by_first([
    ("%3C%3E&", r"\u003c\u003e\u0026"), ("%22%5C", r"\"\\"), ("%2F", "%2F"), ("%27", "'"),
    ("%00%01%1F", r"\u0000\u0001\u001f"), ("x%08%0C%0A%0D%09x", r"x\b\f\n\r\tx"), ("%7F", "\x7f"),
    ("x%E2%80%A8%E2%80%A9x", r"x\u2028\u2029x"), ("%FF%FE", r"\ufffd\ufffd"),
    ("%C3%28", r"\ufffd("), ("%ED%A0%80", r"\ufffd\ufffd\ufffd"), ("%E2%82", r"\ufffd\ufffd"),
    ("%EF%BF%BD", "\ufffd"), ("%C3%A5%F0%9F%9A%A6", "å🚦"), ("%F5%80%80%80", r"\ufffd" * 4),
    ("%C0%80", r"\ufffd\ufffd")]))
def test_json_escapes(server, expect, key, path, text):
    permit(server, f"{key}{path}")
    body = ask(server, "GET", f"/debug/{key}{path}").body.decode()
    came = body[len(f'{{"Key":"{key}'):body.index('","Config"')]
    if path == "%2F":
        expect(came, gocc="%2F", ours="/", topic="key decoding")
    else:
        expect(came, gocc=text)
        everywhere = ask(server, "GET", "/debug").body.decode()
        expect(f'"{key}{text}":{{"Key":"{key}{text}",' in everywhere, gocc=True, of="in the list")


@pytest.mark.parametrize("query, pretty", by_first([
    ("pretty", True), ("pretty=", True), ("pretty=false", True), ("x=1&pretty", True),
    ("%70retty=1", True), ("Pretty", False), ("prettyy", False), ("x=pretty", False),
    ("pretty=%zz", False), ("pretty;x", False)]))
def test_pretty(shared, expect, key, query, pretty):
    server = shared(*HOUR)
    permit(server, key)
    answer = ask(server, "GET", f"/debug/{key}?{query}")
    wanted = PRETTY if pretty else ONE + "\n"
    expect(answer.brief(), gocc=(200, JSON, wanted.replace("KEY", key).encode()))


def test_pretty_list(start, expect):
    server = start(*HOUR)
    expect(ask(server, "GET", "/debug?pretty").body, gocc=b'{\n  "Instances": {}\n}\n', of="empty")
    permit(server, "x")
    indented = PRETTY.replace("KEY", "x").rstrip("\n").replace("\n", "\n    ")
    expect(ask(server, "GET", "/debug?pretty").body,
           gocc=f'{{\n  "Instances": {{\n    "x": {indented}\n  }}\n}}\n'.encode())


def test_pretty_does_not_matter_for_an_unknown_key(server, expect, key):
    answer = ask(server, "GET", f"/debug/{key}?pretty")
    expect(answer.brief(), gocc=(404, TEXT, b"Key not found"))


def test_counters(steady, expect, key):
    permit(steady, key, "maxRequests=2")
    permit(steady, key)
    permit(steady, key)
    with waiter(steady, key), waiter(steady, key):
        expect(counts_of(steady, key), gocc=(2, 1, 2))


def test_config_is_the_live_one(steady, expect, key):
    permit(steady, key, "maxRequests=7&maxRequestsInQueue=3")
    expect(limits_of(steady, key), gocc=(7, 3))


def test_approved_may_exceed_a_lowered_limit(steady, expect, key):
    for query in ["maxRequests=3", "", "", "maxRequests=1"]:
        permit(steady, key, query)
    state = state_of(steady, key)
    expect((state["NumApprovedThisWindow"], state["Config"]["MaxRequestsPerWindow"]), gocc=(3, 1))


def test_debug_creates_no_key(server, expect, key):
    for _ in range(2):
        ask(server, "GET", f"/debug/{key}")
    expect(key in keys_of(server), gocc=False)


def test_thousands_of_keys(start, expect):
    server = start(*HOUR)
    count = 3_000
    with Peer(server) as peer:
        for first in range(0, count, 500):
            peer.send(b"".join(request("POST", f"/rate/many{number}")
                               for number in range(first, first + 500)))
            assert [peer.read().status for _ in range(500)] == [200] * 500
        answer = peer.ask("GET", "/debug")
        names = list(answer.json()["Instances"])
        after = peer.ask("GET", "/healthz").status
    expect((answer.header("Transfer-Encoding"), answer.body[-1:], after),
           gocc=("chunked", b"\n", 200))
    expect(names, gocc=sorted(f"many{number}" for number in range(count)), of="names")
