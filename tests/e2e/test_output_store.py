"""Output outlives the disk of the only node there is, in the store that the node was started with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.local_cluster import LocalCluster, LocalNode

pytestmark = pytest.mark.e2e

SIZE = 9_000_000  # more than an object waits for


def read(node: LocalNode, path: str) -> tuple[int, str | None, int]:
    reply = node.request("GET", f"{path}/output")
    return reply.status, reply.headers.get("raftsched-served-by"), len(reply.body)


def test_a_lost_disk_takes_no_output_with_it(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    with LocalCluster(1, directory=tmp_path / "nodes", output_store=str(vault)) as cluster:
        (node,) = cluster.nodes
        for_all = {"output_copies": 2, "output_max_bytes": 2 * SIZE}
        assert node.request("PATCH", "/v1/cluster/settings", for_all).status == 200
        job = create(node, {"trigger": {"manual": True}, "handler": {"shell": f"yes | head -c {SIZE}"}})
        path = f"/v1/instances/{run(node, job['id'])}"
        assert wait_final(cluster, node, path.rpartition("/")[2])["state"] == "SUCCEEDED"
        cluster.wait("it in the store", lambda: list(vault.glob("*/output/n1/*/*-at-*")))
        assert read(node, path) == (200, None, SIZE)
        metrics = node.request("GET", "/metrics").body.decode()
        assert "raftsched_output_store_failing 0.0" in metrics
        node.stop()
        shutil.rmtree(node.data / "output")
        node.start()
        cluster.wait_ready()
        assert read(node, path) == (200, "object store", SIZE)
        assert node.request("GET", f"{path}/output?limit_bytes=4").body == b"y\ny\n"
