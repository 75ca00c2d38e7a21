"""Backfill: the times of a job that are past and have no run."""

from __future__ import annotations

from raftsched.core import rows
from raftsched.core.ids import BACKFILL, instance_key
from raftsched.core.model import InstanceState, Job
from raftsched.core.tables import ReadView, Table, from_u64, u64


def times_without_run(view: ReadView, job: Job, times: tuple[int, ...], now_ms: int) -> list[int]:
    """Returns those of the nominal times that are past, will not come by themselves any more, and were never run as far
    as history reaches."""
    end_ms = now_ms
    for state in job.triggers:
        if state.unscheduled_since_ms is not None:
            end_ms = min(end_ms, state.unscheduled_since_ms)
        elif state.nominal_at_ms is not None:
            end_ms = min(end_ms, state.nominal_at_ms - 1)
    owed_since = view.get(Table.UNSCHEDULED, u64(job.id))
    if owed_since is not None:
        end_ms = min(end_ms, from_u64(owed_since))
    elif job.fire_at_ms is not None and job.nominal_at_ms is not None:
        end_ms = min(end_ms, job.nominal_at_ms - 1)
    return [at_ms for at_ms in times if at_ms <= end_ms and not _ran(view, job.id, at_ms)]


def _ran(view: ReadView, job_id: int, nominal_at_ms: int) -> bool:
    if view.get(Table.INSTANCES, instance_key(nominal_at_ms, job_id, BACKFILL)) is not None:
        return True
    request = 0  # higher ones where the trigger came back to a time
    while (row := rows.INSTANCES.get(view, instance_key(nominal_at_ms, job_id, request))) is not None:
        if row.state is not InstanceState.SKIPPED:
            return True
        request += 1
    return False
