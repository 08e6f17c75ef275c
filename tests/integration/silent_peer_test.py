"""The server notices within 30 s when a peer disappears silently, as when its cable is pulled.
Method: the server in one network namespace, its peers in another behind a virtual cable; then the
peers' address is removed, so that the server's packets are lost without an answer."""

import contextlib
import ctypes
import os
import subprocess
import time

import pytest

from conftest import ENGINES, LONG_WINDOW
from http_peer import HttpPeer, ask, request, totals
from native_peer import QUEUED, NativePeer, acquire_frame
from server_process import eventually

NOTICED_WITHIN_S = 30
ONE_OF_EACH_IO = {engine.split("-")[0]: engine for engine in ENGINES}.values()
SERVER_ADDRESS, PEER_ADDRESS = "10.231.17.1", "10.231.17.2"  # exist in the namespaces only
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def enter(namespace):
    """Moves this thread; sockets stay in the namespace in which they were created."""
    with open(namespace, "rb") as file:
        if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


class Namespace:
    """A network namespace that lives as long as its process, without a name in the file system."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "3600"],
                                        stderr=subprocess.PIPE, text=True)
        self.path = f"/proc/{self.process.pid}/ns/net"
        home = os.readlink("/proc/self/ns/net")
        eventually(lambda: self.process.poll() is not None or os.readlink(self.path) != home,
                   "the network namespace is there")
        if self.process.poll() is not None:
            pytest.skip(f"needs network namespaces: {self.process.stderr.read().strip()}")

    def ip(self, *arguments):
        return subprocess.run(["nsenter", f"--net={self.path}", "ip", *arguments],
                              check=True, capture_output=True, text=True).stdout

    @contextlib.contextmanager
    def inside(self):
        with open("/proc/thread-self/ns/net", "rb") as home:
            enter(self.path)
            try:
                yield
            finally:
                LIBC.setns(home.fileno(), CLONE_NEWNET)

    def close(self):
        self.process.kill()
        self.process.wait()


class Cable:
    """Two namespaces and the cable between them."""

    def __init__(self):
        self.near, self.far = Namespace(), Namespace()
        try:
            self.connect()
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"needs network namespaces: {error.stderr.strip()}")

    def connect(self):
        self.near.ip("link", "add", "cable", "type", "veth",
                     "peer", "name", "cable", "netns", str(self.far.process.pid))
        for namespace, address in ((self.near, SERVER_ADDRESS), (self.far, PEER_ADDRESS)):
            namespace.ip("address", "add", f"{address}/24", "dev", "cable")
            namespace.ip("link", "set", "cable", "up")
            namespace.ip("link", "set", "lo", "up")

    def pull(self):
        """The server keeps sending to the peers' hardware address, as to a router before them."""
        hardware = self.far.ip("-brief", "link", "show", "cable").split()[2]
        self.near.ip("neighbour", "replace", PEER_ADDRESS, "lladdr", hardware,
                     "dev", "cable", "nud", "permanent")
        self.far.ip("address", "del", f"{PEER_ADDRESS}/24", "dev", "cable")

    def close(self):
        for namespace in (self.near, self.far):
            namespace.close()


@pytest.fixture
def cable():
    cable = Cable()
    yield cable
    cable.close()


@pytest.mark.parametrize("engine", ONE_OF_EACH_IO, indirect=True)
def test_waiters_of_silent_peers_are_freed(start_server, cable, key):
    server = start_server(*LONG_WINDOW, "--max-requests", "1", bind=SERVER_ADDRESS,
                          preexec=lambda: enter(cable.near.path))
    with cable.near.inside():
        for name in ("idle", "served"):
            assert ask(server, "POST", f"/rate/{key}{name}").status == 200
    with cable.far.inside():
        peers = [HttpPeer(server) for _ in range(3)]
        native = NativePeer(server)
    for peer, name in zip(peers, ("idle", "idle", "served")):
        peer.send(request("POST", f"/rate/{key}{name}?canWait=true"))
    native.send(acquire_frame(9, [f"{key}idle"] * 5, flags=1))
    assert native.read("verdicts").verdicts == [QUEUED] * 5

    with cable.near.inside():
        def count(name):
            return totals(server)[f"sluicegate_{name}"]
        eventually(lambda: count("waiters") == 8, "all wait")
        cable.pull()
        pulled = time.monotonic()
        # One waiter is served: its answer is in flight and never acknowledged.
        assert ask(server, "DELETE", f"/rate/{key}served/1").status == 200
        assert count("waiters") == 7
        eventually(lambda: count("waiters") == 0 and count("connections") == 1,
                   "the server noticed", pulled + NOTICED_WITHIN_S - time.monotonic())
        assert time.monotonic() - pulled > 5, "the server noticed something else than the cable"
    for peer in (*peers, native):
        peer.close()
