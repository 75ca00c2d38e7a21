"""Queues and placement on real processes: a limit holds over a failover, another node is taken after a failure, what no
node can take says so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.load import lives
from tests.e2e.steps import create, run, wait_final, wait_instances
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e

MOST = 3
RUNS = 60


def test_a_limit_holds_while_the_leader_is_killed(tmp_path: Path) -> None:
    with Cluster(3) as cluster:
        leader = cluster.leader()
        marks = tmp_path / "marks"
        reply = leader.request("PUT", "/v1/queues/narrow", {"max_running": MOST})
        assert reply.status in (200, 201), reply.body
        line = f"echo $RAFTSCHED_INSTANCE_ID/$RAFTSCHED_ATTEMPT $(date +%s.%N) >>{marks}"
        made = create(
            leader,
            {
                "queue": "narrow",
                "overlap": "allow",
                "trigger": {"manual": True},
                "handler": {"shell": f"{line}; sleep 0.1; {line}"},
            },
        )
        runs = [run(leader, made["id"]) for _ in range(RUNS)]
        wait_instances(cluster, leader, made["id"], 6)
        leader.kill()
        new = cluster.leader()
        for instance in runs:
            assert wait_final(cluster, new, instance)["state"] == "SUCCEEDED"
        spans = lives(marks)
        assert len({who.split("/")[0] for who, _, _ in spans}) == RUNS
        for _, start, _ in spans:
            assert sum(a <= start < b for _, a, b in spans) <= MOST
        assert new.get("/v1/queues/narrow")["running"] == 0


def test_another_node_after_a_failure(cluster: Cluster) -> None:
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


def test_what_no_node_can_take_says_so_until_one_can(cluster: Cluster) -> None:
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
