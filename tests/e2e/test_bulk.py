"""One action on many jobs, on real processes: it goes on when its leader is killed, and is done once for each job."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from raftsched.cli.main import cli
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e

COUNT = 4_000
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "namespace": "many"}


def ask(node: NodeProcess, *words: str) -> str:
    """What the command line prints."""
    result = CliRunner().invoke(cli, ["--server", f"http://127.0.0.1:{node.http_port}", *words])
    assert result.exit_code == 0, (words, result.output)
    return result.output


def everything(node: NodeProcess, path: str) -> list[dict[str, Any]]:
    """The items of all pages."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = node.get(f"{path}{cursor}")
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def test_it_goes_on_when_the_leader_is_killed_and_runs_each_job_once(cluster: Cluster) -> None:
    leader = cluster.leader()
    follower = cluster.followers_of(leader)[0]
    assert follower.request("POST", "/v1/cluster/pause").status == 200  # what is asked to run waits, to be counted
    jobs = [{**JOB, "owner": "ana" if i % 2 else "bo"} for i in range(COUNT)]
    for start in range(0, COUNT, 1_000):
        reply = follower.request("POST", "/v1/jobs:batch", jobs[start : start + 1_000])
        assert all(item["status"] == 201 for item in reply.json["items"])
    reply = follower.request("POST", "/v1/jobs:actions", {"action": "run", "filter": {"namespace": "many"}})
    assert reply.status == 202, reply.body
    place = reply.headers["location"]
    cluster.wait("the first step", lambda: follower.get(place)["changed"] > 0)
    leader.kill()
    cluster.wait("the operation to end", lambda: (follower.find(place) or {}).get("state") == "DONE", 60)
    done = follower.get(place)
    assert (done["matched"], done["changed"], done["refused"]) == (COUNT, COUNT, 0)
    made = everything(follower, "/v1/instances?limit=1000")
    assert len(made) == COUNT
    assert len({row["job_id"] for row in made}) == COUNT
    assert ask(follower, "jobs", "pause", "--owner", "ana") == f"paused: {COUNT // 2}\n"
    assert len(everything(follower, "/v1/jobs?limit=1000&state=SUSPENDED")) == COUNT // 2
    stats = follower.get("/v1/stats?namespace=many")
    assert (stats["jobs"]["SUSPENDED"], stats["instances"]["WAITING"]) == (COUNT // 2, COUNT)
    reply = follower.request("DELETE", "/v1/jobs?namespace=many")
    assert (reply.status, reply.json["deleted"]) == (200, COUNT)
    assert everything(follower, "/v1/jobs?limit=1000&namespace=many") == []
