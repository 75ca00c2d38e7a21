"""What callers of the API may hold of a node at one time. Part of its configuration.

Connections are descriptors, of which Raft, the store, the runs and their output need some as well: those are kept back
(`Bounds.within`), so that no number of callers keeps a node from its cluster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

CONNECTIONS_MAX = (16, 10_000, 1_000_000)  # least, default, most
STREAMS_MAX = (1, 200, 100_000)
TOKEN_STREAMS_MAX = (1, 20, 100_000)
RESERVE = 256  # descriptors for Raft, store, output and the processes of runs,
HANDSHAKES = 256  # and for connections that are not the API's yet (api/http/entrance.py)
SHARE = 4  # one address has at most one part in so many
SETTINGS = ("connections_max", "streams_max", "token_streams_max", "proxies")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Bounds(NamedTuple):
    """Of one node."""

    connections: int = CONNECTIONS_MAX[1]
    streams: int = STREAMS_MAX[1]
    token_streams: int = TOKEN_STREAMS_MAX[1]  # of one token
    proxies: tuple[Network, ...] = ()  # whose addresses stand for many callers

    @property
    def address_connections(self) -> int:
        return max(1, self.connections // SHARE)

    @property
    def address_streams(self) -> int:
        return max(1, self.streams // SHARE)

    def within(self, descriptors: int, slots: int) -> Bounds:
        """As far as a process with so many descriptors and so many slots for runs can keep them. A stream may need a
        second one, to the node that has what is read, and a run one for a while."""
        left = descriptors - RESERVE - HANDSHAKES - min(self.streams, descriptors // 8) - min(slots, descriptors // 8)
        return self._replace(connections=min(self.connections, max(CONNECTIONS_MAX[0], descriptors // 8, left)))


def bounds(settings: Mapping[str, Any]) -> Bounds:
    """Raises ConfigError."""
    from raftsched.config.node import whole_number

    return Bounds(
        whole_number("connections_max", CONNECTIONS_MAX, settings),
        whole_number("streams_max", STREAMS_MAX, settings),
        whole_number("token_streams_max", TOKEN_STREAMS_MAX, settings),
        _networks(settings.get("proxies", ())),
    )


def _networks(value: Any) -> tuple[Network, ...]:
    from raftsched.config.node import ConfigError, list_of

    networks: list[Network] = []
    for item in value.split(",") if isinstance(value, str) else list_of("proxies", value):
        text = item.strip()
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            raise ConfigError(
                f"proxies: {text[:80]!r} is no IP address and no network; write 10.1.0.7 or 10.1.0.0/24"
            ) from None
    return tuple(networks)
