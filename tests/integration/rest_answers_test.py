"""REST: statuses, headers and bodies of every endpoint, byte for byte where callers rely on it.
Method: raw requests; the tables are those of the specification."""

import re

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, metrics, request, totals
from native_peer import NativePeer
from server_process import eventually

TEXT = "text/plain; charset=UTF-8"
JSON = "application/json"
ACCEPT_JSON = "Accept: application/json"


# ---------------------------------------------------------------------------------- decisions

@pytest.mark.parametrize("method", ["GET", "POST"])
def test_approval_is_the_bare_request_id(server, key, method):
    response = ask(server, method, f"/rate/{key}")
    assert response.body.isdigit() and int(response.body) > 0
    assert response.raw == (
        b"HTTP/1.1 200 OK\r\n"
        b"Content-Type: text/plain; charset=UTF-8\r\n"
        b'RateLimit: "window";r=99;t=3600\r\n'
        b'RateLimit-Policy: "window";q=100;w=3600\r\n'
        b"Date: now\r\n"
        b"Content-Length: %d\r\n\r\n" % len(response.body))


def test_a_look_takes_nothing(server, key):
    ask(server, "POST", f"/rate/{key}?cost=3")
    def decisions():
        return {name: count for name, count in totals(server).items() if "decisions" in name}
    before = decisions()
    for method in ("GET", "POST"):
        look = ask(server, method, f"/rate/{key}?cost=0&canWait=true&maxRequests=1&windowMillis=10")
        assert look.raw == (
            b"HTTP/1.1 200 OK\r\n"
            b"Content-Type: text/plain; charset=UTF-8\r\n"
            b'RateLimit: "window";r=97;t=3600\r\n'
            b'RateLimit-Policy: "window";q=100;w=3600\r\n'
            b"Date: now\r\n"
            b"Content-Length: 0\r\n\r\n")
    look = ask(server, "POST", f"/rate/{key}?cost=0", ACCEPT_JSON)
    assert (look.status, look.body, look.header("Content-Type")) == (200, b"{}", JSON)
    assert decisions() == before
    assert inspect(server, key)["NumApprovedThisWindow"] == 3


def test_a_look_makes_no_key_and_takes_no_id(server, key):
    first = int(ask(server, "POST", f"/rate/{key}-other").body)
    look = ask(server, "POST", f"/rate/{key}?cost=0")
    assert (look.status, look.rate_limit()["r"]) == (200, 100)
    assert ask(server, "GET", f"/debug/{key}").status == 404
    assert int(ask(server, "POST", f"/rate/{key}-other").body) > first


def test_a_look_shows_a_full_window(server, key):
    ask(server, "POST", f"/rate/{key}?cost=100")
    look = ask(server, "POST", f"/rate/{key}?cost=0")
    assert (look.status, look.rate_limit()["r"]) == (200, 0)
    assert inspect(server, key)["NumDeniedThisWindow"] == 0


def test_denial_is_empty_and_has_retry_after(server, key):
    with HttpPeer(server) as peer:  # in one write, so that both are at the window's very start
        peer.send(request("POST", f"/rate/{key}?maxRequests=1") + request("POST", f"/rate/{key}"))
        assert peer.read().status == 200
        response = peer.read()
    assert response.body == b""
    assert response.raw == (
        b"HTTP/1.1 429 Too Many Requests\r\n"
        b'RateLimit: "window";r=0;t=3600\r\n'
        b'RateLimit-Policy: "window";q=1;w=3600\r\n'
        b"Retry-After: 3600\r\n"
        b"Date: now\r\n"
        b"Content-Length: 0\r\n\r\n")


def test_seconds_are_rounded_up(start_server, key):
    server = start_server("--window-millis", "60500")
    response = ask(server, "POST", f"/rate/{key}?maxRequests=1")
    assert response.rate_limit()["w"] == 61
    assert 1 <= response.rate_limit()["t"] <= 61
    denied = ask(server, "POST", f"/rate/{key}")
    assert 1 <= int(denied.header("Retry-After")) <= 61


