"""Answers of the cluster as types. Times are aware datetimes in UTC; fields that only a newer node knows are
ignored.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from raftsched.client.ends import FINAL
from raftsched.client.generated import read_states, records, states
from raftsched.client.generated.records import *  # noqa: F403
from raftsched.client.generated.runs import Refused
from raftsched.client.generated.states import *  # noqa: F403

__all__ = ["FINAL", "Created", "Event", "Page", "Sweep"]
__all__ += records.__all__
__all__ += states.__all__


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is on the disks of a majority. `created` is False when it was there before: made under its name, or by
    an earlier attempt of this very call whose answer was lost."""

    id: str
    state: read_states.JobState
    revision: int
    next_fire_at: datetime | None = None
    name: str | None = None
    namespace: str = "default"
    created: bool = True
    warnings: tuple[records.JobWarning, ...] = ()  # what it asks for that nobody offers now; none of a batch


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of requeuing or discarding dead letters, or of ending instances; of a filter, over all its steps."""

    matched: int
    done: int
    refused: list[Refused]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was committed: of a job, an instance, or (`subject`) of something else in the cluster. Every node
    has it under the same id; going on after it is possible at any of them."""

    id: str  # index of the log entry, a dot, and the place in it
    at: datetime
    type: str  # such as "job.created", "instance.succeeded"
    namespace: str | None = None
    job_id: str | None = None
    job: str | None = None  # the name that the job has now
    state: str | None = None
    revision: int | None = None
    instance_id: str | None = None
    attempt: int | None = None
    node: str | None = None
    reason: str | None = None
    dead_letter: bool = False
    subject: str | None = None
    worker: str | None = None


class Page(msgspec.Struct, frozen=True):
    """One page of a list; `items` are decoded by who knows what they are."""

    items: list[msgspec.Raw]
    next: str | None = None
