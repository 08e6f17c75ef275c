"""TCP connections of both clients: options, polling and shutdown.

Units:  seconds.
Errors: OSError; poll_once() raises ValueError for a socket that was closed meanwhile.
"""

from __future__ import annotations

import math
import select
import socket


# poll() takes an int of milliseconds, and of a longer time-out of a socket the interpreter takes
# the lower bits: 50 days could end after a second.
WAIT_S_MAX = 1_000_000.0


def open_socket(host: str, port: int, timeout: float) -> socket.socket:
    """Connects, without delay for small frames, and with detection of a vanished peer.

    The kernel gives up long before WAIT_S_MAX.
    """
    opened = socket.create_connection((host, port), min(timeout, WAIT_S_MAX))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(opened)
    return opened


def keep_alive(opened: socket.socket) -> None:
    """Makes the kernel detect a peer that vanished silently within half a minute."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4),
                        ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def poll_once(opened: socket.socket, write: bool, wait_s: float, *,
              read: bool = True) -> tuple[bool, bool]:
    """Returns (readable, writable), both true when it is broken; ValueError when it was closed."""
    poll = select.poll()
    poll.register(opened, (select.POLLIN if read else 0) | (select.POLLOUT if write else 0))
    events = sum(found for _, found in poll.poll(math.ceil(wait_s * 1000)))
    broken = bool(events & (select.POLLERR | select.POLLHUP | select.POLLNVAL))
    return (read and (broken or bool(events & select.POLLIN)),
            broken or bool(events & select.POLLOUT))


def shut_down(opened: socket.socket) -> None:
    try:
        opened.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
