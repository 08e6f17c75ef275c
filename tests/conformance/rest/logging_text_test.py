"""Section 4.5, and 1.8 about the log: lines as text, and those of the system's default. gocc's
output is the reference, also where its specification is silent.
Run: `run --binary PATH logging_text_test.py`."""

import re
import time

import pytest

from expectation import Like, by_first, named
from log_lines import HOUR, MARK, NO_SOURCE, TIME, logging, wait_and_leave  # noqa: F401
from rest_peer import ask, settles

pytestmark = pytest.mark.section("4.5")

PAIR = re.compile(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')


def text_lines(server, wanted, stderr=False):
    """The lines of text that contain `wanted`, once there is one."""
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


# The line of DELETE /rate/KEY/7?a=b with the headers below.
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
    # gocc shuffles the headers: checking one is enough.
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


def test_text_of_a_waiter_that_disappears(text_server, expect, key):
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
    """gocc ignores the switches for system-default."""
    server = system_default(*flags.split())
    ask(server, "POST", f"/rate/{key}", "X-B: 1")
    lines = text_lines(server, f"request.path=/rate/{key} ", stderr=True)
    expect(bool(lines), gocc=gocc, ours=bool(flags), topic="logs")
    if lines:
        expect(lines[0], gocc=Like(STAMP + r" INFO Incoming request request\.time=.*"), of="line")


@pytest.mark.parametrize("text, gocc, topic", [
    ("request.ip=127.0.0.1", True, "no address in the log"), ("request.header", False, None)])
def test_system_default_contains(system_default, expect, key, text, gocc, topic):
    server = system_default("--log2xx")
    ask(server, "POST", f"/rate/{key}", "X-B: 1")
    lines = text_lines(server, f"request.path=/rate/{key} ", stderr=True)
    expect(text in lines[0], gocc=gocc, ours=False, topic=topic)
