"""The tables of the pages are tables for a reader of Markdown too.

Method: consecutive lines that begin with a pipe have a line of dashes as their second, and as many
cells each: an unescaped pipe in a cell would cut it in two.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/**/*.md")]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
TABLE = re.compile(r"(?:^\|.*\n?)+", re.M)
DASHES = re.compile(r"\|(?: ?:?-+:? ?\|)+")


def faults(page):
    """What is wrong with the tables of a page."""
    for table in TABLE.findall(FENCE.sub("", page)):
        rows = table.rstrip("\n").split("\n")
        if len(rows) < 2 or not DASHES.fullmatch(rows[1]):
            yield f"no header: {rows[0]}"
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
        yield from (f"{count - 1} cells instead of {cells[0] - 1}: {row}"
                    for row, count in zip(rows, cells) if count != cells[0])


class Tables(unittest.TestCase):
    def test_rows_have_the_cells_of_their_header(self):
        self.assertGreater(len(PAGES), 10)
        for page in PAGES:
            with self.subTest(page=page.relative_to(ROOT)):
                self.assertEqual(list(faults(page.read_text(encoding="utf-8"))), [])

    def test_finds_a_pipe_and_a_missing_header(self):
        self.assertEqual(len(list(faults("| a | b |\n|---|---|\n| `x|y` | 1 |\n"))), 1)
        self.assertEqual(len(list(faults("| a | b |\n| 1 | 2 |\n"))), 1)
        self.assertEqual(list(faults("| a | b |\n|---|---|\n| `x\\|y` | 1 |\n")), [])
        self.assertEqual(list(faults("```\n| a |\n```\n")), [])


if __name__ == "__main__":
    unittest.main()
