"""A release that does not reach the key's owner is not reported as done, and one that does is.

Method: fleets of two, the other node dead or a gocc; the command line at a node that does not own
the key, and what the owner counts.
"""

import json

import pytest

from conftest import LONG_WINDOW
from fleet import GOCC, OURS, Fleet, name_at
from gocc_program import gocc, why_no_gocc
from http_peer import ask
from native_peer import NativePeer
from server_process import run_binary

POLICIES = ("error", "closed", "open")
APPROVED = 1
OWNER_UNREACHABLE = 14
OWN = name_at(0, 2, "own:")
OTHER = name_at(1, 2, "other:")


def native_port(node):
    return node.process.wait_for_message("ready")["nativePort"]


def command(node, *words):
    return run_binary(*words, "--address", f"{node.host}:{native_port(node)}")


def release(node, *keys):
    node.process.native_port = native_port(node)
    with NativePeer(node.process) as peer:
        id = peer.release(keys)
        answer = peer.read()
        assert answer.id == id
        return answer


def approved(node, key):
    return json.loads(ask(node.process, "GET", f"/debug/{key}").body)["NumApprovedThisWindow"]


@pytest.mark.parametrize("policy", POLICIES)
def test_of_a_dead_owner_s_key_nothing_is_reported_as_released(policy):
    with Fleet([OURS] * 2, *LONG_WINDOW, "--peer-failure", policy) as fleet:
        first, other = fleet.nodes
        assert ask(first.process, "POST", f"/rate/{OWN}").status == 200
        other.process.kill()
        fleet.nodes.pop()
        for words in (["release", OTHER], ["release", OTHER, "--cost", "7"], ["reset", OTHER]):
            result = command(first, *words)
            assert (result.returncode, result.stdout) == (2, ""), words
            assert f"{OTHER}: owner_unreachable: nothing was released" in result.stderr
        answer = release(first, OWN, OTHER, OWN)
        assert answer.kind == "verdicts"
        assert answer.verdicts == [APPROVED, OWNER_UNREACHABLE, APPROVED]
        assert approved(first, OWN) == 0


def test_what_reaches_its_owner_is_released():
    with Fleet([OURS] * 2, *LONG_WINDOW) as fleet:
        first, other = fleet.nodes
        assert ask(other.process, "POST", f"/rate/{OTHER}").status == 200
        result = command(first, "release", OTHER)
        assert (result.returncode, result.stdout, result.stderr) == (0, "released\n", "")
        assert approved(other, OTHER) == 0
        assert release(first, OWN, OTHER).kind == "done"


@pytest.mark.skipif(not gocc(), reason=why_no_gocc())
def test_a_gocc_takes_no_release_of_several():
    with Fleet([OURS, GOCC], *LONG_WINDOW) as fleet:
        first, other = fleet.nodes
        for _ in range(3):
            assert ask(first.process, "POST", f"/rate/{OTHER}").status == 200
        for words in (["release", OTHER, "--cost", "2"], ["reset", OTHER]):
            result = command(first, *words)
            assert (result.returncode, result.stdout) == (2, ""), words
            assert "is a gocc" in result.stderr
        assert approved(other, OTHER) == 3
        assert command(first, "release", OTHER).returncode == 0
        assert approved(other, OTHER) == 2
