"""Counts the methods and members of C++ classes, without a compiler.

Counts everything a class declares itself, private members too; nested classes count separately.
Deleted and defaulted functions, friends, types and constants do not count.
"""

import re
from typing import NamedTuple

METHODS_AIM = 25
MEMBERS_AIM = 12
RECORD_METHODS = 2  # a class with no more methods is a record, however many values it has


class ClassSize(NamedTuple):
    line: int
    name: str
    methods: int
    members: int

    def is_above_aims(self):
        has_many_members = self.members > MEMBERS_AIM and self.methods > RECORD_METHODS
        return self.methods > METHODS_AIM or has_many_members


HEAD = re.compile(r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)[^;{}()=]*\{")
NO_MEMBER = re.compile(
    r"(using|typedef|friend|static_assert|enum|class|struct|union|static\s+constexpr|constexpr\s"
    r"+static|static\s+const|inline\s+static|static\s+inline)\b")
ACCESS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:\s*)+")
TEMPLATE = re.compile(r"^\s*template\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>\s*")
ATTRIBUTE = re.compile(r"\[\[[^\]]*\]\]\s*|\balignas\([^)]*\)\s*|^\s*#.*$", re.MULTILINE)


def body_end(text, begin):
    """The position behind the brace that closes the one before `begin`."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def declarations(body):
    """The declarations in a class's body, each without the contents of its braces."""
    current, depth, parentheses = "", 0, 0
    for at, char in enumerate(body):
        if char == "{" and depth == 0 and parentheses == 0:
            current += "{}"
        depth += {"{": 1, "}": -1}.get(char, 0)
        parentheses += {"(": 1, ")": -1}.get(char, 0) if depth == 0 else 0
        if depth > 0 or char == "{":
            continue
        if char == ";" and parentheses == 0:
            yield current
            current = ""
        elif char == "}" and parentheses == 0:
            # A function's body ends its declaration; an initialiser's or a type's does not.
            if "(" in current and not re.match(r"\s*[;,]", body[at + 1:]):
                yield current
                current = ""
        elif char != "}":
            current += char
    yield current


def kind_of(declaration):
    """'method', 'member' or None."""
    text = TEMPLATE.sub("", ATTRIBUTE.sub("", ACCESS.sub("", declaration))).strip()
    text = ACCESS.sub("", text).strip()
    if not text or re.search(r"=\s*(delete|default)$", text):
        return None
    # std::function<void(int)> f is a member: parentheses inside of a type's angle brackets.
    plain = text
    while re.search(r"<[^<>]*>", plain) and "operator" not in plain:
        plain = re.sub(r"<[^<>]*>", "", plain)
    is_function = "(" in re.split(r"=|\{", plain, maxsplit=1)[0] or "operator" in plain
    if is_function and not plain.startswith(("using", "friend", "static_assert", "typedef")):
        return "method"
    return None if NO_MEMBER.match(plain) else "member"


def class_sizes(code):
    """The size of every class in a file; its comments and strings must be blanked."""
    for head in HEAD.finditer(code):
        if re.search(r"enum\s+$", code[:head.start()]):
            continue
        kinds = [kind_of(d) for d in declarations(code[head.end():body_end(code, head.end())])]
        yield ClassSize(code.count("\n", 0, head.start()) + 1, head.group(1),
                        kinds.count("method"), kinds.count("member"))
