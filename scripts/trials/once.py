"""The trial of sending again: fifty requests at once over all nodes while the leader is killed with -9, all of them the
same or some of each kind. Each kind has to be done once, and every answer has to say so, or that it is not known."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.api_nodes import Reply
from tests.support.cluster import Cluster, NodeProcess
from tests.support.documented import check

SENDERS = 50
ANSWER_S = 40.0  # more than a node takes to give up
KINDS = ("key", "name", "run", "batch", "skip")
NOT_DONE = ("no-leader", "overloaded", "stopping", "unknown-outcome")
BATCH = 20  # jobs
FIRST = "2040-01-01T00:00:00Z"
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}


@dataclass(frozen=True)
class Request:
    """`told`: what a good answer names, the same in each; `there`: the same as it is found on a node."""

    path: str
    body: Any
    headers: Mapping[str, str]
    done: tuple[int, ...]  # statuses that say so
    there: Callable[[NodeProcess], str]
    told: Callable[[Any], str | None] = lambda answer: str(answer["id"])


@dataclass
class Round:
    """`held` when it was done once; `met` when the kill was felt."""

    kinds: str
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
        return f"{self.kinds}: {self.killed} killed after {self.after} were written; {told}"


def request_of(kind: str, cluster: Cluster, mark: str) -> Request:
    """A job by its key, by its name, a batch, a run, and the next time left out. `mark` is in no other request."""
    key = {"Idempotency-Key": mark}
    owned = {**JOB, "owner": mark}
    match kind:
        case "key":
            return Request("/v1/jobs", owned, key, (201,), lambda node: _listed(node, f"/v1/jobs?owner={mark}&"))
        case "name":
            named = {**owned, "name": mark}
            return Request("/v1/jobs", named, {}, (200, 201), lambda node: _listed(node, f"/v1/jobs?owner={mark}&"))
        case "batch":
            jobs = [owned] * BATCH
            return Request(
                "/v1/jobs:batch", jobs, key, (200,), lambda node: _listed(node, f"/v1/jobs?owner={mark}&"), _made
            )
        case "run":
            job = _job(cluster, owned)
            return Request(f"{job}/run", {}, key, (202,), lambda node: _listed(node, f"{job}/instances?"))
        case "skip":
            job = _job(cluster, {**owned, "trigger": {"every": "1h", "starts_at": FIRST}})
            shown = f"{job}/next?count=1&consistency=leader"
            return Request(
                f"{job}/skip-next", {}, key, (200,), lambda node: str(node.get(shown)["next"][0]["at"]), _next
            )
    raise ValueError(kind)


def _job(cluster: Cluster, job: dict[str, Any]) -> str:
    """The address of one that every node knows."""
    made = cluster.nodes[0].request("POST", "/v1/jobs", job)
    assert made.status == 201, made.body
    path = f"/v1/jobs/{made.json['id']}"
    for node in cluster.nodes:
        cluster.wait(f"{path} on {node.id}", lambda node=node: node.find(path))
    return path


def _listed(node: NodeProcess, query: str) -> str:
    return " ".join(sorted(row["id"] for row in node.get(f"{query}consistency=leader")["items"]))


def _made(answer: Any) -> str | None:
    """None: not all of them."""
    items = answer["items"]
    return " ".join(sorted(item["id"] for item in items)) if all(item["status"] == 201 for item in items) else None


def _next(answer: Any) -> str | None:
    return str(answer["next_fire_at"])


class _Volley:
    """Each sender writes its request, is counted, and only then reads its answer."""

    def __init__(self, after: int, kill: Callable[[], None]) -> None:
        self._after = after
        self._kill = kill
        self._written = 0
        self._lock = threading.Lock()
        self._start = threading.Barrier(SENDERS)
        self.answers: list[tuple[Request, str, Reply | None]] = []  # node, None: the connection broke

    def fire(self, sent: list[tuple[NodeProcess, Request]]) -> None:
        threads = [threading.Thread(target=self._send, args=one) for one in sent]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, node: NodeProcess, request: Request) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=ANSWER_S)
        reply = None
        try:
            self._start.wait()
            raw = json.dumps(request.body).encode()
            connection.request("POST", request.path, raw, {"Content-Type": "application/json", **request.headers})
            self._count()
            response = connection.getresponse()
            reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
            with self._lock:
                self.answers.append((request, node.id, reply))

    def _count(self) -> None:
        with self._lock:
            self._written += 1
            last = self._written == self._after
        if last:
            self._kill()


def run_round(cluster: Cluster, rng: random.Random, *kinds: str) -> Round:
    """Returns what came of fifty requests, the same number of each kind. All nodes are up before and after it."""
    requests = [request_of(kind, cluster, f"once-{rng.getrandbits(48):x}") for kind in kinds]
    leader = cluster.leader()
    assert leader.process is not None
    result = Round(", ".join(kinds), leader.id, rng.randint(1, SENDERS - 10))
    sent = [(cluster.nodes[i % len(cluster.nodes)], requests[i % len(requests)]) for i in range(SENDERS)]
    rng.shuffle(sent)
    volley = _Volley(result.after, leader.process.kill)
    volley.fire(sent)
    leader.kill()  # waits for its end
    told: dict[int, set[str]] = {id(request): set() for request in requests}
    for request, node, reply in volley.answers:
        if (said := _judge(result, request, node, reply)) is not None:
            told[id(request)].add(said)
    for node in cluster.alive():
        for request in requests:
            told[id(request)].add(_repeat(cluster, node, request))
    leader.start()
    cluster.wait_ready()
    for node in cluster.nodes:
        for request in requests:
            answers = told[id(request)]
            answers.add(_repeat(cluster, node, request))
            if answers != {there := request.there(node)}:
                result.wrong.append(f"{node.id} has {there}; answered were {sorted(answers)}")
    return result


def _judge(result: Round, request: Request, node: str, reply: Reply | None) -> str | None:
    """What the answer names, when it is a good one."""
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
        return request.told(reply.json)
    if reply.status not in (503, 504) or code.strip() not in NOT_DONE:
        result.wrong.append(f"{node} answers {reply.status}: {reply.body[:500]!r}")
    elif reply.status == 503 and "retry-after" not in reply.headers:
        result.wrong.append(f"{node} answers 503 without Retry-After")
    return None


def _titled(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}


def _repeat(cluster: Cluster, node: NodeProcess, request: Request) -> str:
    """What this node answers when it is asked again, for as long as it says that it does not know."""

    def again() -> str | None:
        reply = node.request("POST", request.path, request.body, dict(request.headers), timeout=ANSWER_S)
        assert reply.status in (*request.done, 503, 504), (reply.status, reply.body)
        return request.told(reply.json) if reply.status in request.done else None

    return str(cluster.wait(f"an answer of {node.id} to the repeat", again))
