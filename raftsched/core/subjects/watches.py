"""Defines limits that jobs set for themselves: late, running long, not run since. When they are reached, and the
command that says that it is so far.

A job or an instance that is watched has a row in WATCHES with the time at which the next of its limits is reached; the
leader asks for a look then, and apply tells whom it concerns. Nothing walks over jobs, and one that asks for none of
this has no such row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftsched.core.model import Instance, Job, JobState, StepKind
from raftsched.core.subjects.command import Command
from raftsched.core.subjects.notices import Event, Notify

if TYPE_CHECKING:
    from collections.abc import Iterator

RECENT_MAX = 20  # durations of a job that are kept
RECENT_LEAST = 5  # with fewer there is no percentile
LIMIT_LEAST_MS = 1_000  # that a percentile makes: a run of 3 ms is not long because it takes 10

_OVER = (JobState.EXPIRED, JobState.DELETED)


class Watch(Command, frozen=True, tag=150):
    """A limit of a job or an instance is reached (its WATCHES key)."""

    about: bytes
    at_ms: int


def not_run_at(job: Job) -> int | None:
    """Returns when the next limit is reached that the job sets for its not having succeeded; None: it sets none that
    was not told. A job that is over, or is due once, has none. It counts while the job is suspended, too."""
    if job.state in _OVER or job.policy.trigger.once:
        return None
    since_ms = not_run_since(job)
    limits = (since_ms + one.not_run_ms for one in job.policy.notify if asks(one, Event.NOT_RUN_SINCE))
    return min((at_ms for at_ms in limits if at_ms > job.not_run_told_ms), default=None)


def not_run_since(job: Job) -> int:
    """Returns from when it counts that a job has not succeeded: from its last success, or since it has its trigger."""
    return max(job.anchor_at_ms, job.last_success_at_ms or 0)


def asks(one: Notify, event: Event) -> bool:
    """Returns whether a job asks for the event, and says by which measure."""
    if event not in one.on:
        return False
    if event is Event.LATE:
        return one.late_ms > 0
    if event is Event.RUNNING_LONG:
        return one.longer_ms > 0 or one.p95_percent > 0
    return one.not_run_ms > 0


def limits_of(job: Job, instance: Instance) -> Iterator[tuple[Notify, Event, int]]:
    """Yields the limits that the job sets for the instance as it is now, and has not told of: whom to tell, what, and
    the time from `counts_from` on."""
    event = Event.LATE if started_ms(instance) is None else Event.RUNNING_LONG
    for one in job.policy.notify:
        if asks(one, event) and (int(event), one.webhook) not in instance.told:
            limit_ms = one.late_ms if event is Event.LATE else longest_ms(job, one)
            if limit_ms is not None:
                yield one, event, limit_ms


def counts_from(instance: Instance) -> int:
    """Returns from when it counts that an instance is late, or runs long."""
    since_ms = started_ms(instance)
    return instance.due_at_ms if since_ms is None else since_ms


def longest_ms(job: Job, one: Notify) -> int | None:
    """Returns how long an attempt may take until it runs long; None: not enough is known of what others took."""
    limits = [one.longer_ms] if one.longer_ms else []
    usual_ms = p95_ms(job.recent_ms) if one.p95_percent else None
    if usual_ms is not None:
        limits.append(max(LIMIT_LEAST_MS, usual_ms * one.p95_percent // 100))
    return min(limits, default=None)


def p95_ms(recent_ms: tuple[int, ...]) -> int | None:
    """Returns the 95th percentile of these durations, by the nearest rank; None: they are too few."""
    count = len(recent_ms)
    return None if count < RECENT_LEAST else sorted(recent_ms)[(95 * count + 99) // 100 - 1]


def started_ms(instance: Instance) -> int | None:
    """Returns when the attempt started that goes on, or a run with parts was split last; None: nothing goes on."""
    if instance.parts is not None:
        return split_ms(instance)
    live = instance.live
    return None if live is None else live.started_at_ms


def split_ms(instance: Instance) -> int | None:
    """Returns when a run with parts was split last."""
    splits = (step for step in reversed(instance.steps) if step.kind is StepKind.SPLIT)
    split = next(splits, None)
    return None if split is None else instance.created_at_ms + split.after_ms
