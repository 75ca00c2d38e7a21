"""Runs in answers: instances, their attempts and parts, dead letters, statistics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, field

from raftsched.surface.enums import INSTANCE_STATES, LiveStateName, several_of
from raftsched.surface.kinds import action
from raftsched.surface.operation import READ, WRITES, AnyOf, Operation, PageOf, Reply
from raftsched.surface.scalars import Namespace, Text, Time, TimeText
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict
from raftsched.surface.specials import partial


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


class EventShown(msgspec.Struct):
    """The event that an instance delivers to a webhook. `subject`: the instance, job or node it is about, or null."""

    id: str
    type: str
    subject: str | None


@record("Output")
class OutputOut(msgspec.Struct):
    """The place of an attempt's output."""

    node: str
    size: int  # bytes
    truncated: int  # bytes that are left out in the middle
    sha256: str
    url: str


@record("Attempt")
class AttemptOut(msgspec.Struct):
    """`node`: that runs it; null: the remote `worker` of this name does."""

    number: int
    node: str | None
    session: int
    token: int  # fencing token
    assigned_at: TimeText
    started_at: TimeText | None
    ended_at: TimeText | None
    outcome: str | None  # null while it runs
    exit_code: int | None
    error: str | None
    result: Raw | None
    output: OutputOut | None
    worker: str | None = None


@record("Progress")
class ProgressOut(msgspec.Struct):
    """`percent`: null when only the text is known. `at`: when the cluster heard of it."""

    percent: int | None
    text: str
    at: TimeText


@record(
    "Instance",
    since={"job_name": None, "namespace": None, "late_ms": None, "event": None},
    types={
        "state": "InstanceState",
        "event": "dict[str, Any] | None",
        "shard": "dict[str, int] | None",
        "parts": "dict[str, Any] | None",
    },
    base="raftsched.client.ends:EndOfRun",
)
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
    scheduled_at: TimeText
    late_ms: int | None
    manual: bool
    priority: int
    node: str | None
    token: int | None
    attempt: int
    started_at: TimeText | None
    ended_at: TimeText | None
    exit_code: int | None
    error: str | None
    reason: str | None
    kill_asked: bool
    dead_letter: bool
    job_revision: int
    created_at: TimeText
    modified_at: TimeText
    skipped: int
    skipped_until: TimeText | None
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
    expires_at: TimeText | None = None
    snoozes: int = 0
    progress: ProgressOut | None = None
    saved_state: Raw | None = None
    key: str | None = None
    cause: str | None = None
    root: str | None = None
    joined: list[str] | None = None
    passed: Raw | None = None


@record("Refused")
class Refused(msgspec.Struct):
    id: str
    code: str
    detail: str


class RerunIn(msgspec.Struct, forbid_unknown_fields=True):
    """`downstream`: from here on, everything that follows it in its workflow, too."""

    downstream: bool = False


@typed_dict("InstanceFilter", null=False)
class InstanceFilter(msgspec.Struct):
    """Parameters of a list of instances. All that is given has to hold."""

    job: str  # an id, "namespace/name", or with `namespace` a name
    namespace: str
    state: str  # one, or several with commas
    node: str
    worker: str
    from_: Time = field(name="from")
    to: Time
    dead_letter: bool
    late: bool  # began more than a second after it was due


