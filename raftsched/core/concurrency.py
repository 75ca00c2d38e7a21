"""How many runs of one job may be under way at one time. Between attempts, or waiting for a worker, counts; held does
not."""

from __future__ import annotations

from raftsched.core.model import Job, Overlap, Policy

_ALLOW = Overlap.ALLOW


def going_max(policy: Policy) -> int | None:
    """None: any number."""
    if policy.max_concurrency:
        return policy.max_concurrency
    return None if policy.overlap is _ALLOW else 1


def has_room(job: Job) -> bool:
    """Whether one more may be under way."""
    most = going_max(job.policy)
    return most is None or job.active - job.held < most
