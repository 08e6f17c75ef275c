"""?cluster=true: all nodes answer, each for itself, and those that do not are named.

Method: fleets of Sluicegates, and of one with gocc; what one node is asked for all of them is
compared with what each of them answers alone.
"""

import json
import os
import signal

import pytest

from conftest import LONG_WINDOW
from fleet import GOCC, OURS, Fleet, name_at, secret_file
from gocc_program import gocc, why_no_gocc
from http_peer import ask
from quota_calls import call, put, reserve
from server_process import run_binary

KEYS = [name_at(node, 3, "user:") for node in range(3)]
SUBJECTS = [name_at(node, 3, "subject") for node in range(3)]
SLOT = {"name": "slots", "metric": "concurrency", "amount": 1}


def names(fleet):
    return [f"{node.host}:{node.port}" for node in fleet.nodes]


def all_nodes(fleet, target, asked=0, method="GET"):
    response = ask(fleet.nodes[asked].process, method, target)
    assert response.status == 200, response
    assert response.header("Content-Type") == "application/json"
    return json.loads(response.body)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet([OURS] * 3, *LONG_WINDOW, "--peer-timeout-millis", "10000", "--peer-secret-file",
               secret_file(tmp_path_factory.mktemp("fleet"))) as nodes:
        for key in KEYS:
            assert ask(nodes.nodes[0].process, "POST", f"/rate/{key}").status == 200
        for subject in SUBJECTS:
            put(nodes.nodes[0].process, subject, SLOT)
        yield nodes


@pytest.mark.parametrize("asked", [0, 2])
def test_debug_shows_each_key_at_its_owner(fleet, asked):
    answer = all_nodes(fleet, "/debug?cluster=true&pretty", asked)
    assert answer["unanswered"] == []
    assert [node["node"] for node in answer["nodes"]] == names(fleet)
    assert [list(node["answer"]["Instances"]) for node in answer["nodes"]] == [
        [key] for key in KEYS]


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_the_command_line_shows_a_key_of_any_node(fleet, asked):
    node = fleet.nodes[asked]
    port = node.process.wait_for_message("ready")["nativePort"]
    address = f"{node.host}:{port}"
    for key in KEYS:
        result = run_binary("debug", "--json", key, "--address", address)
        assert (result.returncode, result.stderr) == (0, "")
        assert json.loads(result.stdout)["approved"] == 1
    result = run_binary("debug", "not there", "--address", address)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "\"not there\" is not live\n"


def test_only_nodes_without_the_key_have_another_status(fleet):
    answer = all_nodes(fleet, f"/debug/{KEYS[1]}?cluster=true")
    assert [node.get("status") for node in answer["nodes"]] == [404, None, 404]
    assert answer["nodes"][0]["answer"] == "Key not found"
    assert answer["nodes"][1]["answer"]["NumApprovedThisWindow"] == 1


def test_other_parameters_go_along(fleet):
    answer = all_nodes(fleet, f"/debug?prefix={KEYS[2]}&cl%75ster=true")
    assert [list(node["answer"]["Instances"]) for node in answer["nodes"]] == [[], [], [KEYS[2]]]
    assert [len(node["answer"]["shards"]) for node in
            all_nodes(fleet, "/top?cluster=true&keys=1")["nodes"]] == [
                node.shards for node in fleet.nodes]


def test_lists_under_v1_are_those_of_each_node(fleet):
    answer = all_nodes(fleet, "/v1/subjects?cluster=true&limit=5", 1)
    shown = [[subject["name"] for subject in node["answer"]["subjects"]]
             for node in answer["nodes"]]
    assert shown == [[subject] for subject in SUBJECTS]
    reserve(fleet.nodes[0].process, SUBJECTS[2])
    answer = all_nodes(fleet, "/v1/reservations?cluster=true")
    assert [len(node["answer"]["reservations"]) for node in answer["nodes"]] == [0, 0, 1]


@pytest.mark.parametrize("dry", ["true", "false"])
def test_reset_all_resets_every_node(fleet, dry):
    process = fleet.nodes[0].process
    spent = [name_at(node, 3, f"spent{dry}") for node in range(3)]
    for name in spent:
        put(process, name, {"name": "requests", "metric": "requests", "amount": 5,
                            "period_ms": 3_600_000})
        assert call(process, "record", {"subjects": [name], "requests": 3}).status == 200
    answer = all_nodes(fleet, f"/v1/reset-all?dry_run={dry}&cluster=true", method="POST")
    assert answer["unanswered"] == []
    assert all(node["answer"] == ({"dry_run": True} if dry == "true" else {})
               for node in answer["nodes"])
    used = [ask(process, "GET", f"/v1/subjects/{name}").json()["limits"][0]["used"]
            for name in spent]
    assert used == [3 if dry == "true" else 0] * 3


def test_wrong_requests_change_nothing(fleet):
    process = fleet.nodes[0].process
    assert ask(process, "GET", "/v1/subjects?cluster=true&cursor=00000000000000aa").status == 400
    assert ask(process, "POST", "/v1/reset-all?cluster=ture").status == 400
    answer = all_nodes(fleet, "/v1/subjects?cluster=true&limit=0")
    assert [node["status"] for node in answer["nodes"]] == [400] * 3


def test_silent_and_lost_nodes_are_named():
    with Fleet([OURS] * 3, *LONG_WINDOW, "--peer-timeout-millis", "500") as fleet:
        fleet.nodes[1].stop()
        os.kill(fleet.nodes[2].process.pid, signal.SIGSTOP)
        try:
            answer = all_nodes(fleet, "/debug?cluster=true")
        finally:
            os.kill(fleet.nodes[2].process.pid, signal.SIGCONT)
        fleet.nodes[1].start(OURS, fleet.urls, fleet.flags)
    assert [node["node"] for node in answer["nodes"]] == names(fleet)[:1]
    assert answer["unanswered"] == [
        {"node": names(fleet)[1], "reason": "Connection refused"},
        {"node": names(fleet)[2], "reason": "it does not answer"}]


def test_a_gocc_answers_what_it_knows():
    if not gocc():
        pytest.skip(why_no_gocc())
    with Fleet([OURS, GOCC], "-w", "60000") as fleet:
        keys = [name_at(node, 2) for node in range(2)]
        for key in keys:
            assert ask(fleet.nodes[0].process, "POST", f"/rate/{key}").status == 200
        answer = all_nodes(fleet, "/debug?cluster=true")
        assert answer["unanswered"] == []
        assert [list(node["answer"]["Instances"]) for node in answer["nodes"]] == [
            [key] for key in keys]
        assert all_nodes(fleet, "/top?cluster=true")["nodes"][1]["status"] == 404


def test_without_a_list_it_says_nothing(start_server):
    server = start_server()
    for target in ("/debug?cluster=true", "/v1/subjects?cluster=true"):
        alone, all_of_them = (ask(server, "GET", target[:-len(end)] if end else target)
                              for end in ("?cluster=true", ""))
        assert (alone.status, alone.body) == (all_of_them.status, all_of_them.body)
