"""Addresses of nodes as users write them: `http://host:port`, `host:port`, several with commas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

DEFAULT_SERVERS = "http://127.0.0.1:7401,http://127.0.0.1:7402,http://127.0.0.1:7403"
_WANTED = "write http://host:port, several with commas: http://10.0.0.1:7401,http://10.0.0.2:7401"


class Server(NamedTuple):
    """An address of a node."""

    scheme: str  # "http" or "https"
    host: str
    port: int
    path: str = ""  # prefix in front of /v1, without a slash at the end

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def parse_servers(text: str) -> list[Server]:
    """At least one, in order, without repeats. ValueError says what is wrong and what would be right."""
    servers: list[Server] = []
    for item in text.split(","):
        if item.strip():
            server = _parse(item.strip())
            if server not in servers:
                servers.append(server)
    if not servers:
        raise ValueError(f"no server given; {_WANTED}")
    return servers


def refuse_paths(servers: Iterable[Server]) -> None:
    """Refuses an address that has a path. A client may have a proxy with a path before it; whoever works with the nodes
    themselves has not, and would be answered 404 for ever. Raises ValueError."""
    for server in servers:
        if server.path:
            raise ValueError(f"{server} has a path, and nodes are asked without one; write {server._replace(path='')}")


def _parse(text: str) -> Server:
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        port = url.port
    except ValueError:
        raise ValueError(f"{text!r} is not a server address; {_WANTED}") from None
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
        raise ValueError(f"{text!r} is not a server address; {_WANTED}")
    if port is None:
        port = 443 if url.scheme == "https" else 7401
    return Server(url.scheme, url.hostname, port, url.path.rstrip("/"))
