"""Runs of several parts on three nodes: shards of which one fails, one for each node, kill and rerun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.local_cluster import LocalCluster, LocalNode

pytestmark = pytest.mark.e2e


def parts_of(node: LocalNode, parent: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node.get(f"/v1/instances?parent={parent}")["items"]
    return found


def test_a_failed_shard_alone_is_retried_and_rerun(cluster: LocalCluster, tmp_path: Path) -> None:
    leader, marks = cluster.leader(), tmp_path / "marks"
    index, count = "$RAFTSCHED_SHARD_INDEX", "$RAFTSCHED_SHARD_COUNT"
    job = {
        "trigger": {"manual": True},
        "handler": {"shell": f"echo {index}/{count} >>{marks}; [ {index} != 2 ] || [ -e {tmp_path}/ok ]"},
        "placement": {"shards": 4},
        "retry": {"delays": ["1ms"]},
    }
    made = create(leader, job)
    parent = run(leader, made["id"])
    row = wait_final(cluster, leader, parent)
    assert (row["state"], row["reason"], row["dead_letter"]) == ("FAILED", "parts_failed", True)
    assert row["parts"]["succeeded"] == 3
    assert row["parts"]["failed"] == 1
    assert [result["state"] for result in row["parts"]["results"]] == ["SUCCEEDED", "SUCCEEDED", "FAILED", "SUCCEEDED"]
    assert sorted(marks.read_text().split()) == ["0/4", "1/4", "2/4", "2/4", "3/4"]
    parts = parts_of(leader, parent)
    assert [part["shard"] for part in parts] == [{"index": i, "count": 4} for i in range(4)]
    assert {part["parent"] for part in parts} == {parent}
    (tmp_path / "ok").touch()
    assert leader.request("POST", f"/v1/instances/{parent}/rerun", {}).status == 202
    assert wait_final(cluster, leader, parent)["state"] == "SUCCEEDED"
    assert [part["attempt"] for part in parts_of(leader, parent)] == [1, 1, 3, 1]
    listed = leader.get(f"/v1/jobs/{made['id']}/instances")["items"]
    assert [item["id"] for item in listed] == [parent]


def test_one_on_each_node(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    job = {"trigger": {"manual": True}, "handler": {"shell": "true"}, "placement": {"on": "all"}}
    made = create(leader, job)["id"]
    every = sorted(node.id for node in cluster.alive())

    def has_one_on_each() -> bool:
        """Who is eligible is seen when the run is made: at first not all nodes have a lease."""
        parent = run(leader, made)
        assert wait_final(cluster, leader, parent)["state"] == "SUCCEEDED"
        return sorted(part["node"] for part in parts_of(leader, parent)) == every

    cluster.wait("a run with a part on each node", has_one_on_each)
