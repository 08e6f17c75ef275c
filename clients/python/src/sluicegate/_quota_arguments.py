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

from ._calls import each_of, spread
from ._dispatcher import milliseconds
from ._invalid import InvalidArgument, InvalidType, LimitExceeded, seconds, utf8, whole
from ._message import UNSET_32, UNSET_64
from ._quota_frames import (AMOUNT_MAX, CALL_SUBJECTS_MAX, CANCEL, CHECK, CONNECTION_BOUND, EXTEND,
                            ID_BYTES_MAX, KEEP_REQUESTS, LIFETIME_MS, MAY_WAIT, NAME_BYTES_MAX,
                            RECORD, REQUESTS_MAX, RESERVE, SETTLE, USAGE_MAX, WANTS_LIMITS,
                            WANTS_VIOLATED, QuotaText)
from ._quota_requests import QuotaTerms, RecordEntry, ReserveEntry, SettleEntry
from .quota import Limit, Quota, limits_of

Subject = str | bytes
Subjects = Subject | Iterable[Subject]
Limits = Quota | Iterable[Limit | Mapping[str, object]]
Numbers = int | Sequence[int] | None
Call = tuple[QuotaTerms, Any]  # the terms, and the entry
Calls = tuple[QuotaTerms, Sequence[Any]]  # the terms, and an entry per call

ID_TEXT = re.compile("[0-9a-fA-F]{16}")
USAGE_BYTES_MAX = 65_536  # of the names in one frame


# ---- subjects ------------------------------------------------------------------------------------

def subject_bytes(subject: Subject) -> bytes:
    """The bytes of a subject. Restores names from a server that are not valid UTF-8."""
    if isinstance(subject, str):
        name = utf8("the subject", subject, "surrogateescape")
    elif isinstance(subject, (bytes, bytearray)):
        name = bytes(subject)
    else:
        raise InvalidType(f"a subject is str or bytes, not {type(subject).__name__}")
    if not 0 < len(name) <= NAME_BYTES_MAX:
        raise LimitExceeded(f"the subject {subject!r:.80} has {len(name)} bytes; it must have 1 to "
                            f"{NAME_BYTES_MAX}")
    return name


def subject_text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def subjects_of(subjects: Subjects) -> tuple[bytes, ...]:
    """The names of a call: one subject, or a few together."""
    if isinstance(subjects, (str, bytes, bytearray)):
        return (subject_bytes(subjects),)
    names = tuple(map(subject_bytes, each_of(subjects, "subjects")))
    if not 0 < len(names) <= CALL_SUBJECTS_MAX:
        raise LimitExceeded(f"a call names 1 to {CALL_SUBJECTS_MAX} subjects, not {len(names)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"a call names each subject once: {subject_text(twice)!r:.80} is a "
                              "duplicate")
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

def amount(what: str, value: int) -> int:
    return whole(what, value, 0, AMOUNT_MAX)


def amount_or_default(what: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    return whole(what, value, 0, REQUESTS_MAX if default == UNSET_32 else AMOUNT_MAX)


def check_cached(input_tokens: int, cached: int) -> None:
    if cached and cached > input_tokens:
        raise LimitExceeded(f"cached_input_tokens are a part of input_tokens: {cached} of "
                            f"{input_tokens}")


def lifetime_ms(value: float | None) -> int:
    """Rounds up; 0 stands for the server's default, or the reservation's last lifetime."""
    if value is None:
        return 0
    lowest, highest = LIFETIME_MS
    return math.ceil(seconds("lifetime", value, lowest / 1000, highest / 1000) * 1000)


def wait_flags(wait: bool, wait_limit: float | None) -> tuple[int, int]:
    if wait_limit is not None and not wait:
        raise InvalidArgument("wait_limit needs wait=True")
    return MAY_WAIT if wait else 0, milliseconds(wait_limit, "wait_limit")


def short_bytes(what: str, value: Subject | None) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, (str, bytes, bytearray)):
        raise InvalidType(f"{what} is str or bytes, not {value!r:.40}")
    data = utf8(what, value) if isinstance(value, str) else bytes(value)
    if len(data) > ID_BYTES_MAX:
        raise LimitExceeded(f"{what} has {len(data)} bytes; at most {ID_BYTES_MAX}")
    return data


