"""A fleet: nodes with one list of instances, each of them a gocc or a Sluicegate, of which one can
be replaced by the other while callers ask.

A gocc compares the host name of a request with that of the key's owner, without the port. So each
node has an address of its own, 127.0.0.1, 127.0.0.2 and so on, and a port of its own, since a gocc
listens on all addresses."""

import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time
from urllib.parse import unquote_to_bytes

import http_peer
from conftest import ENGINES
from gocc_program import gocc
from server_process import (LIBC, PR_SET_PDEATHSIG, ServerProcess, binary, clean_environment,
                            eventually)

GOCC, OURS = "gocc", "sluicegate"
# False: fleets of the tests have gocc alone.
OURS_TAKES_A_LIST = True
NO_URING = os.environ.get("SLUICEGATE_NO_URING") == "1"
NODE_ENGINES = [engine for engine in ENGINES if not (NO_URING and engine.startswith("uring"))]


def fnv1a(data):
    """FNV-1a of 32 bits."""
    value = 2_166_136_261
    for byte in data:
        value = (value ^ byte) * 16_777_619 % 2**32
    return value


def owner_of(name, nodes_count):
    """The place in the list of the key's owner; `name` is as in a path, percent-encoded."""
    return fnv1a(unquote_to_bytes(name)) % nodes_count


def name_at(node, nodes_count, name="name"):
    """A key or subject that begins with `name` and whose owner has that place in the list."""
    return next(f"{name}{number}" for number in range(1_000)
                if owner_of(f"{name}{number}", nodes_count) == node)


def secret_file(folder):
    """For --peer-secret-file: without one nodes forward no quota calls."""
    path = folder / "secret"
    path.write_text("correct horse battery staple\n")
    path.chmod(0o400)
    return path


def free_ports(count):
    """Below the range of the kernel for outgoing connections, which would take the port of a node
    while it is replaced."""
    local = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
    end = max(int(local.read_text().split()[0]), 20_000)
    ports = set()
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, end)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        ports.add(port)
    return list(ports)


class NodeProcess(ServerProcess):
    """A server at a certain address; it serves when the constructor returns."""

    def __init__(self, command, host, port):
        self.command, self.host, self.port = [str(word) for word in command], host, port
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=clean_environment(), text=True,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.pid = self.process.pid
        self.is_ending = False
        self.log, self.errors = [], []
        self._readers = [threading.Thread(target=self._read_log, daemon=True),
                         threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self._readers:
            reader.start()
        try:
            eventually(self._serves, f"it serves\n{self.output()}")
        except BaseException:
            self.kill()
            raise

    def _serves(self):
        assert self.is_running(), self.output()
        try:
            return http_peer.ask(self, "GET", "/healthz").status == 200
        except OSError:
            return False


@dataclasses.dataclass
class Life:
    """One process of a node. It decides between `spawned` and `ended` at most, and answers each
    request between `ready` and `ending`."""

    kind: str
    spawned: float
    ready: float = float("inf")
    ending: float = float("inf")
    ended: float = float("inf")


class Node:
    def __init__(self, number, host, port):
        self.number, self.host, self.port = number, host, port
        self.io, shards = NODE_ENGINES[number % len(NODE_ENGINES)].split("-")
        self.shards = int(shards)
        self.lives, self.process = [], None

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    @property
    def kind(self):
        return self.lives[-1].kind

    def links_of(self, owner):
        """To another node: each of our workers has one to a gocc, or to each shard of ours."""
        return self.shards * (owner.shards if owner.kind == OURS else 1)

    def lacks_links(self, nodes):
        """The other nodes to which links are missing; a gocc connects when it is asked."""
        if self.kind == GOCC:
            return []
        return [node.url for node in nodes
                if node is not self and self.links_of(node) != self.links_to(node)]

    def links_to(self, other):
        """Those that are open."""
        authority = other.url.removeprefix("http://")
        return http_peer.metrics(self.process)[f'sluicegate_node_links{{node="{authority}"}}']

    def command(self, kind, urls, flags):
        """`{node}` in a flag is the node's number."""
        own = [str(flag).replace("{node}", str(self.number)) for flag in flags]
        common = ["--port", self.port, "--instance-urls", ",".join(urls), *own]
        if kind == GOCC:
            return [gocc(), *common, "--log-level", "ERROR"]
        return [binary(), *common, "--bind", self.host, "--native-port", "0", "--io", self.io,
                "--shards", self.shards, "--pin=false", "--drain-millis", "3000"]

    def start(self, kind, urls, flags):
        life = Life(kind, time.monotonic())
        self.lives.append(life)
        self.process = NodeProcess(self.command(kind, urls, flags), self.host, self.port)
        life.ready = time.monotonic()

    def stop(self):
        """SIGTERM: a Sluicegate answers what it has; a gocc ends at once."""
        life = self.lives[-1]
        assert self.process.is_running(), self.process.output()
        life.ending = time.monotonic()
        code = self.process.stop()
        life.ended = time.monotonic()
        assert self.process.errors == [], self.process.output()
        assert code == (-signal.SIGTERM if life.kind == GOCC else 0), self.process.output()


class Fleet:
    """Nodes of these kinds, started when constructed."""

    def __init__(self, kinds, *flags, hosts=None):
        hosts = hosts or [f"127.0.0.{number + 1}" for number in range(len(kinds))]
        self.nodes = [Node(number, *address) for number, address in
                      enumerate(zip(hosts, free_ports(len(kinds)), strict=True))]
        self.urls = [node.url for node in self.nodes]
        self.flags = flags
        try:
            for node, kind in zip(self.nodes, kinds, strict=True):
                node.start(kind, self.urls, flags)
            self.await_links()
        except BaseException:
            self._kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error:
            self._kill()
            return
        for node in self.nodes:
            node.stop()

    def _kill(self):
        for node in self.nodes:
            if node.process:
                node.process.kill()

    def replace(self, number, kind):
        """Ends a node, and starts one of this kind at its address."""
        self.nodes[number].stop()
        self.start_again(number, kind)

    def start_again(self, number, kind=OURS):
        """A node that has ended."""
        self.nodes[number].start(kind, self.urls, self.flags)
        self.await_links()

    def await_links(self):
        """Before each of its workers has its links, a Sluicegate answers 502 for some keys."""
        for node in self.nodes:
            eventually(lambda node=node: not node.lacks_links(self.nodes),
                       f"{node.url} has its links\n{self.output()}")

    def output(self):
        return "\n".join(node.process.output()[-2_000:] for node in self.nodes if node.process)


@contextlib.contextmanager
def ending(nodes):
    """Nodes that a test starts itself: they are stopped at its end, and killed where it fails."""
    try:
        yield nodes
        for node in nodes:
            node.stop()
    finally:
        for node in nodes:
            if node.process:
                node.process.kill()


@contextlib.contextmanager
def quota_fleet(tmp_path, kinds, *flags):
    """The processes of a fleet that forwards quota calls; a test may end some of them."""
    with Fleet(kinds, "--peer-secret-file", secret_file(tmp_path), *flags) as fleet:
        for node in fleet.nodes:
            if node.kind == OURS:
                node.process.native_port = node.process.wait_for_message("ready")["nativePort"]
        yield [node.process for node in fleet.nodes]
        fleet.nodes = [node for node in fleet.nodes if node.process.is_running()]
