"""bench/clients/python_client measures every way it names, once, and says so in JSON.

Method: the program against the real server for a moment. Figures are only checked for being
there.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "clients" / "python_client"


def run(*arguments):
    core = str(min(os.sched_getaffinity(0)))
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--server", os.environ["SLUICEGATE"], "--rounds", "1",
         "--seconds", "0.01", "--memory-keys", "5000", "--client-cpu", core, "--server-cpu",
         core, "--io", "epoll", *arguments],
        capture_output=True, text=True, timeout=100, check=False)


def test_every_way_is_measured():
    done = run("--distinct", "9000")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    rates = {record["way"]: record["median"] for record in records if "way" in record}
    assert all(rate > 0 for rate in rates.values())
    assert {"raw send and receive", "acquire", "acquire_many, 1 in flight",
            "acquire_many, 4 in flight", "handles, 1 in flight", "asyncio, 1,000 tasks",
            "uvloop, 1,000 tasks", "8 threads"} <= set(rates)
    assert [record for record in records if "ratio" in record]
    assert [record for record in records if "memory" in record]
    for name in rates:
        assert name in done.stderr  # the table


def test_reports_skipped_measurements():
    done = run("--distinct", "10")
    assert done.returncode == 1 and "--distinct must be at least" in done.stderr
    done = run("--client-cpu", "9999")
    assert done.returncode == 1 and "core 9999 may not be used" in done.stderr


def test_help():
    done = run("--help")
    assert done.returncode == 0 and "--rounds" in done.stdout
