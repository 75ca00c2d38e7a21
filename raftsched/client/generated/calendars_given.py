"""Made from surface/calendars.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from raftsched.client.generated.calendars import Weekday
from raftsched.client.moments import Moment

# Both are included; dates as text, 2027-08-01.
DateRange = TypedDict(
    "DateRange",
    {
        "from": str,
        "to": str,
    },
)


# From one time of day to another ("22:00"), of the next day if that is not later. `weekdays`: on which it begins;
# without it, each day.
Hours = TypedDict(
    "Hours",
    {
        "from": str,
        "to": str,
        "weekdays": Sequence[Weekday],
    },
    total=False,
)


# From one time on to before another.
TimeRange = TypedDict(
    "TimeRange",
    {
        "from": Moment,
        "to": Moment,
    },
)


class CalendarDays(TypedDict, total=False):
    """Time in which nothing is due, of the zone that is given, else of each trigger's. Days: `dates` (2027-03-26) once,
    `ranges` from one date to another, `yearly` (12-25) each year, `weekdays` each week. Hours: `hours` each day or on
    some, `excludes` once; outside of `only`, where there are any, all is excluded."""

    description: str | None
    timezone: str | None
    dates: Sequence[str] | None
    ranges: Sequence[DateRange] | None
    yearly: Sequence[str] | None
    weekdays: Sequence[Weekday] | None
    hours: Sequence[Hours] | None
    only: Sequence[Hours] | None
    excludes: Sequence[TimeRange] | None
