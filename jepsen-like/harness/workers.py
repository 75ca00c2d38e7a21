"""Remote workers: processes that run jobs and hold no vote. They come and go as they like; the nodes have to cope."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.program import Program

if TYPE_CHECKING:
    from harness.cluster import Cluster

HERE = Path(__file__).resolve().parent
JOBS = HERE.parent / "jobs"
SLOTS = 8
GRACE = "2s"


class RemoteWorker(Program):
    """One `raftsched worker` process."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(name, cluster.directory / name)
        self.cluster = cluster

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.clock.write_bytes(bytes(8))

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
        self.starts += 1
        clock = self.cluster.machine.clock
        more = {} if clock is None else {"LD_PRELOAD": clock, "WALLCLOCK_OFFSET": str(self.clock)}
        self.begin([*self.cluster.network.prefix(self.name), *self.command()], more)
