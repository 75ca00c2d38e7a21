"""Events and output on real processes: a reader that follows one node goes on at another when that one is killed, and
has seen everything once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster, NodeProcess
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e

RUNS = 30


def kept(node: NodeProcess, query: str) -> list[dict[str, Any]]:
    reply = node.request("GET", f"/v1/events?follow=false&consistency=leader&{query}")
    assert reply.status == 200, reply.body
    lines = reply.body.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_reader_survives_its_node(tmp_path: Path) -> None:
    with Cluster(3) as cluster:
        leader = cluster.leader()
        job = create(leader, {"trigger": {"manual": True}, "handler": {"shell": "true"}, "overlap": "allow"})
        index = leader.request("GET", "/livez").headers["raftsched-index"]
        seen = tmp_path / "seen"
        servers = ",".join(f"http://127.0.0.1:{n.http_port}" for n in [leader, *cluster.followers_of(leader)])
        command = [sys.executable, "-m", "raftsched", "--server", servers, "events", "-f", "-o", "json"]
        with (
            seen.open("w") as out,
            subprocess.Popen([*command, "--after", index, "--job", job["id"]], stdout=out) as reader,
        ):
            try:
                first = [run(leader, job["id"]) for _ in range(RUNS)]
                for instance in first:
                    wait_final(cluster, leader, instance)
                cluster.wait("the reader to be there", lambda: len(seen.read_text().splitlines()) >= 3)
                leader.kill()
                new = cluster.leader()
                for instance in [run(new, job["id"]) for _ in range(RUNS)]:
                    wait_final(cluster, new, instance)
                everything = kept(new, f"job={job['id']}&after={index}")
                assert len(everything) >= 2 * RUNS * 3
                cluster.wait("all of it", lambda: len(seen.read_text().splitlines()) >= len(everything))
            finally:
                reader.kill()
        assert [json.loads(line) for line in seen.read_text().splitlines()] == everything
        assert sum(event["type"] == "instance.succeeded" for event in everything) == 2 * RUNS
        for node in cluster.alive():
            assert kept(node, f"job={job['id']}&after={index}") == everything


def test_what_a_run_prints_is_followed_through_a_node_that_does_not_run_it(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    job = create(leader, {"trigger": {"manual": True}, "handler": {"shell": "echo one; sleep 0.6; echo two"}})
    instance = run(leader, job["id"])
    for node in cluster.alive():
        path = f"/v1/instances/{instance}/output?follow=true&consistency=leader"
        got = node.request("GET", path, headers={"Accept": "text/event-stream"})
        assert got.headers["content-type"] == "text/event-stream"
        lines = [json.loads(line[6:]) for line in got.body.decode().splitlines() if line.startswith("data: ")]
        assert "".join(said.get("text", "") for said in lines) == "one\ntwo\n"
        assert lines[-1]["outcome"] == "succeeded"
