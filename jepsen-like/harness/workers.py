"""Remote workers: processes that run jobs and hold no vote. They come and go as they like; the nodes have to cope."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.clock import SECOND, boot_ns

if TYPE_CHECKING:
    from harness.cluster import Cluster

HERE = Path(__file__).resolve().parent
JOBS = HERE.parent / "jobs"
END_WITH = HERE / "end_with.py"
SLOTS = 8
GRACE = "2s"


class RemoteWorker:
    """One `raftsched worker` process. `expected`: it may end by itself, because of what is done to it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.directory = cluster.directory / name
        self.clock = self.directory / "clock"  # what is added to its wall clock, in nanoseconds
        self.log = self.directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.expected = False
        self.starts = 0

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.clock.write_bytes(bytes(8))

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        addresses = [self.cluster.network.http(node.name) for node in self.cluster.nodes]
        shift = self.starts % len(addresses)  # each begins with another node
        servers = ",".join(f"http://{host}:{port}" for host, port in addresses[shift:] + addresses[:shift])
        return [
            *(sys.executable, "-m", "raftsched", "worker", "--server", servers, "--name", self.name),
            *("--slots", str(SLOTS), "--pythonpath", str(JOBS), "--grace", GRACE, "--data", str(self.directory)),
            # Jobs write where the judges look.
            *(("--run-as", "root") if os.geteuid() == 0 else ("--jobs-as-node",)),
        ]

    async def start(self) -> None:
        if self.alive:
            return
        self.expected = False
        self.starts += 1
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")}
        if self.cluster.machine.clock is not None:
            env |= {"LD_PRELOAD": self.cluster.machine.clock, "WALLCLOCK_OFFSET": str(self.clock)}
        command = [*self.cluster.network.prefix(self.name), *self.command()]
        with self.log.open("ab") as log:
            log.write(f"---- start {self.starts} at {boot_ns() / SECOND:.3f}\n".encode())
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-E", str(END_WITH), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )

    def shift_clock(self, seconds: float) -> None:
        with self.clock.open("r+b") as file:  # in place: the worker has it mapped
            file.write(struct.pack("=q", round(seconds * SECOND)))

    async def kill(self) -> None:
        if self.process is not None:
            self.expected = True
            if self.process.poll() is None:
                self.process.kill()
            await asyncio.to_thread(self.process.wait)

    async def terminate(self, timeout_s: float = 30.0) -> int | None:
        """SIGTERM; None: it did not end in time and was killed."""
        assert self.process is not None
        self.expected = True
        self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self.process.wait, timeout_s)
        except subprocess.TimeoutExpired:
            await self.kill()
            return None
