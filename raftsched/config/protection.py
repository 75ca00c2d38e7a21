"""Protects the node's ports: certificates, keys and tokens. Part of the configuration, checked before they open.

Whoever reaches the API of an open node runs programs there. So beyond loopback a node speaks TLS, or says that
something in front of it does (`insecure_http`); and it wants tokens from its first moment on, unless it says `open`.
Between nodes a key says who belongs to the cluster; without one (`insecure_raft`) they stay on loopback.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raftsched.config.addresses import Address
from raftsched.config.reading import value_of
from raftsched.config.values import ConfigError, Unprotected, text_of
from raftsched.security.keyring import KEY_FILE

_FILES = ("tls_cert", "tls_key", "tls_client_ca")
# What listens there is called at another address; nothing is bound to it here.
_ALL_OF_4 = "0.0.0.0"  # nosec B104


class HttpProtection(NamedTuple):
    """The protection of the API's port.

    `tls_cert` and `tls_key` come together; `tls_client_ca`, with them only: clients show certificates of it.
    `tls_ca` signed what the other nodes show; None: an authority that the system trusts did, or that of Raft.
    `http_hosts`: names in Host beside the advertised one."""

    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    insecure_http: bool
    open: bool
    tls_ca: Path | None = None
    http_hosts: tuple[str, ...] = ()


def http_protection(settings: Mapping[str, Any], http: Address, advertise_http: Address) -> HttpProtection:
    """Raises ConfigError; Unprotected when tokens would travel in clear beyond loopback."""
    cert, key, client_ca = (value_of(name, settings) for name in _FILES)
    if (cert is None) is not (key is None):
        there, missing = ("tls_cert", "tls_key") if key is None else ("tls_key", "tls_cert")
        raise ConfigError(f"{there} needs {missing} beside it; say --tls-cert FILE --tls-key FILE")
    if client_ca is not None and cert is None:
        raise ConfigError("tls_client_ca is about TLS; say --tls-cert FILE --tls-key FILE as well")
    if key is not None and key.stat().st_mode & stat.S_IRWXO:
        raise ConfigError(f"tls_key {key} can be read or written by every user; say chmod o= {key}")
    insecure = value_of("insecure_http", settings)
    if insecure and cert is not None:
        raise ConfigError("insecure_http and tls_cert exclude each other; leave one of them out")
    if cert is None and not insecure and beyond_loopback(http, advertise_http):
        reached = advertise_http if http.loopback else http
        raise Unprotected(
            f"http {reached} can be reached from outside, where tokens must not travel in clear: say --tls-cert FILE"
            " --tls-key FILE, or --insecure-http when a proxy with TLS stands in front of it (or listen on 127.0.0.1)"
        )
    ca, hosts, is_open = (value_of(name, settings) for name in ("tls_ca", "http_hosts", "open"))
    return HttpProtection(cert, key, client_ca, insecure, is_open, ca, hosts)


def raft_files(settings: Mapping[str, Any], insecure_raft: bool) -> dict[str, Any]:
    """Returns certificate, key and authorities for the Raft port: all three or none. Raises ConfigError."""
    names = ("raft_cert", "raft_key", "raft_ca")
    files = {name: file for name in names if (file := value_of(name, settings)) is not None}
    missing = [f"--{name.replace('_', '-')} FILE" for name in names if name not in files]
    if files and missing:
        raise ConfigError(f"{', '.join(files)}: say {' and '.join(missing)} as well; 'raftsched certs' makes all three")
    if files and insecure_raft:
        raise ConfigError("insecure_raft and raft_cert exclude each other; leave one of them out")
    return files


def beyond_loopback(http: Address, advertise_http: Address) -> bool:
    """Returns True when other machines may reach the API. Wildcards and names other than localhost count; so does the
    advertised address, for then something passes connections on."""
    return not (http.loopback and advertise_http.loopback)


def local_url(http: Address, advertise_http: Address, tls: bool) -> str:
    """Returns the URL of the API on this machine, by a name that the certificate is for, if there is one."""
    if tls:
        return f"https://{advertise_http}"
    host = {_ALL_OF_4: "127.0.0.1", "::": "::1"}.get(http.host, http.host)
    return f"http://{http._replace(host=host)}"


def cluster_key(
    settings: Mapping[str, Any], data: Path, addresses: Sequence[Address], join: bool
) -> tuple[Path | None, bool]:
    """Returns the key file, and True when there is to be no key. A single node makes its own key; several must have the
    same one, or anybody could join. `addresses`: the node's own two, and those of all peers.

    Raises ConfigError, Unprotected."""
    given = settings.get("cluster_key_file")
    insecure = value_of("insecure_raft", settings)
    if given is not None and insecure:
        raise ConfigError("insecure_raft and cluster_key_file exclude each other; keep --cluster-key-file")
    if insecure:
        for address in addresses:
            if not address.loopback:
                raise Unprotected(
                    f"insecure_raft is for 127.0.0.1 only, and {address} can be reached from outside; make a key with"
                    " 'raftsched keys new --file FILE', put it on every node and say --cluster-key-file FILE"
                )
        return None, True
    if given is None and (join or len({*addresses[1:]}) > 1) and not (data / KEY_FILE).exists():
        raise Unprotected(
            "several nodes need a key, so that nobody else is one of them: make one with 'raftsched keys new --file"
            " FILE', put it on every node and say --cluster-key-file FILE (or, on 127.0.0.1 and trusting all users of"
            " this machine, --insecure-raft)"
        )
    return None if given is None else Path(text_of("cluster_key_file", given)), False
