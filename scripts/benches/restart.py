"""A node's start, and three that were killed: until they write again.

`node-start`: one node alone, begun with an empty data directory and with the one that it left. `node_cpu_s` is what its
process took until /readyz answers 200, `sentinel_cpu_s` and `supervisor_cpu_s` what the two below it took until they
rest, `ready_s` the time from the start to that answer. Python's bytecode is compiled before.

`killed-cluster`: kill -9 of three nodes at once; all are started again at the same moment. From there to the
first write that any of them acknowledges.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from scripts.benches.failover import Writers
from scripts.benches.figures import emit, note, percentile
from scripts.benches.usage import cpu_s, processes_of
from tests.support.cluster import Cluster

PARTS = ("node", "cluster")
WRITE_S = 60.0  # more than a cluster takes to write again
REST_S = 0.3  # processes that took nothing for so long have started
STARTED_S = 30.0


def bench_node_start(directory: Path, starts: int) -> None:
    """Starts a node so many times with an empty directory, and each of these again with what it left."""
    measured: dict[str, list[dict[str, float]]] = {"empty": [], "used": []}
    _start_twice(directory / "compiled")
    for number in range(starts):
        for which, figures in _start_twice(directory / str(number)).items():
            measured[which].append(figures)
            note(f"{which}: {', '.join(f'{name} {value:.3f}' for name, value in figures.items())}")
    for which, found in measured.items():
        figures = {name: [one[name] for one in found] for name in found[0]}
        emit(
            "node-start",
            directory=which,
            starts=starts,
            **{name: percentile(values, 0.5) for name, values in figures.items()},
            **{f"{name.removesuffix('_s')}_max_s": max(values) for name, values in figures.items()},
        )


def _start_twice(directory: Path) -> dict[str, dict[str, float]]:
    cluster = Cluster(1, directory=directory)
    found = {}
    try:
        for which in ("empty", "used"):
            found[which] = _start_once(cluster)
            cluster.nodes[0].terminate()
    finally:
        cluster.stop()
    return found


def _start_once(cluster: Cluster) -> dict[str, float]:
    (node,) = cluster.nodes
    began = time.perf_counter()
    node.start()
    cluster.wait("n1 to be ready", node.ready)
    ready = time.perf_counter()
    assert node.process is not None
    pid = node.process.pid
    taken = cpu_s(pid)
    below = cluster.wait("sentinel and supervisor", lambda: len(found := processes_of(pid)) > 2 and found[1:3])
    sentinel, supervisor = _at_rest(below)
    return {
        "node_cpu_s": taken,
        "sentinel_cpu_s": sentinel,
        "supervisor_cpu_s": supervisor,
        "ready_s": ready - began,
    }


def _at_rest(pids: list[int]) -> list[float]:
    """Returns what each of them took, once they take no more."""
    deadline = time.monotonic() + STARTED_S
    taken = [cpu_s(pid) for pid in pids]
    while time.monotonic() < deadline:
        time.sleep(REST_S)
        now = [cpu_s(pid) for pid in pids]
        if all(new - old < 0.001 for old, new in zip(taken, now, strict=True)):
            return now
        taken = now
    raise RuntimeError("the processes below the node do not come to rest")


async def bench_killed_cluster(cluster: Cluster, kills: int) -> None:
    outages: list[float] = []
    async with Writers(cluster, each=1) as writers:
        for _ in range(kills):
            outages.append(await _outage(cluster, writers))
            note(f"killed all: {outages[-1]:.3f} s to the next write")
    emit(
        "killed-cluster",
        kills=kills,
        p50_s=percentile(outages, 0.5),
        p90_s=percentile(outages, 0.9),
        min_s=min(outages),
        max_s=max(outages),
    )


async def _outage(cluster: Cluster, writers: Writers) -> float:
    """Kills all nodes and starts them; seconds to the next write that is acknowledged. All are ready when this
    returns."""
    await asyncio.to_thread(cluster.leader)
    for node in cluster.nodes:
        assert node.process is not None
        node.process.kill()
    for node in cluster.nodes:
        await asyncio.to_thread(node.kill)
    began = time.perf_counter()
    for node in cluster.nodes:
        node.start()
    written = await asyncio.wait_for(writers.next_after(began), WRITE_S)
    await asyncio.to_thread(cluster.wait_ready)
    await asyncio.sleep(1.0)  # a checkpoint: what was written meanwhile is no part of the next start
    return written - began
