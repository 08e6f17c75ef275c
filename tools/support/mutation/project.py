"""A copy of the project that is mutated, built and tested: one for each job.

Flow:  Copy.prepare() once, then for each mutant Copy.mutated() and, stage by stage, build() and the
       stage's tests. A test whose programs are the unmutated ones is passed over.
Shape: build/mutate/N is the copy, build/mutate/N/build/mutate/objects what it is built into.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

from mutation import processes
from tree_copy import COPIED, copy_tree, files_below

BUILD_TIMEOUT_S = 1800
TIMES_OF_UNMUTATED = 5
TIMEOUT_S_MIN = 10  # a test of milliseconds may take seconds on a busy machine
UNLIMITED_S = 3600
SUITES = ["property", "simulation", "integration", "conformance", "clients"]
LAST_SUITES = ["unit", "fuzz"]
SIMULATION_SEEDS = 100  # a share: plain tools/test plays 300, fewer miss events that it demands
# Tests of the C++ client that drive the real server.
CPP_CLIENT_TESTS = ["integration-cpp_client", "integration-cpp_quota"]


class BuildFailed(Exception):
    """The tree does not build."""


class Test:
    """One of meson's tests."""

    def __init__(self, description, programs):
        self.name = description["name"]
        self.command = description["cmd"]
        self.environment = description["env"]
        self.suite = description["suite"][0].rsplit(":", 1)[-1]
        self.programs = programs  # paths relative to the build folder

    def is_near(self, path):
        """Whether it is made for this file's folder."""
        if path.startswith("clients/python/"):
            return self.suite == "clients"
        if path.startswith("clients/cpp/"):
            return self.name in CPP_CLIENT_TESTS or self._is_of_unit("client")
        folder = path.split("/")[1]
        return self._is_of_unit(folder)

    def _is_of_unit(self, folder):
        return any(program.startswith(f"tests/unit/{folder}/") for program in self.programs)


def stages(tests, path, seconds):
    """The tests in the order to try them, as lists that are built together: the nearest first."""
    is_python = path.endswith(".py")
    near = [test for test in tests if test.is_near(path)]
    groups = [near]
    if not is_python:  # the Python client is no part of other tests
        for suite in SUITES + LAST_SUITES:
            groups.append([test for test in tests if test.suite == suite and test not in near])
    words = set(path.rsplit("/", 1)[-1].split(".")[0].strip("_").split("_"))

    def cost(test):
        alike = words & set(test.name.replace("-", "_").split("_"))
        return (-len(alike) if is_python else 0, seconds(test))
    return [sorted(group, key=cost) for group in groups if group]


