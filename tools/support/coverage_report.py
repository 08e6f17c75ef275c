"""Reports which lines and branches the tests executed: the second half of tools/coverage.

    coverage_report.py BUILD [--html] [--figures]

Reads BUILD/counts: clang's profiles and coverage.py's data. Exit status 1 as in tools/coverage;
with --figures there are no complaints.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = re.compile(r"src/|clients/(cpp/(src|include)|python/src)/")
LIST = ROOT / "tests" / "coverage" / "unexecuted"
PYTHON_SOURCE = ROOT / "clients" / "python" / "src"


class FileCounts:
    def __init__(self):
        self.lines = {}     # number -> how often it was executed
        self.branches = []  # how often each was taken


# ---- reading -------------------------------------------------------------------------------------

def read_lcov(text, root):
    """The counts of every measured file of an lcov tracefile."""
    files, counts = {}, None
    for row in text.split("\n"):
        name, _, value = row.partition(":")
        if name == "SF":
            path = os.path.relpath(value, root)
            counts = files.setdefault(path, FileCounts()) if MEASURED.match(path) else None
        elif counts is None:
            continue
        elif name == "DA":
            number, executed = value.split(",")[:2]
            counts.lines[int(number)] = int(executed)
        elif name == "BRDA":
            taken = value.split(",")[3]
            counts.branches.append(0 if taken == "-" else int(taken))
    return files


def read_python(data, root):
    """The same of coverage.py's JSON."""
    files = {}
    for name, file in data["files"].items():
        path = os.path.relpath(root / name, root)
        if not MEASURED.match(path):
            continue
        counts = files.setdefault(path, FileCounts())
        counts.lines = {**dict.fromkeys(file["missing_lines"], 0),
                        **dict.fromkeys(file["executed_lines"], 1)}
        summary = file["summary"]
        counts.branches = ([1] * summary["covered_branches"]
                           + [0] * (summary["num_branches"] - summary["covered_branches"]))
    return files


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))[:200]} ... failed ({done.returncode})")
    return done.stdout


def programs_of(build):
    """The programs that have counters."""
    targets = json.loads(run("meson", "introspect", "--targets", build))
    found = [pathlib.Path(name) for target in targets if target["type"] == "executable"
             for name in target["filename"]]
    found = [path for path in found if path.exists()]
    if not found:
        sys.exit(f"no programs in {build}: run tools/coverage without --report")
    return found


def cpp_counts(build, html):
    counts = build / "counts"
    raw = sorted(counts.glob("*.profraw"))
    if not raw:
        return {}
    merged = counts / "all.profdata"
    # A server that was killed while it wrote leaves a damaged profile.
    run("llvm-profdata-14", "merge", "--failure-mode=all", "--sparse", "-o", merged, *raw)
    programs = programs_of(build)
    words = [programs[0], *(f"--object={path}" for path in programs[1:]),
             f"--instr-profile={merged}"]
    if html:
        run("llvm-cov-14", "show", "--format=html", f"--output-dir={build / 'html'}", *words,
            "--show-branches=count",
            "--ignore-filename-regex=/usr/|/tests/|/bench/|capnp\\.|/subprojects/")
    # Relative paths in the programs are those of the build folder.
    return read_lcov(run("llvm-cov-14", "export", "--format=lcov", *words, cwd=build), ROOT)


