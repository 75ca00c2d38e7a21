"""Configures where a node ships what runs print: one place, what it is asked to send, and what it shows there."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from raftsched import names
from raftsched.config.addresses import Address
from raftsched.config.flags import group
from raftsched.config.reading import value_of
from raftsched.config.values import ConfigError, Unprotected
from raftsched.system.regular_files import open_regular

NAMESPACES_MAX = 1_000
CREDENTIALS_MAX = 64 * 1024  # bytes of their file
TENANT_MAX = 150  # bytes, as Loki has it
PUSH = "/loki/api/v1/push"
UNIX_MAX = 107  # bytes of a path, see unix(7)
_PORTS = {"udp": 514, "tcp": 514, "tls": 6514}  # RFC 5426, rsyslog's custom, RFC 5425
_WANTED = (
    "write stdout, loki+https://HOST[:PORT], loki+http://HOST[:PORT], syslog+udp://HOST[:PORT],"
    " syslog+tcp://HOST[:PORT], syslog+tls://HOST[:PORT], or syslog+unix:///dev/log"
)

Kind = Literal["stdout", "loki", "udp", "tcp", "tls", "unix"]


@dataclass(frozen=True, kw_only=True)
class ShipConfig:
    """The place that output is shipped to."""

    to: str  # as it was said, and may be shown
    kind: Kind
    url: str = ""  # of Loki
    address: Address | None = None  # of syslog
    path: str = ""  # the same
    namespaces: tuple[str, ...] | None = None  # whose output; None: that of all
    credentials: Path | None = None  # a file; read whenever it is needed
    tenant: str = ""
    ca: Path | None = None  # who signed the certificate there; None: an authority that the system trusts


def build_shipping(settings: Mapping[str, Any]) -> ShipConfig | None:
    """Returns None where nothing is shipped. Raises ConfigError, Unprotected."""
    if "output_ship" not in settings:
        said = [name for name in group("ship") if name in settings]
        if said:
            raise ConfigError(f"{said[0]} says more of output_ship, which is missing; say --output-ship PLACE as well")
        return None
    to = value_of("output_ship", settings).strip()
    kind, parts = _read(to)
    credentials = _credentials(settings, kind, parts)
    return ShipConfig(
        to=to,
        kind=kind,
        url=_url(parts) if kind == "loki" else "",
        address=_address(to, kind, parts) if kind in _PORTS else None,
        path=_path(parts) if kind == "unix" else "",
        namespaces=_namespaces(settings),
        credentials=credentials,
        tenant=_tenant(settings, kind),
        ca=_ca(settings, kind, parts),
    )


def read_credentials(file: Path) -> str:
    """Returns the line of such a file, "user:password" or a token. Raises ConfigError."""
    try:
        with open_regular(file) as opened:
            raw = opened.read(CREDENTIALS_MAX)
    except OSError as error:
        raise ConfigError(
            f"output_ship_credentials {file} cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None
    line = raw.decode("latin-1").strip()  # any byte is a character then
    if not line or not line.isascii() or not line.isprintable():
        raise ConfigError(f"output_ship_credentials {file} has none; it is to have one line, USER:PASSWORD or a token")
    return line


def _read(to: str) -> tuple[Kind, SplitResult]:
    try:
        parts = urlsplit(to)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_good = urlsplit(""), False
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "output_ship must not hold credentials, which everybody sees in a list of processes; put them into a file"
            " and say --output-ship-credentials FILE"
        )
    if to == "stdout":
        return "stdout", parts
    kinds: dict[str, Kind] = {
        "loki+https": "loki",
        "loki+http": "loki",
        "syslog+udp": "udp",
        "syslog+tcp": "tcp",
        "syslog+tls": "tls",
        "syslog+unix": "unix",
    }
    kind = kinds.get(parts.scheme)
    good = port_is_good and not parts.query and not parts.fragment
    if kind is None or not good or (kind != "unix" and not _is_host(parts.hostname)):
        raise ConfigError(f"output_ship {to[:200]!r} is no place; {_WANTED}")
    return kind, parts


def _is_host(host: str | None) -> bool:
    return host is not None and (":" in host or names.HOST.allows(host) is not None)


def _url(parts: SplitResult) -> str:
    path = parts.path.rstrip("/")
    return f"{parts.scheme.removeprefix('loki+')}://{parts.netloc}{path.removesuffix(PUSH)}{PUSH}"


def _address(to: str, kind: Kind, parts: SplitResult) -> Address:
    if parts.path not in ("", "/"):
        raise ConfigError(f"output_ship {to[:200]!r} has a path, which syslog has not; {_WANTED}")
    return Address(parts.hostname or "", parts.port or _PORTS[kind])


def _path(parts: SplitResult) -> str:
    path = parts.path
    if parts.netloc or not path.startswith("/") or "%" in path or len(path.encode()) > UNIX_MAX:
        raise ConfigError(
            f"output_ship: a socket is written with three slashes, syslog+unix:///dev/log, and has {UNIX_MAX} bytes at"
            " most, without '%'"
        )
    return path


def _namespaces(settings: Mapping[str, Any]) -> tuple[str, ...] | None:
    if "output_ship_namespaces" not in settings:
        return None
    items = tuple(dict.fromkeys(value_of("output_ship_namespaces", settings)))
    if not 1 <= len(items) <= NAMESPACES_MAX:
        raise ConfigError(
            f"output_ship_namespaces names {len(items)}; name 1 to {NAMESPACES_MAX}, or leave it out for all"
        )
    for item in items:
        if not names.NAMESPACE.allows(item):
            raise ConfigError(f"output_ship_namespaces {item[:80]!r} is no namespace; use {names.NAMESPACE.rule}")
    return items


def _credentials(settings: Mapping[str, Any], kind: Kind, parts: SplitResult) -> Path | None:
    if "output_ship_credentials" not in settings:
        return None
    if kind != "loki":
        raise ConfigError("output_ship_credentials is for Loki; other places ask for none, leave it out")
    if parts.scheme == "loki+http" and not Address(parts.hostname or "", 80).loopback:
        raise Unprotected(
            "output_ship_credentials would travel in clear: say loki+https://, or ship to a proxy on 127.0.0.1"
        )
    file: Path = value_of("output_ship_credentials", settings)
    if file.stat().st_mode & stat.S_IRWXO:
        raise ConfigError(f"output_ship_credentials {file} can be read or written by every user; say chmod o= {file}")
    read_credentials(file)
    return file


def _tenant(settings: Mapping[str, Any], kind: Kind) -> str:
    if "output_ship_tenant" not in settings:
        return ""
    tenant: str = value_of("output_ship_tenant", settings).strip()
    if kind != "loki":
        raise ConfigError("output_ship_tenant is for Loki; other places know no tenants, leave it out")
    if not tenant or len(tenant) > TENANT_MAX or not tenant.isascii() or not tenant.isprintable():
        raise ConfigError(
            f"output_ship_tenant {tenant[:80]!r} is none; it has 1 to {TENANT_MAX} printable characters of ASCII"
        )
    return tenant


def _ca(settings: Mapping[str, Any], kind: Kind, parts: SplitResult) -> Path | None:
    if "output_ship_ca" not in settings:
        return None
    if kind != "tls" and parts.scheme != "loki+https":
        raise ConfigError("output_ship_ca is about TLS; say loki+https:// or syslog+tls://, or leave it out")
    file: Path = value_of("output_ship_ca", settings)
    return file
