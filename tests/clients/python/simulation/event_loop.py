"""An event loop of asyncio in simulated time, whose connections lead to the simulated server."""

import asyncio
import errno

from server import HANGS, REFUSED


class Selector:
    """Advances the world instead of waiting for descriptors."""

    def __init__(self, world):
        self._world = world

    def select(self, timeout):
        world = self._world
        end = float("inf") if timeout is None else world.now + timeout
        later = min(end, world.next_event)
        assert later != float("inf"), "nothing can run: every task waits"
        world.now = max(world.now, later)
        world.run_due()
        return []


class Loop(asyncio.BaseEventLoop):
    def __init__(self, world, server):
        super().__init__()
        self._world = world
        self._server = server
        self._selector = Selector(world)
        self._clock_resolution = 1e-6  # no finer than a float of many years

    def time(self):
        return self._world.now

    def _process_events(self, _):
        pass

    def _write_to_self(self):
        pass

    @property
    def timers(self):
        """Those that will run."""
        return [timer for timer in self._scheduled if not timer.cancelled()]

    async def create_connection(self, make_protocol, _host, _port):
        wire, delay = self._server.connect()
        if wire is HANGS:
            try:
                await self.create_future()
            finally:
                self._server.book.failed_attempts.append(self.time())
        await asyncio.sleep(delay)
        if wire is REFUSED:
            self._server.book.failed_attempts.append(self.time())
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        protocol = make_protocol()
        transport = Transport(self, wire, protocol)
        protocol.connection_made(transport)
        return transport, protocol


class Transport(asyncio.Transport):
    """The client's end of a Wire."""

    def __init__(self, loop, wire, protocol):
        super().__init__()
        self._loop = loop
        self._wire = wire
        self._protocol = protocol
        self._has_ended = False
        wire.attach(self)

    def arrived(self, data):
        self._loop.call_soon(self._deliver, data)

    def _deliver(self, data):
        if not self._has_ended:
            self._protocol.data_received(data)

    def broke(self, error):
        self._loop.call_soon(self._end, error)

    def _end(self, error):
        if not self._has_ended:
            self._has_ended = True
            self._protocol.connection_lost(error)

    def get_extra_info(self, name, default=None):
        return self if name == "socket" else default

    def setsockopt(self, *_):
        pass

    def write(self, data):
        if not self._has_ended:
            self._wire.from_client(data)

    def abort(self):
        self._wire.close_by_client()
        self._loop.call_soon(self._end, None)
