"""The configuration file (--config-file), and `sluicegate check-config`.
Method: files in a folder of the test's own; REST shows the limits of keys."""

import json
import pathlib
import re

import pytest

from http_peer import HttpPeer, ask
from native_peer import APPROVED, DENIED, NativePeer
from quota_calls import call, show
from server_process import run_binary

LAYERS = [
    {"key_pattern": ".*", "key_pattern_is_regex": True, "max_requests_per_window": 10},
    {"key_pattern": "user:1", "can_queue": False, "window_millis": 60_000},
    {"key_pattern": "premium-", "key_pattern_is_regex": True, "max_requests_per_window": 1_000,
     "max_requests_in_queue": 7}]


@pytest.fixture
def config_file(tmp_path):
    def write(*entries, text=None):
        path = tmp_path / "limits.json"
        path.write_text(text if text is not None else json.dumps({"keys": list(entries)}))
        return str(path)
    return write


def config_of(server, key):
    return json.loads(ask(server, "GET", f"/debug/{key}").body)["Config"]


def test_keys_have_the_limits_of_the_entries_that_match(start_server, config_file):
    server = start_server("--config-file", config_file(*LAYERS))
    assert any(line["message"] == "configuration file" and line["entries"] == 3
               for line in server.log)
    for key, config in {"other": (1_000, 10, 400), "user:1": (60_000, 10, 0),
                        "my-premium-key": (1_000, 1_000, 7)}.items():
        with HttpPeer(server) as peer:
            answer = peer.ask("POST", f"/rate/{key}")
            assert answer.status == 200
            assert answer.rate_limit()["r"] == config[1] - 1
        names = ["WindowMillis", "MaxRequestsPerWindow", "MaxRequestsInQueue"]
        assert config_of(server, key) == dict(zip(names, config))


def test_batches_and_overrides_start_from_the_entries(start_server, config_file):
    server = start_server("--config-file", config_file(*LAYERS), "--window-millis", "60000")
    with NativePeer(server) as peer:
        keys = ["a", "premium-1"] * 20
        assert peer.ask(keys).verdicts == [APPROVED] * 20 + [DENIED, APPROVED] * 10
        assert peer.ask(["premium-1"], maxRequests=[5]).verdicts == [DENIED]
    assert config_of(server, "premium-1")["MaxRequestsPerWindow"] == 5
    assert config_of(server, "premium-1")["MaxRequestsInQueue"] == 7


def test_a_cost_above_the_entry_s_limit_never_fits(start_server, config_file):
    server = start_server("--config-file", config_file(*LAYERS))
    assert ask(server, "POST", "/rate/other?cost=11").status == 400
    assert ask(server, "GET", "/debug/other").status == 404
    assert ask(server, "POST", "/rate/premium-1?cost=11").status == 200


@pytest.mark.parametrize("entries, text, cause", [
    ([{"key_pattern": "a(", "key_pattern_is_regex": True}], None, "not a regular expression"),
    ([{"key_pattern": "a", "window_millis": -5}], None, "window_millis"),
    ([], "{'keys': []}", "not JSON, line 1, column 2"),
    ([], "[]", "must be an object")])
def test_a_bad_file_stops_the_start_with_one_line(config_file, entries, text, cause):
    path = config_file(*entries, text=text)
    result = run_binary("--config-file", path, "--port", "0", "--native-port", "0")
    assert (result.returncode, result.stdout) == (2, ""), result
    assert result.stderr.startswith(f"Error: --config-file {path}: ")
    assert cause in result.stderr and result.stderr.count("\n") == 1


def test_a_start_shows_the_first_of_many_complaints_and_how_to_see_the_rest(config_file):
    path = config_file(*[{"window_millis": 50}] * 23)
    result = run_binary("--config-file", path, "--port", "0", "--native-port", "0")
    assert result.returncode == 2, result
    assert "keys[19]" in result.stderr and "keys[20]" not in result.stderr
    assert result.stderr.endswith(f"; and 3 more: sluicegate check-config {path}\n")


