"""Sends each key and each call about quotas to the node that owns it, where several servers share
them.

Flow:   key, subject or reservation -> place in the list (FNV-1a; an id names its node) -> the
        node's lane, a client of its own with one connection; or the home connection, whose server
        forwards what is not its own.
Shape:  the home client learns the nodes from its server, and of each change. A lane opens in the
        background; until it is open, and whenever it is not, its keys go home.
Errors: a lane that cannot be opened is no error. It is tried again after RETRY_S, or once its node
        is another one (restarted, at another port).
Lives:  not thread-safe: the clients lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from . import _frames
from ._invalid import InvalidArgument

RETRY_S = 30.0
FNV_OFFSET, FNV_PRIME = 2_166_136_261, 16_777_619
TAG = re.compile(rb"{([^}]+)}")  # of a subject: those with the same one have the same owner
SLOT_BIT = 50  # of a reservation's id: its node's place in the list plus one, from this bit on


def fnv1a(text: bytes) -> int:
    value = FNV_OFFSET
    for byte in text:
        value = (value ^ byte) * FNV_PRIME & 0xFFFFFFFF
    return value


@lru_cache(maxsize=65_536)
def owner_of(key: str | bytes, nodes_count: int) -> int:
    """The place of the key's owner in the list."""
    return fnv1a(key.encode() if isinstance(key, str) else key) % nodes_count


@lru_cache(maxsize=65_536)
def owner_of_subject(subject: bytes, nodes_count: int) -> int:
    """The place of the subject's owner in the list."""
    tag = TAG.search(subject)
    return fnv1a(tag[1] if tag else subject) % nodes_count


def owner_of_reservation(reservation: int, nodes_count: int) -> int | None:
    """The place of the node that has the reservation; None: the list has no such node."""
    slot = reservation >> SLOT_BIT
    return slot - 1 if 0 < slot <= nodes_count else None


def fits_lane(key: object) -> bool:
    """Others go home, whose client names the fault."""
    return type(key) is bytes or type(key) is str and (key.isascii() or _has_utf8(key))


