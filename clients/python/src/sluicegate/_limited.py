"""Checks the limit of a function or an endpoint when it is made, so that a mistake shows at the
start of a program and not at its first call.

Flow:   arguments of limited() or of a web integration -> those of acquire().
Errors: InvalidArgument, which names the argument.
"""

from __future__ import annotations

import inspect as introspection
import re
import string
from collections.abc import Callable, Iterable
from typing import Any

from ._bounds import KEY_BYTES
from ._dispatcher import acquire_options
from ._invalid import InvalidArgument, InvalidType, fitting, utf8
from .rates import Rate, parse_rate

Key = str | bytes
OPTIONS = ("cost", "max_requests", "max_requests_in_queue", "window", "wait", "wait_limit",
           "timeout")
CONVERSIONS = (None, "r", "s", "a")  # of a field in a format string


def acquire_arguments(rate: str | Rate | None, options: dict[str, Any]) -> dict[str, Any]:
    """The named arguments of acquire(), checked but for `timeout`."""
    for name in options:
        if name not in OPTIONS:
            raise InvalidArgument(f"{name!r:.40} is no option: there are rate, "
                                  f"{', '.join(OPTIONS)}")
    arguments = options | _of_rate(rate, options)
    if arguments.get("wait_limit") is not None and not arguments.get("wait"):
        raise InvalidArgument("wait_limit is given without wait: add wait=True")
    _check_values(**{name: value for name, value in arguments.items() if name != "timeout"})
    return arguments


def _of_rate(rate: str | Rate | None, options: dict[str, Any]) -> dict[str, float]:
    if rate is None:
        return {}
    for name in ("max_requests", "window"):
        if options.get(name) is not None:
            raise InvalidArgument(f"rate and {name} are both given: a rate sets max_requests and "
                                  "window")
    wanted = parse_rate(rate)
    return {"max_requests": wanted.requests, "window": wanted.period}


def _check_values(cost: int = 1, wait: bool = False, wait_limit: float | None = None,
                  max_requests: int | None = None, max_requests_in_queue: int | None = None,
                  window: float | None = None) -> None:
    acquire_options(cost, wait, wait_limit, max_requests, max_requests_in_queue, window)
    if max_requests is not None and cost > max_requests:
        raise InvalidArgument(f"cost {cost} is above the limit of {max_requests}, so that every "
                              "call would be denied")


# ---- the key of a call ---------------------------------------------------------------------------

def check_key(key: object) -> None:
    """Raises for a key of the decorator that no call could use."""
    if callable(key):
        if introspection.iscoroutinefunction(key):
            raise InvalidType(f"key is a coroutine function, {key!r:.80}: pass a plain one")
    elif isinstance(key, bytes):
        _check_static(key)
    elif not isinstance(key, str):
        raise InvalidType(f"key must be a format, such as 'login:{{user}}', or a function of the "
                          f"arguments, not {key!r:.40}")
    elif not format_fields(key):
        _check_static(utf8("key", key.format()))


def _check_static(key: bytes) -> None:
    if not fitting(KEY_BYTES, key):
        raise InvalidArgument("the key is empty")


def format_fields(key: str) -> list[tuple[str, str, str | None]]:
    """(field, format, conversion) of each replacement in a format string."""
    try:
        found = [(field, form or "", conversion)
                 for _, field, form, conversion in string.Formatter().parse(key)
                 if field is not None]
    except ValueError as error:
        raise InvalidArgument(f"key {key!r:.80} is no format: {error}") from None
    for field, _, conversion in found:
        if conversion not in CONVERSIONS:
            raise InvalidArgument(f"key {key!r:.80} is no format: {{{field}!{conversion}}} has no "
                                  "conversion that Python knows: !r, !s or !a")
    return found


def key_function(key: Key | Callable[..., Key], function: Callable[..., Any]) -> Callable[..., Key]:
    """The key of a call of `function`, from its arguments."""
    if isinstance(key, bytes):
        return lambda *_, **__: key
    if not isinstance(key, str):
        return key
    signature = introspection.signature(function)
    check_names(key, signature.parameters)

    def key_of(*args: Any, **kwargs: Any) -> Key:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return key.format_map(bound.arguments)
    return key_of


def check_names(key: str, parameters: Iterable[str]) -> None:
    """Raises for a format with an unknown argument, which would fail at every call."""
    names = list(parameters)
    for field, _, _ in format_fields(key):
        if re.split(r"[.[]", field)[0] not in names:
            raise InvalidArgument(f"key {key!r:.80} names {field!r}, which is no argument of the "
                                  f"function: it has {', '.join(names) or 'none'}")
