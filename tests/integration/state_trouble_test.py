"""--state and trouble: files that the server must refuse, and files that fail while it runs.

Method: a file that it refuses has the same bytes afterwards. For a disk that fails, a file system
of two megabytes is filled (root may mount one), or the kernel lets the process write no further
(RLIMIT_FSIZE), which anybody may ask for; both can be taken back.
"""

import contextlib
import ctypes
import ctypes.util
import multiprocessing
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import time

import pytest

from conftest import ONE_ENGINE
from http_peer import ask, metrics, totals
from native_peer import NativePeer
from quota_calls import call, put, reserve, show, slots, tokens, used
from server_process import eventually, run_binary
from state_calls import (Kept, change_quota, kill, kill_now, state_metrics, status, stop,
                         wait_durable)

MONTH_MS = 30 * 86_400_000
SMALL = {**tokens(5), "period_ms": MONTH_MS}


def wal_of(path):
    return pathlib.Path(f"{path}-wal")


def contents(kept):
    """An empty FILE-wal, which SQLite leaves, is none."""
    log = wal_of(kept.path)
    return (kept.path.read_bytes() if kept.path.exists() else None,
            log.read_bytes() if log.exists() else b"")


def check_refused(kept, *parts, preexec=None):
    before = contents(kept)
    line = kept.refusal(preexec=preexec)
    assert contents(kept) == before, "it has changed the file"
    for part in (str(kept.path), *parts):
        assert part in line, line


def change_file(kept, statement, *values):
    """As another program would; afterwards all is in FILE."""
    with contextlib.closing(sqlite3.connect(kept.path)) as database:
        database.execute(statement, values)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


# ------------------------------------------------------------------------- files that are refused
# What is read at the start does not depend on the engine.

on_one_engine = pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)


@on_one_engine
def test_a_second_process_learns_who_has_the_file(kept):
    first = kept.start()
    put(first, "a", tokens(100))
    wait_durable(first)
    check_refused(kept, "another process uses it", f"process {first.pid}",
                  "stop that process, or name another file")
    put(first, "b", tokens(100))
    kill_now(first)
    assert show(kept.start(), "b")["source"] == "run_time"


@on_one_engine
def test_a_process_that_ends_leaves_its_file_to_the_next(written):
    """Also through a link: it is the same file."""
    link = written.path.with_name("link.db")
    link.symlink_to(written.path.name)
    server = Kept(written.start_server, link).start()
    assert "another process uses it" in written.refusal()
    assert used(server, "a") == 7
    stop(server)
    assert used(written.start(), "a") == 7


@on_one_engine
def test_a_newer_version(written):
    change_file(written, "PRAGMA user_version = 3")
    check_refused(written, "a newer version of Sluicegate wrote it", "version 3",
                  "start that version, or name another file")


@on_one_engine
@pytest.mark.parametrize("content, cause", [
    (b"", "it is empty; restore a backup, or delete it to begin anew"),
    (b"keys: []\n", "it is no state file of Sluicegate (no SQLite database)"),
    (b"SQLite format 3\0" + bytes(84), "it is no state file of Sluicegate")])
def test_what_is_no_state_file(kept, content, cause):
    kept.path.write_bytes(content)
    check_refused(kept, cause)


@on_one_engine
def test_a_database_of_somebody_else(kept):
    with contextlib.closing(sqlite3.connect(kept.path)) as database:
        database.execute("CREATE TABLE part(number)")
        database.commit()
    check_refused(kept, "it is no state file of Sluicegate", "name another file")


@on_one_engine
def test_a_damaged_page(written):
    change_file(written, "UPDATE meta SET value = value")
    with contextlib.closing(sqlite3.connect(written.path)) as database:
        page, = database.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'part'").fetchone()
        size, = database.execute("PRAGMA page_size").fetchone()
    with written.path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 64)
    check_refused(written, "it is damaged", "restore a backup, or move it")


