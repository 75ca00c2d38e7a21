"""Members come and go under load; disks are lost; leadership is handed over."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.load import Writers, check_acknowledged, lives
from tests.e2e.steps import FINAL, at, create, instances
from tests.support.cluster import Cluster, NodeProcess
from tests.support.patience import patient

pytestmark = pytest.mark.e2e

MARK = "echo $RAFTSCHED_INSTANCE_ID/$RAFTSCHED_ATTEMPT $(date +%s.%N)"


@pytest.fixture(scope="module")
def cluster(processes: Cluster) -> Cluster:
    return processes


class Runs:
    """Runs a job again and again, through all nodes, until told to stop; remembers the runs that were acknowledged."""

    def __init__(self, cluster: Cluster, job: str) -> None:
        self._cluster = cluster
        self._job = job
        self._stop = threading.Event()
        self.acknowledged: list[str] = []
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Runs:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        turn = 0
        while not self._stop.wait(0.3):
            turn += 1
            nodes = self._cluster.nodes
            try:
                reply = nodes[turn % len(nodes)].request("POST", f"/v1/jobs/{self._job}/run", {}, timeout=15)
            except OSError:
                continue
            if reply.status == 202:
                self.acknowledged.append(reply.json["id"])


def command(via: NodeProcess, *words: str) -> str:
    """What `raftsched cluster ...` prints; it must succeed."""
    server = f"http://127.0.0.1:{via.http_port}"
    done = subprocess.run(
        [sys.executable, "-m", "raftsched", "--server", server, "cluster", *words],
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def change(cluster: Cluster, via: NodeProcess, method: str, path: str, body: Any = None) -> Any:
    """A change of the members; what is busy, or between two leaders, is asked again."""

    def done() -> Any:
        reply = via.request(method, path, body)
        assert reply.status in (200, 202, 204, 409, 503, 504), (reply.status, reply.body)
        return (reply.json if reply.body else True) if reply.status < 300 else None

    return cluster.wait(f"{method} {path} {body}", done)


def voters(via: NodeProcess) -> set[str]:
    return {n["id"] for n in via.get("/v1/cluster/members")["items"] if n["voter"]}


def add(cluster: Cluster, via: NodeProcess, node: NodeProcess) -> None:
    cluster.wait(
        f"{node.id} to ask", lambda: any(w["id"] == node.id for w in via.get("/v1/cluster/members")["waiting"])
    )
    change(cluster, via, "POST", "/v1/cluster/members", {"id": node.id})
    cluster.wait(f"{node.id} to vote", lambda: node.id in voters(via))


def remove(cluster: Cluster, via: NodeProcess, node: NodeProcess) -> None:
    """Asked of `via`, which may be the node itself."""
    change(cluster, via, "DELETE", f"/v1/cluster/members/{node.id}")
    cluster.nodes.remove(node)


def waits_for(node: NodeProcess) -> str:
    return str(node.request("GET", "/readyz").json.get("waits_for", ""))


def told(node: NodeProcess, *words: str) -> Callable[[], bool]:
    return lambda: all(word in waits_for(node) for word in words)


def test_one_three_five_three_under_load(tmp_path: Path) -> None:
    with Cluster(1) as cluster:
        first = cluster.nodes[0]
        marks = tmp_path / "marks"
        script = f"{MARK} >>{marks}; sleep 0.2; {MARK} >>{marks}"
        ticking = create(first, {"trigger": {"every": "1s"}, "handler": {"shell": script}})
        called = create(first, {"trigger": {"manual": True}, "handler": {"shell": script}, "overlap": "allow"})
        nodes = [cluster.add(f"n{i}") for i in range(2, 6)]
        try:
            for node in nodes:
                node.start("--join")
                cluster.nodes.remove(node)
            with Writers(cluster, 2) as writers, Runs(cluster, called["id"]) as runs:
                for node in nodes:
                    add(cluster, first, node)
                    cluster.nodes.append(node)
                    writers.go_on(f"with {node.id}")
                assert voters(first) == {"n1", "n2", "n3", "n4", "n5"}
                for which in ("the leader", "a follower"):
                    leader = cluster.leader()
                    victim = leader if which == "the leader" else cluster.followers_of(leader)[-1]
                    remove(cluster, victim, victim)
                    cluster.wait(f"{victim.id} to know it", told(victim, "was removed", f"members add {victim.id}"))
                    writers.go_on(f"without {victim.id}")
                leader = cluster.leader()
                assert voters(leader) == {n.id for n in cluster.nodes}
                assert len(cluster.nodes) == 3
            check_acknowledged(cluster, writers.acknowledged)
            before = instances(leader, ticking["id"])
            cluster.wait("the schedule to go on", lambda: len(instances(leader, ticking["id"])) > len(before) + 1)
            leader.request("POST", f"/v1/jobs/{ticking['id']}/pause")
            for job in (ticking, called):
                cluster.wait("all runs to end", lambda job=job: settled(leader, job["id"]))
            rows = {r["id"] for r in instances(leader, called["id"])}
            assert rows.issuperset(runs.acknowledged)
            check_never_two_at_once(marks, ticking["id"])
        finally:
            for node in (first, *nodes):
                node.kill()


def settled(node: NodeProcess, job: str) -> bool:
    return all(row["state"] in FINAL for row in instances(node, job))


def check_never_two_at_once(marks: Path, job: str) -> None:
    """No instance ran twice at once, nor did the job that forbids overlap."""
    groups: dict[str, list[tuple[float, float, str]]] = {}
    for who, started, ended in lives(marks):
        instance = who.partition("/")[0]
        for of in {instance, job} if instance.startswith(job) else {instance}:
            groups.setdefault(of, []).append((started, ended, who))
    for runs in groups.values():
        for (_, ended, _), (started, _, who) in pairwise(sorted(runs)):
            assert started >= ended, f"{who} started before the run before it ended"


def recent(node: NodeProcess, job: str, since: int) -> list[dict[str, Any]]:
    """Those that succeeded, without the oldest `since` of all."""
    rows = instances(node, job)
    return [row for row in rows[: len(rows) - since] if row["state"] == "SUCCEEDED"]


def test_a_lost_disk_is_replaced(cluster: Cluster) -> None:
    with Writers(cluster, 1) as writers:
        leader = cluster.leader()
        made = create(leader, {"name": "kept", "trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
        ticking = create(leader, {"trigger": {"every": "1s"}, "handler": {"exec": ["echo", "tick"]}})
        lost, other = cluster.followers_of(leader)
        writers.go_on("before")

        def on_it(since: int = 0) -> list[dict[str, Any]]:
            return [row for row in recent(leader, ticking["id"], since) if row["node"] == lost.id]

        printed = cluster.wait("a run on it", on_it)[0]
        lost.kill()
        shutil.rmtree(lost.data)
        lost.start()
        cluster.wait("it to say what to do", told(lost, "another disk", f"cluster members replace {lost.id}"))
        assert "neither votes nor counts" in lost.log.read_text()
        assert not lost.ready()
        advice = f"raftsched cluster members replace {lost.id}"
        cluster.wait("the leader to hear of it", lambda: advice in command(other, "status"))
        said = command(other, "members", "replace", lost.id, "--wait")
        assert said.splitlines()[-1] == f"{lost.id} votes"
        writers.go_on("with the new disk")
        cluster.wait("it to be ready", lost.ready)
        assert lost.get(f"/v1/jobs/{made['id']}")["name"] == "kept"
        other.kill()  # from here on nothing is committed without the new disk
        since = len(instances(leader, ticking["id"]))
        writers.go_on("with the new disk's vote")
        cluster.wait(  # its old session has to end first: what that ran may run on
            "a run on the new disk", lambda: on_it(since)
        )
        gone = leader.request("GET", f"/v1/instances/{printed['id']}/output")
        assert (gone.status, "with a disk that was replaced" in gone.json["detail"]) == (410, True)
    check_acknowledged(cluster, writers.acknowledged)
    other.start()
    cluster.wait_ready()
    assert cluster.leader().request("DELETE", f"/v1/jobs/{ticking['id']}").status == 200


def test_a_removed_node_counts_for_nothing_and_can_come_back(cluster: Cluster) -> None:
    job = {"trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}}
    leader = cluster.leader()
    removed, other = cluster.followers_of(leader)
    assert command(removed, "members", "remove", removed.id).startswith(f"{removed.id} is no member")
    cluster.wait("it to know", told(removed, "was removed"))
    reply = removed.request("POST", "/v1/jobs", job)
    assert (reply.status, "was removed" in reply.json["detail"]) == (503, True)
    assert voters(leader) == {leader.id, other.id}
    other.kill()
    reply = leader.request("POST", "/v1/jobs", job)
    assert reply.status in (503, 504), "one of two must not accept with the help of who was removed"
    other.start()
    cluster.wait("them to go on", lambda: leader.request("POST", "/v1/jobs", job).status == 201)
    made = create(leader, job)
    command(other, "members", "add", removed.id, "--wait")
    cluster.wait("it to be ready", removed.ready)
    assert removed.get(f"/v1/jobs/{made['id']}?consistency=leader")["id"] == made["id"]


def takes_writes(node: NodeProcess) -> bool:
    return node.request("PUT", "/v1/queues/known", {"max_running": 1}).status < 300


def test_handing_leadership_over_loses_no_command(cluster: Cluster) -> None:
    for node in cluster.nodes:  # one may not have heard yet that it was taken back
        cluster.wait(f"{node.id} to take writes", lambda node=node: takes_writes(node))
    with Writers(cluster) as writers:
        for turn in range(6):
            leader = cluster.leader()
            to = cluster.followers_of(leader)[turn % 2]
            answer = change(cluster, cluster.nodes[turn % 3], "POST", "/v1/cluster/leader", {"to": to.id})
            assert answer["leader"] == to.id
            writers.go_on(f"under {to.id}")
        assert " leads, term " in command(cluster.nodes[0], "transfer")
        writers.go_on("under whoever leads")
    assert writers.refused == [], "what was asked meanwhile goes on to the next leader"