def test_json_bodies_on_request(server, key):
    approved = ask(server, "POST", f"/rate/{key}?maxRequests=1", ACCEPT_JSON)
    assert approved.header("Content-Type") == JSON
    number = approved.json()["request_id"]
    assert approved.body == b'{"request_id":%d}' % number

    denied = ask(server, "POST", f"/rate/{key}", ACCEPT_JSON)
    assert (denied.status, denied.header("Content-Type")) == (429, JSON)
    assert denied.body == b'{"error":"rate limit exceeded","key":"%s"}' % key.encode()

    wrong = ask(server, "POST", f"/rate/{key}?cost=-1", ACCEPT_JSON)
    assert (wrong.status, wrong.header("Content-Type")) == (400, JSON)
    assert wrong.json()["error"] == "cost out of bounds"


def test_request_ids_count_decided_requests_alone(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "2")
    assert ask(server, "POST", "/rate/a").body == b"1"
    assert ask(server, "POST", "/rate/b").body == b"2"
    assert ask(server, "POST", "/rate/a?cost=-1").status == 400  # takes no id
    assert ask(server, "POST", "/rate/a?cost=3").status == 400  # never fits: no id either
    assert ask(server, "GET", "/debug").status == 200
    assert ask(server, "DELETE", "/rate/x/1").status == 200
    assert ask(server, "POST", "/rate/a").body == b"3"
    assert ask(server, "POST", "/rate/a").status == 429  # takes the id 4
    assert ask(server, "POST", "/rate/c").body == b"5"


def test_exactly_the_limit_is_approved(server, key):
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?maxRequests=7") * 10)
        statuses = [peer.read().status for _ in range(10)]
    assert statuses == [200] * 7 + [429] * 3
    state = inspect(server, key)
    assert (state["NumApprovedThisWindow"], state["NumDeniedThisWindow"]) == (7, 3)


def test_a_new_window_has_new_permits(start_server, key):
    server = start_server("--max-requests", "1", "--window-millis", "300")
    assert ask(server, "POST", f"/rate/{key}").status == 200
    denied = ask(server, "POST", f"/rate/{key}")
    eventually(lambda: ask(server, "POST", f"/rate/{key}").status == 200, "the next window")
    assert denied.status in (200, 429)  # 200 when the machine paused past the window's end


def test_cost_takes_as_many_permits(server, key):
    response = ask(server, "POST", f"/rate/{key}?cost=60")
    assert (response.status, response.rate_limit()["r"]) == (200, 40)
    assert ask(server, "POST", f"/rate/{key}?cost=41").status == 429
    response = ask(server, "POST", f"/rate/{key}?cost=40")
    assert (response.status, response.rate_limit()["r"]) == (200, 0)


def test_cost_above_the_limit_can_never_fit(server, key):
    response = ask(server, "POST", f"/rate/{key}?cost=101&canWait=true")
    assert (response.status, response.body) == (400, b"cost exceeds maxRequests")
    assert response.header("Content-Type") == TEXT
    assert ask(server, "POST", f"/rate/{key}").rate_limit()["r"] == 99


def test_overrides_stay_with_the_key(server, key):
    assert ask(server, "POST", f"/rate/{key}?maxRequests=5").rate_limit()["q"] == 5
    assert ask(server, "POST", f"/rate/{key}?maxRequestsInQueue=3").rate_limit()["q"] == 5
    assert inspect(server, key)["Config"] == {
        "WindowMillis": 3_600_000, "MaxRequestsPerWindow": 5, "MaxRequestsInQueue": 3}
    answer = ask(server, "POST", f"/rate/{key}?windowMillis=31536000000")
    assert answer.header("RateLimit-Policy") == '"window";q=5;w=31536000'
    assert answer.header("RateLimit") == '"window";r=2;t=31536000'
    assert inspect(server, key)["Config"] == {
        "WindowMillis": 31_536_000_000, "MaxRequestsPerWindow": 5, "MaxRequestsInQueue": 3}


