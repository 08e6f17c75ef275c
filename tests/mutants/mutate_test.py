"""tools/mutate reports what became of each mutant, and leaves out what cannot matter.

Method: a project of one C++ and one Python file, whose tests overlook a function each; the mutants
are chosen by a result file of survivors (--again). The rules are shown lines of either kind.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tools" / "support"
sys.path.insert(0, str(SUPPORT))

from mutation import candidates, exclusions, main, processes, project, report, trial  # noqa: E402

FAKE = {
    "meson.build": """
project('fake', 'cpp')
subdir('src')
subdir('tests/unit/one')
python = find_program('python3')
test('clients-one', python, args: ['-B', files('tests/clients/one_test.py')], suite: 'clients')
foreach name : ['real_server', 'another']
  test('clients-' + name, python, args: ['-B', files('tests/clients/any_test.py')],
    depends: one_test, suite: 'clients')
endforeach
""",
    "src/meson.build": "one_lib = static_library('one', 'one/one.cpp')\n",
    "src/one/one.cpp": """// Numbers, 1 < 2.
int twice(int value) { return value * 2; }
int unseen(int value) { return value + 1; }
int counted() {
  volatile int steps = 0;
  while (steps < 3) steps = steps + 1;
  return steps;
}
""",
    "tests/unit/one/meson.build": """
one_test = executable('one_test', 'one_test.cpp', link_with: one_lib)
test('unit-one', one_test, suite: 'unit')
""",
    "tests/unit/one/one_test.cpp": """
int twice(int value);
int unseen(int value);
int counted();
int main() { return twice(3) == 6 && unseen(1) != 7 && counted() == 3 ? 0 : 1; }
""",
    "clients/python/src/one.py": '''"""One."""

import os


def half(value):
    """Half of 2 is 1."""
    return value // 2


def unseen(value):
    return value + 1
''',
    "tests/clients/one_test.py": """
import pathlib, sys
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "clients" / "python" / "src"))
import one
assert one.half(6) == 3
""",
    "tests/clients/any_test.py": "",
    "tests/mutants/equivalent": """# Judged.

