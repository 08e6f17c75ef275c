"""bench/clients/cpp_client measures every way it names, once, and says so in JSON.

Method: the program against the real server for a moment. Figures are only checked for being
there.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "clients" / "cpp_client"


def run(*arguments):
    core = str(min(os.sched_getaffinity(0)))
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--server", os.environ["SLUICEGATE"], "--load",
         os.environ["SLUICEGATE_CPP_CLIENT_LOAD"], "--rounds", "1", "--seconds", "0.05", "--keys",
         "1000", "--client-cpu", core, "--server-cpu", core, "--io", "epoll", *arguments],
        capture_output=True, text=True, timeout=100, check=False)


def test_every_way_is_measured():
    done = run()
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    rates = {record["way"]: record["median"] for record in records if "way" in record}
    assert len(rates) == 8 and all(rate > 0 for rate in rates.values())
    assert [record for record in records if "ratio" in record]
    for name in rates:
        assert name in done.stderr  # the table


def test_load_names_the_fault():
    load = os.environ["SLUICEGATE_CPP_CLIENT_LOAD"]
    done = subprocess.run([load, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "nonsense" in done.stderr
    done = subprocess.run([load, "raw", "--address", "127.0.0.1:1"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and "Connection refused" in done.stderr