def reservation_id(reservation: Any) -> int:
    """The id of a Reservation; or the id itself, as a number or as 16 hexadecimal digits."""
    value = getattr(reservation, "id", reservation)
    if isinstance(value, str):
        if not ID_TEXT.fullmatch(value):
            raise InvalidArgument(f"{value!r:.80} is no reservation id: pass a number, or 16 "
                                  "hexadecimal digits as in REST and the command line")
        value = int(value, 16)
    return whole("reservation", value, 0, 2**64 - 1)


def reservation_ids(reservations: Iterable[Any]) -> list[int]:
    if isinstance(reservations, (str, bytes)):
        raise InvalidType(f"reservations is one reservation, {reservations!r:.40}: pass a list of "
                          "them")
    return [reservation_id(each) for each in each_of(reservations, "reservations")]


def shard_of(reservation: int) -> int:
    return reservation >> 56


# ---- single calls --------------------------------------------------------------------------------

def reserve_terms(wait: bool, wait_limit: float | None, lifetime: float | None, owner: str | None,
                  connection_bound: bool, more: int = WANTS_VIOLATED) -> QuotaTerms:
    flags, limit_ms = wait_flags(wait, wait_limit)
    try:
        name = short_bytes("owner", owner).decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"owner {owner!r:.80} is no UTF-8: {error.reason}") from None
    flags |= more | (CONNECTION_BOUND if connection_bound else 0)
    return QuotaTerms(RESERVE, flags, limit_ms, lifetime_ms(lifetime), name)


def reserve_entry(subjects: Subjects, requests: int, input_tokens: int,
                  max_output_tokens: int | None, cost: int,
                  id: Subject | None = None) -> ReserveEntry:
    return ReserveEntry(
        subjects_of(subjects), whole("requests", requests, 0, REQUESTS_MAX),
        amount("input_tokens", input_tokens),
        amount_or_default("max_output_tokens", max_output_tokens, UNSET_64), amount("cost", cost),
        short_bytes("id", id))


def reserve_call(subjects: Subjects, requests: int, input_tokens: int,
                 max_output_tokens: int | None, cost: int, lifetime: float | None, wait: bool,
                 wait_limit: float | None, id: Subject | None, owner: str | None,
                 connection_bound: bool, limits: bool) -> Call:
    terms = reserve_terms(wait, wait_limit, lifetime, owner, connection_bound,
                          WANTS_LIMITS if limits else WANTS_VIOLATED)
    return terms, reserve_entry(subjects, requests, input_tokens, max_output_tokens, cost, id)


def lease_call(subject: Subject, lifetime: float | None, owner: str | None, wait: bool,
               wait_limit: float | None, renew: bool, connection_bound: bool) -> Call:
    """Reserves a slot of concurrency, and no request."""
    if renew and lifetime is None:
        raise InvalidArgument("renew=True needs a lifetime: how long the slot outlives its holder")
    terms = reserve_terms(wait, wait_limit, lifetime, owner, connection_bound)
    return terms, reserve_entry(subject, 0, 0, 0, 0)


def check_call(subjects: Subjects, requests: int, input_tokens: int,
               max_output_tokens: int | None, cost: int) -> Call:
    return QuotaTerms(CHECK, WANTS_LIMITS), reserve_entry(subjects, requests, input_tokens,
                                                          max_output_tokens, cost)


def settle_entry(reservation: Any, input_tokens: int | None, output_tokens: int | None,
                 cached_input_tokens: int, cost: int | None, requests: int | None) -> SettleEntry:
    used = amount_or_default("input_tokens", input_tokens, UNSET_64)
    cached = amount("cached_input_tokens", cached_input_tokens)
    check_cached(used, cached)
    return SettleEntry(
        reservation_id(reservation), amount_or_default("requests", requests, UNSET_32), used,
        cached, amount_or_default("output_tokens", output_tokens, UNSET_64),
        amount_or_default("cost", cost, UNSET_64))


def settle_call(*arguments: Any) -> Call:
    entry = settle_entry(*arguments)
    return QuotaTerms(SETTLE, shard=shard_of(entry.reservation)), entry


def cancel_call(reservation: Any, keep_requests: bool) -> Call:
    number = reservation_id(reservation)
    return (QuotaTerms(CANCEL, KEEP_REQUESTS if keep_requests else 0, shard=shard_of(number)),
            SettleEntry(number))


