"""Bounds of what callers of the API may hold of a node at one time. Part of its configuration.

Connections are descriptors, of which Raft, the store, the runs and their output need some as well: those are kept back
(`Bounds.within`), so that no number of callers keeps a node from its cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from raftsched.config.addresses import Network
from raftsched.config.flags import FLAGS
from raftsched.config.reading import default_of, value_of

RESERVE = 256  # descriptors for Raft, store, output and the processes of runs,
HANDSHAKES = 256  # and for connections that are not the API's yet (api/http/tls_acceptor.py)
_LEAST = FLAGS["connections_max"].bounds[0]  # connections, however few descriptors there are
SHARE = 4  # one address has at most this fraction: a quarter


class Bounds(NamedTuple):
    """The bounds of one node."""

    connections: int = default_of("connections_max")
    streams: int = default_of("streams_max")
    token_streams: int = default_of("token_streams_max")  # of one token
    proxies: tuple[Network, ...] = ()  # whose addresses stand for many callers
    token_processor_ms: int = default_of("token_processor_ms")  # a second, of one token; 0: no bound

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
        return self._replace(connections=min(self.connections, max(_LEAST, descriptors // 8, left)))


def bounds(settings: Mapping[str, Any]) -> Bounds:
    """Raises ConfigError."""
    return Bounds(
        connections=value_of("connections_max", settings),
        streams=value_of("streams_max", settings),
        token_streams=value_of("token_streams_max", settings),
        proxies=value_of("proxies", settings),
        token_processor_ms=value_of("token_processor_ms", settings),
    )
