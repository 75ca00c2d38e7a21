"""When something will run, in words and times: of a job, or of a trigger that is only being thought about."""

from __future__ import annotations

from aiohttp import web

from raftsched import schedule
from raftsched.api.context import ApiContext
from raftsched.api.http.answers import Moments
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import reply_fields
from raftsched.api.http.requests import READ, catch_up
from raftsched.api.jobs.render import never_fires
from raftsched.api.jobs.schema import PreviewIn
from raftsched.api.jobs.triggers import time_of, trigger_of
from raftsched.api.openapi.operation import BODIES, operation
from raftsched.api.rows import requested_job
from raftsched.core.model import JobState, Trigger, TriggerKind

BODY_MAX = 16 * 1024  # bytes
COUNT_DEFAULT = 10
COUNT_MAX = 100


@operation(
    "Preview a trigger",
    {200: Moments},
    body=PreviewIn,
    body_max=BODY_MAX,
    codes=(*BODIES, "invalid-trigger"),
    changes_nothing=True,
    role="viewer",
    scope="shared",
)
async def preview(ctx: ApiContext, call: Call[PreviewIn]) -> web.Response:
    """Nothing is saved. `from` is now unless given; a trigger that counts from creation counts from there."""
    given = call.body
    errors: list[FieldError] = []
    start = time_of(given.from_, "/from", errors)
    from_ms = ctx.now_ms() if start is None else start
    trigger = trigger_of(given.trigger, min(from_ms, ctx.now_ms()), errors)
    if errors:
        raise Problem("invalid-trigger", errors=errors)
    if trigger.kind is TriggerKind.AT and start is None and trigger.at_ms <= from_ms:
        times = [schedule.Occurrence(from_ms, f"{format_time(trigger.at_ms)} is past: runs at once")]
        return _reply(schedule.describe(trigger), times)
    if trigger.calendar is not None and ctx.calendar(trigger.calendar) is None:
        await catch_up(ctx)
        if ctx.calendar(trigger.calendar) is None:
            detail = f"names no calendar that there is; PUT /v1/calendars/{trigger.calendar} creates it"
            raise Problem("invalid-trigger", errors=[FieldError("/trigger/calendar", detail)])
    anchor_ms = from_ms if trigger.starts_at_ms is None else trigger.starts_at_ms
    return _reply(schedule.describe(trigger), _times(ctx, trigger, from_ms, given.count, anchor_ms))


@operation("Read when a job runs next", {200: Moments}, query=("count", *READ), role="viewer", scope="checked")
async def next_of_job(ctx: ApiContext, call: Call[None]) -> web.Response:
    """Nominal times, before jitter. None while the job is not scheduled."""
    count = call.query.integer("count", 1, COUNT_MAX) or COUNT_DEFAULT
    with ctx.read() as view:
        job = requested_job(view, call)
    trigger = job.policy.trigger
    words = schedule.describe(trigger, job_id=job.id, anchor_ms=job.anchor_at_ms)
    if job.state is not JobState.SCHEDULED:
        return _reply(words, [])
    if trigger.max_runs is not None:
        count = min(count, max(0, trigger.max_runs - job.runs))
    from_ms = ctx.now_ms()
    if job.nominal_at_ms is not None:
        from_ms = min(from_ms, job.nominal_at_ms - 1)  # what is due and not yet fired is still to come
    from_ms = max(from_ms, job.skipped_until_ms or 0)
    if job.never_fires:
        return _reply(f"{words}. {never_fires(job)}", [])
    return _reply(words, _times(ctx, trigger, from_ms, count, job.anchor_at_ms, job.id))


def _times(
    ctx: ApiContext, trigger: Trigger, from_ms: int, count: int, anchor_ms: int, job_id: int = 0
) -> list[schedule.Occurrence]:
    if trigger.kind is TriggerKind.MANUAL or count == 0:
        return []
    content = None if trigger.calendar is None else ctx.calendar(trigger.calendar)
    return schedule.preview(trigger, from_ms, count, anchor_ms=anchor_ms, job_id=job_id, calendar=content)


def _reply(words: str, times: list[schedule.Occurrence]) -> web.Response:
    shown = [{"at": format_time(time.at_ms), "note": time.note} for time in times]
    return reply_fields({"description": words, "next": shown})
