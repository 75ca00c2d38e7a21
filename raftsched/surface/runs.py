"""Runs in answers: instances, their attempts and parts, dead letters, statistics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, field

from raftsched.surface.scalars import InstanceId, Namespace, Text, Time


class ShardOut(msgspec.Struct):
    index: int
    count: int


class PartResult(msgspec.Struct):
    index: int
    state: str
    result: Raw | None = None
    error: str | None = None


class PartsOut(msgspec.Struct):
    """The parts of a run. `running`, `waiting` and `results`, by index, where the run is read by itself; `results_cut`:
    there are more than are shown."""

    total: int
    succeeded: int
    failed: int
    killed: int
    running: int | None = None
    waiting: int | None = None
    results: list[PartResult] | None = None
    results_cut: bool = False


class DeadFilterIn(msgspec.Struct, forbid_unknown_fields=True):
    """`from` and `to` are about the time since which it is a dead letter; `to` is not included."""

    job: Text | None = None
    namespace: Namespace | None = None
    name_prefix: Text | None = None
    from_: Time | None = field(default=None, name="from")
    to: Time | None = None


class RequeueIn(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of ids, filter, all."""

    ids: Annotated[list[InstanceId], Meta(max_length=1_000)] | None = None
    filter: DeadFilterIn | None = None
    all: bool = False
    dry_run: bool = False
    cursor: Text | None = None


class DeadLetterOut(msgspec.Struct):
    """The part of a dead letter that comes before the instance in the same object."""

    dead_since: str


class EventShown(msgspec.Struct):
    """The event that an instance delivers to a webhook. `subject`: the instance, job or node it is about, or null."""

    id: str
    type: str
    subject: str | None


class OutputOut(msgspec.Struct):
    node: str
    size: int
    truncated: int
    sha256: str
    url: str


class AttemptOut(msgspec.Struct):
    """`node`: that runs it; null: the remote `worker` of this name does."""

    number: int
    node: str | None
    session: int
    token: int
    assigned_at: str
    started_at: str | None
    ended_at: str | None
    outcome: str | None
    exit_code: int | None
    error: str | None
    result: Raw | None
    output: OutputOut | None
    worker: str | None = None


class ProgressOut(msgspec.Struct):
    """`percent`: null when only the text is known. `at`: when the cluster heard of it."""

    percent: int | None
    text: str
    at: str


class InstanceOut(msgspec.Struct):
    """`job_name`: null for a job without a name; `namespace`: null when the job is gone. `late_ms`: between the time
    when it was due and its first start, by whichever attempt; null before that, for what was asked for, and for what
    waited for its conditions. `node`, or `worker`: what its
    newest attempt was given to, a node or a remote worker. `parent`: the run of which this is a part; `shard`: which
    one of how many, null of a part for one node. `parts`: of a run that was split into them. `trigger`: the id of the
    one that it came from, of a job with several. `expires_at`: of one that waits: it is skipped unless it starts
    before; null: it waits on, or has begun. `snoozes`: how often it was put off. `progress`: how far its newest attempt
    is, by its own word. `saved_state`: what it keeps for its next attempts. `key`: that its limits by key are about.
    `cause`: the run by whose end it was started; `root`: the first of these, by whose id the workflow goes; `joined`:
    all that it waited for, where these were several; `passed`: their results."""

    id: str
    job_id: str
    job_name: str | None
    namespace: str | None
    state: str
    scheduled_at: str
    late_ms: int | None
    manual: bool
    priority: int
    node: str | None
    token: int | None
    attempt: int
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    error: str | None
    reason: str | None
    kill_asked: bool
    dead_letter: bool
    job_revision: int
    created_at: str
    modified_at: str
    skipped: int
    skipped_until: str | None
    params: Raw | None
    event: EventShown | None
    result: Raw | None
    output: OutputOut | None
    attempts: list[AttemptOut]
    worker: str | None = None
    parent: str | None = None
    shard: ShardOut | None = None
    parts: PartsOut | None = None
    trigger: str | None = None
    expires_at: str | None = None
    snoozes: int = 0
    progress: ProgressOut | None = None
    saved_state: Raw | None = None
    key: str | None = None
    cause: str | None = None
    root: str | None = None
    joined: list[str] | None = None
    passed: Raw | None = None


class DistributionOut(msgspec.Struct):
    """Statistics of durations, in milliseconds; null when there are none."""

    count: int
    mean: int | None
    p50: int | None
    p90: int | None
    p99: int | None
    max: int | None


class StatsOut(msgspec.Struct):
    """Instances that were due from `from` to before `to`. `complete`: all of them were looked at, back to
    `counted_from`. `lateness` is that of first starts after due time and jitter, `duration` that of attempts that
    ended by themselves. `skipped_fires`: due times that did not run, of which a record may stand for
    many."""

    from_: str = msgspec.field(name="from")
    to: str
    counted_from: str
    complete: bool
    instances: dict[str, int]
    attempts: dict[str, int]
    skipped_fires: int
    dead_letters: int
    duration: DistributionOut
    lateness: DistributionOut
    jobs: dict[str, int] | None = None
