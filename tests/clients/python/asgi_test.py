"""The ASGI middleware: in Starlette, and by itself for what servers differ in."""

import asyncio

import pytest
from fake_server import unused_address
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect
from web_contract import PATIENT, AsgiContract
from web_contract import address as address
from web_contract import name as name

from sluicegate import AsyncClient, InvalidArgument
from sluicegate.asgi import SluicegateMiddleware, web_request


async def search(request):
    return PlainTextResponse("found")


async def echo(websocket):
    await websocket.accept()
    await websocket.send_text(await websocket.receive_text())
    await websocket.close()


def application(server, key, rate=None, **options):
    return Starlette(
        routes=[Route("/search", search), Route("/healthz", search), WebSocketRoute("/echo", echo)],
        middleware=[Middleware(SluicegateMiddleware, server=server, key=key, rate=rate,
                               **options)])


class TestStarlette(AsgiContract):
    application = staticmethod(application)

    def test_a_head_request_gets_the_fields_alone(self, address, name):
        with self.serving(address, name, "1/hour") as get:
            get("/search")
            reply = get("/search", method="HEAD")
        assert (reply.status, reply.text) == (429, "")
        assert int(reply.headers["content-length"]) > 0

    def test_a_test_client_without_a_lifespan_runs_each_request_in_a_loop(self, address, name):
        client = TestClient(application(address, name, "2/hour", **PATIENT))
        assert [client.get("/search").status_code for _ in range(3)] == [200, 200, 429]

    def test_without_a_lifespan_a_mistake_raises_at_the_first_request(self):
        client = TestClient(application(unused_address(), "{client}", "5/fortnight"))
        with pytest.raises(InvalidArgument, match="is no rate"):
            client.get("/search")


# ---- WebSockets ----------------------------------------------------------------------------------

def test_a_websocket_is_limited_at_its_handshake(address, name):
    with TestClient(application(address, name, "1/hour", **PATIENT)) as client:
        with client.websocket_connect("/echo") as websocket:
            websocket.send_text("hello")
            assert websocket.receive_text() == "hello"
            headers = dict(websocket.extra_headers)
        assert headers[b"ratelimit"].startswith(b'"default";r=0;t=')
        with pytest.raises(WebSocketDenialResponse) as raised:
            with client.websocket_connect("/echo"):
                pytest.fail("accepted")
    assert raised.value.status_code == 429 and "retry-after" in raised.value.headers


def test_a_websocket_is_closed_where_the_server_has_no_denial_response(address, name):
    async def without_extensions(scope, receive, send):
        await app({**scope, "extensions": None} if scope["type"] == "websocket" else scope,
                  receive, send)
    app = application(address, name, "1/hour", **PATIENT)
    with TestClient(without_extensions) as client:
        with client.websocket_connect("/echo") as websocket:
            websocket.send_text("hello")
        with pytest.raises(WebSocketDisconnect) as raised:
            with client.websocket_connect("/echo"):
                pytest.fail("accepted")
    assert raised.value.code == 1008 and "try again in" in raised.value.reason


# ---- the protocol --------------------------------------------------------------------------------

def run(app, scope, *messages):
    """What an application sends."""
    received, sent = list(messages), []

    async def receive():
        return received.pop(0)

    async def send(message):
        sent.append(message)
    asyncio.run(app(scope, receive, send))
    return sent


def test_other_scopes_and_a_lifespan_pass():
    seen = []

    async def inner(scope, receive, send):
        seen.append((scope["type"], await receive()))
        await send({"type": "lifespan.shutdown.complete"})
    app = SluicegateMiddleware(inner, unused_address(), "{client}", "1/hour")
    assert run(app, {"type": "lifespan"}, "message") == [{"type": "lifespan.shutdown.complete"}]
    run(app, {"type": "invented"}, "message")
    assert seen == [("lifespan", "message"), ("invented", "message")]


def test_a_peer_without_an_address_is_unknown(address, name):
    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
    scope = {"type": "http", "path": "/", "method": "GET", "headers": [], "client": None}
    app = SluicegateMiddleware(inner, address, lambda request: name + request.client, "1/hour",
                              **PATIENT)
    assert [run(app, scope)[0]["status"] for _ in range(2)] == [200, 429]

    async def inspected():
        async with AsyncClient(address) as client:
            return await client.inspect(name + "unknown")
    assert asyncio.run(inspected()).denied == 1


def test_lines_of_one_header_are_joined():
    scope = {"type": "websocket", "path": "/", "headers": [
        (b"x-key", b"a"), (b"X-Key", b"\xe9"), (b"accept", b"c"), (b"x-keys", b"d")]}
    request = web_request(scope, 0)
    assert (request.header("X-KEY"), request.header("x-missing")) == ("a, é", "")
    assert (request.method, request.path, request.native) == ("GET", "/", scope)


def test_its_own_client_is_closed_at_the_end_of_the_lifespan(address, name):
    async def main():
        own, given = SluicegateMiddleware(None, address, name), AsyncClient(address)
        theirs = SluicegateMiddleware(None, given, name)
        for app in (own, theirs):
            client = app._gate._client()
            await client.ping()
            await app._gate.close()
            await app._gate.close()
            assert client.is_usable == (app is theirs)
        assert not own._gate._own
        await given.close()
    asyncio.run(main())
