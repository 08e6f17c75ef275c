"""Section 4.5, and what 1.8 says of the log: where lines go, what they look like, and which are
written. What gocc prints is the measure, also where its specification says less.
Run: `run --binary PATH logging_test.py`."""

import datetime
import re
import struct
import time

import pytest

from expectation import Like, by_first, named
from http_peer import request
from rest_peer import Peer, ask, free_port, permit, release, settles, state_of, waiting
from target import StartFailed

pytestmark = pytest.mark.section("4.5")

HOUR = ("--window-millis", "3600000")
NO_SOURCE = "--log-includes-source=false"
ALL = (*HOUR, NO_SOURCE, "--log2xx", "--log4xx")
MARK = "X-Correlation-ID"
UUID4 = r"gcc-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


@pytest.fixture
def logging(shared, expect):
    """A server that several cases share; that it does not start is a difference."""
    def get(*flags):
        try:
            return shared(*flags)
        except StartFailed as failure:
            expect(failure.brief(), gocc="it starts", of=" ".join(flags))
    return get


def lines_after(server, action):
    """The JSON lines that `action` makes: all that come before those of a request behind it, and a
    moment later, as other cores may write later."""
    before = len(server.log)
    action()
    mark = f"end-{time.monotonic_ns()}"
    ask(server, "POST", "/rate/the-end?canWait=x", f"{MARK}: {mark}")
    came = settles(lambda: any(line.get("correlation-id") == mark
                               for line in server.log[before:]), 10)
    assert came, "a refused request is logged"
    time.sleep(0.05)
    return [line for line in server.log[before:]
            if line.get("correlation-id") != mark
            and line.get("request", {}).get("path") != "/rate/the-end"]


def of_requests(lines):
    return [line for line in lines if "response" in line]


def of_the_app(lines):
    return [line for line in lines if "response" not in line]


# -------------------------------------------------------------------------------- where lines go

def start_lines(server):
    """How many lines stand on stdout as JSON, on stdout as text, and on stderr."""
    settles(lambda: server.log or server.errors, 10)
    time.sleep(0.1)
    return [bool(count) for count in (len(server.log) - len(server.lines()), len(server.lines()),
                                      len(server.errors))]


def test_json_is_the_default_and_goes_to_stdout(start, expect):
    expect(start_lines(start(port=free_port())), gocc=[True, False, False])


def test_json_goes_to_stdout(start, expect):
    expect(start_lines(start("-l", "json", port=free_port())), gocc=[True, False, False])


def test_text_goes_to_stdout(start, expect):
    expect(start_lines(start("--log-format", "text", port=free_port())),
           gocc=[False, True, False])


def test_system_default_goes_to_stderr(start, expect):
    """gocc prints a banner on stdout as well."""
    expect(start_lines(start("--log-format", "system-default", port=free_port())),
           gocc=[False, True, True], ours=[False, False, True], topic="logs")


def test_address_that_is_no_json_with_port_0(start, expect):
    server = start()
    time.sleep(0.1)
    expect(len(server.lines()), gocc=1, ours=0, topic="logs")


# ----------------------------------------------------------------------------------- what is a line

def last_start_line(server):
    """With the port; gocc writes it when it serves already."""
    assert settles(lambda: any("port" in line for line in server.log), 10)
    return [line for line in server.log if "port" in line][-1]


def test_fields_in_their_order(start, expect):
    expect(list(last_start_line(start()))[:4], gocc=["time", "level", "source", "message"])


def test_fields_without_source(start, expect):
    expect(list(last_start_line(start(NO_SOURCE)))[:3], gocc=["time", "level", "message"])


def test_fields_of_all_lines(logging, expect, key):
    server = logging(*ALL)
    lines = lines_after(server, lambda: [permit(server, key, "maxRequests=x"),
                                         release(server, key), ask(server, "GET", "/none")])
    expect([list(line)[:3] for line in lines], gocc=[["time", "level", "message"]] * len(lines))
    expect(len(lines), gocc=5, of="number")


def test_source(start, expect):
    source = last_start_line(start())["source"]
    expect({name: type(value).__name__ for name, value in source.items()},
           gocc={"function": "str", "file": "str", "line": "int"})


def test_time(start, expect):
    expect(last_start_line(start())["time"], gocc=Like(TIME + r"\.\d{3}Z"))


