"""Jobs: made, read, changed, checked, compared, listed."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from raftsched.surface import job_shapes
from raftsched.surface.enums import JobState, several_of
from raftsched.surface.jobs_generated import JobIn
from raftsched.surface.kinds import listing, tagged_read
from raftsched.surface.operation import (
    JOB,
    JOB_BODIES,
    JSON,
    MERGE_PATCH,
    NAMED_JOB,
    READ,
    WRITES,
    Operation,
    PageOf,
    Reply,
)
from raftsched.surface.scalars import Time, TimeText
from raftsched.surface.schedules import Moment
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict


@typed_dict("JobFilter", null=False)
class JobFilter(msgspec.Struct):
    """Parameters of a list of jobs. All that is given has to hold."""

    namespace: str
    name: str
    name_prefix: str
    name_contains: str
    state: str  # one, or several with commas
    owner: str
    label: str  # key=value
    queue: str
    calendar: str
    created_from: Time
    created_to: Time
    next_from: Time
    next_to: Time
    failing: bool  # the run that ended last failed or timed out, or the one before those that were killed since
    late: bool  # due more than a second ago, and the run has not begun
    order: Literal["asc", "desc"]


LIST_ONLY = ("failing", "late", "order")  # what goes by how runs are now: no action on many jobs is made by it
FILTERS = tuple(name for name in JobFilter.__struct_fields__ if name not in LIST_ONLY)
ADDRESS = JOB.partition("{")[0]  # of a job, before its id
STATES = several_of(get_args(JobState))
BATCH_BODY_MAX = 16 * 1024 * 1024  # bytes
LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
Result = Literal["created", "changed", "unchanged"]


@record(
    "Deleted",
    since={"deleted": 1, "ending": None},
    types={"ending": "int | None"},
    says="`ending`: runs of the job that were under way and are asked to end; None: the answer that said it was lost.",
)
class JobDeleted(msgspec.Struct):
    """`deleted`: how many jobs were. `ending`: runs of it that were under way and are asked to end."""

    deleted: int
    ending: int


@record("Checked", since={"more": False, "warnings": []})
class CheckedOut(msgspec.Struct):
    """A job that could be written, and the `result` that this would have. `job`: its content, defaults filled in.
    `description` and `next`: its trigger in words, and its next times. `warnings`: what it asks for that nobody offers
    now; it would be written all the same."""

    result: Result
    job: dict[str, Any]
    description: str
    next: list[Moment]
    more: bool
    warnings: list[job_shapes.WarningOut]


class ComparisonOut(msgspec.Struct):
    """Jobs as they are given, without defaults."""

    result: Result
    before: dict[str, Any] | None
    after: dict[str, Any]


class ComparedOut(msgspec.Struct, omit_defaults=True):
    """`refused`: by the `detail`, as a PUT of the job would be. `etag`: of the job that there is, for the If-Match of
    that PUT. `warnings`: of one that would be written, what it asks for that nobody offers now."""

    result: Literal["created", "changed", "unchanged", "refused"]
    detail: str | None = None
    etag: str | None = None
    warnings: list[job_shapes.WarningOut] = []


class ComparedPage(msgspec.Struct):
    """One for each job, in their order."""

    items: list[ComparedOut]


@record("Revision", since={"by": None}, names={"from_": "since", "to": "until"}, types={"content": "dict[str, Any]"})
class RevisionOut(msgspec.Struct):
    """An earlier content of a job: from when (null when that is not kept any more) and until when (null: it still
    holds). `by`: the name of the token with which it was made so; null: nobody knows."""

    revision: int
    name: str | None
    from_: TimeText | None = msgspec.field(name="from")
    to: TimeText | None
    by: str | None
    content: Any


_CHANGED = Reply(job_shapes.JOB, "As it is now.", ("ETag",))
_CONTENT = (*JOB_BODIES, *WRITES, "name-taken", "exists", "stale-revision", "illegal-transition")
_REF = Arg("ref", "JobRef", sent_as="id")
_IF_MATCH = Arg("if_match", "JobVersion | None")
CREATE = Operation(
    "jobs_create",
    "POST",
    "/v1/jobs",
    "Create a job",
    {
        201: Reply(job_shapes.JOB, "Made, and on the disks of a majority.", ("ETag", "Location")),
        200: Reply(job_shapes.JOB, "It is there.", ("ETag",)),
    },
    headers=("Idempotency-Key", "If-None-Match"),
    body=JobIn,
    body_max=None,
    codes=(*JOB_BODIES, *WRITES, "name-taken", "exists", "idempotency-mismatch", "not-found", "not-possible"),
    role="editor",
    scope="checked",
    work=True,
    says="A name that exists with the same content answers with that job, 200, as it is: one that was paused stays so. "
    "A job that is to be suspended is another one than a job that is scheduled: 409. With an Idempotency-Key the "
    "request may be sent again.",
)
CREATE_BATCH = Operation(
    "batch_create_batch",
    "POST",
    "/v1/jobs:batch",
    "Create up to 10,000 jobs",
    {200: Reply(job_shapes.BATCH, "A result for each job, in their order.")},
    body=list[JobIn],
    body_max=BATCH_BODY_MAX,
    media=(JSON, *sorted(LINES)),
    headers=("Idempotency-Key",),
    codes=(*JOB_BODIES, *WRITES, "idempotency-mismatch"),
    role="editor",
    scope="checked",
    work=True,
    says="A JSON list of jobs, or one job in each line. With an Idempotency-Key the same batch may be sent again: what "
    "was made is answered as it is now, what was refused is tried again.",
)
COMPARE_ALL = Operation(
    "compare_compare_all",
    "POST",
    "/v1/jobs:compare",
    "Compare up to 10,000 jobs with new versions",
    {200: ComparedPage},
    query=READ,
    body=list[JobIn],
    body_max=BATCH_BODY_MAX,
    codes=JOB_BODIES,
    changes_nothing=True,
    role="viewer",
    scope="checked",
    says="Says of each what a PUT by its name would do. What is `unchanged` with `consistency=leader` need not be put; "
    "what is `changed` is put with its `etag` in If-Match, and what is `created` with If-None-Match: *, so that "
    "nothing is overwritten that was not compared. A job that is due so long after its creation (`in`) is unchanged, "
    "too, when its time is given instead, as in exports, and one that counts in UTC when it is given that zone.",
)
CHECK_NEW = Operation(
    "checking_check_new",
    "POST",
    "/v1/jobs:check",
    "Check a job that is to be created",
    {200: CheckedOut},
    headers=("If-None-Match",),
    body=JobIn,
    body_max=None,
    codes=(*JOB_BODIES, "name-taken", "exists", "not-possible"),
    changes_nothing=True,
    role="editor",
    scope="checked",
    says="The body is checked as that of a create is, and refused as that would be: its fields, the limits, what it "
    "names, its name and its namespace.",
)
GET = tagged_read(
    "jobs_get",
    JOB,
    "Read a job",
    job_shapes.JOB,
    "The job.",
    by_name=True,
    scope="checked",
    sdk=Sdk("Jobs.get", (_REF,), "Read a job. NotFoundError: there is none."),
)
PATCH = Operation(
    "jobs_patch",
    "PATCH",
    JOB,
    "Change a job",
    {200: _CHANGED},
    by_name=True,
    headers=("If-Match", "If-None-Match"),
    body=job_shapes.JOB_PATCH,
    body_max=None,
    media=(JSON, MERGE_PATCH),
    codes=(*_CONTENT, "too-many"),
    of_job=True,
    role="editor",
    scope="checked",
    says="RFC 7396 on the job as given; null: the default, that of the namespace first. Without If-Match, a change in "
    "between means to merge again.",
    sdk=Sdk(
        "Jobs.patch",
        (_REF, Arg("changes", "Mapping[str, Any]", whole=True), "*", _IF_MATCH),
        "RFC 7396: what is given is changed, None takes out; `trigger`, `triggers` and `handler` are replaced whole, "
        "and of the first two one by the other. `if_match` as in `put`.",
    ),
)
DELETE = Operation(
    "jobs_delete",
    "DELETE",
    JOB,
    "Delete a job",
    {200: JobDeleted},
    by_name=True,
    headers=("If-Match", "If-None-Match"),
    codes=(*WRITES, "exists", "stale-revision", "illegal-transition"),
    of_job=True,
    role="editor",
    scope="checked",
    says="Its name is free at once. What runs of it is asked to end, and can be read until it has.",
)
CHECK_CHANGE = Operation(
    "checking_check_change",
    "POST",
    f"{JOB}/check",
    "Check a change of a job",
    {200: CheckedOut},
    by_name=True,
    headers=("If-Match",),
    body=job_shapes.JOB_PATCH,
    body_max=None,
    media=(JSON, MERGE_PATCH),
    codes=(*JOB_BODIES, "name-taken", "stale-revision"),
    of_job=True,
    changes_nothing=True,
    role="editor",
    scope="checked",
    says="The body is checked as that of a PATCH is, and refused as that would be.",
    sdk=Sdk(
        "Jobs.check_patch",
        (_REF, Arg("changes", "Mapping[str, Any]", whole=True), "*", _IF_MATCH),
        "Returns what `patch` would make of the job. Raises what it would raise, and changes nothing.",
    ),
)
REVISIONS = Operation(
    "revisions_list_all",
    "GET",
    f"{JOB}/revisions",
    "List the revisions of a job",
    {200: PageOf(RevisionOut)},
    by_name=True,
    query=READ,
    role="viewer",
    scope="checked",
    says="The newest first; a bounded number is kept, so there is one page.",
    sdk=Sdk(
        "Jobs.revisions",
        (_REF,),
        "Returns what it is now, and what it was before its newest edits; the newest first.",
        returns="list[Revision]",
    ),
)
PUT = Operation(
    "jobs_put",
    "PUT",
    JOB,
    "Replace a job's content",
    {200: _CHANGED},
    headers=("If-Match", "If-None-Match"),
    body=job_shapes.JOB_REPLACEMENT,
    body_max=None,
    codes=(*_CONTENT, "too-many"),
    of_job=True,
    role="editor",
    scope="checked",
    says="By id: the whole new content.",
    sdk=Sdk(
        "Jobs.put",
        (_REF, Arg("job", "JobSpec", whole=True), "*", _IF_MATCH),
        "The whole new content. By name it creates what does not exist. `if_match`: only while it is as it was "
        'answered there, and no other job under its name; else ConflictError "stale-revision".',
    ),
)
PUT_NAMED = Operation(
    "jobs_put_named",
    "PUT",
    NAMED_JOB,
    "Create or replace a job by name",
    {201: Reply(job_shapes.JOB, "Made.", ("ETag", "Location")), 200: _CHANGED},
    headers=("If-Match", "If-None-Match"),
    body=JobIn,
    body_max=None,
    codes=(*_CONTENT, "not-possible", "too-many"),
    of_job=True,
    role="editor",
    says="By name: creates or replaces. With If-Match the job must exist, with If-None-Match: * it must not. "
    "`suspended` pauses a job; one that is paused stays so without it, too.",
)
COMPARE_NAMED = Operation(
    "compare_compare_named",
    "POST",
    f"{NAMED_JOB}/compare",
    "Compare a job with a new version",
    {200: ComparisonOut},
    query=READ,
    body=JobIn,
    body_max=None,
    codes=JOB_BODIES,
    changes_nothing=True,
    role="viewer",
    says="The body is checked as that of a PUT to the job is. A job that is paused would stay so. What the body leaves "
    "to the defaults of the namespace is compared as they are now. A job that is due so long after its creation (`in`) "
    "is shown with its time, and is unchanged by it, when the body gives that; and with the zone UTC, which a trigger "
    "counts in that names none.",
)
LIST = listing(
    "jobs_list_list_jobs",
    "/v1/jobs",
    "List jobs",
    job_shapes.JOB,
    "A page of jobs.",
    (*FILTERS, *LIST_ONLY, "fields"),
    part=job_shapes.JOB_PART,
    schemas={"state": STATES, "fields": several_of(job_shapes.FIELDS)},
    says="In the order of their creation; by name where a namespace and a name or prefix are given; by next fire time "
    "where a range of that is asked for. A page may be short, even empty, while `next` says that there is more to "
    "look through.",
    sdk=Sdk(
        "Jobs.list",
        (Arg("**filters", "Unpack[JobFilter]"),),
        "`most` of them (None: all), page after page; what is made or deleted meanwhile may be in it or not.",
        returns="Job",
    ),
)
