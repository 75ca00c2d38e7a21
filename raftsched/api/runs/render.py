"""Values of an instance that take more than an expression, as the API shows them: from a row of the INSTANCES table."""

from __future__ import annotations

from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.rows import JobHead, decode_head
from raftsched.core.model import ASKED_FOR, Attempt, Instance, InstanceState
from raftsched.core.subjects.notices import decode_notice
from raftsched.core.tables import ReadView, Table, u64
from raftsched.notices.cloudevents import event_id, event_type, subject_of
from raftsched.surface import output
from raftsched.surface.runs import EventShown, OutputOut, ProgressOut

NO_ATTEMPT = Attempt(number=0, node="", session=0, token=0, assigned_at_ms=0)
_BEFORE, _BEHIND = output.GET.path.split("{id}")  # the id of an instance
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


def shown_output(attempt: Attempt, name: str) -> OutputOut | None:
    """`name`: the id of the instance."""
    ref = attempt.output
    if ref is None:
        return None
    return OutputOut(
        node=attempt.output_node or attempt.node,
        size=ref.size,
        truncated=ref.truncated,
        sha256=ref.sha256.hex(),
        url=f"{_BEFORE}{name}{_BEHIND}?attempt={attempt.number}",
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
