"""bench/instructions counts the same in every run, and compares with what it counted before.

Method: the quickest parts, twice. Skipped without valgrind.

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
SKIPPED = 77  # for meson


def count(*arguments):
    only = [word for part in PARTS for word in ("--only", part)]
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


if __name__ == "__main__":
    main()
