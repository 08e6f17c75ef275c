"""Each client lives through its longest time-outs and pauses, to their end and no longer.

Method: the real clients in simulated time, at the greatest values that they take, against a server
that refuses, does not answer, or answers no calls.
"""

import asyncio

import pytest
from baton import SimulatedSystem, Threads
from book import Book
from event_loop import Loop
from fake_server import WELCOME, ReceivedFrame
from server import HANGS, REFUSED, server_frame
from simulation_test import SimulatedAsyncClient, SimulatedClient
from world import Wire, World

from sluicegate import TimedOut, Unreachable, Verdict, _frames
from sluicegate._bounds import SECONDS_MAX, WAIT_LIMIT
from sluicegate._caller_aio import GATHERING
from sluicegate._dispatcher import Settings

NEAR_S = 0.1  # clocks of years are coarse, and threads check deadlines in ticks


class Server:
    """`attempts`: how each ends; the last one also all further ones."""

    def __init__(self, world, attempts, answers=False):
        self.world = world
        self.book = Book()
        self.tried = []  # when
        self._attempts = attempts
        self._answers = answers
        self._splitter = _frames.Splitter()

    def connect(self):
        way = self._attempts[min(len(self.tried), len(self._attempts) - 1)]
        self.tried.append(self.world.now)
        if way in (REFUSED, HANGS):
            return way, 0.0
        self._greets = way == "greets"
        return Wire(self.world, self, 0, 0.0001), 0.0

    def received(self, wire, data):
        for frame in map(ReceivedFrame, self._splitter.feed(data)):
            if frame.kind == "hello" and self._greets:
                wire.send(server_frame(id=frame.id, welcome=WELCOME))
            elif frame.kind == "acquire" and self._answers:
                wire.send(server_frame(id=frame.id, verdicts={"count": 1, "verdicts": b"\1"}))

    def lost(self, wire):
        pass


class InThread:
    """Calls of the blocking client; `due` is when the running one has something to do."""

    def __init__(self, settings, attempts, **options):
        self.world = World(1)
        self.server = Server(self.world, attempts, **options)
        self._threads = Threads(self.world)
        self._client = SimulatedClient(settings, SimulatedSystem(self._threads, self.server))

    def call(self, method, *arguments, lasts=None, **options):
        """The result, or the error, and the seconds until then."""
        begin = self.world.now
        self._threads.due = (lambda: self._client._dispatcher.backoff.not_before) if lasts is None \
            else lambda: begin + lasts
        try:
            outcome = getattr(self._client, method)(*arguments, **options)
        except (TimedOut, Unreachable) as error:
            outcome = error
        return outcome, self.world.now - begin


class InTask:
    def __init__(self, settings, attempts, **options):
        self.world = World(1)
        self.server = Server(self.world, attempts, **options)
        self._runner = asyncio.Runner(loop_factory=lambda: Loop(self.world, self.server))
        self._client = SimulatedAsyncClient(settings, self.world.monotonic)

    def call(self, method, *arguments, lasts=None, **options):
        async def run():
            begin = self.world.now
            try:
                outcome = await getattr(self._client, method)(*arguments, **options)
            except (TimedOut, Unreachable) as error:
                outcome = error
            return outcome, self.world.now - begin
        return self._runner.run(run())


both = pytest.mark.parametrize("client", [InThread, InTask])


def near(seconds):
    return pytest.approx(seconds, abs=NEAR_S)


@both
@pytest.mark.parametrize("way", [HANGS, "is mute"])
def test_a_connection_attempt_lasts_its_year(client, way):
    caller = client(Settings(connect_timeout=SECONDS_MAX, timeout=None), [way])
    error, seconds = caller.call("acquire", "a", lasts=SECONDS_MAX)
    assert isinstance(error, Unreachable) and seconds == near(SECONDS_MAX)


@both
def test_a_call_lasts_its_year(client):
    caller = client(Settings(timeout=SECONDS_MAX), ["greets"])
    for method, argument in (("acquire", "a"), ("acquire_many", ["a"]), ("reserve", "a"),
                             ("ping", None)):
        arguments = () if argument is None else (argument,)
        error, seconds = caller.call(method, *arguments, lasts=SECONDS_MAX, timeout=SECONDS_MAX)
        assert isinstance(error, TimedOut) and seconds == near(SECONDS_MAX)


@both
def test_a_call_lasts_the_clients_year(client):
    """Single acquires of asyncio share a timer, which may end later."""
    caller = client(Settings(timeout=SECONDS_MAX), ["greets"])
    error, seconds = caller.call("acquire", "a", lasts=SECONDS_MAX)
    assert isinstance(error, TimedOut)
    assert SECONDS_MAX <= seconds <= SECONDS_MAX * (1 + GATHERING) + NEAR_S
    _, seconds = caller.call("ping", lasts=SECONDS_MAX)
    assert seconds == near(SECONDS_MAX)


@both
def test_a_wait_lasts_its_limit_and_a_year(client):
    caller = client(Settings(timeout=SECONDS_MAX), ["greets"])
    longest = SECONDS_MAX + WAIT_LIMIT.most
    for method in ("acquire", "reserve"):
        error, seconds = caller.call(method, "a", wait=True, wait_limit=WAIT_LIMIT.most,
                                     lasts=longest)
        assert isinstance(error, TimedOut) and longest <= seconds <= longest + 2


@both
def test_the_pause_between_attempts_lasts_up_to_a_year(client):
    """So many that the exponent of the pause has its greatest value."""
    longest = float(SECONDS_MAX)  # a power of two of it overflows, if it is too large
    settings = Settings(requeue=True, timeout=None, backoff=(longest, longest))
    caller = client(settings, 40 * [REFUSED] + ["greets"], answers=True)
    verdict, _ = caller.call("acquire", "a")
    tried = caller.server.tried
    assert verdict is Verdict.APPROVED and len(tried) == 41
    pauses = [later - earlier for earlier, later in zip(tried, tried[1:])]
    assert SECONDS_MAX / 2 - NEAR_S <= min(pauses) and max(pauses) <= SECONDS_MAX + NEAR_S


@both
def test_calls_fail_during_a_pause_of_a_year(client):
    settings = Settings(timeout=None, backoff=(SECONDS_MAX, SECONDS_MAX))
    caller = client(settings, [REFUSED, "greets"], answers=True)
    for _ in range(3):
        error, seconds = caller.call("acquire", "a", lasts=0)
        assert isinstance(error, Unreachable) and seconds <= NEAR_S
    assert len(caller.server.tried) == 1
    caller.world.now += SECONDS_MAX
    verdict, _ = caller.call("acquire", "a", lasts=0)
    assert verdict is Verdict.APPROVED
