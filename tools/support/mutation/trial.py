"""Holds one mutant against the tests, the nearest first, until one turns red.

Fate: killed (by: the test; how: its exit code, time, memory), survived, not built, same program (it
      compiles to what was there before), excluded (tests/mutants/equivalent).
"""

import json
import threading
import time
from collections import namedtuple

from mutation.exclusions import one_line
from mutation.project import TIMEOUT_S_MIN, TIMES_OF_UNMUTATED, BuildFailed, stages

Fate = namedtuple("Fate", "outcome by how seconds", defaults=("", "", 0.0))


class TestIsRed(Exception):
    """A test fails without any mutant."""


class Times:
    """How long each test takes without a mutant: measured when it is first needed, and kept for as
    long as its programs stay the same."""

    def __init__(self, path, keep_going, note):
        self._path = path
        self._known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self._keep_going = keep_going
        self._note = note
        self._lock = threading.Lock()
        self._measuring = {}      # test -> the lock of the one that measures it
        self._fresh = set()       # tests that were measured in this run
        self.passed_over = set()  # tests that fail without a mutant

    def seconds(self, test):
        """At the last measurement; a guess before the first."""
        return self._known.get(test.name, {"seconds": 1})["seconds"]

    def limit_s(self, copy, test):
        """None if the test is passed over."""
        with self._lock:
            measuring = self._measuring.setdefault(test.name, threading.Lock())
        with measuring:
            if test.name in self.passed_over:
                return None
            if not self._is_known(copy, test):
                self._measure(copy, test)
        if test.name in self.passed_over:
            return None
        return max(TIMEOUT_S_MIN, TIMES_OF_UNMUTATED * self.seconds(test))

    def _is_known(self, copy, test):
        """Programs have their copy's paths, so each copy has its own."""
        of = self._known.get(test.name, {"of": {}})["of"]
        if test.name in self._fresh:
            of[str(copy.number)] = copy.identity(test)
        return of.get(str(copy.number)) == copy.identity(test)

    def _measure(self, copy, test):
        with copy.unmutated(test):
            for _ in range(2):  # a busy machine may make it fail once
                begin = time.monotonic()
                red = copy.run(test)
                if red is None:
                    break
        if red is None:
            self._add(copy, test, time.monotonic() - begin)
            return
        if not self._keep_going:
            raise TestIsRed(
                f"{test.name} fails without a mutant ({red}), see {copy.log}; "
                f"--without {test.name} passes over it, --keep-going over all that fail")
        self._note(f"{test.name} fails without a mutant ({red}): it is passed over")
        self.passed_over.add(test.name)

    def _add(self, copy, test, seconds):
        self._note(f"{test.name} takes {seconds:.1f} s without a mutant")
        with self._lock:
            self._fresh.add(test.name)
            self._known[test.name] = {"of": {str(copy.number): copy.identity(test)},
                                      "seconds": round(seconds, 2)}
            self._path.write_text(json.dumps(self._known, indent=1), encoding="utf-8")


def try_mutant(copy, times, mutant):
    begin = time.monotonic()
    is_python = mutant.line.path.endswith(".py")
    with copy.mutated(mutant):
        if is_python:
            try:
                compile(copy.text(mutant.line.path), mutant.line.path, "exec")
            except (SyntaxError, ValueError) as error:
                return Fate("not built", how=str(error), seconds=time.monotonic() - begin)
        fate = _try_stages(copy, times, mutant.line.path, must_build=not is_python)
    return fate._replace(seconds=round(time.monotonic() - begin, 1))


def _try_stages(copy, times, path, must_build):
    is_new = not must_build  # a program with the mutant was seen
    for stage in stages(copy.tests, path, times.seconds):
        if must_build:
            try:
                copy.build(stage)
            except BuildFailed as error:
                return Fate("not built", how=str(error))
        for test in stage:
            if must_build and not copy.has_mutant(test):
                continue
            is_new = True
            red = _red(copy, times, test)
            if red is not None:
                return Fate("killed", test.name, str(red))
    return Fate("survived" if is_new else "same program")


def _red(copy, times, test):
    """How the test failed, or None. It must fail twice: once may be a busy machine's doing."""
    limit_s = times.limit_s(copy, test)
    if limit_s is None:
        return None
    return copy.run(test, limit_s) and copy.run(test, limit_s)


class Results:
    """Fates so far, as JSON lines: a run that was interrupted goes on where it ended."""

    def __init__(self, path):
        self._path = path
        self._fates = {}
        if path.exists():
            for record in read_records(path):
                self._fates[record["file"], record["number"], record["mutant"]] = Fate(
                    record["outcome"], record["by"], record["how"], record["seconds"])

    def get(self, mutant):
        return self._fates.get(self._key(mutant))

    def add(self, mutant, fate):
        path, number, text = self._key(mutant)
        self._fates[path, number, text] = fate
        record = {"file": path, "number": number, "line": mutant.line.text, "mutant": text,
                  "rule": mutant.rule, **fate._asdict()}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    @staticmethod
    def _key(mutant):
        return mutant.line.path, mutant.line.number, mutant.text


def read_records(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            pass  # the last line of a run that was ended while it wrote


def excluded(equivalents, mutant):
    reason = equivalents.reason(mutant.line.path, mutant.line.text, mutant.text)
    return Fate("excluded", how=reason) if reason else None


def shown(mutant, fate):
    path, number, text = mutant.line
    by = f" by {fate.by} ({fate.how})" if fate.by else f": {fate.how}" if fate.how else ""
    return (f"{fate.outcome}{by.splitlines()[0] if by else ''}, {fate.seconds:.0f} s  "
            f"{path}:{number}  {one_line(text)} -> {one_line(mutant.text)}")
