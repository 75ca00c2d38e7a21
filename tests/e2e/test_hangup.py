"""SIGHUP: processes read their files and their configuration again, while requests go on, and none ends by it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.api_nodes import Reply
from tests.support.authority import ca_file, certificate, put
from tests.support.cluster import AS_MYSELF, Cluster, NodeProcess
from tests.support.patience import patient, wait_until

pytestmark = pytest.mark.e2e


class Traffic:
    """Requests of one client after the other, each on a connection of its own; `failed`: those that were not answered
    as they should be."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.answered = 0
        self.failed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def _go_on(self) -> None:
        while not self._over.is_set():
            method, path, body = ("POST", "/v1/jobs", JOB) if self.answered % 2 else ("GET", "/v1/jobs?limit=1", None)
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.node.http_port, timeout=patient(10), context=self.node.cluster.tls
            )
            try:
                connection.request(
                    method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
                )
                status = connection.getresponse().status
                if status not in (200, 201):
                    self.failed.append(f"{method} {status}")
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{method} {error!r}")
            finally:
                connection.close()
            self.answered += 1

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


JOB: dict[str, Any] = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}


def serial(node: NodeProcess) -> str:
    """Of the certificate that it shows now."""
    connection = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=patient(10), context=node.cluster.tls)
    try:
        connection.connect()
        found = connection.sock.getpeercert()
    finally:
        connection.close()
    return str(found and found["serialNumber"])


def hang_up(process: subprocess.Popen[bytes] | None) -> None:
    assert process is not None
    process.send_signal(signal.SIGHUP)


def until_said(log: Path, *words: str, times: int = 1) -> None:
    def said() -> bool:
        text = log.read_text(errors="replace")
        return all(text.count(word) >= times for word in words)

    wait_until(said, f"{log.name} says {words}")


def configured(cluster: Cluster, text: str) -> Path:
    config = cluster.directory / "node.toml"
    config.write_text(text)
    return config


def test_a_node_reads_its_files_and_its_settings_again_under_load(tmp_path: Path) -> None:
    raft = put(tmp_path, certificate("n1"), "raft")
    cluster = Cluster(1, tls=True, directory=tmp_path)
    config = configured(cluster, 'log_format = "text"\nslots = 4\n')
    cluster.flags += ["--config", str(config), "--raft-cert", str(raft.cert), "--raft-key", str(raft.key)]
    cluster.flags += ["--raft-ca", str(ca_file())]
    with cluster:
        (node,) = cluster.nodes
        log = node.log
        gate = tmp_path / "gate"
        handler = {"shell": f"while [ ! -e {gate} ]; do sleep 0.05; done"}
        going = run(node, create(node, {"trigger": {"manual": True}, "handler": handler})["id"])
        cluster.wait("it runs", lambda: node.find(f"/v1/instances/{going}")["started_at"])
        with Traffic(node) as traffic:
            before = serial(node)
            put(tmp_path, certificate("n1", days=30), "n1")
            put(tmp_path, certificate("n1", days=31), "raft")
            config.write_text('log_format = "json"\nslots = 8\n')
            hang_up(node.process)
            wait_until(lambda: serial(node) != before, "the new certificate is shown")
            until_said(log, "raft.pem is used for new connections", "taken at the next start: slots")
            until_said(log, "in use from now on: log_format", "SHA-256 fingerprint")
            assert '"message": "SIGHUP: ' in log.read_text(), "it writes as the file says now"

            # What cannot be used changes nothing, and is said; then it is mended.
            config.write_text("slots = many\n")
            (tmp_path / "n1.key").write_bytes(certificate("n2").key)
            hang_up(node.process)
            until_said(log, "is not TOML", "is not that of the certificate")
            config.write_text("slots = 8\n")
            hang_up(node.process)
            until_said(log, "is not that of the certificate", times=2)
            assert "nothing has changed" not in log.read_text(), "what is wrong is said each time"
            config.write_text('log_format = "xml"\n')
            hang_up(node.process)
            until_said(log, "log_format must be text or json")
            config.write_text('log_format = "json"\nslots = 4\n')
            now = serial(node)  # before the file is there: a node looks by itself, too
            put(tmp_path, certificate("n1", days=40), "n1")
            hang_up(node.process)
            wait_until(lambda: serial(node) != now, "the newest certificate is shown")
            hang_up(node.process)
            until_said(log, "SIGHUP: nothing has changed")
            wait_until(lambda: traffic.answered >= 10, "requests go on")
        assert not traffic.failed
        gate.touch()
        row = wait_final(cluster, node, going)
        assert (row["state"], row["attempt"]) == ("SUCCEEDED", 1), "nothing that ran was touched"
        assert node.alive


