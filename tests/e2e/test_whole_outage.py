"""All nodes are killed for some seconds: every due time is run or on record, once, and each run can say why and
where."""

from __future__ import annotations

import time

import pytest

from tests.e2e.steps import create, instances, seconds, wait_instances
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e

OUTAGE_S = 5.0


def test_an_outage_of_the_whole_cluster_is_accounted_for() -> None:
    with Cluster(3) as cluster:
        leader = cluster.leader()
        job = {
            "trigger": {"every": "1s"},
            "handler": {"exec": ["true"]},
            "overlap": "allow",
            "misfire": {"policy": "skip", "grace": "1s"},
        }
        made = create(leader, job)
        wait_instances(cluster, leader, made["id"], 2)
        for node in cluster.nodes:
            node.kill()
        until = time.monotonic() + OUTAGE_S
        cluster.wait("the outage to be over", lambda: time.monotonic() > until)
        for node in cluster.nodes:
            node.start()
        cluster.wait_ready()
        node = cluster.followers()[0]
        gap = cluster.wait(
            "the gap to be found",
            lambda: next((r for r in instances(node, made["id"]) if r["skipped"] >= OUTAGE_S - 3), None),
        )
        after = seconds(gap["skipped_until"])
        cluster.wait(
            "runs after the gap",
            lambda: sum(seconds(r["scheduled_at"]) > after + 2 for r in instances(node, made["id"])) > 1,
        )
        rows = sorted(instances(node, made["id"]), key=lambda row: seconds(row["scheduled_at"]))
        due: list[float] = []
        for row in rows:
            first = seconds(row["scheduled_at"])
            due += [first + k for k in range(max(1, row["skipped"]))]
        assert due == [due[0] + k for k in range(len(due))], "each second once: run, or in one record"

        told = node.get(f"/v1/instances/{gap['id']}/explain")
        assert told["gap"]["reason"] == "misfire"
        assert told["gap"]["count"] >= gap["skipped"]
        assert "the misfire policy is skip" in told["text"]

        (run, *_) = wait_instances(cluster, node, made["id"], 1)
        told = node.get(f"/v1/instances/{run['id']}/explain")
        assert [step["kind"] for step in told["steps"]][-1] == "final"
        assert all(step["index"] > 0 and step["term"] > 0 for step in told["steps"])
        (there,) = told["why_there"]
        assert (there["node"], there["token"]) == (run["node"], run["token"])
        assert there["eligible"] >= 1, "the dispatcher noted what it saw"
        assert there["slots"] >= 1
        metrics = node.request("GET", "/metrics").body.decode()
        count = next(x for x in metrics.splitlines() if x.startswith("raftsched_start_late_seconds_count"))
        assert float(count.split()[-1]) >= 1
