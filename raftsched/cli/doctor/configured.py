"""The checks of `doctor` that look at what the settings of a node name: ports, addresses, certificates, keys."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from importlib.machinery import PathFinder
from pathlib import Path

from raftsched.cli.doctor.guarded import guarded
from raftsched.config.addresses import Address
from raftsched.config.node import NodeConfig, load
from raftsched.config.values import ConfigError
from raftsched.doctor import Finding
from raftsched.doctor.access import DAYS_WARN
from raftsched.security import certificates
from raftsched.system.clock import SystemClock
from raftsched.system.regular_files import read_regular

LOOK_UP_S = 3.0  # for all names together
_DAY_MS = 86_400_000


def read_settings(file: Path, environ: Mapping[str, str]) -> NodeConfig | Finding:
    """Returns the settings of a node as its start would read them, or what is wrong with them."""
    try:
        return load({}, environ, file)
    except ConfigError as error:
        return Finding("settings", "fail", str(error), f"mend {file}, or the RAFTSCHED_ variable that says it")


def look_at_settings(config: NodeConfig, *, runs: bool | None) -> Iterator[Finding]:
    """Gives the findings about what the settings name. `runs`: the node has its data directory open; None: this user
    may not look."""
    yield from guarded("settings", lambda: _settings(config))
    if not runs:
        yield from guarded("ports", lambda: _ports(config, known=runs is not None))
    yield from guarded("addresses", lambda: [_addresses(config)])
    if config.tls_cert is not None and config.tls_key is not None:
        pair, hosts = (config.tls_cert, config.tls_key), [config.advertise_http.host]
        yield from guarded("tls-files", lambda: _certificate("--tls-cert", *pair, hosts))
    if config.raft_cert is not None and config.raft_key is not None:
        raft = config.raft_cert, config.raft_key
        yield from guarded("tls-files", lambda: _certificate("--raft-cert", *raft, (), config.id, config.raft_ca))
    if config.tls_client_ca is not None:
        authorities = config.tls_client_ca
        yield from guarded("tls-files", lambda: _authorities("--tls-client-ca", authorities))


def _settings(config: NodeConfig) -> Iterator[Finding]:
    """Checks what the start of a node checks beyond the settings themselves, as far as that starts and imports
    nothing."""
    wrong = [*_handlers(config), *_output_store(config)]
    for why in wrong:
        yield Finding("settings", "fail", why, "the node does not start with it; mend its settings")
    if not wrong:
        yield Finding("settings", "ok", f"node {config.id}, {config.http} and {config.raft}")


def _handlers(config: NodeConfig) -> Iterator[str]:
    """Gives the modules that are not there. They are looked for, and not imported: that would run what is in them."""
    for name in config.handlers:
        where: Sequence[str] | None = None  # as installed
        whole = ""
        for part in name.split("."):
            whole = f"{whole}.{part}".removeprefix(".")
            found = PathFinder.find_spec(whole, [*map(str, config.pythonpath)]) if whole == part else None
            if found is None:
                specs = (finder.find_spec(whole, where) for finder in sys.meta_path)
                found = next((spec for spec in specs if spec is not None), None)
            if found is None:
                yield f"handlers {name}: there is no module {whole} in pythonpath, or installed"
                break
            where = list(found.submodule_search_locations or ())


def _output_store(config: NodeConfig) -> Iterator[str]:
    """Gives why the place that output is copied to is none. Nothing is connected to."""
    from raftsched.objectstore.opening import open_store
    from raftsched.objectstore.store import NotUsable

    if config.output_store:
        try:
            open_store(config.output_store, config.s3_endpoint, makes=False)
        except NotUsable as error:
            yield f"output_store: {error}"


def _ports(config: NodeConfig, *, known: bool) -> Iterator[Finding]:
    """`known`: no node runs on the data directory."""
    taken = [
        (name, error) for name, address in (("http", config.http), ("raft", config.raft)) if (error := _taken(address))
    ]
    for name, error in taken:
        says = f"{name} {getattr(config, name)}: {_why_not(error, known=known)}"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE and not known:
            yield Finding("ports", "warn", says, "run this as the node's user, or as root")
        else:
            yield Finding("ports", "fail", says, f"see who has it (ss -ltnp), or say another --{name}")
    if not taken:
        yield Finding("ports", "ok", "both are free")


def _taken(address: Address) -> Exception | None:
    """Returns why nobody can listen there; None: somebody can."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(found[0], socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(found[4])
            sock.listen(1)
    except (OSError, ValueError) as error:
        return error
    return None


def _why_not(error: Exception, *, known: bool) -> str:
    if not isinstance(error, OSError):
        return _no_name(error)
    if error.errno == errno.EADDRINUSE and known:
        return "the port is in use, and no node has the data directory open"
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; whether by this node cannot be told, for this user may not look at its data"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address"
    return (error.strerror or str(error)).lower()


def _no_name(error: Exception) -> str:
    """Returns why a name cannot even be asked for: getaddrinfo encodes it first, by RFC 3490, and raises
    UnicodeError."""
    if isinstance(error, UnicodeError):
        return "is no name of a host: each part between dots has 1 to 63 characters"
    return str(error)


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
        except ValueError as error:
            bad.append(f"{name} ({_no_name(error)})")
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
        pem = read_regular(file)
        left = (certificates.ends_ms(pem) - SystemClock().wall_ms()) / _DAY_MS
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.load_pair(context, certificates.Pair(pem, read_regular(key)))
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
    if authorities is not None:
        try:
            if not certificates.is_signed_by(pem, _read_authorities(authorities)):
                wrong.append(f"is not signed by an authority in {authorities}")
        except (OSError, ValueError) as error:
            yield _no_authorities("--raft-ca", authorities, error)
            return
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


def _authorities(option: str, file: Path) -> Iterator[Finding]:
    """Checks that certificates of authorities are in a file. Where they are, the certificates themselves are told."""
    try:
        _read_authorities(file)
    except (OSError, ValueError) as error:
        yield _no_authorities(option, file, error)


def _read_authorities(file: Path) -> bytes:
    """Returns what is in the file, if a node takes it (raft/transport/tls.py, api/http/tls.py). Raises OSError,
    ValueError."""
    import ssl

    pem = read_regular(file)
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    return pem


def _no_authorities(option: str, file: Path, error: Exception) -> Finding:
    import ssl

    why = "it holds no certificate of an authority in PEM"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        why = (error.strerror or str(error)).lower()
    do = "put the certificate of the authority there: the file that ends in ca.crt, not a key"
    return Finding("tls-files", "fail", f"{option} {file} cannot be used: {why}", do)
