"""count_tokens() sends the request of the vendor's API, and names the step of every failure.

Method: a local stand-in for the vendor's endpoint with scripted answers.
"""

import contextlib
import http.server
import json
import socket
import threading

import pytest
from fake_server import unused_address

import sluicegate
from sluicegate import count_tokens


@contextlib.contextmanager
def endpoint(status=200, body=b'{"totalTokens": 31}', headers=()):
    """Its address, and the requests it received: (path, headers, JSON)."""
    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, dict(self.headers), json.loads(data)))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # a client that reads a part only closes
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def failure(*arguments, **options):
    with pytest.raises(sluicegate.CountTokensError) as raised:
        count_tokens(*arguments, **options)
    return raised.value


def test_sends_the_request_of_the_api():
    with endpoint() as (address, received):
        assert count_tokens("secret", "folder/model?debug=1", "käse", base_url=address + "/") == 31
    (path, headers, body), = received
    assert path == "/v1beta/models/folder%2Fmodel%3Fdebug=1:countTokens"
    assert body == {"contents": [{"parts": [{"text": "käse"}]}]}
    headers = {name.lower(): value for name, value in headers.items()}
    assert headers["content-type"] == "application/json"
    assert headers["x-goog-api-key"] == "secret" and "secret" not in path


@pytest.mark.parametrize("model", ["", "  "])
def test_sends_nothing_for_an_empty_model_name(model):
    assert str(failure("k", model, "t", base_url=f"http://{unused_address()}")) == (
        "count_tokens: build url: empty model")


@pytest.mark.parametrize("base", ["", "localhost", "ftp://x", "http://", "http://[::1", "//x",
                                  "http://x?a=b", "http://x:99999"])
def test_reports_an_invalid_base_url(base):
    assert "build url: invalid base url" in str(failure("k", "m", "t", base_url=base))


def test_rejects_a_text_of_another_type():
    assert "marshal request" in str(failure("k", "m", b"bytes", base_url="http://127.0.0.1"))


def test_reports_an_unreachable_and_a_slow_endpoint():
    error = failure("k", "m", "t", base_url=f"http://{unused_address()}")
    assert "do request" in str(error) and error.status is None
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "do request" in str(failure("k", "m", "t", base_url=address, timeout=0.05))


@pytest.mark.parametrize("key", ["a\nb", "käse😀"])
def test_reports_a_key_that_is_no_valid_header(key):
    with endpoint() as (address, received):
        assert "do request" in str(failure(key, "m", "t", base_url=address))
    assert not received


@pytest.mark.parametrize("status", [201, 400, 403, 500])
def test_any_other_status_is_an_error_with_its_body(status):
    with endpoint(status, b"no such key") as (address, _):
        error = failure("k", "m", "t", base_url=address)
    assert str(error) == f"count_tokens: api error status {status}: no such key"
    assert error.status == status


def test_a_long_error_is_cut():
    with endpoint(429, b"x" * 9_000) as (address, _):
        text = str(failure("k", "m", "t", base_url=address))
    assert text.endswith("x" * 8_192 + "...") and "x" * 8_193 not in text


def test_the_key_follows_no_redirect():
    with endpoint() as (other, received), \
            endpoint(307, b"", [("Location", other)]) as (address, _):
        assert failure("k", "m", "t", base_url=address).status == 307
    assert not received


@pytest.mark.parametrize("body, tokens", [(b"{}", 0), (b'{"totalTokens": 0}', 0)])
def test_an_omitted_total_is_zero(body, tokens):
    with endpoint(200, body) as (address, _):
        assert count_tokens("k", "m", "", base_url=address) == tokens


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"totalTokens": -1}',
                                  b'{"totalTokens": "5"}', b'{"totalTokens": true}',
                                  b'{"totalTokens": 5, "x": "' + b"y" * (1 << 20) + b'"}'])
def test_reports_an_answer_without_a_number(body):
    with endpoint(200, body) as (address, _):
        assert "decode response" in str(failure("k", "m", "t", base_url=address))
