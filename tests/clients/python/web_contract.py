"""What holds for every web integration, whatever the framework.

Goal:   each test file runs these tests against its framework, with the framework's test client.
Method: running() of the subclass makes an application with /search and /healthz behind the limit,
        and yields get(); the limit is decided by the real server, by one that is not there, and by
        one that never answers.
"""

import contextlib
import json
import logging
import socket
import time
from typing import NamedTuple

import pytest
from fake_server import unused_address
from real_server import serving as serving_sluicegate
from server_process import TIMEOUT_S
from starlette.testclient import TestClient

import sluicegate

LOGGER = "sluicegate"
PEER = "10.0.0.1"
PATIENT = {"timeout": TIMEOUT_S}


class Reply(NamedTuple):
    status: int
    headers: dict  # names in small letters
    text: str


@contextlib.contextmanager
def silent_server():
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def address():
    with serving_sluicegate("epoll-1") as server:
        yield f"127.0.0.1:{server.native_port}"


@pytest.fixture
def name(request):
    """Begins the keys of a test, so that tests do not share limits."""
    return f"{request.node.nodeid}:"


class WebContract:
    problem_json = "application/problem+json"

    def running(self, server, key, rate=None, **options):
        """A context manager that yields get(path, peer=PEER, method="GET", **headers)."""
        raise NotImplementedError

    def serving(self, server, key, rate=None, **options):
        """Patient, because on a slow machine a decision may take longer than the default."""
        return self.running(server, key, rate, **PATIENT | options)

    # --- decisions

    def test_an_approved_response_has_what_is_left(self, address, name):
        with self.serving(address, name + "{client}", "2/hour") as get:
            replies = [get("/search"), get("/search")]
        assert [(reply.status, reply.text) for reply in replies] == [(200, "found")] * 2
        for reply, left in zip(replies, (1, 0)):
            assert reply.headers["ratelimit-policy"] == '"default";q=2;w=3600'
            limit, remaining, reset = reply.headers["ratelimit"].split(";")
            assert (limit, remaining) == ('"default"', f"r={left}")
            assert 0 < int(reset.removeprefix("t=")) <= 3_600
            assert "retry-after" not in reply.headers

    def test_a_denial_is_429_and_says_when_to_retry(self, address, name):
        with self.serving(address, name + "{client}", "1/hour", name="search") as get:
            assert get("/search").status == 200
            reply = get("/search")
        assert reply.status == 429
        assert 0 < int(reply.headers["retry-after"]) <= 3_600
        assert reply.headers["ratelimit-policy"] == '"search";q=1;w=3600'
        assert reply.headers["ratelimit"].startswith('"search";r=0;t=')
        assert f"try again in {reply.headers['retry-after']} s" in reply.text
        assert int(reply.headers["content-length"]) == len(reply.text)

    def test_a_denial_is_json_for_callers_that_name_it(self, address, name):
        with self.serving(address, name, "1/hour") as get:
            get("/search")
            reply = get("/search", accept="text/html, application/json;q=0.9")
        assert reply.headers["content-type"] == self.problem_json
        body = json.loads(reply.text)
        assert "try again in" in body["detail"]
        if self.problem_json == WebContract.problem_json:
            assert (body["status"], body["title"]) == (429, "Too Many Requests")
            assert body["type"].endswith("#quota-exceeded")
            assert body["violated-policies"] == ["default"]

    def test_exempt_paths_are_not_limited(self, address, name):
        with self.serving(address, name, "1/hour", exempt=["/healthz", "/static/*"]) as get:
            assert [get("/search").status, get("/search").status] == [200, 429]
            replies = [get("/healthz") for _ in range(3)]
            assert [get("/static/a").status, get("/healthz/").status] == [404, 429]
        assert [reply.status for reply in replies] == [200] * 3
        assert "ratelimit" not in replies[0].headers

    def test_a_cost_may_depend_on_the_request(self, address, name):
        with self.serving(address, name, "5/hour",
                          cost=lambda request: int(request.header("X-Cost") or 1)) as get:
            assert get("/search", x_cost="4").headers["ratelimit"].startswith('"default";r=1;')
            assert [get("/search").status, get("/search").status] == [200, 429]

    def test_a_cost_above_the_limit_has_no_time_to_retry(self, address, name):
        with self.serving(address, name, "5/hour", cost=lambda request: 10) as get:
            reply = get("/search")
        assert reply.status == 429 and "costs more than the limit allows" in reply.text
        assert not {"retry-after", "ratelimit", "ratelimit-policy"} & set(reply.headers)

    def test_without_a_rate_the_servers_own_limit_holds(self, address, name):
        with sluicegate.Client(address) as client:
            client.acquire(name, max_requests=1)
        with self.serving(address, name) as get:
            reply = get("/search")
        assert reply.status == 429
        assert reply.headers["ratelimit-policy"] == '"default";q=1;w=3600'

    def test_a_request_may_wait(self, address, name):
        with self.serving(address, name, "1/300ms", wait=True, wait_limit=TIMEOUT_S) as get:
            assert [get("/search").status for _ in range(3)] == [200] * 3
        with self.serving(address, name + "2", "1/hour", wait=True, wait_limit=0.01) as get:
            assert [get("/search").status for _ in range(2)] == [200, 429]

    # --- keys

    def test_each_client_has_a_limit_of_its_own(self, address, name):
        with self.serving(address, name + "{client}", "1/hour") as get:
            assert [get("/search", peer=peer).status
                    for peer in ("10.0.0.1", "10.0.0.2", "10.0.0.1")] == [200, 200, 429]
        with sluicegate.Client(address) as client:
            assert client.inspect(name + "10.0.0.2").approved == 1

    def test_a_forged_address_is_ignored(self, address, name):
        with self.serving(address, name + "{client}", "1/hour") as get:
            assert [get("/search", x_forwarded_for=forged).status
                    for forged in ("1.1.1.1", "2.2.2.2")] == [200, 429]

    def test_trusted_proxies_are_believed_and_nobody_before_them(self, address, name):
        with self.serving(address, name + "{client}", "1/hour", trusted_proxies=2) as get:
            assert [get("/search", x_forwarded_for=forwarded).status for forwarded in (
                "1.1.1.1, 10.9.9.9", "2.2.2.2, 10.9.9.9", "3.3.3.3, 1.1.1.1, 10.9.9.9",
                "forged, 2.2.2.2:4711, 10.9.9.9")] == [200, 200, 429, 429]
            # Not by way of both proxies: the peer is the client.
            assert [get("/search", x_forwarded_for=short).status
                    for short in ("4.4.4.4", "5.5.5.5", "")] == [200, 429, 429]
        with sluicegate.Client(address) as client:
            assert client.inspect(name + PEER).denied == 2

    def test_a_key_may_name_a_header_method_and_path(self, address, name):
        key = name + "{method}:{path}:{header:X-Api-Key}"
        with self.serving(address, key, "1/hour") as get:
            assert [get("/search", x_api_key=key).status for key in ("a", "b", "a")] == [
                200, 200, 429]
            # Callers without the header share a limit.
            assert [get("/search").status, get("/search").status] == [200, 429]
        with sluicegate.Client(address) as client:
            assert client.inspect(name + "GET:/search:a").approved == 1
            assert client.inspect(name + "GET:/search:-").denied == 1

    def test_a_key_may_be_a_function_and_none_is_exempt(self, address, name):
        def key(request):
            user = request.header("X-User")
            return None if user == "admin" else f"{name}{request.client}:{user}"
        with self.serving(address, key, "1/hour") as get:
            assert [get("/search", x_user=user).status
                    for user in ("ann", "bob", "ann", "admin", "admin")] == [
                200, 200, 429, 200, 200]

    def test_a_long_header_evades_no_limit(self, address, name):
        with self.serving(address, name + "{header:X-Api-Key}", "1/hour") as get:
            long = "x" * 3_000
            assert [get("/search", x_api_key=key).status
                    for key in (long, long, long + "y")] == [200, 429, 200]

    # --- failures

    @pytest.mark.parametrize("policy", ["error", "closed", "open"])
    def test_goes_on_without_a_server_whatever_the_clients_policy(self, policy, caplog):
        caplog.set_level(logging.INFO, LOGGER)
        client = self.client(unused_address(), on_failure=policy)
        with self.serving(client, "{client}", "1/hour") as get:
            replies = [get("/search") for _ in range(5)]
        assert [reply.status for reply in replies] == [200] * 5
        assert "ratelimit" not in replies[0].headers
        assert warnings_of(caplog) == 1

    def test_closed_is_503(self, caplog):
        with self.serving(unused_address(), "{client}", "1/hour", on_failure="closed",
                          exempt=["/healthz"]) as get:
            replies = [get("/search") for _ in range(5)]
            assert get("/healthz").status == 200
        assert [reply.status for reply in replies] == [503] * 5
        assert replies[0].headers["retry-after"] == "1" and "ratelimit" not in replies[0].headers
        assert "cannot be checked" in replies[0].text
        assert warnings_of(caplog) == 1

    @pytest.mark.parametrize("policy, status", [("open", 200), ("closed", 503)])
    def test_a_silent_server_holds_up_a_request_for_the_timeout(self, policy, status, caplog):
        with silent_server() as silent, self.serving(
                self.client(silent, timeout=TIMEOUT_S), "{client}", "1/hour", on_failure=policy,
                timeout=0.05) as get:
            started = time.monotonic()
            assert [get("/search").status for _ in range(3)] == [status] * 3
            assert time.monotonic() - started < TIMEOUT_S
        assert warnings_of(caplog) == 1

    def test_a_verdict_that_decides_nothing_is_a_failure(self, caplog):
        """Here the operator forbids that callers set limits."""
        with serving_sluicegate("epoll-1", "-r=false") as server:
            with self.serving(f"127.0.0.1:{server.native_port}", "{client}", "1/hour",
                              on_failure="closed") as get:
                assert get("/search").status == 503
        assert "the verdict is not_allowed" in caplog.text

    # --- mistakes

    @pytest.mark.parametrize("options, text", [
        ({"rate": "5/fortnight"}, "is no rate"), ({"key": "{user}"}, r"names \{user\}"),
        ({"on_failure": "error"}, "on_failure must be one of open, closed")])
    def test_a_mistake_raises_when_the_application_is_made(self, options, text):
        with pytest.raises(sluicegate.InvalidArgument, match=text):
            with self.serving(unused_address(), **({"key": "{client}"} | options)):
                pytest.fail("the application was made")

    def test_refuses_a_client_of_the_other_kind(self):
        with pytest.raises(sluicegate.InvalidType, match="server is a"):
            with self.serving(self.wrong_client(unused_address()), "{client}"):
                pytest.fail("the application was made")

    client = staticmethod(sluicegate.Client)
    wrong_client = staticmethod(sluicegate.AsyncClient)


class AsyncWebContract(WebContract):
    client = staticmethod(sluicegate.AsyncClient)
    wrong_client = staticmethod(sluicegate.Client)


class AsgiContract(AsyncWebContract):
    """The subclass has application(server, key, rate, **options)."""

    @contextlib.contextmanager
    def running(self, server, key, rate=None, **options):
        app = self.application(server, key, rate, **options)
        client_address = [PEER, 50_000]

        async def with_client(scope, receive, send):
            await app({**scope, "client": tuple(client_address)}, receive, send)

        with TestClient(with_client) as client:
            def get(path, peer=PEER, method="GET", **headers):
                client_address[0] = peer
                got = client.request(method, path, headers=named_headers(headers))
                return reply_of(got.status_code, got.headers.items(), got.text)
            yield get


def warnings_of(caplog):
    return sum(record.levelno == logging.WARNING and record.name == LOGGER
               for record in caplog.records)


def named_headers(headers):
    """x_api_key="a" as the header X-Api-Key."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def reply_of(status, headers, text):
    return Reply(status, {name.lower(): value for name, value in headers}, text)