def test_names_that_no_client_may_use_are_faults(config_file):
    long = "x" * 33
    path = config_file({"key_pattern": long, "window_millis": 50}, text=None)
    result = run_binary("check-config", path, "--max-key-bytes", "32")
    assert (result.returncode, result.stdout) == (1, ""), result
    assert "has 33 bytes, and the server takes 32 at most" in result.stderr
    assert run_binary("check-config", path).returncode == 0
    quotas = config_file(text=json.dumps({"quotas": {"subjects": [
        {"subject": long, "limits": [{"name": "a", "metric": "requests", "amount": 1,
                                      "period_ms": 1000}]}]}}))
    result = run_binary("--config-file", quotas, "--max-key-bytes", "32", "--port", "0",
                        "--native-port", "0")
    assert (result.returncode, result.stdout) == (2, ""), result
    assert f"quotas.subjects[0] (\"{long}\"): has 33 bytes" in result.stderr
    assert "--max-key-bytes" in result.stderr


def test_a_missing_file_stops_the_start(tmp_path):
    result = run_binary("--config-file", str(tmp_path / "none.json"))
    assert result.returncode == 2 and "No such file" in result.stderr


def test_check_config_lists_all_faults(config_file):
    path = config_file({"key_pattern": "a", "window_millis": 5, "x": 1}, {})
    result = run_binary("check-config", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert [line.startswith(f"{path}: keys[") for line in result.stderr.splitlines()] == [True] * 3
    assert run_binary("check-config", path + "x").returncode == 2
    assert run_binary("check-config").returncode == 2


def test_check_config_shows_the_limits_of_a_key(config_file):
    path = config_file(*LAYERS)
    result = run_binary("check-config", path, "--key", "premium-7", "--max-requests", "5")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == f"{path}: good, 3 entries"
    assert "keys[0]" in result.stdout and "keys[2]" in result.stdout
    assert "keys[1]" not in result.stdout
    assert "1000 requests per window of 1000 ms, 7 in the queue" in result.stdout


# ------------------------------------------------------------------------------------------ quotas

PROFILES = str(pathlib.Path(__file__).resolve().parents[2] / "packaging" / "profiles")
QUOTAS = {"quotas": {
    "profiles": ["openai"], "unknown_subjects": "deny",
    "subjects": [
        {"subject": "gpt-4o", "expired": "refund", "overtakers": 2, "limits": [
            {"name": "open", "metric": "concurrency", "amount": 4}]},
        {"subject": "^team-", "subject_is_regex": True, "limits": []}]}}


def check_quotas(config_file, *flags, **fields):
    path = config_file(text=json.dumps({"quotas": {**QUOTAS["quotas"], **fields}}))
    return run_binary("check-config", path, "--profiles", PROFILES, *flags)


def test_check_config_shows_the_quota_of_a_subject(config_file):
    result = check_quotas(config_file, *(word for name in ["gpt-4o", "team-1", "o1", "x"]
                                         for word in ("--subject", name)))
    assert (result.returncode, result.stderr) == (0, "")
    first, *printed = result.stdout.splitlines()
    assert first.endswith("good, 0 entries; quotas of 2 subjects and of 6 of profiles, "
                          "unknown ones are denied")
    assert printed == [
        '"gpt-4o":', '  quotas.subjects[0] "gpt-4o"',
        '  {"name":"open","metric":"concurrency","amount":4}',
        "  expired reservations are refunded", "  2 may overtake the head of the queue",
        '"team-1":', '  quotas.subjects[1] "^team-" (regular expression)', "  no limits",
        '"o1":', '  profile openai (2026-02), "o1" (prefix)',
        '  {"name":"rpm","metric":"requests","amount":500,"period_ms":60000,"kind":"sliding"}',
        '  {"name":"tpm","metric":"tokens","amount":30000,"period_ms":60000,"kind":"sliding"}',
        '"x":', "  unknown, and denied"]


@pytest.mark.parametrize("unknown, printed", [
    ("allow", ["  unknown, and allowed"]),
    ({"limits": []}, ["  unknown: unknown_subjects", "  no limits"])])
def test_check_config_shows_the_treatment_of_unknown_subjects(config_file, unknown, printed):
    result = check_quotas(config_file, "--subject", "x", unknown_subjects=unknown)
    assert result.stdout.splitlines()[2:] == printed


@pytest.mark.parametrize("name, entry", [
    ("gpt-4o-mini-2024-07-18", 'profile openai (2026-02), "gpt-4o-mini" (prefix)'),
    ("gpt-4o-2024-08-06", 'profile openai (2026-02), "gpt-4o" (prefix)'),
    ("claude-sonnet-4-20250514", 'profile anthropic (2026-02), "claude-sonnet-4" (prefix)'),
    ("gemini-2.5-pro-preview-06-05", 'profile gemini (2026-02), "gemini-2.5-pro" (prefix)'),
    ("gpt-4omni", "unknown, and allowed"),
    ("team-7:a", 'quotas.subjects[1] "team-7" (prefix)')])
def test_check_config_shows_the_entry_that_a_name_matches(config_file, name, entry):
    subjects = [{"subject": "^team-", "subject_is_regex": True, "limits": []},
                {"subject": "team-7", "subject_is_prefix": True, "limits": []}]
    result = check_quotas(config_file, "--subject", name, unknown_subjects="allow",
                          profiles=["openai", "anthropic", "gemini"], subjects=subjects)
    assert result.stdout.splitlines()[2] == f"  {entry}"


def test_each_name_of_a_family_has_usage_of_its_own(start_server, config_file):
    path = config_file(text=json.dumps({"quotas": {"profiles": ["openai"]}}))
    server = start_server("--config-file", path, "--profiles", PROFILES)
    body = {"subjects": ["gpt-4o-2024-08-06"], "input_tokens": 30_000}
    assert call(server, "consume", body).status == 200
    assert call(server, "consume", body).status == 429
    assert call(server, "consume", {**body, "subjects": ["gpt-4o-2024-11-20"]}).status == 200
    shared = {**body, "subjects": ["gpt-4o-2024-05-13", "gpt-4o"], "input_tokens": 20_000}
    assert call(server, "consume", shared).status == 200
    shared["subjects"][0] = "gpt-4o-2025-01-01"
    denied = call(server, "consume", shared)
    assert [limit["subject"] for limit in denied.json()["violated"]] == ["gpt-4o"]
    shown = show(server, "gpt-4o-2024-08-06")
    assert (shown["source"], shown["profile"]) == ("profile", "openai (2026-02)")


def test_a_missing_profile_is_reported_with_the_existing_ones(config_file):
    result = check_quotas(config_file, profiles=["opnai"])
    assert (result.returncode, result.stdout) == (1, "")
    assert "there are anthropic, gemini, local and openai" in result.stderr
    path = config_file(text=json.dumps({"quotas": {"profiles": ["opnai"]}}))
    result = run_binary("--config-file", path, "--profiles", PROFILES, "--port", "0",
                        "--native-port", "0")
    assert (result.returncode, result.stdout) == (2, "")
    assert "there are anthropic, gemini, local and openai" in result.stderr


def test_start_logs_the_number_of_subjects(start_server, config_file):
    path = config_file(text=json.dumps(QUOTAS))
    server = start_server("--config-file", path, "--profiles", PROFILES)
    assert any(line["message"] == "configuration file" and line["subjects"] == 8
               for line in server.log)
    assert any(line["message"].startswith(' - {"subject":"o1",') for line in server.log)


# -------------------------------------------------------------------------------- the documentation

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text()


def test_the_examples_of_the_page_exist_as_files():
    blocks = re.findall(r"^```\n(\{.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    files = [ROOT / "packaging" / "examples" / name for name in ("limits.json", "quotas.json")]
    assert blocks == [file.read_text() for file in files]


@pytest.mark.parametrize("command, output", re.findall(
    r"^```\n\$ build/release/src/sluicegate (check-config [^\n]*)\n(.*?)^```$", PAGE,
    re.DOTALL | re.MULTILINE))
def test_prints_the_output_shown_on_the_page(monkeypatch, command, output):
    monkeypatch.chdir(ROOT)
    result = run_binary(*command.split())
    assert (result.returncode, result.stdout, result.stderr) == (0, output, "")


def test_the_page_shows_keys_and_subjects():
    shown = re.findall(r"^\$ build/release/src/sluicegate check-config", PAGE, re.MULTILINE)
    assert len(shown) == 2
