"""A remote worker on real nodes, with a token of its role: any node shows it, what it runs, and what waits for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.steps import command
from tests.support.local_cluster import LocalCluster, LocalNode
from tests.support.worker_sessions import sent

pytestmark = pytest.mark.e2e


def test_any_node_shows_it_and_its_runs(tmp_path: Any) -> None:
    with LocalCluster(3, no_run=True) as cluster:

        def done(*words: str, token: str) -> str:
            result = command(cluster.servers, *words, token=token, home=tmp_path)
            assert result.exit_code == 0, (words, result.stderr)
            return result.stdout.strip()

        root = command(cluster.servers, "tokens", "bootstrap", home=tmp_path).stdout.strip()
        cluster.wait(
            "tokens to be needed", lambda: all(n.request("GET", "/v1/jobs").status == 401 for n in cluster.nodes)
        )
        limits = ("--role", "worker", "--queues", "render,spare", "--namespaces", "media")
        worker = done("tokens", "create", "gpu", *limits, "-o", "name", token=root)

        def ask(
            node: LocalNode, method: str, path: str, token: str, body: Any = None, more: dict[str, str] | None = None
        ) -> tuple[int, Any]:
            reply = node.request(method, path, body, headers={"Authorization": f"Bearer {token}", **(more or {})})
            return reply.status, json.loads(reply.body) if reply.body else None

        first, second, third = cluster.nodes
        assert ask(first, "GET", "/v1/jobs", worker)[0] == 403
        assert ask(first, "GET", "/v1/workers", worker)[0] == 403
        assert ask(first, "GET", "/v1/whoami", worker)[1]["queues"] == ["render", "spare"]
        job = {"name": "j", "namespace": "media", "queue": "render", "trigger": {"manual": True}}
        status, made = ask(first, "POST", "/v1/jobs", root, {**job, "handler": {"exec": ["true"]}})
        assert status == 201, made
        _, instance = ask(first, "POST", f"/v1/jobs/{made['id']}/run", root, {})

        opening = {"name": "w1", "slots": 2, "handlers": ["exec"], "opening": 1, "incarnation": "e2e"}
        status, session = ask(second, "POST", "/v1/worker-sessions", worker, opening)
        assert (status, session["queues"], session["namespaces"]) == (201, ["render", "spare"], ["media"]), session
        address, secret = sent(session["session"])
        status, polled = ask(third, "POST", f"{address}/poll", worker, {"wait_ms": 2_000}, secret)
        assert status == 200, polled

        for node in cluster.nodes:

            def shown(node: LocalNode = node) -> bool:
                _, found = ask(node, "GET", f"/v1/instances/{instance['id']}", root)
                return (found["node"], found["worker"]) == (None, "w1")

            cluster.wait("the run to be on the worker", shown)
            _, found = ask(node, "GET", "/v1/workers/w1", root)
            assert found["last_heartbeat_at"] is not None, node.id
            assert ([run["id"] for run in found["runs"]], found["running"]) == ([instance["id"]], 1)
            assert session["session"].partition("-")[2] not in json.dumps(found)
            assert [one["id"] for one in ask(node, "GET", "/v1/nodes", root)[1]["items"]] == ["n1", "n2", "n3"]
        assert "w1" in done("workers", "list", token=root)
        assert "the worker w1" in done("instances", "explain", instance["id"], token=root)
        text = first.request("GET", "/metrics", headers={"Authorization": f"Bearer {root}"}).body.decode()
        assert 'raftsched_queue_worker_slots{queue="render"} 2.0' in text
        assert 'raftsched_executor_running{kind="worker"} 1.0' in text
        assert ask(first, "POST", f"{address}/close", worker, {}, secret)[0] in (200, 204)
        cluster.wait("the worker to be gone", lambda: ask(third, "GET", "/v1/workers/w1", root)[0] == 404)
