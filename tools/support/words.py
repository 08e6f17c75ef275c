"""Words that a newcomer has to decode, and the plain term for each.

Somebody who knows Redis, Envoy or Seastar should understand a name, a comment or a message at the
first reading (docs/hacking.md, "Words"). A rule of tools/tidy.py keeps the words of this table out
of code, comments, messages and docs. This script counts them:

    tools/support/words.py [FOLDER]   how often each retired word occurs in a tree
"""

import collections
import pathlib
import re
import sys

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
    (r"ttl", "lifetime"),
    (r"usual", "standard layout, common, default"),
    (r"line ahead|(?:waits?|waiting|stands?|standing|stood) in (?:a |the )?line|out of line|"
     r"(?:key's|waiter) line|lines of waiters", "queue"),
    (r"settle down|is up", "poll_timeout, mark_awake"),
    (r"seats?", "handle slot"),
    (r"whose turn", "the head of the queue"),
    (r"(?:another|owning|origin|key'?s) cores?|other cores|cores? that (?:owns|decides)", "shard"),
]
PATTERN = re.compile("|".join(rf"(?P<w{n}>\b(?:{words})\b)"
                              for n, (words, _) in enumerate(RETIRED)), re.IGNORECASE)

# Where such a word is the right one: (path begins with, what the line has).
ALLOWED = [
    ("tools/support/words.py", ""),      # the table itself
    ("tools/tidy.py", "(words, "),       # its self-test
    ("docs/protocol.md", "| `"),         # the old names of fields
    ("src/wire/openapi.json", "the server is up"),
    ("tests/simulation/quota_books.cpp", '"elsewhere"'),  # a name, which decides its shard
    ("tests/unit/quota/reference_test.cpp", "NotFollowed"),  # named by an ADR
]


def plain(line):
    """A line as words: names are cut at underscores and capitals."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", line)


def retired_words(path, text):
    """(line number, word, what to say instead) of each retired word in a text."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in PATTERN.finditer(plain(line)):
            if any(path.startswith(begin) and mark in line for begin, mark in ALLOWED):
                continue
            yield number, match.group(0), RETIRED[int(match.lastgroup[1:])][1]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    skipped = {".git", "build", ".venv", "__pycache__", "corpus", "golden", "adr"}
    suffixes = {".cpp", ".hpp", ".py", ".md", ".build", ".capnp", ".json", ".patch", ".ini"}
    counts = collections.Counter()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not skipped.isdisjoint(relative.parts) or path.suffix not in suffixes:
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        for _, word, _ in retired_words(str(relative), text):
            counts[word.lower()] += 1
    for word, count in counts.most_common():
        print(f"{count:6} {word}")
    print(f"{counts.total():6} in all")


if __name__ == "__main__":
    main()
