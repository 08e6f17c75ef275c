"""Quota values agree with the schema, the server and the JSON of the REST API."""

import json
import re

import pytest
from native_peer import ROOT, SCHEMA

from sluicegate import (Limit, LimitState, Quota, QuotaCode, QuotaResults, Stats,
                        estimate_tokens, quota)
from sluicegate._quota_arguments import reservation_id
from sluicegate._quota_frames import LimitText, QuotaText
from sluicegate._quota_requests import SETTLE, QuotaTerms

CPP = (ROOT / "src" / "api" / "quota.cpp").read_text()
MADE_HERE = {"KEPT", "INVALID_TOKENS", "UNKNOWN", "ADMITTED_BY_POLICY", "DENIED_BY_POLICY"}


def snake(name):
    return re.sub("([A-Z])", r"_\1", name).lower()


def test_codes_equal_the_schemas():
    codes = {snake(name): n for name, n in SCHEMA.QuotaCode.schema.enumerants.items()}
    assert {str(code): int(code) for code in QuotaCode if code.name not in MADE_HERE} == codes
    assert min(QuotaCode[name] for name in MADE_HERE) > 2 * max(codes.values())


def test_names_and_reasons_equal_the_servers():
    rows = re.findall(r'\{"(\w+)",\s*((?:"[^"]*"\s*)+)\}', CPP)
    texts = {name: "".join(re.findall(r'"([^"]*)"', parts)) for name, parts in rows}
    assert {str(code): code.reason for code in QuotaCode if code.name not in MADE_HERE} == texts
    assert all(QuotaCode[name].reason for name in MADE_HERE)


def test_admitting_and_retryable_codes():
    assert {code.name for code in QuotaCode if code} == {
        "OK", "UNLIMITED", "UNKNOWN_SUBJECT_ALLOWED", "ADMITTED_BY_POLICY"}
    retryable = {code.name for code in QuotaCode if code.retryable}
    assert {"RPD_EXCEEDED", "TPM_EXCEEDED", "QUEUE_AHEAD", "WAIT_LIMIT", "DRAINING",
            "SUBJECTS_FULL", "NOT_DURABLE", "MEMORY_ONLY", "OWNER_UNREACHABLE",
            "FAILED_CLOSED", "DENIED_BY_POLICY"} <= retryable
    assert not retryable & {"OK", "QUEUED", "WITHDRAWN", "ID_IN_USE", "EXCEEDS_LIMIT", "BLOCKED",
                            "UNKNOWN", "UNKNOWN_SUBJECT", "INVALID_QUOTA"}


@pytest.mark.parametrize("words, enum", [
    (quota.METRICS, "Metric"), (quota.KINDS, "LimitKind"), (quota.CEILINGS, "Ceiling"),
    (quota.UNITS, "CalendarUnit"), (quota.SOURCES, "QuotaSource")])
def test_words_equal_the_schemas(words, enum):
    numbers = {snake(name): n for name, n in getattr(SCHEMA, enum).schema.enumerants.items()}
    if enum == "QuotaSource":
        numbers["default"] = numbers.pop("file_default")  # `default` is a keyword of C++
    assert numbers == {word: n for n, word in enumerate(words)}


def test_a_limit_equals_its_json():
    limit = Limit(**{"name": "tpm", "metric": "tokens", "amount": 30_000, "period": 60})
    assert limit.kind == "sliding"
    assert limit.as_text() == LimitText("tpm", 3, 2, 0, 0, 30_000, 60_000, "", False)
    assert Limit("c", "concurrency", 4).as_text() == LimitText("c", 5, 0, 0, 0, 4, 0, "", False)
    assert Limit("d", "requests", 0, kind="rolling_day").as_text().period_ms == 86_400_000
    assert Limit("m", "cost", "unlimited", kind="calendar", period="month").as_text() == LimitText(
        "m", 4, 6, 1, 4, 0, 0, "UTC", False)


@pytest.mark.parametrize("wrong", [
    {"name": ""}, {"name": "é" * 17}, {"metric": "cost", "count_cached": True},
    {"metric": "words"}, {"kind": "concurrency"}, {"kind": "weekly"}, {"amount": -1},
    {"amount": 2**63}, {"amount": "some"}, {"period": 0.009}, {"period": 0},
    {"period": 365 * 86_400 + 0.001}, {"time_zone": "UTC"}, {"period": "day"},
    {"kind": "calendar", "period": 0}, {"kind": "calendar", "period": "year"},
    {"kind": "anchored_day"}, {"metric": "concurrency"}, {"metric": "concurrency", "period": 0,
                                                          "kind": "fixed"}])
