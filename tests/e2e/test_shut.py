"""A node that others can reach: locked from its first moment, opened on its machine, private on its disk."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.patience import patient

pytestmark = pytest.mark.e2e

BEYOND = ("--advertise-http", "192.0.2.1:7401", "--insecure-http")  # an address that nobody has (RFC 5737)


def cli(*words: str, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "raftsched", *words],
        capture_output=True, text=True, timeout=patient(60), check=False,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}, **environ},
    )  # fmt: skip
    return done.returncode, done.stdout.strip(), done.stderr


def wide(data: Path) -> dict[str, str]:
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (data, *data.rglob("*")) if not path.is_socket()}
    return {str(path): oct(mode) for path, mode in found.items() if mode & 0o077}


def test_from_the_first_start_to_the_first_admin() -> None:
    cluster = Cluster(1, flags=BEYOND)
    node = cluster.nodes[0]
    node.data.mkdir(mode=0o755, parents=True)
    before = os.umask(0o027)
    try:
        with cluster:
            os.umask(before)
            url = f"http://127.0.0.1:{node.http_port}"
            for path in ("/v1/jobs", "/metrics", "/openapi.json", "/docs", "/nowhere"):
                assert node.request("GET", path).status == 401, path
            assert node.request("GET", "/readyz").status == 200
            code, _, said = cli("--server", url, "jobs", "list")
            assert code == 5
            assert "raftsched tokens bootstrap --data DIR" in said
            assert "until there is an admin" in node.log.read_text()

            code, secret, said = cli("tokens", "bootstrap", "--data", str(node.data))
            assert (code, secret[:3]) == (0, "rs_"), said
            headers = {"Authorization": f"Bearer {secret}"}
            assert node.request("GET", "/v1/jobs", headers=headers).status == 200
            assert node.request("GET", "/v1/jobs").status == 401
            assert node.request("GET", "/docs").status == 200

            job: dict[str, Any] = {"trigger": {"in": "0s"}, "handler": {"shell": "umask"}}
            made = node.request("POST", "/v1/jobs", job, headers=headers).json
            run = cluster.wait(
                "it ran",
                lambda: next(
                    (
                        row
                        for row in node.request("GET", f"/v1/instances?job={made['id']}", headers=headers).json["items"]
                        if row["state"] == "SUCCEEDED"
                    ),
                    None,
                ),
            )
            printed = node.request("GET", f"/v1/instances/{run['id']}/output", headers=headers).body
            assert printed.strip() == b"0027", "jobs have the umask that the node was started with"
            assert wide(node.data) == {}
            node.kill()
            node.start()
            cluster.wait("it is back", node.ready)
            assert node.request("GET", "/v1/jobs").status == 401
            assert node.request("GET", "/v1/jobs", headers=headers).status == 200
    finally:
        os.umask(before)
