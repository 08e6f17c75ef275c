"""The real binary as a child process: starts it with flags, reads its log, ends it by its pid."""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

# gocc has the same warning.
NO_STATE_FILE = ("no --state FILE: quotas put at run time, usage and reservations end with the "
                 "server")
NO_CONFIG_FILE = ("No config file provided, no key specific rate limits will be used (unless "
                  "clients set them)")

TIMEOUT_S = 30  # for actions that take milliseconds on an idle machine

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def binary():
    """The server's path, from the environment variable SLUICEGATE."""
    path = os.environ.get("SLUICEGATE")
    if not path:
        raise RuntimeError("SLUICEGATE must name the server's binary (meson sets it)")
    return str(pathlib.Path(path).resolve())


def clean_environment():
    """The environment without variables that the server reads as flags, such as PORT."""
    keep = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS",
            "LLVM_PROFILE_FILE")
    return {name: os.environ[name] for name in keep if name in os.environ}


def run_binary(*arguments, environment=None, preexec=None):
    """Runs a command that exits by itself, until its end."""
    return subprocess.run(
        [binary(), *arguments], capture_output=True, text=True, timeout=2 * TIMEOUT_S,
        env=clean_environment() | (environment or {}), preexec_fn=preexec, check=False)


def assert_does_not_start(*arguments, preexec, parts):
    result = run_binary("--bind", "127.0.0.1", "--port", "0", "--native-port", "0", *arguments,
                        preexec=preexec)
    assert result.returncode == 2, result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("Error: "), result
    for part in parts:
        assert part in lines[0]


def spawn(*arguments, **options):
    """Starts a command, whose output nobody reads."""
    return subprocess.Popen([binary(), *arguments], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=clean_environment(), **options)


def eventually(condition, what, timeout_s=TIMEOUT_S):
    """Waits until `condition()` is true, and returns what it returned."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def in_some_try(try_once, what, tries=10):
    """For a step that must happen at a certain moment, such as before a window ends: `try_once`
    returns whether it did, and asserts only then. A slow machine misses the moment at times, but
    not always."""
    assert any(try_once() for _ in range(tries)), f"missed in each of {tries} tries: {what}"


class ServerProcess:
    """Started when constructed; `port` and `native_port` are known when the constructor returns."""

    def __init__(self, io, shards, *flags, bind="127.0.0.1", native_port=0, preexec=None):
        self.io = io
        self.shards = shards
        self.host = bind  # the address for peers
        # Not pinned: servers of parallel tests would all stay on the first cores.
        native = [] if native_port is None else ["--native-port", str(native_port)]
        self.command = [binary(), "--bind", bind, "--port", "0", *native,
                        "--io", io, "--shards", str(shards), "--pin=false",
                        "--drain-millis", "3000", *flags]

        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if preexec:
                preexec()

        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=clean_environment(), preexec_fn=prepare, text=True)
        self.pid = self.process.pid
        self.is_ending = False  # a signal was sent: a second one would cut the drain short
        self.log = []     # lines of stdout, as JSON objects
        self.errors = []  # lines of stderr
        self._readers = [
            threading.Thread(target=self._read_log, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self._readers:
            reader.start()
        try:
            ready = self.wait_for_message("ready")
        except BaseException:
            self.kill()
            raise
        self.port = ready["port"]
        self.native_port = ready["nativePort"]

    def _read_log(self):
        for line in self.process.stdout:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"message": "", "notJson": line})

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def messages(self):
        return [line["message"] for line in self.log]

    def warnings(self):
        """All warnings except the one about a missing --config-file."""
        return [line for line in self.log
                if line.get("level") == "WARN" and line["message"] != NO_CONFIG_FILE]

    def wait_for_message(self, message):
        """The first log line of this message."""
        def found():
            line = next((line for line in self.log if line["message"] == message), None)
            assert line or self.is_running() or any(r.is_alive() for r in self._readers), (
                f"the server ended before it logged {message!r}:\n{self.output()}")
            return line
        return eventually(found, f"the log says {message!r}\n{self.output()}")

    def is_running(self):
        return self.process.poll() is None

    def signal(self, number):
        if number in (signal.SIGTERM, signal.SIGINT):
            self.is_ending = True
        self.process.send_signal(number)

    def pause(self):
        """Stops all threads; after resume() one loop iteration sees all input sent meanwhile."""
        self.signal(signal.SIGSTOP)
        threads = pathlib.Path(f"/proc/{self.pid}/task")
        eventually(lambda: all(stat.read_text().rsplit(")", 1)[1].split()[0] == "T"
                               for stat in threads.glob("*/stat")), "it is stopped")

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, timeout_s=TIMEOUT_S):
        """Waits for the end; returns the exit code."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        return code

    def stop(self):
        """Sends SIGTERM unless one was sent; returns the exit code."""
        if self.is_running():
            if not self.is_ending:
                self.signal(signal.SIGTERM)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
        return self.wait()

    def kill(self):
        self.process.kill()
        self.wait()

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def cpu_seconds(self):
        """CPU time of its threads so far: other programs affect it less than elapsed time."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def output(self):
        lines = [json.dumps(line) for line in self.log]
        return "\n".join([" ".join(self.command), *lines, *self.errors,
                          f"exit code: {self.process.returncode}"])
