"""Computes how late runs start: from when they were due to their first start, whichever attempt that was.

What a worker was given and did not start (its node was lost, stopped, or could start nothing) is a wait as any other.
What follows a start, a retry or another attempt after a lost worker, is not late by itself. An attempt of which nobody
heard that it started before its worker was lost counts as one that did not.
"""

from __future__ import annotations

from raftsched.core.model import ASKED_FOR, Attempt, Instance, InstanceState, Step, StepKind
from raftsched.core.subjects.minutes import LATE_MS

NOT_DUE = (StepKind.RERUN, StepKind.CONDITIONS)  # steps after which a start is not late: it was asked for, or waited
_ASSIGNED, _SPLIT = StepKind.ASSIGNED, StepKind.SPLIT
_NOT_BEGUN = (InstanceState.WAITING, InstanceState.LAUNCHED)


def first_start(row: Instance) -> Attempt | None:
    """Returns the first attempt of an instance that started. None: none has, or the first ones are kept no longer."""
    if not row.attempts or row.attempts[0].number != 1:
        return None
    return next((attempt for attempt in row.attempts if attempt.started_at_ms is not None), None)


def lateness_ms(row: Instance) -> int | None:
    """Returns the time between when it was due and its first start, of a run with parts until these were let go. None:
    it has not started, that is not known any more, or it was not due then: it was asked for, run again, or waited for
    its conditions."""
    first = first_start(row)
    token = 0 if first is None else first.token
    begins = ((at, step) for at, step in enumerate(row.steps) if step.kind is _SPLIT or _gives(step, token))
    at, begin = next(begins, (0, None))
    if first is not None:
        began_ms = first.started_at_ms
    elif row.parts is not None and begin is not None:
        began_ms = row.created_at_ms + begin.after_ms
    else:
        return None
    if began_ms is None or (row.steps and row.steps[0].detail in ASKED_FOR):
        return None
    if any(step.kind in NOT_DUE for step in row.steps[:at]):
        return None
    return max(0, began_ms - row.due_at_ms)


def _gives(step: Step, token: int) -> bool:
    """Returns whether the step gave the attempt with this token to its worker."""
    return step.kind is _ASSIGNED and step.token == token


def began_late(row: Instance) -> bool:
    """Returns whether it began more than LATE_MS after it was due."""
    late_ms = lateness_ms(row)
    return late_ms is not None and late_ms > LATE_MS


def is_overdue(row: Instance, now_ms: int) -> bool:
    """Returns whether it was due more than LATE_MS ago and has not begun, though it waits for no conditions."""
    if row.state not in _NOT_BEGUN or now_ms - row.due_at_ms <= LATE_MS or first_start(row) is not None:
        return False
    if row.steps and row.steps[0].detail in ASKED_FOR:
        return False
    return not any(step.kind in NOT_DUE for step in row.steps)