def test_five_a_minute(server, key):
    for left in (4, 3, 2, 1, 0):
        answer = ask(server, "POST", f"/rate/{key}?maxRequests=5&windowMillis=60000")
        assert (answer.status, answer.rate_limit()["r"]) == (200, left)
        assert answer.header("RateLimit-Policy") == '"window";q=5;w=60'
    denied = ask(server, "POST", f"/rate/{key}?maxRequests=5&windowMillis=60000")
    assert denied.status == 429 and 1 <= int(denied.header("Retry-After")) <= 60


WRONG_QUERIES = [
    ("canWait=maybe", "failed to parse canWait query parameter"),
    ("canWait=tRUE", "failed to parse canWait query parameter"),
    ("maxRequests=x", "failed to parse maxRequests query parameter"),
    ("maxRequests=1.5", "failed to parse maxRequests query parameter"),
    ("maxRequests=2147483648", "failed to parse maxRequests query parameter"),
    ("maxRequests=0", "maxRequests out of bounds"),
    ("maxRequests=-1", "maxRequests out of bounds"),
    ("maxRequests=-1000000000", "maxRequests out of bounds"),
    ("maxRequests=1000000001", "maxRequests out of bounds"),
    ("maxRequestsInQueue=x", "failed to parse maxRequestsInQueue query parameter"),
    ("maxRequestsInQueue=-1", "maxRequestsInQueue out of bounds"),
    ("maxRequestsInQueue=1000000001", "maxRequestsInQueue out of bounds"),
    ("cost=x", "failed to parse cost query parameter"),
    ("cost=-1", "cost out of bounds"),
    ("cost=1000000001", "cost out of bounds"),
    ("maxWaitMillis=x", "failed to parse maxWaitMillis query parameter"),
    ("maxWaitMillis=-1", "maxWaitMillis out of bounds"),
    ("maxWaitMillis=3600001", "maxWaitMillis out of bounds"),
    ("windowMillis=x", "failed to parse windowMillis query parameter"),
    ("windowMillis=9", "windowMillis out of bounds"),
    ("windowMillis=31536000001", "windowMillis out of bounds"),
    ("windowMillis=-1", "windowMillis out of bounds"),
    # When several are wrong, the order of the checks decides.
    ("cost=-1&maxRequests=0&canWait=maybe", "failed to parse canWait query parameter"),
    ("cost=-1&maxRequestsInQueue=x&maxRequests=0",
     "failed to parse maxRequestsInQueue query parameter"),
    ("cost=-1&maxRequests=0", "maxRequests out of bounds"),
]


@pytest.mark.parametrize("query, text", WRONG_QUERIES)
def test_names_a_wrong_parameter_and_takes_no_permit(server, key, query, text):
    response = ask(server, "POST", f"/rate/{key}?{query}")
    assert response.body == text.encode()
    assert response.raw == (
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=UTF-8\r\n"
        b"Date: now\r\nContent-Length: %d\r\n\r\n" % len(text))
    assert inspect(server, key) is None


@pytest.mark.parametrize("query", [
    "canWait=", "canWait=%20", "maxRequests=%09", "CANWAIT=maybe", "canWait=%zz",
    "canWait=maybe;x", "canWait=false&canWait=maybe", "cost=%2B1", "cost=+1%20", "cost=&ik=true",
    "%63ost=2&cost=0", "&&=&x", "maxWaitMillis=0"])
def test_parameters_that_are_absent_or_odd_but_fine(server, key, query):
    assert ask(server, "POST", f"/rate/{key}?{query}").status == 200


def test_overrides_can_be_disabled(start_server, key):
    server = start_server("--requests-can-set-rate=false", "--requests-can-mod-queue=false",
                          "--requests-can-set-window=false")
    for query, text in [("maxRequests=5", b"maxRequests query parameter is disabled"),
                        ("maxRequests=0", b"maxRequests query parameter is disabled"),
                        ("maxRequestsInQueue=5", b"maxRequestsInQueue query parameter is disabled"),
                        ("maxRequestsInQueue=-1",
                         b"maxRequestsInQueue query parameter is disabled"),
                        ("windowMillis=60000", b"windowMillis query parameter is disabled"),
                        ("windowMillis=9", b"windowMillis query parameter is disabled")]:
        response = ask(server, "POST", f"/rate/{key}?{query}")
        assert (response.status, response.header("Content-Type")) == (403, TEXT)
        assert response.body == text
    assert ask(server, "POST", f"/rate/{key}?maxRequests=x").status == 400
    assert inspect(server, key) is None
    assert ask(server, "POST", f"/rate/{key}?maxRequests=").status == 200


