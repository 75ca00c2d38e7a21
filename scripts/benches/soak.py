"""One-shots at a steady rate for hours, while the leadership is handed on again and again: does anything grow?

The load is that of `sustained`: each job is created by a request of its own when its time has come, and must run.
Every --change seconds the leader hands its part to another node. History and events are kept for --keep seconds and the
log for LOG_BYTES, so that after --settle minutes as much goes as comes, however much one entry of the log carries. From
then on nothing may grow: of each figure below, summed over the nodes, the mean of the last third of the samples is held
against that of the first third (`..._growth`; 1: flat). Exit code 1: a job did not run, or a figure has grown by more
than --most percent.

memory        anonymous memory of the nodes' own processes
resident      of the same, with what they have mapped of their stores
disk          blocks taken by the data directories
descriptors   open files and connections of the nodes' own processes
threads       of the same
processes     below these: sentinels, supervisors, keepers and runs
run_memory    anonymous memory of the processes below, what several share counted once
run_files     open files and connections of the processes below

There are as many processes below as runs came at once, which goes with the machine's pace: of the last three figures
the least of the last third is held against the least of the first. What is never given back raises that, too.

`samples` has all along the time: seconds since the begin, then in the order above, memory and disk in MiB.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from scripts.benches.figures import emit, note, percentile
from scripts.benches.nodes import disk_bytes
from scripts.benches.run import warm
from scripts.benches.starts import account, marks_file, read_marks, wait_marks
from scripts.benches.sustained import LAST_S, Creates, Plan, growth, keep_shortly
from scripts.benches.usage import anonymous_kib, processes_of
from tests.support.cluster import Cluster

SAMPLE_S = 30.0
LOG_BYTES = "16MiB"  # full within minutes at the rates of a small machine, and then as large all the time


@dataclass(frozen=True, slots=True)
class Taken:
    """Of all nodes."""

    at_s: float
    memory: float  # MiB
    resident: float  # MiB
    disk: float  # MiB
    descriptors: float
    threads: float
    processes: float
    run_memory: float  # MiB
    run_files: float


BELOW = ("processes", "run_memory", "run_files")


def take(cluster: Cluster, began: float) -> Taken:
    """Raises OSError: a node has ended."""
    pids = [node.process.pid for node in cluster.nodes if node.process is not None]
    below = [each for pid in pids for each in processes_of(pid)[1:]]
    return Taken(
        time.time() - began,
        sum(_status(pid, "RssAnon") for pid in pids) / 1024,
        sum(_status(pid, "VmRSS") for pid in pids) / 1024,
        sum(disk_bytes(node.data) for node in cluster.nodes) / 2**20,
        sum(map(_descriptors, pids)),
        sum(_status(pid, "Threads") for pid in pids),
        len(below),
        sum(map(anonymous_kib, below)) / 1024,
        sum(map(_descriptors, below)),
    )


def _status(pid: int, name: str) -> int:
    """A line of proc(5), status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/status says nothing of {name}")


def _descriptors(pid: int) -> int:
    with suppress(OSError):  # a run has ended
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def grown(taken: list[Taken], settle_s: float) -> dict[str, float]:
    """Returns by how much each figure has grown since it should not any more (1: not at all)."""
    settled = [one for one in taken if one.at_s >= settle_s]
    found: dict[str, float] = {}
    for field in fields(Taken)[1:]:
        values = [getattr(one, field.name) for one in settled]
        found[field.name] = _growth_of_least(values) if field.name in BELOW else growth(values)
    return found


def _growth_of_least(values: list[float]) -> float:
    """The least of the last third against that of the first; not a number with fewer than three."""
    third = len(values) // 3
    return min(values[-third:]) / max(min(values[:third]), 1e-9) if third else math.nan


class Changes:
    """Hands the leadership on, every so often."""

    def __init__(self, cluster: Cluster, every_s: float) -> None:
        self.made = 0
        self._cluster = cluster
        self._every_s = every_s

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            leader = await asyncio.to_thread(self._cluster.leader)
            reply = await asyncio.to_thread(leader.request, "POST", "/v1/cluster/leader", {})
            if reply.status != 200:
                raise RuntimeError(f"the leadership was not handed on: status {reply.status}: {reply.body[:300]!r}")
            self.made += 1
            note(f"{leader.id} handed the leadership on")


async def _sample(cluster: Cluster, began: float, every_s: float, taken: list[Taken]) -> None:
    while True:
        taken.append(one := await asyncio.to_thread(take, cluster, began))
        note(
            f"{one.at_s:,.0f} s: memory {one.memory:,.0f} MiB, resident {one.resident:,.0f} MiB,"
            f" disk {one.disk:,.0f} MiB, {one.descriptors:,.0f} descriptors, {one.threads:.0f} threads;"
            f" {one.processes:.0f} processes below with {one.run_memory:,.0f} MiB and {one.run_files:,.0f} descriptors"
        )
        await asyncio.sleep(every_s)


async def bench_soak(cluster: Cluster, plan: Plan, change_s: float, settle_s: float, most: float) -> bool:
    """False: not all ran, or something grew. Needs a cluster with starts.JOBS. `most`: 0.05 is five percent."""
    await warm(cluster)
    await keep_shortly(cluster, plan)
    taken: list[Taken] = []
    with marks_file() as file:
        creates = Creates(cluster, plan, file)
        note(
            f"{plan.per_second:,} one-shots a second for {plan.seconds:,.0f} s, another leader every {change_s:g} s ..."
        )
        creates.start()
        sampling = asyncio.create_task(_sample(cluster, creates.begin, SAMPLE_S, taken))
        changes = Changes(cluster, change_s)
        changing = asyncio.create_task(changes.run())
        try:
            await asyncio.sleep(max(0.0, creates.begin + plan.seconds - time.time()))
            for task in (sampling, changing):
                if task.done():
                    task.result()  # raises what ended it
            sampling.cancel()  # what is idle from now on is no load
            await creates.stop(LAST_S)
            await asyncio.sleep(plan.lead_s)
            until_ms = await asyncio.to_thread(wait_marks, file, creates.count, LAST_S)
        finally:
            changing.cancel()
            sampling.cancel()
            await asyncio.gather(changing, sampling, return_exceptions=True)
        starts: dict[int, list[float]] = {}
        for mark in read_marks(file):
            starts.setdefault(int(mark.which), []).append(mark.at_ms)
    found = account({number: float(at) for number, at in enumerate(creates.due_ms)}, starts, until_ms)
    growths = grown(taken, settle_s)
    emit(
        "soak",
        asked_per_second=plan.per_second,
        seconds=plan.seconds,
        leader_changes=changes.made,
        **found.figures(),
        create_p99_ms=percentile([ms for _, ms in creates.latencies], 0.99),
        sent_again=creates.sent_again,
        **{f"{name}_growth": value for name, value in growths.items()},
        **dict(zip(growths, astuple(taken[-1])[1:], strict=True)),
        samples=[[round(value, 1) for value in astuple(one)] for one in taken],
    )
    for name, value in growths.items():
        if not value <= 1 + most:
            note(f"{name} is {value:.3f} times what it was")
    return found.not_run == 0 and all(value <= 1 + most for value in growths.values())