src/one/one.cpp
return steps;
return +steps;
the same number
""",
    "tools/presets/mutate.ini": "[built-in options]\nbuildtype = 'plain'\n",
}

TWICE = "int twice(int value) { return value * 2; }\n"
CHOSEN = [
    ("src/one/one.cpp", 2, TWICE, TWICE.replace("*", "+")),
    ("src/one/one.cpp", 2, TWICE, TWICE.replace("*", "?")),
    ("src/one/one.cpp", 2, TWICE, TWICE.replace("value * 2", "(value * 2)")),
    ("src/one/one.cpp", 3, "int unseen(int value) { return value + 1; }\n",
     "int unseen(int value) { return value - 1; }\n"),
    ("src/one/one.cpp", 6, "  while (steps < 3) steps = steps + 1;\n",
     "  while (1==1) steps = steps + 1;\n"),
    ("src/one/one.cpp", 7, "  return steps;\n", "  return +steps;\n"),
    ("clients/python/src/one.py", 8, "    return value // 2\n", "    return value / 4\n"),
    ("clients/python/src/one.py", 12, "    return value + 1\n", "    return value - 1\n"),
]
OUTCOMES = ["killed", "not built", "same program", "survived", "killed", "excluded", "killed",
            "survived"]


@pytest.fixture
def fake(tmp_path):
    for path, text in FAKE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    shutil.copytree(SUPPORT, tmp_path / "tools" / "support",
                    ignore=shutil.ignore_patterns("__pycache__"))
    settings = tmp_path / "tools" / "support" / "mutation" / "project.py"
    text = settings.read_text(encoding="utf-8")
    assert "TIMEOUT_S_MIN = 10 " in text
    settings.write_text(text.replace("TIMEOUT_S_MIN = 10 ", "TIMEOUT_S_MIN = 2 "), encoding="utf-8")
    return tmp_path


def mutate(root, *words):
    return subprocess.run(
        [sys.executable, str(root / "tools" / "support" / "mutation" / "main.py"), *words],
        capture_output=True, text=True, check=False)


def survived_before(root, chosen=CHOSEN):
    path = root / "before.jsonl"
    path.write_text("".join(json.dumps(
        {"file": file, "number": number, "line": line, "mutant": mutant, "rule": "",
         "outcome": "survived", "by": "", "how": "", "seconds": 1}) + "\n"
        for file, number, line, mutant in chosen), encoding="utf-8")
    return str(path)


def results(root):
    (path,) = (root / "build" / "mutate").glob("results-*.jsonl")
    return list(trial.read_records(path))


def test_reports_every_outcome_and_goes_on_from_its_results(fake):
    run = mutate(fake, "--again", survived_before(fake), "--jobs", "1")
    assert run.stdout.rstrip().split("\n")[-1] == (
        "3 killed, 2 survived, 2 excluded, 1 not built"), run.stdout + run.stderr
    assert run.returncode == 1
    assert ("src/one/one.cpp:3\n-int unseen(int value) { return value + 1; }\n"
            "+int unseen(int value) { return value - 1; }\n") in run.stdout
    tried = [outcome for outcome in OUTCOMES if outcome != "excluded"]
    assert [record["outcome"] for record in results(fake)] == tried
    how = {(record["number"], record["by"]): record["how"] for record in results(fake)}
    assert how[2, "unit-one"] == "1"
    assert how[6, "unit-one"] == "time"
    assert how[8, "clients-one"] == "1"

    again = mutate(fake, "--again", survived_before(fake), "--jobs", "1")
    assert again.stdout == run.stdout
    assert "killed by" not in again.stderr
    assert len(results(fake)) == len(tried)


def test_leaves_the_working_tree_and_its_copies_unmutated(fake):
    mutate(fake, "--again", survived_before(fake, CHOSEN[:1]), "--jobs", "2")
    for root in (fake, fake / "build" / "mutate" / "1", fake / "build" / "mutate" / "2"):
        text = (root / "src" / "one" / "one.cpp").read_text(encoding="utf-8")
        assert text == FAKE["src/one/one.cpp"], root


def test_a_sample_takes_a_mutant_that_builds_of_each_line(fake):
    run = mutate(fake, "clients/python", "--sample", "2", "--seed", "3", "--jobs", "2")
    counted = [record for record in results(fake) if record["outcome"] in ("killed", "survived")]
    assert len({record["number"] for record in counted}) == len(counted) == 2, run.stderr


def test_refuses_a_tree_that_is_red_without_a_mutant(fake):
    (fake / "tests" / "clients" / "one_test.py").write_text("raise SystemExit(3)\n")
    run = mutate(fake, "--again", survived_before(fake, CHOSEN[6:]))
    assert run.returncode == 1
    assert "clients-one fails without a mutant (3)" in run.stderr
    assert "--without clients-one" in run.stderr


def test_can_pass_over_tests_that_are_red_without_a_mutant(fake):
    (fake / "tests" / "clients" / "one_test.py").write_text("raise SystemExit(3)\n")
    run = mutate(fake, "--again", survived_before(fake, CHOSEN[7:]), "--keep-going")
    assert "tests passed over: clients-one" in run.stdout
    assert run.stdout.endswith("0 killed, 1 survived, 0 excluded, 0 not built\n"), run.stderr


def test_refuses_a_path_without_files(fake):
    run = mutate(fake, "src/two")
    assert "src/two: no file of src/ or a client" in run.stderr


def test_says_which_lines_it_needs_to_know(fake):
    run = mutate(fake)
    assert run.returncode == 2
    assert "which lines? --sample N" in run.stderr


def test_changed_takes_the_lines_that_changed(fake):
    for command in (["init", "-q"], ["add", "-A"],
                    ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=fake, check=True)
    path = fake / "src" / "one" / "one.cpp"
    path.write_text(FAKE["src/one/one.cpp"].replace("value + 1", "value + 4"), encoding="utf-8")
    listed = mutate(fake, "--changed", "HEAD", "--list").stdout.strip().split("\n")
    assert listed and all(line.startswith("src/one/one.cpp:3: ") for line in listed), listed
    path.rename(path.with_name("new.cpp"))  # which git does not know
    listed = mutate(fake, "--changed", "HEAD", "--list").stdout.strip().split("\n")
    assert any(line.startswith("src/one/new.cpp:") for line in listed), listed


def test_draws_the_same_for_the_same_seed(fake):
    def drawn(seed):
        tree = candidates.Tree(fake, candidates.source_files(fake))
        return list(tree.drawn(seed))
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    lines = [(mutants[0].line.path, mutants[0].line.number) for mutants in drawn(1)]
    assert len(set(lines)) == len(lines)
    assert ("src/one/one.cpp", 1) not in lines
    assert ("clients/python/src/one.py", 3) not in lines


# ---- what is left out ----------------------------------------------------------------------------

# Of each rule: a line that it leaves out, and one that is mutated.
CPP_LINES = {
    "comment": ("  // 1 < 2", "  x = 1 < 2;  // 3"),
    "include": ("#include <a1.h>", "  a = b < c;"),
    "assertion": ("  ASSERT(a < b);", "  if (a < b) return;"),
    "words of logs": ('  log::info("a - b", {{"c", d}});', '  write("a - b");'),
    "words of help": ('  add_flag("x", "a - b");', '  fail("a - b");'),
    "prefetch": ("  for (a = 0; a < b; ++a) __builtin_prefetch(a);", "  fetch(a + 1);"),
    "reserved capacity": ("  list_.reserve(2 * a);", "  return client.reserve(2 * a);"),
    "attribute or alignment": ("  alignas(64) int a;", "  int a = 64;"),
    "declaration without a value": ("  using A = B<1>;", "  const int a = b + 1;"),
    "digits of a name": ("  uint64_t a;", "  a = 64;"),
}


def rules_of(line, path="src/config/flags.cpp", number=2, before="void f() {\n"):
    """What each of universalmutator's mutants of the line is left out by."""
    from universalmutator import mutator
    text = before + line + "\n}\n"
    rules = exclusions.CppRules(path, text)
    lines = text.splitlines(keepends=True)
    found = mutator.mutants_regexp(lines, candidates.RULE_FILES[".cpp"], ignorePatterns=[])
    begin = text.index(line)
    return [rules.rule_for(begin, line + "\n", mutant)
            for at, mutant, _, _ in found if at == number]