# --------------------------------------------------------------------------------------- keys

@pytest.mark.parametrize("path, seen", [
    ("%20b", " b"), ("+b", "+b"), ("%C3%A5", "å"), ("%c3%a5", "å"), ("å", "å"),
    ("a%2Fb", "a/b"), ("%41", "A"), ("a!b", "a!b"), ("a%21b", "a!b"), ("a%20b%2Fc", "a b/c"),
    ("%FF", "�"), ("%22%5C%0Ax", '"\\\nx'), ("%3Cb%3E%26", "<b>&"), ("x%20%C2%A0%E2%80%89", "x"),
])
def test_key_is_one_decoded_and_trimmed_segment(server, key, path, seen):
    assert ask(server, "POST", f"/rate/%20{key}{path}").status == 200
    state = inspect(server, f"{key}{path}")
    assert state is not None, "/debug shows the key of /rate under the same path"
    assert state["Key"] == key + seen


def test_debug_key_takes_the_rest_of_the_path(server, key):
    ask(server, "POST", f"/rate/{key}%2Fx")
    assert inspect(server, f"{key}/x")["Key"] == f"{key}/x"
    assert inspect(server, f"%20{key}%2fx%20")["Key"] == f"{key}/x"


@pytest.mark.parametrize("path", ["/rate/%zz", "/rate/a%", "/rate/a%2", "/debug/%G0", "/%"])
def test_invalid_escape_is_refused(server, path):
    response = ask(server, "POST", path)
    assert (response.status, response.body) == (400, b"400 Bad Request")
    assert response.header("Content-Type") == "text/plain; charset=utf-8"


def test_empty_key_is_refused(server):
    for method, path, text in [("POST", "/rate/%20", b"empty key provided"),
                               ("DELETE", "/rate//5", b"empty key provided"),
                               ("DELETE", "/rate/%20/5", b"empty key provided"),
                               ("DELETE", "/rate/k/%20", b"empty id provided")]:
        response = ask(server, method, path)
        assert (response.status, response.body) == (400, text), path
        assert response.header("Content-Type") == TEXT


def test_key_as_long_as_allowed_and_one_byte_longer(start_server):
    server = start_server("--max-key-bytes", "10")
    assert ask(server, "POST", "/rate/" + "k" * 10).status == 200
    assert ask(server, "POST", "/rate/" + "%6b" * 10).status == 200
    for method, path in [("POST", "/rate/" + "k" * 11), ("DELETE", "/rate/" + "k" * 11 + "/1")]:
        response = ask(server, method, path)
        assert (response.status, response.reason) == (431, "Request Header Fields Too Large")
        assert b"--max-key-bytes" in response.body
    assert inspect(server, "k" * 11) is None


# ------------------------------------------------------------------------------------ release

def test_release_frees_one_permit(server, key):
    number = ask(server, "POST", f"/rate/{key}?maxRequests=1").body.decode()
    assert ask(server, "POST", f"/rate/{key}").status == 429
    response = ask(server, "DELETE", f"/rate/{key}/{number}")
    assert response.raw == b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 0\r\n\r\n"
    assert ask(server, "POST", f"/rate/{key}").status == 200
    assert ask(server, "POST", f"/rate/{key}").status == 429


def test_release_takes_a_cost_and_any_id(server, key):
    ask(server, "POST", f"/rate/{key}?cost=100")
    assert ask(server, "DELETE", f"/rate/{key}/no/such/id?cost=70").status == 200
    assert inspect(server, key)["NumApprovedThisWindow"] == 30
    assert ask(server, "DELETE", f"/rate/{key}/1?cost=1000000000").status == 200
    assert inspect(server, key)["NumApprovedThisWindow"] == 0
    assert ask(server, "DELETE", f"/rate/{key}/1?cost=0").body == b"cost out of bounds"


