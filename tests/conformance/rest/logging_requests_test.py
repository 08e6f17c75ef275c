"""Section 4.5, and 1.8 about the log: the line of a request, as JSON. gocc's output is the
reference, also where its specification is silent.
Run: `run --binary PATH logging_requests_test.py`."""

import pytest

from expectation import Like, by_first, named
from log_lines import (ALL, HOUR, NO_SOURCE, TIME, lines_after, logging, of_requests,  # noqa: F401
                       wait_and_leave)
from rest_peer import ask, permit

pytestmark = pytest.mark.section("4.5")

CASES = ["200", "204", "400", "404 of a key", "404", "405", "429", "499"]


def one_of_each(server, key):
    """Sends a request for each of CASES; returns their targets."""
    paths = {"200": f"/rate/{key}", "204": f"/rate/{key}204", "400": f"/rate/{key}400",
             "404 of a key": f"/debug/{key}404", "404": f"/{key}404", "405": f"/rate/{key}405",
             "429": f"/rate/{key}429", "499": f"/rate/{key}499"}
    ask(server, "POST", paths["200"])
    ask(server, "OPTIONS", paths["204"])
    ask(server, "POST", paths["400"] + "?canWait=x")
    ask(server, "GET", paths["404 of a key"])
    ask(server, "GET", paths["404"])
    ask(server, "PUT", paths["405"])
    for _ in range(2):
        ask(server, "POST", paths["429"] + "?maxRequests=1")
    wait_and_leave(server, f"{key}499")
    return paths


@pytest.mark.parametrize("flags, gocc, ours", by_first([
    ("", [], []),
    ("--log2xx", ["200", "204", "404", "405"], ["200", "204"]),
    ("--log4xx", ["400", "404 of a key", "429", "499"],
     ["400", "404 of a key", "404", "405", "429", "499"]),
    ("--log2xx --log4xx --log5xx=false", CASES, CASES)]))
def test_switches(logging, expect, key, flags, gocc, ours):
    server = logging(*HOUR, NO_SOURCE, *flags.split())
    paths = {}
    lines = of_requests(lines_after(server, lambda: paths.update(one_of_each(server, key))))
    logged = [name for name in CASES
            if any(line["request"]["path"] == paths[name]
                   and line["response"]["status"] == int(name[:3]) for line in lines)]
    expect(", ".join(logged), gocc=", ".join(gocc), ours=", ".join(ours), topic="logs")


@pytest.mark.parametrize("name, gocc", by_first([
    ("200", ("INFO", "Incoming request", 200)), ("204", ("INFO", "Incoming request", 204)),
    ("400", ("WARN", "Bad Request", 400)), ("404 of a key", ("WARN", "Not Found", 404)),
    ("404", ("WARN", "Not Found", 404)), ("405", ("WARN", "Method Not Allowed", 405)),
    ("429", ("WARN", "Too Many Requests", 429)), ("499", ("WARN", "", 499))]))
def test_level_and_message(logging, expect, key, name, gocc):
    server = logging(*ALL)
    paths = {}
    lines = of_requests(lines_after(server, lambda: paths.update(one_of_each(server, key))))
    here = [line for line in lines if line["request"]["path"] == paths[name]][-1]
    expect((here["level"], here["message"], here["response"]["status"]), gocc=gocc)


def test_level_and_message_of_403(logging, expect, key):
    server = logging(*ALL, "--requests-can-set-rate=false")
    lines = of_requests(lines_after(server, lambda: permit(server, key, "maxRequests=1")))
    expect([(line["level"], line["message"], line["response"]["status"]) for line in lines],
           gocc=[("WARN", "Forbidden", 403)])


def line_of(server, method, target, *headers, **options):
    lines = of_requests(lines_after(server, lambda: ask(server, method, target, *headers,
                                                        **options)))
    assert len(lines) == 1, lines
    return lines[0]


def test_fields_of_a_request(logging, expect, key):
    server = logging(*ALL)
    line = line_of(server, "POST", f"/rate/{key}?maxRequests=5&x=%20", "Referer: http://a/b")
    expect(list(line), gocc=["time", "level", "message", "request", "response"])
    asked, logged = line["request"], line["response"]
    expect(list(asked), of="request", gocc=[
        "time", "method", "host", "path", "query", "params", "route", "referer", "length",
        "header"])
    expect(list(logged), gocc=["time", "latency", "status", "length"], of="response")
    expect({name: asked[name] for name in asked if name not in ("time", "header")}, of="values",
           gocc={"method": "POST", "host": "localhost", "path": f"/rate/{key}",
                 "query": "maxRequests=5&x=%20", "params": {"key": key}, "route": "/rate/:key",
                 "referer": "http://a/b", "length": 0})
    expect(logged["status"], gocc=200, of="status")


@pytest.mark.parametrize("where", ["request", "response"])
def test_times_of_a_request(logging, expect, key, where):
    line = line_of(logging(*ALL), "POST", f"/rate/{key}")
    expect(line[where]["time"], gocc=Like(TIME + r"(\.\d{1,9})?Z"))


def test_latency_is_in_nanoseconds(logging, expect, ticking, key):
    server = logging("--window-millis", "250", NO_SOURCE, "--log2xx")

    def wait():
        permit(server, key, "maxRequests=1")
        permit(server, key, "canWait=true")
    latency = of_requests(lines_after(server, wait))[-1]["response"]["latency"]
    expect((type(latency).__name__, 10**7 < latency < 10**11), gocc=("int", True))


