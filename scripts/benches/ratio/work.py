"""Fixed amounts of work for three nodes, and the processor time that each piece costs all of their processes, by the
processes' own clocks (utime and stime; those that ended are counted with who waited for them).

A Part starts nothing: it is given nodes that are ready. Amounts are divided by what is given as `less`, for short runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from scripts.benches.figures import note
from scripts.benches.load import create_all, far, one_shot, request, rfc3339, send_all
from scripts.benches.run import LIMIT_S, WARM, done_count, noops, wait_runs
from scripts.benches.usage import Used, used
from tests.support.cluster import Cluster

REST_S = 0.5  # until followers have applied what is committed
ASKED_S = 0.3  # between two looks at how many runs ended
IDLE_S = 10.0
STARTED_S = 5.0  # until nodes are ready: a start goes on behind the first answer
KINDS = ("python", "http", "exec", "shell")
SINGLE, IN_FLIGHT = 10_000, 256
BATCHES, BATCH, BATCHES_IN_FLIGHT = 100, 200, 8
RUNS = {"python": 5_000, "http": 3_000, "exec": 400, "shell": 400}
PERIODIC = {"python": 300, "http": 200, "exec": 50, "shell": 50}  # jobs
PERIOD_S, PERIODS = 1, 5
STALLED_S = 3.0  # periodic runs have ended when no more end for so long


@dataclass(frozen=True, slots=True)
class Cost:
    """`each` in microseconds of processor time of all processes, `below` the part that is not the nodes' own."""

    each: float
    below: float


@dataclass(frozen=True, slots=True)
class Part:
    """`figure` is what it measures, in words."""

    name: str
    figure: str
    measure: Callable[[Cluster, float], Awaitable[Cost]]


def _total(cluster: Cluster) -> Used:
    return sum(used(cluster.nodes).values(), Used())


async def _cost(cluster: Cluster, work: Callable[[], Awaitable[float]]) -> Cost:
    """Returns the cost of one of the pieces that the work says it did."""
    before = _total(cluster)
    pieces = await work()
    await asyncio.sleep(REST_S)
    spent = _total(cluster) - before
    return Cost(spent.all_cpu_s / pieces * 1e6, spent.below_cpu_s / pieces * 1e6)


async def _idle(cluster: Cluster, less: float) -> Cost:
    async def rest() -> float:
        began = time.monotonic()
        await asyncio.sleep(max(2.0, IDLE_S / less))
        return time.monotonic() - began + REST_S

    return await _cost(cluster, rest)


async def _creates(cluster: Cluster, path: str, status: int, bodies: list[bytes], in_flight: int, jobs: int) -> Cost:
    """Warms up with a tenth of the bodies, and measures the others."""
    port = (await asyncio.to_thread(cluster.leader)).http_port
    requests = [request("POST", path, port, body) for body in bodies]

    def check(answered: int, body: bytes) -> None:
        if answered != status or (status == 200 and any(i["status"] != 201 for i in json.loads(body)["items"])):
            raise RuntimeError(f"status {answered}: {body[:300]!r}")

    warm = max(1, len(requests) // 10)
    await send_all(port, in_flight, iter(requests[:warm]), check)

    async def create() -> float:
        await send_all(port, in_flight, iter(requests[warm:]), check)
        return (len(requests) - warm) * jobs

    return await _cost(cluster, create)


async def _single(cluster: Cluster, less: float) -> Cost:
    bodies = [json.dumps(one_shot(far())).encode() for _ in range(max(20, int(SINGLE / less)))]
    return await _creates(cluster, "/v1/jobs", 201, bodies, IN_FLIGHT, 1)


async def _batch(cluster: Cluster, less: float) -> Cost:
    count = max(2, int(BATCHES / less))
    bodies = [json.dumps([one_shot(far()) for _ in range(BATCH)]).encode() for _ in range(count)]
    return await _creates(cluster, "/v1/jobs:batch", 200, bodies, BATCHES_IN_FLIGHT, BATCH)


async def runs(cluster: Cluster, handler: dict[str, Any], count: int, warm: int = WARM) -> Cost:
    """Returns the cost of a one-shot that is due at once, from its create to its end."""
    node = await asyncio.to_thread(cluster.leader)

    async def run(wanted: int) -> float:
        before = await asyncio.to_thread(done_count, cluster)
        job = {"trigger": {"at": rfc3339(int(time.time() * 1000))}, "handler": handler}
        await create_all(node, [job] * wanted)
        await wait_runs(cluster, before + wanted, LIMIT_S, ASKED_S)
        return wanted

    await run(min(warm, count))
    await asyncio.sleep(REST_S)
    return await _cost(cluster, lambda: run(count))


def _one_shots(kind: str) -> Callable[[Cluster, float], Awaitable[Cost]]:
    async def measure(cluster: Cluster, less: float) -> Cost:
        async with noops() as handlers:
            return await runs(cluster, handlers[kind], max(10, int(RUNS[kind] / less)))

    return measure


def _periodic(kind: str) -> Callable[[Cluster, float], Awaitable[Cost]]:
    async def measure(cluster: Cluster, less: float) -> Cost:
        async with noops() as handlers:
            await runs(cluster, handlers[kind], max(10, int(WARM / less)))
            return await _cost(cluster, lambda: _every(cluster, handlers[kind], max(2, int(PERIODIC[kind] / less))))

    return measure


async def _every(cluster: Cluster, handler: dict[str, Any], count: int) -> float:
    """Runs as many jobs every PERIOD_S, all at one instant, PERIODS times: spread over time, the fixed costs of write
    batches would be more than the runs'. Returns how many runs ended."""
    node = await asyncio.to_thread(cluster.leader)
    before = done = await asyncio.to_thread(done_count, cluster)
    begin_ms = int(time.time() * 1000) + 1_000
    ends_ms = begin_ms + (PERIODS - 1) * PERIOD_S * 1000 + 1
    every = {"every": f"{PERIOD_S}s", "starts_at": rfc3339(begin_ms), "ends_at": rfc3339(ends_ms)}
    await create_all(node, [{"trigger": every, "handler": handler}] * count)
    moved = time.monotonic() + PERIOD_S
    while done < before + count * PERIODS and time.monotonic() < moved + STALLED_S:
        await asyncio.sleep(ASKED_S)
        now = await asyncio.to_thread(done_count, cluster)
        if now > done:
            done, moved = now, time.monotonic()
    ended = done - before
    if ended < count:
        raise RuntimeError(f"only {ended} of {count * PERIODS} periodic runs ended")
    if ended != count * PERIODS:
        note(f"  {ended} of {count * PERIODS} periodic runs: others were skipped, or came late")
    return ended


PARTS = (
    Part("idle", "idle second", _idle),
    Part("create", f"single create, {IN_FLIGHT} in flight", _single),
    Part("batch", f"job of a batch of {BATCH}", _batch),
    *(Part(kind, f"{kind} run, one-shot", _one_shots(kind)) for kind in KINDS),
    *(Part(f"{kind}-periodic", f"{kind} run, periodic", _periodic(kind)) for kind in KINDS),
)
