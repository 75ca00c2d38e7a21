"""Bounds of what callers of the API may hold of a node at one time. Part of its configuration.

Connections are descriptors, of which Raft, the store, the runs and their output need some as well: those are kept back
(`Bounds.within`), so that no number of callers keeps a node from its cluster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

from raftsched.config.values import ConfigError, Range, list_of, whole_number

CONNECTIONS_MAX = Range(16, 10_000, 1_000_000)
STREAMS_MAX = Range(1, 200, 100_000)
TOKEN_STREAMS_MAX = Range(1, 20, 100_000)
TOKEN_PROCESSOR_MS = Range(0, 500, 1_000_000)
RESERVE = 256  # descriptors for Raft, store, output and the processes of runs,
HANDSHAKES = 256  # and for connections that are not the API's yet (api/http/tls_acceptor.py)
SHARE = 4  # one address has at most this fraction: a quarter
SETTINGS = ("connections_max", "streams_max", "token_streams_max", "token_processor_ms", "proxies")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Bounds(NamedTuple):
    """The bounds of one node."""

    connections: int = CONNECTIONS_MAX.default
    streams: int = STREAMS_MAX.default
    token_streams: int = TOKEN_STREAMS_MAX.default  # of one token
    proxies: tuple[Network, ...] = ()  # whose addresses stand for many callers
    token_processor_ms: int = TOKEN_PROCESSOR_MS.default  # a second, of one token; 0: no bound

    @property
    def address_connections(self) -> int:
        return max(1, self.connections // SHARE)

    @property
    def address_streams(self) -> int:
        return max(1, self.streams // SHARE)

    def within(self, descriptors: int, slots: int) -> Bounds:
        """Returns the bounds that a process with so many descriptors and slots for runs can keep. A stream may need a
        second descriptor, to the node that has what is read, and a run one for a while."""
        left = descriptors - RESERVE - HANDSHAKES - min(self.streams, descriptors // 8) - min(slots, descriptors // 8)
        return self._replace(connections=min(self.connections, max(CONNECTIONS_MAX.min, descriptors // 8, left)))


def bounds(settings: Mapping[str, Any]) -> Bounds:
    """Raises ConfigError."""
    return Bounds(
        whole_number(settings, "connections_max", CONNECTIONS_MAX),
        whole_number(settings, "streams_max", STREAMS_MAX),
        whole_number(settings, "token_streams_max", TOKEN_STREAMS_MAX),
        tuple(map(_network, list_of("proxies", settings.get("proxies", ())))),
        whole_number(settings, "token_processor_ms", TOKEN_PROCESSOR_MS),
    )


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise ConfigError(
            f"proxies: {text[:80]!r} is no IP address and no network; write 10.1.0.7 or 10.1.0.0/24"
        ) from None