def python_counts(build, html):
    counts = build / "counts"
    if not list(counts.glob("python*")):
        return {}
    coverage = shutil.which("coverage", path=str(pathlib.Path(sys.executable).parent))
    settings = f"--rcfile={ROOT / 'tests' / 'coverage' / 'python.ini'}"
    data = f"--data-file={counts / 'python'}"
    run(coverage, "combine", "--keep", "--append", settings, data, counts, cwd=ROOT)
    chosen = f"--include={PYTHON_SOURCE}/*"
    report = counts / "report.json"
    done = subprocess.run([coverage, "json", settings, data, chosen, "-o", report], cwd=ROOT,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0 and "No data to report" in done.stdout:
        return {}  # the tests that ran start no Python client
    if done.returncode != 0:
        sys.exit(f"coverage json failed: {done.stdout}")
    if html:
        run(coverage, "html", settings, data, chosen, "-d", build / "html" / "python", cwd=ROOT)
    return read_python(json.loads(report.read_text(encoding="utf-8")), ROOT)


# ---- judging -------------------------------------------------------------------------------------

CLOSER = re.compile(r"[})\]#/]|(public|private|protected):")
CLASS = re.compile(r"(?:class|struct)\s+(\w+)")
FUNCTION = re.compile(r"(operator\W+|[~\w:]+)\(")

VARIABLE = re.compile(r"(\w+) =")


def name_in(opening):
    """The name of what this line begins to define."""
    found = CLASS.match(opening) or FUNCTION.search(opening) or VARIABLE.search(opening)
    return found.group(1) if found else opening


def place_of(texts, number):
    """What the line with this number is a part of: "function", or "Class::function" where the class
    has its body, by the indentation."""
    openings, indentation = [], None
    for text in reversed(texts[:number]):
        line = text.strip()
        left = len(text) - len(text.lstrip())
        if not line or CLOSER.match(line) or (indentation is not None and left >= indentation):
            continue
        openings.append(line)
        indentation = left
        if left == 0:
            break
    outermost = name_in(openings[-1])
    is_member = CLASS.match(openings[-1]) and len(openings) > 1
    return f"{outermost}::{name_in(openings[-2])}" if is_member else outermost


def read_list(text):
    """(file, place, line's text) -> how many such lines need not be executed."""
    listed = Counter()
    for block in re.split(r"\n\s*\n", text):
        rows = [row.strip() for row in block.split("\n")
                if row.strip() and not row.startswith("#")]
        if not rows:
            continue
        if len(rows) < 3 or not rows[-1].startswith("Reason: "):
            raise SystemExit(f"{LIST}: a file, lines, and a last line 'Reason: ...', but:\n{block}")
        path, separator, place = rows[0].partition(": ")
        if not separator:
            raise SystemExit(f"{LIST}: 'FILE: FUNCTION' comes first, but:\n{block}")
        listed.update((path, place, row) for row in rows[1:-1])
    return listed


def unexecuted(files, lines_of):
    """(file, number, place, text without indentation) of every line that nothing executed."""
    for path in sorted(files):
        texts = lines_of(path)
        for number, executed in sorted(files[path].lines.items()):
            if not executed:
                yield path, number, place_of(texts, number), texts[number - 1].strip()


def complaints(lines, listed):
    """What is wrong with these unexecuted lines and the list."""
    left = Counter(listed)
    for path, number, place, text in lines:
        if left[path, place, text] > 0:
            left[path, place, text] -= 1
        elif path.startswith("src/"):
            yield f"{path}:{number}: no test executes, in {place}: {text}"
    for (path, place, text), count in left.items():
        if count > 0:
            yield (f"{path}: is executed, or no longer in {place}, but listed {count} times: "
                   f"{text}")


def percent(part, whole):
    return f"{100 * part / whole:6.1f} %" if whole else "       -"


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def table(files):
    folders = {}
    for path, counts in files.items():
        sums = folders.setdefault(folder_of(path), Counter())
        sums.update(lines=len(counts.lines), executed=sum(map(bool, counts.lines.values())),
                    branches=len(counts.branches), taken=sum(map(bool, counts.branches)))
    rows = [f"{'':16}{'lines':>8}{'executed':>10}{'branches':>10}{'taken':>10}"]
    total = Counter()
    for sums in folders.values():
        total.update(sums)
    for folder, sums in [*sorted(folders.items()), ("in all", total)]:
        rows.append(f"{folder:16}{sums['lines']:8}{percent(sums['executed'], sums['lines']):>10}"
                    f"{sums['branches']:10}{percent(sums['taken'], sums['branches']):>10}")
    return "\n".join(rows)


def main():
    build, html = pathlib.Path(sys.argv[1]).resolve(), "--html" in sys.argv[2:]
    files = {**cpp_counts(build, html), **python_counts(build, html)}
    if not files:
        sys.exit(f"no counts in {build}/counts: run tools/coverage without --report")
    lines = list(unexecuted(
        files, lambda path: (ROOT / path).read_text(encoding="utf-8").split("\n")))
    report = build / "unexecuted.txt"
    report.write_text("".join(f"{path}:{number}: {text}\n" for path, number, _, text in lines),
                      encoding="utf-8")
    listed = read_list(LIST.read_text(encoding="utf-8"))
    found = [] if "--figures" in sys.argv else list(complaints(lines, listed))
    for complaint in found:
        print(complaint)
    print(table(files))
    print(f"{len(lines)} lines that nothing executes (all in {os.path.relpath(report, ROOT)}), "
          f"{len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
