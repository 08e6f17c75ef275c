"""Section 4.5, and 1.8 about the log: the output of lines, their format, the levels written, and
the lines of refused requests. gocc's output is the reference, also where its specification is
silent. Run: `run --binary PATH logging_test.py`."""

import datetime
import struct
import time

import pytest

from expectation import Like, by_first, named
from log_lines import (ALL, HOUR, MARK, NO_SOURCE, TIME, lines_after, logging,  # noqa: F401
                       wait_and_leave)
from rest_peer import ask, free_port, permit, release, settles, state_of

pytestmark = pytest.mark.section("4.5")

UUID4 = r"gcc-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


# -------------------------------------------------------------------------------- where lines go

def start_lines(server):
    """The number of lines on stdout as JSON, on stdout as text, and on stderr."""
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


# ------------------------------------------------------------------------------ format of a line

def last_start_line(server):
    """The line with the port; gocc writes it when it already serves."""
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
    """In a zone nine hours ahead of UTC, given as a file like those of the system."""
    zone = tmp_path / "nine"
    zone.write_bytes(b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 0, 1, 4)
                     + struct.pack(">iBB", 9 * 3600, 0, 0) + b"NIN\0")
    line = last_start_line(start(environment={"TZ": str(zone)}))
    logged = datetime.datetime.fromisoformat(line["time"].removesuffix("Z"))
    hours = (logged - datetime.datetime.utcnow()).total_seconds() / 3600
    expect(round(hours), gocc=9, ours=0, topic="logs")


def test_last_start_line_has_the_port(start, expect):
    port = free_port()
    server = start(port=port)
    line = last_start_line(server)
    expect((line["level"], line["port"], line is server.log[-1]), gocc=("INFO", port, True))


def test_start_lines_have_the_settings(start, expect):
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
    """Whether the server writes INFO of the start and WARN of a refused request."""
    server = start("--log-level", level, port=free_port())
    permit(server, key, "canWait=x")

    def logged():
        lines = list(server.log)
        return (any(line.get("level") == "INFO" for line in lines),
                any(line.get("key") == key for line in lines))
    settles(lambda: logged() == gocc, 10)
    time.sleep(0.3)  # time for lines that should not appear
    expect(logged(), gocc=gocc)


@pytest.mark.parametrize("level, gocc", [("DEBUG", True), ("INFO", False)])
def test_debug_lines(start, expect, key, level, gocc):
    server = start("--log-level", level, "--window-millis", "20")
    permit(server, key)
    assert settles(lambda: state_of(server, key) is None, 30)
    came = settles(lambda: any(line.get("level") == "DEBUG" for line in server.log),
                   10 if gocc else 0.3)
    expect(came, gocc=gocc)


@pytest.mark.parametrize("level, gocc, ours", by_first([("DEBUG", 1, 1), ("INFO", 1, 0)]))
def test_expiry_is_logged(start, expect, key, level, gocc, ours):
    server = start("--log-level", level, "--window-millis", "20")
    began = ask(server, "POST", f"/rate/{key}")
    assert began.status == 200 and settles(lambda: state_of(server, f"{key}") is None, 30)

    def logged():  # state_of() causes a line as well, with WARN
        return [line for line in server.log if line.get("key") == key and line["level"] != "WARN"
                and "tarted" not in line["message"]]
    settles(logged, 10 if ours else 0.5)
    expect(len(logged()), gocc=gocc, ours=ours, topic="logs")


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


def check_refused(server, expect, key, method, target, message, logged_key):
    lines = lines_after(server, lambda: ask(server, method, target.replace("KEY", key),
                                            f"{MARK}: abc"))
    wanted = {"level": "WARN", "message": message, "correlation-id": "abc",
              "key": logged_key.replace("KEY", key)}
    expect([{name: value for name, value in line.items() if name not in ("time", "source")}
            for line in lines], gocc=[wanted])
    expect([name for line in lines for name in line if name not in ("source",)],
           gocc=["time", "level", "message", "correlation-id", "key"], of="order")


@pytest.mark.parametrize("method, target, message, logged_key", REFUSED,
                         ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_refused_request_is_logged(logging, expect, key, method, target, message, logged_key):
    check_refused(logging(*HOUR), expect, key, method, target, message, logged_key)


@pytest.mark.parametrize("method, target, message, logged_key", DISABLED,
                         ids=[f"{row[0]} {row[1]}" for row in DISABLED])
def test_disabled_parameter_is_logged(logging, expect, key, method, target, message, logged_key):
    server = logging(*HOUR, "--requests-can-set-rate=false", "--requests-can-mod-queue=false")
    check_refused(server, expect, key, method, target, message, logged_key)


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


def test_release_of_an_unknown_key_is_logged(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: ask(server, "DELETE", f"/rate/{key}/1", f"{MARK}: abc"))
    expect([(line["level"], line.get("key"), line.get("correlation-id")) for line in lines],
           gocc=[("WARN", key, "abc")])
    expect([line["message"] for line in lines],
           gocc=["Received release request for unknown instance"], of="words")


def test_debug_of_an_unknown_key_is_logged_twice(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: ask(server, "GET", f"/debug/{key}", f"{MARK}: abc"))
    expect([(line["level"], line.get("key"), "correlation-id" in line) for line in lines],
           gocc=[("WARN", key, False)] * 2)
    expect([line["message"] for line in lines],
           gocc=["Received debug snapshot request for unknown instance", "Instance not found"],
           of="words")


def test_waiter_that_disappears_is_logged(logging, expect, key):
    server = logging(*HOUR)
    lines = lines_after(server, lambda: wait_and_leave(server, key))
    expect([(line["level"], line.get("key"), line.get("correlation-id")) for line in lines],
           gocc=[("WARN", key, "abc")])
    expect([line["message"] for line in lines], of="words", gocc=[
        "client gave up on request. context cancelled before receiving response"])


@pytest.mark.parametrize("what", ["an approval", "a denial", "a release", "404", "405", "a look",
                                  pytest.param("a bad escape", marks=pytest.mark.gocc_http1(
                                      "resets streams whose paths it cannot read"))])
def test_no_line_for(logging, expect, key, what):
    server = logging(*HOUR)
    permit(server, key, "maxRequests=1")
    method, target = {
        "an approval": ("POST", f"/rate/{key}other"), "a denial": ("POST", f"/rate/{key}"),
        "a release": ("DELETE", f"/rate/{key}/1"), "404": ("GET", "/none"),
        "405": ("PUT", f"/rate/{key}"), "a look": ("GET", f"/debug/{key}"),
        "a bad escape": ("GET", "/rate/%zz")}[what]
    expect(lines_after(server, lambda: ask(server, method, target)), gocc=[])
