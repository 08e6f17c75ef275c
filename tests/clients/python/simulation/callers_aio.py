"""Performs the scripts of callers.py as tasks of asyncio."""

import asyncio

from callers import Pause, next_step

from sluicegate import SluicegateError


async def perform(script, client, world):
    value = None
    while (step := next_step(script, value)) is not None:
        value = None
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            continue
        value = await invoke(step, client, world)


async def invoke(call, client, world):
    call.started = world.now
    waited_for = asyncio.ensure_future(
        getattr(call.target or client, call.method)(*call.arguments, **call.options))
    timer = None
    if call.cancel_after is not None:
        def cancel():
            call.cancelled = world.now
            waited_for.cancel()
        timer = asyncio.get_running_loop().call_later(call.cancel_after, cancel)
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
