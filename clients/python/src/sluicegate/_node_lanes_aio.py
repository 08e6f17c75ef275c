"""The way of asyncio's client to several nodes: a lane, which is a client, to each; see _nodes.py.

Flow:   AsyncClient.acquire() and others, AsyncNodeQuotas -> lane_of(), lane_to() -> the lane's
        client; or None: the home connection.
Units:  seconds.
Errors: what a lane did not send goes home; other failures of a lane are what they would be there.
Lives:  a task opens a lane, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _frames
from ._calls import AcquireCall, BatchCall, BatchOptions, ReleaseCall
from ._node_calls import (OPENING_POLL_S, Batch, VerdictsAssembly, goes_home, leave_to_home,
                          owner_unreachable, owners_of_keys)
from ._nodes import Lane, Nodes
from ._requests import NullCompletion
from .errors import Closed, ConnectionLost, SluicegateError, Unreachable
from .verdict import Verdict, Verdicts

if TYPE_CHECKING:
    from .aio import AsyncClient

Result = TypeVar("Result")
Make = Callable[["AsyncClient", Any, list[int]], BatchCall]


class Part:
    """The entries of a batch that go one way."""

    def __init__(self, lane: Lane[AsyncClient] | None, positions: list[int]) -> None:
        self.lane, self.positions = lane, positions
        self.call: BatchCall | None = None
        self.error: SluicegateError | None = None
        self.result: Any = None


class AsyncNodeLanes:
    """The lanes of one client."""

    def __init__(self, home: AsyncClient) -> None:
        self._home = home
        self._nodes: Nodes[AsyncClient] = Nodes(self._make_client, self._open, self._drop)
        self._tasks: set[asyncio.Task[None]] = set()  # that open a lane, or end one
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for client in self._nodes.clients():
            await client.close()

    def _now(self) -> float:
        loop = self._home._loop
        return 0.0 if loop is None else loop.time()

    # --- lanes

    def _make_client(self, host: str, port: int) -> AsyncClient:
        return self._home._lane_client(host or self._home._host, port)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _open(self, lane: Lane[AsyncClient]) -> None:
        self._start(self._open_now(lane))

    async def _open_now(self, lane: Lane[AsyncClient]) -> None:
        client = lane.client
        try:
            client._addresses = [await self._address_of(lane.node)]
            with contextlib.suppress(SluicegateError):
                await client.ping(timeout=self._home._settings.connect_timeout)
        finally:
            if not self._nodes.opened(lane, self._now()):
                # Not Unreachable: a call that went there meanwhile may be decided.
                client._disown(ConnectionLost(f"{client.address}: another server"))

    async def _address_of(self, node: _frames.TopologyNode) -> tuple[str, int]:
        """The first address's host stands for a name that only the servers know."""
        host = node.host or self._home._host
        try:
            await asyncio.get_running_loop().getaddrinfo(host, node.native_port)
        except (OSError, UnicodeError):
            host = self._home._host
        return host, node.native_port

    def _drop(self, client: AsyncClient) -> None:
        """Its calls end by themselves; then it is closed."""
        self._start(self._close_when_idle(client))

    @staticmethod
    async def _close_when_idle(client: AsyncClient) -> None:
        try:
            while client._dispatcher.pending:
                await asyncio.sleep(0.25)
        finally:
            await client.close()

    def _listen(self) -> bool:
        """False: there are no lanes."""
        if self._is_closed or _get_running_loop() is not self._home._loop:
            return False
        topology = self._home._dispatcher.topology
        if topology is not self._nodes.topology and topology is not None:
            self._nodes.learn(topology)
        return self._nodes.count > 1

    def lane_of(self, key: str | bytes) -> Lane[AsyncClient] | None:
        return self._nodes.lane_of(key, self._now()) if self._listen() else None

    def lane_to(self, owner: Callable[[int], int | None]) -> Lane[AsyncClient] | None:
        """The open lane to a node, None: home. `owner` gets the number of nodes, and returns the
        node's place in the list."""
        if not self._listen():
            return None
        return self._nodes.lane_at(owner(self._nodes.count), self._now())

    # --- single calls

    async def run(self, lane: Lane[AsyncClient],
                  call: Callable[[AsyncClient, float | None], Awaitable[Result]],
                  timeout: float | None, policy: Result | None = None,
                  may_repeat: bool = True) -> Result:
        """Over the lane; if nothing was sent there, over the home connection.

        `policy`: the failure policy's result for what was lost. `may_repeat`: with requeue=True,
        what was lost goes home, too.
        """
        start = self._now()
        try:
            return await call(lane.client, timeout)
        except SluicegateError as error:
            if not self._goes_home(lane, error, may_repeat):
                if policy is None or not isinstance(error, ConnectionLost):
                    raise
                return policy
        left = None if timeout is None else max(0.0, timeout - (self._now() - start))
        return await call(self._home, left)

    def acquire(self, lane: Lane[AsyncClient], key: str | bytes, waits: bool,
                arguments: tuple[Any, ...]) -> asyncio.Future[Verdict]:
        """Queued at once, as all acquires."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        outer: asyncio.Future[Verdict] = loop.create_future()

        def in_time_left(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
            """The time-out is one for both attempts."""
            *others, timeout, details = arguments
            seconds = self._home._seconds(timeout, waits, arguments[2])
            left = None if seconds is None else max(0.0, seconds - (loop.time() - start))
            return *others, left, details

        def follow(asked: Awaitable[Verdict], is_last: bool) -> None:
            inner = asyncio.ensure_future(asked)
            outer.add_done_callback(
                lambda _: None if inner.done() else inner.cancel())
            inner.add_done_callback(lambda _: ended(inner, is_last))

        def ended(inner: asyncio.Future[Verdict], is_last: bool) -> None:
            error = None if inner.cancelled() else inner.exception()
            if outer.done():
                return
            if inner.cancelled():
                outer.cancel()
            elif error is None:
                outer.set_result(inner.result())
            elif not is_last and self._goes_home(lane, error):
                follow(self._home._acquire_here(key, *in_time_left(arguments)), True)
            else:
                verdict = self._home._dispatcher.policy_verdict
                if verdict is None or not isinstance(error, ConnectionLost):
                    outer.set_exception(error)
                else:
                    outer.set_result(verdict)

        follow(lane.client._acquire_here(key, *arguments), False)
        return outer

    def _goes_home(self, lane: Lane[AsyncClient], error: BaseException,
                   may_repeat: bool = True) -> bool:
        if not isinstance(error, SluicegateError) or self._is_closed:
            return False
        if isinstance(error, (Unreachable, Closed)):
            self._failed(lane)
        return goes_home(error, may_repeat and self._home._settings.requeue)

    def _failed(self, lane: Lane[AsyncClient]) -> None:
        self._nodes.failed(lane, self._now())

    async def ask_owner(self, key: str | bytes,
                        call: Callable[[AsyncClient, float | None], Awaitable[Result]],
                        timeout: float | None) -> Result:
        """For what no other node can answer. While the nodes are not known, the home server's
        answer shows whether it owns the key."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            client = await self._owner_client(key, deadline)
            left = None if deadline is None else max(0.0, deadline - loop.time())
            result = await call(client, left)
            if client is not self._home or await self._owner_client(key, deadline) is client:
                return result

    async def _owner_client(self, key: str | bytes, deadline: float | None) -> AsyncClient:
        """Waits while the lane to the owner is being opened."""
        while True:
            if not self._listen() or self._nodes.is_home(key):
                return self._home
            now = self._now()
            lane = self._nodes.lane_of(key, now)
            if lane is not None:
                return lane.client
            if not self._nodes.is_opening(key) or deadline is not None and now >= deadline:
                raise owner_unreachable()
            await asyncio.sleep(OPENING_POLL_S)

    # --- batches

    async def acquire_many(self, keys: Sequence[str | bytes], options: BatchOptions,
                           timeout: float | None) -> Verdicts:
        batch = Batch.of(keys, options)

        def make(client: AsyncClient, completion: Any, positions: list[int]) -> BatchCall:
            wanted, own = batch.part(positions)
            return AcquireCall(client._dispatcher, completion, wanted, own)

        parts = self.parts(len(keys), lambda nodes: owners_of_keys(keys, nodes))
        await self.run_parts(parts, make, timeout)
        return VerdictsAssembly(len(keys), options.details).of(
            parts, self._home._dispatcher.policy_verdict)

    async def release_many(self, keys: Sequence[str | bytes], costs: int | Sequence[int] | None,
                           timeout: float | None) -> None:
        def make(client: AsyncClient, completion: Any, positions: list[int]) -> BatchCall:
            own = costs if costs is None or isinstance(costs, int) else [
                costs[n] for n in positions]
            return ReleaseCall(client._dispatcher, completion, [keys[n] for n in positions], own)

        make(self._home, NullCompletion(), list(range(len(keys))))  # its arguments are valid
        parts = self.parts(len(keys), lambda nodes: owners_of_keys(keys, nodes))
        await self.run_parts(parts, make, timeout, may_repeat=False)
        for part in parts:
            if part.error is not None:
                raise part.error

    def parts(self, count: int, owners: Callable[[int], Iterable[int | None]]) -> list[Part]:
        """Of a batch of `count` entries. `owners` gets the number of nodes, and returns the place
        of each entry's owner."""
        if not self._listen():
            return [Part(None, list(range(count)))]
        ways = self._nodes.ways(owners(self._nodes.count), self._now())
        return [Part(lane, positions) for lane, positions in ways]

    async def run_parts(self, parts: list[Part], make: Make, timeout: float | None,
                        may_repeat: bool = True) -> None:
        """All at once; then, over the home connection, what lanes did not send: as further parts.

        `may_repeat`: with requeue=True, what was lost goes home, too.
        """
        start = self._now()
        await self._run_at_once(parts, make, timeout)
        requeue = may_repeat and self._home._settings.requeue
        again = [Part(None, positions)
                 for positions in leave_to_home(parts, requeue, self._failed)]
        parts += again
        left = None if timeout is None else max(0.0, timeout - (self._now() - start))
        await self._run_at_once(again, make, left)

    async def _run_at_once(self, parts: list[Part], make: Make, timeout: float | None) -> None:
        async def run(part: Part) -> None:
            client = part.lane.client if part.lane else self._home

            def make_call(completion: Any) -> BatchCall:
                part.call = make(client, completion, part.positions)
                # The grants of a wait that was given up are released.
                part.call.awaits_sent = part.lane is not None and not part.call.may_wait
                return part.call
            try:
                part.result = await client._run_batch(make_call, timeout)
            except SluicegateError as error:
                part.error = error

        if len(parts) == 1:
            await run(parts[0])
        elif parts:
            await asyncio.gather(*map(run, parts))
