"""Rates as people write them: "5/minute", "100 per 10 seconds".

Shape:  requests, "/" or "per", perhaps a number, and a unit.
Units:  a Rate's period is in seconds.
Errors: InvalidArgument, whose text shows how a rate is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._bounds import RATE_PERIOD, RATE_REQUESTS
from ._invalid import InvalidArgument, InvalidType, LimitExceeded, seconds, whole

HOW = ('write a rate as requests / [number] unit, such as "5/minute", "100 per 10 seconds" or '
       '"10/s"; units are ms, s, min, h and d, or their names')
RATE = re.compile(r"\s*([0-9]{1,20})\s*(?:/|per\b)\s*([0-9]{1,20}(?:\.[0-9]{1,9})?)?\s*([a-z]+)\s*",
                  re.IGNORECASE)
UNITS = {0.001: ("ms", "millisecond", "milliseconds"), 1: ("s", "sec", "second", "seconds"),
         60: ("m", "min", "minute", "minutes"), 3_600: ("h", "hour", "hours"),
         86_400: ("d", "day", "days")}
SECONDS_OF = {name: unit for unit, names in UNITS.items() for name in names}


@dataclass(frozen=True)
class Rate:
    """So many requests in a period."""

    requests: int
    period: float  # seconds

    def __post_init__(self) -> None:
        whole(RATE_REQUESTS, self.requests)
        seconds(RATE_PERIOD, self.period)


def parse_rate(rate: str | Rate) -> Rate:
    """The Rate of a text, such as "5/minute"; a Rate stays as it is."""
    if isinstance(rate, Rate):
        return rate
    if not isinstance(rate, str):
        raise InvalidType(f"rate must be a str or a Rate, not {rate!r:.40}: {HOW}")
    found = RATE.fullmatch(rate)
    unit = SECONDS_OF.get(found[3].lower()) if found else None
    if found is None or unit is None:
        raise InvalidArgument(f"{rate!r:.80} is no rate: {HOW}")
    try:
        return Rate(int(found[1]), float(found[2] or 1) * unit)
    except LimitExceeded as error:
        raise LimitExceeded(f"rate {rate!r:.80}: {error}; {HOW}") from None
