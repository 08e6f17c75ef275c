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
        self.assertEqual(list(lines), [("src/one/one.cpp", 3, "twice", "return 7;")])
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
    LINE = ("src/a/a.cpp", 4, "twice", "return 7;")

    def complaints(self, lines, text):
        return list(coverage_report.complaints(lines, coverage_report.read_list(text)))

    def test_an_unexecuted_line_is_a_complaint_unless_it_is_listed(self):
        listed = ("# All.\n\nsrc/a/a.cpp: twice\n  return 7;\n"
                  "Reason: the kernel never does it\n")
        self.assertEqual(self.complaints([self.LINE], listed), [])
        self.assertEqual(self.complaints([self.LINE], ""),
                         ["src/a/a.cpp:4: no test executes, in twice: return 7;"])
        again = ("src/a/a.cpp", 9, "twice", "return 7;")
        self.assertEqual(len(self.complaints([self.LINE, again], listed)), 1)

    def test_a_line_of_another_function_or_file_is_not_excused(self):
        listed = "src/a/a.cpp: twice\nreturn 7;\nReason: the kernel never does it\n"
        for path, place in [("src/a/a.cpp", "thrice"), ("src/a/b.cpp", "twice")]:
            another = (path, 9, place, "return 7;")
            self.assertEqual(self.complaints([another], listed), [
                f"{path}:9: no test executes, in {place}: return 7;",
                "src/a/a.cpp: is executed, or no longer in twice, but listed 1 times: return 7;"])
            self.assertEqual(len(self.complaints([self.LINE, another], listed)), 1)

    def test_a_listed_line_that_is_executed_is_a_complaint(self):
        listed = "src/a/a.cpp: twice\nreturn 7;\nreturn 8;\nReason: none\n"
        self.assertEqual(len(self.complaints([self.LINE], listed)), 1)

    def test_lines_of_clients_need_not_be_listed(self):
        self.assertEqual(self.complaints([("clients/cpp/src/a.cpp", 4, "f", "return 7;")], ""), [])

    def test_a_line_without_a_reason_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "Reason"):
            coverage_report.read_list("src/a/a.cpp: twice\nreturn 7;\n")

    def test_a_file_without_a_function_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "FUNCTION"):
            coverage_report.read_list("src/a/a.cpp\nreturn 7;\nReason: none\n")

    def test_of_this_project_names_lines_that_are_there(self):
        listed = coverage_report.read_list(coverage_report.LIST.read_text(encoding="utf-8"))
        self.assertGreater(len(listed), 50)
        for (path, place, text), count in listed.items():
            texts = (ROOT / path).read_text(encoding="utf-8").split("\n")
            found = [number for number, line in enumerate(texts, 1)
                     if line.strip() == text and coverage_report.place_of(texts, number) == place]
            self.assertGreaterEqual(len(found), count, (path, place, text))


SOURCE = """namespace sluice {
namespace {

constexpr int seven = 7;

constexpr size_t bytes = [] {
  return 8;
}();

[[noreturn]] void end(char* const* arguments,
                      int log) noexcept {
  exit(1);
}

}  // namespace

class Ring : public Base {
 public:
  explicit Ring(int size)
      : size_(size) {}

  template <typename T>
  int size() const {
    if (size_ == 7) {
      return 7;
    }
    return size_;
  }

 private:
  int size_;
};

Ring::~Ring() {
  leave();
}

template <typename T>
bool operator==(const T& one, const T& other) {
  return true;
}

// Why.
int Ring::twice(int value) const {
#ifdef SLUICE
  if (value == 7)
    return 7;
#endif
  return find([&](int each) {
    return each;
  });
}
"""


class Place(unittest.TestCase):
    def test_is_the_function_or_the_class_and_its_function(self):
        texts = SOURCE.split("\n")
        places = {number: coverage_report.place_of(texts, number)
                  for number, text in enumerate(texts, 1) if text.startswith((" ", "}"))}
        expected = {"bytes": (7, 8), "end": (11, 13), "Ring": (18, 18), "Ring::Ring": (19, 20),
                    "Ring::size": (23, 28), "Ring::~Ring": (35, 36), "operator==": (40, 41),
                    "Ring::twice": (46, 52)}
        for place, (first, last) in expected.items():
            for number in range(first, last + 1):
                self.assertEqual(places.get(number, place), place, texts[number - 1])


if __name__ == "__main__":
    unittest.main(verbosity=1)
