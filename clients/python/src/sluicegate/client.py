"""The client for threads: blocking calls, any number of threads on one connection.

Flow:   a call queues its request, sends as many frames as allowed, then waits (_caller.py). One
        waiting thread leads: it alone reads the socket, and hands the answers to the other threads
        (_lead.py). When its own answer has arrived, the next thread leads. So a single caller
        costs no thread switch, and many callers share frames.
Units:  seconds.
Errors: errors.py; a call ends with a result, an error or its time-out, whatever the server does.
Lives:  connects at the first call, and again at the first call after a loss. In a forked child the
        client starts afresh, with its own connection.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, overload

from . import _frames
from ._base import DEFAULT, Key, KeyState, Timeout, listed, unless_denied, with_details
from ._bounds import RELEASED_COST
from ._calls import AcquireCall, ForgetCall, HandleCall, Handles, InternCall, ReleaseCall
from ._dispatcher import Settings
from ._invalid import whole
from ._lead import ThreadResult
from ._kept_settles import report_kept
from ._node_lanes import NodeLanes
from ._node_quotas import NodeQuotas
from ._quota_client import QuotaCalls
from ._requests import AcquireOptions
from .verdict import KeyOutcome, Verdict, Verdicts


class Client(QuotaCalls):
    """Blocking client; the README explains the options."""

    _lanes: NodeLanes | None = None  # None: of a single address

    def __init__(self, address: str | Sequence[str], *, timeout: float | None = 30.0,
                 on_failure: Literal["error", "open", "closed"] = "error", requeue: bool = False,
                 pending_max: int = 65_536, when_full: Literal["block", "refuse"] = "block",
                 window: int = 4, frame_entries_max: int = 1024, connect_timeout: float = 5.0,
                 backoff: tuple[float, float] = (0.05, 5.0), shard: int | None = None,
                 kept_settles_max: int = 65_536, settle_timeout: float = 5.0,
                 client_name: str = "sluicegate-python", spin: float = 100e-6) -> None:
        super().__init__(address, Settings(client_name, shard, on_failure, requeue, pending_max,
                                           when_full, window, frame_entries_max, timeout,
                                           connect_timeout, backoff, spin, kept_settles_max,
                                           settle_timeout))
        if self._learns_nodes:
            self._lanes = NodeLanes(self)
            self._node_quotas = NodeQuotas(self, self._lanes)
        _CLIENTS.add(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every outstanding call with Closed. A closed client stays closed.

        Where settles are kept, the client first tries to deliver them, for `settle_timeout`.
        """
        self._settle_keeper.close(self._settings.settle_timeout)
        with self._lock:
            if not self._dispatcher.is_closed:
                self._disconnect()
                self._signal_room()
        if self._lanes is not None:
            self._lanes.close()

    def _close_if_idle(self) -> bool:
        """False: it has calls, which would end without their answers."""
        with self._lock:
            if self._dispatcher.pending:
                return False
            self._disconnect()
            self._signal_room()
        return True

    def _lane_client(self, host: str, port: int) -> Client:
        """For one node. It does not know the failure policy of losses, which home may answer."""
        settings = self._settings._replace(on_failure="error", requeue=False, shard=None)
        lane = Client.__new__(Client)
        QuotaCalls.__init__(lane, f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                            settings, self._system)
        lane._dispatcher.late_verdict = self._dispatcher.late_verdict
        _CLIENTS.add(lane)
        return lane

    def _begin_in_child(self) -> None:
        super()._begin_in_child()
        if self._lanes is not None:
            self._lanes.begin()

    # --- calls

    @overload
    def acquire(self, key: Key, cost: int = 1, *, wait: bool = ..., wait_limit: float | None = ...,
                max_requests: int | None = ..., max_requests_in_queue: int | None = ...,
                window: float | None = ..., details: Literal[False] = False,
                timeout: Timeout = ...) -> Verdict: ...
    @overload
    def acquire(self, key: Key, cost: int = 1, *, wait: bool = ..., wait_limit: float | None = ...,
                max_requests: int | None = ..., max_requests_in_queue: int | None = ...,
                window: float | None = ..., details: Literal[True],
                timeout: Timeout = ...) -> KeyOutcome: ...
    def acquire(self, key: Key, cost: int = 1, *, wait: bool = False,
                wait_limit: float | None = None, max_requests: int | None = None,
                max_requests_in_queue: int | None = None, window: float | None = None,
                details: bool = False, timeout: Timeout = DEFAULT) -> Verdict | KeyOutcome:
        """Acquires `cost` permits of one key. The Verdict is true when the server approved them.

        `max_requests`, `max_requests_in_queue` and `window` set the key's limit, queue length
        and window from now on, for all callers: max_requests=5, window=60 is 5 a minute.
        With `cost` 0 it is a look, which changes nothing and is approved. With details=True the
        result is a KeyOutcome: the Verdict, what remains of the limit, and when to try again.
        """
        options = self._acquire_options(cost, wait, wait_limit, max_requests,
                                        max_requests_in_queue, window, details)
        seconds = self._seconds(timeout, wait, wait_limit)
        lane = None if self._lanes is None else self._lanes.lane_of(key)
        answer: Verdict | KeyOutcome
        if lane is not None and self._lanes is not None:
            answer = self._lanes.run(
                lane, lambda client, left: client._acquire_here(key, options, wait, left), seconds,
                self._dispatcher.policy_verdict)
        else:
            answer = self._acquire_here(key, options, wait, seconds)
        return with_details(answer) if details else answer

    def _acquire_here(self, key: Key, options: AcquireOptions | None, wait: bool,
                      seconds: float | None) -> Any:
        """A Verdict, or a KeyOutcome where the options say so."""
        completion = ThreadResult()
        if options is not None or not self._acquire_directly(key, completion, seconds):
            self._run(completion,
                      lambda: self._dispatcher.submit_acquire(key, completion, options), seconds,
                      waits=wait, applies_policy=True)
        elif completion.error is not None:
            raise completion.error
        return completion.result

    def acquire_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                     wait: bool = False, wait_limit: float | None = None,
                     max_requests: int | Sequence[int] | None = None,
                     max_requests_in_queue: int | Sequence[int] | None = None,
                     window: float | Sequence[float] | None = None,
                     details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """Acquires each key independently: some may be approved and others denied.

        A list has a value for each key, a number holds for all. As with acquire(), a key keeps
        its `max_requests`, `max_requests_in_queue` and `window`.
        """
        wanted = listed(keys)
        options = self._batch_options(costs, wait, wait_limit, max_requests, max_requests_in_queue,
                                      window, details)
        seconds = self._seconds(timeout, wait, wait_limit)
        if self._lanes is not None:
            return self._lanes.acquire_many(wanted, options, seconds)
        completion = ThreadResult()
        call = AcquireCall(self._dispatcher, completion, wanted, options)
        verdicts: Verdicts = self._run_batch(completion, call, seconds)
        return verdicts

    def intern(self, keys: Iterable[Key], *, timeout: Timeout = DEFAULT) -> Handles:
        """Handles for keys: an array('I'). Raises NotInterned when a key gets none."""
        completion = ThreadResult()
        handles: Handles = self._run_batch(
            completion, InternCall(self._dispatcher, completion, listed(keys)),
            self._seconds(timeout, False, None))
        return handles

    def acquire_many_handles(self, handles: Any, costs: int | Sequence[int] | None = None, *,
                             max_requests: int | Sequence[int] | None = None,
                             max_requests_in_queue: int | Sequence[int] | None = None,
                             window: float | Sequence[float] | None = None,
                             details: int = 0, timeout: Timeout = DEFAULT) -> Verdicts:
        """acquire_many() for interned keys: `handles` is any buffer of their 32-bit handles.

        Raises StaleHandles when they are not of the current connection.
        """
        completion = ThreadResult()
        data = _frames.handle_bytes(handles)
        options = self._batch_options(costs, False, None, max_requests, max_requests_in_queue,
                                      window, details)
        seconds = self._seconds(timeout, False, None)
        with self._lock:
            self._check_idle()
            generation = self._dispatcher.generation_of(handles)
        call = HandleCall(self._dispatcher, completion, data, generation, options)
        verdicts: Verdicts = self._run_batch(completion, call, seconds)
        return verdicts

    def forget(self, handles: Any, *, timeout: Timeout = DEFAULT) -> None:
        """Frees the handles. They must not be used again: other keys may get them."""
        completion = ThreadResult()
        data = _frames.handle_bytes(handles)
        seconds = self._seconds(timeout, False, None)
        with self._lock:
            generation = self._dispatcher.generation_of(handles)
        self._run_batch(completion, ForgetCall(self._dispatcher, completion, data, generation),
                        seconds)

    def release(self, key: Key, cost: int = 1, *, timeout: Timeout = DEFAULT) -> None:
        """Releases permits, for example after work that was never done."""
        self.release_many([key], whole(RELEASED_COST, cost), timeout=timeout)

    def release_many(self, keys: Iterable[Key], costs: int | Sequence[int] | None = None, *,
                     timeout: Timeout = DEFAULT) -> None:
        wanted, seconds = listed(keys), self._seconds(timeout, False, None)
        if self._lanes is not None:
            self._lanes.release_many(wanted, costs, seconds)
            return
        completion = ThreadResult()
        self._run_batch(completion, ReleaseCall(self._dispatcher, completion, wanted, costs),
                        seconds)

    def reset_key(self, key: Key, *, timeout: Timeout = DEFAULT) -> None:
        """Releases all permits of the key's window. Its limits and the window's end stay."""
        self.release(key, RELEASED_COST.most, timeout=timeout)

    def inspect(self, key: Key, *, timeout: Timeout = DEFAULT) -> KeyState | None:
        """The state of a key; None when the server does not know it.

        Of several nodes only the owner knows it: raises Unreachable while that is not connected.
        """
        request = self._inspect_request(key)
        state: KeyState | None
        if self._lanes is None:
            state = self._run_control(request, timeout)
        else:
            state = self._lanes.ask_owner(
                key, lambda client, left: client._run_control(client._inspect_request(key), left),
                self._seconds(timeout, False, None))
        return state

    def inspect_all(self, *, timeout: Timeout = DEFAULT) -> Iterator[KeyState]:
        """All keys, a page at a time: `timeout` applies to each page."""
        cursor = 0
        while True:
            page, cursor = self._run_control(self._inspect_page_request(cursor), timeout)
            yield from page
            if not cursor:
                return

    def ping(self, *, timeout: Timeout = DEFAULT) -> None:
        self._run_control(self._ping_request, timeout)

    def _guard(self, function: Callable[..., Any], key_of: Callable[..., Key],
               options: dict[str, Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            key = key_of(*args, **kwargs)
            unless_denied(key, self.acquire(key, details=True, **options))
            return function(*args, **kwargs)
        return guarded


_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._begin_in_child()


atexit.register(report_kept, _CLIENTS)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
