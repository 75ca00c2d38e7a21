"""Reads beat schedules of Celery into jobs: Python (read, never run), JSON or YAML, and dumps of django-celery-beat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from raftsched import names as rules
from raftsched.bounds import DESCRIPTION_MAX, DURATION_MAX_MS
from raftsched.importers.celery.django import Task, is_dump, read_tasks
from raftsched.importers.celery.literals import Call, NotLiteral, read_module
from raftsched.importers.celery.schedules import SOLAR, clocked, interval, time_ms, trigger_of
from raftsched.importers.documents import Document, read_documents
from raftsched.importers.foreign import Entry, Names, Notes, Reading, Unmapped, instant, job_name
from raftsched.quantities import format_duration

if TYPE_CHECKING:
    from raftsched.importers.how import How

_ENTRY = frozenset(["task", "schedule", "args", "kwargs", "options", "relative", "name", "enabled"])
_OPTIONS = frozenset(["queue", "expires", "priority"])
_DJANGO = frozenset({
    "name", "task", "interval", "crontab", "solar", "clocked", "args", "kwargs", "queue", "priority", "expires",
    "expire_seconds", "one_off", "start_time", "enabled", "last_run_at", "total_run_count", "date_changed",
    "description",
})  # fmt: skip
_DJANGO_UNSET = frozenset(["exchange", "routing_key"])  # mean nothing as long as they are empty
_OWN = "celery.backend_cleanup"


def read_celery(data: bytes, source: str, how: How) -> Reading:
    """Raises a usage error for what is none of them."""
    begin = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if source.endswith(".py") or not (begin.startswith((b"{", b"[")) or source.endswith((".json", ".yaml", ".yml"))):
        try:
            return _told(_of_python(data, source, how), source, "Scheduler")
        except click.UsageError:
            if source.endswith(".py"):
                raise
    documents = read_documents(data, source)
    if is_dump(documents):
        return _told(_of_django(documents, source, how), source, "DatabaseScheduler")
    return _told(_of_objects(documents, source, how), source, "Scheduler")


def _told(reading: Reading, source: str, scheduler: str) -> Reading:
    """Adds how the schedule is kept where it is."""
    if reading.entries:
        reading.notes.append((source, f"beat may stay, with -S raftsched.celery:{scheduler} (docs/celery.md)"))
    return reading


class _Jobs:
    """Adds tasks to a reading, each as a job."""

    def __init__(self, source: str, how: How, zone: str) -> None:
        self.reading = Reading()
        self.source, self.how, self.zone = source, how, zone
        self._names = Names()

    def add(self, place: str, text: str, entry: Any) -> None:
        """`entry`: task, schedule, args, kwargs, options."""
        notes = Notes()
        try:
            if isinstance(entry, NotLiteral):
                raise Unmapped(str(entry))
            if not isinstance(entry, Mapping):
                raise Unmapped("it is no object with task and schedule")
            name = self._names.take(job_name(text, self.how.prefix, notes), f"{place} {text}")
            job = self._job(entry, notes)
        except Unmapped as error:
            self.reading.refused.append((place, text, str(error)))
            return
        self.reading.add(Entry(place, text, name, None, job), notes)

    def _job(self, entry: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
        trigger = trigger_of(entry.get("schedule"), self.zone, self.how.now_ms, notes)
        job = self.base(entry, trigger, notes)
        options = entry.get("options") or {}
        if not isinstance(options, Mapping):
            raise Unmapped("its options are no object")
        self.options(options, job, notes)
        if entry.get("enabled") is False:
            job["suspended"] = True
        if entry.get("relative"):
            notes.say("relative is left out: times are not rounded to the unit of the period")
        notes.leave(options, _OPTIONS, "options.")
        notes.leave(entry, _ENTRY, "")
        return job

    def base(self, entry: Mapping[str, Any], trigger: dict[str, Any], notes: Notes) -> dict[str, Any]:
        task = str(entry.get("task") or "").strip()
        if not task:
            raise Unmapped("it names no task")
        if task == _OWN:
            raise Unmapped(f"{_OWN} belongs to Celery itself; results are kept as each job's retention says here")
        args, kwargs = entry.get("args") or [], entry.get("kwargs") or {}
        if not isinstance(args, list | tuple) or not isinstance(kwargs, Mapping):
            raise Unmapped("its args are no list, or its kwargs no object")
        args, kwargs = _plain(list(args)), _plain(dict(kwargs))
        handler, params = self.how.template.handler(task, args, kwargs, notes)
        job: dict[str, Any] = {"trigger": trigger, "handler": handler, "overlap": "allow"}
        if params:
            job["params"] = params
        job["labels"] = {"source": f"celery:{self.source[-200:]}"}
        return job

    def options(self, options: Mapping[str, Any], job: dict[str, Any], notes: Notes) -> None:
        queue = str(options.get("queue") or "")
        if queue and rules.QUEUE.allows(queue):
            job["queue"] = queue
            notes.say(f"the queue {queue} limits its runs here; labels say which nodes run it (placement)")
        elif queue:
            notes.say(f"its queue {queue[:60]!r} cannot be the name of one here; it is left out")
        priority = options.get("priority")
        if isinstance(priority, int) and not isinstance(priority, bool):
            job["priority"] = min(max(priority, 0), 9)
            notes.say(f"its priority is {job['priority']}, and higher is first, as with RabbitMQ; with Redis lower was")
        expires = options.get("expires")
        if isinstance(expires, timedelta):
            expires = expires.total_seconds()
        if isinstance(expires, int | float) and not isinstance(expires, bool):
            if not 1 <= expires <= DURATION_MAX_MS / 1000:
                raise Unmapped(f"its expires is {expires} seconds; use 1 or more, up to a hundred years")
            if "at" not in job["trigger"]:
                job["misfire"] = {"policy": "skip", "grace": format_duration(int(expires * 1000))}
        elif expires is not None and "at" in job["trigger"]:
            notes.say("expires is left out: what is due once runs, however late")
        elif expires is not None:
            ends = time_ms(expires, self.zone, "expires")
            if ends <= self.how.now_ms:
                raise Unmapped(f"it expired at {instant(ends)}")
            job["trigger"]["ends_at"] = instant(ends)


def _plain(value: Any) -> Any:
    """A value as JSON has it. Raises Unmapped."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise Unmapped(f"an argument is {value.name}(...)" if isinstance(value, Call) else "an argument is no plain value")


