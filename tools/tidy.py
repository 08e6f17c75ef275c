#!/usr/bin/env python3
"""Checks the architecture: layers, quarantine, headers, and a few marks of unfinished work.

    tools/tidy.py                  the rules below over the whole tree, and a list of large classes
    tools/tidy.py --self-test      each rule on a line that it must refuse and one that it must not
    tools/tidy.py --headers BUILD  compiles every header alone, with the flags of that build folder
    tools/tidy.py --format         clang-format-14 finds nothing to change
    tools/tidy.py --rules          prints the rules and their reasons

Exit status 1 when a rule is broken; every complaint is one line, FILE:LINE: fault and cure.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "support"))

from class_sizes import MEMBERS_AIM, METHODS_AIM, class_sizes  # noqa: E402  (after the path)
from texts import tree  # noqa: E402
from words import retired_words  # noqa: E402

# A folder of src/ includes itself and the folders listed here (docs/architecture.md, "Folders").
LAYERS = {
    "base": [],
    "text": ["base"],
    "api": ["base"],
    "limiter": ["base", "api"],
    "policy": ["base", "text", "api", "limiter"],
    "state": ["base", "api", "limiter"],
    "shard": ["base", "api", "limiter", "policy", "state"],
    "quota": ["base", "api", "limiter", "policy", "proto", "state"],
    "io": ["base"],
    "log": ["base", "text", "io"],
    "store": ["base", "state", "io", "log"],
    "transfer": ["base", "text", "io", "store"],
    "net": ["base", "io"],
    "wire": ["base", "text", "api", "policy", "proto"],
    "route": ["base", "api", "proto"],
    "peer": ["base", "text", "api", "log", "proto", "io", "net", "wire", "route"],
    "session": ["base", "text", "api", "log", "net", "wire", "route"],
    "config": ["base", "text", "api", "log"],
    "server": ["proto", "base", "text", "api", "limiter", "policy", "state", "shard", "quota", "io",
               "log", "store", "transfer", "net", "wire", "route", "peer", "session", "config"],
    "migration": ["base", "text", "api", "limiter", "policy", "state", "quota", "store",
                  "transfer", "server"],
    "load": ["text", "proto", "clients"],
    "cli": ["base", "text", "api", "limiter", "policy", "state", "quota", "peer", "config", "log",
            "store", "transfer", "server", "migration", "load", "clients"],
    "main.cpp": ["base", "config", "cli"],
}

# Folders with code that runs for every request.
REQUEST_PATH = ["base", "text", "api", "limiter", "state", "shard", "quota", "io", "net", "wire",
                "route", "peer", "session"]

# (name, pattern, places in src/ that may have it, cure). load/ is a client with sockets.
QUARANTINE = [
    ("io_uring or epoll", r"<liburing\.h>|<sys/epoll\.h>|\bio_uring_\w+\s*\(|\bepoll_\w+\s*\(",
     ["io/", "load/"], "everything above calls io::Io"),
    ("Cap'n Proto", r"<(capnp|kj)/|\.capnp\.h\b|\b(capnp|kj)::", ["wire/"],
     "pass the values of api/ instead"),
    ("SQLite", r"<sqlite3\.h>|\bsqlite3_\w+\s*\(", ["store/"],
     "use store::StateFile or store::StateReader"),
    ("yaml-cpp", r"<yaml-cpp/|\bYAML::", ["transfer/"], "use transfer::read_go_ratelimit()"),
    ("nghttp2", r"<nghttp2/|\bnghttp2_\w+\s*\(", ["wire/"], "use wire::Http2Framing"),
    ("a socket call", r"<(sys/socket|netinet/\w+|netdb)\.h>"
     r"|(?<![\w>])::(socket|bind|listen|accept4?|connect|recv|recvmsg|send|sendto|sendmsg)\s*\("
     r"|(?<![\w>])::(shutdown|[gs]etsockopt|getsockname)\s*\(",
     ["io/", "net/", "load/"], "io/ and net/ own the sockets"),
    # cli/ and load/ measure; server.cpp waits for its workers on the main thread, outside their
    # loops.
    ("a clock", r"\bclock_gettime\s*\(|\bgettimeofday\s*\(|\bstd::time\s*\(|_clock::now\s*\("
     r"|\b__rdtsc\b", ["io/", "cli/", "load/", "server/server.cpp"],
     "time is an argument: base::Now"),
    ("std::atomic", r"<atomic>|\bstd::atomic\w*",
     ["server/", "io/", "store/writer_statistics.hpp", "route/ring.hpp", "route/doorbell.hpp",
      "route/senders.hpp",
      "log/log.cpp"],
     "an object belongs to one shard"),
]

# (name, pattern, folders that must not have it, cure)
FORBIDDEN = [
    ("randomness", r"<random>|\bstd::(random_device|mt19937)|\bgetrandom\s*\(|\brand\s*\(",
     ["limiter", "state", "shard", "quota"], "seeds are arguments"),
    ("a type that allocates or is slow", r"<(iostream|regex|filesystem|map)>"
     r"|\bstd::(function|shared_ptr|make_shared|regex|map)\b", REQUEST_PATH,
     "nothing allocates on the request path"),
]

# A .cpp, or a folder of them, without a unit test of its name, and the tests that cover it.
COVERED_BY_OTHER_TESTS = {
    "src/main.cpp": "tests/integration runs it",
    "src/cli/": "tests/integration runs the commands",
    "src/config/config.cpp": "tests/unit/config/flags_test.cpp reads the defaults",
    "src/io/epoll/": "tests/unit/io/io_*_test.cpp run over every implementation of io::Io",
    "src/io/uring/": "tests/unit/io/io_*_test.cpp run over every implementation of io::Io",
    "src/io/sim/": "tests/unit/io/sim_io_test.cpp and tests/simulation",
    **{f"src/load/{name}.cpp": "tests/unit/cli/bench_command_test.cpp runs the load tool"
       for name in ("prepare", "run")},
    "src/route/mailboxes.cpp": "tests/property/mailboxes_test.cpp",
    "src/server/": "tests/simulation drives the worker, tests/integration the process",
    "src/session/": "tests/simulation checks every answer, tests/integration every dialogue",
    "src/wire/quota_visit.cpp": "tests/unit/wire/forward_quota_test.cpp: a part of that frame",
    "src/shard/": "tests/unit/shard/key_shard_test.cpp, tests/property and tests/simulation",
}

def without_comments(text):
    """C++ with comments and string contents blanked, so that prose never breaks a rule."""
    def blank(match):
        found = match.group(0)
        if found.startswith('"') and not found.startswith('"\n'):
            return found if "/" in found or ".h" in found else '""'  # includes stay
        return re.sub(r"[^\n]", " ", found)
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', blank, text,
                  flags=re.DOTALL)


def is_cpp(path):
    return path.endswith((".cpp", ".hpp"))


def folder_of(path):
    """'shard' for src/shard/..., 'main.cpp' for src/main.cpp, None outside src/."""
    return path.split("/")[1] if path.startswith("src/") else None


def matches(text, pattern):
    """(line number, found text) of every match."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match.group(0).strip()