def test_time_zone(start, expect, tmp_path):
    """In a zone nine hours ahead of UTC, given as a file as the system has them."""
    zone = tmp_path / "nine"
    zone.write_bytes(b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 0, 1, 4)
                     + struct.pack(">iBB", 9 * 3600, 0, 0) + b"NIN\0")
    line = last_start_line(start(environment={"TZ": str(zone)}))
    told = datetime.datetime.fromisoformat(line["time"].removesuffix("Z"))
    hours = (told - datetime.datetime.utcnow()).total_seconds() / 3600
    expect(round(hours), gocc=9, ours=0, topic="logs")


def test_last_start_line_has_the_port(start, expect):
    port = free_port()
    server = start(port=port)
    line = last_start_line(server)
    expect((line["level"], line["port"], line is server.log[-1]), gocc=("INFO", port, True))


def test_start_lines_tell_the_settings(start, expect):
    server = start("--max-requests", "4321", "--window-millis", "54321",
                   "--max-requests-in-queue", "65432")
    last_start_line(server)
    text = str([line for line in server.log if line.get("level") == "INFO"])
    expect([number in text for number in ("4321", "54321", "65432")], gocc=[True] * 3)


# ----------------------------------------------------------------------------------------- levels

@pytest.mark.parametrize("level, gocc", by_first([
    ("DEBUG", (True, True)), ("INFO", (True, True)), ("WARN", (False, True)),
    ("ERROR", (False, False))]))
def test_level(start, expect, key, level, gocc):
    """Whether INFO of the start, and WARN of a refused request, are written."""
    server = start("--log-level", level, port=free_port())
    permit(server, key, "canWait=x")

    def told():
        lines = list(server.log)
        return (any(line.get("level") == "INFO" for line in lines),
                any(line.get("key") == key for line in lines))
    settles(lambda: told() == gocc, 10)
    time.sleep(0.3)  # for what should not come
    expect(told(), gocc=gocc)


@pytest.mark.parametrize("level, gocc", [("DEBUG", True), ("INFO", False)])
def test_debug_lines(start, expect, key, level, gocc):
    server = start("--log-level", level, "--window-millis", "20")
    permit(server, key)
    assert settles(lambda: state_of(server, key) is None, 30)
    came = settles(lambda: any(line.get("level") == "DEBUG" for line in server.log),
                   10 if gocc else 0.3)
    expect(came, gocc=gocc)


@pytest.mark.parametrize("level, gocc, ours", by_first([("DEBUG", 1, 1), ("INFO", 1, 0)]))
def test_expiry_is_told(start, expect, key, level, gocc, ours):
    server = start("--log-level", level, "--window-millis", "20")
    began = ask(server, "POST", f"/rate/{key}")
    assert began.status == 200 and settles(lambda: state_of(server, f"{key}") is None, 30)

    def told():  # looking for it is told as well, with WARN
        return [line for line in server.log if line.get("key") == key and line["level"] != "WARN"
                and "tarted" not in line["message"]]
    settles(told, 10 if ours else 0.5)
    expect(len(told()), gocc=gocc, ours=ours, topic="logs")


# ------------------------------------------------------------------------------ lines of the app

REFUSED = [
    ("POST", "/rate/%20", "empty key provided", ""),
    ("POST", "/rate/KEY?canWait=x", "failed to parse canWait query parameter", "KEY"),
    ("GET", "/rate/%20KEY?maxRequests=x", "failed to parse maxRequests query parameter", "KEY"),
    ("POST", "/rate/KEY?maxRequestsInQueue=x",
     "failed to parse maxRequestsInQueue query parameter", "KEY"),
    ("POST", "/rate/KEY?maxRequests=0", "maxRequests out of bounds", "KEY"),
    ("POST", "/rate/KEY%20x?maxRequestsInQueue=-1", "maxRequestsInQueue out of bounds", "KEY x"),
    ("DELETE", "/rate/%20/1", "empty key provided", ""),
    ("DELETE", "/rate/KEY/%20", "empty id provided", "KEY"),
]
DISABLED = [
    ("POST", "/rate/KEY?maxRequests=1", "maxRequests query parameter is disabled", "KEY"),
    ("POST", "/rate/KEY?maxRequestsInQueue=1", "maxRequestsInQueue query parameter is disabled",
     "KEY")]


