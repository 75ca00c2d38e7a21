"""GET /v1/jobs/{id}/explain: why a job does not run, or when it does, from one place.

What keeps it from being due, what its next run would wait for, and how its newest run went: each is told by who tells
it of an instance. The work is bounded whatever the job is: of rows of a kind the newest are looked at, up to a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

from aiohttp import web

from raftsched import schedule
from raftsched.api.auth.audit_kept import newest_notes
from raftsched.api.auth.callers import sees
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time_or_none
from raftsched.api.http.replies import reply_value
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.explain_words import (
    Change,
    head_words,
    left_out_words,
    not_due,
    schedule_notes,
    state_word,
    without_calendar,
)
from raftsched.api.jobs.render import next_fire_at_ms
from raftsched.api.rows import SCAN_MAX, get_instance, record_of, requested_job
from raftsched.api.runs.explain import held_up, leaders_troubles, made_by, now_words, policy_of
from raftsched.api.runs.explain_words import gap_words, then_words
from raftsched.api.runs.parts_words import parts_words
from raftsched.api.runs.waiting import Obstacle, waits_for, would_wait_for
from raftsched.api.serving import serves
from raftsched.api.workers.seen import own_troubles
from raftsched.bounds import DAY_MS
from raftsched.core import rows
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Instance, InstanceState, Job, JobState, Trigger, scheduled_instance
from raftsched.core.subjects.access import JOBS_RING
from raftsched.core.tables import ReadView, Table, after, from_by_job, from_u64, name_key, u64
from raftsched.schedule import TriggerError
from raftsched.surface import explain as surface
from raftsched.surface.explain import JobExplainOut, ObstacleOut

DEAD_MAX = 200  # runs that failed, of which dead letters are counted
_BAD = (InstanceState.FAILED, InstanceState.TIMED_OUT)
_OF_STATE = ("actions_pause", "actions_resume", "actions_expire", "actions_put_state", "actions_delete_state")


@dataclass(slots=True)
class _Found:
    """The job and what is in its way, as of one moment."""

    job: Job
    obstacles: list[Obstacle] = field(default_factory=list)
    notes: list[Obstacle] = field(default_factory=list)


@serves(surface.JOB)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    slices = Slices()
    found = _read(ctx, call, own_troubles(ctx))
    troubles = await leaders_troubles(ctx, call.request)
    if troubles is not None:
        found = _read(ctx, call, troubles)
    await slices.turn()
    job, now_ms = found.job, ctx.now_ms()
    found.notes += schedule_notes(job, now_ms)
    found.notes += await _left_out(ctx, job, slices)
    with ctx.read() as view:
        found.notes += _of_runs(ctx, view, job, troubles or own_troubles(ctx))
    await slices.turn()
    next_ms = next_fire_at_ms(job, now_ms, ctx.calendar)
    return reply_value(
        JobExplainOut(
            id=job_text(job.id),
            job=None if job.name is None else f"{job.namespace}/{job.name}",
            namespace=job.namespace,
            state=job.state.name,
            text=" ".join([head_words(job, next_ms, now_ms), *(one.text for one in found.obstacles)]),
            next_fire_at=format_time_or_none(next_ms),
            obstacles=[ObstacleOut(one.reason, one.text) for one in found.obstacles],
            notes=[ObstacleOut(one.reason, one.text) for one in found.notes],
        )
    )


def _read(ctx: ApiContext, call: Call[None], troubles: Mapping[str, str]) -> _Found:
    now_ms = ctx.now_ms()
    with ctx.read() as view:
        job = requested_job(view, call)
        found = _Found(job)
        owed = view.get(Table.UNSCHEDULED, u64(job.id)) is not None
        obstacle = not_due(job, now_ms, _change(view, job), owed=owed)
        found.obstacles += [] if obstacle is None else [obstacle]
        found.obstacles += _upstream(view, job)
        if job.state is not JobState.EXPIRED:
            found.obstacles += would_wait_for(view, meta(view), ctx.cluster.status(), job, now_ms, troubles)
    return found


def _change(view: ReadView, job: Job) -> Change:
    """Returns who gave the job its state, as far as the newest notes of the audit reach back."""
    if job.state in (JobState.SCHEDULED, JobState.NEW) or job.error is not None:
        return Change("", None)
    subject = job_text(job.id)
    for note in newest_notes(view, JOBS_RING):
        if note.subject == subject and note.operation.removesuffix("_by_name") in _OF_STATE:
            return Change(note.name, note.at_ms)
        if note.at_ms < job.created_at_ms - DAY_MS:  # clocks of leaders differ, not by so much
            break
    before = rows.HISTORY.get(view, job.id, job.revision - 1)
    edited = before is not None and before.until_ms >= job.modified_at_ms
    return Change("", None if edited else job.modified_at_ms)


def _upstream(view: ReadView, job: Job) -> Iterator[Obstacle]:
    """Yields what is wrong with the jobs that it follows, as far as the caller may know them."""
    followed = job.policy.trigger.after
    for full in () if followed is None else followed.jobs:
        namespace, _, name = full.partition("/")
        if not sees(namespace):
            continue
        raw = view.get(Table.NAMES, name_key(namespace, name))
        other = None if raw is None else rows.JOBS.get(view, from_u64(raw))
        if other is None:
            yield Obstacle("upstream_missing", f"There is no job {full}, which it follows.")
        elif other.state is not JobState.SCHEDULED:
            yield Obstacle("upstream", f"The job {full}, which it follows, is {state_word(other.state)}.")


async def _left_out(ctx: ApiContext, job: Job, slices: Slices) -> list[Obstacle]:
    """Returns what calendars leave out of the next times of its triggers."""
    if job.state is not JobState.SCHEDULED:
        return []
    states = [(state.anchor_at_ms, state.nominal_at_ms) for state in job.triggers]
    found = []
    for trigger, (anchor_ms, next_ms) in zip(
        job.policy.all_triggers, states or [(job.anchor_at_ms, job.nominal_at_ms)], strict=True
    ):
        if trigger.calendar is not None and next_ms is not None:
            text = _excluded(trigger, ctx.now_ms(), next_ms, anchor_ms, job.hash_id)
            found += [Obstacle("calendar_gap", text)] if text else []
            await slices.turn()
    return found


def _excluded(trigger: Trigger, now_ms: int, next_ms: int, anchor_ms: int, hash_id: int) -> str:
    plain = without_calendar(trigger)
    try:
        first_ms = schedule.next_nominal(plain, now_ms, anchor_ms=anchor_ms, hash_id=hash_id)
        if first_ms is None or first_ms >= next_ms:
            return ""
        gone = schedule.missed(plain, now_ms, next_ms - 1, keep=0, anchor_ms=anchor_ms, hash_id=hash_id)
    except TriggerError:  # too many to count, or another node knew its zone
        return ""
    return "" if gone.until_ms is None else left_out_words(trigger, gone.count, first_ms, gone.until_ms)


# ---------------------------------------------------------------- its runs


def _of_runs(ctx: ApiContext, view: ReadView, job: Job, troubles: Mapping[str, str]) -> Iterator[Obstacle]:
    last = job.last_instance
    newest = None if last is None else get_instance(view, last) or record_of(view, last)
    if newest is not None:
        yield Obstacle("newest_run", _newest(ctx, view, job, newest, troubles))
    gap = None if job.gap is None or job.gap == last else get_instance(view, job.gap)
    if gap is not None and (newest is None or gap.nominal_at_ms > newest.nominal_at_ms):
        yield Obstacle("skipped", gap_words(gap, policy_of(view, job, gap), held_up(view, gap)))
    dead, more = _dead_letters(view, job)
    if dead:
        count = f"{dead} or more" if more else str(dead)
        are = "One of its runs is a dead letter" if count == "1" else f"{count} of its runs are dead letters"
        yield Obstacle(
            "dead_letters", f"{are}, until somebody requeues or discards {'it' if count == '1' else 'them'}."
        )


def _newest(ctx: ApiContext, view: ReadView, job: Job, row: Instance, troubles: Mapping[str, str]) -> str:
    policy, now_ms = policy_of(view, job, row), ctx.now_ms()
    obstacle = None
    if policy is not None:
        obstacle = waits_for(view, meta(view), ctx.cluster.status(), job, policy, row, now_ms, troubles)
    said = now_words(row, policy, obstacle, now_ms, parts_words(view, row))
    if not row.gap_count:  # of a record of what was left out, that says why
        said = f"{then_words(row, made_by(row), None, policy, outage=held_up(view, row))} {said}"
    return f"Its newest run is {instance_text(row.key)}. {said}"


def _dead_letters(view: ReadView, job: Job) -> tuple[int, bool]:
    """Returns how many of its newest runs that failed are dead letters, and whether there may be more."""
    if not job.failed:
        return 0, False
    prefix, own = u64(job.id), scheduled_instance(job)
    listed = islice(view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True), SCAN_MAX)
    keys = chain((from_by_job(key) for key, state in listed if state[0] in _BAD), () if own is None else (own,))
    failed = [get_instance(view, key) for key in islice(keys, DEAD_MAX)]
    return sum(row is not None and row.dead_letter for row in failed), len(failed) == DEAD_MAX
