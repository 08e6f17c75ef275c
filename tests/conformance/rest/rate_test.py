"""Section 1.3: the parameters of a request for a permit, the order of their checks, and answers.
Run: `run --binary PATH rate_test.py`, or `run --url http://HOST:PORT rate_test.py`."""

import pytest

from expectation import Like, by_first
from http_peer import request
from rest_peer import (JSON, TEXT, Peer, ask, counts_of, exchange, limits_of, permit, settles,
                       state_of, waiter, waiting)

pytestmark = pytest.mark.section("1.3")

MAX, QUEUE = "maxRequests", "maxRequestsInQueue"
OFF = ("--requests-can-set-rate=false", "--requests-can-mod-queue=false")


def text_of(status, text):
    return status, TEXT, text.encode()


# ----------------------------------------------------------------------------------------- answers

RATE_LIMIT = Like(r'"window";r=\d+;t=\d+ "window";q=\d+;w=\d+')


def rate_limit_of(answer):
    return " ".join(filter(None, [answer.header("RateLimit"), answer.header("RateLimit-Policy")]))


def order_of(answer):
    """The head without varying values: the status line, and the headers in their order."""
    return " ".join([str(answer.status), answer.reason, *(name for name, _ in answer.headers)])


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_approval(server, expect, key, method):
    answer = ask(server, method, f"/rate/{key}")
    expect(answer.brief(), gocc=(200, TEXT, Like(r"[1-9]\d*")))
    expect(order_of(answer), gocc="200 OK Content-Type Date Content-Length",
           ours="200 OK Content-Type RateLimit RateLimit-Policy Date Content-Length",
           topic="extra headers", of="head")
    expect(rate_limit_of(answer), gocc="", ours=RATE_LIMIT, topic="extra headers", of="values")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_denial(steady, expect, key, method):
    permit(steady, key, f"{MAX}=1")
    answer = ask(steady, method, f"/rate/{key}")
    expect(answer.brief(), gocc=(429, None, b""))
    expect(order_of(answer), gocc="429 Too Many Requests Date Content-Length",
           ours="429 Too Many Requests RateLimit RateLimit-Policy Retry-After Date Content-Length",
           topic="extra headers", of="head")
    expect(rate_limit_of(answer), gocc="", ours=RATE_LIMIT, topic="extra headers", of="values")
    expect(answer.header("Retry-After"), gocc=None, ours=Like(r"[1-9]\d*"),
           topic="extra headers", of="Retry-After")


def test_refusal(server, expect, key):
    answer = ask(server, "POST", f"/rate/{key}?canWait=maybe")
    text = b"failed to parse canWait query parameter"
    expect((answer.raw, answer.body), gocc=(
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=UTF-8\r\nDate: now\r\n"
        b"Content-Length: %d\r\n\r\n" % len(text), text))


@pytest.mark.gocc_http1("serves the streams of a connection at once")
def test_exactly_the_limit_is_approved(steady, expect, key):
    with Peer(steady) as peer:
        peer.send(request("POST", f"/rate/{key}?{MAX}=7") * 10)
        statuses = [peer.read().status for _ in range(10)]
    expect((statuses, counts_of(steady, key)), gocc=([200] * 7 + [429] * 3, (7, 3, 0)))


def test_answer_after_waiting_is_the_number_too(ticking, expect, key):
    first = ask(ticking, "POST", f"/rate/{key}?{MAX}=1")
    later = ask(ticking, "POST", f"/rate/{key}?canWait=true")
    expect((later.brief(), int(later.body) > int(first.body)),
           gocc=((200, TEXT, Like(r"[1-9]\d*")), True))


# -------------------------------------------------------------------------------- the request's id

def test_ids_count_from_1_over_all_keys(start, expect, key):
    server = start("--window-millis", "3600000", "--max-requests", "2")
    bodies = [ask(server, "POST", f"/rate/{key}{name}").body for name in "abcab"]
    expect(bodies, gocc=[b"1", b"2", b"3", b"4", b"5"])


@pytest.mark.parametrize("what, takes_one", by_first([
    ("a denied request", True), ("a request that gave up", True), ("a 400", False),
    ("DELETE", False), ("/debug", False), ("a 404", False), ("healthz", False)]))
