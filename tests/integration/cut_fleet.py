"""Fleets whose nodes can be cut off from each other, for tests of what the others do then.

Each node is in a network namespace of its own, at a bridge in the namespace of this process. A way
is cut in one direction by an entry of the sender's neighbours that leads nowhere: what it sends is
lost without an error, as on a broken line. Needs root, for the namespaces."""

import contextlib
import ctypes
import os
import signal
import subprocess

from fleet import OURS, Fleet, Node, free_ports
from server_process import LIBC, eventually

CLONE_NEWNET = 0x40000000
NODES = 3
NOWHERE = "02:00:00:00:00:01"


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
            self.await_links()
        except BaseException:
            self._kill()
            raise

    def _kill(self):
        super()._kill()
        for node in self.nodes:
            node.close()

    def await_lost(self, fault):
        """Until no worker has a link over a lost way: the loss of one that nobody uses is noticed
        later than that of others, and would come when the fault is over."""
        for sender, owner in lost_ways(fault):
            eventually(lambda ends=(self.nodes[sender], self.nodes[owner]):
                       ends[0].links_to(ends[1]) == 0, f"{fault}: {sender} has lost {owner}")

    def __exit__(self, error, *_):
        super().__exit__(error, *_)
        if not error:
            for node in self.nodes:
                node.close()


@contextlib.contextmanager
def killed(fleet):
    fleet.nodes[1].process.kill()
    try:
        yield
    finally:
        fleet.nodes[1].start(OURS, fleet.urls, fleet.flags)


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
        try:
            yield
        finally:
            for sender, receiver in ways:
                fleet.nodes[sender].deliver_again_to(fleet.nodes[receiver])
    return fault


# Of node 1, or of the way between it and node 0; mended at the end.
FAULTS = {"killed": killed, "paused": paused, "cut on the way there": cut((0, 1)),
          "cut on the way back": cut((1, 0)), "cut in both directions": cut((0, 1), (1, 0))}


def lost_ways(fault):
    """From which node which owner cannot be reached, nor answer."""
    return {(0, 1), (1, 0)} if fault.startswith("cut") else {(0, 1), (2, 1)}
