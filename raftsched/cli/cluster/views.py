"""Asks each node for its own view of the cluster: without a leader none knows of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from raftsched.lost_majority import Lost, lost_majority
from raftsched.surface.plain import cluster as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client
    from raftsched.client.servers import Server

ASK_WAIT_S = 3.0


def each_view(client: Client, first: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Returns the views of all nodes that answer, by node; of those that were said, and of those that they name.
    `first`: one that has been answered."""
    found: dict[str, dict[str, Any]] = {} if first is None else {first.get("node") or "": dict(first)}
    asked: set[Server] = set()
    waiting = list(client.servers)
    while waiting:
        asked.update(waiting)
        answers = _asked(client, waiting)
        for answer in answers:
            found.setdefault(answer.get("node") or "", answer)
        known = [server for view in found.values() for server in named(view, client.servers)]
        waiting = [server for server in dict.fromkeys(known) if server not in asked]
    return [found[node] for node in sorted(found)]


def lost_in(client: Client, first: Mapping[str, Any] | None = None) -> Lost | None:
    """Returns what the nodes that answer know of a lost majority; None: a leader is there, or may come."""
    return lost_majority(each_view(client, first))


def named(view: Mapping[str, Any], given: Sequence[Server]) -> list[Server]:
    """Returns the addresses of all nodes as one of them says. None where a proxy stands before them; by https alone
    where one of those given is https: no node can turn encryption off."""
    from raftsched.client.servers import parse_servers

    if any(server.path for server in given):
        return []
    found: list[Server] = []
    for node in view.get("nodes") or ():
        with suppress(ValueError):
            found += parse_servers(node.get("http") or "")
    sealed = any(server.scheme == "https" for server in given)
    return [server for server in found if server.scheme == "https" or not sealed]


def _asked(client: Client, servers: Sequence[Server]) -> list[dict[str, Any]]:
    from concurrent.futures import ThreadPoolExecutor

    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as Http

    def ask(server: Server) -> dict[str, Any] | None:
        try:
            return dict(
                Http([server], timeout=ASK_WAIT_S, token=client.token, trust=client.trust).get(addresses.STATUS)
            )
        except ClientError:
            return None

    with ThreadPoolExecutor(max(1, len(servers))) as asking:
        return [answer for answer in asking.map(ask, servers) if answer is not None]
