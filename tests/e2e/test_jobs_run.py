"""The main job on real processes: created anywhere, run on followers, output readable anywhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.steps import at, create, instances, run, seconds, wait_final, wait_instances
from tests.support.cluster import Cluster
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


def test_created_on_a_follower_readable_everywhere(cluster: LocalCluster) -> None:
    follower = cluster.followers()[0]
    made = create(follower, {"name": "everywhere", "trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
    reply = follower.request("GET", f"/v1/jobs/{made['id']}")
    index = int(reply.headers["raftsched-index"])
    for node in cluster.nodes:
        job = node.get(f"/v1/jobs/{made['id']}?min_index={index}")
        assert job["name"] == "everywhere"
        assert job["state"] == "SCHEDULED"
        assert job["next_fire_at"] == made["next_fire_at"]
        assert node.get("/v1/namespaces/default/jobs/everywhere")["id"] == made["id"]


def test_who_was_told_that_his_job_is_there_finds_it(cluster: LocalCluster) -> None:
    """The answer may come before this node's disk has the job; many ask at once, so that turns take a while."""

    async def ask(session: aiohttp.ClientSession, url: str) -> list[int]:
        job = {"trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}}
        found = []
        for _ in range(20):
            async with session.post(f"{url}/v1/jobs", json=job) as answer:
                made = (await answer.json())["id"]
            async with session.get(f"{url}/v1/jobs/{made}") as answer:
                found.append(answer.status)
        return found

    async def scenario() -> list[list[int]]:
        async with aiohttp.ClientSession() as session:
            urls = [f"http://127.0.0.1:{node.http_port}" for node in cluster.nodes]
            return await asyncio.gather(*[ask(session, url) for url in urls for _ in range(12)])

    assert asyncio.run(scenario()) == [[200] * 20] * 36


def test_a_one_shot_runs_once_on_a_follower_and_expires(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    made = create(leader, {"trigger": {"in": "1s"}, "handler": {"exec": ["echo", "once"]}})
    rows = wait_instances(cluster, leader, made["id"], 1)
    assert len(rows) == 1
    assert rows[0]["node"] in {n.id for n in cluster.nodes}
    assert rows[0]["attempt"] == 1
    assert rows[0]["exit_code"] == 0
    assert seconds(rows[0]["started_at"]) >= seconds(rows[0]["scheduled_at"])
    job = cluster.wait(
        "the job to expire", lambda: (j := leader.get(f"/v1/jobs/{made['id']}"))["state"] == "EXPIRED" and j
    )
    assert job["next_fire_at"] is None
    assert job["last_instance"] == rows[0]["id"]


def test_interval_and_cron_fire_on_their_grid(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    handler = {"python": "reports:greet"}
    interval = create(leader, {"trigger": {"every": "1s"}, "handler": handler, "params": {"name": "interval"}})
    cron = create(leader, {"trigger": {"cron": "* * * * * *"}, "handler": handler, "params": {"name": "cron"}})
    assert cron["next_fire_at"] is not None
    for made in (interval, cron):
        rows = wait_instances(cluster, leader, made["id"], 3)
        times = sorted(seconds(r["scheduled_at"]) for r in rows)
        assert all(later - earlier == pytest.approx(round(later - earlier)) for earlier, later in pairwise(times))
        assert len({r["id"] for r in rows}) == len(rows)
        assert leader.request("DELETE", f"/v1/jobs/{made['id']}").status in (200, 204)
    assert seconds(rows[0]["scheduled_at"]) == int(seconds(rows[0]["scheduled_at"]))


@pytest.fixture
def alone() -> Iterator[Cluster]:
    with Cluster(1) as started:
        yield started


def test_limits_hold_and_are_named(alone: Cluster) -> None:
    """Of a process that a node has for itself: only such a node may put runs into control groups."""
    (leader,) = alone.nodes
    takes = [sys.executable, "-S", "-c", "x = bytearray(512 << 20)"]
    handler = {"exec": takes, "limits": {"memory": "128MiB", "cpu": "1m30s", "open_files": 64}}
    made = create(leader, {"trigger": {"in": "1ms"}, "handler": handler})
    assert made["handler"] == handler
    (row,) = wait_instances(alone, leader, made["id"], 1, state="FAILED")
    whole = [node["limits_whole_runs"] for node in leader.get("/v1/nodes")["items"]]
    assert row["error"].startswith("exit code 1: probably for limits.memory, 128 MiB\n") or any(whole), row
    assert "limits.memory" in row["error"]
    log = leader.log.read_text()
    assert "limits.memory holds for runs as a whole" in log or "limits.memory holds for each process" in log


HANDLERS = [
    ({"exec": ["sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"]}, {}, "FAILED", "to stdout", 3),
    ({"shell": "echo $WHO; exit 0", "env": {"WHO": "shell user"}}, {}, "SUCCEEDED", "shell user", 0),
    ({"python": "reports:greet"}, {"name": "ana", "times": 2}, "SUCCEEDED", "hello hello ana", None),
    ({"python": "reports:fail"}, {"message": "no such report"}, "FAILED", "ValueError: no such report", None),
    ({"python": "no_such_module:run"}, {}, "FAILED", "no_such_module", None),
    ({"exec": ["/no/such/command"]}, {}, "FAILED", "/no/such/command", None),
]


@pytest.mark.parametrize(("handler", "params", "state", "output", "code"), HANDLERS)
def test_output_comes_back_from_any_node(
    cluster: LocalCluster,
    handler: dict[str, object],
    params: dict[str, object],
    state: str,
    output: str,
    code: int | None,
) -> None:
    leader = cluster.leader()
    made = create(leader, {"trigger": {"manual": True}, "handler": handler, "params": params})
    row = wait_final(cluster, leader, run(leader, made["id"]))
    assert row["state"] == state, row
    if code is not None:
        assert row["exit_code"] == code
    path = f"/v1/instances/{row['id']}/output?consistency=leader"  # else a node may not know yet that it has ended
    for node in cluster.nodes:
        reply = cluster.wait("the output", lambda node=node: (r := node.request("GET", path)).status == 200 and r)
        assert output in reply.body.decode(), reply.body
    if state == "FAILED":
        assert row["error"]


def test_http_handler(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    url = f"http://127.0.0.1:{cluster.nodes[0].http_port}/livez"
    made = create(leader, {"trigger": {"manual": True}, "handler": {"http": {"method": "GET", "url": url}}})
    row = wait_final(cluster, leader, run(leader, made["id"]))
    assert row["state"] == "SUCCEEDED", row
    wrong = create(
        leader,
        {
            "trigger": {"manual": True},
            "handler": {"http": {"method": "GET", "url": url, "expected_status": [418]}},
        },
    )
    assert wait_final(cluster, leader, run(leader, wrong["id"]))["state"] == "FAILED"


def test_a_run_knows_who_it_is(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    made = create(
        leader,
        {
            "name": "who-am-i",
            "trigger": {"manual": True},
            "handler": {"shell": "env | grep ^RAFTSCHED_ | sort"},
        },
    )
    instance = run(leader, made["id"])
    row = wait_final(cluster, leader, instance)
    text = cluster.node(row["node"]).request("GET", f"/v1/instances/{instance}/output").body.decode()
    seen = dict(line.split("=", 1) for line in text.splitlines())
    assert seen["RAFTSCHED_JOB_ID"] == made["id"]
    assert seen["RAFTSCHED_JOB_NAME"] == "who-am-i"
    assert seen["RAFTSCHED_INSTANCE_ID"] == instance
    assert seen["RAFTSCHED_ATTEMPT"] == "1"
    assert int(seen["RAFTSCHED_FENCING_TOKEN"]) == row["token"]
    assert seen["RAFTSCHED_NODE_ID"] == row["node"]
    assert seconds(seen["RAFTSCHED_SCHEDULED_AT"]) == seconds(row["scheduled_at"])


def test_a_timeout_kills_the_whole_tree(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    script = "trap '' TERM; (trap '' TERM; sleep 300) & setsid sleep 300 & echo $! ; wait"
    made = create(leader, {"trigger": {"manual": True}, "handler": {"shell": script}, "timeout": "1s"})
    row = wait_final(cluster, leader, run(leader, made["id"]))
    assert row["state"] == "TIMED_OUT"
    pid = cluster.node(row["node"]).request("GET", f"/v1/instances/{row['id']}/output").body.decode().split()[0]
    assert not Path(f"/proc/{pid}").exists()


def test_kill_ends_a_running_instance(cluster: LocalCluster) -> None:
    follower = cluster.followers()[0]
    made = create(follower, {"trigger": {"manual": True}, "handler": {"exec": ["sleep", "300"]}})
    instance = run(follower, made["id"])
    cluster.wait("it to run", lambda: follower.get(f"/v1/instances/{instance}")["state"] == "RUNNING")
    assert follower.request("POST", f"/v1/instances/{instance}/kill").status == 202
    assert wait_final(cluster, follower, instance)["state"] == "KILLED"


def test_retries_then_a_final_failure(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    made = create(
        leader,
        {
            "trigger": {"manual": True},
            "handler": {"exec": ["false"]},
            "retry": {"delays": ["100ms", "200ms"]},
        },
    )
    row = wait_final(cluster, leader, run(leader, made["id"]))
    assert row["state"] == "FAILED"
    assert [a["number"] for a in row["attempts"]] == [1, 2, 3]
    assert len({a["token"] for a in row["attempts"]}) == 3


def test_pause_resume_edit_delete(cluster: LocalCluster) -> None:
    leader, follower = cluster.leader(), cluster.followers()[0]
    made = create(leader, {"name": "life", "trigger": {"every": "1s"}, "handler": {"exec": ["true"]}})
    path = f"/v1/jobs/{made['id']}"
    for _ in range(2):
        assert follower.request("POST", f"{path}/pause").status == 200
    assert follower.get(path)["state"] == "SUSPENDED"
    assert follower.get(path)["next_fire_at"] is None
    assert leader.request("POST", f"{path}/resume").status == 200
    tag = leader.request("GET", path).headers["etag"]
    edited = leader.request("PATCH", path, {"priority": 9}, {"If-Match": tag, "Content-Type": "application/json"})
    assert edited.status == 200, edited.body
    assert edited.json["priority"] == 9
    assert leader.request("PATCH", path, {"priority": 1}, {"If-Match": tag}).status == 412
    assert leader.request("DELETE", path).status in (200, 204)
    assert leader.request("GET", path).status == 404
    again = create(leader, {"name": "life", "trigger": {"manual": True}, "handler": {"exec": ["true"]}})
    assert again["id"] != made["id"]
    assert instances(leader, again["id"]) == []


def test_every_node_tells_how_far_all_are(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    for node in cluster.nodes:
        seen = node.get("/v1/cluster")
        assert seen["leader"] == leader.id
        assert [n["id"] for n in seen["nodes"]] == ["n1", "n2", "n3"]
        for each in seen["nodes"]:
            assert each["alive"], (node.id, each)
            assert each["applied_index"] is not None, (node.id, each)
            assert each["role"] == ("leader" if each["id"] == leader.id else "follower")
