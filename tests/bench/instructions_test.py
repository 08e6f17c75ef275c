"""bench/instructions counts the same in every run, and compares with what it counted before. A turn
with nothing to do takes no more instructions the more shards there are.

Method: the quickest parts, twice; turns with 2 and with 64 shards. Skipped without valgrind.

    instructions_test.py PROGRAM
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "instructions"
PARTS = ["decide_10k_denied", "encode_agree_256"]
IDLE_TURNS = ["idle_turn_2_shards", "idle_turn_64_shards"]
IDLE_TURN_MAX = 5_000
SKIPPED = 77  # for meson


def count(*arguments, parts=tuple(PARTS)):
    only = [word for part in parts for word in ("--only", part)]
    run = subprocess.run([sys.executable, SCRIPT, "--program", sys.argv[1], "--json", *only,
                          *arguments], check=True, stdout=subprocess.PIPE, text=True, timeout=100)
    return json.loads(run.stdout)


def main():
    if not shutil.which("valgrind"):
        print("no valgrind")
        sys.exit(SKIPPED)
    first = count()
    counts = first["instructions_per_decision"]
    assert list(counts) == PARTS, counts
    assert all(number > 0 for number in counts.values()), counts
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(first, file)
        file.flush()
        second = count("--against", file.name)
    assert second["instructions_per_decision"] == counts, (counts, second)
    assert all(ratio == 1 for ratio in second["ratio"].values()), second
    few, many = count(parts=IDLE_TURNS)["instructions_per_decision"].values()
    assert few == many <= IDLE_TURN_MAX, (few, many)


if __name__ == "__main__":
    main()
