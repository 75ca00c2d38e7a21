"""Nodes of a cluster as the API shows them: processes (cluster.py), or in this process (local_cluster.py)."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.support.patience import PATIENCE_S, wait_until


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ApiNode:
    """A node that listens on loopback."""

    id: str
    http_port: int
    data: Path
    log: Path

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What its certificate is checked with; None: it speaks plain HTTP."""
        return None

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.http_port}"

    @property
    def alive(self) -> bool:
        raise NotImplementedError

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Reply:
        """One request on a connection of its own. Raises OSError when the node does not answer."""
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=timeout)
            if self.tls is None
            else http.client.HTTPSConnection("127.0.0.1", self.http_port, timeout=timeout, context=self.tls)
        )
        try:
            sent = dict(headers or {})
            raw = None
            if body is not None:
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, raw, sent)
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        reply = self.request("GET", path)
        assert reply.status == 200, (path, reply.status, reply.body)
        return reply.json

    def find(self, path: str) -> Any:
        """The JSON of a GET; None while this node has not heard of it: it applies a moment after it is acknowledged."""
        reply = self.request("GET", path)
        assert reply.status in (200, 404), (path, reply.status, reply.body)
        return reply.json if reply.status == 200 else None

    def ready(self) -> bool:
        try:
            return self.request("GET", "/readyz", timeout=2).status == 200
        except (OSError, http.client.HTTPException):
            return False


N = TypeVar("N", bound=ApiNode)


class ApiCluster(Generic[N]):
    """Nodes that know one another."""

    nodes: list[N]
    directory: Path

    @property
    def servers(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(node.url for node in self.nodes)

    def node(self, node_id: str) -> N:
        return next(n for n in self.nodes if n.id == node_id)

    def alive(self) -> list[N]:
        return [n for n in self.nodes if n.alive]

    def wait(self, what: str, condition: Callable[[], Any], timeout: float = PATIENCE_S) -> Any:
        """Polls until the condition gives something true and returns it; says what was waited for, with the logs."""
        silent = (OSError, http.client.HTTPException)
        return wait_until(condition, lambda: f"{what}\n{self.logs()}", seconds=timeout, passing=silent)

    def wait_ready(self) -> None:
        for node in self.alive():
            self.wait(f"{node.id} is ready", node.ready)

    def leader(self) -> N:
        """The node that the others agree on as leader, waiting for one."""

        def agreed() -> N | None:
            said = {n.get("/v1/cluster")["leader"] for n in self.alive()}
            if len(said) == 1 and (name := said.pop()) is not None and self.node(name).alive:
                return self.node(name)
            return None

        found: N = self.wait("an agreed leader", agreed)
        return found

    def followers(self) -> list[N]:
        return self.followers_of(self.leader())

    def followers_of(self, leader: N) -> list[N]:
        return [n for n in self.alive() if n is not leader]

    def logs(self, tail: int = 25) -> str:
        parts = []
        for node in self.nodes:
            text = node.log.read_text(errors="replace").splitlines() if node.log.exists() else []
            parts.append(f"--- {node.id} (alive: {node.alive})\n" + "\n".join(text[-tail:]))
        return "\n".join(parts)


AnyCluster = ApiCluster[Any]
