"""Lists of jobs by filter: what they hold, their order, and that it is stable while jobs come and go."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}}


async def make(call: Client, **fields: Any) -> str:
    status, answer = await call("POST", "/v1/jobs", {**JOB, **fields})
    assert status == 201, answer
    return str(answer["id"])


async def ids(call: Client, query: str) -> list[str]:
    """Of all pages."""
    found: list[str] = []
    cursor = ""
    for _ in range(1_000):
        status, page = await call("GET", f"/v1/jobs?{query}{cursor}")
        assert status == 200, page
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"
    raise AssertionError("the pages never end")


async def test_each_filter(call: Client) -> None:
    a = await make(call, name="report-daily", owner="ana", labels={"team": "fin", "tier": "a=b"})
    call.cluster.clock.forward(1_000)
    b = await make(call, name="report-weekly", namespace="billing", queue="slow", trigger={"every": "5m"})
    call.cluster.clock.forward(1_000)
    c = await make(call, suspended=True, owner="bo", labels={"team": "ops"})
    wanted = {
        "": [a, b, c],
        "namespace=billing": [b],
        "namespace=default": [a, c],
        "owner=ana": [a],
        "owner=nobody": [],
        "label=team%3Dfin": [a],
        "label=tier%3Da%3Db": [a],
        "label=team%3D": [],
        "queue=slow": [b],
        "state=NEW": [c],
        "state=SUSPENDED": [],
        "state=NEW,SCHEDULED": [a, b, c],
        "name_prefix=report": [a, b],
        "name_contains=week": [b],
        "name_contains=report&state=SCHEDULED&queue=default": [a],
        "namespace=billing&name_prefix=rep": [b],
        "namespace=billing&name=report-weekly": [b],
        "namespace=billing&name=report-daily": [],
        "created_from=2030-01-01T00:00:01Z": [b, c],
        "created_to=2030-01-01T00:00:01Z": [a],
        "created_from=2030-01-01T00:00:01Z&created_to=2030-01-01T00:00:02Z&order=desc": [b],
        "next_to=9999-12-31T23:59:59Z": [b, a],
        "next_to=9999-12-31T23:59:59Z&order=desc": [a, b],
        "next_from=2030-01-01T00:30:00Z": [a],
        "next_from=2030-01-01T00:00:00Z&next_to=2030-01-01T00:30:00Z&owner=ana": [],
    }
    for query, expected in wanted.items():
        assert await ids(call, query) == expected, query
    await call("POST", f"/v1/jobs/{b}/pause")
    assert await ids(call, "state=SUSPENDED") == [b]
    assert await ids(call, "next_to=9999-12-31T23:59:59Z") == [a]
    await call("DELETE", f"/v1/jobs/{a}")
    assert await ids(call, "owner=ana") == []


@pytest.mark.parametrize("query", ["", "owner=ana", "namespace=n&name_prefix=x", "order=desc", "owner=ana&order=desc"])
async def test_pages_stay_in_order_while_jobs_come_and_go(call: Client, query: str) -> None:
    """What is there all the time is listed once; nothing is listed twice."""
    seed = random.getrandbits(32)
    print("seed", seed)
    r = random.Random(seed)

    async def add() -> str:
        call.cluster.clock.forward(1)
        return await make(call, namespace="n", owner="ana", name=f"x{r.getrandbits(60):015x}")

    stays = [await add() for _ in range(30)]
    goes = [await add() for _ in range(30)]
    found: list[str] = []
    cursor = ""
    while True:
        _, page = await call("GET", f"/v1/jobs?limit=7&{query}{cursor}")
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
        await call("DELETE", f"/v1/jobs/{goes.pop(r.randrange(len(goes)))}")
        if r.random() < 0.5:
            await add()
    assert len(set(found)) == len(found)
    assert set(stays) <= set(found)
    if "name_prefix" not in query:
        assert found == sorted(found, reverse="desc" in query)


async def test_a_due_list_goes_by_the_time_of_the_next_fire(call: Client) -> None:
    made = {minutes: await make(call, trigger={"in": f"{minutes}m"}) for minutes in (9, 3, 7, 1)}
    expected = [made[minutes] for minutes in (1, 3, 7, 9)]
    assert call.cluster.clock.wall == START_MS
    assert await ids(call, "next_from=2030-01-01T00:00:00Z&limit=1") == expected
    assert await ids(call, "next_from=2030-01-01T00:03:00Z&next_to=2030-01-01T00:09:00Z") == expected[1:3]


@pytest.mark.parametrize(
    "query",
    [
        "name=a&name_prefix=a",
        "state=",
        "state=x",
        "next_from=now",
        "label=",
        "label=%3Dx",
        "queue=a&queue=b",
        "owner=%00",
    ],
)
async def test_what_is_wrong_in_a_filter(call: Client, query: str) -> None:
    status, _ = await call("GET", f"/v1/jobs?{query}")
    assert status == (200 if query == "owner=%00" else 400)