@pytest.mark.parametrize("method, target, route, params, path", named([
    ("DELETE", "DELETE", "/rate/KEY/7/x", "/rate/:key/:id", {"key": "KEY", "id": "7/x"},
     "/rate/KEY/7/x"),
    ("a slash", "GET", "/debug/KEY/x", "/debug/:key", {"key": "KEY/x"}, "/debug/KEY/x"),
    ("a blank", "POST", "/rate/KEY%20x", "/rate/:key", {"key": "KEY x"}, "/rate/KEY x"),
    ("OPTIONS", "OPTIONS", "/rate/KEY", "/rate/:key", {}, "/rate/KEY"),
    ("405", "PUT", "/rate/KEY", "/rate/:key", {}, "/rate/KEY"),
    ("HEAD", "HEAD", "/debug/KEY", "/debug/:key", {}, "/debug/KEY"),
    ("404", "GET", "/KEY", "", {}, "/KEY")]))
def test_route_and_params(logging, expect, key, method, target, route, params, path):
    asked = line_of(logging(*ALL), method, target.replace("KEY", key))["request"]
    logged = {name: value.replace(key, "KEY") for name, value in asked["params"].items()}
    expect((asked["route"], logged, asked["path"].replace(key, "KEY")), gocc=(route, params, path))


@pytest.mark.parametrize("path, logged, ours", by_first([
    ("%41%20KEY", "%41%20KEY", "A KEY"), ("%20KEY", " KEY", " KEY")]))
def test_params_are_not_trimmed(logging, expect, key, path, logged, ours):
    asked = line_of(logging(*ALL), "POST", f"/rate/{path.replace('KEY', key)}")["request"]
    expect(asked["params"]["key"].replace(key, "KEY"), gocc=logged, ours=ours, topic="key decoding")


@pytest.mark.parametrize("target, route", by_first([
    ("/healthz", "/healthz"), ("/debug", "/debug")]))
def test_route_without_params(logging, expect, target, route):
    asked = line_of(logging(*ALL), "GET", target)["request"]
    expect((asked["route"], asked["params"]), gocc=(route, {}))


@pytest.mark.parametrize("name, length", by_first([
    ("429", 0), ("400", len("failed to parse canWait query parameter")),
    ("404 of a key", len("Key not found"))]))
def test_length_of_the_answer(logging, expect, key, name, length):
    server = logging(*ALL)
    paths = {}
    lines = of_requests(lines_after(server, lambda: paths.update(one_of_each(server, key))))
    here = [line for line in lines if line["request"]["path"] == paths[name]][-1]
    expect(here["response"]["length"], gocc=length)


@pytest.mark.parametrize("name, code, message", by_first([
    ("404", 404, "Not Found"), ("405", 405, "Method Not Allowed")]))
def test_error_of_the_router(logging, expect, key, name, code, message):
    server = logging(*ALL)
    line = line_of(server, "PUT", f"/{key}" if name == "404" else f"/rate/{key}", "X-Request-Id: a")
    expect(list(line), gocc=["time", "level", "message", "request", "response", "id", "error"])
    expect(line["error"], of="values",
           gocc={"code": code, "internal": None, "message": message})
    expect(line["response"]["length"], gocc=0, ours=len('{"message":""}\n') + len(message),
           topic="lengths in the log", of="length")


@pytest.mark.parametrize("headers, gocc", named([
    ("given", ["X-Request-Id: a b"], "a b"), ("none", [], None), ("empty", ["X-Request-Id:"], None),
    ("lower case", ["x-request-id: abc"], "abc")]))
@pytest.mark.section("1.8")
def test_id_of_the_request(logging, expect, key, headers, gocc):
    expect(line_of(logging(*ALL), "POST", f"/rate/{key}", *headers).get("id"), gocc=gocc)


def test_headers_of_the_request(logging, expect, key):
    """Names in Go's canonical form, each with all its values; Host is not among them."""
    logged = line_of(logging(*ALL), "POST", f"/rate/{key}", "Accept: a/b, c/d", "x-a: 1",
                   "X-A: 2", "user-AGENT: me", "X-EMPTY:")["request"]["header"]
    expect(logged, gocc={"Accept": ["a/b, c/d"], "X-A": ["1", "2"], "User-Agent": ["me"],
                       "X-Empty": [""]})


SECRET = ["Authorization", "Cookie", "Set-Cookie", "X-Auth-Token", "X-CSRF-Token", "x-xsrf-token",
          "authorization", "COOKIE"]


@pytest.mark.parametrize("name", SECRET)
def test_secret_headers_are_left_out(logging, expect, key, name):
    line = line_of(logging(*ALL), "POST", f"/rate/{key}", f"{name}: open-sesame", "X-B: 1")
    expect((line["request"]["header"], "sesame" in str(line)), gocc=({"X-B": ["1"]}, False))


def test_length_of_the_body_of_a_request(logging, expect, key):
    line = line_of(logging(*ALL), "POST", f"/rate/{key}", "Content-Length: 5", body=b"hello")
    expect(line["request"]["header"], gocc={"Content-Length": ["5"]}, of="header")
    expect(line["request"]["length"], gocc=0, ours=5, topic="lengths in the log")


def test_app_comes_before_the_request(logging, expect, key):
    server = logging(*ALL)
    lines = lines_after(server, lambda: permit(server, key, "canWait=x"))
    expect([line["message"] for line in lines],
           gocc=["failed to parse canWait query parameter", "Bad Request"])
