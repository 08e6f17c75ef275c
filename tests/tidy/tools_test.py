"""The scripts report correctly: the counts of tools/test, and the ports that tools/run finds; and
tools/run keeps the right state file.

Method: hand-written meson test logs with outcomes that must not be lost.
"""

import fcntl
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS / "support"))

import count_results  # noqa: E402  (after the path)
import run_server  # noqa: E402
import run_state  # noqa: E402
import suite_programs  # noqa: E402


def gtest(*lines):
    return "".join(f"[{word:>10} ] {name} (1 ms)\n" for word, name in lines)


def summary(entries, stage_failed="0"):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "testlog.json")
        times = os.path.join(folder, "times")
        pathlib.Path(times).write_text("100 7 build\n", encoding="utf-8")
        with open(log, "w", encoding="utf-8") as file:
            for entry in entries:
                file.write(json.dumps({"name": "x", "stdout": "", **entry}) + "\n")
        run = subprocess.run([sys.executable, str(TOOLS / "support" / "count_results.py"),
                              stage_failed, times, log], capture_output=True, text=True,
                             check=False)
    return run.stdout.strip().split("\n")[-1], run.returncode


class CountResults(unittest.TestCase):
    def test_counts_the_tests_inside_a_program(self):
        output = gtest(("OK", "A.a"), ("OK", "A.b"), ("SKIPPED", "A.c"))
        self.assertEqual(summary([{"result": "OK", "stdout": output}]),
                         ("2 passed, 0 failed, 1 skipped", 0))

    def test_counts_a_plain_program_as_one(self):
        self.assertEqual(summary([{"result": "OK"}, {"result": "SKIP"}]),
                         ("1 passed, 0 failed, 1 skipped", 0))

    def test_counts_each_failure_once(self):
        # GoogleTest names a failed test twice; only the first line has its time.
        output = gtest(("OK", "A.a"), ("FAILED", "A.b")) + "[  FAILED  ] A.b\n 1 FAILED TEST\n"
        self.assertEqual(summary([{"result": "FAIL", "stdout": output}], "1"),
                         ("1 passed, 1 failed, 0 skipped", 1))

    def test_counts_a_crash_as_a_failure(self):
        self.assertEqual(summary([{"result": "FAIL", "stdout": gtest(("OK", "A.a"))}], "1"),
                         ("1 passed, 1 failed, 0 skipped", 1))

    def test_counts_a_time_out_as_a_failure(self):
        self.assertEqual(summary([{"result": "TIMEOUT"}], "1"),
                         ("0 passed, 1 failed, 0 skipped", 1))

    def test_reads_the_summary_of_pytest(self):
        output = "===== 1 failed, 12 passed, 2 skipped, 1 warning in 3.21s =====\n"
        self.assertEqual(summary([{"result": "FAIL", "stdout": output}], "1"),
                         ("12 passed, 1 failed, 2 skipped", 1))

    def test_counts_a_stage_that_broke(self):
        self.assertEqual(summary([{"result": "OK"}], "1"), ("1 passed, 1 failed, 0 skipped", 1))

    def test_fails_when_no_test_ran(self):
        self.assertEqual(summary([]), ("0 passed, 0 failed, 0 skipped", 1))


# Stands in for tools/setup and tools/build: the second preset compiles until the test ends it.
STUB_BUILD = """#!/bin/sh
mkdir -p build/$1/meson-logs
[ "$1" != debug ] || { touch compiling; exec sleep 60; }
"""
STUB_MESON = "#!/bin/sh\necho $$ >tests_pid\nexec sleep 60\n"


class ToolsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in (("tools/setup", "#!/bin/sh\n"), ("tools/build", STUB_BUILD),
                           ("tools/support/suite_programs.py", ""), ("bin/meson", STUB_MESON)):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        shutil.copy(TOOLS / "test", self.root / "tools" / "test")

    def start(self, *arguments):
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen([self.root / "tools" / "test", *arguments], text=True,
                                stderr=subprocess.PIPE, env={**os.environ, "PATH": path})

    def wait_until(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_ends_its_background_tests_when_it_is_terminated(self):
        tests_pid = self.root / "tests_pid"
        with self.start() as run:
            self.wait_until(lambda: (self.root / "compiling").exists() and tests_pid.exists()
                            and tests_pid.read_text(encoding="utf-8").endswith("\n"))
            pid = int(tests_pid.read_text(encoding="utf-8"))
            run.terminate()
            subprocess.run(["pkill", "-f", "-P", str(run.pid), "."], check=False)
            self.wait_until(lambda: not is_running(pid))

    def test_refuses_a_second_part(self):
        with self.start("unit", "property") as run:
            self.assertIn("not known here: property", run.communicate()[1])
            self.assertEqual(run.returncode, 2)

    def test_names_an_unknown_part(self):
        with self.start("nosuch") as run:
            self.assertIn("nosuch: no such part", run.communicate()[1])
            self.assertEqual(run.returncode, 2)


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2]
    except FileNotFoundError:
        return False
    return state != "Z"


