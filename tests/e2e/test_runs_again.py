"""Runs that get another go: handed back by a node that stops, requeued from the dead letters, made up for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster, NodeProcess
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


@pytest.fixture
def own() -> Iterator[Cluster]:
    """A cluster of its own, to be damaged."""
    with Cluster(3) as started:
        yield started


def running_on(cluster: Cluster, node: NodeProcess, asked: NodeProcess, **fields: object) -> str:
    """A run of a job that goes on until it is told otherwise, on that node."""
    while True:
        made = create(asked, {"trigger": {"manual": True}, "handler": {"exec": ["sleep", "300"]}, **fields})
        instance = run(asked, made["id"])
        cluster.wait("it to run", lambda key=instance: asked.find(f"/v1/instances/{key}")["state"] == "RUNNING")
        if asked.get(f"/v1/instances/{instance}")["node"] == node.id:
            return instance
        assert asked.request("POST", f"/v1/instances/{instance}/kill").status == 202


def test_a_node_that_stops_hands_its_runs_back(own: Cluster) -> None:
    """They are not lost: max_lost is 0, and they run elsewhere before their lease would have run out."""
    leader = own.leader()
    stopping, other = own.followers()
    instance = running_on(own, stopping, other, max_lost=0)
    assert stopping.terminate() == 0
    row = other.get(f"/v1/instances/{instance}")
    own.wait("it to run again", lambda: other.get(f"/v1/instances/{instance}")["state"] == "RUNNING")
    row = other.get(f"/v1/instances/{instance}")
    first, second = row["attempts"]
    assert (first["outcome"], first["error"]) == ("killed", "Its node stopped.")
    assert second["node"] in (leader.id, other.id)
    assert second["token"] > first["token"]
    assert other.request("POST", f"/v1/instances/{instance}/kill").status == 202
    assert wait_final(own, other, instance)["state"] == "KILLED"


def test_a_node_by_itself_stops_and_starts_again(tmp_path: Path) -> None:
    """It leads and runs: it hands its runs back to itself. What may run once only is told from what was not begun, and
    what can end in the grace period does."""
    with Cluster(1, flags=("--slots", "3")) as alone:
        (node,) = alone.nodes
        job = {"trigger": {"manual": True}, "handler": {"exec": ["sleep", "300"]}, "overlap": "allow", "max_lost": 0}
        again = run(node, create(node, job)["id"])
        once = run(node, create(node, {**job, "delivery": "at_most_once"})["id"])
        short = {**job, "handler": {"shell": f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"}}
        ends = run(node, create(node, {**short, "delivery": "at_most_once"})["id"])
        for instance in (again, once, ends):
            alone.wait("both to run", lambda key=instance: node.get(f"/v1/instances/{key}")["state"] == "RUNNING")
        with ThreadPoolExecutor() as threads:
            stopping = threads.submit(node.terminate)
            alone.wait("it to take nothing more", lambda: node.get(f"/v1/nodes/{node.id}")["trouble"])
            (tmp_path / "go").touch()
            assert stopping.result() == 0
        node.start()
        alone.wait_ready()
        alone.wait("it to run again", lambda: node.get(f"/v1/instances/{again}")["attempt"] == 2)
        row = wait_final(alone, node, once)
        assert (row["state"], row["reason"], len(row["attempts"])) == ("FAILED", "handed_back", 1)
        row = wait_final(alone, node, ends)
        assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1)


def test_a_run_that_ended_while_no_majority_heard_it_is_not_failed_by_kills(own: Cluster, tmp_path: Path) -> None:
    """Its end is on the disk of its node, which reports it when it has started again."""
    leader = own.leader()
    node, other = own.followers()
    shell = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    instance = running_on(own, node, other, handler={"shell": shell}, delivery="at_most_once")
    for one in (leader, other):
        one.kill()
    (tmp_path / "go").touch()
    own.wait("its end to be on the disk", (node.data / "ends").exists)
    node.kill()
    for one in own.nodes:
        one.start()
    own.wait_ready()
    row = wait_final(own, other, instance)
    assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1)


def test_a_dead_letter_is_requeued_under_the_job_as_it_is_now(cluster: LocalCluster) -> None:
    leader, follower = cluster.leader(), cluster.followers()[0]
    job = {"name": "import", "trigger": {"manual": True}, "handler": {"shell": "exit 3"}, "overlap": "allow"}
    made = create(follower, job)
    ids = {run(follower, made["id"]) for _ in range(3)}
    for instance in ids:
        assert wait_final(cluster, follower, instance)["dead_letter"]
    listed = leader.get("/v1/dead-letters?job=import&namespace=default&consistency=leader")["items"]
    assert {item["id"] for item in listed} == ids
    path = f"/v1/jobs/{made['id']}"
    assert follower.request("PATCH", path, {"handler": {"exec": ["true"]}}).status == 200
    reply = follower.request("POST", "/v1/dead-letters/requeue", {"filter": {"job": made["id"]}})
    assert (reply.status, reply.json["requeued"]) == (200, 3)
    for instance in ids:
        row = wait_final(cluster, follower, instance)
        assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 2)
    assert leader.get("/v1/dead-letters?consistency=leader")["items"] == []


def test_a_time_is_skipped_and_past_ones_are_made_up_for(cluster: LocalCluster) -> None:
    follower = cluster.followers()[0]
    made = create(follower, {"name": "hourly", "trigger": {"cron": "0 * * * *"}, "handler": {"exec": ["true"]}})
    path = f"/v1/jobs/{made['id']}"
    upcoming = [time["at"] for time in follower.get(f"{path}/next?count=2")["next"]]
    reply = follower.request("POST", f"{path}/skip-next")
    assert reply.status == 200, reply.body
    cluster.wait(
        "the leader to schedule the time after",
        lambda: follower.get(f"{path}?consistency=leader")["next_fire_at"] == upcoming[1],
    )
    reply = follower.request("POST", f"{path}/backfill", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z"})
    assert (reply.status, reply.json["count"]) == (202, 5)

    def ended() -> bool:
        rows = follower.get(f"{path}/instances?state=SUCCEEDED")["items"]
        return [row["scheduled_at"][11:13] for row in rows] == ["04", "03", "02", "01", "00"]

    cluster.wait("all of them to run", ended)