def check_refused(server, expect, key, method, target, message, told):
    lines = lines_after(server, lambda: ask(server, method, target.replace("KEY", key),
                                            f"{MARK}: abc"))
    wanted = {"level": "WARN", "message": message, "correlation-id": "abc",
              "key": told.replace("KEY", key)}
    expect([{name: value for name, value in line.items() if name not in ("time", "source")}
            for line in lines], gocc=[wanted])
    expect([name for line in lines for name in line if name not in ("source",)],
           gocc=["time", "level", "message", "correlation-id", "key"], of="order")


@pytest.mark.parametrize("method, target, message, told", REFUSED,
                         ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_refused_request_is_told(logging, expect, key, method, target, message, told):
    check_refused(logging(*HOUR), expect, key, method, target, message, told)


@pytest.mark.parametrize("method, target, message, told", DISABLED,
                         ids=[f"{row[0]} {row[1]}" for row in DISABLED])
def test_request_with_a_disabled_parameter_is_told(logging, expect, key, method, target, message,
                                                   told):
    server = logging(*HOUR, "--requests-can-set-rate=false", "--requests-can-mod-queue=false")
    check_refused(server, expect, key, method, target, message, told)


@pytest.mark.section("1.8")
@pytest.mark.parametrize("headers, gocc", named([
    ("none", [], Like(UUID4)), ("empty", [f"{MARK}:"], Like(UUID4)),
    ("given", [f"{MARK}: a b-ü\"\\"], 'a b-ü"\\'),
    ("lower case", ["x-correlation-id: abc"], "abc"),
    ("twice", [f"{MARK}: abc", f"{MARK}: def"], "abc")]))
def test_correlation_id(logging, expect, key, headers, gocc):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: ask(server, "POST", f"/rate/{key}?canWait=x", *headers))
    expect([line.get("correlation-id") for line in lines], gocc=[gocc])


@pytest.mark.section("1.8")
def test_made_up_correlation_ids_differ(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: [permit(server, key, "canWait=x") for _ in range(5)])
    expect(len({line["correlation-id"] for line in lines}), gocc=5)


def test_release_of_an_unknown_key_is_told(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: ask(server, "DELETE", f"/rate/{key}/1", f"{MARK}: abc"))
    expect([(line["level"], line.get("key"), line.get("correlation-id")) for line in lines],
           gocc=[("WARN", key, "abc")])
    expect([line["message"] for line in lines],
           gocc=["Received release request for unknown instance"], of="words")


def test_look_at_an_unknown_key_is_told_twice(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: ask(server, "GET", f"/debug/{key}", f"{MARK}: abc"))
    expect([(line["level"], line.get("key"), "correlation-id" in line) for line in lines],
           gocc=[("WARN", key, False)] * 2)
    expect([line["message"] for line in lines],
           gocc=["Received debug snapshot request for unknown instance", "Instance not found"],
           of="words")


def wait_and_leave(server, key):
    permit(server, key, "maxRequests=1")
    peer = Peer(server)
    peer.send(request("POST", f"/rate/{key}?canWait=true", f"{MARK}: abc"))
    assert settles(lambda: waiting(server, key) == 1, 30)
    peer.close()
    assert settles(lambda: waiting(server, key) == 0, 30)


def test_vanished_waiter_is_told(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: wait_and_leave(server, key))
    expect([(line["level"], line.get("key"), line.get("correlation-id")) for line in lines],
           gocc=[("WARN", key, "abc")])
    expect([line["message"] for line in lines], of="words", gocc=[
        "client gave up on request. context cancelled before receiving response"])


@pytest.mark.parametrize("what", ["an approval", "a denial", "a release", "404", "405", "a look",
                                  "a bad escape"])
def test_nothing_is_told_of(logging, expect, key, what):
    server = logging(*HOUR)
    permit(server, key, "maxRequests=1")
    method, target = {
        "an approval": ("POST", f"/rate/{key}other"), "a denial": ("POST", f"/rate/{key}"),
        "a release": ("DELETE", f"/rate/{key}/1"), "404": ("GET", "/none"),
        "405": ("PUT", f"/rate/{key}"), "a look": ("GET", f"/debug/{key}"),
        "a bad escape": ("GET", "/rate/%zz")}[what]
    expect(lines_after(server, lambda: ask(server, method, target)), gocc=[])


# ------------------------------------------------------------------------------ lines of requests

CASES = ["200", "204", "400", "404 of a key", "404", "405", "429", "499"]