class TimeTable(unittest.TestCase):
    def test_shows_when_steps_began_and_how_long_all_took(self):
        with tempfile.NamedTemporaryFile("w", suffix="times") as file:
            file.write("130 20 debug: compile\n100 30 release: compile\n131 60 release: test\n")
            file.flush()
            lines = count_results.time_table(file.name).split("\n")
        self.assertEqual([line.split() for line in lines[1:]],
                         [["0", "s", "30", "s", "release:", "compile"],
                          ["30", "s", "20", "s", "debug:", "compile"],
                          ["31", "s", "60", "s", "release:", "test"],
                          ["91", "s", "in", "all"]])


class SuitePrograms(unittest.TestCase):
    def test_are_the_targets_that_the_suites_depend_on(self):
        targets = [{"id": "a@exe", "filename": ["/b/tests/a"]},
                   {"id": "s@exe", "filename": ["/b/src/s"]},
                   {"id": "o@exe", "filename": ["/b/tests/o"]}]
        tests = [{"suite": ["p:unit", "p:tsan"], "depends": ["a@exe", "s@exe"]},
                 {"suite": ["p:unit"], "depends": ["o@exe"]}]
        self.assertEqual(suite_programs.programs(tests, targets, {"tsan"}, "/b"),
                         ["src/s", "tests/a"])
        self.assertEqual(suite_programs.programs(tests, targets, {"tsan", "unit"}, "/b"),
                         ["src/s", "tests/a", "tests/o"])