# ---- the rules: (path, text) -> complaints as (line, text) ---------------------------------------

def layers(path, text):
    """A folder of src/ includes only the folders below it."""
    folder = folder_of(path)
    if folder not in LAYERS or not is_cpp(path):
        return
    for line, include in matches(without_comments(text), r'#include "[^"]+"'):
        target = include.split('"')[1]
        other = target.split("/")[0]
        if other in LAYERS and other != folder and other not in LAYERS[folder]:
            yield line, f"{folder}/ must not include {target}"
        if other == "proto" and "proto" not in LAYERS[folder]:
            yield line, f"{folder}/ must not include {target}"
        if other == "sluicegate" and "clients" not in LAYERS[folder]:
            yield line, f"only cli/, load/ and tests use the client, not {folder}/"


def quarantine(path, text):
    """Some calls are confined to their folders; tests, clients and benchmarks are free."""
    if folder_of(path) is None or not is_cpp(path):
        return
    code = without_comments(text)
    for what, pattern, allowed, cure in QUARANTINE:
        if path[len("src/"):].startswith(tuple(allowed)):
            continue
        for line, found in matches(code, pattern):
            yield line, f"{what} ({found}) outside {', '.join(allowed)}: {cure}"


def forbidden(path, text):
    """Some folders must not use certain types and functions."""
    folder = folder_of(path)
    if folder is None or not is_cpp(path):
        return
    code = without_comments(text)
    for what, pattern, folders, cure in FORBIDDEN:
        if folder in folders:
            for line, found in matches(code, pattern):
                yield line, f"{what} ({found}) in {folder}/: {cure}"


