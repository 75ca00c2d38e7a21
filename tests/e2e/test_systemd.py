"""A node and a remote worker as services, with the test in the place of systemd."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import AS_MYSELF, Cluster
from tests.support.patience import patient

pytestmark = pytest.mark.e2e


class Manager:
    """The socket at which a service says how it is, and what it said."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{address[1:]}" if address[0] == "@" else address)
        self.socket.settimeout(patient(60))
        self.environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"}
        self.said: list[str] = []

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Returns the first line from now on that is wanted."""
        while True:
            for line in (lines := self.socket.recv(4096).decode().split("\n")):
                self.said.append(line)
            if found := [line for line in lines if wanted(line)]:
                return found[0]


def test_a_node_says_when_it_serves_that_it_lives_and_that_it_stops(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    cluster = Cluster(1)
    cluster.environment |= manager.environment
    (node,) = cluster.nodes
    try:
        node.start()
        manager.until("READY=1".__eq__)
        assert node.request("GET", "/livez").status == 200, "it serves when it says so"
        assert "WATCHDOG=1" not in manager.said
        manager.until(lambda line: line.startswith("STATUS=leads, term "))
        for _ in range(3):
            manager.until("WATCHDOG=1".__eq__)

        for handler in ({"exec": ["env"]}, {"python": "os:environ.copy"}):
            job = create(node, {"trigger": {"manual": True}, "handler": handler})
            row = wait_final(cluster, node, run(node, job["id"]))
            assert row["state"] == "SUCCEEDED", row
            seen = node.request("GET", f"/v1/instances/{row['id']}/output").body.decode() + str(row["result"])
            assert "RAFTSCHED_INSTANCE_ID" in seen
            assert "NOTIFY_SOCKET" not in seen
            assert "WATCHDOG" not in seen

        assert node.process is not None
        node.process.send_signal(signal.SIGHUP)
        manager.until("RELOADING=1".__eq__)
        assert manager.said[-1].startswith("MONOTONIC_USEC="), "what Type=notify-reload asks for"
        manager.until("READY=1".__eq__)
        node.process.terminate()
        manager.until("STOPPING=1".__eq__)
        assert "EXTEND_TIMEOUT_USEC=21000000" in manager.said, "its grace, and twenty seconds"
        assert node.process.wait(patient(60)) == 0
    finally:
        cluster.stop()
        manager.socket.close()


def test_a_remote_worker_says_the_same(tmp_path: Path) -> None:
    manager = Manager(f"@raftsched-{secrets.token_hex(8)}")
    with Cluster(1) as cluster:
        command = [sys.executable, "-m", "raftsched", "worker", "--server", cluster.nodes[0].url, "--name", "w1"]
        command += ["--data", str(tmp_path / "w1"), "--grace", "1s", *AS_MYSELF]
        worker = subprocess.Popen(command, env={**cluster.environment, **manager.environment})
        try:
            manager.until("READY=1".__eq__)
            manager.until(lambda line: line.startswith("STATUS=session "))
            manager.until("WATCHDOG=1".__eq__)
            worker.terminate()
            manager.until("STOPPING=1".__eq__)
            assert worker.wait(patient(60)) == 0
        finally:
            worker.kill()
            worker.wait()
            manager.socket.close()


def test_a_node_that_cannot_start_says_why_and_never_that_it_is_ready(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster = Cluster(1)
        cluster.environment |= manager.environment
        (node,) = cluster.nodes
        node.http_port = taken.getsockname()[1]
        node.start()
        try:
            manager.until(lambda line: line.startswith("STATUS=") and "port is in use" in line)
            assert node.process is not None
            assert node.process.wait(patient(60)) == 1
            assert "READY=1" not in manager.said
        finally:
            cluster.stop()
            manager.socket.close()
