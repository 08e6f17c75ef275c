"""The middleware for Django, with synchronous and asynchronous views."""

import asyncio
import contextlib

import django
import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import AsyncClient, Client, override_settings
from django.urls import path
from web_contract import PATIENT, PEER, AsyncWebContract, WebContract, named_headers, reply_of
from web_contract import address as address
from web_contract import name as name

import sluicegate

MIDDLEWARE = ["sluicegate.django.SluicegateMiddleware"]

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE)
django.setup()


def search(request):
    return HttpResponse("found", content_type="text/plain")


async def async_search(request):
    return HttpResponse("found", content_type="text/plain", headers={"RateLimit": '"own";r=1'})


urlpatterns = [path("search", search), path("healthz", search), path("async", async_search)]


def configuration(server, key, rate, options):
    return {"SERVER": server, "KEY": key, "RATE": rate,
            **{name.upper(): value for name, value in options.items()}}


class TestDjango(WebContract):
    @contextlib.contextmanager
    def running(self, server, key, rate=None, **options):
        with override_settings(SLUICEGATE=configuration(server, key, rate, options)):
            client = Client()
            client.handler.load_middleware()

            def get(path, peer=PEER, method="GET", **headers):
                got = client.generic(method, path, headers=named_headers(headers),
                                     REMOTE_ADDR=peer)
                return reply_of(got.status_code, got.headers.items(), got.content.decode())
            yield get


class PeerClient(AsyncClient):
    """Has an address, which Django's test client cannot be given."""

    peer = PEER

    def _base_scope(self, **request):
        return super()._base_scope(**request) | {"client": (self.peer, 50_000)}


class TestAsyncDjango(AsyncWebContract):
    @contextlib.contextmanager
    def running(self, server, key, rate=None, **options):
        with override_settings(SLUICEGATE=configuration(server, key, rate, options)):
            client = PeerClient()
            client.handler.load_middleware(is_async=True)
            with asyncio.Runner() as runner:
                def get(path, peer=PEER, method="GET", **headers):
                    client.peer = peer
                    got = runner.run(client.generic(method, path, headers=named_headers(headers)))
                    return reply_of(got.status_code, got.headers.items(), got.content.decode())
                yield get

    def test_each_loop_has_a_client_of_its_own(self, address, name):
        with override_settings(SLUICEGATE=configuration(address, name, "3/hour", PATIENT)):
            client = AsyncClient()
            assert [asyncio.run(client.get("/async")).status_code for _ in range(4)] == [
                200, 200, 200, 429]

    @override_settings(MIDDLEWARE=["django.middleware.common.CommonMiddleware", *MIDDLEWARE])
    def test_other_middleware_stands_before_it(self, address, name):
        """And sees by a mark that it must await this one."""
        with self.serving(address, name, "1/hour") as get:
            assert [get("/async").status for _ in range(2)] == [200, 429]

    def test_fields_of_a_view_stay(self, address, name):
        with self.serving(address, name, "3/hour") as get:
            assert get("/async").headers["ratelimit"].startswith('"own";r=1, "default";r=2;t=')


def test_native_is_the_request_of_django(address, name):
    def key(request):
        return f"{name}{request.native.GET['user']}"
    with TestDjango().serving(address, key, "1/hour") as get:
        assert [get(f"/search?user={user}").status for user in ("ann", "bob", "ann")] == [
            200, 200, 429]


@pytest.mark.parametrize("values, text", [
    (None, "settings.SLUICEGATE must be a dict with SERVER and KEY"),
    ({"KEY": "{client}"}, "settings.SLUICEGATE lacks SERVER"),
    ({"SERVER": "localhost:8081"}, "settings.SLUICEGATE lacks KEY"),
    ({"SERVER": "localhost:8081", "KEY": "{client}", "rate": "5/minute"},
     "settings.SLUICEGATE has 'rate': there are SERVER, KEY, RATE, COST, EXEMPT"),
    ({"SERVER": "localhost:8081", "KEY": "{client}", "RATE": "5"},
     "settings.SLUICEGATE: '5' is no rate")])
def test_mistakes_in_the_settings_name_them(values, text):
    with override_settings(SLUICEGATE=values):
        with pytest.raises(sluicegate.InvalidArgument, match=text):
            Client().get("/search")


def test_without_settings():
    with pytest.raises(sluicegate.InvalidArgument, match="must be a dict"):
        Client().get("/search")


def test_a_wrong_address_raises_at_once():
    with override_settings(SLUICEGATE={"SERVER": "localhost", "KEY": "{client}"}):
        for client in (Client(), AsyncClient()):
            with pytest.raises(ValueError, match="is no address"):
                client.handler.load_middleware(is_async=isinstance(client, AsyncClient))
