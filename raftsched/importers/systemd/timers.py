"""Makes jobs of timers of systemd."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from raftsched.bounds import DESCRIPTION_MAX, TRIGGERS_MAX
from raftsched.importers.foreign import Entry, Names, Notes, Reading, Unmapped, every, job_name
from raftsched.importers.systemd.calendar import read_calendar
from raftsched.importers.systemd.commands import Specifiers
from raftsched.importers.systemd.left_out import leave_rest
from raftsched.importers.systemd.services import service_fields
from raftsched.importers.systemd.spans import span_ms
from raftsched.importers.systemd.units import Unit, read_files
from raftsched.importers.wall_fields import wall_trigger
from raftsched.quantities import format_duration, parse_duration
from raftsched.schedule.gaps import least_gap_of

if TYPE_CHECKING:
    from raftsched.importers.how import How

JITTER_MAX_MS = 86_400_000
GRACE = "1m"  # of what is skipped when it is missed: long enough for a change of leader
_AT_START = ("OnActiveSec", "OnBootSec", "OnStartupSec")
_KNOWN = frozenset({
    *_AT_START, "OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", "RandomizedDelaySec", "RandomizedOffsetSec",
    "FixedRandomDelay", "AccuracySec", "Unit",
})  # fmt: skip
_TRUE = ("1", "yes", "true", "on", "y", "t")
_USERS = re.compile(r"(/home/[^/]+|/root)/\.(?:config|local/share)/systemd/user/.*")


def read_units(files: list[tuple[str, bytes]], how: How) -> Reading:
    """Jobs of the timers among unit files. Raises a usage error for what is no text."""
    units, problems = read_files(files)
    reading = Reading(notes=problems)
    names = Names()
    used: set[str] = set()
    timers = [unit for unit in units.values() if unit.name.endswith(".timer")]
    for timer in timers:
        notes = Notes()
        try:
            entry = _job(timer, units, used, how, names, notes)
        except Unmapped as error:
            reading.refused.append((timer.name, timer.path, str(error)))
            continue
        reading.add(entry, notes)
    for unit in units.values():
        if unit.name.endswith(".service") and unit.name not in used and unit.found:
            reading.notes.append((unit.name, "no timer among these files starts it; it is left out"))
    if not timers and not problems:
        reading.notes.append((files[0][0] if files else "", "there is no timer among these files"))
    return reading


def _job(timer: Unit, units: dict[str, Unit], used: set[str], how: How, names: Names, notes: Notes) -> Entry:
    if not timer.found:
        raise Unmapped("only drop-ins of it were given; give the timer itself too")
    stem = timer.name.removesuffix(".timer")
    if stem.endswith("@"):
        raise Unmapped("it is a template; give its instances, such as backup@home.timer, by systemctl cat")
    service_name = Specifiers(timer.name, None, set()).resolve(timer.last("Timer", "Unit")) or f"{stem}.service"
    prefix, at, rest = service_name.partition("@")
    used |= {service_name, *([f"{prefix}@.service"] if at and rest != ".service" else [])}
    service = _service(service_name, prefix, bool(at), units)
    triggers = _triggers(timer, how, notes)
    fields = service_fields(service, service_name, _home(service.path), notes)
    job: dict[str, Any] = {**fields, "overlap": "forbid", "labels": {"source": f"systemd:{timer.name[:240]}"}}
    _common(timer, triggers, job, notes)
    if all("at" in trigger for trigger in triggers):
        job.pop("misfire", None)
    name = names.take(job_name(stem.replace("\\x2d", "-"), how.prefix, notes), timer.name)
    if len(triggers) == 1:
        return Entry(timer.name, timer.name, name, None, {"trigger": triggers[0], **job})
    several = [{"id": f"t{number}", **trigger} for number, trigger in enumerate(triggers, 1)]
    return Entry(timer.name, timer.name, name, None, {"triggers": several, **job})


def _service(name: str, prefix: str, instance: bool, units: dict[str, Unit]) -> Unit:
    if not name.endswith(".service"):
        raise Unmapped(f"it starts {name}, which is no service")
    for wanted in (name, *([f"{prefix}@.service"] if instance else [])):
        unit = units.get(wanted)
        if unit is not None and unit.found:
            return unit
    raise Unmapped(f"its service {name} is not among the files; give it too")


def _home(path: str) -> str | None:
    """The home of the user whose systemd manages the unit; None: of a user that the path does not tell."""
    match = _USERS.fullmatch(path)
    if match:
        return match[1]
    return None if "/user/" in str(PurePath(path).parent) + "/" else "/root"


def _triggers(timer: Unit, how: How, notes: Notes) -> list[dict[str, Any]]:
    calendars = timer.all("Timer", "OnCalendar")
    active, inactive = timer.all("Timer", "OnUnitActiveSec"), timer.all("Timer", "OnUnitInactiveSec")
    at_start = [name for name in _AT_START if timer.all("Timer", name)]
    if calendars and active:
        raise Unmapped("it has OnCalendar= and a time after the last start, whichever comes first; keep one of them")
    if at_start and not calendars and not active and not inactive:
        raise Unmapped(
            f"it runs once after a start ({at_start[0]}), and a cluster does not start as a machine does: give it a"
            " time, or leave it with systemd"
        )
    if len(active) + len(inactive) > 1:
        raise Unmapped("it has several times after the last run, whichever comes first; keep one of them")
    if not calendars and not active and not inactive:
        raise Unmapped("it has no time at which it is due (OnCalendar=, OnUnitActiveSec=, ...)")
    for name in at_start:
        value = timer.last("Timer", name)
        first = "" if calendars else "; the first run is one period after the job is created"
        notes.say(f"{name}={value} is left out: a cluster does not start as a machine does{first}")
    if len(calendars) + len(inactive) > TRIGGERS_MAX:
        raise Unmapped(
            f"it has {len(calendars)} OnCalendar=; {TRIGGERS_MAX} triggers is the limit: write them as lists"
        )
    found = [_calendar(text, how, notes) for text in calendars]
    if not active and not inactive:
        return found
    name, text = ("OnUnitActiveSec", active[0]) if active else ("OnUnitInactiveSec", inactive[0])
    period = span_ms(text, name)
    if not period:
        raise Unmapped(f"its {name}={text} is no period")
    return [*found, {"every": every(period, notes), "mode": "fixed_rate" if active else "fixed_delay"}]


def _calendar(text: str, how: How, notes: Notes) -> dict[str, Any]:
    fields, zone = read_calendar(text)
    try:
        return wall_trigger(fields, zone or how.timezone, how.now_ms, notes)
    except Unmapped as error:
        raise Unmapped(f"OnCalendar={text[:80]}: {error}") from None


def _gap_ms(trigger: dict[str, Any]) -> int | None:
    """The least time between two runs; None: there are no two, or the next one waits for the end of a run."""
    if trigger.get("mode") == "fixed_rate":
        return parse_duration(trigger["every"])
    return least_gap_of(trigger)


def _common(timer: Unit, triggers: list[dict[str, Any]], job: dict[str, Any], notes: Notes) -> None:
    """Fields that all jobs of a timer share: jitter and misfire."""
    delay = _jitter_ms(timer, notes)
    if delay:
        gap = min((gap for trigger in triggers if (gap := _gap_ms(trigger)) is not None), default=None)
        if gap is not None and delay >= gap:
            notes.say(
                f"a delay of up to {format_duration(delay)} may be longer than the time to the next run,"
                f" {format_duration(gap)}; here each delay ends before that"
            )
        for trigger in triggers:
            trigger["jitter"] = format_duration(delay)
    known = _KNOWN
    if timer.all("Timer", "OnCalendar"):
        known |= {"Persistent"}
        persistent = timer.last("Timer", "Persistent").lower() in _TRUE
        job["misfire"] = {"policy": "once"} if persistent else {"policy": "skip", "grace": GRACE}
    if timer.all("Timer", "AccuracySec"):
        notes.say(f"AccuracySec={timer.last('Timer', 'AccuracySec')} is left out: a run starts within its second")
    leave_rest(timer, "Timer", known, notes)
    description = timer.last("Unit", "Description")
    if description and "%" not in description:
        job.setdefault("description", description[:DESCRIPTION_MAX])


def _jitter_ms(timer: Unit, notes: Notes) -> int:
    """The delay that runs have at most: of a jitter each run has another part."""
    total = 0
    for name in ("RandomizedDelaySec", "RandomizedOffsetSec"):
        text = timer.last("Timer", name)
        length = span_ms(text, name) if text else 0
        if length is None or length > JITTER_MAX_MS:
            notes.say(f"{name}={text} is more than a day, the longest jitter; it is a day here")
            length = JITTER_MAX_MS
        if length and name == "RandomizedOffsetSec":
            notes.say(
                f"{name}={text} became the jitter: each run is delayed by another part of it, not all by the same"
            )
        total += length
    fixed = timer.last("Timer", "FixedRandomDelay")
    if fixed:
        notes.say(f"FixedRandomDelay={fixed} is left out: each run is delayed by another part of the jitter")
    return min(total, JITTER_MAX_MS)
