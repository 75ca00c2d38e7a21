"""The fields of an instance and of an attempt as the API shows them, one row each.

`generated.py` has the same expressions without a call for each, for answers with all fields; `scripts/make-instances`
writes it. For `?fields` the rows are called that it names, and nothing else is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.runs.generated import instance_json, shown_attempt
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

# An instance, one of its attempts, the names of jobs -> the value of a field. Of INSTANCE the attempt is the newest.
Show = Callable[[Instance, Attempt, JobNames], Any]

# What several fields are made of: computed once where all are shown.
SHARED: dict[str, Show] = {
    "name": lambda row, one, names: instance_text(row.key),
    "job": lambda row, one, names: names.of(row.job_id),
    "attempts": lambda row, one, names: [shown_attempt(each, instance_text(row.key)) for each in row.attempts],
}
ATTEMPT: dict[str, Show] = {
    "number": lambda row, one, names: one.number,
    "node": lambda row, one, names: node_name(one.node),
    "session": lambda row, one, names: one.session,
    "token": lambda row, one, names: one.token,
    "assigned_at": lambda row, one, names: format_time(one.assigned_at_ms),
    "started_at": lambda row, one, names: format_time_or_none(one.started_at_ms),
    "ended_at": lambda row, one, names: format_time_or_none(one.ended_at_ms),
    "outcome": lambda row, one, names: None if one.outcome is None else one.outcome.name.lower(),
    "exit_code": lambda row, one, names: one.exit_code,
    "error": lambda row, one, names: one.error,
    "result": lambda row, one, names: shown_raw(one.result),
    "output": lambda row, one, names: shown_output(one, instance_text(row.key)),
    "worker": lambda row, one, names: worker_name(one.node),
}
INSTANCE: dict[str, Show] = {
    "id": lambda row, one, names: instance_text(row.key),
    "job_id": lambda row, one, names: job_text(row.job_id),
    "state": lambda row, one, names: row.state.name,
    "scheduled_at": lambda row, one, names: format_time(row.nominal_at_ms),
    "late_ms": lambda row, one, names: lateness_ms(row),
    "manual": lambda row, one, names: is_manual(row),
    "priority": lambda row, one, names: row.priority,
    "node": ATTEMPT["node"],
    "worker": ATTEMPT["worker"],
    "token": lambda row, one, names: one.token or None,
    "attempt": lambda row, one, names: one.number,
    "started_at": ATTEMPT["started_at"],
    "ended_at": lambda row, one, names: format_time_or_none(row.ended_at_ms),
    "exit_code": lambda row, one, names: one.exit_code,
    "error": lambda row, one, names: row.error or one.error,
    "reason": lambda row, one, names: row.reason,
    "kill_asked": lambda row, one, names: row.kill_asked,
    "dead_letter": lambda row, one, names: row.dead_letter,
    "job_revision": lambda row, one, names: row.job_revision,
    "created_at": lambda row, one, names: format_time(row.created_at_ms),
    "modified_at": lambda row, one, names: format_time(row.modified_at_ms),
    "skipped": lambda row, one, names: row.gap_count,
    "skipped_until": lambda row, one, names: format_time_or_none(row.gap_until_ms),
    "params": lambda row, one, names: shown_raw(row.params),
    "event": lambda row, one, names: None if row.notice is None else shown_event(row.notice),
    "result": ATTEMPT["result"],
    "output": ATTEMPT["output"],
    "parent": lambda row, one, names: None if row.parent is None else instance_text(row.parent),
    "shard": lambda row, one, names: shown_shard(row),
    "parts": lambda row, one, names: shown_parts(row),
    "trigger": lambda row, one, names: row.trigger or None,
    "expires_at": lambda row, one, names: shown_expiry(row),
    "snoozes": lambda row, one, names: row.snoozes,
    "progress": lambda row, one, names: shown_progress(row),
    "saved_state": lambda row, one, names: shown_raw(row.kept),
    "key": lambda row, one, names: None if row.permit is None else row.permit.key,
    "cause": lambda row, one, names: None if row.cause is None else instance_text(row.cause),
    "root": lambda row, one, names: None if row.root is None else instance_text(row.root),
    "joined": lambda row, one, names: [instance_text(each) for each in row.joined] or None,
    "passed": lambda row, one, names: shown_raw(row.passed),
    "attempts": SHARED["attempts"],
    "job_name": lambda row, one, names: names.of(row.job_id).name,
    "namespace": lambda row, one, names: names.of(row.job_id).namespace or None,
}

_encode = msgspec.json.Encoder().encode


def renderer_of(fields: Collection[str] | None) -> Callable[[Instance, JobNames], bytes]:
    """Returns what makes the JSON of these fields of an instance; None: of all of them."""
    if fields is None:
        return instance_json
    shown = [(name, INSTANCE[name]) for name in fields]

    def part_of(row: Instance, names: JobNames) -> bytes:
        newest = row.attempts[-1] if row.attempts else NO_ATTEMPT
        return _encode({name: show(row, newest, names) for name, show in shown})

    return part_of
