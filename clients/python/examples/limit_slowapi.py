#!/usr/bin/env python3
"""A Starlette or FastAPI application that slowapi limits by a Sluicegate server.

Every caller may ask 5 times a minute, of all processes together. While the server is unreachable,
each process limits by itself.

    SLUICEGATE=localhost:8081 uvicorn --factory limit_slowapi:make_app
"""

import os

import starlette.applications
import starlette.routing
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address
from starlette.requests import Request
from starlette.responses import PlainTextResponse

import sluicegate.limits_storage  # noqa: F401  (registers sluicegate:// with limits)


def make_app() -> starlette.applications.Starlette:
    limiter = Limiter(get_remote_address, headers_enabled=True,
                      storage_uri=f"sluicegate://{os.environ['SLUICEGATE']}?timeout=0.5",
                      in_memory_fallback=["5 per minute"])

    @limiter.limit("5 per minute")
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello\n")

    app = starlette.applications.Starlette(routes=[starlette.routing.Route("/", hello)])
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded,
                              _rate_limit_exceeded_handler)  # type: ignore[arg-type]
    return app
