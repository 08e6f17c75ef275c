"""What a node's metrics and log report of entries that another node answered too late, or sent to
the wrong one.

Method: fleets of two. One owner stands still (SIGSTOP) for longer than --peer-timeout-millis, but
is not taken for lost. Others have the list in another order than the node that they forward to.
"""

import contextlib

import pytest

from conftest import LONG_WINDOW
from fleet import OURS, Fleet, Node, ending, free_ports, name_at, secret_file
from http_peer import ask, inspect, metrics, totals
from native_peer import APPROVED, OWNER_UNREACHABLE, NativePeer
from quota_calls import call
from server_process import eventually

MISROUTED = ("another node forwards keys to this one that it does not own: start all nodes with "
             "the same --instance-urls, in the same order; of a gocc, keys with unusual escapes "
             "are no fault")


def of_node(asked, other, metric):
    return metrics(asked.process)[f'sluicegate_node_{metric}{{node="{other.host}:{other.port}"}}']


def approved(owner, key):
    return inspect(owner.process, key)["NumApprovedThisWindow"]


def keys_of(owner, count):
    return [name_at(owner, 2, f"key{number}.") for number in range(count)]


# ------------------------------------------------------------------------------------ late answers

def test_late_answers_are_counted_and_their_permits_released():
    flags = [*LONG_WINDOW, "-m", "5", "--peer-timeout-millis", "500", "--peer-silence-millis",
             "60000"]
    with Fleet([OURS] * 2, *flags) as fleet:
        asked, owner = fleet.nodes
        keys = keys_of(1, 7)
        asked.process.native_port = asked.process.wait_for_message("ready")["nativePort"]
        with NativePeer(asked.process) as peer:
            assert peer.ask(keys).verdicts == [APPROVED] * len(keys)
            assert [of_node(asked, owner, metric) for metric in ("failed_total", "late_total")] == (
                [0, 0])
            owner.process.pause()
            assert peer.ask(keys).verdicts == [OWNER_UNREACHABLE] * len(keys)
            assert ask(asked.process, "POST", f"/rate/{keys[0]}").status == 502
            assert of_node(asked, owner, "failed_total") == len(keys) + 1
            assert of_node(asked, owner, "late_total") == 0
            owner.process.resume()
            eventually(lambda: of_node(asked, owner, "late_total") == len(keys) + 1,
                       "all of them come late")
            eventually(lambda: [approved(owner, key) for key in keys] == [1] * len(keys),
                       "their permits are released")
        assert of_node(asked, owner, "late_total") == of_node(asked, owner, "failed_total")
        assert of_node(owner, asked, "late_total") == 0
        assert of_node(asked, owner, "links_lost_total") == 0


# -------------------------------------------------------------------------------------- misrouted

@contextlib.contextmanager
def lists_of_other_order(is_other, *flags):
    """Two nodes; the second one's list begins with itself, if `is_other`."""
    nodes = [Node(number, f"127.0.0.{number + 1}", port)
             for number, port in enumerate(free_ports(2))]
    urls = [node.url for node in nodes]
    with ending(nodes):
        nodes[0].start(OURS, urls, [*LONG_WINDOW, "-m", "5", *flags])
        nodes[1].start(OURS, urls[::-1] if is_other else urls,
                       [*LONG_WINDOW, "-m", "5", *flags])
        for node in nodes:
            eventually(lambda node=node: not node.lacks_links(nodes), f"{node.url} has its links")
            node.process.native_port = node.process.wait_for_message("ready")["nativePort"]
        yield nodes


def misrouted(node):
    return totals(node.process)["sluicegate_misrouted_total"]


def warnings(node):
    return [line["times"] for line in node.process.warnings() if line["message"] == MISROUTED]


@pytest.mark.parametrize("is_other", [False, True])
def test_entries_that_another_list_sends_here_are_counted(is_other):
    """Both nodes take a key of the second place for the other one's."""
    keys, count = keys_of(1, 6), 6 if is_other else 0
    with lists_of_other_order(is_other) as nodes, NativePeer(nodes[0].process) as peer:
        assert peer.ask(keys).verdicts == [APPROVED] * len(keys)
        assert [misrouted(node) for node in nodes] == [0, count]
        assert ask(nodes[0].process, "POST", f"/rate/{keys[0]}").status == 200
        assert [misrouted(node) for node in nodes] == [0, count + is_other]
        assert ask(nodes[1].process, "POST", f"/rate/{keys[0]}").status == 200
        assert [misrouted(node) for node in nodes] == [is_other, count + is_other]
        if not is_other:
            assert warnings(nodes[0]) == warnings(nodes[1]) == []
            return
        # At most one line a minute: the later ones are not there yet.
        for node in nodes:
            eventually(lambda node=node: warnings(node), "it warns")
        assert warnings(nodes[0]) == [1]
        assert len(warnings(nodes[1])) == 1 and 0 < warnings(nodes[1])[0] <= count + 1


def test_each_of_two_lists_has_a_count_of_its_own():
    """A forwarded entry is decided where it arrives: it does not go in circles."""
    (key,) = keys_of(1, 1)
    with lists_of_other_order(True) as nodes:
        for node in nodes:
            answers = [ask(node.process, "POST", f"/rate/{key}").status for _ in range(6)]
            assert answers == [200] * 5 + [429]


@pytest.mark.parametrize("is_other", [False, True])
def test_quota_calls_that_another_list_sends_here_are_counted(is_other, tmp_path):
    subject = name_at(1, 2, "subject")
    secret = ("--peer-secret-file", secret_file(tmp_path))
    with lists_of_other_order(is_other, *secret) as nodes:
        for _ in range(3):
            call(nodes[0].process, "consume", {"subjects": [subject]})
        assert [misrouted(node) for node in nodes] == [0, 3 * is_other]
