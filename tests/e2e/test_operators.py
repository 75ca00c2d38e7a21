"""What operators do, on real processes: labels, drain, queues, settings, from any node, by API and by command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HANDLERS
from tests.e2e.steps import ask, create, run, seconds, wait_final
from tests.support.api_nodes import ApiNode
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


def held_open(directory: Path) -> dict[str, Any]:
    """A handler that runs until there is a file with the name of its instance, or one with the name "all"."""
    files = f'"{directory}/$RAFTSCHED_INSTANCE_ID"', f'"{directory}/all"'
    return {"shell": f"until [ -e {files[0]} ] || [ -e {files[1]} ]; do sleep 0.02; done"}


def change(node: ApiNode, method: str, path: str, body: Any = None) -> Any:
    reply = node.request(method, path, body)
    assert reply.status in (200, 201), (path, reply.status, reply.body)
    return reply.json


def wait_state(cluster: LocalCluster, node: ApiNode, instance: str, state: str) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        row: dict[str, Any] | None = node.find(f"/v1/instances/{instance}")
        return row if row is not None and row["state"] == state else None

    found: dict[str, Any] = cluster.wait(f"{instance} to be {state}", there)
    return found


def test_a_drained_node_ends_what_it_has_and_takes_nothing_new(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = cluster.leader()
    node, other = cluster.followers_of(leader)[:2]
    ask(other, "nodes", "label", node.id, "pin=here")
    made = create(
        leader,
        {
            "trigger": {"manual": True},
            "handler": held_open(tmp_path),
            "overlap": "allow",
            "placement": {"labels": {"pin": "here"}},
        },
    )
    free = create(leader, {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"})
    first = run(leader, made["id"])
    assert wait_state(cluster, leader, first, "RUNNING")["node"] == node.id
    assert "1 run still under way" in ask(other, "nodes", "drain", node.id)
    second = run(leader, made["id"])
    for _ in range(4):  # others do not wait for it, and go elsewhere
        assert wait_final(cluster, leader, run(leader, free["id"]))["node"] != node.id
    assert leader.get(f"/v1/instances/{second}")["state"] == "WAITING"
    assert leader.get(f"/v1/nodes/{node.id}")["running"] == 1
    (tmp_path / first).touch()
    assert wait_final(cluster, leader, first)["state"] == "SUCCEEDED"
    assert ask(other, "nodes", "drain", node.id, "--wait") == f"drained: {node.id}, nothing runs there\n"
    assert leader.get(f"/v1/instances/{second}")["state"] == "WAITING"
    (tmp_path / "all").touch()
    ask(other, "nodes", "undrain", node.id)
    row = wait_final(cluster, leader, second)
    assert (row["state"], row["node"]) == ("SUCCEEDED", node.id)
    ask(other, "nodes", "label", node.id, "--reset")


def test_fewer_slots_hold_from_the_next_start_on(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = cluster.leader()
    node = cluster.followers_of(leader)[0]
    change(leader, "PATCH", f"/v1/nodes/{node.id}", {"labels": {"small": "yes"}, "slots": 1})
    job = {"trigger": {"manual": True}, "handler": held_open(tmp_path), "overlap": "allow"}
    made = create(leader, {**job, "placement": {"labels": {"small": "yes"}}})
    first, second = run(leader, made["id"]), run(leader, made["id"])
    wait_state(cluster, leader, first, "RUNNING")
    assert leader.get(f"/v1/instances/{second}")["state"] == "WAITING"
    ask(leader, "nodes", "slots", node.id, "2")
    wait_state(cluster, leader, second, "RUNNING")
    (tmp_path / "all").touch()
    for instance in (first, second):
        wait_final(cluster, leader, instance)
    change(leader, "PATCH", f"/v1/nodes/{node.id}", {"labels": None, "slots": None})


def test_more_slots_than_it_was_started_with(tmp_path: Path) -> None:
    with LocalCluster(1, slots=1, pythonpath=HANDLERS) as alone:
        (node,) = alone.nodes
        ask(node, "nodes", "slots", "n1", "3")
        made = create(
            node,
            {
                "trigger": {"manual": True},
                "handler": {"python": "reports:meet"},
                "overlap": "allow",
                "params": {"directory": str(tmp_path), "count": 3},
                "timeout": "20s",
            },
        )
        runs = [run(node, made["id"]) for _ in range(3)]
        assert [wait_final(alone, node, instance)["state"] for instance in runs] == ["SUCCEEDED"] * 3


def test_a_queue_lets_as_many_run_as_it_says(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = cluster.leader()
    follower = cluster.followers_of(leader)[0]
    ask(follower, "queues", "set", "narrow", "--max-running", "2")
    job = {"trigger": {"manual": True}, "overlap": "allow"}
    made = create(leader, {**job, "handler": held_open(tmp_path), "queue": "narrow"})
    free = create(leader, {**job, "handler": {"exec": ["true"]}})
    runs = [run(leader, made["id"]) for _ in range(5)]
    for instance in runs[:2]:
        wait_state(cluster, leader, instance, "RUNNING")
    queue = leader.get("/v1/queues/narrow")
    assert (queue["running"], queue["waiting"], queue["shut"]) == (2, 3, "full")
    ask(follower, "queues", "pause", "narrow")
    (tmp_path / runs[0]).touch()
    wait_final(cluster, leader, runs[0])
    assert wait_final(cluster, leader, run(leader, free["id"]))["state"] == "SUCCEEDED"  # others go on
    queue = leader.get("/v1/queues/narrow")
    assert (queue["running"], queue["waiting"], queue["shut"]) == (1, 3, "paused")
    ask(follower, "queues", "resume", "narrow")
    (tmp_path / "all").touch()
    rows = [wait_final(cluster, leader, instance) for instance in runs]
    assert {row["state"] for row in rows} == {"SUCCEEDED"}
    spans = [(seconds(row["started_at"]), seconds(row["ended_at"])) for row in rows]
    for began, _ in spans:
        assert sum(1 for start, end in spans if start < began < end) <= 1, spans
    assert "without limits: narrow" in ask(follower, "queues", "delete", "narrow")


def test_a_queue_made_over_what_waits_holds_its_rate(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    job = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow", "queue": "steady"}
    made = create(leader, job)
    ask(leader, "cluster", "pause")
    runs = [run(leader, made["id"]) for _ in range(6)]
    ask(leader, "queues", "set", "steady", "--rate", "2/1s")
    ask(leader, "cluster", "resume")
    rows = [wait_final(cluster, leader, instance) for instance in runs]
    assert {row["state"] for row in rows} == {"SUCCEEDED"}
    given = sorted(seconds(row["attempts"][0]["assigned_at"]) for row in rows)  # by the time of the log, so exact
    assert given[-1] - given[0] >= 4 * 0.5 - 0.001, given
    ask(leader, "queues", "delete", "steady")


def test_settings_hold_on_every_node(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    follower = cluster.followers_of(leader)[0]
    assert ask(follower, "cluster", "settings", "set", "timeout_ceiling=10m") == "timeout_ceiling=10m\n"
    assert json.loads(ask(follower, "cluster", "settings", "-o", "json"))["timeout_ceiling"] == "10m"
    index = follower.request("GET", "/livez").headers["raftsched-index"]
    for node in cluster.nodes:
        assert node.get(f"/v1/cluster/settings?min_index={index}")["timeout_ceiling"] == "10m"
    job = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "timeout": "1h"}

    def refused() -> bool:
        return all(node.request("POST", "/v1/jobs", job).status == 422 for node in cluster.nodes)

    cluster.wait("every node to know", refused)
    ask(follower, "cluster", "settings", "set", "timeout_ceiling=default")
    cluster.wait("it to be allowed again", lambda: leader.request("POST", "/v1/jobs", job).status == 201)
