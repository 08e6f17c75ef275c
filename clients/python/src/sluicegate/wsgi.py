"""Middleware for every WSGI application: Flask, Bottle, Pyramid, ...

    app.wsgi_app = SluicegateMiddleware(app.wsgi_app, "localhost:8081", "api:{client}",
                                        "100/minute", exempt=["/healthz"])

Flow:   a request -> _web_gates.py -> the application, or 429.
Lives:  for any number of threads; after a fork each process has its own connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack

from ._web import TITLES, Headers, KeyOption, LimitOptions, WebLimit, WebRequest
from ._web_gates import Gate
from .client import Client
from .rates import Rate

__all__ = ["SluicegateMiddleware", "WebRequest"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class SluicegateMiddleware:
    """Limits the requests of an application. `server` is an address, a list of them or a Client,
    which stays open; WebLimit explains the other arguments.
    """

    def __init__(self, app: App, server: Client | str | Sequence[str], key: KeyOption,
                 rate: str | Rate | None = None, **options: Unpack[LimitOptions]) -> None:
        self._app = app
        self._limit = WebLimit(key, rate, **options)
        self._gate = Gate(server)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request = web_request(environ, self._limit.trusted_proxies)
        answer = self._gate.ask(self._limit, request)
        if not answer.denies:
            return self._app(environ, with_fields(start_response, answer.fields))
        response = answer.response(request)
        start_response(f"{response.status} {TITLES[response.status]}", list(response.fields))
        return [response.body]

    def close(self) -> None:
        """Closes the client, unless it is the application's own."""
        self._gate.close()


def web_request(environ: Environ, trusted_proxies: int) -> WebRequest:
    # WSGI has the bytes of a path as if they were Latin-1.
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return WebRequest(environ, environ["REQUEST_METHOD"],
                      path.encode("latin-1", "replace").decode("utf-8", "replace"),
                      environ.get("REMOTE_ADDR"), lambda name: environ.get(variable(name)),
                      trusted_proxies)


def variable(header: str) -> str:
    """The name that a header has in an environ."""
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def with_fields(start_response: StartResponse, fields: Headers) -> StartResponse:
    """Adds the fields to the response."""
    if not fields:
        return start_response

    def start_with_fields(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        return start_response(status, [*headers, *fields], *exc_info)
    return start_with_fields
