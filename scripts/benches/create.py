"""Create rates, in closed loops: a connection sends its next request when the last was answered.

One job a request with 1, 32 and 256 connections, then batches of 200 jobs over 8. `p50_ms` and `p99_ms` are what the
client sees from sending a request to its answer.
"""

from __future__ import annotations

import json

from scripts.benches.figures import emit, percentile
from scripts.benches.load import closed_loop, far, one_shot, payloads, request
from tests.support.cluster import Cluster


async def bench_create(cluster: Cluster, seconds: float, through: str) -> None:
    target = cluster.leader() if through == "leader" else cluster.followers()[0]
    port = target.http_port
    single = payloads(2000, lambda: request("POST", "/v1/jobs", port, json.dumps(one_shot(far())).encode()))
    for connections in (1, 32, 256):
        await closed_loop(port, connections, min(1.0, seconds), single, 201)
        count, took, latencies = await closed_loop(port, connections, seconds, single, 201)
        emit(
            "create",
            through=through,
            in_flight=connections,
            per_second=count / took,
            p50_ms=percentile(latencies, 0.5),
            p99_ms=percentile(latencies, 0.99),
        )
    size = 200
    many = payloads(
        40,
        lambda: request("POST", "/v1/jobs:batch", port, json.dumps([one_shot(far()) for _ in range(size)]).encode()),
    )
    await closed_loop(port, 8, min(1.0, seconds), many, 200)
    count, took, latencies = await closed_loop(port, 8, seconds, many, 200)
    emit(
        "create-batch",
        through=through,
        batch=size,
        in_flight=8,
        jobs_per_second=count * size / took,
        p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99),
    )
