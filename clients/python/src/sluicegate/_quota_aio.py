"""Quotas of the asyncio client: those of _quota_client.py, awaited.

Flow:   what a turn of the loop asks is sent together at its end.
Units:  seconds; tokens, requests, micro-units of cost.
Errors: as of the blocking client. A task that is cancelled while it asks gets nothing: what it was
        given nevertheless is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator, Coroutine, Generator, Iterable, Sequence
from typing import Any, Generic, TypeVar, overload

from . import _quota_arguments as asked
from . import _quota_base as base
from ._base import DEFAULT, Timeout
from ._caller_aio import AsyncCaller
from ._quota_arguments import Call, Calls, Limits, Numbers, Subject, Subjects
from ._quota_base import QuotaBase
from ._quota_requests import Form, Outcome, Wanted
from ._quota_reservations import RENEWALS, Held, Leased
from .errors import ReservationEnded, SluicegateError, UnknownReservation
from .quota import Decision, Quota, QuotaResults, Stats, Usage


class AsyncReservation(Held):
    """What was reserved: settle it with what was used, or cancel it.

    An `async with` block that ends without either, by whatever way, cancels it: everything is given
    back. Nothing is raised for what ended by itself, or whose server is gone: the lifetime ends it
    there.
    """

    def __init__(self, client: AsyncQuotaCalls, outcome: Outcome,
                 subjects: tuple[bytes, ...]) -> None:
        super().__init__(outcome, subjects)
        self._client = client

    async def __aenter__(self: Own) -> Own:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ends_with_block:
            with contextlib.suppress(SluicegateError):
                await self.cancel()

    async def settle(self, input_tokens: int | None = None, output_tokens: int | None = None,
                     cached_input_tokens: int = 0, cost: int | None = None,
                     requests: int | None = None, *, timeout: Timeout = DEFAULT) -> None:
        """Replaces the estimate by what was used; what is not told stays as reserved.

        A repeat changes nothing. More than was reserved is charged, too: the next ones wait.
        """
        self.is_open = False  # also if it fails: work was done, so nothing must be given back
        if self.id:
            await self._client.settle(self.id, input_tokens, output_tokens, cached_input_tokens,
                                      cost, requests, timeout=timeout)

    async def cancel(self, keep_requests: bool = False, *, timeout: Timeout = DEFAULT) -> None:
        """Gives everything back; the requests stay charged with keep_requests=True."""
        self.is_open = False
        if self.id:
            await self._client.cancel(self.id, keep_requests, timeout=timeout)

    async def extend(self, lifetime: float | None = None, *, timeout: Timeout = DEFAULT) -> None:
        """Lives for `lifetime` seconds from now on; None: for as long as it last got."""
        if self.id:
            try:
                await self._client.extend(self.id, lifetime, timeout=timeout)
            except (UnknownReservation, ReservationEnded):
                self.is_open = False
                raise


Own = TypeVar("Own", bound=AsyncReservation)
Kept = TypeVar("Kept", bound=AsyncReservation)


class AsyncLease(AsyncReservation, Leased):
    """A slot of a subject's concurrency limit. It is free again when the `async with` block
    ends, by release(), or when its lifetime ends: a holder that dies keeps it no longer.

    With renew=True a task extends it while somebody holds on to this object; `held` is false
    once it is certain, or possible, that the slot was lost. Without it nobody looks at the
    lifetime: `held` tells only whether it was ended here.
    """

    def __init__(self, client: AsyncQuotaCalls, outcome: Outcome,
                 subjects: tuple[bytes, ...]) -> None:
        super().__init__(client, outcome, subjects)
        self._renewal: asyncio.Task[None] | None = None

    async def release(self, *, timeout: Timeout = DEFAULT) -> None:
        await self.cancel(timeout=timeout)

    async def cancel(self, keep_requests: bool = False, *, timeout: Timeout = DEFAULT) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        await super().cancel(keep_requests, timeout=timeout)

    def _renew(self, lifetime: float, since: float) -> None:
        self._renewed(since, lifetime)
        loop = asyncio.get_running_loop()
        self._renewal = loop.create_task(renewing(weakref.ref(self), lifetime))
        weakref.finalize(self, self._renewal.cancel).atexit = False  # its loop is closed by then

    async def _try_to_extend(self, lifetime: float) -> float:
        """How long to pause before the next time; 0: it is over."""
        since = time.monotonic()
        try:
            await self.extend(lifetime, timeout=lifetime / RENEWALS)
        except SluicegateError as error:
            return self._not_renewed(error, lifetime)
        return self._renewed(since, lifetime)


async def renewing(lease_of: weakref.ref[AsyncLease], lifetime: float) -> None:
    """Holds on to the lease only while it extends it: who forgets a lease loses it."""
    pause = lifetime / RENEWALS
    while pause:
        await asyncio.sleep(pause)
        lease = lease_of()
        if lease is None:
            return
        pause = await lease._try_to_extend(lifetime)
        del lease


class Reserving(Generic[Kept]):
    """To be awaited, or entered: `await client.reserve(...)`, `async with client.reserve(...)`."""

    def __init__(self, asking: Coroutine[Any, Any, Kept]) -> None:
        self._asking = asking
        self._kept: Kept | None = None

    def __await__(self) -> Generator[Any, None, Kept]:
        return self._asking.__await__()

    async def __aenter__(self) -> Kept:
        self._kept = await self._asking
        return self._kept

    async def __aexit__(self, *reason: object) -> None:
        assert self._kept is not None
        await self._kept.__aexit__(*reason)


class AsyncQuotaCalls(AsyncCaller, QuotaBase):
    """The part of AsyncClient that is about quotas."""

    # --- reservations

    def reserve(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                max_output_tokens: int | None = None, cost: int = 0,
                lifetime: float | None = None, wait: bool = False,
                wait_limit: float | None = None, id: Subject | None = None,
                owner: str | None = None, connection_bound: bool = False, limits: bool = False,
                timeout: Timeout = DEFAULT) -> Reserving[AsyncReservation]:
        """Reserves in all limits of all subjects, or raises QuotaDenied: then nowhere.

        `subjects` is one name, or up to 8 that share a {tag}. `max_output_tokens=None`: what the
        server takes for it. `lifetime`: seconds after which it ends by itself, keeping its charge
        (unless the quota says "refund") and freeing its slot. `wait=True` stands in line, for at
        most `wait_limit` seconds. A repeat with the same `id` gets the first reservation.
        `tied=True`: ends with this client's connection. `limits=True`: tells how they stand.
        """
        form, entry = asked.reserve_call(
            subjects, requests, input_tokens, max_output_tokens, cost, lifetime, wait, wait_limit,
            id, owner, connection_bound, limits)
        return Reserving(self._reserving(form, entry, timeout, wait_limit))

    async def _reserving(self, form: Form, entry: Wanted, timeout: Timeout,
                         wait_limit: float | None) -> AsyncReservation:
        outcome = base.admitted(await self._ask_quota(form, entry, timeout, wait_limit),
                                entry.subjects)
        return AsyncReservation(self, outcome, entry.subjects)

    async def settle(self, reservation: AsyncReservation | int | str,
                     input_tokens: int | None = None, output_tokens: int | None = None,
                     cached_input_tokens: int = 0, cost: int | None = None,
                     requests: int | None = None, *, timeout: Timeout = DEFAULT) -> None:
        """Reservation.settle(), by its number or its 16 hexadecimal digits."""
        await self._end(asked.settle_call(reservation, input_tokens, output_tokens,
                                          cached_input_tokens, cost, requests), timeout)

    async def cancel(self, reservation: AsyncReservation | int | str, keep_requests: bool = False,
                     *, timeout: Timeout = DEFAULT) -> None:
        """Reservation.cancel(), by its number or its 16 hexadecimal digits."""
        await self._end(asked.cancel_call(reservation, keep_requests), timeout)

    async def extend(self, reservation: AsyncReservation | int | str, lifetime: float | None = None,
                     *, timeout: Timeout = DEFAULT) -> None:
        """Reservation.extend(), by its number or its 16 hexadecimal digits."""
        await self._end(asked.extend_call(reservation, lifetime), timeout)

    async def _end(self, call: Call, timeout: Timeout) -> None:
        form, entry = call
        base.unless_ended(await self._ask_quota(form, entry, timeout, None), entry.reservation)

    def lease(self, subject: Subject, *, lifetime: float | None = None,
              owner: str | None = None, wait: bool = False, wait_limit: float | None = None,
              renew: bool = False, connection_bound: bool = False,
              timeout: Timeout = DEFAULT) -> Reserving[AsyncLease]:
        """A slot of the subject, and nothing else; raises QuotaDenied when none is free.

        `renew=True` extends it every third of its `lifetime`, by a task of its own.
        """
        form, entry = asked.lease_call(subject, lifetime, owner, wait, wait_limit, renew, connection_bound)
        return Reserving(self._leasing(form, entry, timeout, wait_limit,
                                       lifetime if renew else None))

    async def _leasing(self, form: Form, entry: Wanted, timeout: Timeout, wait_limit: float | None,
                       renewed_for: float | None) -> AsyncLease:
        since = time.monotonic()
        outcome = base.admitted(await self._ask_quota(form, entry, timeout, wait_limit),
                                entry.subjects)
        lease = AsyncLease(self, outcome, entry.subjects)
        if renewed_for is not None and lease.id:
            lease._renew(renewed_for, time.monotonic() if form.may_wait else since)
        return lease

    async def reserve_many(self, subjects: Iterable[Subjects], *, requests: Numbers = None,
                           input_tokens: Numbers = None, max_output_tokens: Numbers = None,
                           costs: Numbers = None, ids: Sequence[Subject | None] | None = None,
                           lifetime: float | None = None, wait: bool = False,
                           wait_limit: float | None = None, owner: str | None = None,
                           connection_bound: bool = False, timeout: Timeout = DEFAULT) -> QuotaResults:
        """A reservation for each of `subjects`, by itself: some may be denied, none is raised.

        Numbers hold for all, or are one each. `.reservations` has the ids, for settle_many().
        """
        return await self._many(asked.reserve_calls(
            subjects, requests, input_tokens, max_output_tokens, costs, ids, lifetime, wait,
            wait_limit, owner, connection_bound), timeout, wait_limit)

    async def settle_many(self, reservations: Iterable[AsyncReservation | int | str], *,
                          requests: Numbers = None, input_tokens: Numbers = None,
                          cached_input_tokens: Numbers = None, output_tokens: Numbers = None,
                          costs: Numbers = None, timeout: Timeout = DEFAULT) -> QuotaResults:
        """settle() for each: OK, or why not. What is None stays as reserved."""
        return await self._many(asked.settle_calls(
            reservations, requests, input_tokens, cached_input_tokens, output_tokens, costs),
            timeout)

    async def cancel_many(self, reservations: Iterable[AsyncReservation | int | str],
                          keep_requests: bool = False, *,
                          timeout: Timeout = DEFAULT) -> QuotaResults:
        """cancel() for each: OK, or why not."""
        return await self._many(asked.cancel_calls(reservations, keep_requests), timeout)

    async def _many(self, calls: Calls, timeout: Timeout,
                    wait_limit: float | None = None) -> QuotaResults:
        seconds = self._seconds(timeout, calls[0].may_wait, wait_limit)
        results: QuotaResults = await self._run_many(self._many_calls(calls), seconds)
        return results

    # --- without a reservation

    async def check(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                    max_output_tokens: int | None = None, cost: int = 0,
                    timeout: Timeout = DEFAULT) -> Decision:
        """What reserve() would be told now; changes and creates nothing."""
        form, entry = asked.check_call(subjects, requests, input_tokens, max_output_tokens, cost)
        return base.decision_of(await self._ask_quota(form, entry, timeout, None))

    async def record(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                     output_tokens: int = 0, cached_input_tokens: int = 0, cost: int = 0,
                     timeout: Timeout = DEFAULT) -> None:
        """Charges what was used without asking first."""
        form, entry = asked.record_call(subjects, requests, input_tokens, output_tokens,
                                        cached_input_tokens, cost)
        base.admitted(await self._ask_quota(form, entry, timeout, None), entry.subjects)

    @overload
    async def usage(  # type: ignore[overload-overlap]  # a str is an iterable of them, too
        self, subjects: Subject, *, timeout: Timeout = DEFAULT) -> Usage: ...
    @overload
    async def usage(self, subjects: Iterable[Subject], *,
                    timeout: Timeout = DEFAULT) -> list[Usage]: ...
    async def usage(self, subjects: Subjects, *, timeout: Timeout = DEFAULT) -> Usage | list[Usage]:
        """How a subject stands, or each of many; one that nobody knows has source "none"."""
        names, is_one = asked.usage_names(subjects)
        reported = [usage for group in asked.groups(names)
                for usage in await self._run_question(self._using(group), timeout)]
        return reported[0] if is_one else reported

    async def subjects(self, *, timeout: Timeout = DEFAULT) -> AsyncIterator[Usage]:
        """Every subject, a page at a time: `timeout` is for each page."""
        cursor = 0
        while True:
            page, cursor = await self._run_question(self._paging(cursor), timeout)
            for usage in page:
                yield usage
            if not cursor:
                return

    # --- quotas

    async def set_quota(self, subject: Subject, limits: Limits, *, expired: str | None = None,
                        overtakers: int | None = None, timeout: Timeout = DEFAULT) -> None:
        """Puts a subject's quota, which goes before the configuration file's until it is deleted.

        `limits` are Limit values, dicts as in the JSON of the REST API, or a Quota. Usage against a
        limit that stays the same but for its amount is kept.
        """
        name = asked.subject_bytes(subject)
        code = await self._run_question(self._putting(name, limits, expired, overtakers), timeout)
        base.unless_changed(code, name)

    async def get_quota(self, subject: Subject, *, timeout: Timeout = DEFAULT) -> Quota | None:
        """A subject's quota, with its source; None when it has none."""
        return (await self.usage(subject, timeout=timeout)).quota

    async def delete_quota(self, subject: Subject, *, timeout: Timeout = DEFAULT) -> bool:
        """Deletes what was put: the configuration file's holds again. False: nothing was put."""
        name = asked.subject_bytes(subject)
        code = await self._run_question(self._removing(name), timeout)
        return base.was_deleted(code, name)

    async def reset(self, subject: Subject, *, timeout: Timeout = DEFAULT) -> None:
        """Forgets what a subject has used; open reservations and their slots stay."""
        name = asked.subject_bytes(subject)
        base.unless_changed(await self._run_question(self._resetting(name), timeout), name)

    async def reset_all(self, *, timeout: Timeout = DEFAULT) -> None:
        """reset() of every subject."""
        base.unless_changed(await self._run_question(self._resetting(b"", True), timeout), b"all")

    # --- by the reference's names

    async def can_send(self, model: Subject, tokens: int, *, timeout: Timeout = DEFAULT) -> bool:
        """Whether one request of so many tokens would be admitted now. Between this and the
        request others may be faster: reserve() is the way to be sure."""
        return (await self.decide(model, tokens, timeout=timeout)).allowed

    async def decide(self, model: Subject, tokens: int, *, timeout: Timeout = DEFAULT) -> Decision:
        """check() for one request of so many tokens, by the reference's codes and reasons."""
        if tokens < 0:
            return base.INVALID_TOKENS
        return await self.check(model, input_tokens=tokens, max_output_tokens=0, timeout=timeout)

    async def record_usage(self, model: Subject, prompt: int, output: int, *,
                           timeout: Timeout = DEFAULT) -> None:
        """record() of one request."""
        await self.record(model, input_tokens=prompt, output_tokens=output, timeout=timeout)

    def wait_for_capacity(self, model: Subject, tokens: int, timeout: float | None = None, *,
                          lifetime: float | None = None) -> Reserving[AsyncReservation]:
        """Waits in line for at most `timeout` seconds, and reserves one request of so many tokens.

        Raises QuotaDenied: at once when it never fits, or not in time.
        """
        return self.reserve(model, input_tokens=tokens, max_output_tokens=0, wait=True,
                            wait_limit=timeout, lifetime=lifetime)

    async def stats(self, model: Subject, *, timeout: Timeout = DEFAULT) -> Stats:
        """Requests and tokens of this minute, requests of this day, and what is allowed."""
        return (await self.usage(model, timeout=timeout)).stats

    async def all_stats(self, *, timeout: Timeout = DEFAULT) -> dict[str, Stats]:
        return {usage.subject: usage.stats async for usage in self.subjects(timeout=timeout)}

    async def models(self, *, timeout: Timeout = DEFAULT) -> list[str]:
        """The names of all subjects."""
        return [usage.subject async for usage in self.subjects(timeout=timeout)]
