"""How many connections a node takes: in all, and from one address; and which one goes when there is one more.

Connecting costs a stranger nothing, so what he holds must not be what others lack. One connection more than there may
be closes the one that was answered longest ago and has no answer due now, of the same address where the address has its
share; where all have an answer due, the new one is refused. What a node keeps back of its descriptors is in
`raftsched.descriptors`.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.addresses import Addresses
from raftsched.bounds import Bounds

Why = Literal["node", "address", "descriptors", "idle", "slow", "stalled"]
WHY: tuple[Why, ...] = ("node", "address", "descriptors", "idle", "slow", "stalled")
_LOOKED_AT = 64  # connections, to find one without an answer due
_WARN_EVERY_S = 60.0

_log = logging.getLogger(__name__)


class Place:
    """Of one connection."""

    __slots__ = ("address", "close", "has_answer_due")

    def __init__(self, address: str | None) -> None:
        """`address`: which one it counts for, if any."""
        self.address = address
        self.close: Callable[[], object] = _nothing  # at once
        self.has_answer_due: Callable[[], bool] = _never


def _nothing() -> None:
    """Until there is something to close."""


def _never() -> bool:
    return False


class Connections(Collector):
    """Of one server."""

    def __init__(self, bounds: Bounds, monotonic: Callable[[], float]) -> None:
        """`monotonic`: seconds."""
        self.most = bounds.connections
        self.each = bounds.address_connections
        self.refused: Counter[Why] = Counter()
        self.sharing = Addresses(bounds.proxies).sharing
        self._monotonic = monotonic
        self._all: OrderedDict[Place, None] = OrderedDict()  # the one that was answered longest ago first
        self._of: dict[str, OrderedDict[Place, None]] = {}  # the same, of one address
        self._warned_at = -_WARN_EVERY_S
        self._told: Counter[Why] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, host: str) -> Place | None:
        """For a connection from this IP address; None: it must be refused."""
        address = self.sharing(host)
        of = None if address is None else self._of.get(address)
        if of is not None and len(of) >= self.each and not self._make_room(of):
            self.count("address")
            return None
        if len(self._all) >= self.most and not self._make_room(self._all):
            self.count("node")
            return None
        place = Place(address)
        self._all[place] = None
        if address is not None:
            self._of.setdefault(address, OrderedDict())[place] = None
        return place

    def leave(self, place: Place) -> None:
        """May be said twice."""
        self._all.pop(place, None)
        if place.address is not None and (of := self._of.get(place.address)) is not None:
            of.pop(place, None)
            if not of:
                del self._of[place.address]

    def answered(self, place: Place) -> None:
        """It is now the last one to go."""
        if place in self._all:
            self._all.move_to_end(place)
            if place.address is not None:
                self._of[place.address].move_to_end(place)

    def no_descriptor(self) -> None:
        """The process has none left for one more."""
        self.count("descriptors")
        self._make_room(self._all)

    def count(self, why: Why) -> None:
        """A connection was refused or closed. Said in the log once a minute at most."""
        self.refused[why] += 1
        now = self._monotonic()
        if now - self._warned_at < _WARN_EVERY_S:
            return
        self._warned_at = now
        since = self.refused - self._told
        self._told = Counter(self.refused)
        _log.warning(
            "HTTP connections are refused or closed (%s since this was said last); %d are open, %d may be, %d of one"
            " address.",
            ", ".join(f"{reason}: {number}" for reason, number in sorted(since.items())),
            len(self._all),
            self.most,
            self.each,
        )

    def _make_room(self, among: OrderedDict[Place, None]) -> bool:
        """Closes the one that was answered longest ago and has no answer due."""
        for place in list(islice(among, _LOOKED_AT)):
            if place.has_answer_due():
                self.answered(place)
                continue
            self.leave(place)
            self.count("idle")
            place.close()
            return True
        return False

    # ------------------------------------------------------------ metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("raftsched_http_connections", "Connections to the API that are open.", len(self))
        yield GaugeMetricFamily("raftsched_http_connections_max", "As many may be open.", self.most)
        refused = CounterMetricFamily(
            "raftsched_http_connections_refused",
            "Connections refused (node, address, descriptors) or closed (idle, slow, stalled).",
            labels=["why"],
        )
        for why in WHY:
            refused.add_metric([why], self.refused[why])
        yield refused
