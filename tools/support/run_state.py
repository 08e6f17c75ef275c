"""The state file of a server that tools/run starts: which one, and an empty one for --fresh.

The user's own choice wins: --state FILE, --state '' (nothing is kept), or the variable STATE.
"""

import contextlib
import fcntl
import os
import pathlib

FRESH = "--fresh"
FLAG = "--state"


class Refused(Exception):
    """What prevents the start, and the cure."""


def chosen(arguments, environment):
    """The file that the user has chosen; "" for none; None: the user has not chosen."""
    choice = environment.get("STATE") or None
    for place, argument in enumerate(arguments):
        if argument == FLAG:
            choice = arguments[place + 1] if place + 1 < len(arguments) else ""
        elif argument.startswith(FLAG + "="):
            choice = argument[len(FLAG) + 1:]
    return choice


def holder_of(lock):
    """The process that has written itself into a lock file."""
    with contextlib.suppress(OSError):
        number = pathlib.Path(lock).read_text().strip()
        if number:
            return f"process {number}"
    return "a process"


def remove(path):
    """Removes the file, unless a server uses it. Its log goes first: a server refuses to start with
    a log that has no file. The lock file stays, as the server's own code says why."""
    lock = f"{path}.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{holder_of(lock)} uses {path}: stop it first, or start without "
                          f"{FRESH}") from None
        for suffix in ("-wal", "-shm", ""):
            pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def prepared(arguments, path, environment):
    """The server's flags, and the line that names its file. `path` is the file of tools/run."""
    is_fresh = FRESH in arguments
    flags = [argument for argument in arguments if argument != FRESH]
    choice = chosen(flags, environment)
    if choice is not None and is_fresh:
        raise Refused(f"{FRESH} removes only the file of tools/run itself: delete the file of "
                      f"{FLAG}, with its -wal and -shm, yourself")
    if choice is not None:
        return flags, f"state: {choice}" if choice else "state: none is kept"
    path = pathlib.Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_fresh:
        remove(path)
    return [*flags, FLAG, str(path)], f"state: {path} ({FRESH}: an empty one)"
