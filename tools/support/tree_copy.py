"""Copies what a build and its tests read to another folder, where a tool may change it.

A file that is the same already is not touched, so that ninja builds only what changed.
"""

import filecmp
import os
import shutil

COPIED = ["meson.build", "meson_options.txt", "proto", "src", "clients", "tests", "bench", "tools",
          "subprojects", "docs", "packaging", ".clang-format"]
SKIPPED = {"__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache"}


def files_below(root, names):
    """Paths relative to the root, of all files of these folders and of files among the names."""
    for name in names:
        if (root / name).is_dir():
            for folder, folders, files in os.walk(root / name):
                folders[:] = sorted(f for f in folders if f not in SKIPPED)
                for file in sorted(files):
                    yield os.path.relpath(os.path.join(folder, file), root)
        elif (root / name).exists():
            yield name


def copy_tree(source, target, names=None):
    """Makes the target's files those of the source."""
    names = COPIED if names is None else names
    wanted = set(files_below(source, names))
    for path in set(files_below(target, names)) - wanted:
        (target / path).unlink()
    for path in wanted:
        copy = target / path
        if copy.exists() and filecmp.cmp(source / path, copy, shallow=False):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, copy)
        shutil.copymode(source / path, copy)
