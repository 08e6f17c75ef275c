"""bench/quota/overshoot shows what it is for: check-then-record goes over the limit, the others do
not.

Method: the program with small numbers against the real server; its books are kept by the workers,
so that the server is held against what they did, not against what it says.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "quota" / "overshoot"


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--server", os.environ["SLUICEGATE"], *arguments],
        capture_output=True, text=True, timeout=100, check=False)


def test_only_those_who_reserve_keep_to_the_limit(tmp_path):
    plot = tmp_path / "new" / "overshoot.svg"
    done = run("--json", "--workers", "50", "--limit", "2000", "--period-ms", "500",
               "--latency-ms", "50", "--seconds", "2", "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    records = {record["way"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert list(records) == ["check, record", "reserve, settle", "wait"]
    assert records["check, record"]["most_in_a_period"] > 2_000, records
    for way in ("reserve, settle", "wait"):
        assert records[way]["most_in_a_period"] <= 2_000, records
        assert records[way]["calls"] > 20, records  # some of four periods' worth
    assert records["wait"]["denials"] == 0 < records["reserve, settle"]["denials"]
    assert "</svg>" in plot.read_text()


def test_a_table_for_people(tmp_path):
    done = run("--workers", "5", "--seconds", "0.2", "--plot", str(tmp_path / "overshoot.png"))
    assert done.returncode == 0, done.stderr
    assert "5 workers, at most 5,000 tokens in any 1,000 ms" in done.stdout
    for way in ("check, record", "reserve, settle", "wait"):
        assert f"\n{way} " in done.stdout


def test_no_plot_without_matplotlib(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')\n")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--server", os.environ["SLUICEGATE"], "--workers", "2",
         "--seconds", "0.1", "--plot", str(tmp_path / "overshoot.svg")],
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=100,
        check=False)
    assert done.returncode == 0 and "no plot without matplotlib" in done.stderr, done.stderr
    assert not (tmp_path / "overshoot.svg").exists()


def test_no_server_and_help():
    done = subprocess.run([sys.executable, str(PROGRAM), "--server", "/nowhere"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no server at /nowhere" in done.stderr
    assert "--period-ms" in run("--help").stdout
