"""The checks of `doctor` that look at what the settings of a node name: ports, addresses, certificates, keys."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from pathlib import Path

from raftsched.clock import SystemClock
from raftsched.config.addresses import Address
from raftsched.config.node import NodeConfig, load
from raftsched.config.values import ConfigError
from raftsched.doctor import Finding
from raftsched.doctor.access import DAYS_WARN
from raftsched.security import certificates

LOOK_UP_S = 3.0  # for all names together
_DAY_MS = 86_400_000


def read_settings(file: Path, environ: Mapping[str, str]) -> NodeConfig | Finding:
    """Returns the settings of a node as its start would read them, or what is wrong with them."""
    try:
        return load({}, environ, file)
    except ConfigError as error:
        return Finding("settings", "fail", str(error), f"mend {file}, or the RAFTSCHED_ variable that says it")


def look_at_settings(config: NodeConfig, *, runs: bool) -> Iterator[Finding]:
    """Gives the findings about what the settings name. `runs`: the node has its data directory open."""
    yield Finding("settings", "ok", f"node {config.id}, {config.http} and {config.raft}")
    if not runs:
        yield from _ports(config)
    yield _addresses(config)
    if config.tls_cert is not None and config.tls_key is not None:
        yield from _certificate("--tls-cert", config.tls_cert, config.tls_key, [config.advertise_http.host])
    if config.raft_cert is not None and config.raft_key is not None:
        yield from _certificate("--raft-cert", config.raft_cert, config.raft_key, (), config.id, config.raft_ca)


def _ports(config: NodeConfig) -> Iterator[Finding]:
    taken = [
        (name, why) for name, address in (("http", config.http), ("raft", config.raft)) if (why := _why_not(address))
    ]
    for name, why in taken:
        do = f"see who has it (ss -ltnp), or say another --{name}"
        yield Finding("ports", "fail", f"{name} {getattr(config, name)}: {why}", do)
    if not taken:
        yield Finding("ports", "ok", "both are free")


def _why_not(address: Address) -> str:
    """Returns why nobody can listen there; empty: somebody can."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(found[0], socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(found[4])
            sock.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return "the port is in use, and no node has the data directory open"
        if error.errno == errno.EADDRNOTAVAIL:
            return "this machine does not have that address"
        return (error.strerror or str(error)).lower()
    return ""


def _addresses(config: NodeConfig) -> Finding:
    names = sorted({address.host for address in (*config.peers.values(), config.advertise_http)})
    looking = ThreadPoolExecutor(len(names))
    asked = {name: looking.submit(socket.getaddrinfo, name, None) for name in names}
    looking.shutdown(wait=False)
    clock = SystemClock()
    until = clock.monotonic() + LOOK_UP_S
    bad = []
    for name, answer in asked.items():
        try:
            answer.result(max(0.0, until - clock.monotonic()))
        except TookTooLong:
            bad.append(f"{name} (no answer within {LOOK_UP_S:g} s)")
        except OSError as error:
            bad.append(f"{name} ({(error.strerror or str(error)).lower()})")
    if bad:
        do = "mend the name server or /etc/hosts; members find each other by these names"
        return Finding("addresses", "fail", f"cannot be looked up: {', '.join(bad)}", do)
    return Finding("addresses", "ok", f"all can be looked up: {', '.join(names)}")


def _certificate(
    option: str, file: Path, key: Path, hosts: list[str] | tuple[()], node: str = "", authorities: Path | None = None
) -> Iterator[Finding]:
    """Checks that a certificate is of its key, for the hosts, of the node, signed by the authorities, and holds."""
    import ssl

    try:
        pem = file.read_bytes()
        left = (certificates.ends_ms(pem) - SystemClock().wall_ms()) / _DAY_MS
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.load_pair(context, certificates.Pair(pem, key.read_bytes()))
        names, identities = certificates.hosts_of(pem), certificates.identities_of(pem)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        do = f"put a certificate and its key there: raftsched certs node {node or 'ID'}"
        yield Finding("tls-files", "fail", f"{option} {file} and its key cannot be used: {why}", do)
        return
    wrong = []
    missing = [host for host in hosts if not certificates.is_for(names, host)]
    if missing:
        wrong.append(f"is for {', '.join(names) or 'no host'}, not for {', '.join(missing)}, by which clients come")
    if node and all(found != node for _, found in identities):
        wrong.append(f"names {', '.join(found for _, found in identities) or 'no node'}, not {node}")
    if authorities is not None and not certificates.is_signed_by(pem, authorities.read_bytes()):
        wrong.append(f"is not signed by an authority in {authorities}")
    if left <= 0:
        wrong.append("has expired")
    if wrong:
        do = f"make another one: raftsched certs node {node or 'ID'} --host NAME"
        yield Finding("tls-files", "fail", f"{option} {file} {'; '.join(wrong)}", do)
    elif left < DAYS_WARN:
        do = f"put a new one there: raftsched certs node {node or 'ID'}; it is read again by itself"
        yield Finding("tls-files", "warn", f"{option} {file} expires in {left:.1f} days", do)
    else:
        yield Finding(
            "tls-files", "ok", f"{option} {file} is of its key, for {', '.join(names) or node}, {left:.0f} days"
        )