def test_id_is_taken_by(shared, expect, key, what, takes_one):
    server = shared("--window-millis", "3600000")
    before = int(ask(server, "POST", f"/rate/{key}?{MAX}=1").body)
    if what == "a denied request":
        permit(server, key)
    elif what == "a request that gave up":
        waiter(server, key).close()
        assert settles(lambda: waiting(server, key) == 0, 30)
    else:
        method, target = {
            "a 400": ("POST", f"/rate/{key}?{MAX}=0"), "DELETE": ("DELETE", f"/rate/{key}/1"),
            "/debug": ("GET", "/debug"), "a 404": ("GET", "/none"),
            "healthz": ("GET", "/healthz")}[what]
        ask(server, method, target)
    after = int(ask(server, "POST", f"/rate/{key}other").body)
    expect(after - before - 1, gocc=int(takes_one))


def test_403_takes_no_id(shared, expect, key):
    server = shared("--window-millis", "3600000", *OFF)
    before = int(ask(server, "POST", f"/rate/{key}").body)
    permit(server, key, f"{MAX}=1")
    expect(int(ask(server, "POST", f"/rate/{key}").body) - before, gocc=1)


# ----------------------------------------------------------------------------------- boolean words

TRUE = ["1", "t", "T", "TRUE", "true", "True"]
FALSE = ["0", "f", "F", "FALSE", "false", "False"]


@pytest.mark.parametrize("word", TRUE + ["%20true", "1%09", "+t+", "%C2%A0T"])
def test_word_for_true(steady, expect, key, word):
    permit(steady, key, f"{MAX}=1")
    with Peer(steady) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait={word}"))
        expect(settles(lambda: waiting(steady, key) == 1, 5), gocc=True)


@pytest.mark.parametrize("word", FALSE + ["", "%20", "%0A%09", "%20false"])
def test_word_for_false(steady, expect, key, word):
    permit(steady, key, f"{MAX}=1")
    expect(permit(steady, key, f"canWait={word}"), gocc=429)


@pytest.mark.parametrize("word", ["tRUE", "yes", "no", "on", "y", "2", "-1", "01", "truee", "TrUe",
                                  "t t", "null", "%00", "true%00", "%EF%BC%91"])
def test_word_for_neither(server, expect, key, word):
    answer = ask(server, "POST", f"/rate/{key}?canWait={word.replace(' ', '%20')}")
    expect(answer.brief(), gocc=text_of(400, "failed to parse canWait query parameter"))


# ------------------------------------------------------------------------------------- the numbers

@pytest.mark.parametrize("value, number", by_first([
    ("1", 1), ("%2B7", 7), ("007", 7), ("1000000000", 10**9), ("+5+", 5), ("%C2%A05%E3%80%80", 5),
    ("%0b5%0c", 5), ("00000000000000000000000005", 5), ("%35", 5)]))
@pytest.mark.parametrize("name", [MAX, QUEUE])
def test_number(server, expect, key, name, value, number):
    answer = ask(server, "POST", f"/rate/{key}?{name}={value}")
    limit, queue = limits_of(server, key) or (None, None)
    expect((answer.status, limit if name == MAX else queue), gocc=(200, number))


@pytest.mark.parametrize("value", [
    "x", "1.5", "1.0", "1e3", "0x10", "1_000", "1,000", "--1", "%2B", "-", "%2B-1", "5x", "5#",
    "2147483648", "-2147483649", "99999999999999999999", "1+2", "%00", "5%00", "%EF%BC%95", "'5'",
    "true", "%D9%A5", "NaN"])
@pytest.mark.parametrize("name", [MAX, QUEUE])
def test_no_number(server, expect, key, name, value):
    answer = ask(server, "POST", f"/rate/{key}?{name}={value}")
    expect(answer.brief(), gocc=text_of(400, f"failed to parse {name} query parameter"))


@pytest.mark.parametrize("name, value, inside", [
    (MAX, "0", False), (MAX, "-0", False), (MAX, "-1", False), (MAX, "1000000001", False),
    (MAX, "2147483647", False), (MAX, "-2147483648", False), (MAX, "1", True),
    (MAX, "1000000000", True), (QUEUE, "-1", False), (QUEUE, "1000000001", False),
    (QUEUE, "2147483647", False), (QUEUE, "-2147483648", False), (QUEUE, "0", True),
    (QUEUE, "-0", True), (QUEUE, "1000000000", True), (MAX, "-999999999", False),
    (MAX, "-1000000001", False)])
def test_bounds(server, expect, key, name, value, inside):
    answer = ask(server, "POST", f"/rate/{key}?{name}={value}")
    if inside:
        expect(answer.status, gocc=200)
    else:
        expect(answer.brief(), gocc=text_of(400, f"{name} out of bounds"))


@pytest.mark.parametrize("name", [MAX, QUEUE])
def test_sentinel(server, expect, key, name):
    answer = ask(server, "POST", f"/rate/{key}?{name}=-1000000000")
    expect(answer.status, gocc=200, ours=400, topic="400 for the sentinel")


