"""The asyncio client's one connection: connects, sends, receives and disconnects.

Flow:   _flush_soon(): sends the requests of one loop iteration together at its end; without a
        connection it makes one: Hello and Welcome. _Protocol: the bytes of one connection.
Units:  seconds.
Errors: after a loss the Dispatcher (_dispatcher.py) ends the calls by the failure policy.
Lives:  connects again after a loss.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from typing import cast

from ._base import Base
from ._dispatcher import Settings
from ._sockets import keep_alive
from .errors import ConnectionLost, Unreachable


class AsyncLink(Base):
    """Frames on a transport of the loop that the client belongs to."""

    def __init__(self, address: str | Sequence[str], settings: Settings,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(address, settings, monotonic)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: asyncio.Transport | None = None
        self._protocol: _Protocol | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._flush_is_due = False
        self._sealing: asyncio.TimerHandle | None = None

    async def _disconnect(self) -> None:
        """For close()."""
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait([connecting])
        protocol, self._protocol, self._transport = self._protocol, None, None
        if protocol is not None:
            protocol.transport.abort()  # all calls are complete: nothing is left to be sent
            await protocol.closed

    def _end_in_child(self) -> None:
        """The connection is the parent's: nothing may be written there, nor closed."""
        self._dispatcher.is_closed = True
        self._loop = self._transport = self._protocol = None

    def _make_room(self) -> None:
        """Called after calls have ended: callers may wait for their room."""
        raise NotImplementedError

    def _seal(self) -> None:
        """Bounds how long entries gather."""
        raise NotImplementedError

    # --- sending and taking

    def _flush_soon(self) -> None:
        if not self._flush_is_due and self._loop is not None:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        dispatcher = self._dispatcher
        if self._transport is not None:
            frames = dispatcher.output()
            if frames:
                self._transport.write(frames)
        elif dispatcher.wants_to_send and self._connecting is None and not dispatcher.is_closed:
            self._connect_or_fail()
        if self._sealing is None and dispatcher.is_gathering:
            self._seal()

    def _received(self, data: bytes) -> None:
        """Called by the protocol; raises ConnectionLost when the connection is unusable."""
        self._dispatcher.receive(data)
        if self._dispatcher.wants_to_send or self._dispatcher.has_cleanup:
            self._flush()
        self._make_room()

    def _lost(self, protocol: _Protocol, error: ConnectionLost) -> None:
        if protocol is not self._protocol:
            return
        assert self._loop is not None
        self._transport = self._protocol = None
        self._dispatcher.disconnected(error, self._loop.time())
        self._make_room()
        self._flush_soon()
        self._log.lost(self._peer, error)
        self._log.write()

    def _disown(self, error: ConnectionLost) -> None:
        """Ends the connection: it leads to the wrong server."""
        protocol = self._protocol
        if protocol is not None:
            protocol._end(error)
            protocol.transport.abort()

    # --- connecting

    def _connect_or_fail(self) -> None:
        assert self._loop is not None
        now = self._loop.time()
        if self._dispatcher.may_connect(now) or self._settings.requeue:
            self._connecting = self._loop.create_task(self._connect())
        else:
            self._dispatcher.fail_queued(self._dispatcher.unreachable(now))
            self._make_room()

    async def _connect(self) -> None:
        assert self._loop is not None
        await asyncio.sleep(max(0.0, self._dispatcher.backoff.not_before - self._loop.time()))
        error: ConnectionLost
        try:
            await asyncio.wait_for(self._greet_any(), self._settings.connect_timeout)
            self._connecting = None
            self._flush()
            return
        except asyncio.TimeoutError:
            error = Unreachable(f"{self.address}: no Welcome within "
                                f"{self._settings.connect_timeout} s")
        except ConnectionLost as lost:
            error = type(lost)(f"{self.address}: {lost}")
            error.__cause__ = lost
        except Exception as cause:  # for example UnicodeError of a host's name
            error = Unreachable(f"{self.address}: {cause}")
            error.__cause__ = cause
        self._connecting = None
        self._dispatcher.disconnected(error, self._loop.time())
        self._dispatcher.fail_queued(error)
        self._make_room()
        self._flush_soon()  # with requeue, queued calls cause another attempt
        self._log.failed(error)

    async def _greet_any(self) -> None:
        """Tries one address after the other; each has an equal part of the time that is left."""
        assert self._loop is not None
        addresses = self._addresses_to_try()
        end = self._loop.time() + self._settings.connect_timeout
        for left, (host, port) in zip(range(len(addresses), 0, -1), addresses):
            try:
                if left == 1:
                    await self._greet(host, port)
                else:
                    part = (end - self._loop.time()) / left
                    await asyncio.wait_for(self._greet(host, port), max(0.001, part))
                return
            except Exception:
                if left == 1 or self._dispatcher.is_closed:
                    raise
                self._dispatcher.connection = None

    async def _greet(self, host: str, port: int) -> None:
        """Sends Hello and awaits Welcome; then the client uses the connection."""
        assert self._loop is not None
        self._host = host
        transport, protocol = await self._loop.create_connection(
            lambda: _Protocol(self), host, port)
        try:
            opened = transport.get_extra_info("socket")
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(opened)
            transport.write(self._dispatcher.connecting())
            await protocol.welcomed
            if protocol.error is not None:
                raise protocol.error
        except BaseException:
            transport.abort()
            raise
        self._transport, self._protocol = transport, protocol
        self._reached = host, port
        self._log.made(self._peer, self._version)


class _Protocol(asyncio.Protocol):
    """The bytes of one connection."""

    transport: asyncio.Transport

    def __init__(self, client: AsyncLink) -> None:
        self._client = client
        loop = asyncio.get_running_loop()
        self.welcomed: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.error: ConnectionLost | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        if self.error is not None or self._client._dispatcher.is_closed:
            return
        try:
            self._client._received(data)
        except ConnectionLost as error:
            self._end(error)
            self.transport.abort()
            return
        if not self.welcomed.done() and self._client.welcome is not None:
            self.welcomed.set_result(None)

    def connection_lost(self, cause: Exception | None) -> None:
        self._end(ConnectionLost("the server closed the connection" if cause is None
                                 else f"the connection broke: {cause}"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _end(self, error: ConnectionLost) -> None:
        if self.error is not None:
            return
        self.error = error
        if not self.welcomed.done():
            self.welcomed.set_exception(error)
        self._client._lost(self, error)
