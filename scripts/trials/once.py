"""The trial of sending again: one request fifty times at once over all nodes while the leader is killed with -9. It has
to be done once, and every answer has to say so, or that it is not known."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.cluster import Cluster, NodeProcess, Reply
from tests.support.documented import check

SENDERS = 50
ANSWER_S = 40.0  # more than a node takes to give up
KINDS = ("key", "name", "run")
NOT_DONE = ("no-leader", "overloaded", "stopping", "unknown-outcome")
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}


@dataclass(frozen=True)
class Request:
    """`found`: where what it makes is listed, and nothing else."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    done: tuple[int, ...]  # statuses that say so
    found: str


@dataclass
class Round:
    """`held` when it was done once; `met` when the kill was felt."""

    kind: str
    killed: str
    after: int  # requests written when the leader was killed
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.wrong

    @property
    def met(self) -> bool:
        return any(what[:3] not in ("200", "201", "202") for what in self.answers)

    def __str__(self) -> str:
        told = ", ".join(f"{what}: {times}" for what, times in sorted(self.answers.items()))
        return f"{self.kind}: {self.killed} killed after {self.after} were written; {told}"


def request_of(kind: str, cluster: Cluster, mark: str) -> Request:
    """By its key, by its name, or a run by its key. `mark` is in no other request."""
    key = {"Idempotency-Key": mark}
    if kind == "run":
        made = cluster.nodes[0].request("POST", "/v1/jobs", JOB)
        assert made.status == 201, made.body
        job = f"/v1/jobs/{made.json['id']}"
        for node in cluster.nodes:
            cluster.wait(f"{job} on {node.id}", lambda node=node: node.find(job))
        return Request(f"{job}/run", {}, key, (202,), f"{job}/instances")
    owned = {**JOB, "owner": mark}
    if kind == "name":
        return Request("/v1/jobs", {**owned, "name": mark}, {}, (200, 201), f"/v1/jobs?owner={mark}")
    return Request("/v1/jobs", owned, key, (201,), f"/v1/jobs?owner={mark}")


class _Volley:
    """Each sender writes its request, is counted, and only then reads its answer."""

    def __init__(self, request: Request, after: int, kill: Callable[[], None]) -> None:
        self._request = request
        self._after = after
        self._kill = kill
        self._written = 0
        self._lock = threading.Lock()
        self._start = threading.Barrier(SENDERS)
        self.answers: list[tuple[str, Reply | None]] = []  # node, None: the connection broke

    def fire(self, nodes: list[NodeProcess]) -> None:
        threads = [threading.Thread(target=self._send, args=(node,)) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, node: NodeProcess) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=ANSWER_S)
        reply = None
        try:
            self._start.wait()
            raw = json.dumps(self._request.body).encode()
            connection.request(
                "POST", self._request.path, raw, {"Content-Type": "application/json", **self._request.headers}
            )
            self._count()
            response = connection.getresponse()
            reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
            with self._lock:
                self.answers.append((node.id, reply))

    def _count(self) -> None:
        with self._lock:
            self._written += 1
            last = self._written == self._after
        if last:
            self._kill()


def run_round(cluster: Cluster, rng: random.Random, kind: str) -> Round:
    """All nodes are up before and after it."""
    mark = f"once-{rng.getrandbits(48):x}"
    request = request_of(kind, cluster, mark)
    leader = cluster.leader()
    assert leader.process is not None
    result = Round(kind, leader.id, rng.randint(1, SENDERS - 10))
    nodes = [cluster.nodes[i % len(cluster.nodes)] for i in range(SENDERS)]
    rng.shuffle(nodes)
    volley = _Volley(request, result.after, leader.process.kill)
    volley.fire(nodes)
    leader.kill()  # waits for its end
    ids = {i for node, reply in volley.answers if (i := _judge(result, request, node, reply)) is not None}
    for node in cluster.alive():
        ids.add(_repeat(cluster, node, request))
    leader.start()
    cluster.wait_ready()
    for node in cluster.nodes:
        ids.add(_repeat(cluster, node, request))
        rows = node.get(f"{request.found}{'&' if '?' in request.found else '?'}consistency=leader")["items"]
        if [row["id"] for row in rows] != list(ids):
            result.wrong.append(f"{node.id} has {[row['id'] for row in rows]}; answered were {sorted(ids)}")
    return result


def _judge(result: Round, request: Request, node: str, reply: Reply | None) -> str | None:
    """The id that was answered."""
    if reply is None:
        result.answers["no answer"] += 1
        if node != result.killed:
            result.wrong.append(f"{node} was not killed and did not answer")
        return None
    code = "" if reply.status < 400 else f" {reply.json.get('code')}"
    result.answers[f"{reply.status}{code}"] += 1
    try:
        check("POST", request.path, reply.status, _titled(reply.headers), reply.json)
    except AssertionError as error:
        result.wrong.append(str(error))
    if reply.status in request.done:
        return str(reply.json["id"])
    if reply.status not in (503, 504) or code.strip() not in NOT_DONE:
        result.wrong.append(f"{node} answers {reply.status}: {reply.body[:500]!r}")
    elif reply.status == 503 and "retry-after" not in reply.headers:
        result.wrong.append(f"{node} answers 503 without Retry-After")
    return None


def _titled(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}


def _repeat(cluster: Cluster, node: NodeProcess, request: Request) -> str:
    """The id that this node answers when it is asked again, for as long as it says that it does not know."""

    def again() -> str | None:
        reply = node.request("POST", request.path, request.body, dict(request.headers), timeout=ANSWER_S)
        assert reply.status in (*request.done, 503, 504), (reply.status, reply.body)
        return str(reply.json["id"]) if reply.status in request.done else None

    return str(cluster.wait(f"an answer of {node.id} to the repeat", again))
