"""What a run of tools/mutate prints: survivors with a diff of each, and figures by folder."""

import difflib
from collections import Counter

COLUMNS = ["killed", "survived", "excluded", "not built"]
EXCLUDED_PERCENT_MAX = 10  # more of them, and the list is used too freely
# What the tests should kill of the mutants that change something: in all, and in each folder with
# so many of them that the share means something.
KILLED_PERCENT_MIN = 90
FOLDER_KILLED_PERCENT_MIN = 80
FOLDER_MUTANTS_MIN = 30


def column(outcome):
    return "excluded" if outcome == "same program" else outcome


def folder_of(path):
    """The folder that a figure is given for: src/NAME, clients/cpp or clients/python."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def diff(mutant):
    path, number, text = mutant.line
    lines = difflib.unified_diff([text], mutant.text.splitlines(keepends=True), n=0, lineterm="\n")
    body = "".join(list(lines)[3:])
    return f"{path}:{number}\n{body}" + ("" if body.endswith("\n") else "\n")


def counts_by_folder(fates):
    counts = {}
    for mutant, fate in fates:
        counts.setdefault(folder_of(mutant.line.path), Counter())[column(fate.outcome)] += 1
    return counts


def verdict(fates):
    """Whether the tests kill as many as they should, in all and in each large folder."""
    def share(name, counts, percent_min):
        noticeable = counts["killed"] + counts["survived"]
        killed = counts["killed"] * 100 / noticeable if noticeable else 100
        missed = "" if killed >= percent_min else ": MISSED"
        return f"{name}: {killed:.0f} % of {noticeable} killed, {percent_min} wanted{missed}"
    by_folder = counts_by_folder(fates)
    lines = [share(folder, counts, FOLDER_KILLED_PERCENT_MIN)
             for folder, counts in sorted(by_folder.items())
             if counts["killed"] + counts["survived"] >= FOLDER_MUTANTS_MIN]
    return "\n".join([*lines, share("all", sum(by_folder.values(), Counter()), KILLED_PERCENT_MIN)])


def table(fates):
    """`fates`: (mutant, fate) of every mutant that was tried."""
    counts = counts_by_folder(fates)
    width = max(map(len, counts), default=0)
    lines = [f"{'':{width}}  " + "  ".join(f"{name:>9}" for name in COLUMNS)]
    lines += [f"{folder:{width}}  " + "  ".join(f"{counts[folder][name]:9}" for name in COLUMNS)
              for folder in sorted(counts)]
    return "\n".join(lines)


def summary(fates):
    counts = Counter(column(fate.outcome) for _, fate in fates)
    outcomes = Counter(fate.outcome for _, fate in fates)
    lines = []
    tried = counts["killed"] + counts["survived"] + outcomes["excluded"]
    if outcomes["same program"]:
        lines.append(f"{outcomes['same program']} of the excluded compiled to the same program, "
                     f"{outcomes['excluded']} are listed as equivalent")
    if outcomes["excluded"] * 100 > tried * EXCLUDED_PERCENT_MAX:
        lines.append(f"{outcomes['excluded']} of {tried} are listed as equivalent: more than "
                     f"{EXCLUDED_PERCENT_MAX} %, check tests/mutants/equivalent again")
    lines.append(", ".join(f"{counts[name]} {name}" for name in COLUMNS))
    return "\n".join(lines)


def print_report(fates, passed_over):
    survivors = [mutant for mutant, fate in fates if fate.outcome == "survived"]
    for mutant in sorted(survivors):
        print(diff(mutant))
    if passed_over:
        print(f"tests passed over: {', '.join(sorted(passed_over))}")
    print(table(fates))
    print(verdict(fates))
    print(summary(fates), flush=True)
