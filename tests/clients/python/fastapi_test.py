"""The dependency for FastAPI: limits of single endpoints, plain, asynchronous and WebSockets."""

import functools

import pytest
from fake_server import unused_address
from fastapi import Depends, FastAPI, WebSocket
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from web_contract import PATIENT, AsgiContract
from web_contract import address as address
from web_contract import name as name

from sluicegate.fastapi import Limiter


class TestFastApi(AsgiContract):
    problem_json = "application/json"  # FastAPI's own form of errors

    def application(self, server, key, rate=None, **options):
        limiter = Limiter(server)
        app = FastAPI(lifespan=limiter.lifespan,
                      dependencies=[Depends(limiter.limit(key, rate, **options))])

        @app.get("/search", response_class=PlainTextResponse)
        def search():
            return "found"

        for path in ("/healthz", "/healthz/", "/static/a"):
            @app.get(path, status_code=404 if path == "/static/a" else 200)
            async def healthz():
                return "found"

        return app


def test_each_endpoint_has_its_limit(address, name):
    limiter = Limiter(address)
    limit = functools.partial(limiter.limit, **PATIENT)
    app = FastAPI(lifespan=limiter.lifespan)

    @app.get("/search", dependencies=[Depends(limit(name + "search:{client}", "1/hour"))])
    async def search():
        return "found"

    @app.get("/export", dependencies=[Depends(limit(name + "export", "2/hour", name="export")),
                                      Depends(limit(name + "all", "9/hour", name="all"))])
    def export():
        return "exported"

    with TestClient(app) as client:
        assert [client.get("/search").status_code for _ in range(2)] == [200, 429]
        replies = [client.get("/export") for _ in range(3)]
        assert "/search" in client.get("/openapi.json").text
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert replies[0].headers.get_list("ratelimit-policy") == [
        '"export";q=2;w=3600', '"all";q=9;w=3600']
    assert not limiter._gate._own, "the client was closed at the end of the lifespan"


def test_native_is_the_request_of_fastapi(address, name):
    limiter = Limiter(address)

    def key(request):
        return f"{name}{request.native.path_params['user']}"
    app = FastAPI(lifespan=limiter.lifespan)

    @app.get("/users/{user}", dependencies=[Depends(limiter.limit(key, "1/hour", **PATIENT))])
    def user(user: str):
        return user

    with TestClient(app) as client:
        assert [client.get(f"/users/{user}").status_code
                for user in ("ann", "bob", "ann")] == [200, 200, 429]


def test_a_websocket_is_closed(address, name):
    limiter = Limiter(address)
    app = FastAPI(lifespan=limiter.lifespan)

    @app.websocket("/echo", dependencies=[Depends(limiter.limit(name, "1/hour", **PATIENT))])
    async def echo(websocket: WebSocket):
        await websocket.accept()
        await websocket.send_text("hello")

    with TestClient(app) as client:
        with client.websocket_connect("/echo") as websocket:
            assert websocket.receive_text() == "hello"
        with pytest.raises(WebSocketDisconnect) as raised:
            with client.websocket_connect("/echo"):
                pytest.fail("accepted")
    assert raised.value.code == 1008 and "try again in" in raised.value.reason


def test_a_wrong_address_raises_at_once():
    with pytest.raises(ValueError, match="is no address"):
        Limiter("localhost")
    Limiter(unused_address())
