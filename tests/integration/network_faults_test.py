"""Nodes that die, stand still, or are cut off: the others notice, answer by --peer-failure without
waiting, and go on when the node is back. A caller that leaves is missed by the owner at once.

Method: three nodes, each in a network namespace of its own, at a bridge in the namespace of this
process. A way is cut in one direction by an entry of the sender's neighbours that leads nowhere:
what it sends is lost without an error, as on a broken line. Needs root, for the namespaces. The
times that docs/nodes.md promises are printed; ten times as long is a failure."""

import contextlib
import ctypes
import os
import signal
import statistics
import subprocess
import time

import pytest

from fleet import OURS, Fleet, Life, Node, NodeProcess, free_ports, name_at
from http_peer import HttpPeer, ask, inspect
from server_process import LIBC, eventually

CLONE_NEWNET = 0x40000000
NODES = 3
NOTICED_S, FAILURE_S, WAITER_GONE_S = 1.0, 0.005, 0.1  # as documented
SLACK = 10
FAILURES = 500
NOWHERE = "02:00:00:00:00:01"
KEYS = [name_at(node, NODES) for node in range(NODES)]


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True).stdout


def why_not():
    """Why there can be no namespaces here; None: there can."""
    if os.geteuid() != 0:
        return "not root"
    probe = subprocess.run(
        ["unshare", "-n", "ip", "link", "add", "br0", "type", "bridge"], check=False,
        capture_output=True, text=True)
    return probe.stderr.strip() or "no network namespaces" if probe.returncode else None


pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")


@contextlib.contextmanager
def own_namespace():
    """This thread, and what it starts, is in a network namespace with a bridge."""
    with open("/proc/thread-self/ns/net") as before:
        assert LIBC.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            run("ip", "link", "set", "lo", "up")
            run("ip", "link", "add", "br0", "type", "bridge")
            run("ip", "address", "add", "10.77.0.254/24", "dev", "br0")
            run("ip", "link", "set", "br0", "up")
            yield
        finally:
            assert LIBC.setns(before.fileno(), CLONE_NEWNET) == 0


class CutNode(Node):
    """A node in a namespace of its own, which a process holds."""

    def __init__(self, number, port):
        super().__init__(number, f"10.77.0.{number + 1}", port)
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        mine = os.readlink("/proc/self/ns/net")
        eventually(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != mine, "its namespace")
        run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns",
            self.holder.pid)
        run("ip", "link", "set", f"to{number}", "master", "br0", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.host}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def enter(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--"]

    def run(self, *command):
        return run(*self.enter(), *command)

    def command(self, kind, urls, flags):
        return [*self.enter(), *super().command(kind, urls, flags)]

    def lose_what_goes_to(self, other):
        self.run("ip", "neigh", "replace", other.host, "lladdr", NOWHERE, "dev", "eth0", "nud",
                 "permanent")

    def deliver_again_to(self, other):
        self.run("ip", "neigh", "del", other.host, "dev", "eth0")

    def start_again(self, urls, flags):
        """After SIGKILL."""
        self.lives.append(Life(OURS, time.monotonic()))
        self.process = NodeProcess(self.command(OURS, urls, flags), self.host, self.port)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class CutFleet(Fleet):
    def __init__(self, *flags):
        self.nodes, self.flags = [], flags
        try:
            for number, port in enumerate(free_ports(NODES)):
                self.nodes.append(CutNode(number, port))
            self.urls = [node.url for node in self.nodes]
            for node in self.nodes:
                node.start(OURS, self.urls, flags)
            self._await_links()
        except BaseException:
            self._kill()
            raise

    def _kill(self):
        super()._kill()
        for node in self.nodes:
            node.close()

    def __exit__(self, error, *_):
        super().__exit__(error, *_)
        if not error:
            for node in self.nodes:
                node.close()


@pytest.fixture(scope="module")
def fleet():
    with own_namespace(), CutFleet("--max-requests", "1000000", "-w", "3600000") as nodes:
        yield nodes


def times_until(status, peer, key, bound_s):
    """Asks again and again until the answer has this status; returns how long that took."""
    began = time.monotonic()
    while time.monotonic() - began < bound_s:
        if peer.ask("POST", f"/rate/{key}").status == status:
            return time.monotonic() - began
    raise AssertionError(f"no {status} within {bound_s} s")


def p99(seconds):
    return statistics.quantiles(seconds, n=100)[-1]


def check(what, seconds, promised_s):
    print(f"{what}: {seconds * 1000:.1f} ms (promised: {promised_s * 1000:.0f})")
    assert seconds <= SLACK * promised_s, what


@contextlib.contextmanager
def killed(fleet):
    fleet.nodes[1].process.kill()
    yield
    fleet.nodes[1].start_again(fleet.urls, fleet.flags)


@contextlib.contextmanager
def paused(fleet):
    fleet.nodes[1].process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        fleet.nodes[1].process.signal(signal.SIGCONT)


def cut(*ways):
    """Each way is (from, to)."""
    @contextlib.contextmanager
    def fault(fleet):
        for sender, receiver in ways:
            fleet.nodes[sender].lose_what_goes_to(fleet.nodes[receiver])
        yield
        for sender, receiver in ways:
            fleet.nodes[sender].deliver_again_to(fleet.nodes[receiver])
    return fault


FAULTS = {"killed": killed, "paused": paused, "cut on the way there": cut((0, 1)),
          "cut on the way back": cut((1, 0)), "cut in both directions": cut((0, 1), (1, 0))}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_owner_is_lost_and_found_again(fleet, fault):
    with HttpPeer(fleet.nodes[0].process) as peer:
        assert peer.ask("POST", f"/rate/{KEYS[1]}").status == 200
        with FAULTS[fault](fleet):
            check(f"{fault}: noticed", times_until(502, peer, KEYS[1], 30), NOTICED_S)
            failures = []
            for _ in range(FAILURES):
                asked = time.monotonic()
                assert peer.ask("POST", f"/rate/{KEYS[1]}").status == 502
                failures.append(time.monotonic() - asked)
            check(f"{fault}: failures after that, p99", p99(failures), FAILURE_S)
            assert peer.ask("POST", f"/rate/{KEYS[0]}").status == 200
            assert peer.ask("POST", f"/rate/{KEYS[2]}").status == 200
        back = times_until(200, peer, KEYS[1], 30)
        print(f"{fault}: back after {back * 1000:.0f} ms")
    fleet._await_links()


def test_the_owner_misses_a_waiter_whose_caller_has_left(fleet):
    gone = []
    for attempt in range(20):
        key = name_at(1, NODES, f"wait{attempt}.")
        owner = fleet.nodes[1].process
        asked = ask(fleet.nodes[0].process, "POST", f"/rate/{key}?maxRequests=1")
        assert asked.status == 200
        with HttpPeer(fleet.nodes[0].process) as peer:
            peer.send(f"POST /rate/{key}?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            eventually(lambda key=key: inspect(owner, key)["NumWaiting"] == 1, "it waits")
        left = time.monotonic()
        eventually(lambda key=key: inspect(owner, key)["NumWaiting"] == 0, "the waiter is gone")
        gone.append(time.monotonic() - left)
    check("a remote waiter is gone after its caller, the slowest of 20", max(gone), WAITER_GONE_S)
