"""Lists of many jobs, and one action on all of them.

`list` pages through the jobs of a filter, a hundred at a time, while a client creates and deletes jobs: what was there
all the time must come once, in order. `p99_ms` is that of a page; `bare_p99_ms` that of requests in between that cost
the node nothing, which is what the machine adds. `bulk` pauses all jobs by one call, while creates come at a steady
rate: `create_p99_ms` is what they see during it (`calm_p99_ms`: before), counted from when each was due. `cpu_others`
is the share of the machine that others took meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import HANDLER, Connection, OpenLoad, create_all, far, one_shot, payloads, request
from scripts.benches.machine import Load
from tests.support.cluster import Cluster, NodeProcess

OWNERS = 10
TEAMS = 4
CONNECTIONS = 64
CALM_S = 5.0
DONE_S = 300.0
FILTERS = {
    "all": "",
    "owner": "owner=owner-3",
    "label": "label=team%3Dteam-2",
    "namespace": "namespace=bulk",
    "name_prefix": "namespace=bulk&name_prefix=job-00",
    "due": "next_to=9999-01-01T00:00:00Z&owner=owner-3",
    "queue": "queue=rare",  # without an index
}


def job(number: int) -> dict[str, Any]:
    return {
        "name": f"job-{number:07}",
        "namespace": "bulk",
        "owner": f"owner-{number % OWNERS}",
        "labels": {"team": f"team-{number % TEAMS}"},
        "queue": "rare" if number % 1_000 == 0 else "default",
        "trigger": {"every": "10h"},
        "handler": HANDLER,
    }


async def bench_bulk(cluster: Cluster, jobs: int, per_second: int) -> bool:
    """False: a list was not what it should be, or not all jobs were paused."""
    leader, follower = cluster.leader(), cluster.followers()[0]
    note(f"creating {jobs:,} jobs ...")
    began = time.perf_counter()
    await create_all(leader, [job(number) for number in range(jobs)])
    took = time.perf_counter() - began
    emit("bulk-create", jobs=jobs, rows_each=3, jobs_per_second=jobs / took)
    held = True
    for name, query in FILTERS.items():
        held = await _bench_list(leader, follower, name, query) and held
    return await _bench_pause(leader, jobs, per_second) and held


async def _ask(connection: Connection, port: int, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    status, answer = await connection.send(request(method, path, port, body))
    return status, json.loads(answer) if answer else None


async def _connect(node: NodeProcess) -> Connection:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Connection, "127.0.0.1", node.http_port))[1]


async def _churn(node: NodeProcess, ended: asyncio.Event) -> None:
    """Jobs that come and go, among those that are listed; none is left behind."""
    connection = await _connect(node)
    while not ended.is_set():
        number = random.randrange(1_000_000_000, 9_999_999_999)
        status, made = await _ask(connection, node.http_port, "POST", "/v1/jobs", json.dumps(job(number)).encode())
        if status == 201:
            await asyncio.sleep(0.02)
            await connection.send(request("DELETE", f"/v1/jobs/{made['id']}", node.http_port, b""))


async def _bench_list(leader: NodeProcess, node: NodeProcess, name: str, query: str) -> bool:
    load = Load()
    ended = asyncio.Event()
    churn = asyncio.create_task(_churn(leader, ended))
    connection = await _connect(node)
    found: list[str] = []
    latencies: list[float] = []
    bare: list[float] = []
    short, cursor = 0, ""
    try:
        while True:
            sent = time.perf_counter()
            status, page = await _ask(connection, node.http_port, "GET", f"/v1/jobs?limit=100&{query}{cursor}")
            latencies.append((time.perf_counter() - sent) * 1000)
            if status != 200:
                raise RuntimeError(f"status {status}: {page}")
            asked = time.perf_counter()
            await connection.send(request("GET", "/livez", node.http_port, b""))
            bare.append((time.perf_counter() - asked) * 1000)
            found += [item["name"] for item in page["items"] if len(item["name"]) == len("job-0000000")]
            if page["next"] is None:
                break
            short += len(page["items"]) < 100
            cursor = f"&cursor={page['next']}"
    finally:
        ended.set()
        await churn
    sound = len(set(found)) == len(found) and (name == "due" or found == sorted(found))
    emit(
        "list",
        filter=name,
        jobs=len(found),
        pages=len(latencies),
        short_pages=short,
        p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99),
        bare_p50_ms=percentile(bare, 0.5),
        bare_p99_ms=percentile(bare, 0.99),
        sound=sound,
        **load.shares(),
    )
    return sound


async def _bench_pause(leader: NodeProcess, jobs: int, per_second: int) -> bool:
    port = leader.http_port
    single = payloads(2_000, lambda: request("POST", "/v1/jobs", port, json.dumps(one_shot(far())).encode()))
    connection = await _connect(leader)
    body = json.dumps({"action": "pause", "filter": {"namespace": "bulk"}}).encode()
    async with OpenLoad(port, per_second, CONNECTIONS, single, 201) as creates:
        load = Load()
        calm = time.perf_counter()
        await asyncio.sleep(CALM_S)
        began = time.perf_counter()
        status, operation = await _ask(connection, port, "POST", "/v1/jobs:actions", body)
        if status != 202:
            raise RuntimeError(f"status {status}: {operation}")
        while operation["state"] == "RUNNING":
            if time.perf_counter() - began > DONE_S:
                raise RuntimeError(f"not done in {DONE_S} s: {operation}")
            await asyncio.sleep(0.1)
            _, operation = await _ask(connection, port, "GET", f"/v1/operations/{operation['id']}")
        ended = time.perf_counter()
        shares = load.shares()
        await asyncio.sleep(0.5)
        _, before = creates.window(calm, began)
        rate, during = creates.window(began, ended)
    emit(
        "bulk",
        action="pause",
        jobs=operation["changed"],
        seconds=ended - began,
        jobs_per_second=operation["changed"] / (ended - began),
        creates_per_second=rate,
        calm_p99_ms=percentile(before, 0.99),
        create_p50_ms=percentile(during, 0.5),
        create_p99_ms=percentile(during, 0.99),
        create_max_ms=max(during, default=float("nan")),
        waited=creates.waited,
        **shares,
    )
    return int(operation["changed"]) >= jobs and operation["state"] == "DONE"
