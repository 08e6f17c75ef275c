"""The gates of the web integrations: each asks Sluicegate about a request by a client, and bounds
what an outage costs.

Flow:   Gate.ask() and AsyncGate.ask(): WebLimit.question() -> acquire() -> WebLimit.answer().
Units:  seconds.
Errors: none of the server or the connection reaches the application: WebLimit.failed() decides.
Lives:  a Gate is for any number of threads; an AsyncGate has a client for each event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._key_bytes import KEY_BYTES_KEPT, bounded
from ._log import write_lines
from ._nodes import owner_of
from ._web import GOES_ON, Answer, WebLimit, WebRequest
from .aio import AsyncClient
from .client import Client
from .errors import (Closed, ConnectionLost, InvalidType, Overloaded, OwnerUnreachable, Refused,
                     TimedOut)
from .verdict import KeyOutcome, Verdict

FAILURES = (ConnectionLost, TimedOut, Overloaded, OwnerUnreachable, Refused, Closed)
# A shorter stall, or a few lost answers, must not open the limit.
SILENT_S = 1.0
SILENT_TIMEOUTS = 5
PAUSE_S = 1.0  # of a silent server: how long no further request tries it
QUIET_S = 10.0  # without a failure, after which an outage is over


@dataclass
class Silence:
    """Time-outs in a row of one node, or of all the server."""

    since: float
    timeouts: int = 0
    ask_again: float = 0.0

    def is_long(self, now: float) -> bool:
        return self.timeouts >= SILENT_TIMEOUTS and now - self.since >= SILENT_S


class Silences:
    """Spares most requests the time-out of a server that answers nothing, because it would hold up
    every thread of an application. Any answer ends that.

    Where the client knows the nodes, each is by itself: the others' keys stay limited.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._of_owners: dict[int, Silence] = {}

    def may_ask(self, owner: int) -> bool:
        if owner not in self._of_owners:
            return True
        with self._lock:
            now = self._monotonic()
            silence = self._of_owners.get(owner)
            if silence is None or not silence.is_long(now):
                return True
            if now < silence.ask_again:
                return False
            silence.ask_again = now + PAUSE_S  # this request tries, the others do not wait
            return True

    def timed_out(self, owner: int) -> None:
        with self._lock:
            now = self._monotonic()
            silence = self._of_owners.setdefault(owner, Silence(now))
            silence.timeouts += 1
            silence.ask_again = now + PAUSE_S

    def answered(self, owner: int) -> None:
        if owner in self._of_owners:
            with self._lock:
                self._of_owners.pop(owner, None)


