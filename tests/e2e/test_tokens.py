"""Tokens on real nodes, by the command line: turned on, used, lost, and had again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e


def raftsched(cluster: Cluster, home: Path, *words: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    servers = ",".join(f"http://127.0.0.1:{node.http_port}" for node in cluster.nodes)
    environment = {**os.environ, "RAFTSCHED_SERVER": servers, "XDG_CONFIG_HOME": str(home)}
    environment.pop("RAFTSCHED_TOKEN", None)
    if token is not None:
        environment["RAFTSCHED_TOKEN"] = token
    return subprocess.run(
        [sys.executable, "-m", "raftsched", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_bootstrap_use_lose_and_come_back(tmp_path: Path) -> None:
    with Cluster(3) as cluster:

        def done(*words: str, token: str | None = None) -> str:
            result = raftsched(cluster, tmp_path, *words, token=token)
            assert result.returncode == 0, (words, result.stderr)
            return result.stdout.strip()

        first = cluster.nodes[0]
        root = done("tokens", "bootstrap")
        for node in cluster.nodes:
            cluster.wait("tokens to be needed", lambda node=node: node.request("GET", "/v1/jobs").status == 401)
            assert node.request("GET", "/readyz").status == 200
        assert raftsched(cluster, tmp_path, "jobs", "list").returncode == 5
        done("jobs", "create", "hello", "--manual", "--shell", "echo hello", token=root)
        run = done("jobs", "run", "hello", "-o", "name", token=root)
        done("jobs", "wait", run, token=root)
        for node in cluster.nodes:
            headers = {"Authorization": f"Bearer {root}"}
            assert node.request("GET", f"/v1/instances/{run}/output", headers=headers).body == b"hello\n"
        viewer = done("tokens", "create", "eyes", "--role", "viewer", token=root)
        assert "hello" in done("jobs", "list", token=viewer)
        assert raftsched(cluster, tmp_path, "jobs", "delete", "hello", token=viewer).returncode == 5
        assert "tokens_create" in done("audit", "--actor", "root", token=root)

        first.kill()  # with its secret
        first.start()
        cluster.wait_ready()
        new = done("tokens", "bootstrap", "--data", str(first.data), "--name", "root-2")
        assert "root-2" in done("tokens", "list", token=new)
        done("tokens", "revoke", "root", token=new)
        assert raftsched(cluster, tmp_path, "tokens", "revoke", "root-2", token=new).returncode == 4
        done("tokens", "open", "--yes", token=new)
        cluster.wait(
            "the cluster to be open", lambda: all(n.request("GET", "/v1/jobs").status == 200 for n in cluster.nodes)
        )
