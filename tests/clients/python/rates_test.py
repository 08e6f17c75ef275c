"""Rates: the forms that people write, and mistakes, which show how a rate is written."""

import hypothesis
import pytest
from hypothesis import strategies

import sluicegate
from sluicegate import InvalidArgument, LimitExceeded, Rate, parse_rate


@pytest.mark.parametrize("text, requests, period", [
    ("5/minute", 5, 60), ("100 per 10 seconds", 100, 10), ("1000/hour", 1_000, 3_600),
    ("10/s", 10, 1), ("5/day", 5, 86_400), ("5 / 2 days", 5, 172_800), ("7/1.5h", 7, 5_400),
    ("3/10ms", 3, 0.01), ("1/365 days", 1, 31_536_000), (" 2 PER Minutes ", 2, 60),
    ("1000000000/second", 1_000_000_000, 1), ("4/ 30 sec", 4, 30), ("6 per 5min", 6, 300),
    ("9/20 milliseconds", 9, 0.02)])
def test_reads(text, requests, period):
    assert parse_rate(text) == Rate(requests, period)


@pytest.mark.parametrize("text", [
    "", "5", "/minute", "5/", "5/fortnight", "5 minute", "-5/minute", "5/-1 minute", "1.5/minute",
    "5/minute/hour", "5/1e3s", "5perminute2", "five/minute", "5/10", "٥/minute", "9" * 30 + "/s"])
def test_a_mistake_shows_how_a_rate_is_written(text):
    with pytest.raises(InvalidArgument, match='is no rate: write .* such as "5/minute"'):
        parse_rate(text)


@pytest.mark.parametrize("text, named", [
    ("0/minute", "requests must be 1 to 1000000000, not 0"),
    ("1000000001/s", "requests must be"), ("5/9ms", "period must be 0.01 to 31536000 seconds"),
    ("5/366 days", "period must be"), ("5/0 s", "period must be"),
    ("8/millisecond", "period must be")])
def test_names_the_bound_that_a_rate_breaks(text, named):
    with pytest.raises(LimitExceeded, match=named) as raised:
        parse_rate(text)
    assert text in str(raised.value) and "write a rate as" in str(raised.value)


@pytest.mark.parametrize("value", [5, None, b"5/minute", (5, 60)])
def test_refuses_other_types(value):
    with pytest.raises(sluicegate.InvalidType, match="rate must be a str or a Rate"):
        parse_rate(value)


@pytest.mark.parametrize("requests, period", [(0, 60), (1_000_000_001, 60), (5, 0.009),
                                              (5, 31_536_001), (1.5, 60), (5, "60")])
def test_a_rate_of_numbers_has_the_same_bounds(requests, period):
    with pytest.raises(InvalidArgument, match="requests|period"):
        Rate(requests, period)


def test_a_rate_stays_as_it_is():
    rate = Rate(5, 60)
    assert parse_rate(rate) is rate


@hypothesis.given(strategies.integers(1, 10**9), strategies.integers(10, 365 * 86_400_000))
def test_every_rate_in_milliseconds_is_read(requests, milliseconds):
    rate = parse_rate(f"{requests} per {milliseconds} ms")
    assert rate.requests == requests and round(rate.period * 1000) == milliseconds
