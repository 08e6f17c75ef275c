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
import signal
import sqlite3
import subprocess
import time

import pytest

from quota_calls import call, put, reserve, show, slots, tokens, used
from server_process import TIMEOUT_S, clean_environment, eventually, run_binary
from state_calls import Kept, kill, stop, wait_durable

MONTH_MS = 30 * 86_400_000
VERSION_1 = pathlib.Path(__file__).with_name("state_version_1.db.gz")


@pytest.fixture
def kept(start_server, tmp_path):
    return Kept(start_server, tmp_path / "state.db")


@pytest.fixture
def written(kept):
    """Its file is there, with its FILE-wal, after a crash."""
    kept.server = kept.start()
    put(kept.server, "a", {**tokens(1_000), "period_ms": MONTH_MS}, slots(9))
    call(kept.server, "record", {"subjects": ["a"], "input_tokens": 7})
    kill(kept.server)
    return kept


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


def spawn(*words, **options):
    return subprocess.Popen([os.environ["SLUICEGATE"], *words], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=clean_environment(), **options)


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
