"""Runs commands, each in a process group of its own, which one signal ends whole.

Bounds: time, memory of the group, size of a file. Nothing is left running when `stop_all` returned.
"""

import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import threading
import time

MEMORY_BYTES_MAX = 6 << 30  # of a group: a mutant may allocate without end
FILE_BYTES_MAX = 1 << 30    # it may write without end, too
POLL_S = 0.02
MEMORY_POLL_S = 0.5
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Stopped(Exception):
    """The tool ends: the command's result is worth nothing."""


_groups = set()
_lock = threading.Lock()
_stopping = threading.Event()


def stop_all():
    """Ends all groups, and refuses further commands."""
    _stopping.set()
    with _lock:
        for group in _groups:
            _kill(group)


def _kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _prepare_child():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should this tool be killed
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _memory_bytes(group):
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it ended meanwhile
        if int(fields[2]) == group:
            total += int(fields[21]) * PAGE_BYTES
    return total


def run(command, folder, output, timeout_s, environment=None):
    """How the command ended: its exit code, or "time" or "memory" when it was ended for that.

    `output`: the file that gets what it prints.
    """
    with open(output, "wb") as file:
        with _lock:
            if _stopping.is_set():
                raise Stopped
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_prepare_child)
            _groups.add(process.pid)
        try:
            ended = _wait(process, timeout_s)
        finally:
            _kill(process.pid)  # also what the command left running
            process.wait()
            with _lock:
                _groups.discard(process.pid)
    if _stopping.is_set():
        raise Stopped
    return ended


def _wait(process, timeout_s):
    begin = time.monotonic()
    memory_check = begin + MEMORY_POLL_S
    while True:
        code = process.poll()
        if code is not None:
            return code
        now = time.monotonic()
        if now - begin > timeout_s:
            return "time"
        if now > memory_check:
            memory_check = now + MEMORY_POLL_S
            if _memory_bytes(process.pid) > MEMORY_BYTES_MAX:
                return "memory"
        time.sleep(POLL_S)
