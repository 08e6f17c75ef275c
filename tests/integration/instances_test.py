"""The list of instances: a bad one ends the start with one line that names the item and the cure, a
good one leads to the instance's own place, and nothing hangs while names do not resolve.

Method: the real program, on ports that it never opens: it ends before, as its configuration file is
not there.
"""

import json
import os
import signal
import socket
import subprocess
import time

import pytest

from server_process import TIMEOUT_S, binary, clean_environment, eventually, run_binary

# A name that never resolves (RFC 6761). Where a name server takes long to say so, the start does.
NOWHERE = "nowhere.invalid"


NO_SECRET = ("no --peer-secret-file: anyone who reaches the native port may forward requests to "
             "this node, that is, acquire and release any key; and quota calls for subjects of "
             "other nodes are refused (owner_unreachable)")


def failed_start(*flags, environment=None):
    result = run_binary(*flags, environment=environment or {})
    assert result.returncode == 2, result
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1, result
    return result.stderr[len("Error: "):-1], result.stdout


@pytest.mark.parametrize("urls, error", [
    ("http://a:8080", "--instance-urls has one item only, http://a:8080: name all instances, this "
                      "one included, or none"),
    ("http://a,,http://b", "--instance-urls: item 2 is empty: there is a comma too many"),
    ("http://a, ", "--instance-urls: item 2 is empty: there is a comma too many"),
    ("http://a:80,http://b,HTTP://A/x", "--instance-urls: items 1 and 3 are both http://a:80: name "
                                        "each instance once"),
    ("http://a,localhost:8080", '--instance-urls: item 2 ("localhost:8080") does not begin with '
                                'http://: write "http://localhost:8080"'),
    ("http://a,http://:1", '--instance-urls: item 2 ("http://:1") names no host: write '
                           "http://HOST:PORT"),
    ("http://a,http://b:x", '--instance-urls: item 2 ("http://b:x") has a bad port: it is a number '
                            "from 1 to 65535"),
    ("http://a:1,http://b:2", "no item of --instance-urls has this instance's port, 8080 (--port): "
                              "http://a:1, http://b:2: correct the list, or name this instance's "
                              "item with --own-url")])
def test_bad_list_ends_the_start(urls, error):
    assert failed_start("-i", urls) == (error, "")
    assert failed_start(environment={"INSTANCE_URLS": f"[{urls}]"}) == (error, "")


def test_own_url_has_to_be_in_the_list():
    error, _ = failed_start("-i", "http://a,http://b", "--own-url", "http://c")
    assert error == "--own-url http://c:80 is not in --instance-urls: http://a:80, http://b:80"


def test_any_free_port_is_in_no_list():
    error, _ = failed_start("-i", "http://a,http://b", "--port", "0")
    assert error.startswith("--instance-urls needs a --port that is in the list")


def own_place(urls, *flags):
    """The item that the start finds, and the lines of its log."""
    error, log = failed_start("-i", urls, *flags, "--config-file", "/none")
    assert error.startswith("--config-file /none"), error
    lines = [json.loads(line) for line in log.splitlines()]
    found = [line["ownUrl"] for line in lines if line["message"] == "one of several instances"]
    assert len(found) == 1, lines
    return found[0], lines


@pytest.mark.parametrize("urls, flags, own", [
    ("http://198.51.100.1:8080,http://127.0.0.1:8080", [], "http://127.0.0.1:8080"),
    ("http://198.51.100.1:8080,http://localhost:8080", [], "http://localhost:8080"),
    ("http://127.0.0.1:7,http://127.0.0.1:8,http://127.0.0.1:9", ["-p", "8"],
     "http://127.0.0.1:8"),
    ("http://127.0.0.1:8080,http://127.0.0.2:8080", ["--bind", "127.0.0.2"],
     "http://127.0.0.2:8080"),
    ("http://198.51.100.1:8080,http://198.51.100.2:8080", ["--own-url", "http://198.51.100.2:8080"],
     "http://198.51.100.2:8080")])
def test_own_place_is_found(urls, flags, own):
    assert own_place(urls, *flags)[0] == own


def test_own_place_is_that_of_the_host_name():
    # With a first label of its own, the machine's name need not resolve.
    name = socket.gethostname().split(".")[0].lower()
    own = f"http://{name}.{NOWHERE}:8080"
    assert own_place(f"http://127.0.0.1:8080,{own}")[0] == own


