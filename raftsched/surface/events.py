"""Events, one for each change in the cluster, and digests of many."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from raftsched.surface.enums import InstanceStateName, JobState, several_of
from raftsched.surface.operation import EVENT_STREAM, READ, READS, Operation, Reply
from raftsched.surface.scalars import TimeText
from raftsched.surface.sdk import record, typed_dict

EventType = Literal[
    "cluster.paused",
    "cluster.resumed",
    "instance.discarded",
    "instance.failed",
    "instance.kill_asked",
    "instance.killed",
    "instance.launched",
    "instance.retrying",
    "instance.running",
    "instance.skipped",
    "instance.succeeded",
    "instance.timed_out",
    "instance.waiting",
    "job.created",
    "job.deleted",
    "job.edited",
    "job.expired",
    "job.moved",
    "job.scheduled",
    "job.suspended",
    "leader.changed",
    "members.changed",
    "node.changed",
    "operation.ended",
    "operation.started",
    "queue.changed",
    "session.ended",
    "session.opened",
    "settings.changed",
    "webhook.changed",
    "zones.changed",
]
TYPES: tuple[str, ...] = get_args(EventType)
GROUPS = tuple(sorted({name.partition(".")[0] for name in TYPES}))  # each stands for all of its types
STATES = tuple(sorted({*get_args(JobState), *get_args(InstanceStateName), "DELETED"}))  # that events can be asked by


@typed_dict("EventFilter", null=False)
class EventFilter(msgspec.Struct):
    """Parameters of a stream of events. All that is given has to hold."""

    type: str  # such as "instance.failed" or "job", several with commas
    namespace: str
    job: str  # an id, "namespace/name", or with `namespace` a name
    state: str  # one, or several with commas


class _OfJob(msgspec.Struct):
    id: str
    at: TimeText
    type: str
    namespace: str
    job_id: str
    job: str | None


class JobEventOut(_OfJob):
    """`job`: the name that it has now; null when it has none, or is gone."""

    state: str
    revision: int


class InstanceEventOut(_OfJob):
    instance_id: str
    state: str
    attempt: int
    node: str | None
    reason: str | None
    dead_letter: bool
    worker: str | None = None


class ClusterEventOut(msgspec.Struct):
    """`subject`: the node, the queue, the operation that it is about."""

    id: str
    at: TimeText
    type: str
    subject: str | None


EventOut = JobEventOut | InstanceEventOut | ClusterEventOut


@record("Changes", since={"leader": None})
class ChangesOut(msgspec.Struct):
    """A digest of what changed since the one before. `id`: the index of the log up to which it tells, after which
    reading may go on at any node. `jobs` and `runs`: ids of those that changed; with `more` they are not listed,
    because there are too many, or it is not known which. `kinds` names all that changed. `leader`: the node that leads;
    null when there is none."""

    id: str
    at: TimeText
    more: bool
    jobs: list[str]
    runs: list[str]
    kinds: list[str]  # such as "jobs", "runs", "cluster"
    leader: str | None


LIST = Operation(
    "events_get",
    "GET",
    "/v1/events",
    "Stream events",
    {200: Reply({}, "Server-sent events, each an event as JSON.", media=EVENT_STREAM)},
    query=("after", "type", "namespace", "job", "state", "follow", *READ),
    headers=("Last-Event-ID",),
    schemas={"type": several_of((*GROUPS, *TYPES)), "state": several_of(STATES)},
    codes=(*READS, "not-found", "events-gone", "not-possible", "too-many"),
    streams=True,
    role="viewer",
    says="Server-sent events as they happen, until the reader disconnects; with follow=false those that are kept, and "
    "then the end.\n\nThe id of an event is the index of the log entry that caused it and its position there, the same "
    "on every node: Last-Event-ID, or `after`, continues at any of them. An event with nothing but an id only moves "
    'the reader on. One named "problem" ends the stream.',
)
CHANGES = Operation(
    "changes_get",
    "GET",
    "/v1/changes",
    "Stream digests of changes",
    {200: Reply({}, "Server-sent events, each a ChangesOut as JSON.", media=EVENT_STREAM)},
    query=("after", "follow", *READ),
    headers=("Last-Event-ID",),
    codes=(*READS, "too-many"),
    streams=True,
    role="viewer",
    scope="checked",
    says="For pages that show jobs and runs, and read them again when they changed: at most four digests a second, "
    "whatever happens. Each names the kinds of things that changed, and the ids of jobs and runs while these are few; "
    "with `more` any of them may have changed, and which is not said.\n\nThe id of a digest is an index of the log: "
    "Last-Event-ID, or `after`, continues at any node. That what happened since is not kept any more is no error; the "
    "first digest says `more` then. With follow=false: what changed since, and then the end. A caller is told of what "
    "they may read.",
)
