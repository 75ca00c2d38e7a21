"""Connections that have not proved yet to hold the key: their number is bounded, by address and in all.

Addresses of known members have room of their own, which no other address can take. One address can push out only its
own connections; those furthest in the handshake stay longest. Handshakes begun in a second are bounded: each costs a
signature.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from typing import Generic, Protocol, TypeVar

from raftsched.raft.options import RaftOptions


class _Stepping(Protocol):
    @property
    def step(self) -> int: ...  # progress of its handshake


C = TypeVar("C", bound=_Stepping)


def place(host: str) -> str:
    """Returns what counts as one address: all of a /64 (IPv6) can be one machine."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        if not address.is_loopback:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Pending(Generic[C]):
    """The unproven connections, by address."""

    def __init__(self, options: RaftOptions) -> None:
        self._options = options
        self._by_place: dict[str, dict[C, None]] = {}  # by place, in the order they came
        self._placed: dict[C, str] = {}
        self._rates: dict[str, tuple[float, float]] = {}  # by home, "" for all others: (tokens, when)

    def __len__(self) -> int:
        return len(self._placed)

    def add(self, connection: C, where: str, homes: Container[str], now: float) -> C | None:
        """Counts a new connection; returns the one that has to go, perhaps this one, which is no longer counted.
        `homes`: the members' addresses."""
        home = where if where in homes else ""
        if not self._within_rate(home, now):
            return connection
        group = self._by_place.setdefault(where, {})
        group[connection] = None
        self._placed[connection] = where
        if len(group) > self._options.pending_per_address:
            return self._evict(group)
        strangers = {w: r for w, r in self._by_place.items() if w not in homes}
        if not home and sum(map(len, strangers.values())) > self._options.pending_handshakes:
            return self._evict(max(strangers.values(), key=len))
        return None

    def remove(self, connection: C) -> None:
        """Removes a connection that has proved itself, or ended."""
        where = self._placed.pop(connection, None)
        if where is not None:
            group = self._by_place[where]
            del group[connection]
            if not group:
                del self._by_place[where]

    def _evict(self, group: dict[C, None]) -> C:
        connection = min(group, key=lambda one: one.step)  # the oldest of equal ones
        self.remove(connection)
        return connection

    def _within_rate(self, home: str, now: float) -> bool:
        rate = self._options.handshakes_per_s
        tokens, at = self._rates.get(home, (rate, now))
        tokens = min(rate, tokens + (now - at) * rate)
        if len(self._rates) > 64:  # members move
            self._rates.clear()
        self._rates[home] = (max(0.0, tokens - 1), now)
        return tokens >= 1