@on_one_engine
def test_a_file_that_lacks_its_end(written):
    change_file(written, "UPDATE meta SET value = value")
    os.truncate(written.path, written.path.stat().st_size - 32_768)
    check_refused(written, "it is damaged", "restore a backup, or move it")


def newest_part(kept):
    with contextlib.closing(sqlite3.connect(kept.path)) as database:
        return database.execute(
            "SELECT number, bytes FROM part ORDER BY number DESC LIMIT 1").fetchone()


@on_one_engine
@pytest.mark.parametrize("place", ["header", "records"])
def test_a_flipped_bit_in_a_part(written, place):
    number, content = newest_part(written)
    at = 30 if place == "header" else len(content) - 1
    flipped = content[:at] + bytes([content[at] ^ 4]) + content[at + 1:]
    change_file(written, "UPDATE part SET bytes = ? WHERE number = ?", flipped, number)
    check_refused(written, "damaged", f"part {number}: its checksum is wrong", "restore a backup")
    change_file(written, "UPDATE part SET bytes = ? WHERE number = ?", content, number)
    assert used(written.start(), "a") == 7


def flip_a_bit(path, number):
    """Of an older part: a start reads its records, behind the heads of the newest ones. The process
    that does it ends as in a crash: SQLite's last connection that is closed removes FILE-wal."""
    def flip():
        database = sqlite3.connect(path)
        content, = database.execute("SELECT bytes FROM part WHERE number = ?", (number,)).fetchone()
        flipped = content[:-1] + bytes([content[-1] ^ 4])
        database.execute("UPDATE part SET bytes = ? WHERE number = ?", (flipped, number))
        database.commit()
        os._exit(0)
    process = multiprocessing.get_context("fork").Process(target=flip)
    process.start()
    process.join()
    assert process.exitcode == 0


@on_one_engine
def test_a_flipped_bit_in_an_older_part_beside_a_log(kept):
    kept.server = kept.start()
    for amount in (1, 2, 3):
        put(kept.server, "a", {**tokens(amount), "period_ms": MONTH_MS})
    kill(kept.server)
    flip_a_bit(kept.path, 1)
    assert wal_of(kept.path).stat().st_size > 0
    check_refused(kept, "damaged", "part 1: its checksum is wrong", "restore a backup")


@on_one_engine
def test_a_flipped_bit_in_a_backup(written):
    copy = written.path.with_name("copy.db")
    assert run_binary("state", "backup", str(written.path), str(copy)).returncode == 0
    flip_a_bit(copy, 1)
    restored = Kept(written.start_server, copy)
    check_refused(restored, "damaged", "part 1: its checksum is wrong", "restore a backup")


@on_one_engine
def test_a_part_that_is_missing(kept):
    """The newest commit has a part of each shard."""
    server = kept.start(shards=2)
    put(server, "a", tokens(100))
    kill(server)
    change_file(kept, "DELETE FROM part WHERE number = (SELECT max(number) FROM part)")
    check_refused(kept, "damaged", "lacks the parts of a shard", "restore a backup")


@on_one_engine
def test_a_log_without_its_file(written):
    log = wal_of(written.path)
    assert log.stat().st_size > 0
    moved = written.path.with_name("moved.db")
    written.path.rename(moved)
    check_refused(written, "there is a FILE-wal without its file", "restart the server with both")
    moved.rename(written.path)
    assert used(written.start(), "a") == 7


@on_one_engine
def test_a_log_of_another_server(written, start_server, tmp_path):
    """Also of a file that was restored from an earlier copy: SQLite would mix the two."""
    other = Kept(start_server, tmp_path / "other.db")
    server = other.start()
    for number in range(20):
        put(server, f"b{number}", slots(5))
    kill(server)
    server = written.start()
    stop(server)
    shutil.copy(wal_of(other.path), wal_of(written.path))
    check_refused(written, "the FILE-wal beside it is another file's",
                  "restart the server with both")
    result = run_binary("state", "check", str(written.path))
    assert result.returncode != 0 and "another file's" in result.stderr, result


