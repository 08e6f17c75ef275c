"""bench/http2_floods measures a lone client beside every flood, and beside ordinary requests.

Method: a moment of each with few connections against the real server.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "http2_floods"
sys.path.insert(0, str(PROGRAM.parent))

from suite import http2_floods  # noqa: E402  (after the path)


def test_measures_a_lone_client_beside_each_flood():
    core = str(max(os.sched_getaffinity(0)))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--server", os.environ["SLUICEGATE"], "--server-cpu", core,
         "--client-cpu", core, "--rounds", "1", "--seconds", "0.1", "--connections", "2",
         "--io", "epoll"], capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["flood"], record["beside"]) for record in records] == [
        (flood, beside) for flood in http2_floods.FLOODS
        for beside in (flood, http2_floods.ORDINARY)]
    assert all(0 < record["p50_ms"] <= record["p99_ms"] for record in records)
    assert all(record["kb_per_s"] > 0 for record in records)
    assert "| rapid reset" in done.stderr
