"""Beat schedules of Celery: Python that is read and never run, dumps, and tables of django-celery-beat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from raftsched.importers.foreign import Reading
from raftsched.importers.template import Template
from tests.unit.importers.house import read, reasons, said

HEAD = "from celery.schedules import crontab, schedule, solar\nfrom datetime import timedelta, datetime\n"


def python(text: str, template: str = "call:{task}", zone: str = "UTC") -> Reading:
    return read("celery", ("beat.py", HEAD + text), template=Template.read(template), zone=zone)


def entry(schedule: str, more: str = "") -> tuple[dict[str, Any], str]:
    """(the job, all notes) of an entry that can be imported."""
    reading = python(f"app.conf.beat_schedule = {{'a': {{'task': 'shop.add', 'schedule': {schedule}, {more}}}}}")
    assert not reading.refused, reading.refused
    return reading.entries[0].job, said(reading)


@pytest.mark.parametrize(
    "schedule, trigger",
    [
        ("30", {"every": "30s"}),
        ("60.5", {"every": "1m500ms"}),
        ("60 * 60 * 24", {"every": "1d"}),
        ("0.2", {"every": "1s"}),
        ("timedelta(minutes=5)", {"every": "5m"}),
        ("timedelta(minutes=5) * 2", {"every": "10m"}),
        ("schedule(run_every=timedelta(hours=1))", {"every": "1h"}),
        ("schedule(10)", {"every": "10s"}),
        ("crontab()", {"cron": "* * * * *"}),
        ("crontab(minute=0, hour='*/3')", {"cron": "0 */3 * * *"}),
        ("crontab('0', '0,12', day_of_week='mon-fri')", {"cron": "0 0,12 * * MON-FRI"}),
        ("crontab(minute='0', hour='7', day_of_week='sunday')", {"cron": "0 7 * * SUN"}),
        ("crontab(0, 0, day_of_week='fri-mon')", {"cron": "0 0 * * MON,FRI-SUN"}),
        ("crontab(0, 0, day_of_month='1-15/7', month_of_year=[1, 7])", {"cron": "0 0 1-15/7 1,7 *"}),
        ("crontab(minute={5, 35}, hour=(8, 20))", {"cron": "5,35 8,20 * * *"}),
        ("crontab(0, 0, day_of_month='1-7', day_of_week=0)",
         {"rrule": "FREQ=DAILY;BYMONTHDAY=1,2,3,4,5,6,7;BYHOUR=0;BYMINUTE=0;BYSECOND=0;BYDAY=SU"}),
    ],
)  # fmt: skip
def test_schedules(schedule: str, trigger: dict[str, Any]) -> None:
    found = entry(schedule)[0]["trigger"]
    assert found == (trigger if "every" in trigger else {**trigger, "timezone": "UTC"})


@pytest.mark.parametrize(
    "schedule, reason",
    [
        ("solar('sunset', 1.0, 2.0)", "by the sun"),
        ("every_hour()", "every_hour() is code, which is not run"),
        ("UNKNOWN", "UNKNOWN is not written out"),
        ("2 ** 1000000000", "not computed"),
        ("10 ** 13 * 1", "not computed"),
        ("1 / 0", "not computed"),
        ("-5", "none"),
        ("True", "neither a period nor a crontab"),
        ("None", "neither a period nor a crontab"),
        ("crontab(minute='61')", "allowed are 0 to 59"),
        ("crontab(minute='*/0')", "cannot be read"),
        ("crontab(minute='5/2')", "cannot be read"),
        ("crontab(day_of_week='7')", "allowed are 0 to 6"),
        ("crontab(day_of_week='someday')", "no value of it"),
        ("crontab(day_of_month='31', month_of_year='2')", "no such date"),
        ("crontab(year=2027)", "does not know year"),
        ("crontab(*args)", "is code"),
        ("timedelta(weeks=1000000000)", "too large"),
        ("[x for x in range(9)]", "is code"),
        ("lambda: 1", "is code"),
    ],
)
def test_schedules_that_are_refused(schedule: str, reason: str) -> None:
    reading = python(f"app.conf.beat_schedule = {{'a': {{'task': 'shop.add', 'schedule': {schedule}}}}}")
    assert not reading.entries
    assert reason in reasons(reading)[0]


def test_times_that_clocks_skip_are_those_of_cron() -> None:
    text = "beat_schedule = {'a': {'task': 'shop.add', 'schedule': clocked(datetime(2027, 3, 28, 2, 30))}}"
    assert python(text, zone="Europe/Madrid").entries[0].job["trigger"] == {"at": "2027-03-28T01:00:00Z"}


def test_nothing_of_the_file_is_run(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    python(
        f"open({str(witness)!r}, 'w')\nbeat_schedule = {{'a': {{'task': open({str(witness)!r}, 'w'), 'schedule': 1}}}}"
    )
    assert not witness.exists()


def test_a_whole_entry() -> None:
    job, notes = entry(
        "crontab(0, 2)",
        "'args': (1, 'x'), 'kwargs': {'deep': {'a': [None, True]}}, 'relative': True, "
        "'options': {'queue': 'reports', 'expires': 60, 'priority': 12, 'headers': {'a': 1}}",
    )
    assert job == {
        "trigger": {"cron": "0 2 * * *", "timezone": "UTC"},
        "handler": {"call": "shop.add"},
        "params": {"args": [1, "x"], "deep": {"a": [None, True]}},
        "overlap": "allow", "queue": "reports", "priority": 9, "misfire": {"policy": "skip", "grace": "1m"},
        "labels": {"source": "celery:beat.py"},
    }  # fmt: skip
    for word in ("2 positional arguments", "announce the handler shop.add", "relative is left out", "queue reports",
                 "with Redis lower was", "options.headers has no counterpart"):  # fmt: skip
        assert word in notes


def test_without_a_template_jobs_wait_for_their_handlers() -> None:
    reading = read("celery", ("beat.py", "beat_schedule = {'a': {'task': 'shop.tasks.SendMail', 'schedule': 5}}"))
    assert reading.entries[0].job["suspended"] is True
    assert reading.entries[0].job["handler"] == {"call": "shop.tasks.send-mail"}
    assert reading.todo


@pytest.mark.parametrize(
    "template, handler, params",
    [
        ("python:{module}:{function}", {"python": "shop.tasks:add"}, {"args": [1], "b": "it's"}),
        ("exec:celery -A 'my shop' call {task} --args {args} --kwargs {kwargs}",
         {"exec": ["celery", "-A", "my shop", "call", "shop.tasks.add", "--args", "[1]", "--kwargs",
                   '{"b": "it\'s"}']}, {}),
        ("shell:run {task} {kwargs}", {"shell": """run shop.tasks.add '{"b": "it'"'"'s"}'"""}, {"args": [1]}),
    ],
)  # fmt: skip
def test_templates(template: str, handler: dict[str, Any], params: dict[str, Any]) -> None:
    text = "beat_schedule = {'a': {'task': 'shop.tasks.add', 'schedule': 5, 'args': [1], 'kwargs': {'b': \"it's\"}}}"
    job = python(text, template).entries[0].job
    assert job["handler"] == handler
    assert job.get("params", {}) == params
    assert "suspended" not in job


@pytest.mark.parametrize("text", ["", "call", "call:", "ruby:{task}", "call:{job}", "exec:'a", "python:{task"])
def test_templates_that_are_refused(text: str) -> None:
    if text == "python:{task":
        assert "no callable" in reasons(python("beat_schedule = {'a': {'task': 'x', 'schedule': 5}}", text))[0]
        return
    with pytest.raises(ValueError):
        Template.read(text)


@pytest.mark.parametrize(
    "text",
    [
        "beat_schedule = ENTRY",
        "CELERYBEAT_SCHEDULE = ENTRY",
        "app.conf.CELERY_BEAT_SCHEDULE = ENTRY",
        "app.conf.update(beat_schedule=ENTRY)",
        "app.conf.update({'beat_schedule': ENTRY})",
        "app.conf.beat_schedule.update(ENTRY)",
        "class Config:\n    beat_schedule = ENTRY",
        "if DEBUG:\n    app.conf.beat_schedule: dict = ENTRY",
        "TASK = 'x'\nSCHEDULE = {'a': {'task': TASK, 'schedule': 5}}\nbeat_schedule = SCHEDULE",
        "app.conf.beat_schedule['a'] = {'task': 'x', 'schedule': 5}",
        "beat_schedule = dict(a=dict(task='x', schedule=5))",
        "app.conf.beat_schedule |= ENTRY",
        "beat_schedule = {'b': {'task': 'y', 'schedule': 9}}\nbeat_schedule = ENTRY",
        "beat_schedule = ENTRY\napp.conf.beat_schedule = beat_schedule",
    ],
)
def test_where_the_schedule_may_stand(text: str) -> None:
    reading = python(text.replace("ENTRY", "{'a': {'task': 'x', 'schedule': 5}}"))
    assert [(e.name, e.job["handler"]) for e in reading.entries] == [("a", {"call": "x"})]


def test_what_is_not_written_out_is_told() -> None:
    reading = python(
        "@app.on_after_configure.connect\ndef setup(sender, **kwargs):\n    sender.add_periodic_task(10.0, add.s())\n"
        "beat_schedule = {**other, name(): 1, 'a': 5,"
        " 'b': {'task': 'x', 'schedule': 5, **more}, 'c': {'schedule': 5}}\n"
        "CELERYBEAT_SCHEDULE = load()\n"
    )
    assert not reading.entries
    text = "\n".join(reasons(reading))
    for word in ("add_periodic_task()", "**: other schedules", "name() is code", "no object with task", "** is code",
                 "names no task", "not written out as a dict"):  # fmt: skip
        assert word in text
    assert reading.refused[0][0] == "line 6", reading.refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A = 5\nA = 9\nbeat_schedule = {'a': {'task': 'x', 'schedule': A}}", "A is assigned more than once"),
        ("S = {}\nif DEBUG:\n    S = {}\nbeat_schedule = S", "S is assigned more than once"),
        (
            "for i in range(3):\n    beat_schedule[str(i)] = {'task': 'x', 'schedule': 5}",
            "write each entry with its name",
        ),
        ("beat_schedule += more", "code, which is not run"),
    ],
)
def test_what_depends_on_the_course_is_told(text: str, why: str) -> None:
    reading = python(text)
    assert not reading.entries
    assert why in reasons(reading)[0]


def test_a_schedule_that_may_take_the_place_of_another_is_told() -> None:
    one = "beat_schedule = {'a': {'task': 'x', 'schedule': 5}}"
    reading = python(f"{one}\nif DEBUG:\n    {one.replace('x', 'y')}")
    assert [entry.job["handler"] for entry in reading.entries] == [{"call": "x"}]
    assert "is assigned again" in reasons(reading)[0]


def test_zones() -> None:
    reading = python("timezone = 'Europe/Madrid'\nbeat_schedule = {'a': {'task': 'x', 'schedule': crontab(0, 2)}}")
    assert reading.entries[0].job["trigger"]["timezone"] == "Europe/Madrid"
    assert "enable_utc is off" in said(python("enable_utc = False\nbeat_schedule = {}"))


@pytest.mark.parametrize(
    "text",
    ["def", "x = 'a\0b'", "(" * 5000, "\xff".encode("latin-1").decode("latin-1") + " = ("],
)
def test_what_is_no_python_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError):
        python(text)


def test_long_chains_and_circles_come_to_an_end() -> None:
    deep = "beat_schedule = {'a': {'task': 'x', 'schedule': f" + ".a" * 150 + "}}"
    assert "is code" in reasons(python(deep))[0]
    assert "nests too deeply" in reasons(python("A = B\nB = A\nbeat_schedule = {'a': {'task': 'x', 'schedule': A}}"))[0]
    assert reasons(python("A = B\nB = A\nbeat_schedule = A"))
    wide = "X0 = [1]\n" + "".join(f"X{i} = [X{i - 1}, X{i - 1}]\n" for i in range(1, 40))
    assert "too large" in reasons(python(f"{wide}beat_schedule = {{'a': {{'task': 'x', 'schedule': X39}}}}"))[0]


def test_json_and_yaml() -> None:
    schedules = {
        "a": {"task": "x", "schedule": 30},
        "b": {"task": "x", "schedule": {"every": 2, "period": "hours"}},
        "c": {"task": "x", "schedule": {"minute": "0", "hour": "*/2"}},
        "d": {"task": "x", "schedule": {"__type__": "crontab", "minute": 5, "hour": "*"}},
        "e": {"task": "x", "schedule": {"crontab": {"minute": 1, "hour": 2, "timezone": "Asia/Tokyo"}}},
        "f": {"task": "x", "schedule": "30 6 * * *"},
        "g": {"task": "x", "schedule": {"minutes": 3, "seconds": 1}},
        "h": {"task": "x", "schedule": {"__type__": "solar", "event": "dawn"}},
        "i": {"task": "x", "schedule": {"__type__": "rrule"}},
        "j": {"task": "x", "schedule": {"clocked_time": "2030-01-01T00:00:00Z"}, "enabled": False},
        "k": 5,
    }
    for text in (json.dumps(schedules), json.dumps({"beat_schedule": schedules})):
        reading = read("celery", ("beat.json", text))
        assert [e.job["trigger"] for e in reading.entries] == [
            {"every": "30s"}, {"every": "2h"}, {"cron": "0 */2 * * *", "timezone": "UTC"},
            {"cron": "5 * * * *", "timezone": "UTC"}, {"cron": "1 2 * * *", "timezone": "Asia/Tokyo"},
            {"cron": "30 6 * * *", "timezone": "UTC"}, {"every": "3m1s"}, {"at": "2030-01-01T00:00:00Z"},
        ]  # fmt: skip
        assert [text for _, text, _ in reading.refused] == ["h", "i", "k"]
    yaml = "a:\n  task: x\n  schedule: 30\n"
    assert read("celery", ("beat.yaml", yaml)).entries[0].job["trigger"] == {"every": "30s"}


def test_documents_of_celerybeat_mongo() -> None:
    document = {
        "_cls": "PeriodicTask", "name": "n", "task": "app.x", "args": [], "kwargs": {"a": 1}, "enabled": True,
        "crontab": {"_cls": "Crontab", "minute": "40", "hour": "11", "day_of_week": "fri", "day_of_month": "*",
                    "month_of_year": "6"},
        "total_run_count": 11,
    }  # fmt: skip
    other = {"name": "m", "task": "y", "interval": {"_cls": "Interval", "every": 2, "period": "minutes"}}
    reading = read("celery", ("beat.json", json.dumps([document, other])))
    assert [(e.name, e.job["trigger"]) for e in reading.entries] == [
        ("n", {"cron": "40 11 * 6 FRI", "timezone": "UTC"}), ("m", {"every": "2m"}),
    ]  # fmt: skip
    assert "total_run_count has no counterpart" in said(reading)


def row(model: str, pk: int, **fields: Any) -> dict[str, Any]:
    return {"model": f"django_celery_beat.{model}", "pk": pk, "fields": fields}


SCHEDULES = [
    row("intervalschedule", 1, every=5, period="minutes"),
    row("crontabschedule", 1, minute="30", hour="4", day_of_week="1", day_of_month="*", month_of_year="*",
        timezone="Europe/Madrid"),
    row("solarschedule", 1, event="sunset", latitude="1", longitude="2"),
    row("clockedschedule", 1, clocked_time="2030-01-01T00:00:00Z"),
    row("clockedschedule", 2, clocked_time="2020-01-01T00:00:00Z"),
    row("periodictasks", 1, last_update="2026-01-01T00:00:00Z"),
]  # fmt: skip


def django(**fields: Any) -> Reading:
    given = {"name": "nightly", "task": "shop.add", "args": "[]", "kwargs": "{}", "enabled": True, "headers": "{}"}
    rows = [*SCHEDULES, row("periodictask", 7, **{**given, **fields})]
    return read("celery", ("dump.json", json.dumps(rows)), template=Template.read("call:{task}"))


def test_django_celery_beat() -> None:
    (entry,) = django(
        crontab=1, interval=None, args='["x"]', kwargs='{"a": 1}', queue="q", priority=3, expire_seconds=120,
        one_off=True, start_time="2030-01-01T00:00:00Z", enabled=False, description="Nightly", last_run_at=None,
    ).entries  # fmt: skip
    assert entry.place == "task nightly"
    assert entry.job == {
        "trigger": {"cron": "30 4 * * MON", "timezone": "Europe/Madrid", "max_runs": 1,
                    "starts_at": "2030-01-01T00:00:00Z"},
        "handler": {"call": "shop.add"}, "params": {"args": ["x"], "a": 1}, "overlap": "allow", "queue": "q",
        "priority": 3, "misfire": {"policy": "skip", "grace": "2m"}, "suspended": True, "description": "Nightly",
        "labels": {"source": "celery:dump.json"},
    }  # fmt: skip
    assert django(interval=1).entries[0].job["trigger"] == {"every": "5m"}
    assert django(clocked=1, one_off=True).entries[0].job["trigger"] == {"at": "2030-01-01T00:00:00Z"}
    ends = django(interval=1, expires="2031-01-01T00:00:00").entries[0].job["trigger"]
    assert ends == {"every": "5m", "ends_at": "2031-01-01T00:00:00Z"}
    assert "novelty has no counterpart" in said(django(interval=1, novelty="x"))
    assert "headers have no counterpart" in said(django(interval=1, headers='{"a": 1}'))


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({}, "no schedule"),
        ({"interval": 1, "crontab": 1}, "interval and crontab"),
        ({"interval": 9}, "not in this file"),
        ({"solar": 1}, "by the sun"),
        ({"clocked": 2}, "is past"),
        ({"interval": 1, "args": "[1"}, "no JSON"),
        ({"interval": 1, "args": "{}", "kwargs": "[1]"}, "no object"),
        ({"interval": 1, "task": "celery.backend_cleanup"}, "belongs to Celery"),
        ({"interval": 1, "expires": "2020-01-01T00:00:00Z"}, "expired"),
        ({"interval": 1, "name": ""}, "no name"),
    ],
)
def test_tasks_of_django_that_are_refused(fields: dict[str, Any], reason: str) -> None:
    reading = django(**fields)
    assert not reading.entries
    assert reason in reasons(reading)[0]