def test_each_rule_has_its_lines():
    assert set(CPP_LINES) == {rule.name for rule in exclusions.RULES}


@pytest.mark.parametrize("rule", CPP_LINES)
def test_a_rule_leaves_out_what_it_names_alone(rule):
    left_out, mutated = CPP_LINES[rule]
    text = "void f() {\n" + left_out + "\n}\n"
    rules = exclusions.CppRules("src/config/flags.cpp", text)
    line = left_out + "\n"
    for old, new in (("1", "7"), ("<", ">"), ("-", "+"), ("64", "32"), ("2", "3")):
        if old in left_out:
            mutant = line.replace(old, new)
            assert rules.rule_for(text.index(left_out), line, mutant) == rule
            break
    else:
        raise AssertionError("nothing to change")
    assert None in rules_of(mutated)


def test_jumps_and_brackets_that_cannot_build_are_not_tried():
    assert exclusions.cannot_build("  f(a,\n", "  f(a,\n  break;\n")
    assert exclusions.cannot_build("  if (a) {\n", "/*  if (a) {*/\n")
    assert exclusions.cannot_build("  a = 1;\n", "  a = 1;\n  break;\n")
    assert not exclusions.cannot_build("    a = 1;\n", "    a = 1;\n    break;\n")
    assert not exclusions.cannot_build("  for (;;) {\n", "  for (;;) {\n  break;\n")
    assert not exclusions.cannot_build("  f('(');\n", "  /*f('(');*/\n")


def test_python_that_means_the_same_is_left_out():
    text = 'def f(a: int) -> int:\n    """One < two."""\n    return a + 1\n'
    rules = exclusions.PythonRules("one.py", text)
    lines = text.splitlines(keepends=True)

    def rule(number, mutant):
        return rules.rule_for(text.index(lines[number]), lines[number], mutant)
    notes = "comment, docstring or annotation"
    assert rule(0, "def f(a: str) -> int:\n") == notes
    assert rule(1, '    """One > two."""\n') == notes
    assert rule(2, "    return a + 1  # more\n") == notes
    assert rule(2, "    return a +\n") == exclusions.CANNOT_BUILD
    assert rule(2, "    return a - 1\n") is None


