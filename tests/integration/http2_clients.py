"""Clients of HTTP/2 that others wrote, and the raw peer of HTTP/1.1, for comparing their answers:
each is a function ask(server, method, target, *headers, body=None) -> Seen."""

import dataclasses
import json
import re
import subprocess

import httpx

import http_peer
from server_process import TIMEOUT_S

# What only one version has, and what differs at every request.
LEFT_OUT = {"date", "connection", "transfer-encoding"}


@dataclasses.dataclass
class Seen:
    """An answer: names of headers in lower case."""

    status: int
    headers: dict
    body: bytes

    def __post_init__(self):
        assert "date" in self.headers
        self.headers = {name: value for name, value in self.headers.items() if name not in LEFT_OUT}

    def json(self):
        return json.loads(self.body)


def parsed_headers(pairs):
    pairs = [(name.lower(), value) for name, value in pairs]
    assert len(dict(pairs)) == len(pairs), f"a header comes twice: {pairs}"
    return dict(pairs)


def http1(server, method, target, *headers, body=None):
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    answer = http_peer.ask(server, method, target, *headers, *length, body=body or b"")
    return Seen(answer.status, parsed_headers(answer.headers) | {"date": ""}, answer.body)


def curl(server, flag, method, target, headers, body):
    """Returns what it saw, and the version it was answered in."""
    words = ["--head"] if method == "HEAD" else ["--request", method]
    for header in ("User-Agent:", "Accept:", "Content-Type:", *headers):
        words += ["--header", header]
    if body is not None:
        words += ["--data-binary", "@-"]
    run = subprocess.run(
        ["curl", "--silent", "--show-error", "--include", flag, "--path-as-is", *words,
         "--max-time", str(TIMEOUT_S), "--write-out", "\n%{http_version}",
         f"http://{server.host}:{server.port}{target}"],
        input=body or b"", capture_output=True, check=False)
    assert run.returncode == 0, (run.returncode, run.stderr, run.stdout[-500:])
    rest, version = run.stdout.rsplit(b"\n", 1)
    status = 100
    while status < 200:
        head, rest = rest.split(b"\r\n\r\n", 1)
        status_line, *lines = head.decode().split("\r\n")
        status = int(status_line.split(" ")[1])
    pairs = [line.split(": ", 1) for line in lines]
    return Seen(status, parsed_headers(pairs), rest), version.decode()


def curl_by_prior_knowledge(server, method, target, *headers, body=None):
    seen, version = curl(server, "--http2-prior-knowledge", method, target, headers, body)
    assert version == "2"
    return seen


def curl_by_upgrade(server, method, target, *headers, body=None):
    seen, version = curl(server, "--http2", method, target, headers, body)
    refused = seen.status in (417, 431)  # before the server has read the whole head
    assert version == ("1.1" if body is not None or refused else "2")
    return seen


def python_httpx(server, method, target, *headers, body=None):
    pairs = [tuple(header.split(": ", 1)) for header in headers]
    with httpx.Client(http1=False, http2=True, timeout=TIMEOUT_S,
                      base_url=f"http://{server.host}:{server.port}") as client:
        client.headers = {}
        answer = client.request(method, target, headers=pairs, content=body)
    assert answer.http_version == "HTTP/2"
    return Seen(answer.status_code, parsed_headers(answer.headers.multi_items()), answer.content)


# Lines of its log: "[  0.001] recv DATA frame ...", and indented ones below, unlike those of JSON.
NGHTTP_LOG = re.compile(rb"\[ *\d+\.\d+\] (?:Connected|(?:recv|send) [^\n]*)\n"
                        rb"(?: {10}(?:[;(:]|\[SETTINGS|[a-z-]+: )[^\n]*\n)*")
NGHTTP_FIELD = re.compile(rb"recv \(stream_id=\d+(?:, sensitive)?\) (:?[^:\n]+): ([^\n]*)\n")


def nghttp(server, method, target, *headers, body=None):
    words = []
    for header in (f":method: {method}", *headers):
        words += ["--header", header]
    if body is not None:
        words += ["--data", "-"]
    run = subprocess.run(
        ["nghttp", "--verbose", "--no-dep", *words, f"http://{server.host}:{server.port}{target}"],
        input=body or b"", capture_output=True, check=False, timeout=TIMEOUT_S)
    assert run.returncode == 0, (run.returncode, run.stderr, run.stdout[-500:])
    fields = [(name.decode(), value.decode()) for name, value in NGHTTP_FIELD.findall(run.stdout)]
    status = int(dict(fields)[":status"])
    pairs = [pair for pair in fields if pair[0] != ":status"]
    return Seen(status, parsed_headers(pairs), NGHTTP_LOG.sub(b"", run.stdout))


HTTP2_CLIENTS = [curl_by_prior_knowledge, curl_by_upgrade, python_httpx, nghttp]
