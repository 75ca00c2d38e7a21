"""The node's doors: how what listens for users, and for other nodes, is shut. Part of the configuration, checked before
they open.

Whoever reaches the API of an open node runs programs there. So beyond loopback a node speaks TLS, or says that
something in front of it does (`insecure_http`); and it wants tokens from its first moment on, unless it says `open`.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from raftsched.config.addresses import Address
from raftsched.names import HOST

_FILES = ("tls_cert", "tls_key", "tls_client_ca")


class Door(NamedTuple):
    """`tls_cert` and `tls_key` come together; `tls_client_ca`, with them only: clients show certificates of it.
    `tls_ca` signed what the other nodes show; None: an authority that the system trusts did, or that of Raft.
    `http_hosts`: names in Host beside the advertised one."""

    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    insecure_http: bool
    open: bool
    tls_ca: Path | None = None
    http_hosts: tuple[str, ...] = ()


def door(settings: Mapping[str, Any], http: Address, advertise_http: Address) -> Door:
    """Raises ConfigError; Unprotected when users would be spoken to in clear beyond loopback."""
    from raftsched.config.node import ConfigError, Unprotected, flag, text_of

    cert, key, client_ca = (
        None if settings.get(name) is None else _readable(name, Path(text_of(name, settings[name]))) for name in _FILES
    )
    if (cert is None) is not (key is None):
        there, missing = ("tls_cert", "tls_key") if key is None else ("tls_key", "tls_cert")
        raise ConfigError(f"{there} needs {missing} beside it; say --tls-cert FILE --tls-key FILE")
    if client_ca is not None and cert is None:
        raise ConfigError("tls_client_ca is about TLS; say --tls-cert FILE --tls-key FILE as well")
    if key is not None and key.stat().st_mode & stat.S_IRWXO:
        raise ConfigError(f"tls_key {key} can be read or written by every user; say chmod o= {key}")
    insecure = flag("insecure_http", settings.get("insecure_http", False))
    if insecure and cert is not None:
        raise ConfigError("insecure_http and tls_cert exclude each other; leave one of them out")
    if cert is None and not insecure and beyond_loopback(http, advertise_http):
        reached = advertise_http if http.loopback else http
        raise Unprotected(
            f"http {reached} can be reached from outside, where tokens must not travel in clear: say --tls-cert FILE"
            " --tls-key FILE, or --insecure-http when a proxy with TLS stands in front of it (or listen on 127.0.0.1)"
        )
    given = settings.get("tls_ca")
    ca = None if given is None else _readable("tls_ca", Path(text_of("tls_ca", given)))
    hosts = _hosts(settings.get("http_hosts", ()))
    return Door(cert, key, client_ca, insecure, flag("open", settings.get("open", False)), ca, hosts)


def raft_files(settings: Mapping[str, Any], insecure_raft: bool) -> dict[str, Any]:
    """The certificate, key and authorities for other nodes: all three or none. Raises ConfigError."""
    from raftsched.config.node import ConfigError, text_of

    names = ("raft_cert", "raft_key", "raft_ca")
    files = {n: _readable(n, Path(text_of(n, settings[n]))) for n in names if settings.get(n) is not None}
    missing = [f"--{name.replace('_', '-')} FILE" for name in names if name not in files]
    if files and missing:
        raise ConfigError(f"{', '.join(files)}: say {' and '.join(missing)} as well; 'raftsched certs' makes all three")
    if files and insecure_raft:
        raise ConfigError("insecure_raft and raft_cert exclude each other; leave one of them out")
    return files


def beyond_loopback(http: Address, advertise_http: Address) -> bool:
    """Whether others than this machine may reach the API. Wildcards and names other than localhost count; so does what
    is advertised, for then something passes connections on."""
    return not (http.loopback and advertise_http.loopback)


def _hosts(value: Any) -> tuple[str, ...]:
    """Host names: text with commas, or a list. Raises ConfigError."""
    from raftsched.config.node import ConfigError, text_of

    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        raise ConfigError(f"http_hosts must be text or a list, not {value!r}")
    names = [name for item in items for name in text_of("http_hosts", item).replace(",", " ").split()]
    for name in names:
        if not HOST.allows(name):
            raise ConfigError(f"http_hosts {name[:80]!r} is not a host name; write it without scheme and port")
    return tuple(dict.fromkeys(name.lower() for name in names))


def local_url(http: Address, advertise_http: Address, tls: bool) -> str:
    """Where who is on this machine finds the API: by a name that the certificate is for, if there is one."""
    if tls:
        return f"https://{advertise_http}"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(http.host, http.host)  # to be called, not bound  # nosec B104
    return f"http://{http._replace(host=host)}"


def _readable(name: str, file: Path) -> Path:
    from raftsched.config.node import ConfigError

    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise ConfigError(f"{name} {file} cannot be read: {(error.strerror or str(error)).lower()}") from None
    return file
