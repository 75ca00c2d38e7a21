"""One-shots at a steady rate for a long time, with a kill -9 of the leader in the middle.

Each job is created by a request of its own when its time has come, whatever the answers do (open loop; 1,157 a second
are 100 million a day), through all nodes in turn, and is due --lead seconds later. A request that failed is sent again
until it is acknowledged, so that a job may be there twice (`sent_again`). The leader is killed halfway, and started
again --down seconds later. Every job must run: `not_run` 0, else the exit code is 1.

p50_ms, p99_ms, max_ms   how late runs began, by the wall clock that each reads as the first thing, of those that were
                         due outside of the failover: from a second before the kill to --window seconds after it
failover_...             the same of those that were due within it
create_p99_ms            of the answers, outside of the failover, counted from when the request was due
written_kib_per_start    what a node wrote to the disk for all of a job's life (created, run, dropped again), by the
                         counters of the disk; others' writes are in them. handed_kib_per_start is what a node's process
                         handed to write(2), for disk and connections; others are not in it
cpu_per_start_us         processor time of all nodes with the processes below them, for all of a job's life
anonymous_mib, pages     at the end; `..._growth` compares the mean of the last third of the time in which retention
                         bites with that of the first third (1: flat), also over the kill and while the log still grows.
                         `settled_..._growth` is the same from a minute after the kill on. `samples` has them along the
                         time, of the node with the most: [seconds, anonymous MiB of the node's process, used pages of
                         the store, MiB of its file]

History of one-shots and events are kept for --keep seconds (settings once_succeeded_keep and events_keep), so that what
is stored stays the same from then on. `retention` says so. The log is kept as always, some ten thousand entries: with a
low rate, or less than two minutes, it still grows, and with it the pages.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import Connection, request, rfc3339
from scripts.benches.machine import Load
from scripts.benches.nodes import anonymous_kib, file_bytes, used_pages
from scripts.benches.run import warm
from scripts.benches.starts import Account, account, marks_file, read_marks, wait_marks
from scripts.benches.usage import Meter
from tests.support.cluster import Cluster, NodeProcess

CONNECTIONS = 32  # to each node
TICK_S = 0.004
ANSWER_S = 5.0  # then the request is sent again, over another connection
PAUSE_S = 0.1  # before a connection that failed is made again
BEFORE_KILL_S = 1.0  # what was due since then may have been on its way when the leader was killed
LAST_S = 60.0  # for the last to start
SAMPLES = 60
SETTLED_S = 60.0  # after the kill: the new leader has filled its memory


@dataclass(frozen=True, slots=True)
class Plan:
    per_second: int
    seconds: float
    lead_s: float
    keep_s: float
    kill: bool
    down_s: float
    window_s: float


class Creates:
    """Job n is to be created at begin + n / rate. Each connection takes the oldest that is not acknowledged yet."""

    def __init__(self, cluster: Cluster, plan: Plan, file: Path) -> None:
        self.count = round(plan.per_second * plan.seconds)
        self.due_ms: list[int] = []
        self.latencies: list[tuple[float, float]] = []  # (when it was due to be sent, ms until it was acknowledged)
        self.sent_again = 0
        self._cluster = cluster
        self._plan = plan
        self._file = file
        self._ready: asyncio.PriorityQueue[int] = asyncio.PriorityQueue()
        self._tasks: list[asyncio.Task[None]] = []
        self._all = asyncio.Event()
        self.begin = 0.0  # time.time()

    def start(self) -> None:
        self.begin = time.time()
        self._tasks = [asyncio.create_task(self._pace())]
        for node in self._cluster.nodes:
            self._tasks += [asyncio.create_task(self._send(node)) for _ in range(CONNECTIONS)]

    async def stop(self, limit_s: float) -> None:
        """When all are acknowledged, or after so long. Raises what went wrong with a request."""
        acknowledged = asyncio.create_task(self._all.wait())
        try:
            await asyncio.wait([acknowledged, *self._tasks], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
        finally:
            for task in (acknowledged, *self._tasks):
                task.cancel()
            await asyncio.gather(acknowledged, *self._tasks, return_exceptions=True)

    async def _pace(self) -> None:
        while (sent := len(self.due_ms)) < self.count:
            now = min(self.count, int((time.time() - self.begin) * self._plan.per_second) + 1)
            for number in range(sent, now):
                at = self.begin + number / self._plan.per_second
                self.due_ms.append(int(1000 * (at + self._plan.lead_s)))
                self._ready.put_nowait(number)
            await asyncio.sleep(TICK_S)
        await self._all.wait()

    async def _send(self, node: NodeProcess) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_connection(Connection, "127.0.0.1", node.http_port)
            except OSError:
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                while await self._one(node, connection):
                    pass
            finally:
                if connection.transport is not None:
                    connection.transport.close()
            await asyncio.sleep(PAUSE_S)

    async def _one(self, node: NodeProcess, connection: Connection) -> bool:
        """False: the connection, or the node, is no good at the moment."""
        number = await self._ready.get()
        try:
            async with asyncio.timeout(ANSWER_S):
                status, body = await connection.send(self._request(node, number))
        except (OSError, TimeoutError):
            status, body = 0, b""
        if status == 201:
            at = self.begin + number / self._plan.per_second
            self.latencies.append((at, 1000 * (time.time() - at)))
            if len(self.latencies) == self.count:
                self._all.set()
            return True
        self._ready.put_nowait(number)
        self.sent_again += 1
        if status not in (0, 429, 503):
            raise RuntimeError(f"status {status}: {body[:300]!r}")
        return False

    def _request(self, node: NodeProcess, number: int) -> bytes:
        body = (
            f'{{"trigger":{{"at":"{rfc3339(self.due_ms[number])}"}},"handler":{{"python":"marking:mark"}},'
            f'"params":{{"file":"{self._file}","number":{number}}}}}'
        )
        return request("POST", "/v1/jobs", node.http_port, body.encode())


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    anonymous_mib: float
    pages: int
    file_mib: float


class Samples:
    """Of the node that has the most of each, along the time."""

    def __init__(self, cluster: Cluster, every_s: float) -> None:
        self.taken: list[Sample] = []
        self._cluster = cluster
        self._every_s = every_s
        self._begin = time.time()

    async def run(self) -> None:
        while True:
            await asyncio.to_thread(self._take)
            await asyncio.sleep(self._every_s)

    def _take(self) -> None:
        nodes = self._cluster.alive()
        if len(nodes) < len(self._cluster.nodes):
            return  # one that was just started again has less of everything
        try:
            sample = Sample(
                time.time() - self._begin,
                max(anonymous_kib(node.process.pid) for node in nodes if node.process is not None) / 1024,
                max(map(used_pages, nodes)),
                max(map(file_bytes, nodes)) / 2**20,
            )
        except OSError:  # it was killed meanwhile
            return
        self.taken.append(sample)
        note(
            f"{sample.at_s:.0f} s: {sample.anonymous_mib:.1f} MiB anonymous, {sample.pages:,} pages used,"
            f" file of {sample.file_mib:,.0f} MiB"
        )


def growth(values: list[float]) -> float:
    """The mean of the last third against that of the first; not a number with fewer than three."""
    third = len(values) // 3
    if not third:
        return float("nan")
    return sum(values[-third:]) / max(sum(values[:third]), 1e-9)


def split(due: dict[int, float], kill_ms: float | None, window_s: float) -> tuple[dict[int, float], dict[int, float]]:
    """(due outside of the failover, due within it)"""
    if kill_ms is None:
        return due, {}
    first, last = kill_ms - 1000 * BEFORE_KILL_S, kill_ms + 1000 * window_s
    inside = {number: at for number, at in due.items() if first <= at < last}
    return {number: at for number, at in due.items() if number not in inside}, inside


async def keep_shortly(cluster: Cluster, plan: Plan) -> None:
    """So that what is stored stays the same from a certain time on."""
    settings = dict.fromkeys(("once_succeeded_keep", "events_keep"), f"{plan.keep_s:g}s")
    reply = await asyncio.to_thread(cluster.nodes[0].request, "PATCH", "/v1/cluster/settings", settings)
    if reply.status != 200:
        raise RuntimeError(f"settings: status {reply.status}: {reply.body[:300]!r}")


async def bench_sustained(cluster: Cluster, plan: Plan) -> bool:
    """False: not all ran. Needs a cluster with starts.JOBS."""
    await warm(cluster)
    await keep_shortly(cluster, plan)
    with marks_file() as file:
        creates = Creates(cluster, plan, file)
        samples = Samples(cluster, max(1.0, plan.seconds / SAMPLES))
        note(f"{plan.per_second:,} one-shots a second for {plan.seconds:.0f} s; kept for {plan.keep_s:g} s ...")
        meter, load = Meter(cluster), Load()
        creates.start()
        sampling = asyncio.create_task(samples.run())
        try:
            kill_ms = await _kill(cluster, creates, plan, meter) if plan.kill else None
            await asyncio.sleep(max(0.0, creates.begin + plan.seconds - time.time()))
            await creates.stop(LAST_S)
            await asyncio.sleep(plan.lead_s)
            until_ms = await asyncio.to_thread(wait_marks, file, creates.count, LAST_S)
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
        shares = load.shares()
        spent: dict[str, Any] = meter.per_start(creates.count)
        spent["cpu_per_start_us_of"] = {
            node: round(one.all_cpu_s / creates.count * 1e6) for node, one in meter.read().items()
        }
        starts: dict[int, list[float]] = {}
        for mark in read_marks(file):
            starts.setdefault(int(mark.which), []).append(mark.at_ms)
    outside, within = split({n: float(at) for n, at in enumerate(creates.due_ms)}, kill_ms, plan.window_s)
    calm, hit = account(outside, starts, until_ms), account(within, starts, until_ms)
    _tell(plan, creates, samples.taken, calm, hit, kill_ms, spent | shares)
    return calm.not_run + hit.not_run == 0


async def _kill(cluster: Cluster, creates: Creates, plan: Plan, meter: Meter) -> float:
    """Halfway; when it was, in ms."""
    await asyncio.sleep(max(0.0, creates.begin + plan.seconds / 2 - time.time()))
    leader = await asyncio.to_thread(cluster.leader)
    meter.before_kill(leader)
    assert leader.process is not None
    killed_ms = time.time() * 1000
    leader.process.kill()
    note(f"killed {leader.id}, which led")
    await asyncio.to_thread(leader.kill)
    await asyncio.sleep(plan.down_s)
    leader.start()
    await asyncio.to_thread(cluster.wait, f"{leader.id} is ready", leader.ready)
    note(f"{leader.id} is ready again {time.time() - killed_ms / 1000:.1f} s after the kill")
    return killed_ms


def _tell(
    plan: Plan,
    creates: Creates,
    samples: list[Sample],
    calm: Account,
    hit: Account,
    kill_ms: float | None,
    costs: dict[str, Any],
) -> None:
    def outside(at: float) -> bool:
        return not split({0: at * 1000}, kill_ms, plan.window_s)[1]

    figures: dict[str, Any] = {}
    if kill_ms is not None:
        figures = {f"failover_{field}": value for field, value in hit.figures().items() if field.endswith("_ms")}
    bites_s = plan.lead_s + plan.keep_s + 10  # from then on as much goes as comes
    settled_s = max(bites_s, plan.seconds / 2 + SETTLED_S) if plan.kill else bites_s
    flat = [sample for sample in samples if sample.at_s >= bites_s]
    settled = [sample for sample in samples if sample.at_s >= settled_s]
    latencies = [ms for at, ms in creates.latencies if outside(at)]
    emit(
        "sustained",
        asked_per_second=plan.per_second,
        leader_killed=plan.kill,
        seconds=plan.seconds,
        retention=f"succeeded one-shots and events {plan.keep_s:g} s",
        **{**calm.figures(), "due": creates.count, "not_run": calm.not_run + hit.not_run},
        within_failover=len(hit.late),
        **figures,
        create_p50_ms=percentile(latencies, 0.5),
        create_p99_ms=percentile(latencies, 0.99),
        sent_again=creates.sent_again,
        not_acknowledged=creates.count - len(creates.latencies),
        **costs,
        anonymous_mib=samples[-1].anonymous_mib if samples else None,
        anonymous_growth=growth([sample.anonymous_mib for sample in flat]),
        pages=samples[-1].pages if samples else None,
        pages_growth=growth([float(sample.pages) for sample in flat]),
        file_growth=growth([sample.file_mib for sample in flat]),
        settled_anonymous_growth=growth([sample.anonymous_mib for sample in settled]),
        settled_pages_growth=growth([float(sample.pages) for sample in settled]),
        settled_file_growth=growth([sample.file_mib for sample in settled]),
        samples=[[round(s.at_s), round(s.anonymous_mib, 1), s.pages, round(s.file_mib)] for s in samples],
    )
