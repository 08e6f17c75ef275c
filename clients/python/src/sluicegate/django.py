"""Middleware for Django, for synchronous and asynchronous views.

    MIDDLEWARE = [..., "sluicegate.django.SluicegateMiddleware"]
    SLUICEGATE = {"SERVER": "localhost:8081", "KEY": "api:{client}", "RATE": "100/minute",
                  "EXEMPT": ["/healthz"]}

Flow:   a request -> _web_gates.py -> the view, or 429.
Lives:  as long as the process; a client of its own for each event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from ._web import Answer, LimitOptions, WebLimit, WebRequest
from ._web_gates import AsyncGate, Gate
from .errors import InvalidArgument

__all__ = ["SluicegateMiddleware", "WebRequest"]

REQUIRED = ("SERVER", "KEY")
NAMES = (*REQUIRED, "RATE", *(name.upper() for name in LimitOptions.__annotations__))


class SluicegateMiddleware:
    """Limits requests as settings.SLUICEGATE describes: the names are those of WebLimit's
    arguments in capitals, and SERVER is an address, a list of them, or a client.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        server, self._limit = configured(getattr(settings, "SLUICEGATE", None))
        if self._is_async:
            self._async_gate = AsyncGate(server)
            markcoroutinefunction(self)
        else:
            self._gate = Gate(server)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        if self._is_async:
            return self._call_async(request)
        seen = web_request(request, self._limit.trusted_proxies)
        answer = self._gate.ask(self._limit, seen)
        if answer.denies:
            return denial(answer, seen)
        return with_fields(self._get_response(request), answer)

    async def _call_async(self, request: HttpRequest) -> HttpResponse:
        seen = web_request(request, self._limit.trusted_proxies)
        answer = await self._async_gate.ask(self._limit, seen)
        if answer.denies:
            return denial(answer, seen)
        return with_fields(await self._get_response(request), answer)


def configured(values: Any) -> tuple[Any, WebLimit]:
    """The server and the limit of settings.SLUICEGATE."""
    if not isinstance(values, dict):
        raise InvalidArgument("settings.SLUICEGATE must be a dict with SERVER and KEY, such as "
                              '{"SERVER": "localhost:8081", "KEY": "api:{client}", "RATE": '
                              f'"100/minute"}}, not {values!r:.40}')
    for name in REQUIRED:
        if name not in values:
            raise InvalidArgument(f"settings.SLUICEGATE lacks {name}")
    for name in values:
        if name not in NAMES:
            raise InvalidArgument(f"settings.SLUICEGATE has {name!r:.40}: there are "
                                  f"{', '.join(NAMES)}")
    options = {name.lower(): value for name, value in values.items() if name != "SERVER"}
    try:
        return values["SERVER"], WebLimit(**options)
    except InvalidArgument as error:
        raise InvalidArgument(f"settings.SLUICEGATE: {error}") from error


def web_request(request: HttpRequest, trusted_proxies: int) -> WebRequest:
    return WebRequest(request, request.method, request.path, request.META.get("REMOTE_ADDR"),
                      request.headers.get, trusted_proxies)


def denial(answer: Answer, request: WebRequest) -> HttpResponse:
    response = answer.response(request)
    return HttpResponse(response.body, status=response.status, headers=dict(response.fields))


def with_fields(response: HttpResponse, answer: Answer) -> HttpResponse:
    """Adds the fields of the limit to those of a view's own, which are lists."""
    for name, value in answer.fields:
        response[name] = f"{response[name]}, {value}" if response.has_header(name) else value
    return response
