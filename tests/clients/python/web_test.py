"""The parts that all web integrations share, by themselves.

Method: an outage on a clock of its own; answers of scripted servers; options, keys and header
fields without any server.
"""

import asyncio
import inspect
import logging

import pytest
from fake_server import FakeServer, unused_address
from server_process import TIMEOUT_S, eventually

import sluicegate
from sluicegate import InvalidArgument, KeyOutcome, Rate, Verdict
from sluicegate._web import (DENYING, LimitOptions, WebLimit, WebRequest, bounded_key, names_json,
                             whole_seconds, without_port)
from sluicegate._web_gates import PAUSE_S, AsyncGate, Gate, Outage


def request(path="/", peer="10.0.0.1", trusted_proxies=0, **headers):
    return WebRequest(None, "GET", path, peer,
                      {name.replace("_", "-"): value for name, value in headers.items()}.get,
                      trusted_proxies)


# ---- options -------------------------------------------------------------------------------------

@pytest.mark.parametrize("options, text", [
    ({"key": ""}, "key is empty"), ({"key": 5}, "key must be a format"),
    ({"key": "{client"}, "is no format"), ({"key": "{user}"}, r"names \{user\}: there are"),
    ({"key": "{}"}, r"names \{\}"), ({"key": "{client!r}"}, r"names \{client\}"),
    ({"key": "{client:>9}"}, r"names \{client:>9\}"), ({"key": "{header}"}, r"names \{header\}"),
    ({"key": "{header:X Key}"}, r"names \{header:X Key\}"),
    ({"rate": "5"}, "is no rate"), ({"cost": -1}, "cost must be"),
    ({"cost": 6, "rate": "5/s"}, "cost 6 is above"),
    ({"exempt": "/healthz"}, "exempt is one path"), ({"exempt": ["healthz"]}, "begins with /"),
    ({"exempt": [5]}, "begins with /"),
    ({"trusted_proxies": -1}, "trusted_proxies must be 0 to"),
    ({"trusted_proxies": True, "on_failure": "error"}, "on_failure must be one of open, closed"),
    ({"timeout": 0}, "timeout must be 0.001 to"), ({"timeout": None}, "timeout must be a number"),
    ({"wait": True}, "wait is given without wait_limit"),
    ({"wait_limit": 1}, "wait_limit is given without wait"),
    ({"wait": True, "wait_limit": -1}, "wait_limit must be"),
    ({"name": ""}, "name must be"), ({"name": 'a"b'}, "name must be"),
    ({"name": None}, "name must be")])
def test_mistakes_raise_when_a_limit_is_made(options, text):
    with pytest.raises(InvalidArgument, match=text):
        WebLimit(**({"key": "{client}"} | options))


def test_integrations_take_every_option():
    parameters = inspect.signature(WebLimit).parameters.values()
    assert set(LimitOptions.__annotations__) == {
        parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def test_the_timeout_of_a_wait_begins_at_its_end():
    assert WebLimit("a").question(request()).arguments["timeout"] == 0.25
    asked = WebLimit("a", Rate(5, 60), wait=True, wait_limit=2, timeout=0.5).question(request())
    assert asked.arguments == {"cost": 1, "wait": True, "wait_limit": 2, "timeout": 2.5,
                               "max_requests": 5, "window": 60}


# ---- keys ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("key, expected", [
    ("all", b"all"), ("{{client}}", b"{client}"), ("a:{client}:{method}", b"a:10.0.0.1:GET"),
    ("{path}", "/grün".encode()), ("{header:x-key}", b"k"), ("{header:other}", b"-"),
    (lambda request: b"\xff", b"\xff"), (lambda request: "", b"-"),
    (lambda request: "\ud800", b"\\ud800")])
def test_keys(key, expected):
    asked = WebLimit(key).question(request("/grün", **{"x-key": "k"}))
    assert asked.key == expected


