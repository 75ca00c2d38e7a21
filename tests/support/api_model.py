"""What the API should have: a plain model of jobs, and the calls that keep a cluster and the model in step.

Nothing here knows how the product does it: jobs are kept in a dict, filters are tried on each of them, orders are
sorted. Each call says what the answer must be, and what it answers is held against the model.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from tests.support.cluster import Cluster, NodeProcess
from tests.support.patience import patient, wait_until

NOTHING_DONE = {"no-leader", "overloaded", "stopping", "behind"}  # 503: to be sent again
DEFAULTS: dict[str, Any] = {"owner": None, "priority": 5, "labels": {}, "queue": "default", "overlap": "forbid"}
AFTER = {  # state and what is asked -> state; what is not here is refused
    **{("NEW", "pause"): "NEW", ("NEW", "resume"): "SCHEDULED", ("NEW", "expire"): "EXPIRED"},
    **{("SCHEDULED", "pause"): "SUSPENDED", ("SCHEDULED", "resume"): "SCHEDULED", ("SCHEDULED", "expire"): "EXPIRED"},
    **{("SUSPENDED", "pause"): "SUSPENDED", ("SUSPENDED", "resume"): "SCHEDULED", ("SUSPENDED", "expire"): "EXPIRED"},
    ("EXPIRED", "expire"): "EXPIRED",
}


@dataclass
class ModelJob:
    id: str
    namespace: str
    name: str | None
    state: str
    content: dict[str, Any]  # as given: without what has its default
    created_at: str
    next_at: str | None
    revision: int = 1
    waiting: list[str] = field(default_factory=list)  # instances
    killed: list[str] = field(default_factory=list)
    past: dict[int, tuple[str | None, dict[str, Any]]] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        return f'"{self.id}.{self.revision}"'

    def shown(self) -> dict[str, Any]:
        return {
            **DEFAULTS,
            **self.content,
            **{"id": self.id, "namespace": self.namespace, "name": self.name, "state": self.state},
            **{"revision": self.revision, "created_at": self.created_at, "next_fire_at": self.next_at},
            "active": len(self.waiting),
        }

    def edit(self, content: dict[str, Any], name: str | None) -> None:
        if content == self.content and name == self.name:
            return
        self.past[self.revision] = (self.name, self.content)
        self.revision += 1
        if content["trigger"] != self.content["trigger"] and self.state == "EXPIRED":
            self.state = "SCHEDULED"
        self.content, self.name = content, name

    def overlaps(self) -> bool:
        return bool(self.waiting) and self.content.get("overlap", "forbid") == "forbid"

    def may(self, action: str) -> bool:
        if action == "run":
            return self.state != "EXPIRED" and not self.overlaps()
        return action == "delete" or (self.state, action) in AFTER

    def changes(self, action: str) -> bool:
        return action in ("run", "delete") or AFTER[self.state, action] != self.state


def matches(job: ModelJob, wanted: dict[str, Any]) -> bool:
    """`wanted`: as in the body of an action."""
    content = {**DEFAULTS, **job.content}
    tests: dict[str, Callable[[Any], bool]] = {
        "namespace": lambda v: job.namespace == v,
        "name": lambda v: job.name == v,
        "name_prefix": (job.name or "").startswith,
        "name_contains": lambda v: v in (job.name or ""),
        "state": lambda v: job.state in v,
        "owner": lambda v: content["owner"] == v,
        "labels": lambda v: v.items() <= content["labels"].items(),
        "queue": lambda v: content["queue"] == v,
        "created_from": lambda v: job.created_at >= v,
        "created_to": lambda v: job.created_at < v,
        "next_from": lambda v: job.next_at is not None and job.next_at >= v,
        "next_to": lambda v: job.next_at is not None and job.next_at < v,
    }
    return all(tests[name](value) for name, value in wanted.items())


def in_order(jobs: Iterable[ModelJob], wanted: dict[str, Any]) -> list[str]:
    """The ids, as a list has them."""
    if "namespace" in wanted and "name" in wanted:
        ordered = list(jobs)
    elif "next_from" in wanted or "next_to" in wanted:
        ordered = sorted(jobs, key=lambda job: (job.next_at or "", job.id))
    elif "namespace" in wanted and "name_prefix" in wanted:
        ordered = sorted(jobs, key=lambda job: job.name or "")
    else:
        ordered = sorted(jobs, key=lambda job: job.id)
    return [job.id for job in ordered]


def in_query(wanted: dict[str, Any]) -> dict[str, str]:
    """A filter as parameters of an address."""
    query = {name: value for name, value in wanted.items() if name not in ("state", "labels")}
    if "state" in wanted:
        query["state"] = ",".join(wanted["state"])
    for key, value in wanted.get("labels", {}).items():
        query["label"] = f"{key}={value}"
    return query


class Reply:
    def __init__(self, status: int, headers: dict[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.json = json.loads(raw) if raw and "json" in headers.get("content-type", "") else None

    @property
    def code(self) -> str:
        return str(self.json.get("code", "")) if isinstance(self.json, dict) else ""


class Caller:
    """Requests to the nodes of a cluster, over connections that stay. What a node cannot do at the moment, and says so,
    is asked again; so is what cannot be sent to one that was started anew."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.calls = 0
        self.kills = 0  # of leaders
        self.index = 0  # of the newest write that was answered
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __call__(
        self,
        node: NodeProcess,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        query: dict[str, Any] | None = None,
    ) -> Reply:
        target = path + (f"?{urlencode(query)}" if query else "")
        raw = None if body is None else json.dumps(body).encode()
        sent = {**({"Content-Type": "application/json"} if body is not None else {}), **(headers or {})}

        def answer() -> Reply | None:
            reply = self._send(node, method, target, raw, sent)
            return None if reply.status == 503 and reply.code in NOTHING_DONE else reply

        reply = wait_until(answer, lambda: f"a node that can do {method} {target}\n{self.cluster.logs()}")
        assert reply.status < 500, f"{method} {target}: {reply.status} {reply.json}\n{self.cluster.logs()}"
        if method != "GET" and reply.status < 300:
            # a repeat under its key is answered by what its node knows, which may be less than another one wrote
            self.index = max(self.index, int(reply.headers["raftsched-index"]))
        return reply

    def _send(self, node: NodeProcess, method: str, target: str, raw: bytes | None, headers: dict[str, str]) -> Reply:
        self.calls += 1
        connection = self._connections.get(node.id)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=patient(30))
            self._connections[node.id] = connection
        connection.request(method, target, raw, headers)
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def forget(self, node: NodeProcess) -> None:
        """Its connection: it was killed."""
        connection = self._connections.pop(node.id, None)
        if connection is not None:
            connection.close()


def address(job: ModelJob, by_name: bool) -> str:
    if by_name and job.name is not None:
        return f"/v1/namespaces/{job.namespace}/jobs/{quote(job.name)}"
    return f"/v1/jobs/{job.id}"
