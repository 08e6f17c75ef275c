"""Which mutants are left out, and why: rules for what cannot change behaviour, or only its speed.

    RULES         one row each; docs/hacking.md explains them in words
    Equivalents   single mutants that change nothing, judged by a person (tests/mutants/equivalent)

A rule names parts of a file. It leaves out a mutant that changes nothing but such a part, and every
mutant of a line that has nothing else.
"""

import ast
import re
from collections import namedtuple

# A comment, a literal with its quotes; ' also separates digits: 1'000'000.
TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<literal>R"(?P<end>\w*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')", re.DOTALL)
HELP_FILES = re.compile(r"src/config/(flag_table\.hpp|help\.cpp)|src/server/metrics\.cpp")
COMMAND_FILES = re.compile(r"src/config/flags\.cpp|src/cli/\w+\.cpp")
HELP_CALLS = r"\b(add_\w+|set_\w+_flag|description|footer)\("
PAIRS = {"(": ")", "{": "}"}
JUMP = re.compile(r"\n\s*(break|continue);\n$")
CANNOT_BUILD = "cannot build"


class Source:
    """A C++ file: its text, where its comments and literals are, and the text without them."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        tokens = list(TOKEN.finditer(text))
        self.comments = [token.span() for token in tokens if token.group("comment")]
        self.literals = [token.span() for token in tokens
                         if token.group("literal") and '"' in token.group("literal")]
        self.code = TOKEN.sub(lambda token: re.sub(r"[^\n]", " ", token.group(0)), text)

    def closing(self, opening):
        """The place behind the bracket that closes the one at `opening`."""
        depth = 0
        open_bracket, close_bracket = self.code[opening], PAIRS[self.code[opening]]
        for place in range(opening, len(self.code)):
            depth += (self.code[place] == open_bracket) - (self.code[place] == close_bracket)
            if depth == 0:
                return place + 1
        return len(self.code)

    def bracketed(self, pattern):
        """From a match, whose last character opens a bracket, to where the bracket closes."""
        return [(match.start(), self.closing(match.end() - 1))
                for match in re.finditer(pattern, self.code, re.MULTILINE)]

    def matches(self, pattern):
        return [match.span() for match in re.finditer(pattern, self.code, re.MULTILINE)]


def _log_words(source):
    calls = source.bracketed(r"\blog::(debug|info|warning|error|write)\(")
    return [literal for literal in source.literals
            if any(begin <= literal[0] < end for begin, end in calls)]


def _help_words(source):
    """A command's errors and output stay in: only what it adds as help, and raw text, is help."""
    words = [(begin, end) for begin, end in source.literals if " " in source.text[begin:end]]
    if HELP_FILES.fullmatch(source.path):
        return words
    if not COMMAND_FILES.fullmatch(source.path):
        return []
    calls = source.bracketed(HELP_CALLS)
    return [(begin, end) for begin, end in words if source.text[begin] == "R"
            or any(first <= begin < last for first, last in calls)]


def _declarations(source):
    return source.matches(r"^\s*(using\b[^;{]*;|namespace\b.*|friend\b.*;|template <.*>"
                          r"|(class|struct|enum class) \w+;|(public|private|protected):"
                          r"|extern \"C\".*|[\[\](){};,]+)\s*$")


def _names_with_digits(source):
    return source.matches(r"\b[A-Za-z_]\w*\d\w*")


Rule = namedtuple("Rule", "name reason parts")
RULES = [
    Rule("comment", "no code",
         lambda source: source.comments),
    Rule("include", "the file compiles without it, or not at all",
         lambda source: source.matches(r"^\s*#.*$")),
    Rule("assertion", "holds in every correct program, so its change shows nowhere",
         lambda source: source.bracketed(r"\b(DEBUG_ASSERT|ASSERT|static_assert)\(")),
    Rule("words of logs", "people read them; tests may not fix each word",
         _log_words),
    Rule("words of help", "people read them; tests may not fix each word",
         _help_words),
    Rule("prefetch", "speed only",
         lambda source: source.matches(r"^.*\b\w*prefetch\w*\(.*$")
         + source.bracketed(r"\b\w*prefetch\w*\([^;{}]*\)[^;{}()]*\{")),
    Rule("reserved capacity", "speed only: a container grows by itself",
         lambda source: source.bracketed(r"^\s*[\w.>\[\]-]+(\.|->)(reserve|shrink_to_fit)\(")),
    Rule("attribute or alignment", "speed or warnings only",
         lambda source: source.matches(r"\[\[[^\]]*\]\]|\balignas\([^)]*\)|\bnoexcept\b")),
    Rule("declaration without a value", "compiles to the same, or not at all",
         _declarations),
    Rule("digits of a name", "another name, which seldom exists",
         _names_with_digits),
]


