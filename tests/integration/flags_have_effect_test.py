"""Every flag has an effect, on each listener and in each dialect that its row of the table names.

Method: a case sets a flag to a value beside its default, and asks for something that is answered so
with this value only: a build that ignores the flag turns it red. The program that SLUICEGATE_FLAGS
names prints the table (src/config/flag_table.hpp); the last test compares. Who listens where is
read from the kernel. A case that needs to know the share of a shard runs one shard. "rest" is
HTTP/1.1; rows about connections have cases over HTTP/2, too.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from hyperframe.frame import HeadersFrame

from conftest import LONG_WINDOW
from fleet import OURS, Fleet, secret_file
from http2_peer import NO_ERROR, Http2Peer, NoHttp2
from http_peer import HttpPeer, ask, begin_a_request, inspect, metrics, request, waiting
from native_peer import (APPROVED, DENIED, HANDLES_FULL, INVALID_KEY, KEEP, KEEP_WINDOW,
                         NOT_ALLOWED, OWNER_UNREACHABLE, QUEUED, TABLE_FULL, WAIT_LIMIT,
                         WAITERS_FULL, WINDOW, NativePeer, hello_frame, keyed_frame, ping_frame)
from quota_calls import call, encoded, put, reserve
from server_process import binary, clean_environment, eventually, in_some_try, run_binary

CASES = set()
MAY_WAIT = 1
TEN = {"name": "requests", "metric": "requests", "amount": 10}
SLOT = {"name": "slots", "metric": "concurrency", "amount": 1}


def effect(flag, *dialects):
    """Registers a test as the case of a flag, in these dialects."""
    def register(test):
        CASES.update((flag, dialect) for dialect in dialects)
        return test
    return register


def wait_in_queue(server, key, query=""):
    """A REST peer whose request waits; the key's window is full."""
    peer, before = HttpPeer(server), waiting(server, key)
    peer.send(request("POST", f"/rate/{key}?canWait=true{query}"))
    eventually(lambda: waiting(server, key) == before + 1, "it waits")
    return peer


def quota_file(tmp_path, **fields):
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(fields))
    return str(path)


# ------------------------------------------------------------------------------------ limits of keys

