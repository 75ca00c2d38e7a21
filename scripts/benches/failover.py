"""Failover: from kill -9 of the leader to the next write that is acknowledged, and that no acknowledged one is lost.

Writers keep every node busy all the time, the leader as well. What counts is the first 201 for a request that was sent
after the kill: an older one may have been committed before it. The killed node is started again; the next kill comes
when it has caught up. At the end every acknowledged job must be on every node: `lost_acknowledged_writes`. With more
`elections` than `kills` some took more than one round.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import suppress

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import Connection, far, one_shot, request
from scripts.benches.nodes import job_ids, term, wait_caught_up
from tests.support.cluster import Cluster, NodeProcess

WRITERS = 4  # per node
PAUSE_S = 0.02  # of a writer between two writes: some are always about to send
ANSWER_S = 30.0  # more than any write takes before the node gives up
BACK_S = 60.0  # for the killed node to catch up


class Writers:
    """Closed loops on every node; they go on through every failure."""

    def __init__(self, cluster: Cluster, each: int = WRITERS) -> None:
        """`each`: writers per node."""
        self._cluster = cluster
        self._each = each
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: list[tuple[float, asyncio.Future[float]]] = []  # (sent after, gets when it was acknowledged)
        self.acknowledged: set[str] = set()
        self.refused = 0  # answered with an error, or not at all

    async def __aenter__(self) -> Writers:
        for node in self._cluster.nodes:
            self._tasks += [asyncio.create_task(self._write(node)) for _ in range(self._each)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def next_after(self, moment: float) -> asyncio.Future[float]:
        """When the first write sent after `moment` is acknowledged (perf_counter)."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((moment, future))
        return future

    async def _write(self, node: NodeProcess) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PAUSE_S * random.uniform(0.5, 1.5))
            with suppress(OSError):
                _, connection = await loop.create_connection(Connection, "127.0.0.1", node.http_port)
                try:
                    await self._write_over(node, connection)
                except (OSError, TimeoutError):
                    self.refused += 1
                finally:
                    if connection.transport is not None:
                        connection.transport.close()

    async def _write_over(self, node: NodeProcess, connection: Connection) -> None:
        while True:
            raw = request("POST", "/v1/jobs", node.http_port, json.dumps(one_shot(far())).encode())
            sent = time.perf_counter()
            async with asyncio.timeout(ANSWER_S):
                status, body = await connection.send(raw)
            if status == 201:
                self._acknowledge(sent, json.loads(body)["id"])
            else:
                self.refused += 1
            await asyncio.sleep(PAUSE_S * random.uniform(0.5, 1.5))

    def _acknowledge(self, sent: float, job: str) -> None:
        self.acknowledged.add(job)
        now = time.perf_counter()
        for moment, future in self._waiting:
            if sent > moment and not future.done():
                future.set_result(now)
        self._waiting = [(moment, future) for moment, future in self._waiting if not future.done()]


async def fail_over(cluster: Cluster, writers: Writers) -> float:
    """Kills the leader; seconds to the next write that is acknowledged. The node is back when this returns."""
    leader = await asyncio.to_thread(cluster.leader)
    await asyncio.sleep(random.uniform(0.2, 0.6))
    assert leader.process is not None
    killed = time.perf_counter()
    leader.process.kill()
    outage = await asyncio.wait_for(writers.next_after(killed), BACK_S) - killed
    await asyncio.to_thread(leader.kill)
    await asyncio.to_thread(leader.start)
    await asyncio.to_thread(cluster.wait, f"{leader.id} is ready", leader.ready)
    newer = await asyncio.to_thread(cluster.leader)
    back = await asyncio.to_thread(wait_caught_up, cluster, leader, newer, BACK_S)
    note(f"killed {leader.id}: {outage:.3f} s to the next write; caught up in {back:.2f} s")
    return outage


async def bench_failover(cluster: Cluster, kills: int) -> int:
    """Returns how many acknowledged writes were lost."""
    outages: list[float] = []
    first_term = await asyncio.to_thread(term, cluster.nodes[0])
    async with Writers(cluster) as writers:
        for _ in range(kills):
            outages.append(await fail_over(cluster, writers))
        last_term = await asyncio.to_thread(term, cluster.nodes[0])
    leader = await asyncio.to_thread(cluster.leader)
    lost = 0
    for node in cluster.nodes:
        await asyncio.to_thread(wait_caught_up, cluster, node, leader, BACK_S)
        lost = max(lost, len(writers.acknowledged - await asyncio.to_thread(job_ids, node)))
    emit(
        "failover",
        kills=len(outages),
        p50_s=percentile(outages, 0.5),
        p90_s=percentile(outages, 0.9),
        max_s=max(outages),
        elections=last_term - first_term,
        acknowledged_writes=len(writers.acknowledged),
        writes_without_201=writers.refused,
        lost_acknowledged_writes=lost,
    )
    return lost
