"""`sluicegate import` and `export`: files of go-ratelimit become state files, and the way back.

Method: files as the library writes them, with times of now; the real binary; a server with the new
file, asked over REST. A test ends long before its newest events count no longer.
"""

import datetime
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time

import pytest

from quota_calls import call, limit_of, put, show
from server_process import TIMEOUT_S, clean_environment, eventually, run_binary, spawn

NS = 1_000_000_000
YAML, SQLITE = "go-ratelimit-yaml", "go-ratelimit-sqlite"
QUOTAS = {"gemini": (150, 1_000_000, 1_000), "gpt-4o": (500, 30_000, 0)}
DAY_COUNT = 812
NO_ROOM = ("state: there was no room for all: what was left out has no limit and no usage now: "
           "start with a larger --max-subjects, --max-key-bytes, --max-reservations or --max-keys "
           "and a backup of the file")


def rfc3339(wall_ns):
    moment = datetime.datetime.fromtimestamp(wall_ns // NS, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{wall_ns % NS:09}Z"


def events(now_ns):
    """(time, tokens) of gpt-4o: one is too old, two count for a while, in sub-windows each."""
    return [(now_ns - 70 * NS, 100), (now_ns - 6 * NS, 1200), (now_ns - NS, 300)]


def write_yaml(path, now_ns):
    lines = ["quotas:"]
    for model, limits in QUOTAS.items():
        names = zip(["max_rpm", "max_tpm", "max_rpd"], limits)
        lines += [f"    {model}:", *[f"        {name}: {value}" for name, value in names]]
    lines += ["state:", "    gpt-4o:", "        requests:"]
    lines += [f"            - {rfc3339(at)}" for at, _ in events(now_ns)]
    lines += ["        tokens:"]
    for at, count in events(now_ns):
        lines += [f"            - time: {rfc3339(at)}", f"              count: {count}"]
    lines += [f"        day_start: {rfc3339(now_ns - 7_000 * NS)}",
              f"        day_count: {DAY_COUNT}",
              "    gpt-3:", "        requests: []", "        tokens: []",
              "        day_start: 0001-01-01T00:00:00Z", "        day_count: 0"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_sqlite(path, now_ns):
    database = sqlite3.connect(path)
    database.executescript("""
        PRAGMA journal_mode=WAL;
        CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0,
            max_tpm INTEGER NOT NULL DEFAULT 0, max_rpd INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL);
        CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL);
        CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL,
            day_count INTEGER NOT NULL DEFAULT 0);
        CREATE INDEX idx_requests_model_ts ON requests(model, ts);
        CREATE INDEX idx_tokens_model_ts ON tokens(model, ts);""")
    database.executemany("INSERT INTO quotas VALUES (?,?,?,?)",
                         [(model, *limits) for model, limits in QUOTAS.items()])
    for at, count in events(now_ns):
        database.execute("INSERT INTO requests VALUES ('gpt-4o', ?)", (at,))
        database.execute("INSERT INTO tokens VALUES ('gpt-4o', ?, ?)", (at, count))
    database.execute("INSERT INTO daily VALUES ('gpt-4o', ?, ?)", (now_ns - 7_000 * NS, DAY_COUNT))
    database.commit()
    database.close()


WRITERS = {"ratelimits.yaml": write_yaml, "ratelimits.db": write_sqlite}


@pytest.fixture(params=WRITERS)
def theirs(request, tmp_path):
    path = tmp_path / request.param
    WRITERS[request.param](path, time.time_ns())
    return path


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state.db"


def imported(file, state, *flags):
    result = run_binary("import", str(file), "--state", str(state), *flags)
    assert result.returncode == 0, result
    return result


def usage(server, subject="gpt-4o"):
    return {name: limit_of(show(server, subject), name)["used"] for name in ["rpm", "tpm", "rpd"]}


MOVED_IN = {"rpm": 2, "tpm": 1500, "rpd": DAY_COUNT}


def files(folder):
    return sorted(os.listdir(folder))


# ------------------------------------------------------------------------------------------ import

@pytest.mark.parametrize("shards", [1, 2])
def test_a_server_has_what_the_library_had(theirs, state, start_server, shards):
    imported(theirs, state, "--quotas", "put")
    server = start_server("--state", str(state), shards=shards)
    assert usage(server) == MOVED_IN
    limits = show(server, "gpt-4o")["limits"]
    assert [limit["amount"] for limit in limits] == [500, 30_000, "unlimited"]
    assert show(server, "gpt-4o")["source"] == "run_time"
    assert 75_000_000 < limit_of(show(server, "gpt-4o"), "rpd")["reset_ms"] < 79_400_000
    refused = call(server, "reserve", {"subjects": ["gpt-4o"], "input_tokens": 28_501})
    assert refused.json()["code"] == "tpm_exceeded", refused
    taken = call(server, "reserve", {"subjects": ["gpt-4o"], "input_tokens": 28_500})
    assert taken.json()["code"] == "ok", taken
    assert usage(server, "gemini") == {"rpm": 0, "tpm": 0, "rpd": 0}


def test_quotas_are_printed_as_a_configuration_file(theirs, state, tmp_path, start_server):
    result = imported(theirs, state)
    config = tmp_path / "quotas.json"
    config.write_text(result.stdout, encoding="utf-8")
    assert run_binary("check-config", str(config)).returncode == 0
    server = start_server("--state", str(state), "--config-file", str(config))
    assert usage(server) == MOVED_IN
    assert show(server, "gpt-4o")["source"] == "file"


def test_more_quotas_than_a_configuration_file_may_have_are_not_printed(tmp_path, state):
    theirs = tmp_path / "many.yaml"
    models = "".join(f"    m{n}:\n        max_rpm: 5\n" for n in range(100_001))
    theirs.write_text(f"quotas:\n{models}state: {{}}\n", encoding="utf-8")
    for words in (["--dry-run"], []):
        result = run_binary("import", str(theirs), "--state", str(state), *words)
        assert (result.returncode, result.stdout) == (2, ""), result
        assert result.stderr.endswith("import with --quotas put\n"), result
        assert not state.exists()
    result = run_binary("import", str(theirs), "--state", str(state), "--quotas", "put")
    assert result.returncode == 0, result


def test_says_what_was_carried_and_what_not(tmp_path, state):
    write_yaml(tmp_path / "x.yaml", time.time_ns())
    result = imported(tmp_path / "x.yaml", state, "--quotas", "put")
    assert result.stdout == ""
    assert result.stderr == (
        "carried: 2 models; of 1 the usage: 2 requests, 2 token entries, 1 day\n"
        "not carried: model gpt-3: its usage: it has no quota, so the library never limits it; nor "
        "does Sluicegate\n"
        "not carried: model gpt-4o: 1 request and 1 token entry of a minute ago or earlier, which "
        "no longer count\n"
        f"{state}: written; start the server with --state {state}\n")


def test_a_dry_run_writes_nothing(theirs, state, tmp_path):
    before = files(tmp_path)
    for flags in [[], ["--quotas", "put"]]:
        result = imported(theirs, state, "--dry-run", *flags)
        assert result.stderr.endswith("nothing was written (--dry-run)\n")
        assert files(tmp_path) == before
    wet = imported(theirs, state)
    assert imported(theirs, tmp_path / "x.db", "--dry-run").stdout == wet.stdout != ""


BROKEN = {
    "an empty file": (b"", "is empty"),
    "a negative limit": (b"quotas:\n  m: {max_rpm: -1}\n", "line 2, column 16: quotas.m.max_rpm"),
    "null": (b"quotas:\n  m: ~\n", "line 2, column 6: quotas.m"),
    "an unknown key": (b"quotas:\n  m: {max_rpq: 1}\n", "line 2, column 7: quotas.m"),
    "a duplicate": (b"quotas:\n  m: {}\n  m: {}\n", "line 3, column 3: quotas"),
    "a bad time": (b"state:\n  m: {requests: [noon]}\n", "line 2, column 18: state.m.requests[0]"),
    "an empty name": (b"quotas:\n  '': {max_rpm: 1}\nstate: {}\n", 'model "": the name is empty'),
    "no database": (b"SQLite format 3\0" + bytes(100), ""),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_complaint_has_its_place_and_leaves_nothing(what, tmp_path, state):
    content, place = BROKEN[what]
    file = tmp_path / "broken"
    file.write_bytes(content)
    result = run_binary("import", str(file), "--state", str(state))
    assert (result.returncode, result.stdout) == (2, "")
    complaint, *_, last = result.stderr.splitlines()
    assert complaint.startswith(f"{file}: {place}"), result.stderr
    assert last == f"{file}: not imported; nothing was written"
    assert files(tmp_path) == ["broken"]


def test_all_complaints_are_printed(tmp_path, state):
    file = tmp_path / "broken"
    file.write_text("quotas:\n  a: {max_rpm: -1}\n  b: {max_tpm: x}\n  c: ~\nstate: {}\n",
                    encoding="utf-8")
    result = run_binary("import", str(file), "--state", str(state))
    assert [line.split(",")[0] for line in result.stderr.splitlines()[:-1]] == [
        f"{file}: line {number}" for number in [2, 3, 4]]


def test_a_missing_table_is_a_complaint(tmp_path, state):
    file = tmp_path / "x.db"
    write_sqlite(file, time.time_ns())
    database = sqlite3.connect(file)
    database.execute("DROP TABLE daily")
    database.commit()
    database.close()
    before = files(tmp_path)
    result = run_binary("import", str(file), "--state", str(state))
    assert result.returncode == 2 and "daily" in result.stderr, result
    assert files(tmp_path) == before


def test_never_overwrites(theirs, state, tmp_path):
    imported(theirs, state)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    for flags in [[], ["--quotas", "put"], ["--dry-run"]]:
        result = run_binary("import", str(theirs), "--state", str(state), *flags)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == (
            f"Error: {state}: it exists already; name a file that does not exist\n")
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


def write_many(path):
    quotas = "".join(f"  model-{number}: {{max_rpm: {number}}}\n" for number in range(100_000))
    path.write_text(f"quotas:\n{quotas}state: {{}}\n", encoding="utf-8")


def end_while_it_writes(folder, ending, *words):
    before = files(folder)
    with spawn(*words) as process:
        eventually(lambda: files(folder) != before, "it is written")
        process.send_signal(ending)
        assert process.wait(TIMEOUT_S) == -ending
    assert files(folder) == before


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(tmp_path, state, ending):
    write_many(tmp_path / "theirs")
    end_while_it_writes(tmp_path, ending, "import", str(tmp_path / "theirs"), "--state",
                        str(state), "--quotas", "put")


def test_quotas_that_cannot_be_printed_leave_no_state(theirs, state):
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([os.environ["SLUICEGATE"], "import", str(theirs), "--state",
                                 str(state)], stdout=full, stderr=subprocess.PIPE, text=True,
                                timeout=TIMEOUT_S, check=False, env=clean_environment())
    assert result.returncode == 2
    assert result.stderr == "Error: the output cannot be written: No space left on device\n"
    assert not state.exists()


# ------------------------------------------------------------------------------------------ export

@pytest.mark.parametrize("form", [YAML, SQLITE])
def test_what_is_exported_moves_in_again(form, tmp_path, state, start_server):
    write_yaml(tmp_path / "theirs", time.time_ns())
    imported(tmp_path / "theirs", state, "--quotas", "put")
    server = start_server("--state", str(state), "--state-sync-millis", "10")
    call(server, "record", {"subjects": ["gemini"], "input_tokens": 70})
    assert server.stop() == 0
    target = tmp_path / "target"
    result = run_binary("export", str(state), "--format", form, "--output", str(target))
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout == (
        f"{target}: 2 models; of 2 the usage: 3 requests, 3 token entries, 2 days\n")
    imported(target, tmp_path / "again", "--quotas", "put")
    again = start_server("--state", str(tmp_path / "again"))
    assert usage(again) == MOVED_IN
    assert usage(again, "gemini") == {"rpm": 1, "tpm": 70, "rpd": 1}


@pytest.mark.parametrize("form", [YAML, SQLITE])
def test_long_names_move_in_again(form, tmp_path, state, start_server):
    """A server takes no names of more than 1,024 bytes by default; it names what it leaves out."""
    name, long_names = "n" * 4_096, ["--max-key-bytes", "4096"]
    server = start_server("--state", str(state), *long_names)
    put(server, name, {"name": "rpm", "metric": "requests", "amount": 5, "kind": "sliding",
                       "period_ms": 60_000})
    assert call(server, "record", {"subjects": [name], "input_tokens": 1}).status == 200
    assert server.stop() == 0
    target, again = tmp_path / "target", tmp_path / "again"
    result = run_binary("export", str(state), "--format", form, "--output", str(target))
    assert (result.returncode, result.stderr) == (0, ""), result
    imported(target, again, "--quotas", "put")
    server = start_server("--state", str(again), *long_names)
    assert limit_of(show(server, name), "rpm")["used"] == 1
    assert server.stop() == 0
    server = start_server("--state", str(again))
    assert server.wait_for_message(NO_ROOM)["subjects"] == 1


@pytest.mark.parametrize("form", [YAML, SQLITE])
def test_a_signal_leaves_no_unfinished_file(form, tmp_path, state):
    write_many(tmp_path / "theirs")
    imported(tmp_path / "theirs", state, "--quotas", "put")
    assert run_binary("state", "check", str(state)).returncode == 0
    end_while_it_writes(tmp_path, signal.SIGTERM, "export", str(state), "--format", form,
                        "--output", str(tmp_path / "target"))


def test_an_event_is_at_most_a_sub_window_late(tmp_path, state):
    now_ns = time.time_ns()
    write_sqlite(tmp_path / "theirs", now_ns)
    imported(tmp_path / "theirs", state, "--quotas", "put")
    for trip in range(3):  # and never later with each trip
        target = tmp_path / f"target{trip}"
        result = run_binary("export", str(state), "--format", SQLITE, "--output", str(target))
        assert result.returncode == 0, result
        database = sqlite3.connect(target)
        for table in ["requests", "tokens"]:
            found = [at for at, in database.execute(f"SELECT ts FROM {table} ORDER BY ts")]
            for at, (was, _) in zip(found, events(now_ns)[1:], strict=True):
                assert was <= at < was + 4 * NS, (trip, table)
        assert database.execute("SELECT day_start, day_count FROM daily").fetchall() == [
            (pytest.approx(now_ns - 7_000 * NS, abs=NS // 1_000), DAY_COUNT)]
        database.close()
        state = tmp_path / f"state{trip}"
        imported(target, state, "--quotas", "put")


def test_exports_beside_a_running_server_and_names_what_is_left_out(tmp_path, state, start_server):
    write_yaml(tmp_path / "theirs", time.time_ns())
    config = tmp_path / "quotas.json"
    quotas = json.loads(imported(tmp_path / "theirs", state).stdout)
    bill = {"name": "bill", "metric": "cost", "amount": 5, "kind": "calendar", "period": "month"}
    quotas["quotas"]["subjects"][0]["limits"].append(bill)
    quotas["quotas"]["subjects"].append({"subject": "^trial", "subject_is_regex": True,
                                         "limits": []})
    config.write_text(json.dumps(quotas), encoding="utf-8")
    server = start_server("--state", str(state), "--state-sync-millis", "10", "--config-file",
                          str(config))
    held = call(server, "reserve", {"subjects": ["gemini"], "input_tokens": 9,
                                    "lifetime_ms": 3_600_000})
    assert held.status == 200, held
    target = tmp_path / "target.yaml"
    deadline = time.monotonic() + TIMEOUT_S
    while True:  # until the reservation is committed
        result = run_binary("export", str(state), "--format", YAML, "--output", str(target),
                            "--config-file", str(config), "--dry-run")
        if "open reservations" in result.stderr or time.monotonic() > deadline:
            break
    assert result.returncode == 0 and not target.exists()
    assert result.stdout == (f"{target}: 2 models; of 2 the usage: 3 requests, 3 token entries, "
                             "2 days; nothing was written (--dry-run)\n")
    assert result.stderr == (
        'not carried: subject gemini, limits[3] ("bill"): the library limits only requests and '
        "tokens of any minute, and requests of a day\n"
        "not carried: open reservations: 1: what they hold counts as used; the library cannot "
        "settle it\n"
        "not carried: configuration file, pattern ^trial: the library knows whole names only: of "
        "the subjects that it matches, those in the state file are there\n")
    assert run_binary("export", str(state), "--format", YAML, "--output",
                      str(target)).returncode == 0
    assert usage(server) == MOVED_IN


def test_an_export_never_overwrites(tmp_path, state):
    write_yaml(tmp_path / "theirs", time.time_ns())
    imported(tmp_path / "theirs", state)
    before = (tmp_path / "theirs").read_bytes()
    for flags in [[], ["--dry-run"]]:
        for form in [YAML, SQLITE]:
            result = run_binary("export", str(state), "--format", form, "--output",
                                str(tmp_path / "theirs"), *flags)
            assert (result.returncode, result.stdout) == (2, "")
            assert "it exists already" in result.stderr
    assert (tmp_path / "theirs").read_bytes() == before


def test_an_export_of_what_is_no_state_file_makes_none(tmp_path):
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    (tmp_path / "bad.json").write_text('{"quotas": 5}', encoding="utf-8")
    for words in [["notes"], ["missing"], [str(tmp_path)]]:
        result = run_binary("export", str(tmp_path / words[0]), "--format", YAML, "--output",
                            str(tmp_path / "target"))
        assert (result.returncode, result.stdout) == (2, ""), result
        assert result.stderr.startswith(f"Error: {tmp_path / words[0]}: "), result
    assert files(tmp_path) == ["bad.json", "notes"]


def test_an_export_names_a_target_that_cannot_be_made(tmp_path, state):
    write_yaml(tmp_path / "theirs", time.time_ns())
    imported(tmp_path / "theirs", state)
    target = tmp_path / "missing" / "target"
    for form in [YAML, SQLITE]:
        result = run_binary("export", str(state), "--format", form, "--output", str(target))
        assert (result.returncode, result.stdout) == (2, "")
        complaint, last = result.stderr.splitlines()
        assert complaint.startswith(f"{target}: "), result
        assert last == "not exported; nothing was written"
        assert not (tmp_path / "missing").exists()


def test_an_import_names_a_state_file_that_cannot_be_made(theirs, tmp_path):
    before = files(tmp_path)
    state = tmp_path / "missing" / "state.db"
    result = run_binary("import", str(theirs), "--state", str(state), "--quotas", "put")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {state}: "), result
    assert files(tmp_path) == before


def test_an_export_refuses_a_bad_configuration_file(tmp_path, state):
    write_yaml(tmp_path / "theirs", time.time_ns())
    imported(tmp_path / "theirs", state)
    for content, cause in [('{"quotas": 5}', "quotas: must be an object"), (None, "")]:
        config = tmp_path / ("bad.json" if content else "missing.json")
        if content:
            config.write_text(content, encoding="utf-8")
        result = run_binary("export", str(state), "--format", YAML, "--output",
                            str(tmp_path / "target"), "--config-file", str(config))
        assert (result.returncode, result.stdout) == (2, "")
        assert f"{config}: {cause}" in result.stderr
        assert not (tmp_path / "target").exists()


# ------------------------------------------------------------------------------------ command line

@pytest.mark.parametrize("words", [
    ["import"], ["import", "a"], ["import", "a", "--state", "b", "--quotas", "keep"],
    ["export", "a", "--output", "b"], ["export", "a", "--output", "b", "--format", "json"]])
def test_a_usage_error_names_the_command(words):
    result = run_binary(*words)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"sluicegate {words[0]}" in result.stderr and "Error: " in result.stderr


@pytest.mark.parametrize("command", ["import", "export"])
def test_help_teaches(command):
    shown = run_binary("help", command)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"\n  sluicegate {command} " in shown.stdout and "Exit code: 0 when" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


def shape(text):
    """The text with every number alike, and blanks."""
    return re.sub(r" +", " ", re.sub(r"\b\d+\b", "N", text))


def test_prints_what_is_documented(tmp_path, start_server):
    """The commands of docs/moving-in.md in their order, in a folder with both files."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "moving-in.md").read_text(encoding="utf-8")
    write_yaml(tmp_path / "ratelimits.yaml", time.time_ns())
    (tmp_path / "broken.yaml").write_text("quotas:\n  gpt-4o:\n    max_rpm: -1\nstate: {}\n",
                                          encoding="utf-8")
    program = pathlib.Path(os.environ["SLUICEGATE"]).resolve()
    blocks = re.findall(r"^ *\$ sluicegate (.*)\n((?:(?! *\$ | *```).*\n)*)", page, re.MULTILINE)
    assert len(blocks) == 4
    for command, documented in blocks:
        words, _, file = command.partition(" >")
        if words.startswith("usage"):
            server = start_server("--state", str(tmp_path / "state.db"), "--config-file",
                                  str(tmp_path / "quotas.json"))
            words += f" --address 127.0.0.1:{server.native_port}"
        result = subprocess.run([program, *words.split()], capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False, cwd=tmp_path,
                                env=clean_environment())
        if file:
            (tmp_path / file).write_text(result.stdout, encoding="utf-8")
        printed = result.stderr if file else result.stdout + result.stderr
        wanted = re.escape(shape(re.sub(r"^ +", "", documented, flags=re.MULTILINE)))
        assert re.fullmatch(wanted.replace(r"\.\.\.", ".*"), shape(printed)), printed
