"""Checks of arguments, and their errors: a call raises before anything is queued, because later it
would fail a frame with entries of other callers.

Errors: InvalidArgument; its text names the argument.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex

from ._bounds import Bound, Span

if TYPE_CHECKING:
    from .quota import QuotaResults
    from .verdict import Verdicts


class SluicegateError(Exception):
    """Base of all."""

    partial: Verdicts | QuotaResults | None = None


class InvalidArgument(SluicegateError, ValueError):
    """The caller's mistake, which no repeat can cure: nothing was changed. The text names the
    argument."""


class InvalidType(InvalidArgument, TypeError):
    """An argument of another type than the call takes; nothing was sent."""


class LimitExceeded(InvalidArgument):
    """An argument is beyond its bounds; nothing was sent."""


def whole(bound: Bound, value: SupportsIndex) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidType(f"{bound.name} must be a whole number, not {value!r:.40}") from None
    if not bound.least <= number <= bound.most:
        raise LimitExceeded(
            f"{bound.name} must be {bound.least} to {bound.most}, not {number!r:.40}")
    return number


def seconds(span: Span, value: SupportsFloat) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise InvalidType(f"{span.name} must be a number of seconds, not {value!r:.40}")
    try:
        number = float(value)
    except TypeError:
        raise InvalidType(f"{span.name} must be a number of seconds, not {value!r:.40}") from None
    except OverflowError:
        number = math.inf
    if not span.least <= number <= span.most:
        raise LimitExceeded(f"{span.name} must be {span.least:g} to {span.most:.12g} seconds, not "
                            f"{value!r:.40}")
    return number


def one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidArgument(f"{name} must be one of {', '.join(allowed)}, not {value!r:.40}")


def utf8(name: str, value: str, errors: str = "strict") -> bytes:
    try:
        return value.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{name} {value!r:.80} has no UTF-8: {error.reason}") from None


def fitting(bound: Bound, data: bytes) -> bytes:
    """The bytes, unless there are more than the bound allows."""
    if len(data) > bound.most:
        raise LimitExceeded(f"{bound.name} has {len(data)} bytes; at most {bound.most}")
    return data
