"""Remote workers, on nodes that run nothing themselves (--no-run).

`idle`: fake workers (8 slots each, in a few processes) that have nothing to do; the leader's processor time for their
polls as a share of a core, what it takes without them taken off. Then two leaders are killed; no session may be lost.
`rate`: runs that do nothing, from the first create to the last success, on the nodes of one cluster, on `raftsched
worker` processes of another, and on fake workers of that one, alternately; the share is of the nodes' own rate in the
same round (medians). `late`: from due to the first thing that a job does, on an idle `raftsched
worker` and, alternately, on idle nodes of another cluster. `killed`: from SIGKILL of a worker to the begin of its run
on another; `early` counts those that began before the lease could be over, `overlaps` those that began while the first
one still wrote.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import create_all, rfc3339
from scripts.benches.machine import Load
from scripts.benches.run import done_count, instances, wait_runs
from scripts.benches.starts import JOBS, handler, marks_file, parse_ms, read_marks, wait_marks
from scripts.benches.usage import used
from tests.support.cluster import AS_MYSELF, Cluster, NodeProcess

PARTS = ("idle", "rate", "late", "killed")
ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES = 4  # that the fake workers are in
SLOTS = 8
SETTLE_S = 3.0
DOWN_S = 3.0  # a killed leader
WARM = 100
LIMIT_S = 120.0
EVERY_MS = 100  # between two starts of `late`


def urls(cluster: Cluster, first: int = 0) -> str:
    found = [node.url for node in cluster.nodes]
    return ",".join(found[first:] + found[:first])


class Fakes:
    """Processes of fake workers."""

    def __init__(
        self, cluster: Cluster, count: int, handlers: str = "call:nothing", processes: int = PROCESSES
    ) -> None:
        each = count // processes
        self._processes = []
        for number in range(processes):
            command = [sys.executable, "-m", "scripts.benches.fake_workers", "--servers", urls(cluster)]
            command += ["--first", str(number * each), "--count", str(each), "--slots", str(SLOTS)]
            command += ["--handlers", handlers]
            self._processes.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("fake workers did not get their sessions")

    def stop(self) -> dict[str, float]:
        """Returns what came of them, summed."""
        total: dict[str, float] = {}
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            out, _ = process.communicate(timeout=60)
            for name, value in json.loads(out.splitlines()[-1]).items():
                least = name == "shortest_lease_ms"
                total[name] = min(total.get(name, value), value) if least else total.get(name, 0) + value
        return total

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@contextmanager
def worker(
    cluster: Cluster, name: str, slots: int = SLOTS, first: int = 0, flags: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A `raftsched worker` process, which has a session."""
    command = [sys.executable, "-m", "raftsched", "worker", "--server", urls(cluster, first), "--name", name]
    command += ["--slots", str(slots), "--pythonpath", str(JOBS), *AS_MYSELF, *flags]
    with (cluster.directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=cluster.environment)
    try:
        cluster.wait(f"{name} has a session", lambda: name in names(cluster.nodes[0]))
        yield process
    finally:
        process.kill()
        process.wait()


def names(node: NodeProcess) -> set[str]:
    """Returns the workers that have sessions."""
    return {row["name"] for row in node.get("/v1/workers?limit=1000")["items"]}


# ---------------------------------------------------------------- idle


async def bench_idle(cluster: Cluster, count: int, seconds: float) -> bool:
    """False: a session was lost."""
    leader = await asyncio.to_thread(cluster.leader)
    await asyncio.sleep(SETTLE_S)
    without = await leaders_share(cluster, min(20.0, seconds / 4))
    fakes = await asyncio.to_thread(Fakes, cluster, count)
    try:
        await asyncio.sleep(SETTLE_S)
        load = Load()
        idle = await leaders_share(cluster, seconds / 2)
        for _ in range(2):
            leader = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(leader.kill)
            note(f"killed {leader.id}")
            await asyncio.sleep(DOWN_S)
            leader.start()
            await asyncio.to_thread(cluster.wait_ready)
            await asyncio.sleep(seconds / 4)
        shares = load.shares()
        told = await asyncio.to_thread(fakes.stop)
    finally:
        fakes.kill()
    emit(
        "workers-idle",
        workers=count,
        seconds=seconds,
        leader_cpu_share=idle - without,
        leader_cpu_share_with=idle,
        leader_cpu_share_without=without,
        lost_sessions=int(told["lost"]),
        shortest_lease_ms=told["shortest_lease_ms"],
        failed_requests=int(told["failed"]),
        polls=int(told["polls"]),
        **shares,
    )
    return told["lost"] == 0


