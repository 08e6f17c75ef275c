"""Client of Sluicegate, the rate-limit server: "may I?", asked one by one or by the thousand.

    with sluicegate.Client("localhost:8081") as client:
        if client.acquire("user:17"):
            ...
        verdicts = client.acquire_many(["user:1", "user:2"])

    async with sluicegate.AsyncClient("localhost:8081") as client:
        verdict = await client.acquire("user:17")
"""

from ._base import KeyState
from ._calls import Handles
from ._frames import NO_HANDLE, Welcome
from .aio import AsyncClient
from .client import Client
from .errors import (Closed, ConnectionLost, Denied, Draining, ErrorCode, LimitExceeded,
                     NotInterned, Overloaded, ProtocolError, Refused, SluicegateError,
                     StaleHandles, TimedOut, Unreachable)
from .verdict import Details, Verdict, Verdicts

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "Client", "Closed", "ConnectionLost", "Denied", "Details", "Draining",
    "ErrorCode", "Handles", "KeyState", "LimitExceeded", "NO_HANDLE", "NotInterned", "Overloaded",
    "ProtocolError", "Refused", "SluicegateError", "StaleHandles", "TimedOut", "Unreachable",
    "Verdict", "Verdicts", "Welcome",
]
