"""Benchmarks of a local cluster: three node processes and the load on this machine, fsync on.

Each figure is printed as one JSON line. Create rates come from closed loops (a connection sends its next request when
the last was answered); lateness from the instances' own records, not from the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.cluster import Cluster, NodeProcess

HANDLER = {"python": "raftsched.samples:noop"}


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def emit(bench: str, **figures: Any) -> None:
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps({"bench": bench, **rounded, "cores": os.cpu_count(), "python": platform.python_version()}))
    sys.stdout.flush()


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- an HTTP/1.1 client that costs little


class Connection(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        stop = head.find(b"\r\n", at)
        size = int(head[at + 15 : stop if stop > 0 else None])
        if len(self._buffer) - end - 4 < size:
            return
        answer, self._answer = self._answer, None
        body, self._buffer = self._buffer[end + 4 :], b""
        if answer is not None and not answer.done():
            answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("closed by the node"))

    def send(self, raw: bytes) -> asyncio.Future[tuple[int, bytes]]:
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(raw)
        return self._answer


def request(method: str, path: str, port: int, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def closed_loop(
    port: int, connections: int, seconds: float, make: Callable[[], bytes], good: int
) -> tuple[int, float, list[float]]:
    """(answers, seconds, latencies in ms); stops at the first answer that is not `good`."""
    loop = asyncio.get_running_loop()
    pool = [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(connections)]
    latencies: list[float] = []
    start = time.perf_counter()
    end = start + seconds

    async def worker(connection: Connection) -> None:
        while (sent := time.perf_counter()) < end:
            status, body = await connection.send(make())
            if status != good:
                raise RuntimeError(f"status {status}: {body[:300]!r}")
            latencies.append((time.perf_counter() - sent) * 1000)

    try:
        await asyncio.gather(*(worker(c) for c in pool))
    finally:
        for connection in pool:
            if connection.transport is not None:
                connection.transport.close()
    return len(latencies), time.perf_counter() - start, latencies


# ---------------------------------------------------------------- create


def one_shot(at_ms: int) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}Z"
    return {"trigger": {"at": at}, "handler": HANDLER, "params": {}}


def far() -> int:
    """A due time that the benchmark does not live to see, as spread as those of real users."""
    return int(time.time() * 1000) + random.randrange(3_600_000, 10 * 3_600_000)


def payloads(count: int, make: Callable[[], bytes]) -> Callable[[], bytes]:
    """Requests made beforehand, so that making them is not what is measured."""
    made = [make() for _ in range(count)]

    def cycle() -> Iterator[bytes]:
        while True:
            yield from made

    return cycle().__next__


async def bench_create(cluster: Cluster, seconds: float, through: str) -> None:
    target = cluster.leader() if through == "leader" else cluster.followers()[0]
    port = target.http_port
    single = payloads(2000, lambda: request("POST", "/v1/jobs", port, json.dumps(one_shot(far())).encode()))
    for connections in (1, 32, 256):
        await closed_loop(port, connections, min(1.0, seconds), single, 201)
        count, took, latencies = await closed_loop(port, connections, seconds, single, 201)
        emit(
            "create",
            through=through,
            in_flight=connections,
            per_second=count / took,
            p50_ms=percentile(latencies, 0.5),
            p99_ms=percentile(latencies, 0.99),
        )
    size = 200
    many = payloads(
        40,
        lambda: request("POST", "/v1/jobs:batch", port, json.dumps([one_shot(far()) for _ in range(size)]).encode()),
    )
    await closed_loop(port, 8, min(1.0, seconds), many, 200)
    count, took, latencies = await closed_loop(port, 8, seconds, many, 200)
    emit(
        "create-batch",
        through=through,
        batch=size,
        in_flight=8,
        jobs_per_second=count * size / took,
        p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99),
    )


# ---------------------------------------------------------------- run


async def create_all(node: NodeProcess, jobs: list[dict[str, Any]]) -> None:
    """Creates them in batches of 500 over four connections; every item must be accepted."""
    loop = asyncio.get_running_loop()
    chunks = [jobs[i : i + 500] for i in range(0, len(jobs), 500)]

    async def send(connection: Connection) -> None:
        while chunks:
            body = json.dumps(chunks.pop()).encode()
            status, answer = await connection.send(request("POST", "/v1/jobs:batch", node.http_port, body))
            if status != 200 or any(item["status"] != 201 for item in json.loads(answer)["items"]):
                raise RuntimeError(f"status {status}: {answer[:300]!r}")

    pool = [(await loop.create_connection(Connection, "127.0.0.1", node.http_port))[1] for _ in range(4)]
    await asyncio.gather(*(send(c) for c in pool))
    for connection in pool:
        if connection.transport is not None:
            connection.transport.close()


def instances(node: NodeProcess, since_ms: int) -> list[dict[str, Any]]:
    """All instances scheduled from `since_ms` on."""
    found: list[dict[str, Any]] = []
    path: str | None = f"/v1/instances?limit=1000&from={rfc3339(since_ms)}"
    while path:
        page = node.get(path)
        found += page["items"]
        path = f"/v1/instances?limit=1000&from={rfc3339(since_ms)}&cursor={page['next']}" if page["next"] else None
    return found


def rfc3339(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}Z"


def parse_ms(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def done_count(cluster: Cluster) -> int:
    """Runs that ended, as the leader's metrics count them."""
    text = cluster.leader().request("GET", "/metrics").body.decode()
    total = 0.0
    for line in text.splitlines():
        if line.startswith("raftsched_attempts_ended_total"):
            total += float(line.rsplit(" ", 1)[1])
    return int(total)


