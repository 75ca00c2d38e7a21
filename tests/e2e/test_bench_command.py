"""`raftsched bench` against a cluster that runs: it says how fast, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.local_cluster import LocalCluster
from tests.support.patience import patient

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("what", ["create", "run"])
def test_bench_measures_and_takes_its_jobs_away(cluster: LocalCluster, what: str) -> None:
    server = cluster.servers
    words = ["bench", what, "--server", server, "--count", "30", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "raftsched", *words],
        capture_output=True, text=True, timeout=patient(120), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["failed"] == 0
    assert found["creates" if what == "create" else "asked"] == 30
    if what == "run":
        assert found["runs_succeeded"] == 30
    jobs = cluster.leader().get("/v1/jobs?name_prefix=job")["items"]
    assert [job for job in jobs if job["namespace"].startswith("bench-")] == []