async def leaders_share(cluster: Cluster, seconds: float) -> float:
    """Returns the leader's processor time for each second."""
    leader = await asyncio.to_thread(cluster.leader)
    before, began = used([leader])[leader.id].cpu_s, time.perf_counter()
    await asyncio.sleep(seconds)
    return (used([leader])[leader.id].cpu_s - before) / (time.perf_counter() - began)


# ---------------------------------------------------------------- rate


async def bench_rate(own: Cluster, remote: Cluster, count: int, rounds: int) -> bool:
    """False: not all ran. `own`: nodes that run jobs; `remote`: nodes that do not."""
    rates: dict[str, list[float]] = {"nodes": [], "workers": [], "fakes": []}
    python = {"python": "raftsched.samples:noop"}
    load = Load()
    with ExitStack() as stack:
        slots = own.nodes[0].get("/v1/nodes/n1")["slots"]
        for number in range(len(own.nodes)):
            stack.enter_context(worker(remote, f"real-{number}", slots, number))
        fakes = await asyncio.to_thread(Fakes, remote, 4 * len(own.nodes), "call:nothing", 2)
        stack.callback(fakes.kill)
        for cluster in (own, remote):
            await rate(cluster, python, WARM)
        for _ in range(rounds):
            for name, cluster, what in (
                ("nodes", own, python),
                ("workers", remote, python),
                ("fakes", remote, {"call": "nothing"}),
            ):
                rates[name].append(await rate(cluster, what, count))
                note(f"{name}: {rates[name][-1]:.0f} runs a second")
    shares = load.shares()
    for name, found in rates.items():
        emit("workers-rate", on=name, runs=count, per_second=median(found), rounds=rounds, **shares)
    for name in ("workers", "fakes"):
        ratios = [there / here for there, here in zip(rates[name], rates["nodes"], strict=True)]
        emit("workers-share", on=name, runs=count, share=median(ratios), rounds=rounds, **shares)
    return True


async def rate(cluster: Cluster, what: dict[str, Any], count: int) -> float:
    """Returns runs a second, by the instances' own records."""
    node = await asyncio.to_thread(cluster.leader)
    before = await asyncio.to_thread(done_count, cluster)
    start_ms = int(time.time() * 1000)
    await create_all(node, [{"trigger": {"at": rfc3339(start_ms)}, "handler": what}] * count)
    await wait_runs(cluster, before + count, LIMIT_S)
    rows = await asyncio.to_thread(instances, node, start_ms)
    rows = [row for row in rows if parse_ms(row["scheduled_at"]) == start_ms]
    if len(rows) != count or any(row["state"] != "SUCCEEDED" for row in rows):
        raise RuntimeError(f"{len(rows)} instances of {count}: {sorted({row['state'] for row in rows})}")
    return count / ((max(parse_ms(row["ended_at"]) for row in rows) - start_ms) / 1000)


# ---------------------------------------------------------------- late


