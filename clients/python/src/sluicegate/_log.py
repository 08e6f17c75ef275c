"""The clients' log: `logging.getLogger("sluicegate")`, to which a program adds its handlers.

Shape:  INFO: a connection was made, lost, or could not be made; WARNING: settles are kept, a web
        application is without decisions; ERROR: settles are lost.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("sluicegate")


class ConnectionLog:
    """Of one connection after the other. Lines are written while the client's lock is free: a
    handler may call the client."""

    def __init__(self) -> None:
        self._loss: tuple[str, Exception] | None = None

    def lost(self, address: str, error: Exception) -> None:
        """For the next line, or write()."""
        self._loss = self._loss or (address, error)

    def write(self) -> None:
        loss, self._loss = self._loss, None
        if loss is not None:
            LOG.info("connection to %s lost: %s", *loss)

    def made(self, address: str, version: str) -> None:
        self.write()
        LOG.info("connected to %s, version %s", address, version)

    def failed(self, error: Exception) -> None:
        self.write()
        LOG.info("no connection: %s", error)
