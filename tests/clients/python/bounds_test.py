"""Every option and argument with bounds is taken at them, and raises beyond them: the text has the
name and the bounds.

Method: the rows that the clients check by, each put into a call of both clients that is valid
otherwise. The real server must take what the clients take, and refuse one beyond, which it gets
from a client whose rows are wider: so both have the same bounds.
"""

import asyncio
import contextlib
import inspect
import re
import struct

import pytest
from real_server import serving

import sluicegate
from sluicegate import AsyncClient, Client, InvalidArgument, LimitExceeded, _bounds
from sluicegate._base import DETAILS
from sluicegate._bounds import Bound

MILLISECOND = 0.001


@pytest.fixture(scope="module")
def address():
    with serving("epoll-1", "--max-key-bytes", "65535", "--max-connections", "1000") as server:
        yield f"127.0.0.1:{server.native_port}"


# ---- a row ---------------------------------------------------------------------------------------

def within(bound):
    # A wait limit of 0 stands for none, which a call says by None.
    least = MILLISECOND if bound in (_bounds.WAIT_LIMIT, _bounds.CAPACITY_TIMEOUT) else bound.least
    return least, bound.most


def outside(bound):
    step = 1 if isinstance(bound, Bound) else MILLISECOND
    return within(bound)[0] - step, bound.most + step


def text(size):
    return "x" * size


def names(count):
    return [f"{{tag}}{number}" for number in range(count)]


def slots(count):
    return [sluicegate.Limit(f"slots{number}", "concurrency", 1) for number in range(count)]


def check(call, bound, value_of=lambda number: number):
    """Makes the call with values of these numbers, or of texts and lists of these sizes."""
    for number in within(bound):
        try:
            call(value_of(number))
        except (InvalidArgument, sluicegate.Refused, sluicegate.ProtocolError) as error:
            pytest.fail(f"{bound.name} of {number}: {error}")
        except sluicegate.SluicegateError:
            pass  # such as a reservation that is unknown, or the shortest time-out
    for number in outside(bound):
        if number < 0 and value_of in (text, names, slots):
            continue  # nothing is so short
        with pytest.raises(InvalidArgument) as raised:
            call(value_of(number))
        assert isinstance(raised.value, LimitExceeded) or bound is _bounds.LIMIT_NAME_BYTES
        error = str(raised.value)
        assert re.search(bound.name.removesuffix("s"), error), error
        most = str(bound.most) if isinstance(bound, Bound) else f"{bound.most:.12g}"
        assert most in error or error.startswith(f"{bound.name} must be more than 0"), error


# ---- options -------------------------------------------------------------------------------------

async def acquires_one(client):
    async with client:
        return await client.acquire("a")


def connected(kind, address, **options):
    """The client's first verdict."""
    if kind is AsyncClient:
        return asyncio.run(acquires_one(AsyncClient(address, **options)))
    with Client(address, **options) as client:
        return client.acquire("a")


def options_of(kind):
    """Those of the rows that this client has."""
    return [(kind, bound) for bound in (*_bounds.OPTIONS, *_bounds.OPTION_SPANS)
            if bound.name in inspect.signature(kind).parameters]


@pytest.mark.parametrize("kind, bound", [*options_of(Client), *options_of(AsyncClient)],
                         ids=lambda value: getattr(value, "name", "") or value.__name__)
def test_options(address, kind, bound):
    check(lambda value: connected(kind, address, **{bound.name: value}), bound)
    assert connected(kind, address, **{bound.name: bound.most}) is not None


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_both_numbers_of_backoff(address, kind):
    longest = _bounds.BACKOFF.most
    check(lambda value: connected(kind, address, backoff=(value, longest)), _bounds.BACKOFF)
    check(lambda value: connected(kind, address, backoff=(0, value)), _bounds.BACKOFF)
    with pytest.raises(LimitExceeded, match="backoff must be 2 to"):
        kind(address, backoff=(2, 1.999))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_size_of_a_clients_name(address, kind):
    check(lambda name: connected(kind, address, client_name=name), _bounds.CLIENT_NAME_BYTES,
          text)


# ---- arguments -----------------------------------------------------------------------------------

def limit(**changed):
    return sluicegate.Limit(**{"name": "tpm", "metric": "tokens", "amount": 1,
                               "period": 60} | changed)


def limit_with(field):
    return lambda value: [limit(**{field: value})]


HANDLES = {"handles": None}  # of the client's connection