def tree_digest(root):
    """Changes when what is mutated, built or tested changes."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(files_below(root, COPIED)):
        if path.split("/")[0] not in ("docs", "bench", "tools"):
            digest.update(path.encode() + b"\0" + (root / path).read_bytes() + b"\0")
    return digest.hexdigest()


def _file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


class Copy:
    def __init__(self, root, work, number, build_jobs):
        self._root = root
        self.number = number
        self.tree = work / str(number)
        self.build_folder = self.tree / "build" / "mutate" / "objects"
        self.log = work / f"{number}.log"  # what the last command printed
        self._build_jobs = build_jobs
        self._digests = {}    # program -> (time of change, digest)
        self._unmutated = {}  # program -> digest
        self._kept = self.build_folder / "unmutated"  # links to the programs
        self._mutated_file = None  # its path and its text without the mutant
        self.tests = []

    def prepare(self):
        """Copies the project, and builds it without any mutant."""
        self.tree.mkdir(parents=True, exist_ok=True)
        copy_tree(self._root, self.tree)
        environment = self.tree / ".venv"
        if not environment.is_symlink() and (self._root / ".venv").exists():
            environment.symlink_to(self._root / ".venv")
        self._set_up()
        self.tests = self._read_tests()
        self.build(self.tests)
        self._unmutated = {program: self._digest(program)
                           for test in self.tests for program in test.programs}
        self._keep_unmutated()

    def _set_up(self):
        preset = self._root / "tools" / "presets" / "mutate.ini"
        stamp = self.build_folder / "preset.ini"
        if stamp.exists() and stamp.read_bytes() == preset.read_bytes():
            return
        shutil.rmtree(self.build_folder, ignore_errors=True)
        self._run_build(["meson", "setup", "--native-file", str(preset), str(self.build_folder)])
        shutil.copyfile(preset, stamp)

    def _introspect(self, what):
        return json.loads(subprocess.run(
            ["meson", "introspect", f"--{what}", str(self.build_folder)], check=True,
            stdout=subprocess.PIPE).stdout)

    def _read_tests(self):
        files = {target["id"]: [os.path.relpath(name, self.build_folder)
                                for name in target["filename"]]
                 for target in self._introspect("targets")}
        tests = []
        for description in self._introspect("tests"):
            programs = [name for target in description["depends"] for name in files[target]]
            test = Test(description, sorted(set(programs)))
            if test.suite in SUITES + LAST_SUITES:
                tests.append(test)
        return tests

    @contextlib.contextmanager
    def mutated(self, mutant):
        """While it is entered, the copy has the mutant."""
        path = self.tree / mutant.line.path
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        lines[mutant.line.number - 1] = mutant.text
        path.write_text("".join(lines), encoding="utf-8")
        self._mutated_file = (path, text)
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            self._mutated_file = None

    def _keep_unmutated(self):
        """A linker makes a new file, so what a link leads to stays."""
        shutil.rmtree(self._kept, ignore_errors=True)
        for program in self._unmutated:
            (self._kept / program).parent.mkdir(parents=True, exist_ok=True)
            os.link(self.build_folder / program, self._kept / program)

    @contextlib.contextmanager
    def unmutated(self, test):
        """While it is entered, the test finds everything as it is without the mutant. Afterwards
        all is as before, for ninja too."""
        aside = []

        def put_aside(path):
            os.rename(path, f"{path}.mutant")
            aside.append(path)
        try:
            for program in test.programs:
                put_aside(self.build_folder / program)
                os.link(self._kept / program, self.build_folder / program)
            if self._mutated_file:
                path, text = self._mutated_file
                put_aside(path)
                path.write_text(text, encoding="utf-8")
            yield
        finally:
            for path in aside:
                # If both are links to one file, renaming would do nothing.
                pathlib.Path(path).unlink(missing_ok=True)
                os.rename(f"{path}.mutant", path)

    def text(self, path):
        return (self.tree / path).read_text(encoding="utf-8")

    def build(self, tests):
        """Raises BuildFailed."""
        programs = sorted({program for test in tests for program in test.programs})
        self._run_build(["ninja", "-C", str(self.build_folder), "-j", str(self._build_jobs),
                         *programs])

    def _run_build(self, command):
        # As in tools/build: relative paths, and includes from the compiler's own list.
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")}
        environment |= {"CCACHE_NOHASHDIR": "1", "CCACHE_DEPEND": "1"}
        if processes.run(command, self.tree, self.log, BUILD_TIMEOUT_S, environment) != 0:
            lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
            errors = [line for line in lines if "error:" in line or "ERROR" in line]
            raise BuildFailed("\n".join(errors[:5] or lines[-20:]))

    def has_mutant(self, test):
        """Whether one of its programs differs from the unmutated one."""
        return any(self._digest(program) != self._unmutated[program] for program in test.programs)

    def _digest(self, program):
        path = self.build_folder / program
        changed = path.stat().st_mtime_ns
        if self._digests.get(program, (0, ""))[0] != changed:
            self._digests[program] = (changed, _file_digest(path))
        return self._digests[program][1]

    def identity(self, test):
        """Changes when the test's time may have changed."""
        digests = "".join(self._unmutated[program] for program in test.programs)
        return hashlib.blake2b(digests.encode(), digest_size=8).hexdigest()

    def run(self, test, timeout_s=UNLIMITED_S):
        """None if it passes; else its exit code, or "time" or "memory"."""
        environment = {**os.environ, **test.environment, "SEEDS": str(SIMULATION_SEEDS),
                       "FRESH_SEEDS": "0", "GTEST_FAIL_FAST": "1", "PYTEST_ADDOPTS": "-x"}
        ended = processes.run(test.command, self.build_folder, self.log, timeout_s, environment)
        return None if ended in (0, 77) else ended
