"""How cost grows with the number of jobs that are stored: the same is measured at each number, on one cluster.

Jobs come in batches of 500 and are due within the next ten days but not today, so that none is fired; the numbers are
gone through upwards. At each, after the nodes have applied everything:

anonymous_mib       memory of the largest node's process that no file stands behind; with the processes below it (shared
                    pages counted once) all_anonymous_mib
page_p50_ms, p99    a page of 100 jobs, one after the other through the list, half by the leader and half by a follower
get_p50_ms, p99     one job by its id, at random among all, half by the leader and half by a follower
cpu_per_start_us    processor time of all nodes for one run, create and end not counted apart: starts at a fixed rate
                    (no-op python, all created before the first is due), less what the nodes take when nothing is due
restart_s           the longest from starting a follower that was killed with -9 to its 200 on /readyz
failover_s          the longest from kill -9 of the leader to the next write that is acknowledged
per_second          single POST, 256 in flight, through the leader; jobs_per_second: batches of 200, 8 in flight;
                    written_kib_per_job and batch_written_kib_per_job what a node wrote to the disk, by the counters
                    of the disk

`..._share` is against the least number of the run. A rate is measured last, and the jobs that it makes stay: the next
number counts them.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scripts.benches.create import batch_rate, single_rate
from scripts.benches.failover import Writers, fail_over
from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import Connection, create_all, one_shot, request, rfc3339
from scripts.benches.machine import Load
from scripts.benches.nodes import anonymous_kib, disk_bytes, wait_caught_up
from scripts.benches.run import done_count, wait_runs
from scripts.benches.usage import Used, proportional_anonymous_kib, used
from tests.support.cluster import Cluster, NodeProcess

BATCH = 500
CONNECTIONS = 4
DAY_MS = 86_400_000
TOLD_EVERY_S = 5.0
REFUSED_PAUSE_S = 0.25
IDS_KEPT = 20_000  # of the stored jobs, for asking for them
PAGES = 400
GETS = 4_000
WARM_RUNS = 200
CAUGHT_UP_S = 300.0
_JOB = '{"trigger":{"at":"%s"},"handler":{"python":"raftsched.samples:noop"}}'
_CREATED, _ID = b'"status":201,', b'"id":"'
SHARES = ("per_second", "jobs_per_second", "cpu_per_start_us")  # told against the least number, too


@dataclass(frozen=True, slots=True)
class Effort:
    """How long each measurement takes."""

    seconds: float  # of each create rate
    starts_per_second: int
    start_seconds: float
    rounds: int  # restarts, and failovers


class Stored:
    """Jobs in the cluster, and some of their ids."""

    def __init__(self) -> None:
        self.count = 0
        self.ids: list[str] = []
        self.refused = 0

    def add(self, answer: bytes, number: int) -> None:
        """Of a batch; one of its ids is kept, at random among all."""
        self.count += number
        at = answer.find(_ID, random.randrange(len(answer) // 2)) + len(_ID)
        job = answer[at : answer.index(b'"', at)].decode()
        if len(self.ids) < IDS_KEPT:
            self.ids.append(job)
        elif (place := random.randrange(self.count // BATCH + 1)) < IDS_KEPT:
            self.ids[place] = job


async def bench_scale(cluster: Cluster, sizes: list[int], effort: Effort) -> None:
    stored = Stored()
    least: dict[str, Any] = {}
    for size in sorted(sizes):
        fill_s = await fill(cluster, stored, size)
        figures = await _stage(cluster, stored, effort)
        least = least or figures
        shares = {f"{field}_share": figures[field] / least[field] for field in SHARES}
        emit("scale", stored=size, fill_seconds=fill_s, refused=stored.refused, **figures, **shares)


# ---------------------------------------------------------------- filling


async def fill(cluster: Cluster, stored: Stored, size: int) -> float:
    """Until so many are stored and applied by all; seconds."""
    leader = await asyncio.to_thread(cluster.leader)
    begin = time.perf_counter()
    if stored.count < size:
        note(f"{stored.count:,} jobs stored; filling up to {size:,} through {leader.id} ...")
        bodies = _bodies(size - stored.count)
        told = asyncio.create_task(_tell(stored, size))
        try:
            await asyncio.gather(*(_send(leader, bodies, stored) for _ in range(CONNECTIONS)))
        finally:
            told.cancel()
    for node in cluster.alive():
        await asyncio.to_thread(wait_caught_up, cluster, node, leader, CAUGHT_UP_S)
    return time.perf_counter() - begin


def _bodies(jobs: int) -> Iterator[tuple[int, bytes]]:
    """(jobs in it, body of a batch)"""
    tomorrow = int(time.time() * 1000) + DAY_MS
    while jobs > 0:
        number = min(BATCH, jobs)
        jobs -= number
        due = [rfc3339(random.randrange(tomorrow, tomorrow + 9 * DAY_MS)) for _ in range(number)]
        yield number, f"[{','.join(map(_JOB.__mod__, due))}]".encode()


async def _send(node: NodeProcess, bodies: Iterator[tuple[int, bytes]], stored: Stored) -> None:
    connection = await connect(node)
    for number, body in bodies:
        raw = request("POST", "/v1/jobs:batch", node.http_port, body)
        while True:
            status, answer = await connection.send(raw)
            if status not in (429, 503):
                break
            stored.refused += 1
            await asyncio.sleep(REFUSED_PAUSE_S)
        if status != 200 or answer.count(_CREATED) != number:
            raise RuntimeError(f"status {status}: {answer[:300]!r}")
        stored.add(answer, number)
    _close(connection)


async def _tell(stored: Stored, size: int) -> None:
    while True:
        count, since = stored.count, time.perf_counter()
        await asyncio.sleep(TOLD_EVERY_S)
        rate = (stored.count - count) / (time.perf_counter() - since)
        left = (size - stored.count) / rate if rate else float("inf")
        note(f"{stored.count:,} of {size:,} jobs stored, {rate:,.0f} a second, {left:,.0f} s to go")


async def connect(node: NodeProcess) -> Connection:
    return (await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", node.http_port))[1]


def _close(connection: Connection) -> None:
    if connection.transport is not None:
        connection.transport.close()


# ---------------------------------------------------------------- at one number


async def _stage(cluster: Cluster, stored: Stored, effort: Effort) -> dict[str, Any]:
    load = Load()
    figures: dict[str, Any] = {"before": stored.count}
    figures |= _memory(cluster)
    figures |= await _reads(cluster, stored)
    note(f"{stored.count:,} stored: {_told(figures)}; starts, restarts and failovers next ...")
    figures |= await _starts(cluster, effort)
    figures["restart_s"] = await _restarts(cluster, effort.rounds)
    async with Writers(cluster) as writers:
        outages = [await fail_over(cluster, writers) for _ in range(effort.rounds)]
    stored.count += len(writers.acknowledged)
    figures |= {"failover_s": max(outages), "failover_p50_s": percentile(outages, 0.5)}
    figures |= await _rates(cluster, stored, effort.seconds)
    return figures | load.shares()


def _told(figures: dict[str, Any]) -> str:
    return ", ".join(f"{field} {value:.2f}" for field, value in figures.items() if isinstance(value, float))


def _memory(cluster: Cluster) -> dict[str, float]:
    pids = [node.process.pid for node in cluster.nodes if node.process is not None]
    return {
        "anonymous_mib": max(map(anonymous_kib, pids)) / 1024,
        "all_anonymous_mib": max(map(proportional_anonymous_kib, pids)) / 1024,
        "store_mib": max(disk_bytes(node.data / "store") for node in cluster.nodes) / 2**20,
    }


async def _reads(cluster: Cluster, stored: Stored) -> dict[str, float]:
    leader = await asyncio.to_thread(cluster.leader)
    pages: list[float] = []
    gets: list[float] = []
    for node in (leader, cluster.followers_of(leader)[0]):
        connection = await connect(node)
        path = first = "/v1/jobs?limit=100"
        for _ in range(PAGES // 2):
            took, page = await _get(connection, node.http_port, path)
            pages.append(took)
            path = f"{first}&cursor={page['next']}" if page["next"] else first
        for _ in range(GETS // 2):
            took, _ = await _get(connection, node.http_port, f"/v1/jobs/{random.choice(stored.ids)}")
            gets.append(took)
        _close(connection)
    return {
        "page_p50_ms": percentile(pages, 0.5),
        "page_p99_ms": percentile(pages, 0.99),
        "get_p50_ms": percentile(gets, 0.5),
        "get_p99_ms": percentile(gets, 0.99),
    }


async def _get(connection: Connection, port: int, path: str) -> tuple[float, Any]:
    sent = time.perf_counter()
    status, answer = await connection.send(request("GET", path, port, b""))
    took = (time.perf_counter() - sent) * 1000
    if status != 200:
        raise RuntimeError(f"GET {path}: status {status}: {answer[:300]!r}")
    return took, json.loads(answer)


async def _starts(cluster: Cluster, effort: Effort) -> dict[str, float]:
    leader = await asyncio.to_thread(cluster.leader)
    now = int(time.time() * 1000)
    before = await asyncio.to_thread(done_count, cluster)
    await create_all(leader, [one_shot(now) for _ in range(WARM_RUNS)])
    await wait_runs(cluster, before + WARM_RUNS, 60)
    count = round(effort.starts_per_second * effort.start_seconds)
    begin = time.time() + 2 + effort.start_seconds / 2 + count / 3_000
    due = [int(1000 * (begin + number / effort.starts_per_second)) for number in range(count)]
    await create_all(leader, [one_shot(at) for at in due])
    await asyncio.sleep(1)
    if time.time() > begin - effort.start_seconds / 2:
        raise RuntimeError("creating the runs took so long that the first were due: the machine is too busy")
    idle_cpu, idle_s = await _cpu_until(cluster, begin - 0.2)
    busy_cpu, busy_s = await _cpu_until(cluster, begin + effort.start_seconds + 0.5)
    await wait_runs(cluster, before + WARM_RUNS + count, 120)
    idle = {node: one.all_cpu_s for node, one in idle_cpu.items()}
    spent = {node: one.all_cpu_s - idle[node] / idle_s * busy_s for node, one in busy_cpu.items()}
    return {
        "cpu_per_start_us": sum(spent.values()) / count * 1e6,
        "leader_cpu_per_start_us": spent[leader.id] / count * 1e6,
        "idle_cpu": sum(idle.values()) / idle_s,
    }


async def _cpu_until(cluster: Cluster, at: float) -> tuple[dict[str, Used], float]:
    """(what each node used until that time, seconds)"""
    before, start = used(cluster.nodes), time.time()
    await asyncio.sleep(max(0.0, at - start))
    after = used(cluster.nodes)
    return {node: after[node] - before[node] for node in after}, time.time() - start


async def _restarts(cluster: Cluster, rounds: int) -> float:
    took: list[float] = []
    for number in range(rounds):
        leader = await asyncio.to_thread(cluster.leader)
        node = cluster.followers_of(leader)[number % (len(cluster.nodes) - 1)]
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(1)
        start = time.perf_counter()
        node.start()
        await asyncio.to_thread(cluster.wait, f"{node.id} is ready", node.ready, CAUGHT_UP_S)
        took.append(time.perf_counter() - start)
        await asyncio.to_thread(wait_caught_up, cluster, node, leader, CAUGHT_UP_S)
        note(f"{node.id} was ready {took[-1]:.2f} s after it was started")
    return max(took)


async def _rates(cluster: Cluster, stored: Stored, seconds: float) -> dict[str, Any]:
    leader = await asyncio.to_thread(cluster.leader)
    single = await single_rate(cluster, leader, 256, seconds)
    batch = await batch_rate(cluster, leader, 8, seconds)
    stored.count += round((single["per_second"] + batch["jobs_per_second"]) * seconds)
    return {
        "per_second": single["per_second"],
        "p99_ms": single["p99_ms"],
        "leader_us": single["leader_us"],
        "follower_us": single["follower_us"],
        "written_kib_per_job": single["written_kib_per_job"],
        "jobs_per_second": batch["jobs_per_second"],
        "batch_leader_us": batch["leader_us"],
        "batch_written_kib_per_job": batch["written_kib_per_job"],
    }
