"""The blocking client's calls about quotas to several nodes: each goes to the one that decides it.

Flow:   QuotaCalls -> the lane of the first subject's owner, or of the node that has the
        reservation (_node_lanes.py) -> that lane's client; or the home client.
Units:  seconds.
Errors: what a lane did not send goes home; other failures are what they would be there. A batch
        that ends without results cancels what its parts have reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._base import Timeout
from ._calls import BatchCall, pick
from ._lead import ThreadResult
from ._node_calls import QuotaAssembly, owner_of_call, withhold_results
from ._node_lanes import NodeLanes, Part
from ._nodes import Lane, owner_of_subject
from ._quota_arguments import Calls
from ._quota_requests import QuotaBatchCall, QuotaEntry, QuotaTerms
from .quota import QuotaResults
from .verdict import Verdict

if TYPE_CHECKING:
    from .client import Client


class NodeQuotas:
    """The calls about quotas of one client."""

    def __init__(self, home: Client, lanes: NodeLanes) -> None:
        self._home, self._lanes = home, lanes

    def call(self, terms: QuotaTerms, entry: QuotaEntry, timeout: float | None) -> Any:
        """Its Outcome, or the failure policy's verdict."""
        lane = self._lanes.lane_to(lambda nodes: owner_of_call(entry, nodes))
        if lane is None:
            return self._home._run_quota_call(terms, entry, timeout)
        return self._lanes.run(
            lane, lambda client, left: client._run_quota_call(terms, entry, left), timeout,
            self._policy(terms), terms.may_repeat([entry]))

    def ask_owner(self, subject: bytes, ask: Callable[[Client, Timeout], Any], timeout: Timeout,
                  may_repeat: bool) -> Any:
        """For requests with a frame of their own."""
        lane: Lane[Client] | None = self._lanes.lane_to(
            lambda nodes: owner_of_subject(subject, nodes))
        if lane is None:
            return ask(self._home, timeout)
        return self._lanes.run(lane, ask, self._home._seconds(timeout, False, None),
                               may_repeat=may_repeat)

    def many(self, calls: Calls, timeout: float | None) -> QuotaResults:
        terms, entries = calls

        def make(client: Client, completion: ThreadResult, positions: list[int]) -> BatchCall:
            return QuotaBatchCall(client._dispatcher, completion, terms, pick(entries, positions))

        parts = self._lanes.parts(
            len(entries), lambda nodes: [owner_of_call(entry, nodes) for entry in entries], make)
        try:
            self._lanes.run_parts(parts, make, timeout, terms.may_repeat(entries))
            return QuotaAssembly(len(entries)).of(parts, self._policy(terms))
        except BaseException as error:
            if withhold_results(error):
                self._discard(parts)
            raise

    def _policy(self, terms: QuotaTerms) -> Verdict | None:
        return self._home._dispatcher.policy_verdict if terms.needs_admission else None

    @staticmethod
    def _discard(parts: list[Part]) -> None:
        for part in parts:
            part.client._discard(part.call)
