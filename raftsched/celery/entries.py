"""Makes jobs of the entries of a beat's schedule.

A job's params say what is sent: the task, its arguments and options, as JSON. What JSON cannot hold (functions that are
called when the task is sent, objects) stays in the configuration of the beats, and `own` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from celery.beat import ScheduleEntry
from celery.schedules import crontab, schedule, solar

from raftsched.importers.celery.literals import Call
from raftsched.importers.celery.schedules import CRONTAB, SOLAR, time_ms, trigger_of
from raftsched.importers.foreign import Names, Notes, Unmapped, instant, job_name
from raftsched.importers.template import handler_name
from raftsched.quantities import format_duration

if TYPE_CHECKING:
    from raftsched.client.spec_generated import JobSpec

LABEL = "celery-beat"  # whose value is the application: so a beat finds the jobs that it made
OFF = "celery-beat-off"  # of a row for one time that is disabled: when it is enabled again, its one time begins anew
OWN_BYTES = 16 * 1024  # of JSON; what is larger is not put into a job
RETRY = {
    "delays": ["1s", "5s", "15s", "30s", "1m", "2m", "5m", "10m", "15m", "30m"],  # about an hour without a broker
    "on": ["failed", "timed_out"],
}
GRID = "2000-01-01T00:00:00Z"  # the beginning of all periods that are relative


@dataclass(frozen=True)
class Wanted:
    """An entry as it is to be in the cluster. `trigger` and `fields` are added to the job's; `enabled`: None leaves it
    to the cluster whether the job is paused."""

    entry: ScheduleEntry
    trigger: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    enabled: bool | None = None
    problem: str = ""  # why it can be no job; "": none is known


@dataclass
class Jobs:
    """Holds what became of the entries. `refused` and `notes`: the name of an entry, and a sentence."""

    specs: dict[str, JobSpec] = field(default_factory=dict)  # by the names of the jobs
    resumed: set[str] = field(default_factory=set)  # names of those that are not left paused
    refused: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)  # names of jobs that are not made, and not deleted where they are
    over: set[str] = field(default_factory=set)  # those of `kept` whose last time is past
    at_ms: int = 0  # when they were read
    skips: bool = False  # what the cluster refuses is told, and does not keep it from making the others


class _Over(Exception):
    """Its last time is past."""


@dataclass(frozen=True)
class Application:
    """Says whose entries they are. `more`: fields of jobs by the names of entries, "*" for all of them."""

    name: str
    namespace: str
    zone: str
    more: Mapping[str, Mapping[str, Any]]

    @property
    def handler(self) -> str:
        """The handler that the beats of this application offer, and nobody else. Raises Unmapped."""
        return handler_name(f"celery-beat.{self.name}")


def jobs_of(found: Iterable[Wanted], application: Application, now_ms: int) -> Jobs:
    """Returns a job for each entry that can be one; of the others why not."""
    jobs, names = Jobs(at_ms=now_ms), Names()
    for wanted in found:
        notes, title, name = Notes(), str(wanted.entry.name), ""
        try:
            name = names.take(job_name(title, f"{application.name}.", notes), f"the entry {title!r}")
            jobs.specs[name] = _job(name, wanted, application, now_ms, notes)
        except (Unmapped, TypeError, ValueError, AttributeError, OverflowError) as error:  # a row may have anything
            why = str(error) if isinstance(error, Unmapped) else f"it cannot be read: {error!r}"
            jobs.refused.append((title, why))
            if name:
                jobs.kept.add(name)
            continue
        except _Over as error:
            jobs.notes.append((title, str(error)))
            jobs.kept.add(name)
            jobs.over.add(name)
            continue
        if wanted.enabled:
            jobs.resumed.add(name)
        jobs.notes += [(title, said) for said in notes.said]
    return jobs


def _job(name: str, wanted: Wanted, application: Application, now_ms: int, notes: Notes) -> JobSpec:
    if wanted.problem:
        raise Unmapped(wanted.problem)
    entry = wanted.entry
    options = dict(entry.options or {})
    trigger = {**_trigger(entry.schedule, application.zone, now_ms, notes), **wanted.trigger}
    job: dict[str, Any] = {
        "name": name,
        "namespace": application.namespace,
        "handler": {"call": application.handler},
        "params": _params(entry, options),
        "overlap": "allow",
        "timeout": "1m",
        "retry": RETRY,
        "labels": {LABEL: application.name},
    }
    if wanted.enabled is False:
        job["suspended"] = True
    expires = options.get("expires")
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if "at" in trigger:
        pass  # it is due once, and sent however late
    elif isinstance(expires, datetime | str):
        ends_ms = time_ms(expires, application.zone, "expires")
        if ends_ms <= now_ms:
            raise _Over(f"it expired at {instant(ends_ms)}; nothing is made of it")
        trigger["ends_at"] = instant(ends_ms)
    elif isinstance(expires, int | float) and expires >= 1:
        job["expires"] = format_duration(int(expires * 1000))
    more = [dict(application.more.get(key, {})) for key in ("*", str(entry.name))]
    found = {**job, **wanted.fields, **more[0], **more[1]}
    found["trigger"] = {**trigger, **more[0].get("trigger", {}), **more[1].get("trigger", {})}
    found["labels"] = {**found["labels"], LABEL: application.name}
    if wanted.enabled is False and "max_runs" in wanted.trigger:
        found["labels"][OFF] = "true"
    return cast("JobSpec", found)


def _params(entry: ScheduleEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a beat sends."""
    params: dict[str, Any] = {"entry": str(entry.name), "task": entry.task}
    said = {
        "args": list(entry.args or ()),
        "kwargs": dict(entry.kwargs or {}),
        "options": {name: _option(value) for name, value in options.items()},
    }
    try:
        fits = len(json.dumps(said, allow_nan=False, ensure_ascii=False).encode()) <= OWN_BYTES
    except (TypeError, ValueError, RecursionError):
        fits = False
    if not fits:
        return {**params, "own": True}
    return {**params, **{name: value for name, value in said.items() if value}}


def _option(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else value


def _trigger(due: Any, zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    """Returns the trigger of one of Celery's schedules. Raises Unmapped."""
    kind = type(due)
    if kind is schedule:
        trigger = trigger_of(due.run_every, zone, now_ms, notes)
        if due.relative:
            trigger["starts_at"] = GRID
            if due.run_every % timedelta(days=1) == timedelta(0):
                notes.say("relative: its days begin at midnight UTC")
        return trigger
    if isinstance(due, crontab) and kind.__name__ in ("crontab", "TzAwareCrontab"):
        fields = {name: getattr(due, f"_orig_{name}") for name in CRONTAB}
        return trigger_of(Call("crontab", [], fields), getattr(due.tz, "key", None) or zone, now_ms, notes)
    if kind.__name__ == "clocked":
        at_ms = time_ms(due.clocked_time, zone, "its time")
        if at_ms <= now_ms:
            raise _Over(f"it was due once, at {instant(at_ms)}; nothing is made of it")
        return {"at": instant(at_ms)}
    if isinstance(due, solar):
        raise Unmapped(SOLAR)
    raise Unmapped(
        f"its schedule is a {kind.__module__}.{kind.__qualname__}; use a period, a crontab or a clocked time"
    )
