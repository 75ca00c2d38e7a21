"""Previews and next times over a range: up to a time, counted by day, and with the end of a job's runs."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched import schedule
from raftsched.core.model import Trigger
from raftsched.schedule import budget
from tests.support.local_api import Client

PREVIEW = "/v1/schedules/preview"
MINUTELY = {"trigger": {"cron": "* * * * *"}, "from": "2030-03-01T00:00:00Z"}
MONTH = {"from": "2030-03-01T00:00:00Z", "to": "2030-04-01T00:00:00Z", "by_day": "UTC"}


async def test_it_says_when_there_are_more(call: Client) -> None:
    for count, to, found, more in (
        (1000, None, 1000, True),
        (59, "2030-03-01T01:00:00Z", 59, False),
        (58, "2030-03-01T01:00:00Z", 58, True),
        (100, "2030-03-01T01:00:00Z", 59, False),  # what is due at the end is not before it
        (50, None, 50, True),
    ):
        body = {**MINUTELY, "count": count, **({"to": to} if to else {})}
        status, shown = await call("POST", PREVIEW, body)
        assert (status, len(shown["next"]), shown["more"]) == (200, found, more)
        times = [one["at"] for one in shown["next"]]
        assert times == sorted(set(times))
    once = {"trigger": {"at": "2031-01-01T00:00:00Z"}}
    assert (await call("POST", PREVIEW, once))[1]["more"] is False
    limited = {"trigger": {"every": "1h", "max_runs": 3}, "count": 2}
    assert (await call("POST", PREVIEW, limited))[1]["more"] is True
    _, shown = await call("POST", PREVIEW, {**limited, "count": 9})
    assert (len(shown["next"]), shown["more"]) == (3, False)


async def test_a_month_is_counted_by_day(call: Client) -> None:
    assert (await call("PUT", "/v1/calendars/weekends", {"weekdays": ["sat", "sun"]}))[0] == 201
    status, shown = await call("POST", PREVIEW, {**MONTH, "trigger": {"cron": "* * * * *"}, "count": 1})
    assert (status, len(shown["days"]), sum(day["due"] for day in shown["days"])) == (200, 31, 31 * 1440 - 1)
    trigger = {"cron": "0 9 * * *", "calendar": "weekends"}
    _, shown = await call("POST", PREVIEW, {**MONTH, "trigger": trigger})
    assert [day["date"] for day in shown["days"] if day["left_out"]][:2] == ["2030-03-02", "2030-03-03"]
    assert sum(day["due"] for day in shown["days"]) == 21
    assert (await call("POST", PREVIEW, {"trigger": trigger}))[1]["days"] is None
    _, shown = await call("POST", PREVIEW, {"trigger": {"cron": "0 9 * * *"}, "by_day": "UTC"})
    assert len(shown["days"]) == 31
    _, shown = await call("POST", PREVIEW, {**MONTH, "trigger": trigger, "to": MONTH["from"]})
    assert (shown["next"], shown["days"], shown["more"]) == ([], [], False)


async def test_a_job_is_due_no_more_often_than_it_may_run(call: Client) -> None:
    body = {"trigger": {"every": "1h", "max_runs": 30}, "handler": {"exec": ["true"]}}
    _, job = await call("POST", "/v1/jobs", body)
    path = f"/v1/jobs/{job['id']}/next?by_day=UTC"
    _, shown = await call("GET", f"{path}&to=2030-03-01T00:00:00Z")
    assert sum(day["due"] for day in shown["days"]) == 30
    second = shown["days"][1]
    _, rest = await call("GET", f"{path}&from={second['date']}T00:00:00Z&to=2030-03-01T00:00:00Z&count=1")
    assert rest["days"] == shown["days"][1:], "what comes before counts"
    assert rest["more"] is (sum(day["due"] for day in rest["days"]) > 1)
    await call("POST", f"/v1/jobs/{job['id']}/pause", {})
    _, paused = await call("GET", f"{path}&to=2030-03-01T00:00:00Z")
    assert (paused["next"], paused["days"]) == ([], [])


@pytest.mark.parametrize(
    ("more", "pointer", "detail"),
    [
        ({"to": "2031-05-01T00:00:00Z", "by_day": "UTC"}, "/to", "400 days"),
        ({"to": "2030-04-01T00:00:00Z", "by_day": "Mars/Olympus"}, "/by_day", "no time zone"),
        ({"to": "soon"}, "/to", "RFC 3339"),
        ({"count": 1001}, "/count", "1,000"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, more: dict[str, Any], pointer: str, detail: str) -> None:
    status, problem = await call("POST", PREVIEW, {**MINUTELY, **more})
    assert (status, [error["pointer"] for error in problem["errors"]]) == (422, [pointer])
    assert detail in problem["errors"][0]["detail"]
    _, job = await call("POST", "/v1/jobs", {"trigger": {"cron": "* * * * *"}, "handler": {"exec": ["true"]}})
    query = "&".join(f"{name}={value}" for name, value in {"from": MINUTELY["from"], **more}.items())
    status, problem = await call("GET", f"/v1/jobs/{job['id']}/next?{query}")
    assert (status, problem["errors"][0]["parameter"]) == (400, pointer[1:])


async def test_what_comes_before_is_counted_year_by_year(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[int] = []
    missed = schedule.missed

    def noted(trigger: Trigger, after_ms: int, until_ms: int, **more: Any) -> schedule.Missed:
        spans.append(until_ms - after_ms)
        return missed(trigger, after_ms, until_ms, **more)

    assert (await call("PUT", "/v1/calendars/weekends", {"weekdays": ["sat", "sun"]}))[0] == 201
    trigger = {"cron": "0 0 9 ? * *", "calendar": "weekends", "starts_at": "2040-01-02T00:00:00Z"}
    for most in (5, 6, 10_000):
        body = {"trigger": {**trigger, "max_runs": most}, "handler": {"exec": ["true"]}}
        _, job = await call("POST", "/v1/jobs", body)
        spans.clear()
        with monkeypatch.context() as patch:
            patch.setattr(schedule, "missed", noted)
            path = f"/v1/jobs/{job['id']}/next?from=2060-01-01T00:00:00Z&to=2060-01-08T00:00:00Z"
            status, shown = await call("GET", path)
        assert (status, len(shown["next"])) == (200, 5 if most == 10_000 else 0)
        assert max(spans) <= 366 * 86_400_000
    before = sum(spans)
    body = {"trigger": {**trigger, "max_runs": 1_000}, "handler": {"exec": ["true"]}}  # as many as in four years
    _, job = await call("POST", "/v1/jobs", body)
    path = f"/v1/jobs/{job['id']}/next?by_day=UTC"
    found = 0
    for year in range(2040, 2046):
        _, shown = await call("GET", f"{path}&from={year}-01-01T00:00:00Z&to={year + 1}-01-01T00:00:00Z")
        found += sum(day["due"] for day in shown["days"])
    assert (found, before > 20 * 365 * 86_400_000) == (1_000, True)


async def test_a_calendar_that_takes_too_long_to_search_is_said(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "CALENDAR_STEPS_MAX", 50)
    await call("PUT", "/v1/calendars/nights", {"hours": [{"from": "22:00", "to": "06:00"}]})
    trigger = {"cron": "0 3 * * *", "calendar": "nights"}
    _, job = await call("POST", "/v1/jobs", {"trigger": trigger, "handler": {"exec": ["true"]}})
    for status, answer in (
        await call("POST", "/v1/schedules/preview", {"trigger": trigger}),
        await call("GET", f"/v1/jobs/{job['id']}/next"),
    ):
        assert (status, answer["code"]) == (422, "invalid-trigger")
        assert answer["detail"].startswith("takes too long to search: the calendar begins and ends to exclude too")


async def test_what_h_means_for_a_job_of_that_name(call: Client) -> None:
    """The preview says it before the job is made, and the check; made again under its name the job has the same."""
    trigger = {"cron": "H H * * *", "timezone": "Europe/Madrid"}
    body = {"name": "backup", "namespace": "billing", "trigger": trigger, "handler": {"exec": ["true"]}}
    _, example = await call("POST", PREVIEW, {"trigger": trigger})
    assert "H depends on the job's namespace and name" in example["description"]
    _, wanted = await call("POST", PREVIEW, {"trigger": trigger, "name": "backup", "namespace": "billing"})
    assert "example" not in wanted["description"]
    _, other = await call("POST", PREVIEW, {"trigger": trigger, "name": "backup"})
    assert other["next"] != wanted["next"]
    _, checked = await call("POST", "/v1/jobs:check", body)
    assert (checked["next"], checked["description"]) == (wanted["next"], wanted["description"])
    for _ in range(2):
        _, job = await call("POST", "/v1/jobs", body)
        _, found = await call("GET", f"/v1/jobs/{job['id']}/next")
        assert (found["next"], found["description"]) == (wanted["next"], wanted["description"])
        await call("DELETE", f"/v1/jobs/{job['id']}")


async def test_a_change_of_a_job_is_checked_with_what_h_will_mean(call: Client) -> None:
    body = {"name": "backup", "trigger": {"every": "1h"}, "handler": {"exec": ["true"]}}
    _, job = await call("POST", "/v1/jobs", body)
    change = {"trigger": {"cron": "H H * * *"}}
    _, checked = await call("POST", f"/v1/jobs/{job['id']}/check", change)
    assert (await call("PATCH", f"/v1/jobs/{job['id']}", change))[0] == 200
    _, found = await call("GET", f"/v1/jobs/{job['id']}/next")
    assert checked["next"] == found["next"]
    _, checked = await call("POST", f"/v1/jobs/{job['id']}/check", {"name": "renamed"})
    assert checked["next"] == found["next"]