def captures(path, text):
    """A capture of everything by copy hides which objects a lambda keeps alive."""
    if is_cpp(path):
        for line, _ in matches(without_comments(text), r"\[=[,\]]"):
            yield line, "[=]: name the captured variables"


def header_block(path, text):
    """A header opens with its purpose, and is guarded."""
    if not path.endswith(".hpp"):
        return
    if not re.match(r"// \S+ \S", text):
        yield 1, "a header opens with a comment: a sentence that states its purpose"
    if "#pragma once" not in text:
        yield 1, "#pragma once is missing"


# The keys of a header block, in their order.
HEADER_KEYS = ["Goal", "Method", "Flow", "Shape", "States", "Fate", "Units", "Errors", "Bounds",
               "Lives", "Threads", "Source"]
HEADER_KEY = "|".join(HEADER_KEYS)
TORN = "|".join(HEADER_KEYS[2:])  # a test's goal and method may share a line


def header_order(path, text):
    """The lines of a header block have one order, and each key begins its line."""
    if not is_cpp(path):
        return
    last = -1
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("//"):
            return
        if torn := re.search(rf"\S +(?:{TORN}): ", line[2:]):
            yield number, f"{torn.group(0)[1:].strip()} begins a line of its own"
        if key := re.match(rf"// ({HEADER_KEY}): ", line):
            place = HEADER_KEYS.index(key.group(1))
            if place <= last:
                yield number, f"{key.group(1)}: comes before {HEADER_KEYS[last]}"
            last = place


def words(path, text):
    """Plain terms: the words of tools/support/words.py have a better one."""
    for line, word, cure in retired_words(path, text):
        yield line, f'"{word}": write {cure}'


def test_goal(path, text):
    """A test file opens with its goal and method."""
    if re.match(r"tests/.*_test\.(cpp|py)$", path) and not re.match(r'// \S+ +\S|"""\S+ \S', text):
        yield 1, "a test file opens with a sentence: its goal and its method"


def line_length(path, text):
    """Lines fit into 100 columns, unless one long word (a mangled name) sticks out."""
    if path.endswith((".cpp", ".hpp", ".py", ".build", ".capnp", ".ini")) or "." not in path:
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > 100 and max(map(len, line.split())) < 60:
                yield number, f"{len(line)} columns; at most 100"


def unfinished(path, text):
    """Unfinished work names its issue."""
    if path == "tools/tidy.py" or path.endswith((".md", ".patch")):
        return
    for line, found in matches(text, r"\b(TODO(?!\(#\d+\))|FIXME|XXX|HACK)\b"):
        yield line, f"{found}: finish it, or write TODO(#issue)"


def machine_paths(path, text):
    """No file names paths of the machine that it was written on."""
    for line, found in matches(text, r"(?<![\w.$}~/])/(?:root|home|work)/[\w.-]+"):
        yield line, f"{found}: an absolute path of one machine"


RULES = [layers, quarantine, forbidden, captures, header_block, test_goal, line_length, unfinished,
         machine_paths, header_order, words]


# ---- rules over the tree -------------------------------------------------------------------------

def missing_tests(paths):
    """Every .cpp of src/ has tests/unit/FOLDER/NAME_test.cpp, or is in COVERED_BY_OTHER_TESTS.

    A part of a class (key_store_decide.cpp, declared in key_store.hpp) shares its main file's test.
    """
    tested = {p for p in paths if p.startswith("tests/unit/")}
    sources = [p for p in sorted(paths) if p.startswith("src/") and p.endswith(".cpp")]
    for path in sources:
        if path.startswith(tuple(COVERED_BY_OTHER_TESTS)):
            continue
        folders = path.split("/")[1:-1]
        stem = pathlib.PurePath(path).stem
        while f"{path.rsplit('/', 1)[0]}/{stem}.hpp" not in paths and "_" in stem:
            stem = stem.rsplit("_", 1)[0]
        name = stem + "_test.cpp"
        # src/io/uring/ring.cpp: tests/unit/io/uring/ring_test.cpp or tests/unit/io/ring_test.cpp
        places = {"/".join(["tests/unit", *folders[:n], name]) for n in range(1, len(folders) + 1)}
        if not places & tested:
            yield f"{path}:1: no unit test {sorted(places)[-1]}"
    for path in sorted(COVERED_BY_OTHER_TESTS):
        if not any(p.startswith(path) for p in paths):
            yield f"tools/tidy.py:1: COVERED_BY_OTHER_TESTS names {path}, which does not exist"


