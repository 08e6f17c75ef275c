"""Section 1.2: the key of a path. /debug shows the key that the server created.
Run: `run --binary PATH keys_test.py`, or `run --url http://HOST:PORT keys_test.py`."""

import string

import pytest

from expectation import by_first
from http_peer import request
from rest_peer import (TEXT, Peer, ask, counts_of, exchange, keys_of, permit, release, state_of)

pytestmark = pytest.mark.section("1.2")

BARE = set((string.ascii_letters + string.digits + "-_.~$&+,/:;=@").encode())


def keys_with(server, mark):
    """The live keys that contain `mark`, with KEY in its place."""
    return sorted(key.replace(mark, "KEY") for key in keys_of(server) if mark in key)


def made_by(server, mark, path):
    """The keys that a request for this path created; KEY replaces the mark."""
    assert ask(server, "POST", "/rate/" + path.replace("KEY", mark)).status == 200
    keys = keys_with(server, mark)
    return keys[0] if len(keys) == 1 else keys


@pytest.mark.parametrize("path, gocc", by_first([
    ("KEY%20x", "KEY x"), ("KEYa+b", "KEYa+b"), ("KEY%C3%A5", "KEYå"), ("KEYå", "KEYå"),
    ("KEYa!b", "KEYa!b"), ("KEYa%21b", "KEYa!b"), ("KEY%FF", "KEY\ufffd"), ("KEY%2525", "KEY%25"),
    ("KEY%00x", "KEY\0x"), ("KEY%22%5C%0Ax", 'KEY"\\\nx'), ("KEY%F0%9F%9A%A6", "KEY🚦"),
    ("a%CC%8AKEY", "a\u030aKEY"), ("KEY#b", "KEY#b"), ("KEY..", "KEY.."), ("KEY;a=b", "KEY;a=b"),
    ("KEY*'()", "KEY*'()"), ("KEY:x@y$z", "KEY:x@y$z")]))
def test_canonical_escapes_are_decoded(server, expect, key, path, gocc):
    expect(made_by(server, key, path), gocc=gocc)


@pytest.mark.parametrize("path, ours", by_first([
    ("KEY%c3%a5", "KEYå"), ("KEYa%2Fb", "KEYa/b"), ("KEYa%2fb", "KEYa/b"), ("%41KEY", "AKEY"),
    ("KEYa%20b%2Fc", "KEYa b/c"), ("KEY%2B", "KEY+"), ("KEY%2D", "KEY-"), ("KEY%7E", "KEY~"),
    ("KEY%C3%a5", "KEYå"), ("KEY%3A%20x", "KEY: x"), ("KEY!%20x", "KEY! x"), ("KEY*%2A", "KEY**"),
    ("%09%c2%a0KEY", "KEY"), ("KEY%252f%2f", "KEY%2f/")]))
def test_other_escapes_stay(server, expect, key, path, ours):
    expect(made_by(server, key, path), gocc=path, ours=ours, topic="key decoding")


@pytest.mark.parametrize("query", ["?x=%2f", "?maxRequests=%35", "?a!b"])
def test_escapes_of_the_query_do_not_matter(server, expect, key, query):
    expect(made_by(server, key, f"KEY%20x{query}"), gocc="KEY x")


@pytest.mark.parametrize("form, gocc, ours", by_first([
    ("%%%02X", lambda byte: byte not in BARE, lambda byte: True),
    ("%%%02x", lambda byte: byte not in BARE and "%02x" % byte == "%02X" % byte,
     lambda byte: True)]))
def test_every_byte_escaped(server, expect, key, form, gocc, ours):
    """Observes the bytes that the server decodes."""
    with Peer(server) as peer:
        peer.send(b"".join(request("POST", f"/rate/{key}{byte}-{form % byte}-")
                           for byte in range(256)))
        assert [peer.read().status for _ in range(256)] == [200] * 256
    found = set(keys_with(server, key))
    decoded, frozen = set(), set()
    for byte in range(256):
        if f"KEY{byte}-{bytes([byte]).decode(errors='replace')}-" in found:
            decoded.add(byte)
        if f"KEY{byte}-{form % byte}-" in found:
            frozen.add(byte)
    assert decoded | frozen == set(range(256)) and not decoded & frozen, "each is one key"
    expect(ranges(decoded), gocc=ranges(filter(gocc, range(256))),
           ours=ranges(filter(ours, range(256))), topic="key decoding")


def ranges(numbers):
    """Numbers for people: 0-44 58 60-255."""
    numbers = set(numbers)
    starts = sorted(n for n in numbers if n - 1 not in numbers)
    ends = sorted(n for n in numbers if n + 1 not in numbers)
    return " ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in zip(starts, ends))


def test_every_byte_as_it_is(server, expect, key):
    """All except blanks, control bytes, and %, / and ?, which have another meaning."""
    taken = [byte for byte in range(0x21, 256) if chr(byte) not in "%/?\x7f"]
    with Peer(server) as peer:
        for byte in taken:
            peer.send(b"POST /rate/%s%d-%c- HTTP/1.1\r\nHost: x\r\n\r\n"
                      % (key.encode(), byte, byte))
        assert [peer.read().status for _ in taken] == [200] * len(taken)
    wanted = sorted(f"KEY{byte}-{bytes([byte]).decode(errors='replace')}-" for byte in taken)
    expect(keys_with(server, key), gocc=wanted)


INVALID = ["/rate/%zz", "/rate/a%", "/rate/a%2", "/rate/%2g", "/debug/%G0", "/%", "/none%zz",
           "/rate/%%20"]


