"""A workflow: how much longer it takes than the runs of its longest way.

Jobs follow each other in stages: a gate, which waits for all jobs of the stage before, and `width` jobs that wait for
the gate. Each run is a request to a server of the benchmark's own, which answers after `run_ms`. The first gate is run
by hand. `critical_path_s` is `run_ms` for each job of the longest way; `took_s` goes from the acceptance of the first
run to the end of the last one, by their own records, and `over_s` is what that is longer. `not_succeeded` counts the
jobs without a run that succeeded. Some runs before, as many as a stage has, start the processes that send requests, as
they are there in a cluster that has work. `cpu_others` is the share of the machine that others took meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from scripts.benches.figures import emit, note
from scripts.benches.load import create_all, rfc3339
from scripts.benches.machine import Load
from scripts.benches.run import done_count, wait_runs
from scripts.benches.starts import parse_ms
from tests.support.cluster import Cluster, NodeProcess

LIMIT_S = 300.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Slow(asyncio.Protocol):
    """Answers each request after a while."""

    def __init__(self, run_ms: float) -> None:
        self._run_s = run_ms / 1000

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n"):
            asyncio.get_running_loop().call_later(self._run_s, self._transport.write, ANSWER)


@asynccontextmanager
async def _server(run_ms: float) -> AsyncIterator[str]:
    server = await asyncio.get_running_loop().create_server(lambda: _Slow(run_ms), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


def stages(count: int, width: int) -> list[list[str]]:
    """Returns names of so many jobs: a gate, those behind it, the next gate, ..."""
    found: list[list[str]] = []
    left = count
    while left > 0:
        found.append([f"gate-{len(found)}"])
        found.append([f"job-{len(found)}-{number:03}" for number in range(min(width, left - 1))])
        left -= 1 + len(found[-1])
    return [stage for stage in found if stage]


def jobs_of(named: list[list[str]], url: str) -> list[dict[str, Any]]:
    """Returns the jobs, those first that others wait for."""
    made = []
    for place, stage in enumerate(named):
        before = named[place - 1] if place else []
        after = {"job": before[0]} if len(before) == 1 else {"all_of": before}
        trigger: dict[str, Any] = {"after": after} if before else {"manual": True}
        made += [
            {"name": name, "namespace": "graph", "trigger": trigger, "handler": {"http": {"url": url}}}
            for name in stage
        ]
    return made


async def bench_graph(cluster: Cluster, count: int, width: int, run_ms: float) -> bool:
    """False: not all of it succeeded."""
    leader = await asyncio.to_thread(cluster.leader)
    named = stages(count, width)
    async with _server(run_ms) as url:
        note(f"creating {count:,} jobs in {len(named)} stages ...")
        for job in range(0, count, 500):
            await create_all(leader, jobs_of(named, url)[job : job + 500])
        for node in cluster.nodes:  # as far as the leader is: their workers are to run it
            await asyncio.to_thread(node.get, f"/v1/namespaces/graph/jobs/{named[-1][-1]}?consistency=leader")
        await _warm(cluster, width, url)
        note("running the first ...")
        load = Load()
        path = f"/v1/namespaces/graph/jobs/{named[0][0]}/run"
        answer = await asyncio.to_thread(leader.request, "POST", path, {})
        if answer.status != 202:
            raise RuntimeError(f"the first job was not run: {answer.status} {answer.json}")
        root = str(answer.json["id"])
        runs = await asyncio.to_thread(_ended, leader, root)
    began = min(parse_ms(run["created_at"]) for run in runs)
    took_s = (max(parse_ms(run["ended_at"]) for run in runs) - began) / 1000
    critical_s = len(named) * run_ms / 1000
    not_succeeded = count - sum(run["state"] == "SUCCEEDED" for run in runs)
    emit(
        "graph",
        jobs=count,
        width=width,
        stages=len(named),
        run_ms=run_ms,
        critical_path_s=critical_s,
        took_s=took_s,
        over_s=took_s - critical_s,
        not_succeeded=not_succeeded,
        **load.shares(),
    )
    return not_succeeded == 0


async def _warm(cluster: Cluster, count: int, url: str) -> None:
    note(f"{count} runs before, to warm up ...")
    leader = await asyncio.to_thread(cluster.leader)
    before = await asyncio.to_thread(done_count, cluster)
    due = {"at": rfc3339(int(time.time() * 1000))}
    await create_all(leader, [{"trigger": due, "handler": {"http": {"url": url}}} for _ in range(count)])
    await wait_runs(cluster, before + count, LIMIT_S)


def _ended(node: NodeProcess, root: str) -> list[dict[str, Any]]:
    """Returns all runs of the workflow, once none is active. Looks seldom, and at one of them: it shall not be what is
    measured."""
    deadline = time.perf_counter() + LIMIT_S
    while (found := node.get(f"/v1/workflows/{root}?limit=1"))["state"] == "running":
        if time.perf_counter() > deadline:
            raise RuntimeError(f"the workflow has not ended within {LIMIT_S:.0f} s: {found['counts']}")
        time.sleep(0.5)
    runs: list[dict[str, Any]] = []
    cursor = ""
    while True:
        found = node.get(f"/v1/workflows/{root}?limit=1000{cursor}")
        runs += found["items"]
        if not found["next"]:
            return runs
        cursor = f"&cursor={found['next']}"
