"""Reads jobs of XXL-JOB: the JSON of its admin (`/jobinfo/pageList`), or its table xxl_job_info as JSON or CSV."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from raftsched.bounds import DESCRIPTION_MAX, OWNER_MAX
from raftsched.importers.foreign import (
    Entry,
    Names,
    Notes,
    Reading,
    Unmapped,
    every,
    job_name,
    quartz_trigger,
    whole,
)
from raftsched.importers.records import read_records

if TYPE_CHECKING:
    from raftsched.importers.how import How

GRACE = "1m"  # of what is skipped when it is missed: XXL-JOB has 5s, in which no cluster changes its leader for certain
RETRY_DELAY = "1s"  # XXL-JOB retries at once; the least that leaves others a turn
RETRIES_MAX = 100
_STATE = frozenset(
    [
        "id",
        "addTime",
        "updateTime",
        "glueUpdatetime",
        "glueRemark",
        "triggerLastTime",
        "triggerNextTime",
        "jobGroupName",
    ]
)
_KNOWN = _STATE | {
    "jobGroup", "jobDesc", "name", "author", "alarmEmail", "scheduleType", "scheduleConf", "jobCron", "misfireStrategy",
    "executorRouteStrategy", "executorHandler", "executorParam", "executorBlockStrategy", "executorTimeout",
    "executorFailRetryCount", "glueType", "glueSource", "childJobId", "triggerStatus", "jobStatus",
}  # fmt: skip
_OVERLAP = {"SERIAL_EXECUTION": "queue_all", "DISCARD_LATER": "forbid", "COVER_EARLY": "replace"}
_ROUTES_TO_ANY = frozenset(
    ["", "ROUND", "RANDOM", "LEAST_FREQUENTLY_USED", "LEAST_RECENTLY_USED", "FAILOVER", "BUSYOVER"]
)
_SCRIPTS = {"GLUE_SHELL": ["bash", "-c"], "GLUE_PYTHON": ["python3", "-c"]}
_OTHER_SCRIPTS = ("GLUE_GROOVY", "GLUE_PHP", "GLUE_NODEJS", "GLUE_POWERSHELL", "GLUE_PYTHON2")


def read_xxl_job(data: bytes, source: str, how: How) -> Reading:
    """Raises a usage error for what is neither JSON nor CSV."""
    reading = Reading()
    names = Names()
    rows = [
        (document.place, {_camel(key): value for key, value in document.value.items()})
        for document in read_records(data, source, reading)
    ]
    there = {_text(given, "id") for _, given in rows}
    parents = _parents([given for _, given in rows], how.prefix)
    for at, given in rows:
        number = _text(given, "id")
        place = f"job {number}" if number else at
        text = str(given.get("jobDesc") or given.get("name") or given.get("executorHandler") or "")
        notes = Notes()
        try:
            name = names.take(job_name(_name(given, number), how.prefix, notes), place)
            job = _job(given, number, there, parents, how, notes)
        except Unmapped as error:
            reading.refused.append((place, text, str(error)))
            continue
        reading.add(Entry(place, text, name, None, job), notes)
    return reading


def _camel(name: str) -> str:
    """Columns of the table are called job_desc where the API says jobDesc."""
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), name.lower()) if "_" in name else name


def _name(given: Mapping[str, Any], number: str) -> str:
    """Descriptions are free text, so names are made of the handler and the number, which stay."""
    if not number:
        raise Unmapped("it has no id")
    handler = str(given.get("executorHandler") or "").strip()
    return f"{re.sub(r'[^a-z0-9._]+', '-', handler.lower()).strip('-.') or 'xxl-job'}-{number}"


def _parents(rows: list[dict[str, Any]], prefix: str) -> dict[str, list[str]]:
    """Returns, by the number of a job, the names of those that start it when they have succeeded."""
    found: dict[str, list[str]] = {}
    for given in rows:
        number = _text(given, "id")
        children = [child.strip() for child in _text(given, "childJobId").split(",") if child.strip()]
        if number and children:
            name = job_name(_name(given, number), prefix, Notes())
            for child in dict.fromkeys(one for one in children if one != number):  # none starts itself
                found.setdefault(child, []).append(name)
    return found


def _job(
    given: Mapping[str, Any],
    number: str,
    there: Collection[str],
    parents: Mapping[str, list[str]],
    how: How,
    notes: Notes,
) -> dict[str, Any]:
    handler, more = _handler(given, how, notes)
    trigger = _trigger(given, how, notes)
    before = parents.get(number, [])
    if before and "manual" in trigger:
        trigger = {"after": {"job": before[0]} if len(before) == 1 else {"any_of": before}}
    elif before:
        notes.ask(
            f"it was also started by the success of {', '.join(before)[:200]}; a job with after has no other times"
        )
    job: dict[str, Any] = {"trigger": trigger, "handler": handler, **more}
    block = _text(given, "executorBlockStrategy") or "SERIAL_EXECUTION"
    if block not in _OVERLAP:
        raise Unmapped(f"its executorBlockStrategy is {block[:40]!r}; {', '.join(_OVERLAP)} are known")
    job["overlap"] = _OVERLAP[block]
    if "manual" not in trigger and "after" not in trigger:
        misfire = _text(given, "misfireStrategy") or "DO_NOTHING"
        if misfire not in ("DO_NOTHING", "FIRE_ONCE_NOW"):
            raise Unmapped(f"its misfireStrategy is {misfire[:40]!r}; DO_NOTHING and FIRE_ONCE_NOW are known")
        job["misfire"] = {"policy": "skip" if misfire == "DO_NOTHING" else "once", "grace": GRACE}
    seconds = whole(given.get("executorTimeout"), "executorTimeout")
    if seconds:
        job["timeout"] = f"{seconds}s"
    retries = whole(given.get("executorFailRetryCount"), "executorFailRetryCount") or 0
    if retries:
        job["retry"] = {"delays": [RETRY_DELAY] * min(retries, RETRIES_MAX), "on": ["failed", "timed_out"]}
    if retries > RETRIES_MAX:
        notes.say(f"it is retried {RETRIES_MAX} times, not {retries}")
    if _text(given, "triggerStatus") in ("0", "false"):
        job["suspended"] = True
    description = _text(given, "jobDesc") or _text(given, "name")
    if description:
        job["description"] = description[:DESCRIPTION_MAX]
    if _text(given, "author"):
        job["owner"] = _text(given, "author")[:OWNER_MAX]
    job["labels"] = {"source": f"xxl-job:{number[:200]}"}
    if _text(given, "jobGroup"):
        job["labels"]["executor"] = _text(given, "jobGroup")[:256]
    route = _text(given, "executorRouteStrategy")
    if route == "SHARDING_BROADCAST":
        job["placement"] = {"on": "all"}
        notes.say("it runs on every node and worker that can; the shard index and total that it asks for are not given")
    elif route not in _ROUTES_TO_ANY:
        notes.say(f"executorRouteStrategy {route[:40]} is left out: any node or worker that can runs it")
    if _text(given, "alarmEmail"):
        notes.ask(
            f"alarmEmail {_text(given, 'alarmEmail')[:100]} is left out: notify tells a webhook (docs/webhooks.md)"
        )
    children = dict.fromkeys(child.strip() for child in _text(given, "childJobId").split(",") if child.strip())
    here = [child for child in children if child != number and child in there]
    if here:
        notes.say(f"the jobs {', '.join(here)[:100]} are started by its success: they say so (after)")
    if len(here) < len(children):
        others = ", ".join(child for child in children if child not in here)
        notes.ask(f"its childJobId names {others[:100]}, no other job of this file: nothing follows by that")
    notes.leave(given, _KNOWN, "")
    return job


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    return "" if value is None else str(value).strip()


def _trigger(given: Mapping[str, Any], how: How, notes: Notes) -> dict[str, Any]:
    conf = _text(given, "scheduleConf") or _text(given, "jobCron")
    kind = _text(given, "scheduleType") or ("CRON" if conf else "NONE")
    if kind == "NONE":
        for key in ("scheduleConf", "jobCron", "misfireStrategy"):
            if _text(given, key) not in ("", "DO_NOTHING"):
                notes.say(f"{key} {_text(given, key)[:60]} is left out: it has no times (scheduleType NONE)")
        return {"manual": True}
    if kind == "CRON":
        return quartz_trigger(conf, how.timezone)
    if kind in ("FIX_RATE", "FIX_DELAY"):
        seconds = whole(conf, "scheduleConf")
        if not seconds:
            raise Unmapped(f"its scheduleConf is {conf[:40]!r}, not a number of seconds")
        mode = "fixed_rate" if kind == "FIX_RATE" else "fixed_delay"
        return {"every": every(seconds * 1000, notes), "mode": mode}
    raise Unmapped(f"its scheduleType is {kind[:40]!r}; NONE, CRON, FIX_RATE and FIX_DELAY are known")


def _handler(given: Mapping[str, Any], how: How, notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The handler, and params where it has some."""
    glue = _text(given, "glueType") or "BEAN"
    param = "" if given.get("executorParam") is None else str(given["executorParam"])
    if glue == "BEAN":
        task = _text(given, "executorHandler")
        if not task:
            raise Unmapped("it has no executorHandler")
        handler, params = how.template.handler(task, [], {"param": param} if param else {}, notes)
        return handler, {"params": params} if params else {}
    if glue in _OTHER_SCRIPTS:
        raise Unmapped(f"its script is of {glue}, which is not run here; {' and '.join(_SCRIPTS)} are")
    if glue not in _SCRIPTS:
        raise Unmapped(f"its glueType is {glue[:40]!r}, which is not known")
    script = str(given.get("glueSource") or "")
    if not script.strip():
        raise Unmapped(f"it has {glue}, and no glueSource; pageList leaves it out for some versions, the table has it")
    name = ["xxl-job"] if glue == "GLUE_SHELL" else []  # sh -c takes a name for $0 first
    notes.say("its script lies in the job, with its param, shard 0 and total 1 as arguments")
    return {"exec": [*_SCRIPTS[glue], script.replace("\r\n", "\n"), *name, param, "0", "1"]}, {}