@effect("max-requests", "rest")
def test_max_requests_over_rest(start_server, key):
    server = start_server(*LONG_WINDOW, "--max-requests", "2")
    answers = [ask(server, "POST", f"/rate/{key}") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[0].rate_limit()["q"] == 2


@effect("max-requests", "native")
def test_max_requests_natively(start_server, key):
    with NativePeer(start_server(*LONG_WINDOW, "--max-requests", "2")) as peer:
        assert peer.ask([key] * 3).verdicts == [APPROVED, APPROVED, DENIED]


@effect("max-requests-in-queue", "rest")
def test_queue_length_over_rest(start_server, key):
    server = start_server(*LONG_WINDOW, "-m1", "--max-requests-in-queue", "1")
    assert ask(server, "POST", f"/rate/{key}").status == 200
    with wait_in_queue(server, key):
        assert ask(server, "POST", f"/rate/{key}?canWait=true").status == 429


@effect("max-requests-in-queue", "native")
def test_queue_length_natively(start_server, key):
    with NativePeer(start_server(*LONG_WINDOW, "-m1", "--max-requests-in-queue", "1")) as peer:
        assert peer.ask([key] * 3, flags=MAY_WAIT).verdicts == [APPROVED, QUEUED, DENIED]


@effect("window-millis", "rest")
def test_window_over_rest(start_server, key):
    assert ask(start_server("-w", "7000"), "POST", f"/rate/{key}").rate_limit()["w"] == 7


@effect("window-millis", "native")
def test_window_natively(start_server, key):
    with NativePeer(start_server("-w", "7000")) as peer:
        assert peer.ask([key], details=WINDOW).details["windowMs"] == [7_000]


@effect("max-wait-millis", "rest")
def test_wait_limit_over_rest(start_server, key):
    server = start_server(*LONG_WINDOW, "-m1", "--max-wait-millis", "200")
    assert ask(server, "POST", f"/rate/{key}").status == 200
    started = time.monotonic()
    assert ask(server, "POST", f"/rate/{key}?canWait=true").status == 429
    assert time.monotonic() - started >= 0.2
    put(server, key, SLOT)
    assert call(server, "reserve", {"subjects": [key]}).status == 200
    assert call(server, "reserve", {"subjects": [key], "wait_limit_ms": 3_000_000}).status == 429


@effect("max-wait-millis", "http2")
def test_wait_limit_over_http2(start_server, key):
    with Http2Peer(start_server(*LONG_WINDOW, "-m1", "--max-wait-millis", "200")) as peer:
        assert peer.ask("POST", f"/rate/{key}").status == 200
        started = time.monotonic()
        waits = peer.request("POST", f"/rate/{key}?canWait=true")
        assert peer.ask("GET", "/healthz").status == 200  # the connection does not wait
        assert peer.read_stream(waits).status == 429
        assert time.monotonic() - started >= 0.2


@effect("max-wait-millis", "native")
def test_wait_limit_natively(start_server, key):
    with NativePeer(start_server(*LONG_WINDOW, "-m1", "--max-wait-millis", "200")) as peer:
        assert peer.ask([key] * 2, flags=MAY_WAIT).verdicts == [APPROVED, QUEUED]
        assert list(peer.read_granted(1).values()) == [WAIT_LIMIT]
        peer.put_quota(key, SLOT)
        assert peer.reserve(key, key, flags=MAY_WAIT).codes == ["ok", "queued"]
        assert peer.read("granted").codes == ["waitLimit"]


@effect("requests-can-set-rate", "rest")
def test_forbidden_rate_over_rest(start_server, key):
    server = start_server("-r=false")
    assert ask(server, "POST", f"/rate/{key}?maxRequests=5").status == 403
    assert ask(server, "POST", f"/rate/{key}?maxRequestsInQueue=5").status == 200


@effect("requests-can-set-rate", "native")
def test_forbidden_rate_natively(start_server, key):
    with NativePeer(start_server("-r=false")) as peer:
        assert peer.ask([key] * 2, maxRequests=[5, KEEP], maxRequestsInQueue=[KEEP, 5]
                        ).verdicts == [NOT_ALLOWED, APPROVED]


@effect("requests-can-mod-queue", "rest")
def test_forbidden_queue_over_rest(start_server, key):
    server = start_server("--requests-can-mod-queue=false")
    assert ask(server, "POST", f"/rate/{key}?maxRequestsInQueue=5").status == 403
    assert ask(server, "POST", f"/rate/{key}?maxRequests=5").status == 200


@effect("requests-can-mod-queue", "native")
def test_forbidden_queue_natively(start_server, key):
    with NativePeer(start_server("--requests-can-mod-queue=false")) as peer:
        assert peer.ask([key] * 2, maxRequests=[KEEP, 5], maxRequestsInQueue=[5, KEEP]
                        ).verdicts == [NOT_ALLOWED, APPROVED]


@effect("requests-can-set-window", "rest")
def test_forbidden_window_over_rest(start_server, key):
    server = start_server("--requests-can-set-window=false")
    assert ask(server, "POST", f"/rate/{key}?windowMillis=60000").status == 403
    assert ask(server, "POST", f"/rate/{key}?maxRequests=5").status == 200


@effect("requests-can-set-window", "native")
def test_forbidden_window_natively(start_server, key):
    with NativePeer(start_server("--requests-can-set-window=false")) as peer:
        assert peer.ask([key] * 2, windowMs=[60_000, KEEP_WINDOW], maxRequests=[KEEP, 5]
                        ).verdicts == [NOT_ALLOWED, APPROVED]


@pytest.fixture
def with_rules(start_server, tmp_path, key):
    limits = [{**TEN, "amount": 0, "kind": "fixed", "period_ms": 3_600_000}]
    return start_server("-c", quota_file(
        tmp_path, keys=[{"key_pattern": key, "max_requests_per_window": 1}],
        quotas={"subjects": [{"subject": key, "limits": limits}]}), *LONG_WINDOW)


@effect("config-file", "rest")
def test_rules_over_rest(with_rules, key):
    assert [ask(with_rules, "POST", f"/rate/{key}").status for _ in range(2)] == [200, 429]
    assert call(with_rules, "reserve", {"subjects": [key]}).status == 429


@effect("config-file", "native")
def test_rules_natively(with_rules, key):
    with NativePeer(with_rules) as peer:
        assert peer.ask([key] * 2).verdicts == [APPROVED, DENIED]
        assert peer.reserve(key).codes == ["exceedsLimit"]


@pytest.fixture
def with_profile(start_server, tmp_path):
    folder = tmp_path / "profiles"
    folder.mkdir()
    limits = [{**TEN, "amount": 0, "kind": "fixed", "period_ms": 3_600_000}]
    (folder / "ours.json").write_text(json.dumps(
        {"date": "2026-01", "about": "a test", "subjects": [{"subject": "own", "limits": limits}]}))
    return start_server("--profiles", str(folder), "-c",
                        quota_file(tmp_path, keys=[], quotas={"profiles": ["ours"]}))


@effect("profiles", "rest")
def test_profile_over_rest(with_profile):
    assert call(with_profile, "reserve", {"subjects": ["own"]}).status == 429


@effect("profiles", "native")
def test_profile_natively(with_profile):
    with NativePeer(with_profile) as peer:
        assert peer.reserve("own").codes == ["exceedsLimit"]


# ---------------------------------------------------------------------------------------- listeners

TABLES = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6}
if not os.path.exists("/proc/net/tcp6"):
    del TABLES["tcp6"]  # a kernel without IPv6


