"""The mutants of a tree: universalmutator's, less those that a rule leaves out.

Draws are the same for the same seed and tree: everything is in order, and nothing else is random.
"""

import contextlib
import functools
import io
import random
from collections import namedtuple

from mutation.exclusions import CppRules, PythonRules

# `text` has the line's end; `number` counts from 1.
Line = namedtuple("Line", "path number text")
Mutant = namedtuple("Mutant", "line text rule")

RULE_FILES = {".cpp": ["universal.rules", "c_like.rules", "cpp.rules"],
              ".hpp": ["universal.rules", "c_like.rules", "cpp.rules"],
              ".py": ["universal.rules", "python.rules"]}
FOLDERS = ["src", "clients/cpp/src", "clients/cpp/include", "clients/python/src"]


def source_files(root):
    """Paths of all files that are mutated, relative to the root."""
    return sorted(str(path.relative_to(root)) for folder in FOLDERS
                  for path in (root / folder).rglob("*") if path.suffix in RULE_FILES)


class File:
    """The lines of one file, and their mutants."""

    def __init__(self, root, path):
        from universalmutator import mutator  # here: --help needs no package
        text = (root / path).read_text(encoding="utf-8")
        self.path = path
        self.lines = text.splitlines(keepends=True)
        self._begins = [0]
        for line in self.lines:
            self._begins.append(self._begins[-1] + len(line))
        suffix = path[path.rindex("."):]
        self._rules = (PythonRules if suffix == ".py" else CppRules)(path, text)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints the names of its rules
            found = mutator.mutants_regexp(self.lines, RULE_FILES[suffix], ignorePatterns=[])
        self._found = {}
        for number, mutated, used, _ in found:
            self._found.setdefault(number, []).append((mutated, used[0].strip()))

    def line(self, number):
        return Line(self.path, number, self.lines[number - 1])

    def mutants(self, number):
        """Those that no rule leaves out."""
        line = self.line(number)
        return [Mutant(line, mutated, used) for mutated, used in self._found.get(number, [])
                if not self.rule_for(number, mutated)]

    def rule_for(self, number, mutated):
        return self._rules.rule_for(self._begins[number - 1], self.lines[number - 1], mutated)


class Tree:
    """The lines of some files of a tree. A file is mutated when one of its lines is drawn."""

    def __init__(self, root, paths):
        self._root = root
        self._lines = []
        for path in paths:
            texts = (root / path).read_text(encoding="utf-8").splitlines(keepends=True)
            self._lines += [Line(path, number + 1, text) for number, text in enumerate(texts)
                            if text.strip()]
        self.file = functools.cache(lambda path: File(root, path))

    def restrict(self, wanted):
        """Keeps the lines for which wanted(Line) is true."""
        self._lines = [line for line in self._lines if wanted(line)]

    def drawn(self, seed):
        """The mutants of every line that has some: lines evenly at random, each line's mutants in
        the order in which they are to be tried."""
        lines = list(self._lines)
        random.Random(seed).shuffle(lines)
        for line in lines:
            mutants = self.file(line.path).mutants(line.number)
            random.Random(f"{seed} {line.path} {line.number}").shuffle(mutants)
            if mutants:
                yield mutants
