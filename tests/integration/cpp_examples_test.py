"""Goal: the C++ examples do what their first lines state. Method: runs each against a server."""

import os
import pathlib
import re
import subprocess

from conftest import LONG_WINDOW

EXAMPLES = pathlib.Path(os.environ["SLUICEGATE_CPP_EXAMPLES"])


def run_example(name, server):
    result = subprocess.run([EXAMPLES / name, f"127.0.0.1:{server.native_port}"],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_guard_endpoint(start_server):
    lines = run_example("guard_endpoint", start_server(*LONG_WINDOW))
    assert lines == ["alice: 5 served, 15 denied", "bob: 5 served, 15 denied"]


def test_guard_endpoint_stays_open_without_a_server(start_server):
    server = start_server()
    server.stop()
    lines = run_example("guard_endpoint", server)
    assert lines.count("unlimited for now: unreachable") == 40
    assert lines[-1] == "bob: 20 served, 0 denied"


def test_guard_model(start_server):
    line, = run_example("guard_model", start_server("--shards", "2"))
    # 100 tokens of input each, and 20, 30 or 40 of output.
    used = sum(120 + prompt % 3 * 10 for prompt in range(100) if prompt % 10 != 9)
    assert line == f"90 answered, 10 failed, {used} tokens used, 0 calls open"


def test_wait_in_queue(start_server):
    line, = run_example("wait_in_queue", start_server(*LONG_WINDOW))
    assert re.fullmatch("8 pages on 2 printers, at most [12] at once", line)


def test_paced_batch(start_server):
    lines = run_example("paced_batch", start_server("--window-millis", "500"))
    sent, left = map(int, re.fullmatch(r"round 1: (\d+) sent, (\d+) left", lines[0]).groups())
    assert sent >= 2_000 and sent + left == 5_000  # more where a window ended meanwhile
    assert lines[-1].endswith(": 5000 sent, 0 left")