def listening(server):
    """(address, port) of each listening socket of the process, as the kernel has it."""
    inodes = set()
    for name in pathlib.Path(f"/proc/{server.pid}/fd").iterdir():
        target = os.readlink(name)
        if target.startswith("socket:["):
            inodes.add(target[len("socket:["):-1])
    found = []
    for table, family in TABLES.items():
        for line in pathlib.Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[place] for place in (1, 3, 9))
            if state == "0A" and inode in inodes:
                address, port = local.split(":")
                found.append((text_of(family, address), int(port, 16)))
    return found


def text_of(family, address):
    """The kernel writes an address as numbers of 32 bits of the machine's byte order."""
    words = [int(address[at:at + 8], 16).to_bytes(4, sys.byteorder)
             for at in range(0, len(address), 8)]
    return socket.inet_ntop(family, b"".join(words))


def free_port(address):
    with socket.socket() as taken:
        taken.bind((address, 0))
        return taken.getsockname()[1]


@effect("bind", "rest", "native")
def test_address_of_both_listeners(start_server):
    for address in ["127.0.0.9", *(["::1", "::"] if "tcp6" in TABLES else [])]:
        server = start_server(bind=address)
        assert set(listening(server)) == {(address, server.port), (address, server.native_port)}


@effect("port", "rest")
def test_port_of_rest(start_server):
    port = free_port("127.0.0.9")
    server = start_server("--port", str(port), bind="127.0.0.9")
    assert ("127.0.0.9", port) in listening(server)
    assert ask(server, "GET", "/healthz").status == 200


@effect("native-port", "native")
def test_native_port(start_server):
    port = free_port("127.0.0.9")
    server = start_server(native_port=port, bind="127.0.0.9")
    assert ("127.0.0.9", port) in listening(server)
    with NativePeer(server) as peer:
        peer.ping()


@effect("shards", "rest", "native")
def test_each_shard_has_a_thread_and_listens_on_both_ports(start_server):
    server = start_server("--shards", "3")
    ports = [port for _, port in listening(server)]
    assert (ports.count(server.port), ports.count(server.native_port), len(ports)) == (3, 3, 6)
    assert set(threads(server)) == {"shard-0", "shard-1", "shard-2"}
    assert 'sluicegate_keys{shard="2"}' in metrics(server)
    with NativePeer(server) as peer:
        assert peer.welcome.body["shards"] == 3


# ------------------------------------------------------------------------------------- the process

def threads(server):
    """The workers' names, and their thread ids."""
    folders = pathlib.Path(f"/proc/{server.pid}/task").iterdir()
    names = {(folder / "comm").read_text().strip(): int(folder.name) for folder in folders}
    return {name: thread for name, thread in names.items() if name.startswith("shard-")}


