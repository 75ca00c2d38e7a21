"""Computes when the jobs of a reading are due. A job is refused for what a node refuses a trigger for, so that a dry
run says the same as the import, and noted where its times may surprise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from raftsched.importers.foreign import Entry, Reading
from raftsched.quantities import parse_duration
from raftsched.schedule import TriggerError, validate
from raftsched.schedule.clock_changes import day_text, first_change
from raftsched.schedule.remarks import remarks
from raftsched.schedule.text import recurring

if TYPE_CHECKING:
    from raftsched.core.model import Trigger

LOOKED_AHEAD_MS = 5 * 366 * 86_400_000  # for changes of clocks
_ELSEWHERE = {  # what becomes of a fixed time that clocks skip or show twice; cron does what is done here
    "apscheduler": "APScheduler skips the one, or runs it at another hour, and runs the other twice",
    "celery": "Celery may skip it, or run it twice",
    "dkron": "Dkron skips the one and runs the other twice",
    "kubernetes": "Kubernetes skips the one and runs the other twice",
    "powerjob": "Quartz, whose schedules PowerJob has, may skip it, or run it twice",
    "quartz": "Quartz may skip it, or run it twice",
    "systemd": "systemd skips the one",
    "xxl-job": "Quartz, whose schedules XXL-JOB has, may skip it, or run it twice",
}


def judge(reading: Reading, kind: str, now_ms: int) -> None:
    """Moves the jobs that a node would refuse for their times to what is refused, and adds notes on the others."""
    kept: list[Entry] = []
    for entry in reading.entries:
        try:
            notes = list(_notes(entry, kind, now_ms))
        except TriggerError as error:
            reading.refused.append((entry.place, entry.text, f"the schedule: {error.detail}"))
            _forget(reading, entry.place)
            continue
        kept.append(entry)
        reading.notes += [(entry.place, note) for note in dict.fromkeys(notes)]
    reading.entries[:] = kept


def _forget(reading: Reading, place: str) -> None:
    """Takes back what was noted of a job that is refused after all."""
    if sum(entry.place == place for entry in reading.entries) == 1:
        reading.notes[:] = [one for one in reading.notes if one[0] != place]
        reading.todo = {one for one in reading.todo if one[0] != place}


def _notes(entry: Entry, kind: str, now_ms: int) -> Iterator[str]:
    """Raises TriggerError for a trigger that a node refuses."""
    for given in entry.job.get("triggers") or [entry.job["trigger"]]:
        if not {"cron", "rrule", "every"} & given.keys():
            continue
        trigger = as_trigger(given)
        validate(trigger, now_ms=now_ms)
        if "cron" in given:
            yield from remarks(given["cron"], given.get("dialect", ""))
        if kind in _ELSEWHERE:
            change = first_change(trigger, now_ms, now_ms + LOOKED_AHEAD_MS)
            if change is not None:
                when = f"clocks change in {trigger.timezone}, next on {day_text(trigger, change.at_ms)}"
                yield f"{when}: {_here(change.moved)}{_ELSEWHERE[kind]}"


def as_trigger(given: Mapping[str, Any]) -> Trigger:
    """The cron text, rule or period of a job's body as a trigger. Raises TriggerError."""
    return recurring(
        cron=given.get("cron"),
        rrule=given.get("rrule"),
        every_ms=parse_duration(given.get("every", "0s")),
        timezone=given.get("timezone"),
        dialect=given.get("dialect", ""),
        jitter_ms=parse_duration(given.get("jitter", "0s")),
        max_runs=given.get("max_runs"),
        starts_at_ms=_ms(given, "starts_at"),
        ends_at_ms=_ms(given, "ends_at"),
    )


def _here(moved: bool) -> str:
    if moved:
        return "a time that they skip is run once, right after, and one that comes twice the first time only; "
    return "times that they skip are not run, and those that come twice are run twice; of a fixed time "


def _ms(given: Mapping[str, Any], field: str) -> int | None:
    return None if field not in given else round(datetime.fromisoformat(given[field]).timestamp() * 1000)