def test_a_signal_ends_no_node_that_starts_or_stops(tmp_path: Path) -> None:
    cluster = Cluster(1, directory=tmp_path)
    (node,) = cluster.nodes
    node.start()
    try:
        process = node.process
        assert process is not None
        # From the moment that it is this program: before, it is the interpreter, which the signal ends.
        taken = 1 << (signal.SIGHUP - 1)
        wait_until(lambda: caught(process.pid) & taken, "it takes the signal")
        hang_up(process)
        cluster.wait_ready()
        until_said(node.log, "SIGHUP: nothing has changed")
        process.send_signal(signal.SIGTERM)
        while not has_ended(process, within_s=0.001):  # to its very end
            hang_up(process)
        assert process.returncode == 0
    finally:
        cluster.stop()


def has_ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def caught(pid: int) -> int:
    """Signals that a process has handlers for: proc(5)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)


class Known(NodeProcess):
    """A node that is asked with a token."""

    def __init__(self, cluster: Cluster, node: NodeProcess, token: str) -> None:
        super().__init__(cluster, node.id, node.http_port, node.raft_port)
        self._headers = {"Authorization": f"Bearer {token}"}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Reply:
        return super().request(method, path, body, {**self._headers, **(headers or {})}, timeout)


def test_a_worker_goes_over_to_its_new_token_and_keeps_its_runs(tmp_path: Path) -> None:
    with Cluster(1, directory=tmp_path) as cluster:
        (node,) = cluster.nodes
        root = node.request("POST", "/v1/tokens", {"name": "root", "role": "admin"}).json["secret"]
        old, new = [
            node.request("POST", "/v1/tokens", {"name": name, "role": "worker"}).json for name in ("old", "new")
        ]
        node = Known(cluster, node, root)
        assert node.request("PUT", "/v1/cluster/access", {"required": True}).status == 200
        file, config, log = tmp_path / "token", tmp_path / "worker.toml", tmp_path / "worker.log"
        file.write_text(old["secret"])
        config.write_text('grace = "1s"\n')
        command = [sys.executable, "-m", "raftsched", "worker", "--server", node.url, "--name", "w1", "--label", "at=w"]
        command += ["--data", str(tmp_path / "w1"), "--token-file", str(file), "--config", str(config), *AS_MYSELF]
        with log.open("wb") as said:
            worker = subprocess.Popen(command, env=cluster.environment, stdout=said, stderr=said)
        try:
            gate = tmp_path / "gate"
            waits = {"shell": f"while [ ! -e {gate} ]; do sleep 0.05; done"}
            there = {"trigger": {"manual": True}, "placement": {"labels": {"at": "w"}}}
            going = run(node, create(node, {**there, "handler": waits})["id"])
            cluster.wait("it runs", lambda: node.find(f"/v1/instances/{going}")["started_at"])
            file.write_text("rs_" + "x" * 43)
            for times in (2, 3):
                hang_up(worker)
                until_said(log, "The token is not known", times=times)
            assert "nothing has changed" not in log.read_text()
            file.write_text(new["secret"])
            config.write_text('grace = "2s"\nslots = 3\n')
            hang_up(worker)
            until_said(log, "is used from now on; session", "in use from now on: grace", "at the next start: slots")
            assert node.request("DELETE", f"/v1/tokens/{old['id']}").status == 204
            after = run(node, create(node, {**there, "handler": {"exec": ["true"]}})["id"])
            assert wait_final(cluster, node, after)["state"] == "SUCCEEDED"
            gate.touch()
            row = wait_final(cluster, node, going)
            assert (row["state"], row["attempt"]) == ("SUCCEEDED", 1)
            assert worker.poll() is None
            worker.terminate()
            assert worker.wait(patient(60)) == 0
        finally:
            worker.kill()
            worker.wait()