class CppRules:
    """Finds the rule that leaves out a mutant of one C++ file."""

    def __init__(self, path, text):
        source = Source(path, text)
        self._parts = [(rule, sorted(rule.parts(source))) for rule in RULES]
        self._text = text

    def rule_for(self, line_begin, line, mutant):
        """The name of the rule, or None. `line_begin`: where the line begins in the file."""
        if cannot_build(line, mutant):
            return CANNOT_BUILD
        begin, end = changed_part(line, mutant)
        return (self._covering(line_begin + begin, line_begin + end)
                or self._covering(*self._stripped(line_begin, line)))

    def _stripped(self, line_begin, line):
        begin = line_begin + len(line) - len(line.lstrip())
        return begin, max(begin, line_begin + len(line.rstrip().rstrip(";")))

    def _covering(self, begin, end):
        if begin == end:
            return None  # something is put between: only the whole line's rule decides
        for rule, parts in self._parts:
            covered = begin
            for part_begin, part_end in parts:
                if part_begin <= covered < part_end:
                    covered = part_end
            if covered >= end or not self._text[covered:end].strip(" ;,)\n"):
                return rule.name if covered > begin else None
        return None


def cannot_build(line, mutant):
    """Sees without a compiler, in text as clang-format leaves it, what need not be tried."""
    if _open_brackets(line) != _open_brackets(mutant):
        return True
    if not mutant.startswith(line) or not JUMP.search(mutant):
        return False
    # A jump is put behind the line: it must stand between statements, in a loop or a switch.
    return not (re.search(r"[;{}]\s*$", line) and line.startswith("    ")
                or re.search(r"^\s*(for|while|do|switch)\b.*\{$", line.rstrip()))


def _open_brackets(text):
    code = TOKEN.sub("", text)
    return [code.count(opening) - code.count(closing) for opening, closing in ("()", "[]", "{}")]


def changed_part(line, mutant):
    """The columns of the line that the mutant changes."""
    begin = 0
    while begin < min(len(line), len(mutant)) and line[begin] == mutant[begin]:
        begin += 1
    end, mutant_end = len(line), len(mutant)
    while end > begin and mutant_end > begin and line[end - 1] == mutant[mutant_end - 1]:
        end -= 1
        mutant_end -= 1
    return begin, end


class _WithoutNotes(ast.NodeTransformer):
    """Drops what Python does not run: docstrings, annotations of types, imports for them."""

    def visit(self, node):
        self.generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(
                body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
            node.body = body[1:]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            node.annotation = None
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
        if any("overload" in ast.dump(each) for each in getattr(node, "decorator_list", [])):
            return None
        return node


def python_program(text):
    """What runs of a Python file, to compare with another; None if it is no Python."""
    try:
        return ast.dump(_WithoutNotes().visit(ast.parse(text)))
    except (SyntaxError, ValueError):
        return None


class PythonRules:
    """Finds the rule that leaves out a mutant of one Python file."""

    def __init__(self, path, text):
        del path
        self._text = text
        self._program = python_program(text)
        self._imports = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._imports.update(range(node.lineno, node.end_lineno + 1))

    def rule_for(self, line_begin, line, mutant):
        if self._text.count("\n", 0, line_begin) + 1 in self._imports:
            return "include"
        program = python_program(
            self._text[:line_begin] + mutant + self._text[line_begin + len(line):])
        if program is None:
            return CANNOT_BUILD
        return "comment, docstring or annotation" if program == self._program else None


class Equivalents:
    """The committed list of single mutants that change nothing.

    Four lines each, between empty lines: the file, the line, the mutant (one line each, without
    indentation; a line break within is \\n), and the reason. Lines that begin with # explain.
    """

    def __init__(self, path):
        self._reasons = {}
        blocks = path.read_text(encoding="utf-8") if path.exists() else ""
        for block in re.split(r"\n\s*\n", blocks):
            rows = [row for row in block.split("\n") if row.strip() and not row.startswith("#")]
            if not rows:
                continue
            if len(rows) != 4:
                raise SystemExit(f"{path}: four lines an entry (file, line, mutant, reason), "
                                 f"but here are {len(rows)}:\n{block}")
            self._reasons[tuple(row.strip() for row in rows[:3])] = rows[3].strip()

    def reason(self, path, line, mutant):
        return self._reasons.get((path, one_line(line), one_line(mutant)))

    def unused(self, lines_of):
        """Entries whose line is no longer in its file."""
        return [key for key in self._reasons if key[1] not in map(str.strip, lines_of(key[0]))]


def one_line(text):
    return text.strip().replace("\n", "\\n")
