"""Catching up: a node that missed so many jobs that the log no longer has them comes back under steady writes.

It is stopped, jobs are created in batches (far in the future, so that nothing runs), the log is compacted meanwhile.
Then single creates arrive at a fixed rate, whatever their answers do (a latency counts from when a request was due):
for a while without the node, and from its start until it has applied everything. `share` is the rate kept meanwhile;
`leader_anonymous_mib_growth` the leader's memory that no file stands behind, at its most against before.
`snapshot_mib_sent` is 0 when the log still had all of it, as with few jobs. `elections` must be 0. `cpu_others` is the
share of the machine that others took while the node caught up: on a busy machine all the nodes and the load share what
is left, and every wait grows.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import OpenLoad, create_batches, far, one_shot, payloads, request
from scripts.benches.machine import Load
from scripts.benches.nodes import Heartbeats, anonymous_kib, disk_bytes, indices, metrics, term
from tests.support.cluster import Cluster, NodeProcess

BATCH = 500
CONNECTIONS = 1_000  # at most: enough for answers that take a second
SAMPLE_S = 0.25
LIMIT_S = 400.0  # for catching up
BATCHES_MADE = 40  # sent again and again: making them is not what is measured


class Samples:
    """What changes while the node catches up, looked at every SAMPLE_S."""

    def __init__(self, leader: NodeProcess, behind: NodeProcess) -> None:
        self.anonymous_kib: list[int] = []
        self.sent_bytes = 0  # the leader's snapshot files at their largest
        self.received_bytes = 0
        self._leader = leader
        self._behind = behind

    def take(self) -> None:
        assert self._leader.process is not None
        self.anonymous_kib.append(anonymous_kib(self._leader.process.pid))
        self.sent_bytes = max(self.sent_bytes, disk_bytes(self._leader.data / "snapshots"))
        self.received_bytes = max(self.received_bytes, disk_bytes(self._behind.data / "snapshots"))

    async def take_for(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            await asyncio.to_thread(self.take)
            await asyncio.sleep(SAMPLE_S)

    async def take_until_caught_up(self) -> float:
        """Seconds. Raises RuntimeError when it takes longer than LIMIT_S."""
        start = time.perf_counter()
        told = start
        while True:
            await asyncio.to_thread(self.take)
            goal = (await asyncio.to_thread(indices, self._leader))[0]
            await asyncio.sleep(SAMPLE_S)
            applied = await asyncio.to_thread(self._applied)
            now = time.perf_counter()
            if applied >= goal:
                return now - start
            if now - start > LIMIT_S:
                raise RuntimeError(f"{self._behind.id} has applied {applied} of {goal} entries after {LIMIT_S:.0f} s")
            if now - told > 2:
                told = now
                note(f"{now - start:.0f} s: {self._behind.id} has applied {applied} of {goal} entries")

    def _applied(self) -> int:
        try:
            return indices(self._behind)[1]
        except OSError:  # it does not listen yet
            return 0


def batches(jobs: int) -> Iterator[bytes]:
    made = [json.dumps([one_shot(far()) for _ in range(BATCH)]).encode() for _ in range(BATCHES_MADE)]
    for number in range(jobs // BATCH):
        if number % 200 == 0 and number:
            note(f"{number * BATCH} jobs ...")
        yield made[number % BATCHES_MADE]


async def bench_catchup(cluster: Cluster, jobs: int, per_second: int, seconds: float) -> bool:
    """False when the leader did not stay the leader."""
    leader = await asyncio.to_thread(cluster.leader)
    behind = cluster.followers_of(leader)[0]
    await asyncio.to_thread(behind.terminate)
    note(f"{behind.id} is stopped; creating {jobs} jobs ...")
    start = time.perf_counter()
    await create_batches(leader, batches(jobs))
    note(f"created in {time.perf_counter() - start:.0f} s; {per_second} creates a second from here on ...")
    port = leader.http_port
    single = payloads(2000, lambda: request("POST", "/v1/jobs", port, json.dumps(one_shot(far())).encode()))
    first_term = await asyncio.to_thread(term, leader)
    async with OpenLoad(port, per_second, CONNECTIONS, single, 201) as load:
        await asyncio.sleep(2)
        before = Samples(leader, behind)
        begin = time.perf_counter()
        await before.take_for(seconds)
        heartbeats, beats = Heartbeats(), await asyncio.to_thread(metrics, leader)
        busy = Load()
        started = time.perf_counter()
        await asyncio.to_thread(behind.start)
        during = Samples(leader, behind)
        took = await during.take_until_caught_up()
        caught_up = time.perf_counter()
        shares = busy.shares()
        heartbeats.add(beats, await asyncio.to_thread(metrics, leader))
    last_term = await asyncio.to_thread(term, leader)
    second = started
    while second < caught_up:
        rate, latencies = load.window(second, second + 1)
        note(f"second {second - started:3.0f}: {rate:5.0f} a second, p50 {percentile(latencies, 0.5):6.0f} ms")
        second += 1
    rate_before, latencies_before = load.window(begin, started)
    rate, latencies = load.window(started, caught_up)
    emit(
        "catchup",
        jobs=jobs,
        asked_per_second=per_second,
        per_second_before=rate_before,
        per_second=rate,
        share=rate / rate_before,
        p50_ms_before=percentile(latencies_before, 0.5),
        p99_ms_before=percentile(latencies_before, 0.99),
        p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99),
        max_ms=max(latencies),
        connections=load.open,
        requests_that_waited_for_one=load.waited,
        seconds=took,
        leader_anonymous_mib_before=max(before.anonymous_kib) / 1024,
        leader_anonymous_mib_max=max(during.anonymous_kib) / 1024,
        leader_anonymous_mib_growth=(max(during.anonymous_kib) - max(before.anonymous_kib)) / 1024,
        elections=last_term - first_term,
        heartbeats=heartbeats.sent,
        heartbeats_late_mean_ms=heartbeats.mean_late_ms,
        heartbeats_over_50_ms_late=heartbeats.unpunctual,
        snapshot_mib_sent=during.sent_bytes / 2**20,
        snapshot_mib_received=during.received_bytes / 2**20,
        leader_store_mib=disk_bytes(leader.data / "store") / 2**20,
        store_mib=disk_bytes(behind.data / "store") / 2**20,
        **shares,
    )
    return first_term == last_term
