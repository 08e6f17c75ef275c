"""The bounds of all that a caller may choose: options, amounts, times, texts and lists.

Flow:   the checks of _invalid.py take a row; the test of bounds (tests/clients/python/
        bounds_test.py) tries each row at its bounds and beyond.
Units:  a Bound is whole, a Span in seconds; of a text or a list: its size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


# Slots, which are read faster than the fields of a tuple: every call reads some.
@dataclass(frozen=True, slots=True)
class Bound:
    name: str
    least: int
    most: int

    def at(self, index: int) -> Bound:
        """That of an element of a list."""
        return replace(self, name=f"{self.name}[{index}]")


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    least: float
    most: float


NUMBER_MAX = 1_000_000_000  # of costs, limits and queue lengths
AMOUNT_MAX = 2**63 - 1
SIZE_MAX = 65_535  # of a name, as its size has 16 bits; a server announces less
SECONDS_MAX = 365 * 86_400  # no clock of the system overflows
WAIT_LIMIT_MS_MAX = 3_600_000
DAY_S = 86_400

# ---- options of a client -------------------------------------------------------------------------

# By their names; of those that may be None too.
OPTIONS = (Bound("pending_max", 1, NUMBER_MAX), Bound("window", 1, NUMBER_MAX),
           Bound("frame_entries_max", 1, NUMBER_MAX), Bound("kept_settles_max", 0, NUMBER_MAX),
           Bound("shard", 0, 2**32 - 2))  # Hello has 32 bits, and 0 means none
OPTION_SPANS = (Span("timeout", 0, SECONDS_MAX), Span("connect_timeout", 0, SECONDS_MAX),
                Span("spin", 0, SECONDS_MAX), Span("settle_timeout", 0, SECONDS_MAX))
OPTIONAL = ("shard", "timeout")
BACKOFF = Span("backoff", 0, SECONDS_MAX)  # of both its numbers
CLIENT_NAME_BYTES = Bound("client_name", 0, SIZE_MAX)

# ---- calls about keys ----------------------------------------------------------------------------

KEY_BYTES = Bound("key", 0, SIZE_MAX)
COST = Bound("cost", 0, NUMBER_MAX)
COSTS = replace(COST, name="costs")
RELEASED_COST = replace(COST, least=1)
RELEASED_COSTS = replace(COSTS, least=1)
MAX_REQUESTS = Bound("max_requests", 1, NUMBER_MAX)
MAX_REQUESTS_IN_QUEUE = Bound("max_requests_in_queue", 0, NUMBER_MAX)
WINDOW = Span("window", 0.01, SECONDS_MAX)
TIMEOUT = Span("timeout", 0, SECONDS_MAX)
WAIT_LIMIT = Span("wait_limit", 0, WAIT_LIMIT_MS_MAX / 1000)  # without 0, which stands for none
CAPACITY_TIMEOUT = replace(WAIT_LIMIT, name="timeout")  # of wait_for_capacity()
RATE_REQUESTS = replace(MAX_REQUESTS, name="requests")
RATE_PERIOD = replace(WINDOW, name="period")

# ---- web integrations ----------------------------------------------------------------------------

WEB_TIMEOUT = Span("timeout", 0.001, 3_600)
WEB_TRUSTED_PROXIES = Bound("trusted_proxies", 0, 100)

# ---- calls about quotas --------------------------------------------------------------------------

SUBJECTS = Bound("subjects", 1, 8)
SUBJECT_BYTES = Bound("subject", 1, SIZE_MAX)
ID_BYTES, OWNER_BYTES = Bound("id", 0, 128), Bound("owner", 0, 128)
RESERVATION = Bound("reservation", 0, 2**64 - 1)
LIFETIME = Span("lifetime", 0.01, 2_592_000)
REQUESTS = Bound("requests", 0, 2**32 - 2)
INPUT_TOKENS = Bound("input_tokens", 0, AMOUNT_MAX)
CACHED_INPUT_TOKENS = Bound("cached_input_tokens", 0, AMOUNT_MAX)
MAX_OUTPUT_TOKENS = Bound("max_output_tokens", 0, AMOUNT_MAX)
OUTPUT_TOKENS = Bound("output_tokens", 0, AMOUNT_MAX)
QUOTA_COST = Bound("cost", 0, AMOUNT_MAX)
QUOTA_COSTS = replace(QUOTA_COST, name="costs")

# ---- quotas --------------------------------------------------------------------------------------

LIMITS = Bound("limits", 0, 16)
LIMIT_NAME_BYTES = Bound("name", 1, 32)
LIMIT_AMOUNT = Bound("amount", 0, AMOUNT_MAX)
OVERTAKERS = Bound("overtakers", 0, 1_000)
PERIOD_MS = Bound("period_ms", 0, 1000 * SECONDS_MAX)  # of the JSON; its kind has narrower ones
_PERIODS = {"concurrency": (0, 0), "anchored_day": (DAY_S, DAY_S), "rolling_day": (DAY_S, DAY_S)}


def period(kind: str) -> Span:
    return Span(f"period of kind {kind}", *_PERIODS.get(kind, (0.01, SECONDS_MAX)))
