"""Callers of a fleet, over HTTP/1.1 and HTTP/2, at all of its nodes. They keep each request with
its times and its outcome, for fleet_book.py to judge."""

import dataclasses
import random
import re
import threading
import time
from enum import Enum, auto

from fleet import OURS, owner_of
from http1_over_http2 import TranslatingPeer
from http_peer import HttpPeer

LIMIT = 10  # --max-requests of the nodes
OVERRIDE = 7  # maxRequests of a request
RETURNED_LIMIT = 60  # above what callers hold at once, and what they lose when nodes end
SHARED_LIMIT = 2  # permits of a key that callers hold at once; others wait
HOLD_S = 0.02
GIVE_UP_S = 8  # a gocc ends each wait after 10 s
LAST_WAIT_S = 3  # when only waiters are left
PAUSE_S = 0.005  # before the next try, while a node ends or starts
TOGETHER_MAX = 8  # requests of a connection without an answer
# Text that a gocc passes on unchanged; it drops or garbles ?, #, % and an encoded slash.
ENDINGS = ["", "%20b", "%C3%A5", "+b", ";b", "!b", "@b", "~b"]
UNREACHABLE_TEXT = b"failed to forward request to correct instance"


class Outcome(Enum):
    APPROVED = auto()
    RELEASED = auto()
    DENIED = auto()
    UNREACHABLE = auto()  # the entry node did not reach the owner
    DRAINING = auto()
    LOST = auto()         # no answer: the connection ended
    REFUSED = auto()      # not sent: no connection
    GIVEN_UP = auto()     # the caller left the queue
    WRONG = auto()


AWAY = {Outcome.DRAINING, Outcome.UNREACHABLE}


@dataclasses.dataclass(frozen=True)
class Key:
    """Approvals are at most `limit` in a window; None: each request is approved. Of a `shared` key
    so many permits are held at once, and callers wait for theirs."""

    name: str
    owner: int
    limit: int | None
    query: str = ""
    shared: int | None = None


@dataclasses.dataclass
class Ask:
    """A request at the node `entry`. `release` is the one that releases its permit, of a shared
    key."""

    key: Key
    method: str
    entry: int
    sent: float = 0
    answered: float = float("inf")
    outcome: Outcome = Outcome.LOST
    has_id: bool = False
    detail: str = ""
    release: "Ask | None" = dataclasses.field(default=None, repr=False)

    @property
    def may_wait(self):
        return self.key is not None and self.key.shared is not None and self.method != "DELETE"

    def bytes(self, host):
        target = f"/rate/{self.key.name}{'/1' if self.method == 'DELETE' else self.key.query}"
        return f"{self.method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()

    def note(self, response):
        self.answered = time.monotonic()
        self.outcome = self._outcome(response)
        self.has_id = bool(response.body)
        if self.outcome is Outcome.WRONG:
            self.detail = repr(response)

    def _outcome(self, response):
        status, body = response.status, response.body
        if status == 200 and self.method == "DELETE" and not body:
            return Outcome.RELEASED
        if status == 200 and self.method != "DELETE" and re.fullmatch(rb"\d*", body):
            return Outcome.APPROVED
        if status == 429 and not body and self.method != "DELETE":
            return Outcome.DENIED
        if status == 502 and body == UNREACHABLE_TEXT:
            return Outcome.UNREACHABLE
        if status == 503:
            return Outcome.DRAINING
        return Outcome.WRONG


