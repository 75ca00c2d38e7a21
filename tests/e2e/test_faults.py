"""kill -9 while it works: nothing acknowledged is lost, the schedule goes on, nothing runs twice at once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.conftest import HANDLERS
from tests.e2e.load import Writers, check_acknowledged, lives
from tests.e2e.steps import at, create, instances, seconds, wait_final, wait_instances
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e


def test_leader_killed_while_jobs_run(tmp_path: Path) -> None:
    with Cluster(3, pythonpath=HANDLERS) as cluster:
        leader = cluster.leader()
        marks = tmp_path / "marks"
        line = "$RAFTSCHED_INSTANCE_ID/$RAFTSCHED_ATTEMPT $(date +%s.%N)"
        beat = f"for i in 1 2 3 4; do echo {line} >>{marks}; sleep 0.1; done"
        ticking = create(leader, {"name": "ticking", "trigger": {"every": "1s"}, "handler": {"shell": beat}})
        wait_instances(cluster, leader, ticking["id"], 2)
        with Writers(cluster) as writers:
            cluster.wait("some acknowledged creates", lambda: len(writers.acknowledged) > 20)
            killed = leader
            killed.kill()
            new = cluster.leader()
            assert new is not killed
            before = len(writers.acknowledged)
            cluster.wait("creates after the failover", lambda: len(writers.acknowledged) > before + 20)
        rows = instances(new, ticking["id"])
        cluster.wait("the schedule to go on", lambda: len(instances(new, ticking["id"])) > len(rows) + 2)
        killed.start()
        cluster.wait_ready()
        check_acknowledged(cluster, writers.acknowledged)
        new.request("POST", f"/v1/jobs/{ticking['id']}/pause")
        cluster.wait(
            "all runs to end",
            lambda: all(r["state"] in ("SUCCEEDED", "SKIPPED") for r in instances(new, ticking["id"])),
        )
        spans = sorted(lives(marks), key=lambda run: run[1])
        for (_, _, ended), (who, started, _) in pairwise(spans):
            assert started >= ended, f"{who} started before the run before it ended"


def test_worker_killed_its_runs_are_run_again(tmp_path: Path) -> None:
    with Cluster(3) as cluster:
        leader = cluster.leader()
        marks = tmp_path / "marks"
        script = f"echo $RAFTSCHED_ATTEMPT >>{marks}; [ $RAFTSCHED_ATTEMPT = 1 ] && sleep 300; true"
        made = create(leader, {"trigger": {"in": "1ms"}, "handler": {"shell": script}})
        row = cluster.wait(
            "the run",
            lambda: next((r for r in instances(leader, made["id"]) if r["state"] == "RUNNING"), None),
        )
        victim = cluster.node(row["node"])
        assert victim is not leader
        victim.kill()
        final = wait_final(cluster, leader, row["id"])
        assert final["state"] == "SUCCEEDED"
        assert [a["outcome"] for a in final["attempts"]] == ["lost", "succeeded"]
        assert final["attempts"][1]["token"] > final["attempts"][0]["token"]
        assert final["attempts"][1]["node"] != victim.id
        assert marks.read_text().split() == ["1", "2"]


def test_all_killed_and_started_again() -> None:
    with Cluster(3) as cluster:
        node = cluster.leader()
        with Writers(cluster) as writers:
            cluster.wait("some acknowledged creates", lambda: len(writers.acknowledged) > 50)
            due = create(node, {"trigger": {"at": at(3)}, "handler": {"exec": ["echo", "after the dark"]}})
            recurring = create(node, {"trigger": {"every": "1s"}, "handler": {"exec": ["true"]}})
            for each in cluster.nodes:
                each.kill()
        for each in cluster.nodes:
            each.start()
        cluster.wait_ready()
        check_acknowledged(cluster, writers.acknowledged)
        node = cluster.leader()
        row = wait_instances(cluster, node, due["id"], 1)[0]
        assert seconds(row["started_at"]) >= seconds(row["scheduled_at"])
        count = len([r for r in instances(node, recurring["id"]) if r["state"] == "SUCCEEDED"])
        wait_instances(cluster, node, recurring["id"], count + 2)


def stop_cleanly(node: NodeProcess) -> None:
    assert node.terminate() == 0


def test_sigterm_stops_cleanly_and_leaves_no_process() -> None:
    with Cluster(3) as cluster:
        leader = cluster.leader()
        made = create(leader, {"trigger": {"in": "1ms"}, "handler": {"shell": "echo $$; exec sleep 300"}})
        row = cluster.wait(
            "the run",
            lambda: next((r for r in instances(leader, made["id"]) if r["state"] == "RUNNING"), None),
        )
        node = cluster.node(row["node"])
        text = cluster.wait(
            "its pid", lambda: node.request("GET", f"/v1/instances/{row['id']}/output").body.decode().split()
        )
        for each in cluster.nodes:
            stop_cleanly(each)
        assert not Path(f"/proc/{text[0]}").exists()
