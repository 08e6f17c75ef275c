"""count_tokens() asks as the maker of the model wants it, and tells every failure by its step.

Method: a stand-in for the maker's endpoint, on this machine, that answers what a test says.
"""

import contextlib
import http.server
import json
import socket
import threading

import pytest
from fake_server import nobody

import sluicegate
from sluicegate import count_tokens


@contextlib.contextmanager
def endpoint(status=200, body=b'{"totalTokens": 31}', headers=()):
    """Its address, and what it was asked: (path, headers, JSON)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, dict(self.headers), json.loads(data)))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # who reads only a part hangs up
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def failure(*arguments, **options):
    with pytest.raises(sluicegate.CountTokensError) as reported:
        count_tokens(*arguments, **options)
    return reported.value


def test_it_asks_as_the_api_wants_it():
    with endpoint() as (address, asked):
        assert count_tokens("secret", "folder/model?debug=1", "käse", base_url=address + "/") == 31
    (path, headers, body), = asked
    assert path == "/v1beta/models/folder%2Fmodel%3Fdebug=1:countTokens"
    assert body == {"contents": [{"parts": [{"text": "käse"}]}]}
    headers = {name.lower(): value for name, value in headers.items()}
    assert headers["content-type"] == "application/json"
    assert headers["x-goog-api-key"] == "secret" and "secret" not in path


@pytest.mark.parametrize("model", ["", "  "])
def test_a_model_without_a_name_is_asked_nowhere(model):
    assert str(failure("k", model, "t", base_url=f"http://{nobody()}")) == (
        "count_tokens: build url: empty model")


@pytest.mark.parametrize("base", ["", "localhost", "ftp://x", "http://", "http://[::1", "//x",
                                  "http://x?a=b", "http://x:99999"])
def test_a_wrong_address_is_named(base):
    assert "build url: invalid base url" in str(failure("k", "m", "t", base_url=base))


def test_a_text_that_is_none_can_not_be_sent():
    assert "marshal request" in str(failure("k", "m", b"bytes", base_url="http://127.0.0.1"))


def test_nobody_there_and_too_slow():
    error = failure("k", "m", "t", base_url=f"http://{nobody()}")
    assert "do request" in str(error) and error.status is None
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "do request" in str(failure("k", "m", "t", base_url=address, timeout=0.05))


@pytest.mark.parametrize("key", ["a\nb", "käse😀"])
def test_a_key_that_is_no_header_is_told(key):
    with endpoint() as (address, asked):
        assert "do request" in str(failure(key, "m", "t", base_url=address))
    assert not asked


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
    with endpoint() as (elsewhere, asked), \
            endpoint(307, b"", [("Location", elsewhere)]) as (address, _):
        assert failure("k", "m", "t", base_url=address).status == 307
    assert not asked


@pytest.mark.parametrize("body, tokens", [(b"{}", 0), (b'{"totalTokens": 0}', 0)])
def test_a_total_that_is_left_out_is_zero(body, tokens):
    with endpoint(200, body) as (address, _):
        assert count_tokens("k", "m", "", base_url=address) == tokens


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"totalTokens": -1}',
                                  b'{"totalTokens": "5"}', b'{"totalTokens": true}',
                                  b'{"totalTokens": 5, "x": "' + b"y" * (1 << 20) + b'"}'])
def test_an_answer_that_is_no_number_is_told(body):
    with endpoint(200, body) as (address, _):
        assert "decode response" in str(failure("k", "m", "t", base_url=address))
