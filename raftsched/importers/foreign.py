"""Holds what importers of other schedulers share: the result of reading a file, and schedules as Go programs write
them.

No field of a job is dropped silently: it is carried over, or named in a note, or the reason of a refusal. A job that
lacks something it needs to run comes in suspended, and a note says what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from raftsched import names
from raftsched.bounds import EVERY_MIN_MS, TIME_MAX_MS
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.expression import parse
from raftsched.schedule.zones import zone_info

_GO_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_GO_UNITS = {"ns": Fraction(1, 10**6), "us": Fraction(1, 1000), "µs": Fraction(1, 1000), "ms": Fraction(1),
             "s": Fraction(1000), "m": Fraction(60_000), "h": Fraction(3_600_000)}  # fmt: skip
_ZONED = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)
_STARRED = re.compile(r"[*?](?:/0*1)?", re.ASCII)  # what that library takes for "any day"
_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


class Unmapped(Exception):
    """This job cannot be imported; the text says why and what would be right."""


@dataclass(frozen=True)
class Entry:
    """A job that can be sent."""

    place: str  # in the file, for messages
    text: str  # what it is called there
    name: str
    namespace: str | None  # None: as the command says
    job: dict[str, Any]  # the body of PUT /v1/namespaces/{ns}/jobs/{name}


@dataclass
class Reading:
    """The result of reading a file."""

    entries: list[Entry] = field(default_factory=list)
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # place, what it is called, reason
    notes: list[tuple[str, str]] = field(default_factory=list)  # place, what is otherwise than it was
    todo: set[tuple[str, str]] = field(default_factory=set)  # those notes that ask for something to be done by hand

    def add(self, entry: Entry, notes: Notes) -> None:
        """Takes a job with what was noted of it; one that lacks something is suspended."""
        if notes.lacking:
            entry.job["suspended"] = True
        self.entries.append(entry)
        self.note(entry.place, notes)

    def note(self, place: str, notes: Notes) -> None:
        self.notes += [(place, said) for said in notes.said]
        self.todo |= {(place, said) for said in notes.todo}


@dataclass
class Notes:
    """About one job."""

    said: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)  # those of `said` that ask for something to be done by hand
    lacking: bool = False  # it cannot run as it should until somebody sees to it

    def say(self, text: str) -> None:
        self.said.append(text)

    def ask(self, text: str) -> None:
        """Notes what somebody has to do; the job can run without it."""
        self.said.append(text)
        self.todo.append(text)

    def lack(self, text: str) -> None:
        self.ask(f"{text}; the job comes in suspended")
        self.lacking = True

    def leave(self, given: Mapping[str, Any], known: Collection[str], at: str) -> None:
        """Names what was given and is not known, whatever its value."""
        for key in given:
            if key not in known:
                self.say(f"{at}{key} has no counterpart here; it is left out")


def job_name(text: str, prefix: str, notes: Notes) -> str:
    """A name that is possible here. Raises Unmapped."""
    if not text.strip():
        raise Unmapped("it has no name")
    name = prefix + text
    if not names.JOB.allows(name):
        name = (prefix + re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-"))[:128]
        if not names.JOB.allows(name) or name == prefix:
            raise Unmapped(f"its name {text[:60]!r} has nothing that a name here may have: a-z, 0-9, '.', '_' and '-'")
        notes.say(f"its name is {name!r} here")
    return name


class Names:
    """The names that the jobs of one reading have taken."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str | None, str], str] = {}

    def take(self, name: str, place: str, namespace: str | None = None) -> str:
        """Returns the name. Raises Unmapped when another job has it."""
        before = self._taken.setdefault((namespace, name), place)
        if before is not place:
            raise Unmapped(f"it would be called {name!r} here, as {before} is; rename one of them")
        return name


