"""/v1/calendars: named days and hours in which nothing is due, for any trigger that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_time, parse_time
from raftsched.api.http.problems import FieldError, Problem, unread
from raftsched.api.openapi.types import patch_of
from raftsched.api.resources.named import NamedResource, Text, Write, endpoints
from raftsched.bounds import DESCRIPTION_MAX
from raftsched.core.rows import CALENDARS as ROWS
from raftsched.core.subjects.calendar import CONTENT_MAX, Calendar, DeleteCalendar, PutCalendar
from raftsched.core.tables import ReadView
from raftsched.schedule import TriggerError
from raftsched.schedule.exclusions import WEEKDAYS, parse_date, parse_month_day
from raftsched.schedule.windows import parse_clock, window
from raftsched.schedule.zones import zone
from raftsched.surface.scalars import Time

DATES_MAX = 2_000
RANGES_MAX = 500
HOURS_MAX = 50  # of each of the two lists

Day = Annotated[str, Meta(description="a date such as 2026-12-25", extra_json_schema={"format": "calendar-date"})]
MonthDay = Annotated[str, Meta(description="month and day, such as 12-25", extra_json_schema={"format": "month-day"})]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
Clock = Annotated[str, Meta(description="a time of day such as 22:00", extra_json_schema={"pattern": f"^{_CLOCK}$"})]
ClockEnd = Annotated[
    str, Meta(description="a time of day such as 06:00, or 24:00", extra_json_schema={"pattern": f"^({_CLOCK}|24:00)$"})
]


class RangeIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """From the first to the last of these days, both included."""

    from_: Day | None = msgspec.field(default=None, name="from")
    to: Day | None = None


class HoursIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """From one time of day to another, of the next day if that is not later. `weekdays`: on which it begins; without
    it, each day."""

    from_: Clock | None = msgspec.field(default=None, name="from")
    to: ClockEnd | None = None
    weekdays: Annotated[list[Weekday], Meta(max_length=7, extra_json_schema={"minItems": 1})] | None = None


class TimesIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """From one time on to before another."""

    from_: Time | None = msgspec.field(default=None, name="from")
    to: Time | None = None


class CalendarIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Time in which nothing is due, of the zone that is given, else of each trigger's. Days: `dates` once, `ranges`
    from one date to another, `yearly` each year, `weekdays` each week. Hours: `hours` each day or on some, `excludes`
    once; outside of `only`, where there are any, all is excluded."""

    description: (
        Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": DESCRIPTION_MAX})] | None
    ) = None
    timezone: (
        Annotated[
            str,
            Meta(description="an IANA time zone such as Europe/Madrid", extra_json_schema={"format": "iana-time-zone"}),
        ]
        | None
    ) = None
    dates: Annotated[list[Day], Meta(max_length=DATES_MAX)] = []
    ranges: Annotated[list[RangeIn], Meta(max_length=RANGES_MAX)] = []
    yearly: Annotated[list[MonthDay], Meta(max_length=366)] = []
    weekdays: Annotated[list[Weekday], Meta(max_length=7)] = []
    hours: Annotated[list[HoursIn], Meta(max_length=HOURS_MAX)] = []
    only: Annotated[list[HoursIn], Meta(max_length=HOURS_MAX)] = []
    excludes: Annotated[list[TimesIn], Meta(max_length=RANGES_MAX)] = []


class CalendarOut(msgspec.Struct):
    """Lists are in order, each day once."""

    name: str
    description: str | None
    timezone: str | None
    dates: list[Day]
    ranges: list[RangeIn]
    yearly: list[MonthDay]
    weekdays: list[Weekday]
    hours: list[HoursIn]
    only: list[HoursIn]
    excludes: list[TimesIn]
    revision: int
    created_at: str
    modified_at: str


_decode = msgspec.json.Decoder(CalendarIn).decode
_encode = msgspec.json.Encoder().encode


def read_content(value: Any) -> bytes:
    """Returns the content of a calendar as it is stored. Raises Problem invalid-body with all that is wrong."""
    errors: list[FieldError] = []
    given = strict.examine(value, CalendarIn, errors)
    if given is None:
        raise Problem("invalid-body", errors=errors)
    bad = {error.pointer for error in errors}
    more: list[FieldError] = []
    if given.description is not None and len(given.description) > DESCRIPTION_MAX:
        more.append(FieldError("/description", f"is too long; at most {DESCRIPTION_MAX:,} characters are allowed"))
    content = CalendarIn(
        description=given.description,
        timezone=_zone(given.timezone, more),
        dates=sorted(set(_checked(given.dates, "/dates", parse_date, more))),
        ranges=_ranges(given.ranges, more),
        yearly=sorted(set(_checked(given.yearly, "/yearly", parse_month_day, more))),
        weekdays=[day for day in WEEKDAYS if day in given.weekdays],
        hours=_hours(given.hours, "/hours", more),
        only=_hours(given.only, "/only", more),
        excludes=_excludes(given.excludes, more),
    )
    errors += [error for error in more if error.pointer not in bad]
    if errors:
        raise Problem("invalid-body", errors=errors)
    return _encode(content)


def content_of(raw: bytes) -> CalendarIn:
    return _decode(raw)


def _zone(name: str | None, errors: list[FieldError]) -> str | None:
    if name is not None:
        try:
            zone(name)
        except TriggerError as error:
            errors.append(FieldError("/timezone", error.detail, "unknown-reference"))
    return name