# The call with right arguments, its argument, the row, and the argument's value of a number.
ARGUMENTS = [
    ("acquire", {}, "key", _bounds.KEY_BYTES, text),
    ("acquire", {"key": "a"}, "max_requests", _bounds.MAX_REQUESTS),
    ("acquire", {"key": "a"}, "max_requests_in_queue", _bounds.MAX_REQUESTS_IN_QUEUE),
    ("acquire", {"key": "a"}, "window", _bounds.WINDOW),
    ("acquire", {"key": "a"}, "timeout", _bounds.TIMEOUT),
    ("acquire", {"key": "b", "wait": True}, "wait_limit", _bounds.WAIT_LIMIT),
    ("release", {"key": "a"}, "cost", _bounds.RELEASED_COST),
    ("release_many", {"keys": ["a"]}, "costs", _bounds.RELEASED_COSTS),
    ("acquire", {"key": "a"}, "cost", _bounds.COST),
    ("acquire_many", {"keys": ["a"]}, "costs", _bounds.COSTS),
    ("acquire_many", {"keys": ["a"]}, "costs", _bounds.COSTS, lambda cost: [cost]),
    ("acquire_many", {"keys": ["a"]}, "max_requests", _bounds.MAX_REQUESTS),
    ("acquire_many", {"keys": ["a"]}, "max_requests_in_queue", _bounds.MAX_REQUESTS_IN_QUEUE),
    ("acquire_many", {"keys": ["a"]}, "window", _bounds.WINDOW),
    ("acquire_many", {"keys": ["a"]}, "window", _bounds.WINDOW, lambda number: [number]),
    ("acquire_many", {"keys": ["b"], "wait": True}, "wait_limit", _bounds.WAIT_LIMIT),
    ("acquire_many", {"keys": ["a"]}, "details", DETAILS),
    ("acquire_many_handles", HANDLES, "costs", _bounds.COSTS),
    ("acquire_many_handles", HANDLES, "max_requests", _bounds.MAX_REQUESTS),
    ("acquire_many_handles", HANDLES, "max_requests_in_queue", _bounds.MAX_REQUESTS_IN_QUEUE),
    ("acquire_many_handles", HANDLES, "window", _bounds.WINDOW),
    ("acquire_many_handles", HANDLES, "details", DETAILS),
    ("reserve", {}, "subjects", _bounds.SUBJECT_BYTES, text),
    ("reserve", {}, "subjects", _bounds.SUBJECTS, names),
    ("reserve", {"subjects": "s"}, "requests", _bounds.REQUESTS),
    ("reserve", {"subjects": "s"}, "input_tokens", _bounds.INPUT_TOKENS),
    ("reserve", {"subjects": "s"}, "max_output_tokens", _bounds.MAX_OUTPUT_TOKENS),
    ("reserve", {"subjects": "s"}, "cost", _bounds.QUOTA_COST),
    ("reserve", {"subjects": "s"}, "lifetime", _bounds.LIFETIME),
    ("reserve", {"subjects": "s"}, "id", _bounds.ID_BYTES, text),
    ("reserve", {"subjects": "s"}, "owner", _bounds.OWNER_BYTES, text),
    ("reserve", {"subjects": "s", "wait": True}, "wait_limit", _bounds.WAIT_LIMIT),
    ("check", {"subjects": "s"}, "requests", _bounds.REQUESTS),
    ("check", {"subjects": "s"}, "input_tokens", _bounds.INPUT_TOKENS),
    ("check", {"subjects": "s"}, "max_output_tokens", _bounds.MAX_OUTPUT_TOKENS),
    ("check", {"subjects": "s"}, "cost", _bounds.QUOTA_COST),
    ("settle", {}, "reservation", _bounds.RESERVATION),
    ("settle", {"reservation": 1}, "requests", _bounds.REQUESTS),
    ("settle", {"reservation": 1}, "input_tokens", _bounds.INPUT_TOKENS),
    ("settle", {"reservation": 1}, "output_tokens", _bounds.OUTPUT_TOKENS),
    ("settle", {"reservation": 1}, "cached_input_tokens", _bounds.CACHED_INPUT_TOKENS),
    ("settle", {"reservation": 1}, "cost", _bounds.QUOTA_COST),
    ("cancel", {}, "reservation", _bounds.RESERVATION),
    ("extend", {}, "reservation", _bounds.RESERVATION),
    ("extend", {"reservation": 1}, "lifetime", _bounds.LIFETIME),
    ("record", {"subjects": "s"}, "requests", _bounds.REQUESTS),
    ("record", {"subjects": "s"}, "input_tokens", _bounds.INPUT_TOKENS),
    ("record", {"subjects": "s"}, "output_tokens", _bounds.OUTPUT_TOKENS),
    ("record", {"subjects": "s", "input_tokens": _bounds.AMOUNT_MAX}, "cached_input_tokens",
     _bounds.CACHED_INPUT_TOKENS),
    ("record", {"subjects": "s"}, "cost", _bounds.QUOTA_COST),
    ("consume", {"subjects": "s"}, "requests", _bounds.REQUESTS),
    ("consume", {"subjects": "s"}, "input_tokens", _bounds.INPUT_TOKENS),
    ("consume", {"subjects": "s"}, "output_tokens", _bounds.OUTPUT_TOKENS),
    ("consume", {"subjects": "s", "input_tokens": _bounds.AMOUNT_MAX}, "cached_input_tokens",
     _bounds.CACHED_INPUT_TOKENS),
    ("consume", {"subjects": "s"}, "cost", _bounds.QUOTA_COST),
    ("consume", {"subjects": "s", "wait": True}, "wait_limit", _bounds.WAIT_LIMIT),
    ("consume_many", {"subjects": ["s"]}, "requests", _bounds.REQUESTS),
    ("consume_many", {"subjects": ["s"]}, "input_tokens", _bounds.INPUT_TOKENS),
    ("consume_many", {"subjects": ["s"]}, "output_tokens", _bounds.OUTPUT_TOKENS),
    ("consume_many", {"subjects": ["s"], "input_tokens": _bounds.AMOUNT_MAX}, "cached_input_tokens",
     _bounds.CACHED_INPUT_TOKENS),
    ("consume_many", {"subjects": ["s"]}, "costs", _bounds.QUOTA_COSTS),
    ("consume_many", {"subjects": ["s"], "wait": True}, "wait_limit", _bounds.WAIT_LIMIT),
    ("reserve_many", {"subjects": ["s"]}, "requests", _bounds.REQUESTS),
    ("reserve_many", {"subjects": ["s"]}, "input_tokens", _bounds.INPUT_TOKENS),
    ("reserve_many", {"subjects": ["s"]}, "max_output_tokens", _bounds.MAX_OUTPUT_TOKENS),
    ("reserve_many", {"subjects": ["s"]}, "costs", _bounds.QUOTA_COSTS),
    ("reserve_many", {"subjects": ["s"]}, "lifetime", _bounds.LIFETIME),
    ("reserve_many", {"subjects": ["s"], "wait": True}, "wait_limit", _bounds.WAIT_LIMIT),
    ("settle_many", {}, "reservations", _bounds.RESERVATION, lambda number: [number]),
    ("cancel_many", {}, "reservations", _bounds.RESERVATION, lambda number: [number]),
    ("settle_many", {"reservations": [1]}, "requests", _bounds.REQUESTS),
    ("settle_many", {"reservations": [1]}, "input_tokens", _bounds.INPUT_TOKENS),
    ("settle_many", {"reservations": [1]}, "output_tokens", _bounds.OUTPUT_TOKENS),
    ("settle_many", {"reservations": [1]}, "cached_input_tokens", _bounds.CACHED_INPUT_TOKENS),
    ("settle_many", {"reservations": [1]}, "costs", _bounds.QUOTA_COSTS),
    ("wait_for_capacity", {"model": "s", "tokens": 1}, "timeout", _bounds.CAPACITY_TIMEOUT),
    ("wait_for_capacity", {"model": "s"}, "tokens", _bounds.INPUT_TOKENS),
    ("wait_for_capacity", {"model": "s", "tokens": 1}, "lifetime", _bounds.LIFETIME),
    ("put_quota", {"subject": "q", "limits": []}, "overtakers", _bounds.OVERTAKERS),
    ("put_quota", {"subject": "q"}, "limits", _bounds.LIMITS, slots),
    ("put_quota", {"subject": "q"}, "limits", _bounds.LIMIT_NAME_BYTES,
     lambda size: [limit(name=text(size))]),
    ("put_quota", {"subject": "q"}, "limits", _bounds.LIMIT_AMOUNT, limit_with("amount")),
    *(("put_quota", {"subject": "q"}, "limits", _bounds.period(kind),
       lambda period, kind=kind: [limit(kind=kind, period=period)])
      for kind in ("fixed", "sliding", "gcra")),
]


