"""Quotas of the asyncio client: those of _quota_client.py, awaited.

Flow:   the calls of one loop iteration are sent together at its end.
Units:  seconds; tokens, requests, micro-units of cost.
Errors: as for the blocking client. When a task is cancelled during a call, the client cancels the
        reservation that the server may have made for it.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import (AsyncIterator, Callable, Coroutine, Generator, Iterable,
                             Sequence)
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from . import _quota_arguments as arguments
from . import _quota_base as base
from ._base import DEFAULT, Timeout
from ._bounds import CAPACITY_TIMEOUT, TIMEOUT
from ._caller_aio import AsyncCaller
from ._dispatcher import Settings, milliseconds
from ._invalid import seconds
from ._quota_arguments import Call, Calls, Limits, Numbers, Subject, Subjects
from ._quota_base import MakeControl, QuotaBase
from ._quota_requests import Outcome, QuotaEntry, QuotaTerms, ReserveEntry
from ._quota_reservations import (RENEWALS, LeaseState, OnException, ReservationState,
                                  check_on_exception, is_without_server, mark_ended)
from ._settle_keeper_aio import AsyncSettleKeeper
from .errors import ReservationEnded, SluicegateError, UnknownReservation
from .quota import Decision, Expired, Quota, QuotaResults, Stats, Usage

if TYPE_CHECKING:
    from ._node_quotas_aio import AsyncNodeQuotas


class AsyncReservation(ReservationState):
    """A reservation: settle it with the used amounts, or cancel it.

    If the `async with` block ends without either, it settles what was reported by report(); if
    nothing was, it cancels the reservation, and the server refunds everything. `on_exception` of
    reserve() can change that for a block that an exception ends. It raises nothing: a
    cancelled reservation of which the server does not learn ends with its lifetime, and a settle is
    kept, or counted as lost.
    """

    def __init__(self, client: AsyncQuotaCalls, outcome: Outcome, terms: QuotaTerms,
                 entry: ReserveEntry, on_exception: OnException = "charge_reported") -> None:
        super().__init__(outcome, terms, entry, client._monotonic,
                         client._server_start(outcome.reservation))
        self._client = client
        self._on_exception = on_exception

    async def __aenter__(self: Own) -> Own:
        return self

    async def __aexit__(self, kind: object = None, *_: object) -> None:
        if self._ends_with_block:
            used = self._used_at_end(kind is not None)
            try:
                if kind is asyncio.CancelledError and used is not None:
                    self.settle_nowait(*used)  # no server holds up a task that is to end
                else:
                    await (self.cancel() if used is None else self.settle(*used))
            except SluicegateError as error:
                if used is not None:
                    self._client._settle_keeper.lose(repr(self), error)

    async def settle(self, input_tokens: int | None = None, output_tokens: int | None = None,
                     cached_input_tokens: int = 0, cost: int | None = None,
                     requests: int | None = None, *, timeout: Timeout = DEFAULT) -> None:
        """Replaces the estimate by the used amounts; an amount that is not given stays as reserved.

        A repeat changes nothing. Usage above the reservation is charged too: later calls wait.
        """
        self._mark_ended()  # also if it fails: the work was done, so no refund may follow
        await self._client.settle(self, input_tokens, output_tokens, cached_input_tokens, cost,
                                  requests, timeout=timeout)

    def settle_nowait(self, input_tokens: int | None = None, output_tokens: int | None = None,
                      cached_input_tokens: int = 0, cost: int | None = None,
                      requests: int | None = None) -> None:
        """settle() that returns at once: the client sends it, and repeats it until a server takes
        it or its time ends. Raises Overloaded when `kept_settles_max` are kept.
        """
        self._mark_ended()
        self._client.settle_nowait(self, input_tokens, output_tokens, cached_input_tokens, cost,
                                   requests)

    async def cancel(self, keep_requests: bool = False, *, timeout: Timeout = DEFAULT) -> None:
        """Refunds everything; the requests stay charged with keep_requests=True."""
        self._mark_ended()
        if self.id:
            await self._client.cancel(self.id, keep_requests, timeout=timeout)

    async def extend(self, lifetime: float | None = None, *, timeout: Timeout = DEFAULT) -> None:
        """Renews the lifetime to `lifetime` seconds from now; None: as long as the last one."""
        if self.id:
            try:
                await self._client.extend(self.id, lifetime, timeout=timeout)
                self._outlives(lifetime)
            except (UnknownReservation, ReservationEnded):
                self._mark_ended()
                raise


Own = TypeVar("Own", bound=AsyncReservation)
Kept = TypeVar("Kept", bound=AsyncReservation)


class AsyncLease(AsyncReservation, LeaseState):
    """A slot of its subjects' concurrency limits, of each one. The end of the `async with` block,
    release() and the end of its lifetime free it: a holder that dies keeps it no longer than that.

    With renew=True a task extends it while this object is referenced. `held` is false once the slot
    is lost, or may be lost: after its `lifetime`, unless it was extended in time. If only the
    server knows the lifetime, because none was given, `held` is false after this client's end of
    the lease.
    """

    def __init__(self, client: AsyncQuotaCalls, outcome: Outcome, terms: QuotaTerms,
                 entry: ReserveEntry) -> None:
        super().__init__(client, outcome, terms, entry)
        self._renewal: asyncio.Task[None] | None = None

    async def release(self, *, timeout: Timeout = DEFAULT) -> None:
        await self.cancel(timeout=timeout)

    async def cancel(self, keep_requests: bool = False, *, timeout: Timeout = DEFAULT) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        await super().cancel(keep_requests, timeout=timeout)

    async def extend(self, lifetime: float | None = None, *, timeout: Timeout = DEFAULT) -> None:
        since = self._monotonic()
        self._extends(since, lifetime)
        await super().extend(lifetime, timeout=timeout)
        self._extended(since, lifetime)

    def _renew(self, lifetime: float) -> None:
        loop = asyncio.get_running_loop()
        self._renewal = loop.create_task(renewing(weakref.ref(self), lifetime))
        weakref.finalize(self, self._renewal.cancel).atexit = False  # its loop is closed by then

    async def _try_to_extend(self, lifetime: float) -> float:
        """Returns the pause before the next renewal; 0: stop renewing."""
        since = self._monotonic()
        try:
            await super().extend(lifetime, timeout=lifetime / RENEWALS)
        except SluicegateError as error:
            return self._not_renewed(error, lifetime)
        return self._renewed(since, lifetime)


async def renewing(lease_of: weakref.ref[AsyncLease], lifetime: float) -> None:
    """References the lease only while it extends it: a lease that its holder drops expires."""
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

    def __init__(self, reserving: Coroutine[Any, Any, Kept]) -> None:
        self._reserving = reserving
        self._kept: Kept | None = None

    def __await__(self) -> Generator[Any, None, Kept]:
        return self._reserving.__await__()

    async def __aenter__(self) -> Kept:
        self._kept = await self._reserving
        return self._kept

    async def __aexit__(self, *reason: object) -> None:
        assert self._kept is not None
        await self._kept.__aexit__(*reason)


class AsyncQuotaCalls(AsyncCaller, QuotaBase):
    """The part of AsyncClient that is about quotas."""

    _node_quotas: AsyncNodeQuotas | None = None  # None: of a single address
    _settle_keeper: AsyncSettleKeeper

    def __init__(self, address: str | Sequence[str], settings: Settings,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(address, settings, monotonic)
        self._settle_keeper = AsyncSettleKeeper(self)

    async def _call(self, terms: QuotaTerms, entry: QuotaEntry, timeout: Timeout,
                    wait_limit: float | None) -> Any:
        seconds = self._seconds(timeout, terms.may_wait, wait_limit)
        if self._node_quotas is not None:
            return await self._node_quotas.call(terms, entry, seconds)
        return await self._run_quota_call(terms, entry, seconds)

    async def _ask_owner(self, subject: bytes, make: Callable[[AsyncQuotaCalls], MakeControl],
                         timeout: Timeout, may_repeat: bool = False) -> Any:
        """Of this subject. `may_repeat`: with requeue=True also after a loss."""
        if self._node_quotas is None:
            return await self._run_control(make(self), timeout)
        return await self._node_quotas.ask_owner(
            subject, lambda client, left: client._run_control(make(client), left), timeout,
            may_repeat)

    # --- reservations

    def reserve(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                max_output_tokens: int | None = None, cost: int = 0,
                lifetime: float | None = None, wait: bool = False,
                wait_limit: float | None = None, id: Subject | None = None,
                owner: str | None = None, connection_bound: bool = False, limits: bool = False,
                on_exception: OnException = "charge_reported",
                timeout: Timeout = DEFAULT) -> Reserving[AsyncReservation]:
        """Reserves in all limits of all subjects, or raises QuotaDenied and reserves nothing.

        `subjects` is one name, or up to 8.
        `max_output_tokens=None`: the server's default. `lifetime`: seconds after which it expires,
        keeping its charge (unless the quota has expired="refund") and freeing its slot.
        `wait=True` waits in the queue, for at most `wait_limit` seconds. A repeat with the same
        `id` gets the first reservation. `connection_bound=True`: it expires when the connection
        that made it ends. `limits=True`: the result has the state of every limit. `on_exception`:
        what a block that an exception ends does: "charge_reported" settles what report() has, and
        cancels if that is nothing; "charge_all" leaves all as reserved; "refund" cancels.
        """
        check_on_exception(on_exception)
        terms, entry = arguments.reserve_call(
            subjects, requests, input_tokens, max_output_tokens, cost, lifetime, wait, wait_limit,
            id, owner, connection_bound, limits)
        return Reserving(self._reserving(terms, entry, timeout, wait_limit, on_exception))

    async def _reserving(self, terms: QuotaTerms, entry: ReserveEntry, timeout: Timeout,
                         wait_limit: float | None,
                         on_exception: OnException) -> AsyncReservation:
        outcome = base.admitted(await self._call(terms, entry, timeout, wait_limit),
                                entry.subjects)
        return AsyncReservation(self, outcome, terms, entry, on_exception)

    async def settle(self, reservation: AsyncReservation | int | str,
                     input_tokens: int | None = None, output_tokens: int | None = None,
                     cached_input_tokens: int = 0, cost: int | None = None,
                     requests: int | None = None, *, timeout: Timeout = DEFAULT) -> None:
        """Reservation.settle(), also by the id as a number or as 16 hexadecimal digits.

        With a failure policy, on_failure="open" or "closed", it returns also if no server took it:
        the client repeats it until one does, or its time ends. A server that was restarted and has
        forgotten the reservation gets the usage as a record, unless only the id was given.
        """
        terms, entry = arguments.settle_call(
            reservation, input_tokens, output_tokens, cached_input_tokens, cost, requests)
        mark_ended(reservation)
        if is_without_server(reservation):
            self._keep(reservation, entry)
            return
        try:
            base.unless_ended(await self._call(terms, entry, timeout, None), entry.reservation)
        except BaseException as error:
            if not self._is_kept(error, reservation, entry):
                raise

    async def cancel(self, reservation: AsyncReservation | int | str, keep_requests: bool = False,
                     *, timeout: Timeout = DEFAULT) -> None:
        """Reservation.cancel(), by the id as a number or as 16 hexadecimal digits."""
        await self._change_reservation(arguments.cancel_call(reservation, keep_requests), timeout)

    async def extend(self, reservation: AsyncReservation | int | str, lifetime: float | None = None,
                     *, timeout: Timeout = DEFAULT) -> None:
        """Reservation.extend(), by the id as a number or as 16 hexadecimal digits."""
        await self._change_reservation(arguments.extend_call(reservation, lifetime), timeout)

    async def _change_reservation(self, call: Call, timeout: Timeout) -> None:
        terms, entry = call
        base.unless_ended(await self._call(terms, entry, timeout, None),
                          entry.reservation)

    def lease(self, subjects: Subjects, *, lifetime: float | None = None,
              owner: str | None = None, wait: bool = False, wait_limit: float | None = None,
              renew: bool = False, connection_bound: bool = False,
              timeout: Timeout = DEFAULT) -> Reserving[AsyncLease]:
        """Reserves a slot of each subject only; raises QuotaDenied when one of them has none free.

        With `renew=True` a task extends it every third of its `lifetime`.
        """
        terms, entry = arguments.lease_call(subjects, lifetime, owner, wait, wait_limit, renew,
                                            connection_bound)
        return Reserving(self._leasing(terms, entry, timeout, wait_limit, lifetime, renew))

    async def _leasing(self, terms: QuotaTerms, entry: ReserveEntry, timeout: Timeout,
                       wait_limit: float | None, lifetime: float | None,
                       renew: bool) -> AsyncLease:
        since = self._monotonic()
        outcome = base.admitted(await self._call(terms, entry, timeout, wait_limit),
                                entry.subjects)
        lease = AsyncLease(self, outcome, terms, entry)
        if lifetime is not None and lease.id:
            lease._extended(self._monotonic() if terms.may_wait else since, lifetime)
            if renew:
                lease._renew(lifetime)
        return lease

    async def reserve_many(self, subjects: Iterable[Subjects], *, requests: Numbers = None,
                           input_tokens: Numbers = None, max_output_tokens: Numbers = None,
                           costs: Numbers = None, ids: Sequence[Subject | None] | None = None,
                           lifetime: float | None = None, wait: bool = False,
                           wait_limit: float | None = None, owner: str | None = None,
                           connection_bound: bool = False,
                           timeout: Timeout = DEFAULT) -> QuotaResults:
        """An independent reservation for each of `subjects`: raises nothing for a denial.

        A number applies to all; a sequence has one for each. `.reservations` has the ids, for
        settle_many().
        """
        return await self._many(arguments.reserve_calls(
            subjects, requests, input_tokens, max_output_tokens, costs, ids, lifetime, wait,
            wait_limit, owner, connection_bound), timeout, wait_limit)

    async def settle_many(self, reservations: Iterable[AsyncReservation | int | str], *,
                          requests: Numbers = None, input_tokens: Numbers = None,
                          cached_input_tokens: Numbers = None, output_tokens: Numbers = None,
                          costs: Numbers = None, timeout: Timeout = DEFAULT) -> QuotaResults:
        """settle() for each: OK, or the cause of the failure. None stays as reserved.

        With a failure policy the code of a settle that no server took is KEPT: the client repeats
        it.
        """
        wanted = arguments.listed_reservations(reservations)
        calls = arguments.settle_calls(
            wanted, requests, input_tokens, cached_input_tokens, output_tokens, costs)
        for each in wanted:
            mark_ended(each)
        try:
            results = await self._many(calls, timeout)
        except BaseException as error:
            return self._settled(wanted, calls, None, error)
        return self._settled(wanted, calls, results)

    async def flush_settles(self, timeout: float | None = None) -> bool:
        """Waits until the client keeps no settle any more; False: not within `timeout` seconds."""
        limit = None if timeout is None else seconds(TIMEOUT, timeout)
        return await self._settle_keeper.flush(limit)

    async def cancel_many(self, reservations: Iterable[AsyncReservation | int | str],
                          keep_requests: bool = False, *,
                          timeout: Timeout = DEFAULT) -> QuotaResults:
        """cancel() for each: OK, or the cause of the failure."""
        return await self._many(arguments.cancel_calls(reservations, keep_requests), timeout)

    async def _many(self, calls: Calls, timeout: Timeout,
                    wait_limit: float | None = None) -> QuotaResults:
        seconds = self._seconds(timeout, calls[0].may_wait, wait_limit)
        if self._node_quotas is not None:
            return await self._node_quotas.many(calls, seconds)
        results: QuotaResults = await self._run_batch(self._quota_batch(calls), seconds)
        return results

    # --- without a reservation

    async def check(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                    max_output_tokens: int | None = None, cost: int = 0,
                    timeout: Timeout = DEFAULT) -> Decision:
        """The outcome that reserve() would have now; changes and creates nothing."""
        terms, entry = arguments.check_call(subjects, requests, input_tokens, max_output_tokens,
                                           cost)
        return base.decision_of(await self._call(terms, entry, timeout, None),
                                entry.subjects)

    async def record(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                     output_tokens: int = 0, cached_input_tokens: int = 0, cost: int = 0,
                     id: Subject | None = None, timeout: Timeout = DEFAULT) -> None:
        """Charges usage without a decision. A repeat with the same `id` is charged once."""
        terms, entry = arguments.record_call(subjects, requests, input_tokens, output_tokens,
                                            cached_input_tokens, cost, id)
        base.admitted(await self._call(terms, entry, timeout, None), entry.subjects)

    async def consume(self, subjects: Subjects, *, requests: int = 1, input_tokens: int = 0,
                      output_tokens: int = 0, cached_input_tokens: int = 0, cost: int = 0,
                      wait: bool = False, wait_limit: float | None = None,
                      id: Subject | None = None, limits: bool = False,
                      timeout: Timeout = DEFAULT) -> Decision:
        """Charges usage to all subjects if it fits, or raises QuotaDenied and charges nothing.

        No reservation is made, so there is nothing to settle. `wait=True` waits in the queue, for
        at most `wait_limit` seconds; one that is given up may have been charged meanwhile. A repeat
        with the same `id` is charged once. `limits=True`: the result has the state of every limit.
        """
        terms, entry = arguments.consume_call(
            wait, wait_limit, limits, subjects, requests, input_tokens, output_tokens,
            cached_input_tokens, cost, id)
        outcome = base.admitted(await self._call(terms, entry, timeout, wait_limit),
                                entry.subjects)
        return base.decision_of(outcome, entry.subjects)

    async def consume_many(self, subjects: Iterable[Subjects], *, requests: Numbers = None,
                           input_tokens: Numbers = None, output_tokens: Numbers = None,
                           cached_input_tokens: Numbers = None, costs: Numbers = None,
                           ids: Sequence[Subject | None] | None = None, wait: bool = False,
                           wait_limit: float | None = None,
                           timeout: Timeout = DEFAULT) -> QuotaResults:
        """consume() for each of `subjects`: raises nothing for a denial.

        A number applies to all; a sequence has one for each.
        """
        return await self._many(arguments.consume_calls(
            wait, wait_limit, subjects, requests, input_tokens, output_tokens, cached_input_tokens,
            costs, ids), timeout, wait_limit)

    @overload
    async def usage(  # type: ignore[overload-overlap]  # a str is an iterable of str too
        self, subjects: Subject, *, timeout: Timeout = DEFAULT) -> Usage: ...
    @overload
    async def usage(self, subjects: Iterable[Subject], *,
                    timeout: Timeout = DEFAULT) -> list[Usage]: ...
    async def usage(self, subjects: Subjects, *, timeout: Timeout = DEFAULT) -> Usage | list[Usage]:
        """The state of a subject, or of each of many; an unknown one has source "none"."""
        names, is_one = arguments.usage_names(subjects)
        usages: list[Usage] = []
        for group in arguments.groups(names):
            found = await self._ask_owner(
                group[0], lambda client: client._usage_request(group), timeout, may_repeat=True)
            usages += base.usages_of(group, found, self.welcome)
        return usages[0] if is_one else usages

    async def subjects(self, *, timeout: Timeout = DEFAULT) -> AsyncIterator[Usage]:
        """All subjects, a page at a time: `timeout` applies to each page."""
        cursor = 0
        while True:
            page, cursor = await self._run_control(self._usage_page_request(cursor), timeout)
            for usage in page:
                yield usage
            if not cursor:
                return

    # --- quotas

    async def put_quota(self, subject: Subject, limits: Limits, *, expired: Expired | None = None,
                        overtakers: int | None = None, timeout: Timeout = DEFAULT) -> None:
        """Puts a subject's quota, which overrides the policy file's until remove_quota().

        `limits` are Limit values, dicts as in the JSON of the REST API, or a Quota. A limit of
        which only the amount changes keeps its usage.
        """
        name = arguments.subject_bytes(subject)
        text = arguments.quota_text(limits, expired, overtakers)
        answer = await self._ask_owner(
            name, lambda client: client._put_request(name, text), timeout)
        base.unless_changed(answer, name)

    async def get_quota(self, subject: Subject, *, timeout: Timeout = DEFAULT) -> Quota | None:
        """A subject's quota, with its source; None when it has none."""
        return (await self.usage(arguments.subject_bytes(subject), timeout=timeout)).quota

    async def remove_quota(self, subject: Subject, *, timeout: Timeout = DEFAULT) -> bool:
        """Removes the quota of put_quota(): the policy file's applies again. False: had none."""
        name = arguments.subject_bytes(subject)
        answer = await self._ask_owner(name, lambda client: client._remove_request(name), timeout)
        return base.was_removed(answer, name)

    async def reset(self, subject: Subject, *, timeout: Timeout = DEFAULT) -> None:
        """Clears the usage of a subject; open reservations and their slots stay."""
        name = arguments.subject_bytes(subject)
        answer = await self._ask_owner(name, lambda client: client._reset_request(name), timeout)
        base.unless_changed(answer, name)

    async def reset_all(self, *, timeout: Timeout = DEFAULT) -> None:
        """reset() of every subject."""
        answer = await self._run_control(self._reset_request(b"", True), timeout)
        base.unless_changed(answer, b"all")

    # --- by the reference's names

    async def can_send(self, model: Subject, tokens: int, *, timeout: Timeout = DEFAULT) -> bool:
        """Whether one request of `tokens` tokens would be admitted now. Other callers may use the
        quota before the request does: only reserve() is certain."""
        return (await self.check(model, input_tokens=tokens, max_output_tokens=0,
                                 timeout=timeout)).allowed

    async def decide(self, model: Subject, tokens: int, *, timeout: Timeout = DEFAULT) -> Decision:
        """check() for one request of `tokens` tokens, by the reference's codes and reasons."""
        if base.is_negative(tokens):
            return base.INVALID_TOKENS
        return base.by_reference(await self.check(
            model, input_tokens=tokens, max_output_tokens=0, timeout=timeout))

    async def record_usage(self, model: Subject, prompt: int, output: int, *,
                           timeout: Timeout = DEFAULT) -> None:
        """record() of one request."""
        await self.record(model, input_tokens=prompt, output_tokens=output, timeout=timeout)

    def wait_for_capacity(self, model: Subject, tokens: int, timeout: float | None = None, *,
                          lifetime: float | None = None) -> Reserving[AsyncReservation]:
        """Reserves one request of `tokens` tokens, waiting in the queue for at most `timeout` s.

        Raises QuotaDenied: at once when the request can never fit, or not in time.
        """
        milliseconds(timeout, CAPACITY_TIMEOUT)
        return self.reserve(model, input_tokens=tokens, max_output_tokens=0, wait=True,
                            wait_limit=timeout, lifetime=lifetime)

    async def stats(self, model: Subject, *, timeout: Timeout = DEFAULT) -> Stats:
        """Requests and tokens of this minute, requests of this day, and their limits."""
        return (await self.usage(model, timeout=timeout)).stats

    async def all_stats(self, *, timeout: Timeout = DEFAULT) -> dict[str, Stats]:
        return {usage.subject: usage.stats async for usage in self.subjects(timeout=timeout)}

    async def models(self, *, timeout: Timeout = DEFAULT) -> list[str]:
        """The names of all subjects."""
        return [usage.subject async for usage in self.subjects(timeout=timeout)]