def test_release_of_an_unknown_key_creates_no_key(server, key):
    assert ask(server, "DELETE", f"/rate/{key}/1").status == 200
    assert inspect(server, key) is None


# --------------------------------------------------------------------------------- inspection

def test_debug_key_is_one_line_of_json(server, key):
    ask(server, "POST", f"/rate/{key}")
    response = ask(server, "GET", f"/debug/{key}")
    assert response.body == (
        b'{"Key":"%s","Config":{"WindowMillis":3600000,"MaxRequestsPerWindow":100,'
        b'"MaxRequestsInQueue":400},"NumApprovedThisWindow":1,"NumDeniedThisWindow":0,'
        b'"NumWaiting":0,"Found":true}\n' % key.encode())
    assert response.raw == (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: now\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(response.body))


def test_debug_of_an_unknown_key_is_not_found(server, key):
    response = ask(server, "GET", f"/debug/{key}")
    assert response.body == b"Key not found"
    assert response.raw == (b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=UTF-8\r\n"
                            b"Date: now\r\nContent-Length: 13\r\n\r\n")


def test_debug_without_keys(start_server):
    server = start_server()
    response = ask(server, "GET", "/debug")
    assert (response.status, response.body) == (200, b'{"Instances":{}}\n')
    assert response.header("Content-Type") == JSON


def test_debug_shows_all_keys_sorted(start_server):
    server = start_server(*LONG_WINDOW)
    keys = ["%FF", "b", "a%3Cb", "%C3%A5", "B", "a", "%20%20a%20a", "0"]
    for path in keys:
        assert ask(server, "POST", f"/rate/{path}").status == 200
    body = ask(server, "GET", "/debug").body.decode()
    places = [body.index(f'"{name}":{{"Key"')
              for name in ["0", "B", "a", "a a", "a\\u003cb", "b", "å", "\\ufffd"]]
    assert places == sorted(places)
    assert body.startswith('{"Instances":{"0":{"Key":"0","Config":{"WindowMillis":3600000,')
    assert body.endswith('"Found":true}}}\n')


def test_debug_can_be_pretty(start_server):
    server = start_server(*LONG_WINDOW)
    assert ask(server, "GET", "/debug?pretty").body == b'{\n  "Instances": {}\n}\n'
    ask(server, "POST", "/rate/x")
    one = ask(server, "GET", "/debug/x?pretty=1").body.decode()
    assert one == """{
  "Key": "x",
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
    indented = one.rstrip("\n").replace("\n", "\n    ")
    assert ask(server, "GET", "/debug?pretty").body.decode() == (
        f'{{\n  "Instances": {{\n    "x": {indented}\n  }}\n}}\n')


def test_small_debug_has_a_content_length(start_server):
    """As Go's server does: a body of up to 2,048 bytes has a Content-Length."""
    server = start_server(*LONG_WINDOW)
    ask(server, "POST", "/rate/x")
    with HttpPeer(server) as peer:
        one = peer.ask("GET", "/debug")
        assert one.header("Content-Length") == str(len(one.body))
        row = len(one.body) - len('{"Instances":{}}\n') - 2 * len("x")
        room = 2_048 - len(one.body) - len(",") - row  # for a key that appears twice
        peer.ask("POST", f"/rate/{'y' * (room // 2)}")
        full = peer.ask("GET", "/debug")
        assert full.header("Content-Length") == str(len(full.body)) and 2_046 < len(full.body)
        peer.ask("POST", "/rate/z")
        assert peer.ask("GET", "/debug").header("Transfer-Encoding") == "chunked"
    old = ask(server, "GET", "/debug?prefix=x", version="1.0")
    assert old.header("Content-Length") == str(len(one.body)) and old.body == one.body


