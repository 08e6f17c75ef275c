"""What the blocking client takes from the system: its clock, locks, threads and sockets.

Shape:  a parameter of the client's inner classes, so that a simulation can pass its own.
Units:  seconds.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from . import _sockets


class System:
    """The real one."""

    monotonic: staticmethod[[], float] = staticmethod(time.monotonic)
    sleep: staticmethod[[float], None] = staticmethod(time.sleep)
    lock: staticmethod[[], threading.Lock] = staticmethod(threading.Lock)
    event: staticmethod[[], threading.Event] = staticmethod(threading.Event)
    open_socket: staticmethod[[str, int, float], socket.socket] = staticmethod(_sockets.open_socket)

    @staticmethod
    def poll_once(opened: socket.socket, write: bool, wait_s: float, *,
                  read: bool = True) -> tuple[bool, bool]:
        return _sockets.poll_once(opened, write, wait_s, read=read)

    def start_thread(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()


SYSTEM = System()