def _has_utf8(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


class LaneClient(Protocol):
    @property
    def welcome(self) -> _frames.Welcome | None: ...
    @property
    def is_usable(self) -> bool: ...


Client = TypeVar("Client", bound=LaneClient)


class Lane(Generic[Client]):
    """The way to one node."""

    def __init__(self, node: _frames.TopologyNode, client: Client) -> None:
        self.node = node
        self.client = client
        self.is_open = False
        self.is_opening = False
        self.retry_at = 0.0


# Lanes, None for the home connection, and the positions of the entries that go there.
Ways = list[tuple[Lane[Client] | None, list[int]]]


class Nodes(Generic[Client]):
    """The nodes as their servers describe them, and the lanes to them."""

    def __init__(self, make_client: Callable[[str, int], Client],
                 open_lane: Callable[[Lane[Client]], None],
                 drop_client: Callable[[Client], None]) -> None:
        self._make_client = make_client
        self._open_lane = open_lane  # in the background; it calls opened() in the end
        self._drop_client = drop_client
        self.topology: _frames.TopologyReply | None = None
        self._lanes: list[Lane[Client] | None] = []

    @property
    def count(self) -> int:
        """How many nodes share the keys; 1: as far as known, the home node is alone."""
        return max(1, len(self._lanes))

    def clients(self) -> list[Client]:
        return [lane.client for lane in self._lanes if lane is not None]

    def learn(self, topology: _frames.TopologyReply) -> None:
        """Keeps the lanes of nodes that have stayed the same."""
        self.topology = topology
        old, self._lanes = self._lanes, []
        known = topology.node_hash == _frames.FNV1A and len(topology.nodes) > 1
        for place, node in enumerate(topology.nodes if known else ()):
            lane = old[place] if place < len(old) else None
            if lane is not None and self._stays(lane, node, place == topology.own_node):
                self._lanes.append(lane)
                continue
            if lane is not None:
                self._drop_client(lane.client)
            self._lanes.append(self._new_lane(place, node, topology.own_node))
        for lane in old[len(self._lanes):]:
            if lane is not None:
                self._drop_client(lane.client)

    @staticmethod
    def _stays(lane: Lane[Client], node: _frames.TopologyNode, is_home: bool) -> bool:
        """An open one also where its node is home now, or where home was just started and does not
        know the node yet: what is bound to its connection must not end."""
        is_usable = lane.is_open and lane.client.is_usable
        if lane.node == node:
            return is_usable or not is_home
        return is_usable and node == lane.node._replace(
            native_port=0, shards=0, routing_seed=0, instance_id=0)

    def _new_lane(self, place: int, node: _frames.TopologyNode, own: int) -> Lane[Client] | None:
        if place == own or not node.native_port:
            return None  # it is the home node; or not known yet, or a gocc: home forwards
        try:
            return Lane(node, self._make_client(node.host, node.native_port))
        except InvalidArgument:
            return None  # a host that is none

    def lane_at(self, place: int | None, now: float) -> Lane[Client] | None:
        """The open lane to this node; None: what is its own goes home."""
        lane = self._lanes[place] if place is not None and place < len(self._lanes) else None
        if lane is None:
            return None
        if lane.is_open and not lane.client.is_usable:
            lane.is_open = False  # the node may be back at once: it is tried without delay
            lane.retry_at = 0.0
        if lane.is_open:
            return lane
        if not lane.is_opening and now >= lane.retry_at and not self._is_own(place):
            self._begin_to_open(lane, now)
        return None

    def _is_own(self, place: int | None) -> bool:
        """Whether this is the home node, to which the home connection leads."""
        return self.topology is not None and place == self.topology.own_node

    def _begin_to_open(self, lane: Lane[Client], now: float) -> None:
        lane.is_opening = True
        try:
            self._open_lane(lane)
        except BaseException as error:
            self.opened(lane, now)
            if not isinstance(error, RuntimeError):  # no thread can be started now
                raise

    def lane_of(self, key: str | bytes, now: float) -> Lane[Client] | None:
        if len(self._lanes) < 2 or not fits_lane(key):
            return None
        return self.lane_at(owner_of(key, len(self._lanes)), now)

    def is_home(self, key: str | bytes) -> bool:
        """Whether the home server owns the key, as far as is known."""
        if len(self._lanes) < 2 or self.topology is None or not fits_lane(key):
            return True
        return owner_of(key, len(self._lanes)) == self.topology.own_node

    def is_opening(self, key: str | bytes) -> bool:
        """Whether the lane to the key's owner is being opened."""
        lane = self._lanes[owner_of(key, len(self._lanes))]
        return lane is not None and lane.is_opening

    def ways(self, owners: Iterable[int | None], now: float) -> Ways[Client]:
        """The ways of the entries with these owners. The home connection's is the last one."""
        places: list[list[int]] = [[] for _ in self._lanes]
        home: list[int] = []
        for position, place in enumerate(owners):
            (home if place is None else places[place]).append(position)
        ways: Ways[Client] = []
        for place, positions in enumerate(places):
            lane = self.lane_at(place, now) if positions else None
            if lane is None:
                home.extend(positions)
            else:
                ways.append((lane, positions))
        if home or not ways:
            ways.append((None, sorted(home)))
        return ways

    def opened(self, lane: Lane[Client], now: float) -> bool:
        """An attempt has ended. False: another server has answered, and its connection is of no
        use. The address may lead to another place from here; or the node was restarted, and home
        will report that.
        """
        welcome = lane.client.welcome
        is_owner = welcome is None or lane.node.instance_id in (0, welcome.instance_id)
        lane.is_opening = False
        lane.is_open = is_owner and lane.client.is_usable
        if not lane.is_open:
            lane.retry_at = now + RETRY_S
        return is_owner

    def failed(self, lane: Lane[Any], now: float) -> None:
        """A call found that the lane leads nowhere."""
        lane.is_open = False
        lane.retry_at = now + RETRY_S
