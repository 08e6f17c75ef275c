"""The blocking client's way to several nodes: a lane, which is a client, to each; see _nodes.py.

Flow:   Client.acquire() and others, NodeQuotas -> lane_of(), lane_to() -> the lane's client; or
        None: the home connection.
Units:  seconds.
Errors: what a lane did not send goes home; other failures of a lane are what they would be there.
Lives:  a thread opens a lane, and ends. A forked child opens its own.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _frames
from ._calls import AcquireCall, BatchCall, BatchOptions, ReleaseCall
from ._lead import ThreadResult
from ._node_calls import (OPENING_POLL_S, Batch, VerdictsAssembly, goes_home, leave_to_home,
                          owner_unreachable, owners_of_keys)
from ._nodes import Lane, Nodes, Ways
from .errors import ConnectionLost, SluicegateError, Unreachable
from .verdict import Verdicts

if TYPE_CHECKING:
    from .client import Client

Result = TypeVar("Result")
Make = Callable[["Client", ThreadResult, list[int]], BatchCall]
LISTEN_S = 0.25  # how often received bytes are taken while no thread reads the connection


class Part:
    """The entries of a batch that go one way."""

    def __init__(self, client: Client, positions: list[int], make: Make,
                 lane: Lane[Client] | None) -> None:
        self.client, self.positions, self.lane = client, positions, lane
        self.completion = ThreadResult()
        self.call = make(client, self.completion, positions)
        # The grants of a wait that was given up are released.
        self.call.awaits_sent = lane is not None and not self.call.may_wait
        self.error: SluicegateError | None = None
        self.result: Any = None


class NodeLanes:
    """The lanes of one client."""

    def __init__(self, home: Client) -> None:
        self._home = home
        self._listened_at = 0.0
        self.begin()

    def begin(self) -> None:
        """Afresh, also in a forked child."""
        self._lock = self._home._system.lock()
        self._nodes: Nodes[Client] = Nodes(self._make_client, self._open, self._drop)
        self._retired: list[Client] = []  # of nodes that are others now; some may have calls
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            clients = self._nodes.clients() + self._retired
        for client in clients:
            client.close()

    # --- lanes

    def _make_client(self, host: str, port: int) -> Client:
        return self._home._lane_client(host or self._home._host, port)

    def _open(self, lane: Lane[Client]) -> None:
        self._home._system.start_thread("sluicegate-lane", self._open_now, lane)

    def _open_now(self, lane: Lane[Client]) -> None:
        client = lane.client
        try:
            client._addresses = [self._address_of(lane.node)]
            with contextlib.suppress(SluicegateError):
                client.ping(timeout=self._home._settings.connect_timeout)
        finally:
            with self._lock:
                is_owner = self._nodes.opened(lane, self._home._monotonic())
        if not is_owner:
            # Not Unreachable: a call that went there meanwhile may be decided.
            client._disown(ConnectionLost(f"{client.address}: another server"))

    def _address_of(self, node: _frames.TopologyNode) -> tuple[str, int]:
        """The first address's host stands for a name that only the servers know."""
        host = node.host or self._home._host
        try:
            socket.getaddrinfo(host, node.native_port)
        except (OSError, UnicodeError):
            host = self._home._host
        return host, node.native_port

    def _drop(self, client: Client) -> None:
        """Its calls end by themselves; then it is closed."""
        self._retired.append(client)

    def _listen(self, now: float) -> None:
        """Takes what the home server reports of the nodes, and late answers of all: grants that
        come after a time-out are released or cancelled, whichever node is asked next."""
        if now - self._listened_at >= LISTEN_S:
            self._listened_at = now
            self._home._take_reports()
            for client in self._nodes.clients() + self._retired:
                if client._dispatcher.pending:
                    client._take_reports()
            self._retired = [client for client in self._retired if not client._close_if_idle()]
        topology = self._home._dispatcher.topology
        if topology is not self._nodes.topology and topology is not None:
            self._nodes.learn(topology)

    def lane_of(self, key: str | bytes) -> Lane[Client] | None:
        now = self._home._monotonic()
        with self._lock:
            self._listen(now)
            return None if self._is_closed else self._nodes.lane_of(key, now)

    def lane_to(self, owner: Callable[[int], int | None]) -> Lane[Client] | None:
        """The open lane to a node, None: home. `owner` gets the number of nodes, and returns the
        node's place in the list."""
        now = self._home._monotonic()
        with self._lock:
            self._listen(now)
            if self._is_closed or self._nodes.count < 2:
                return None
            return self._nodes.lane_at(owner(self._nodes.count), now)

    def _ways(self, count: int, owners: Callable[[int], Iterable[int | None]]) -> Ways[Client]:
        """The ways of `count` entries. `owners` gets the number of nodes, and returns the place of
        each entry's owner."""
        now = self._home._monotonic()
        with self._lock:
            self._listen(now)
            if self._is_closed or self._nodes.count < 2:
                return [(None, list(range(count)))]
            return self._nodes.ways(owners(self._nodes.count), now)

    # --- single calls

    def run(self, lane: Lane[Client], call: Callable[[Client, float | None], Result],
            timeout: float | None, policy: Result | None = None,
            may_repeat: bool = True) -> Result:
        """Over the lane; if nothing was sent there, over the home connection.

        `policy`: the failure policy's result for what was lost. `may_repeat`: with requeue=True,
        what was lost goes home, too.
        """
        start = self._home._monotonic()
        try:
            return call(lane.client, timeout)
        except SluicegateError as error:
            if isinstance(error, Unreachable):
                self._failed(lane)
            if not goes_home(error, may_repeat and self._home._settings.requeue):
                if policy is None or not isinstance(error, ConnectionLost):
                    raise
                return policy
        left = None if timeout is None else timeout - (self._home._monotonic() - start)
        return call(self._home, None if left is None else max(0.0, left))

    def ask_owner(self, key: str | bytes, call: Callable[[Client, float | None], Result],
                  timeout: float | None) -> Result:
        """For what no other node can answer. While the nodes are not known, the home server's
        answer shows whether it owns the key."""
        deadline = None if timeout is None else self._home._monotonic() + timeout
        while True:
            client = self._owner_client(key, deadline)
            left = None if deadline is None else max(0.0, deadline - self._home._monotonic())
            result = call(client, left)
            if client is not self._home or self._owner_client(key, deadline) is client:
                return result

    def _owner_client(self, key: str | bytes, deadline: float | None) -> Client:
        """Waits while the lane to the owner is being opened."""
        while True:
            now = self._home._monotonic()
            with self._lock:
                self._listen(now)
                if self._is_closed or self._nodes.is_home(key):
                    return self._home
                lane = self._nodes.lane_of(key, now)
                is_opening = self._nodes.is_opening(key)
            if lane is not None:
                return lane.client
            if not is_opening or deadline is not None and now >= deadline:
                raise owner_unreachable()
            self._home._system.sleep(OPENING_POLL_S)

    def _failed(self, lane: Lane[Client]) -> None:
        with self._lock:
            self._nodes.failed(lane, self._home._monotonic())

    # --- batches

    def acquire_many(self, keys: Sequence[str | bytes], options: BatchOptions,
                     timeout: float | None) -> Verdicts:
        batch = Batch.of(keys, options)

        def make(client: Client, completion: ThreadResult, positions: list[int]) -> BatchCall:
            wanted, own = batch.part(positions)
            return AcquireCall(client._dispatcher, completion, wanted, own)

        parts = self.parts(len(keys), lambda nodes: owners_of_keys(keys, nodes), make)
        self.run_parts(parts, make, timeout)
        return VerdictsAssembly(len(keys), options.details).of(
            parts, self._home._dispatcher.policy_verdict)

    def release_many(self, keys: Sequence[str | bytes], costs: int | Sequence[int] | None,
                     timeout: float | None) -> None:
        def make(client: Client, completion: ThreadResult, positions: list[int]) -> BatchCall:
            own = costs if costs is None or isinstance(costs, int) else [
                costs[n] for n in positions]
            return ReleaseCall(client._dispatcher, completion, [keys[n] for n in positions], own)

        make(self._home, ThreadResult(), list(range(len(keys))))  # its arguments are valid
        parts = self.parts(len(keys), lambda nodes: owners_of_keys(keys, nodes), make)
        self.run_parts(parts, make, timeout, may_repeat=False)
        for part in parts:
            if part.error is not None:
                raise part.error

    def parts(self, count: int, owners: Callable[[int], Iterable[int | None]],
              make: Make) -> list[Part]:
        """Of a batch, cut by the owners of its entries; see _ways()."""
        return [Part(lane.client if lane else self._home, positions, make, lane)
                for lane, positions in self._ways(count, owners)]

    def run_parts(self, parts: list[Part], make: Make, timeout: float | None,
                  may_repeat: bool = True) -> None:
        """All at once; then, over the home connection, what lanes did not send: as further parts.

        `may_repeat`: with requeue=True, what was lost goes home, too.
        """
        deadline = None if timeout is None else self._home._monotonic() + timeout
        self._run_at_once(parts, deadline, timeout)
        requeue = may_repeat and self._home._settings.requeue
        again = [Part(self._home, positions, make, None)
                 for positions in leave_to_home(parts, requeue, self._failed)]
        parts += again
        self._run_at_once(again, deadline, timeout)

    def _run_at_once(self, parts: list[Part], deadline: float | None,
                     timeout: float | None) -> None:
        try:
            for part in parts:
                try:
                    call = part.call
                    part.client._begin_call(
                        part.completion, lambda: part.client._dispatcher.start(call), deadline,
                        call, call.may_wait, call.applies_policy)
                except SluicegateError as error:
                    part.error = error
            for part in parts:
                if part.error is not None:
                    continue
                if deadline is not None and self._home._monotonic() >= deadline:
                    part.client._take_reports()  # what arrived while others were waited for
                try:
                    part.result = part.client._end_call(
                        part.completion, deadline, timeout, part.call, part.call.may_wait,
                        part.call.applies_policy)
                except SluicegateError as error:
                    part.error = error
        except BaseException:  # interrupted: no part goes on
            for part in parts:
                part.client._interrupt_call(part.completion, part.call)
            raise
