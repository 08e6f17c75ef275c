"""`sluicegate state`: exit codes and output of the real binary.

Method: files that tests/integration/write_state.cpp writes as a server does, whole, damaged, or
while it goes on committing.
"""

import json
import os
import pathlib
import re
import sqlite3
import subprocess
import time

import pytest

from server_process import TIMEOUT_S, clean_environment, run_binary

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z, \d+\.\d s ago"


def write(path, epochs):
    subprocess.run([os.environ["SLUICEGATE_WRITE_STATE"], path, str(epochs)], check=True,
                   timeout=TIMEOUT_S, env=clean_environment())


@pytest.fixture
def state(tmp_path):
    path = str(tmp_path / "state.db")
    write(path, 3)
    return path


@pytest.fixture
def state_in_use(tmp_path):
    path = str(tmp_path / "state.db")
    with subprocess.Popen([os.environ["SLUICEGATE_WRITE_STATE"], path, "3", "hold"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=clean_environment()) as writer:
        assert writer.stdout.readline() == "ready\n"
        yield path
        writer.stdin.close()
        assert writer.wait(TIMEOUT_S) == 0


def commands_on(path, target):
    return [["state", "info", path], ["state", "check", path], ["state", "backup", path, target]]


def change(path, *statements):
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_info_has_a_line_for_each_fact(state):
    result = run_binary("state", "info", state)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(
        rf"file +{state}\nserver version +0\.1\.0\nshards +2\nschema version +2\n"
        rf"last commit +{TIME}\nparts +6, \d+ bytes, epochs 1 to 3\nrun-time quotas +1\n"
        r"quota classes +1\nFILE +160\.0 KiB, of which 0 bytes are free for new parts\n"
        r"FILE-wal +\d+\.\d KiB\n", result.stdout), result.stdout


def test_info_as_json(state):
    result = run_binary("state", "info", state, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    info = json.loads(result.stdout)
    assert info["file"] == state and info["shards"] == 2 and info["server_version"] == "0.1.0"
    assert (info["parts"], info["first_epoch"], info["last_epoch"]) == (6, 1, 3)
    assert 0 <= info["last_commit_age_ms"] < 1000 * TIMEOUT_S
    assert not [name for name in info if "seed" in name]


def test_check_of_a_sound_file(state):
    result = run_binary("state", "check", state)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(rf"{state}: sound, 6 parts, epochs 1 to 3, last commit {TIME}\n",
                        result.stdout), result.stdout


def test_check_names_what_is_damaged(state):
    change(state, "UPDATE part SET bytes = CAST(substr(bytes, 1, 120) AS BLOB) WHERE number = 2",
           "UPDATE part SET epoch = 9 WHERE number = 5")
    result = run_binary("state", "check", state)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"{state}: part 5: its epoch 9 is later than that of the part after it",
        f"{state}: part 2: its length is wrong",
        f"{state}: not sound, 2 damaged parts; restore a backup, or move it and the FILE-wal "
        "beside it away to begin anew; `sluicegate state recover` saves what is sound"]


def test_check_of_a_file_that_lacks_its_end(state):
    change(state, "PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(state, os.path.getsize(state) - 32_768)
    result = run_binary("state", "check", state)
    assert (result.returncode, result.stdout) == (1, "")
    assert all(line.startswith(f"{state}: ") for line in result.stderr.splitlines()), result


def test_backup_is_a_file_of_its_own(state, tmp_path):
    target = str(tmp_path / "copy.db")
    result = run_binary("state", "backup", state, target)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(rf"{target}: \d+\.\d KiB copied, epochs 1 to 3, last commit {TIME}\n",
                        result.stdout), result.stdout
    assert os.stat(target).st_mode & 0o777 == 0o600
    assert not os.path.exists(target + "-wal") or os.path.getsize(target + "-wal") == 0
    write(state, 2)
    assert run_binary("state", "check", target).stdout.count("epochs 1 to 3") == 1
    write(target, 1)  # a server goes on with it
    assert run_binary("state", "check", target).stdout.count("epochs 1 to 4") == 1


def test_backup_never_overwrites(state, tmp_path):
    target = tmp_path / "copy.db"
    target.write_text("mine")
    result = run_binary("state", "backup", state, str(target))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (f"Error: {target}: it exists already (File exists); name a file that "
                             "does not exist\n")
    assert target.read_text() == "mine"


def last_epoch_of(path):
    return json.loads(run_binary("state", "info", path, "--json").stdout)["last_epoch"]


def wait_for_commit_after(path, epoch):
    deadline = time.monotonic() + TIMEOUT_S
    while last_epoch_of(path) <= epoch:
        assert time.monotonic() < deadline, f"no commit after epoch {epoch}"


def test_all_work_beside_a_server(state_in_use, tmp_path):
    last = 0
    for n in range(5):
        wait_for_commit_after(state_in_use, last)
        target = str(tmp_path / f"copy-{n}.db")
        for words in [*commands_on(state_in_use, target), ["state", "check", target]]:
            result = run_binary(*words)
            assert (result.returncode, result.stderr) == (0, ""), result
        present = last_epoch_of(state_in_use)
        assert last < last_epoch_of(target) <= present
        last = present


@pytest.mark.parametrize("content, expected", [
    ("", "it is empty; restore a backup, or delete it to begin anew"),
    ("keys: []\n", "it is no state file of Sluicegate (no SQLite database); name another file; "
                   "this one is left as it is")])
def test_what_is_no_state_file_is_an_error(tmp_path, content, expected):
    path = tmp_path / "other"
    path.write_text(content)
    target = tmp_path / "copy.db"
    for words in commands_on(str(path), str(target)):
        result = run_binary(*words)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == f"Error: {path}: {expected}\n"
    assert path.read_text() == content and not target.exists()


def test_a_database_of_somebody_else_is_an_error(tmp_path):
    path = str(tmp_path / "other.db")
    change(path, "CREATE TABLE part(number)")
    result = run_binary("state", "info", path)
    assert result.returncode == 2 and "it is no state file of Sluicegate" in result.stderr, result


def test_a_newer_version_is_an_error(state, tmp_path):
    change(state, "PRAGMA user_version = 3")
    for words in commands_on(state, str(tmp_path / "copy.db")):
        result = run_binary(*words)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == (
            f"Error: {state}: a newer version of Sluicegate wrote it (it has version 3, this "
            "program knows 2); start that version, or name another file\n")


def test_a_missing_file_is_an_error(tmp_path):
    path = tmp_path / "no.db"
    for words in commands_on(str(path), str(tmp_path / "copy.db")):
        result = run_binary(*words)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == (f"Error: {path}: there is no such file; name the file that the "
                                 "server has as --state\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words", [[], ["info"], ["backup", "a"], ["check", "a", "b"], ["chekc"],
                                   ["info", "a", "--jsno"]])
def test_a_usage_error_is_no_answer(words):
    result = run_binary("state", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert "sluicegate state" in result.stderr and "Error: " in result.stderr


def shape(text):
    """The text with every number, size and time alike."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return re.sub(r"\b\d+(\.\d+)?( (bytes|[KMG]iB))?\b", "N", text)


def test_prints_what_is_documented(state, tmp_path):
    """The commands of docs/state.md in their order; the files of its second check and of `recover`
    are damaged."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
    places = {"/var/lib/sluicegate/state.db": state,
              "/backup/recovered.db": str(tmp_path / "recovered.db"),
              "/backup/state-monday.db": str(tmp_path / "state-monday.db")}
    blocks = re.findall(r"^\$ sluicegate (state .*)\n((?:(?!\$ |```).*\n)*)", page, re.MULTILINE)
    assert len(blocks) == 7
    for command, documented in blocks:
        for there, here in places.items():
            command, documented = command.replace(there, here), documented.replace(there, here)
        damaged = "checksum is wrong" in documented
        if damaged:
            pathlib.Path(places["/backup/state-monday.db"]).unlink(missing_ok=True)
            write(places["/backup/state-monday.db"], 3)
            change(places["/backup/state-monday.db"],
                   "UPDATE part SET bytes = CAST(replace(bytes, 'gpt', 'GPT') AS BLOB) "
                   "WHERE number = 2")
        result = run_binary(*command.split())
        assert shape(result.stderr + result.stdout) == shape(documented)
        if damaged:
            os.remove(places["/backup/state-monday.db"])


def test_help_shows_exit_codes():
    for word in ["info", "check", "backup", "export", "compact", "recover"]:
        shown = run_binary("help", "state", word)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "Exit code: 0 when " in shown.stdout
        assert max(map(len, shown.stdout.splitlines())) <= 100


def test_output_that_cannot_be_written_is_an_error(state):
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([os.environ["SLUICEGATE"], "state", "info", state], stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False,
                                env=clean_environment())
    assert result.returncode == 2
    assert result.stderr == "Error: the output cannot be written: No space left on device\n"
