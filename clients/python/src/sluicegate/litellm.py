"""A callback of LiteLLM that reserves before each call to a model, and settles the used amounts.

    litellm.callbacks = [sluicegate.litellm.SluicegateCallback("localhost:8081")]

Flow:   LiteLLM's proxy awaits async_pre_call_hook(), its SDK async_pre_call_deployment_hook(): they
        reserve, or raise an error of status 429. LiteLLM's events of success and of failure settle,
        which the blocking client does in the background. A reservation is found again by the
        call's id (litellm_call_id).
Units:  seconds; tokens; costs in micro-units of LiteLLM's currency.
Errors: fastapi.HTTPException in the proxy, litellm.RateLimitError in the SDK; those of the client
        when a server does not answer, by on_failure. A mistake in a call's arguments is status 400
        in the proxy, InvalidArgument in the SDK.
Bounds: at most reservations_max entries, each for two lifetimes; the oldest is forgotten then, and
        its reservation ends with its lifetime.
Lives:  an AsyncClient belongs to one event loop. It reserves only: no settle ends with a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import httpx
import litellm
from litellm.integrations.custom_logger import CustomLogger

from ._bounds import LIFETIME, MAX_OUTPUT_TOKENS, NUMBER_MAX, SUBJECTS, TIMEOUT, Bound
from ._invalid import InvalidArgument, InvalidType, seconds, whole
from ._quota_reservations import ReservationState, Used
from .aio import AsyncClient
from .client import Client
from .errors import Closed, QuotaDenied
from .quota import estimate_tokens

RESERVATIONS_MAX = Bound("reservations_max", 1, NUMBER_MAX)
MICRO = 1_000_000
CLOSE_S = 5.0  # for the client of another event loop
MODEL_BYTES_MAX = 256  # a server takes names of 1,024 bytes unless it has other flags
ANSWERS = Bound("n", 1, NUMBER_MAX)
REFUNDED = Used(0, 0, 0, 0, requests=0)
REQUEST_ALONE = Used(0, 0, 0, 0)
OUTPUT_MAXIMA = ("max_completion_tokens", "max_tokens", "max_output_tokens")
Question = Callable[[Any], Any]  # a function of a client; awaited where that is an AsyncClient


class Call(NamedTuple):
    """A call to a model, as LiteLLM is about to make it."""

    id: str
    model: str
    user: str | None
    team: str | None
    key: str | None  # LiteLLM's hash of the virtual key
    arguments: Mapping[str, Any]  # messages, max_tokens, metadata, ...


def subjects_of(call: Call) -> list[str]:
    """The model, and the user, team and key of the call, where it has them."""
    return [call.model, *(f"{kind}:{name}" for kind, name in (
        ("user", call.user), ("team", call.team), ("key", call.key)) if name)]


def input_tokens_of(call: Call) -> int:
    """A guess without network or tokenizer; what was used replaces it."""
    given = (call.arguments.get(name) for name in ("messages", "input", "prompt", "tools"))
    return sum(estimate_tokens(text) for value in given for text in texts_in(value))


def texts_in(value: Any) -> Iterable[str]:
    """All texts of a message, however they are nested, but not images and other data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in ("image_url", "input_audio", "file", "data"):
                yield from texts_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in(inner)


def output_tokens_of(call: Call) -> int | None:
    """The most that the model may answer; None: not given."""
    given = call.arguments
    name = next((name for name in OUTPUT_MAXIMA if given.get(name)), None)
    if name is None:
        return None
    limit = argument(Bound(name, 1, MAX_OUTPUT_TOKENS.most), given[name])
    answers = argument(ANSWERS, given.get("n") or 1)
    return whole(Bound(f"{name} times n", 1, MAX_OUTPUT_TOKENS.most), limit * answers)


def argument(bound: Bound, value: Any) -> int:
    """A number that may be written as "100" or 100.0, as LiteLLM's callers do."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidType(f"{bound.name} must be a whole number, not {value!r:.40}") from None
    return whole(bound, number)


def used_by(usage: Any, cost: float | None) -> Used:
    """Of a usage with the names of OpenAI's chat completions, or of its responses."""
    def number(*names: str, of: Any = usage) -> int | None:
        for name in names:
            value = of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)
            if value is not None:
                return int(value)
        return None

    def details() -> Any:
        for name in ("prompt_tokens_details", "input_tokens_details"):
            found = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
            if found is not None:
                return found
        return None

    tokens = number("prompt_tokens", "input_tokens")
    cached = number("cached_tokens", of=details()) or 0
    return Used(tokens, number("completion_tokens", "output_tokens"), min(cached, tokens or 0),
                round((cost or 0.0) * MICRO))


