"""A node whose name has several addresses is found at the one where it listens.

Method: two nodes on this machine, in mount namespaces with an /etc/hosts of their own. There the
second one's name has two addresses, and nobody listens at the one that the resolver names first.
Needs root, for the namespaces."""

import subprocess

import pytest

from fleet import OURS, Node, ending, free_ports, name_at
from http_peer import ask
from server_process import eventually

NAME = "node-b"
ADDRESSES = ["127.0.0.2", "127.0.0.9"]


def with_hosts(hosts, *command):
    """The command, with this file in place of /etc/hosts."""
    return ["unshare", "-m", "sh", "-c", f"mount --bind '{hosts}' /etc/hosts && exec \"$@\"", "sh",
            *command]


class NamedNode(Node):
    def __init__(self, number, host, port, hosts, name=None):
        super().__init__(number, host, port)
        self.hosts, self.name = hosts, name or host

    @property
    def url(self):
        return f"http://{self.name}:{self.port}"

    def command(self, kind, urls, flags):
        return with_hosts(self.hosts, *super().command(kind, urls, flags))


@pytest.fixture
def hosts(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n" + "".join(f"{one} {NAME}\n" for one in ADDRESSES))
    probe = subprocess.run(with_hosts(path, "true"), check=False, capture_output=True)
    if probe.returncode:
        pytest.skip(f"no mount namespaces: {probe.stderr}")
    return path


def resolved(hosts):
    """The name's addresses, in the resolver's order."""
    lines = subprocess.run(with_hosts(hosts, "getent", "ahosts", NAME), check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [line.split()[0] for line in lines if "STREAM" in line]


def test_a_node_is_found_at_an_address_that_is_not_the_first(hosts):
    in_order = resolved(hosts)
    assert sorted(in_order) == sorted(ADDRESSES)
    here, there = free_ports(2)
    nodes = [NamedNode(0, "127.0.0.1", here, hosts),
             NamedNode(1, in_order[-1], there, hosts, name=NAME)]
    urls = [node.url for node in nodes]
    with ending(nodes):
        for node in nodes:
            node.start(OURS, urls, ["-m", "2", "--window-millis", "3600000"])
        first, second = [node.process for node in nodes]
        eventually(lambda: not nodes[0].lacks_links(nodes), "it is connected")
        key = name_at(1, 2)
        assert [ask(node, "POST", f"/rate/{key}").status for node in (first, second, first)] == [
            200, 200, 429]
        assert ask(first, "GET", f"/debug/{key}?cluster=true").json()["unanswered"] == []
