"""Every call of both clients raises InvalidArgument at once for a wrong value, and names the field.

Method: each argument of each call with wrong values of its kind, with a scripted server that
receives none of them. Nothing else may get out: no struct.error, OverflowError or AttributeError,
and no denial.
"""

import asyncio
import inspect
import math
import re

import pytest
from fake_server import FakeServer

import sluicegate
from sluicegate import AsyncClient, Client, InvalidArgument, Limit, Quota

NO_NUMBERS = [1.5, "1", b"1", [1], math.nan, object()]
WHOLE = [-1, 2**70, *NO_NUMBERS]
SECONDS = [-1, 1e300, 2**2000, math.inf, math.nan, "1", b"1", [1], object()]
KEY = [5, None, 1.5, ["a"], "x" * 65_536, "\ud800"]
SUBJECT = ["", b"", 5, 1.5, "x" * 65_536, "\ud800", object()]
SUBJECTS = [*SUBJECT, None, [], [""], [5], ["s"] * 2, ["a", "b", ""], list("abcdefghi")]
LABEL = [5, 1.5, ["a"], "x" * 129, "\ud800"]
RESERVATION = [-1, 2**64, 1.5, None, "zz", b"00ab00000000000f", object()]

RESERVE = {"subjects": SUBJECTS, "requests": [*WHOLE, None], "input_tokens": [*WHOLE, None],
           "max_output_tokens": WHOLE, "cost": [*WHOLE, None]}
WAITING = {"lifetime": [*SECONDS, 0], "wait_limit": [*SECONDS, 0], "id": LABEL,
           "owner": [*LABEL, b"\xff"]}
USED = {"input_tokens": WHOLE, "output_tokens": WHOLE, "cost": WHOLE, "requests": WHOLE,
        "cached_input_tokens": [*WHOLE, None]}
RECORDED = {name: [*values, None] for name, values in USED.items()}
COLUMN = [-1, 2**70, 1.5, "1", [1.5], [-1], [2**70], ["1"], [1, 1], math.nan, object()]
COSTS = [*COLUMN, 0, [0], [None]]

