"""/v1/calendars: named days and hours in which nothing is due, for any trigger that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_time, parse_time
from raftsched.api.http.problems import FieldError, Problem, unread
from raftsched.api.resources.named import NamedResource, Write, serve
from raftsched.bounds import CALENDAR_MAX, DESCRIPTION_MAX
from raftsched.core.rows import CALENDARS as ROWS
from raftsched.core.subjects.calendar import Calendar, DeleteCalendar, PutCalendar
from raftsched.core.tables import ReadView
from raftsched.schedule import TriggerError
from raftsched.schedule.exclusions import WEEKDAYS, parse_date, parse_month_day
from raftsched.schedule.windows import parse_clock, window
from raftsched.schedule.zones import zone
from raftsched.surface import calendars as surface
from raftsched.surface.calendars import CalendarIn, CalendarOut, HoursIn, RangeIn, TimesIn

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
    if len(content) > CALENDAR_MAX:
        raise Problem("too-large", f"The calendar takes {len(content):,} bytes; {CALENDAR_MAX:,} is the limit.")
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
    surface.CALENDARS,
    rows=ROWS,
    name_rules=(names.CALENDAR,),
    absent='There is no calendar "{0}"; PUT to it to create it.',
    unmet="the calendar does not exist; leave it out to create it",
    shown=_shown,
    as_put=_as_put,
    command=_command,
    delete_command=DeleteCalendar,
)
serve(CALENDARS, surface.LIST, surface.GET, surface.PUT, surface.PATCH, surface.DELETE)
