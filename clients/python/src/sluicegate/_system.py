"""What the blocking client takes from the system: its clock, locks, threads and sockets.

Shape:  a parameter of the client's inner classes, so that a simulation can pass its own.
Units:  seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from . import _sockets


class System:
    """The real one."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    lock = staticmethod(threading.Lock)
    event = staticmethod(threading.Event)
    open_socket = staticmethod(_sockets.open_socket)
    poll_once = staticmethod(_sockets.poll_once)

    def start_thread(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()


SYSTEM = System()