def described(argument):
    return f"{argument[0]}-{argument[2]}-{argument[3].name}"


@pytest.mark.parametrize("argument", ARGUMENTS, ids=described)
def test_arguments_of_blocking_calls(address, argument):
    call, right, name, bound, *value_of = argument
    with Client(address) as client:
        if right is HANDLES:
            right = {"handles": client.intern(["a"])}
        check(lambda value: getattr(client, call)(**right, **{name: value}), bound, *value_of)


@pytest.mark.parametrize("argument", ARGUMENTS, ids=described)
def test_arguments_of_awaited_calls(address, argument):
    call, right, name, bound, *value_of = argument

    async def outcome(value):
        async with AsyncClient(address) as client:
            given = {"handles": await client.intern(["a"])} if right is HANDLES else right
            return await getattr(client, call)(**given, **{name: value})
    check(lambda value: asyncio.run(outcome(value)), bound, *value_of)



# ---- the server's bounds -------------------------------------------------------------------------

# Clients alone have a bound of it; options are theirs, too.
OF_CLIENTS = {_bounds.TIMEOUT.name}
# One beyond stands for "not given" in a frame.
UNSET_BEYOND = {_bounds.REQUESTS.name}
# A frame has no room for one beyond (sizes of 16 bits, numbers of 64): encoding it fails.
OF_THE_WIRE = {_bounds.KEY_BYTES.name, _bounds.SUBJECT_BYTES.name, _bounds.RESERVATION.name}


