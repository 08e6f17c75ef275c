"""Shared by the web integrations: the key of a request, and the response to a decision.

Flow:   WebRequest -> WebLimit.question() -> acquire() in _web_gates.py -> WebLimit.answer(), or
        failed() when Sluicegate does not answer -> Answer.
Units:  seconds; those in header fields are whole, rounded up.
Errors: InvalidArgument for options, when the limit is made. No I/O here.
Source: draft-ietf-httpapi-ratelimit-headers (RateLimit, RateLimit-Policy, its problem type),
        RFC 9457 (problem+json), RFC 6585 (429).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypedDict

from ._bounds import WEB_TIMEOUT, WEB_TRUSTED_PROXIES
from ._invalid import InvalidArgument, InvalidType, one_of, seconds, whole
from ._limited import acquire_arguments, format_fields
from .rates import Rate
from .verdict import KeyOutcome, Verdict

Headers = tuple[tuple[str, str], ...]

NO_VALUE = "-"  # in a key: of a header that the request does not have
UNKNOWN_CLIENT = "unknown"  # of a server that listens on a Unix socket
RETRY_UNAVAILABLE_S = 1
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
POLICY_NAME = re.compile(r"[ !#-\[\]-~]{1,64}")  # an unescaped string of structured fields
WITH_PORT = re.compile(r"\[(?P<ipv6>.+)\](:[0-9]+)?|(?P<host>[^:]+):[0-9]+")
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
TITLES = {400: "Bad Request", 429: "Too Many Requests", 503: "Service Unavailable"}
# Verdicts by which the limit denies. Any other says that the server decided nothing.
DENYING = frozenset({Verdict.DENIED, Verdict.WAIT_LIMIT, Verdict.NEVER_FITS, Verdict.WAITERS_FULL,
                     Verdict.CONNECTION_WAITERS_FULL, Verdict.KEY_WAITERS_FULL,
                     Verdict.INVALID_KEY})


class WebRequest:
    """A request, the same for all frameworks. `native` is the framework's own: an ASGI scope, a
    WSGI environ, or the request of Django or FastAPI.
    """

    __slots__ = ("_header", "_peer", "_trusted_proxies", "method", "native", "path")

    def __init__(self, native: Any, method: str, path: str, peer: str | None,
                 header: Callable[[str], str | None], trusted_proxies: int) -> None:
        self.native: Any = native
        self.method: str = method
        self.path: str = path  # the whole one, with the prefix at which the application is mounted
        self._peer = peer
        self._header = header
        self._trusted_proxies = trusted_proxies

    def header(self, name: str) -> str:
        """The value, or those of several lines joined by commas; "" without any."""
        return self._header(name) or ""

    @property
    def client(self) -> str:
        """The peer's address, or the one that the outermost trusted proxy has seen.

        Each proxy appends the address of its peer to X-Forwarded-For; whatever stands before those
        of the trusted ones is the caller's own claim.
        """
        if self._trusted_proxies:
            forwarded = self.header("X-Forwarded-For").split(",")
            if len(forwarded) >= self._trusted_proxies:
                seen = without_port(forwarded[-self._trusted_proxies].strip())
                if seen:
                    return seen
        return self._peer or UNKNOWN_CLIENT


def without_port(address: str) -> str:
    """Some proxies append the port, which differs with each connection."""
    found = WITH_PORT.fullmatch(address)
    return (found["ipv6"] or found["host"]) if found else address


# ---- options -------------------------------------------------------------------------------------

Key = str | bytes
KeyOption = str | Callable[[WebRequest], Key | None]
CostOption = int | Callable[[WebRequest], int]
OnFailure = Literal["open", "closed"]


class LimitOptions(TypedDict, total=False):
    """The options of a limit that every integration takes; WebLimit explains them."""

    cost: CostOption
    exempt: Iterable[str]
    trusted_proxies: int
    on_failure: OnFailure
    timeout: float
    wait: bool
    wait_limit: float | None
    name: str


class Question(NamedTuple):
    """The key and the options of a request's acquire."""

    key: bytes
    arguments: dict[str, Any]


