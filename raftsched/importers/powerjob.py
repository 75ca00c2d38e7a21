"""Jobs of PowerJob, as its API and console have them (JSON of JobInfo, or of `exportJob`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raftsched.bounds import DESCRIPTION_MAX
from raftsched.importers.foreign import (
    Entry,
    Names,
    Notes,
    Reading,
    Unmapped,
    every,
    instant,
    job_name,
    quartz_trigger,
    text_map,
    whole,
)
from raftsched.importers.records import read_records
from raftsched.importers.wall_fields import WEEK, WallFields, wall_trigger
from raftsched.quantities import format_duration, parse_duration

if TYPE_CHECKING:
    from raftsched.importers.how import How

RETRY_DELAY = "1s"
RETRIES_MAX = 100
_TIMES = {"1": "API", "2": "CRON", "3": "FIXED_RATE", "4": "FIXED_DELAY", "5": "WORKFLOW", "11": "DAILY_TIME_INTERVAL"}
_EXECUTES = {"1": "STANDALONE", "2": "BROADCAST", "3": "MAP_REDUCE", "4": "MAP"}
_PROCESSORS = {"1": "BUILT_IN", "2": "SHELL", "3": "PYTHON", "4": "EXTERNAL"}
_KNOWN = frozenset({
    "id", "jobName", "jobDescription", "appId", "jobParams", "timeExpressionType", "timeExpression", "executeType",
    "processorType", "processorInfo", "maxInstanceNum", "concurrency", "instanceTimeLimit", "instanceRetryNum",
    "taskRetryNum", "status", "enable", "nextTriggerTime", "gmtCreate", "gmtModified", "lifecycle", "lifeCycle", "tag",
    "notifyUserIds", "maxWorkerCount", "dispatchStrategy", "designatedWorkers",
})  # fmt: skip
_UNSET = frozenset({  # what it always writes, and what means nothing as long as it is empty or 0
    "minCpuCores", "minMemorySpace", "minDiskSpace", "extra", "dispatchStrategyConfig", "alarmConfig", "logConfig",
    "advancedRuntimeConfig",
})  # fmt: skip
_DEFAULTS = {"dispatchStrategy": ("1", "HEALTH_FIRST"), "concurrency": ("5",)}
_SCRIPTS = {"ShellProcessor": ["/bin/sh", "-c"], "PythonProcessor": ["python3", "-c"]}
_OFFICIAL = "tech.powerjob.official.processors.impl."
_OF_DAY = ("interval", "intervalUnit", "startTimeOfDay", "endTimeOfDay", "daysOfWeek")
_UNITS_S = {"SECONDS": 1, "MINUTES": 60, "HOURS": 3600}
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})", re.ASCII)
_DOWNLOAD = ("http:", "https:", "ftp:")


def read_powerjob(data: bytes, source: str, how: How) -> Reading:
    """Raises a usage error for what is no JSON."""
    reading = Reading()
    names = Names()
    for document in read_records(data, source, reading):
        given = document.value
        text = str(given.get("jobName") or "")
        place = f"job {given['id']}" if given.get("id") else document.place
        notes = Notes()
        try:
            if _text(given, "status") == "99":
                continue  # deleted
            name = names.take(job_name(_named(given), how.prefix, notes), place)
            job = _job(given, how, notes)
        except Unmapped as error:
            reading.refused.append((place, text, str(error)))
            continue
        reading.add(Entry(place, text, name, None, job), notes)
    return reading


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    return "" if value is None else str(value).strip()


def _named(given: Mapping[str, Any]) -> str:
    """The name, or with the number where a name here could not tell it from others."""
    text, number = _text(given, "jobName"), _text(given, "id")
    slug = re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.")
    if slug == text.lower() or not number:
        return text
    return f"{slug or 'powerjob'}-{number}"


def _known(given: Mapping[str, Any], key: str, numbers: Mapping[str, str], default: str) -> str:
    text = _text(given, key).upper() or default
    found = numbers.get(text, text)
    if found not in numbers.values():
        raise Unmapped(f"its {key} is {text[:40]!r}; {', '.join(numbers.values())} are known")
    return found


def _job(given: Mapping[str, Any], how: How, notes: Notes) -> dict[str, Any]:
    trigger = _trigger(given, how, notes)
    handler, more = _handler(given, how, notes)
    job: dict[str, Any] = {"trigger": trigger, "handler": handler, **more}
    execute = _known(given, "executeType", _EXECUTES, "STANDALONE")
    if execute in ("MAP", "MAP_REDUCE"):
        raise Unmapped(
            f"its executeType is {execute}: it splits itself into tasks while it runs. Here the number of parts stands"
            " in the job (placement.shards); write it so"
        )
    if execute == "BROADCAST":
        job["placement"] = {"on": "all"}
    most = whole(given.get("maxInstanceNum"), "maxInstanceNum")
    if most == 1:
        job["overlap"] = "forbid"
    else:
        job["overlap"] = "allow"
        if most:
            job["max_concurrency"] = min(most, 10_000)
    limit = whole(given.get("instanceTimeLimit"), "instanceTimeLimit")
    if limit:
        own = parse_duration(job["timeout"]) if "timeout" in job else limit
        job["timeout"] = format_duration(min(limit, own))
        notes.say("instanceTimeLimit became the timeout of each attempt, not of all together")
    retries = (whole(given.get("instanceRetryNum"), "instanceRetryNum") or 0) + 1
    retries *= (whole(given.get("taskRetryNum"), "taskRetryNum") or 0) + 1
    if retries > 1:
        job["retry"] = {"delays": [RETRY_DELAY] * min(retries - 1, RETRIES_MAX), "on": ["failed", "timed_out"]}
        notes.say("instanceRetryNum and taskRetryNum became one number of retries")
    if retries - 1 > RETRIES_MAX:
        notes.say(f"it is retried {RETRIES_MAX} times, not {retries - 1}")
    if _text(given, "status") == "2" or given.get("enable") is False or _text(given, "enable") == "false":
        job["suspended"] = True
    if _text(given, "jobDescription"):
        job["description"] = _text(given, "jobDescription")[:DESCRIPTION_MAX]
    job["labels"] = {"source": f"powerjob:{_text(given, 'id')[:200]}"}
    for key, label in (("appId", "app"), ("tag", "tag")):
        if _text(given, key):
            job["labels"][label] = _text(given, key)[:256]
    _leave(given, execute, notes)
    return job


def _leave(given: Mapping[str, Any], execute: str, notes: Notes) -> None:
    if _text(given, "notifyUserIds") not in ("", "[]"):
        notes.ask("notifyUserIds are left out: notify tells a webhook of how runs end (docs/webhooks.md)")
    for key in ("concurrency", "dispatchStrategy"):
        if key in _DEFAULTS and _text(given, key).upper() not in ("", *_DEFAULTS[key]):
            why = "threads of one worker" if key == "concurrency" else "the node with most room runs it"
            notes.say(f"{key} {_text(given, key)[:40]} is left out ({why})")
    workers = _text(given, "designatedWorkers")
    if workers:
        notes.ask(f"designatedWorkers {workers[:100]} are left out: give labels to nodes and name them in placement")
    if execute == "BROADCAST" and _text(given, "maxWorkerCount") not in ("", "0"):
        notes.say("maxWorkerCount is left out: it runs on every node and worker that can")
    unset = {key for key in _UNSET if _text(given, key) in ("", "0", "0.0", "{}", "[]", "null")}
    notes.leave(given, _KNOWN | unset, "")


def _trigger(given: Mapping[str, Any], how: How, notes: Notes) -> dict[str, Any]:
    kind = _known(given, "timeExpressionType", _TIMES, "API")
    text = _text(given, "timeExpression")
    if kind == "API":
        for key in ("timeExpression", "lifecycle", "lifeCycle"):
            if _text(given, key) not in ("", "{}"):
                notes.say(
                    f"{key} {_text(given, key)[:200]} is left out: it is run when its API is asked to, at no times"
                )
        return {"manual": True}
    if kind == "WORKFLOW":
        raise Unmapped("it is a step of a workflow, which starts it; give it a time, or the condition job_succeeded")
    starts, ends = _lifecycle(given, notes)
    if ends is not None and ends <= how.now_ms:
        raise Unmapped(f"its lifecycle ended at {instant(ends)}")
    if kind == "CRON":
        trigger = quartz_trigger(text, how.timezone)
    elif kind == "DAILY_TIME_INTERVAL":
        trigger = _daily(text, how, notes)
    else:
        period = whole(text, "timeExpression")
        if not period:
            raise Unmapped(f"its timeExpression is {text[:40]!r}, not a number of milliseconds")
        mode = "fixed_rate" if kind == "FIXED_RATE" else "fixed_delay"
        trigger = {"every": every(period, notes), "mode": mode}
    if starts is not None and (starts > how.now_ms or "every" in trigger):
        trigger["starts_at"] = instant(starts)
    if ends is not None:
        trigger["ends_at"] = instant(ends)
    return trigger


def _lifecycle(given: Mapping[str, Any], notes: Notes) -> tuple[int | None, int | None]:
    """Start and end in UTC milliseconds. The console has it as an object, its table as a text with JSON."""
    found = given.get("lifeCycle") or given.get("lifecycle")
    if isinstance(found, str):
        found = _object(found, "lifecycle")
    if not found:
        return None, None
    if not isinstance(found, dict):
        raise Unmapped("its lifecycle is no object with start and end")
    notes.leave(found, ("start", "end"), "lifecycle.")
    starts, ends = (whole(found.get(name), f"lifecycle.{name}") for name in ("start", "end"))
    if starts is not None and ends is not None and ends < starts:
        raise Unmapped("its lifecycle ends before it starts")
    return starts, ends


def _object(text: str, at: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unmapped(f"its {at} {text[:60]!r} is no JSON object")
    return found


def _daily(text: str, how: How, notes: Notes) -> dict[str, Any]:
    """An interval between two times of each day. Times count from the first of the day here, from the run before
    there, which is the same where the interval divides the day so."""
    given = _object(text, "timeExpression")
    notes.leave(given, _OF_DAY, "timeExpression.")
    unit = str(given.get("intervalUnit") or "SECONDS").upper()
    if unit not in _UNITS_S:
        raise Unmapped(f"its intervalUnit is {unit[:40]!r}; {', '.join(_UNITS_S)} are known")
    interval = (whole(given.get("interval"), "interval") or 0) * _UNITS_S[unit]
    first, last = (_clock(given.get(name), name) for name in ("startTimeOfDay", "endTimeOfDay"))
    if interval < 1 or last < first:
        raise Unmapped("its interval is less than a second, or its day ends before it begins")
    if (last - first) // interval >= 1_440:
        raise Unmapped("it has more than 1,440 times a day; use every, and a calendar for the days")
    days = given.get("daysOfWeek") or []
    if not isinstance(days, list) or not all(str(day) in "1234567" and str(day) for day in days):
        raise Unmapped("its daysOfWeek are not numbers from 1 (Monday) to 7")
    week = frozenset(int(day) - 1 for day in days) or WEEK
    times = list(range(first, last + 1, interval))
    fields = WallFields(
        seconds={at % 60 for at in times},
        minutes={at // 60 % 60 for at in times},
        hours={at // 3600 for at in times},
        weekdays=week,
    )
    if len(fields.seconds) * len(fields.minutes) * len(fields.hours) != len(times):
        raise Unmapped(
            f"every {interval}s from {given['startTimeOfDay']} to {given['endTimeOfDay']} is no product of"
            " hours, minutes and seconds, as cron has it; write it as several jobs"
        )
    notes.say("its times count from the first of each day; in PowerJob from the run before")
    return wall_trigger(fields, how.timezone, how.now_ms, notes)


def _clock(value: Any, at: str) -> int:
    found = _CLOCK.fullmatch(str(value or ""))
    if found is None or int(found[1]) > 23 or int(found[2]) > 59 or int(found[3]) > 59:
        raise Unmapped(f"its {at} is {str(value)[:40]!r}, no time such as 18:30:00")
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])


def _handler(given: Mapping[str, Any], how: How, notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The handler, and fields of the job that come of it."""
    kind = _known(given, "processorType", _PROCESSORS, "BUILT_IN")
    info = str(given.get("processorInfo") or "")
    params = str(given.get("jobParams") or "")
    if kind in ("SHELL", "PYTHON"):
        return _script("ShellProcessor" if kind == "SHELL" else "PythonProcessor", info)
    task = info.strip()
    if not task:
        raise Unmapped("it has no processorInfo, so there is nothing to run")
    if task.startswith(_OFFICIAL):
        short = task.rpartition(".")[2]
        if short in _SCRIPTS:
            return _script(short, params)
        if short == "HttpProcessor":
            return _http(_object(params, "jobParams"), notes)
    handler, given_params = how.template.handler(
        task.replace("#", "."), [], {"jobParams": params} if params else {}, notes
    )
    return handler, {"params": given_params} if given_params else {}


def _script(processor: str, script: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if not script.strip():
        raise Unmapped("its script is empty")
    if script.lstrip().startswith(_DOWNLOAD):
        raise Unmapped(
            f"it downloads its script from {script.strip()[:100]}, which nothing here does; write the script"
        )
    return {"exec": [*_SCRIPTS[processor], script.replace("\r\n", "\n")]}, {}


def _http(given: Mapping[str, Any], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    url = _text(given, "url")
    if not url:
        raise Unmapped("it has no url")
    method = _text(given, "method").upper() or "GET"
    http: dict[str, Any] = {"url": url if url.startswith("http") else f"http://{url}", "method": method}
    headers = text_map(given.get("headers"), "headers")
    if method != "GET":
        http["body"] = _text(given, "body") or "{}"
        headers.setdefault("Content-Type", _text(given, "mediaType") or "application/json")
    if headers:
        http["headers"] = headers
    http["expected_status"] = [200]
    seconds = whole(given.get("timeout"), "timeout")
    notes.leave(given, ("url", "method", "headers", "body", "mediaType", "timeout"), "jobParams.")
    return {"http": http}, {"timeout": f"{60 if seconds is None else seconds}s"}
