"""The number of runs of one job that may be active at a time. A run between attempts, or one that waits for a worker,
counts; a held one does not."""

from __future__ import annotations

from raftsched.core.model import Job, Overlap, Policy

_ALLOW = Overlap.ALLOW


def concurrency_limit(policy: Policy) -> int | None:
    """Returns how many runs of the job may be active at one time, None when any number may."""
    if policy.max_concurrency:
        return policy.max_concurrency
    return None if policy.overlap is _ALLOW else 1


def can_start(job: Job) -> bool:
    """Returns whether one more may start."""
    most = concurrency_limit(job.policy)
    return most is None or job.active - job.held < most
