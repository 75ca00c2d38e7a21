"""Calendars: named days and hours in which nothing is due, for any trigger that names them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from raftsched.bounds import CALENDAR_MAX
from raftsched.surface.named import Named
from raftsched.surface.scalars import Description, Time, Zone
from raftsched.surface.sdk import NEEDED, record, typed_dict
from raftsched.surface.specials import patch_of

_NEEDED = {"from_": NEEDED, "to": NEEDED}  # of one that is answered
_TEXTS = dict.fromkeys(_NEEDED, "str")
_LISTS = {
    **dict.fromkeys(("dates", "yearly"), "Sequence[str] | None"),
    "ranges": "Sequence[DateRange] | None",
    "weekdays": "Sequence[Weekday] | None",
    **dict.fromkeys(("hours", "only"), "Sequence[Hours] | None"),
    "excludes": "Sequence[TimeRange] | None",
}

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


@record("DateRange", types=_TEXTS, since=_NEEDED, says="Both are included; dates as text, 2027-08-01.")
@typed_dict("DateRange", null=False, needed=True, says="Both are included; dates as text, 2027-08-01.")
class RangeIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """From the first to the last of these days, both included."""

    from_: Day | None = msgspec.field(default=None, name="from")
    to: Day | None = None


@record("Hours", types=_TEXTS, since=_NEEDED)
@typed_dict("Hours", null=False)
class HoursIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """From one time of day to another ("22:00"), of the next day if that is not later. `weekdays`: on which it begins;
    without it, each day."""

    from_: Clock | None = msgspec.field(default=None, name="from")
    to: ClockEnd | None = None
    weekdays: Annotated[list[Weekday], Meta(max_length=7, extra_json_schema={"minItems": 1})] | None = None


@record("TimeRange", types=dict.fromkeys(_NEEDED, "datetime"), since=_NEEDED)
@typed_dict("TimeRange", null=False, needed=True)
class TimesIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """From one time on to before another."""

    from_: Time | None = msgspec.field(default=None, name="from")
    to: Time | None = None


@typed_dict("CalendarDays", types=_LISTS)
class CalendarIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Time in which nothing is due, of the zone that is given, else of each trigger's. Days: `dates` (2027-03-26) once,
    `ranges` from one date to another, `yearly` (12-25) each year, `weekdays` each week. Hours: `hours` each day or on
    some, `excludes` once; outside of `only`, where there are any, all is excluded."""

    description: Description | None = None
    timezone: Zone | None = None
    dates: Annotated[list[Day], Meta(max_length=DATES_MAX)] = []
    ranges: Annotated[list[RangeIn], Meta(max_length=RANGES_MAX)] = []
    yearly: Annotated[list[MonthDay], Meta(max_length=366)] = []
    weekdays: Annotated[list[Weekday], Meta(max_length=7)] = []
    hours: Annotated[list[HoursIn], Meta(max_length=HOURS_MAX)] = []
    only: Annotated[list[HoursIn], Meta(max_length=HOURS_MAX)] = []
    excludes: Annotated[list[TimesIn], Meta(max_length=RANGES_MAX)] = []


@record(
    "Calendar",
    since={"hours": [], "only": [], "excludes": []},
    types=dict.fromkeys(("created_at", "modified_at"), "datetime"),
)
class CalendarOut(msgspec.Struct):
    """Days and hours in which nothing is due: dates as text, `yearly` as 12-25, `weekdays` as "sat". `hours` come each
    week; outside of `only`, if there are any, all is excluded; `excludes` once. Lists are in order, each day once."""

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


CALENDARS = Named(
    "calendars",
    "/v1/calendars/{name}",
    "calendar",
    CalendarIn,
    CalendarOut,
    patch_body=patch_of("CalendarPatch", CalendarIn),
    body_max=2 * CALENDAR_MAX,  # there may be blanks between
    sdk="Calendars",
    given="days",
    given_type="CalendarDays",
)
LIST = CALENDARS.list_all("List calendars", "By name.", tells="Yields the calendars by name")
GET = CALENDARS.get("Read a calendar", tells="there is none")
PUT = CALENDARS.put(
    "Create or replace a calendar",
    "All of its content; what was answered may be put back. The jobs that use it get new next times: if there are "
    "many, an operation goes through them.",
    "too-many",
    tells="Creates the calendar, or replaces all of it.",
)
PATCH = CALENDARS.patch(
    "Change a calendar",
    "RFC 7396: a list that is given replaces the one there is. Without If-Match, a change in between means to merge "
    "again.",
    "too-many",
    tells="Replaces the fields that are given; None removes one. Raises NotFoundError: there is none.",
)
DELETE = CALENDARS.delete(
    "Delete a calendar",
    "Only one that no job uses; `GET /v1/jobs?calendar=` finds those that do.",
    "in-use",
    tells='Deletes the calendar. Raises ConflictError "in-use": a job uses it.',
)