def one_of_each(server, key):
    """A request for each of CASES, and where it asks."""
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
    told = [name for name in CASES
            if any(line["request"]["path"] == paths[name]
                   and line["response"]["status"] == int(name[:3]) for line in lines)]
    expect(", ".join(told), gocc=", ".join(gocc), ours=", ".join(ours), topic="logs")


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
    asked, told = line["request"], line["response"]
    expect(list(asked), of="request", gocc=[
        "time", "method", "host", "path", "query", "params", "route", "referer", "length",
        "header"])
    expect(list(told), gocc=["time", "latency", "status", "length"], of="response")
    expect({name: asked[name] for name in asked if name not in ("time", "header")}, of="values",
           gocc={"method": "POST", "host": "localhost", "path": f"/rate/{key}",
                 "query": "maxRequests=5&x=%20", "params": {"key": key}, "route": "/rate/:key",
                 "referer": "http://a/b", "length": 0})
    expect(told["status"], gocc=200, of="status")


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
    told = {name: value.replace(key, "KEY") for name, value in asked["params"].items()}
    expect((asked["route"], told, asked["path"].replace(key, "KEY")), gocc=(route, params, path))


@pytest.mark.parametrize("path, told, ours", by_first([
    ("%41%20KEY", "%41%20KEY", "A KEY"), ("%20KEY", " KEY", " KEY")]))
