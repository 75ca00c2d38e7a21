"""A list, then the events after its index: nothing is missed. On disks whose flushes take long, for then there is time
between what callers are told and what reads show."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripts.benches.slowdisk import SlowFlushes
from tests.support.cluster import Cluster

JOB = {"trigger": {"at": "2099-01-01T00:00:00Z"}, "handler": {"exec": ["true"]}}
JOBS = 250
FLUSH_MS = 5.0
WRITERS, READERS = 2, 6

Seen = list[tuple[int, set[str]]]


async def lists_while_jobs_are_made(url: str) -> tuple[Seen, dict[str, int]]:
    """(Raftsched-Index, ids) of each list, and by which entry of the log each job was made."""
    lists: Seen = []
    left = JOBS

    async def write(session: aiohttp.ClientSession) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with session.post(f"{url}/v1/jobs", json=JOB) as answer:
                assert answer.status == 201, await answer.text()

    async def read(session: aiohttp.ClientSession) -> None:
        while left > 0:
            async with session.get(f"{url}/v1/jobs?consistency=leader&limit=1000") as answer:
                assert answer.status == 200, await answer.text()
                ids = {job["id"] for job in (await answer.json())["items"]}
                lists.append((int(answer.headers["Raftsched-Index"]), ids))

    async with aiohttp.ClientSession() as session:
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(write(session))
            for _ in range(READERS):
                group.create_task(read(session))
        made: dict[str, int] = {}
        query = "after=oldest&follow=false&type=job.created&consistency=leader"
        async with session.get(f"{url}/v1/events?{query}") as answer:
            for line in (await answer.text()).splitlines():
                if line.startswith('data: {"id"'):
                    event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                    made[event["job_id"]] = int(event["id"].partition(".")[0])
    return lists, made


@pytest.mark.e2e
def test_nothing_is_missed_between_a_list_and_the_events_after_it(tmp_path: Path) -> None:
    try:
        shim = SlowFlushes(tmp_path)
    except RuntimeError as why:
        pytest.skip(str(why))
    cluster = Cluster(3)
    cluster.environment |= shim.environment
    with cluster:
        shim.delay(FLUSH_MS)
        lists, made = asyncio.run(lists_while_jobs_are_made(f"http://127.0.0.1:{cluster.leader().http_port}"))
    assert len(made) == JOBS
    missed = [(index, job) for index, ids in lists for job, entry in made.items() if entry <= index and job not in ids]
    assert lists
    assert not missed, f"{len(missed)} in {len(lists)} lists, such as (Raftsched-Index, job) {missed[:3]}"