def _of_python(data: bytes, source: str, how: How) -> Reading:
    module = read_module(data, source)
    jobs = _Jobs(source, how, module.zone or how.timezone)
    for name, line, entry in module.entries:
        jobs.add(f"line {line}", name, entry)
    jobs.reading.refused += [(f"line {line}", "", why) for line, why in module.asides]
    if not module.entries and not module.asides:
        jobs.reading.notes.append((source, "no beat_schedule is written out in it"))
    if module.utc is False and module.zone is None:
        jobs.reading.notes.append((source, f"enable_utc is off: times are of its machine's zone; here {how.timezone}"))
    return jobs.reading


def _of_objects(documents: list[Document], source: str, how: How) -> Reading:
    jobs = _Jobs(source, how, how.timezone)
    for document in documents:
        given = document.value
        for name in ("beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE"):
            if isinstance(given.get(name), dict):
                given = given[name]
        if "task" in given and "schedule" in given and not isinstance(given["task"], dict):
            jobs.add(document.place, str(given.get("name") or given["task"]), given)
            continue
        kinds = [kind for kind in ("crontab", "interval", "solar", "clocked") if isinstance(given.get(kind), dict)]
        if isinstance(given.get("task"), str) and len(kinds) == 1:  # a document of celerybeat-mongo
            rest = {name: value for name, value in given.items() if name not in (*kinds, "_id", "_cls")}
            schedule = {name: value for name, value in given[kinds[0]].items() if name != "_cls"}
            named = {"__type__": "solar"} if kinds[0] == "solar" else {}
            text = str(given.get("name") or given["task"])
            jobs.add(document.place, text, {**rest, "schedule": {**schedule, **named}})
            continue
        for name, entry in given.items():
            jobs.add(f"entry {name}", str(name), entry)
    return jobs.reading


def _of_django(documents: list[Document], source: str, how: How) -> Reading:
    jobs = _Jobs(source, how, how.timezone)
    names = Names()
    for task in read_tasks(documents):
        text = str(task.fields.get("name") or "")
        notes = Notes()
        try:
            if task.problem:
                raise Unmapped(task.problem)
            name = names.take(job_name(text, how.prefix, notes), task.place)
            job = _of_task(jobs, task, notes)
        except Unmapped as error:
            jobs.reading.refused.append((task.place, text, str(error)))
            continue
        jobs.reading.add(Entry(task.place, text, name, None, job), notes)
    return jobs.reading


def _of_task(jobs: _Jobs, task: Task, notes: Notes) -> dict[str, Any]:
    fields, how = task.fields, jobs.how
    if task.kind == "solar":
        raise Unmapped(SOLAR)
    if task.kind == "interval":
        trigger = interval(task.schedule, notes)
    elif task.kind == "clocked":
        notes.leave(task.schedule, ("clocked_time",), "clocked.")
        trigger = clocked(task.schedule.get("clocked_time"), jobs.zone, how.now_ms)
    else:
        trigger = trigger_of({**task.schedule, "__type__": "crontab"}, jobs.zone, how.now_ms, notes)
    if "at" in trigger:
        for name in ("start_time", "expires"):
            if fields.get(name):
                notes.say(f"{name} is left out: what is due once runs then, however late")
    else:
        if fields.get("one_off"):
            trigger["max_runs"] = 1
        if fields.get("start_time"):
            trigger["starts_at"] = instant(time_ms(fields["start_time"], jobs.zone, "start_time"))
    job = jobs.base({"task": fields.get("task"), "args": task.args, "kwargs": task.kwargs}, trigger, notes)
    options = {
        "queue": fields.get("queue"),
        "priority": fields.get("priority"),
        "expires": fields.get("expire_seconds"),
    }
    if fields.get("expires") and "at" not in trigger:
        options["expires"] = fields["expires"]
    jobs.options(options, job, notes)
    if fields.get("enabled") is False:
        job["suspended"] = True
    if fields.get("description"):
        job["description"] = str(fields["description"])[:DESCRIPTION_MAX]
    headers = re.sub(r"\s", "", str(fields.get("headers") or "{}"))
    unset = {name for name in _DJANGO_UNSET if fields.get(name) in (None, "")}
    notes.leave(fields, _DJANGO | unset | {"headers"}, "")
    notes.leave(task.beside, (), "beside fields: ")
    if headers not in ("{}", "null"):
        notes.say("headers have no counterpart here; they are left out")
    return job
