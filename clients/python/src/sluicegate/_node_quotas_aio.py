"""The calls of asyncio's client about quotas to several nodes: those of _node_quotas.py, awaited.

Flow:   AsyncQuotaCalls -> the lane of the first subject's owner, or of the node that has the
        reservation (_node_lanes_aio.py) -> that lane's client; or the home client.
Units:  seconds.
Errors: as for the blocking client; also when a task is cancelled, the client cancels what the parts
        of its batch have reserved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ._base import Timeout
from ._calls import BatchCall, pick
from ._node_calls import QuotaAssembly, owner_of_call, withhold_results
from ._node_lanes_aio import AsyncNodeLanes, Part
from ._nodes import owner_of_subject
from ._quota_arguments import Calls
from ._quota_requests import QuotaBatchCall, QuotaEntry, QuotaTerms
from .quota import QuotaResults
from .verdict import Verdict

if TYPE_CHECKING:
    from .aio import AsyncClient


class AsyncNodeQuotas:
    """The calls about quotas of one client."""

    def __init__(self, home: AsyncClient, lanes: AsyncNodeLanes) -> None:
        self._home, self._lanes = home, lanes

    async def call(self, terms: QuotaTerms, entry: QuotaEntry, timeout: float | None) -> Any:
        """Its Outcome, or the failure policy's verdict."""
        lane = self._lanes.lane_to(lambda nodes: owner_of_call(entry, nodes))
        if lane is None:
            return await self._home._run_quota_call(terms, entry, timeout)
        return await self._lanes.run(
            lane, lambda client, left: client._run_quota_call(terms, entry, left), timeout,
            self._policy(terms), terms.may_repeat([entry]))

    async def ask_owner(self, subject: bytes,
                        ask: Callable[[AsyncClient, Timeout], Awaitable[Any]], timeout: Timeout,
                        may_repeat: bool) -> Any:
        """For requests with a frame of their own."""
        lane = self._lanes.lane_to(lambda nodes: owner_of_subject(subject, nodes))
        if lane is None:
            return await ask(self._home, timeout)
        return await self._lanes.run(lane, ask, self._home._seconds(timeout, False, None),
                                     may_repeat=may_repeat)

    async def many(self, calls: Calls, timeout: float | None) -> QuotaResults:
        terms, entries = calls

        def make(client: AsyncClient, completion: Any, positions: list[int]) -> BatchCall:
            return QuotaBatchCall(client._dispatcher, completion, terms, pick(entries, positions))

        parts = self._lanes.parts(
            len(entries), lambda nodes: [owner_of_call(entry, nodes) for entry in entries])
        try:
            await self._lanes.run_parts(parts, make, timeout, terms.may_repeat(entries))
            return QuotaAssembly(len(entries)).of(parts, self._policy(terms))
        except BaseException as error:
            if withhold_results(error):
                self._discard(parts)
            raise

    def _policy(self, terms: QuotaTerms) -> Verdict | None:
        return self._home._dispatcher.policy_verdict if terms.needs_admission else None

    def _discard(self, parts: list[Part]) -> None:
        for part in parts:
            if part.call is not None:
                part.call.discard()
                (part.lane.client if part.lane else self._home)._flush_soon()
