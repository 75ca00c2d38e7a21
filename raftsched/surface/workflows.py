"""Workflows: the runs that were started by the end of others, from the first of them on."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

from raftsched.surface.enums import one_of
from raftsched.surface.kinds import action, listing
from raftsched.surface.operation import READ, Operation, Reply
from raftsched.surface.scalars import Time, TimeText
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict

WorkflowStateName = Literal["running", "succeeded", "failed", "killed"]


@typed_dict("WorkflowFilter", null=False)
class WorkflowFilter(msgspec.Struct):
    """Parameters of a list of workflows. All that is given has to hold."""

    job: str  # of the first run
    namespace: str
    state: WorkflowStateName
    from_: Time = field(name="from")
    to: Time


@record("WorkflowRun", types={"state": "InstanceState"})
class WorkflowRunOut(msgspec.Struct):
    """A run of a workflow. `job`: namespace/name, null for one without a name. `cause`: the run whose end started it,
    null of the first. `joined`: all that it waited for, where these were several."""

    id: str
    job_id: str
    job: str | None
    state: str
    reason: str | None
    error: str | None
    cause: str | None
    joined: list[str] | None
    attempt: int
    node: str | None
    worker: str | None
    created_at: TimeText
    started_at: TimeText | None
    ended_at: TimeText | None


@record("WorkflowCounts")
class WorkflowCounts(msgspec.Struct):
    """Runs by what they came to; `active` are not at their end."""

    active: int
    succeeded: int
    failed: int
    timed_out: int
    killed: int
    skipped: int


@record("Workflow", types={"state": "WorkflowState"}, base="raftsched.client.ends:EndOfWorkflow")
class WorkflowHead(msgspec.Struct, kw_only=True):
    """`id`: that of its first run, `job`: whose that is. `state`: running while anything of it is active; else killed,
    if it was killed or one of its runs was; else failed, if one failed or timed out. `reruns`: how often it was run
    again from somewhere on. `exact`: all of its runs were counted. `started_at`: when its first run started, null: it
    never did. `ended_at`: when the last of its runs ended, null while it runs, and of more than 1,000 runs."""

    id: str
    job: str | None
    state: WorkflowStateName
    scheduled_at: TimeText
    killed_at: TimeText | None
    reruns: int
    counts: WorkflowCounts
    exact: bool
    started_at: TimeText | None = None
    ended_at: TimeText | None = None


class WorkflowOut(WorkflowHead, kw_only=True):
    """`items`: a page of its runs, without those in namespaces that the caller may not see; `next`: the cursor of the
    following one."""

    items: list[WorkflowRunOut]
    next: str | None


@record("WorkflowKilled")
class WorkflowKilledOut(msgspec.Struct):
    """`killed`: runs that were ended, or asked to end."""

    id: str
    killed: int


LIST = listing(
    "workflows_list_all",
    "/v1/workflows",
    "List workflows",
    WorkflowHead,
    "A page of workflows.",
    WorkflowFilter.__struct_encode_fields__,
    schemas={"state": one_of(WorkflowStateName)},
    codes=("not-found",),
    scope="checked",
    says="Those of the newest scheduled time first, by the job and the namespace of their first run; runs that started "
    "no others are none here. A page may be short while `next` says that there is more.",
    sdk=Sdk(
        "Workflows.list",
        ("*", Arg("**filters", "Unpack[WorkflowFilter]")),
        says="The newest scheduled time first; `most` of them (None: all). Runs that started no others are none here.",
    ),
)
GET = Operation(
    "workflows_get",
    "GET",
    "/v1/workflows/{id}",
    "Read a workflow",
    {200: WorkflowOut},
    query=("limit", "cursor", *READ),
    role="viewer",
    scope="checked",
    says="All runs of one root, by its id or that of any of them. A run that started no other is a workflow of its "
    "own.",
)
KILL = action(
    "workflows_kill",
    "/v1/workflows/{id}/kill",
    "Kill a workflow",
    {
        202: Reply(
            WorkflowKilledOut, "Its runs are ended, or asked to end.", ("Location",), leads_to="/v1/workflows/{id}"
        )
    },
    codes=("illegal-transition",),
    role="editor",
    scope="checked",
    says="All of its runs that are active are ended or asked to end, and no end of one starts any more of it. Runs in "
    "namespaces in which the caller may end none go on to their end. It goes by the id of its first run, and needs its "
    "role in the namespace of that. With an Idempotency-Key the request may be repeated.",
    sdk=Sdk(
        "Workflows.kill",
        (Arg("ref", "WorkflowRef", sent_as="id"),),
        says="Ends all of its runs that are active, or asks them to end, and lets nothing more of it start. Returns "
        'how many these were. ConflictError "illegal-transition" for a run that is not its first.',
        gives="killed",
        returns="int",
    ),
)