# The call with right arguments, and wrong values of some of them.
CALLS = [
    ("acquire", {"key": "a"},
     {"key": KEY, "cost": [*WHOLE, None], "max_requests": [*WHOLE, 0],
      "max_requests_in_queue": WHOLE, "window": [*SECONDS, 0.009], "timeout": SECONDS}),
    ("acquire", {"key": "a", "wait": True}, {"wait_limit": [*SECONDS, 0, 3_601]}),
    ("acquire_many", {"keys": ["a"]},
     {"keys": [None, 5, "a", b"a", [None], [5], ["x" * 65_536], ["\ud800"]],
      "costs": [*COLUMN, [None]], "max_requests": COSTS, "max_requests_in_queue": [*COLUMN, [None]],
      "window": [-1, 2**70, "1", [-1], ["1"], [1, 1], math.nan, object(), 0.009, [0.009], [None]],
      "details": [*WHOLE, None], "timeout": SECONDS}),
    ("acquire_many", {"keys": ["a"], "wait": True}, {"wait_limit": [*SECONDS, 0]}),
    ("intern", {"keys": ["a"]}, {"keys": [None, 5, "a", [5], ["x" * 65_536]], "timeout": SECONDS}),
    ("acquire_many_handles", {"handles": sluicegate.Handles([1])},
     {"handles": [None, [1], "ab", b"abcd"], "details": WHOLE, "timeout": SECONDS}),
    ("forget", {"handles": sluicegate.Handles([1])}, {"handles": [None, [1], "ab"]}),
    ("release", {"key": "a"}, {"key": KEY, "cost": [*WHOLE, 0], "timeout": SECONDS}),
    ("release_many", {"keys": ["a"]}, {"keys": [None, 5, "a", [5]], "costs": COSTS}),
    ("inspect", {"key": "a"}, {"key": ["", *KEY], "timeout": SECONDS}),
    ("ping", {}, {"timeout": SECONDS}),
    ("reserve", {"subjects": "s", "wait": True},
     {**RESERVE, **WAITING, "timeout": SECONDS}),
    ("reserve", {"subjects": "s"}, {"wait_limit": [1]}),
    ("check", {"subjects": "s"}, {**RESERVE, "timeout": SECONDS}),
    ("record", {"subjects": "s"}, {"subjects": SUBJECTS, **RECORDED, "id": LABEL}),
    ("consume", {"subjects": "s", "wait": True},
     {"subjects": SUBJECTS, **RECORDED, "id": LABEL, "wait_limit": SECONDS, "timeout": SECONDS}),
    ("consume", {"subjects": "s"}, {"wait_limit": [1]}),
    ("settle", {"reservation": 1}, {"reservation": RESERVATION, **USED, "timeout": SECONDS}),
    ("cancel", {"reservation": 1}, {"reservation": RESERVATION, "timeout": SECONDS}),
    ("extend", {"reservation": 1}, {"reservation": RESERVATION, "lifetime": [*SECONDS, 0]}),
    ("lease", {"subjects": "s", "wait": True},
     {"subjects": SUBJECTS, "lifetime": SECONDS, "owner": LABEL, "wait_limit": SECONDS}),
    ("lease", {"subjects": "s"}, {"renew": [True]}),
    ("reserve_many", {"subjects": ["s"]},
     {"subjects": [None, 5, "s", b"s", [None], [""], [5]], "requests": COLUMN,
      "input_tokens": COLUMN, "max_output_tokens": COLUMN, "costs": COLUMN,
      "ids": [5, "i", [5], ["x" * 129], []], "owner": LABEL, "lifetime": SECONDS}),
    ("settle_many", {"reservations": [1]},
     {"reservations": [None, 5, "zz", [None], [-1], ["zz"]], "requests": COLUMN,
      "input_tokens": COLUMN, "cached_input_tokens": [*COLUMN, [None]], "output_tokens": COLUMN,
      "costs": COLUMN}),
    ("cancel_many", {"reservations": [1]}, {"reservations": [None, 5, "zz", [None], [-1]]}),
    ("usage", {"subjects": "s"}, {"subjects": [*SUBJECT, None, [""], [None]], "timeout": SECONDS}),
    ("put_quota", {"subject": "s", "limits": []},
     {"subject": [*SUBJECT, None], "expired": ["never", 5, ["keep"]],
      "overtakers": [*WHOLE, 1_001],
      "limits": [None, 5, "tpm", {"name": "tpm"}, [None], ["tpm"], [{"nme": "tpm"}],
                 [{"name": "tpm"}], [Limit("a", "concurrency", 1)] * 17]}),
    ("get_quota", {"subject": "s"}, {"subject": [*SUBJECT, None, ["s"]]}),
    ("remove_quota", {"subject": "s"}, {"subject": [*SUBJECT, None]}),
    ("reset", {"subject": "s"}, {"subject": [*SUBJECT, None]}),
    ("wait_for_capacity", {"model": "s", "tokens": 1}, {"tokens": WHOLE, "timeout": SECONDS}),
    ("can_send", {"model": "s", "tokens": 1}, {"tokens": [*WHOLE, None]}),
    ("decide", {"model": "s", "tokens": 1}, {"tokens": [2**70, None, *NO_NUMBERS]}),
    ("record_usage", {"model": "s", "prompt": 1, "output": 1},
     {"prompt": WHOLE, "output": [*WHOLE, None]}),
    ("stats", {"model": "s"}, {"model": ["", 5]}),
]

# Names of arguments that the text may use in their place.
WORDS = {"keys": "key", "subjects": "subject", "model": "subject", "reservations": "reservation",
         "prompt": "input_tokens", "output": "output_tokens", "ids": "id", "costs": "cost",
         "limits": "limit"}


def approve(peer):
    peer.welcome()
    peer.approve_all()


def faults_of(client_of, call):
    """The description, argument and exception of every call with one wrong argument."""
    name, right, wrong = call
    for argument, values in wrong.items():
        for value in values:
            description = f"{name}({argument}={value!r:.40})"
            with pytest.raises(BaseException) as raised:  # noqa: PT011
                client_of(name, {**right, argument: value})
            yield description, argument, raised.value