class Keys:
    """What callers ask for: `scarce` and `overridden` keys reach their limits, each `rare` one is
    asked three times, and a permit of a `returned` one is released at once. There is a `shared`
    one of each owner."""

    def __init__(self, nodes_count, prefix):
        self.nodes_count, self.prefix = nodes_count, prefix
        self.scarce = self._spread("scarce", 8, LIMIT)
        self.overridden = self._spread("overridden", 4, OVERRIDE, f"?maxRequests={OVERRIDE}")
        self.returned = self._spread("returned", 1, None, f"?maxRequests={RETURNED_LIMIT}")
        self.shared = self._spread("shared", 1, None,
                                   f"?maxRequests={SHARED_LIMIT}&canWait=true", SHARED_LIMIT)

    def key(self, name, limit, query="", shared=None):
        name = self.prefix + name
        return Key(name, owner_of(name, self.nodes_count), limit, query, shared)

    def _spread(self, word, each, limit, query="", shared=None):
        """So many keys of each owner."""
        found = [[] for _ in range(self.nodes_count)]
        number = 0
        while min(map(len, found)) < each:
            name = f"{word}{number}{ENDINGS[number % len(ENDINGS)]}"
            key = self.key(name, limit, query, shared)
            if len(found[key.owner]) < each:
                found[key.owner].append(key)
            number += 1
        return [key for keys in found for key in keys]

    def one_of_each_owner(self):
        return self.scarce[::len(self.scarce) // self.nodes_count]

    def draw(self, dice, number):
        chance = dice.random()
        if chance < 0.4:
            return dice.choice(self.scarce)
        if chance < 0.6:
            return dice.choice(self.overridden)
        if chance < 0.65:
            return dice.choice(self.returned)
        return self.key(f"rare{number // 3}", LIMIT)


class Load:
    """Two callers a node, until `requests` are sent, and waiters as long as these ask. Its keys
    begin with `prefix`."""

    def __init__(self, fleet, requests, seed, prefix=""):
        self.fleet, self.requests = fleet, requests
        self.keys = Keys(len(fleet.nodes), prefix)
        self.drawn = 0
        self.errors = []  # of the callers themselves
        self._lock = threading.Lock()
        self.callers = [Caller(self, node, peer, random.Random(f"{seed} {node.number} {peer}"))
                        for node in fleet.nodes for peer in (HttpPeer, TranslatingPeer)]
        self.waiters = [Waiter(self, node, key) for node in fleet.nodes
                        for key in self.keys.shared]
        self.is_over = False  # only waiters are left

    def __enter__(self):
        for caller in self.callers + self.waiters:
            caller.start()
        return self

    def __exit__(self, error, *_):
        if error:
            self.requests = 0
        for caller in self.callers:
            caller.join()
        self.is_over = True
        for waiter in self.waiters:
            waiter.join()

    def draw(self, dice):
        """A key to ask for, or None when all are sent."""
        with self._lock:
            if self.drawn >= self.requests:
                return None
            self.drawn += 1
            return self.keys.draw(dice, self.drawn)

    def await_share(self, share):
        """Until this share of the requests is sent."""
        while self.drawn < share * self.requests and not self.errors:
            time.sleep(0.002)
        assert not self.errors, self.errors

    def asks(self):
        assert not self.errors, self.errors
        return [ask for caller in self.callers + self.waiters for ask in caller.asks]


class GaveUp(Exception):
    """A caller has waited long enough, and leaves."""


class Caller(threading.Thread):
    """One connection to a node at a time."""

    def __init__(self, load, node, peer_type, dice):
        super().__init__(name=f"caller of node {node.number}", daemon=True)
        self.load, self.node, self.peer_type, self.dice = load, node, peer_type, dice
        self.host = f"{node.host}:{node.port}"
        self.asks = []
        self.is_over = False

    def run(self):
        try:
            while not self.is_over:
                self._connect_and_ask()
        except Exception as error:  # the test's thread reports it
            self.load.errors.append(f"{self.name}: {error!r}")

    def _connect_and_ask(self):
        begin = time.monotonic()
        try:
            peer = self.peer_type(self.node)
        except (OSError, EOFError):
            self.asks.append(Ask(None, "", self.node.number, begin, time.monotonic(),
                                 Outcome.REFUSED))
            time.sleep(PAUSE_S)
            return
        with peer:
            while not self.is_over and self._ask_some(peer):
                pass

    def _ask_some(self, peer):
        """Returns whether the connection is still there."""
        asks = []
        for _ in range(self.dice.randint(1, TOGETHER_MAX)):
            key = self.load.draw(self.dice)
            if key is None:
                self.is_over = True
                break
            method = self.dice.choice(["GET", "POST"])
            if key.limit is None:
                if not (self._exchange(peer, asks) and self._return(peer, key, method)):
                    return False
                asks = []
            else:
                asks.append(Ask(key, method, self.node.number))
        return self._exchange(peer, asks)

    def _return(self, peer, key, method):
        """A permit, which is released when it is there; the next one is asked for afterwards."""
        ask = Ask(key, method, self.node.number)
        if not self._exchange(peer, [ask]):
            return False
        return ask.outcome is not Outcome.APPROVED or self._exchange(
            peer, [Ask(key, "DELETE", self.node.number)])

    def _exchange(self, peer, asks):
        self.asks += asks
        sent = time.monotonic()
        for ask in asks:
            ask.sent = sent
        try:
            peer.send(b"".join(ask.bytes(self.host) for ask in asks))
            for ask in asks:
                ask.note(self._answer(peer, ask))
        except GaveUp:
            self._give_up(asks, Outcome.GIVEN_UP, "")
            return False
        except TimeoutError:
            self._give_up(asks, Outcome.WRONG, "no answer")
            return False
        except (OSError, EOFError) as error:
            self._give_up(asks, Outcome.LOST, repr(error))
            return False
        if any(ask.outcome in AWAY for ask in asks):
            time.sleep(PAUSE_S)  # else most requests would be spent on it before it is back
        return True

    def _answer(self, peer, _):
        return peer.read()

    @staticmethod
    def _give_up(asks, outcome, detail):
        now = time.monotonic()
        for ask in asks:
            if ask.answered == float("inf"):
                ask.answered, ask.outcome, ask.detail = now, outcome, detail


class Waiter(Caller):
    """Waits for one permit of its key after the other, and releases it soon.

    A gocc gives released permits to newcomers alone: where it is the owner, one waits until it
    ends."""

    def __init__(self, load, node, key):
        super().__init__(load, node, HttpPeer, None)
        self.key = key

    def _connect_and_ask(self):
        if self.load.is_over:
            self.is_over = True
        else:
            super()._connect_and_ask()

    def _ask_some(self, peer):
        if self.load.is_over:
            return False
        ask = Ask(self.key, "POST", self.node.number)
        if not self._exchange(peer, [ask]):
            return False
        if ask.outcome is not Outcome.APPROVED:
            return True
        time.sleep(HOLD_S)
        ask.release = Ask(self.key, "DELETE", self.node.number)
        return self._exchange(peer, [ask.release])

    def _answer(self, peer, ask):
        while ask.may_wait and peer.is_silent(0.02):
            if time.monotonic() > ask.sent + self._longest_wait_s():
                raise GaveUp
        return peer.read()

    def _longest_wait_s(self):
        if not self.load.is_over:
            return GIVE_UP_S
        return LAST_WAIT_S if self._owner().kind == OURS else 0

    def _owner(self):
        return self.load.fleet.nodes[self.key.owner]
