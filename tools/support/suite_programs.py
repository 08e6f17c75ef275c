"""Prints the ninja targets that the tests of suites run: suite_programs.py BUILD SUITE...

`meson test` builds the targets it needs, but cannot build them without running the tests.
"""

import json
import pathlib
import subprocess
import sys


def programs(tests, targets, suites, build):
    """Paths relative to the build folder."""
    names = {target["id"]: target["filename"] for target in targets}
    wanted = set()
    for test in tests:
        if suites & {name.rsplit(":", 1)[-1] for name in test["suite"]}:
            for dependency in test["depends"]:
                wanted.update(names.get(dependency, []))
    return sorted(str(pathlib.Path(path).relative_to(build)) for path in wanted)


def introspect(build, what):
    run = subprocess.run(["meson", "introspect", f"--{what}", build], check=True,
                         stdout=subprocess.PIPE)
    return json.loads(run.stdout)


def main():
    build, suites = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    tests, targets = introspect(build, "tests"), introspect(build, "targets")
    print("\n".join(programs(tests, targets, suites, build)))


if __name__ == "__main__":
    main()