@effect("pin", "process")
def test_pinned_worker_has_one_cpu(start_server):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: pinned and not pinned are the same")
    pinned = start_server("--shards", "1", "--pin=true")
    if not pinned.log[-1]["pinned"]:
        quota = pathlib.Path("/sys/fs/cgroup/cpu.max")
        assert quota.exists() and not quota.read_text().startswith("max"), "no quota forbids it"
        pytest.skip("a CPU quota switches pinning off")
    assert len(os.sched_getaffinity(threads(pinned)["shard-0"])) == 1
    free = start_server("--shards", "1", "--pin=false")
    assert len(os.sched_getaffinity(threads(free)["shard-0"])) > 1


@effect("io", "process")
@pytest.mark.parametrize("name, descriptor", [("epoll", "anon_inode:[eventpoll]"),
                                              ("uring", "anon_inode:[io_uring]")])
def test_kernel_interface(start_server, name, descriptor):
    server = start_server("--io", name)
    folder = pathlib.Path(f"/proc/{server.pid}/fd")
    found = {os.readlink(link) for link in folder.iterdir()}
    assert descriptor in found
    assert len(found & {"anon_inode:[eventpoll]", "anon_inode:[io_uring]"}) == 1


@effect("server-type", "rest")
def test_server_type_echo_has_no_http_2(start_server):
    answers = {}
    for kind in ("echo", "echo-http2"):
        server = start_server("-s", kind)
        with socket.create_connection(("127.0.0.1", server.port), 30) as peer:
            peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            answers[kind] = peer.recv(9)
    assert answers["echo"] == b"HTTP/1.1 "
    assert answers["echo-http2"][3:4] == b"\x04"  # SETTINGS


# ----------------------------------------------------------------------------- several instances

DEAD = "http://127.0.0.1:7"
ONE_OF_TWO = ["-i", f"{DEAD},http://127.0.0.1:9", "--own-url", "http://127.0.0.1:9"]
OF_NODE = {0: "k", 1: "k1"}  # a key of each node of two


def failed_start(*flags):
    result = run_binary(*flags)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result
    return result.stderr


def native_peer(node):
    node.native_port = node.wait_for_message("ready")["nativePort"]
    return NativePeer(node)


@effect("instance-urls", "rest")
def test_instances_limit_together():
    with Fleet([OURS, OURS], *LONG_WINDOW, "-m", "1") as fleet:
        asked = [ask(fleet.nodes[node].process, "POST", f"/rate/{OF_NODE[0]}").status
                 for node in (1, 0)]
    assert asked == [200, 429]


@effect("instance-urls", "native")
def test_instances_limit_together_natively():
    with Fleet([OURS, OURS], *LONG_WINDOW, "-m", "1") as fleet:
        asked = []
        for node in (1, 0):
            with native_peer(fleet.nodes[node].process) as peer:
                asked += peer.ask([OF_NODE[0], OF_NODE[1]]).verdicts
    assert asked == [APPROVED] * 2 + [DENIED] * 2


@effect("own-url", "rest", "native")
@pytest.mark.parametrize("own", [0, 1])
def test_own_url_is_the_own_place(start_server, own):
    url = ONE_OF_TWO[1].split(",")[own]
    server = start_server(*ONE_OF_TWO[:2], "--own-url", url)
    keys = [OF_NODE[own], OF_NODE[1 - own]]
    assert [ask(server, "POST", f"/rate/{key}").status for key in keys] == [200, 502]
    with NativePeer(server) as peer:
        assert peer.ask(keys).verdicts == [APPROVED, OWNER_UNREACHABLE]


@effect("peer-failure", "rest", "native")
@pytest.mark.parametrize("policy, status, degraded, verdict", [
    ("closed", 429, None, DENIED), ("open", 200, "owner unreachable", APPROVED),
    ("local", 200, None, APPROVED)])
def test_failure_policy_answers_for_a_lost_owner(start_server, policy, status, degraded, verdict):
    server = start_server(*ONE_OF_TWO, "--peer-failure", policy)
    answer = ask(server, "POST", f"/rate/{OF_NODE[0]}")
    assert (answer.status, answer.header("sluicegate-degraded")) == (status, degraded)
    with NativePeer(server) as peer:
        assert peer.ask([OF_NODE[0]]).verdicts == [verdict]


def is_lost_over_rest(node, key):
    return ask(node, "POST", f"/rate/{key}").status == 502


def is_lost_natively(node, key):
    with native_peer(node) as peer:
        return peer.ask([key]).verdicts == [OWNER_UNREACHABLE]


