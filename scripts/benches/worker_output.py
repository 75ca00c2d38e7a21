"""Output streamed from a remote worker while it is read at a node: complete, in order, byte for byte.

A job on a `raftsched worker` prints numbered lines; a reader follows it at a node that is not the one that the worker
sends it to, and holds what comes against what was printed. `python -m scripts.benches.worker_output` measures 100 MB,
and how much more memory the nodes and the worker took.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from scripts.benches.figures import emit, note
from scripts.benches.workers import worker
from tests.support.cluster import Cluster, NodeProcess

LINE = 64  # bytes
OUTPUT_MAX = 256 << 20  # bytes: nothing is left out
LOOK_S = 0.1
# Prints so many lines.
PRINT = (
    "import sys\n"
    "count = int(sys.argv[1])\n"
    "for at in range(0, count, 1000):\n"
    f"    sys.stdout.write(''.join('%0{LINE - 1}d\\n' % n for n in range(at, min(at + 1000, count))))\n"
    "    sys.stdout.flush()\n"
)


@dataclass(frozen=True)
class Streamed:
    """What came to the reader."""

    size: int
    whole: bool  # byte for byte what was printed
    seconds: float


def handler(count: int) -> dict[str, Any]:
    """Prints so many lines."""
    return {"exec": [sys.executable, "-c", PRINT, str(count)]}


def printed(count: int) -> str:
    """Returns the digest of all that it prints."""
    told = hashlib.sha256()
    for number in range(count):
        told.update(b"%0*d\n" % (LINE - 1, number))
    return told.hexdigest()


def holder(cluster: Cluster) -> NodeProcess | None:
    """Returns the node that the worker sends its output to."""
    for node in cluster.nodes:
        if any((node.data / "output" / "live").glob("*")):
            return node
    return None


async def follow(node: NodeProcess, instance: str, count: int) -> Streamed:
    """Reads it to its end."""
    told, size, began = hashlib.sha256(), 0, time.perf_counter()
    url = f"{node.url}/v1/instances/{instance}/output?follow=true"
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        answer.raise_for_status()
        async for piece in answer.content.iter_chunked(64 * 1024):
            told.update(piece)
            size += len(piece)
    return Streamed(size, told.hexdigest() == printed(count), time.perf_counter() - began)


def resident(pid: int) -> int:
    """Returns the bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@contextmanager
def growth(pids: list[int]) -> Iterator[list[int]]:
    """What each of them took more at the most, once it is over."""
    before, most = [resident(pid) for pid in pids], [0] * len(pids)

    async def watch() -> None:
        while True:
            for at, pid in enumerate(pids):
                most[at] = max(most[at], resident(pid) - before[at])
            await asyncio.sleep(LOOK_S)

    watching = asyncio.ensure_future(watch())
    try:
        yield most
    finally:
        watching.cancel()


def keep_all(cluster: Cluster) -> None:
    """Has the cluster keep OUTPUT_MAX of what a run prints."""
    reply = cluster.leader().request("PATCH", "/v1/cluster/settings", {"output_max_bytes": OUTPUT_MAX})
    assert reply.status == 200, reply.body


async def bench_output(cluster: Cluster, megabytes: int, name: str = "prints") -> bool:
    """False: something is missing, or in the wrong place. The cluster has to keep all of a run (`keep_all`)."""
    count = megabytes * 1_000_000 // LINE
    with worker(cluster, name) as process:
        job = {"trigger": {"manual": True}, "handler": handler(count), "timeout": "1h"}
        node = await asyncio.to_thread(cluster.leader)
        made = await asyncio.to_thread(node.request, "POST", "/v1/jobs", job)
        run = await asyncio.to_thread(node.request, "POST", f"/v1/jobs/{made.json['id']}/run", {})
        instance = run.json["id"]
        taker = await asyncio.to_thread(cluster.wait, "a node has a copy", partial(holder, cluster))
        reader = next(one for one in cluster.nodes if one is not taker)
        pids = [one.process.pid for one in (taker, reader) if one.process is not None] + [process.pid]
        with growth(pids) as most:
            streamed = await follow(reader, instance, count)
    emit(
        "workers-output",
        megabytes=megabytes,
        whole=streamed.whole,
        bytes=streamed.size,
        seconds=streamed.seconds,
        taker_grew_mb=most[0] / 1e6,
        reader_grew_mb=most[1] / 1e6,
        worker_grew_mb=most[2] / 1e6,
    )
    return streamed.whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    given = parser.parse_args()
    with Cluster(3, flags=["--no-run"]) as cluster:
        keep_all(cluster)
        note(f"{given.megabytes} MB")
        return 0 if asyncio.run(bench_output(cluster, given.megabytes)) else 1


if __name__ == "__main__":
    sys.exit(main())
