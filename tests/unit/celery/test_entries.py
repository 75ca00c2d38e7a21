"""Entries of beats as jobs: what each schedule and option becomes, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import crontab, schedule, solar

from raftsched.celery.entries import LABEL, OWN_BYTES, RETRY, Application, Jobs, Wanted, jobs_of

NOW_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z
APP = Celery("shop")


def read(
    *entries: ScheduleEntry,
    more: Mapping[str, Any] | None = None,
    zone: str = "UTC",
    enabled: bool | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> Jobs:
    wanted = [Wanted(entry, trigger or {}, enabled=enabled) for entry in entries]
    return jobs_of(wanted, Application("shop", "web", zone, more or {}), NOW_MS)


def entry(due: Any = 60.0, name: str = "one", **more: Any) -> ScheduleEntry:
    return ScheduleEntry(name, "shop.task", schedule=due, app=APP, **more)


def job(due: Any = 60.0, more: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    found = read(entry(due, **fields), more=more)
    assert not found.refused
    (spec,) = found.specs.values()
    return cast("dict[str, Any]", spec)


def test_an_entry_becomes_a_job_of_its_application() -> None:
    found = read(entry(600.0, "Nightly Sync", args=(1,), kwargs={"a": [2]}, options={"queue": "q", "priority": 3}))
    assert found.specs == {
        "shop.nightly-sync": {
            "name": "shop.nightly-sync",
            "namespace": "web",
            "trigger": {"every": "10m"},
            "handler": {"call": "celery-beat.shop"},
            "params": {
                **{"entry": "Nightly Sync", "task": "shop.task", "args": [1], "kwargs": {"a": [2]}},
                "options": {"queue": "q", "priority": 3},
            },
            "overlap": "allow",
            "timeout": "1m",
            "retry": RETRY,
            "labels": {LABEL: "shop"},
        }
    }
    assert found.notes == [("Nightly Sync", "its name is 'shop.nightly-sync' here")]
    assert not found.refused


@pytest.mark.parametrize(
    ("due", "trigger"),
    [
        (30.0, {"every": "30s"}),
        (timedelta(minutes=90), {"every": "1h30m"}),
        (schedule(timedelta(hours=1), relative=True), {"every": "1h", "starts_at": "2000-01-01T00:00:00Z"}),
        (crontab(hour=2, minute=0), {"cron": "0 2 * * *", "timezone": "UTC"}),
        (crontab(minute="*/15", day_of_week="mon-fri"), {"cron": "*/15 * * * MON-FRI", "timezone": "UTC"}),
        (
            crontab(hour=[4], minute={30}, day_of_month="1", day_of_week=5),
            {"rrule": "FREQ=DAILY;BYMONTHDAY=1;BYHOUR=4;BYMINUTE=30;BYSECOND=0;BYDAY=FR", "timezone": "UTC"},
        ),
    ],
)
def test_schedules_become_triggers(due: Any, trigger: dict[str, str]) -> None:
    assert job(due)["trigger"] == trigger


def test_a_crontab_is_of_the_time_zone_of_its_application() -> None:
    app = Celery("shop")
    app.conf.timezone = "Europe/Madrid"
    found = read(ScheduleEntry("one", "t", schedule=crontab(hour=2, minute=0), app=app), zone="Europe/Madrid")
    assert found.specs["shop.one"]["trigger"] == {"cron": "0 2 * * *", "timezone": "Europe/Madrid"}


class _Odd(schedule):  # type: ignore[misc]
    """A schedule of a user's own."""


def test_what_cannot_be_a_job_is_refused_by_name_and_the_others_are_not() -> None:
    sun = solar.__new__(solar)  # it takes a package of its own to be made
    vars(sun).update(event="sunset", lat=40.4, lon=-3.7, nowfun=None)
    found = read(entry(sun, "sunset"), entry(_Odd(5.0), "odd"), entry(), entry(name="ONE"))
    assert list(found.specs) == ["shop.one"]
    assert [name for name, _ in found.refused] == ["sunset", "odd", "ONE"]
    told = dict(found.refused)
    assert "by the sun" in told["sunset"]
    assert "_Odd; use a period, a crontab or a clocked time" in told["odd"]
    assert "rename one of them" in told["ONE"]
    assert found.kept == {"shop.sunset", "shop.odd"}  # what they were before stays


def test_less_than_a_second_is_a_second_and_told() -> None:
    found = read(entry(0.25))
    assert found.specs["shop.one"]["trigger"] == {"every": "1s"}
    assert "the shortest there is" in found.notes[0][1]


@pytest.mark.parametrize(
    ("due", "expires", "becomes"),
    [
        (60.0, None, None),
        (crontab(minute=0), None, None),
        (60.0, 90, "1m30s"),
        (60.0, timedelta(minutes=5), "5m"),
        (86_400.0, 600.0, "10m"),
    ],
)
def test_how_long_a_due_time_waits_for_a_beat(due: Any, expires: Any, becomes: str | None) -> None:
    options = {} if expires is None else {"expires": expires}
    assert job(due, options=options).get("expires") == becomes


def test_a_time_of_expiry_ends_the_job_and_one_that_is_past_makes_none() -> None:
    found = job(60.0, options={"expires": datetime(2027, 2, 1, tzinfo=UTC)})
    assert found["trigger"]["ends_at"] == "2027-02-01T00:00:00Z"
    assert found["params"]["options"] == {"expires": "2027-02-01T00:00:00+00:00"}
    over = read(entry(60.0, options={"expires": datetime(2027, 1, 1, tzinfo=UTC)}))
    assert not over.specs
    assert over.kept == {"shop.one"}
    assert "expired at 2027-01-01" in over.notes[0][1]


@pytest.mark.parametrize("value", [BeatLazyFunc(datetime.now), {1, 2}, float("nan"), "x" * (OWN_BYTES + 1), "\ud800"])
def test_what_is_not_json_or_large_stays_in_the_configuration(value: Any) -> None:
    assert job(args=[value])["params"] == {"entry": "one", "task": "shop.task", "own": True}


def test_fields_of_jobs_are_added_by_the_names_of_entries() -> None:
    more = {
        "*": {"trigger": {"jitter": "5s"}, "labels": {"team": "web"}},
        "one": {"delivery": "at_most_once", "expires": "6h", "trigger": {"max_runs": 2}},
        "other": {"overlap": "forbid"},
    }
    found = job(60.0, more)
    assert found["trigger"] == {"every": "1m", "jitter": "5s", "max_runs": 2}
    assert found["labels"] == {"team": "web", LABEL: "shop"}
    assert (found["delivery"], found["expires"], found["overlap"]) == ("at_most_once", "6h", "allow")


def test_a_row_says_whether_it_is_paused_and_an_entry_does_not() -> None:
    assert "suspended" not in job()
    assert read(entry()).resumed == set()
    off, on = read(entry(), enabled=False), read(entry(), enabled=True, trigger={"max_runs": 1})
    assert off.specs["shop.one"]["suspended"] is True
    assert (off.resumed, on.resumed) == (set(), {"shop.one"})
    assert on.specs["shop.one"]["trigger"] == {"every": "1m", "max_runs": 1}


@pytest.mark.parametrize("wrong", [{"kwargs": [1]}, {"args": 7}, {"options": {"expires": float("inf")}}])
def test_a_row_of_wrong_values_is_refused_and_the_others_are_not(wrong: dict[str, Any]) -> None:
    found = read(entry(name="bad", **wrong), entry(name="good"))
    assert set(found.specs) == {"shop.good"}
    assert [name for name, _ in found.refused] == ["bad"]
    assert found.kept == {"shop.bad"}
