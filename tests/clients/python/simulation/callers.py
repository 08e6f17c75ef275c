"""The callers: what each does, as a script that a thread or a task performs, and what it saw.

Shape: a script is a generator: it yields a Pause, or an Invocation whose result or exception it
gets back. Threads and tasks perform the same scripts.
"""

import dataclasses
import math
from array import array
from typing import Any

from sluicegate import (NO_HANDLE, NotInterned, ReservationEnded, SluicegateError,
                        UnknownReservation)
from sluicegate._dispatcher import Settings


@dataclasses.dataclass
class Pause:
    seconds: float


@dataclasses.dataclass
class Call:
    """A call, and how it ended."""

    method: str
    arguments: tuple = ()
    options: dict = dataclasses.field(default_factory=dict)
    keys: tuple = ()  # the entries that the server decides, by their names in its book
    waits: bool = False
    timeout: float | None = None  # the one that applies
    shares_a_timer: bool = False  # with asyncio
    cancel_after: float | None = None
    cancel_with: str | None = None  # the entry with whose outcome the cancellation comes
    started: float = 0.0
    cancelled: float | None = None
    ended: float | None = None
    result: Any = None
    error: BaseException | None = None
    returns: int = 0  # how often it ended
    target: Any = None  # instead of the client
    interned_by: Any = None  # the call that got its handles

    @property
    def kind(self):
        """The client's method that it comes to."""
        return "cancel" if self.target is not None and self.method == "release" else self.method

    @property
    def deadline(self):
        return float("inf") if self.timeout is None else self.started + self.timeout

    def end(self, now, result=None, error=None):
        self.ended, self.result, self.error = now, result, error
        self.returns += 1


def settings(random):
    return Settings(
        client_name="simulated", on_failure=random.choice(["error", "open", "closed"]),
        requeue=random.choice([False, True]), pending_max=random.choice([5, 65_536]),
        when_full=random.choice(["block", "refuse"]), window=random.choice([1, 4]),
        frame_entries_max=random.choice([2, 1024]), timeout=random.choice([0.4, 2.0, 30.0]),
        connect_timeout=0.4, backoff=(0.02, 0.3), spin=0.0,
        kept_settles_max=0)  # the model predicts each settle's one outcome


