"""Paging through everything while others create, edit, pause and delete: what is there all along and matches all along
is listed once, in its order; nothing is listed twice. For each kind of filter, with an index and without."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.commands import PromoteDue
from raftsched.core.tables import due_day
from tests.support.local_api import Client, LocalCluster, serving

STAYS, GOES = 60, 60
JOB: dict[str, Any] = {"handler": {"exec": ["true"]}}
FUTURE = "2030-06-01T00:00:00Z"

# The filter, and whether the jobs come by id, by name or by next fire time.
FILTERS = {
    "": "id",
    "namespace=n": "id",
    "namespace=default": "id",
    "owner=ana": "id",
    "label=team%3Dfin": "id",
    "state=NEW": "id",
    "state=SCHEDULED": "id",
    "state=NEW,SCHEDULED": "id",
    "queue=slow": "id",
    "name_prefix=x": "id",
    "name_contains=x": "id",
    "created_from=2030-01-01T00:00:00Z": "id",
    "created_to=2030-06-01T00:00:00Z": "id",
    "owner=ana&state=SCHEDULED&queue=slow": "id",
    "label=team%3Dfin&name_contains=x&namespace=n": "id",
    "namespace=n&name_prefix=x": "name",
    "namespace=n&name_prefix=x&owner=ana": "name",
    "next_from=2030-01-01T00:00:00Z": "next",
    f"next_to={FUTURE}": "next",
    f"next_to={FUTURE}&name_contains=x&queue=slow": "next",
}


class Churn:
    """Jobs that stay, and others around them that come, go and change."""

    def __init__(self, call: Client, r: random.Random, query: str) -> None:
        self.call = call
        self.r = r
        self.new = "NEW" in query and "SCHEDULED" not in query
        self.namespace = "default" if "namespace=default" in query else "n"
        self.goes: list[str] = []
        self.rows: dict[str, dict[str, Any]] = {}  # those that stay, as they were made

    async def add(self) -> str:
        self.call.cluster.clock.forward(self.r.choice((0, 1, 5)))
        body = {
            **JOB,
            "trigger": {"in": f"{self.r.randrange(1, 3000)}m"},
            "namespace": self.namespace,
            "owner": "ana",
            "labels": {"team": "fin"},
            "queue": "slow",
            "name": f"x{self.r.getrandbits(60):015x}",
            "suspended": self.new,
        }
        status, answer = await self.call("POST", "/v1/jobs", body)
        assert status == 201, answer
        self.rows[answer["id"]] = answer
        return str(answer["id"])

    async def add_other(self) -> None:
        """One that matches no filter but those that nearly all match: there is much to be passed over."""
        body = {**JOB, "trigger": {"manual": True}, "namespace": "other"}
        assert (await self.call("POST", "/v1/jobs", body))[0] == 201

    def promote_due(self, days: int) -> None:
        self.call.cluster.apply(PromoteDue(due_day(self.call.cluster.clock.wall) + days, self.r.choice((1, 7))))

    async def change(self) -> None:
        if self.r.random() < 0.2:
            self.promote_due(self.r.randrange(4))
        for _ in range(self.r.randrange(4)):
            what = self.r.randrange(5)
            if what == 0 or not self.goes:
                self.goes.append(await self.add())
                continue
            job = self.goes[self.r.randrange(len(self.goes))]
            if what == 1:
                self.goes.remove(job)
                assert (await self.call("DELETE", f"/v1/jobs/{job}"))[0] == 200
            elif what == 2:
                assert (await self.call("POST", f"/v1/jobs/{job}/{self.r.choice(('pause', 'resume'))}"))[0] == 200
            elif what == 3:
                change = {"trigger": {"in": f"{self.r.randrange(1, 3000)}m"}, "owner": self.r.choice(("ana", "bo"))}
                assert (await self.call("PATCH", f"/v1/jobs/{job}", change))[0] == 200
            else:
                await self.add_other()


@pytest.mark.parametrize("desc", [False, True])
@pytest.mark.parametrize("query", FILTERS)
async def test_what_is_there_all_along_is_listed_once(
    call: Client, query: str, desc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.getrandbits(32)
    print("seed", seed)
    r = random.Random(seed)
    monkeypatch.setattr("raftsched.api.rows.SCAN_MAX", r.choice((3, 10, 1_000)))  # rows looked at for a page
    churn = Churn(call, r, query)
    if r.random() < 0.8:  # due times of today, or of tomorrow too, are far ahead
        churn.promote_due(r.randrange(2))
    stays = []
    for n in range(STAYS + GOES):
        job = await churn.add()
        (stays if n % 2 else churn.goes).append(job)
        if n % 3 == 0:
            await churn.add_other()
    found: list[str] = []
    cursor = ""
    for _ in range(5_000):
        order = "&order=desc" if desc else ""
        status, page = await call("GET", f"/v1/jobs?limit={r.choice((1, 2, 7, 30))}&{query}{order}{cursor}")
        assert status == 200, page
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
        await churn.change()
    else:
        raise AssertionError("the pages never end")
    by = FILTERS[query]
    rows = churn.rows
    if by == "next" and any(found.count(job) > 1 for job in found):
        # only one whose time was moved ahead of where the reader was may be met again there
        assert all(job not in stays for job in found if found.count(job) > 1)
    else:
        assert len(set(found)) == len(found)
    matching = [job for job in stays if "next_to" not in query or rows[job]["next_fire_at"] < FUTURE]
    assert [job for job in found if job in set(stays)] == sorted(
        matching,
        key=lambda job: {"id": job, "name": rows[job]["name"], "next": (rows[job]["next_fire_at"], job)}[by],
        reverse=desc,
    )


def test_a_cursor_goes_on_at_any_node(tmp_path: Path) -> None:
    """Each page from another node than the one before."""
    cluster = LocalCluster(tmp_path, ("n1", "n2", "n3"))

    async def main() -> None:
        async with serving(cluster, "n1") as a, serving(cluster, "n2") as b, serving(cluster, "n3") as c:
            made = [(await a("POST", "/v1/jobs", {**JOB, "trigger": {"manual": True}}))[1]["id"] for _ in range(20)]
            found: list[str] = []
            cursor = ""
            for turn in range(100):
                _, page = await (a, b, c)[turn % 3]("GET", f"/v1/jobs?limit=3{cursor}")
                found += [item["id"] for item in page["items"]]
                if page["next"] is None:
                    break
                cursor = f"&cursor={page['next']}"
            assert found == made

    try:
        asyncio.run(main())
    finally:
        cluster.close()
