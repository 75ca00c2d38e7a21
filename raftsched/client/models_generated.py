"""Made from api/jobs/fields.py by scripts/make-fields; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from raftsched.client.generated.job_shapes import JobWarning
from raftsched.client.generated.read_states import InstanceState, JobState


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its state, then its content."""

    id: str
    name: str | None
    namespace: str
    state: JobState  # NEW, SCHEDULED, SUSPENDED, EXPIRED
    revision: int
    next_fire_at: datetime | None
    last_instance: str | None
    created_at: datetime
    modified_at: datetime
    running: int
    active: int  # instances that are not at their end
    runs: int
    failures_in_a_row: int
    last_start_at: datetime | None
    last_end_at: datetime | None
    last_executor: str | None
    error: str | None  # that suspended it
    resumes_at: datetime | None = None  # it was paused until then
    last_state: InstanceState | None = None  # of the run that ended last
    last_duration_ms: int | None = None  # of the last attempt of that run; None: it never started
    # its content, as given, with the defaults filled in
    trigger: dict[str, Any] | None = None
    triggers: list[dict[str, Any]] = []
    max_runs: int | None = None
    handler: dict[str, Any]
    params: dict[str, Any] = {}
    description: str | None = None
    owner: str | None = None
    priority: int = 5
    queue: str = "default"
    timeout: str | None = None
    grace: str | None = None
    user: str | None = None
    delivery: str = "at_least_once"
    max_lost: int = 3
    suspend_after: int | None = None
    retry: dict[str, Any] | None = None
    outcomes: dict[str, Any] | None = None
    overlap: str = "forbid"
    misfire: dict[str, Any] | None = None
    max_concurrency: int | None = None
    concurrency: dict[str, Any] | None = None
    conditions: list[dict[str, Any]] = []
    conditions_timeout: str | None = None
    expires: str | None = None
    labels: dict[str, str] = {}
    placement: dict[str, Any] | None = None
    notify: dict[str, Any] | list[dict[str, Any]] | None = None
    retention: dict[str, Any] | None = None
    warnings: list[JobWarning] = []  # of the write that this answers: what nobody offers now
