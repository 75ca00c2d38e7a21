"""Webhooks live: a receiver that fails, one that dies, nodes that die before and during a delivery."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.api_nodes import AnyCluster, ApiNode
from tests.support.cluster import Cluster
from tests.support.examples import ROOT
from tests.support.local_cluster import LocalCluster
from tests.support.ports import free_ports
from tests.support.receiver import Received, Receiver, receiving

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "examples" / "webhook-receiver" / "receiver.py"
FAILS = {"trigger": {"manual": True}, "handler": {"shell": "echo no paper >&2; exit 3"}}
QUICK = ["100ms"] * 20


def hook(node: ApiNode, name: str, url: str, **fields: Any) -> str:
    """Makes a webhook; its secret."""
    body = {"name": name, "url": url, "retry_delays": QUICK, "timeout": "60s", **fields}
    reply = node.request("POST", "/v1/webhooks", body)
    assert reply.status == 201, (reply.status, reply.body)
    return str(reply.json["secret"])


def deliveries(node: ApiNode, name: str) -> list[dict[str, Any]]:
    found = node.find(f"/v1/namespaces/_system/jobs/{name}/instances")
    return [] if found is None else list(found["items"])


def delivered(cluster: AnyCluster, node: ApiNode, name: str, count: int = 1) -> list[dict[str, Any]]:
    def done() -> list[dict[str, Any]] | None:
        rows = deliveries(node, name)
        return rows if [row["state"] for row in rows] == ["SUCCEEDED"] * count else None

    rows: list[dict[str, Any]] = cluster.wait(f"{count} deliveries to {name}", done, 90)
    return rows


def test_a_receiver_that_fails_at_first(cluster: LocalCluster) -> None:
    node = cluster.nodes[0]

    def answer(receiver: Receiver, _: Received) -> tuple[int, bytes]:
        return (500, b"not now") if len(receiver.received) == 1 else (200, b"thanks")

    with receiving(answer) as receiver:
        secret = hook(node, "flaky", receiver.url)
        job = create(node, {**FAILS, "owner": "ana", "notify": {"on": ["dead_letter"], "webhook": "flaky"}})
        instance = run(node, job["id"])
        (row,) = delivered(cluster, node, "flaky")
        first, second = receiver.received
    assert first.body == second.body
    assert [one.headers["Raftsched-Attempt"] for one in (first, second)] == ["1", "2"]
    event = second.verified(secret)
    assert first.verified(secret) == event
    assert (event["type"], event["subject"]) == ("io.raftsched.instance.dead_letter", instance)
    data = event["data"]
    assert (data["owner"], data["exit_code"], data["state"], data["attempt"]) == ("ana", 3, "FAILED", 1)
    assert "no paper" in data["error"]
    assert data["node"] in ("n1", "n2", "n3")
    assert event["id"] == row["event"]["id"] == first.headers["webhook-id"]
    assert "HTTP 500" in row["attempts"][0]["error"]
    outputs = []
    for attempt in (1, 2):
        path = f"/v1/instances/{row['id']}/output?attempt={attempt}"
        outputs.append(cluster.wait("its output", lambda p=path: node.request("GET", p)).body.decode())
    assert outputs == ["not now", "thanks"]
    for one in cluster.nodes:
        assert secret.removeprefix("whsec_") not in one.log.read_text()
        assert not any(
            secret.encode() in file.read_bytes() for file in (one.data / "output").rglob("*") if file.is_file()
        )


def test_a_receiver_that_dies_in_the_middle(cluster: LocalCluster) -> None:
    """The first hears the event and is killed before it answers; the second is the one of the examples."""
    node = cluster.nodes[0]
    (port,) = free_ports(1)
    deaf = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); c, _ = s.accept(); c.recv(99); "
    first = subprocess.Popen([sys.executable, "-c", deaf + "print('heard', flush=True); time.sleep(600)"], stdout=-1)
    second = None
    try:
        secret = hook(node, "mortal", f"http://127.0.0.1:{port}/")
        test = node.request("POST", "/v1/webhooks/mortal/test")
        assert test.status == 202
        assert first.stdout is not None
        assert first.stdout.readline() == b"heard\n"
        first.kill()
        first.wait()
        environment = {**os.environ, "WEBHOOK_SECRETS": secret, "PORT": str(port), "PYTHONPATH": str(ROOT)}
        second = subprocess.Popen([sys.executable, str(EXAMPLE)], env=environment, stdout=-1, stderr=subprocess.DEVNULL)
        (row,) = delivered(cluster, node, "mortal")
        assert second.stdout is not None
        ident, kind, about = second.stdout.readline().split()
        assert (ident.decode(), kind, about) == (row["event"]["id"], b"io.raftsched.webhook.test", b"mortal")
        assert row["attempt"] > 1
        assert _post(port, b"{}").startswith(b"HTTP/1.0 401")  # who does not sign is not believed
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()


def _post(port: int, body: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return connection.recv(4096)


def test_the_leader_killed_between_the_end_and_its_delivery(tmp_path: Path) -> None:
    """While the cluster is paused nothing new is started: the run ends, its event waits, the leader dies."""
    go = tmp_path / "go"
    with Cluster(3) as cluster, receiving(lambda *_: (204, b"")) as receiver:
        leader = cluster.leader()
        secret = hook(leader, "ops", receiver.url, events=["failed"])
        script = f"until [ -e {go} ]; do sleep 0.05; done; exit 3"
        job = create(leader, {"trigger": {"manual": True}, "handler": {"shell": script}})
        instance = run(leader, job["id"])
        for other in cluster.followers_of(leader):  # so that its run does not die with it
            path = f"/v1/instances/{instance}"
            cluster.wait("it runs", lambda o=other, p=path: (o.find(p) or {}).get("state") == "RUNNING")
        if leader.get(f"/v1/instances/{instance}")["node"] == leader.id:
            reply = leader.request("POST", "/v1/cluster/leader", {})
            assert reply.status == 200, reply.body
            leader = cluster.leader()
        assert leader.request("POST", "/v1/cluster/pause", {}).status == 200
        go.touch()
        assert wait_final(cluster, leader, instance)["state"] == "FAILED"
        (waiting,) = deliveries(leader, "ops")
        assert waiting["state"] == "WAITING"
        leader.kill()
        new = cluster.leader()
        assert receiver.received == []
        assert new.request("POST", "/v1/cluster/resume", {}).status == 200
        (row,) = delivered(cluster, new, "ops")
        assert row["id"] == waiting["id"]
        (event,) = receiver.events(secret)
        assert (event["subject"], event["id"]) == (instance, waiting["event"]["id"])


def test_a_node_killed_while_it_delivers(tmp_path: Path) -> None:
    """The event comes again from another node, under the same id, and never twice at the same time."""

    def answer(receiver: Receiver, _: Received) -> tuple[int, bytes]:
        if len(receiver.received) == 1:
            receiver.release.wait(120)
        return 200, b""

    with Cluster(3) as cluster, receiving(answer) as receiver:
        node = cluster.leader()
        secret = hook(node, "slow", receiver.url)
        assert node.request("POST", "/v1/webhooks/slow/test").status == 202
        cluster.wait("the first request", lambda: receiver.received)
        row = cluster.wait("it runs", lambda: next((r for r in deliveries(node, "slow") if r["node"]), None))
        victim = cluster.node(row["node"])
        victim.kill()
        alive = cluster.leader()
        (row,) = delivered(cluster, alive, "slow")
        assert Counter(event["id"] for event in receiver.events(secret)) == {row["event"]["id"]: 2}
        assert [attempt["outcome"] for attempt in row["attempts"]] == ["lost", "succeeded"]
        assert row["attempts"][1]["node"] != victim.id
