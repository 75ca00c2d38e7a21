"""Exports of APScheduler's job stores, and what becomes of their jobs."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import pytest
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from click.testing import CliRunner

from raftsched.apscheduler import export
from raftsched.apscheduler.__main__ import main
from raftsched.apscheduler.stores import open_store
from raftsched.importers.foreign import Reading
from raftsched.importers.kinds import recognised
from raftsched.importers.template import DEFAULT, Template
from tests.unit.importers.house import read, reasons, said

SEND = f"{__name__}:send"
PYTHON = Template.read("python:{module}:{function}")
JOB = {
    "id": "a", "name": "send", "func": "shop.tasks:send", "args": [], "kwargs": {}, "executor": "default",
    "misfire_grace_time": 1, "coalesce": True, "max_instances": 1, "next_run_time": "2026-11-20T14:10:00+00:00",
    "trigger": {"type": "interval", "seconds": 600.0, "start_date": "2026-11-01T00:00:00+00:00", "end_date": None,
                "timezone": "UTC", "jitter": None},
}  # fmt: skip
FULL = {
    **JOB, "id": "full", "name": "Send it", "args": [1], "kwargs": {"kind": "x"}, "executor": "processpool",
    "misfire_grace_time": 60, "coalesce": False, "max_instances": 3, "next_run_time": None,
    "trigger": {"type": "or", "jitter": 5, "triggers": [
        {"type": "cron", "timezone": "Europe/Madrid", "start_date": "2030-01-01T00:00:00+01:00",
         "end_date": "2031-01-01T00:00:00+01:00", "jitter": 3, "fields": {
             "year": "2028", "month": "jan-jun", "day": "2nd fri", "day_of_week": "mon-fri", "hour": "2",
             "minute": "*/5", "second": "3"}},
        {"type": "calendarinterval", "years": 1, "months": 2, "hour": 3, "minute": 4,
         "second": 5, "start_date": "2026-12-24", "end_date": "2032-01-01", "timezone": "Asia/Tokyo", "jitter": 2},
        {"type": "date", "run_date": "2030-01-01T00:00:00"}]},
}  # fmt: skip
LATE = {
    "id": "late", "func": "shop.tasks:send", "params": {"number": 3}, "coalesce": False, "misfire_grace_time": None,
    "trigger": {"type": "interval", "seconds": 5.0, "start_date": "2026-11-01T00:00:00+00:00",
                "end_date": "2032-01-01T00:00:00", "timezone": "Asia/Tokyo", "jitter": 2},
    "next_run_time": "2030-01-01T00:00:00+00:00",
}  # fmt: skip
HAND = {"id": "hand", "func": "shop.tasks:send", "trigger": {"type": "interval", "seconds": 7200.0}}
EXPORT = {"apscheduler": "3.11.3", "jobs": [FULL, LATE, HAND]}


def send(number: int, kind: str = "invoice") -> None:
    """What jobs of these tests call."""


class Own(BaseTrigger):  # type: ignore[misc]
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        return now


class Gone:
    """An object that nobody can read any more."""

    def __reduce__(self) -> Any:
        return (__import__, ("a_module_that_is_gone",))


def imported(found: dict[str, Any], template: Template = PYTHON) -> Reading:
    return read("apscheduler", ("jobs.json", json.dumps(found)), template=template)


def one(trigger: BaseTrigger, **more: Any) -> tuple[dict[str, Any], str]:
    """(the job, all notes) of a job that can be imported."""
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(send, trigger, **{"id": "a", "args": [7], **more})
    reading = imported(export(scheduler))
    assert not reading.refused, reading.refused
    return reading.entries[0].job, said(reading)


@pytest.mark.parametrize(
    "trigger, made",
    [
        (CronTrigger(hour=2, timezone="Europe/Madrid"), {"cron": "0 2 * * *", "timezone": "Europe/Madrid"}),
        (CronTrigger(day="last", hour=9, timezone="UTC"),
         {"rrule": "FREQ=DAILY;BYMONTHDAY=-1;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "timezone": "UTC"}),
        (CronTrigger(day="2nd fri", hour=9, timezone="UTC"), {"cron": "0 9 * * FRI#2", "timezone": "UTC"}),
        (CronTrigger(day="last sun", hour=9, year="2027-2028", timezone="UTC"),
         {"cron": "0 0 9 * * SUNL 2027,2028", "timezone": "UTC"}),
        (CronTrigger.from_crontab("*/15 8-18 * * 0", timezone="UTC"), {"cron": "*/15 8-18 * * MON", "timezone": "UTC"}),
        (CronTrigger(week="1-3", day_of_week="mon", timezone="UTC"),
         {"rrule": "FREQ=YEARLY;BYWEEKNO=1,2,3;BYDAY=MO;BYHOUR=0;BYMINUTE=0;BYSECOND=0", "timezone": "UTC"}),
        (CronTrigger(hour=2, timezone=timezone(timedelta(hours=2))), {"cron": "0 2 * * *", "timezone": "Etc/GMT-2"}),
        (CronTrigger(hour=2, jitter=30, timezone="UTC"), {"cron": "0 2 * * *", "timezone": "UTC", "jitter": "30s"}),
        (IntervalTrigger(minutes=10, start_date=datetime(2026, 11, 1, tzinfo=UTC)),
         {"every": "10m", "starts_at": "2026-11-01T00:00:00Z"}),
        (DateTrigger(datetime(2030, 1, 1, tzinfo=UTC)), {"at": "2030-01-01T00:00:00Z"}),
        (AndTrigger([CronTrigger(hour=2, timezone="UTC"), CronTrigger(day_of_week="0,1", hour="*", timezone="UTC")]),
         {"cron": "0 2 * * MON,TUE", "timezone": "UTC"}),
    ],
    ids=str,
)  # fmt: skip
def test_triggers(trigger: BaseTrigger, made: dict[str, Any]) -> None:
    job, _ = one(trigger)
    assert job["trigger"] == made
    assert job["handler"] == {"python": SEND}
    assert job["params"] == {"number": 7}, "arguments get the names that the function gives them"


@pytest.mark.parametrize(
    "trigger, reason",
    [
        (Own(), "whose times only its code knows"),
        (DateTrigger(datetime(2020, 1, 1, tzinfo=UTC)), "which is past"),
        (AndTrigger([IntervalTrigger(days=1), CronTrigger(hour=2)]), "not all of them are cron"),
        (AndTrigger([CronTrigger(hour=2, timezone="UTC"), CronTrigger(hour=2, timezone="Asia/Tokyo")]), "time zones"),
        (CronTrigger(week=1, day=1, timezone="UTC"), "week of the year beside a day"),
        (CronTrigger(hour=2, timezone=timezone(timedelta(minutes=30))), "none of the IANA"),
        (CronTrigger(month=2, day=30, timezone="UTC"), "no such date"),
        (OrTrigger([CronTrigger(hour=2, minute=m, timezone="UTC") for m in range(17)]), "at most 16"),
    ],
    ids=str,
)
def test_what_cannot_be_said_is_refused_by_name(trigger: BaseTrigger, reason: str) -> None:
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(send, trigger, id="a", args=[7])
    reading = imported(export(scheduler))
    assert [(place, text) for place, text, _ in reading.refused] == [("job a", "a")]
    assert reason in reasons(reading)[0]


def test_several_triggers_are_those_of_one_job() -> None:
    parts = [
        CronTrigger(hour=2, timezone="UTC"),
        IntervalTrigger(hours=3, start_date=datetime(2026, 11, 1, tzinfo=UTC)),
    ]
    job, notes = one(OrTrigger([*parts, DateTrigger(datetime(2020, 1, 1, tzinfo=UTC))]))
    assert [trigger["id"] for trigger in job["triggers"]] == ["t1", "t2"]
    assert "its interval counts from each run there" in notes
    assert "one of its triggers is left out: it was due once" in notes
    listed, _ = one(CronTrigger(day="1, 2nd fri", hour=2, timezone="UTC"))
    assert [trigger["cron"] for trigger in listed["triggers"]] == ["0 2 1 * *", "0 2 * * FRI#2"]


@pytest.mark.parametrize(
    "more, made",
    [
        ({}, {"overlap": "forbid"}),
        ({"max_instances": 3}, {"overlap": "allow", "max_concurrency": 3}),
        ({"misfire_grace_time": 60}, {"misfire": {"policy": "skip", "grace": "1m"}}),
        ({"misfire_grace_time": None}, {"misfire": {"policy": "once"}}),
        ({"misfire_grace_time": None, "coalesce": False}, {"misfire": {"policy": "all"}}),
        ({"next_run_time": None}, {"suspended": True}),
        ({"name": "the nightly one"}, {"description": "the nightly one"}),
    ],
)
def test_what_a_job_says_beside_its_trigger(more: dict[str, Any], made: dict[str, Any]) -> None:
    job, _ = one(CronTrigger(hour=2, timezone="UTC"), **more)
    assert {name: job[name] for name in made} == made


def test_a_next_time_that_was_set_by_hand_is_noted() -> None:
    at = datetime(2099, 1, 1, 12, 34, tzinfo=UTC)
    assert (
        "its next run is at 2099-01-01T12:34:00Z there" in one(CronTrigger(hour=2, timezone="UTC"), next_run_time=at)[1]
    )
    assert "its next run" not in said(imported({"jobs": [JOB]}))


def test_a_job_due_once_expires_as_it_did() -> None:
    job, _ = one(DateTrigger(datetime(2030, 1, 1, tzinfo=UTC)), misfire_grace_time=60)
    assert job["expires"] == "1m"
    assert "misfire" not in job


def test_arguments_that_are_no_json_and_functions_that_nobody_finds_are_refused() -> None:
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(send, "interval", hours=1, id="object", args=[object()])
    scheduler.add_job(send, "interval", hours=1, id="keys", args=[{1: 2}])
    scheduler.add_job(send, "interval", hours=1, id="nan", args=[float("nan")])
    scheduler.add_job(lambda: None, "interval", hours=1, id="lambda")
    found = imported({"jobs": [*export(scheduler)["jobs"], {**JOB, "id": "script", "func": "__main__:send"}]})
    assert not found.entries
    for (_, text, reason), words in zip(
        found.refused, ["its args are no values of JSON", "which has text for keys", "no values of JSON", "<lambda>",
                        "in the main script"], strict=True
    ):  # fmt: skip
        assert words in reason, text


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The URL of a store with a job, one whose function is gone, one that cannot be read, and one that is paused."""
    url = f"sqlite:///{tmp_path}/jobs.sqlite"
    scheduler = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(url=url)}, timezone="Europe/Madrid")
    scheduler.start(paused=True)
    scheduler.add_job(send, "cron", hour=2, id="nightly", args=[7])
    scheduler.add_job(send, "interval", minutes=10, id="paused", args=[8], next_run_time=None)
    gone = scheduler.add_job(send, "cron", hour=3, id="gone", args=[9])
    broken = scheduler.add_job(send, "cron", hour=4, id="broken", args=[9])
    jobs = scheduler._jobstores["default"]
    with jobs.engine.begin() as connection:
        for job, change in ((gone, {"func": "shop_that_is_gone:send"}), (broken, {"kwargs": {"kind": Gone()}})):
            state = pickle.dumps({**job.__getstate__(), **change})
            connection.execute(jobs.jobs_t.update().values(job_state=state).where(jobs.jobs_t.c.id == job.id))
    scheduler.shutdown()
    return url


