"""GET /top: the most requested keys, and the decisions of every shard. Method: traffic of known
shape, over both dialects; the tests assert that rates are present, not their values."""

import json
import subprocess

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, ask_often
from server_process import binary, clean_environment, eventually, run_binary


def top(server, query=""):
    response = ask(server, "GET", f"/top{query}")
    assert response.status == 200
    assert response.header("Content-Type") == "application/json"
    return json.loads(response.body)


def test_lists_the_most_requested_keys(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "100")
    for key, times in [("hot", 200), ("warm", 80), ("cold", 40)]:
        ask_often(server, f"/rate/{key}", times)
    ask(server, "DELETE", "/rate/gone/1")
    keys = top(server)["keys"]
    assert [key["key"] for key in keys] == ["hot", "warm", "cold"]
    hot = keys[0]
    assert hot["approvedPerSecond"] == pytest.approx(hot["deniedPerSecond"], abs=0.21)
    assert hot["deniedPerSecond"] > 0 and hot["queuedPerSecond"] == 0
    assert hot["keyBytes"] == 3 and hot["waiting"] == 0
    assert all(0 <= key["shard"] < server.shards for key in keys)
    assert [key["key"] for key in top(server, "?keys=2")["keys"]] == ["hot", "warm"]


def test_lists_the_decisions_of_every_shard(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000")
    load = subprocess.Popen(
        [binary(), "bench", "--address", f"127.0.0.1:{server.native_port}", "--keys", "1000",
         "--seconds", "60", "--batch", "20"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
    try:
        def all_busy():
            shards = top(server)["shards"]
            busy = all(shard["approvedPerSecond"] > 0 for shard in shards)
            return shards if busy and sum(shard["keys"] for shard in shards) == 1000 else None
        shards = eventually(all_busy, "every shard decides")
    finally:
        load.kill()
        load.wait()
    assert [shard["shard"] for shard in shards] == list(range(server.shards))
    assert sum(shard["connections"] for shard in shards) >= 1
    for shard in shards:
        parts = [shard[f"{name}PerSecond"] for name in ["approved", "denied", "queued"]]
        assert shard["decisionsPerSecond"] == pytest.approx(sum(parts), abs=0.3)
    eventually(lambda: all(shard["decisionsPerSecond"] == 0 for shard in top(server)["shards"]),
               "the rates fall to zero")


def test_keys_asked_by_handle_are_shown(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000")
    run_binary("bench", "--address", f"127.0.0.1:{server.native_port}", "--keys", "10",
               "--seconds", "0.5", "--batch", "10", "--handles", "--distribution", "one")
    keys = top(server)["keys"]
    assert keys and keys[0]["decisionsPerSecond"] > 0


def test_waiters_are_shown(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1")
    with HttpPeer(server) as peer:
        peer.ask("POST", "/rate/k")
        peer.send(b"POST /rate/k?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n")

        def shown():
            ask(server, "POST", "/rate/k")
            shown = top(server)
            waiting = [key["key"] for key in shown["keys"] if key["waiting"] == 1]
            return waiting == ["k"] and sum(shard["waiting"] for shard in shown["shards"]) == 1
        eventually(shown, "it waits")


def test_hostile_keys_are_plain_ascii(server):
    ask_often(server, "/rate/%1B%5B2J%22%FF%C2%9B")
    body = ask(server, "GET", "/top?keys=100").body
    assert all(0x20 <= byte <= 0x7E for byte in body[:-1]) and body.endswith(b"\n")
    assert '\x1b[2J"\ufffd\x9b' in [key["key"] for key in json.loads(body)["keys"]]


def test_a_long_key_is_cut_and_marked(server):
    ask_often(server, "/rate/" + "k" * 1000)
    keys = {key["keyBytes"]: key for key in top(server, "?keys=100")["keys"]}
    assert keys[1000]["key"] == "k" * 256 and keys[1000]["waiting"] is None


@pytest.mark.parametrize("query, text", [("keys=x", "failed to parse keys query parameter"),
                                         ("keys=0", "keys out of bounds"),
                                         ("keys=101", "keys out of bounds")])
def test_bad_number_of_keys_is_refused(server, query, text):
    response = ask(server, "GET", f"/top?{query}")
    assert (response.status, response.body.decode()) == (400, text)
