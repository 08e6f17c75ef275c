#!/usr/bin/env python3
"""A FastAPI application: each endpoint has a limit of its own for every client.

A client may search 5 times a minute; reports are dear, so all clients share 2 an hour, and a denied
one waits up to a second for its permit. Needs fastapi and a server, such as uvicorn:

    SLUICEGATE_ADDRESS=localhost:8081 uvicorn web_fastapi:app
    curl -i localhost:8000/search
"""

import os

from fastapi import Depends, FastAPI

from sluicegate.fastapi import Limiter

limiter = Limiter(os.environ.get("SLUICEGATE_ADDRESS", "localhost:8081"))
limit = limiter.limit
app = FastAPI(lifespan=limiter.lifespan)


@app.get("/search", dependencies=[Depends(limit("search:{client}", "5/minute"))])
async def search() -> str:
    return "found"


@app.get("/report", dependencies=[Depends(limit("report", "2/hour", wait=True, wait_limit=1))])
def report() -> str:
    return "reported"


@app.get("/healthz")
def healthz() -> str:
    return "ok"
