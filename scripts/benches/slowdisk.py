"""A slow disk: every flush of the nodes' stores takes longer (scripts/shims/slow_flush.c), and what that costs.

The delay is switched on and off while the nodes run, in turns, so that both rates come from the same processes: 256
connections in closed loops. A turn flushes twice (`flushes` and `dsync_writes` show that both were delayed), so 5 ms
make it at least 10 ms long. The event loop must not feel it: no `elections`, and heartbeats as punctual as before.
Needs a C compiler.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import closed_loop, far, one_shot, payloads, request
from scripts.benches.nodes import Heartbeats, metrics, term
from tests.support.cluster import Cluster

SHIM = Path(__file__).resolve().parent.parent / "shims" / "slow_flush.c"
CONNECTIONS = 256
SETTLE_S = 1.0  # after each switch
_NUMBERS = struct.Struct("=QQQ")


class SlowFlushes:
    """The shim, built and told what to do through a file that all nodes map."""

    def __init__(self, directory: Path) -> None:
        """Raises RuntimeError that says what is missing."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise RuntimeError("a C compiler is needed for the shim that slows flushes: install gcc (or another cc)")
        library = directory / "slow_flush.so"
        built = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=False)
        if built.returncode != 0:
            raise RuntimeError(f"{compiler} could not build {SHIM.name}; it says why above")
        file = directory / "slow_flush"
        file.write_bytes(bytes(_NUMBERS.size))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _NUMBERS.size)
        self.environment = {"LD_PRELOAD": str(library), "SLOW_FLUSH_FILE": str(file)}

    def delay(self, milliseconds: float) -> None:
        struct.pack_into("=Q", self._shared, 0, round(milliseconds * 1000))

    def counts(self) -> tuple[int, int]:
        """(fsync and fdatasync calls, writes on O_DSYNC descriptors) of all nodes so far"""
        _, flushes, writes = _NUMBERS.unpack_from(self._shared)
        return flushes, writes


async def bench_slowdisk(
    cluster: Cluster, shim: SlowFlushes, delay_ms: float, seconds: float, rounds: int, through: str
) -> bool:
    """False when the delay caused an election."""
    leader = await asyncio.to_thread(cluster.leader)
    port = (leader if through == "leader" else cluster.followers_of(leader)[0]).http_port
    single = payloads(2000, lambda: request("POST", "/v1/jobs", port, json.dumps(one_shot(far())).encode()))
    rates: dict[bool, list[float]] = {False: [], True: []}
    latencies: dict[bool, list[float]] = {False: [], True: []}
    heartbeats = {False: Heartbeats(), True: Heartbeats()}
    flushes = writes = 0
    before = await asyncio.to_thread(term, leader)
    for number in range(rounds):
        for slow in (False, True):
            shim.delay(delay_ms if slow else 0)
            await closed_loop(port, CONNECTIONS, SETTLE_S, single, 201)
            start, beats = shim.counts(), await asyncio.to_thread(metrics, leader)
            count, took, measured = await closed_loop(port, CONNECTIONS, seconds, single, 201)
            rates[slow].append(count / took)
            latencies[slow] += measured
            end, newer = shim.counts(), await asyncio.to_thread(metrics, leader)
            heartbeats[slow].add(beats, newer)
            if slow:
                flushes, writes = flushes + end[0] - start[0], writes + end[1] - start[1]
            note(f"round {number + 1}, {delay_ms if slow else 0} ms: {rates[slow][-1]:.0f} creates a second")
    shim.delay(0)
    after = await asyncio.to_thread(term, leader)
    if not flushes or not writes:
        raise RuntimeError(
            f"the shim delayed {flushes} flushes and {writes} O_DSYNC writes: it does not reach the store"
        )
    without, slowed = percentile(rates[False], 0.5), percentile(rates[True], 0.5)
    emit(
        "slowdisk",
        delay_ms=delay_ms,
        through=through,
        in_flight=CONNECTIONS,
        per_second_without=without,
        per_second=slowed,
        share=slowed / without,
        p50_ms_without=percentile(latencies[False], 0.5),
        p50_ms=percentile(latencies[True], 0.5),
        p99_ms=percentile(latencies[True], 0.99),
        flushes=flushes,
        dsync_writes=writes,
        elections=after - before,
        heartbeats=heartbeats[True].sent,
        heartbeats_late_mean_ms_without=heartbeats[False].mean_late_ms,
        heartbeats_late_mean_ms=heartbeats[True].mean_late_ms,
        heartbeats_over_50_ms_late_without=heartbeats[False].unpunctual,
        heartbeats_over_50_ms_late=heartbeats[True].unpunctual,
    )
    return after == before