class Entry(NamedTuple):
    """A reservation on its way through LiteLLM. A settle by its plain id could not be recorded
    where the server has forgotten the reservation."""

    reservation: ReservationState
    ends_at: float


class Reserved:
    """The reservations of calls that run. Several may have one call id: those of retries, or of a
    proxy's clients that choose the same id. So each attempt claims one, and ends one."""

    def __init__(self, entries_max: int, kept: float, monotonic: Callable[[], float]) -> None:
        self._entries_max, self._kept, self._monotonic = entries_max, kept, monotonic
        self._lock = threading.Lock()  # LiteLLM's events come from its threads, too
        self._entries: OrderedDict[tuple[str, int], tuple[Entry, bool]] = OrderedDict()
        self._ids: dict[str, set[int]] = {}
        self._number = 0
        self._ending = 0

    def __len__(self) -> int:
        """With those that are just being settled."""
        with self._lock:
            return len(self._entries) + self._ending

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Around the end of a call: take() and its settle."""
        with self._lock:
            self._ending += 1
        try:
            yield
        finally:
            with self._lock:
                self._ending -= 1

    def add(self, call_id: str, reservation: ReservationState, is_claimed: bool) -> None:
        now = self._monotonic()
        with self._lock:
            self._number += 1
            self._entries[call_id, self._number] = (Entry(reservation, now + self._kept),
                                                    is_claimed)
            self._ids.setdefault(call_id, set()).add(self._number)
            while self._is_over(now):
                self._remove(*next(iter(self._entries)))

    def _is_over(self, now: float) -> bool:
        """There are too many, or the oldest has ended; the newest has not."""
        oldest, _ = next(iter(self._entries.values()))
        return len(self._entries) > self._entries_max or oldest.ends_at <= now

    def _remove(self, call_id: str, number: int) -> Entry:
        entry, _ = self._entries.pop((call_id, number))
        numbers = self._ids[call_id]
        numbers.discard(number)
        if not numbers:
            del self._ids[call_id]
        return entry

    def _find(self, call_id: str, is_claimed: bool) -> int | None:
        return min((number for number in self._ids.get(call_id, ())
                    if self._entries[call_id, number][1] == is_claimed), default=None)

    def claim(self, call_id: str) -> bool:
        """False: there is none that no attempt has claimed."""
        with self._lock:
            number = self._find(call_id, is_claimed=False)
            if number is not None:
                entry, _ = self._entries[call_id, number]
                self._entries[call_id, number] = (entry, True)
            return number is not None

    def take(self, call_id: str) -> Entry | None:
        """A claimed one, or else one of a call that LiteLLM makes without its SDK's hook."""
        with self._lock:
            number = self._find(call_id, is_claimed=True)
            if number is None:
                number = self._find(call_id, is_claimed=False)
            return None if number is None else self._remove(call_id, number)

    def take_unclaimed(self, call_id: str) -> Entry | None:
        with self._lock:
            number = self._find(call_id, is_claimed=False)
            return None if number is None else self._remove(call_id, number)


