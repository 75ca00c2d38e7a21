"""The node processes: started, killed, started again, and asked how they are."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.clock import SECOND, boot_ns
from harness.history import History
from harness.http import NoAnswer, NotSent, Reply, ask
from harness.machine import Machine
from harness.network import Network
from harness.program import Program
from harness.workers import RemoteWorker

HERE = Path(__file__).resolve().parent.parent
JOBS = HERE / "jobs"
BROKEN = HERE / "broken"
DISK = "384m"  # of each node, where its disk is one of its own
START_S = 60.0
KEEP = "1d"  # the judges look for all one-shots in the end, however long it takes
WORKER_TTL = "5s"


class Node(Program):
    """One `raftsched node` process."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(name, cluster.directory / name)
        self.cluster = cluster
        self.data = self.directory / "data"
        self.undo = self.directory / "undo"
        self.hold = self.directory / "hold"  # while it is there, nothing is synced
        self.waits = self.directory / "hold.waits"  # a sync waits for that

    def prepare(self) -> None:
        for directory in (self.data, self.undo):
            directory.mkdir(parents=True, exist_ok=True)
        self.clock.write_bytes(bytes(8))
        if self.cluster.own_disks:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "none", str(self.data)], check=True)

    @property
    def address(self) -> tuple[str, int]:
        return self.cluster.network.http(self.name)

    async def start(self, *flags: str) -> None:
        if self.alive:
            return
        self.starts += 1
        for file in self.undo.iterdir():
            file.unlink()
        self.waits.unlink(missing_ok=True)
        command = [*self.cluster.network.prefix(self.name), *self.cluster.command(self.name), *flags]
        await self.cluster.network.started(self.name, self.begin(command, self.environment()))

    def environment(self) -> dict[str, str]:
        """Returns what comes to the usual one."""
        env: dict[str, str] = {}
        machine = self.cluster.machine
        loaded = []
        if machine.shim is not None:
            loaded.append(machine.shim)
            env |= {"UNSYNCED_DIR": str(self.data), "UNSYNCED_UNDO": str(self.undo), "UNSYNCED_HOLD": str(self.hold)}
        if machine.clock is not None:
            loaded.append(machine.clock)
            env["WALLCLOCK_OFFSET"] = str(self.clock)
        if loaded:
            env["LD_PRELOAD"] = " ".join(loaded)
        return env

    def wipe(self) -> None:
        """An empty disk, as a new machine has."""
        for entry in self.data.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        return await ask(self.address, method, path, body, **more)

    async def get(self, path: str, timeout_s: float = 5.0) -> Any:
        """The JSON of a GET; None when the node does not answer it well."""
        try:
            reply = await self.ask("GET", path, timeout_s=timeout_s)
        except (NotSent, NoAnswer):
            return None
        return reply.json if reply.status == 200 else None


