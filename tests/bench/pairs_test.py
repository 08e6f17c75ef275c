"""bench/quota/pairs measures every way and prints the ratios between them.

Method: a moment of each against the real server, beside the same as an earlier one; Redis too,
where it is there.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "quota" / "pairs"


def run(*arguments):
    server = os.environ["SLUICEGATE"]
    core = str(max(os.sched_getaffinity(0)))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--server", server, "--load", os.environ["PAIRS_LOAD"],
         "--server-cpu", core, "--client-cpu", core, "--rounds", "1", "--seconds", "0.1",
         *arguments],
        capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    ways = {record["way"]: record for record in records if "way" in record}
    assert all(way["median"] > 0 and way["p50_us"] > 0 for way in ways.values()), ways
    return ways, {record["ratio"]: record["median"] for record in records if "ratio" in record}


def test_every_way_and_the_ratios_between_them():
    ways, ratios = run("--before", os.environ["SLUICEGATE"])
    earlier = [way for way in ways if way.endswith(", before")]
    assert len(ways) - len(earlier) == 19 and len(earlier) == 9
    assert sum("subject" in ratio and "before" not in ratio for ratio in ratios) >= 2
    pair, rate = ways["a lone pair over REST"], ways["a lone /rate"]
    assert ratios["a lone pair takes ... times a /rate (p50)"] == pair["p50_us"] / rate["p50_us"]
    for way in ("windows by key, 256 a frame", "a lone /rate"):
        ratio = ways[way]["median"] / ways[f"{way}, before"]["median"]
        assert ratios[f"{way}: ... times as fast as before"] == ratio


@pytest.mark.skipif(not (shutil.which("redis-server") and shutil.which("redis-benchmark")),
                    reason="Redis is a peer for measurements alone, not installed by tools/setup")
def test_redis_beside():
    ways, ratios = run("--ways", "pairs of one", "--redis")
    assert list(ways) == ["pairs of one subject", "pairs of one subject, Redis"]
    ours, redis = (way["median"] for way in ways.values())
    assert ratios == {"pairs of one subject: ... times as fast as Redis": ours / redis}


def test_a_state_beside():
    ways, ratios = run("--state", "--ways", "half load")
    assert list(ways) == ["half load: a lone pair", "half load: a lone pair, with a state"]
    assert list(ratios) == ["half load: p99 of a lone pair with a state, ... times without"]
    ways, ratios = run("--state", "--ways", "cores: pairs of ten")
    kept, without = (ways[way]["median"] for way in sorted(ways, reverse=True))
    ratio, = ratios.values()
    assert ratio == kept / without
