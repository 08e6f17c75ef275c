"""tools/coverage finds the lines that nothing executes, and keeps its list of exceptions honest.

Method: a program of a few lines with counters for the whole way; hand-written lines for the list.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "support"))

import coverage_report  # noqa: E402  (after the path)

PROGRAM = """int twice(int value) {
  if (value == 7)
    return 7;
  return value * 2;
}
int main() { return twice(2) - 4; }
"""


class Counts(unittest.TestCase):
    def test_are_those_of_a_program_that_ran(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "src" / "one").mkdir(parents=True)
            (folder / "src" / "one" / "one.cpp").write_text(PROGRAM, encoding="utf-8")
            subprocess.run(["clang++-14", "-fprofile-instr-generate", "-fcoverage-mapping",
                            "src/one/one.cpp", "-o", "one"], cwd=folder, check=True)
            subprocess.run([str(folder / "one")], cwd=folder, check=True,
                           env={"LLVM_PROFILE_FILE": "counts"})
            subprocess.run(["llvm-profdata-14", "merge", "counts", "-o", "all"], cwd=folder,
                           check=True)
            lcov = subprocess.run(
                ["llvm-cov-14", "export", "--format=lcov", "one", "--instr-profile=all"],
                cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
            files = coverage_report.read_lcov(lcov, folder)
        self.assertEqual(list(files), ["src/one/one.cpp"])
        lines = coverage_report.unexecuted(files, lambda path: PROGRAM.split("\n"))
        self.assertEqual(list(lines), [("src/one/one.cpp", 3, "return 7;")])
        self.assertEqual(sorted(map(bool, files["src/one/one.cpp"].branches)), [False, True])
        table = coverage_report.table(files)
        self.assertIn("src/one", table)
        self.assertIn("50.0 %", table)

    def test_of_other_files_do_not_matter(self):
        lcov = "SF:/p/tests/a.cpp\nDA:1,0\nend_of_record\nSF:/p/src/a/a.cpp\nDA:1,2\n"
        files = coverage_report.read_lcov(lcov, "/p")
        self.assertEqual({path: counts.lines for path, counts in files.items()},
                         {"src/a/a.cpp": {1: 2}})

    def test_of_python_are_read_too(self):
        data = {"files": {"clients/python/src/one.py": {
            "missing_lines": [3], "executed_lines": [1, 2],
            "summary": {"covered_branches": 1, "num_branches": 2}}}}
        (counts,) = coverage_report.read_python(data, ROOT).values()
        self.assertEqual(counts.lines, {1: 1, 2: 1, 3: 0})
        self.assertEqual(counts.branches, [1, 0])


class List(unittest.TestCase):
    LINE = ("src/a/a.cpp", 4, "return 7;")

    def complaints(self, lines, text):
        return list(coverage_report.complaints(lines, coverage_report.read_list(text)))

    def test_an_unexecuted_line_is_a_complaint_unless_it_is_listed(self):
        listed = "# All.\n\nsrc/a/a.cpp\n  return 7;\nReason: the kernel never does it\n"
        self.assertEqual(self.complaints([self.LINE], listed), [])
        self.assertEqual(self.complaints([self.LINE], ""),
                         ["src/a/a.cpp:4: no test executes: return 7;"])
        self.assertEqual(len(self.complaints([self.LINE, ("src/a/a.cpp", 9, "return 7;")],
                                             listed)), 1)

    def test_a_listed_line_that_is_executed_is_a_complaint(self):
        listed = "src/a/a.cpp\nreturn 7;\nreturn 8;\nReason: none\n"
        self.assertEqual(len(self.complaints([self.LINE], listed)), 1)

    def test_lines_of_clients_need_not_be_listed(self):
        self.assertEqual(self.complaints([("clients/cpp/src/a.cpp", 4, "return 7;")], ""), [])

    def test_a_line_without_a_reason_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "Reason"):
            coverage_report.read_list("src/a/a.cpp\nreturn 7;\n")

    def test_of_this_project_can_be_read(self):
        coverage_report.read_list(coverage_report.LIST.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