class Run(unittest.TestCase):
    def test_refuses_a_flag_that_the_server_does_not_know(self):
        # With only these commands the script cannot install or build anything, should it go on.
        with tempfile.TemporaryDirectory() as folder:
            for command in ("bash", "cat", "dirname", "grep", "sort", "tr"):
                os.symlink(shutil.which(command), os.path.join(folder, command))
            run = subprocess.run(["bash", str(TOOLS / "run"), "--max-requets", "3"],
                                 env={"PATH": folder}, capture_output=True, text=True,
                                 check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--max-requests", run.stderr)


class Addresses(unittest.TestCase):
    TABLE = """\
  sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode
   0: 0200007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 71 1 0 100 0 0 10 0
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 72 1 0 100 0 0 10 0
   2: 0100007F:1F92 0100007F:0050 01 00000000:00000000 00:00000000 00000000 0 0 73 1 0 100 0 0 10 0
"""

    def test_are_those_of_the_listening_sockets(self):
        self.assertEqual(run_server.listening(self.TABLE, {"71", "73"}), {("127.0.0.2", 8080)})
        self.assertEqual(run_server.listening(self.TABLE, set()), set())

    def test_have_both_families(self):
        loopback = "00000000000000000000000001000000:1F90"
        self.assertEqual(run_server.address_of(loopback), ("::1", 8080))
        self.assertEqual([run_server.host_for(address) for address in
                          ("0.0.0.0", "::", "127.0.0.2", "::1")],
                         ["localhost", "localhost", "127.0.0.2", "::1"])


class StateOfRun(unittest.TestCase):
    """tools/run keeps the state in a file of its own, unless the user chooses; --fresh removes no
    other one, and none that a server uses."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name).resolve() / "run" / "state.db"

    def prepared(self, *arguments, **environment):
        return run_state.prepared(list(arguments), self.path, environment)

    def files(self):
        return sorted(file.name for file in self.path.parent.iterdir())

    def make_files(self):
        self.path.parent.mkdir()
        for suffix in ("", "-wal", "-shm", ".lock"):
            pathlib.Path(f"{self.path}{suffix}").write_text("4711\n")

    def test_is_in_the_file_of_tools_run(self):
        flags, line = self.prepared("--port", "9000")
        self.assertEqual(flags, ["--port", "9000", "--state", str(self.path)])
        self.assertEqual(line, f"state: {self.path} (--fresh: an empty one)")
        self.assertTrue(self.path.parent.is_dir())

    def test_is_where_the_user_wants_it(self):
        for words in (["--state", "mine.db"], ["--state=mine.db"],
                      ["--state", "a.db", "--state=mine.db", "-m5"]):
            self.assertEqual(self.prepared(*words), (words, "state: mine.db"))
        self.assertEqual(self.prepared("-m5", STATE="mine.db"), (["-m5"], "state: mine.db"))
        for words in (["--state", ""], ["--state="]):
            self.assertEqual(self.prepared(*words), (words, "state: none is kept"))
        self.assertEqual(self.prepared(STATE="")[0], ["--state", str(self.path)])
        self.assertEqual(self.prepared("--state-sync-millis", "50")[0][2], "--state")
        self.assertEqual(self.prepared("--state-sync-millis=50")[0][1], "--state")

    def test_stays_without_fresh(self):
        self.make_files()
        self.prepared()
        self.assertEqual(len(self.files()), 4)

    def test_is_empty_with_fresh(self):
        for _ in range(2):  # there are no files the second time
            if not self.path.parent.exists():
                self.make_files()
            self.assertEqual(self.prepared("--fresh", "-m5")[0], ["-m5", "--state", str(self.path)])
            self.assertEqual(self.files(), ["state.db.lock"])

    def test_stays_when_a_server_uses_it(self):
        self.make_files()
        with open(f"{self.path}.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self.assertRaisesRegex(run_state.Refused, "process 4711 uses .*: stop it first"):
                self.prepared("--fresh")
        self.assertEqual(len(self.files()), 4)

    def test_of_the_user_stays_with_fresh(self):
        self.make_files()
        for words, variables in ((["--state", str(self.path)], {}), (["--state="], {}),
                                 ([], {"STATE": str(self.path)})):
            with self.assertRaisesRegex(run_state.Refused, "delete the file of --state"):
                self.prepared("--fresh", *words, **variables)
        self.assertEqual(len(self.files()), 4)

    def test_is_named_at_the_start(self):
        for words, code, printed in (
                ([], 0, f"tools/run: state: {self.path} (--fresh: an empty one)\n"),
                (["--fresh", "--state", "x"], 2, "tools/run: --fresh removes only the file of "
                 "tools/run itself: delete the file of --state, with its -wal and -shm, "
                 "yourself\n")):
            run = subprocess.run(
                [sys.executable, str(TOOLS / "support" / "run_server.py"), "--keep",
                 str(self.path), "echo", *words], capture_output=True, text=True, check=False,
                env={"PATH": os.environ["PATH"]})
            self.assertEqual((run.returncode, run.stderr), (code, printed))
            self.assertEqual(run.stdout, f"--state {self.path}\n" if code == 0 else "")


class FirstRequest(unittest.TestCase):
    """tools/run shows it whatever is logged and wherever the server listens: with a server of this
    script's instead of Sluicegate."""

    SERVER = """
import http.server, socket, sys, threading
class Native(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(400)
        self.end_headers()
    def log_message(self, *_):
        pass
class Rest(Native):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first")
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
host, native_port, rest_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
native = Server((host, native_port), Native)
threading.Thread(target=native.serve_forever, daemon=True).start()
Server((host, rest_port), Rest).serve_forever()
"""

    def shown(self, host, native_port, rest_port):
        command = [sys.executable, str(TOOLS / "support" / "run_server.py"), sys.executable, "-c",
                   self.SERVER, host, str(native_port), str(rest_port)]
        lines = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
            alarm = threading.Timer(60, run.terminate)
            alarm.start()
            for line in run.stdout:
                lines.append(line)
                if line.startswith("Stop with"):
                    run.terminate()
            alarm.cancel()
        return "".join(lines)

    def test_is_shown_without_a_log(self):
        shown = self.shown("127.0.0.2", 0, 0)
        self.assertRegex(shown, r"\$ curl -i -X POST 127\.0\.0\.2:\d+/rate/hello\n")
        self.assertRegex(shown, r"(?s)HTTP/1\.1 200 OK.*\nfirst\n")

    def test_goes_to_the_rest_port_whichever_is_found_first(self):
        for _ in range(2):
            low, high = sorted(free_ports())
            for native_port, rest_port in ((low, high), (high, low)):
                shown = self.shown("127.0.0.2", native_port, rest_port)
                self.assertIn(f"REST:            http://127.0.0.2:{rest_port}\n", shown)
                self.assertIn(f"Native protocol: 127.0.0.2:{native_port}\n", shown)

    def test_goes_to_an_address_of_ipv6(self):
        shown = self.shown("::1", 0, 0)
        self.assertRegex(shown, r"\$ curl -i -X POST \[::1\]:\d+/rate/hello\n")
        self.assertRegex(shown, r"Native protocol: \[::1\]:\d+\n")


def free_ports():
    with socket.create_server(("127.0.0.2", 0)) as one, socket.create_server(
            ("127.0.0.2", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


class Help(unittest.TestCase):
    def test_exists_for_every_tool(self):
        for tool in ("setup", "build", "run", "test", "mutate", "coverage", "tidy.py"):
            run = subprocess.run([str(TOOLS / tool), "--help"], capture_output=True, text=True,
                                 check=False)
            self.assertEqual(run.returncode, 0, tool)
            self.assertIn("tools/" + tool, run.stdout)

    def test_is_all_that_bugs_does_when_asked_for_it(self):
        run = subprocess.run([sys.executable, str(TOOLS / "support" / "bugs.py"), "--help"],
                             capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(run.returncode, 0)
        self.assertIn("tools/test bugs", run.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
