"""One test with real processes for each kind of fault: kill -9 of the leader, of a node that runs, of all; SIGTERM.

That a kernel kills as the simulators do, and that the nodes come back. What must be true after it all is judged by the
simulators' ledgers (tests/sim). Of the other kinds: test_freeze has SIGSTOP, test_full_disk a full disk,
test_under_faults a network that is cut."""

from __future__ import annotations

import random
import secrets
import time
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.trials.once import KINDS, run_round
from tests.e2e.load import Writers, check_acknowledged, lives
from tests.e2e.steps import at, create, instances, run, seconds, wait_final, wait_instances
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e

ROUNDS_MAX = 5  # until a request meets the kill, which the first one nearly always does
OUTAGE_S = 4.0


@pytest.fixture(scope="module")
def cluster(processes: Cluster) -> Cluster:
    return processes


def running(cluster: Cluster, node: NodeProcess, job: str) -> dict[str, object]:
    """The job's run, once it runs."""
    row: dict[str, object] = cluster.wait(
        "the run", lambda: next((r for r in instances(node, job) if r["state"] == "RUNNING"), None)
    )
    return row


def test_leader_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Requests of every kind are sent many times meanwhile: each is done once, and never denied. The schedule goes on,
    and no run lives beside another."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    leader = cluster.leader()
    marks = tmp_path / "marks"
    line = "$RAFTSCHED_INSTANCE_ID/$RAFTSCHED_ATTEMPT $(date +%s.%N)"
    beat = f"for i in 1 2 3 4; do echo {line} >>{marks}; sleep 0.1; done"
    ticking = create(leader, {"trigger": {"every": "1s"}, "handler": {"shell": beat}})
    wait_instances(cluster, leader, ticking["id"], 2)
    for _ in range(ROUNDS_MAX):
        one = run_round(cluster, rng, *KINDS)
        print(one)
        assert one.wrong == []
        if one.met:
            break
    else:
        pytest.fail("no request met the kill")
    leader = cluster.leader()
    count = len(instances(leader, ticking["id"]))
    cluster.wait("the schedule to go on", lambda: len(instances(leader, ticking["id"])) > count + 2)
    leader.request("POST", f"/v1/jobs/{ticking['id']}/pause")
    cluster.wait(
        "all runs to end",
        lambda: all(r["state"] in ("SUCCEEDED", "SKIPPED") for r in instances(leader, ticking["id"])),
    )
    spans = sorted(lives(marks), key=lambda span: span[1])
    for (_, _, ended), (who, started, _) in pairwise(spans):
        assert started >= ended, f"{who} started before the run before it ended"


def test_worker_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Its run is run again by another node, under a higher token."""
    leader = cluster.leader()
    marks = tmp_path / "marks"
    script = f"echo $RAFTSCHED_ATTEMPT >>{marks}; [ $RAFTSCHED_ATTEMPT = 1 ] && sleep 300; true"
    made = create(leader, {"trigger": {"in": "1ms"}, "handler": {"shell": script}})
    row = running(cluster, leader, made["id"])
    cluster.wait("its mark", marks.exists)
    victim = cluster.node(str(row["node"]))
    assert victim is not leader
    victim.kill()
    final = wait_final(cluster, leader, str(row["id"]))
    assert final["state"] == "SUCCEEDED"
    assert [a["outcome"] for a in final["attempts"]] == ["lost", "succeeded"]
    assert final["attempts"][1]["token"] > final["attempts"][0]["token"]
    assert final["attempts"][1]["node"] != victim.id
    assert marks.read_text().split() == ["1", "2"]
    victim.start()
    cluster.wait_ready()


def test_all_killed(cluster: Cluster) -> None:
    """For some seconds: what was acknowledged is there, every due time is run or on record, once, and each run can say
    why and where."""
    leader = cluster.leader()
    job = {
        "trigger": {"every": "1s"},
        "handler": {"exec": ["true"]},
        "overlap": "allow",
        "misfire": {"policy": "skip", "grace": "1s"},
    }
    made = create(leader, job)
    wait_instances(cluster, leader, made["id"], 2)
    due = create(leader, {"trigger": {"at": at(3)}, "handler": {"exec": ["echo", "after the dark"]}})
    with Writers(cluster) as writers:
        cluster.wait("some acknowledged creates", lambda: len(writers.acknowledged) > 50)
        for node in cluster.nodes:
            node.kill()
    until = time.monotonic() + OUTAGE_S
    cluster.wait("the outage to be over", lambda: time.monotonic() > until)
    for node in cluster.nodes:
        node.start()
    cluster.wait_ready()
    check_acknowledged(cluster, writers.acknowledged)
    node = cluster.followers()[0]
    row = wait_instances(cluster, node, due["id"], 1)[0]
    assert seconds(row["started_at"]) >= seconds(row["scheduled_at"])
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
    times: list[float] = []
    for row in rows:
        first = seconds(row["scheduled_at"])
        times += [first + k for k in range(max(1, row["skipped"]))]
    assert times == [times[0] + k for k in range(len(times))], "each second once: run, or in one record"

    told = node.get(f"/v1/instances/{gap['id']}/explain")
    assert told["gap"]["reason"] == "misfire"
    assert told["gap"]["count"] >= gap["skipped"]
    assert "the misfire policy is skip" in told["text"]

    (last, *_) = wait_instances(cluster, node, made["id"], 1)
    told = node.get(f"/v1/instances/{last['id']}/explain")
    assert [step["kind"] for step in told["steps"]][-1] == "final"
    assert all(step["index"] > 0 and step["term"] > 0 for step in told["steps"])
    (there,) = told["why_there"]
    assert (there["node"], there["token"]) == (last["node"], last["token"])
    assert there["eligible"] >= 1, "the dispatcher noted what it saw"
    assert there["slots"] >= 1
    metrics = node.request("GET", "/metrics").body.decode()
    count = next(x for x in metrics.splitlines() if x.startswith("raftsched_start_late_seconds_count"))
    assert float(count.split()[-1]) >= 1
    assert node.request("DELETE", f"/v1/jobs/{made['id']}").status == 200


def test_all_terminated(cluster: Cluster) -> None:
    """By SIGTERM: each ends well, and leaves no process of its run."""
    leader = cluster.leader()
    made = create(leader, {"trigger": {"manual": True}, "handler": {"shell": "echo $$; exec sleep 300"}})
    run(leader, made["id"])
    row = running(cluster, leader, made["id"])
    node = cluster.node(str(row["node"]))
    text = cluster.wait(
        "its pid", lambda: node.request("GET", f"/v1/instances/{row['id']}/output").body.decode().split()
    )
    for each in cluster.nodes:
        assert each.terminate() == 0
    assert not Path(f"/proc/{text[0]}").exists()
    for each in cluster.nodes:
        each.start()
    cluster.wait_ready()
    assert cluster.leader().request("DELETE", f"/v1/jobs/{made['id']}").status == 200
