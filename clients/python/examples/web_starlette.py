#!/usr/bin/env python3
"""A Starlette application with one limit for each API key; it works so in any ASGI framework.

Callers without a key share a limit. When Sluicegate does not answer, requests get 503, because
on_failure="closed". Needs starlette and a server, such as uvicorn:

    SLUICEGATE_ADDRESS=localhost:8081 uvicorn web_starlette:app
    curl -i -H 'X-Api-Key: 17' localhost:8000/search
"""

import os

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sluicegate.asgi import SluicegateMiddleware


async def search(request: Request) -> Response:
    return PlainTextResponse("found\n")


async def healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")


app = Starlette(
    routes=[Route("/search", search), Route("/healthz", healthz)],
    middleware=[
        Middleware(SluicegateMiddleware,
                   server=os.environ.get("SLUICEGATE_ADDRESS", "localhost:8081"),
                   key="api:{header:X-Api-Key}", rate="100 per 10 seconds",
                   exempt=["/healthz"], on_failure="closed"),
    ])