def extend_call(reservation: Any, lifetime: float | None) -> Call:
    number = reservation_id(reservation)
    return (QuotaTerms(EXTEND, lifetime_ms=lifetime_ms(lifetime), shard=shard_of(number)),
            SettleEntry(number))


def record_call(subjects: Subjects, requests: int, input_tokens: int, output_tokens: int,
                cached_input_tokens: int, cost: int) -> Call:
    used, cached = (amount("input_tokens", input_tokens),
                    amount("cached_input_tokens", cached_input_tokens))
    check_cached(used, cached)
    return QuotaTerms(RECORD), RecordEntry(
        subjects_of(subjects), whole("requests", requests, 0, REQUESTS_MAX), used, cached,
        amount("output_tokens", output_tokens), amount("cost", cost))


# ---- batches -------------------------------------------------------------------------------------

def column(values: Numbers, count: int, default: int, what: str) -> Sequence[int]:
    numbers = spread(values, count, what, 0, REQUESTS_MAX if what == "requests" else AMOUNT_MAX)
    return [default] * count if numbers is None else numbers


def reserve_entries(subjects: Iterable[Subjects], requests: Numbers, input_tokens: Numbers,
                    max_output_tokens: Numbers, costs: Numbers,
                    ids: Sequence[Subject | None] | None) -> list[ReserveEntry]:
    """An entry for each of `subjects`, each of which is one name or a few."""
    if isinstance(subjects, (str, bytes)):
        raise InvalidType(f"subjects is one subject, {subjects!r:.40}: pass a list of them")
    names = [subjects_of(each) for each in each_of(subjects, "subjects")]
    count = len(names)
    if isinstance(ids, (str, bytes)):
        raise InvalidType(f"ids is one id, {ids!r:.40}: pass a list of them")
    own = [b""] * count if ids is None else [short_bytes("id", each)
                                             for each in each_of(ids, "ids")]
    if len(own) != count:
        raise InvalidArgument(f"{len(own)} ids for {count} entries: give one each")
    return list(map(ReserveEntry, names, column(requests, count, 1, "requests"),
                    column(input_tokens, count, 0, "input_tokens"),
                    column(max_output_tokens, count, UNSET_64, "max_output_tokens"),
                    column(costs, count, 0, "costs"), own))


def settle_entries(reservations: Iterable[Any], requests: Numbers, input_tokens: Numbers,
                   cached_input_tokens: Numbers, output_tokens: Numbers,
                   costs: Numbers) -> list[SettleEntry]:
    numbers = reservation_ids(reservations)
    count = len(numbers)
    entries = list(map(SettleEntry, numbers, column(requests, count, UNSET_32, "requests"),
                       column(input_tokens, count, UNSET_64, "input_tokens"),
                       column(cached_input_tokens, count, 0, "cached_input_tokens"),
                       column(output_tokens, count, UNSET_64, "output_tokens"),
                       column(costs, count, UNSET_64, "costs")))
    for entry in entries:
        check_cached(entry.input_tokens, entry.cached_input_tokens)
    return entries


def reserve_calls(subjects: Iterable[Subjects], requests: Numbers, input_tokens: Numbers,
                  max_output_tokens: Numbers, costs: Numbers,
                  ids: Sequence[Subject | None] | None, lifetime: float | None, wait: bool,
                  wait_limit: float | None, owner: str | None, connection_bound: bool) -> Calls:
    entries = reserve_entries(subjects, requests, input_tokens, max_output_tokens, costs, ids)
    return reserve_terms(wait, wait_limit, lifetime, owner, connection_bound, 0), entries


def settle_calls(*arguments: Any) -> Calls:
    return QuotaTerms(SETTLE), settle_entries(*arguments)


def cancel_calls(reservations: Iterable[Any], keep_requests: bool) -> Calls:
    return (QuotaTerms(CANCEL, KEEP_REQUESTS if keep_requests else 0),
            list(map(SettleEntry, reservation_ids(reservations))))


# ---- quotas --------------------------------------------------------------------------------------

def quota_text(limits: Limits, expired: str | None, overtakers: int | None) -> QuotaText:
    """The quota that put_quota() sends."""
    quota = limits if isinstance(limits, Quota) else Quota(limits_of(limits))
    return Quota(quota.limits, quota.expired if expired is None else expired,  # type: ignore
                 quota.overtakers if overtakers is None else overtakers).as_text()
