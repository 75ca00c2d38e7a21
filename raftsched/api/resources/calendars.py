"""/v1/calendars: named days on which nothing is due, for any trigger that names them."""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import Problem
from raftsched.api.openapi.types import patch_of
from raftsched.api.resources.calendars_schema import CalendarIn, CalendarOut, content_of, read_content
from raftsched.api.resources.named import NamedResource, Text, Write, endpoints
from raftsched.core.calendars import CONTENT_MAX, Calendar, DeleteCalendar, PutCalendar
from raftsched.core.rows import CALENDARS as ROWS
from raftsched.core.tables import ReadView


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