async def wait_runs(cluster: Cluster, wanted: int, limit_s: float) -> None:
    deadline = time.perf_counter() + limit_s
    while (done := await asyncio.to_thread(done_count, cluster)) < wanted:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"only {done} of {wanted} runs ended within {limit_s:.0f} s")
        await asyncio.sleep(0.1)


async def bench_throughput(cluster: Cluster, count: int) -> None:
    """No-op Python jobs, due at once: from the first create to the last success, by the instances' own records."""
    node = cluster.leader()
    before = done_count(cluster)
    start_ms = int(time.time() * 1000)
    await create_all(node, [one_shot(start_ms) for _ in range(count)])
    created_s = time.time() - start_ms / 1000
    await wait_runs(cluster, before + count, 180)
    rows = [r for r in instances(node, start_ms) if parse_ms(r["scheduled_at"]) == start_ms]
    if len(rows) != count or any(r["state"] != "SUCCEEDED" for r in rows):
        raise RuntimeError(f"{len(rows)} instances of {count}: {sorted({r['state'] for r in rows})}")
    took = (max(parse_ms(r["ended_at"]) for r in rows) - start_ms) / 1000
    emit("run", runs=count, per_second=count / took, seconds=took, creating_seconds=created_s)


async def bench_burst(cluster: Cluster, count: int, lead_s: float) -> None:
    """`count` one-shots due at one instant: how late each started."""
    node = cluster.leader()
    before = done_count(cluster)
    due_ms = int(time.time() * 1000 + lead_s * 1000)
    await create_all(node, [one_shot(due_ms) for _ in range(count)])
    if time.time() * 1000 > due_ms:
        raise RuntimeError("creating took longer than the lead; use --lead")
    await wait_runs(cluster, before + count, lead_s + 180)
    rows = [r for r in instances(node, due_ms) if parse_ms(r["scheduled_at"]) == due_ms]
    if len(rows) != count or any(r["state"] != "SUCCEEDED" for r in rows):
        raise RuntimeError(f"{len(rows)} instances of {count}: {sorted({r['state'] for r in rows})}")
    late = [parse_ms(r["started_at"]) - due_ms for r in rows]
    emit(
        "burst",
        due_at_once=count,
        lateness_p50_ms=percentile(late, 0.5),
        lateness_p99_ms=percentile(late, 0.99),
        last_start_ms=max(late),
    )


# ---------------------------------------------------------------- command line


def measure(arguments: argparse.Namespace) -> None:
    flags = ["--slots", str(arguments.slots)] if arguments.slots else []
    run: Callable[[Awaitable[None]], None] = asyncio.run  # type: ignore[assignment]
    try:
        import uvloop

        run = uvloop.run
    except ImportError:
        pass
    note("starting three nodes ...")
    with Cluster(3, flags=flags) as cluster:
        cluster.leader()
        if arguments.what in ("create", "all"):
            run(bench_create(cluster, arguments.seconds, "leader"))
            if arguments.follower:
                run(bench_create(cluster, arguments.seconds, "follower"))
        if arguments.what in ("run", "all"):
            run(bench_throughput(cluster, 500))  # warms the worker processes up
            run(bench_throughput(cluster, arguments.count))
            run(bench_burst(cluster, arguments.count, arguments.lead))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("what", choices=["create", "run", "all"])
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each create measurement")
    parser.add_argument("--count", type=int, default=10_000, help="runs in each run measurement")
    parser.add_argument("--lead", type=float, default=10.0, help="seconds from creating a burst to its instant")
    parser.add_argument("--slots", type=int, default=0, help="slots per node (default: the node's)")
    parser.add_argument("--follower", action="store_true", help="create through a follower as well")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
