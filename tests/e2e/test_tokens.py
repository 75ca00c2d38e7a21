"""Tokens on real nodes, by the command line: turned on, used, lost, and had again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.steps import command
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


def test_bootstrap_use_lose_and_come_back(tmp_path: Path) -> None:
    with LocalCluster(3) as cluster:

        def done(*words: str, token: str | None = None) -> str:
            result = command(cluster.servers, *words, token=token, home=tmp_path)
            assert result.exit_code == 0, (words, result.stderr)
            return result.stdout.strip()

        first = cluster.nodes[0]
        root = done("tokens", "bootstrap")
        for node in cluster.nodes:
            cluster.wait("tokens to be needed", lambda node=node: node.request("GET", "/v1/jobs").status == 401)
            assert node.request("GET", "/readyz").status == 200
        assert command(cluster.servers, "jobs", "list", home=tmp_path).exit_code == 5
        done("jobs", "create", "hello", "--manual", "--shell", "echo hello", token=root)
        run = done("jobs", "run", "hello", "-o", "name", token=root)
        done("jobs", "wait", run, token=root)
        for node in cluster.nodes:
            headers = {"Authorization": f"Bearer {root}"}
            assert node.request("GET", f"/v1/instances/{run}/output", headers=headers).body == b"hello\n"
        viewer = done("tokens", "create", "eyes", "--role", "viewer", token=root)
        assert "hello" in done("jobs", "list", token=viewer)
        assert command(cluster.servers, "jobs", "delete", "hello", token=viewer, home=tmp_path).exit_code == 5
        assert "tokens_create" in done("audit", "--actor", "root", token=root)

        first.stop()  # the secret that it leaves behind is good no more
        first.start()
        cluster.wait_ready()
        new = done("tokens", "bootstrap", "--data", str(first.data), "--name", "root-2")
        assert "root-2" in done("tokens", "list", token=new)
        done("tokens", "revoke", "root", token=new)
        assert command(cluster.servers, "tokens", "revoke", "root-2", token=new, home=tmp_path).exit_code == 4
        done("tokens", "open", "--yes", token=new)
        cluster.wait(
            "the cluster to be open", lambda: all(n.request("GET", "/v1/jobs").status == 200 for n in cluster.nodes)
        )