def test_params_are_not_trimmed(logging, expect, key, path, told, ours):
    asked = line_of(logging(*ALL), "POST", f"/rate/{path.replace('KEY', key)}")["request"]
    expect(asked["params"]["key"].replace(key, "KEY"), gocc=told, ours=ours, topic="key decoding")


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
    """Their names as Go writes them, each with all its values; Host is not among them."""
    told = line_of(logging(*ALL), "POST", f"/rate/{key}", "Accept: a/b, c/d", "x-a: 1",
                   "X-A: 2", "user-AGENT: me", "X-EMPTY:")["request"]["header"]
    expect(told, gocc={"Accept": ["a/b, c/d"], "X-A": ["1", "2"], "User-Agent": ["me"],
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


# ------------------------------------------------------------------------------------------- text

PAIR = re.compile(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')


def text_lines(server, wanted, stderr=False):
    """The lines of text that contain `wanted`, once one is there."""
    def found():
        return [line.rstrip("\n") for line in (server.errors if stderr else server.lines())
                if wanted in line]
    settles(found, 5)
    time.sleep(0.05)
    return found()


@pytest.fixture
def text_server(logging):
    return logging(*HOUR, NO_SOURCE, "-l", "text", "--log2xx", "--log4xx")


def test_text_of_the_start(start, expect):
    server = start("-l", "text")
    lines = text_lines(server, f" port={server.port}")
    line = re.sub(r'message=("[^"]*"|\w+)', "message=M", lines[-1])
    expect(line, gocc=Like(rf"time={TIME}\.\d{{3}}Z level=INFO source=\S+:\d+ message=M (.* )?"
                           rf"port={server.port}( .*)?"))


def test_text_of_the_app(text_server, expect, key):
    ask(text_server, "POST", f"/rate/{key}%22x?canWait=x", f'{MARK}: c d"e')
    lines = text_lines(text_server, rf'key="{key}\"x"')
    expect(lines[0] if lines else "", gocc=Like(
        rf"time={TIME}\.\d{{3}}Z level=WARN message=\"failed to parse canWait query parameter\" "
        r'correlation-id="c d\\"e" key="' + re.escape(f'{key}\\"x') + '"'))


@pytest.mark.parametrize("path, gocc", by_first([
    ("plain", "plain"), ("a%20b", '"a b"'), ("a=b", '"a=b"'), ("%C3%A5", "å"), ("%22", r'"\""'),
    ("a%5Cb", r"a\b"), ("a%0Ab", r'"a\nb"'), ("%01", r'"\x01"'), ("%FF", r'"\xff"'),
    ("%7F", "\x7f"), ("a%C2%A0b", r'"a\u00a0b"'), ("a:b@c", "a:b@c")]))
def test_quotes(text_server, expect, key, path, gocc):
    ask(text_server, "POST", f"/rate/{path}?canWait=x", f"{MARK}: {key}")
    lines = text_lines(text_server, f"correlation-id={key} ")
    expect(lines[-1].split(" key=")[-1] if lines else "", gocc=gocc)


# Of DELETE /rate/KEY/7?a=b with the headers below.
REQUEST_PAIRS = [
    ("time", Like(TIME + r"\.\d{3}Z")), ("level", "INFO"), ("message", '"Incoming request"'),
    ("request.time", Like(TIME + r"\.\d{3}Z")), ("request.method", "DELETE"),
    ("request.host", "localhost"), ("request.path", "/rate/KEY/7"), ("request.query", '"a=b"'),
    ("request.params", '"map[id:7 key:KEY]"'), ("request.route", "/rate/:key/:id"),
    ("request.referer", '""'), ("request.length", "0"), ("request.header.X-B", '"[1 2 3]"'),
    ("response.time", Like(TIME + r"\.\d{3}Z")),
    ("response.latency", Like(r"[\d.]+(ns|µs|ms|s)")), ("response.status", "200"),
    ("response.length", "0"), ("id", '"i d"')]


@pytest.fixture
def text_of_a_request(text_server, key):
    ask(text_server, "DELETE", f"/rate/{key}/7?a=b", "X-B: 1 2", "X-B: 3", "Cookie: secret",
        "X-Request-Id: i d")
    lines = text_lines(text_server, f"request.path=/rate/{key}/7 ")
    line = lines[0] if lines else ""
    line = line.replace(key, "KEY")
    # gocc shuffles the headers: one is enough.
    return re.sub(r'request\.header\.X-Request-Id=("[^"]*"|\[[^]]*\]) ', "", line)


def pairs_of(line):
    return dict(PAIR.findall(line))


def test_names_in_the_text_of_a_request(text_of_a_request, expect):
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text_of_a_request)
    names = re.findall(r"(?:^| )([\w.-]+)=", bare)
    expect(" ".join(names), gocc=" ".join(name for name, _ in REQUEST_PAIRS))


@pytest.mark.parametrize("name, value", by_first(REQUEST_PAIRS))
def test_text_of_a_request(text_of_a_request, expect, name, value):
    expect(pairs_of(text_of_a_request).get(name), gocc=value)


@pytest.mark.parametrize("method, path, error", named([
    ("404", "GET", "/KEY", "code:404 internal:<nil> message:Not Found"),
    ("405", "PUT", "/rate/KEY", "code:405 internal:<nil> message:Method Not Allowed")]))
def test_text_of_an_error(text_server, expect, key, method, path, error):
    path = path.replace("KEY", key)
    ask(text_server, method, path)
    lines = text_lines(text_server, f"request.path={path} ")
    expect(pairs_of(lines[0] if lines else "").get("error"), gocc=f'"map[{error}]"')


def test_text_of_a_vanished_waiter(text_server, expect, key):
    wait_and_leave(text_server, key)
    lines = text_lines(text_server, f"request.path=/rate/{key} request.query=\"canWait")
    expect(lines[0] if lines else "", gocc=Like(r'.* level=WARN message="" .*status=499 .*'))


# --------------------------------------------------------------------------------- system-default

@pytest.fixture
def system_default(start):
    return lambda *flags: start(*HOUR, "-l", "system-default", *flags)


STAMP = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


def test_system_default_line(system_default, expect, key):
    server = system_default()
    ask(server, "POST", f"/rate/{key}?canWait=x", f"{MARK}: a b")
    lines = text_lines(server, "canWait query", stderr=True)
    expect(lines[0] if lines else "", gocc=Like(
        STAMP + r' WARN failed to parse canWait query parameter correlation-id="a b" key='
        + re.escape(key)))


@pytest.mark.parametrize("flags, gocc", by_first([("", True), ("--log2xx", True)]))
def test_system_default_of_requests(system_default, expect, key, flags, gocc):
    """gocc ignores the switches there."""
    server = system_default(*flags.split())
    ask(server, "POST", f"/rate/{key}", "X-B: 1")
    lines = text_lines(server, f"request.path=/rate/{key} ", stderr=True)
    expect(bool(lines), gocc=gocc, ours=bool(flags), topic="logs")
    if lines:
        expect(lines[0], gocc=Like(STAMP + r" INFO Incoming request request\.time=.*"), of="line")


@pytest.mark.parametrize("text, gocc, topic", [
    ("request.ip=127.0.0.1", True, "no address in the log"), ("request.header", False, None)])
def test_system_default_tells(system_default, expect, key, text, gocc, topic):
    server = system_default("--log2xx")
    ask(server, "POST", f"/rate/{key}", "X-B: 1")
    lines = text_lines(server, f"request.path=/rate/{key} ", stderr=True)
    expect(text in lines[0], gocc=gocc, ours=False, topic=topic)
