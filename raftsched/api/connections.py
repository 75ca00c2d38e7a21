"""How many connections a node takes: in all, and from one address; and which one goes when there is one more.

Connecting costs a stranger nothing, so what he holds must not be what others lack. One connection more than there may
be closes the one that was answered longest ago and has no answer due now, of the same address where the address has its
share; where all have an answer due, the new one is refused. What a node keeps back of its descriptors is in
`raftsched.descriptors`.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.bounds import Network

Why = Literal["node", "address", "descriptors", "idle", "slow", "stalled"]
WHY: tuple[Why, ...] = ("node", "address", "descriptors", "idle", "slow", "stalled")
SHARE = 4  # one address has at most one part in so many
_LOOKED_AT = 64  # connections, to find one without an answer due
_WARN_EVERY_S = 60.0
_PREFIX = 64  # bits of an IPv6 address that are one customer's network (RFC 6177)

_log = logging.getLogger(__name__)


OWN_MACHINE: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.1/32"), ipaddress.ip_network("::1/128"))


class Place:
    """Of one connection."""

    __slots__ = ("address", "close", "has_answer_due", "shared")

    def __init__(self, address: str, *, shared: bool) -> None:
        """`shared`: it counts for its address."""
        self.address = address
        self.shared = shared
        self.close: Callable[[], object] = _nothing  # at once
        self.has_answer_due: Callable[[], bool] = _never


def _nothing() -> None:
    """Until there is something to close."""


def _never() -> bool:
    return False


class Connections(Collector):
    """Of one server. `most`: in all."""

    def __init__(self, most: int, monotonic: Callable[[], float], proxies: Iterable[Network] = ()) -> None:
        """`monotonic`: seconds. `proxies`: networks whose addresses stand for many callers and have no share of their
        own; neither has this machine, 127.0.0.1 and ::1."""
        self.most = most
        self.each = max(1, most // SHARE)
        self.refused: Counter[Why] = Counter()
        self._exempt = (*OWN_MACHINE, *proxies)
        self._monotonic = monotonic
        self._all: OrderedDict[Place, None] = OrderedDict()  # the one that was answered longest ago first
        self._of: dict[str, OrderedDict[Place, None]] = {}  # the same, of one address
        self._warned_at = -_WARN_EVERY_S
        self._told: Counter[Why] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, host: str) -> Place | None:
        """For a connection from this IP address; None: it must be refused."""
        address, shared = self._known(host)
        of = self._of.get(address) if shared else None
        if of is not None and len(of) >= self.each and not self._make_room(of):
            self.count("address")
            return None
        if len(self._all) >= self.most and not self._make_room(self._all):
            self.count("node")
            return None
        place = Place(address, shared=shared)
        self._all[place] = None
        if shared:
            self._of.setdefault(address, OrderedDict())[place] = None
        return place

    def leave(self, place: Place) -> None:
        """May be said twice."""
        self._all.pop(place, None)
        of = self._of.get(place.address) if place.shared else None
        if of is not None:
            of.pop(place, None)
            if not of:
                del self._of[place.address]

    def answered(self, place: Place) -> None:
        """It is now the last one to go."""
        if place in self._all:
            self._all.move_to_end(place)
            if place.shared:
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

    def _known(self, host: str) -> tuple[str, bool]:
        address, parsed = _network_of(host)
        return address, not any(parsed in network for network in self._exempt if network.version == parsed.version)

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


@lru_cache(maxsize=4_096)
def _network_of(host: str) -> tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """What counts as one address, and the address itself."""
    parsed = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped), parsed.ipv4_mapped
        return str(ipaddress.ip_network((parsed, _PREFIX), strict=False)), parsed
    return host, parsed