class SluicegateCallback(CustomLogger):  # type: ignore[misc]  # LiteLLM is too large for mypy
    """One for a process, as LiteLLM calls only one of a class: `litellm.callbacks =
    [SluicegateCallback(...)]`, or named in the proxy's configuration.

    `subjects(call)` are the names that a Call is charged to, at most 8. `input_tokens(call)` is the
    estimate that is reserved. `max_output_tokens` is for calls that give none; None: the server's
    default. `wait_limit` waits for room in the server's queue, up to so many seconds. `lifetime`
    must be longer than a call: after it the server ends the reservation. `options` are those of the
    clients (on_failure, timeout, ...).
    """

    def __init__(self, address: str | list[str], *,
                 subjects: Callable[[Call], Iterable[str]] = subjects_of,
                 input_tokens: Callable[[Call], int] = input_tokens_of,
                 max_output_tokens: int | None = None, wait_limit: float | None = None,
                 lifetime: float = 600.0, reservations_max: int = 65_536,
                 on_failure: Literal["error", "open", "closed"] = "error",
                 monotonic: Callable[[], float] = time.monotonic, **options: Any) -> None:
        super().__init__()
        self._subjects, self._input_tokens = subjects, input_tokens
        self._max_output_tokens, self._wait_limit = max_output_tokens, wait_limit
        self._lifetime = seconds(LIFETIME, lifetime)
        self._reserved = Reserved(whole(RESERVATIONS_MAX, reservations_max), 2 * self._lifetime,
                                  monotonic)
        self._make_async: Callable[[], AsyncClient] = lambda: AsyncClient(
            address, on_failure=on_failure, **options)
        self._client = Client(address, on_failure=on_failure, **options)
        self._async_clients: dict[asyncio.AbstractEventLoop, AsyncClient] = {}
        self._is_closed = False

    def _async_client(self) -> AsyncClient:
        if self._is_closed:
            raise Closed("the callback is closed")
        loop = asyncio.get_running_loop()
        client = self._async_clients.get(loop)
        if client is None:
            for ended in [other for other in list(self._async_clients) if other.is_closed()]:
                self._async_clients.pop(ended, None)
            client = self._async_clients[loop] = self._make_async()
        return client

    async def close(self, timeout: float = 5.0) -> None:
        """Closes all connections. Before that it waits until LiteLLM has reported the end of all
        calls, for at most `timeout` seconds; then until their settles are delivered, for at most
        `settle_timeout`."""
        deadline = time.monotonic() + seconds(TIMEOUT, timeout)
        while len(self._reserved) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._is_closed = True
        await asyncio.to_thread(self._client.close)
        clients, self._async_clients = self._async_clients, {}
        for loop, client in clients.items():
            await close_in(loop, client)

    # --- before a call

    def _call(self, arguments: Mapping[str, Any], identity: Any = None) -> Call:
        """`identity`: UserAPIKeyAuth of the proxy. The SDK has the user's own argument."""
        model = arguments.get("model")
        if not isinstance(model, str) or not model:
            raise InvalidArgument("model must be given by its name, as in "
                                  "litellm.acompletion(model=...): the callback does not get "
                                  "arguments by place")
        size = len(model.encode("utf-8", "surrogatepass"))
        if size > MODEL_BYTES_MAX:
            raise InvalidArgument(f"model has {size} bytes; at most {MODEL_BYTES_MAX}")
        if identity is None:
            metadata = arguments.get("metadata") or {}
            user, team, key = arguments.get("user"), metadata.get("user_api_key_team_id"), None
        else:
            user, team, key = identity.user_id, identity.team_id, identity.api_key
        return Call(str(arguments.get("litellm_call_id") or uuid.uuid4()), model, user, team, key,
                    arguments)

    def _named(self, call: Call) -> list[str]:
        names = list(dict.fromkeys(self._subjects(call)))
        if not SUBJECTS.least <= len(names) <= SUBJECTS.most:
            raise InvalidArgument(f"subjects must give {SUBJECTS.least} to {SUBJECTS.most} names, "
                                  f"not {len(names)}")
        return names

    def _output(self, call: Call) -> int | None:
        output = output_tokens_of(call)
        return self._max_output_tokens if output is None else output

    def _reserving(self, call: Call, output: int | None) -> Question:
        names, tokens = self._named(call), self._input_tokens(call)
        waits = self._wait_limit is not None
        return lambda client: client.reserve(
            names, lifetime=self._lifetime, wait=waits, wait_limit=self._wait_limit,
            input_tokens=tokens, max_output_tokens=output)

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any],
                                  call_type: str) -> None:
        """LiteLLM's proxy, before it chooses a deployment."""
        if not data.get("model"):
            return  # a call without a model, as of files or MCP
        from fastapi import HTTPException  # the proxy has it, the SDK need not

        try:
            call = self._call(data, user_api_key_dict)
            output = self._output(call)
        except InvalidArgument as mistake:  # of the proxy's client
            raise HTTPException(400, {"error": str(mistake)}) from mistake
        data["litellm_call_id"] = call.id
        try:
            reservation = await self._reserving(call, output)(self._async_client())
        except QuotaDenied as denied:
            # Without the names of subjects and amounts, which are not for the proxy's clients.
            raise HTTPException(429, {"error": f"{denied.code}: {denied.reason}"},
                                headers_of(denied)) from denied
        self._reserved.add(call.id, reservation, is_claimed=False)

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any],
                                             call_type: Any) -> None:
        """LiteLLM's SDK, before each attempt of an asynchronous call; in the proxy, too."""
        if self._reserved.claim(str(kwargs.get("litellm_call_id"))):
            return
        call = self._call(kwargs)
        try:
            reservation = await self._reserving(call, self._output(call))(self._async_client())
        except QuotaDenied as denied:
            raise rate_limit_error(denied, call) from denied
        self._reserved.add(call.id, reservation, is_claimed=True)

    def completion(self, **arguments: Any) -> Any:
        """litellm.completion() with a reservation: no hook can refuse LiteLLM's blocking calls."""
        call = self._call(arguments)
        try:
            reservation = self._reserving(call, self._output(call))(self._client)
        except QuotaDenied as denied:
            raise rate_limit_error(denied, call) from denied
        self._reserved.add(call.id, reservation, is_claimed=True)
        return litellm.completion(**arguments | {"litellm_call_id": call.id})

    # --- after a call

    def _succeeded(self, kwargs: Mapping[str, Any], response: Any) -> None:
        usage = response.get("usage") if isinstance(response, Mapping) else getattr(
            response, "usage", None)
        used = used_by(usage, kwargs.get("response_cost"))
        with self._reserved.ending():
            entry = self._reserved.take(str(kwargs.get("litellm_call_id")))
            # LiteLLM's own cache: no model was asked.
            self._settle(entry, REFUNDED if kwargs.get("cache_hit") else used)

    def _failed(self, kwargs: Mapping[str, Any]) -> None:
        """A stream that broke has used what it had answered until then."""
        partial = kwargs.get("combined_usage_object")
        used = (REQUEST_ALONE if partial is None
                else used_by(partial, kwargs.get("response_cost")))
        with self._reserved.ending():
            self._settle(self._reserved.take(str(kwargs.get("litellm_call_id"))), used)

    def _settle(self, entry: Entry | None, used: Used) -> None:
        """None: LiteLLM's blocking calls have no reservation, unless completion() made one.

        The blocking client repeats it from a thread, whatever becomes of the call's event loop.
        """
        if entry is not None:
            self._client.settle_nowait(entry.reservation, *used)

    async def async_log_success_event(self, kwargs: dict[str, Any], response_obj: Any,
                                      start_time: Any, end_time: Any) -> None:
        self._succeeded(kwargs, response_obj)

    async def async_log_failure_event(self, kwargs: dict[str, Any], response_obj: Any,
                                      start_time: Any, end_time: Any) -> None:
        self._failed(kwargs)

    async def async_post_call_failure_hook(self, request_data: dict[str, Any],
                                           original_exception: Exception, user_api_key_dict: Any,
                                           traceback_str: str | None = None) -> None:
        """The proxy: refunds a call that another hook refused before any attempt."""
        with self._reserved.ending():
            call_id = str(request_data.get("litellm_call_id"))
            self._settle(self._reserved.take_unclaimed(call_id), REFUNDED)

    def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any,
                          end_time: Any) -> None:
        self._succeeded(kwargs, response_obj)

    def log_failure_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any,
                          end_time: Any) -> None:
        self._failed(kwargs)


