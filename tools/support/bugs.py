"""Reintroduces bugs, one by one, and shows that a named test turns red: `tools/test bugs`.

    bugs.py            builds and tests each patch of tests/bugs in a copy of the tree
    bugs.py --check    only: each patch names its test and still applies (plain tools/test)

A patch opens with two lines, then the diff that git apply reads:

    Bug: a newcomer overtakes a waiter.
    Test: unit/unit-shard Shard.newcomer_never_overtakes

Test is meson's SUITE/NAME; a GoogleTest filter may follow.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tree_copy import copy_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "bugs"
TREE = WORK / "tree"
BUILD = WORK / "build"


class Bug:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        what = re.search(r"^Bug: (.+)$", self.text, re.MULTILINE)
        test = re.search(r"^Test: ([\w-]+)/([\w-]+)(?: (\S+))?$", self.text, re.MULTILINE)
        self.what = what and what.group(1)
        self.suite, self.test, self.filter = test.groups() if test else (None, None, None)

    def named_test(self):
        return self.suite, self.test, self.filter

    def title(self):
        name = f"{self.suite}/{self.test}" + (f" {self.filter}" if self.filter else "")
        return f"{self.path.name}: {self.what} [{name}]"


def run(command, folder, **options):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          **options)


def apply(bug, folder, *options):
    # Outside a repository, git apply takes paths as they are; in a folder of a repository it would
    # skip them silently.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return run(["git", "apply", *options, str(bug.path)], folder, env=environment)


def bugs():
    return [Bug(path) for path in sorted((ROOT / "tests" / "bugs").glob("*.patch"))]


def check():
    complaints = []
    for bug in bugs():
        if not bug.what or not bug.test:
            complaints.append(f"{bug.path.name}: names no 'Bug:' or no 'Test: suite/name'")
        applied = apply(bug, ROOT, "--check")
        if applied.returncode != 0:
            complaints.append(f"{bug.path.name}: does not apply: {applied.stderr.strip()}")
    for complaint in complaints:
        print(complaint)
    print(f"{len(bugs())} bug patches, {len(complaints)} complaints")
    return 1 if complaints else 0


def make_copy():
    shutil.rmtree(WORK, ignore_errors=True)
    copy_tree(ROOT, TREE)
    if (ROOT / ".venv").exists():  # for tests in Python
        (TREE / ".venv").symlink_to(ROOT / ".venv")
    setup = run(["meson", "setup", "--native-file", str(ROOT / "tools/presets/release.ini"),
                 "-Dbench=false", str(BUILD), str(TREE)], TREE)
    if setup.returncode != 0:
        sys.exit(setup.stdout + setup.stderr)


def result_of(bug):
    """meson's result of the test: OK, FAIL, TIMEOUT, ...; or the reason why there is none."""
    command = ["meson", "test", "-C", str(BUILD), "--suite", bug.suite, bug.test]
    if bug.filter:
        command.append(f"--test-args=--gtest_filter={bug.filter}")
    log = BUILD / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    done = run(command, TREE)  # builds what the test needs
    if not log.exists():
        return "no such test, or it does not build: " + done.stdout[-2000:]
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    if bug.filter and any("Running 0 tests" in (e.get("stdout") or "") for e in entries):
        return "no such test"
    return entries[0]["result"] if len(entries) == 1 else f"{len(entries)} tests of that name"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="build and run nothing")
    if parser.parse_args().check:
        return check()
    if check() != 0:
        return 1
    make_copy()
    passed = failed = 0
    without_bug = {}  # by test: several patches name the same one
    for bug in bugs():
        print(f"== {bug.title()}", flush=True)
        if bug.named_test() not in without_bug:
            without_bug[bug.named_test()] = result_of(bug)
        before = without_bug[bug.named_test()]
        if apply(bug, TREE).returncode != 0:
            sys.exit(f"{bug.path.name} does not apply to the copy")
        after = result_of(bug) if before == "OK" else "not tried"
        if apply(bug, TREE, "-R").returncode != 0:
            sys.exit(f"{bug.path.name} cannot be reverted")
        caught = before == "OK" and after in ("FAIL", "ERROR", "TIMEOUT")
        print(f"   {'caught' if caught else 'NOT CAUGHT'}: {before} without it, {after} with it",
              flush=True)
        passed += caught
        failed += not caught
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
