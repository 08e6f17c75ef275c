"""gocc, the server whose fleets and callers Sluicegate takes over, as tools/setup builds it."""

import os
import pathlib

VENV = pathlib.Path(__file__).resolve().parents[2] / ".venv"


def gocc():
    """Its path: that of the variable GOCC, or what tools/setup built; None if there is none."""
    path = os.environ.get("GOCC") or VENV / "bin" / "gocc"
    return str(path) if os.access(path, os.X_OK) else None


def why_no_gocc():
    note = VENV / "gocc.missing"
    return note.read_text().strip() if note.exists() else "no gocc: tools/setup builds it"
