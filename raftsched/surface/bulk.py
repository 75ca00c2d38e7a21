"""The JSON of operations on many jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from raftsched.bounds import BULK_IDS_MAX, LABELS_MAX
from raftsched.surface.enums import Action, JobState, OperationState, one_of
from raftsched.surface.jobs import FILTERS, STATES
from raftsched.surface.kinds import action, listing
from raftsched.surface.operation import READ, WRITES, AnyOf, Operation, Reply
from raftsched.surface.scalars import Duration, JobId, Namespace, Text, TextMap, Time, TimeText
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict


@typed_dict("BulkFilter", null=False)
class JobFilterIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The jobs of an action on many: all that is given has to hold. `state`: any of these. Times: from (inclusive),
    to (not included); `next` is the next fire time, and jobs that have none do not match."""

    namespace: Namespace | None = None
    name: Text | None = None
    name_prefix: Text | None = None
    name_contains: Text | None = None
    state: Annotated[list[JobState], Meta(max_length=4)] = []
    owner: Text | None = None
    labels: Annotated[TextMap, Meta(max_length=LABELS_MAX)] = {}
    queue: Text | None = None
    calendar: Text | None = None
    created_from: Time | None = None
    created_to: Time | None = None
    next_from: Time | None = None
    next_to: Time | None = None


class ActionsIn(msgspec.Struct, forbid_unknown_fields=True):
    """An action, and exactly one of ids, filter, all. `kill`: with expire, also asks what runs to end. `until`, or
    `for` from now on: with pause, the jobs are scheduled again by themselves then."""

    action: Action | None = None
    ids: Annotated[list[JobId], Meta(max_length=BULK_IDS_MAX, extra_json_schema={"minItems": 1})] | None = None
    filter: JobFilterIn | None = None
    all: bool = False
    kill: bool = False
    dry_run: bool = False
    until: Time | None = None
    for_: Duration | None = msgspec.field(default=None, name="for")


@record("Refusal")
class RefusalOut(msgspec.Struct):
    """A job on which the action was not possible, and the code of the problem."""

    id: str
    code: str
    title: str


@record(
    "Operation",
    types={"state": "OperationState", "filter": "dict[str, Any] | None"},
    base="raftsched.client.ends:EndOfOperation",
)
class OperationOut(msgspec.Struct):
    """The same done to many jobs, by the cluster, step by step.

    `total`: rows to look at, null when that is not known; `examined` of them were. Of the jobs that matched some
    were changed, some were that way already, and some refused, the first hundred of which are named. `ids`: how many
    were given, null when it goes by a filter. `until`: when those that it pauses are scheduled again."""

    id: str
    action: str
    state: str
    filter: JobFilterIn | None
    ids: int | None
    kill: bool
    created_at: TimeText
    modified_at: TimeText
    ended_at: TimeText | None
    total: int | None
    examined: int
    matched: int
    changed: int
    unchanged: int
    refused: int
    refusals: list[RefusalOut]
    until: TimeText | None = None


@record("Sample", types={"state": "JobState"})
class SampleOut(msgspec.Struct):
    id: str
    namespace: str
    name: str | None
    state: str


@record("DryRun", without=("dry_run",))
class DryRunOut(msgspec.Struct):
    """The jobs that an action would change. `complete`: all that had to be looked at was; else there may be more that
    matches."""

    action: str
    matched: int
    examined: int
    complete: bool
    sample: list[SampleOut]
    dry_run: bool = True


class DeletedOut(msgspec.Struct):
    deleted: int
    operation: OperationOut


ACT = action(
    "operations_act",
    "/v1/jobs:actions",
    "Run a bulk action on jobs",
    {202: Reply(OperationOut, "It goes on as an operation.", ("Location",)), 200: Reply(DryRunOut, "With dry_run.")},
    body=ActionsIn,
    codes=("not-found", "not-possible", "too-many"),
    body_max=256 * 1024,
    role="editor",
    scope="checked",
    says='{"action": ..., and one of "ids", "filter", "all": true}: 202 and the operation. With "dry_run" nothing is '
    "done: 200 and how many match. With an Idempotency-Key it may be sent again.",
)
DELETE_MATCHING = Operation(
    "operations_delete_matching",
    "DELETE",
    "/v1/jobs",
    "Delete matching jobs",
    {
        200: Reply(AnyOf((DeletedOut, DryRunOut)), "Done, or counted.", ("Location",)),
        202: Reply(DeletedOut, "It goes on as an operation.", ("Location",)),
    },
    query=(*FILTERS, "all", "dry_run"),
    headers=("Idempotency-Key",),
    schemas={"state": STATES},
    codes=(*WRITES, "not-found", "idempotency-mismatch", "not-possible", "too-many"),
    role="editor",
    says="?a filter as for the list, or ?all=true; with ?dry_run=true only counted. 200 when it is done, 202 when it "
    "goes on as an operation. With an Idempotency-Key it may be sent again: that deletes no job made since.",
)
GET = Operation(
    "operations_get",
    "GET",
    "/v1/operations/{id}",
    "Read an operation",
    {200: OperationOut},
    query=READ,
    role="viewer",
    scope="checked",
    sdk=Sdk(
        "Operations.get",
        (Arg("ref", "OperationRef", sent_as="id"),),
        "Read an operation. NotFoundError when it is not kept any more.",
    ),
)
CANCEL = action(
    "operations_cancel",
    "/v1/operations/{id}/cancel",
    "Cancel an operation",
    {200: OperationOut},
    codes=("illegal-transition",),
    role="editor",
    scope="checked",
    says="It makes no more steps; what was done stays. A repeat changes nothing.",
    sdk=Sdk(
        "Operations.cancel",
        (Arg("ref", "OperationRef", sent_as="id"),),
        "It makes no more steps; what was done stays. A repeat changes nothing; ConflictError when it has ended.",
    ),
)
LIST = listing(
    "operations_list_all",
    "/v1/operations",
    "List operations",
    OperationOut,
    "A page of operations, the newest first.",
    ("state",),
    schemas={"state": one_of(OperationState)},
    scope="checked",
    says="The newest first.",
    sdk=Sdk(
        "Operations.list",
        ("*", Arg("state", "OperationState | None", None)),
        "The newest first; `most` of them (None: all that are kept).",
    ),
)