async def bench_late(own: Cluster, remote: Cluster, starts: int, rounds: int) -> bool:
    """False: not all began. `own`: nodes that run jobs; `remote`: nodes that do not."""
    late: dict[str, list[float]] = {"nodes": [], "workers": []}
    load = Load()
    with worker(remote, "late"):
        for _ in range(rounds):
            for name, cluster in (("nodes", own), ("workers", remote)):
                late[name] += await lateness(cluster, starts // rounds)
    shares = load.shares()
    due = starts // rounds * rounds
    for name, found in late.items():
        emit(
            "workers-late",
            on=name,
            starts=due,
            p50_ms=percentile(found, 0.5),
            p90_ms=percentile(found, 0.9),
            p99_ms=percentile(found, 0.99),
            max_ms=max(found, default=float("nan")),
            not_run=due - len(found),
            **shares,
        )
    return all(len(found) == due for found in late.values())


async def lateness(cluster: Cluster, starts: int) -> list[float]:
    """Returns how late each began, ms."""
    node = await asyncio.to_thread(cluster.leader)
    with marks_file() as file:
        warm = file.with_suffix(".warm")
        await create_all(node, [{"trigger": {"in": "1ms"}, **handler(warm)} for _ in range(WARM)])
        await asyncio.to_thread(wait_marks, warm, WARM, LIMIT_S)
        begin = int(time.time() * 1000 + SETTLE_S * 1000)
        due = [begin + EVERY_MS * number + number * 37 % EVERY_MS for number in range(starts)]
        jobs = [{"trigger": {"at": rfc3339(at)}, **handler(file, number)} for number, at in enumerate(due)]
        await create_all(node, jobs)
        await asyncio.to_thread(wait_marks, file, starts, SETTLE_S + starts * EVERY_MS / 1000 + LIMIT_S)
        first: dict[int, float] = {}
        for mark in read_marks(file):
            first.setdefault(int(mark.which), mark.at_ms - due[int(mark.which)])
    return list(first.values())


# ---------------------------------------------------------------- killed

BEATS = """\
import os, time
file = os.open({file!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
token = os.environ["RAFTSCHED_FENCING_TOKEN"]
while True:
    os.write(file, f"{{token}} {{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}}\\n".encode())
    time.sleep(0.01)
"""


async def bench_killed(cluster: Cluster, rounds: int) -> bool:
    """False: one began too early."""
    node = await asyncio.to_thread(cluster.leader)
    ttl = ttl_s(node)
    margin = ttl / 4
    took, early, overlaps = [], 0, 0
    with marks_file() as marks:
        for number in range(rounds):
            file = marks.with_name(f"beats-{number}")
            command = [sys.executable, "-S", "-E", "-c", BEATS.format(file=str(file))]
            job = {"trigger": {"manual": True}, "handler": {"exec": command}, "grace": "1s", "max_lost": 10}
            with worker(cluster, f"killed-{number}") as victim:
                made = node.request("POST", "/v1/jobs", job).json["id"]
                run = node.request("POST", f"/v1/jobs/{made}/run", {}).json["id"]
                await asyncio.to_thread(cluster.wait, "the run", partial(beats, file))
                with worker(cluster, f"spare-{number}"):
                    killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                    victim.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(cluster.wait, "the run elsewhere", partial(taken_over, file))
                    found = beats(file)
                    node.request("POST", f"/v1/instances/{run}/kill", {})
            (_, last), (second, _) = found[min(found)], found[max(found)]
            took.append((second - killed) / 1e9)
            # What the leader last heard was sent at most a quarter of the lease before, and a second for its way.
            early += took[-1] < ttl + margin - ttl / 4 - 1.0
            overlaps += second < last
            note(f"begun elsewhere after {took[-1]:.2f} s")
    emit(
        "workers-killed",
        rounds=len(took),
        ttl_s=ttl,
        min_s=min(took, default=float("nan")),
        p50_s=percentile(took, 0.5),
        max_s=max(took, default=float("nan")),
        beyond_s=max(took, default=float("nan")) - ttl - margin,
        early=early,
        overlaps=overlaps,
    )
    return not early and not overlaps


def ttl_s(node: NodeProcess) -> float:
    text = str(node.get("/v1/cluster/settings")["worker_ttl"])
    return float(text.removesuffix("s"))


def taken_over(file: Path) -> bool:
    return len(beats(file)) > 1


def beats(file: Path) -> dict[int, tuple[int, int]]:
    """Returns the first and the last beat of each run, by token; boot clock, nanoseconds."""
    found: dict[int, tuple[int, int]] = {}
    if file.exists():
        for line in file.read_text().rpartition("\n")[0].splitlines():
            token, at = map(int, line.split())
            found[token] = (found.get(token, (at, at))[0], at)
    return found