def test_debug_of_a_prefix_and_of_some_keys(start_server):
    server = start_server(*LONG_WINDOW)
    for name in ["b1", "a2", "a1", "a%3A1", "c"]:
        ask(server, "POST", f"/rate/{name}")

    def shown(query):
        return list(ask(server, "GET", f"/debug?{query}").json()["Instances"])
    assert shown("prefix=a") == ["a1", "a2", "a:1"]
    assert shown("prefix=a%3A") == ["a:1"]
    assert shown("limit=2") == ["a1", "a2"]
    assert shown("limit=1&prefix=b") == ["b1"]
    assert shown("prefix=none") == []
    for limit, text in [("0", "limit out of bounds"),
                        ("x", "failed to parse limit query parameter")]:
        refused = ask(server, "GET", f"/debug?limit={limit}")
        assert (refused.status, refused.body.decode()) == (400, text)


def test_debug_of_very_many_keys_is_in_table_order(start_server):
    server = start_server(*LONG_WINDOW)
    count = 101_000
    with NativePeer(server) as peer:
        for start in range(0, count, 8_000):
            peer.ask([f"k{number}" for number in range(start, min(start + 8_000, count))])
    with HttpPeer(server) as peer:
        everything = peer.ask("GET", "/debug")
        assert everything.header("X-Sluicegate-Order") == "table"
        names = [match.decode() for match in re.findall(rb'"(k\d+)":{"Key"', everything.body)]
        assert len(names) == count and set(names) == {f"k{number}" for number in range(count)}
        some = peer.ask("GET", "/debug?limit=300")
        assert list(some.json()["Instances"]) == names[:300]
        prefixed = peer.ask("GET", "/debug?prefix=k1009")
        assert sorted(prefixed.json()["Instances"]) == sorted(
            ["k1009", *(f"k1009{digit}" for digit in range(10)),
             *(f"k1009{digits:02}" for digits in range(100))])


def test_debug_with_many_keys_is_sorted_and_chunked(start_server):
    server = start_server(*LONG_WINDOW)
    count = 3_000
    with HttpPeer(server) as peer:
        for start in range(0, count, 500):
            peer.send(b"".join(request("POST", f"/rate/many{number}")
                               for number in range(start, start + 500)))
            assert [peer.read().status for _ in range(500)] == [200] * 500
        response = peer.ask("GET", "/debug")
        assert response.header("Transfer-Encoding") == "chunked"
        assert response.header("Content-Length") is None
        assert len(peer.chunks) > 2
        assert peer.ask("GET", "/healthz").status == 200  # the connection goes on
    names = list(response.json()["Instances"])
    assert names == sorted(f"many{number}" for number in range(count))


def test_debug_does_not_keep_keys_alive(start_server, key):
    server = start_server("--window-millis", "50")
    ask(server, "POST", f"/rate/{key}?maxRequests=7")
    eventually(lambda: inspect(server, key) is None, "the idle key is forgotten")
    eventually(lambda: ask(server, "GET", "/debug").body == b'{"Instances":{}}\n', "in /debug too")
    eventually(lambda: totals(server)["sluicegate_keys"] == 0, "in /metrics too")
    assert ask(server, "POST", f"/rate/{key}").rate_limit()["q"] == 100  # its override as well


def test_healthz_is_empty_and_names_the_node(start_server):
    servers = [start_server("--shards", shards) for shards in ("1", "3")]
    answers = [ask(server, "GET", "/healthz") for server in servers]
    nodes = [answer.header("Sluicegate-Node") for answer in answers]
    assert answers[0].raw == (f"HTTP/1.1 200 OK\r\nSluicegate-Node: {nodes[0]}\r\nDate: now\r\n"
                              "Content-Length: 0\r\n\r\n").encode()
    for server, shards, node in zip(servers, (1, 3), nodes):
        assert re.fullmatch(f"native={server.native_port}, shards={shards}, "
                            "instance=[0-9a-f]{16}", node)
        same = ask(server, "GET", "/healthz?x=y")
        assert (same.status, same.header("Sluicegate-Node")) == (200, node)
    assert nodes[0][-16:] != nodes[1][-16:]