def rows(url: str) -> list[Any]:
    opened = open_store(url)
    with opened.engine.begin() as connection:
        found = connection.execute(opened.jobs_t.select().order_by(opened.jobs_t.c.id)).all()
    opened.shutdown()
    return list(found)


def test_an_export_changes_nothing_where_apscheduler_itself_would_delete(store: str) -> None:
    before = rows(store)
    found = export(store)
    assert rows(store) == before
    assert {job.get("id") for job in found["jobs"]} == {"nightly", "paused", "gone", None}
    reading = imported(found)
    assert {entry.name: entry.job["params"] for entry in reading.entries} == {
        "nightly": {"number": 7}, "paused": {"number": 8}, "gone": {"args": [9]},
    }  # fmt: skip
    assert [entry.job.get("suspended") for entry in sorted(reading.entries, key=lambda e: e.name)] == [None, None, True]
    assert "it cannot be read: ModuleNotFoundError: No module named 'a_module_that_is_gone'" in reasons(reading)[0]
    opened = open_store(store)
    opened._logger.addHandler(logging.NullHandler())
    opened._logger.propagate = False
    assert len(opened.get_all_jobs()) == 2, "which is why it is not asked"
    assert len(rows(store)) == 2
    opened._logger.propagate = True
    opened.shutdown()


