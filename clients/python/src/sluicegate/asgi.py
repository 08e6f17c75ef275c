"""Middleware for every ASGI application: Starlette, FastAPI, Litestar, ...

    app.add_middleware(SluicegateMiddleware, server="localhost:8081", key="api:{client}",
                       rate="100/minute", exempt=["/healthz"])

Flow:   an HTTP request or a WebSocket's handshake -> _web_gates.py -> the application, or 429.
Lives:  a client made from an address is closed when the application's lifespan ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Unpack

from ._web import Answer, Headers, KeyOption, LimitOptions, WebLimit, WebRequest
from ._web_gates import AsyncGate
from .aio import AsyncClient
from .rates import Rate

__all__ = ["SluicegateMiddleware", "WebRequest"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY_VIOLATION = 1008  # a WebSocket's close code
DENIAL_RESPONSE = "websocket.http.response"  # an extension: a handshake is answered by HTTP
LIFESPAN_ENDS = ("lifespan.shutdown.complete", "lifespan.shutdown.failed")


class SluicegateMiddleware:
    """Limits the requests of an application. `server` is an address, a list of them or an
    AsyncClient, which stays open; WebLimit explains the other arguments.
    """

    def __init__(self, app: App, server: AsyncClient | str | Sequence[str], key: KeyOption,
                 rate: str | Rate | None = None, **options: Unpack[LimitOptions]) -> None:
        self._app = app
        self._limit = WebLimit(key, rate, **options)
        self._gate = AsyncGate(server)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive,
                       send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, self._closing(send))
            return
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = web_request(scope, self._limit.trusted_proxies)
        answer = await self._gate.ask(self._limit, request)
        if not answer.denies:
            await self._app(scope, receive, with_fields(send, answer.fields))
        elif scope["type"] == "http":
            await send_response(send, "http.response", answer, request)
        else:
            await refuse_handshake(scope, receive, send, answer, request)

    def _closing(self, send: Send) -> Send:
        async def close_and_send(message: Message) -> None:
            if message["type"] in LIFESPAN_ENDS:
                await self._gate.close()
            await send(message)
        return close_and_send


def web_request(scope: MutableMapping[str, Any], trusted_proxies: int) -> WebRequest:
    def header(name: str) -> str:
        wanted = name.lower().encode("latin-1")
        return ", ".join(value.decode("latin-1") for found, value in scope["headers"]
                         if found.lower() == wanted)

    peer = scope.get("client")
    return WebRequest(scope, scope.get("method", "GET"), scope["path"], peer[0] if peer else None,
                      header, trusted_proxies)


def encoded(fields: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]


def with_fields(send: Send, fields: Headers) -> Send:
    """Adds the fields to the response, or to the answer to a handshake."""
    if not fields:
        return send

    async def send_with_fields(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": [*message.get("headers", ()), *encoded(fields)]}
        await send(message)
    return send_with_fields


async def send_response(send: Send, kind: str, answer: Answer, request: WebRequest) -> None:
    response = answer.response(request)
    await send({"type": f"{kind}.start", "status": response.status,
                "headers": encoded(response.fields)})
    await send({"type": f"{kind}.body", "body": response.body})


async def refuse_handshake(scope: MutableMapping[str, Any], receive: Receive, send: Send,
                           answer: Answer, request: WebRequest) -> None:
    await receive()  # websocket.connect, which the answer must follow
    if DENIAL_RESPONSE in (scope.get("extensions") or {}):
        await send_response(send, DENIAL_RESPONSE, answer, request)
    else:
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": answer.detail})
