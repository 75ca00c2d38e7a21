"""Refuses what several commands refuse."""

from __future__ import annotations

from raftsched.core.commands import Rejected
from raftsched.core.ids import instance_text, job_text
from raftsched.core.limits import KEY_SIZE, U64_MAX
from raftsched.core.model import Job
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE


def no_job(job_id: int) -> Rejected:
    return Rejected("not-found", f"There is no job {job_text(job_id & U64_MAX)}.")


def no_instance(key: bytes) -> Rejected:
    text = instance_text(key) if len(key) == KEY_SIZE else key.hex()[:64]
    return Rejected("not-found", f"There is no instance {text}.")


def reject_system_job(job: Job) -> Rejected | None:
    """Refuses to change a job that the cluster made for itself, whoever asks."""
    if job.namespace != SYSTEM_NAMESPACE:
        return None
    return Rejected(
        "illegal-transition", f"The job belongs to the webhook {job.name}; change it at /v1/webhooks/{job.name}."
    )
