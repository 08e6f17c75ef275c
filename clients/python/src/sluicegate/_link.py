"""The blocking client's one connection: connects, sends, takes received bytes, and disconnects.

Flow:   _connect(): a socket, Hello and Welcome; _send_queued(): the frames that may be sent;
        _take(): received bytes. _lead.py chooses the thread that reads.
Units:  seconds.
Errors: after a loss the Dispatcher (_dispatcher.py) ends the calls by the failure policy.
Lives:  connects again after a loss, and in a forked child. Sending and taking happen under the
        client's lock; only the leader connects, and takes the lock for parts of it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from ._base import Base
from ._dispatcher import Settings
from ._sockets import WAIT_S_MAX, shut_down
from ._system import SYSTEM, System
from .errors import ConnectionLost, Unreachable

RECEIVE_BYTES = 65_536
# recv() in the kernel returns after this time, so that the leader can check deadlines. Unlike
# poll() it sets no high-resolution timer, which costs more than an answer on a virtual machine.
TICK_S = 0.05
TICK = struct.pack("ll", 0, round(TICK_S * 1e6))  # a timeval


class Link(Base):
    """Frames on a socket. The subclass LeaderFollowers chooses the thread that reads."""

    def __init__(self, address: str | Sequence[str], settings: Settings,
                 system: System = SYSTEM) -> None:
        super().__init__(address, settings, system.monotonic)
        self._system = system
        self._begin()

    def _begin(self) -> None:
        self._lock = self._system.lock()
        self._socket: socket.socket | None = None
        self._opening: socket.socket | None = None  # until its Welcome has arrived
        self._unsent = b""
        self._used = 0.0  # time of the last received bytes

    def _begin_in_child(self) -> None:
        """Starts afresh after a fork: connection and waiting threads belong to the parent."""
        if self._socket is not None:
            self._socket.close()
        was_closed = self._dispatcher.is_closed
        self._dispatcher = self._new_dispatcher()
        self._dispatcher.is_closed = was_closed
        self._begin()

    def _disconnect(self) -> None:
        """For close(): ends every outstanding call with Closed."""
        self._dispatcher.close()
        opened, self._socket = self._socket, None
        if opened is not None:
            shut_down(opened)  # wakes the leader
            opened.close()
        if self._opening is not None:
            shut_down(self._opening)

    def _signal_room(self) -> None:
        """Called after calls have ended: callers may wait for their room."""
        raise NotImplementedError

    # --- sending and taking

    def _send_queued(self) -> None:
        if self._socket is not None:
            frames = self._dispatcher.output()
            if frames:
                self._send(frames)

    def _send(self, frames: bytes) -> None:
        """Never blocks: the leader sends the rest. Welcome bounds it (outstandingBytesMax)."""
        assert self._socket is not None
        if self._unsent:
            frames = self._unsent + frames
        try:
            sent = self._socket.send(frames, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            sent = len(frames)  # the next read gets the cause, perhaps an Error frame
        self._unsent = frames[sent:]

    def _take(self, data: bytes, why: str) -> None:
        self._used = self._monotonic()
        try:
            if not data:
                raise ConnectionLost(why)
            self._dispatcher.receive(data)
        except ConnectionLost as error:
            self._drop(error)
        if self._dispatcher.wants_to_send or self._dispatcher.has_cleanup:
            self._send_queued()
        self._signal_room()

    def _drop(self, error: ConnectionLost) -> None:
        opened, self._socket = self._socket, None
        if opened is not None:
            self._log.lost(self._peer, error)
            opened.close()
        self._unsent = b""
        self._dispatcher.disconnected(error, self._monotonic())

    def _check_closed(self, why: str) -> None:
        """Takes received bytes, and does not wait for more."""
        if self._socket is None:
            return
        try:
            data = self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._take(data, why)

    def _disown(self, error: ConnectionLost) -> None:
        """Ends the connection: it leads to the wrong server."""
        with self._lock:
            if self._socket is not None:
                shut_down(self._socket)  # wakes the leader
            self._drop(error)
            self._signal_room()

    def _take_reports(self) -> None:
        """Takes what the server sends without being asked, while no call reads it."""
        try:
            with self._lock:
                if self._leader_is_absent():
                    self._check_closed("the server closed the idle connection")
        except BaseException:
            self._interrupted()
            raise

    def _leader_is_absent(self) -> bool:
        raise NotImplementedError

    def _interrupted(self) -> None:
        """Called when a signal handler raised while bytes were sent or taken."""
        raise NotImplementedError

    # --- connecting

    def _connect(self, deadline: float | None) -> None:
        """Called by the leader. Queued calls fail without a server, or during the backoff."""
        now = self._monotonic()
        with self._lock:
            if not self._dispatcher.may_connect(now):
                pause = self._dispatcher.backoff.not_before - now
                self._dispatcher.fail_queued(self._dispatcher.unreachable(now))
                self._signal_room()
            else:
                pause = 0.0
        if pause:
            if self._settings.requeue:  # otherwise no queued call is left
                self._pause(pause, deadline)
            return
        self._log.write()
        limit = now + self._settings.connect_timeout
        own_end = limit if deadline is None else min(limit, deadline)
        try:
            self._greet_any(own_end)
        except TimeoutError as error:
            own_time_is_over = own_end < limit and self._monotonic() >= own_end
            self._failed_to_connect(error, is_final=not own_time_is_over)
        except Exception as error:  # for example UnicodeError of a host's name
            self._failed_to_connect(error, is_final=True)

    def _pause(self, seconds: float, deadline: float | None) -> None:
        end = self._monotonic() + seconds
        if deadline is not None:
            end = min(end, deadline)
        while (left := end - self._monotonic()) > 0 and not self._dispatcher.is_closed:
            self._system.sleep(min(left, TICK_S))

    def _greet_any(self, end: float) -> None:
        """Tries one address after the other; each has an equal part of the time that is left."""
        addresses = self._addresses_to_try()
        for left, (host, port) in zip(range(len(addresses), 0, -1), addresses):
            now = self._monotonic()
            try:
                self._greet(host, port, now + (end - now) / left)
                return
            except Exception:
                if left == 1 or self._dispatcher.is_closed:
                    raise
                with self._lock:
                    self._dispatcher.connection = None

    def _greet(self, host: str, port: int, end: float) -> None:
        """Exchanges Hello and Welcome on a new socket; then the client uses it."""
        self._host = host
        opened = self._system.open_socket(host, port, max(0.001, end - self._monotonic()))
        try:
            with self._lock:
                self._stop_if_closed()
                self._opening = opened
                hello = self._dispatcher.connecting()
            opened.sendall(hello)
            while self.welcome is None:
                left = max(0.001, end - self._monotonic())
                opened.settimeout(min(left, WAIT_S_MAX))
                try:
                    data = opened.recv(RECEIVE_BYTES)
                except TimeoutError:
                    if left > WAIT_S_MAX:
                        continue
                    raise
                if not data:
                    raise ConnectionLost("the server closed the connection before its Welcome")
                with self._lock:
                    self._stop_if_closed()
                    self._dispatcher.receive(data)
            opened.settimeout(None)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TICK)
            self._reached = host, port
            with self._lock:
                self._adopt(opened)
            self._log.made(self._peer, self._version)
        except BaseException:
            opened.close()
            raise
        finally:
            self._opening = None

    def _stop_if_closed(self) -> None:
        if self._dispatcher.is_closed:
            raise ConnectionLost("the client was closed")

    def _adopt(self, opened: socket.socket) -> None:
        self._stop_if_closed()
        self._socket = opened
        self._used = self._monotonic()
        self._send_queued()

    def _failed_to_connect(self, cause: Exception, is_final: bool) -> None:
        error: ConnectionLost = Unreachable(f"{self.address}: {cause}")
        if isinstance(cause, ConnectionLost):
            error = type(cause)(f"{self.address}: {cause}")
        error.__cause__ = cause
        if is_final:
            self._log.failed(error)
        with self._lock:
            if not is_final:  # the leader's call timed out, not the attempt
                self._dispatcher.connection = None
                return
            self._dispatcher.disconnected(error, self._monotonic())
            self._dispatcher.fail_queued(error)
            self._signal_room()