@effect("peer-timeout-millis", "rest", "native")
@effect("peer-silence-millis", "rest", "native")
@pytest.mark.parametrize("is_lost", [is_lost_over_rest, is_lost_natively])
@pytest.mark.parametrize("flag, other", [("timeout", "silence"), ("silence", "timeout")])
@pytest.mark.parametrize("millis, least_s, most_s", [(100, 0, 20), (4_500, 3, 60)])
def test_bounds_of_a_silent_owner(is_lost, flag, other, millis, least_s, most_s):
    """The longer one is longer than the defaults; the owner may have been silent for a second."""
    flags = [f"--peer-{flag}-millis", str(millis), f"--peer-{other}-millis", "60000"]
    with Fleet([OURS, OURS], *flags) as fleet:
        fleet.nodes[1].process.pause()
        try:
            asked = time.monotonic()
            lost = is_lost(fleet.nodes[0].process, OF_NODE[1])
            assert (lost, least_s < time.monotonic() - asked < most_s) == (True, True)
        finally:
            fleet.nodes[1].process.resume()


@pytest.mark.parametrize("flag, value", [
    ("peer-failure", "open"), ("peer-timeout-millis", "2001"), ("peer-silence-millis", "901")])
def test_flags_about_peers_need_peers(flag, value):
    assert failed_start(f"--{flag}", value) == (
        f"Error: --{flag} needs --instance-urls: without a list this instance is alone\n")


@effect("peer-secret-file", "rest")
def test_nodes_with_a_secret_forward_quota_calls(tmp_path):
    body = encoded({"limits": [SLOT]})
    for secret, status in (None, 502), (secret_file(tmp_path), 200):
        with Fleet([OURS, OURS], *(["--peer-secret-file", secret] if secret else [])) as fleet:
            answer = ask(fleet.nodes[0].process, "PUT", f"/v1/subjects/{OF_NODE[1]}",
                         f"Content-Length: {len(body)}", body=body)
            assert answer.status == status


@effect("peer-secret-file", "native")
def test_who_has_not_shown_the_secret_forwards_nothing(start_server, tmp_path):
    assert "--peer-secret-file /none: No such file" in failed_start(*ONE_OF_TWO,
                                                                    "--peer-secret-file", "/none")
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    with NativePeer(start_server(*ONE_OF_TWO)) as peer:
        assert peer.forward(["any"]).verdicts == [APPROVED]
    with NativePeer(start_server(*ONE_OF_TWO, "--peer-secret-file", str(secret))) as peer:
        peer.send(keyed_frame("forward", 7, ["any"]))
        peer.read_error("secretExpected", 7)


# ------------------------------------------------------------------------------------------- state

@effect("state", "process")
def test_a_quota_is_there_again(start_server, tmp_path):
    for is_first in (True, False):
        server = start_server("--state", str(tmp_path / "state.db"))
        is_there = ask(server, "GET", "/v1/subjects/acme").status == 200
        assert is_there != is_first
        put(server, "acme", SLOT)
        server.stop()


@effect("state-sync-millis", "process")
def test_commits_are_so_far_apart(start_server, tmp_path):
    commits = "sluicegate_state_commits_total"
    servers = [start_server("--state", str(tmp_path / millis), "--state-sync-millis", millis)
               for millis in ("10", "60000")]
    for server in servers:
        put(server, "acme", SLOT)
    before = [metrics(server)[commits] for server in servers]
    for server in servers:
        reserve(server, "acme")
    eventually(lambda: metrics(servers[0])[commits] > before[0], "it has committed")
    time.sleep(0.5)  # several times the default
    assert metrics(servers[1])[commits] == before[1]


@effect("state-window-millis", "process")
def test_windows_that_last_so_long_are_there_again(start_server, tmp_path):
    flags = "--state", str(tmp_path / "state.db"), "--state-window-millis", "70000"
    for millis in (69_999, 70_000):
        server = start_server(*flags)
        ask(server, "POST", f"/rate/k{millis}?windowMillis={millis}")
        server.stop()
    server = start_server(*flags)
    assert [inspect(server, f"k{millis}") is None for millis in (69_999, 70_000)] == [True, False]


# --------------------------------------------------------------------------------------------- log

