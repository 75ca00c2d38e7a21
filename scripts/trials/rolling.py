"""The trial: nodes are restarted by SIGTERM, one after the other, while jobs come due every second."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, NodeProcess

JOBS = Path(__file__).parent / "jobs"
START_S = 2.0  # within which a start is interrupted
ACTIVE = ("WAITING", "LAUNCHED", "RUNNING", "RETRYING")
# Is sent SIGTERM, for it has a handler, and finishes what it is at. Then it ends at once: an interpreter that shuts
# down takes its handlers away first, and a signal that comes so late would end it.
FINISHES = "import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: None); time.sleep({0}); os._exit(0)"


def handlers(seconds: float) -> dict[str, dict[str, Any]]:
    return {
        "exec": {"exec": ["sleep", f"{seconds:g}"]},
        "shell": {"shell": f"sleep {seconds:g}; true"},
        "python": {"python": "naps:nap"},
        "exec-2": {"exec": ["sleep", f"{seconds:g}"]},
        "shell-2": {"shell": f"sleep {seconds:g}"},
        "finishes": {"exec": ["python3", "-Sc", FINISHES.format(f"{seconds:g}")]},
    }


@dataclass
class Found:
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what explains the counts

    def summary(self) -> str:
        return ", ".join(f"{what} {count}" for what, count in sorted(self.counts.items()))


def run_rolling(cluster: Cluster, rounds: int, seconds: float, pause: float, note: Callable[[str], None]) -> Found:
    found = Found()
    made = start_jobs(cluster, seconds)
    for _ in range(rounds):
        for node in list(cluster.nodes):
            restart(cluster, node, found, note)
            time.sleep(pause)
    end_jobs(cluster, made, seconds, found)
    return found


def start_jobs(cluster: Cluster, seconds: float) -> dict[str, str]:
    """Creates jobs that are due each second and run for so long. Returns their ids by name, when the first have run."""
    leader = cluster.leader()
    made = {}
    for name, handler in handlers(seconds).items():
        body: dict[str, Any] = {"name": name, "trigger": {"every": "1s"}, "overlap": "allow", "handler": handler}
        if "python" in handler:
            body["params"] = {"seconds": seconds}
        reply = leader.request("POST", "/v1/jobs", body)
        assert reply.status == 201, (reply.status, reply.body)
        made[name] = reply.json["id"]
    time.sleep(seconds)
    return made


def restart(
    cluster: Cluster, node: NodeProcess, found: Found, note: Callable[[str], None], *, kill: random.Random | None = None
) -> None:
    """Ends a node by SIGTERM and starts it again, and waits until it may run jobs. `kill`: by SIGKILL, and at a random
    moment of its first start once more."""
    if kill is not None:
        node.kill()
        node.start()
        lived = kill.uniform(0, START_S)
        time.sleep(lived)
        node.kill()
        found.counts["killed"] += 2
        note(f"{node.id} was killed, and {lived:.2f} s after its start again")
        _start(cluster, node)
        return
    began = time.monotonic()
    code = node.terminate(60)
    took = time.monotonic() - began
    found.counts["restarts"] += 1
    note(f"{node.id} stopped in {took:.1f} s, exit {code}")
    if code != 0:
        found.wrong.append(f"{node.id} ended with exit code {code}")
    _start(cluster, node)


def _start(cluster: Cluster, node: NodeProcess) -> None:
    node.start()
    cluster.wait_ready()
    cluster.wait("its session", lambda: session_open(cluster, node.id))


def end_jobs(cluster: Cluster, made: dict[str, str], seconds: float, found: Found) -> None:
    """Pauses the jobs, and accounts for each run when all have ended."""
    for job_id in made.values():
        reply = cluster.leader().request("POST", f"/v1/jobs/{job_id}/pause", {})
        assert reply.status < 300, (reply.status, reply.body)
    cluster.wait("all runs to end", lambda: all(not active(cluster, job_id) for job_id in made.values()), 60 + seconds)
    for name, job_id in made.items():
        account(name, instances(cluster, job_id), found)


def account(name: str, rows: list[dict[str, Any]], found: Found) -> None:
    """Counts what became of the runs of a job that has been paused."""
    last = max((row["scheduled_at"] for row in rows), default="")
    for row in rows:
        if (row["state"], row["reason"], row["scheduled_at"]) == ("SKIPPED", "suspended", last):
            found.counts["due when it was paused"] += 1  # and not begun: it is on record, and never runs
            continue
        found.counts["runs"] += 1
        outcomes = [attempt["outcome"].lower() for attempt in row["attempts"] if attempt["outcome"]]
        if row["state"] != "SUCCEEDED":
            why = f"{row['state']} {row['reason']} {row['error']}"
            found.wrong.append(f"{name} {row['scheduled_at']}: {why} {outcomes}")
        killed = found.counts["killed"] > 0
        found.counts["attempts lost"] += outcomes.count("lost") if killed else 0
        for outcome in ("failed", "timed_out", *(() if killed else ("lost",))):
            if outcome in outcomes:
                found.wrong.append(f"{name} {row['scheduled_at']}: an attempt {outcome}: {outcomes}")
        begun = sum(attempt["started_at"] is not None for attempt in row["attempts"])
        found.counts["attempts begun"] += begun
        again = 0 if killed else max(0, begun - 1)
        found.counts["handed back after they began"] += again
        if again:
            found.notes.append(f"handed back after it began: {name} {row['scheduled_at']}: {row['attempts']}")
        found.counts["handed back before that"] += len(row["attempts"]) - max(1, begun)


def instances(cluster: Cluster, job_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cluster.leader().get(f"/v1/jobs/{job_id}/instances?limit=1000")["items"]
    return rows


def active(cluster: Cluster, job_id: str) -> bool:
    return any(row["state"] in ACTIVE for row in instances(cluster, job_id))


def session_open(cluster: Cluster, node_id: str) -> bool:
    nodes = cluster.leader().get("/v1/cluster")["nodes"]
    return any(node["id"] == node_id and node["session_open"] for node in nodes)