@pytest.mark.parametrize("name", [MAX, QUEUE])
def test_sentinel_while_switched_off(shared, expect, key, name):
    server = shared("--window-millis", "3600000", *OFF)
    answer = ask(server, "POST", f"/rate/{key}?{name}=-1000000000")
    expect(answer.status, gocc=200, ours=403, topic="400 for the sentinel")


# ----------------------------------------------------------------------------------- the query

@pytest.mark.parametrize("query, limit", by_first([
    (f"{MAX}=5&{MAX}=6", 5), (f"{MAX}=5&{MAX}=x", 5), (f"{MAX}=&{MAX}=6", None),
    ("maxrequests=5", None), ("MAXREQUESTS=x", None), ("%6DaxRequests=5", 5),
    ("max%52equests=%35", 5), (f"{MAX}+=5", None), (f"+{MAX}=5", None), (f"{MAX}[]=5", None),
    (f"{MAX}", None), (f"{MAX}=", None), (f"{MAX}=%20", None), (f"{MAX}=+", None),
    (f"{MAX}=%zz", None), (f"{MAX}=5%", None), (f"{MAX}=%zz&{MAX}=5", 5), (f"{MAX}=5;x=1", None),
    (f"x=1;{MAX}=5", None), (f"x;y&{MAX}=5", 5), (f"&&{MAX}=5&&", 5), (f"={MAX}=5", None),
    (f"?{MAX}=5", None), (f"x=%&{MAX}=5", 5), (f"x=a?b/c&{MAX}=5", 5), (f"%zz={MAX}&{MAX}=5", 5),
    (f"{MAX}%3D5", None), (f"a=b=c&{MAX}=5", 5)]))
def test_query(server, expect, key, query, limit):
    status = ask(server, "POST", f"/rate/{key}?{query}").status
    absent = limits_of(server, key) and permit(server, f"{key}x") and limits_of(server, f"{key}x")
    wanted = limit if limit is not None else absent and absent[0]
    expect((status, (limits_of(server, key) or [None])[0]), gocc=(200, wanted))


def test_second_value_of_a_repeated_name_is_not_even_checked(server, expect, key):
    expect(permit(server, key, "canWait=false&canWait=maybe"), gocc=200)
    expect(permit(server, key, "canWait=maybe&canWait=false"), gocc=400, of="the first is")


@pytest.mark.parametrize("query", ["ik=true", "ik=false", "ik=%zz", "ik", "nothing=of&the=kind"])
def test_other_parameters_do_not_matter(server, expect, key, query):
    expect(permit(server, key, query), gocc=200)


# ----------------------------------------------------------------------------- the order of checks

def refusal(text):
    return text_of(403 if "disabled" in text else 400, text)


C, M, Q = "canWait=maybe", f"{MAX}=x", f"{QUEUE}=x"
M_OUT, Q_OUT, M_IN, Q_IN = f"{MAX}=0", f"{QUEUE}=-1", f"{MAX}=5", f"{QUEUE}=5"
CANNOT_PARSE = "failed to parse {} query parameter"
IS_OFF = "{} query parameter is disabled"

ORDER = [
    ("%20", [C, M, Q], "empty key provided"),
    ("KEY", [C, M, Q], CANNOT_PARSE.format("canWait")),
    ("KEY", [C, M_OUT, Q_OUT], CANNOT_PARSE.format("canWait")),
    ("KEY", [M, Q], CANNOT_PARSE.format(MAX)),
    ("KEY", [M, Q_OUT], CANNOT_PARSE.format(MAX)),
    ("KEY", [M_OUT, Q], CANNOT_PARSE.format(QUEUE)),
    ("KEY", [M_IN, Q], CANNOT_PARSE.format(QUEUE)),
    ("KEY", [M_OUT, Q_OUT], f"{MAX} out of bounds"),
    ("KEY", [M_IN, Q_OUT], f"{QUEUE} out of bounds"),
]
ORDER_OFF = [
    ("%20", [M_IN], "empty key provided"),
    ("KEY", [C, M_IN], CANNOT_PARSE.format("canWait")),
    ("KEY", [M, Q_IN], CANNOT_PARSE.format(MAX)),
    ("KEY", [M_IN, Q], IS_OFF.format(MAX)),
    ("KEY", [M_OUT, Q_OUT], IS_OFF.format(MAX)),
    ("KEY", [M_OUT], IS_OFF.format(MAX)),
    ("KEY", [Q], CANNOT_PARSE.format(QUEUE)),
    ("KEY", [Q_IN], IS_OFF.format(QUEUE)),
    ("KEY", [Q_OUT], IS_OFF.format(QUEUE)),
]


