"""A job in answers and in changes: its state and its content in one object."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from raftsched.surface.enums import JobState, RanStateName
from raftsched.surface.jobs_generated import JobIn, JobShown
from raftsched.surface.operation import Special
from raftsched.surface.scalars import Time, TimeText
from raftsched.surface.sdk import record
from raftsched.surface.specials import PROBLEM, mergeable, or_null, part_of, plain, without_null


class JobOut(msgspec.Struct):
    """The state of a job in an answer; its content follows in the same object."""

    id: str
    name: str | None
    namespace: str
    state: str  # NEW, SCHEDULED, SUSPENDED, EXPIRED
    revision: int
    next_fire_at: TimeText | None
    last_instance: str | None
    created_at: TimeText
    modified_at: TimeText
    running: int
    active: int  # instances that are not at their end
    runs: int
    failures_in_a_row: int
    last_start_at: TimeText | None
    last_end_at: TimeText | None
    last_executor: str | None
    error: str | None  # that suspended it
    resumes_at: TimeText | None = None  # it was paused until then
    last_state: RanStateName | None = None  # of the run that ended last
    last_duration_ms: int | None = None  # of the last attempt of that run; None: it never started


@record("JobWarning")
class WarningOut(msgspec.Struct):
    """Names what a job asks for that nobody offers now; it is made all the same. `field`: of the job."""

    code: str  # no-executor, no-queue
    field: str
    detail: str


READ_ONLY = frozenset((*JobOut.__struct_fields__, "warnings")) - {"name", "namespace"}
FIELDS = (*JobOut.__struct_fields__, *JobShown.__struct_fields__)  # of a job in an answer


class BatchMade(msgspec.Struct, gc=False):
    """A job of a batch that was made (201), or was there with the same content (200)."""

    status: Literal[200, 201]
    id: str
    state: JobState
    revision: int
    next_fire_at: Time | None


_WARNINGS = {
    "description": "What it asks for that nobody offers now: in answers to writes, where there is something.",
    "type": "array",
    "items": {"$ref": "#/components/schemas/WarningOut"},
}


def _job(schemas: dict[str, Any]) -> dict[str, Any]:
    """Its state and its content in one object, defaults filled in."""
    given = schemas["JobIn"]["properties"]
    content = {}
    for name in JobShown.__struct_fields__:
        schema = plain(given[name])
        if name == "handler":
            schema = without_null(schema)
        content[name] = schema
    state = schemas["JobOut"]["properties"]
    return {
        "title": "Job",
        "description": "A job in an answer: its state, and its content with defaults filled in.",
        "type": "object",
        "properties": {**state, **content, "warnings": _WARNINGS},
        "required": [*state, *content],
    }


def _patch(schemas: dict[str, Any]) -> dict[str, Any]:
    """null: the default; of an object a part will do. Trigger and handler are replaced whole."""
    properties = {}
    for name, schema in schemas["JobIn"]["properties"].items():
        one = plain(schema)
        whole = name == "handler"
        properties[name] = without_null(one) if whole else or_null(mergeable(one, schemas))
    properties["suspended"] = {"enum": [False, None]}  # there are /pause and /resume
    return {
        "title": "JobPatch",
        "description": "What is to change of a job (RFC 7396). " + (_patch.__doc__ or ""),
        "type": "object",
        "properties": {**properties, "trigger": plain(schemas["JobIn"]["properties"]["trigger"])},
        "additionalProperties": False,
    }


def _replacement(schemas: dict[str, Any]) -> dict[str, Any]:
    """A job as for its creation, but for `suspended`: there are /pause and /resume."""
    whole: dict[str, Any] = schemas["JobIn"]
    properties = {**whole["properties"], "suspended": {"const": False}}
    return {**whole, "title": "JobReplacement", "description": _replacement.__doc__, "properties": properties}


JOB = Special("Job", (JobIn, JobOut, WarningOut), _job)
JOB_PART = Special("JobPart", (JobIn, JobOut, WarningOut), lambda schemas: part_of(_job(schemas), "JobPart"))
JOB_PATCH = Special("JobPatch", (JobIn,), _patch)
JOB_REPLACEMENT = Special("JobReplacement", (JobIn,), _replacement)
BATCH = Special(
    "BatchResults",
    (BatchMade, PROBLEM),
    lambda _: {
        "description": "One result for each job, in their order.",
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"anyOf": [{"$ref": f"#/components/schemas/{n}"} for n in ("BatchMade", "Problem")]},
            }
        },
        "required": ["items"],
    },
)
