"""The clients' log: `logging.getLogger("sluicegate")`, to which a program adds its handlers.

Shape:  INFO: a connection was made, lost, or could not be made; WARNING: settles are kept; ERROR:
        settles are lost.
Errors: none: a handler that raises disturbs no call and no settle.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

LOG = logging.getLogger("sluicegate")
Line = tuple[int, str]  # the level, and the text


def write_lines(lines: Iterable[Line]) -> None:
    """Not to be called under a lock: a handler may call the client."""
    for level, text in lines:
        with contextlib.suppress(Exception):
            LOG.log(level, "%s", text)


class ConnectionLog:
    """Of one connection after the other. Lines are written while the client's lock is free."""

    def __init__(self) -> None:
        self._loss: tuple[str, Exception] | None = None

    def lost(self, address: str, error: Exception) -> None:
        """For the next line, or write()."""
        self._loss = self._loss or (address, error)

    def write(self) -> None:
        loss, self._loss = self._loss, None
        if loss is not None:
            write_lines([(logging.INFO, f"connection to {loss[0]} lost: {loss[1]}")])

    def made(self, address: str, version: str) -> None:
        self.write()
        write_lines([(logging.INFO, f"connected to {address}, version {version}")])

    def failed(self, error: Exception) -> None:
        self.write()
        write_lines([(logging.INFO, f"no connection: {error}")])
