"""Words that a newcomer has to decode, and the plain term for each.

Somebody who knows Redis, Envoy or Seastar should understand a name, a comment or a message at the
first reading (docs/hacking.md, "Words"). A rule of tools/tidy.py keeps the words of this table out
of code, comments, messages and docs. This script counts them:

    python3 tools/support/words.py [FOLDER]   how often each retired word occurs in a tree
"""

import collections
import pathlib
import re
import sys

from texts import tree

# (retired, say instead). Names are read word by word: `hang_up_told` and `UsageTold` have "told".
RETIRED = [
    (r"(?:un)?told|tells?|telling", "report, reply, deliver, log, expose, set"),
    (r"hears|heard", "receive, read, notice"),
    (r"tied|ties|untie", "connection-bound, binding"),
    (r"crew", "worker group"),
    (r"census|censuses", "statistics"),
    (r"crossings?", "shard message, entries of another shard"),
    (r"g[ia]ven?s? back|giving back|comes? back|came back", "release, refund, free, return"),
    (r"lets? go|letting go", "free, release, drop a reference"),
    (r"elsewhere|foreign|abroad", "other shard, another place"),
    (r"ttls?", "lifetime"),
    (r"usual", "standard layout, common, default"),
    (r"line ahead|(?:waits?|waiting|stands?|standing|stood) in (?:a |the )?line|out of line|"
     r"(?:key's|waiter) line|lines of waiters", "queue"),
    (r"settle down|is up", "poll_timeout, mark_awake"),
    (r"seats?", "handle slot"),
    (r"whose turn", "the head of the queue"),
    (r"(?:another|owning|origin|key'?s) cores?|other cores|cores? that (?:owns|decides)", "shard"),
    (r"look(?:s|ed)? (?:at|into)|two looks", "read, check, examine"),
    (r"(?:by|takes?) turns", "alternately, one after the other"),
    (r"(?:takes?|puts?) (?:\w+ ){1,2}back", "remove, refund, restore"),
]
# Where such a word is the right one: (path begins with, what the line has).
ALLOWED = [
    ("tools/support/words.py", ""),      # the table itself
    ("docs/adr/", ""),                   # never edited
    ("tools/tidy.py", "(words, "),       # its self-test
    ("src/wire/openapi.json", "the server is up"),
    ("tests/simulation/quota_books.cpp", '"elsewhere"'),  # a name, which decides its shard
    ("tests/unit/quota/reference_test.cpp", "NotFollowed"),  # named by an ADR
]


# The old names of fields stand below this heading.
RENAMED = re.compile(r"^## Renamed before .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def plain(text):
    """A text as words, of the same length: names end at underscores; a line's comment goes on."""
    text = re.sub(r"\n[ \t]*(?://|#|\*)?(?=[ \t])", lambda found: " " * len(found.group()), text)
    return text.replace("_", " ")


# A capital begins another word, too: `UsageTold`.
SPACES = r"\s+"
BEGIN, END = r"(?:\b|(?<=[a-z0-9])(?=[A-Z]))", r"(?:\b|(?<=[a-z0-9])(?=[A-Z]))"
PATTERN = re.compile("|".join(rf"(?P<w{n}>{BEGIN}(?i:{words.replace(' ', SPACES)}){END})"
                              for n, (words, _) in enumerate(RETIRED)))


def retired_words(path, text):
    """(line number, word, what to write instead) of each retired word in a text."""
    if path == "docs/protocol.md":
        text = RENAMED.sub(lambda found: "\n" * found.group().count("\n"), text)
    lines = text.split("\n")
    for match in PATTERN.finditer(plain(text)):
        number = text.count("\n", 0, match.start()) + 1
        line = lines[number - 1]
        if not any(path.startswith(begin) and mark in line for begin, mark in ALLOWED):
            yield number, " ".join(match.group(0).split()), RETIRED[int(match.lastgroup[1:])][1]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    counts = collections.Counter()
    for path in sorted(tree(root)):
        text = (root / path).read_text(encoding="utf-8", errors="ignore")
        for _, word, _ in retired_words(path, text):
            counts[word.lower()] += 1
    for word, count in counts.most_common():
        print(f"{count:6} {word}")
    print(f"{counts.total():6} in all")


if __name__ == "__main__":
    main()