@effect("log-format", "process")
@pytest.mark.parametrize("name, start", [("text", "time="), ("system-default", "20"),
                                         ("json", '{"time"')])
def test_log_format(name, start):
    with subprocess.Popen(
            [binary(), "--bind", "127.0.0.1", "--port", "0", "--native-port", "0", "--shards", "1",
             "--log-format", name], text=True, env=clean_environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line = (process.stderr if name == "system-default" else process.stdout).readline()
        process.kill()
    assert line.startswith(start)


@effect("log-level", "process")
def test_log_level(start_server, key):
    server = start_server("--window-millis", "20", "--log-level", "DEBUG")
    assert ask(server, "POST", f"/rate/{key}").status == 200
    server.wait_for_message("key expired")


@effect("log-includes-source", "process")
def test_log_source(start_server):
    assert all("source" in line for line in start_server().log)
    assert not any("source" in line for line in start_server("--log-includes-source=false").log)


def answered(server, peer_of):
    """Requests answered 200, 404 and 503, and the statuses that the log has of them."""
    with peer_of(server) as peer:
        for number in range(200):
            if peer.ask("POST", f"/rate/k{number}").status == 503:
                break
        assert peer.ask("DELETE", "/rate/unknown/1").status < 500
        assert peer.ask("GET", "/no-such-path").status == 404
    assert server.stop() == 0  # the log is complete
    return {line["response"]["status"] // 100 for line in server.log if "response" in line}


@effect("log2xx", "rest", "http2")
@effect("log4xx", "rest", "http2")
@effect("log5xx", "rest", "http2")
@pytest.mark.parametrize("peer_of", [HttpPeer, Http2Peer])
@pytest.mark.parametrize("classes", [(), (2,), (4,), (5,), (2, 4, 5)])
def test_log_of_requests(start_server, classes, peer_of):
    switches = [f"--log{digit}xx={'true' if digit in classes else 'false'}" for digit in (2, 4, 5)]
    server = start_server(*LONG_WINDOW, "--shards", "1", "--max-keys", "10", *switches)
    assert answered(server, peer_of) == set(classes)


# ------------------------------------------------------------------------------------------- bounds

@effect("max-keys", "rest", "native")
def test_keys(start_server):
    server = start_server(*LONG_WINDOW, "--shards", "1", "--max-keys", "20")
    with NativePeer(server) as peer:
        verdicts = peer.ask([f"k{number}" for number in range(200)]).verdicts
        assert set(verdicts) == {APPROVED, TABLE_FULL}
    refused = verdicts.index(TABLE_FULL)
    assert ask(server, "POST", f"/rate/k{refused}").status == 503
    assert metrics(server)['sluicegate_keys{shard="0"}'] < 60


@effect("max-key-bytes", "rest")
def test_key_length_over_rest(start_server):
    server = start_server("--max-key-bytes", "5")
    assert [ask(server, "POST", f"/rate/{'k' * size}").status for size in (5, 6)] == [200, 431]
    statuses = [call(server, "reserve", {"subjects": ["s" * size]}).status for size in (5, 6)]
    assert statuses == [200, 400]


@effect("max-key-bytes", "native")
def test_key_length_natively(start_server):
    with NativePeer(start_server("--max-key-bytes", "5")) as peer:
        assert peer.welcome.body["keyBytesMax"] == 5
        assert peer.ask(["k" * 5, "k" * 6]).verdicts == [APPROVED, INVALID_KEY]
        assert peer.reserve("s" * 5, "s" * 6).codes[1] == "invalidSubject"


@effect("max-handles", "native")
def test_handles(start_server):
    with NativePeer(start_server("--shards", "1", "--max-handles", "8")) as peer:
        _, verdicts = peer.intern([f"k{number}" for number in range(9)])
        assert verdicts == [APPROVED] * 8 + [HANDLES_FULL]


@effect("max-subjects", "rest")
def test_subjects_over_rest(start_server):
    server = start_server("--shards", "1", "--max-subjects", "1")
    put(server, "one", SLOT)
    body = json.dumps({"limits": [SLOT]}).encode()
    answer = ask(server, "PUT", "/v1/subjects/two", f"Content-Length: {len(body)}", body=body)
    assert answer.status == 503 and answer.json()["code"] == "subjects_full"


@effect("max-subjects", "native")
def test_subjects_natively(start_server):
    with NativePeer(start_server("--shards", "1", "--max-subjects", "1")) as peer:
        peer.put_quota("one", SLOT)
        answer = peer.call("quota", {"subject": b"two", "quota": {"limits": [SLOT]}})
        assert answer.codes == ["subjectsFull"]


@effect("max-reservations", "rest")
def test_reservations_over_rest(start_server):
    server = start_server("--shards", "1", "--max-reservations", "1")
    put(server, "s", TEN)
    answers = [call(server, "reserve", {"subjects": ["s"]}) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 503]
    assert answers[1].json()["code"] == "reservations_full"


@effect("max-reservations", "native")
def test_reservations_natively(start_server):
    with NativePeer(start_server("--shards", "1", "--max-reservations", "1")) as peer:
        peer.put_quota("s", {**TEN, "kind": "fixed", "periodMs": 3_600_000})
        assert peer.reserve("s", "s").codes == ["ok", "reservationsFull"]


@effect("max-waiters", "rest")
def test_waiters_over_rest(start_server):
    server = start_server(*LONG_WINDOW, "--shards", "1", "-m1", "--max-waiters", "1")
    for key in "ab":
        assert ask(server, "POST", f"/rate/{key}").status == 200
        put(server, key, SLOT)
        assert call(server, "reserve", {"subjects": [key]}).status == 200
    with wait_in_queue(server, "a"):
        assert ask(server, "POST", "/rate/b?canWait=true").status == 503
    with HttpPeer(server) as peer:
        body = json.dumps({"subjects": ["a"], "wait_limit_ms": 3_000_000}).encode()
        peer.send(request("POST", "/v1/reserve", f"Content-Length: {len(body)}", body=body))
        eventually(lambda: metrics(server)['sluicegate_quota_waiters{shard="0"}'] == 1, "it waits")
        refused = call(server, "reserve", {"subjects": ["b"], "wait_limit_ms": 3_000_000})
        assert (refused.status, refused.json()["code"]) == (503, "waiters_full")


@effect("max-waiters", "http2")
def test_waiters_over_http2(start_server):
    server = start_server(*LONG_WINDOW, "--shards", "1", "-m1", "--max-waiters", "1")
    with Http2Peer(server) as peer:
        for key in "ab":
            assert peer.ask("POST", f"/rate/{key}").status == 200
        peer.request("POST", "/rate/a?canWait=true")
        assert peer.ask("POST", "/rate/b?canWait=true").status == 503


@effect("max-waiters", "native")
def test_waiters_natively(start_server):
    server = start_server(*LONG_WINDOW, "--shards", "1", "-m1", "--max-waiters", "1")
    with NativePeer(server) as peer, NativePeer(server) as other:
        assert peer.welcome.body["waitingEntriesMax"] == 1
        assert peer.ask(["a", "b"]).verdicts == [APPROVED] * 2
        assert peer.ask(["a"], flags=MAY_WAIT).verdicts == [QUEUED]
        assert other.ask(["b"], flags=MAY_WAIT).verdicts == [WAITERS_FULL]
    with NativePeer(server) as peer, NativePeer(server) as other:
        for subject in "ab":
            peer.put_quota(subject, SLOT)
        assert peer.reserve("a", "b").codes == ["ok"] * 2
        assert peer.reserve("a", flags=MAY_WAIT).codes == ["queued"]
        assert other.reserve("b", flags=MAY_WAIT).codes == ["waitersFull"]


@effect("max-connections", "rest")
def test_connections_over_rest(start_server):
    server = start_server("--max-connections", "1")
    with HttpPeer(server) as held:
        assert held.ask("GET", "/healthz").status == 200
        assert ask(server, "GET", "/healthz").status == 503


@effect("max-connections", "http2")
def test_connections_over_http2(start_server):
    server = start_server("--max-connections", "1")
    with Http2Peer(server) as held:
        assert held.ask("GET", "/healthz").status == 200
        assert ask(server, "GET", "/healthz").status == 503
        with pytest.raises(NoHttp2, match="503"):
            Http2Peer(server)


@effect("max-connections", "native")
def test_connections_natively(start_server):
    server = start_server("--max-connections", "1")
    with NativePeer(server), NativePeer(server, hello=False) as peer:
        peer.send(hello_frame())
        peer.read_error("tooManyConnections", 0)


# ----------------------------------------------------------------------------------------- time-outs
# The defaults are 10 s and 120 s: an end before them is the flag's.

def seconds_until(end):
    started = time.monotonic()
    end()
    return time.monotonic() - started


@effect("header-timeout-millis", "rest")
def test_header_timeout_over_rest(start_server):
    server = start_server("--header-timeout-millis", "300")

    def ends_early():
        with HttpPeer(server) as peer:
            begin_a_request(peer)
            return seconds_until(peer.rest) < 9
    in_some_try(ends_early, "it ends before the default", tries=3)


@effect("header-timeout-millis", "http2")
def test_header_timeout_over_http2(start_server):
    """A head without end ends the connection, a body without end its stream alone."""
    server = start_server("--header-timeout-millis", "1000")  # of the preface, too

    def ends_early():
        with Http2Peer(server) as peer:
            body = peer.begin("POST", "/v1/reserve", "Content-Length: 5", has_body=True)
            body_s = seconds_until(lambda: peer.read_any([body]))
            assert peer.ask("GET", "/healthz").status == 200
            peer.send_frame(HeadersFrame(max(peer.streams) + 2, b""))  # without END_HEADERS
            head_s = seconds_until(peer.read_to_end)
            assert peer.go_aways[-1][1] == NO_ERROR
            return body_s < 9 and head_s < 9
    in_some_try(ends_early, "it ends before the default", tries=3)


@effect("header-timeout-millis", "native")
def test_header_timeout_natively(start_server):
    server = start_server("--header-timeout-millis", "300")

    def ends_early():
        with NativePeer(server, hello=False) as unknown, NativePeer(server) as peer:
            peer.send(ping_frame(5)[:20])
            return seconds_until(lambda: (unknown.read_error("helloTimeout", 0),
                                          peer.read_error("frameTimeout", 0))) < 9
    in_some_try(ends_early, "it ends before the default", tries=3)


@effect("idle-timeout-millis", "http2")
def test_idle_timeout_over_http2(start_server):
    with Http2Peer(start_server("--idle-timeout-millis", "1000")) as peer:
        assert peer.ask("GET", "/healthz").status == 200
        peer.read_to_end()  # within the time-out of the socket: 30 s
        assert peer.go_aways[-1][1] == NO_ERROR


@effect("idle-timeout-millis", "rest")
def test_idle_timeout(start_server):
    server = start_server("--idle-timeout-millis", "300")
    with HttpPeer(server) as peer:
        assert peer.ask("GET", "/healthz").status == 200
        assert peer.rest() == b""  # within the time-out of the socket: 30 s


def drained(start_server, peer_of, begin):
    """Whether a server with a short drain cuts a peer before the 5 s of the default are over."""
    server = start_server("--drain-millis", "200")
    with peer_of(server) as peer:
        begin(peer)
        server.signal(signal.SIGTERM)
        in_time = seconds_until(server.wait) < 4
    assert server.messages()[-1] == "stopped"
    assert server.log[-1]["connectionsForceClosed"] == 1
    return in_time


@effect("drain-millis", "rest")
def test_drain_over_rest(start_server):
    in_some_try(lambda: drained(start_server, HttpPeer, begin_a_request), "in time", tries=3)


@effect("drain-millis", "http2")
def test_drain_over_http2(start_server):
    def begin(peer):
        peer.begin("POST", "/v1/reserve", "Content-Length: 5", has_body=True)
        peer.ping()
    in_some_try(lambda: drained(start_server, Http2Peer, begin), "in time", tries=3)


@effect("drain-millis", "native")
def test_drain_natively(start_server):
    def begin(peer):
        peer.ping()
        peer.send(ping_frame(5)[:20])
    in_some_try(lambda: drained(start_server, NativePeer, begin), "in time", tries=3)


# ---------------------------------------------------------------------------------------- the table

def test_each_row_of_the_table_has_a_case_for_each_dialect_that_it_names():
    printed = subprocess.run([os.environ["SLUICEGATE_FLAGS"]], capture_output=True, check=True)
    rows = {(row["flag"], dialect) for row in json.loads(printed.stdout)
            for dialect in row["seen"]}
    assert len(rows) > 30
    assert rows == CASES
