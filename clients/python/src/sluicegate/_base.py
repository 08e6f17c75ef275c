"""Shared by Client and AsyncClient: arguments to requests, answers to results, the decorator.

Errors: raises for arguments that cannot be sent, before anything is queued.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from . import _frames
from ._bounds import TIMEOUT, Bound
from ._calls import NO_OPTIONS, BatchOptions, each_of
from ._dispatcher import (Dispatcher, Settings, acquire_options, milliseconds, parse_address,
                          windows_ms)
from ._invalid import InvalidArgument, InvalidType, seconds, whole
from ._limited import Key as Key
from ._limited import acquire_arguments, check_key, key_function
from ._log import ConnectionLog
from ._requests import AcquireOptions, ControlRequest
from .errors import Denied
from .rates import Rate
from .verdict import Details, KeyOutcome, Verdict

Function = TypeVar("Function", bound=Callable[..., Any])


class Default:
    """Stands for the client's own time-out."""

    def __repr__(self) -> str:
        return "the client's"


DEFAULT = Default()
Timeout = float | None | Default
DETAILS = Bound("details", 0, int(Details.ALL))


class KeyState(NamedTuple):
    """The state of a key on the server."""

    key: bytes
    window: float  # in seconds
    max_requests: int
    max_requests_in_queue: int
    approved: int  # permits taken in this window
    denied: int
    waiting: int
    reset: float  # seconds until the window ends


def listed(keys: Iterable[Key]) -> Sequence[Key]:
    if isinstance(keys, (list, tuple)):
        return keys
    if isinstance(keys, (str, bytes)):
        raise InvalidType(f"keys is one key, {keys!r:.40}: pass a list of keys")
    return each_of(keys, "keys")


def key_bytes(key: Key) -> bytes:
    return _frames.encode_keys([key]).blob


def states(answer: _frames.InspectedAnswer) -> list[KeyState]:
    return [KeyState(key, window / 1000, limit, queue, approved, denied, waiting, reset / 1000)
            for key, window, limit, queue, approved, denied, waiting, reset in zip(
                answer.keys, answer.window_ms, answer.max_requests, answer.max_requests_in_queue,
                answer.approved, answer.denied, answer.waiting, answer.reset_ms)]


def first_state(answer: _frames.InspectedAnswer) -> KeyState | None:
    found = states(answer)
    return found[0] if found else None


