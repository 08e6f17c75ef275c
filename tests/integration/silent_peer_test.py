"""A peer that falls silent without a word, as when its cable is pulled, is noticed within 30 s.
Method: the server in one network namespace, its peers in another behind a virtual cable; then the
peers' address vanishes, so that what the server sends is lost without an answer."""

import contextlib
import ctypes
import os
import subprocess
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, request, totals
from native_peer import QUEUED, NativePeer, acquire_frame
from server_process import eventually

NOTICED_WITHIN_S = 30
SERVER_ADDRESS, PEER_ADDRESS = "10.231.17.1", "10.231.17.2"  # exist in the namespaces only
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def enter(namespace):
    """Moves this thread; sockets stay where they are made."""
    with open(namespace, "rb") as file:
        if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


class Cable:
    """Two namespaces and the cable between them."""

    def __init__(self):
        # Interface names have at most 15 characters.
        self.near, self.far = f"sluice{os.getpid()}a", f"sluice{os.getpid()}b"
        for name in (self.near, self.far):
            ip("netns", "add", name)
        ip("-n", self.near, "link", "add", "cable", "type", "veth",
           "peer", "name", "cable", "netns", self.far)
        for name, address in ((self.near, SERVER_ADDRESS), (self.far, PEER_ADDRESS)):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")

    @contextlib.contextmanager
    def inside(self, name):
        with open("/proc/thread-self/ns/net", "rb") as home:
            enter(f"/run/netns/{name}")
            try:
                yield
            finally:
                LIBC.setns(home.fileno(), CLONE_NEWNET)

    def pull(self):
        """The server goes on sending to the peers' hardware address, as to a router before them."""
        link = subprocess.run(["ip", "-n", self.far, "-brief", "link", "show", "cable"],
                              check=True, capture_output=True, text=True)
        ip("-n", self.near, "neighbour", "replace", PEER_ADDRESS, "lladdr", link.stdout.split()[2],
           "dev", "cable", "nud", "permanent")
        ip("-n", self.far, "address", "del", f"{PEER_ADDRESS}/24", "dev", "cable")

    def close(self):
        for name in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@pytest.fixture
def cable():
    cable = None
    try:
        cable = Cable()
    except subprocess.CalledProcessError as error:
        for name in (f"sluice{os.getpid()}a", f"sluice{os.getpid()}b"):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        pytest.skip(f"needs network namespaces: {error.stderr.strip()}")
    yield cable
    cable.close()


def test_waiters_of_silent_peers_are_freed(start_server, cable, key):
    near = f"/run/netns/{cable.near}"
    server = start_server(*LONG_WINDOW, "--max-requests", "1", bind=SERVER_ADDRESS,
                          preexec=lambda: enter(near))
    with cable.inside(cable.near):
        for name in ("idle", "served"):
            assert ask(server, "POST", f"/rate/{key}{name}").status == 200
    with cable.inside(cable.far):
        peers = [HttpPeer(server) for _ in range(3)]
        native = NativePeer(server)
    for peer, name in zip(peers, ("idle", "idle", "served")):
        peer.send(request("POST", f"/rate/{key}{name}?canWait=true"))
    native.send(acquire_frame(9, [f"{key}idle"] * 5, flags=1))
    assert native.read("verdicts").verdicts == [QUEUED] * 5

    with cable.inside(cable.near):
        def count(name):
            return totals(server)[f"sluicegate_{name}"]
        eventually(lambda: count("waiters") == 8, "all wait")
        cable.pull()
        pulled = time.monotonic()
        # One is answered: its answer is on its way, never to be acknowledged.
        assert ask(server, "DELETE", f"/rate/{key}served/1").status == 200
        assert count("waiters") == 7
        eventually(lambda: count("waiters") == 0 and count("connections") == 1,
                   "the server noticed", pulled + NOTICED_WITHIN_S - time.monotonic())
        assert time.monotonic() - pulled > 5, "the cable was not what they noticed"
    for peer in (*peers, native):
        peer.close()