def test_rejects_limits_that_a_server_would_reject(wrong):
    good = {"name": "tpm", "metric": "tokens", "amount": 1, "period": 60}
    Limit(**good)
    with pytest.raises(ValueError):
        Limit(**good | wrong)


def test_a_quota_survives_a_round_trip():
    put = Quota((Limit("tpm", "tokens", 5, 60), Limit("c", "concurrency", "block"),
                 Limit("h", "tokens", "unlimited", kind="calendar", period="hour",
                       time_zone="Europe/Berlin", count_cached=True)), "refund", 7)
    assert quota.quota_from_text(put.as_text(), 1) == put
    assert quota.quota_from_text(QuotaText(profile="openai (2026-02)"), 3) == Quota(
        (), source="profile", profile="openai (2026-02)")
    assert quota.quota_from_text(QuotaText(), 0) is None
    for wrong in (Quota(expired="never"), Quota(overtakers=-1), Quota(overtakers=1_001)):
        with pytest.raises(ValueError):
            wrong.as_text()


def test_a_newer_servers_words_are_unknown():
    limit = quota.limit_from_text(LimitText("x", 99, 99, 99, 99, 1, 1, "", False))
    assert (limit.metric, limit.kind, limit.amount, limit.period) == ("unknown",) * 4
    assert quota.CODE_OF[200] is QuotaCode.UNKNOWN and quota.CODE_OF[254] is QuotaCode.UNKNOWN


def state(metric, period, used, amount=100, subject=0):
    return LimitState(subject, "n", metric, "sliding", amount, used, 0, 0, period, 0, False)


def test_stats_equal_those_of_the_reference():
    assert quota.stats_of([
        state("requests", 1.0, 1), state("requests", 60.0, 2), state("tokens", 60.0, 3),
        state("requests", 86_400.0, 4, "unlimited"), state("tokens", 60.0, 9),
        state("requests", 60.0, 9, subject=1)]) == Stats(2, 100, 3, 100, 4, 0)


def test_results_are_a_sequence_of_codes():
    results = QuotaResults(bytes([1, 7, 254]), quota.array("Q", [5, 0, 0]),
                           quota.array("q", [0, 9, 0]))
    assert results.admitted == [True, False, True] and results.count() == 2
    assert results.count(QuotaCode.TPM_EXCEEDED) == 1 and results.decided_by_policy
    assert not results.all_admitted and results[:1].all_admitted
    assert not results[:2].decided_by_policy
    assert results.retry_after == [0.0, 0.009, 0.0]
    assert repr(results) == "<QuotaResults 3: ok, tpm_exceeded, admitted_by_policy>"


@pytest.mark.parametrize(
    "text, tokens", json.loads((ROOT / "tests" / "clients" / "token_estimates.json").read_text()))
def test_an_estimate_is_a_quarter_of_the_characters(text, tokens):
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("reservation", ["00ab00000000000f", "00AB00000000000F", 0xab00000000000f])
def test_accepts_a_reservation_id_as_digits_or_number(reservation):
    assert reservation_id(reservation) == 0xab00000000000f


@pytest.mark.parametrize("wrong", ["zz", "", "f", "0xab0000000000f", " 0ab00000000000f",
                                   "00ab_0000_0000_f", "-0ab00000000000f", "00ab00000000000ff"])
def test_rejects_invalid_reservation_ids(wrong):
    with pytest.raises(ValueError, match="is no reservation id"):
        reservation_id(wrong)


# tests/unit/proto/reservation_id_test.cpp has the same.
@pytest.mark.parametrize(("reservation", "shards", "shard"), [
    (0x0002_AF37_FFFF_FFFF, 1, 0), (0x0002_AF37_FFFF_FFFF, 3, 2), (0x0001_5555_0000_0001, 3, 0),
    (0x0001_5558_0000_0001, 3, 1), (2**64 - 1, 256, 255)])
def test_the_shard_that_an_id_leads_to(reservation, shards, shard):
    assert QuotaTerms(SETTLE).for_shard_of(reservation, shards).shard == shard
