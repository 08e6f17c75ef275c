"""Asks the vendor of a model how many tokens a text has. No Sluicegate server takes part.

Flow:   text -> POST .../models/MODEL:countTokens -> totalTokens, to be reserved as input.
Units:  seconds; bytes in names that end in BYTES_MAX, which bound how much of an answer is read.
Errors: CountTokensError, whose text begins with the step that failed.
Source: Gemini API, models.countTokens.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from .errors import CountTokensError

BASE_URL = "https://generativelanguage.googleapis.com"
ANSWER_BYTES_MAX = 1 << 20
ERROR_BYTES_MAX = 8 << 10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the key is for the caller's address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


def count_tokens(api_key: str, model: str, text: str, *, base_url: str = BASE_URL,
                 timeout: float = 10.0) -> int:
    """How many tokens `text` has for a Gemini model; blocking.

    `timeout` is for connecting and for each read, in seconds. In a coroutine:
    `await asyncio.to_thread(count_tokens, ...)`. See estimate_tokens() for a guess without network.
    """
    url = _url(base_url, model)
    try:
        body = json.dumps({"contents": [{"parts": [{"text": text}]}]}).encode()
    except (TypeError, ValueError) as error:
        raise _failed("marshal request", error) from error
    try:
        request = urllib.request.Request(url, body, {
            "Content-Type": "application/json", "x-goog-api-key": api_key}, method="POST")
        opener = urllib.request.build_opener(_NoRedirects)
    except (TypeError, ValueError) as error:
        raise _failed("new request", error) from error
    return _total(_ask(opener, request, timeout))


def _failed(step: str, why: object, status: int | None = None) -> CountTokensError:
    return CountTokensError(f"count_tokens: {step}: {why}", status)


def _url(base_url: str, model: str) -> str:
    if not model.strip():
        raise _failed("build url", "empty model")
    try:
        base = urllib.parse.urlsplit(base_url)
        is_whole = base.scheme in ("http", "https") and bool(base.hostname) and base.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or base.query or base.fragment:
        raise _failed("build url", f"invalid base url {base_url!r:.80}")
    return f"{base_url.rstrip('/')}/v1beta/models/{urllib.parse.quote(model, safe='=')}:countTokens"


def _ask(opener: urllib.request.OpenerDirector, request: urllib.request.Request,
         timeout: float) -> bytes:
    try:
        with opener.open(request, timeout=timeout) as answer:
            status: int = answer.status
            data: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            try:
                status, data = error.code, error.read(ERROR_BYTES_MAX + 1)
            except (OSError, http.client.HTTPException) as broken:
                raise _failed("read error body", broken, error.code) from broken
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _failed("do request", error) from error
    if status != 200:
        text = data[:ERROR_BYTES_MAX].decode("utf-8", "replace")
        more = "..." if len(data) > ERROR_BYTES_MAX else ""
        raise CountTokensError(f"count_tokens: api error status {status}: {text}{more}", status)
    if len(data) > ANSWER_BYTES_MAX:
        raise _failed("decode response", f"more than {ANSWER_BYTES_MAX} bytes")
    return data


def _total(data: bytes) -> int:
    """Reads the total; the answer omits a total of 0."""
    try:
        answer = json.loads(data)
        total = answer.get("totalTokens", 0)
    except (ValueError, AttributeError) as error:
        raise _failed("decode response", error) from error
    if type(total) is not int or total < 0:
        raise _failed("decode response", f"totalTokens is {total!r:.40}")
    return total
