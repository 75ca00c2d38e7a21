"""GET /v1/instances:recent: the newest runs of many jobs, bounded, and only of those that a caller may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftsched.core.model import Outcome
from raftsched.surface.runs import RECENT_JOBS_MAX
from tests.integration.api.runs.test_stats import go, make
from tests.support.local_api import Client
from tests.support.places import Place, placed


async def recent(call: Any, query: str) -> list[Any]:
    status, answer = await call("GET", f"/v1/instances:recent?{query}")
    assert status == 200, answer
    found: list[Any] = answer["items"]
    return found


async def test_the_newest_of_each(call: Client) -> None:
    one, other, none = [await make(call) for _ in range(3)]
    for late in range(4):
        await go(call, one, late_ms=late, took_ms=100)
    await go(call, other, late_ms=7, took_ms=50, outcome=Outcome.FAILED)
    found = await recent(call, f"jobs={other},{one},{none}&count=3")
    assert [item["job_id"] for item in found] == [other, one, none], "in the order asked for"
    assert [run["late_ms"] for run in found[1]["runs"]] == [3, 2, 1]
    assert found[2]["runs"] == []
    _, whole = await call("GET", f"/v1/jobs/{one}/instances?limit=3")
    for short, full in zip(found[1]["runs"], whole["items"], strict=True):
        assert short == {name: full[name] for name in short}
    _, made = await call("POST", f"/v1/jobs/{none}/run")
    ((waiting,),) = [item["runs"] for item in await recent(call, f"jobs={none}")]
    assert (waiting["id"], waiting["state"], waiting["late_ms"]) == (made["id"], "WAITING", None)


async def test_a_job_that_is_not_there_is_left_out(call: Client) -> None:
    job = await make(call)
    assert [item["job_id"] for item in await recent(call, f"jobs=0000000000001,{job},{job}")] == [job]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "missing"),
        ("jobs=", "missing"),
        ("jobs=nightly", '"nightly"'),
        ("jobs=" + ",".join(f"00000000000{n:02}" for n in range(RECENT_JOBS_MAX + 1)), "51 jobs"),
        ("jobs=0000000000001&count=0", "from 1 to 50"),
        ("jobs=0000000000001&count=51", "from 1 to 50"),
    ],
)
async def test_what_is_refused(call: Client, query: str, words: str) -> None:
    status, problem = await call("GET", f"/v1/instances:recent?{query}")
    assert (status, problem["code"]) == (400, "invalid-parameter")
    assert words in problem["detail"]


def test_jobs_of_others_are_not_there(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        both = f"jobs={place.jobs['theirs']},{place.jobs['mine']}"
        assert [item["job_id"] for item in await recent(place.mine, both)] == [place.jobs["mine"]]
        assert len(await recent(place.admin, both)) == 2

    placed(tmp_path, test)
