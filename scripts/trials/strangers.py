"""The trial: strangers do what they can to real nodes, which go on as if nothing were."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, NodeProcess

ROOT = Path(__file__).resolve().parent.parent.parent
FLOODS = ("bombs", "plain", "many_plain", "connects", "headers", "pipeline", "slow")
COUNTS = {"slow": 2_000}
JOBS = 10
EVERY_S = 1
Note = Callable[[str], None]
Found = dict[str, Any]


class Person:
    """Asks with a token."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, node: NodeProcess, method: str, path: str, body: Any = None, timeout: float = 10.0) -> Any:
        reply = node.request(method, path, body, self.headers, timeout)
        assert reply.status < 300, (method, path, reply.status, reply.body[:500])
        return reply.json if reply.body else None


def guard(cluster: Cluster) -> Person:
    """Tokens are required from here on."""
    node = cluster.leader()
    reply = node.request("POST", "/v1/tokens", {"name": "root", "role": "admin"})
    assert reply.status == 201, reply.body
    person = Person(reply.json["secret"])
    person.ask(node, "PUT", "/v1/cluster/access", {"required": True})
    for other in cluster.nodes:
        cluster.wait("the token to be known", lambda n=other: person.ask(n, "GET", "/v1/tokens"))
    return person


def load(kind: str, node: NodeProcess, seconds: float, count: int = 0, token: str = "") -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "scripts.trials.strangers_load", kind, str(node.http_port), str(seconds)]
    return subprocess.Popen([*argv, str(count), token], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str], patience_s: float = 120.0) -> Found:
    out, _ = process.communicate(timeout=patience_s)
    found: Found = json.loads(out)
    return found


def beats(person: Person, node: NodeProcess) -> None:
    """Jobs that are due each second."""
    for number in range(JOBS):
        body = {"name": f"beat-{number}", "trigger": {"every": f"{EVERY_S}s"}, "handler": {"exec": ["true"]}}
        person.ask(node, "POST", "/v1/jobs", body)


def lateness(person: Person, node: NodeProcess, since: datetime) -> Found:
    """Milliseconds from when runs were due to their start, of those that were due since then."""
    late: list[float] = []
    skipped = 0
    for number in range(JOBS):
        rows = person.ask(node, "GET", f"/v1/namespaces/default/jobs/beat-{number}/instances?limit=100")["items"]
        for row in rows:
            due = datetime.fromisoformat(row["scheduled_at"])
            if due < since:
                continue
            if row["started_at"]:
                late.append((datetime.fromisoformat(row["started_at"]) - due).total_seconds() * 1_000)
            elif row["state"] == "SKIPPED":
                skipped += 1
    late.sort()
    assert late, "nothing ran"
    at = {"p50": late[len(late) // 2], "p99": late[int((len(late) - 1) * 0.99)], "max": late[-1]}
    return {"runs": len(late), "skipped": skipped, **{name: round(value) for name, value in at.items()}}


def leads(cluster: Cluster, person: Person) -> NodeProcess:
    return cluster.node(person.ask(cluster.nodes[0], "GET", "/v1/cluster")["leader"])


def term(node: NodeProcess, person: Person) -> tuple[int, str]:
    said = person.ask(node, "GET", "/v1/cluster")
    return said["term"], said["leader"]


def flood(cluster: Cluster, person: Person, kind: str, seconds: float) -> Found:
    """One kind of flood at the leader; "quiet" is none."""
    leader = leads(cluster, person)
    before = term(leader, person)
    since = datetime.now(UTC)
    attack = None if kind == "quiet" else load(kind, leader, seconds, COUNTS.get(kind, 0))
    if kind == "bombs":
        time.sleep(4)  # they are packed first
    probing = load("probe", leader, seconds - 2)
    said = {"probe": result(probing)}
    if attack is not None:
        said["attack"] = result(attack)
    said["lateness_ms"] = lateness(person, leader, since)
    said["same_leader"] = term(leader, person) == before
    return said


def crowd(
    cluster: Cluster, person: Person, idle: int, streams: int, note: Note, seconds: float = 60.0, gather_s: float = 15.0
) -> Found:
    """Idle connections and streams on every node, for so long; `gather_s` after they began to come one node is
    restarted and joins, and requests with a token are served. Raises AssertionError."""
    viewer = person.ask(leads(cluster, person), "POST", "/v1/tokens", {"name": "reader", "role": "viewer"})["secret"]
    attacks = [
        load(kind, node, seconds, count, viewer)
        for node in cluster.nodes
        for kind, count in (("idle", idle), ("streams", streams))
    ]
    time.sleep(gather_s)
    said: Found = {"open": {n.id: descriptors(n) for n in cluster.nodes}}
    note(f"descriptors: {said['open']}")
    leader = leads(cluster, person)
    node = next(n for n in cluster.nodes if n is not leader)
    began = time.monotonic()
    node.terminate()
    node.start()
    cluster.wait(f"{node.id} to be ready", node.ready)
    others = [n for n in cluster.nodes if n is not node]
    cluster.wait(f"{node.id} to have a session", lambda: _has_session(person, others[0], node.id))
    said["joined_after_s"] = round(time.monotonic() - began, 1)
    took: list[float] = []
    for number in range(60):
        for asked in cluster.nodes:
            began = time.monotonic()
            person.ask(asked, "POST", "/v1/jobs", {"trigger": {"in": "1h"}, "handler": {"exec": ["true"]}})
            person.ask(asked, "GET", "/v1/jobs?limit=1")
            took.append(time.monotonic() - began)
        if number == 30:
            said["open_later"] = {n.id: descriptors(n) for n in cluster.nodes}
    took.sort()
    said["served"] = {"requests": 2 * len(took), "p50_ms": round(took[len(took) // 2] * 500, 1)}
    said["served"]["max_ms"] = round(took[-1] * 500, 1)
    said["attacks"] = [result(attack) for attack in attacks]
    return said


def _has_session(person: Person, asked: NodeProcess, name: str) -> bool:
    return any(n["id"] == name and n["session_open"] for n in person.ask(asked, "GET", "/v1/cluster")["nodes"])


def descriptors(node: NodeProcess) -> int:
    assert node.process is not None
    return sum(1 for _ in Path(f"/proc/{node.process.pid}/fd").iterdir())