class WebLimit:
    """The limit of an application or an endpoint.

    `key` is a format of `{client}`, `{method}`, `{path}` and `{header:NAME}`, or a function of the
    WebRequest; where that returns None, the request is exempt. `rate` is such as "5/minute";
    without one the server's own limit of the key holds. `cost` is a number or a function of the
    WebRequest. `exempt` has paths; one that ends with * stands for all that begin with it.
    `trusted_proxies` is the number of proxies whose X-Forwarded-For is believed. `on_failure`
    decides when Sluicegate does not answer within `timeout` seconds, whatever the client's policy:
    "open" lets the request go on, "closed" answers 503. With `wait` a request waits in the key's
    queue, for at most `wait_limit` seconds. `name` is that of the policy in the header fields.
    """

    def __init__(self, key: KeyOption, rate: str | Rate | None = None, *, cost: CostOption = 1,
                 exempt: Iterable[str] = (), trusted_proxies: int = 0,
                 on_failure: OnFailure = "open", timeout: float = 0.25, wait: bool = False,
                 wait_limit: float | None = None, name: str = "default") -> None:
        one_of("on_failure", on_failure, ("open", "closed"))
        self._fails_open = on_failure == "open"
        self.trusted_proxies = whole(WEB_TRUSTED_PROXIES, trusted_proxies)
        self._key = key if callable(key) else key_format(key)
        self._cost = cost
        self._exempt_paths, self._exempt_prefixes = exempt_paths(exempt)
        self._arguments = acquire_arguments(rate, {
            "cost": 1 if callable(cost) else cost, "wait": wait, "wait_limit": wait_limit})
        if wait and wait_limit is None:
            raise InvalidArgument("wait is given without wait_limit: a request must end some time")
        # A call's own time-out starts at once, that of the limit when its wait ends.
        self._arguments["timeout"] = seconds(WEB_TIMEOUT, timeout) + (wait_limit or 0)
        if not isinstance(name, str) or not POLICY_NAME.fullmatch(name):
            raise InvalidArgument("name must be 1 to 64 printable ASCII characters without quotes "
                                  f"and backslashes, not {name!r:.80}")
        self._name = name

    def question(self, request: WebRequest) -> Question | None:
        """None: the request is exempt."""
        if request.path in self._exempt_paths or request.path.startswith(self._exempt_prefixes):
            return None
        key = self._key(request)
        if key is None:
            return None
        cost = {"cost": self._cost(request)} if callable(self._cost) else {}
        return Question(key_data(key), self._arguments | cost)

    # --- answers

    def answer(self, outcome: KeyOutcome) -> Answer | None:
        """None: the server decided nothing."""
        if outcome.approved:
            return None if outcome.decided_by_policy else Answer(self._fields(outcome))
        return self._denied(outcome) if outcome.verdict in DENYING else None

    def failed(self) -> Answer:
        """The answer when Sluicegate gave none."""
        if self._fails_open:
            return GOES_ON
        return Answer((("Retry-After", str(RETRY_UNAVAILABLE_S)),), 503,
                      "The limit of requests cannot be checked now.", {"type": "about:blank"})

    def _denied(self, outcome: KeyOutcome) -> Answer:
        problem = {"type": QUOTA_EXCEEDED, "violated-policies": [self._name]}
        # Without Retry-After, as waiting does not help, and without figures: those of a key that
        # the server does not know yet are of its own limit, not of the one asked.
        if outcome.verdict is Verdict.NEVER_FITS:
            return Answer((), 429, "This request costs more than the limit allows.", problem)
        if outcome.verdict is Verdict.INVALID_KEY:
            return Answer((), 400, "The key of this request's limit is too long.",
                          {"type": "about:blank"})
        wait = outcome.retry_after or outcome.reset or 0
        retry_after = max(1, whole_seconds(wait))
        return Answer((*self._fields(outcome), ("Retry-After", str(retry_after))), 429,
                      f"Too many requests: try again in {retry_after} s.", problem)

    def _fields(self, outcome: KeyOutcome) -> Headers:
        """The limit and what is left; nothing where the server gave no details."""
        if not outcome.limit or not outcome.window:
            return ()
        fields = [("RateLimit-Policy",
                   f'"{self._name}";q={outcome.limit};w={whole_seconds(outcome.window)}')]
        if outcome.remaining is not None and outcome.reset is not None:
            fields.append(("RateLimit", f'"{self._name}";r={outcome.remaining};'
                                        f"t={whole_seconds(outcome.reset)}"))
        return tuple(fields)


