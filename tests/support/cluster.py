"""Real node processes on loopback, for end-to-end tests and benchmarks. Nothing outlives `stop`."""

from __future__ import annotations

import os
import signal
import site
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from raftsched.security.keyring import KEY_FILE, own_key
from tests.support.api_nodes import ApiCluster, ApiNode
from tests.support.authority import Files, ca_file, certificate, put
from tests.support.ports import free_ports
from tests.support.started import started

ROOT = Path(__file__).parents[2]
# Jobs of tests write where the tests do.
AS_MYSELF = ("--run-as=root",) if os.geteuid() == 0 else ("--jobs-as-node",)


class NodeProcess(ApiNode):
    """One `raftsched node` process."""

    def __init__(self, cluster: Cluster, node_id: str, http_port: int, raft_port: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.http_port = http_port
        self.raft_port = raft_port
        self.reached_port = raft_port  # by which the others reach it: another one where something is in between
        self.data = cluster.directory / node_id
        self.log = cluster.directory / f"{node_id}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.source: Path | None = None  # holds the package that it runs; None: that of these tests

    def faults(self) -> list[str]:
        """Returns what the log says of tasks that met faults (raftsched.system.background)."""
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(errors="replace").splitlines() if " met a fault" in line]

    def start(self, *flags: str) -> None:
        """`flags` beside those of all nodes."""
        with self.log.open("ab") as log:
            environment = self.cluster.environment
            if self.source is not None:
                environment = {**environment, "PYTHONPATH": str(self.source)}
                if os.geteuid() != 0 and self.cluster.as_myself:
                    environment["RAFTSCHED_JOBS_AS_NODE"] = "true"  # for 0.2.0, which has no such flag, says nothing
            started("node")
            self.process = subprocess.Popen(
                self.command(*flags),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.source,
            )  # fmt: skip

    def command(self, *flags: str) -> list[str]:
        """Returns what starts it; the peer list names the nodes that there are."""
        cluster = self.cluster
        peers = ",".join(f"{n.id}=127.0.0.1:{n.reached_port}" for n in cluster.nodes)
        advertised = ["--advertise-raft", f"127.0.0.1:{self.reached_port}"]
        return [
            *(cluster.interpreter, "-m", "raftsched", "node", "--id", self.id, "--data", str(self.data)),
            *("--http", f"127.0.0.1:{self.http_port}", "--raft", f"127.0.0.1:{self.raft_port}", "--peers", peers),
            *(advertised if self.reached_port != self.raft_port else ()),
            *self._usual(),
            *cluster.tls_flags(self),
            *cluster.flags,
            *flags,
        ]

    def _usual(self) -> list[str]:
        """Returns the flags of every node, without those that the cluster's version lacks."""
        cluster = self.cluster
        flags: list[tuple[str, ...]] = [("--grace", "1s"), ("--http-allow", "loopback")]
        if "--insecure-raft" not in cluster.flags:
            flags.append(("--cluster-key-file", str(cluster.key_file)))
        if self.source is None or os.geteuid() == 0:  # 0.2.0 has no such flag
            flags.append(cluster.as_myself)
        known = [words for words in flags if not words or words[0].partition("=")[0] not in cluster.lacks]
        return [word for words in known for word in words]

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self.cluster.tls

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout: float = 30.0) -> int:
        """SIGTERM, and waits for the end. Returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class Cluster(ApiCluster[NodeProcess]):
    """`with Cluster(3) as cluster:` starts and waits; leaving ends every process."""

    def __init__(
        self,
        size: int = 3,
        *,
        flags: Sequence[str] = (),
        directory: Path | None = None,
        pythonpath: Path | None = None,
        tls: bool = False,
        as_myself: bool = True,
        interpreter: str = sys.executable,
    ) -> None:
        """`interpreter`: another one of the same version, with the packages of this one.
        `tls`: the API speaks it, with certificates of tests.support.authority, one a node. `as_myself`: jobs run as
        the user of the tests, also where that is root."""
        self._temporary = tempfile.TemporaryDirectory(prefix="raftsched-") if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary else directory or Path()
        self.directory.mkdir(parents=True, exist_ok=True)
        own_key(self.directory)
        self.key_file = self.directory / KEY_FILE
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        self.interpreter = interpreter
        if interpreter != sys.executable:
            self.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *site.getsitepackages()])
        self.flags = list(flags)
        self.lacks: frozenset[str] = frozenset()  # of the usual flags, those that the version of its nodes lacks
        self.as_myself = AS_MYSELF if as_myself else ()
        if pythonpath is not None:
            self.flags += ["--pythonpath", str(pythonpath)]
        self.tls = ssl.create_default_context(cafile=ca_file()) if tls else None
        self.nodes: list[NodeProcess] = []
        ports = free_ports(2 * size)
        for i in range(size):
            self.nodes.append(NodeProcess(self, f"n{i + 1}", ports[2 * i], ports[2 * i + 1]))

    def tls_flags(self, node: NodeProcess) -> list[str]:
        if self.tls is None:
            return []
        files = Files(self.directory / f"{node.id}.pem", self.directory / f"{node.id}.key")
        if not files.cert.exists():  # else a test may have given it another one
            put(self.directory, certificate(node.id), node.id)
        return ["--tls-cert", str(files.cert), "--tls-key", str(files.key), "--tls-ca", str(ca_file())]

    def add(self, node_id: str) -> NodeProcess:
        """One more node, not started yet."""
        http_port, raft_port = free_ports(2)
        node = NodeProcess(self, node_id, http_port, raft_port)
        self.nodes.append(node)
        return node

    def __enter__(self) -> Cluster:
        started("cluster of processes")
        try:
            for node in self.nodes:
                node.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        faults = [] if kind is not None else [fault for node in self.nodes for fault in node.faults()]
        self.stop()
        assert not faults, "tasks met faults:\n" + "\n".join(faults)

    def stop(self) -> None:
        for node in self.nodes:
            if node.alive and node.process is not None:
                node.process.terminate()
        for node in self.nodes:
            if node.process is not None:
                try:
                    node.process.wait(30)
                except subprocess.TimeoutExpired:
                    node.kill()
        if self._temporary is not None:
            self._temporary.cleanup()
