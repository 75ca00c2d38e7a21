"""Tells the jobs that somebody on call looks for: those that fail, and those that are late now."""

from __future__ import annotations

from itertools import islice

from raftsched.api.rows import instances_of
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.model import InstanceState, Job, JobState
from raftsched.core.rows import decode_instance
from raftsched.core.rules.lateness import is_overdue
from raftsched.core.subjects.minutes import LATE_MS
from raftsched.core.tables import ReadView

LOOK_MAX = 20  # runs of a job, the newest first, among which one that is late is looked for
_BAD = (InstanceState.FAILED, InstanceState.TIMED_OUT)


def is_failing(job: Job) -> bool:
    """Returns whether its last run failed or timed out. One that was killed says nothing of the job: as long as only
    such came since, the run before them counts. A job that was resumed or edited begins to count anew, but its last
    run stays what it was."""
    return job.failures_in_a_row > 0 or job.last_state in _BAD


def is_late(view: ReadView, job: Job, now_ms: int) -> bool:
    """Returns whether it is late now: its next time, or one of its newest runs, was due more than LATE_MS ago and has
    not begun. What waits for conditions, or was started by hand, is not late."""
    if job.state is JobState.SCHEDULED and job.fire_at_ms is not None and now_ms - job.fire_at_ms > LATE_MS:
        return True
    if not job.active:
        return False
    newest = islice(instances_of(view, job, 0, TIME_MAX_MS, None), LOOK_MAX)
    return any(is_overdue(decode_instance(raw), now_ms) for _, raw in newest)
