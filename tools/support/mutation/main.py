"""Changes one line of the product at a time, and shows which changes no test notices.

usage: tools/mutate (--sample N | --changed SINCE | --again FILE | PATH...) [options]

Each change (a mutant: `<` becomes `<=`, a statement vanishes, a condition is always true ...) is
made in a copy of the tree below build/mutate, built, and held against the tests: those of its
folder first (tests/unit/FOLDER, tests/clients), then property, simulation (100 seeds), integration,
conformance, clients, the other unit tests and fuzz corpora, until one turns red, twice in a row. A
test that takes more than five times as long as without the mutant is red, too.

    tools/mutate --sample 60 --seed 1     60 lines of src/ and both clients, evenly at random
    tools/mutate --changed origin/main    the lines that changed since then, before a change is done
    tools/mutate src/quota                the lines of a folder or file
    tools/mutate --again FILE             the survivors of an earlier run, after tests were added

A run that was interrupted (Ctrl-C) goes on when it is started again: the outcomes so far are in
build/mutate/results-TREE.jsonl (TREE stands for the sources, and changes with them). At the end
come the survivors as diffs, figures by folder, and "N killed, N survived, N excluded, N not built".
Exit status 1 when one survived.

A survivor is a missing test, or a line that is not needed, or changes nothing: such a mutant goes
into tests/mutants/equivalent with its reason, judged by a second reader. docs/hacking.md,
"Mutants", lists what is left out from the start.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "support"))

from mutation import processes, project  # noqa: E402  (after the path)
from mutation.candidates import Line, Mutant, Tree, source_files  # noqa: E402
from mutation.exclusions import Equivalents  # noqa: E402
from mutation.report import print_report  # noqa: E402
from mutation.trial import (Results, TestIsRed, Times, excluded, read_records,  # noqa: E402
                            shown, try_mutant)

WORK = ROOT / "build" / "mutate"
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent"
COUNTING = ("killed", "survived", "excluded")


def arguments():
    parser = argparse.ArgumentParser(prog="tools/mutate", usage=argparse.SUPPRESS,
                                     description=__doc__, add_help=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-h", "--help", action="help", help="this text")
    add("paths", nargs="*", metavar="PATH", help="only these folders and files")
    add("--sample", type=int, metavar="N", help="N lines evenly at random, a mutant of each")
    add("--seed", type=int, default=1, metavar="S",
        help="draws other lines, and other mutants of a line (default 1)")
    add("--changed", metavar="SINCE", help="lines that differ from this commit")
    add("--group", action="append", default=[], metavar="FOLDER",
        help="like PATH; a name alone is a folder of src/: --group quota")
    add("--again", type=pathlib.Path, metavar="FILE", help="the survivors of this result file")
    add("--per-line", type=int, metavar="N",
        help="mutants of each line; 0: all (default: 1 with --sample, else 3)")
    add("--jobs", type=int, default=os.cpu_count(), metavar="N",
        help="mutants at a time, each in a copy of its own (default: CPUs)")
    add("--without", action="append", default=[], metavar="TEST",
        help="passes over a test, say one that fails on this machine")
    add("--keep-going", action="store_true",
        help="passes over every test that fails without a mutant, and names it at the end")
    add("--list", action="store_true", help="prints the mutants and tries none")
    options = parser.parse_args()
    if not (options.sample or options.changed or options.again or options.paths or options.group):
        parser.error("which lines? --sample N, --changed SINCE, --again FILE or a PATH (--help)")
    return options


def fail(text):
    raise SystemExit(f"tools/mutate: {text}")


def note(text):
    print(text, file=sys.stderr, flush=True)


# ---- which mutants -------------------------------------------------------------------------------

def wanted_files(options):
    """Those below the paths and groups; all without any."""
    wanted = [path.rstrip("/") for path in options.paths]
    wanted += [group if "/" in group else f"src/{group}" for group in options.group]
    files = source_files(ROOT)
    for path in wanted:
        if not any(file == path or file.startswith(path + "/") for file in files):
            fail(f"{path}: no file of src/ or a client")
    return [file for file in files
            if not wanted or any(file == path or file.startswith(path + "/") for path in wanted)]


def git(*words):
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        fail(f"git {' '.join(words)}: {run.stderr.strip()}")
    return run.stdout


def changed_lines(since):
    """(path, line number) of every line that the working tree changed or added, also in files that
    git does not know yet."""
    lines, path = set(), None
    for new in git("ls-files", "-z", "--others", "--exclude-standard").split("\0")[:-1]:
        count = (ROOT / new).read_bytes().count(b"\n")
        lines.update((new, number) for number in range(1, count + 1))
    diff = git("diff", "--unified=0", "--no-color", "--no-prefix", since, "--")
    for row in diff.split("\n"):
        if row.startswith("+++ "):
            path = row[4:]
        hunk = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", row)
        if hunk:
            first, count = int(hunk.group(1)), int(hunk.group(2) or 1)
            lines.update((path, number) for number in range(first, first + count))
    return lines


def survivors_of(path):
    """The mutants that survived in an earlier run, on the lines as they are today."""
    for record in read_records(path):
        if record["outcome"] != "survived":
            continue
        lines = (ROOT / record["file"]).read_text(encoding="utf-8").splitlines(keepends=True)
        numbers = [number for number, text in enumerate(lines, 1) if text == record["line"]]
        if not numbers:
            note(f"no longer there: {record['file']}: {record['line'].strip()}")
            continue
        number = min(numbers, key=lambda each: abs(each - record["number"]))
        yield [Mutant(Line(record["file"], number, record["line"]), record["mutant"],
                      record["rule"])]


def mutants_by_line(options):
    """Lists of mutants, a line each, in the order to try them."""
    if options.again:
        return survivors_of(options.again)
    tree = Tree(ROOT, wanted_files(options))
    if options.changed:
        changed = changed_lines(options.changed)
        tree.restrict(lambda line: (line.path, line.number) in changed)
    return tree.drawn(options.seed)


# ---- the run -------------------------------------------------------------------------------------

class Run:
    """Tries lines in several copies; fates are noted in the order in which they become known."""

    def __init__(self, options, times, results):
        self._times = times
        self._results = results
        self._equivalents = Equivalents(EQUIVALENT)
        self._lines = iter(mutants_by_line(options))
        self._per_line = options.per_line if options.per_line is not None else (
            1 if options.sample else 3)
        self._lines_left = options.sample or sys.maxsize
        self._lock = threading.Lock()
        self._fates = []  # of each line: (mutant, fate)
        self._begin = time.monotonic()

    def all_fates(self):
        return [each for fates in self._fates for each in fates]

    def work(self, copy):
        """Takes one line after the other. A line of which no mutant builds is replaced."""
        while True:
            with self._lock:
                if self._lines_left <= 0:
                    return
                mutants = next(self._lines, None)
                if mutants is None:
                    return
                self._lines_left -= 1
                fates = []
                self._fates.append(fates)
            if not self._try_line(copy, mutants, fates):
                with self._lock:
                    self._lines_left += 1

    def _try_line(self, copy, mutants, fates):
        """How many of the line's mutants count."""
        counting = 0
        for mutant in mutants:
            if self._per_line and counting == self._per_line:
                break
            known = self._results.get(mutant)
            fate = excluded(self._equivalents, mutant) or known or try_mutant(
                copy, self._times, mutant)
            with self._lock:
                fates.append((mutant, fate))
                if not known and fate.outcome != "excluded":
                    self._results.add(mutant, fate)
                    note(f"{self._progress()}  {shown(mutant, fate)}")
            counting += fate.outcome in COUNTING
        return counting

    def _progress(self):
        outcomes = [fate.outcome for _, fate in self.all_fates()]
        minutes = (time.monotonic() - self._begin) / 60
        return (f"[{minutes:5.1f} min, {outcomes.count('killed')} killed, "
                f"{outcomes.count('survived')} survived]")


