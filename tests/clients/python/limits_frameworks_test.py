"""Flask-Limiter and slowapi limit by a Sluicegate server, by nothing but its URI.

Method: the real packages with an application each, asked by their test clients; the server is real,
or there is none.
"""

import flask
import flask_limiter
import flask_limiter.util
import pytest
import slowapi
import slowapi.errors
import slowapi.util
import starlette.applications
import starlette.requests
import starlette.responses
import starlette.routing
import starlette.testclient
from fake_server import unused_address
from limits.storage import storage_from_string
from real_server import server as server

import sluicegate.limits_storage

LIMIT_S = 100 * 86_400  # a sliding window counter's window seldom ends during the test
LIMIT = "3 per 100 days"
STRATEGIES = ["fixed-window", "moving-window", "sliding-window-counter"]


@pytest.fixture
def uri(server):
    uri = f"sluicegate://127.0.0.1:{server.native_port}"
    storage = storage_from_string(uri)
    storage.reset()
    storage.close()
    return uri


def flask_client(uri, key_func=flask_limiter.util.get_remote_address, **options):
    app = flask.Flask(__name__)
    limiter = flask_limiter.Limiter(key_func, app=app, storage_uri=uri, headers_enabled=True,
                                    **options)

    @app.get("/limited")
    @limiter.limit(LIMIT)
    def limited():
        return "ok"

    return app.test_client()


def slowapi_client(uri, **options):
    limiter = slowapi.Limiter(slowapi.util.get_remote_address, storage_uri=uri,
                              headers_enabled=True, **options)

    @limiter.limit(LIMIT)
    def limited(request: starlette.requests.Request):
        return starlette.responses.PlainTextResponse("ok")

    app = starlette.applications.Starlette(
        routes=[starlette.routing.Route("/limited", limited)])
    app.state.limiter = limiter
    app.add_exception_handler(slowapi.errors.RateLimitExceeded,
                              slowapi._rate_limit_exceeded_handler)
    return starlette.testclient.TestClient(app)


@pytest.fixture(params=[flask_client, slowapi_client])
def framework(request):
    return request.param


def statuses(client, count):
    return [client.get("/limited").status_code for _ in range(count)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_limit_is_429(framework, uri, strategy):
    client = framework(uri, strategy=strategy)
    first = client.get("/limited")
    assert (first.status_code, first.headers["X-RateLimit-Limit"],
            first.headers["X-RateLimit-Remaining"]) == (200, "3", "2")
    assert statuses(client, 3) == [200, 200, 429]
    denied = client.get("/limited")
    assert denied.status_code == 429 and denied.headers["X-RateLimit-Remaining"] == "0"
    assert 0 < float(denied.headers["Retry-After"]) <= LIMIT_S * 16 / 15 + 1


def test_processes_share_the_limit(framework, uri):
    one, other = framework(uri), framework(uri)
    assert statuses(one, 2) == [200, 200]
    assert statuses(other, 2) == [200, 429]


@pytest.mark.parametrize("fallback", [{"swallow_errors": True},
                                      {"in_memory_fallback": ["1000 per minute"]}])
def test_a_callers_long_key_is_limited_as_any_other(uri, fallback):
    """An error would be a dead storage for Flask-Limiter: nobody had a limit then."""
    client = flask_client(uri, key_func=lambda: flask.request.headers["X-Api-Key"], **fallback)

    def statuses_of(key):
        return [client.get("/limited", headers={"X-Api-Key": key}).status_code for _ in range(4)]
    for key in ("k" * 3_000, "other", "k" * 3_001):
        assert statuses_of(key) == [200] * 3 + [429]


def test_without_a_server_flask_limiter_swallows_errors():
    """slowapi 0.1.10 fails there with any storage: its decorator lacks the numbers for headers."""
    client = flask_client(f"sluicegate://{unused_address()}", swallow_errors=True)
    assert statuses(client, 5) == [200] * 5


def test_without_a_server_the_fallback_in_memory_limits(framework):
    client = framework(f"sluicegate://{unused_address()}", in_memory_fallback=["2 per hour"])
    assert statuses(client, 3) == [200, 200, 429]


def test_without_a_server_the_error_reaches_the_application():
    client = flask_client(f"sluicegate://{unused_address()}")
    client.application.config["PROPAGATE_EXCEPTIONS"] = True
    with pytest.raises(sluicegate.Unreachable):
        client.get("/limited")
