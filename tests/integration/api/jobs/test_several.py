"""Jobs with several triggers over the API: what is answered, what a change replaces, what is shown of their times."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftsched import schedule
from raftsched.api.http import slices
from raftsched.core.ids import parse_job
from raftsched.core.model import Job
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from raftsched.leader.due.firing import fire_command
from raftsched.leader.due.scheduling import schedule_command
from raftsched.leader.due.triggers import with_calendars
from tests.support.local_api import Client, LocalCluster

HOURLY, NIGHTLY = {"id": "hourly", "every": "1h"}, {"id": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Madrid"}
JOB = {"triggers": [HOURLY, NIGHTLY], "handler": {"exec": ["true"]}}
PREVIEW = "/v1/schedules/preview"


def row_of(cluster: LocalCluster, job: dict[str, Any]) -> Job:
    with cluster.store.read() as view:
        return decode_job(view.get(Table.JOBS, u64(parse_job(job["id"]) or 0)) or b"")


def lead(cluster: LocalCluster, job: dict[str, Any], *, fire: bool) -> None:
    """Schedules the job as the leader does, or fires it when it is due next."""
    row = row_of(cluster, job)
    if fire:
        assert row.fire_at_ms is not None
        cluster.clock.forward(max(0, row.fire_at_ms - cluster.clock.wall))
    with cluster.store.read() as view:
        found = with_calendars(view, row)
    if not fire:
        cluster.apply(schedule_command(found, cluster.clock.wall, cluster.clock.wall))
    else:
        cluster.apply(fire_command(found, cluster.clock.wall, 100))


async def test_it_is_answered_as_it_was_given(call: Client) -> None:
    status, job = await call("POST", "/v1/jobs", {**JOB, "max_runs": 9, "name": "report"})
    assert (status, job["trigger"], job["triggers"], job["max_runs"]) == (201, None, JOB["triggers"], 9)
    assert job["next_fire_at"] is not None
    assert (await call("POST", "/v1/jobs", {**JOB, "max_runs": 9, "name": "report"}))[0] == 200
    status, same = await call("PUT", f"/v1/jobs/{job['id']}", job)
    assert (status, same["revision"]) == (200, 1), "an answer can be put back"
    _, single = await call("POST", "/v1/jobs", {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}})
    assert (single["triggers"], single["max_runs"], single["resumes_at"]) == ([], None, None)
    assert (await call("PUT", f"/v1/jobs/{single['id']}", single))[1]["revision"] == 1
    _, page = await call("GET", "/v1/jobs?fields=triggers,trigger,max_runs")
    assert page["items"][0] == {"trigger": None, "triggers": JOB["triggers"], "max_runs": 9}


async def test_others_have_their_turn_while_triggers_are_previewed(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = 0
    turns: dict[str, list[int]] = {"validate": [], "preview": []}

    def counted(name: str) -> Any:
        whole = getattr(schedule, name)

        def call(*given: Any, **fields: Any) -> Any:
            turns[name].append(turn)
            return whole(*given, **fields)

        return call

    async def tick() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    for name in turns:
        monkeypatch.setattr(schedule, name, counted(name))
    triggers = [{"id": f"t{at}", "rrule": f"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYSECOND={at}"} for at in range(8)]
    ticking = asyncio.create_task(tick())
    status, _ = await call("POST", PREVIEW, {"triggers": triggers, "count": 3})
    ticking.cancel()
    assert status == 200
    for looks in turns.values():
        assert len(looks) == len(set(looks)) >= 8, "each in a turn of its own"
    assert max(turns["preview"]) > max(turns["validate"])


async def test_searches_of_all_triggers_together_are_bounded(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    triggers = [{"id": f"t{at}", "rrule": f"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYHOUR={at}"} for at in range(16)]
    body = {"triggers": triggers, "handler": {"exec": ["true"]}}
    assert (await call("POST", "/v1/jobs", body))[0] == 201
    monkeypatch.setattr("raftsched.api.jobs.triggers.SEVERAL_STEPS_MAX", 1)
    for path, given in ((PREVIEW, {"triggers": triggers}), ("/v1/jobs", body), ("/v1/jobs:check", body)):
        status, problem = await call("POST", path, given)
        assert (status, problem["code"]) == (422, "invalid-trigger"), (path, problem)
        (error,) = problem["errors"]
        assert "takes too long to search, with the triggers before it" in error["detail"]


async def test_a_change_replaces_one_way_by_the_other(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "max_runs": 3})
    path = f"/v1/jobs/{job['id']}"
    status, changed = await call("PATCH", path, {"triggers": [HOURLY]})
    assert (status, changed["triggers"], changed["max_runs"]) == (200, [HOURLY], 3)
    status, changed = await call("PATCH", path, {"trigger": {"every": "2h"}})
    assert (status, changed["trigger"], changed["triggers"]) == (200, {"every": "2h"}, [])
    assert changed["max_runs"] is None
    status, changed = await call("PATCH", path, {"triggers": JOB["triggers"]})
    assert (status, changed["trigger"], len(changed["triggers"])) == (200, None, 2)
    assert (await call("PATCH", path, {"description": "both"}))[1]["triggers"] == JOB["triggers"]
    status, problem = await call("PATCH", path, {"triggers": None})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/trigger")
    both = {"trigger": {"every": "2h"}, "triggers": [HOURLY]}
    assert (await call("PATCH", path, both))[0] == 422
    status, compared = await call("POST", "/v1/namespaces/default/jobs/x/compare", JOB)
    assert (status, compared["after"]["triggers"]) == (200, JOB["triggers"])


async def test_the_times_of_all_are_shown_with_whose_they_are(call: Client) -> None:
    triggers = [{"id": "a", "every": "20m"}, {"id": "b", "every": "30m"}, {"id": "c", "at": "2030-03-01T00:50:00Z"}]
    body = {"triggers": triggers, "from": "2030-03-01T00:00:00Z", "to": "2030-03-01T02:00:00Z"}
    status, shown = await call("POST", PREVIEW, body)
    assert status == 200
    times = [(one["at"][11:16], one["trigger"]) for one in shown["next"]]
    assert times == [
        ("00:20", "a"), ("00:30", "b"), ("00:40", "a"), ("00:50", "c"),
        ("01:00", "a"), ("01:20", "a"), ("01:30", "b"), ("01:40", "a"),
    ]  # fmt: skip
    assert shown["description"].startswith("a: every 20m; b: every 30m; c: once")
    assert shown["more"] is False
    _, shown = await call("POST", PREVIEW, {**body, "max_runs": 3})
    assert [one["trigger"] for one in shown["next"]] == ["a", "b", "a"]
    _, shown = await call("POST", PREVIEW, {**body, "count": 2, "by_day": "UTC"})
    assert (shown["more"], shown["days"]) == (True, [{"date": "2030-03-01", "due": 8, "left_out": 0}])
    status, problem = await call("POST", PREVIEW, {"triggers": [{**triggers[0], "calendar": "none"}]})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/triggers/0/calendar")
    status, checked = await call("POST", "/v1/jobs:check", JOB)
    assert (status, {one["trigger"] for one in checked["next"]}) == (200, {"hourly", "nightly"})


async def test_a_run_says_which_one_it_is_of(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "overlap": "allow"})
    lead(call.cluster, job, fire=False)
    lead(call.cluster, job, fire=True)
    _, page = await call("GET", f"/v1/jobs/{job['id']}/instances")
    (made,) = page["items"]
    assert made["trigger"] == "hourly"
    _, told = await call("GET", f"/v1/instances/{made['id']}/explain")
    assert told["why_then"]["trigger_id"] == "hourly"
    assert 'Its trigger hourly ("every 1h") was due at' in told["text"]
    _, page = await call("GET", f"/v1/jobs/{job['id']}/instances?fields=trigger")
    assert page["items"] == [{"trigger": "hourly"}]
    _, asked = await call("POST", f"/v1/jobs/{job['id']}/run")
    assert (await call("GET", f"/v1/instances/{asked['id']}"))[1]["trigger"] is None
    _, shown = await call("GET", f"/v1/jobs/{job['id']}/next?count=30")
    assert {one["trigger"] for one in shown["next"]} == {"hourly", "nightly"}


async def test_backfill_takes_the_times_of_all(call: Client) -> None:
    triggers = [
        {"id": "a", "every": "1h"},
        {"id": "b", "cron": "0 * * * *"},
        {"id": "c", "at": "2030-01-01T00:00:00Z"},
    ]
    _, job = await call("POST", "/v1/jobs", {**JOB, "triggers": triggers, "overlap": "allow"})
    lead(call.cluster, job, fire=False)
    call.cluster.clock.forward(2 * 3_600_000)
    path = f"/v1/jobs/{job['id']}/backfill"
    _, seen = await call("POST", path, {"from": "2020-01-01T00:00:00Z", "to": "2020-01-01T03:00:00Z", "dry_run": True})
    assert seen["count"] == 3
    _, job = await call("POST", "/v1/jobs", {**JOB, "triggers": triggers[2:]})
    status, problem = await call("POST", f"/v1/jobs/{job['id']}/backfill", {"from": "2020-01-01T00:00:00Z"})
    assert (status, problem["code"]) == (409, "illegal-transition")


async def test_a_calendar_is_in_use_by_each_that_names_it(call: Client) -> None:
    assert (await call("PUT", "/v1/calendars/closed", {"weekdays": ["sun"]}))[0] == 201
    triggers = [HOURLY, {**NIGHTLY, "calendar": "closed"}]
    await call("POST", "/v1/jobs", {**JOB, "triggers": triggers})
    status, problem = await call("DELETE", "/v1/calendars/closed")
    assert (status, problem["code"]) == (409, "in-use")
    assert len((await call("GET", "/v1/jobs?calendar=closed"))[1]["items"]) == 1
    missing = {**JOB, "triggers": [HOURLY, {**NIGHTLY, "calendar": "open"}]}
    status, problem = await call("POST", "/v1/jobs", missing)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/triggers/1/calendar")