class Ends:
    """What a pickle may do that is no Exception."""

    def __init__(self, how: type[BaseException]) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return _end, (self.how,)


def _end(how: type[BaseException]) -> None:
    raise how("by a pickle")


def put(url: str, **states: Any) -> None:
    opened = open_store(url)
    with opened.engine.begin() as connection:
        for name, state in states.items():
            made = opened.jobs_t.insert().values(id=name, next_run_time=1.0, job_state=pickle.dumps(state))
            connection.execute(made)
    opened.shutdown()


def test_a_pickle_that_ends_the_program_deletes_nothing(store: str) -> None:
    nothing = {"version": 1, "trigger": 1, "next_run_time": None}
    put(store, ends=Ends(SystemExit), text="x", number=nothing)
    before = rows(store)
    told = [job["problem"] for job in export(store)["jobs"] if "problem" in job]
    assert "it cannot be read: SystemExit: by a pickle" in told
    assert "it cannot be read: KeyError: 'args'" in told
    assert rows(store) == before
    put(store, a_key=Ends(KeyboardInterrupt))
    before = rows(store)
    with pytest.raises(KeyboardInterrupt):
        export(store)
    assert rows(store) == before


def test_what_the_program_prints_or_ends_with_is_none_of_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.sqlite"
    scheduler = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(url=url)}, timezone="UTC")
    scheduler.start(paused=True)
    job = scheduler.add_job(send, "cron", hour=2, id="job", args=[7])
    scheduler.shutdown()
    (tmp_path / "loud.py").write_text('print("welcome")\nraise SystemExit("usage")\n')
    put(url, loud={**job.__getstate__(), "id": "loud", "func": "loud:send"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    done = run("export", url)
    assert done.returncode == 0, done.stderr
    assert "welcome" in done.stderr
    assert {job["id"] for job in json.loads(done.stdout)["jobs"]} == {"job", "loud"}


def test_an_error_shows_no_password() -> None:
    failed = CliRunner().invoke(main, ["export", "redis://me:s3cret@127.0.0.1:1/0"])
    assert failed.exit_code == 1
    assert "redis://***@127.0.0.1:1/0 cannot be read" in failed.output


def test_the_command_writes_what_the_import_takes(store: str, tmp_path: Path) -> None:
    done = run("export", store)
    assert done.returncode == 0, done.stderr
    assert recognised("stdin", done.stdout.encode()) == "apscheduler"
    assert len(imported(json.loads(done.stdout)).entries) == 3
    for words, told in (
        ((f"sqlite:///{tmp_path}/none.sqlite",), "there is no file"),
        (("jobs.sqlite",), "is no URL of a job store"),
        ((store, "--table", "other"), "no such table: other"),
    ):
        failed = CliRunner().invoke(main, ["export", *words])
        assert failed.exit_code == 1
        assert told in failed.output
    assert not (tmp_path / "none.sqlite").exists()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raftsched.apscheduler", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_store_in_memory_and_a_scheduler_that_was_not_started() -> None:
    scheduler = BackgroundScheduler(timezone="UTC", job_defaults={"misfire_grace_time": 30})
    scheduler.add_job(send, "interval", hours=1, id="a", args=[1])
    (early,) = export(scheduler)["jobs"]
    assert "next_run_time" not in early
    assert early["misfire_grace_time"] == 30
    scheduler.start(paused=True)
    (started,) = export(scheduler)["jobs"]
    kept = scheduler._jobstores["default"]
    assert isinstance(kept, MemoryJobStore)
    assert export(kept)["jobs"] == [started]
    assert datetime.fromisoformat(started["next_run_time"]) == scheduler.get_job("a").next_run_time
    scheduler.shutdown()


def test_random_ids_become_names_that_can_be_told_apart() -> None:
    scheduler = BackgroundScheduler(timezone="UTC")
    for number in (1, 2):
        scheduler.add_job(send, "interval", hours=1, args=[number])
    assert len({entry.name for entry in imported(export(scheduler)).entries}) == 2
    assert all(entry.name.startswith("send-") for entry in imported(export(scheduler)).entries)


def test_without_a_template_the_job_waits_for_its_handler() -> None:
    job = imported({"jobs": [JOB]}, DEFAULT).entries[0].job
    assert job["handler"] == {"call": "shop.tasks.send"}
    assert job["suspended"]


@pytest.mark.parametrize("text", ["{}", "[]", '{"jobs": 3}', '{"apscheduler": "3", "jobs": {}}'])
def test_what_is_no_export(text: str) -> None:
    if text == "[]":
        assert not read("apscheduler", ("x", text)).entries
        return
    with pytest.raises(click.UsageError, match="is no export of APScheduler"):
        read("apscheduler", ("x", text))


@pytest.mark.parametrize("name", JOB)
def test_a_value_of_the_wrong_kind_is_refused_and_nothing_else(name: str) -> None:
    wrong: tuple[Any, ...] = (None, [], {}, "", -1, 1e400, True, "x" * 5000, [[[]]])
    for value in wrong:
        read("apscheduler", ("x", json.dumps({"jobs": [{**JOB, name: value}]})))


def test_without_apscheduler_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['apscheduler'] = None; import raftsched.apscheduler"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "raftsched.apscheduler needs APScheduler 3: pip install 'apscheduler<4'" in done.stderr
