"""/v1/calendars, and jobs whose triggers use them."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.commands import Fire, ScheduleJob
from raftsched.core.ids import parse_job
from tests.support.clock import START_MS
from tests.support.local_api import Client

PATH = "/v1/calendars/holidays"
HOLIDAYS = {
    "description": "Bank holidays",
    "timezone": "Europe/Madrid",
    "dates": ["2030-01-06", "2030-01-02", "2030-01-06"],
    "ranges": [{"from": "2030-08-01", "to": "2030-08-31"}],
    "yearly": ["12-25", "01-01"],
    "weekdays": ["sun", "sat"],
}
JOB = {"name": "a", "handler": {"exec": ["true"]}}
DAILY = {**JOB, "trigger": {"cron": "0 9 * * *", "timezone": "Europe/Madrid", "calendar": "holidays"}}
EMPTY: dict[str, Any] = {}
ALL_DAYS = {"weekdays": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}


async def test_made_read_replaced_and_deleted(call: Client) -> None:
    status, made = await call("PUT", PATH, HOLIDAYS, {"If-None-Match": "*"})
    assert (status, call.headers["Location"], call.headers["ETag"]) == (201, PATH, f'"{made["revision"]}"')
    assert made["dates"] == ["2030-01-02", "2030-01-06"]  # in order, each once
    assert made["yearly"] == ["01-01", "12-25"]
    assert made["weekdays"] == ["sat", "sun"]
    assert await call("GET", PATH) == (200, made)
    assert await call("GET", "/v1/calendars") == (200, {"items": [made], "next": None})
    tag = call.headers.get("ETag")
    assert tag is None
    status, _ = await call("GET", PATH, headers={"If-None-Match": f'"{made["revision"]}"'})
    assert status == 304
    status, problem = await call("PUT", PATH, HOLIDAYS, {"If-None-Match": "*"})
    assert (status, problem["code"]) == (412, "exists")
    status, same = await call("PUT", PATH, made)  # what was answered may be put back
    assert (status, same) == (200, made)
    status, other = await call("PUT", PATH, {"dates": ["2030-05-01"]}, {"If-Match": f'"{made["revision"]}"'})
    assert (status, other["dates"], other["weekdays"]) == (200, ["2030-05-01"], [])
    assert other["revision"] > made["revision"]
    assert other["created_at"] == made["created_at"]
    for method, body in (("PUT", EMPTY), ("PATCH", EMPTY), ("DELETE", None)):
        status, problem = await call(method, PATH, body, {"If-Match": f'"{made["revision"]}"'})
        assert (status, problem["code"]) == (412, "stale-revision"), method
    status, problem = await call("PUT", "/v1/calendars/none", EMPTY, {"If-Match": "*"})
    assert (status, problem["code"]) == (412, "stale-revision")
    assert (await call("DELETE", PATH))[0] == 204
    for method in ("GET", "DELETE", "PATCH"):
        status, problem = await call(method, PATH, EMPTY if method == "PATCH" else None)
        assert (status, problem["code"]) == (404, "not-found"), method


async def test_a_part_is_changed(call: Client) -> None:
    await call("PUT", PATH, HOLIDAYS)
    change = {"description": None, "dates": ["2030-01-02"], "ranges": None}
    status, changed = await call("PATCH", PATH, change, {"Content-Type": "application/merge-patch+json"})
    assert status == 200
    assert (changed["description"], changed["dates"], changed["ranges"]) == (None, ["2030-01-02"], [])
    assert changed["weekdays"] == ["sat", "sun"]
    for bad in ({"colour": None}, {"dates": ["x"]}, {"name": None}, []):
        status, problem = await call("PATCH", PATH, bad)
        assert (status, problem["code"]) == (422, "invalid-body"), bad


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"dates": ["2030-02-30"]}, "/dates/0", "a date such as"),
        ({"dates": ["2030-01-01", "1.1.2030"]}, "/dates/1", "a date such as"),
        ({"dates": ["2101-01-01"]}, "/dates/0", "1970 to 2099"),
        ({"dates": "2030-01-01"}, "/dates", "a list"),
        ({"dates": ["2030-01-01"] * 2001}, "/dates", ""),
        ({"yearly": ["2030-01-01"]}, "/yearly/0", "12-25"),
        ({"yearly": ["02-30"]}, "/yearly/0", "12-25"),
        ({"ranges": [{"from": "2030-01-02", "to": "2030-01-01"}]}, "/ranges/0/to", "before from"),
        ({"ranges": [{"from": "2030-01-02"}]}, "/ranges/0/to", "missing"),
        ({"ranges": [{"from": "x", "to": "2030-01-01"}]}, "/ranges/0/from", "a date such as"),
        ({"ranges": [{"from": "2030-01-01", "to": "2030-01-01", "x": 1}]}, "/ranges/0/x", "not a known"),
        ({"weekdays": ["monday"]}, "/weekdays/0", "mon"),
        ({"hours": [{"from": "24:00", "to": "06:00"}]}, "/hours/0/from", "a time of day such as 22:00"),
        ({"hours": [{"from": "22:00", "to": "6:00"}]}, "/hours/0/to", "from 00:00 to 24:00"),
        ({"hours": [{"from": "22:00"}]}, "/hours/0/to", "missing"),
        ({"only": [{"from": "22:00", "to": "22:00"}]}, "/only/0/to", "00:00 to 24:00"),
        ({"only": [{"from": "22:00", "to": "23:00", "weekdays": []}]}, "/only/0/weekdays", "leave it out for each day"),
        ({"only": [{"from": "22:00", "to": "23:00", "weekdays": ["x"]}]}, "/only/0/weekdays/0", "mon"),
        ({"only": [{"from": "22:00", "to": "23:00"}] * 51}, "/only", "50"),
        ({"excludes": [{"from": "2030-01-01", "to": "2030-01-02T00:00:00Z"}]}, "/excludes/0/from", "RFC 3339"),
        ({"excludes": [{"from": "2030-01-01T00:00:00Z"}]}, "/excludes/0/to", "missing"),
        (
            {"excludes": [{"from": "2030-01-01T00:00:00Z", "to": "2030-01-01T01:00:00+01:00"}]},
            "/excludes/0/to",
            "after",
        ),
        ({"timezone": "Mars/Olympus"}, "/timezone", "no time zone"),
        ({"description": "x" * 1025}, "/description", "1,024"),
        ({"date": []}, "/date", "dates"),
        ([], "", "object"),
    ],
)
async def test_what_is_refused(call: Client, body: Any, pointer: str, says: str) -> None:
    status, problem = await call("PUT", PATH, body)
    assert (status, problem["code"]) == (422, "invalid-body"), problem
    assert any(e["pointer"] == pointer and says in e["detail"] for e in problem["errors"]), problem
    assert (await call("GET", "/v1/calendars"))[1]["items"] == []


async def test_names_and_sizes(call: Client) -> None:
    assert (await call("PUT", "/v1/calendars/Bank%20Holidays", EMPTY))[0] == 400
    assert (await call("PUT", f"/v1/calendars/{'x' * 129}", EMPTY))[0] == 400
    assert (await call("GET", "/v1/calendars/Bank%20Holidays"))[0] == 404
    ranges = [{"from": f"20{y:02}-01-01", "to": f"20{y:02}-01-0{d}"} for y in range(1, 99) for d in range(1, 6)]
    dates = [f"20{y:02}-{m:02}-{d:02}" for y in range(10, 18) for m in range(1, 13) for d in range(1, 21)]
    body = {"ranges": ranges, "dates": dates, "description": "€" * 1000}
    status, _ = await call("PUT", PATH, body)
    assert status == 201
    status, problem = await call("PUT", PATH, {**body, "description": "x" * 200_000})
    assert (status, problem["code"]) == (413, "too-large")


async def test_a_job_that_uses_it(call: Client) -> None:
    status, problem = await call("POST", "/v1/jobs", DAILY)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/trigger/calendar")
    assert "PUT /v1/calendars/holidays" in problem["errors"][0]["detail"]
    status, problem = await call("POST", "/v1/schedules/preview", {"trigger": DAILY["trigger"]})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/trigger/calendar")
    await call("PUT", PATH, HOLIDAYS)
    status, job = await call("POST", "/v1/jobs", DAILY)
    assert (status, job["next_fire_at"]) == (201, "2030-01-03T08:00:00.000Z")
    assert job["trigger"] == DAILY["trigger"]
    status, shown = await call("GET", f"/v1/jobs/{job['id']}/next?count=3")
    assert shown["description"].endswith("but not in the time that the calendar holidays excludes")
    assert [(n["at"][:10], n["note"]) for n in shown["next"]] == [
        ("2030-01-03", "holidays: left out before this: 2030-01-01 and 2030-01-02"),
        ("2030-01-04", None),
        ("2030-01-07", "holidays: left out before this: 2030-01-05 and 2030-01-06"),
    ]
    status, listed = await call("GET", "/v1/jobs?calendar=holidays")
    assert [item["id"] for item in listed["items"]] == [job["id"]]
    assert listed["items"][0]["next_fire_at"] == job["next_fire_at"]
    assert (await call("GET", "/v1/jobs?calendar=others"))[1]["items"] == []
    status, problem = await call("DELETE", PATH)
    assert (status, problem["code"]) == (409, "in-use")
    assert "default/a" in problem["detail"]
    status, job = await call("PATCH", f"/v1/jobs/{job['id']}", {"trigger": {"every": "1h", "calendar": "holidays"}})
    assert (status, job["next_fire_at"]) == (200, "2030-01-02T23:00:00.000Z")
    status, job = await call("PATCH", f"/v1/jobs/{job['id']}", {"trigger": {"every": "1h"}})
    assert (status, job["next_fire_at"]) == (200, "2030-01-01T01:00:00.000Z")
    assert (await call("DELETE", PATH))[0] == 204


async def test_hours(call: Client) -> None:
    body = {
        "timezone": "Europe/Madrid",
        "hours": [{"from": "22:00", "to": "06:00"}],
        "only": [{"from": "00:00", "to": "24:00", "weekdays": ["sun", "tue", "mon", "tue"]}],
        "excludes": [
            {"from": "2030-01-08T12:00:00+01:00", "to": "2030-01-08T14:00:00Z"},
            {"from": "2030-01-01T00:00:00Z", "to": "2030-01-01T09:30:00.250Z"},
        ],
    }
    _, made = await call("PUT", PATH, body)
    assert made["hours"] == [{"from": "22:00", "to": "06:00"}]
    assert made["only"] == [{"from": "00:00", "to": "24:00", "weekdays": ["mon", "tue", "sun"]}]
    assert made["excludes"] == [
        {"from": "2030-01-01T00:00:00.000Z", "to": "2030-01-01T09:30:00.250Z"},
        {"from": "2030-01-08T11:00:00.000Z", "to": "2030-01-08T14:00:00.000Z"},
    ]
    assert await call("PUT", PATH, made) == (200, made)
    hourly = {"cron": "0 * * * *", "timezone": "Europe/Madrid", "calendar": "holidays"}
    _, job = await call("POST", "/v1/jobs", {**JOB, "trigger": hourly})
    assert job["next_fire_at"] == "2030-01-01T10:00:00.000Z"
    moves = {**hourly, "cron": "0 9 * * *", "calendar_action": "move"}
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "b", "trigger": moves})
    assert job["trigger"] == moves
    assert job["next_fire_at"] == "2030-01-01T09:30:01.000Z"
    _, shown = await call("GET", f"/v1/jobs/{job['id']}/next?count=2")
    assert [one["note"] for one in shown["next"]] == [
        "holidays: moved here: 2030-01-01 09:00",
        "holidays: moved here: 2030-01-02 09:00 to 2030-01-05 09:00 (4 times)",
    ]
    assert shown["next"][1]["at"] == "2030-01-06T05:00:00.000Z", "Sunday at 06:00"


async def test_what_is_moved_needs_a_calendar(call: Client) -> None:
    for trigger, says in (
        ({"cron": "0 9 * * *", "calendar_action": "move"}, "goes with a calendar"),
        ({"in": "1h", "calendar_action": "move"}, "has no meaning"),
        ({"cron": "0 9 * * *", "calendar": "holidays", "calendar_action": "drop"}, "skip"),
    ):
        status, problem = await call("POST", "/v1/jobs", {**JOB, "trigger": trigger})
        assert (status, problem["code"]) == (422, "invalid-trigger")
        found = [e["detail"] for e in problem["errors"] if e["pointer"] == "/trigger/calendar_action"]
        assert says in found[0]


async def test_a_change_moves_the_next_time(call: Client) -> None:
    _, calendar = await call("PUT", PATH, EMPTY)
    _, job = await call("POST", "/v1/jobs", DAILY)
    number = parse_job(job["id"]) or 0
    nine = START_MS + 8 * 3_600_000
    call.cluster.apply(ScheduleJob(number, 1, nine, calendar["revision"]))
    _, changed = await call("PUT", PATH, {"dates": ["2030-01-01"]})
    _, job = await call("GET", f"/v1/jobs/{job['id']}")
    assert job["next_fire_at"] == "2030-01-02T08:00:00.000Z"  # which the leader is about to say
    call.cluster.apply(ScheduleJob(number, 1, nine + 86_400_000, changed["revision"]))
    _, job = await call("GET", f"/v1/jobs/{job['id']}")
    assert job["next_fire_at"] == "2030-01-02T08:00:00.000Z"
    assert job["revision"] == 1


async def test_one_that_excludes_everything(call: Client) -> None:
    _, calendar = await call("PUT", PATH, ALL_DAYS)
    _, job = await call("POST", "/v1/jobs", DAILY)
    assert (job["state"], job["next_fire_at"]) == ("SCHEDULED", None)
    call.cluster.apply(ScheduleJob(parse_job(job["id"]) or 0, 1, None, calendar["revision"], never_fires=True))
    path = f"/v1/jobs/{job['id']}"
    _, job = await call("GET", path)
    assert (job["state"], job["next_fire_at"]) == ("SCHEDULED", None)
    assert job["error"] == "All times ahead are excluded by the calendar holidays."
    _, shown = await call("GET", f"{path}/next")
    assert shown["next"] == []
    assert job["error"] in shown["description"]
    status, problem = await call("POST", f"{path}/skip-next")
    assert (status, problem["code"]) == (409, "illegal-transition")
    assert "excluded" in problem["detail"]
    _, shown = await call("POST", "/v1/schedules/preview", {"trigger": DAILY["trigger"]})
    assert shown["next"] == []


async def test_backfill_leaves_out_what_is_excluded(call: Client) -> None:
    _, calendar = await call("PUT", PATH, {"dates": ["2029-12-29"], "timezone": "Europe/Madrid"})
    _, job = await call("POST", "/v1/jobs", DAILY)
    number = parse_job(job["id"]) or 0
    call.cluster.apply(ScheduleJob(number, 1, START_MS + 8 * 3_600_000, calendar["revision"]))
    call.cluster.clock.forward(9 * 3_600_000)
    late = START_MS + 8 * 3_600_000
    call.cluster.apply(Fire(number, 1, late, late + 86_400_000, calendar=calendar["revision"]))
    body = {"from": "2029-12-28T00:00:00Z", "dry_run": True}
    status, seen = await call("POST", f"/v1/jobs/{job['id']}/backfill", body)
    assert (status, [t[:10] for t in seen["times"]]) == (200, ["2029-12-28", "2029-12-30", "2029-12-31"])


async def test_pages(call: Client) -> None:
    names = [f"c-{i}" for i in range(5)]
    for name in reversed(names):
        await call("PUT", f"/v1/calendars/{name}", EMPTY)
    found, path = [], "/v1/calendars?limit=2"
    while path:
        _, body = await call("GET", path)
        found += [item["name"] for item in body["items"]]
        link = call.headers.get("Link")
        path = link.partition(">")[0][1:] if link else ""
    assert found == names
