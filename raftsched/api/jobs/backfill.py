"""Runs for times of a job's schedule that went by: POST /v1/jobs/{id}/backfill."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from raftsched import schedule
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.idempotency import done_before
from raftsched.api.http.problems import FieldError, Problem, from_rejected
from raftsched.api.http.replies import reply_fields
from raftsched.api.http.requests import catch_up
from raftsched.api.jobs.moments import sources_of
from raftsched.api.jobs.targets import target_job
from raftsched.api.jobs.triggers import time_of
from raftsched.api.serving import serves
from raftsched.core.commands import Accepted, Backfill, encode
from raftsched.core.ids import job_text
from raftsched.core.model import EveryMode, Job, Trigger, TriggerKind
from raftsched.core.rules.backfill import times_without_run
from raftsched.schedule import TriggerError
from raftsched.surface import job_actions, runs

TRIES = 5  # when the job is changed meanwhile


@serves(job_actions.BACKFILL)
async def backfill(ctx: ApiContext, call: Call[job_actions.BackfillIn]) -> web.Response:
    job = await target_job(ctx, call)
    name = call.key("backfill", job_text(job.id).encode(), call.raw)
    accepted = done_before(ctx, name)
    if accepted is not None:
        return _reply(job, accepted.number or 0)
    given = call.body
    errors: list[FieldError] = []
    start_ms, end_ms = time_of(given.from_, "/from", errors), time_of(given.to, "/to", errors)
    if given.from_ is None:
        errors.append(
            FieldError("/from", "is missing; give the first time that is meant, such as 2030-01-31T00:00:00Z")
        )
    if start_ms is not None and end_ms is not None and start_ms >= end_ms:
        errors.append(FieldError("/to", "must be after from", "inconsistent"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    assert start_ms is not None
    for _ in range(TRIES):
        now_ms = ctx.now_ms()
        times = _times(
            ctx, job, start_ms, now_ms + 1 if end_ms is None else min(end_ms, now_ms + 1), ctx.settings().backfill_max
        )
        if given.dry_run:
            return _preview(ctx, job, times, now_ms)
        command = Backfill(job.id, job.revision, times, name.key, name.digest)
        answer = (await ctx.propose((encode(command),), ctx.propose_timeout_s))[0]
        if isinstance(answer, Accepted):
            return _reply(job, answer.number or 0)
        if answer.code != "stale-revision":
            raise from_rejected(answer)
        await catch_up(ctx)
        job = await target_job(ctx, call)
    raise Problem("stale-revision", "The job changes too often; try again.")


def _times(ctx: ApiContext, job: Job, start_ms: int, end_ms: int, max_: int) -> tuple[int, ...]:
    """Nominal times in start_ms <= time < end_ms. Raises Problem invalid-body."""
    sources = [source for source in sources_of(job.policy, 0, job) if _has_times(source.trigger)]
    if not sources:
        raise Problem(
            "illegal-transition", "The job has no times of its own that went by: only every, cron and rrule have."
        )
    if start_ms >= end_ms:
        return ()
    times: set[int] = set()
    count = 0
    for trigger, anchor_ms, hash_id in sources:
        content = None if trigger.calendar is None else ctx.calendar(trigger.calendar)
        whose: dict[str, Any] = {"anchor_ms": anchor_ms, "hash_id": hash_id, "calendar": content}
        try:
            found = schedule.missed(trigger, start_ms - 1, end_ms - 1, keep=max_, **whose)
        except TriggerError as error:  # another node knew its zone when it was accepted
            raise Problem("not-possible", f"This node cannot compute the times: {error.detail}") from None
        times.update(found.times)
        count = max(count, found.count, len(times))
    if count > max_:
        detail = f"and to have {count:,} times between them; at most {max_:,} are allowed, ask for fewer"
        raise Problem("invalid-body", errors=[FieldError("/from", detail, "out-of-range")])
    return tuple(sorted(times))


def _has_times(trigger: Trigger) -> bool:
    """Returns whether the trigger has times that can be told afterwards."""
    return trigger.needs_calendar or (trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE)


def _preview(ctx: ApiContext, job: Job, times: tuple[int, ...], now_ms: int) -> web.Response:
    with ctx.read() as view:
        runs = times_without_run(view, job, times, now_ms)
    return reply_fields({"job_id": job_text(job.id), "count": len(runs), "times": [format_time(t) for t in runs]})


def _reply(job: Job, count: int) -> web.Response:
    location = runs.OF_JOB.at(id=job_text(job.id))
    return reply_fields({"job_id": job_text(job.id), "count": count}, 202, {"Location": location})
