"""bench/http2_floods measures a lone client beside every flood, and beside ordinary requests.

Method: a moment of each with few connections against the real server.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "http2_floods"
sys.path.insert(0, str(PROGRAM.parent))

from suite import http2_floods  # noqa: E402  (after the path)


def run(*more):
    core = str(max(os.sched_getaffinity(0)))
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--server", os.environ["SLUICEGATE"], "--server-cpu", core,
         "--client-cpu", core, "--rounds", "1", "--seconds", "0.1", "--connections", "2",
         "--io", "epoll", *more], capture_output=True, text=True, timeout=140, check=False)


def test_measures_a_lone_client_beside_each_flood():
    done = run()
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["flood"], record["beside"]) for record in records] == [
        (flood, beside) for flood in http2_floods.FLOODS
        for beside in (flood, http2_floods.ORDINARY)]
    assert all(0 < record["p50_ms"] <= record["p99_ms"] for record in records)
    assert all(record["kb_per_s"] > 0 for record in records)
    assert "| rapid reset" in done.stderr


@pytest.mark.parametrize("ratio, fails", [("0.001", True), ("100000", False)])
def test_fails_when_a_lone_client_waits_too_long(ratio, fails):
    done = run("--floods", "ping", "--max-ratio", ratio)
    assert (done.returncode != 0) == fails, done.stderr
    assert (f"p99 above {float(ratio)} times" in done.stderr) == fails