def test_the_list_of_equivalents_needs_a_reason_for_each(tmp_path):
    path = tmp_path / "equivalent"
    path.write_text("src/a.cpp\na = 1;\na = 2;\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="four lines"):
        exclusions.Equivalents(path)


def test_listed_equivalents_stand_in_their_files():
    equivalents = exclusions.Equivalents(main.EQUIVALENT)

    def lines(path):
        file = ROOT / path
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    assert equivalents.unused(lines) == []


def test_too_many_equivalents_are_noticed():
    mutant = candidates.Mutant(candidates.Line("src/a/b.cpp", 1, "a\n"), "b\n", "")
    fates = [(mutant, trial.Fate(outcome)) for outcome in ["killed"] * 8 + ["excluded"] * 2]
    assert "more than 10 %" in report.summary(fates)
    assert "more than" not in report.summary(fates[:9] + fates[:1])


def fates_of(path, killed, survived):
    mutant = candidates.Mutant(candidates.Line(path, 1, "a\n"), "b\n", "")
    outcomes = ["killed"] * killed + ["survived"] * survived + ["excluded", "not built"]
    return [(mutant, trial.Fate(outcome)) for outcome in outcomes]


def test_what_is_killed_is_held_against_the_aims():
    enough = fates_of("src/a/b.cpp", 27, 3) + fates_of("src/c/d.cpp", 27, 3)
    assert report.verdict(enough).splitlines() == [
        "src/a: 90 % of 30 killed, 80 wanted", "src/c: 90 % of 30 killed, 80 wanted",
        "all: 90 % of 60 killed, 90 wanted"]
    few = fates_of("src/a/b.cpp", 23, 7) + fates_of("src/c/d.cpp", 1, 28)
    assert report.verdict(few).splitlines() == [
        "src/a: 77 % of 30 killed, 80 wanted: MISSED",
        "all: 41 % of 59 killed, 90 wanted: MISSED"], "a small folder has no share of its own"


# ---- tests in order, processes -------------------------------------------------------------------

def make_test(name, suite, program):
    return project.Test({"name": name, "cmd": [], "env": {}, "suite": ["p:" + suite]}, [program])


def test_the_nearest_tests_come_first():
    tests = [make_test("unit-shard", "unit", "tests/unit/shard/unit-shard"),
             make_test("unit-base", "unit", "tests/unit/base/base_test"),
             make_test("clients-python-quota", "clients", "src/sluicegate"),
             make_test("clients-python-tokens", "clients", "src/sluicegate"),
             make_test("integration-start", "integration", "src/sluicegate"),
             make_test("simulation", "simulation", "tests/simulation/simulation_test"),
             make_test("property-shard", "property", "tests/property/property-shard")]

    def names(path):
        return [[test.name for test in stage]
                for stage in project.stages(tests, path, lambda test: len(test.name))]
    assert names("src/shard/key.cpp") == [
        ["unit-shard"], ["property-shard"], ["simulation"], ["integration-start"],
        ["clients-python-quota", "clients-python-tokens"], ["unit-base"]]
    assert names("clients/python/src/sluicegate/tokens.py") == [
        ["clients-python-tokens", "clients-python-quota"]]


def test_a_test_is_measured_once_for_all_copies_and_again_when_it_changed(tmp_path):
    class Copy(types.SimpleNamespace):
        runs = []
        unmutated = staticmethod(lambda _: contextlib.nullcontext())

        def identity(self, _):
            return f"{self.number} {self.state}"

        def run(self, _):
            self.runs.append(self.number)

    def measure(*copies):
        times = trial.Times(tmp_path / "test_times.json", False, lambda _: None)
        for copy in copies:
            assert times.limit_s(copy, make_test("a", "unit", "a")) >= project.TIMEOUT_S_MIN
    measure(Copy(number=1, state="old"), Copy(number=2, state="old"))
    assert Copy.runs == [1]
    measure(Copy(number=1, state="old"))
    assert Copy.runs == [1]
    measure(Copy(number=2, state="new"), Copy(number=1, state="new"))
    assert Copy.runs == [1, 2]


@pytest.mark.parametrize("ends, red", [([None], None), ([1, None], None), (["time", None], None),
                                       ([1, -6], -6), (["time", "time"], "time")])
def test_a_test_must_be_red_twice(ends, red):
    left = list(ends)

    class Copy:
        def run(self, *_):
            return left.pop(0)

    class Times:
        def limit_s(self, *_):
            return 1
    assert trial._red(Copy(), Times(), None) == red
    assert not left


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_runs_on_when_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_stopping", threading.Event())
    pid_file = tmp_path / "pid"
    raised = []

    def run():
        try:
            processes.run(["sh", "-c", f"sleep 600 & echo $! >{pid_file}.new; mv {pid_file}.new "
                           f"{pid_file}; wait"], tmp_path, tmp_path / "log", 600)
        except processes.Stopped as error:
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while not pid_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pid = int(pid_file.read_text())
    processes.stop_all()
    thread.join(30)
    assert len(raised) == 1
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_allocates_without_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "MEMORY_BYTES_MAX", 200 << 20)
    command = [sys.executable, "-c", "import time; a = b'x' * (300 << 20); time.sleep(600)"]
    assert processes.run(command, tmp_path, tmp_path / "log", 60) == "memory"


def test_help_needs_no_packages():
    run = subprocess.run([str(ROOT / "tools" / "mutate"), "--help"], capture_output=True,
                         text=True, check=False, env={"PATH": os.environ["PATH"]})
    assert run.returncode == 0
    assert "tools/mutate --sample" in run.stdout
