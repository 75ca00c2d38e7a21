"""Lists by next fire time: what they hold is what is shown of each job, also before the leader has computed it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raftsched.api.jobs import due
from raftsched.bounds import DAY_MS
from raftsched.core.commands import PromoteDue
from raftsched.core.ids import parse_job
from raftsched.core.rows import decode_job
from raftsched.core.tables import ReadView, Table, due_day, from_u64
from raftsched.leader.due.scheduling import schedule_command
from raftsched.leader.due.triggers import with_calendars
from tests.integration.api.jobs.test_lists import ids, make
from tests.support.local_api import Client

EVER = "next_from=1970-01-01T00:00:00Z"
YEARLY, DAILY = {"cron": "0 0 1 1 *"}, {"cron": "0 0 * * *"}
SEVERAL = {"trigger": None, "triggers": [{"id": "a", "every": "36h"}, {"id": "b", "cron": "0 0 * * *"}]}


def lead(call: Client, jobs: int = 1_000) -> None:
    """Gives so many jobs the times that they are owed."""
    found = []
    with call.cluster.store.read() as view:
        for key, since in list(view.scan(Table.UNSCHEDULED))[:jobs]:
            job = decode_job(view.get(Table.JOBS, key) or b"")
            found.append((with_calendars(view, job), from_u64(since)))
    for one, since_ms in found:
        call.cluster.apply(schedule_command(one, since_ms, call.cluster.clock.wall))


def owed(call: Client) -> int:
    with call.cluster.store.read() as view:
        return sum(1 for _ in view.scan(Table.UNSCHEDULED))


async def test_a_job_is_listed_by_the_time_that_its_own_answer_shows(call: Client) -> None:
    near, far = await make(call, trigger={"in": "1h"}), await make(call, trigger={"in": "4000d"})
    status, made = await call("POST", "/v1/jobs", {"trigger": YEARLY, "handler": {"exec": ["true"]}})
    assert (status, owed(call)) == (201, 1)
    at = made["next_fire_at"]
    for _ in range(2):
        assert await ids(call, f"next_from={at}") == [made["id"], far]
        assert await ids(call, f"next_from={at}&order=desc") == [far, made["id"]]
        assert await ids(call, f"{EVER}&next_to={at}") == [near]
        assert await ids(call, f"{EVER}&limit=1") == [near, made["id"], far]
        assert await ids(call, f"next_from={at}&namespace=default&name=no") == []
        lead(call)
        assert owed(call) == 0


async def test_a_name_and_a_due_time_find_it_too(call: Client) -> None:
    made = await make(call, trigger=YEARLY, name="a")
    assert await ids(call, f"{EVER}&namespace=default&name=a") == [made]


async def test_one_of_several_triggers_may_be_owed(call: Client) -> None:
    """The job has a due time of its own already, and another one that comes first."""
    made, later = await make(call, **SEVERAL), await make(call, trigger={"in": "30h"})
    assert owed(call) == 1
    assert await ids(call, EVER) == [made, later]
    status, page = await call("GET", "/v1/stats/now")
    assert [row["job_id"] for row in page["due"]] == [made, later], status


async def test_how_many_an_action_is_about_and_what_comes_next_count_it(call: Client) -> None:
    made = await make(call, trigger=DAILY)
    given = {"action": "pause", "filter": {"next_to": "9999-01-01T00:00:00Z"}, "dry_run": True}
    assert (await call("POST", "/v1/jobs:actions", given))[1]["matched"] == 1
    _, seen = await call("GET", f"/v1/jobs/{made}")
    _, now = await call("GET", "/v1/stats/now")
    assert [(row["job_id"], row["at"]) for row in now["due"]] == [(made, seen["next_fire_at"])]


async def test_of_very_many_that_wait_for_the_leader_the_first_are_listed(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "OWED_MAX", 2)
    made = [await make(call, trigger=DAILY) for _ in range(3)]
    assert await ids(call, EVER) == made[:2]
    lead(call, 1)
    assert await ids(call, EVER) == made


@pytest.mark.parametrize("trigger", [YEARLY, {**YEARLY, "jitter": "2h"}])
@pytest.mark.parametrize("reads", [0, 1, 2, 3])
async def test_a_job_that_gets_its_time_between_two_looks_is_listed_once(
    call: Client, trigger: dict[str, str], reads: int
) -> None:
    call.cluster.apply(PromoteDue(due_day(call.cluster.clock.wall), 100))
    made = await make(call, trigger=trigger), await make(call, trigger={"in": "4000d"})
    read, left = call.context.read, [reads]

    @contextmanager
    def read_and_lead() -> Iterator[ReadView]:
        with read() as view:
            yield view
        left[0] -= 1
        if left[0] < 0:
            lead(call)

    call.context.read = read_and_lead
    assert await ids(call, EVER) == [*made]
    assert owed(call) == 0


# ---------------------------------------------------------------- at random


class Scene:
    """Jobs of every kind, at random: what is far, what is near, what is owed."""

    def __init__(self, call: Client, r: random.Random) -> None:
        self.call = call
        self.r = r
        self.jobs: list[str] = []

    def content(self) -> dict[str, Any]:
        r = self.r
        trigger = r.choice(
            [
                YEARLY,
                DAILY,
                {"cron": f"{r.randrange(60)} {r.randrange(24)} {r.randint(1, 28)} * *", "jitter": "2h"},
                {"cron": "0 0 * * *", "timezone": "Europe/Madrid"},
                {"every": f"{r.choice([1, 24, 48])}h"},
                {"in": f"{r.choice([0, 1, 2, 3, 9]) * DAY_MS + r.choice([0, 1, r.randrange(DAY_MS)])}ms"},
                {"at": f"20{r.choice([30, 31, 90])}-01-01T00:00:00Z"},
                {"manual": True},
                None,
            ]
        )
        return {**(SEVERAL if trigger is None else {"trigger": trigger}), "owner": r.choice(["ana", "bo"])}

    async def step(self) -> None:
        call, r = self.call, self.r
        kind = r.randrange(10)
        if kind < 5 or not self.jobs:
            self.jobs.append(await make(call, **self.content(), suspended=r.random() < 0.1))
            return
        job = f"/v1/jobs/{r.choice(self.jobs)}"
        if kind == 5:
            assert (await call("PUT", job, {**self.content(), "handler": {"exec": ["true"]}}))[0] in (200, 404)
        elif kind == 6:
            await call("POST", f"{job}/{r.choice(['pause', 'resume', 'resume'])}")
        elif kind == 7:
            lead(call, r.choice([1, 3, 100]))
        elif kind == 8:
            today = due_day(call.cluster.clock.wall)
            call.cluster.apply(PromoteDue(today + r.randrange(5), r.choice([1, 3, 100])))
        else:
            call.cluster.clock.forward(r.choice([1, 1_000]))

    async def shown(self) -> dict[str, dict[str, Any]]:
        _, page = await self.call("GET", "/v1/jobs?limit=1000")
        return {job["id"]: job for job in page["items"]}


@pytest.mark.parametrize("reverse", [False, True])
async def test_lists_by_due_time_are_what_a_look_at_each_job_finds(
    call: Client, monkeypatch: pytest.MonkeyPatch, reverse: bool
) -> None:
    seed = random.getrandbits(32)
    print("seed", seed)
    r = random.Random(seed)
    scene = Scene(call, r)
    waited = 0
    for _ in range(25):
        for _ in range(r.randint(1, 8)):
            await scene.step()
        monkeypatch.setattr(due, "LOOK_ROWS", r.choice([1, 3, 1_000]))
        monkeypatch.setattr(due, "SCAN_MAX", r.choice([1, 3, 2_000]))
        waited += owed(call)
        jobs = await scene.shown()
        times = [job["next_fire_at"] for job in jobs.values() if job["next_fire_at"] is not None]
        times += ["1970-01-01T00:00:00.000Z", "2200-01-01T00:00:00.000Z"]
        for _ in range(4):
            low, high = sorted(r.choice([*times, "1970-01-01T00:00:00.000Z", "2200-01-01T00:00:00.000Z"]) for _ in "ab")
            owner = r.choice([None, "ana"])
            wanted = [
                (job["next_fire_at"], parse_job(job["id"]), job["id"])
                for job in jobs.values()
                if job["next_fire_at"] is not None
                and low <= job["next_fire_at"] < high
                and owner in (None, job["owner"])
            ]
            query = f"next_from={low}&next_to={high}&limit={r.choice([1, 2, 7, 1_000])}"
            query += "&order=desc" * reverse + (f"&owner={owner}" if owner else "")
            assert await ids(call, query) == [job for _, _, job in sorted(wanted, reverse=reverse)], query
    assert waited