def folder_order(text):
    """The order of subdir() in src/meson.build is the diagram of the layers."""
    seen = set()
    for folder in re.findall(r"^subdir\('(\w+)'\)", text, re.MULTILINE):
        for below in LAYERS.get(folder, []):
            if below in LAYERS and below not in seen:
                yield f"src/meson.build:1: {folder} comes before {below}, which it includes"
        seen.add(folder)


def folders_page(text):
    """The block below "Folders" in docs/architecture.md names the folders as LAYERS does."""
    page = "docs/architecture.md"
    block = re.search(r"^## Folders\n.*?^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if block is None:
        yield f'{page}:1: there is no block of folders below "## Folders"'
        return
    first = text.count("\n", 0, block.start(1)) + 1
    rows = {}
    for number, row in enumerate(block.group(1).splitlines(), first):
        folder, _, rest = (part.strip() for part in row.partition("->"))
        includes = re.split(r" {2,}", rest)[0]
        rows[folder] = set(rows) if includes == "all above" else set(includes.split(", ")) - {"std"}
        if folder in LAYERS and rows[folder] != set(LAYERS[folder]):
            yield f"{page}:{number}: {folder} -> {', '.join(LAYERS[folder]) or 'std'} in LAYERS"
    if [folder for folder in rows if folder != "proto"] != list(LAYERS):  # proto/ is not in src/
        yield f"{page}:{first}: LAYERS has {', '.join(LAYERS)}, in this order"


# ---- the modes -----------------------------------------------------------------------------------

def check_tree(ROOT):
    paths = sorted(tree(ROOT))
    complaints = []
    for path in paths:
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # a binary without suffix, or an editor's file just deleted
        for rule in RULES:
            complaints += [f"{path}:{line}: {what}" for line, what in rule(path, text)]
    complaints += missing_tests(set(paths))
    complaints += folder_order((ROOT / "src/meson.build").read_text(encoding="utf-8"))
    complaints += folders_page((ROOT / "docs/architecture.md").read_text(encoding="utf-8"))
    return complaints


def report_large_classes():
    """Lists classes above the aims, the largest first: a report, not a failure."""
    large = []
    for path in sorted(tree(ROOT)):
        if path.startswith(("src/", "clients/")) and is_cpp(path):
            text = without_comments((ROOT / path).read_text(encoding="utf-8"))
            large += [(size, path) for size in class_sizes(text) if size.is_above_aims()]
    large.sort(key=lambda found: (-found[0].methods, -found[0].members, found[1]))
    yield f"{len(large)} classes above {METHODS_AIM} methods or {MEMBERS_AIM} members:"
    for size, path in large:
        yield (f"{size.methods:4} methods {size.members:3} members  {size.name}"
               f"  {path}:{size.line}")


def opens_with(source, header):
    """Whether a source file includes this header first: building the file checks the header."""
    first = re.search(r'^#include ["<]([^">]+)[">]', source, re.MULTILINE)
    return first is not None and f"/{header}".endswith("/" + first.group(1))


def headers_to_compile(paths):
    """Headers of src/, proto/, clients/ and tests/support that no source file includes first."""
    opened = [(pathlib.PurePath(p).stem, (ROOT / p).read_text(encoding="utf-8"))
              for p in paths if p.startswith(("src/", "clients/")) and p.endswith(".cpp")]
    for header in paths:
        if header.endswith(".hpp") and header.startswith(
                ("src/", "proto/", "clients/", "tests/support/")):
            stem = pathlib.PurePath(header).stem
            if not any(stem == name and opens_with(text, header) for name, text in opened):
                yield header


def check_headers(build):
    """Compiles alone every header that no source file of the build includes first."""
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    headers = headers_to_compile(sorted(tree(ROOT)))
    arguments = shlex.split(commands[0]["command"])
    compiler = arguments[:next(n for n, a in enumerate(arguments) if a.startswith("-"))]
    # Include folders and definitions of all targets together; the other flags of the first target.
    shared = {}
    for command in commands:
        for argument in shlex.split(command["command"]):
            if argument.startswith(("-I", "-isystem", "-DS")):
                shared[argument] = None
    keep = [a for a in arguments if re.match(r"-(std|W)", a) and not a.startswith("-Wp,")]
    above = os.path.relpath(ROOT, build)
    scratch = pathlib.Path(build) / "tidy_headers"
    scratch.mkdir(exist_ok=True)

    def compile_alone(header):
        # An object per header, so that ccache finds it again; it would not cache -fsyntax-only. All
        # paths are relative: ccache finds it in another checkout too.
        stub = scratch / (header.replace("/", "_") + ".cpp")
        text = f'#include "{header}"\n'
        if not stub.exists() or stub.read_text() != text:
            stub.write_text(text)
        command = [*compiler, *keep, *shared, f"-I{above}", f"-I{above}/tests", "-c",
                   f"{scratch.name}/{stub.name}", "-o", f"{scratch.name}/{stub.name}.o"]
        run = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return []
        reason = next((line for line in run.stderr.split("\n") if "error" in line), run.stderr)
        return [f"{header}:1: does not compile alone: {reason}"]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [c for complaints in pool.map(compile_alone, headers) for c in complaints]


def check_format():
    files = [p for p in sorted(tree(ROOT)) if is_cpp(p)]
    run = subprocess.run(["clang-format-14", "--dry-run", *files], cwd=ROOT, capture_output=True,
                         text=True, check=False)
    found = sorted({line.split(": warning")[0].rsplit(":", 1)[0]
                    for line in run.stderr.split("\n") if ": warning" in line})
    return [f"{place}: not formatted; clang-format-14 -i fixes it" for place in found]


# (rule, path, text to refuse, text to accept)
SELF_TESTS = [
    (layers, "src/limiter/a.hpp", '#include "shard/key_shard.hpp"', '#include "api/entry.hpp"'),
    (layers, "src/shard/a.hpp", '#include "proto/key_hash.hpp"', '// #include "wire/x.hpp"'),
    (layers, "src/server/a.hpp", '#include "sluicegate/client.hpp"', '#include "session/a.hpp"'),
    (layers, "src/main.cpp", '#include "server/server.hpp"', '#include "cli/commands.hpp"'),
    (quarantine, "src/net/a.cpp", "#include <liburing.h>", "// <liburing.h> is io/'s"),
    (quarantine, "src/server/a.cpp", "epoll_wait(fd);", 'log("epoll_wait(");'),
    (quarantine, "src/session/a.cpp", "#include <capnp/message.h>", '#include "wire/x.hpp"'),
    (quarantine, "src/session/a.cpp", "#include <nghttp2/nghttp2.h>", "Http2Framing nghttp2;"),
    (quarantine, "src/server/a.cpp", "sqlite3_step(s);", '#include "store/state_file.hpp"'),
    (quarantine, "src/cli/a.cpp", "#include <yaml-cpp/yaml.h>", "// YAML: read by transfer/"),
    (quarantine, "src/server/a.cpp", "x = ::socket(1, 2, 3);", "io.send(1); Io::send(2);"),
    (quarantine, "src/shard/a.cpp", "std::chrono::steady_clock::now()", "now.monotonic_ns"),
    (quarantine, "src/shard/a.hpp", "std::atomic<int> count;", "int count;"),
    (forbidden, "src/shard/a.cpp", "std::mt19937 random;", "uint64_t seed;"),
    (forbidden, "src/wire/a.cpp", "std::function<void()> f;", "function(f);"),
    (captures, "src/cli/a.cpp", "[=] { f(); }", "a[i] = b; [&x = y] {}"),
    (header_block, "src/a/b.hpp", "#pragma once", "// Cuts bytes into frames.\n#pragma once"),
    (test_goal, "tests/unit/a/b_test.cpp", "#include <x>", "// Frames are cut. Method: bytes."),
    (line_length, "src/a/b.cpp", "x x" * 34, "x" * 101),
    (unfinished, "src/a/b.cpp", "// TODO: later", "// TODO(#12): later"),
    (header_order, "src/a/b.hpp", "// Cuts.\n// Errors: none.\n// Flow:   a -> b.",
     "// Cuts.\n// Flow:   a -> b.\n// Errors: none."),
    (header_order, "src/a/b.hpp", "// Cuts bytes. Flow: a -> b.", "// Cuts bytes.\nint x;"),
    (words, "src/a/b.cpp", "bool hang_up_" + "told;", "bool hang_up_reported;"),
    (words, "docs/a.md", "Who waits in " + "line.", "A waiter joins the queue."),
    (words, "src/a/b.cpp", "// It " + "comes\n// back.", "// It\n// returns."),
    (words, "docs/protocol.md", "## A\n| `" + "ttl` |", "## Renamed before 1\n| `" + "ttl` |"),
    (machine_paths, "docs/a.md", "see " + "/ho" + "me/me/x", "~/x, $HOME/x, build/x, a/root/b"),
]


def self_test():
    complaints = []
    for rule, path, bad, good in SELF_TESTS:
        if not list(rule(path, bad)):
            complaints.append(f"{rule.__name__} accepts: {bad}")
        for line, what in rule(path, good):
            complaints.append(f"{rule.__name__} refuses: {good} ({what}, line {line})")
    untested = {rule.__name__ for rule in RULES} - {test[0].__name__ for test in SELF_TESTS}
    complaints += [f"{name} has no self-test" for name in sorted(untested)]
    covered = {f"{path.rstrip('/')}/x.cpp" for path in COVERED_BY_OTHER_TESTS}
    if len(list(missing_tests(covered | {"src/a/b.cpp"}))) != 1:
        complaints.append("missing_tests accepts a .cpp without a test")
    if list(missing_tests(covered | {"src/a/c/b.cpp", "tests/unit/a/b_test.cpp"})):
        complaints.append("missing_tests does not find tests/unit/a/b_test.cpp")
    if not opens_with('// x\n#include "a/b.hpp"\n#include "c/d.hpp"', "src/a/b.hpp"):
        complaints.append("opens_with misses a source file's own header")
    if opens_with('#include "c/d.hpp"\n#include "a/b.hpp"', "src/a/b.hpp"):
        complaints.append("opens_with takes a later include for the first")
    code = ("class A : public B {\n public:\n  A() = default;\n  explicit A(int x) : x_(x) {}\n"
            "  int f(int y) const noexcept { return y; }\n  friend class C;\n private:\n"
            "  struct D { int z = 0; };\n  static constexpr int most = 3;\n  void g() noexcept;\n"
            "  int x_ = 0;\n  std::vector<std::pair<int, int>> all_{};\n};\n")
    found = [(size.name, size.methods, size.members) for size in class_sizes(code)]
    if found != [("A", 3, 2), ("D", 0, 1)]:
        complaints.append(f"class_sizes counts {found}")
    if not list(folder_order("subdir('api')\nsubdir('base')")):
        complaints.append("folder_order accepts api before base")
    rows = [f"{folder:8}-> {', '.join(below) or 'std'}  what it does"
            for folder, below in LAYERS.items()]
    rows.insert(0, "proto -> std, xxhash  the schema")
    pages = {  # name: (rows, whether they are right)
        "LAYERS": (rows, True),
        "server above all": ([re.sub("^server .*", "server -> all above", r) for r in rows], True),
        "wire above all": ([re.sub("^wire .*", "wire -> all above", r) for r in rows], False),
        "another include": ([r.replace("-> std  ", "-> api  ") for r in rows], False),
        "another order": ([*rows[:2], rows[3], rows[2], *rows[4:]], False),
        "a folder less": (rows[:-1], False),
        "a folder more": ([*rows, "x -> base"], False),
    }
    for name, (lines, right) in pages.items():
        block = "\n".join(["```", *lines, "```"])
        if right != (not list(folders_page(f"```\nx\n```\n## Folders\nText.\n{block}\n"))):
            complaints.append(f"folders_page {'refuses' if right else 'accepts'} {name}")
    if not list(folders_page("## Folders\n")):
        complaints.append("folders_page accepts a page without the block")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--headers", metavar="BUILD")
    parser.add_argument("--format", action="store_true")
    parser.add_argument("--rules", action="store_true")
    options = parser.parse_args()
    if options.rules:
        for rule in [*RULES, missing_tests, folder_order, folders_page]:
            print(f"{rule.__name__:15} {rule.__doc__.splitlines()[0]}")
        return 0
    if options.self_test:
        complaints = self_test()
    elif options.headers:
        complaints = check_headers(options.headers)
    elif options.format:
        complaints = check_format()
    else:
        complaints = check_tree(ROOT)
        print("\n".join(report_large_classes()))
    print("\n".join(complaints) if complaints else "tidy: no complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