@typed_dict(
    "KillFilter",
    null=False,
    says='`job`: an id, "namespace/name", or with `namespace` a name. `state`: any of these; all of them unless given.',
)
class KillFilterIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A job (an id, or a name with a namespace) or a namespace, and what else has to hold. `state`: any of these; all
    of them unless given. `from` and `to` are about the scheduled time; `to` is not included."""

    job: Text | None = None
    namespace: Namespace | None = None
    state: Annotated[list[LiveStateName], Meta(max_length=4)] = []
    from_: Time | None = field(default=None, name="from")
    to: Time | None = None


class KillIn(msgspec.Struct, forbid_unknown_fields=True):
    """`cursor`: the `next` of the answer before."""

    filter: KillFilterIn | None = None
    dry_run: bool = False
    cursor: Text | None = None


class KilledOut(msgspec.Struct):
    """`killed`: ended, or asked to end. `sample`: with dry_run, some of those that match. `next`: the cursor of the
    request that goes on, null when all was looked at."""

    matched: int
    killed: int
    refused: list[Refused]
    sample: list[str]
    dry_run: bool
    next: str | None


@record("RecentRun", since={"started_at": None, "ended_at": None, "late_ms": None}, types={"state": "InstanceState"})
class RecentRun(msgspec.Struct):
    """A run in short. `late_ms`: between the time when it was due and its first start; null before that, and for what
    was asked for."""

    id: str
    state: str
    scheduled_at: TimeText
    started_at: TimeText | None
    ended_at: TimeText | None
    late_ms: int | None


@record("RecentRuns")
class RecentRuns(msgspec.Struct):
    """The newest scheduled time comes first."""

    job_id: str
    runs: list[RecentRun]


@record("Recent")
class RecentOut(msgspec.Struct):
    """In the order in which the jobs were asked for, without those that are not there."""

    items: list[RecentRuns]


FIELDS = InstanceOut.__struct_fields__
RECENT_JOBS_MAX = 50
RECENT_MAX = 50  # runs of each
RECENT_DEFAULT = 30

_FILTERS = ("state", "node", "worker", "from", "to", "dead_letter", "late", "fields", "limit", "cursor", *READ)
_SCHEMAS = {"state": INSTANCE_STATES, "fields": several_of(FIELDS)}
_PAGE = Reply(
    PageOf(AnyOf((InstanceOut, partial("InstancePart", InstanceOut)))),
    "A page of instances, the newest first.",
    ("Link",),
)
_REF = Arg("ref", "InstanceRef", sent_as="id")
_ENDED = Reply(InstanceOut, "It is ended, or asked to end.", ("Location",))

OF_JOB = Operation(
    "instances_list_of_job",
    "GET",
    "/v1/jobs/{id}/instances",
    "List the instances of a job",
    {200: _PAGE},
    query=_FILTERS,
    schemas=_SCHEMAS,
    by_name=True,
    role="viewer",
    scope="checked",
    sdk=Sdk(
        "Jobs.instances",
        (Arg("ref", "JobRef", sent_as="id"), "*", Arg("**filters", "Unpack[InstanceFilter]")),
        says="The newest scheduled time first.",
    ),
)
LIST = Operation(
    "instances_list_all",
    "GET",
    "/v1/instances",
    "List instances",
    {200: _PAGE},
    query=("job", "namespace", "parent", *_FILTERS),
    schemas=_SCHEMAS,
    codes=("not-found",),
    role="viewer",
    says='?job takes an id, "namespace/name", or a name together with ?namespace. The parts of a run are listed with '
    "?parent, in their order, and by the node or worker that they are on; else their run stands for them.",
    sdk=Sdk(
        "Instances.list",
        ("*", Arg("**filters", "Unpack[InstanceFilter]")),
        says="The newest scheduled time first; `most` of them (None: all).",
    ),
)
GET = Operation(
    "instances_get",
    "GET",
    "/v1/instances/{id}",
    "Read an instance",
    {200: InstanceOut},
    query=READ,
    role="viewer",
    scope="checked",
    sdk=Sdk("Instances.get", (_REF,), says="NotFoundError: there is none, or it is not kept any more."),
)
CANCEL = Operation(
    "instances_cancel",
    "DELETE",
    "/v1/instances/{id}",
    "Cancel an instance",
    {202: _ENDED},
    codes=(*WRITES, "illegal-transition"),
    role="editor",
    scope="checked",
    says="The same as POST .../kill: a running instance is asked to end, one that has not started is ended at once. It "
    "can be read until its retention is over.",
)
KILL = action(
    "instances_kill",
    "/v1/instances/{id}/kill",
    "Kill an instance",
    {202: _ENDED},
    codes=("illegal-transition",),
    role="editor",
    scope="checked",
    says="Asks a running instance to end, and ends at once one that has not started. With an Idempotency-Key the "
    "request may be repeated: a run that was started again since is not ended by that.",
    sdk=Sdk("Instances.kill", (_REF,), says="Asks what runs to end; ends at once what has not started."),
)
RERUN = action(
    "instances_rerun",
    "/v1/instances/{id}/rerun",
    "Run an instance again",
    {202: Reply(InstanceOut, "It waits again.", ("Location",))},
    body=RerunIn,
    body_required=False,
    codes=("illegal-transition", "too-many"),
    role="editor",
    scope="checked",
    work=True,
    says="One more attempt of an instance that has ended. Its end starts nothing that it started before; with "
    "`downstream` everything behind it in its workflow runs again, which needs the role editor in all namespaces of "
    "that. With an Idempotency-Key the request may be repeated.",
)
KILL_MATCHING = action(
    "kills_kill_matching",
    "/v1/instances:kill",
    "Kill matching instances",
    {200: KilledOut},
    body=KillIn,
    codes=("not-found",),
    body_max=16 * 1024,
    role="editor",
    scope="checked",
    says='{"filter": {"job": ...}}: instances that have not started end at once, running ones are asked to end, the '
    'newest first. With "dry_run" they are only counted. With an Idempotency-Key the request may be repeated.',
)
RECENT = Operation(
    "recent_get",
    "GET",
    "/v1/instances:recent",
    "Read the newest instances of many jobs",
    {200: RecentOut},
    query=("jobs", "count", *READ),
    required=("jobs",),
    schemas={"count": {"type": "integer", "minimum": 1, "maximum": RECENT_MAX, "default": RECENT_DEFAULT}},
    role="viewer",
    scope="checked",
    says="The `count` newest of each of these `jobs`. A job that is not there is left out.",
)