def check(faults):
    wrong = []
    for description, argument, fault in faults:
        word = WORDS.get(argument, argument)
        if not isinstance(fault, InvalidArgument):
            wrong.append(f"{description}: {type(fault).__name__}: {fault!s:.100}")
        elif not re.search(word, str(fault)):
            wrong.append(f"{description}: does not name {word}: {fault}")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{'-'.join(call[2])}"[:40])
def test_blocking_calls(call):
    with FakeServer(approve) as server, Client(server.address, timeout=5) as client:
        client.acquire("a")
        check(faults_of(lambda name, arguments: getattr(client, name)(**arguments), call))
        assert not client._dispatcher.pending and client.acquire("a")


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{'-'.join(call[2])}"[:40])
def test_awaited_calls(call):
    def outcome(loop, client, name, arguments):
        async def main():
            awaited = getattr(client, name)(**arguments)
            assert inspect.isawaitable(awaited)
            return await awaited
        return loop.run_until_complete(main())

    loop = asyncio.new_event_loop()
    try:
        with FakeServer(approve) as server:
            client = AsyncClient(server.address, timeout=5)
            outcome(loop, client, "acquire", {"key": "a"})
            check(faults_of(lambda *of: outcome(loop, client, *of), call))
            assert not client._dispatcher.pending
            assert outcome(loop, client, "acquire", {"key": "a"})
            loop.run_until_complete(client.close())
    finally:
        loop.close()


LIMIT = {"name": "tpm", "metric": "tokens", "amount": 1, "period": 60}


@pytest.mark.parametrize("field, values", [
    ("name", ["", 5, None, "x" * 33, "\ud800"]), ("metric", ["words", 5, None]),
    ("amount", [*WHOLE[:2], 1.5, math.nan, "some", b"block", None, [1]]),
    ("period", [-1, 0.009, 2**70, "60", None, "day", [5]]), ("kind", ["weekly", 5]),
    ("time_zone", ["UTC", 5])])
def test_a_limit_names_its_wrong_field(field, values):
    def limits():
        for value in values:
            with pytest.raises(BaseException) as raised:  # noqa: PT011
                Limit(**{**LIMIT, field: value})
            yield f"Limit({field}={value!r:.40})", field, raised.value
    check(limits())


@pytest.mark.parametrize("limit, text", [
    ({**LIMIT, "amount": 1.5}, 'limits[1] ("tpm"), amount must be'),
    ({"nme": "tpm"}, "limits[1]: no such field 'nme'; there are name, metric, amount"),
    ({"name": "tpm"}, 'limits[1] ("tpm"): metric and amount are missing'),
    (5, "limits[1] must be a Limit, or a dict of its fields, not 5")])
def test_names_the_place_of_a_wrong_limit(limit, text):
    with FakeServer(approve) as server, Client(server.address) as client:
        client.acquire("a")
        with pytest.raises(InvalidArgument, match=re.escape(text)):
            client.put_quota("s", [Limit("slots", "concurrency", 1), limit])


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("option, values", [
    ("timeout", SECONDS), ("connect_timeout", [*SECONDS, None]), ("pending_max", [*WHOLE, 0]),
    ("window", [*WHOLE, 0]), ("frame_entries_max", [*WHOLE, 0]), ("shard", WHOLE),
    ("client_name", [5, None, "\ud800"]), ("on_failure", ["maybe", 5]), ("when_full", ["wait"]),
    ("backoff", [5, (1,), (-1, 2), (2, 1), ("a", "b"), (1, math.nan), None])])
def test_options_of_a_client(kind, option, values):
    def clients():
        for value in values:
            with pytest.raises(BaseException) as raised:  # noqa: PT011
                kind("localhost:8081", **{option: value})
            yield f"{option}={value!r:.40}", option, raised.value
    check(clients())


def test_a_quota_is_checked_when_it_is_put():
    for quota, field in ((Quota(limits=5), "limits"), (Quota(limits=(5,)), "limits"),
                         (Quota(overtakers=1.5), "overtakers"), (Quota(expired=5), "expired")):
        with pytest.raises(InvalidArgument, match=field):
            quota.as_text()