def test_a_key_of_another_type_is_a_mistake():
    with pytest.raises(sluicegate.InvalidType, match="key returned 5"):
        WebLimit(lambda request: 5).question(request())


def test_long_keys_stay_apart_and_fit():
    keys = {bounded_key("x" * size) for size in (255, 256, 257, 258, 100_000)}
    assert len(keys) == 5 and max(map(len, keys)) == 256


@pytest.mark.parametrize("path, is_exempt", [
    ("/healthz", True), ("/healthz/", False), ("/healthz2", False), ("/static/", True),
    ("/static/a/b", True), ("/static", False), ("/", False)])
def test_exempt_paths(path, is_exempt):
    limit = WebLimit("all", exempt=iter(["/healthz", "/static/*"]))
    assert (limit.question(request(path)) is None) == is_exempt


@pytest.mark.parametrize("proxies, forwarded, client", [
    (0, "1.1.1.1", "10.0.0.1"), (1, "1.1.1.1", "1.1.1.1"), (1, "forged, 1.1.1.1", "1.1.1.1"),
    (2, "1.1.1.1,10.9.9.9", "1.1.1.1"), (2, "10.9.9.9", "10.0.0.1"), (1, "", "10.0.0.1"),
    (1, "forged, ", "10.0.0.1")])
def test_the_client_behind_proxies(proxies, forwarded, client):
    assert request(trusted_proxies=proxies, **{"X-Forwarded-For": forwarded}).client == client


@pytest.mark.parametrize("address, host", [
    ("1.1.1.1", "1.1.1.1"), ("1.1.1.1:80", "1.1.1.1"), ("::1", "::1"), ("[::1]", "::1"),
    ("[::1]:80", "::1"), ("2001:db8::80", "2001:db8::80")])
def test_addresses_lose_their_port(address, host):
    assert without_port(address) == host


# ---- answers -------------------------------------------------------------------------------------

def fields(answer):
    return dict(answer.fields)


def test_every_verdict_lets_pass_denies_or_is_a_failure():
    limit = WebLimit("all")
    answers = {verdict: limit.answer(KeyOutcome(verdict)) for verdict in Verdict}
    assert [verdict for verdict, answer in answers.items() if answer and not answer.denies] == [
        Verdict.APPROVED]
    assert {verdict for verdict, answer in answers.items() if answer and answer.denies} == DENYING
    assert answers[Verdict.APPROVED_BY_POLICY] is None
    assert answers[Verdict.TABLE_FULL] is None and answers[Verdict.OVERLOADED] is None


@pytest.mark.parametrize("verdict, status, text", [
    (Verdict.NEVER_FITS, 429, "This request costs more than the limit allows.")])
def test_a_denial_that_lasts_has_no_time_to_retry(verdict, status, text):
    """Its figures may be those of a limit that nobody asked for."""
    answer = WebLimit("all", "5/minute").answer(KeyOutcome(verdict, 100, 3_600.0, 100, 0.0, None))
    assert (answer.status, answer.fields, answer.detail) == (status, (), text)
    assert answer.response(request()).status == status


@pytest.mark.parametrize("retry_after, reset, seconds", [
    (0.0, 0.0, "1"), (None, None, "1"), (0.2, 0.5, "1"), (2.0, 9.0, "2"), (2.001, 9.0, "3"),
    (None, 11.5, "12")])
def test_retry_after_is_whole_and_at_least_a_second(retry_after, reset, seconds):
    outcome = KeyOutcome(Verdict.DENIED, 5, 60.0, 0, reset, retry_after)
    assert fields(WebLimit("all").answer(outcome))["Retry-After"] == seconds


def test_fields_of_the_draft():
    outcome = KeyOutcome(Verdict.APPROVED, 5, 0.5, 2, 11.1)
    assert fields(WebLimit("all", name="per second").answer(outcome)) == {
        "RateLimit-Policy": '"per second";q=5;w=1', "RateLimit": '"per second";r=2;t=12'}
    assert fields(WebLimit("all").answer(KeyOutcome(Verdict.APPROVED))) == {}


