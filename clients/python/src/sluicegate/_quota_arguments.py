"""Checks the arguments of the calls about quotas: they become QuotaTerms and entries.

Units:  seconds; tokens, requests, micro-units of cost.
Errors: raises for arguments that cannot be sent, before anything is queued: later they would fail
        a frame with entries of other callers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._bounds import (CACHED_INPUT_TOKENS, ID_BYTES, INPUT_TOKENS, LIFETIME, MAX_OUTPUT_TOKENS,
                      OUTPUT_TOKENS, OWNER_BYTES, QUOTA_COST, QUOTA_COSTS, REQUESTS, RESERVATION,
                      SUBJECT_BYTES, SUBJECTS, Bound)
from ._calls import each_of, spread
from ._dispatcher import milliseconds
from ._invalid import (InvalidArgument, InvalidType, LimitExceeded, fitting, seconds, utf8,
                       whole)
from ._message import UNSET_32, UNSET_64
from ._quota_frames import (CANCEL, CHECK, CONNECTION_BOUND, CONSUME, EXTEND, KEEP_REQUESTS,
                            MAY_WAIT, RECORD, RESERVE, SETTLE, USAGE_MAX, WANTS_LIMITS,
                            WANTS_VIOLATED, QuotaText)
from ._quota_requests import QuotaTerms, RecordEntry, ReserveEntry, SettleEntry
from .quota import Expired, Limit, Quota, limits_of

Subject = str | bytes
Subjects = Subject | Iterable[Subject]
Limits = Quota | Iterable[Limit | Mapping[str, object]]
Numbers = int | Sequence[int] | None
Call = tuple[QuotaTerms, Any]  # the terms, and the entry
Calls = tuple[QuotaTerms, Sequence[Any]]  # the terms, and an entry per call

ID_TEXT = re.compile("[0-9a-fA-F]{16}")
USAGE_BYTES_MAX = 65_536  # of the names in one frame


# ---- subjects ------------------------------------------------------------------------------------

def subject_bytes(subject: Subject, place: str = "subject") -> bytes:
    """The bytes of a subject. Restores names from a server that are not valid UTF-8."""
    if isinstance(subject, str):
        name = utf8(place, subject, "surrogateescape")
    elif isinstance(subject, (bytes, bytearray)):
        name = bytes(subject)
    else:
        raise InvalidType(f"{place} is str or bytes, not {type(subject).__name__}")
    if not SUBJECT_BYTES.least <= len(name) <= SUBJECT_BYTES.most:
        raise LimitExceeded(f"{place} {subject!r:.80} has {len(name)} bytes; it must have "
                            f"{SUBJECT_BYTES.least} to {SUBJECT_BYTES.most}")
    return name


def subject_text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def subjects_of(subjects: Subjects) -> tuple[bytes, ...]:
    """The names of a call: one subject, or a few together."""
    if isinstance(subjects, (str, bytes, bytearray)):
        return (subject_bytes(subjects),)
    names = tuple(subject_bytes(subject, f"subjects[{place}]")
                  for place, subject in enumerate(each_of(subjects, "subjects")))
    if not SUBJECTS.least <= len(names) <= SUBJECTS.most:
        raise LimitExceeded(f"a call names {SUBJECTS.least} to {SUBJECTS.most} subjects, not "
                            f"{len(names)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"subjects has {subject_text(twice)!r:.80} twice: a call names each "
                              "once")
    return names


def usage_names(subjects: Subjects) -> tuple[list[bytes], bool]:
    """The subjects of usage(), and whether the caller named one subject, not a list."""
    if isinstance(subjects, (str, bytes)):
        return [subject_bytes(subjects)], True
    return [subject_bytes(each) for each in each_of(subjects, "subjects")], False


def groups(names: Sequence[bytes]) -> list[list[bytes]]:
    """Cuts names into groups that fit into one frame each."""
    made: list[list[bytes]] = []
    size = 0
    for name in names:
        size += len(name)
        if not made or len(made[-1]) == USAGE_MAX or size > USAGE_BYTES_MAX:
            made.append([])
            size = len(name)
        made[-1].append(name)
    return made


# ---- amounts, times and ids ----------------------------------------------------------------------

def whole_or_default(bound: Bound, value: int | None, default: int = UNSET_64) -> int:
    return default if value is None else whole(bound, value)


def check_cached(input_tokens: int, cached: int) -> None:
    if cached and cached > input_tokens:
        raise LimitExceeded(f"cached_input_tokens are a part of input_tokens: {cached} of "
                            f"{input_tokens}")


def lifetime_ms(value: float | None) -> int:
    """Rounds up; 0 stands for the server's default, or the reservation's last lifetime."""
    if value is None:
        return 0
    return math.ceil(seconds(LIFETIME, value) * 1000)


def wait_flags(wait: bool, wait_limit: float | None) -> tuple[int, int]:
    if wait_limit is not None and not wait:
        raise InvalidArgument("wait_limit needs wait=True")
    return MAY_WAIT if wait else 0, milliseconds(wait_limit)


def short_bytes(bound: Bound, value: Subject | None) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, (str, bytes, bytearray)):
        raise InvalidType(f"{bound.name} is str or bytes, not {value!r:.40}")
    return fitting(bound, utf8(bound.name, value) if isinstance(value, str) else bytes(value))


def reservation_id(reservation: Any) -> int:
    """The id of a Reservation; or the id itself, as a number or as 16 hexadecimal digits."""
    value = getattr(reservation, "id", reservation)
    if isinstance(value, str):
        if not ID_TEXT.fullmatch(value):
            raise InvalidArgument(f"{value!r:.80} is no reservation id: pass a number, or 16 "
                                  "hexadecimal digits as in REST and the command line")
        value = int(value, 16)
    return whole(RESERVATION, value)


def listed_reservations(reservations: Iterable[Any]) -> list[Any]:
    if isinstance(reservations, (str, bytes)):
        raise InvalidType(f"reservations is one reservation, {reservations!r:.40}: pass a list of "
                          "them")
    return each_of(reservations, "reservations")


def reservation_ids(reservations: Iterable[Any]) -> list[int]:
    return [reservation_id(each) for each in listed_reservations(reservations)]


# ---- single calls --------------------------------------------------------------------------------

def reserve_terms(wait: bool, wait_limit: float | None, lifetime: float | None, owner: str | None,
                  connection_bound: bool, more: int = WANTS_VIOLATED) -> QuotaTerms:
    flags, limit_ms = wait_flags(wait, wait_limit)
    try:
        name = short_bytes(OWNER_BYTES, owner).decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"owner {owner!r:.80} is no UTF-8: {error.reason}") from None
    flags |= more | (CONNECTION_BOUND if connection_bound else 0)
    return QuotaTerms(RESERVE, flags, limit_ms, lifetime_ms(lifetime), name)


def reserve_entry(subjects: Subjects, requests: int, input_tokens: int,
                  max_output_tokens: int | None, cost: int,
                  id: Subject | None = None) -> ReserveEntry:
    return ReserveEntry(
        subjects_of(subjects), whole(REQUESTS, requests), whole(INPUT_TOKENS, input_tokens),
        whole_or_default(MAX_OUTPUT_TOKENS, max_output_tokens), whole(QUOTA_COST, cost),
        short_bytes(ID_BYTES, id))


def reserve_call(subjects: Subjects, requests: int, input_tokens: int,
                 max_output_tokens: int | None, cost: int, lifetime: float | None, wait: bool,
                 wait_limit: float | None, id: Subject | None, owner: str | None,
                 connection_bound: bool, limits: bool) -> Call:
    terms = reserve_terms(wait, wait_limit, lifetime, owner, connection_bound,
                          WANTS_LIMITS if limits else WANTS_VIOLATED)
    return terms, reserve_entry(subjects, requests, input_tokens, max_output_tokens, cost, id)


def lease_call(subjects: Subjects, lifetime: float | None, owner: str | None, wait: bool,
               wait_limit: float | None, renew: bool, connection_bound: bool) -> Call:
    """Reserves slots of concurrency, and no request."""
    if renew and lifetime is None:
        raise InvalidArgument("renew=True needs a lifetime: how long the slot outlives its holder")
    terms = reserve_terms(wait, wait_limit, lifetime, owner, connection_bound)
    return terms, reserve_entry(subjects, 0, 0, 0, 0)


def check_call(subjects: Subjects, requests: int, input_tokens: int,
               max_output_tokens: int | None, cost: int) -> Call:
    return QuotaTerms(CHECK, WANTS_LIMITS), reserve_entry(subjects, requests, input_tokens,
                                                          max_output_tokens, cost)


def settle_entry(reservation: Any, input_tokens: int | None, output_tokens: int | None,
                 cached_input_tokens: int, cost: int | None, requests: int | None) -> SettleEntry:
    used = whole_or_default(INPUT_TOKENS, input_tokens)
    cached = whole(CACHED_INPUT_TOKENS, cached_input_tokens)
    check_cached(used, cached)
    return SettleEntry(
        reservation_id(reservation), whole_or_default(REQUESTS, requests, UNSET_32), used, cached,
        whole_or_default(OUTPUT_TOKENS, output_tokens), whole_or_default(QUOTA_COST, cost))


def settle_call(*arguments: Any) -> Call:
    entry = settle_entry(*arguments)
    return QuotaTerms(SETTLE), entry


def cancel_call(reservation: Any, keep_requests: bool) -> Call:
    number = reservation_id(reservation)
    return QuotaTerms(CANCEL, KEEP_REQUESTS if keep_requests else 0), SettleEntry(number)


def extend_call(reservation: Any, lifetime: float | None) -> Call:
    number = reservation_id(reservation)
    return QuotaTerms(EXTEND, lifetime_ms=lifetime_ms(lifetime)), SettleEntry(number)


def used_entry(subjects: Subjects, requests: int, input_tokens: int, output_tokens: int,
               cached_input_tokens: int, cost: int, id: Subject | None) -> RecordEntry:
    used = whole(INPUT_TOKENS, input_tokens)
    cached = whole(CACHED_INPUT_TOKENS, cached_input_tokens)
    check_cached(used, cached)
    return RecordEntry(
        subjects_of(subjects), whole(REQUESTS, requests), used, cached,
        whole(OUTPUT_TOKENS, output_tokens), whole(QUOTA_COST, cost), short_bytes(ID_BYTES, id))


def record_call(*arguments: Any) -> Call:
    return QuotaTerms(RECORD), used_entry(*arguments)


def consume_terms(wait: bool, wait_limit: float | None, more: int) -> QuotaTerms:
    flags, limit_ms = wait_flags(wait, wait_limit)
    return QuotaTerms(CONSUME, flags | more, limit_ms)


def consume_call(wait: bool, wait_limit: float | None, limits: bool, *arguments: Any) -> Call:
    terms = consume_terms(wait, wait_limit, WANTS_LIMITS if limits else WANTS_VIOLATED)
    return terms, used_entry(*arguments)


# ---- batches -------------------------------------------------------------------------------------

def column(values: Numbers, count: int, default: int, bound: Bound) -> Sequence[int]:
    numbers = spread(values, count, bound)
    return [default] * count if numbers is None else numbers


def names_of_entries(subjects: Iterable[Subjects]) -> list[tuple[bytes, ...]]:
    if isinstance(subjects, (str, bytes)):
        raise InvalidType(f"subjects is one subject, {subjects!r:.40}: pass a list of them")
    return [subjects_of(each) for each in each_of(subjects, "subjects")]


def own_ids(ids: Sequence[Subject | None] | None, count: int) -> list[bytes]:
    if isinstance(ids, (str, bytes)):
        raise InvalidType(f"ids is one id, {ids!r:.40}: pass a list of them")
    own = [b""] * count if ids is None else [short_bytes(ID_BYTES, each)
                                             for each in each_of(ids, "ids")]
    if len(own) != count:
        raise InvalidArgument(f"{len(own)} ids for {count} entries: give one each")
    return own


def reserve_entries(subjects: Iterable[Subjects], requests: Numbers, input_tokens: Numbers,
                    max_output_tokens: Numbers, costs: Numbers,
                    ids: Sequence[Subject | None] | None) -> list[ReserveEntry]:
    """An entry for each of `subjects`, each of which is one name or a few."""
    names = names_of_entries(subjects)
    count = len(names)
    return list(map(ReserveEntry, names, column(requests, count, 1, REQUESTS),
                    column(input_tokens, count, 0, INPUT_TOKENS),
                    column(max_output_tokens, count, UNSET_64, MAX_OUTPUT_TOKENS),
                    column(costs, count, 0, QUOTA_COSTS), own_ids(ids, count)))


def used_entries(subjects: Iterable[Subjects], requests: Numbers, input_tokens: Numbers,
                 output_tokens: Numbers, cached_input_tokens: Numbers, costs: Numbers,
                 ids: Sequence[Subject | None] | None) -> list[RecordEntry]:
    """An entry for each of `subjects`, each of which is one name or a few."""
    names = names_of_entries(subjects)
    count = len(names)
    entries = list(map(RecordEntry, names, column(requests, count, 1, REQUESTS),
                       column(input_tokens, count, 0, INPUT_TOKENS),
                       column(cached_input_tokens, count, 0, CACHED_INPUT_TOKENS),
                       column(output_tokens, count, 0, OUTPUT_TOKENS),
                       column(costs, count, 0, QUOTA_COSTS), own_ids(ids, count)))
    for entry in entries:
        check_cached(entry.input_tokens, entry.cached_input_tokens)
    return entries


def settle_entries(reservations: Iterable[Any], requests: Numbers, input_tokens: Numbers,
                   cached_input_tokens: Numbers, output_tokens: Numbers,
                   costs: Numbers) -> list[SettleEntry]:
    numbers = reservation_ids(reservations)
    count = len(numbers)
    entries = list(map(SettleEntry, numbers, column(requests, count, UNSET_32, REQUESTS),
                       column(input_tokens, count, UNSET_64, INPUT_TOKENS),
                       column(cached_input_tokens, count, 0, CACHED_INPUT_TOKENS),
                       column(output_tokens, count, UNSET_64, OUTPUT_TOKENS),
                       column(costs, count, UNSET_64, QUOTA_COSTS)))
    for entry in entries:
        check_cached(entry.input_tokens, entry.cached_input_tokens)
    return entries


def reserve_calls(subjects: Iterable[Subjects], requests: Numbers, input_tokens: Numbers,
                  max_output_tokens: Numbers, costs: Numbers,
                  ids: Sequence[Subject | None] | None, lifetime: float | None, wait: bool,
                  wait_limit: float | None, owner: str | None, connection_bound: bool) -> Calls:
    entries = reserve_entries(subjects, requests, input_tokens, max_output_tokens, costs, ids)
    return reserve_terms(wait, wait_limit, lifetime, owner, connection_bound, 0), entries


def consume_calls(wait: bool, wait_limit: float | None, *arguments: Any) -> Calls:
    return consume_terms(wait, wait_limit, 0), used_entries(*arguments)


def settle_calls(*arguments: Any) -> Calls:
    return QuotaTerms(SETTLE), settle_entries(*arguments)


def cancel_calls(reservations: Iterable[Any], keep_requests: bool) -> Calls:
    return (QuotaTerms(CANCEL, KEEP_REQUESTS if keep_requests else 0),
            list(map(SettleEntry, reservation_ids(reservations))))


# ---- quotas --------------------------------------------------------------------------------------

def quota_text(limits: Limits, expired: Expired | None, overtakers: int | None) -> QuotaText:
    """The quota that put_quota() sends."""
    quota = limits if isinstance(limits, Quota) else Quota(limits_of(limits))
    return Quota(quota.limits, quota.expired if expired is None else expired,
                 quota.overtakers if overtakers is None else overtakers).as_text()
