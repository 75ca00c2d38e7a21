"""Runs from create to succeeded, and a burst.

`run`: jobs that do nothing and are due at once (python: a function in a warm process; concurrent: one of which such a
process takes 50 runs at a time, for which the cluster needs the handlers of jobs/noops.py; http: a POST to a server of
the benchmark's own; exec and shell: `true`), created in batches of 500 as fast as they are taken; per second from the
first create to the last success, by the instances' own records. `burst`: jobs due at one instant, created well before
it, and how late each begins by the wall clock that it reads as the first thing (`lateness_...`, `last_start_ms`).

`cpu_per_start_us` is the processor time of all nodes with the processes below them for one run, its creation counted;
`written_kib_per_start` what a node wrote to the disk, by the counters of the disk (others' writes are in them;
`handed_kib_per_start`, what a node's process handed to write(2) for disk and connections, is not touched by those).
`cpu_load` is the share of the machine that the load took, `cpu_others` what took neither load nor nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import create_all, rfc3339
from scripts.benches.machine import Load
from scripts.benches.starts import account, handler, marks_file, parse_ms, read_marks, wait_marks
from scripts.benches.usage import Meter
from tests.support.cluster import Cluster, NodeProcess

COUNTS = {"python": 10_000, "concurrent": 10_000, "http": 5_000, "exec": 2_000, "shell": 2_000}  # by handler
WARM = 300  # runs before, so that processes are there
LIMIT_S = 180.0


def instances(node: NodeProcess, since_ms: int) -> list[dict[str, Any]]:
    """All instances scheduled from `since_ms` on."""
    found: list[dict[str, Any]] = []
    path: str | None = f"/v1/instances?limit=1000&from={rfc3339(since_ms)}"
    while path:
        page = node.get(path)
        found += page["items"]
        path = f"/v1/instances?limit=1000&from={rfc3339(since_ms)}&cursor={page['next']}" if page["next"] else None
    return found


def done_count(cluster: Cluster) -> int:
    """Runs that ended, as the leader's metrics count them."""
    text = cluster.leader().request("GET", "/metrics").body.decode()
    total = 0.0
    for line in text.splitlines():
        if line.startswith("raftsched_attempts_ended_total"):
            total += float(line.rsplit(" ", 1)[1])
    return int(total)


async def wait_runs(cluster: Cluster, wanted: int, limit_s: float, every_s: float = 0.1) -> None:
    """Asks the leader so often: each answer is work of its own."""
    deadline = time.perf_counter() + limit_s
    while (done := await asyncio.to_thread(done_count, cluster)) < wanted:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"only {done} of {wanted} runs ended within {limit_s:.0f} s")
        await asyncio.sleep(every_s)


class _Answering(asyncio.Protocol):
    """Answers each request with 200, as little as that takes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + size:
                return
            self._buffer = self._buffer[end + 4 + size :]
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@asynccontextmanager
async def noops() -> AsyncIterator[dict[str, Any]]:
    """Handlers that do nothing, by kind."""
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield {
            "python": {"python": "raftsched.samples:noop"},
            "concurrent": {"call": "noop"},
            "http": {"http": {"url": f"http://127.0.0.1:{port}/", "method": "POST"}},
            "exec": {"exec": ["true"]},
            "shell": {"shell": "true"},
        }
    finally:
        server.close()


async def bench_runs(cluster: Cluster, kinds: list[str], count: int) -> None:
    """`count` of each; 0: what COUNTS says."""
    async with noops() as handlers:
        for kind in kinds:
            await _throughput(cluster, kind, handlers[kind], WARM, False)
            await _throughput(cluster, kind, handlers[kind], count or COUNTS[kind], True)


async def _throughput(cluster: Cluster, kind: str, what: dict[str, Any], count: int, told: bool) -> None:
    node = await asyncio.to_thread(cluster.leader)
    before = await asyncio.to_thread(done_count, cluster)
    meter, load = Meter(cluster), Load()
    start_ms = int(time.time() * 1000)
    job = {"trigger": {"at": rfc3339(start_ms)}, "handler": what}
    await create_all(node, [job] * count)
    created_s = time.time() - start_ms / 1000
    await wait_runs(cluster, before + count, LIMIT_S)
    spent, shares = meter.per_start(count), load.shares()
    rows = [r for r in await asyncio.to_thread(instances, node, start_ms) if parse_ms(r["scheduled_at"]) == start_ms]
    if len(rows) != count or any(r["state"] != "SUCCEEDED" for r in rows):
        raise RuntimeError(f"{len(rows)} instances of {count}: {sorted({r['state'] for r in rows})}")
    took = (max(parse_ms(r["ended_at"]) for r in rows) - start_ms) / 1000
    if told:
        emit(
            "run",
            handler=kind,
            runs=count,
            per_second=count / took,
            seconds=took,
            creating_seconds=created_s,
            **spent,
            **shares,
        )


async def warm(cluster: Cluster) -> None:
    """Processes for jobs that mark are there, and have run."""
    with marks_file() as file:
        await create_all(cluster.leader(), [{"trigger": {"in": "1ms"}, **handler(file)} for _ in range(WARM)])
        await asyncio.to_thread(wait_marks, file, WARM, LIMIT_S)


async def bench_burst(cluster: Cluster, count: int, lead_s: float) -> bool:
    """`count` one-shots due at one instant. False: not all ran. Needs a cluster with starts.JOBS."""
    await warm(cluster)
    node = await asyncio.to_thread(cluster.leader)
    with marks_file() as file:
        due_ms = int(time.time() * 1000 + lead_s * 1000)
        note(f"creating {count:,} jobs that are due in {lead_s:.0f} s ...")
        at = rfc3339(due_ms)
        await create_all(node, [{"trigger": {"at": at}, **handler(file, number)} for number in range(count)])
        meter, load = Meter(cluster), Load()
        if time.time() * 1000 > due_ms:
            raise RuntimeError("creating took longer than the lead; use --lead")
        until_ms = await asyncio.to_thread(wait_marks, file, count, lead_s + LIMIT_S)
        spent, shares = meter.per_start(count), load.shares()
        starts: dict[str, list[float]] = {}
        for mark in read_marks(file):
            starts.setdefault(mark.which, []).append(mark.at_ms)
    found = account(dict.fromkeys(map(str, range(count)), float(due_ms)), starts, until_ms)
    emit(
        "burst",
        due_at_once=count,
        lateness_p50_ms=percentile(found.late, 0.5),
        lateness_p99_ms=percentile(found.late, 0.99),
        last_start_ms=max(found.late),
        not_run=found.not_run,
        **spent,
        **shares,
    )
    return found.not_run == 0
