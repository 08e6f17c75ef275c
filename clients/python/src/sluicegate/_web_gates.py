"""What the web integrations ask by: a client of their own or the application's, and the outage of
a server that does not answer.

Flow:   Gate.ask() and AsyncGate.ask(): WebLimit.question() -> acquire() -> WebLimit.answer().
Units:  seconds.
Errors: none of the server or the connection reaches the application: WebLimit.failed() decides.
Lives:  a Gate is for any number of threads; an AsyncGate has a client for each event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

from ._log import LOG
from ._web import GOES_ON, Answer, Question, WebLimit, WebRequest
from .aio import AsyncClient
from .client import Client
from .errors import (Closed, ConnectionLost, InvalidType, Overloaded, OwnerUnreachable, Refused,
                     TimedOut)
from .verdict import KeyOutcome

FAILURES = (ConnectionLost, TimedOut, Overloaded, OwnerUnreachable, Refused, Closed)
PAUSE_S = 1.0  # after a time-out: how long no request waits for one again


class Outage:
    """Logs the begin and the end of an outage once each, and spares most of its requests the
    time-out: a silent server would hold up every thread of an application.
    """

    def __init__(self, address: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._is_on = False
        self._ask_again = 0.0
        self._undecided = 0  # requests

    def may_ask(self) -> bool:
        """False: the last request timed out a moment ago."""
        if not self._is_on:
            return True
        with self._lock:
            now = self._monotonic()
            if now < self._ask_again:
                self._undecided += 1
                return False
            if self._ask_again:
                self._ask_again = now + PAUSE_S  # this request tries, the others do not wait
            return True

    def failed(self, cause: object, *, timed_out: bool) -> None:
        with self._lock:
            was_on, self._is_on = self._is_on, True
            self._undecided += 1
            self._ask_again = self._monotonic() + PAUSE_S if timed_out else 0.0
        if not was_on:
            LOG.warning("Sluicegate at %s does not decide, on_failure does until it answers: %s",
                        self._address, cause)

    def ended(self) -> None:
        if not self._is_on:
            return
        with self._lock:
            was_on, self._is_on = self._is_on, False
            requests, self._undecided = self._undecided, 0
        if was_on:
            LOG.info("Sluicegate at %s decides again; on_failure decided %d requests",
                     self._address, requests)


class GateBase:
    def __init__(self, server: object) -> None:
        self._outage = Outage(str(getattr(server, "address", server)))

    def _question(self, limit: WebLimit, request: WebRequest) -> Question | Answer:
        """An Answer where nothing is to be asked."""
        question = limit.question(request)
        if question is None:
            return GOES_ON
        return question if self._outage.may_ask() else limit.failed()

    def _failed(self, limit: WebLimit, error: Exception) -> Answer:
        self._outage.failed(error, timed_out=isinstance(error, TimedOut))
        return limit.failed()

    def _answer(self, limit: WebLimit, outcome: KeyOutcome) -> Answer:
        answer = limit.answer(outcome)
        if answer is None:
            self._outage.failed(f"the verdict is {outcome.verdict}", timed_out=False)
            return limit.failed()
        self._outage.ended()
        return answer


class Gate(GateBase):
    """For threads. `server` is an address, a list of them, or a client, which stays open."""

    def __init__(self, server: Client | str | Sequence[str]) -> None:
        super().__init__(server)
        refuse_client(server, AsyncClient, "Client")
        self._owns_client = not isinstance(server, Client)
        self._client = server if isinstance(server, Client) else Client(server)

    def ask(self, limit: WebLimit, request: WebRequest) -> Answer:
        question = self._question(limit, request)
        if isinstance(question, Answer):
            return question
        try:
            outcome = self._client.acquire(question.key, details=True, **question.arguments)
        except FAILURES as error:
            return self._failed(limit, error)
        return self._answer(limit, outcome)

    def close(self) -> None:
        if self._owns_client:
            self._client.close()


class AsyncGate(GateBase):
    """For asyncio. `server` is an address, a list of them, or a client, which stays open."""

    def __init__(self, server: AsyncClient | str | Sequence[str]) -> None:
        super().__init__(server)
        refuse_client(server, Client, "AsyncClient")
        self._server = server
        if not isinstance(server, AsyncClient):
            AsyncClient(server)  # a wrong address raises now, not at the first request
        # A client belongs to the loop that uses it, and tests run several loops.
        self._own: dict[asyncio.AbstractEventLoop, AsyncClient] = {}

    async def ask(self, limit: WebLimit, request: WebRequest) -> Answer:
        question = self._question(limit, request)
        if isinstance(question, Answer):
            return question
        try:
            outcome = await self._client().acquire(question.key, details=True,
                                                   **question.arguments)
        except FAILURES as error:
            return self._failed(limit, error)
        return self._answer(limit, outcome)

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
