"""The key under which an address is counted, where callers have shares by their addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from raftsched.config.addresses import Network

PREFIX = 64  # bits of an IPv6 address that are one customer's network (RFC 6177)
OWN_MACHINE: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.1/32"), ipaddress.ip_network("::1/128"))


class Addresses:
    """`proxies`: networks whose addresses stand for many callers and have no share of their own; neither has this
    machine, 127.0.0.1 and ::1."""

    def __init__(self, proxies: Iterable[Network] = (), *, own: tuple[Network, ...] = OWN_MACHINE) -> None:
        """`own`: this machine, where it stands for many."""
        self._many = (*own, *proxies)

    def sharing(self, host: str) -> str | None:
        """Returns the key under which an IP address is counted; None: it stands for many callers."""
        found = _parsed(host)
        return None if found is None or self.stands_for_many(host) else found[0]

    def stands_for_many(self, host: str) -> bool:
        found = _parsed(host)
        if found is None:
            return False
        parsed = found[1]
        return any(parsed in network for network in self._many if network.version == parsed.version)


@lru_cache(maxsize=4_096)
def _parsed(host: str) -> tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address] | None:
    """None: this is none, as where a connection comes from the process's own code."""
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped), parsed.ipv4_mapped
        return str(ipaddress.ip_network((parsed, PREFIX), strict=False)), parsed
    return host, parsed