@contextlib.contextmanager
def widened(*bounds):
    """The client takes anything for them meanwhile."""
    before = {id(bound): (bound, bound.least, bound.most) for bound in bounds}
    try:
        for bound in bounds:
            object.__setattr__(bound, "least", -1)
            object.__setattr__(bound, "most", 4 * bound.most + 4)
        yield
    finally:
        for bound, least, most in before.values():
            object.__setattr__(bound, "least", least)
            object.__setattr__(bound, "most", most)


def beyond(bound):
    """The numbers beyond the bounds that a frame can carry; a frame has no negative number, and a
    wait without limit is none."""
    step = 1 if isinstance(bound, Bound) else MILLISECOND
    below = [round(bound.least - step, 3)] if bound.least > 0 else []
    if bound.name in OF_CLIENTS | UNSET_BEYOND:
        return below
    return [*below, bound.most + step]


def is_part_of_the_input(argument):
    """Both clients compare it with the input tokens first."""
    return argument[3] is _bounds.CACHED_INPUT_TOKENS and "input_tokens" in argument[1]


def has_a_beyond(argument):
    return beyond(argument[3]) != [] and not is_part_of_the_input(argument)


@pytest.mark.parametrize("argument", filter(has_a_beyond, ARGUMENTS), ids=described)
def test_the_server_refuses_one_beyond(address, argument, monkeypatch):
    call, right, name, bound, *value_of = argument
    value_of = value_of[0] if value_of else lambda number: number
    if bound.name.startswith("period"):  # made anew for each limit
        monkeypatch.setattr(sluicegate.quota, "period", lambda _: bound)
    refused = (sluicegate.Refused, sluicegate.InvalidQuota, sluicegate.InvalidSubject)
    if bound.name in OF_THE_WIRE:
        refused = (*refused, struct.error, ValueError)
    for number in beyond(bound):
        with Client(address) as client:
            given = {"handles": client.intern(["a"])} if right is HANDLES else right
            with widened(bound, _bounds.RELEASED_COSTS, _bounds.WAIT_LIMIT), \
                    pytest.raises(refused) as raised:
                getattr(client, call)(**given, **{name: value_of(number)})
            assert not isinstance(raised.value, LimitExceeded), "the client refused it"


def test_one_request_beyond_is_none_that_is_given(address):
    """As many as a call without any: one."""
    requests = sluicegate.Limit("rph", "requests", 1, period=3_600)
    with Client(address) as client, widened(_bounds.REQUESTS):
        client.put_quota("unset", [requests])
        assert client.consume("unset", requests=2**32 - 1).allowed
        with pytest.raises(sluicegate.QuotaDenied):
            client.consume("unset")


# ---- none is forgotten ---------------------------------------------------------------------------

# By calls that are in the list.
SAME_ROWS = {"lease", "decide", "can_send", "record_usage", "settle_nowait", "flush_settles"}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_every_number_of_every_call_has_a_row(kind):
    """Apart from the time-out, which all calls check alike."""
    listed = {(call, name) for call, _, name, *_ in ARGUMENTS}
    numbers = {(call, name)
               for call, method in inspect.getmembers(kind, inspect.isfunction)
               if not call.startswith("_") and call not in SAME_ROWS
               for name, parameter in inspect.signature(method).parameters.items()
               if re.search(r"\b(int|float|Numbers)\b", str(parameter.annotation))}
    assert numbers - listed == set()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_every_number_of_the_options_has_a_row(kind):
    rows = {bound.name for _, bound in options_of(kind)} | {"backoff"}
    numbers = {name for name, parameter in inspect.signature(kind).parameters.items()
               if re.search(r"\b(int|float)\b", str(parameter.annotation))}
    assert numbers == rows
