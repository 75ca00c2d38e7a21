"""Says when something will run, in words and times: a job, or a trigger that is only being thought about."""

from __future__ import annotations

from aiohttp import web

from raftsched import schedule
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError, Problem, from_rejected
from raftsched.api.http.replies import reply_fields
from raftsched.api.http.requests import bad_parameter, catch_up
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.moments import (
    COUNT_DEFAULT,
    COUNT_MAX,
    Source,
    Window,
    answer_times,
    moments,
    seed_of_new,
    sources_of,
    words_of,
    wrong_window,
)
from raftsched.api.jobs.moved_words import moved_words
from raftsched.api.jobs.render import never_fires
from raftsched.api.jobs.triggers import check_max_runs, each_of, several_of, time_of, trigger_of
from raftsched.api.rows import requested_job
from raftsched.api.serving import serves
from raftsched.bounds import DAY_MS
from raftsched.core.commands import Rejected
from raftsched.core.model import JobState, Policy, TriggerKind
from raftsched.core.rules.creation import unknown_calendar
from raftsched.surface import schedules

YEAR_MS = 365 * DAY_MS


@serves(schedules.PREVIEW)
async def preview(ctx: ApiContext, call: Call[schedules.PreviewIn]) -> web.Response:
    given = call.body
    errors: list[FieldError] = []
    start, to_ms = time_of(given.from_, "/from", errors), time_of(given.to, "/to", errors)
    from_ms = ctx.now_ms() if start is None else start
    wrong = wrong_window(from_ms, to_ms, given.by_day)
    if wrong is not None:
        errors.append(wrong)
    policy = await _policy_of(given, min(from_ms, ctx.now_ms()), errors)
    if errors:
        raise Problem("invalid-trigger", errors=errors)
    trigger = policy.trigger
    if trigger.kind is TriggerKind.AT and start is None and trigger.at_ms <= from_ms:
        times = [schedule.Occurrence(from_ms, f"{format_time(trigger.at_ms)} is past: runs at once")]
        return reply_fields(moments(schedule.describe(trigger), times, more=False))
    if policy.calendars and _missing(ctx, policy) is not None:
        await catch_up(ctx)
        missing = _missing(ctx, policy)
        if missing is not None:
            raise from_rejected(missing)
    with ctx.read() as view:
        sources = sources_of(policy, from_ms, seed=seed_of_new(view, given.namespace, given.name, policy))
    window = Window(from_ms, to_ms, given.count, given.by_day, trigger.max_runs)
    return await answer_times(ctx, words_of(policy, sources, is_job=False), sources, window)


async def _policy_of(given: schedules.PreviewIn, now_ms: int, errors: list[FieldError]) -> Policy:
    if not given.triggers:
        if given.max_runs is not None:
            check_max_runs(given.triggers, errors)
        return Policy(trigger=trigger_of(given.trigger, now_ms, errors))
    trigger = several_of(given, errors)
    triggers = []
    slices = Slices()
    for one in each_of(given.triggers, now_ms, errors):
        triggers.append(one)
        await slices.turn()
    return Policy(trigger=trigger, triggers=tuple(triggers))


def _missing(ctx: ApiContext, policy: Policy) -> Rejected | None:
    return unknown_calendar(policy, lambda name: ctx.calendar(name) is not None)


@serves(schedules.NEXT)
async def next_of_job(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    count = query.integer("count", 1, COUNT_MAX) or COUNT_DEFAULT
    zone, to_ms, given_ms = query.text("by_day"), query.time("to"), query.time("from")
    with ctx.read() as view:
        job = requested_job(view, call)
    now_ms = ctx.now_ms()
    wrong = wrong_window(now_ms if given_ms is None else given_ms, to_ms, zone)
    if wrong is not None:
        raise bad_parameter(wrong.pointer[1:], wrong.detail, wrong.code)
    policy = job.policy
    sources = sources_of(policy, now_ms, job)
    words = words_of(policy, sources)
    if job.never_fires:
        words = f"{words}. {never_fires(job)}"
    words = f"{words}. {moved}" if (moved := moved_words(job, job.nominal_at_ms)) else words
    from_ms = now_ms
    if job.nominal_at_ms is not None:
        from_ms = min(from_ms, job.nominal_at_ms - 1)  # what is due and not yet fired is still to come
    from_ms = max(from_ms, job.skipped_until_ms or 0)
    if job.state is not JobState.SCHEDULED or job.never_fires:
        return await answer_times(ctx, words, [], Window(from_ms, to_ms, count, zone))
    if job.triggers:
        sources = [source for source, state in zip(sources, job.triggers, strict=True) if not state.over]
    limit = policy.trigger.max_runs
    most = None if limit is None else max(0, limit - job.runs)
    if given_ms is not None and given_ms > from_ms:
        for source in sources:  # a time that several triggers have counts for each
            most = most and most - await _count(ctx, source, from_ms, given_ms - 1, most)
        from_ms = given_ms - 1
    return await answer_times(ctx, words, sources, Window(from_ms, to_ms, count, zone, most))


async def _count(ctx: ApiContext, source: Source, after_ms: int, until_ms: int, most: int) -> int:
    """Returns how many times come in between, `most` at most. Others have their turn between the years."""
    trigger = source.trigger
    content = None if trigger.calendar is None else ctx.calendar(trigger.calendar)
    whose = {"anchor_ms": source.anchor_ms, "hash_id": source.hash_id}
    in_parts = trigger.kind in (TriggerKind.CRON, TriggerKind.RRULE)
    count = 0
    slices = Slices()
    while after_ms < until_ms and count < most:
        end_ms = min(until_ms, after_ms + YEAR_MS) if in_parts else until_ms
        count += schedule.missed(trigger, after_ms, end_ms, keep=0, calendar=content, **whose).count
        after_ms = end_ms
        await slices.turn()
    return min(count, most)