def whole_seconds(number: float) -> int:
    """Rounded up; the server counts in milliseconds, which a float may miss by a little."""
    return math.ceil(round(number, 3))


def exempt_paths(paths: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Whole paths, and beginnings of paths."""
    if isinstance(paths, str):
        raise InvalidType(f"exempt is one path, {paths!r:.80}: pass a list of paths")
    listed = list(paths)
    for path in listed:
        if not isinstance(path, str) or not path.startswith("/"):
            raise InvalidArgument(f"exempt has {path!r:.80}: a path begins with /, as /healthz")
    return (frozenset(path for path in listed if not path.endswith("*")),
            tuple(path[:-1] for path in listed if path.endswith("*")))


# ---- keys ----------------------------------------------------------------------------------------

def key_format(key: str) -> Callable[[WebRequest], str]:
    """A function for a format such as "search:{client}:{header:X-Api-Key}"."""
    if not isinstance(key, str):
        raise InvalidType("key must be a format, such as 'api:{client}', or a function of the "
                          f"request, not {key!r:.40}")
    for field, form, conversion in format_fields(key):
        is_header = field == "header" and HEADER_NAME.fullmatch(form)
        is_plain = field in ("client", "method", "path") and not form
        if conversion or not (is_header or is_plain):
            shown = f"{field}:{form}" if form else field
            raise InvalidArgument(f"key {key!r:.80} names {{{shown}}}: there are {{client}}, "
                                  "{method}, {path} and {header:NAME}, such as "
                                  "{header:X-Api-Key}")
    if not key:
        raise InvalidArgument("key is empty")
    return lambda request: key.format_map(_Fields(request))


class _Fields(dict[str, Any]):
    """Reads only those parts of the request that the format names."""

    def __init__(self, request: WebRequest) -> None:
        super().__init__()
        self._request = request

    def __missing__(self, field: str) -> Any:
        return _Header(self._request) if field == "header" else getattr(self._request, field)


class _Header:
    """Formats {header:NAME}."""

    def __init__(self, request: WebRequest) -> None:
        self._request = request

    def __format__(self, name: str) -> str:
        return self._request.header(name) or NO_VALUE


def key_data(key: Key) -> bytes:
    """The whole key's bytes; an empty one stands for no value, because the server refuses it."""
    if not isinstance(key, (str, bytes)):
        raise InvalidType(f"key returned {key!r:.40}: it must be a str, bytes or None")
    data = key.encode("utf-8", "backslashreplace") if isinstance(key, str) else key
    return data or NO_VALUE.encode()


# ---- responses -----------------------------------------------------------------------------------

class Answer(NamedTuple):
    """The decision about a request: it goes on, and its response gets the header fields; or with
    a status it is answered at once.
    """

    fields: Headers = ()
    status: int = 0
    detail: str = ""
    problem: dict[str, Any] = {}

    @property
    def denies(self) -> bool:
        return self.status != 0

    def response(self, request: WebRequest) -> Response:
        """The body is JSON for callers that name it; a HEAD request gets the fields alone."""
        if names_json(request.header("Accept")):
            media_type = "application/problem+json"
            text = json.dumps({"title": TITLES[self.status], "status": self.status,
                               "detail": self.detail, **self.problem})
        else:
            media_type, text = "text/plain; charset=utf-8", self.detail + "\n"
        body = text.encode()
        fields = (*self.fields, ("Content-Type", media_type), ("Content-Length", str(len(body))))
        return Response(self.status, fields, b"" if request.method == "HEAD" else body)


class Response(NamedTuple):
    status: int
    fields: Headers
    body: bytes


GOES_ON = Answer()


def names_json(accept: str) -> bool:
    """Wildcards do not count: browsers and curl send them, and people read those answers."""
    for part in accept.lower().split(","):
        media_type, *parameters = (piece.strip() for piece in part.split(";"))
        if media_type in ("application/json", "application/problem+json"):
            return not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters)
    return False