def check_order(server, expect, key, path, pairs, text):
    """In either order of the parameters."""
    for query in ["&".join(pairs), "&".join(reversed(pairs))]:
        answer = ask(server, "POST", f"/rate/{path.replace('KEY', key)}?{query}")
        expect(answer.brief(), gocc=refusal(text))
    expect(state_of(server, key), gocc=None, of="no key is made")


@pytest.mark.parametrize("path, pairs, text", ORDER, ids=[f"{a} {b}" for a, b, _ in ORDER])
def test_order_of_checks(server, expect, key, path, pairs, text):
    check_order(server, expect, key, path, pairs, text)


@pytest.mark.parametrize("path, pairs, text", ORDER_OFF, ids=[f"{a} {b}" for a, b, _ in ORDER_OFF])
def test_order_of_checks_while_switched_off(shared, expect, key, path, pairs, text):
    check_order(shared("--window-millis", "3600000", *OFF), expect, key, path, pairs, text)


@pytest.mark.parametrize("query", [f"{MAX}=", f"{QUEUE}=%20", f"{MAX}", "canWait=true"])
def test_absent_parameters_are_not_disabled(shared, expect, key, query):
    server = shared("--window-millis", "3600000", *OFF)
    expect(permit(server, key, query), gocc=200)


# ------------------------------------------------------------------------------- new parameters

@pytest.mark.parametrize("status", [200, 429])
def test_json_when_accepted(steady, expect, key, status):
    if status == 429:
        permit(steady, key, f"{MAX}=1")
    answer = ask(steady, "POST", f"/rate/{key}", f"Accept: {JSON}")
    gocc = {200: (200, TEXT, Like(r"\d+")), 429: (429, None, b"")}[status]
    ours = {200: Like(r'\{"request_id":\d+\}'),
            429: Like(r'\{"error":"[^"]+","key":"%s"\}' % key)}[status]
    expect(answer.brief(), gocc=gocc, ours=(status, JSON, ours), topic="JSON bodies")


@pytest.mark.parametrize("accept", ["*/*", "text/plain", "text/html,*/*;q=0.8", ""])
def test_bare_body_unless_json_is_accepted(server, expect, key, accept):
    answer = ask(server, "POST", f"/rate/{key}", f"Accept: {accept}")
    expect(answer.brief(), gocc=(200, TEXT, Like(r"\d+")))


def test_refusal_is_text_unless_json_is_accepted(server, expect, key):
    answer = ask(server, "POST", f"/rate/{key}?{MAX}=0", f"Accept: {JSON}")
    expect(answer.brief(), gocc=text_of(400, f"{MAX} out of bounds"),
           ours=(400, JSON, Like(r'\{"error":"maxRequests out of bounds"(,"key":"[^"]*")?\}')),
           topic="bodies")


@pytest.mark.parametrize("query, status, approved", by_first([
    ("cost=3", 200, 3), ("cost=x", 400, None), ("cost=-1", 400, None),
    ("cost=1000000001", 400, None), ("cost=101", 400, None), ("maxWaitMillis=x", 400, None),
    ("maxWaitMillis=-1", 400, None), ("maxWaitMillis=3600001", 400, None),
    ("maxWaitMillis=5", 200, 1)]))
def test_new_parameters(steady, expect, key, query, status, approved):
    came = permit(steady, key, query)
    expect((came, (counts_of(steady, key) or [None])[0]), gocc=(200, 1), ours=(status, approved),
           topic="cost, maxWaitMillis")


def test_a_look(steady, expect, key):
    permit(steady, key, "cost=3")
    came = ask(steady, "POST", f"/rate/{key}?cost=0")
    expect((came.status, len(came.body) > 0, counts_of(steady, key)[0]), gocc=(200, True, 2),
           ours=(200, False, 3), topic="cost, maxWaitMillis")


def test_max_wait_millis(steady, expect, key):
    permit(steady, key, f"{MAX}=1")
    with Peer(steady) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait=true&maxWaitMillis=50"))
        came = "waits" if peer.is_silent(1) else peer.read().status
    expect(came, gocc="waits", ours=429, topic="wait limit")


def test_connection_goes_on_after_every_outcome(steady, expect, key):
    statuses = []
    with Peer(steady) as peer:
        for query in [f"?{MAX}=1", "", "?canWait=x", f"?{MAX}=0"]:
            statuses.append(peer.ask("POST", f"/rate/{key}{query}").status)
    expect(statuses, gocc=[200, 429, 400, 400])
    expect(exchange(steady, request("POST", "/rate/%20"))[1], gocc=False, of="closed")
