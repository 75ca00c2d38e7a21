"""Made from surface/calendars.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class DateRange(msgspec.Struct, frozen=True, kw_only=True):
    """Both are included; dates as text, 2027-08-01."""

    from_: str = msgspec.field(name="from")
    to: str


class Hours(msgspec.Struct, frozen=True, kw_only=True):
    """From one time of day to another ("22:00"), of the next day if that is not later. `weekdays`: on which it begins;
    without it, each day."""

    from_: str = msgspec.field(name="from")
    to: str
    weekdays: list[str] | None = None


class TimeRange(msgspec.Struct, frozen=True, kw_only=True):
    """From one time on to before another."""

    from_: datetime = msgspec.field(name="from")
    to: datetime


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """Days and hours in which nothing is due: dates as text, `yearly` as 12-25, `weekdays` as "sat". `hours` come each
    week; outside of `only`, if there are any, all is excluded; `excludes` once. Lists are in order, each day once."""

    name: str
    description: str | None
    timezone: str | None
    dates: list[str]
    ranges: list[DateRange]
    yearly: list[str]
    weekdays: list[str]
    hours: list[Hours] = []
    only: list[Hours] = []
    excludes: list[TimeRange] = []
    revision: int
    created_at: datetime
    modified_at: datetime
