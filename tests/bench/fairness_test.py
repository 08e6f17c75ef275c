"""bench/fairness measures every flood, alone and beside another server.

Method: a moment of each with few connections against the real server.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "fairness"


def run(*arguments):
    server = os.environ["SLUICEGATE"]
    core = str(max(os.sched_getaffinity(0)))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--server", server, "--server-cpu", core,
         "--client-cpu", core, "--rounds", "1", "--seconds", "0.1", "--connections", "2",
         "--io", "epoll", *arguments],
        capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_measures_a_lone_client_beside_each_flood():
    records, table = run()
    for flood in ("acquire", "check", "usage", "inspect", "debug"):
        backlog, load = (record for record in records if record["flood"] == flood)
        assert backlog["measured"] == "backlog" and backlog["requests"] >= 4
        assert 0 < backlog["share"] <= 1 and backlog["cpu_ms"] > 0
        assert load["measured"] == "load" and load["answered_kb_per_s"] > 0
        assert 0 < load["p50_ms"] <= load["p99_ms"] <= load["worst_ms"]
        assert f"| {flood}" in table


def test_measures_an_earlier_server_too():
    records, _ = run("--floods", "acquire", "--measure", "backlog",
                     "--before", os.environ["SLUICEGATE"])
    assert sorted(record["who"] for record in records) == ["before", "now"]