def in_threads(function, items):
    """Like map(); Ctrl-C ends what runs."""
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            processes.stop_all()
            raise


def prepare(options):
    WORK.mkdir(parents=True, exist_ok=True)
    jobs = max(1, options.jobs)
    build_jobs = max(1, os.cpu_count() // jobs)
    copies = [project.Copy(ROOT, WORK, number + 1, build_jobs) for number in range(jobs)]
    note(f"building {jobs} copies below {WORK} (the first time takes minutes)")
    try:
        # One after the other: the second finds most object files in the compiler cache.
        for copy in copies:
            copy.prepare()
    except project.BuildFailed as error:
        fail(f"the tree does not build without a mutant:\n{error}")
    for copy in copies:
        copy.tests = [test for test in copy.tests if test.name not in options.without]
    return copies


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.list:
        for mutants in mutants_by_line(options):
            for mutant in mutants:
                print(f"{mutant.line.path}:{mutant.line.number}: {mutant.text.strip()}")
        return 0
    try:
        copies = prepare(options)
        times = Times(WORK / "test_times.json", options.keep_going, note)
        results = WORK / f"results-{project.tree_digest(ROOT)}.jsonl"
        run = Run(options, times, Results(results))
        in_threads(run.work, copies)
    except (KeyboardInterrupt, processes.Stopped):
        processes.stop_all()
        note("tools/mutate: interrupted; the same command goes on from here")
        return 130
    except TestIsRed as error:
        fail(error)
    print_report(run.all_fates(), times.passed_over.union(options.without))
    print(f"(results: {results.relative_to(ROOT)})", file=sys.stderr)
    return 1 if any(fate.outcome == "survived" for _, fate in run.all_fates()) else 0


if __name__ == "__main__":
    sys.exit(main())