class Base:
    def __init__(self, address: str | Sequence[str], settings: Settings,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._learns_nodes = isinstance(address, (list, tuple))
        addresses: list[Any] = list(address) if self._learns_nodes else [address]
        if not addresses:
            raise InvalidArgument("addresses is empty: give at least one, as localhost:8081")
        self._addresses = [parse_address(one) for one in addresses]
        self.address = ", ".join(addresses)
        self._monotonic = monotonic
        self._host = self._addresses[0][0]  # of the last attempt to connect
        self._reached: tuple[str, int] | None = None  # the address of the last connection
        self._settings = settings
        self._log = ConnectionLog()
        self._dispatcher = self._new_dispatcher()

    def _new_dispatcher(self) -> Dispatcher:
        return Dispatcher(self._settings, learns_nodes=self._learns_nodes)

    @property
    def welcome(self) -> _frames.Welcome | None:
        """The server's description of itself and its bounds; None without a connection."""
        connection = self._dispatcher.connection
        return None if connection is None else connection.welcome

    @property
    def _version(self) -> str:
        return self.welcome.server_version if self.welcome else "unknown"

    @property
    def is_usable(self) -> bool:
        """There is a connection, and the server does not shut down."""
        connection = self._dispatcher.connection
        return connection is not None and connection.takes_requests

    @property
    def _peer(self) -> str:
        """Where the present connection leads, for the log."""
        host, port = self._reached or self._addresses[0]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _addresses_to_try(self) -> list[tuple[str, int]]:
        """Where the caller gave a list: the last one that answered, so that a short loss changes
        no home; then the caller's; then those that a server named.
        """
        topology = self._dispatcher.topology
        named = [(node.host, node.native_port) for node in topology.nodes
                 if node.host and node.native_port] if topology else []
        addresses = list(dict.fromkeys([*self._addresses, *named]))
        addresses.sort(key=lambda address: address != self._reached)
        return addresses

    def _seconds(self, timeout: Timeout, wait: bool, wait_limit: float | None) -> float | None:
        """The client's time-out does not end a wait in the queue, only the call's own does."""
        if not isinstance(timeout, Default):
            return None if timeout is None else seconds(TIMEOUT, timeout)
        own = self._settings.timeout
        if not wait:
            return own
        if wait_limit is None or own is None:
            return None
        return milliseconds(wait_limit) / 1000 + own

    @staticmethod
    def _acquire_options(cost: int, wait: bool, wait_limit: float | None, max_requests: int | None,
                         max_requests_in_queue: int | None,
                         window: float | None, details: bool) -> AcquireOptions | None:
        """None: the defaults."""
        if (cost == 1 and not wait and wait_limit is None and max_requests is None
                and max_requests_in_queue is None and window is None and not details):
            return None
        return acquire_options(cost, wait, wait_limit, max_requests, max_requests_in_queue,
                               window, details)

    @staticmethod
    def _batch_options(costs: int | Sequence[int] | None, wait: bool, wait_limit: float | None,
                       max_requests: int | Sequence[int] | None,
                       max_requests_in_queue: int | Sequence[int] | None,
                       window: float | Sequence[float] | None,
                       details: int) -> BatchOptions:
        options = BatchOptions(costs, max_requests, max_requests_in_queue, bool(wait),
                               milliseconds(wait_limit),
                               whole(DETAILS, details), windows_ms(window))
        return NO_OPTIONS if options == NO_OPTIONS else options

    def _inspect_request(self, key: Key) -> Callable[[Any], ControlRequest]:
        wanted = key_bytes(key)
        if not wanted:
            raise InvalidArgument("the key is empty: inspect_all() shows all keys")
        return lambda completion: ControlRequest(
            self._dispatcher, completion, lambda frame_id: _frames.encode_inspect(frame_id, wanted),
            _frames.InspectedAnswer, first_state)

    def _inspect_page_request(self, cursor: int) -> Callable[[Any], ControlRequest]:
        return lambda completion: ControlRequest(
            self._dispatcher, completion,
            lambda frame_id: _frames.encode_inspect(frame_id, cursor=cursor),
            _frames.InspectedAnswer, lambda answer: (states(answer), answer.cursor))

    def _ping_request(self, completion: Any) -> ControlRequest:
        return ControlRequest(self._dispatcher, completion, _frames.encode_ping,
                              _frames.PongAnswer, lambda answer: None)

    def limited(self, key: Key | Callable[..., Key], rate: str | Rate | None = None,
                **options: Any) -> Callable[[Function], Function]:
        """A decorator: acquires before each call, and raises Denied instead of calling.

        `key` is a format of the arguments' names, such as "login:{user}", or a function of the
        arguments; `rate` is such as "5/minute" and sets max_requests and window. `options` are
        those of acquire(): cost, wait, wait_limit, timeout, ... A mistake in any of them raises
        here, not at the first call.
        """
        check_key(key)
        arguments = acquire_arguments(rate, options)
        self._seconds(options.get("timeout", DEFAULT), bool(options.get("wait")),
                      options.get("wait_limit"))

        def decorate(function: Function) -> Function:
            guarded = self._guard(function, key_function(key, function), arguments)
            return functools.wraps(function)(guarded)  # type: ignore[return-value]
        return decorate

    def _guard(self, function: Callable[..., Any], key_of: Callable[..., Key],
               options: dict[str, Any]) -> Callable[..., Any]:
        raise NotImplementedError


def with_details(answer: Verdict | KeyOutcome) -> KeyOutcome:
    """The failure policy answers by a Verdict."""
    return KeyOutcome(answer) if isinstance(answer, Verdict) else answer


def unless_denied(key: Key, outcome: KeyOutcome) -> None:
    if not outcome:
        raise Denied(key, outcome)