def test_whole_seconds_forgives_what_a_float_cannot_say():
    assert [whole_seconds(number) for number in (0, 3 * 1.1 - 0.3, 3.001, 60)] == [0, 3, 4, 60]


@pytest.mark.parametrize("accept, wants_json", [
    ("", False), ("*/*", False), ("text/html", False), ("application/json", True),
    ("text/html, Application/JSON ; q=0.5", True), ("application/problem+json", True),
    ("application/json;q=0", False), ("application/json; q=0.00", False),
    ("application/jsonish", False)])
def test_who_gets_json(accept, wants_json):
    assert names_json(accept) == wants_json


# ---- outages -------------------------------------------------------------------------------------

class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def levels(caplog):
    """Of the lines about outages."""
    return [record.levelname for record in caplog.records if "on_failure" in record.message]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "sluicegate")
    return caplog


def test_an_outage_is_logged_once_at_its_begin_and_its_end(log):
    outage = Outage("node-1:8081", Clock())
    for _ in range(2):
        for _ in range(3):
            assert outage.may_ask()
            outage.failed("the cause", timed_out=False)
        outage.ended()
        outage.ended()
    assert levels(log) == ["WARNING", "INFO"] * 2
    assert "node-1:8081" in log.text and "the cause" in log.text
    assert "decided 3 requests" in log.text


def test_after_a_time_out_one_request_a_second_tries(log):
    clock = Clock()
    outage = Outage("node-1:8081", clock)
    outage.failed("no answer", timed_out=True)
    assert [outage.may_ask() for _ in range(2)] == [False, False]
    clock.now += PAUSE_S
    assert [outage.may_ask() for _ in range(2)] == [True, False]
    clock.now += PAUSE_S
    assert outage.may_ask()
    outage.ended()
    assert [outage.may_ask() for _ in range(3)] == [True] * 3
    assert "decided 4 requests" in log.text


def hangs_up(peer):
    peer.welcome()
    peer.read("acquire")


def approves(peer):
    peer.welcome()
    peer.verdicts(peer.read("acquire"))


def test_a_gate_asks_again_after_a_loss(log):
    with FakeServer(hangs_up, approves) as server:
        gate = Gate(server.address)
        limit = WebLimit("all", on_failure="closed", timeout=TIMEOUT_S)
        assert gate.ask(limit, request()).status == 503
        eventually(lambda: not gate.ask(limit, request()).denies, "the next connection decides")
        gate.close()
    assert levels(log) == ["WARNING", "INFO"]


def test_an_asynchronous_gate_asks_again_after_a_loss(log):
    async def main(address):
        gate = AsyncGate(address)
        limit = WebLimit("all", on_failure="closed", timeout=TIMEOUT_S)
        assert (await gate.ask(limit, request())).status == 503
        while (await gate.ask(limit, request())).denies:
            await asyncio.sleep(0.01)
        await gate.close()
    with FakeServer(hangs_up, approves) as server:
        asyncio.run(main(server.address))
    assert levels(log) == ["WARNING", "INFO"]


def test_a_closed_client_is_an_outage(log):
    client = sluicegate.Client(unused_address())
    client.close()
    assert not Gate(client).ask(WebLimit("all"), request()).denies
    assert levels(log) == ["WARNING"]


def test_a_client_of_another_loop_is_a_mistake():
    gate, limit = AsyncGate(sluicegate.AsyncClient(unused_address())), WebLimit("all")
    asyncio.run(gate.ask(limit, request()))
    with pytest.raises(sluicegate.SluicegateError, match="another event loop"):
        asyncio.run(gate.ask(limit, request()))


def test_clients_of_closed_loops_are_forgotten():
    gate, limit = AsyncGate(unused_address()), WebLimit("all")
    for _ in range(3):
        asyncio.run(gate.ask(limit, request()))
    assert len(gate._own) == 1
