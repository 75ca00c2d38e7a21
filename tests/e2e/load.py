"""Load on a cluster of real processes, and what has to be true of it afterwards."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from tests.e2e.steps import at
from tests.support.cluster import Cluster

STANDSTILL_S = 20.0


class Writers:
    """Creates jobs through all nodes (those of `cluster.nodes` at the time) from several threads until told to stop;
    remembers what was acknowledged, and what else was answered."""

    def __init__(self, cluster: Cluster, count: int = 3) -> None:
        self._cluster = cluster
        self.refused: list[tuple[str, int, bytes]] = []  # node, status, body
        self._stop = threading.Event()
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._write, args=(i,)) for i in range(count)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        rng = random.Random(number)
        while not self._stop.is_set():
            node = rng.choice(self._cluster.nodes)
            try:
                reply = node.request(
                    "POST",
                    "/v1/jobs",
                    {"trigger": {"at": at(7200)}, "handler": {"exec": ["true"]}},
                    timeout=15,
                )
            except Exception:
                continue
            assert reply.status in (201, 503, 504), (reply.status, reply.body)
            if reply.status == 201:
                self.acknowledged.append(reply.json["id"])
            else:
                self.refused.append((node.id, reply.status, reply.body))

    def go_on(self, what: str, count: int = 20) -> None:
        """Waits until so many more are acknowledged: the load never stands still for longer than a fixed patience."""
        before = len(self.acknowledged)
        self._cluster.wait(
            f"creates go on {what}", lambda: len(self.acknowledged) >= before + count, timeout=STANDSTILL_S
        )


def check_acknowledged(cluster: Cluster, ids: list[str]) -> None:
    assert ids
    for node in cluster.alive():
        cluster.wait(
            f"all acknowledged jobs on {node.id}",
            lambda node=node: all(node.request("GET", f"/v1/jobs/{i}").status == 200 for i in ids),
        )


def lives(file: Path) -> list[tuple[str, float, float]]:
    """(who, start, end) of each run that wrote its start and its end."""
    runs: dict[str, list[float]] = {}
    for line in file.read_text().splitlines():
        who, when = line.split()
        runs.setdefault(who, []).append(float(when))
    return [(who, times[0], times[-1]) for who, times in runs.items()]
