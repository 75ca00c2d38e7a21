"""A row of the INSTANCES table, with the name of its job -> the JSON of the API."""

from __future__ import annotations

import msgspec

from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.jobs.parts_schema import PartsOut
from raftsched.api.jobs.schema import AttemptOut, EventShown, InstanceOut, OutputOut, ProgressOut
from raftsched.api.rows import JobHead, decode_head
from raftsched.api.runs.parts import shown_parts, shown_shard
from raftsched.api.runs.raw import shown_raw
from raftsched.core.ids import instance_key, instance_text, job_text
from raftsched.core.model import ASKED_FOR, Attempt, Instance, InstanceState
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.rules.lateness import lateness_ms
from raftsched.core.subjects.notices import decode_notice
from raftsched.core.tables import ReadView, Table, u64
from raftsched.notices.cloudevents import event_id, event_type, subject_of

_encode = msgspec.json.Encoder().encode


_NO_JOB = JobHead(0, "", None)


class JobNames:
    """Looks up namespace and name of jobs, each once. A deleted job has them until its last run has ended. `view`: may
    be changed for a later one, where a list is made in slices of time."""

    def __init__(self, view: ReadView) -> None:
        self.view = view
        self._found: dict[int, JobHead] = {}

    def of(self, job_id: int) -> JobHead:
        found = self._found.get(job_id)
        if found is None:
            raw = self.view.get(Table.JOBS, u64(job_id))
            found = self._found[job_id] = _NO_JOB if raw is None else decode_head(raw)
        return found


def _output(attempt: Attempt, name: str) -> OutputOut | None:
    ref = attempt.output
    if ref is None:
        return None
    return OutputOut(
        node=attempt.output_node or attempt.node,
        size=ref.size,
        truncated=ref.truncated,
        sha256=ref.sha256.hex(),
        url=f"/v1/instances/{name}/output?attempt={attempt.number}",
    )


def shown_attempt(attempt: Attempt, name: str) -> AttemptOut:
    return AttemptOut(
        number=attempt.number,
        node=node_name(attempt.node),
        session=attempt.session,
        token=attempt.token,
        assigned_at=format_time(attempt.assigned_at_ms),
        started_at=format_time_or_none(attempt.started_at_ms),
        ended_at=format_time_or_none(attempt.ended_at_ms),
        outcome=None if attempt.outcome is None else attempt.outcome.name.lower(),
        exit_code=attempt.exit_code,
        error=attempt.error,
        result=shown_raw(attempt.result),
        output=_output(attempt, name),
        worker=worker_name(attempt.node),
    )


def shown_progress(row: Instance) -> ProgressOut | None:
    said = row.progress
    return None if said is None else ProgressOut(said.percent, said.text, format_time(said.at_ms))


def shown_expiry(row: Instance) -> str | None:
    return format_time_or_none(row.expires_at_ms if row.state is InstanceState.WAITING else None)


def shown_event(raw: bytes) -> EventShown:
    notice = decode_notice(raw)
    return EventShown(event_id(notice), event_type(notice.event), subject_of(notice))


def is_manual(row: Instance) -> bool:
    return row.notice is None and row.steps[0].detail in ASKED_FOR and row.cause is None


def instance_json(row: Instance, names: JobNames, parts: PartsOut | None = None) -> bytes:
    """An InstanceOut. The fields of the newest attempt stand beside those of the instance. `parts`: what is said of its
    parts, where that is more than the row has."""
    job = names.of(row.job_id)
    name = instance_text(instance_key(row.nominal_at_ms, row.job_id, row.request))
    attempts = [shown_attempt(a, name) for a in row.attempts]
    last = attempts[-1] if attempts else None
    return _encode(
        InstanceOut(
            id=name,
            job_id=job_text(row.job_id),
            job_name=job.name,
            namespace=job.namespace or None,
            state=row.state.name,
            scheduled_at=format_time(row.nominal_at_ms),
            late_ms=lateness_ms(row),
            manual=is_manual(row),
            priority=row.priority,
            node=last.node if last else None,
            token=last.token if last else None,
            attempt=last.number if last else 0,
            started_at=last.started_at if last else None,
            ended_at=format_time_or_none(row.ended_at_ms),
            exit_code=last.exit_code if last else None,
            error=row.error or (last.error if last else None),
            reason=row.reason,
            kill_asked=row.kill_asked,
            dead_letter=row.dead_letter,
            job_revision=row.job_revision,
            created_at=format_time(row.created_at_ms),
            modified_at=format_time(row.modified_at_ms),
            skipped=row.gap_count,
            skipped_until=format_time_or_none(row.gap_until_ms),
            params=shown_raw(row.params),
            event=None if row.notice is None else shown_event(row.notice),
            result=last.result if last else None,
            output=last.output if last else None,
            attempts=attempts,
            worker=last.worker if last else None,
            parent=None if row.parent is None else instance_text(row.parent),
            shard=shown_shard(row),
            parts=parts or shown_parts(row),
            trigger=row.trigger or None,
            expires_at=shown_expiry(row),
            snoozes=row.snoozes,
            progress=shown_progress(row),
            saved_state=shown_raw(row.kept),
            key=None if row.permit is None else row.permit.key,
            cause=None if row.cause is None else instance_text(row.cause),
            root=None if row.root is None else instance_text(row.root),
            joined=[instance_text(one) for one in row.joined] or None,
            passed=shown_raw(row.passed),
        )
    )
