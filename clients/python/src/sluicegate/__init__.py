"""Client of Sluicegate, the rate-limit server: acquires permits, single or in thousands.

    with sluicegate.Client("localhost:8081") as client:
        if client.acquire("user:17"):
            ...
        verdicts = client.acquire_many(["user:1", "user:2"])

        with client.reserve("gpt-4o", input_tokens=900, max_output_tokens=500) as reservation:
            ...
            reservation.settle(880, 312)

    async with sluicegate.AsyncClient("localhost:8081") as client:
        verdict = await client.acquire("user:17")
"""

from ._base import KeyState
from ._calls import Handles
from ._frames import NO_HANDLE, Welcome
from ._kept_settles import SettleCounts
from ._quota_aio import AsyncLease, AsyncReservation
from ._quota_client import Lease, Reservation
from .aio import AsyncClient
from .client import Client
from .errors import (Closed, ConnectionLost, CountTokensError, Denied, Draining, ErrorCode,
                     InvalidArgument, InvalidQuota, InvalidSubject, InvalidType, LimitExceeded,
                     NotInterned, Overloaded, OwnerUnreachable, ProtocolError, QuotaDenied,
                     QuotaError, Refused, ReservationEnded, SluicegateError, StaleHandles, TimedOut,
                     UnknownReservation, Unreachable)
from .quota import (Decision, Limit, LimitState, Quota, QuotaCode, QuotaResults, Stats, Usage,
                    estimate_tokens)
from .rates import Rate, parse_rate
from .tokens import count_tokens
from .verdict import Details, KeyOutcome, Verdict, Verdicts

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncLease", "AsyncReservation", "Client", "Closed", "ConnectionLost",
    "CountTokensError", "Decision", "Denied", "Details", "Draining", "ErrorCode", "Handles",
    "InvalidArgument", "InvalidQuota", "InvalidSubject", "InvalidType", "KeyOutcome", "KeyState",
    "Lease", "Limit", "LimitExceeded", "LimitState", "NO_HANDLE", "NotInterned", "Overloaded",
    "OwnerUnreachable", "ProtocolError", "Quota", "QuotaCode", "QuotaDenied", "QuotaError",
    "QuotaResults", "Rate", "Refused", "Reservation", "ReservationEnded", "SettleCounts",
    "SluicegateError", "StaleHandles", "Stats", "TimedOut", "UnknownReservation", "Unreachable",
    "Usage", "Verdict", "Verdicts", "Welcome", "count_tokens", "estimate_tokens", "parse_rate",
]