async def close_in(loop: asyncio.AbstractEventLoop, client: AsyncClient) -> None:
    """In the loop that the client belongs to. One that does not run has nothing to close it with,
    and the client has no calls."""
    if loop is asyncio.get_running_loop():
        await client.close()
    elif loop.is_running():
        closing = asyncio.run_coroutine_threadsafe(client.close(), loop)
        with contextlib.suppress(asyncio.TimeoutError):  # the loop has stopped, or is blocked
            await asyncio.wait_for(asyncio.wrap_future(closing), CLOSE_S)


def headers_of(denied: QuotaDenied) -> dict[str, str]:
    if not denied.retryable:
        return {"x-should-retry": "false"}  # as OpenAI's clients read it
    return {"retry-after": str(math.ceil(denied.retry_after or 0))}


def rate_limit_error(denied: QuotaDenied, call: Call) -> Exception:
    """LiteLLM's own error, whose headers its router reads."""
    provider = ""
    with contextlib.suppress(Exception):  # a model that LiteLLM does not know
        provider = litellm.get_llm_provider(call.model)[1]
    request = httpx.Request("POST", "https://sluicegate.invalid")  # a response must have one
    response = httpx.Response(429, headers=headers_of(denied), request=request)
    error: Exception = litellm.RateLimitError(str(denied), provider, call.model, response)
    return error
