"""An owner with --state is started again under the same list: its windows, quotas and reservations
go on, and callers of the other nodes see no difference.

Method: three nodes with a state file each. Node 1 ends, by SIGTERM or, once everything is durable,
by SIGKILL, and starts again; all is asked for at the other two before and afterwards."""

import pytest

from fleet import OURS, Fleet, name_at, secret_file
from http_peer import ask, inspect
from quota_calls import call, put, reserve, tokens, used
from server_process import eventually
from state_calls import kill_now, wait_durable, wait_windows_durable

OWNER = 1
FLAGS = ("-m", "5", "--window-millis", "3600000", "--state-sync-millis", "20",
         "--state-window-millis", "60000")


@pytest.fixture
def fleet(tmp_path):
    with Fleet([OURS] * 3, *FLAGS, "--state", tmp_path / "state{node}.db",
               "--peer-secret-file", secret_file(tmp_path)) as nodes:
        yield nodes


def stopped(fleet):
    fleet.nodes[OWNER].stop()


def killed(fleet):
    owner = fleet.nodes[OWNER].process
    wait_windows_durable(owner)
    wait_durable(owner)
    kill_now(owner)


ENDS = {"stopped": stopped, "killed": killed}


@pytest.fixture(params=ENDS)
def start_again(request, fleet):
    def end_and_start():
        ENDS[request.param](fleet)
        fleet.start_again(OWNER)
        assert [node.process.is_running() for node in fleet.nodes] == [True] * 3
    return end_and_start


def statuses(fleet, entries, key):
    return [ask(fleet.nodes[entry].process, "POST", f"/rate/{key}").status for entry in entries]


def test_windows_go_on(fleet, start_again):
    keys = [name_at(OWNER, 3, f"key{number}.") for number in range(10)]  # of both shards
    for key in keys:
        assert statuses(fleet, [0, 2, 0], key) == [200] * 3
    start_again()
    for key in keys:
        assert inspect(fleet.nodes[OWNER].process, key)["NumApprovedThisWindow"] == 3
        assert statuses(fleet, [2, 0, 0, 2, 1], key) == [200, 200, 429, 429, 429]


def test_quotas_go_on(fleet, start_again):
    first, _, last = [node.process for node in fleet.nodes]
    subject = name_at(OWNER, 3, "model")
    put(first, subject, tokens(100))
    consumed = {"subjects": [subject], "input_tokens": 30}
    assert call(last, "consume", consumed).status == 200
    held = reserve(first, subject, input_tokens=20, lifetime_ms=600_000)["reservation"]
    start_again()
    for node in fleet.nodes:
        assert used(node.process, subject) == 50
    settled = call(last, "settle", {"reservation": held, "input_tokens": 5})
    assert (settled.status, settled.json()["input_tokens"]) == (200, 5)
    assert [call(node, "consume", consumed).status for node in (first, last, first)] == [
        200, 200, 429]
    assert [used(node.process, subject) for node in fleet.nodes] == [95] * 3


def test_a_reservation_of_several_nodes_goes_on(fleet, start_again):
    """Of which one, the home or another one, is started again."""
    first, _, last = [node.process for node in fleet.nodes]
    here, there = name_at(OWNER, 3, "model"), name_at(0, 3, "model")
    for subject in (here, there):
        put(last, subject, tokens(100))
    made = [reserve(last, *subjects, input_tokens=20, lifetime_ms=600_000)["reservation"]
            for subjects in ((here, there), (there, here))]
    start_again()
    for node in (first, last):
        assert [used(node, subject) for subject in (here, there)] == [40, 40]
    for node, reservation in zip((first, last), made, strict=True):
        settled = call(node, "settle", {"reservation": reservation, "input_tokens": 5})
        assert (settled.status, settled.json()["input_tokens"]) == (200, 5)
    for subject in (here, there):
        eventually(lambda subject=subject: used(first, subject) == 10, "each node has settled")