def test_several_items_that_lead_here_are_refused():
    error, _ = failed_start("-i", "http://127.0.0.1:8080,http://127.0.0.2:8080")
    assert error == ("several items of --instance-urls lead to this machine: "
                     "http://127.0.0.1:8080, http://127.0.0.2:8080: name this instance's with "
                     "--own-url, or its address with --bind")


def test_addresses_of_other_machines_are_refused_at_once():
    started = time.monotonic()
    error, _ = failed_start("-i", "http://198.51.100.1:8080,http://198.51.100.2:8080")
    assert error.startswith("no item of --instance-urls with port 8080 leads to this machine (")
    assert error.endswith("): http://198.51.100.1:8080, http://198.51.100.2:8080: correct the "
                          "list, or name this instance's item with --own-url")
    assert time.monotonic() - started < 25  # it would wait for 30 s


def test_https_is_warned_of():
    _, lines = own_place("https://127.0.0.1,http://b", "-p", "443")
    assert [line["message"] for line in lines if line["level"] == "WARN"] == [
        NO_SECRET,
        '--instance-urls: item 1 ("https://127.0.0.1"): instances speak without TLS, this one is '
        "reached at http://127.0.0.1:443"]


@pytest.mark.parametrize("server_type, warned", [("echo", 1), ("echo-http2", 0)])
def test_a_list_without_http2_is_warned_of(server_type, warned):
    _, lines = own_place(SOME[1], "--server-type", server_type)
    assert [line["message"] for line in lines if line["level"] == "WARN"] == [NO_SECRET] + [
        "--server-type echo with --instance-urls: a gocc forwards by HTTP/2 alone, so all that one "
        "forwards to this instance becomes a 502: leave the flag out while there is any"] * warned


@pytest.mark.parametrize("max_connections, warned", [(31, 1), (32, 0)])
def test_connections_of_nodes_that_leave_little_room_are_warned_of(max_connections, warned):
    _, lines = own_place(SOME[1], "--shards", "4", "--pin=false", "--max-connections",
                         str(max_connections))
    assert [line["message"] for line in lines if line["level"] == "WARN"] == [NO_SECRET] + [
        "--max-connections leaves little room for clients: other nodes open 16 connections to this "
        "one if they have as many shards; raise it, or lower --shards on all nodes"] * warned


@pytest.mark.parametrize("stop, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_the_search(tmp_path, stop, code):
    log = tmp_path / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen([binary(), "-i", f"http://{NOWHERE}:8080,http://b:9"],
                                   stdout=output, stderr=output, env=clean_environment())
    try:
        eventually(lambda: "trying again" in log.read_text(), "it waits, and says so")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        waits = [line for line in lines if "trying again" in line["message"]]
        assert waits[0]["items"].startswith(f"http://{NOWHERE}:8080 (") and waits[0]["machine"]
        process.send_signal(stop)
        assert process.wait(TIMEOUT_S) == code
    finally:
        process.kill()
        process.wait()


# ------------------------------------------------------------------------------------- the secret

SOME = ["-i", "http://127.0.0.1:8080,http://b"]


@pytest.mark.parametrize("content, fault", [
    (b"", "it is empty"), (b"x" * 15, "it is too short"), (b"x" * 257, "it is too long"),
    (b"x" * 16 + b"\n" + b"x" * 16, "it has several lines"),
    (b"x" * 16 + b"\0", "it has control characters")])
def test_bad_secret_ends_the_start(tmp_path, content, fault):
    path = tmp_path / "secret"
    path.write_bytes(content)
    error, _ = failed_start(*SOME, "--peer-secret-file", str(path))
    assert error.startswith(f"--peer-secret-file {path}: {fault}: a secret ")
    assert "16 to 256 bytes" in error


@pytest.mark.parametrize("mode, warned", [(0o600, 0), (0o644, 1)])
def test_secret_that_others_may_read_is_warned_of(tmp_path, mode, warned):
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    os.chmod(path, mode)
    _, lines = own_place(SOME[1], "--peer-secret-file", str(path))
    warnings = [line["message"] for line in lines if line["level"] == "WARN"]
    assert warnings == [f"--peer-secret-file {path}: others than its owner have access to the "
                        f"secret: chmod 400 {path}"] * warned
    assert "0123456789abcdef" not in json.dumps(lines)