class Outage:
    """Logs the begin and the end of an outage once each. Some requests may be decided in it, so
    that only a time without failures is its end: else each would add two lines.
    """

    def __init__(self, address: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._is_on = False
        self._failed_at = 0.0
        self._undecided = 0  # requests

    def failed(self, cause: object) -> None:
        with self._lock:
            was_on, self._is_on = self._is_on, True
            self._undecided += 1
            self._failed_at = self._monotonic()
        if not was_on:
            write_lines([(logging.WARNING, f"Sluicegate at {self._address} does not decide, so "
                          f"that on_failure does: {cause}")])

    def decided(self) -> None:
        if not self._is_on:
            return
        with self._lock:
            if not self._is_on or self._monotonic() - self._failed_at < QUIET_S:
                return
            self._is_on = False
            requests, self._undecided = self._undecided, 0
        write_lines([(logging.INFO, f"Sluicegate at {self._address} decides again, without a "
                      f"failure for {QUIET_S:g} s; on_failure decided {requests} requests")])


class Asked(NamedTuple):
    """The acquire of a request."""

    whole_key: bytes
    key: bytes  # no longer than the server allows
    owner: int  # the place of the key's node in the list; 0 where the client knows none
    arguments: dict[str, Any]


class GateBase:
    def __init__(self, server: object, monotonic: Callable[[], float]) -> None:
        self._outage = Outage(str(getattr(server, "address", server)), monotonic)
        self._silences = Silences(monotonic)
        self._key_bytes_max = KEY_BYTES_KEPT

    def _asked(self, client: Client | AsyncClient, limit: WebLimit,
               request: WebRequest) -> Asked | Answer:
        """An Answer where nothing is to be asked."""
        question = limit.question(request)
        if question is None:
            return GOES_ON
        key = bounded(question.key, self._bound_of_keys(client))
        asked = Asked(question.key, key, owner_in(client, key), question.arguments)
        if self._silences.may_ask(asked.owner):
            return asked
        self._outage.failed("it answers nothing")
        return limit.failed()

    def _bound_of_keys(self, client: Client | AsyncClient) -> int:
        """As the last connection's server described it, also after that has ended."""
        welcome = client.welcome
        if welcome is not None:
            self._key_bytes_max = min(KEY_BYTES_KEPT, welcome.key_bytes_max)
        return self._key_bytes_max

    def _shorter_key(self, client: Client | AsyncClient, asked: Asked,
                     outcome: KeyOutcome) -> bytes | None:
        """To be asked instead: the first request of all cannot know the server's bound."""
        if (outcome.verdict is not Verdict.INVALID_KEY
                or self._bound_of_keys(client) >= len(asked.key)):
            return None
        return bounded(asked.whole_key, self._key_bytes_max)

    def _failed(self, limit: WebLimit, asked: Asked, error: Exception) -> Answer:
        return self._undecided(limit, asked, error, may_be_late=isinstance(error, TimedOut))

    def _undecided(self, limit: WebLimit, asked: Asked, cause: object, *,
                   may_be_late: bool) -> Answer:
        if may_be_late:
            self._silences.timed_out(asked.owner)
        else:  # nobody waits for such a failure
            self._silences.answered(asked.owner)
        self._outage.failed(cause)
        return limit.failed()

    def _answer(self, limit: WebLimit, asked: Asked, outcome: KeyOutcome) -> Answer:
        answer = limit.answer(outcome)
        if answer is None:  # a client's own policy does not show which failure it was
            return self._undecided(limit, asked, f"the verdict is {outcome.verdict}",
                                   may_be_late=outcome.decided_by_policy)
        self._silences.answered(asked.owner)
        self._outage.decided()
        return answer


def owner_in(client: Client | AsyncClient, key: bytes) -> int:
    topology = client._dispatcher.topology
    return owner_of(key, len(topology.nodes)) if topology and topology.nodes else 0


class Gate(GateBase):
    """For threads. `server` is an address, a list of them, or a client, which stays open."""

    def __init__(self, server: Client | str | Sequence[str],
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(server, monotonic)
        refuse_client(server, AsyncClient, "Client")
        self._owns_client = not isinstance(server, Client)
        self._client = server if isinstance(server, Client) else Client(server)

    def ask(self, limit: WebLimit, request: WebRequest) -> Answer:
        client = self._client
        asked = self._asked(client, limit, request)
        if isinstance(asked, Answer):
            return asked
        try:
            outcome = client.acquire(asked.key, details=True, **asked.arguments)
            shorter = self._shorter_key(client, asked, outcome)
            if shorter is not None:
                outcome = client.acquire(shorter, details=True, **asked.arguments)
        except FAILURES as error:
            return self._failed(limit, asked, error)
        return self._answer(limit, asked, outcome)

    def close(self) -> None:
        if self._owns_client:
            self._client.close()


class AsyncGate(GateBase):
    """For asyncio. `server` is an address, a list of them, or a client, which stays open."""

    def __init__(self, server: AsyncClient | str | Sequence[str],
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(server, monotonic)
        refuse_client(server, Client, "AsyncClient")
        self._server = server
        if not isinstance(server, AsyncClient):
            AsyncClient(server)  # a wrong address raises now, not at the first request
        # A client belongs to the loop that uses it, and tests run several loops.
        self._own: dict[asyncio.AbstractEventLoop, AsyncClient] = {}

    async def ask(self, limit: WebLimit, request: WebRequest) -> Answer:
        client = self._client()
        asked = self._asked(client, limit, request)
        if isinstance(asked, Answer):
            return asked
        try:
            outcome = await client.acquire(asked.key, details=True, **asked.arguments)
            shorter = self._shorter_key(client, asked, outcome)
            if shorter is not None:
                outcome = await client.acquire(shorter, details=True, **asked.arguments)
        except FAILURES as error:
            return self._failed(limit, asked, error)
        return self._answer(limit, asked, outcome)

    def _client(self) -> AsyncClient:
        if isinstance(self._server, AsyncClient):
            return self._server
        loop = asyncio.get_running_loop()
        client = self._own.get(loop)
        if client is None:
            self._own = {known: own for known, own in self._own.items() if not known.is_closed()}
            client = self._own[loop] = AsyncClient(self._server)
        return client

    async def close(self) -> None:
        """Closes the running loop's client, which the next request makes anew."""
        client = self._own.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


def refuse_client(server: object, other: type, wanted: str) -> None:
    if isinstance(server, other):
        raise InvalidType(f"server is a {other.__name__}: pass an address or a {wanted}")
