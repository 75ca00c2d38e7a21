"""What one node told holds at the others, and what an answer claims to show it shows. On disks whose flushes take long,
for then there is time between the one and the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from scripts.benches.slowdisk import SlowFlushes
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e

JOB = {"trigger": {"at": "2099-01-01T00:00:00Z"}, "handler": {"exec": ["true"]}}
JOBS = 250
TIMES = 15
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


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with slow disks."""
    try:
        shim = SlowFlushes(tmp_path_factory.mktemp("shim"))
    except RuntimeError as why:
        pytest.skip(str(why))
    cluster = Cluster(3)
    cluster.environment |= shim.environment
    with cluster:
        shim.delay(FLUSH_MS)
        yield cluster


def test_nothing_is_missed_between_a_list_and_the_events_after_it(slow: Cluster) -> None:
    lists, made = asyncio.run(lists_while_jobs_are_made(f"http://127.0.0.1:{slow.leader().http_port}"))
    assert len(made) == JOBS
    missed = [(index, job) for index, ids in lists for job, entry in made.items() if entry <= index and job not in ids]
    assert lists
    assert not missed, f"{len(missed)} in {len(lists)} lists, such as (Raftsched-Index, job) {missed[:3]}"


def test_what_was_made_at_one_node_is_known_at_the_others(slow: Cluster) -> None:
    leader = slow.leader()
    others = slow.followers_of(leader)
    made = leader.request("POST", "/v1/tokens", {"name": "root", "role": "admin"})
    admin = {"Authorization": f"Bearer {made.json['secret']}"}
    assert leader.request("PUT", "/v1/cluster/access", {"required": True}, admin).status == 200
    for follower in others:  # they have heard that tokens are needed
        assert follower.request("GET", "/v1/jobs?consistency=leader", headers=admin).status == 200
    for number in range(TIMES):
        first, second = others if number % 2 else reversed(others)
        made = leader.request("POST", "/v1/tokens", {"name": f"t{number}", "role": "editor"}, admin)
        token = {"Authorization": f"Bearer {made.json['secret']}"}
        reply = first.request("POST", "/v1/jobs", {**JOB, "name": f"j{number}", "suspended": True}, token)
        assert reply.status == 201, reply.body
        job = f"/v1/namespaces/default/jobs/j{number}"
        reply = second.request("POST", f"{job}/resume", {}, admin)
        assert reply.status == 200, reply.body
        edited = leader.request("PATCH", job, {"owner": "me"}, admin)
        reply = first.request("PATCH", job, {"owner": "you"}, {**admin, "If-Match": edited.headers["etag"]})
        assert reply.status == 200, reply.body
        asked = second.request("POST", f"{job}/run", {}, admin)
        reply = leader.request("GET", f"/v1/instances/{asked.json['id']}", headers=admin)
        assert reply.status == 200, reply.body
        reply = first.request("GET", f"/v1/instances/{asked.json['id']}/explain", headers=token)
        assert reply.status == 200, reply.body
    for follower in others:
        assert follower.request("GET", "/v1/jobs", headers={"Authorization": "Bearer of-nobody"}).status == 401
