"""/v1/calendars: named days on which nothing is due, for any trigger that names them."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_time
from raftsched.api.http.merging import merge
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply_page, reply_value
from raftsched.api.http.requests import (
    PATCH_TYPES,
    READ,
    Query,
    catch_up,
    check_type,
    create_only,
    etag_of,
    fresh_enough,
    if_match,
    not_modified,
    read_body,
)
from raftsched.api.openapi.operation import BODIES, JSON, MERGE_PATCH, WRITES, PageOf, Reply, operation
from raftsched.api.openapi.types import patch_of
from raftsched.api.resources.amending import amend
from raftsched.api.resources.calendars_schema import READ_ONLY, CalendarIn, CalendarOut, content_of, read_content
from raftsched.api.rows import following, page
from raftsched.core.calendars import CONTENT_MAX, Calendar, DeleteCalendar, PutCalendar
from raftsched.core.commands import encode
from raftsched.core.rows import decode_calendar
from raftsched.core.tables import ReadView, Table

BODY_MAX = 2 * CONTENT_MAX  # bytes: there may be blanks between


@operation(
    "List calendars",
    {200: Reply(PageOf(CalendarOut), "A page of calendars.", ("Link",))},
    query=("limit", "cursor", *READ),
    role="viewer",
    scope="shared",
)
async def list_all(ctx: ApiContext, request: web.Request) -> web.Response:
    """By name."""
    query = Query(request, "limit", "cursor", *READ)
    await fresh_enough(ctx, query)
    last = query.cursor("calendars")
    with ctx.read() as view:
        rows = view.scan(Table.CALENDARS, b"" if last is None else following(last))
        found, last = page(rows, query.limit(), lambda _, raw: decode_calendar(raw))
    shown = [msgspec.json.encode(_shown(calendar)) for calendar in found]
    return reply_page(request, shown, "calendars", query.filters(), last)


@operation(
    "Read a calendar",
    {200: Reply(CalendarOut, "The calendar.", ("ETag",)), 304: Reply(None, "Not changed.", ("ETag",))},
    query=READ,
    headers=("If-None-Match",),
    role="viewer",
    scope="shared",
)
async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    await fresh_enough(ctx, Query(request, *READ))
    with ctx.read() as view:
        calendar = _find(view, request.match_info["name"])
    if calendar is None:
        raise _unknown(request.match_info["name"])
    tag = etag_of(calendar.revision)
    if not_modified(request, tag):
        return web.Response(status=304, headers={"ETag": tag})
    return reply_value(_shown(calendar), 200, {"ETag": tag})


@operation(
    "Create or replace a calendar",
    {
        201: Reply(CalendarOut, "Made.", ("ETag", "Location")),
        200: Reply(CalendarOut, "As it is now.", ("ETag",)),
    },
    headers=("If-Match", "If-None-Match"),
    body=CalendarIn,
    codes=(*BODIES, *WRITES, "exists", "stale-revision", "not-possible", "too-many"),
    role="operator",
    scope="shared",
)
async def put(ctx: ApiContext, request: web.Request) -> web.Response:
    """All of its content; what was answered may be put back. The jobs that use it get their next times anew: of many,
    an operation goes through them."""
    check_type(request)
    Query(request)
    name = request.match_info["name"]
    if not names.CALENDAR.allows(name):
        raise Problem("invalid-parameter", f"A calendar has a name of {names.CALENDAR.rule}.")
    value = strict.parse(await read_body(request, BODY_MAX))
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in READ_ONLY}
    content = _fitting(read_content(value))
    revision = if_match(request)
    if revision is None and "If-Match" in request.headers:
        await _exists(ctx, name)
    command = PutCalendar(name, content, revision, create_only(request))
    accepted = await propose_one(ctx, encode(command))
    return _reply(ctx, name, created=accepted.created)


@operation(
    "Change a calendar",
    {200: Reply(CalendarOut, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=patch_of("CalendarPatch", CalendarIn),
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, "stale-revision", "too-many"),
    role="operator",
    scope="shared",
)
async def patch(ctx: ApiContext, request: web.Request) -> web.Response:
    """RFC 7396: a list that is given replaces the one there is. Without If-Match, a change in between means to merge
    again."""
    check_type(request, PATCH_TYPES)
    Query(request)
    change = strict.parse(await read_body(request, BODY_MAX))
    if not isinstance(change, dict):
        raise Problem("invalid-body", errors=[FieldError("", "must be an object with the fields to change")])
    _refuse_unknown(change)
    wanted = if_match(request)
    name = request.match_info["name"]

    async def command(was: Calendar) -> bytes:
        content = _fitting(read_content(merge(msgspec.json.decode(was.content), change)))
        return encode(PutCalendar(was.name, content, was.revision))

    await amend(ctx, "The calendar", lambda: _target(ctx, name), wanted, command)
    return _reply(ctx, name)


@operation(
    "Delete a calendar",
    {204: None},
    headers=("If-Match",),
    codes=(*WRITES, "stale-revision", "in-use"),
    role="operator",
    scope="shared",
)
async def delete(ctx: ApiContext, request: web.Request) -> web.Response:
    """Only one that no job uses; `GET /v1/jobs?calendar=` finds those that do."""
    Query(request)
    name = request.match_info["name"]
    if not names.CALENDAR.allows(name):
        raise _unknown(name)
    await propose_one(ctx, encode(DeleteCalendar(name, if_match(request))))
    return web.Response(status=204)


def _refuse_unknown(change: dict[str, Any]) -> None:
    """null takes a field out; of what is no field that would go unnoticed."""
    errors: list[FieldError] = []
    strict.examine({k: v for k, v in change.items() if v is None}, CalendarIn, errors, READ_ONLY)
    known = CalendarIn.__struct_encode_fields__
    errors = [error for error in errors if error.pointer.lstrip("/") not in known]
    if errors:
        raise Problem("invalid-body", errors=errors)


def _fitting(content: bytes) -> bytes:
    if len(content) > CONTENT_MAX:
        raise Problem("too-large", f"The calendar takes {len(content):,} bytes; {CONTENT_MAX:,} is the limit.")
    return content


def _find(view: ReadView, name: str) -> Calendar | None:
    raw = view.get(Table.CALENDARS, name.encode()) if names.CALENDAR.allows(name) else None
    return None if raw is None else decode_calendar(raw)


def _unknown(name: str) -> Problem:
    return Problem("not-found", f'There is no calendar "{name[:128]}"; PUT to it to create it.')


async def _target(ctx: ApiContext, name: str) -> Calendar:
    """The calendar that a change is meant for; this node catches up before it says that there is none."""
    with ctx.read() as view:
        calendar = _find(view, name)
    if calendar is None and names.CALENDAR.allows(name):
        await catch_up(ctx)
        with ctx.read() as view:
            calendar = _find(view, name)
    if calendar is None:
        raise _unknown(name)
    return calendar


async def _exists(ctx: ApiContext, name: str) -> None:
    """If-Match: *. Raises Problem stale-revision."""
    try:
        await _target(ctx, name)
    except Problem:
        detail = "If-Match was given, but the calendar does not exist; leave it out to create it."
        raise Problem("stale-revision", detail) from None


def _reply(ctx: ApiContext, name: str, *, created: bool = False) -> web.Response:
    with ctx.read() as view:
        calendar = _find(view, name)
    if calendar is None:
        raise _unknown(name)
    headers = {"ETag": etag_of(calendar.revision)}
    if created:
        headers["Location"] = f"/v1/calendars/{name}"
    return reply_value(_shown(calendar), 201 if created else 200, headers)


def _shown(calendar: Calendar) -> CalendarOut:
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
