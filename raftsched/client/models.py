"""Answers of the cluster as types. Times are aware datetimes in UTC; fields that only a newer node knows are
ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from raftsched.client.generated.job_actions import Backfilled, Run
from raftsched.client.generated.jobs import Checked, Deleted
from raftsched.client.generated.schedules import Crontab, CrontabLine, DueDay, Occurrence, Preview

__all__ = [
    "FINAL",
    "Attempt",
    "Backfilled",
    "Changes",
    "Checked",
    "Created",
    "Crontab",
    "CrontabLine",
    "DeadLetter",
    "Deleted",
    "DueDay",
    "Event",
    "Found",
    "FoundLine",
    "Instance",
    "Occurrence",
    "Output",
    "OutputPiece",
    "Page",
    "Preview",
    "Progress",
    "RecentRun",
    "Refused",
    "Run",
    "Searched",
    "SilentNode",
    "Sweep",
]
FINAL = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"})


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is on the disks of a majority. `created` is False when it was there before: made under its name, or by
    an earlier attempt of this very call whose answer was lost."""

    id: str
    state: str
    revision: int
    next_fire_at: datetime | None = None
    name: str | None = None
    namespace: str = "default"
    created: bool = True


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an attempt's output."""

    node: str
    size: int  # bytes
    truncated: int  # bytes that are left out in the middle
    sha256: str
    url: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    node: str | None  # None: a remote worker has it
    session: int
    token: int  # fencing token
    assigned_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None  # None while it runs
    exit_code: int | None
    error: str | None
    result: Any
    output: Output | None
    worker: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: when the cluster heard of it."""

    percent: int | None
    text: str
    at: datetime


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """`job_name`: None for a job without a name; `namespace`: None when the job is gone."""

    id: str
    job_id: str
    job_name: str | None = None
    namespace: str | None = None
    state: str
    scheduled_at: datetime
    late_ms: int | None = None  # from when it was due to its first start; None for one that was asked for
    manual: bool
    priority: int
    node: str | None
    token: int | None
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    error: str | None
    reason: str | None
    kill_asked: bool
    dead_letter: bool
    job_revision: int
    created_at: datetime
    modified_at: datetime
    skipped: int
    skipped_until: datetime | None
    params: Any
    result: Any
    output: Output | None
    attempts: list[Attempt]
    event: dict[str, Any] | None = None  # what it delivers to a webhook
    worker: str | None = None  # in place of node: the remote worker that has its newest attempt
    parent: str | None = None  # the run of which it is a part
    shard: dict[str, int] | None = None  # of a part: index and count
    parts: dict[str, Any] | None = None  # of a run with parts: total, succeeded, failed, killed, and more
    trigger: str | None = None  # id of the one that it came from, of a job with several
    snoozes: int = 0  # how often it was put off
    progress: Progress | None = None  # how far its newest attempt is, by its own word
    saved_state: Any = None  # what it keeps for its next attempts
    expires_at: datetime | None = None  # of one that waits: it is skipped unless it starts before
    key: str | None = None  # that its limits by key are about
    cause: str | None = None  # the run by whose end it was started
    root: str | None = None  # the first run of its workflow
    joined: list[str] | None = None  # all runs that it waited for, where these were several
    passed: Any = None  # their results

    @property
    def final(self) -> bool:
        """Nothing more comes of it, unless somebody asks for a rerun."""
        return self.state in FINAL


class DeadLetter(Instance, frozen=True, kw_only=True):
    """An instance that failed for good."""

    dead_since: datetime


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    code: str
    detail: str


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


class RecentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in short."""

    id: str
    state: str
    scheduled_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    late_ms: int | None = None  # from when it was due to its first start; None: not known, or it was asked for


class FoundLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of output that holds what was searched for. `offset`: bytes of the output before it."""

    line: int  # counted from 1
    offset: int
    text: str  # or the part around it, of a long one


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt whose output holds what was searched for, in these lines; `more`: and in others."""

    instance_id: str
    attempt: int
    job_id: str
    namespace: str
    job_name: str | None
    scheduled_at: datetime
    node: str
    lines: list[FoundLine]
    more: bool


class SilentNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that did not search in so many outputs that only it has."""

    node: str
    outputs: int
    detail: str


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a search: what was found, how much was read for it, and what could not be."""

    items: list[Found]
    outputs: int
    bytes: int
    silent: list[SilentNode]
    next: str | None = None  # where the search goes on


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """A digest of what changed since the one before: its `kinds`, and the ids of `jobs` and `runs`. With `more` any of
    these may have changed; none is listed then. Going on after its id is possible at any node."""

    id: str  # index of the log
    at: datetime
    more: bool
    jobs: list[str]
    runs: list[str]
    kinds: list[str]  # such as "jobs", "runs", "cluster"
    leader: str | None = None


class OutputPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what one stream of an attempt printed, without anything of the other between."""

    offset: int  # bytes of both streams before it
    text: str
    stream: Literal["stdout", "stderr"]
    skipped: int = 0  # bytes just before it that are not told: not kept, or further back than `tail_bytes`


class Page(msgspec.Struct, frozen=True):
    """One page of a list; `items` are decoded by who knows what they are."""

    items: list[msgspec.Raw]
    next: str | None = None
