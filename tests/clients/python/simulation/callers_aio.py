"""Performs the scripts of callers.py as tasks of asyncio."""

import asyncio

from callers import Pause, next_step

from sluicegate import SluicegateError


async def perform(script, client, server):
    value = None
    while (step := next_step(script, value)) is not None:
        value = None
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            continue
        value = await invoke(step, client, server)


async def invoke(call, client, server):
    world, loop = server.world, asyncio.get_running_loop()
    call.started = world.now
    waited_for = asyncio.ensure_future(
        getattr(call.target or client, call.method)(*call.arguments, **call.options))
    timer = None

    def cancel():
        if waited_for.cancel():
            call.cancelled = world.now

    if call.cancel_after is not None:
        timer = loop.call_later(call.cancel_after, cancel)
    elif call.cancel_with is not None:  # right behind the answer, before the task has resumed
        server.book.when_seen[call.cancel_with] = lambda: loop.call_soon(cancel)
    try:
        value = await waited_for
        call.end(world.now, value)
        return value
    except (SluicegateError, asyncio.CancelledError) as error:
        call.end(world.now, error=error)
        return None
    finally:
        if timer is not None:
            timer.cancel()
