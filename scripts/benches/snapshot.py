"""A backup (GET /v1/cluster/snapshot) of so many jobs, and what it does to creates meanwhile.

Single creates arrive at a steady rate through the leader, whatever their answers do (a latency counts from when a
request was due): `calm_p99_ms` is what they see before, `create_p99_ms` while a backup of the leader (`through`) or of
a follower is downloaded. A node sends it no faster than 64 MiB a second.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import OpenLoad, far, one_shot, payloads, request
from scripts.benches.machine import Load
from scripts.benches.scale import Stored, fill
from tests.support.cluster import Cluster, NodeProcess

CONNECTIONS = 256
CALM_S = 5.0
PIECE = 1 << 20


async def bench_snapshot(cluster: Cluster, jobs: int, per_second: int) -> None:
    await fill(cluster, Stored(), jobs)
    leader = await asyncio.to_thread(cluster.leader)
    port = leader.http_port
    single = payloads(2_000, lambda: request("POST", "/v1/jobs", port, json.dumps(one_shot(far())).encode()))
    for through, node in (("leader", leader), ("follower", cluster.followers_of(leader)[0])):
        async with OpenLoad(port, per_second, CONNECTIONS, single, 201) as creates:
            await asyncio.sleep(1)
            calm = time.perf_counter()
            await asyncio.sleep(CALM_S)
            note(f"downloading a backup of {node.id}, the {through} ...")
            began, load = time.perf_counter(), Load()
            size = await asyncio.to_thread(_download, node)
            ended, shares = time.perf_counter(), load.shares()
            await asyncio.sleep(0.5)
        _, before = creates.window(calm, began)
        rate, during = creates.window(began, ended)
        emit(
            "snapshot",
            through=through,
            jobs=jobs,
            seconds=ended - began,
            size_mib=size / 2**20,
            creates_per_second=rate,
            calm_p50_ms=percentile(before, 0.5),
            calm_p99_ms=percentile(before, 0.99),
            create_p50_ms=percentile(during, 0.5),
            create_p99_ms=percentile(during, 0.99),
            create_max_ms=max(during, default=float("nan")),
            **shares,
        )


def _download(node: NodeProcess) -> int:
    """Bytes. Raises http.client.IncompleteRead when it breaks off."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=120)
    try:
        connection.request("GET", "/v1/cluster/snapshot")
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {response.read(300)!r}")
        size = 0
        while piece := response.read(PIECE):
            size += len(piece)
        return size
    finally:
        connection.close()
