"""bench/turns/turns measures the turns of a shard under each kind of load.

Method: a moment of a load of frames, a flood and a reload against the real programs.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "turns" / "turns"


def test_measures_turns_apart_by_page_faults():
    core = str(max(os.sched_getaffinity(0)))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--program", os.environ["TIMED_SERVER"], "--load",
         os.environ["SLUICEGATE"], "--server-cpu", core, "--client-cpu", core, "--seconds", "0.5",
         "--loads", "acquire-64", "check", "reload"],
        capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stderr
    records = {record["load"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert list(records) == ["acquire-64", "check", "reload"]
    for name, record in records.items():
        clean, faulting = record["without_faults"], record["with_faults"]
        assert clean["turns"] + faulting["turns"] > 0
        for turns in (clean, faulting):
            if turns["turns"] == 0:
                continue
            assert 0 < turns["p50_us"] <= turns["p99_us"] <= turns["max_us"]
            assert all((turn["faults"] > 0) == (turns is faulting) for turn in turns["largest"])
        assert name in done.stderr
