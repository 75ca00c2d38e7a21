"""Ratios of this checkout alone: what something costs over what it cannot do without, or over what it is to be near to.

All are processor time, and of one run on one machine, so that they mean the same on another.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import raftsched
from scripts.benches import restart, starts
from scripts.benches.event_loop import Loop
from scripts.benches.figures import emit, note
from scripts.benches.machine import Load
from scripts.benches.peers.installed import PEERS, Places
from scripts.benches.ratio import applied, work
from scripts.benches.ratio.trees import environment
from scripts.benches.run import WARM, noops
from tests.support.cluster import ROOT, Cluster

BENCH = "floor"
SPAWNS = 400
JOBS = 5_000  # of BullMQ, and no-op runs with concurrency
ROUNDS = 3  # of starts, and of nodes that are all killed
SPAWNED = """
import os, resource, sys

def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

for count in (50, int(sys.argv[2])):
    began = spent()
    for _ in range(count):
        os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:2], os.environ), 0)
print((spent() - began) / count * 1e6)
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peer-node-modules", type=Path, default=Path("node_modules"), metavar="DIR",
        help="floors: where npm put bullmq and ioredis (node_modules)",
    )  # fmt: skip


def bench_floors(loop: Loop, given: argparse.Namespace) -> None:
    """Emits a line for each; what cannot be measured here is said to be skipped."""
    _apply()
    _programs(loop, given.less)
    _creates(loop, given.less)
    _functions(loop, given)
    rounds = max(1, round(ROUNDS / given.less))
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        restart.bench_node_start(Path(directory), rounds)
    with Cluster(3) as cluster:
        loop(restart.bench_killed_cluster(cluster, rounds))


def _told(of: str, us: float, over: str, floor_us: float) -> None:
    emit(BENCH, of=f"{of}, over {over}", ours_us=us, floor_us=floor_us, ratio=us / floor_us)


def _apply() -> None:
    note("apply, and LMDB and msgspec alone ...")
    found = applied.loops(environment(ROOT), "floor", str(applied.ROUNDS))
    apply, floor = found["apply"], found["floor"]
    life = sum(apply[step] for step in applied.LIVES["one-shot's life"])
    run = sum(apply[step] for step in applied.LIVES["periodic run"])
    bare = sum(floor[step] for step in applied.LIVES["one-shot's life"])
    _told("apply of a one-shot's life", life, "LMDB and msgspec of its rows", bare)
    _told("apply of a periodic run", run, "a one-shot's run", apply["fire"] + apply["end"])


def _programs(loop: Loop, less: float) -> None:
    """A run of `true` below the nodes: as their own user and, where that is root, as the one that it is by default."""
    path = shutil.which("true")
    assert path is not None
    command = [sys.executable, "-I", "-S", "-c", SPAWNED, path, str(SPAWNS)]
    spawn_us = float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    for who, as_myself in (("", True), (" as another user", False)):
        if as_myself or os.geteuid() == 0:
            note(f"exec runs{who} ...")
            with Cluster(3, as_myself=as_myself) as cluster:
                cost = loop(work.runs(cluster, {"exec": [path]}, max(10, int(work.RUNS["exec"] / less)), 100))
            _told(f"exec run{who}, below the node", cost.below, "posix_spawn of true", spawn_us)
        else:
            note("exec runs as another user: skipped, these nodes are not root's")


def _creates(loop: Loop, less: float) -> None:
    note("creates ...")
    by_name = {part.name: part for part in work.PARTS}
    with Cluster(3) as cluster:
        single, batch = (loop(by_name[name].measure(cluster, less)).each for name in ("create", "batch"))
    _told("job of a batch", batch, "a single create", single)


def _functions(loop: Loop, given: argparse.Namespace) -> None:
    """No-op runs over BullMQ's jobs: a process each, and several at a time in one."""
    count = max(50, int(JOBS / given.less))
    bullmq_us = _bullmq(Places(node_modules=given.peer_node_modules), count)
    if bullmq_us is None:
        return
    peer = "BullMQ's job"
    note("no-op python runs ...")
    with Cluster(3, pythonpath=starts.JOBS) as cluster:
        _told("no-op python run", loop(_noops(cluster, count)).each, peer, bullmq_us)
    if "concurrency" not in inspect.signature(raftsched.handler).parameters:
        note("no-op runs with concurrency: skipped, there is no such option")
        return
    with Cluster(3, flags=("--handlers", "noops"), pythonpath=starts.JOBS) as cluster:
        cost = loop(work.runs(cluster, {"call": "noop"}, count))
    _told("no-op python run with concurrency", cost.each, peer, bullmq_us)


async def _noops(cluster: Cluster, count: int) -> work.Cost:
    async with noops() as handlers:
        return await work.runs(cluster, handlers["python"], count)


def _bullmq(places: Places, count: int) -> float | None:
    """Returns the processor time of a job in Node.js and Redis together; None where it is not installed."""
    peer = PEERS["bullmq"]
    if missing := peer.missing(places):
        note("BullMQ is skipped, not installed:" + "".join(f"\n  {what}" for what in missing))
        return None
    note("BullMQ ...")
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        load = Load()
        for line in peer.measure(places, {"parts": ["run"], "warm": WARM, "count": count}, Path(directory)):
            if line["bench"] == "run":
                return load.spent_s() / count * 1e6
            load = Load()
    raise RuntimeError("BullMQ ran nothing")
