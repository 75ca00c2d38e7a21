"""Reads the export of a job store of APScheduler into jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from raftsched.bounds import DESCRIPTION_MAX
from raftsched.importers.apscheduler.due_times import triggers_of
from raftsched.importers.documents import read_documents
from raftsched.importers.due import as_trigger
from raftsched.importers.foreign import Entry, Names, Notes, Reading, Unmapped, instant, job_name
from raftsched.quantities import format_duration
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.triggers import next_nominal

if TYPE_CHECKING:
    from raftsched.importers.how import How

MARK = "apscheduler"  # what an export begins with: the version that wrote it
_JOB = ("id", "name", "func", "args", "kwargs", "params", "trigger", "executor", "misfire_grace_time", "coalesce",
        "max_instances", "next_run_time", "problem")  # fmt: skip
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)  # package.module:function
_RANDOM_ID = re.compile(r"[0-9a-f]{32}")  # of a job that was given none
DEFAULT_GRACE_S = 1  # APScheduler's misfire_grace_time where nobody says another


def read_apscheduler(data: bytes, source: str, how: How) -> Reading:
    """Raises a usage error for what is no export."""
    reading, names = Reading(), Names()
    for document in read_documents(data, source):
        jobs = document.value.get("jobs")
        if not isinstance(jobs, list):
            raise click.UsageError(
                f"{source} is no export of APScheduler; python -m raftsched.apscheduler export STORE-URL writes one"
            )
        left = Notes()
        left.leave(document.value, (MARK, "jobs"), "")
        reading.note(document.place, left)
        for number, given in enumerate(jobs, 1):
            _read(given, number, source, how, names, reading)
    return reading


def _read(given: Any, number: int, source: str, how: How, names: Names, reading: Reading) -> None:
    notes = Notes()
    text = str(given.get("id") or "") if isinstance(given, Mapping) else ""
    place = f"job {text or number}"
    try:
        if not isinstance(given, Mapping):
            raise Unmapped("it is no object")
        if given.get("problem"):
            raise Unmapped(str(given["problem"]))
        called = text
        if _RANDOM_ID.fullmatch(text):  # two jobs of one function differ by it
            called = f"{given.get('name') or 'job'}-{text[:8]}"
        name = names.take(job_name(called, how.prefix, notes), place)
        job = job_of(given, how, notes)
    except Unmapped as error:
        reading.refused.append((place, text, str(error)))
        return
    job["labels"] = {"source": f"{MARK}:{source[-200:]}"}
    reading.add(Entry(place, text, name, None, job), notes)


def job_of(given: Mapping[str, Any], how: How, notes: Notes) -> dict[str, Any]:
    """A job, as raftsched.apscheduler describes it, as one here. Raises Unmapped."""
    notes.leave(given, _JOB, "")
    if given.get("problem"):
        raise Unmapped(str(given["problem"]))
    triggers = triggers_of(given.get("trigger"), how.timezone, how.now_ms, notes)
    handler, params = _handler(given, how, notes)
    job: dict[str, Any] = {"handler": handler}
    if len(triggers) == 1:
        job["trigger"] = triggers[0]
    else:
        job["triggers"] = [{"id": f"t{number}", **one} for number, one in enumerate(triggers, 1)]
    if params:
        job["params"] = params
    if given.get("name") and given["name"] != str(given.get("func")).rpartition(":")[2]:
        job["description"] = str(given["name"])[:DESCRIPTION_MAX]
    _instances(given, job, notes)
    _misfire(given, job, triggers, notes)
    if given.get("executor") not in (None, "default"):
        notes.say(f"its executor {str(given['executor'])[:60]!r} is left out: each run has a process of its own here")
    if "next_run_time" in given and given["next_run_time"] is None:
        job["suspended"] = True
    elif given.get("next_run_time") is not None:
        _compare(given["next_run_time"], triggers, how, notes)
    return job


def _handler(given: Mapping[str, Any], how: How, notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    text = str(given.get("func") or "")
    if not _REFERENCE.fullmatch(text):
        raise Unmapped(
            f"its function {text[-80:]!r} is none that other processes find; define it at the top of a module"
        )
    module, _, function = text.partition(":")
    if module == "__main__":
        raise Unmapped(
            f"its function {function} is in the main script, which other processes do not find; move it into a module,"
            " or export with --main MODULE where the script can be imported by that name"
        )
    args, kwargs, params = given.get("args") or [], given.get("kwargs") or {}, given.get("params") or {}
    if not isinstance(args, list) or not isinstance(kwargs, Mapping) or not isinstance(params, Mapping):
        raise Unmapped("its args are no list, or its kwargs or params no object")
    if params and (args or kwargs):
        raise Unmapped("it has params, which are all of its arguments by name, and args or kwargs beside them")
    kwargs = params or kwargs
    return how.template.handler(f"{module}.{function}", args, kwargs, notes, module=module)


def _instances(given: Mapping[str, Any], job: dict[str, Any], notes: Notes) -> None:
    most = given.get("max_instances", 1)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise Unmapped(f"its max_instances is {str(most)[:40]!r}, no number from 1 on")
    if most == 1:
        job["overlap"] = "forbid"
        return
    job["overlap"], job["max_concurrency"] = "allow", min(most, 10_000)
    notes.say(f"of its runs {job['max_concurrency']} go at a time; one more is skipped there, and waits here")


def _misfire(given: Mapping[str, Any], job: dict[str, Any], triggers: list[dict[str, Any]], notes: Notes) -> None:
    grace, coalesce = given.get("misfire_grace_time", DEFAULT_GRACE_S), given.get("coalesce", True)
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int) or grace < 1):
        raise Unmapped(f"its misfire_grace_time is {str(grace)[:40]!r}, neither null nor a number from 1 on")
    if not isinstance(coalesce, bool):
        raise Unmapped(f"its coalesce is {str(coalesce)[:40]!r}, neither true nor false")
    once = all("at" in one for one in triggers)
    if grace == DEFAULT_GRACE_S:
        notes.say(
            "its misfire_grace_time is 1 s, what APScheduler takes where nobody says another: it is left out, and"
            " what could not start in time runs once, later"
        )
    elif grace is not None and once:
        job["expires"] = format_duration(grace * 1000)
    elif grace is not None:
        job["misfire"] = {"policy": "skip", "grace": format_duration(grace * 1000)}
        if coalesce:
            notes.say("times that are late by no more than its grace run one by one here, and once for all there")
    elif not once:
        job["misfire"] = {"policy": "once" if coalesce else "all"}


def _compare(value: Any, triggers: list[dict[str, Any]], how: How, notes: Notes) -> None:
    """Notes where the job is due at another time next than in the scheduler that it comes from."""
    try:
        theirs = round(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except (ValueError, OverflowError):
        notes.say(f"its next_run_time {str(value)[:40]!r} is no time; it is left out")
        return
    if theirs <= how.now_ms or any("jitter" in one or "at" in one for one in triggers):
        return
    try:
        ours_too = [as_trigger(one) for one in triggers]
        found = [next_nominal(one, how.now_ms, anchor_ms=one.starts_at_ms or how.now_ms) for one in ours_too]
    except TriggerError:
        return  # the job is refused for it
    ours = min((at for at in found if at is not None), default=None)
    if ours is None or abs(ours - theirs) > 1000:
        here = "never" if ours is None else f"at {instant(ours)}"
        notes.say(f"its next run is at {instant(theirs)} there, and {here} here, by its trigger")
