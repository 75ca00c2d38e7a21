"""Reads hosts and addresses as the rules about them do (`allowed.py`). It is the same in every version of Python."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import NamedTuple

from raftsched.core.rules.ascii import is_number, lower

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last four bytes are the IPv4 address
_PATTERN = re.compile(r"[A-Za-z0-9._*?-]+", re.ASCII)
_LEGACY_PART = re.compile(r"0[xX][0-9A-Fa-f]+|[0-9]+", re.ASCII)

# Not of the public internet, or not for one host. Sources: the IANA registries of special-purpose addresses for IPv4
# and IPv6 (RFC 6890), of multicast addresses, and of the IPv6 address space, which assigns nothing beyond 2000::/3.
# Python's own list changes with its version.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
        ),
    )
)
# Parts of these that are public all the same: anycast addresses (RFC 7723, 8155, 9665), AMT, AS112, ORCHIDv2, drones.
_PUBLIC_ALL_THE_SAME = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.9/32", "192.0.0.10/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128"),
            *("2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28"),
        ),
    )
)
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


def is_public(address: IPAddress) -> bool:
    """Returns whether it is an address of one host of the public internet."""
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return False
    if not _within(address, _SPECIAL):
        return True
    return _within(address, _PUBLIC_ALL_THE_SAME)


def _within(address: IPAddress, networks: tuple[IPNetwork, ...]) -> bool:
    return any(network.version == address.version and address in network for network in networks)


def name_of(host: str) -> str:
    """Returns the name that rules about names are held against. A host that is not in ASCII is asked for by another
    name than it is written with, which only who asks can tell (`raftsched.hosts`)."""
    return lower(host).rstrip(".")


def pattern_of(text: str) -> str:
    """Returns the pattern of names that a rule is. Raises ValueError with how the sentence about it goes on."""
    if not text.isascii():
        raise ValueError("is not in ASCII; write the name as it is in the DNS (xn--...)")
    if not _PATTERN.fullmatch(text):
        raise ValueError("")
    return lower(text)


class Reading(NamedTuple):
    """Functions that read hosts; those of apply follow from the level of the cluster."""

    fold: Callable[[str], str]
    name_of: Callable[[str], str]
    pattern_of: Callable[[str], str]
    is_public: Callable[[IPAddress], bool]


ASCII = Reading(lower, name_of, pattern_of, is_public)


def target_of_url(url: str, reading: Reading = ASCII) -> str:
    """ "host:port" of an http:// or https:// address that was checked before; empty when it is none."""
    scheme, separator, rest = url.partition("://")
    authority = rest.partition("/")[0].partition("?")[0].partition("#")[0].rpartition("@")[2]
    if not separator or not authority:
        return ""
    host, port = split_target(authority)
    named = f"[{host}]" if ":" in host else reading.fold(host)
    return f"{named}:{port or (443 if lower(scheme) == 'https' else 80)}"


def split_target(target: str) -> tuple[str, int]:
    """Host and port of "host:port", "[v6]:port" or "host"; 0: none is named."""
    if target.startswith("["):
        host, _, rest = target[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = target.partition(":")
    return host, int(port) if is_number(port) and len(port) <= 5 else 0


def literal(host: str) -> IPAddress | None:
    """The address that a host is written as, as resolvers read it; None: it is a name. "127.1", "0x7f000001" and
    "2130706433" are addresses to inet_aton(3)."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return _legacy(host)


def _legacy(host: str) -> IPAddress | None:
    parts = host.split(".")
    if not 1 <= len(parts) <= 4 or not all(map(_LEGACY_PART.fullmatch, parts)):
        return None
    try:
        *heads, last = (_number(part) for part in parts)
    except ValueError:  # 08
        return None
    if any(n > 255 for n in heads) or last >= 1 << 8 * (5 - len(parts)):
        return None
    value = last
    for at, head in enumerate(heads):
        value |= head << 8 * (3 - at)
    return ipaddress.IPv4Address(value)


def _number(part: str) -> int:
    """Raises ValueError."""
    low = lower(part)
    return int(low, 16 if low.startswith("0x") else 8 if len(low) > 1 and low.startswith("0") else 10)


def unwrapped(address: IPAddress) -> IPAddress:
    """The IPv4 address within an IPv6 one that stands for it (mapped, 6to4, Teredo, NAT64), else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
