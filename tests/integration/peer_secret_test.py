"""The secret of the nodes: who has not shown it cannot send what only nodes send; nodes with the
same one limit together, and nodes with different ones say so.

Method: fleets of two on 127.0.0.1 and 127.0.0.2, each node with flags of its own; a peer plays a
node or a client over the native port.
"""

import contextlib
import json

import pytest

from conftest import LONG_WINDOW
from fleet import OURS, Node, free_ports, name_at
from http_peer import ask, metrics
from native_peer import APPROVED, NativePeer, hello_frame, keyed_frame
from server_process import eventually

SECRET = "correct horse battery staple"
DIFFER = ("another node takes nothing from this one, because their secrets differ: give both the "
          "same --peer-secret-file")
NO_SECRET = "no --peer-secret-file: "
OWNED = [name_at(node, 2, "user:") for node in range(2)]
OWNED_TOO = name_at(0, 2, "own:")


@contextlib.contextmanager
def nodes(tmp_path, *secrets):
    """One node for each secret; None: it has none."""
    fleet = [Node(number, f"127.0.0.{number + 1}", port)
             for number, port in enumerate(free_ports(len(secrets)))]
    try:
        for node, secret in zip(fleet, secrets, strict=True):
            flags = [*LONG_WINDOW, "-m", "1"]
            if secret:
                path = tmp_path / f"secret{node.number}"
                path.write_text(f"{secret}\n")
                path.chmod(0o400)
                flags += ["--peer-secret-file", str(path)]
            node.start(OURS, [node.url for node in fleet], flags)
        yield [node.process for node in fleet]
        for node in fleet:
            node.stop()
            assert SECRET not in json.dumps(node.process.log)
    finally:
        for node in fleet:
            if node.process:
                node.process.kill()


def native(server, token):
    """A peer that has greeted with this token; it reads the answer itself."""
    server.native_port = server.wait_for_message("ready")["nativePort"]
    peer = NativePeer(server, hello=False)
    peer.send(hello_frame(peer.take_id(), **({"token": token} if token else {})))
    return peer


def links(server, suffix=""):
    return sum(value for name, value in metrics(server).items()
               if name.startswith(f"sluicegate_node_links{suffix}{{"))


def wait_for_links(server):
    """Of all shards: the log's line is of the first one."""
    eventually(lambda: 0 < links(server) == links(server, "_wanted"), "it is connected")


def differences(server):
    return [line["node"] for line in server.warnings() if line["message"] == DIFFER]


def test_nodes_with_one_secret_limit_together(tmp_path):
    with nodes(tmp_path, SECRET, SECRET) as fleet:
        for server in fleet:
            wait_for_links(server)
        for key in OWNED:
            assert [ask(server, "POST", f"/rate/{key}").status for server in fleet] == [200, 429]
        assert [differences(server) for server in fleet] == [[], []]
        assert not any(line["message"].startswith(NO_SECRET) for line in fleet[0].warnings())


@pytest.mark.parametrize("other", ["correct horse battery stable", None])
def test_nodes_with_different_secrets_say_so_once(tmp_path, other):
    with nodes(tmp_path, SECRET, other) as fleet:
        refused = fleet if other else fleet[1:]  # who has no secret takes entries from all
        for server in refused:
            eventually(lambda server=server: differences(server), "it warns")
        if not other:
            wait_for_links(fleet[0])
        answers = [ask(fleet[1 - node], "POST", f"/rate/{OWNED[node]}").status
                   for node in (0, 1) for _ in range(2)]
        assert answers == ([502] * 4 if other else [502, 502, 200, 429])
        for server in refused:
            others = [f"{node.host}:{node.port}" for node in fleet if node is not server]
            assert differences(server) == others, server.output()
            assert links(server) == 0
        assert other or differences(fleet[0]) == []


def test_only_nodes_forward(tmp_path):
    with nodes(tmp_path, SECRET, SECRET) as (server, _):
        with native(server, SECRET) as node:
            assert node.read("welcome").body["features"] & 8
            assert node.forward([OWNED[0]]).verdicts == [APPROVED]
            node.refund([OWNED[0]], target=2)
        with native(server, "") as client:
            assert not client.read("welcome").body["features"] & 8
            assert client.ask([OWNED_TOO]).verdicts == [APPROVED]
        for kind in ("forward", "refund"):
            with native(server, "") as client:
                client.read("welcome")
                client.send(keyed_frame(kind, 7, ["any"]))
                client.read_error("secretExpected", 7)
                assert client.is_at_end()


@pytest.mark.parametrize("token", [SECRET[:-1], SECRET + "e", "x", SECRET.upper()])
def test_another_secret_is_refused(tmp_path, token):
    with nodes(tmp_path, SECRET, SECRET) as (server, _), native(server, token) as peer:
        peer.read_error("secretExpected", 1)
        assert peer.is_at_end()
