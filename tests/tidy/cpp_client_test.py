"""Programs that use the C++ client compile without warnings, and cannot overlook an outcome.

Method: g++ and clang++ check the examples, of which docs/clients.md quotes parts, and generated
programs, with -Wall -Wextra -Werror: a designated initializer for each member of each struct of the
headers; and calls whose outcome is ignored, each of which must be an error.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "clients" / "cpp"
HEADERS = sorted((CLIENT / "include" / "sluicegate").glob("*.hpp"))
EXAMPLES = sorted((CLIENT / "examples").glob("*.cpp"))
COMPILERS = [name for name in ("g++", "clang++-14") if shutil.which(name)]
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{CLIENT / 'include'}"]

NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
STRUCT = re.compile(r"^struct (?:\[\[nodiscard\]\] )?(\w+) \{\n(.*?)^\};", re.M | re.S)
MEMBER = re.compile(r"^  (?!(?:static|explicit|bool operator)\b)[\w:<>, \[\]]+?(&?) (\w+)"
                    r"(?: = [^;]*|\{[^;]*\})?;", re.M)

# Calls whose outcome says whether the server refused something; `c` is a Client, `r` a Reservation
# and `n` a Connection.
OUTCOMES = """
    c.acquire("a");
    c.acquire_future("a");
    c.acquire_batch(keys);
    c.acquire_batch(handles);
    c.intern(keys);
    c.reserve("a");
    c.reserve_future("a");
    c.lease("a");
    c.check("a");
    c.record("a");
    c.settle(1);
    c.cancel_reservation(1);
    c.extend(1);
    c.reserve_batch({});
    c.settle_batch({});
    c.put_quota("a", {});
    c.remove_quota("a");
    c.reset("a");
    c.reset_all();
    r.settle();
    r.cancel();
    r.release();
    r.extend();
    go_ratelimit::decide(c, "a", 1);
    go_ratelimit::record_usage(c, "a", 1, 1);
    go_ratelimit::wait_for_capacity(c, "a", 1);
    n.acquire("a");
    n.acquire(keys);
    n.acquire(handles);
    n.intern(keys);
    n.receive({});
""".strip("\n").split("\n")


def check(compiler, program, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.cpp"
        path.write_text(program)
        return subprocess.run([compiler, *FLAGS, *flags, path], capture_output=True, text=True,
                              check=False)


def structs():
    """The names of the structs of the headers, with their members."""
    for header in HEADERS:
        text = header.read_text()
        for name, body in STRUCT.findall(text):
            members = MEMBER.findall(body)
            if members and not any(reference for reference, _ in members):
                yield f"{NAMESPACE.search(text)[1]}::{name}", [member for _, member in members]


def initializers():
    """A program that initializes each member of each struct, and leaves out the others."""
    lines = [f"  use({name}{{.{member} = {{}}}});" for name, members in structs()
             for member in members]
    includes = [f"#include <sluicegate/{header.name}>" for header in HEADERS]
    return "\n".join([*includes, "using namespace sluicegate;",
                      "template <typename T> void use(const T&) {}", "void all() {", *lines, "}"])


def ignoring(calls):
    return "\n".join([
        "#include <sluicegate/go_ratelimit.hpp>", "using namespace sluicegate;",
        "void f(Client& c, Reservation& r, Connection& n, std::span<const std::string_view> keys,",
        "       std::span<const uint32_t> handles) {",
        "  (void)c, (void)r, (void)n, (void)keys, (void)handles;", *calls, "}"])


class CppClient(unittest.TestCase):
    def test_examples_compile_without_warnings(self):
        for compiler in COMPILERS:
            for example in EXAMPLES:
                with self.subTest(compiler=compiler, example=example.name):
                    result = check(compiler, example.read_text())
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_designated_initializer_may_leave_out_any_member(self):
        names = {name: members for name, members in structs()}
        self.assertGreaterEqual(len(names), 30)
        self.assertIn("time_zone", names["sluicegate::Limit"])
        self.assertIn("wanted_shard", names["sluicegate::ConnectOptions"])
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                result = check(compiler, initializers())
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_ignored_outcome_is_an_error(self):
        self.assertTrue(COMPILERS)
        for compiler in COMPILERS:
            result = check(compiler, ignoring([]))
            self.assertEqual(result.returncode, 0, result.stderr)
            program = ignoring(OUTCOMES)
            errors = check(compiler, program, "-ferror-limit=0" if "clang" in compiler
                           else "-fmax-errors=0").stderr
            first = program.split("\n").index(OUTCOMES[0]) + 1
            lines = {int(line) for line in
                     re.findall(r"program\.cpp:(\d+):\d+: error: .*unused-result\]", errors)}
            lines |= {int(line) for line in
                      re.findall(r"program\.cpp:(\d+):\d+: error: .*unused-value\]", errors)}
            for index, call in enumerate(OUTCOMES):
                with self.subTest(compiler=compiler, call=call.strip()):
                    self.assertIn(first + index, lines)


if __name__ == "__main__":
    unittest.main()