@pytest.mark.parametrize("what, cause", [
    ("folder", "it is a folder"), ("pipe", "it is no regular file"),
    ("link", "it is a symbolic link to what is not there")])
def test_what_is_no_file(kept, what, cause):
    if what == "folder":
        kept.path.mkdir()
    elif what == "pipe":
        os.mkfifo(kept.path)
    else:
        kept.path.symlink_to("mnt/state.db")
    assert cause in kept.refusal()
    assert kept.path.is_symlink() == (what == "link")
    assert not pathlib.Path(f"{kept.path}.lock").exists()
    if what != "link":
        result = run_binary("state", "check", str(kept.path))
        assert result.returncode == 2 and cause in result.stderr, result


def test_a_missing_folder(kept):
    kept.path = kept.path.parent / "no" / "state.db"
    check_refused(kept, "its folder must exist")
    assert not kept.path.parent.exists()


@pytest.fixture
def others_folder():
    """Others may read there, but not write; tmp_path is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        yield folder


@on_one_engine
@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_or_file_that_the_user_may_not_write(written, others_folder, is_there,
                                                      become_nobody):
    stop(written.start())
    mine = Kept(written.start_server, others_folder / "state.db")
    if is_there:
        shutil.copy(written.path, mine.path)
        lock = pathlib.Path(f"{mine.path}.lock")
        lock.touch()
        lock.chmod(0o666)
        mine.path.chmod(0o644)
    check_refused(mine, "let the server's user write" if is_there else
                  "the user of the process must be able to write", preexec=become_nobody)


# ----------------------------------------------------------------------------- disks that are full

class FullFileSystem:
    """A small one; a file of ballast takes all the room that is left."""

    kind = "full"
    preexec = None

    def __init__(self, folder):
        self.folder = folder
        result = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder],
                                capture_output=True, check=False)
        if result.returncode != 0:
            pytest.skip("no right to mount a file system")

    def fill(self, _):
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4_096))

    def make_room(self, _):
        (self.folder / "ballast").unlink()

    def end(self):
        subprocess.run(["umount", "--lazy", self.folder], check=True)


class ForbiddenWrites:
    """No file may grow."""

    kind = "io"

    def __init__(self, folder):
        self.folder = folder

    @staticmethod
    def preexec():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(self, server):
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def make_room(self, server):
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    def end(self):
        pass


@pytest.fixture(params=[FullFileSystem, ForbiddenWrites])
def disk(request, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = request.param(folder)
    yield disk
    disk.end()


def fail(server, disk):
    """Fills the disk, and lets the server find out."""
    disk.fill(server)

    def is_failing():
        call(server, "record", {"subjects": ["a"], "input_tokens": 1})
        return status(server) == "failing"
    eventually(is_failing, "it cannot write")


def messages(server, level, text):
    return [line for line in server.log
            if line.get("level") == level and line["message"].startswith(text)]


def wait_messages(server, level, text, times=1):
    """The log is written, and read, a little later than what it is about."""
    eventually(lambda: len(messages(server, level, text)) >= times, f"{times} x {text}")
    found = messages(server, level, text)
    assert len(found) == times, found
    return found


def administrative_calls(server):
    """Each kind of change, and what it is answered."""
    yield change_quota(server, "PUT", "a", SMALL, slots(1))
    yield change_quota(server, "PUT", "new", SMALL)
    yield change_quota(server, "DELETE", "b")
    yield call(server, "reset", {"subject": "a"})
    yield call(server, "reset-all", b"")


def native_administrative_codes(server):
    with NativePeer(server) as peer:
        for kind, body in [
                ("quota", {"subject": b"b", "remove": True}),
                ("quota", {"subject": b"a", "quota": {"limits": [
                    {"name": "t", "metric": "tokens", "amount": 5, "kind": "sliding",
                     "periodMs": MONTH_MS}]}}),
                ("reset", {"subject": b"a"}), ("reset", {"all": True})]:
            yield from peer.call(kind, body).codes


def test_a_full_disk_stops_no_decision(disk, start_server):
    kept = Kept(start_server, disk.folder / "state.db")
    server = kept.start(preexec=disk.preexec)
    for name in "ab":
        put(server, name, {**tokens(1_000_000), "period_ms": MONTH_MS}, slots(9))
    early = reserve(server, "a", input_tokens=100, lifetime_ms=MONTH_MS)["reservation"]
    wait_durable(server)
    fail(server, disk)
    before = [show(server, name) for name in "ab"]
    for answer in administrative_calls(server):
        assert (answer.status, answer.json()["code"]) == (503, "not_durable"), answer
        assert answer.json()["retryable"] and int(answer.header("Retry-After")) >= 1
    assert set(native_administrative_codes(server)) == {"notDurable"}
    assert ask(server, "GET", "/v1/subjects/new").status == 404
    after = [show(server, name) for name in "ab"]
    for shown in (*before, *after):
        for limit in shown["limits"]:
            limit.pop("reset_ms")
    assert before == after, "nothing has changed"
    late = reserve(server, "a", "b", input_tokens=50, lifetime_ms=MONTH_MS)["reservation"]
    assert call(server, "settle", {"reservation": early, "input_tokens": 10}).status == 200
    assert call(server, "record", {"subjects": ["b"], "input_tokens": 3}).status == 200
    assert call(server, "check", {"subjects": ["a", "b"]}).status == 200
    shown = state_metrics(server)
    assert shown[f'sluicegate_state_failures_total{{kind="{disk.kind}"}}'] >= 1
    assert shown["sluicegate_state_lag_seconds"] > 0
    error, = wait_messages(server, "ERROR", "the state is not written for now")
    assert error["kind"] == disk.kind and str(kept.path) in error["message"]
    assert messages(server, "INFO", "the state is written again") == []

    disk.make_room(server)
    eventually(lambda: status(server) == "running", "it writes again")
    wait_durable(server)
    wait_messages(server, "INFO", "the state is written again")
    wait_messages(server, "ERROR", "the state is")
    amounts = [used(server, name) for name in "ab"]
    kill_now(server)
    server = kept.start()
    assert [used(server, name) for name in "ab"] == amounts
    assert amounts[1] == 53
    assert call(server, "settle", {"reservation": late, "input_tokens": 20}).status == 200
    assert [used(server, name) for name in "ab"] == [amounts[0] - 30, amounts[1] - 30]
    codes = [answer.status for answer in administrative_calls(server)]
    assert codes == [200, 200, 204, 200, 200]


def test_a_disk_that_is_full_again_and_again(disk, start_server):
    kept = Kept(start_server, disk.folder / "state.db")
    server = kept.start(preexec=disk.preexec)
    put(server, "a", {**tokens(1_000_000), "period_ms": MONTH_MS})
    for times in range(1, 4):
        fail(server, disk)
        disk.make_room(server)
        eventually(lambda: status(server) == "running", "it writes again")
        wait_durable(server)
        amount = used(server, "a")
        wait_messages(server, "INFO", "the state is written again", times)
        wait_messages(server, "ERROR", "the state is not written for now", times)
    kill_now(server)
    assert used(kept.start(), "a") == amount


def test_a_server_that_ends_while_the_disk_is_full_says_so(disk, start_server):
    kept = Kept(start_server, disk.folder / "state.db")
    server = kept.start(preexec=disk.preexec)
    put(server, "a", {**tokens(1_000_000), "period_ms": MONTH_MS})
    call(server, "record", {"subjects": ["a"], "input_tokens": 1_000})
    wait_durable(server)
    fail(server, disk)
    server.signal(signal.SIGTERM)
    assert server.wait() == 1, server.output()
    assert len(messages(server, "ERROR", "the last changes are not in the state file")) == 1
    if disk.kind == "full":
        disk.make_room(server)
    server = kept.start()
    assert used(server, "a") >= 1_000


@on_one_engine
def test_a_disk_that_is_full_at_the_start(start_server, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = FullFileSystem(folder)
    try:
        disk.fill(None)
        kept = Kept(start_server, folder / "state.db")
        line = kept.refusal()
        assert str(kept.path) in line and "make room there" in line, line
        assert not kept.path.exists()
        disk.make_room(None)
        server = kept.start()
        put(server, "a", tokens(1))
        stop(server)
    finally:
        disk.end()


# ------------------------------------------------------------------------ files that others change

def move(path):
    path.rename(path.with_name("moved.db"))


def replace(path):
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.parametrize("change", [move, pathlib.Path.unlink, replace,
                                    lambda path: wal_of(path).unlink()],
                         ids=["move", "delete", "replace", "delete_wal"])
def test_a_file_that_is_not_in_its_place_any_more(kept, change):
    server = kept.start()
    put(server, "a", {**tokens(1_000_000), "period_ms": MONTH_MS})
    put(server, "b", tokens(1))
    call(server, "record", {"subjects": ["a"], "input_tokens": 1_000})
    wait_durable(server)
    change(kept.path)
    call(server, "record", {"subjects": ["a"], "input_tokens": 1})
    eventually(lambda: status(server) == "failed", "it sees that")
    for answer in administrative_calls(server):
        assert (answer.status, answer.json()["code"]) == (503, "not_durable"), answer
    assert reserve(server, "a", input_tokens=2)["code"] == "ok"
    assert used(server, "a") == 1_003
    error, = wait_messages(server, "ERROR", "the state is no longer written")
    assert error["kind"] == "moved" and str(kept.path) in error["message"]
    assert totals(server)['sluicegate_state_failures_total{kind="moved"}'] == 1
    assert metrics(server)["sluicegate_state_lag_seconds"] > 0
    server.signal(signal.SIGTERM)
    assert server.wait() == 1, server.output()
    if change is move:
        kept.path.with_name("moved.db").rename(kept.path)
        server = kept.start()
        assert used(server, "a") in (1_000, 1_001)  # a commit may have been under way


# --------------------------------------------------------------------------------------- backups

@on_one_engine
def test_a_backup_beside_the_running_server_can_be_restored(kept):
    server = kept.start()
    put(server, "a", {**tokens(1_000_000), "period_ms": MONTH_MS}, slots(100))
    lease = reserve(server, "a", input_tokens=500, lifetime_ms=MONTH_MS)["reservation"]
    wait_durable(server)
    copies = []
    for number in range(5):
        call(server, "record", {"subjects": ["a"], "input_tokens": 10})
        wait_durable(server)
        for _ in range(20):
            call(server, "record", {"subjects": ["a"], "input_tokens": 10})
        at_least = 500 + 10 * (21 * number + 1)
        copy = kept.path.with_name(f"backup{number}.db")
        result = run_binary("state", "backup", str(kept.path), str(copy))
        assert (result.returncode, result.stderr) == (0, ""), result
        copies.append((copy, at_least, at_least + 200))
    stop(server)
    for copy, at_least, at_most in copies:
        # As docs/state.md has it.
        wal_of(kept.path).write_bytes(b"of another file")
        shutil.copy(copy, kept.path)
        check_refused(kept, "the FILE-wal is of another file: delete the FILE-wal")
        for suffix in ("-wal", "-shm"):
            pathlib.Path(f"{kept.path}{suffix}").unlink(missing_ok=True)
        server = kept.start()
        amount = used(server, "a")
        assert at_least <= amount <= at_most
        assert call(server, "settle", {"reservation": lease, "input_tokens": 0}).status == 200
        put(server, "a", {**tokens(7), "period_ms": MONTH_MS})
        kill_now(server)
        server = kept.start()
        assert show(server, "a")["limits"][0]["amount"] == 7
        stop(server)


# ---------------------------------------------------------------------------------------- clocks

class Part:
    """The header of a part (src/state/part.hpp), to be written with other clocks."""

    WALL_AT, BOOT_AT, BOOT_ID_AT, HEADER_BYTES = 32, 40, 48, 112

    def __init__(self, content, library):
        self.content, self.library = bytearray(content), library

    def number(self, at):
        return struct.unpack_from("<q", self.content, at)[0]

    def set_number(self, at, value):
        struct.pack_into("<q", self.content, at, value)

    def hash(self, begin, end, seed):
        data = bytes(self.content[begin:end])
        return self.library.XXH3_64bits_withSeed(data, ctypes.c_size_t(len(data)),
                                                 ctypes.c_uint64(seed))

    def sealed(self):
        records = self.hash(self.HEADER_BYTES, len(self.content), 0)
        struct.pack_into("<Q", self.content, 8, self.hash(16, self.HEADER_BYTES, records))
        return bytes(self.content)


def change_clocks(kept, change):
    """Writes all parts anew, with what `change` has made of their clocks."""
    name = ctypes.util.find_library("xxhash")
    if name is None:
        pytest.skip("no libxxhash, which the checksums need")
    library = ctypes.CDLL(name)
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    with contextlib.closing(sqlite3.connect(kept.path)) as database:
        parts = database.execute("SELECT number, bytes FROM part").fetchall()
    for number, content in parts:
        part = Part(content, library)
        assert part.sealed() == content, "the helper computes checksums as the server does"
        change(part)
        change_file(kept, "UPDATE part SET bytes = ? WHERE number = ?", part.sealed(), number)


def rest_of_lease(server, lease):
    return ask(server, "GET", f"/v1/reservations/{lease}").json()["expires_in_ms"]


@pytest.fixture
def leased(kept):
    server = kept.start()
    put(server, "a", slots(1))
    kept.lease = reserve(server, "a", lifetime_ms=MONTH_MS)["reservation"]
    stop(server)
    return kept


HOUR_NS = 3_600 * 10**9


@on_one_engine
def test_after_a_boot_the_wall_clock_gives_the_downtime(leased):
    def an_hour_ago(part):
        part.set_number(Part.BOOT_ID_AT, 1)
        part.set_number(Part.WALL_AT, part.number(Part.WALL_AT) - HOUR_NS)

    change_clocks(leased, an_hour_ago)
    server = leased.start()
    restored = server.wait_for_message("state: restored")
    assert restored["downtimeMillis"] >= 3_600_000
    assert rest_of_lease(server, leased.lease) <= MONTH_MS - 3_600_000
    assert server.warnings() == []


@on_one_engine
def test_a_wall_clock_that_was_set_back_counts_as_no_time(leased):
    def in_an_hour(part):
        part.set_number(Part.BOOT_ID_AT, 1)
        part.set_number(Part.WALL_AT, part.number(Part.WALL_AT) + HOUR_NS)

    change_clocks(leased, in_an_hour)
    server = leased.start()
    started = time.monotonic()
    assert server.wait_for_message("state: restored")["downtimeMillis"] == 0
    warning, = server.warnings()
    assert "behind the time at which the state was stored" in warning["message"]
    assert warning["state"] == str(leased.path)
    rest = rest_of_lease(server, leased.lease)
    assert MONTH_MS - 60_000 - 1_000 * (time.monotonic() - started) <= rest <= MONTH_MS
    assert call(server, "reserve", {"subjects": ["a"]}).status == 429


@on_one_engine
def test_without_a_boot_the_wall_clock_does_not_matter(leased):
    change_clocks(leased, lambda part: part.set_number(
        Part.WALL_AT, part.number(Part.WALL_AT) + HOUR_NS))
    server = leased.start()
    assert server.wait_for_message("state: restored")["downtimeMillis"] < 3_600_000
    assert server.warnings() == []
