"""Limits by key: create and run rates of jobs with so many keys, each limited, against those of jobs without, in turns.

`keys-create`: one job a request over 32 connections, all through the leader. `keys-run`: jobs that do nothing and are
due at once, one for each key, from the first create to the last success. Each is measured without and with limits in
each round, those with limits first in every other one: creates in all rounds before any runs, for what is left to do
of runs (records to drop, output to prune) takes from what comes after them. The last two rows are the medians; `ratio`
is the median of what each round reached with limits of what it reached without, so that a machine whose speed changes
in minutes does not decide it.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from itertools import count
from typing import Any

from scripts.benches.create import WARM_S
from scripts.benches.figures import emit
from scripts.benches.load import closed_loop, create_all, far, one_shot, payloads, request, rfc3339
from scripts.benches.run import LIMIT_S, WARM, done_count, wait_runs
from tests.support.cluster import Cluster

IN_FLIGHT = 32
PAYLOADS = 10_000
LIMITS = {"key": "{params.tenant}", "max": 2, "rate": {"count": 1_000, "per": "1m"}}


def limited(job: dict[str, Any], number: int) -> dict[str, Any]:
    return {**job, "params": {"tenant": f"tenant-{number}"}, "concurrency": LIMITS}


def plain(job: dict[str, Any], number: int) -> dict[str, Any]:
    return {**job, "params": {"tenant": f"tenant-{number}"}}


KINDS = {"without": plain, "with": limited}


async def bench_keys(cluster: Cluster, keys: int, rounds: int, seconds: float) -> None:
    async def creates(kind: str) -> float:
        return await _creates(cluster, keys, kind, seconds)

    async def runs(kind: str) -> float:
        return await _runs(cluster, keys, kind)

    for bench, measure in (("keys-create", creates), ("keys-run", runs)):
        if measure is runs:
            await _runs(cluster, WARM, "with")
        reached: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(rounds):
            for kind in list(KINDS) if number % 2 else list(reversed(KINDS)):
                rate = await measure(kind)
                reached[kind].append(rate)
                emit(bench, limits=kind, keys=keys, round=number + 1, per_second=rate)
        without, within = (statistics.median(reached[kind]) for kind in KINDS)
        ratio = statistics.median(b / a for a, b in zip(*reached.values(), strict=True))
        emit(f"{bench}-ratio", keys=keys, without=without, with_limits=within, ratio=ratio)


async def _creates(cluster: Cluster, keys: int, kind: str, seconds: float) -> float:
    node, numbers = cluster.leader(), count()

    def make() -> bytes:
        job = KINDS[kind](one_shot(far()), next(numbers) % keys)
        return request("POST", "/v1/jobs", node.http_port, json.dumps(job).encode())

    made = payloads(min(PAYLOADS, keys), make)
    await closed_loop(node.http_port, IN_FLIGHT, min(WARM_S, seconds), made, 201)
    answers, took, _ = await closed_loop(node.http_port, IN_FLIGHT, seconds, made, 201)
    return answers / took


async def _runs(cluster: Cluster, runs: int, kind: str) -> float:
    node = await asyncio.to_thread(cluster.leader)
    before = await asyncio.to_thread(done_count, cluster)
    job = {"trigger": {"at": rfc3339(int(time.time() * 1000))}, "handler": {"python": "raftsched.samples:noop"}}
    began = time.perf_counter()
    await create_all(node, [KINDS[kind](job, number) for number in range(runs)])
    await wait_runs(cluster, before + runs, LIMIT_S)
    return runs / (time.perf_counter() - began)
