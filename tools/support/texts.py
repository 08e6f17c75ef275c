"""The text files of a tree: all but generated ones, caches, corpora and golden files."""

import os
import pathlib

SUFFIXES = {".cpp", ".hpp", ".py", ".md", ".json", ".build", ".txt", ".ini", ".capnp", ".sh",
            ".yaml", ".patch", ".wrap", ".toml", ".in", ""}
SKIPPED_FOLDERS = {".git", "build", ".venv", "__pycache__", "corpus", "golden", ".cache",
                   ".pytest_cache", ".hypothesis"}


def tree(root):
    """Paths of all text files below the root, relative to it."""
    for folder, folders, names in os.walk(root):
        relative = pathlib.PurePath(folder).relative_to(root)
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS
                      and not (str(relative) == "subprojects" and f != "packagefiles")]
        for name in names:
            path = relative / name
            if path.suffix in SUFFIXES and not (root / path).is_symlink():
                yield str(path)
