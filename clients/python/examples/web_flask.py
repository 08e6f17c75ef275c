#!/usr/bin/env python3
"""A Flask application behind one proxy, which appends its peer's address to X-Forwarded-For.

A search costs one permit of the client's hundred a minute, an export ten. The middleware is for any
WSGI framework. Needs flask:

    SLUICEGATE_ADDRESS=localhost:8081 flask --app web_flask run
    curl -i localhost:5000/search
"""

import os

from flask import Flask

from sluicegate.wsgi import SluicegateMiddleware, WebRequest

app = Flask(__name__)


@app.get("/search")
def search() -> str:
    return "found\n"


@app.get("/export")
def export() -> str:
    return "exported\n"


@app.get("/healthz")
def healthz() -> str:
    return "ok\n"


def cost(request: WebRequest) -> int:
    return 10 if request.path == "/export" else 1


app.wsgi_app = SluicegateMiddleware(  # type: ignore[method-assign]
    app.wsgi_app, os.environ.get("SLUICEGATE_ADDRESS", "localhost:8081"),
    key="web:{client}", rate="100/minute", cost=cost, exempt=["/healthz"], trusted_proxies=1)
