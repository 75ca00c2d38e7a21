"""Distances: nodes that are far from one another. Each connection between two of them goes through a proxy on this
machine that holds what it passes on for half of the round trip, each way. Clients are beside the node that they ask.

For each round trip: creates one after the other, at the leader and at a follower; runs that are due at random moments,
and how late each started (python processes, which are warm); the leader killed with -9, and the time to the next write
that is acknowledged. `false_elections` counts those without a kill: there must be none. `offsets_known` says of how
many followers the leader knows the clock. `cpu_others` is the share of the machine that others took meanwhile.
At the end the rows of the table in docs/distances.md are printed on stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scripts.benches.failover import Writers, fail_over
from scripts.benches.figures import Line, emit, note, percentile
from scripts.benches.lateness import recorded_ms
from scripts.benches.load import HANDLER, closed_loop, create_all, far, one_shot, payloads, request, rfc3339
from scripts.benches.machine import Load
from scripts.benches.nodes import term
from scripts.benches.run import instances
from scripts.benches.starts import parse_ms
from tests.support.cluster import Cluster, NodeProcess
from tests.support.ports import free_ports

WARM = 100  # runs before, so that processes are there
LEAD_S = 2.0  # from creating the runs to the first of them, beside some round trips
GAP_MS = 50  # between two due times, on average
LAST_S = 30.0  # for the last of them to start
SETTLE_S = 6.0  # after another round trip: connections get used to it


@dataclass(frozen=True, slots=True)
class Plan:
    rtts_ms: tuple[float, ...]
    seconds: float  # of each kind of creates
    runs: int
    kills: int


class Proxies:
    """One in front of the Raft port of each node. `rtt_ms` may be changed while they run."""

    def __init__(self, targets: dict[int, int]) -> None:
        """`targets`: the port of a proxy -> that of its node."""
        self.rtt_ms = 0.0
        self._targets = targets
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxies", daemon=True)

    def __enter__(self) -> Proxies:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        for port, target in self._targets.items():
            self._loop.run_until_complete(self._loop.create_server(lambda to=target: _End(self, to), "127.0.0.1", port))
        self._ready.set()
        self._loop.run_forever()


class _End(asyncio.Protocol):
    """One end of a connection through a proxy: `to` is the port to go on to, None for the end that goes there."""

    def __init__(self, proxies: Proxies, to: int | None, other: _End | None = None) -> None:
        self._proxies = proxies
        self._to = to
        self._other = other
        self._waiting: list[bytes] = []  # until the other end is there
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._free_at = 0.0  # nothing overtakes what came before
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._to is not None:
            self._dialling = self._loop.create_task(self._dial(self._to))

    async def _dial(self, port: int) -> None:
        """A connection takes a round trip to be made."""
        await asyncio.sleep(self._proxies.rtt_ms / 1000)
        try:
            _, self._other = await self._loop.create_connection(
                lambda: _End(self._proxies, None, self), "127.0.0.1", port
            )
        except OSError:
            self._end()
            return
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._pass_on(data)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._waiting.append(data)
        else:
            self._pass_on(data)

    def _pass_on(self, data: bytes | None) -> None:
        self._free_at = max(self._free_at, self._loop.time() + self._proxies.rtt_ms / 2000)
        self._loop.call_at(self._free_at, self._arrive, data)

    def _arrive(self, data: bytes | None) -> None:
        other = self._other
        if other is not None and other._transport is not None:
            if data is None:
                other._end()
            else:
                other._transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._dialling is not None and self._other is None:
            self._dialling.cancel()
        self._pass_on(None)

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()


@contextmanager
def apart(cluster: Cluster) -> Iterator[Proxies]:
    """Puts proxies in front of the nodes of a cluster that is not started yet."""
    ports = free_ports(len(cluster.nodes))
    for node, port in zip(cluster.nodes, ports, strict=True):
        node.reached_port = port
    with Proxies({node.reached_port: node.raft_port for node in cluster.nodes}) as proxies:
        yield proxies


async def bench_distances(cluster: Cluster, proxies: Proxies, plan: Plan) -> bool:
    """Returns False when there was an election without a kill, or a run that did not start."""
    held = True
    for rtt_ms in plan.rtts_ms:
        proxies.rtt_ms = rtt_ms
        note(f"round trips of {rtt_ms:g} ms ...")
        await asyncio.sleep(SETTLE_S)
        await asyncio.to_thread(cluster.leader)
        load, first_term = Load(), await _term(cluster)
        at_leader, at_follower = await _creates(cluster, plan.seconds)
        late = await _starts(cluster, plan.runs, rtt_ms)
        offsets = await asyncio.to_thread(_offsets_known, cluster)
        elections = await _term(cluster) - first_term
        outages = await _outages(cluster, plan.kills)
        held &= elections == 0 and len(late) == plan.runs
        emit(
            "distances",
            rtt_ms=rtt_ms,
            leader_p50_ms=percentile(at_leader, 0.5),
            leader_p99_ms=percentile(at_leader, 0.99),
            follower_p50_ms=percentile(at_follower, 0.5),
            follower_p99_ms=percentile(at_follower, 0.99),
            late_p50_ms=percentile(late, 0.5),
            late_p99_ms=percentile(late, 0.99),
            early=sum(ms < 0 for ms in late),
            not_run=plan.runs - len(late),
            failover_p50_s=percentile(outages, 0.5),
            failover_max_s=max(outages, default=float("nan")),
            kills=len(outages),
            false_elections=elections,
            offsets_known=offsets,
            load_average=os.getloadavg()[0],
            **load.shares(),
        )
    return held


def rows(lines: list[Line]) -> str:
    """Returns the rows of the table in docs/distances.md."""
    return "\n".join(
        f"| {line['rtt_ms']:g} ms | {line['leader_p50_ms']:.0f} ms, {line['leader_p99_ms']:.0f} ms"
        f" | {line['follower_p50_ms']:.0f} ms, {line['follower_p99_ms']:.0f} ms"
        f" | {line['late_p50_ms']:.0f} ms, {line['late_p99_ms']:.0f} ms"
        f" | {line['failover_p50_s']:.1f} s | {line['false_elections']} |"
        for line in lines
        if line["bench"] == "distances"
    )


async def _term(cluster: Cluster) -> int:
    return await asyncio.to_thread(lambda: term(cluster.leader()))


async def _creates(cluster: Cluster, seconds: float) -> tuple[list[float], list[float]]:
    """Latencies in ms, at the leader and at a follower."""
    leader = await asyncio.to_thread(cluster.leader)
    follower = next(node for node in cluster.nodes if node is not leader)
    found = []
    for node in (leader, follower):
        found.append((await closed_loop(node.http_port, 1, seconds, _make(node), 201))[2])
    return found[0], found[1]


def _make(node: NodeProcess) -> Callable[[], bytes]:
    return payloads(50, lambda: request("POST", "/v1/jobs", node.http_port, json.dumps(one_shot(far())).encode()))


async def _starts(cluster: Cluster, count: int, rtt_ms: float) -> list[float]:
    """How late runs started, in ms; of those that did."""
    leader = await asyncio.to_thread(cluster.leader)
    since_ms = int(time.time() * 1000)
    await create_all(leader, [{"trigger": {"in": "1ms"}, "handler": HANDLER} for _ in range(WARM)])
    begin_ms = int(time.time() * 1000 + 1000 * LEAD_S + 20 * rtt_ms)
    due = [begin_ms + random.randrange(GAP_MS * count) for _ in range(count)]
    await create_all(leader, [{"trigger": {"at": rfc3339(at)}, "handler": HANDLER} for at in due])
    await asyncio.sleep(max(0.0, (begin_ms + GAP_MS * count) / 1000 - time.time()))
    deadline = time.time() + LAST_S
    while True:
        leader = await asyncio.to_thread(cluster.leader)
        found = await asyncio.to_thread(instances, leader, since_ms)
        wanted = {row["id"] for row in found if parse_ms(row["scheduled_at"]) >= begin_ms}
        late = await asyncio.to_thread(recorded_ms, leader, since_ms, wanted)
        if len(late) == count or time.time() > deadline:
            return late
        await asyncio.sleep(0.5)


def _offsets_known(cluster: Cluster) -> int:
    leader = cluster.leader()
    nodes = leader.get("/v1/cluster")["nodes"]
    return sum(node["clock_offset_ms"] is not None for node in nodes if node["id"] != leader.id)


async def _outages(cluster: Cluster, kills: int) -> list[float]:
    """Seconds from the death of a leader to the next write that is acknowledged."""
    outages = []
    async with Writers(cluster, each=1) as writers:
        for _ in range(kills):
            outages.append(await fail_over(cluster, writers))
    return outages
