"""Both event loops, and waiting for threads in a coroutine without blocking its loop."""

import asyncio

import pytest
import uvloop
from server_process import TIMEOUT_S


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine to its end."""
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

    def run(coroutine):
        with asyncio.Runner(loop_factory=loops[request.param]) as runner:
            return runner.run(asyncio.wait_for(coroutine, 2 * TIMEOUT_S))
    return run


def wait_in_executor(event):
    """Waits for a thread's event without blocking the loop."""
    return asyncio.get_running_loop().run_in_executor(None, event.wait, TIMEOUT_S)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)
