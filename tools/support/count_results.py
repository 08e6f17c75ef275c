"""Counts the results of meson's test logs: the last line of tools/test.

    count_results.py STAGE_FAILED TIMES TESTLOG_JSON...

TIMES has a line for each step: its start time, its duration in seconds, its name.

Each test of a GoogleTest program or a pytest run counts; any other program counts as one test. A
program that dies counts as one more failure, so that a crash never looks like fewer tests. Exit
status 1 when anything failed, or nothing ran.
"""

import json
import re
import sys
from collections import Counter

GTEST_RESULT = re.compile(r"^\[\s*(OK|FAILED|SKIPPED)\s*\] \S+ \(\d+ ms\)$", re.MULTILINE)
PYTEST_SUMMARY = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)
WORDS = {
    "OK": "passed", "EXPECTEDFAIL": "passed", "passed": "passed", "xfailed": "passed",
    "SKIP": "skipped", "SKIPPED": "skipped", "skipped": "skipped",
}


def inner_results(output):
    """The counts that the program itself reports; empty when its format is unknown."""
    counts = Counter(WORDS.get(word, "failed") for word in GTEST_RESULT.findall(output))
    summary = PYTEST_SUMMARY.search(output)
    if not counts and summary:
        for number, word in re.findall(r"(\d+) (\w+)", summary.group(1)):
            if word not in ("warning", "warnings", "deselected"):
                counts[WORDS.get(word, "failed")] += int(number)
    return counts


def results_of(entry):
    outcome = WORDS.get(entry["result"], "failed")
    counts = inner_results(entry.get("stdout") or "")
    if not counts or outcome == "skipped":
        return Counter([outcome])
    if outcome == "failed" and not counts["failed"]:
        counts["failed"] += 1
    return counts


def time_table(path):
    """The time of each step; one preset's tests overlap with the next one's compilation."""
    with open(path, encoding="utf-8") as file:
        fields = [line.rstrip("\n").split(" ", 2) for line in file]
    steps = sorted((int(begin), int(seconds), name) for begin, seconds, name in fields)
    if not steps:
        return ""
    first = steps[0][0]
    lines = ["  begins     takes  step"]
    lines += [f"{begin - first:6} s  {seconds:6} s  {name}" for begin, seconds, name in steps]
    whole = max(begin + seconds for begin, seconds, _ in steps) - first
    return "\n".join([*lines, f"{'':10}{whole:6} s  in all"])


def main():
    stage_failed = sys.argv[1] != "0"
    total = Counter()
    failures = []
    for path in sys.argv[3:]:
        with open(path, encoding="utf-8") as log:
            for line in log:
                entry = json.loads(line)
                counts = results_of(entry)
                total += counts
                if counts["failed"]:
                    failures.append(f"{path.split('/')[1]}: {entry['name']}")
    if stage_failed and not total["failed"]:
        total["failed"] += 1  # a build that broke, or a run that ended early
        failures.append("a stage ended before its tests did; see above")
    print(time_table(sys.argv[2]), file=sys.stderr)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    sys.stderr.flush()
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
