"""The pages quote their examples exactly.

Method: when the line before a block of code links to a file of examples/, that file must contain
the block, line by line.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUOTE = re.compile(r"\]\((?P<path>[^)]*examples/[^)]*)\)[^\n]*:\n```\w*\n(?P<text>.*?)\n```", re.S)


def quotes(page):
    for quote in QUOTE.finditer((ROOT / page).read_text(encoding="utf-8")):
        yield (ROOT / page).parent / quote["path"], quote["text"]


class Quotes(unittest.TestCase):
    def test_quotes_stand_in_their_examples(self):
        for page, least in (("README.md", 2), ("docs/clients.md", 8)):
            found = list(quotes(page))
            self.assertGreaterEqual(len(found), least, page)
            for path, text in found:
                with self.subTest(page=page, path=path):
                    self.assertIn(f"\n{text}\n", path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
