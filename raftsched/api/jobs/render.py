"""A row of the JOBS table -> the JSON of the API: its state, then its content as given, defaults filled in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from raftsched import schedule
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.preconditions import job_etag
from raftsched.api.jobs.generated import fill_in
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import FINAL, Attempt, InstanceState, Job, JobState, Policy, Trigger
from raftsched.schedule import TriggerError
from raftsched.surface.job_shapes import JobOut
from raftsched.surface.jobs_generated import JobShown

Contents = Callable[[str], bytes | None]  # of calendars, by name

log = logging.getLogger(__name__)

_shown = msgspec.json.Decoder(JobShown).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_moment = lru_cache(maxsize=64)(format_time)  # of a creation: it is that of the log's entry, which many share
_SCHEDULED = JobState.SCHEDULED
END_NAMES: dict[InstanceState | None, Any] = {None: None, **{state: state.name for state in FINAL}}
STATE_NAMES: list[Any] = ["", *(JobState(number).name for number in range(1, len(JobState) + 1))]  # by number


def next_fire_at_ms(job: Job, now_ms: int, calendar: Contents) -> int | None:
    """Returns when it fires next, jitter included. A calendar trigger whose next time the leader still owes is computed
    here, for display only; its jitter is not known yet."""
    if job.state is not _SCHEDULED:
        return None
    if job.triggers:
        return _next_of_several_ms(job, now_ms, calendar)
    if job.fire_at_ms is not None:
        return job.fire_at_ms
    limit = job.policy.trigger.max_runs
    if job.never_fires or (limit is not None and job.runs >= limit):
        return None
    after_ms = max(now_ms, job.skipped_until_ms or 0)
    return _next_ms(job.policy.trigger, job.anchor_at_ms, job.hash_id, after_ms, calendar)


def _next_of_several_ms(job: Job, now_ms: int, calendar: Contents) -> int | None:
    found = [job.fire_at_ms]
    for trigger, state in zip(job.policy.triggers, job.triggers, strict=True):
        if state.unscheduled_since_ms is not None:
            after_ms = max(now_ms, state.skipped_until_ms or 0)
            found.append(_next_ms(trigger, state.anchor_at_ms, job.hash_id, after_ms, calendar))
    return min((at_ms for at_ms in found if at_ms is not None), default=None)


def _next_ms(trigger: Trigger, anchor_ms: int, hash_id: int, after_ms: int, calendar: Contents) -> int | None:
    if not trigger.needs_calendar:
        return None
    try:
        content = None if trigger.calendar is None else calendar(trigger.calendar)
        return schedule.next_nominal(trigger, after_ms, anchor_ms=anchor_ms, hash_id=hash_id, calendar=content)
    except TriggerError:  # another node knew its zone when it was accepted
        return None


def job_json(job: Job, now_ms: int, calendar: Contents, attempt: Attempt | None = None) -> bytes:
    """`attempt`: one that began and that the job's row does not tell of yet."""
    started_at_ms, node = job.last_start_at_ms, job.last_node
    if attempt is not None:
        started_at_ms, node = attempt.started_at_ms, attempt.node
    created_at = _moment(job.created_at_ms)
    head = _encode(
        JobOut(  # in the order of its fields: names take four times as long
            job_text(job.id),
            job.name,
            job.namespace,
            STATE_NAMES[job.state],
            job.revision,
            format_time_or_none(next_fire_at_ms(job, now_ms, calendar)),
            None if job.last_instance is None else instance_text(job.last_instance),
            created_at,
            created_at if job.modified_at_ms == job.created_at_ms else format_time(job.modified_at_ms),
            job.active - job.held,
            job.active,
            job.runs,
            job.failures_in_a_row,
            format_time_or_none(started_at_ms),
            format_time_or_none(job.last_end_at_ms),
            node,
            error_of(job),
            format_time_or_none(job.resume_at_ms),
            END_NAMES[job.last_state],
            job.last_duration_ms,
        )
    )
    try:
        return content_json(head, job.body, job.policy)
    except ValueError as error:
        log.error("job %s cannot be shown whole: %s", job_text(job.id), error, extra={"job": job_text(job.id)})
        return _as_it_is(head, job.body)


def content_json(head: bytes, body: bytes, policy: Policy) -> bytes:
    """Returns the object `head` with the content of a job in it, defaults filled in. Raises ValueError."""
    content = _shown(body)
    fill_in(content, policy)
    return head[:-1] + b"," + _encode(content)[1:]


def _as_it_is(head: bytes, body: bytes) -> bytes:
    """Returns it without defaults, as far as it is JSON at all: one odd row must not take a whole page with it."""
    try:
        fields = _fields(body)
    except ValueError:
        fields = {}
    return head[:-1] + b"," + _encode(fields)[1:] if fields else head


def error_of(job: Job) -> str | None:
    """Why it was suspended, or why it has no next time though its trigger has some left."""
    return never_fires(job) if job.never_fires else job.error


def never_fires(job: Job) -> str:
    """Why a job has no next time though its trigger has some left."""
    names = job.policy.calendars
    which = f"calendar {names[0]}" if len(names) == 1 else f"calendars {', '.join(names)}"
    return f"All times ahead are excluded by the {which}."


def etag(job: Job) -> str:
    return job_etag(job_text(job.id), job.revision)