def _checked(given: list[str], at: str, parse: Callable[[str], object], errors: list[FieldError]) -> list[str]:
    for i, text in enumerate(given):
        try:
            parse(text)
        except ValueError as error:
            errors.append(unread(f"{at}/{i}", error))
    return given


def _ranges(given: list[RangeIn], errors: list[FieldError]) -> list[RangeIn]:
    found: set[tuple[str, str]] = set()
    for i, one in enumerate(given):
        before = len(errors)
        for name, text in (("from", one.from_), ("to", one.to)):
            if text is None:
                errors.append(FieldError(f"/ranges/{i}/{name}", "is missing; give a date such as 2026-12-25"))
            else:
                _checked([text], f"/ranges/{i}/{name}", parse_date, errors)
        if len(errors) > before:
            # the pointer of a single value has no index
            errors[before:] = [replace(e, pointer=e.pointer.removesuffix("/0")) for e in errors[before:]]
        elif one.from_ is not None and one.to is not None:
            if one.to < one.from_:
                errors.append(FieldError(f"/ranges/{i}/to", "is before from; it must not be", "inconsistent"))
            found.add((one.from_, one.to))
    return [RangeIn(first, last) for first, last in sorted(found)]


def _hours(given: list[HoursIn], at: str, errors: list[FieldError]) -> list[HoursIn]:
    found = []
    for i, one in enumerate(given):
        before = len(errors)
        _clock(one.from_, f"{at}/{i}/from", errors, end=False)
        _clock(one.to, f"{at}/{i}/to", errors, end=True)
        if one.weekdays is not None and not one.weekdays:
            errors.append(FieldError(f"{at}/{i}/weekdays", "is empty; name days, or leave it out for each day"))
        if len(errors) > before or one.from_ is None or one.to is None:
            continue
        try:
            window(one.from_, one.to, ())
        except ValueError as error:
            errors.append(FieldError(f"{at}/{i}/to", str(error), "inconsistent"))
        days = None if one.weekdays is None else [day for day in WEEKDAYS if day in one.weekdays]
        found.append(HoursIn(one.from_, one.to, days))
    return found


def _clock(text: str | None, at: str, errors: list[FieldError], *, end: bool) -> None:
    if text is None:
        errors.append(FieldError(at, "is missing; give a time of day such as 22:00"))
        return
    try:
        parse_clock(text, end=end)
    except ValueError as error:
        errors.append(FieldError(at, str(error)))


def _excludes(given: list[TimesIn], errors: list[FieldError]) -> list[TimesIn]:
    found: set[tuple[int, int]] = set()
    for i, one in enumerate(given):
        first, last = (
            _time(text, f"/excludes/{i}/{name}", errors) for name, text in (("from", one.from_), ("to", one.to))
        )
        if first is None or last is None:
            continue
        if last <= first:
            errors.append(FieldError(f"/excludes/{i}/to", "is not after from; it must be", "inconsistent"))
        found.add((first, last))
    return [TimesIn(format_time(first), format_time(last)) for first, last in sorted(found)]


def _time(text: str | None, at: str, errors: list[FieldError]) -> int | None:
    if text is None:
        errors.append(FieldError(at, "is missing; give a time such as 2030-01-31T02:00:00Z"))
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        errors.append(unread(at, error))
        return None


async def _command(ctx: ApiContext, write: Write[Calendar]) -> PutCalendar:
    content = read_content(write.value)
    if len(content) > CONTENT_MAX:
        raise Problem("too-large", f"The calendar takes {len(content):,} bytes; {CONTENT_MAX:,} is the limit.")
    return PutCalendar(write.name, content, write.revision, write.only_new)


def _as_put(calendar: Calendar) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.json.decode(calendar.content)
    return content


def _shown(ctx: ApiContext, view: ReadView, calendar: Calendar, among: int) -> CalendarOut:
    content = content_of(calendar.content)
    return CalendarOut(
        name=calendar.name,
        description=content.description,
        timezone=content.timezone,
        dates=content.dates,
        ranges=content.ranges,
        yearly=content.yearly,
        weekdays=content.weekdays,
        hours=content.hours,
        only=content.only,
        excludes=content.excludes,
        revision=calendar.revision,
        created_at=format_time(calendar.created_at_ms),
        modified_at=format_time(calendar.modified_at_ms),
    )


CALENDARS = NamedResource(
    path="/v1/calendars/{name}",
    noun="calendar",
    rows=ROWS,
    name_rules=(names.CALENDAR,),
    absent='There is no calendar "{0}"; PUT to it to create it.',
    unmet="the calendar does not exist; leave it out to create it",
    body=CalendarIn,
    patch_body=patch_of("CalendarPatch", CalendarIn),
    body_max=2 * CONTENT_MAX,  # there may be blanks between
    out=CalendarOut,
    shown=_shown,
    as_put=_as_put,
    command=_command,
    delete_command=DeleteCalendar,
    texts={
        "list_all": Text("List calendars", "By name."),
        "get": Text("Read a calendar"),
        "put": Text(
            "Create or replace a calendar",
            "All of its content; what was answered may be put back. The jobs that use it get new next times: if there "
            "are many, an operation goes through them.",
            ("too-many",),
        ),
        "patch": Text(
            "Change a calendar",
            "RFC 7396: a list that is given replaces the one there is. Without If-Match, a change in between means to "
            "merge again.",
            ("too-many",),
        ),
        "delete": Text(
            "Delete a calendar",
            "Only one that no job uses; `GET /v1/jobs?calendar=` finds those that do.",
            ("in-use",),
        ),
    },
)
ENDPOINTS = endpoints(CALENDARS)
