"""Names in Python: none is undefined, unused, or defined anew under an import.

Method: ruff, over every Python file, also those without a suffix.
"""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "support"))

from texts import tree  # noqa: E402  (after the path)


def is_python(path):
    if path.suffix == ".py":
        return True
    with path.open("rb") as file:
        return path.suffix == "" and b"python3" in file.readline()


def complaints(paths, *options):
    return subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet", "--select",
         "F,E9", "--output-format", "concise", *options, *paths],
        capture_output=True, text=True, timeout=60)


class Names(unittest.TestCase):
    def test_every_name_is_defined_once_and_used(self):
        paths = [ROOT / name for name in tree(ROOT) if is_python(ROOT / name)]
        self.assertIn(ROOT / "bench" / "ladder", paths)
        # A test's argument has the name of its fixture, which is imported.
        result = complaints(paths, "--per-file-ignores", "*_test.py:F811")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
