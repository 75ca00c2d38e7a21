"""The times of a trigger as answers show them: a list, and how many each day has. Other requests have their turn
between the pieces."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from aiohttp import web

from raftsched import schedule
from raftsched.api.context import ApiContext
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError
from raftsched.api.http.replies import reply_fields
from raftsched.core.model import DAY_MS, Trigger, TriggerKind
from raftsched.schedule import Occurrence, TriggerError

COUNT_DEFAULT = 10
COUNT_MAX = 1_000
DAYS = 31  # counted, unless `to` says otherwise
DAYS_MAX = 400  # counted at once: a year, and the rest of its weeks
SLICE = 50  # times, or days, between two turns of the event loop


class Window(NamedTuple):
    """The times that are asked for: from_ms < time, < to_ms where that is said. `zone`: of whose days they are counted;
    `most`: there are no more than these, all told."""

    from_ms: int
    to_ms: int | None
    limit: int
    zone: str | None = None
    most: int | None = None


class Source(NamedTuple):
    """A trigger, and what its times depend on beside it."""

    trigger: Trigger
    anchor_ms: int
    job_id: int = 0


def wrong_window(from_ms: int, to_ms: int | None, zone: str | None) -> FieldError | None:
    """Returns an error of `to` or `by_day`, None when there is none."""
    if zone is None:
        return None
    if to_ms is not None and to_ms - from_ms > DAYS_MAX * DAY_MS:
        return FieldError("/to", f"is more than {DAYS_MAX} days after from; ask for fewer at once")
    try:
        schedule.check_zone(zone)
    except TriggerError as error:
        return FieldError("/by_day", f"names {error.detail}")
    return None


async def times_of(ctx: ApiContext, source: Source, window: Window) -> tuple[list[Occurrence], bool]:
    """Returns the times, and whether there are more."""
    trigger = source.trigger
    if trigger.kind is TriggerKind.MANUAL:
        return [], False
    limit = window.limit + 1 if window.most is None else min(window.limit + 1, window.most)
    found: list[Occurrence] = []
    at_ms = window.from_ms
    whose = _whose(ctx, source)
    while len(found) < limit:
        some = schedule.preview(trigger, at_ms, min(SLICE, limit - len(found)), **whose)
        if window.to_ms is not None:
            some = [one for one in some if one.at_ms < window.to_ms]
        found += some
        if len(some) < SLICE or trigger.once:
            break
        at_ms = some[-1].at_ms
        await asyncio.sleep(0)
    return found[: window.limit], len(found) > window.limit


async def answer_times(ctx: ApiContext, words: str, source: Source | None, window: Window) -> web.Response:
    """Answers with the times of a trigger, and how many each day has where that is asked for. `source`: None where
    there are no times."""
    times, more = ([], False) if source is None else await times_of(ctx, source, window)
    fields = moments(words, times, more=more)
    if window.zone is not None:
        fields["days"] = [] if source is None else await _days_of(ctx, source, window, window.zone)
    return reply_fields(fields)


def moments(words: str, times: list[Occurrence], *, more: bool) -> dict[str, Any]:
    shown = [{"at": format_time(time.at_ms), "note": time.note} for time in times]
    return {"description": words, "next": shown, "more": more, "days": None}


async def _days_of(ctx: ApiContext, source: Source, window: Window, zone: str) -> list[dict[str, Any]]:
    to_ms = window.from_ms + DAYS * DAY_MS if window.to_ms is None else window.to_ms
    found: list[dict[str, Any]] = []
    days = schedule.due_days(source.trigger, window.from_ms + 1, to_ms, zone, **_whose(ctx, source), most=window.most)
    for day in days:
        found.append(day._asdict())
        if not len(found) % SLICE:
            await asyncio.sleep(0)
    return found


def _whose(ctx: ApiContext, source: Source) -> dict[str, Any]:
    name = source.trigger.calendar
    content = None if name is None else ctx.calendar(name)
    return {"anchor_ms": source.anchor_ms, "job_id": source.job_id, "calendar": content}
