"""A dependency for FastAPI: each endpoint has its own limit.

    limiter = Limiter("localhost:8081")
    limit = limiter.limit
    app = FastAPI(lifespan=limiter.lifespan)

    @app.get("/search", dependencies=[Depends(limit("search:{client}", "5/minute"))])
    def search(): ...

Flow:   a request -> _web_gates.py -> the endpoint, or HTTPException 429, which FastAPI answers.
Lives:  a client made from an address is closed when the application's lifespan ends.
"""

# Without `from __future__ import annotations`: FastAPI reads the dependency's as they are.
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack

from starlette.requests import HTTPConnection

from fastapi import HTTPException, Response, WebSocketException

from . import asgi
from ._web import KeyOption, LimitOptions, WebLimit, WebRequest
from ._web_gates import AsyncGate
from .aio import AsyncClient
from .rates import Rate

__all__ = ["Limiter", "WebRequest"]

Dependency = Callable[[HTTPConnection, Response], Awaitable[None]]


class Limiter:
    """Makes dependencies that share a client. `server` is an address, a list of them or an
    AsyncClient, which stays open.
    """

    def __init__(self, server: AsyncClient | str | Sequence[str]) -> None:
        self._gate = AsyncGate(server)

    def limit(self, key: KeyOption, rate: str | Rate | None = None,
              **options: Unpack[LimitOptions]) -> Dependency:
        """A dependency, which answers 429 in FastAPI's own form, and closes a WebSocket by 1008.

        WebLimit explains the arguments. An endpoint that returns a Response of its own sends no
        RateLimit fields, because FastAPI then leaves out those of dependencies.
        """
        web_limit = WebLimit(key, rate, **options)

        async def limited(connection: HTTPConnection, response: Response) -> None:
            request = asgi.web_request(connection.scope, web_limit.trusted_proxies)
            request.native = connection
            answer = await self._gate.ask(web_limit, request)
            if not answer.denies:
                for name, value in answer.fields:
                    response.headers.append(name, value)
            elif connection.scope["type"] == "websocket":
                raise WebSocketException(asgi.POLICY_VIOLATION, answer.detail)
            else:
                raise HTTPException(answer.status, answer.detail, dict(answer.fields))
        return limited

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        """For FastAPI(lifespan=limiter.lifespan), or within another one."""
        try:
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """Closes the running loop's client, unless it is the application's own."""
        await self._gate.close()
