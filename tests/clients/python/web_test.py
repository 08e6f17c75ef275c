"""The parts that all web integrations share, by themselves.

Method: options, keys, answers and header fields without any server.
"""

import inspect

import pytest

import sluicegate
from sluicegate import InvalidArgument, KeyOutcome, Rate, Verdict
from sluicegate._key_bytes import bounded
from sluicegate._web import (DENYING, LimitOptions, WebLimit, WebRequest, names_json,
                             whole_seconds, without_port)


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
    for most in (20, 256):
        keys = {bounded(b"x" * size, most) for size in (most - 1, most, most + 1, 100_000)}
        assert len(keys) == 4 and max(map(len, keys)) == most
    assert len(bounded(b"xx", 1)) == 1


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
    (Verdict.NEVER_FITS, 429, "This request costs more than the limit allows."),
    (Verdict.INVALID_KEY, 400, "The key of this request's limit is too long.")])
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