def text_map(value: Any, at: str) -> dict[str, str]:
    """An object of texts; numbers and booleans as JSON writes them, null as no text. Raises Unmapped."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unmapped(f"{at} is not an object")
    return {str(k): v if isinstance(v, str) else "" if v is None else str(v).lower() for k, v in value.items()}


def whole(value: Any, at: str) -> int | None:
    """A number of at least 0, also as text; None when it was not given. Raises Unmapped."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,15}", str(value), re.ASCII):
        raise Unmapped(f"{at} is {value!r}, not a whole number")
    return int(value)


def go_duration_ms(text: str) -> int:
    """A duration as Go's time.ParseDuration has it, in milliseconds, rounded up. Raises Unmapped."""
    parts = _GO_DURATION.findall(text)
    if not parts or "".join(parts) != text.removeprefix("+"):
        raise Unmapped(f"{text[:40]!r} is not a duration such as 90s or 1h30m")
    total = Fraction(0)
    for part in parts:
        number = part.rstrip("nuµmsh")
        unit = part[len(number) :]
        total += Fraction(f"0{number}".rstrip(".")) * _GO_UNITS[unit]
    return -int(-total // 1)


def cron_trigger(text: str, zone: str, *, seconds: bool, notes: Notes) -> dict[str, Any]:
    """A schedule of the library robfig/cron, which Kubernetes and Dkron build on, as a trigger. Raises Unmapped.

    `seconds`: six fields with seconds first are allowed. Where the library means other days than cron does, the
    schedule is refused rather than run on those.
    """
    zoned = _ZONED.fullmatch(text.strip())
    if zoned:
        zone, text = zoned.groups()
    text = text.strip()
    nickname, _, rest = text.partition(" ")
    if nickname.lower() == "@every":
        return {"every": every(go_duration_ms(rest.strip()), notes)}
    if nickname.startswith("@"):
        if nickname.lower() not in _NICKNAMES or rest:
            raise Unmapped(f"the schedule {text[:60]!r} is not known; known are {', '.join(_NICKNAMES)} and @every")
        return _checked(nickname.lower(), zone, text)
    fields = text.split()
    if len(fields) not in ((5, 6) if seconds else (5,)):
        raise Unmapped(f"the schedule {text[:60]!r} has {len(fields)} fields; {'6' if seconds else '5'} are expected")
    day, weekday = fields[-3], fields[-1]
    for one, other in ((day, weekday), (weekday, day)):
        if one.startswith("*") and not _STARRED.fullmatch(one) and not _STARRED.fullmatch(other):
            raise Unmapped(
                f"the schedule {text[:60]!r} means either of {one} and {other} where it comes from, and both of them"
                " here; write it as two jobs"
            )
    return _checked(" ".join("*" + item[1:] if item.startswith("?") else item for item in fields), zone, text)


def quartz_trigger(text: str, zone: str) -> dict[str, Any]:
    """A cron expression as Quartz reads it. Raises Unmapped."""
    fields = " ".join(text.split())
    if len(fields.split()) not in (6, 7):
        raise Unmapped(f"the schedule {text[:60]!r} has {len(fields.split())} fields; Quartz has 6, or 7 with a year")
    return _checked(fields, zone, text, "quartz")


def _checked(cron: str, zone: str, text: str, dialect: str = "") -> dict[str, Any]:
    """Refuses what the cluster would refuse, so that a dry run says it, too."""
    try:
        parse(cron, dialect, 0)
        zone_info(zone)
    except TriggerError as error:
        raise Unmapped(f"the schedule {text[:60]!r}: {error.detail}") from None
    found: dict[str, Any] = {"cron": cron, "timezone": zone}
    return {**found, "dialect": dialect} if dialect else found


def instant(ms: int) -> str:
    """A time in UTC milliseconds, as the API takes it. Raises Unmapped."""
    if not 0 <= ms <= TIME_MAX_MS:
        raise Unmapped(f"{ms} ms is no time from 1970 to 9999")
    text = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms % 1000:03}Z" if ms % 1000 else f"{text}Z"


def every(period_ms: int, notes: Notes) -> str:
    from raftsched.quantities import format_duration

    if period_ms < EVERY_MIN_MS:
        notes.say("it is due every second, the shortest there is")
    return format_duration(max(period_ms, EVERY_MIN_MS))
