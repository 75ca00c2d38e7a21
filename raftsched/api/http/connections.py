"""Bounds on connections: in all, and from one address; and which one is closed when there is one too many.

Connecting costs a stranger nothing, so what strangers hold must not be what others lack. One connection too many may
close another one that has no answer due, of the same address where the address has its share. A new connection has a
moment for its first request, in which it is not closed: else a crowd that comes at once would close each before its
request is read. Of the others those go first that have not asked, then those that showed no good token with their last
request, the one that was answered longest ago first. Those that did keep their place while strangers have a part of all
places. Where none may be closed the new one is refused with an answer: that is better than to be closed unanswered,
which leaves open what became of the request. The descriptors that a node keeps for itself are in
`raftsched.system.descriptors`.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import islice, takewhile
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.http.addresses import Addresses
from raftsched.config.bounds import SHARE, Bounds

Why = Literal["node", "address", "descriptors", "idle", "slow", "stalled"]
WHY: tuple[Why, ...] = ("node", "address", "descriptors", "idle", "slow", "stalled")
SILENT_S = 0.5  # that a new connection has for the first byte of its first request,
ASKING_S = 2.0  # and from there until all of it is there
_LOOKED_AT = 64  # connections, to find one without an answer due
_WARN_EVERY_S = 60.0

_log = logging.getLogger(__name__)


class Standing(IntEnum):
    """The order in which connections are closed."""

    SILENT = 0  # nothing has come yet
    ASKING = 1  # the first request comes, or is being answered
    STRANGER = 2  # the last request that was answered showed no good token
    KNOWN = 3


class Place:
    """The place of one connection."""

    __slots__ = ("address", "close", "has_answer_due", "since", "standing")

    def __init__(self, address: str | None, since: float) -> None:
        """`address`: which one it counts for, if any. `since`: when it came to its standing, in seconds."""
        self.address = address
        self.since = since
        self.standing = Standing.SILENT
        self.close: Callable[[], object] = _nothing  # at once
        self.has_answer_due: Callable[[], bool] = _never


class _Group:
    """Places of which there may be `most`, by standing; of each the one that has it longest first."""

    __slots__ = ("_by_standing", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._by_standing: tuple[OrderedDict[Place, None], ...] = tuple(OrderedDict() for _ in Standing)

    def __len__(self) -> int:
        return sum(map(len, self._by_standing))

    def __contains__(self, place: Place) -> bool:
        return place in self._by_standing[place.standing]

    def add(self, place: Place) -> None:
        self._by_standing[place.standing][place] = None

    def remove(self, place: Place) -> None:
        self._by_standing[place.standing].pop(place, None)

    def first_to_go(self, now: float) -> list[Place]:
        """Some, in this order; some of them may have an answer due."""
        silent, asking, strangers, known = self._by_standing
        found = [
            *takewhile(lambda place: now - place.since >= SILENT_S, islice(silent, _LOOKED_AT)),
            *takewhile(lambda place: now - place.since >= ASKING_S, islice(asking, _LOOKED_AT)),
            *islice(strangers, _LOOKED_AT),
        ]
        if (len(self) - len(known)) * SHARE < self.size_max:  # who is new must be able to become known
            found += islice(known, _LOOKED_AT)
        return found


def _nothing() -> None:
    """Does nothing, until there is something to close."""


def _never() -> bool:
    return False


class Connections(Collector):
    """The places of one server."""

    def __init__(self, bounds: Bounds, monotonic: Callable[[], float]) -> None:
        """`monotonic`: seconds."""
        self.size_max = bounds.connections
        self.each = bounds.address_connections
        self.refused: Counter[Why] = Counter()
        self.sharing = Addresses(bounds.proxies).sharing
        self._monotonic = monotonic
        self._all = _Group(self.size_max)
        self._of: dict[str, _Group] = {}  # those of one address
        self._warned_at = -_WARN_EVERY_S
        self._told: Counter[Why] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, host: str) -> Place | None:
        """Enters a connection from this IP address; None: it must be refused."""
        address = self.sharing(host)
        of = None if address is None else self._of.get(address)
        if of is not None and len(of) >= of.size_max and not self._make_room(of):
            self.count("address")
            return None
        if len(self._all) >= self.size_max and not self._make_room(self._all):
            self.count("node")
            return None
        place = Place(address, self._monotonic())
        self._all.add(place)
        if address is not None:
            self._of.setdefault(address, _Group(self.each)).add(place)
        return place

    def leave(self, place: Place) -> None:
        """Leaves the place; may be called twice."""
        self._all.remove(place)
        if place.address is not None and (of := self._of.get(place.address)) is not None:
            of.remove(place)
            if not of:
                del self._of[place.address]

    def asks(self, place: Place) -> None:
        """Something of a request has come."""
        if place.standing is Standing.SILENT:
            self._stand(place, Standing.ASKING)

    def answered(self, place: Place, *, known: bool) -> None:
        """It is now the last one of its standing to go. `known`: the request showed a good token."""
        self._stand(place, Standing.KNOWN if known else Standing.STRANGER)

    def _stand(self, place: Place, standing: Standing) -> None:
        if place not in self._all:
            return
        groups = (self._all,) if place.address is None else (self._all, self._of[place.address])
        for group in groups:
            group.remove(place)
        place.standing = standing
        place.since = self._monotonic()
        for group in groups:
            group.add(place)

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
            self.size_max,
            self.each,
        )

    def _make_room(self, among: _Group) -> bool:
        """Closes one that may be closed."""
        for place in among.first_to_go(self._monotonic()):
            if place.has_answer_due():
                self._stand(place, max(place.standing, Standing.ASKING))
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
        yield GaugeMetricFamily(
            "raftsched_http_connections_max", "Connections to the API that may be open.", self.size_max
        )
        refused = CounterMetricFamily(
            "raftsched_http_connections_refused",
            "Connections refused (node, address, descriptors) or closed (idle, slow, stalled).",
            labels=["why"],
        )
        for why in WHY:
            refused.add_metric([why], self.refused[why])
        yield refused
