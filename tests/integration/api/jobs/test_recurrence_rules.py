"""Recurrence rules through the API: created, previewed, edited, made up for."""

from __future__ import annotations

from raftsched.core.commands import Fire, ScheduleJob
from raftsched.core.ids import parse_job
from tests.support.clock import START_MS
from tests.support.local_api import Client

FRIDAYS = {"rrule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0", "timezone": "Europe/Madrid"}
JOB = {"name": "a", "trigger": FRIDAYS, "handler": {"exec": ["true"]}}
HOUR_MS = 3_600_000


async def test_created_shown_and_explained(call: Client) -> None:
    status, job = await call("POST", "/v1/jobs", JOB)
    assert (status, job["next_fire_at"]) == (201, "2030-01-25T16:00:00.000Z")
    assert job["trigger"] == FRIDAYS
    _, shown = await call("GET", f"/v1/jobs/{job['id']}/next?count=2")
    assert shown == {
        "description": "every month on the last Friday at 17:00, Europe/Madrid time",
        "next": [
            {"at": "2030-01-25T16:00:00.000Z", "note": None, "trigger": None},
            {"at": "2030-02-22T16:00:00.000Z", "note": None, "trigger": None},
        ],
        "more": True,
        "days": None,
    }
    assert (await call("POST", "/v1/jobs", JOB))[0] == 200
    status, same = await call("PUT", "/v1/namespaces/default/jobs/a", JOB)
    assert (status, same["revision"]) == (200, 1)
    _, compared = await call("POST", "/v1/namespaces/default/jobs/a/compare", JOB)
    assert compared["result"] == "unchanged"


async def test_a_preview_says_what_the_clocks_do(call: Client) -> None:
    trigger = {"rrule": "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "timezone": "Europe/Madrid", "jitter": "30s"}
    body = {"trigger": trigger, "from": "2027-03-27T12:00:00Z", "count": 1}
    status, shown = await call("POST", "/v1/schedules/preview", body)
    assert (status, shown) == (
        200,
        {
            "description": "every day at 02:30, Europe/Madrid time, each delayed by up to 30s",
            "next": [
                {
                    "at": "2027-03-28T01:00:00.000Z",
                    "note": "DST: 02:30 does not exist on this day; runs at 03:00",
                    "trigger": None,
                }
            ],
            "more": True,
            "days": None,
        },
    )


async def test_its_start_is_kept_over_edits_that_leave_the_trigger_alone(call: Client) -> None:
    rule = {**JOB, "trigger": {"rrule": "FREQ=HOURLY;INTERVAL=5"}}
    _, job = await call("POST", "/v1/jobs", rule)
    path = f"/v1/jobs/{job['id']}"
    assert job["next_fire_at"] == "2030-01-01T05:00:00.000Z"
    call.cluster.clock.forward(6 * HOUR_MS + 61_000)
    _, job = await call("PATCH", path, {"priority": 9})
    assert job["next_fire_at"] == "2030-01-01T10:00:00.000Z"
    _, job = await call("PATCH", path, {"trigger": {"rrule": "FREQ=HOURLY;INTERVAL=4"}})
    assert job["next_fire_at"] == "2030-01-01T10:01:01.000Z"


async def test_times_that_went_by_are_made_up_for(call: Client) -> None:
    rule = {**JOB, "trigger": {"rrule": "FREQ=HOURLY;INTERVAL=2"}}
    _, job = await call("POST", "/v1/jobs", rule)
    number = parse_job(job["id"]) or 0
    call.cluster.clock.forward(7 * HOUR_MS)
    call.cluster.apply(ScheduleJob(number, 1, START_MS + 2 * HOUR_MS))
    times = (START_MS + 4 * HOUR_MS, START_MS + 6 * HOUR_MS)
    call.cluster.apply(Fire(number, 1, START_MS + 2 * HOUR_MS, START_MS + 8 * HOUR_MS, times, 2, times[-1]))
    body = {"from": "2029-12-01T00:00:00Z", "dry_run": True}
    status, seen = await call("POST", f"/v1/jobs/{job['id']}/backfill", body)
    assert (status, [t[11:13] for t in seen["times"]]) == (200, ["00", "02", "04"])  # the start, too


async def test_one_that_takes_too_long_to_search_is_refused_alike(call: Client) -> None:
    """When it is created, replaced, changed, checked, previewed, alone and among several, and in a batch."""
    dear = {"rrule": "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=10;COUNT=5000", "starts_at": "1971-01-01T00:00:00Z"}
    job = {"name": "b", "handler": {"exec": ["true"]}}
    await call("POST", "/v1/jobs", JOB)
    several = {"triggers": [{"id": "x", "every": "1h"}, {"id": "y", **dear}]}
    for method, path, body, place in (
        ("POST", "/v1/jobs", {**job, "trigger": dear}, "/trigger/rrule"),
        ("POST", "/v1/jobs", {**job, **several}, "/triggers/1/rrule"),
        ("PUT", "/v1/namespaces/default/jobs/a", {**JOB, "trigger": dear}, "/trigger/rrule"),
        ("PATCH", "/v1/namespaces/default/jobs/a", {"trigger": dear}, "/trigger/rrule"),
        ("POST", "/v1/schedules/preview", {"trigger": dear}, "/trigger/rrule"),
        ("POST", "/v1/schedules/preview", several, "/triggers/1/rrule"),
    ):
        for _ in range(2):
            status, answer = await call(method, path, body)
            (error,) = answer["errors"]
            assert (status, error["pointer"], error["code"]) == (422, place, "out-of-range"), (method, path)
            assert error["detail"].startswith("takes too long to search: ")
    _, answer = await call("POST", "/v1/jobs:batch", [{**job, "trigger": dear}, {**job, "trigger": FRIDAYS}])
    refused, made = answer["items"]
    assert (refused["status"], made["status"]) == (422, 201)
    assert "takes too long to search" in refused["errors"][0]["detail"]