class Callers:
    """Makes the scripts of one seed, and keeps all calls."""

    def __init__(self, world, server, settings, may_cancel):
        self._world = world
        self._random = world.random
        self._server = server
        self._settings = settings
        self._may_cancel = may_cancel
        self._count = 0
        self.calls = []
        self.failures = []
        self.delivered = {}  # reservation -> the call that got it
        self.leases = []  # (reservation, lifetime, from, until, was always held)

    def scripts(self):
        return [self._script() for _ in range(self._random.randint(2, 9))]

    def _script(self):
        for _ in range(self._random.randint(2, 8)):
            yield Pause(self._random.choice([0, 0, self._random.expovariate(5)]))
            make = self._random.choice([
                self._acquire, self._acquire, self._acquire, self._acquire, self._acquire_many,
                self._acquire_by_handle, self._release, self._reserve, self._reserve,
                self._reserve_many, self._lease, self._lease, self._decide, self._control])
            yield from make()

    def _key(self):
        self._count += 1
        return f"k{self._count}"

    def _invoke(self, method, *arguments, timeout="default", keys=(), waits=False, target=None,
                **options):
        random, own = self._random, self._settings.timeout
        if timeout == "default" and random.random() < 0.3:
            timeout = options["timeout"] = random.uniform(0.15, 1.0)
        elif timeout == "default":
            timeout = None if waits else own
        call = Call(method, arguments, options, keys, waits, timeout, target=target)
        call.shares_a_timer = method == "acquire" and not waits and "timeout" not in options
        if self._may_cancel and random.random() < 0.2:
            call.cancel_after = random.expovariate(3)
        elif self._may_cancel and keys and random.random() < 0.1:
            call.cancel_with = random.choice(keys)
        self.calls.append(call)
        return call

    def _acquire(self):
        key, waits = self._key(), self._random.random() < 0.4
        options = {"wait": True} if waits else {}
        if self._random.random() < 0.2:
            options["cost"] = self._random.randint(1, 3)
        yield self._invoke("acquire", key, keys=(key,), waits=waits, **options)

    def _acquire_many(self):
        keys = tuple(self._key() for _ in range(self._random.randint(1, 9)))
        waits = self._random.random() < 0.4
        yield self._invoke("acquire_many", keys, keys=keys, waits=waits,
                           **({"wait": True} if waits else {}))

    def _acquire_by_handle(self):
        keys = tuple(self._key() for _ in range(self._random.randint(1, 5)))
        intern = self._invoke("intern", keys, keys=tuple(f"intern:{key}" for key in keys))
        handles = yield intern
        if isinstance(intern.error, NotInterned):  # uses the others, without their origin
            held = [number for number, handle in enumerate(intern.error.handles)
                    if handle != NO_HANDLE]
            handles = array("I", [intern.error.handles[number] for number in held])
            keys = tuple(keys[number] for number in held)
        elif intern.error is not None:
            return
        if not keys:
            return
        for _ in range(self._random.randint(1, 2)):
            yield Pause(self._random.choice([0, self._random.expovariate(3)]))
            self._count += 1
            cost = self._count  # of this call only
            call = self._invoke("acquire_many_handles", handles, cost,
                                keys=tuple(f"{key}#{cost}" for key in keys))
            call.interned_by = intern
            yield call
        if self._random.random() < 0.5:
            call = self._invoke("forget", handles, keys=tuple(f"forget:{key}" for key in keys))
            call.interned_by = intern
            yield call

    def _release(self):
        keys = tuple(self._key() for _ in range(self._random.randint(1, 4)))
        names = tuple(f"release:{key}" for key in keys)
        if len(keys) == 1:
            yield self._invoke("release", keys[0], keys=names)
        else:
            yield self._invoke("release_many", keys, keys=names)

    def _decide(self):
        kind, subject = self._random.choice(["check", "record", "consume"]), self._key()
        waits = kind == "consume" and self._random.random() < 0.4
        yield self._invoke(kind, subject, keys=(f"{kind}:{subject}",), waits=waits,
                           **({"wait": True} if waits else {}))

    def _control(self):
        kind, name = self._random.choice(["ping", "inspect", "reset"]), self._key()
        if kind == "ping":
            yield self._invoke(kind)
        else:
            yield self._invoke(kind, name, keys=(f"{kind}:{name}",))

    def _reserve(self):
        key, waits = self._key(), self._random.random() < 0.4
        call = self._invoke("reserve", key, keys=(key,), waits=waits, wait=waits)
        reservation = yield call
        if call.error is not None or not reservation.id:
            return
        self.delivered[reservation.id] = call
        yield Pause(self._random.expovariate(20))
        if self._random.random() < 0.3:
            yield from self._extend(reservation, 1)
        yield from self._end(reservation, self._random.choice(["settle", "cancel"]))

    def _extend(self, reservation, number):
        """The `number`th of this reservation: it has a lifetime of its own."""
        lifetime = (100 * self._random.randint(1, 40) + 2 * number) / 1000
        call = self._invoke("extend", lifetime, target=reservation,
                            keys=(f"extend:{reservation.id:x}:{math.ceil(lifetime * 1000)}",))
        yield call
        if isinstance(call.error, (UnknownReservation, ReservationEnded)) and reservation.is_open:
            self.failures.append(f"{reservation!r} is open after {call.error!r}")

    def _end(self, reservation, how):
        """By the reservation itself, or by the client, which is given its id."""
        name = f"{'settle' if how == 'settle' else 'cancel'}:{reservation.id:x}"
        if how != "release" and self._random.random() < 0.3:
            yield self._invoke(how, reservation.id, keys=(name,))
            return
        yield self._invoke(how, target=reservation, keys=(name,))
        if reservation.is_open:
            self.failures.append(f"{reservation!r} is open after {how}()")

    def _reserve_many(self):
        subjects = tuple(self._key() for _ in range(self._random.randint(1, 6)))
        waits = self._random.random() < 0.4
        call = self._invoke("reserve_many", subjects, keys=subjects, waits=waits, wait=waits)
        results = yield call
        if call.error is not None:
            results = getattr(call.error, "partial", None)
        ids = [number for number in (results.reservations if results is not None else ())
               if number]
        self.delivered.update((number, call) for number in ids)
        if not ids:
            return
        yield Pause(self._random.expovariate(20))
        kind = self._random.choice(["settle", "cancel"])
        yield self._invoke(f"{kind}_many", ids, keys=tuple(f"{kind}:{number:x}" for number in ids))

    def _lease(self):
        key, waits = self._key(), self._random.random() < 0.3
        lifetime = self._random.choice([0.3, 1.5])
        renew = self._random.random() < 0.8
        call = self._invoke("lease", key, keys=(key,), waits=waits, wait=waits, lifetime=lifetime,
                            renew=renew)
        lease = yield call
        if call.error is not None or not lease.id:
            return
        self.delivered[lease.id] = call
        yield from self._hold(lease, lifetime, renew, waits)
        yield from self._end(lease, "release")

    def _hold(self, lease, lifetime, renew, waits):
        """The holder reads `held`: never true once the server's slot has ended."""
        world, slot = self._world, self._server.book.slots[lease.id]
        # How long ago a waiting lease was granted is unknown to the client.
        granted = world.now - self._visit_of(lease.id).decided if waits else 0.0
        begun, until, was_held = world.now, world.now + self._random.uniform(0, 5), True
        extended = 0
        while world.now < until:
            held = lease.held
            if held and not was_held:
                self.failures.append(f"{lease!r} is held again after it was lost")
            if held and world.now > slot.promised + granted and not slot.cancels:
                self.failures.append(f"{lease!r} is held {world.now - slot.promised:.3f} s after "
                                     f"the end of its slot (renew={renew})")
            was_held = was_held and held
            if held and not renew and extended < 9 and self._random.random() < 0.2:
                extended += 1
                yield from self._extend(lease, extended)
            yield Pause(self._random.uniform(0.01, lifetime / 2))
        if renew:
            self.leases.append((lease.id, lifetime, begun, world.now, was_held))

    def _visit_of(self, reservation):
        key = self._server.book.slots[reservation].subject
        return next(visit for visit in self._server.book.visits[key]
                    if visit.reservation == reservation)


def perform_in_thread(script, client, threads):
    world, value = threads.world, None
    while (step := next_step(script, value)) is not None:
        value = None
        if isinstance(step, Pause):
            threads.wait(lambda: False, world.now + step.seconds)
            continue
        step.started = world.now
        try:
            value = getattr(step.target or client, step.method)(*step.arguments, **step.options)
            step.end(world.now, value)
        except SluicegateError as error:
            step.end(world.now, error=error)


def next_step(script, value):
    try:
        return script.send(value)
    except StopIteration:
        return None
