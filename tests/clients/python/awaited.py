"""AsyncClient behind blocking calls, so that one test holds for both clients."""

import asyncio
import inspect
import threading

from server_process import TIMEOUT_S

from sluicegate import AsyncClient, AsyncReservation


class Awaited:
    """Each call runs in the event loop of a thread, and waits for its end there."""

    def __init__(self, wrapped, loop):
        self._wrapped, self._loop = wrapped, loop

    def __getattr__(self, name):
        value = getattr(self._wrapped, name)
        if not callable(value):
            return value

        def call(*arguments, **options):
            async def run():
                result = value(*arguments, **options)
                return await result if inspect.isawaitable(result) else result
            arguments = [getattr(each, "_wrapped", each) for each in arguments]
            result = asyncio.run_coroutine_threadsafe(run(), self._loop).result(4 * TIMEOUT_S)
            return (Awaited(result, self._loop) if isinstance(result, AsyncReservation)
                    else result)
        return call

    def __enter__(self):
        self.__getattr__("__aenter__")()
        return self

    def __exit__(self, *reason):
        self.__getattr__("__aexit__")(*reason)


class AwaitedClient(Awaited):
    """Takes what AsyncClient takes; its loop ends with the `with` block."""

    def __init__(self, *arguments, **options):
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()

        async def make():
            return AsyncClient(*arguments, **options)
        super().__init__(asyncio.run_coroutine_threadsafe(make(), loop).result(TIMEOUT_S), loop)

    def __exit__(self, *reason):
        super().__exit__(*reason)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()
