"""REST: requests that no honest client sends. Each gets its status, ends its connection, and
changes nothing in the server. Method: exact bytes, also in two pieces."""

import random

import pytest

from http_peer import HttpPeer, ask, inspect, request
from native_peer import hello_frame

GET = b"GET /healthz HTTP/1.1\r\n"
HOST = b"Host: x\r\n"

RESERVE = b"POST /v1/reserve HTTP/1.1\r\n"  # reads its body before it answers
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"

BODY_FAULTS = {
    "chunk_size_missing": (400, b"\r\n"),
    "chunk_size_no_number": (400, b"x\r\n"),
    "chunk_size_huge": (400, b"ffffffff1\r\n"),
    "chunk_without_end": (400, b"1\r\nab\r\n"),
    "chunks_too_large": (413, (b"4000\r\n" + b"z" * 0x4000 + b"\r\n") * 5),
}

REFUSED = {
    "obs_fold": (400, GET + HOST + b"X: a\r\n b\r\n\r\n"),
    "obs_fold_tab": (400, GET + b"Host: x\r\n\ty\r\n\r\n"),
    "blank_before_first_header": (400, GET + b" " + HOST + b"\r\n"),
    "blank_before_colon": (400, GET + b"Host : x\r\n\r\n"),
    "no_colon": (400, GET + HOST + b"nonsense\r\n\r\n"),
    "no_host": (400, GET + b"\r\n"),
    "two_hosts": (400, GET + HOST + b"Host: y\r\n\r\n"),
    "same_host_twice": (400, GET + HOST + HOST + b"\r\n"),
    "host_with_blank": (400, GET + b"Host: a b\r\n\r\n"),
    "te_gzip": (400, GET + HOST + b"Transfer-Encoding: gzip\r\n\r\n"),
    "te_gzip_chunked": (400, GET + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "te_identity": (400, GET + HOST + b"Transfer-Encoding: identity\r\n\r\n"),
    "te_xchunked": (400, GET + HOST + b"Transfer-Encoding: xchunked\r\n\r\n"),
    "te_twice": (400, GET + HOST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n"),
    "te_and_length": (400, GET + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                      b"0\r\n\r\n"),
    "te_in_http_1_0": (400, b"GET /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "two_lengths": (400, GET + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
    "same_length_twice": (400, GET + HOST + b"Content-Length: 1\r\n" * 2 + b"\r\nx"),
    "length_list": (400, GET + HOST + b"Content-Length: 1, 1\r\n\r\nx"),
    "length_negative": (400, GET + HOST + b"Content-Length: -1\r\n\r\n"),
    "length_plus": (400, GET + HOST + b"Content-Length: +1\r\n\r\nx"),
    "length_hex": (400, GET + HOST + b"Content-Length: 0x1\r\n\r\nx"),
    "length_empty": (400, GET + HOST + b"Content-Length: \r\n\r\n"),
    "length_wraps": (400, GET + HOST + b"Content-Length: 18446744073709551616\r\n\r\n"),
    "length_large": (413, GET + HOST + b"Content-Length: 65537\r\n\r\n"),
    "length_huge": (413, GET + HOST + b"Content-Length: 9223372036854775807\r\n\r\n"),
    "target_other_scheme": (400, b"GET ftp://x/healthz HTTP/1.1\r\n" + HOST + b"\r\n"),
    "expect_other": (417, GET + HOST + b"Expect: 200-ok\r\n\r\n"),
    "target_authority": (400, b"CONNECT x:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "target_with_blank": (400, b"GET /rate/a b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "target_with_nul": (400, b"GET /rate/\x00 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "bare_line_feed": (400, b"GET /healthz HTTP/1.1\nHost: x\n\n"),
    "bare_carriage_return": (400, GET + HOST + b"X: a\rb\r\n\r\n"),
    "nul_in_value": (400, GET + HOST + b"X: a\x00b\r\n\r\n"),
    "http_0_9": (400, b"GET /healthz\r\n\r\n"),
    "http_2_0": (505, b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n"),
    "http_1_2": (505, b"GET /healthz HTTP/1.2\r\n" + HOST + b"\r\n"),
    "http_2_broken_preface": (505, b"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n"),
    "tls": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200))),
    "native_hello": (400, hello_frame()),
    "head_too_large": (431, GET + HOST + b"X: " + b"y" * 8_192 + b"\r\n\r\n"),
    "head_never_ends": (431, GET + HOST + b"X: y\r\n" * 2_000),
    "target_too_long": (431, b"GET /rate/" + b"k" * 9_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    **{name: (status, RESERVE + HOST + CHUNKED + body)
       for name, (status, body) in BODY_FAULTS.items()},
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_and_ends_the_connection(server, key, name):
    status, data = REFUSED[name]
    for cut in (0, len(data) // 2):
        with HttpPeer(server) as peer:
            peer.send(data[:cut])
            if cut:
                peer.is_silent(0.01)
            try:
                peer.send(data[cut:] + request("POST", f"/rate/{key}"))
            except OSError:
                pass  # the server refused it before the last byte
            response = peer.read()
            assert response.status == status, response
            assert response.header("Connection") == "close"
            assert response.header("Content-Type").startswith("text/plain")
            assert peer.rest() == b""
    assert inspect(server, key) is None, "the server must not decide requests behind it"


@pytest.mark.parametrize("name", BODY_FAULTS)
def test_fault_in_a_body_that_is_not_read_only_ends_the_connection(server, key, name):
    data = GET + HOST + CHUNKED + BODY_FAULTS[name][1]
    for cut in (0, len(data) // 2):
        with HttpPeer(server) as peer:
            peer.send(data[:cut])
            if cut:
                peer.is_silent(0.01)
            peer.send(data[cut:] + request("POST", f"/rate/{key}"))
            assert peer.read().status == 200
            assert peer.rest() == b""
    assert inspect(server, key) is None, "the server must not decide requests behind it"


@pytest.mark.parametrize("name", ["two_lengths", "te_gzip", "no_host", "length_large", "obs_fold"])
def test_earlier_requests_are_answered_first(server, key, name):
    status, data = REFUSED[name]
    with HttpPeer(server) as peer:
        peer.send(request("POST", f"/rate/{key}") * 2 + request("GET", "/no") + data)
        assert [peer.read().status for _ in range(4)] == [200, 200, 404, status]
        assert peer.rest() == b""


def test_largest_head_is_taken(server, key):
    data = request("POST", f"/rate/{key}", "X: ")
    filled = data[:-4] + b"y" * (8_192 - len(data)) + b"\r\n\r\n"
    assert len(filled) == 8_192
    with HttpPeer(server) as peer:
        peer.send(filled + filled)
        assert [peer.read().status for _ in range(2)] == [200, 200]


def test_garbage_never_harms(server):
    """Random bytes, and good requests with random bytes in them; the seed is fixed."""
    random_source = random.Random(20_261_121)
    good = request("POST", "/rate/garbage?canWait=false", "Content-Length: 3", body=b"abc")
    for _ in range(300):
        data = bytearray(good * 2)
        for _ in range(random_source.randint(1, 8)):
            data[random_source.randrange(len(data))] = random_source.randrange(256)
        if random_source.random() < 0.1:
            data = random_source.randbytes(random_source.randint(1, 2_000))
        with HttpPeer(server) as peer:
            try:
                peer.send(data)
                peer.half_close()
                peer.rest()
            except (OSError, AssertionError):
                pass  # any reaction to that request is fine
    assert ask(server, "GET", "/healthz").status == 200
