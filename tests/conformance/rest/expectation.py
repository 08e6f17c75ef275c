"""Compares the observation of a case with gocc's behaviour and with our intended one; prints a
table of all differences at the end of a run."""

import copy
import os
import re

import pytest

from differences import DIFFERENCES

COLUMNS = {"": 1, "part": 4, "behaviour": 43, "gocc": 23, "here": 23, "topic": 20}


class Like:
    """Equal to everything that a regular expression matches as a whole."""

    def __init__(self, pattern):
        self.pattern = pattern

    def __eq__(self, other):
        if isinstance(other, bytes):
            other = other.decode("latin-1")
        return isinstance(other, str) and re.fullmatch(self.pattern, other, re.DOTALL) is not None

    def __repr__(self):
        return f"/{self.pattern}/"


class Difference:
    """A row of the table; `topic` is None where differences.py does not list it."""

    def __init__(self, section, behaviour, gocc, here, topic, fails):
        self.cells = ["!" if fails else "", section, behaviour,
                      *from_where_they_differ(shown(gocc), shown(here)), topic or "NOT LISTED"]
        self.topic = topic


def named(rows):
    """Parameters from a table; its first column names the rows."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


def by_first(rows):
    """Parameters from a table; its first column identifies the rows."""
    return [pytest.param(*row, id=str(row[0])) for row in rows]


def shown(value):
    """A value for people: text without quotes and prefixes."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    text = value if isinstance(value, str) else repr(value)
    text = re.sub(r"\bb(?=['\"])", "", text)
    return re.sub(r"[\0-\x1f\x7f-\xa0]", lambda byte: repr(byte.group())[1:-1], text) or "(empty)"


def from_where_they_differ(one, other):
    """Both texts without their common prefix, if they are too long for a column."""
    common = len(os.path.commonprefix([one, other])) - 4
    if max(len(one), len(other)) <= COLUMNS["gocc"] or common < 4:
        return one, other
    return "…" + one[common:], "…" + other[common:]


def cut(text, width):
    return text if len(text) <= width else text[:width - 1] + "…"


class Expectations:
    """The expectations of a whole run."""

    def __init__(self, target):
        self.target = target
        self.agreed = 0
        self.differences = []

    def check(self, case, observed, gocc, ours, topic):
        """Returns a complaint as text, or None."""
        if topic is not None and topic not in DIFFERENCES:
            raise ValueError(f"{topic!r} is not listed in differences.py")
        is_goccs = observed == gocc
        is_ours = topic is not None and observed == ours
        if is_goccs:
            self.agreed += 1
        wanted = {"gocc": is_goccs, "sluicegate": is_ours if topic else is_goccs,
                  None: is_goccs or is_ours}[self.target]
        if not is_goccs:
            self._add(Difference(case.section, case.behaviour, gocc, observed,
                                 topic if is_ours else None, not wanted))
        if wanted:
            return None
        lines = [f"section {case.section}: {case.behaviour}",
                 *[f"asked:  {line}" for line in case.asked()],
                 f"came:   {observed!r}", f"gocc:   {gocc!r}"]
        if topic:
            lines.append(f"or:     {ours!r} ({topic})")
        if self.target:
            lines.append(f"wanted: {self.target}'s, because of --target")
        return "\n".join(lines)

    def _add(self, difference):
        if all(difference.cells != other.cells for other in self.differences):
            self.differences.append(difference)

    def table(self):
        """The lines of the table, or one line when there is no difference."""
        unlisted = sum(each.topic is None for each in self.differences)
        lines = [f"{self.agreed} observations are as gocc's; {len(self.differences)} differ, "
                 f"{unlisted} of them not listed"]
        if not self.differences:
            return [f"no difference from gocc in {self.agreed} observations"]
        rows = [list(COLUMNS), ["-" * width for width in COLUMNS.values()]]
        rows += [each.cells for each in sorted(self.differences, key=lambda each: each.cells[1])]
        widths = COLUMNS.values()
        for row in rows:
            cells = [cut(cell, width).ljust(width) for cell, width in zip(row, widths)]
            lines.append(" ".join(cells).rstrip())
        lines.append("")
        for topic in sorted({each.topic for each in self.differences if each.topic}):
            lines.append(f"{topic}: {DIFFERENCES[topic]}")
        return lines


class Case:
    """One test, with its requests for messages."""

    def __init__(self, node, asked):
        marker = node.get_closest_marker("section")
        assert marker, f"{node.name} has no section"
        self.section = marker.args[0]
        self.behaviour = node.originalname.removeprefix("test_").replace("_", " ")
        if hasattr(node, "callspec"):
            self.behaviour += f": {node.callspec.id}"
        self._asked = asked

    def asked(self):
        """The last requests, newest last."""
        return self._asked[-4:] or ["(nothing over HTTP)"]


def expecter(run, case):
    """The function that cases call: expect(observed, gocc=..., ours=..., topic=...)."""
    def expect(observed, *, gocc, ours=None, topic=None, of=None):
        __tracebackhide__ = True
        named = case
        if of:  # one of several observations of a case
            named = copy.copy(case)
            named.behaviour = f"{case.behaviour}, {of}"
        complaint = run.check(named, observed, gocc, ours, topic)
        if complaint:
            pytest.fail(complaint, pytrace=False)
    return expect