@pytest.mark.gocc_http1("resets streams whose paths it cannot read")
@pytest.mark.parametrize("path", INVALID)
def test_invalid_escape(server, expect, path):
    expect(ask(server, "POST", path).brief(),
           gocc=(400, "text/plain; charset=utf-8", b"400 Bad Request"))


@pytest.mark.http1("an end of the connection behind an answer")
@pytest.mark.parametrize("path", INVALID)
def test_connection_after_an_invalid_escape(server, expect, path):
    answer, closed = exchange(server, request("POST", path))
    expect((answer.header("Connection"), closed), gocc=("close", True))


# ---------------------------------------------------------------------------------------- trimming

WHITE_SPACE = ["%20", "%09", "%0A", "%0B", "%0C", "%0D", "%C2%85", "%C2%A0", "%E1%9A%80",
               *(f"%E2%80%{last:02X}" for last in range(0x80, 0x8B)), "%E2%80%A8", "%E2%80%A9",
               "%E2%80%AF", "%E2%81%9F", "%E3%80%80"]
NO_WHITE_SPACE = ["%00", "%1F", "%E2%80%8B", "%EF%BB%BF", "%E2%81%A0", "%C2", "%A0", "%85", "+"]


@pytest.mark.parametrize("blank", WHITE_SPACE)
def test_white_space_is_trimmed(server, expect, key, blank):
    path = f"{blank}KEY{blank}b{blank}{blank}"
    inner = bytes.fromhex(blank.replace("%", "")).decode()
    expect(made_by(server, key, path), gocc=f"KEY{inner}b")
    expect(ask(server, "POST", f"/rate/{blank}").body, gocc=b"empty key provided", of="alone")


@pytest.mark.parametrize("text", NO_WHITE_SPACE)
def test_other_characters_are_not_trimmed(server, expect, key, text):
    inner = bytes.fromhex(text[1:].replace("%", "")) if text != "+" else b"+"
    inner = inner.decode(errors="replace")
    expect(made_by(server, key, f"{text}KEY{text}"), gocc=f"{inner}KEY{inner}")


def test_release_trims_too(steady, expect, key):
    permit(steady, key)
    release(steady, f"%20{key}%C2%A0", "%201%20")
    expect(counts_of(steady, key), gocc=(0, 0, 0))


def test_debug_does_not_trim(server, expect, key):
    permit(server, key)
    answer = ask(server, "GET", f"/debug/{key}%20")
    expect(answer.status, gocc=404, ours=200, topic="key decoding")


# ------------------------------------------------------------------------------------ other places

def test_debug_key_is_the_rest_of_the_path(server, expect, key):
    """A literal slash and more; gocc shows the key itself only in /debug."""
    permit(server, f"{key}%2Fb")
    expect(state_of(server, f"{key}/b") is not None, gocc=False, ours=True, topic="key decoding")
    expect(state_of(server, f"{key}%2Fb") is not None, gocc=True, of="as it was created")


@pytest.mark.parametrize("path, gocc", by_first([
    ("%20x", True), ("%C3%A5", True), ("a!b", True), ("a%2Fb", True), ("%41", True),
    ("%c3%a5", True), ("a+b", True)]))
def test_debug_finds_the_key_of_rate(server, expect, key, path, gocc):
    permit(server, f"{key}{path}")
    expect(ask(server, "GET", f"/debug/{key}{path}").status == 200, gocc=gocc)


@pytest.mark.parametrize("path", ["/rate/KEY/1/2/3", "/rate/KEY/%2F", "/rate/KEY//",
                                  "/rate/KEY/ä"])
def test_release_id_is_the_rest_of_the_path(steady, expect, key, path):
    permit(steady, key)
    status = ask(steady, "DELETE", path.replace("KEY", key)).status
    expect((status, counts_of(steady, key)), gocc=(200, (0, 0, 0)))


def test_an_escape_in_the_id_keeps_the_key_undecoded(steady, expect, key):
    permit(steady, f"{key}%20x")
    release(steady, f"{key}%20x", "a%2Fb")
    expect(counts_of(steady, f"{key}%20x"), gocc=(1, 0, 0), ours=(0, 0, 0), topic="key decoding")


@pytest.mark.parametrize("one, other", [("a", "A"), ("%C3%A5", "a%CC%8A"), ("%FE", "%FF"),
                                        ("x", "x%00"), ("1", "01")])
def test_keys_are_compared_exactly(steady, expect, key, one, other):
    permit(steady, f"{key}{one}", "maxRequests=1")
    expect(permit(steady, f"{key}{other}", "maxRequests=1"), gocc=200)


@pytest.mark.parametrize("length, ours", by_first([(1_024, 200), (1_025, 431), (7_000, 431)]))
def test_key_length(server, expect, key, length, ours):
    long = key + "k" * (length - len(key))
    answer = ask(server, "POST", f"/rate/{long}")
    expect(answer.status, gocc=200, ours=ours, topic="key length")


def test_longest_keys_differ_in_their_last_byte(steady, expect, key):
    long = key + "k" * (1_023 - len(key))
    statuses = [permit(steady, long + last, "maxRequests=1") for last in "aab"]
    expect(statuses, gocc=[200, 429, 200])


@pytest.mark.parametrize("method, path, text", [
    ("POST", "/rate/%20", b"empty key provided"), ("GET", "/rate/%E3%80%80", b"empty key provided"),
    ("DELETE", "/rate//5", b"empty key provided"), ("DELETE", "/rate/%20/5", b"empty key provided"),
    ("DELETE", "/rate//%20", b"empty key provided"), ("DELETE", "/rate/k/%20", b"empty id provided")
])
def test_empty_key(server, expect, method, path, text):
    expect(ask(server, method, path).brief(), gocc=(400, TEXT, text))
