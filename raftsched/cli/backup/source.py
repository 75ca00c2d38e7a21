"""The cluster that is backed up, as its nodes answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftsched.cli.cluster.views import named
from raftsched.cli.failures import Failure
from raftsched.client.errors import ClientError
from raftsched.client.http import Client
from raftsched.surface.plain import cluster as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Answer

_SILENT_S = 120.0  # a node writes a copy of its state before it sends the first byte
_NEWEST = {"consistency": "leader"}


class Nodes:
    """Asks one node after the other (backups.making.Cluster). Raises ClientError."""

    def __init__(self, client: Client) -> None:
        self._client = client
        client.timeout = _SILENT_S
        self._has_log: list[Client] = []  # the one that had what others no longer have
        view = client.get(addresses.STATUS)
        self.id = _id(view)
        self._named = named(view, client.servers)

    def log(self, after: int) -> tuple[bytes, int]:
        from raftsched.backups.making import LogGone, WentBack

        gone: ClientError | None = None
        for client in [*self._has_log, self._client, *self._each()]:
            try:
                answer = _segment(client, after)
            except (ClientError, WentBack) as error:
                if isinstance(error, ClientError) and error.code == "log-gone":  # another node may keep more of it
                    gone = error
                elif gone is None and client is self._client:
                    raise
                continue  # else it was asked for what the others do not have
            if gone is not None:
                self._has_log = [client]
            return answer.body, int(answer.headers.get("raftsched-index", "0"))
        raise LogGone(str(gone))

    def _each(self) -> Iterator[Client]:
        client = self._client
        for one in dict.fromkeys([*client.servers, *self._named]):
            yield Client([one], timeout=client.timeout, token=client.token, trust=client.trust)

    def state(self, target: Path) -> None:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
            for piece in self._client.stream(addresses.SNAPSHOT, _NEWEST, silent_s=_SILENT_S):
                out.write(piece)


def _id(view: Mapping[str, Any]) -> str:
    found = view.get("cluster_id")
    if not isinstance(found, str) or len(found) != 32:
        raise Failure("the cluster was not formed yet: there is nothing to back up")
    return found


def _segment(client: Client, after: int) -> Answer:
    from raftsched.backups.making import WentBack

    try:
        return client.request("GET", addresses.LOG, query={"after": after, **_NEWEST})
    except ClientError as error:
        if error.code == "behind":
            raise WentBack(
                f"{error.detail.rstrip('.')}: the cluster lost entries that were backed up; back it up elsewhere"
            ) from None
        raise
