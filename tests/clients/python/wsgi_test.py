"""The WSGI middleware: in Flask, and by itself for what servers differ in."""

import concurrent.futures
import contextlib

import flask
from fake_server import unused_address
from web_contract import PATIENT, PEER, WebContract, named_headers, reply_of
from web_contract import address as address
from web_contract import name as name

import sluicegate
from sluicegate.wsgi import SluicegateMiddleware


def application(server, key, rate=None, **options):
    app = flask.Flask("application")
    app.add_url_rule("/search", "search", lambda: "found")
    app.add_url_rule("/healthz", "healthz", lambda: "found")
    app.wsgi_app = SluicegateMiddleware(app.wsgi_app, server, key, rate, **options)
    return app


class TestFlask(WebContract):
    @contextlib.contextmanager
    def running(self, server, key, rate=None, **options):
        app = application(server, key, rate, **options)

        def get(path, peer=PEER, method="GET", **headers):
            got = app.test_client().open(path, method=method, headers=named_headers(headers),
                                         environ_base={"REMOTE_ADDR": peer})
            return reply_of(got.status_code, got.headers.items(), got.text)
        yield get
        app.wsgi_app.close()

    def test_a_head_request_gets_the_fields_alone(self, address, name):
        with self.serving(address, name, "1/hour") as get:
            get("/search")
            reply = get("/search", method="HEAD")
        assert (reply.status, reply.text) == (429, "")
        assert int(reply.headers["content-length"]) > 0

    def test_threads_share_the_limit(self, address, name):
        with self.serving(address, name, "20/hour") as get:
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                statuses = list(threads.map(lambda _: get("/search").status, range(40)))
        assert (statuses.count(200), statuses.count(429)) == (20, 20)


# ---- the protocol --------------------------------------------------------------------------------

def request(app, **environ):
    """The status, fields and body of a request to a WSGI application."""
    started = []

    def start_response(*arguments):
        started.append(arguments)
    body = b"".join(app({"REQUEST_METHOD": "GET"} | environ, start_response))
    return (*started[0], body)


def inner(environ, start_response):
    start_response("200 OK", [("X-Own", "kept")], None)
    return [b"found"]


def test_passes_the_applications_own_fields_and_error_on(address, name):
    app = SluicegateMiddleware(inner, address, name, "1/hour", **PATIENT)
    status, fields, error, body = request(app, PATH_INFO="/")
    assert (status, error, body) == ("200 OK", None, b"found")
    assert [field for field, _ in fields] == ["X-Own", "RateLimit-Policy", "RateLimit"]
    status, fields, body = request(app, PATH_INFO="/")
    assert status == "429 Too Many Requests" and body.startswith(b"Too many requests")
    app.close()


def test_a_path_has_its_prefix_and_is_read_as_utf_8(address, name):
    app = SluicegateMiddleware(inner, address, name + "{client}:{path}", "1/hour", **PATIENT)
    request(app, SCRIPT_NAME="/api", PATH_INFO="/gr\xc3\xbcn", REMOTE_ADDR="")
    with sluicegate.Client(address) as client:
        assert client.inspect(f"{name}unknown:/api/grün").approved == 1
    app.close()


def test_headers_that_are_no_http_variables(address, name):
    app = SluicegateMiddleware(inner, address, name + "{header:content-type}", "1/hour",
                              **PATIENT)
    request(app, CONTENT_TYPE="text/plain")
    with sluicegate.Client(address) as client:
        assert client.inspect(f"{name}text/plain").approved == 1
    app.close()


def test_close_leaves_the_applications_client_open(address):
    with sluicegate.Client(address) as client:
        SluicegateMiddleware(inner, client, "{client}").close()
        client.ping()
    SluicegateMiddleware(inner, unused_address(), "{client}").close()
