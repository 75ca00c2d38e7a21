"""Reads addresses: where a node listens, what others call it, and where its peers are."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

from raftsched import names
from raftsched.config.values import ConfigError, list_of, pairs_of, text_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PEERS_WANTED = "write n1=host:port,n2=host:port,n3=host:port, this node included"


class Address(NamedTuple):
    """A host, by name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Returns whether only this machine can reach it. A name other than localhost counts as reachable."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def wildcard(self) -> bool:
        """Returns whether it stands for every interface: right to listen on, useless to others."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


def parse_address(name: str, value: Any) -> Address:
    """Returns the address in `host:port` or `[ipv6]:port`. Raises ConfigError."""
    text = text_of(name, value).strip()
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        good = _is_ipv6(host)
    else:
        good = names.HOST.allows(host) is not None
    if not colon or not good:
        raise ConfigError(f"{name} {text!r} is not an address; write host:port, such as 127.0.0.1:7401 or [::1]:7401")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise ConfigError(f"{name} {text!r}: the port must be a number from 1 to 65535")
    return Address(host, int(port))


def parse_peers(value: Any) -> dict[str, Address]:
    """Returns node ids and Raft addresses, from `n1=host:port,n2=...`, a list of such items, or a table. Raises
    ConfigError."""
    peers: dict[str, Address] = {}
    for key, address in pairs_of("peers:", value, _PEERS_WANTED):
        node = node_id(key.strip())
        if node in peers:
            raise ConfigError(f"peers: {node!r} is there twice; every node has one id and one address")
        found = parse_address(f"peers: {node}", address)
        if found.wildcard:
            raise ConfigError(f"peers: {node}={found}: nobody can connect to that; write the address others use")
        for other, taken in peers.items():
            if taken == found:
                raise ConfigError(f"peers: {other} and {node} have the same address {found}; each node has its own")
        peers[node] = found
    return peers


def node_id(value: Any) -> str:
    """Returns the id of a node. Raises ConfigError."""
    text = text_of("id", value)
    if not names.NODE.allows(text):
        raise ConfigError(f"id {text[:80]!r} is not possible; an id has {names.NODE.rule}, like n1")
    return text


def advertised_raft(
    settings: Mapping[str, Any], node: str, raft: Address, peers: Mapping[str, Address], join: bool
) -> Address:
    """Returns the address by which the other nodes reach this one's Raft port. Raises ConfigError."""
    mine = peers.get(node)
    if join and not peers.keys() - {node}:
        raise ConfigError(
            "join: peers must name at least one running member of the cluster to be let into; say --peers"
            " n1=host:port,..."
        )
    if peers and mine is None and not join:
        raise ConfigError(
            f"peers: {node!r}, this node, is not among {', '.join(peers)}; the list is the same on every node and"
            " names all of them (a new node of a cluster that exists says --join)"
        )
    if "advertise_raft" in settings:
        advertised = parse_address("advertise_raft", settings["advertise_raft"])
        if mine is not None and mine != advertised:
            raise ConfigError(f"advertise_raft is {advertised}, but peers say {node}={mine}; the two must be the same")
    else:
        advertised = mine or raft
        if mine is not None and mine.port != raft.port:
            raise ConfigError(
                f"raft listens on port {raft.port}, but peers say {node}={mine}; correct one of them, or say"
                f" --advertise-raft {mine} when ports are mapped"
            )
    for other, taken in peers.items():
        if other != node and taken == advertised:
            raise ConfigError(f"raft {advertised} is the address of {other} in peers; each node has its own")
    if advertised.wildcard:
        raise ConfigError(f"raft {raft} listens everywhere; say --advertise-raft host:port, the address others use")
    return advertised


def advertised_http(settings: Mapping[str, Any], http: Address, raft: Address) -> Address:
    """Returns the address by which others reach this node's API. `raft`: that of its Raft port. Raises ConfigError."""
    if "advertise_http" in settings:
        advertised = parse_address("advertise_http", settings["advertise_http"])
    else:
        advertised = Address(raft.host, http.port) if http.wildcard else http
    if advertised.wildcard:
        raise ConfigError(f"advertise_http {advertised}: nobody can connect to that; write the address others use")
    return advertised


def hosts_of(value: Any) -> tuple[str, ...]:
    """Returns host names, of text with commas or a list. Raises ConfigError."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        raise ConfigError(f"http_hosts must be text or a list, not {value!r}")
    found = [name for item in items for name in text_of("http_hosts", item).replace(",", " ").split()]
    for name in found:
        if not names.HOST.allows(name):
            raise ConfigError(f"http_hosts {name[:80]!r} is not a host name; write it without scheme and port")
    return tuple(dict.fromkeys(name.lower() for name in found))


def networks_of(value: Any) -> tuple[Network, ...]:
    """Raises ConfigError."""
    return tuple(map(_network, list_of("proxies", value)))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise ConfigError(
            f"proxies: {text[:80]!r} is no IP address and no network; write 10.1.0.7 or 10.1.0.0/24"
        ) from None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
