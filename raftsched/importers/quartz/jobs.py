"""A job and a trigger of Quartz, wherever they were read -> a job here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from raftsched.bounds import DESCRIPTION_MAX, EVERY_MIN_MS
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
)
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.local_days import local_ms
from raftsched.schedule.zones import fixed_offset, is_zone, zone_info

if TYPE_CHECKING:
    from raftsched.importers.how import How

DEFAULT_GROUP = "DEFAULT"
PRIORITY = 5  # of a trigger that says none, there and here
GRACE = "1m"  # Quartz' misfireThreshold, unless it is set
_SMART, _IGNORE = "SMART_POLICY", "IGNORE_MISFIRE_POLICY"
_MISFIRES = {  # kind -> number in the tables -> name
    "cron": {0: _SMART, -1: _IGNORE, 1: "FIRE_ONCE_NOW", 2: "DO_NOTHING"},
    "calendar": {0: _SMART, -1: _IGNORE, 1: "FIRE_ONCE_NOW", 2: "DO_NOTHING"},
    "simple": {
        0: _SMART, -1: _IGNORE, 1: "FIRE_NOW", 2: "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT",
        3: "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT", 4: "RESCHEDULE_NEXT_WITH_REMAINING_COUNT",
        5: "RESCHEDULE_NEXT_WITH_EXISTING_COUNT",
    },
}  # fmt: skip
_SKIP = ("DO_NOTHING", "RESCHEDULE_NEXT_WITH_REMAINING_COUNT", "RESCHEDULE_NEXT_WITH_EXISTING_COUNT")
_UNITS_MS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000}
_FREQUENCIES = {"DAY": "DAILY", "WEEK": "WEEKLY", "MONTH": "MONTHLY", "YEAR": "YEARLY"}
_OF_JAVA = {  # java.time.ZoneId.SHORT_IDS, those that are no names of IANA
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


@dataclass
class Job:
    name: str
    group: str
    job_class: str
    description: str = ""
    durable: bool = False
    recover: bool = False
    nonconcurrent: bool | None = None  # None: the file does not say
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Trigger:
    """`kind`: cron, simple or calendar (an interval of calendar units)."""

    kind: str
    place: str
    name: str = ""
    group: str = ""
    description: str = ""
    priority: str = ""
    calendar: str = ""
    misfire: str = ""  # a name, with or without MISFIRE_INSTRUCTION_, or a number
    starts_ms: int | None = None
    ends_ms: int | None = None
    expression: str = ""
    zone: str = ""
    repeat_count: int = 0  # -1: for ever
    interval: int = 0  # milliseconds of simple, units of calendar
    unit: str = ""
    fired: int = 0  # times that are past, of a simple one
    paused: bool = False
    data: dict[str, Any] = field(default_factory=dict)


class Jobs:
    """Takes jobs and triggers, and adds the jobs that they become to a reading."""

    def __init__(self, source: str, how: How) -> None:
        self.reading = Reading()
        self._source = source
        self._how = how
        self._names = Names()

    def add(self, job: Job, trigger: Trigger | None, *, several: bool, place: str) -> None:
        """`several`: the job has other triggers, too, so that each is a job here, called by both names."""
        notes = Notes()
        text = job.name if trigger is None or not several else f"{job.name} {trigger.name}"
        try:
            name = job_name(_name(job, trigger if several else None), self._how.prefix, notes)
            self._names.take(name, place + text)
            body = self._body(job, trigger, notes)
        except Unmapped as error:
            self.reading.refused.append((place, text, str(error)))
            return
        self.reading.add(Entry(place, text, name, None, body), notes)

    def _body(self, job: Job, trigger: Trigger | None, notes: Notes) -> dict[str, Any]:
        if not job.job_class:
            raise Unmapped("it has no job class, so there is nothing to run")
        data = {**job.data, **(trigger.data if trigger else {})}
        handler, params = self._how.template.handler(job.job_class, [], data, notes)
        body: dict[str, Any] = {"trigger": {"manual": True}, "handler": handler}
        if params:
            body["params"] = params
        body["labels"] = {"source": f"quartz:{self._source[-200:]}"}
        if job.group and job.group != DEFAULT_GROUP:
            body["labels"]["group"] = job.group[:256]
        description = job.description or (trigger.description if trigger else "")
        if description:
            body["description"] = description[:DESCRIPTION_MAX]
        if trigger is not None and trigger.description not in ("", description):
            notes.say(f"its trigger's description is left out: {trigger.description[:200]}")
        if job.nonconcurrent is None:
            body["overlap"] = "allow"
            notes.ask("runs may overlap; if its class has @DisallowConcurrentExecution, set overlap to queue_one")
        else:
            body["overlap"] = "queue_one" if job.nonconcurrent else "allow"
        if trigger is None:
            notes.say("it has no trigger; it runs when it is asked to (jobs run)")
            return body
        if trigger.starts_ms is not None and trigger.ends_ms is not None and trigger.ends_ms < trigger.starts_ms:
            raise Unmapped("its trigger ends before it starts")
        if trigger.ends_ms is not None and trigger.ends_ms <= self._how.now_ms:
            raise Unmapped(f"its trigger ended at {instant(trigger.ends_ms)}")
        body["trigger"] = self._trigger(trigger, notes)
        priority = _number(trigger.priority or str(PRIORITY), "priority")
        if priority != PRIORITY:
            body["priority"] = min(max(priority, 0), 9)
            if not 0 <= priority <= 9:
                notes.say(f"its priority {priority} is {body['priority']} here; 0 to 9 are possible")
        misfire = _misfire(trigger)
        if "at" not in body["trigger"]:
            body["misfire"] = misfire
        else:
            left = {"misfire instruction": trigger.misfire, "end": trigger.ends_ms}
            for name in (name for name, value in left.items() if value not in ("", "0", None)):
                notes.say(f"its trigger's {name} is left out: what is due once runs then, however late")
        if trigger.calendar:
            notes.lack(
                f"its calendar {trigger.calendar!r} is not here: make one (calendars set) and name it in the trigger"
            )
        if trigger.paused:
            body["suspended"] = True
        return body

    def _trigger(self, trigger: Trigger, notes: Notes) -> dict[str, Any]:
        zone = _zone(trigger.zone, notes) if trigger.zone else self._how.timezone
        if trigger.kind == "cron":
            found = quartz_trigger(trigger.expression, zone)
            return found | self._span(trigger, notes, phase=False)
        if trigger.kind == "simple":
            return self._simple(trigger, notes)
        unit = trigger.unit.upper() or "DAY"
        if trigger.interval < 1:
            raise Unmapped(f"its interval is {trigger.interval}; it has to be 1 or more")
        if unit in _UNITS_MS:
            found = {"every": every(trigger.interval * _UNITS_MS[unit], notes)}
            return found | self._span(trigger, notes, phase=True)
        if unit not in _FREQUENCIES:
            raise Unmapped(f"its unit of time {trigger.unit[:40]!r} is not known")
        if trigger.starts_ms is None:
            raise Unmapped(f"it says no start, from which its {unit.lower()}s count; give it a start time")
        try:
            start = datetime.fromtimestamp(trigger.starts_ms / 1000, zone_info(zone))
        except TriggerError as error:
            raise Unmapped(error.detail) from None
        if unit in ("MONTH", "YEAR") and start.day > 28:
            raise Unmapped(f"it starts on day {start.day}, and shorter months count otherwise here; write it as cron")
        rule = f"FREQ={_FREQUENCIES[unit]};INTERVAL={trigger.interval}"
        return {"rrule": rule, "timezone": zone} | self._span(trigger, notes, phase=True)

    def _simple(self, trigger: Trigger, notes: Notes) -> dict[str, Any]:
        left = trigger.repeat_count + 1 - trigger.fired
        if trigger.repeat_count >= 0 and left < 1:
            raise Unmapped("it has run as often as it should")
        if trigger.repeat_count == 0:
            if trigger.starts_ms is None:
                raise Unmapped("it runs once when Quartz starts, which has no counterpart; give it a time")
            if trigger.starts_ms <= self._how.now_ms:
                raise Unmapped(
                    f"it was due once, at {instant(trigger.starts_ms)}, which is past: here it would run at once"
                )
            return {"at": instant(trigger.starts_ms)}
        if trigger.interval < 1:
            raise Unmapped("it repeats without an interval")
        if trigger.interval < EVERY_MIN_MS:
            raise Unmapped(f"it is due every {trigger.interval} ms; every second is the shortest here")
        found: dict[str, Any] = {"every": every(trigger.interval, notes)}
        if trigger.repeat_count > 0:
            past = trigger.starts_ms is not None and trigger.starts_ms <= self._how.now_ms and not trigger.fired
            if past:
                notes.say("times before the import count as not run: max_runs is the whole number of its times")
            found["max_runs"] = left
        return found | self._span(trigger, notes, phase=True)

    def _span(self, trigger: Trigger, notes: Notes, *, phase: bool) -> dict[str, Any]:
        """starts_at and ends_at. `phase`: times count from the start, so that it matters when it is past, too."""
        found = {}
        if trigger.starts_ms is not None and (phase or trigger.starts_ms > self._how.now_ms):
            found["starts_at"] = instant(trigger.starts_ms)
        elif phase:
            notes.say("its times count from the import, for it says no start")
        if trigger.ends_ms is not None:
            found["ends_at"] = instant(trigger.ends_ms)
        return found


def _zone(name: str, notes: Notes) -> str:
    """The IANA name of a zone that Java knows: also by an offset, as GMT+2, and by letters."""
    fixed = fixed_offset(name) if name.startswith("GMT") else None
    found = _OF_JAVA.get(name) if fixed is None else fixed.zone
    if found is None or found == name or is_zone(name):
        return name
    notes.say(f"its time zone {name} is called {found} here")
    return found


def _name(job: Job, trigger: Trigger | None) -> str:
    parts = [job.group if job.group != DEFAULT_GROUP else "", job.name, trigger.name if trigger else ""]
    return "-".join(part for part in parts if part)


def _misfire(trigger: Trigger) -> dict[str, Any]:
    text = trigger.misfire.strip().upper().removeprefix("MISFIRE_INSTRUCTION_")
    known = _MISFIRES[trigger.kind]
    if re.fullmatch(r"-?[0-9]{1,3}", text, re.ASCII):
        text = known.get(int(text), text)
    text = text or _SMART
    if text not in known.values():
        raise Unmapped(f"its misfire instruction {trigger.misfire[:60]!r} is not known")
    if text == _SMART and trigger.kind == "simple" and trigger.repeat_count == -1:
        text = "RESCHEDULE_NEXT_WITH_REMAINING_COUNT"  # what the smart policy is for what repeats for ever
    policy = "all" if text == _IGNORE else "skip" if text in _SKIP else "once"
    return {"policy": policy, "grace": GRACE}


def _number(text: str, at: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,15}", text.strip(), re.ASCII):
        raise Unmapped(f"its {at} is {text[:40]!r}, not a whole number")
    return int(text)


def number(text: str, at: str, default: int = 0) -> int:
    """A whole number, also below 0; `default` where nothing is said. Raises Unmapped."""
    return _number(text, at) if text.strip() else default


def time_ms(text: str, zone: str, at: str) -> int | None:
    """UTC milliseconds of a time, which is of the zone where it says none; None: there is none. Raises Unmapped."""
    text = text.strip()
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
        return local_ms(time, zone) if time.tzinfo is None else round(time.timestamp() * 1000)
    except (ValueError, OverflowError, TriggerError):
        raise Unmapped(f"its {at} {text[:40]!r} is no time such as 2027-01-31T09:00:00Z") from None