def test_metrics_count_by_outcome_and_shard(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "2")
    with HttpPeer(server) as peer:
        for path in ["/rate/a", "/rate/a", "/rate/a", "/rate/b", "/rate/b?cost=3"]:
            peer.ask("POST", path)
        peer.ask("DELETE", "/rate/a/1")
        response = peer.ask("GET", "/metrics")
        assert response.header("Content-Type").startswith("text/plain; version=0.0.4")
        text = response.body.decode()
        sums, series = totals(server), metrics(server)
    expected = {'sluicegate_keys': 2, 'sluicegate_waiters': 0, 'sluicegate_connections': 2,
                'sluicegate_decisions_total{outcome="approved"}': 3,
                'sluicegate_decisions_total{outcome="denied"}': 1,
                'sluicegate_decisions_total{outcome="never_fits"}': 1,
                'sluicegate_decisions_total{outcome="queued"}': 0}
    assert {name: sums.get(name) for name in expected} == expected
    assert [name for name in series if '{shard="' not in name] == [
        "sluicegate_rules_refused_total", "sluicegate_log_lines_lost_total"]
    for shard in range(server.shards):
        assert f'sluicegate_keys{{shard="{shard}"}}' in series
    for name in ["keys gauge", "waiters gauge", "connections gauge", "decisions_total counter"]:
        assert f"# TYPE sluicegate_{name}\n" in text
    assert text.endswith("\n")


# ---------------------------------------------------------------------------- everything else

@pytest.mark.parametrize("path", ["/", "/rate", "/rate/", "/rate/k/", "/debug/", "/metrics/",
                                  "/Rate/k", "//rate/k", "/healthz/", "/favicon.ico"])
def test_unknown_path_is_not_found(server, path):
    for method in ["GET", "OPTIONS"]:
        response = ask(server, method, path)
        assert response.body == b'{"message":"Not Found"}\n'
        assert response.raw == (b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
                                b"Date: now\r\nContent-Length: 24\r\n\r\n")


def test_targets_that_proxies_send(server, key):
    assert ask(server, "POST", f"http://localhost:80/rate/{key}").status == 200
    assert inspect(server, key)["NumApprovedThisWindow"] == 1
    whole = ask(server, "OPTIONS", "*")
    assert (whole.status, whole.body, whole.header("Content-Length")) == (200, b"", "0")


ALLOWED = [("/rate/k", "OPTIONS, GET, POST, DELETE"), ("/rate/k/id", "OPTIONS, DELETE"),
           ("/rate/k/id/more", "OPTIONS, DELETE"), ("/debug", "OPTIONS, GET"),
           ("/debug/k", "OPTIONS, GET"), ("/healthz", "OPTIONS, GET"),
           ("/metrics", "OPTIONS, GET"), ("/top", "OPTIONS, GET")]


@pytest.mark.parametrize("path, allow", ALLOWED)
def test_known_path_lists_its_methods(server, path, allow):
    wrong = ask(server, "PUT", path)
    assert wrong.body == b'{"message":"Method Not Allowed"}\n'
    assert wrong.raw == (b"HTTP/1.1 405 Method Not Allowed\r\nAllow: %s\r\n"
                         b"Content-Type: application/json\r\nDate: now\r\n"
                         b"Content-Length: 33\r\n\r\n" % allow.encode())
    options = ask(server, "OPTIONS", path)
    assert options.raw == (b"HTTP/1.1 204 No Content\r\nAllow: %s\r\nDate: now\r\n\r\n"
                           % allow.encode())


def test_head_has_no_body(server):
    with HttpPeer(server) as peer:
        for path, status in [("/rate/k", 405), ("/debug", 405), ("/healthz", 405), ("/no", 404)]:
            assert peer.ask("HEAD", path).status == status
        assert peer.ask("GET", "/healthz").status == 200  # no body was left in between
        assert peer.is_silent(0.05)


def test_wrong_method_takes_no_permit(server, key):
    for method in ["PUT", "HEAD", "OPTIONS", "PATCH", "post"]:
        assert ask(server, method, f"/rate/{key}").status in (204, 405)
    assert ask(server, "GET", f"/rate/{key}/id").status == 405
    assert inspect(server, key) is None
