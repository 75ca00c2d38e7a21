"""Placement on real processes: another node is taken after a failure, what no node can take says so."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


def test_another_node_after_a_failure(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    made = create(
        leader,
        {
            "trigger": {"manual": True},
            "handler": {"shell": "[ $RAFTSCHED_ATTEMPT = 4 ]"},
            "retry": {"delays": ["1ms", "1ms", "1ms"]},
        },
    )
    row = wait_final(cluster, leader, run(leader, made["id"]))
    assert row["state"] == "SUCCEEDED"
    places = leader.get(f"/v1/instances/{row['id']}/explain")["why_there"]
    assert len(places) == 4
    for before, now in pairwise(places):
        # the other follower may just have started, or be slow with its heartbeats: nothing waits for it
        assert now["node"] != before["node"] or now["eligible"] == 1, places


def test_what_no_node_can_take_says_so_until_one_can(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    made = create(
        leader,
        {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "placement": {"labels": {"disk": "fast"}}},
    )
    instance = run(leader, made["id"])

    def noted() -> bool:
        row = leader.get(f"/v1/instances/{instance}")
        return bool(row["state"] == "WAITING" and row["reason"] == "no_eligible_node" and "disk=fast" in row["error"])

    cluster.wait("it to be noted", noted)
    metrics = leader.request("GET", "/metrics").body.decode().splitlines()
    assert "raftsched_instances_unplaceable 1.0" in metrics
    node = cluster.followers_of(leader)[0]
    reply = leader.request("PATCH", f"/v1/nodes/{node.id}", {"labels": {"disk": "fast"}})
    assert reply.status == 200, reply.body
    row = wait_final(cluster, leader, instance)
    assert (row["state"], row["node"]) == ("SUCCEEDED", node.id)
    leader.request("PATCH", f"/v1/nodes/{node.id}", {"labels": None})
