"""Create rates, in closed loops: a connection sends its next request when the last was answered.

`create`: one job a request, with 1, 32 and 256 connections. `create-batch`: 200 jobs a request, over 1 and 8.
`create-sdk`: raftsched.AsyncClient, with 1, 32 and 256 tasks that create one job after the other; the client gathers
what is under way at one time into batches by itself. All through the leader, and all through a follower;
`follower-share` is what the follower reached of what the leader did.

`p50_ms` and `p99_ms` are what the client sees from sending a request to its answer. `leader_us` and `follower_us` (of
the costlier follower) are the processor time that a job costs these processes, in microseconds, `client_us` what it
costs raftsched.AsyncClient. `written_kib_per_job` is what a node wrote to the disk, by the counters of the disk:
others' writes are in them. `handed_kib_per_job` is what a node's process handed to write(2) for disk and connections.
`cpu_load` is the share of the machine that the load itself took, `cpu_others` what took neither load nor nodes: client
and nodes share the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from scripts.benches.figures import emit, percentile
from scripts.benches.load import closed_loop, far, one_shot, payloads, request
from scripts.benches.machine import Load
from scripts.benches.sdk import sdk_rate
from scripts.benches.usage import Meter
from tests.support.cluster import Cluster, NodeProcess

KINDS = ("single", "batch", "sdk")
THROUGH = ("leader", "follower")
IN_FLIGHT = (1, 32, 256)
BATCHES_IN_FLIGHT = (1, 8)
BATCH = 200
WARM_S = 1.0


async def bench_create(
    cluster: Cluster,
    kinds: Sequence[str],
    through: Sequence[str],
    seconds: float,
    batches_in_flight: Sequence[int] = BATCHES_IN_FLIGHT,
) -> None:
    reached: dict[tuple[str, int], float] = {}
    for who in through:
        for bench, in_flight, field, measure in _measurements(kinds, batches_in_flight):
            node = cluster.leader() if who == "leader" else cluster.followers()[0]
            found = await measure(cluster, node, in_flight, seconds)
            batch = {"batch": BATCH} if bench == "create-batch" else {}
            emit(bench, through=who, in_flight=in_flight, **batch, **found)
            if who == "leader":
                reached[bench, in_flight] = found[field]
            elif (bench, in_flight) in reached:
                share = found[field] / reached[bench, in_flight]
                emit("follower-share", of=bench, in_flight=in_flight, **batch, share=share)


def _measurements(
    kinds: Sequence[str], batches_in_flight: Sequence[int]
) -> list[tuple[str, int, str, Callable[..., Any]]]:
    """(bench, in flight, its rate's field, what measures it)"""
    found: list[tuple[str, int, str, Callable[..., Any]]] = []
    if "single" in kinds:
        found += [("create", number, "per_second", single_rate) for number in IN_FLIGHT]
    if "batch" in kinds:
        found += [("create-batch", number, "jobs_per_second", batch_rate) for number in batches_in_flight]
    if "sdk" in kinds:
        found += [("create-sdk", number, "per_second", sdk_rate) for number in IN_FLIGHT]
    return found


async def single_rate(cluster: Cluster, node: NodeProcess, in_flight: int, seconds: float) -> dict[str, Any]:
    def make() -> bytes:
        return request("POST", "/v1/jobs", node.http_port, json.dumps(one_shot(far())).encode())

    return await _rate(cluster, node, in_flight, seconds, payloads(2_000, make), 201, 1)


async def batch_rate(cluster: Cluster, node: NodeProcess, in_flight: int, seconds: float) -> dict[str, Any]:
    def make() -> bytes:
        body = json.dumps([one_shot(far()) for _ in range(BATCH)]).encode()
        return request("POST", "/v1/jobs:batch", node.http_port, body)

    return await _rate(cluster, node, in_flight, seconds, payloads(40, make), 200, BATCH)


async def _rate(
    cluster: Cluster, node: NodeProcess, in_flight: int, seconds: float, make: Callable[[], bytes], good: int, jobs: int
) -> dict[str, Any]:
    tls = cluster.tls
    await closed_loop(node.http_port, in_flight, min(WARM_S, seconds), make, good, tls)
    leader, meter, load = cluster.leader(), Meter(cluster), Load()
    count, took, latencies = await closed_loop(node.http_port, in_flight, seconds, make, good, tls)
    return {
        "per_second" if jobs == 1 else "jobs_per_second": count * jobs / took,
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
        **meter.per_job(leader, count * jobs),
        **load.shares(),
    }
