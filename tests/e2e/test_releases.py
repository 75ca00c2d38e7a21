"""A node of this version begins with the data directory of each released one, and answers as that one did."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.rows import read_meta
from raftsched.store import Store
from tests.golden.record_data import ANSWERS, DATA, LISTS, RUN
from tests.golden.releases import RELEASES, Release
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_a_node_goes_on_with_its_data(release: Release, tmp_path: Path) -> None:
    with tarfile.open(release.data) as tar:
        tar.extractall(tmp_path, filter="data")
    answers = json.loads((tmp_path / ANSWERS).read_text())
    store = Store.open(tmp_path / DATA / "store")
    with store.read() as view:
        (member,) = read_meta(view).members
    store.close()
    cluster = Cluster(1, directory=tmp_path)
    (node,) = cluster.nodes
    cluster.flags += ["--raft", f"127.0.0.1:{node.raft_port}", "--advertise-raft", member.raft]
    node.raft_port = node.reached_port = int(member.raft.rpartition(":")[2])  # which may be another one's now
    with cluster:
        for path in LISTS:
            assert _has(node.get(path), answers[path]), path
        for name, was in answers["instances"].items():
            (job,) = [job for job in answers[LISTS[0]]["items"] if (job["name"], job["namespace"]) == (name, "default")]
            assert _has(node.get(f"/v1/jobs/{job['id']}/instances"), was), name
        for run, output in answers["outputs"].items():
            assert node.request("GET", f"/v1/instances/{run}/output").body.decode() == output
        assert node.request("POST", "/v1/cluster/resume", {}).status < 300
        for name, state in RUN.items():
            (job,) = [job for job in answers[LISTS[0]]["items"] if (job["name"], job["namespace"]) == (name, "default")]
            reply = node.request("POST", f"/v1/jobs/{job['id']}/run", {})
            where = f"/v1/instances/{reply.json['id']}"
            cluster.wait(f"{name} to end", lambda where=where, state=state: node.get(where)["state"] == state)


def _has(now: Any, was: Any) -> bool:
    """Returns whether all that was answered is answered still; objects may have more fields."""
    if isinstance(was, dict):
        return isinstance(now, dict) and all(name in now and _has(now[name], one) for name, one in was.items())
    if isinstance(was, list):
        return isinstance(now, list) and len(now) == len(was) and all(map(_has, now, was))
    return bool(now == was)
