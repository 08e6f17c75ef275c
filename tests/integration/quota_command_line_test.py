"""The commands about quotas, against the real server. Method: their exit codes and their output."""

import json
import subprocess

import pytest

import quota_calls
from server_process import TIMEOUT_S, binary, clean_environment, eventually, run_binary


def command(server, *words):
    return run_binary(*words, "--address", f"127.0.0.1:{server.native_port}")


@pytest.fixture
def model(server, key):
    result = command(server, "quota", "set", key, "--limit", "tph:tokens:1000/1h:fixed",
                     "--limit", "slots:concurrency:2")
    assert (result.returncode, result.stdout, result.stderr) == (0, "set\n", "")
    return key


def shown(server, subject):
    result = command(server, "quota", "show", subject, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def reserve(server, *words):
    result = command(server, "reserve", *words)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout.strip()


def test_quota_is_shown_as_in_rest(server, model):
    quota = shown(server, model)
    assert quota["source"] == "run_time"
    tokens, slots = quota["limits"]
    assert tokens == {"name": "tph", "metric": "tokens", "amount": 1000, "period_ms": 3600000,
                      "kind": "fixed", "used": 0, "reserved": 0, "remaining": 1000, "reset_ms": 0}
    assert slots["metric"] == "concurrency" and "period_ms" not in slots
    lines = command(server, "quota", "show", model).stdout.splitlines()
    assert lines[0].split()[:4] == ["SUBJECT", "LIMIT", "METRIC", "AMOUNT"]
    assert lines[1].split()[:4] == [model, "tph", "tokens", "1000"]
    assert lines[-1] == "source run_time, 0 open, 0 waiting"


def test_quota_from_a_file(server, key, tmp_path):
    file = tmp_path / "quota.json"
    file.write_text(json.dumps({"limits": [{"name": "budget", "metric": "cost", "amount": 7,
                                            "kind": "calendar", "period": "month",
                                            "time_zone": "America/Los_Angeles"}],
                                "expired": "refund"}))
    assert command(server, "quota", "set", key, "--file", str(file)).returncode == 0
    quota = shown(server, key)
    assert quota["limits"][0]["time_zone"] == "America/Los_Angeles"
    assert quota["expired"] == "refund"


def test_shown_quota_can_be_set_again(server, model, tmp_path):
    file = tmp_path / "quota.json"
    before = shown(server, model)
    file.write_text(json.dumps(before))
    assert command(server, "quota", "set", model + "copy", "--file", str(file)).returncode == 0
    assert shown(server, model + "copy") == {**before, "name": model + "copy"}


def test_names_that_are_not_utf_8_leave_json_valid(server, key):
    name = key + "\udcff"  # as Python passes the byte FF
    assert command(server, "quota", "set", name, "--limit", "slots:concurrency:1").returncode == 0
    assert shown(server, name)["name"] == key + "\ufffd"
    result = command(server, "usage", name, "--json")
    assert (result.returncode, json.loads(result.stdout)["name"]) == (0, key + "\ufffd")


def test_quota_removed_and_unknown(server, model):
    assert command(server, "quota", "remove", model).returncode == 0
    result = command(server, "quota", "remove", model)
    assert result.returncode == 1 and result.stderr.startswith("no_such_quota")
    result = command(server, "quota", "show", model)
    assert result.returncode == 1 and result.stderr.startswith(f"{model} has no quota: ")
    assert f"sluicegate quota set {model} " in result.stderr


def test_denial_by_several_subjects_names_them(server, model):
    result = command(server, "reserve", f"{model}.free", model, "--input-tokens", "1001")
    assert f"  {model} tph: 0 of 1000 used" in result.stderr
    result = command(server, "reserve", f"{model}.free", model, "--input-tokens", "1001", "--json")
    assert json.loads(result.stdout)["violated"][0]["subject"] == model


def test_consume_charges_what_fits(server, model):
    amounts = ["--input-tokens", "500", "--output-tokens", "100", "--id", "job 7"]
    for _ in range(2):  # a repeat is charged once
        result = command(server, "consume", model, f"{model}.tenant", *amounts)
        assert (result.returncode, result.stdout) == (0, "charged\n")
    assert shown(server, model)["limits"][0]["used"] == 600
    assert shown(server, model)["open_reservations"] == 0
    result = command(server, "consume", model, f"{model}.tenant", "--input-tokens", "401")
    assert result.returncode == 1
    assert f"  {model} tph: 600 of 1000 used, 0 of it reserved, 400 remaining" in result.stderr
    result = command(server, "consume", model, model)
    assert result.returncode == 2 and "is given twice" in result.stderr
    result = command(server, "consume", model, f"{model}.free")
    assert (result.returncode, result.stdout) == (0, "charged\n")
    assert result.stderr.startswith("nothing limits ") and f"{model}.free" in result.stderr
    result = command(server, "consume", model, f"{model}.free", "--json")
    assert json.loads(result.stdout)["without_limits"] == [f"{model}.free"]


@pytest.mark.parametrize("words", [["consume"], ["consume", "m", "--bogus"], ["reset"]])
def test_a_usage_error_is_no_denial(words):
    assert run_binary(*words).returncode == 2


def test_reserve_settle_and_usage(server, model):
    reservation = reserve(server, model, "--input-tokens", "300", "--max-output-tokens", "500")
    assert shown(server, model)["open_reservations"] == 1
    result = command(server, "reserve", model, "--input-tokens", "300")
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("tokens_exceeded: ")
    assert "  tph: 800 of 1000 used, 800 of it reserved, 200 remaining" in result.stderr
    for _ in range(2):  # a repeat is the same
        result = command(server, "settle", reservation, "--input-tokens", "280",
                         "--output-tokens", "120")
        assert (result.returncode, result.stdout) == (0, "settled\n")
    result = command(server, "usage", model, "--json")
    assert json.loads(result.stdout)["limits"][0]["used"] == 400
    result = command(server, "settle", reservation, "--cancel")
    assert result.returncode == 1 and result.stderr.startswith("already_settled")


def test_denial_as_json(server, model):
    result = command(server, "reserve", model, "--input-tokens", "1001", "--json")
    assert result.returncode == 1
    denial = json.loads(result.stdout)
    assert denial["code"] == "exceeds_limit" and denial["retryable"] is False
    assert denial["retry_after_ms"] is None
    assert [limit["amount"] for limit in denial["violated"]] == [1000]


def test_cancel_refunds(server, model):
    reservation = reserve(server, model, "--input-tokens", "900")
    result = command(server, "settle", reservation, "--cancel")
    assert (result.returncode, result.stdout) == (0, "cancelled\n")
    assert shown(server, model)["limits"][0]["used"] == 0


def test_reserve_waits(server, model):
    slots = [reserve(server, model, "--requests", "0") for _ in range(2)]
    waiting = subprocess.Popen(
        [binary(), "reserve", model, "--wait", "--address", f"127.0.0.1:{server.native_port}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    try:
        eventually(lambda: shown(server, model)["waiting"] == 1, "it waits")
        assert command(server, "settle", slots[0]).returncode == 0
        out, err = waiting.communicate(timeout=TIMEOUT_S)
    finally:
        waiting.kill()
        waiting.wait()
    assert (waiting.returncode, err) == (0, "")
    assert len(out.strip()) == 16


def test_the_same_id_gets_the_same_reservation(server, model):
    first = reserve(server, model, "--id", "call-1", "--owner", "job 7")
    assert reserve(server, model, "--id", "call-1", "--owner", "job 7") == first
    assert shown(server, model)["open_reservations"] == 1


def holders(server, *words):
    return run_binary("quota", "holders", *words, "--rest-address", f"127.0.0.1:{server.port}")


def listed_holders(server, *words):
    result = holders(server, *words, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_lists_the_holders(server, model):
    first = reserve(server, model, "--owner", "job 7", "--input-tokens", "30",
                    "--max-output-tokens", "4")
    second = reserve(server, model, "--max-output-tokens", "0")
    rows = {row["reservation"]: row for row in listed_holders(server, model)}
    assert set(rows) == {first, second}
    assert (rows[first]["owner"], rows[second]["owner"]) == ("job 7", None)
    assert (rows[first]["input_tokens"], rows[first]["output_tokens"]) == (30, 4)
    header, *lines = holders(server, model).stdout.splitlines()
    assert header.split()[0] == "RESERVATION" and header.split()[-1] == "SUBJECTS"
    line, = [line for line in lines if line.startswith(first)]
    assert line.split()[1:4] == ["1", "30", "4"]
    assert line.endswith(f'no     "job 7"           {model}')
    assert header.index("OWNER") == line.index('"job 7"')
    assert header.index("SUBJECTS") == line.index(model)
    assert command(server, "settle", first).returncode == 0
    assert [row["reservation"] for row in listed_holders(server, model)] == [second]


def test_lists_holders_of_names_of_any_bytes(server, key):
    name = key + " &=%+/\udcff"  # as Python passes the byte FF
    assert command(server, "quota", "set", name, "--limit", "slots:concurrency:1").returncode == 0
    reservation = reserve(server, name)
    assert [row["reservation"] for row in listed_holders(server, name)] == [reservation]
    assert command(server, "quota", "set", key, "--unlimited").returncode == 0
    assert listed_holders(server, key) == []
    assert holders(server, key).stdout.count("\n") == 1  # the heading


def test_holders_have_the_exit_codes_of_the_other_commands(server, key):
    unknown = holders(server, key)
    assert unknown.returncode == 1 and unknown.stderr.startswith(f"{key} has no quota: ")
    for words in (["--limit", "0"], ["--lmit", "1"]):
        assert holders(server, *words).returncode == 2
    assert holders(server, "").returncode == 2


@pytest.mark.parametrize("words", [("reserve",), ("usage",), ("quota", "set", "--unlimited"),
                                   ("quota", "show"), ("quota", "remove"), ("quota", "reset")])
def test_a_name_that_is_too_long_is_an_error(server, words):
    result = command(server, *words, "x" * 2_000)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == ("Error: subjects[0] (2000 bytes): invalid_subject: subjects must be "
                             "1 to 8 different names, none empty or longer than the server allows "
                             "(--max-key-bytes)\n")


def test_holders_of_a_long_name_names_the_cause(server):
    result = holders(server, "x" * 2_000)
    assert result.returncode == 2 and "x..." in result.stderr and len(result.stderr) < 400


def test_reset_of_an_unknown_name_is_reported(server, key):
    for flags in ([], ["--dry-run"]):
        result = command(server, "quota", "reset", key, *flags)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"{key} has no quota: ")
    assert command(server, "quota", "reset", "--all").returncode == 0


def test_lists_all_holders_page_by_page(start_server):
    server = start_server("--shards", "2")
    names = [f"model-{number}" for number in range(30)]
    ids = set()
    for name in names:
        assert command(server, "quota", "set", name, "--limit", "slots:concurrency:99")
        ids |= {quota_calls.reserve(server, name)["reservation"] for _ in range(10)}
    rows = listed_holders(server)
    assert len(rows) == 300 and {row["reservation"] for row in rows} == ids
    result = holders(server, "--limit", "7")
    assert len(result.stdout.splitlines()) == 8 and "There may be more" in result.stderr


def test_holders_fail_on_the_native_port(server):
    result = run_binary("quota", "holders", "--rest-address", f"127.0.0.1:{server.native_port}")
    assert result.returncode == 2 and f"REST is on port {server.port}" in result.stderr
    assert result.stdout == "", "a head without rows would mean that there are no reservations"


def test_reset_clears_usage(server, model):
    reservation = reserve(server, model, "--input-tokens", "900")
    assert command(server, "settle", reservation).returncode == 0
    assert command(server, "quota", "reset", model).returncode == 0
    assert shown(server, model)["limits"][0]["used"] == 0
    assert command(server, "quota", "reset", "--all").returncode == 0


def test_a_dry_run_changes_nothing(server, model):
    reservation = reserve(server, model, "--input-tokens", "900")
    assert command(server, "settle", reservation).returncode == 0
    limit = ("--limit", "tph:tokens:5/1h:fixed")
    calls = {"set": limit, "remove": (), "reset": ()}
    before = "now:\n  tph:tokens:1000/1h:fixed  900 used, 0 of it reserved\n"
    for word, more in calls.items():
        result = command(server, "quota", word, model, *more, "--dry-run")
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith(before)
        assert result.stdout.endswith("\nnothing was changed\n")
        reported = json.loads(command(server, "quota", word, model, *more, "--dry-run",
                                      "--json").stdout)
        assert (reported["dry_run"], reported["subject"]) == (True, model)
        assert ("quota" in reported) == (word == "set")
        assert reported["present"]["limits"][0]["used"] == 900
    every = command(server, "quota", "reset", "--all", "--dry-run")
    assert every.returncode == 0 and every.stdout.endswith("nothing was changed\n")
    every = command(server, "quota", "reset", "--all", "--dry-run", "--json")
    assert json.loads(every.stdout) == {"dry_run": True}
    unreachable = run_binary("quota", "reset", "--all", "--dry-run", "--address", "127.0.0.1:1",
                             "--timeout-millis", "200")
    assert (unreachable.returncode, unreachable.stdout) == (2, "")
    assert shown(server, model)["limits"][0]["used"] == 900
    # Without the flag the same calls make the reported change.
    for word, more in (("set", limit), ("reset", ())):
        assert command(server, "quota", word, model, *more).returncode == 0
    tokens, = shown(server, model)["limits"]
    assert (tokens["amount"], tokens["used"]) == (5, 0)
    assert command(server, "quota", "remove", model).returncode == 0
    result = command(server, "quota", "remove", model, "--dry-run")
    assert (result.returncode, result.stdout) == (1, "") and "no_such_quota" in result.stderr
    wrong = command(server, "quota", "set", model, "--limit", "tph:tokns:5/1h", "--dry-run")
    assert wrong.returncode == 2 and "metric" in wrong.stderr
    assert command(server, "quota", "remove", model, "--json").returncode == 2


def test_usage_of_all(start_server):
    server = start_server("--shards", "2")
    names = [f"model-{number}" for number in range(40)]
    for name in names:
        assert command(server, "quota", "set", name, "--limit", "rpm:requests:5/1m").returncode == 0
    lines = command(server, "usage").stdout.splitlines()
    assert sorted(line.split()[0] for line in lines[1:]) == sorted(names)
    result = command(server, "usage", "model-1", "nobody")
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].split() == ["nobody", "no", "quota"]
    assert result.stderr.startswith("nobody has no quota: nothing limits it")
    assert "sluicegate quota set nobody " in result.stderr


def test_usage_distinguishes_a_quota_without_limits_from_none(server, key):
    assert command(server, "quota", "set", key, "--unlimited").returncode == 0
    result = command(server, "usage", key)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1].split() == [key, "no", "limits"]


def test_set_without_a_limit_leaves_the_quota(server, key):
    assert command(server, "quota", "set", key, "--limit", "rpm:requests:5/1m").returncode == 0
    assert command(server, "quota", "set", key).returncode == 2
    assert "rpm" in command(server, "usage", key).stdout


def test_set_refuses_a_file_with_a_field_twice(server, key, tmp_path):
    assert command(server, "quota", "set", key, "--limit", "rpm:requests:5/1m").returncode == 0
    file = tmp_path / "quota.json"
    file.write_text('{"limits": [{"name": "a", "metric": "requests", "amount": 1, '
                    '"period_ms": 1000}], "limits": []}')
    result = command(server, "quota", "set", key, "--file", str(file))
    assert result.returncode == 2
    assert '"limits" is given twice' in result.stderr
    assert "rpm" in command(server, "usage", key).stdout


def test_reserve_reports_subjects_without_limits(server, model):
    unknown = model + "-misspelt"
    result = command(server, "reserve", unknown)
    assert result.returncode == 0 and len(result.stdout.strip()) == 16
    assert result.stderr == (f"nothing limits {unknown}; to limit it: sluicegate quota set "
                             f"{unknown} --limit tpm:tokens:30000/60s\n")
    result = command(server, "reserve", unknown, "--json")
    reported = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    assert (reported["code"], reported["without_limits"]) == ("unknown_subject_allowed", [unknown])
    reported = json.loads(command(server, "reserve", model, "--json").stdout)
    assert reported["without_limits"] == []


@pytest.mark.parametrize("words, complaint", [
    (["quota", "set", "m", "--limit", "tpm:tokens:5/60"], "'60' is not a period"),
    (["quota", "set", "m", "--limit", "tpm:tokns:5/60s"], "metric"),
    (["quota", "set", "m"], "--unlimited for no limit at all"),
    (["quota", "set", "m", "--dry-run"], "--unlimited for no limit at all"),
    (["quota", "reset"], "NAME or --all"),
    (["settle", "0123"], "16 hexadecimal digits"),
    (["reserve", ""], "the name of a subject is empty"),
    (["reserve", "m", ""], "the name of a subject is empty"),
    (["reserve", "{t}m", "{t}m"], "{t}m is given twice"),
    (["reserve", *(f"{{t}}{number}" for number in range(9))], "at most 8"),
    (["usage", ""], "the name of a subject is empty"),
    (["quota", "show", ""], "the name of a subject is empty"),
    (["quota", "remove", ""], "the name of a subject is empty"),
    (["quota", "set", "", "--unlimited"], "the name of a subject is empty"),
    (["reserve", "m", "--lifetime-ms", "5"], "lifetime_ms"),
])
def test_bad_arguments_are_errors(server, words, complaint):
    result = command(server, *words)
    assert result.returncode == 2 and complaint in result.stderr


@pytest.mark.parametrize("file, cause", [("", "it is a folder"),
                                         ("none.json", "No such file or directory")])
def test_a_quota_file_that_cannot_be_read_is_named_with_the_cause(server, key, tmp_path, file,
                                                                  cause):
    path = f"{tmp_path}/{file}"
    result = command(server, "quota", "set", key, "--file", path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"Error: cannot read {path}: {cause}\n"


def test_usage_errors_exit_with_2():
    for words in (["quota"], ["quota", "set"], ["reserve"], ["settle"]):
        assert run_binary(*words).returncode == 2


def test_missing_arguments_are_reported_for_their_command():
    result = run_binary("quota", "set")
    assert result.returncode == 2 and "NAME is required" in result.stderr
    assert "All flags: sluicegate quota set --help\n" in result.stderr
    result = run_binary("quota")
    assert result.returncode == 2 and "sluicegate quota [OPTIONS] SUBCOMMAND" in result.stderr


def test_help_has_examples():
    for words in (["quota"], ["quota", "set"], ["quota", "holders"], ["reserve"], ["settle"],
                  ["usage"]):
        result = run_binary(*words, "--help")
        assert result.returncode == 0 and f"  sluicegate {words[0]}" in result.stdout


def test_completion_knows_the_commands():
    script = run_binary("completion", "bash").stdout
    line, = [line for line in script.splitlines() if line.strip().startswith("quota)")]
    words = set(line.replace("'", " ").split())
    assert {"show", "set", "remove", "reset", "holders", "--limit"} <= words
