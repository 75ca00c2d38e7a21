"""What callers may hold of a node at one time, as it was configured."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

CONNECTIONS_MAX = 10_000
STREAMS = 200
STREAMS_EACH = 20

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Bounds(NamedTuple):
    """Of one node."""

    connections: int = CONNECTIONS_MAX
    streams: int = STREAMS
    streams_each: int = STREAMS_EACH  # of one token
    proxies: tuple[Network, ...] = ()  # whose addresses stand for many callers
