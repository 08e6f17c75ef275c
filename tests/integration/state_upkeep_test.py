"""Upkeep of a state file by the real binary: older versions, `state compact`, `state recover`,
`state export`.

Method: files that servers have written, one of them with version 1 of the schema
(state_version_1.db.gz, by the last program that wrote it); the same damaged on purpose, or with a
process that dies in the middle.
"""

import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import pytest

from http_peer import ask
from quota_calls import call, put, reserve, show, slots, tokens, used
from server_process import TIMEOUT_S, clean_environment, eventually, run_binary, spawn
from state_calls import Kept, kill, stop, wait_durable

MONTH_MS = 30 * 86_400_000
VERSION_1 = pathlib.Path(__file__).with_name("state_version_1.db.gz")


def change_file(path, *statements):
    """As another program would; afterwards all is in FILE."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def first_value(path, query):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchone()[0]


def version_of(path):
    return first_value(path, "PRAGMA user_version")


def messages(server, text):
    return [line for line in server.log if line["message"].startswith(text)]


# ----------------------------------------------------------------------------------- older versions

@pytest.fixture
def version_1(kept):
    kept.path.write_bytes(gzip.decompress(VERSION_1.read_bytes()))
    kept.path.chmod(0o600)
    return kept


def test_a_file_of_version_1_is_migrated(version_1):
    """Its usage may have expired by now: the next test has that."""
    server = version_1.start(shards=2)
    assert [limit["name"] for limit in show(server, "a")["limits"]] == ["month", "bucket", "slots"]
    assert show(server, "b")["limits"][0]["amount"] == 1_000
    copied, = messages(server, "the state file has an older version")
    copy = pathlib.Path(copied["copy"])
    assert copy == version_1.path.with_name("state.db.v1")
    migrated, = messages(server, "the state file was migrated")
    assert (migrated["from"], migrated["to"]) == (1, 2)
    stop(server)
    assert (version_of(version_1.path), version_of(copy)) == (2, 1)
    assert copy.stat().st_mode & 0o777 == 0o600
    shown = run_binary("state", "check", str(copy))
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    assert version_of(copy) == 1, "a reader migrates nothing"
    assert first_value(copy, "SELECT count(*) FROM part") == 8


def test_usage_goes_on_over_a_migration(written):
    change_file(written.path, "PRAGMA user_version = 1")
    server = written.start()
    assert used(server, "a") == 7
    call(server, "record", {"subjects": ["a"], "input_tokens": 5})
    kill(server)
    assert used(written.start(), "a") == 12


def test_readers_leave_an_older_version_as_it_is(version_1, tmp_path):
    before = version_1.path.read_bytes()
    copy = str(tmp_path / "copy.db")
    for words in [["info"], ["check"], ["backup", copy]]:
        result = run_binary("state", words[0], str(version_1.path), *words[1:])
        assert (result.returncode, result.stderr) == (0, ""), result
    assert version_1.path.read_bytes() == before
    assert version_of(copy) == 1


def test_a_damaged_file_of_an_older_version_is_left_as_it_is(version_1):
    change_file(version_1.path, "UPDATE part SET bytes = CAST(replace(bytes, 'batch', 'BATCH')"
                                " AS BLOB) WHERE number = 5")
    before = version_1.path.read_bytes()
    line = version_1.refusal()
    assert "it is damaged (part 5: its checksum is wrong)" in line, line
    assert version_1.path.read_bytes() == before
    assert not version_1.path.with_name("state.db.v1").exists()


def test_a_copy_of_an_earlier_migration_is_never_overwritten(version_1):
    copy = version_1.path.with_name("state.db.v1")
    copy.write_text("mine")
    before = version_1.path.read_bytes()
    line = version_1.refusal()
    assert f"{copy}: it exists already (it is a copy" in line, line
    assert (copy.read_text(), version_1.path.read_bytes()) == ("mine", before)


def test_a_migration_needs_room_for_the_copy(version_1):
    def forbid_growth():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
    before = version_1.path.read_bytes()
    line = version_1.refusal(preexec=forbid_growth)
    assert "state.db.v1.unfinished: " in line, line
    assert version_1.path.read_bytes() == before
    assert not list(version_1.path.parent.glob("state.db.v1*"))


def test_a_migration_that_is_killed_goes_on(version_1):
    """Whenever it dies, the file is of one version, whole."""
    original = version_1.path.read_bytes()
    versions = set()
    for pause_ms in range(0, 120, 6):
        for file in version_1.path.parent.glob("state.db*"):
            file.unlink()
        version_1.path.write_bytes(original)
        with spawn("--bind", "127.0.0.1", "--port", "0", "--native-port", "0", "--state",
                   str(version_1.path)) as server:
            time.sleep(pause_ms / 1_000)
            server.kill()
            server.wait(TIMEOUT_S)
        versions.add(version_of(version_1.path))
        checked = run_binary("state", "check", str(version_1.path))
        assert checked.returncode == 0, checked
    assert versions <= {1, 2}
    server = version_1.start()
    assert show(server, "a")["limits"][0]["amount"] == 1_000


# ------------------------------------------------------------------------------------------ compact

def compact(path):
    return run_binary("state", "compact", str(path))


@pytest.fixture
def wide(kept):
    """A file of a clean stop with much free room."""
    server = kept.start()
    put(server, "a", {**tokens(1_000), "period_ms": MONTH_MS}, slots(9))
    call(server, "record", {"subjects": ["a"], "input_tokens": 7})
    stop(server)
    change_file(kept.path, "CREATE TABLE ballast(bytes BLOB)",
                "INSERT INTO ballast VALUES(zeroblob(4000000))", "DROP TABLE ballast")
    return kept


def test_compact_frees_the_room_that_is_not_used(wide):
    before = wide.path.stat()
    assert before.st_size > 4_000_000
    result = compact(wide.path)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.startswith(f"{wide.path}: 4.0 MiB before, "), result
    after = wide.path.stat()
    assert after.st_size < 200_000
    assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)
    assert run_binary("state", "check", str(wide.path)).returncode == 0
    assert used(wide.start(), "a") == 7


def test_compact_of_a_crash_keeps_what_is_in_the_log(written):
    assert pathlib.Path(f"{written.path}-wal").stat().st_size > 0
    assert compact(written.path).returncode == 0
    assert used(written.start(), "a") == 7


def test_compact_leaves_a_file_in_use_alone(kept):
    server = kept.start()
    put(server, "a", tokens(100))
    result = compact(kept.path)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"another process uses it (process {server.pid})" in result.stderr, result
    put(server, "b", tokens(100))
    stop(server)
    assert show(kept.start(), "b")["source"] == "run_time"


def test_compact_needs_room(wide):
    def forbid_growth():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
    before = wide.path.read_bytes()
    result = run_binary("state", "compact", str(wide.path), preexec=forbid_growth)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{wide.path}.unfinished: " in result.stderr, result
    assert len(wide.path.read_bytes()) == len(before)
    assert not pathlib.Path(f"{wide.path}.unfinished").exists()
    assert used(wide.start(), "a") == 7


def test_compact_that_is_killed_loses_nothing(wide):
    original = wide.path.read_bytes()
    for pause_ms in range(0, 60, 3):
        for file in wide.path.parent.glob("state.db*"):
            file.unlink()
        wide.path.write_bytes(original)
        with spawn("state", "compact", str(wide.path)) as process:
            time.sleep(pause_ms / 1_000)
            process.kill()
            process.wait(TIMEOUT_S)
        checked = run_binary("state", "check", str(wide.path))
        assert checked.returncode == 0, checked
        assert first_value(wide.path, "SELECT count(*) FROM run_time_quota") == 1
    assert used(wide.start(), "a") == 7


# ----------------------------------------------------------------------------- copies that are ended

@pytest.fixture
def large(tmp_path):
    """A file whose copy takes a while."""
    path = tmp_path / "large.db"
    path.write_bytes(gzip.decompress(VERSION_1.read_bytes()))
    change_file(path, "CREATE TABLE ballast(bytes BLOB)", *[
        "INSERT INTO ballast VALUES(zeroblob(10000000))"] * 20)
    return path


@pytest.mark.parametrize("command", ["backup", "compact"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_unfinished(large, command, ending):
    target = large if command == "compact" else large.with_name("copy.db")
    unfinished = pathlib.Path(f"{target}.unfinished")
    words = [str(large)] if command == "compact" else [str(large), str(target)]
    with spawn("state", command, *words) as process:
        eventually(lambda: unfinished.exists() and unfinished.stat().st_size > 0, "it is copied")
        process.send_signal(ending)
        assert process.wait(TIMEOUT_S) == -ending
    assert not list(large.parent.glob("*unfinished*"))
    assert large.exists() and (command == "compact" or not target.exists())
    assert run_binary("state", "check", str(large)).returncode == 0


def test_a_copy_that_was_killed_is_made_anew(large):
    target = large.with_name("copy.db")
    unfinished = pathlib.Path(f"{target}.unfinished")
    with spawn("state", "backup", str(large), str(target)) as process:
        eventually(lambda: unfinished.exists() and unfinished.stat().st_size > 0, "it is copied")
        process.kill()
        process.wait(TIMEOUT_S)
    assert unfinished.exists() and not target.exists()
    assert run_binary("state", "backup", str(large), str(target)).returncode == 0
    assert target.exists() and not unfinished.exists()


def test_a_backup_of_a_damaged_part_says_so(version_1, tmp_path):
    change_file(version_1.path, "UPDATE part SET bytes = CAST(replace(bytes, 'batch', 'BATCH')"
                                " AS BLOB) WHERE number = 5")
    copy = tmp_path / "copy.db"
    result = run_binary("state", "backup", str(version_1.path), str(copy))
    assert result.returncode == 1, result
    assert " copied, epochs 1 to 4" in result.stdout
    assert result.stderr == (
        f"{copy}: the copy is not sound, as {version_1.path} itself: 1 damaged part, the first: "
        "part 5: its checksum is wrong; `sluicegate state recover` makes a sound file of it\n")


# ------------------------------------------------------------------------------------------ recover

PAGE = 32_768


@pytest.fixture
def long(kept):
    """Many parts: the usage of "a" in the first, further subjects in the others."""
    server = kept.start(shards=2)
    put(server, "a", {**tokens(1_000), "period_ms": MONTH_MS}, slots(9))
    call(server, "record", {"subjects": ["a"], "input_tokens": 7})
    kept.reservation = reserve(server, "a", input_tokens=100,
                               lifetime_ms=MONTH_MS)["reservation"]
    wait_durable(server)
    for n in range(60):
        put(server, f"b{n}", {**tokens(1_000 + n), "period_ms": MONTH_MS})
        call(server, "record", {"subjects": [f"b{n}"], "input_tokens": n})
    stop(server)
    return kept


def recover(kept):
    """The result, and servers with the new file."""
    made = kept.path.with_name("made.db")
    before = kept.path.read_bytes()
    result = run_binary("state", "recover", str(kept.path), str(made))
    assert kept.path.read_bytes() == before
    assert result.returncode in (0, 1), result
    checked = run_binary("state", "check", str(made))
    assert (checked.returncode, checked.stderr) == (0, ""), checked
    assert made.stat().st_mode & 0o777 == 0o600
    return result, Kept(kept.start_server, made)


def damage(path, offset, size=PAGE):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * size)


def numbers_and_epochs(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT number, epoch FROM part ORDER BY number").fetchall()


def test_recover_of_a_sound_file_loses_nothing(long):
    result, made = recover(long)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert " parts recovered, epochs 1 to " in result.stdout
    server = made.start(shards=2)
    assert (used(server, "a"), used(server, "b59")) == (107, 59)
    assert call(server, "cancel", {"reservation": long.reservation}).status == 200
    assert used(server, "a") == 7


def test_recover_leaves_a_damaged_part_out(long):
    """What only it had is lost; a newer state of the same things is not needed."""
    number, = [n for n, _ in numbers_and_epochs(long.path)][20:21]
    change_file(long.path, f"UPDATE part SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) "
                           f"|| 'x' AS BLOB) WHERE number = {number}")
    assert "is damaged" in long.refusal() or "damaged" in long.refusal()
    result, made = recover(long)
    assert result.returncode == 1
    assert result.stderr == f"{long.path}: lost: part {number}: its checksum is wrong\n"
    server = made.start(shards=2)
    assert (used(server, "a"), used(server, "b59")) == (107, 59)
    assert show(server, "b0")["source"] == "run_time"


def test_recover_goes_back_to_the_newest_whole_commit(long):
    rows = numbers_and_epochs(long.path)
    last = rows[-1]
    change_file(long.path, "UPDATE part SET bytes = zeroblob(length(bytes)) WHERE number = "
                           f"{last[0]}")
    result, made = recover(long)
    assert result.returncode == 1
    assert f"{long.path}: lost: part {last[0]}: it is not a part of a state\n" in result.stderr
    assert f" of epoch {last[1]}: not whole\n" in result.stderr, result
    assert f"epochs 1 to {last[1] - 1}, " in result.stdout
    assert used(made.start(shards=2), "a") == 107


@pytest.mark.parametrize("shards", [1, 2])
def test_recover_survives_any_damaged_page(long, shards):
    """What can be read is there, and a server starts with it."""
    sound = long.path.read_bytes()
    pages = len(sound) // PAGE
    kept_usage = 0
    for page in range(1, pages):
        long.path.write_bytes(sound)
        damage(long.path, page * PAGE)
        assert run_binary("state", "check", str(long.path)).returncode == 1
        result, made = recover(long)
        assert result.returncode == 1 and ": lost: " in result.stderr, result
        server = made.start(shards=shards)
        answer = ask(server, "GET", "/v1/subjects/a")
        if answer.status == 200:
            count = answer.json()["limits"][0]["used"]
            assert count in (0, 7, 107), answer
            kept_usage += count == 107
        stop(server)
        made.path.unlink()
    assert kept_usage >= 1


def test_recover_of_a_file_that_lacks_its_end(long):
    size = long.path.stat().st_size
    os.truncate(long.path, size - PAGE)
    assert run_binary("state", "check", str(long.path)).returncode in (1, 2)
    result, made = recover(long)
    assert result.returncode == 1
    stop(made.start(shards=2))


def test_recover_never_overwrites_and_never_invents(long, tmp_path):
    target = tmp_path / "target.db"
    target.write_text("mine")
    result = run_binary("state", "recover", str(long.path), str(target))
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{target}: it exists already" in result.stderr
    assert target.read_text() == "mine"
    damage(long.path, 0)
    result = run_binary("state", "recover", str(long.path), str(tmp_path / "new.db"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "it is no state file of Sluicegate" in result.stderr
    assert not list(tmp_path.glob("new.db*"))


# ------------------------------------------------------------- sound files that cannot be used here

def test_a_quota_of_a_time_zone_that_the_machine_lacks_is_no_damage(written):
    change_file(written.path, "UPDATE run_time_quota SET quota = '{\"limits\":[{\"name\":\"day\",'"
                              "|| '\"metric\":\"tokens\",\"amount\":5,\"kind\":\"calendar\",'"
                              "|| '\"period\":\"day\",\"time_zone\":\"Mars/Olympus\"}]}'")
    line = written.refusal()
    assert "it is sound, but cannot be used here: the quota that was put at run time: " in line
    assert '"Mars/Olympus"' in line and "tzdata" in line and "damaged" not in line, line
    checked = run_binary("state", "check", str(written.path))
    assert (checked.returncode, checked.stdout) == (1, "")
    first, last = checked.stderr.splitlines()
    assert first.startswith(f"{written.path}: the quota put for a cannot be used here: "), first
    assert last.startswith(f"{written.path}: sound, but this program cannot use it on this "
                           "machine"), last


# ------------------------------------------------------------------------------------------- export

def export(path):
    result = run_binary("state", "export", str(path))
    assert (result.returncode, result.stderr) == (0, ""), result
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["type"] == "file" and lines[-1]["type"] == "summary"
    return lines


def of_type(lines, name):
    return [line for line in lines if line["type"] == name]


def test_export_has_all_that_version_1_has(version_1):
    """As of its last commit, whenever the test runs; the server showed the same at that time."""
    lines = export(version_1.path)
    file, summary = lines[0], lines[-1]
    assert (file["schema_version"], file["shards"], file["epoch"]) == (1, 2, 4)
    assert file["last_commit"] == "2026-11-27T16:43:06.044Z"
    assert [quota["name"] for quota in of_type(lines, "run_time_quota")] == ["a", "b"]
    subjects = {line["name"]: line for line in of_type(lines, "subject")}
    assert [(limit["name"], limit["used"], limit["reserved"], limit["remaining"])
            for limit in subjects["a"]["limits"]] == [
                ("month", 127, 100, 873), ("bucket", 3, 1, 97), ("slots", 1, 1, 8)]
    assert subjects["a"]["open_reservations"] == 1
    fixed, = subjects["b"]["limits"]
    assert (fixed["kind"], fixed["used"], fixed["reset_ms"]) == ("fixed", 11, 2_591_999_698)
    held, ended = of_type(lines, "reservation")
    assert (held["reservation"], held["state"], held["owner"], held["subjects"]) == (
        "000137edf69591fb", "open", "batch", ["a"])
    assert (held["input_tokens"], held["expires_in_ms"]) == (100, 2_591_999_699)
    assert (ended["state"], ended["input_tokens"], ended["owner"]) == ("settled", 20, None)
    assert summary == {"type": "summary", "run_time_quotas": 2, "subjects": 2, "reservations": 2,
                       "ends": 0, "windows": 0, "skipped_parts": 0}
    assert version_of(version_1.path) == 1
    assert "seed" not in json.dumps(lines)


KINDS = ["sliding", "fixed", "gcra", "rolling_day", "anchored_day"]


def limit_of(kind):
    limit = {"name": kind, "metric": "tokens", "amount": 1_000_000, "kind": kind}
    return limit if kind.endswith("_day") else {**limit, "period_ms": MONTH_MS}


def compared(limit):
    """Without what moves on with the clock."""
    return {name: value for name, value in limit.items() if name != "reset_ms"}


@pytest.mark.parametrize("shards", [1, 3])
def test_export_shows_what_a_running_server_shows(kept, shards):
    server = kept.start(shards=shards)
    names = [f"s{n}" for n in range(20)]
    for n, name in enumerate(names):
        put(server, name, limit_of(KINDS[n % 5]), slots(9))
        call(server, "record", {"subjects": [name], "input_tokens": 10 + n})
    held = [reserve(server, names[n], names[-1 - n], input_tokens=100, lifetime_ms=MONTH_MS,
                    owner=f"o{n}")["reservation"] for n in range(6)]
    call(server, "settle", {"reservation": held[0], "input_tokens": 40})
    call(server, "cancel", {"reservation": held[1]})
    call(server, "reset", {"subject": names[7]})
    wait_durable(server)
    check_export(server, kept.path, names, set(held[2:]))
    call(server, "reset-all", b"")
    call(server, "record", {"subjects": [names[3]], "input_tokens": 4})
    wait_durable(server)
    check_export(server, kept.path, names, set(held[2:]))
    kill(server)
    lines = export(kept.path)
    assert len(of_type(lines, "subject")) == len(names)


def check_export(server, path, names, held):
    lines = export(path)
    subjects = {line["name"]: line for line in of_type(lines, "subject")}
    assert sorted(subjects) == sorted(names)
    for name in names:
        shown = show(server, name)
        assert [compared(limit) for limit in subjects[name]["limits"]] == [
            compared(limit) for limit in shown["limits"]], name
        assert subjects[name]["open_reservations"] == shown["open_reservations"]
    homes = [line for line in of_type(lines, "reservation")
             if line["state"] == "open" and line["part_of_shard"] is None]
    assert {line["reservation"] for line in homes} == held
    for line in homes:
        on_other_shards = [part["subjects"] for part in of_type(lines, "reservation")
                           if part["reservation"] == line["reservation"] and part is not line]
        assert len(line["subjects"]) + sum(map(len, on_other_shards)) == 2, lines


def test_export_leaves_out_what_is_gone(kept):
    server = kept.start()
    put(server, "a", tokens(100))
    put(server, "b", {**tokens(100), "period_ms": 1_000})
    call(server, "record", {"subjects": ["b"], "input_tokens": 1})
    wait_durable(server)
    assert ask(server, "DELETE", "/v1/subjects/a").status == 204
    wait_durable(server)
    stop(server)
    lines = export(kept.path)
    assert [line["name"] for line in of_type(lines, "run_time_quota")] == ["b"]
    a = [line for line in of_type(lines, "subject") if line["name"] == "a"]
    assert all(line["limits"] == [] for line in a), lines


def test_export_of_a_new_file(kept):
    stop(kept.start())
    lines = export(kept.path)
    assert [line["type"] for line in lines] == ["file", "summary"]


def test_export_counts_parts_of_an_unknown_kind(version_1):
    change_file(version_1.path, "INSERT INTO part VALUES(9, 4, 0, 77, x'0102')")
    lines = export(version_1.path)
    assert lines[-1]["skipped_parts"] == 1 and lines[-1]["subjects"] == 2


def test_export_of_a_damaged_part_is_an_error(version_1):
    change_file(version_1.path, "UPDATE part SET bytes = CAST(replace(bytes, 'batch', 'BATCH')"
                                " AS BLOB) WHERE number = 5")
    result = run_binary("state", "export", str(version_1.path))
    assert result.returncode == 2
    assert result.stderr == (f"Error: {version_1.path}: part 5: its checksum is wrong; "
                             "`sluicegate state recover` makes a sound file of it\n")
    assert '"type":"summary"' not in result.stdout


def test_export_that_cannot_be_printed_is_an_error(version_1):
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([os.environ["SLUICEGATE"], "state", "export", version_1.path],
                                stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
                                check=False, env=clean_environment())
    assert result.returncode == 2
    assert result.stderr == "Error: the output cannot be written: No space left on device\n"


# --------------------------------------------------------------------------- users who may only read

@pytest.fixture
def readable(written):
    """A file after a clean stop, in a folder where others may read, and not write."""
    stop(written.start())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "state.db"
        shutil.copy(written.path, path)
        path.chmod(0o644)
        folder.chmod(0o755)
        yield path


def test_a_user_who_may_only_read_sees_a_file_that_no_server_has(readable, tmp_path,
                                                                 become_nobody):
    names = os.listdir(readable.parent)
    for words in [["info"], ["check"], ["export"]]:
        result = run_binary("state", *words, str(readable), preexec=become_nobody)
        assert (result.returncode, result.stderr) == (0, ""), result
    assert '"used":7' in result.stdout
    assert os.listdir(readable.parent) == names
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        copy = pathlib.Path(folder) / "copy.db"
        result = run_binary("state", "backup", str(readable), str(copy), preexec=become_nobody)
        assert (result.returncode, result.stderr) == (0, ""), result
        assert run_binary("state", "check", str(copy)).returncode == 0
    pathlib.Path(f"{readable}-wal").write_bytes(b"commits")
    for words in [["info"], ["check"], ["export"], ["backup", str(tmp_path / "no.db")]]:
        result = run_binary("state", words[0], str(readable), *words[1:], preexec=become_nobody)
        assert (result.returncode, result.stdout) == (2, "")
        assert "its FILE-wal belongs to it, and only a user can read both" in result.stderr, result