class Cluster:
    def __init__(
        self,
        names: Sequence[str],
        network: Network,
        machine: Machine,
        directory: Path,
        history: History,
        broken: str | None = None,
        workers: Sequence[str] = (),
        voters: Sequence[str] = (),
    ) -> None:
        """`workers`: names of remote workers. `voters`: nodes that run no jobs."""
        self.network = network
        self.machine = machine
        self.directory = directory
        self.history = history
        self.own_disks = machine.namespaces
        self.nodes = [Node(self, name) for name in names]
        self.workers = [RemoteWorker(self, name) for name in workers]
        self._voters = voters
        self._broken = broken
        self._key = directory / "cluster.key"

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def others(self, node: Node) -> list[Node]:
        return [other for other in self.nodes if other is not node]

    def command(self, name: str) -> list[str]:
        def at(address: tuple[str, int]) -> str:
            return f"{address[0]}:{address[1]}"

        peers = ",".join(f"{node.name}={at(self.network.dialled(node.name))}" for node in self.nodes)
        program = ["-m", "raftsched"] if self._broken is None else [str(BROKEN / f"{self._broken}.py")]
        return [
            *(sys.executable, *program, "node", "--id", name, "--data", str(self.node(name).data)),
            *("--http", at(self.network.http(name)), "--raft", at(self.network.raft(name))),
            *("--advertise-raft", at(self.network.dialled(name)), "--peers", peers),
            *("--cluster-key-file", str(self._key), "--pythonpath", str(JOBS)),
            # Jobs write where the judges look.
            *(("--run-as", "root") if os.geteuid() == 0 else ("--jobs-as-node",)),
            *(("--no-run",) if name in self._voters else ("--slots", "32")),
            *("--insecure-http", "--open"),  # a network of its own, and nobody in it but the harness
        ]

    async def start(self) -> str | None:
        """What is amiss after a while; None: all is well."""
        self._key.write_text(os.urandom(32).hex())
        self._key.chmod(0o600)
        for node in self.nodes:
            node.prepare()
            await node.start()
        amiss = await self.wait_well(START_S)
        if amiss is None:
            amiss = await self._set("once_succeeded_keep", KEEP)
        if amiss is None and self.workers:
            amiss = await self._start_workers()
        return amiss

    async def _set(self, setting: str, value: str) -> str | None:
        """What is amiss."""
        done = await self.nodes[0].ask("PATCH", "/v1/cluster/settings", {setting: value})
        return None if done.status == 200 else f"{setting} was not set: {done.status} {done.body[:300]!r}"

    async def _start_workers(self) -> str | None:
        """What is amiss; None: all have a session. Theirs last as long as those of nodes, for the judges' windows."""
        amiss = await self._set("worker_ttl", WORKER_TTL)
        if amiss is not None:
            return amiss
        for worker in self.workers:
            worker.prepare()
            await worker.start()
        end = boot_ns() + int(START_S * SECOND)
        while boot_ns() < end:
            listed = await self.nodes[0].get("/v1/workers?limit=1000")
            if listed is not None and len(listed["items"]) >= len(self.workers):
                return None
            await asyncio.sleep(0.2)
        return f"the remote workers have no sessions: {tail(self.workers[0].log)}"

    async def leader(self, patience_s: float = 0.0) -> Node | None:
        """That a majority names, when it lives."""
        end = boot_ns() + int(patience_s * SECOND)
        while True:
            said = await asyncio.gather(*(node.get("/v1/cluster", 1.0) for node in self.nodes if node.alive))
            names = [view["leader"] for view in said if view is not None]
            for name in set(names):
                if name is not None and names.count(name) > len(self.nodes) // 2:
                    return self.node(name)
            if boot_ns() >= end:
                return None
            await asyncio.sleep(0.1)

    async def well(self) -> str | None:
        """What is amiss; None: all run, follow one leader, and have what it has."""
        dead = [node.name for node in self.nodes if not node.alive]
        if dead:
            return f"{', '.join(dead)} not running"
        leader = await self.leader()
        if leader is None:
            return "no leader"
        view = await leader.get("/v1/cluster")
        if view is None or view["leader"] != leader.name:
            return "the leader does not answer"
        behind = [n["id"] for n in view["nodes"] if not n["alive"] or (n["lag"] or 0) > 50]
        if behind or len(view["nodes"]) != len(self.nodes):
            return f"not all there: {', '.join(behind) or len(view['nodes'])}"
        for node in self.nodes:
            if await node.get("/readyz", 2.0) is None and not await self._is_ready(node):
                return f"{node.name} is not ready"
        return None

    async def _is_ready(self, node: Node) -> bool:
        try:
            return (await node.ask("GET", "/readyz", timeout_s=2.0)).status == 200
        except (NotSent, NoAnswer):
            return False

    async def wait_well(self, timeout_s: float) -> str | None:
        """What is still amiss after that time; None: nothing."""
        end = boot_ns() + int(timeout_s * SECOND)
        while (amiss := await self.well()) is not None:
            if boot_ns() > end:
                return amiss
            await asyncio.sleep(0.2)
        return None

    async def restart_dead(self) -> None:
        """Those that ended by themselves are started again; it is written down, and counts when nobody expected it."""
        for node in self.nodes:
            if node.process is not None and not node.alive and not node.expected:
                self.history.note("exit", node=node.name, code=node.process.returncode, log=tail(node.log))
                await node.start()
        for worker in self.workers:
            if worker.process is not None and not worker.alive and not worker.expected:
                self.history.note("exit", node=worker.name, code=worker.process.returncode, log=tail(worker.log))
                await worker.start()

    async def kill(self, nodes: Sequence[Node]) -> None:
        """All in one moment."""
        for node in nodes:
            node.expected = True  # before the first is dead: nobody starts it meanwhile
        for node in nodes:
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
        for node in nodes:
            await node.kill()

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.kill()
        for node in self.nodes:
            if node.alive:
                assert node.process is not None
                node.expected = True
                node.process.send_signal(signal.SIGCONT)
                node.process.terminate()
        for node in self.nodes:
            if node.process is not None:
                try:
                    await asyncio.to_thread(node.process.wait, 20)
                except subprocess.TimeoutExpired:
                    await node.kill()
        await self.network.close()
        if self.own_disks:
            for node in self.nodes:
                subprocess.run(["umount", "-l", str(node.data)], check=False, stderr=subprocess.DEVNULL)


def tail(file: Path, size: int = 2_000) -> str:
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - size))
        return log.read().decode(errors="replace")


Rows = Sequence[Mapping[str, Any]]
