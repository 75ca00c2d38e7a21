"""A disk that fills up refuses writes with 507 before anything is proposed; nothing is lost, space brings it back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.steps import at, create
from tests.support.cluster import Cluster, NodeProcess
from tests.support.patience import patient
from tests.support.ports import free_ports

pytestmark = pytest.mark.e2e


def mount(directory: Path, size: str) -> None:
    directory.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(directory)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"small file systems cannot be mounted here: {done.stderr.decode().strip()}")


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[Path]:
    """A directory whose n1, n2 and n3 are file systems of 160 MiB each."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a small file system needs root")
    mounted = []
    try:
        for name in ("n1", "n2", "n3"):
            mount(tmp_path / name, "160m")
            mounted.append(tmp_path / name)
        yield tmp_path
    finally:
        for directory in mounted:
            subprocess.run(["umount", "-l", str(directory)], check=False)


def fill(node: NodeProcess) -> Path:
    """Leaves too little room on the node's disk to go on writing. Returns the file to delete."""
    filler = node.data / "filler"
    filler.write_bytes(b"\0" * (shutil.disk_usage(node.data).free - (16 << 20)))
    return filler


def test_a_full_leader_hands_over_and_a_full_majority_refuses_until_there_is_room(small_disks: Path) -> None:
    job = {"trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}}
    with Cluster(3, directory=small_disks) as cluster:
        leader = cluster.leader()
        made = create(leader, job)
        fillers = [fill(leader)]
        cluster.wait("another leader", lambda: cluster.leader().id != leader.id)
        for other in cluster.followers_of(leader):
            cluster.wait("201", lambda other=other: other.request("POST", "/v1/jobs", job).status == 201)
        assert leader.alive
        roomy, second = cluster.followers_of(leader)
        fillers.append(fill(second))
        for short in (leader, second):
            reply = cluster.wait(
                "507", lambda short=short: (r := short.request("POST", "/v1/jobs", job)).status == 507 and r
            )
            assert reply.headers["content-type"].startswith("application/problem+json")
            assert "disk" in reply.json["detail"]
        # Two of three are short: whoever leads, a node with room of its own refuses as well.
        cluster.wait("507 from the third", lambda: roomy.request("POST", "/v1/jobs", job).status == 507)
        for short in (leader, second):
            assert short.alive
            assert short.get(f"/v1/jobs/{made['id']}")["id"] == made["id"]
        for filler in fillers:
            filler.unlink()
        again = cluster.wait("room again", lambda: (r := leader.request("POST", "/v1/jobs", job)).status == 201 and r)
        for node in cluster.nodes:
            assert cluster.wait("it to arrive", lambda node=node: node.find(f"/v1/jobs/{again.json['id']}"))


def test_a_start_without_room_is_one_line(tmp_path: Path) -> None:
    """On a disk that was always too small, and on one that is full when a node comes back."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a small file system needs root")
    for size, form in (("16k", False), ("64k", False), ("8m", True)):
        data = tmp_path / size
        mount(data, size)
        try:
            http, raft = free_ports(2)
            command = [
                *(sys.executable, "-m", "raftsched", "node", "--id", "n1", "--data", str(data)),
                *("--http", f"127.0.0.1:{http}", "--raft", f"127.0.0.1:{raft}", "--peers", f"n1=127.0.0.1:{raft}"),
            ]
            if form:
                with subprocess.Popen(command, stderr=subprocess.DEVNULL) as node:
                    while not (data / "supervisor.lock").exists() or not (data / "supervisor.lock").read_text().strip():
                        assert node.poll() is None
                    node.terminate()
                    assert node.wait(patient(60)) == 0
                (data / "filler").write_bytes(b"\0" * shutil.disk_usage(data).free)
            done = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
        finally:
            subprocess.run(["umount", "-l", str(data)], check=False)
        assert done.returncode == 1, (size, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("raftsched:")]
        assert len(lines) == 1, (size, done.stderr)
        assert "Traceback" not in done.stderr, (size, done.stderr)
        assert "full" in lines[0], (size, done.stderr)
