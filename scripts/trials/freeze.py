"""The trial: what guards the runs of two followers is stopped for long; then every run is accounted for."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scripts.benches.load import rfc3339
from scripts.trials.beats import read_history
from scripts.trials.checker import STOOD, Job, Verdict, judge
from scripts.trials.endurance import STRAGGLERS_S, agreed_rows, handle, wait_quiet
from scripts.trials.guards import guards
from tests.support.cluster import Cluster, NodeProcess

# What is stopped on the one follower and on the other; the other's node goes on, so that there is a majority.
ROUNDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("node",), ("supervisor",)),
    (("node", "supervisor"), ("supervisor", "keepers")),
    (("node", "supervisor", "sentinel"), ("supervisor", "sentinel")),
)
KINDS = ("python", "exec", "shell", "stubborn")
LEAD_MS = 1_500
Note = Callable[[str], None]
LEASE_S = 10.0  # longer than a lease with its margin: by then a lost run has been given to somebody else


def run_freeze(
    cluster: Cluster, directory: Path, rng: random.Random, jobs: int, seconds: float, rounds: int, note: Note
) -> Verdict:
    """On a running cluster whose nodes have `JOBS` on their pythonpath; `jobs` in each round, all running when it
    begins. Raises AssertionError when a round shows nothing: no run on a node that is to be stopped."""
    files = directory / "beats"
    files.mkdir()
    made: list[tuple[str, Job]] = []
    verdict = Verdict()
    for number, (first, second) in enumerate(rng.sample(ROUNDS, rounds)):
        cluster.wait("every node to take runs", lambda: all(takes_runs(n) for n in nodes_of(cluster)))
        leader = cluster.leader()
        made += start(leader, rng, number, jobs, seconds, files)
        running = cluster.wait("all to run", lambda node=leader: all_run(node, jobs))
        followers = rng.sample(cluster.followers_of(leader), 2)
        victims = list(zip(followers, (first, second), strict=True))
        for node, what in victims:
            count = sum(row["node"] == node.id for row in running)
            note(f"{node.id}: {', '.join(what)} stopped for {seconds:.0f} s with {count} runs")
            assert count, f"{node.id} ran nothing"
        with stopped([pid for node, what in victims for pid in pids(node, what)]):
            time.sleep(seconds)
        cluster.wait_ready()
        verdict.counts["runs on nodes that were stopped"] += sum(
            row["node"] in {node.id for node in followers} for row in running
        )
        quiet_ns = wait_quiet(cluster)
        cluster.wait("every session", lambda: all(n["session_open"] for n in nodes_of(cluster)))
    time.sleep(STRAGGLERS_S)
    for node in cluster.nodes:
        verdict.look(STOOD)
        if not node.alive:
            verdict.against(STOOD, f"{node.id} ended")
    for job_id, job in made:
        job.rows = agreed_rows(cluster, job_id, job.name, verdict)
    judge([job for _, job in made], {job.name: read_history(files / job.name) for _, job in made}, quiet_ns, verdict)
    return verdict


def nodes_of(cluster: Cluster) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = cluster.leader().get("/v1/cluster")["nodes"]
    return nodes


def takes_runs(node: dict[str, Any]) -> bool:
    """It has a session, and the leader has heard of it: else all runs would go to others."""
    return node["session_open"] and node["last_heartbeat_at"] is not None


def start(
    node: NodeProcess, rng: random.Random, number: int, jobs: int, seconds: float, files: Path
) -> Iterator[tuple[str, Job]]:
    """One-shots that are all due at one time and live until a lost run has been given away."""
    at = int(time.time() * 1000) + LEAD_MS
    for i in range(jobs):
        kind = KINDS[i % len(KINDS)]
        name = f"{kind}-{number}-{i}"
        body: dict[str, Any] = {"name": name, "trigger": {"at": rfc3339(at)}, "max_lost": 100, "handler": {}}
        handle(body, kind, files / name, round(LEASE_S + seconds * rng.uniform(0.1, 0.3), 2))
        reply = node.request("POST", "/v1/jobs", body)
        assert reply.status == 201, (reply.status, reply.body)
        yield reply.json["id"], Job(name, True, [at])


def all_run(node: NodeProcess, jobs: int) -> list[dict[str, Any]] | None:
    rows: list[dict[str, Any]] = node.get("/v1/instances?state=RUNNING&limit=1000")["items"]
    return rows if len(rows) == jobs else None


def pids(node: NodeProcess, what: tuple[str, ...]) -> list[int]:
    assert node.process is not None
    (found,) = guards(node)
    each = {
        "node": [node.process.pid],
        "sentinel": [found.sentinel],
        "supervisor": [found.supervisor],
        "keepers": list(found.keepers),
    }
    return [pid for name in what for pid in each[name]]


@contextmanager
def stopped(processes: list[int]) -> Iterator[None]:
    """By SIGSTOP; those that were killed meanwhile are let be."""
    try:
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
