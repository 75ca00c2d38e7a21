"""Made from api/runs/instance_fields.py by scripts/make-instances; not edited by hand."""

from __future__ import annotations

import msgspec

from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.runs.parts import shown_parts, shown_shard
from raftsched.api.runs.raw import shown_raw
from raftsched.api.runs.render import (
    NO_ATTEMPT,
    JobNames,
    is_manual,
    shown_event,
    shown_expiry,
    shown_output,
    shown_progress,
)
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Attempt, Instance
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.rules.lateness import lateness_ms
from raftsched.surface.runs import AttemptOut, InstanceOut, PartsOut


def shown_attempt(one: Attempt, name: str) -> AttemptOut:
    """Returns an attempt of the instance with this id."""
    return AttemptOut(
        one.number,  # number
        node_name(one.node),  # node
        one.session,  # session
        one.token,  # token
        format_time(one.assigned_at_ms),  # assigned_at
        format_time_or_none(one.started_at_ms),  # started_at
        format_time_or_none(one.ended_at_ms),  # ended_at
        None if one.outcome is None else one.outcome.name.lower(),  # outcome
        one.exit_code,  # exit_code
        one.error,  # error
        shown_raw(one.result),  # result
        shown_output(one, name),  # output
        worker_name(one.node),  # worker
    )


_encode = msgspec.json.Encoder().encode
_NO_ATTEMPT = shown_attempt(NO_ATTEMPT, "")


def instance_json(row: Instance, names: JobNames, parts: PartsOut | None = None) -> bytes:
    """Returns an InstanceOut as JSON. `parts`: what is said of its parts, where that is more than the row has."""
    one = row.attempts[-1] if row.attempts else NO_ATTEMPT
    name = instance_text(row.key)
    job = names.of(row.job_id)
    attempts = [shown_attempt(each, name) for each in row.attempts]
    newest = attempts[-1] if attempts else _NO_ATTEMPT
    return _encode(
        InstanceOut(
            name,  # id
            job_text(row.job_id),  # job_id
            job.name,  # job_name
            job.namespace or None,  # namespace
            row.state.name,  # state
            format_time(row.nominal_at_ms),  # scheduled_at
            lateness_ms(row),  # late_ms
            is_manual(row),  # manual
            row.priority,  # priority
            newest.node,  # node
            one.token or None,  # token
            one.number,  # attempt
            newest.started_at,  # started_at
            format_time_or_none(row.ended_at_ms),  # ended_at
            one.exit_code,  # exit_code
            row.error or one.error,  # error
            row.reason,  # reason
            row.kill_asked,  # kill_asked
            row.dead_letter,  # dead_letter
            row.job_revision,  # job_revision
            format_time(row.created_at_ms),  # created_at
            format_time(row.modified_at_ms),  # modified_at
            row.gap_count,  # skipped
            format_time_or_none(row.gap_until_ms),  # skipped_until
            shown_raw(row.params),  # params
            None if row.notice is None else shown_event(row.notice),  # event
            newest.result,  # result
            newest.output,  # output
            attempts,  # attempts
            newest.worker,  # worker
            None if row.parent is None else instance_text(row.parent),  # parent
            shown_shard(row),  # shard
            parts or shown_parts(row),  # parts
            row.trigger or None,  # trigger
            shown_expiry(row),  # expires_at
            row.snoozes,  # snoozes
            shown_progress(row),  # progress
            shown_raw(row.kept),  # saved_state
            None if row.permit is None else row.permit.key,  # key
            None if row.cause is None else instance_text(row.cause),  # cause
            None if row.root is None else instance_text(row.root),  # root
            [instance_text(each) for each in row.joined] or None,  # joined
            shown_raw(row.passed),  # passed
        )
    )
