"""Storages of the package `limits`, so that Flask-Limiter, slowapi and others count in Sluicegate.

    import sluicegate.limits_storage                       # registers the schemes
    storage = limits.storage.storage_from_string("sluicegate://localhost:8081")
    storage = limits.storage.storage_from_string("async+sluicegate://node-1:8081,node-2:8081")

Units:  seconds.
Errors: those of the client, in limits.errors.StorageError where wrap_exceptions asks for it;
        InvalidArgument for a URI or option that is not valid.
Lives:  a storage connects with its first question, and reconnects as its client does. The one for
        asyncio belongs to one event loop.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple, TypeVar

from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage import SlidingWindowCounterSupport as AsyncSlidingWindowCounterSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage
from limits.storage.base import TimestampedSlidingWindow

from ._invalid import InvalidArgument, InvalidType
from ._limits_steps import PREFIX_BYTES_MAX, LimitsSteps, Steps
from ._limits_steps import StorageRefused as StorageRefused
from .aio import AsyncClient
from .client import Client
from .errors import SluicegateError

KEY_PREFIX = "limits:"
# How an option is read from a URI. A failure policy is not among them: that is the framework's.
OPTIONS = {"timeout": float, "connect_timeout": float, "client_name": str, "shard": int,
           "pending_max": int, "when_full": str}
Result = TypeVar("Result")


class Target(NamedTuple):
    addresses: list[str]
    key_prefix: str
    options: dict[str, Any]

    @property
    def address(self) -> str | list[str]:
        """One address, or the list by which a client learns the nodes."""
        return self.addresses if len(self.addresses) > 1 else self.addresses[0]


def parse_uri(uri: str, given: dict[str, Any]) -> Target:
    """Options of the query, and those given as keywords, which come first."""
    parts = urllib.parse.urlsplit(uri)
    addresses = [address.strip() for address in parts.netloc.split(",")]
    if not all(addresses) or parts.path.strip("/") or parts.fragment:
        raise InvalidArgument(f"uri must be like sluicegate://localhost:8081,node-2:8081?timeout=1,"
                              f" not {uri!r:.80}")
    options = {**dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True)), **given}
    key_prefix = options.pop("key_prefix", KEY_PREFIX)
    if not isinstance(key_prefix, str) or not 0 < len(key_prefix.encode()) <= PREFIX_BYTES_MAX:
        raise InvalidArgument(f"key_prefix must be a text of 1 to {PREFIX_BYTES_MAX} bytes, not "
                              f"{key_prefix!r:.40}: reset() clears the keys that begin with it")
    return Target(addresses, key_prefix,
                  {name: option(name, value) for name, value in options.items()})


def option(name: str, value: Any) -> Any:
    if name not in OPTIONS:
        raise InvalidArgument(f"{name!r:.40} is no option of this storage; there are key_prefix, "
                              f"wrap_exceptions, {', '.join(OPTIONS)}")
    if not isinstance(value, str):
        return value
    try:
        return OPTIONS[name](value)
    except ValueError:
        raise InvalidType(f"{name} must be a number, not {value!r:.40}") from None


class _Configured:
    """Both storages have a target, and the steps of each call."""

    base_exceptions = SluicegateError

    def _configure(self, uri: str, options: dict[str, Any]) -> None:
        self._target = parse_uri(uri, options)
        self._steps = LimitsSteps(self._target.key_prefix)


class SluicegateStorage(_Configured, Storage, MovingWindowSupport, SlidingWindowCounterSupport,
                        TimestampedSlidingWindow):
    """Blocking storage; docs/clients.md says where it differs from the storages of `limits`."""

    STORAGE_SCHEME = ["sluicegate"]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._configure(uri, options)
        self.client: Client = Client(self._target.address, **self._target.options)

    def close(self) -> None:
        self.client.close()

    def _run(self, steps: Steps[Result], client: Client | None = None) -> Result:
        try:
            question = next(steps)
            while True:
                try:
                    answer = question(client or self.client)
                    if isinstance(answer, Iterator):
                        answer = list(answer)
                except SluicegateError as error:
                    question = steps.throw(error)
                else:
                    question = steps.send(answer)
        except StopIteration as done:
            result: Result = done.value
            return result

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._run(self._steps.increment(key, expiry, amount))

    def get(self, key: str) -> int:
        return self._run(self._steps.count(key))

    def get_expiry(self, key: str) -> float:
        return self._run(self._steps.expiry(key))

    def check(self) -> bool:
        return self._run(self._steps.check())

    def reset(self) -> int | None:
        """Clears all keys with this storage's prefix, at each address of the URI."""
        cleared = 0
        for address in self._target.addresses:
            with Client(address, **self._target.options) as client:
                cleared += self._run(self._steps.reset(), client)
        return cleared

    def clear(self, key: str) -> None:
        self._run(self._steps.clear(key))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._run(self._steps.acquire_moving(key, limit, expiry, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return self._run(self._steps.moving_window(key, limit, expiry))

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int,
                                     amount: int = 1) -> bool:
        return self._run(self._steps.acquire_sliding(key, limit, expiry, amount))

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        return self._run(self._steps.sliding_window(key, expiry))

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._run(self._steps.clear_sliding(key, expiry))


class AsyncSluicegateStorage(_Configured, AsyncStorage, AsyncMovingWindowSupport,
                             AsyncSlidingWindowCounterSupport, TimestampedSlidingWindow):
    """SluicegateStorage, awaited; for limits.aio."""

    STORAGE_SCHEME = ["async+sluicegate"]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._configure(uri, options)
        self.client: AsyncClient = AsyncClient(self._target.address, **self._target.options)

    async def close(self) -> None:
        await self.client.close()

    async def _run(self, steps: Steps[Result], client: AsyncClient | None = None) -> Result:
        try:
            question = next(steps)
            while True:
                try:
                    asked = question(client or self.client)
                    answer = ([each async for each in asked] if isinstance(asked, AsyncIterator)
                              else await asked)
                except SluicegateError as error:
                    question = steps.throw(error)
                else:
                    question = steps.send(answer)
        except StopIteration as done:
            result: Result = done.value
            return result

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return await self._run(self._steps.increment(key, expiry, amount))

    async def get(self, key: str) -> int:
        return await self._run(self._steps.count(key))

    async def get_expiry(self, key: str) -> float:
        return await self._run(self._steps.expiry(key))

    async def check(self) -> bool:
        return await self._run(self._steps.check())

    async def reset(self) -> int | None:
        """Clears all keys with this storage's prefix, at each address of the URI."""
        cleared = 0
        for address in self._target.addresses:
            async with AsyncClient(address, **self._target.options) as client:
                cleared += await self._run(self._steps.reset(), client)
        return cleared

    async def clear(self, key: str) -> None:
        await self._run(self._steps.clear(key))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self._run(self._steps.acquire_moving(key, limit, expiry, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return await self._run(self._steps.moving_window(key, limit, expiry))

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int,
                                           amount: int = 1) -> bool:
        return await self._run(self._steps.acquire_sliding(key, limit, expiry, amount))

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        return await self._run(self._steps.sliding_window(key, expiry))

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        await self._run(self._steps.clear_sliding(key, expiry))
