"""The JSON of operations on many jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from raftsched.bounds import BULK_IDS_MAX, LABELS_MAX
from raftsched.surface.enums import Action, JobState
from raftsched.surface.scalars import Duration, JobId, Namespace, Text, TextMap, Time


class JobFilterIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """All that is given has to hold. `state`: any of these. Times: from (inclusive), to (not included); `next` is the
    next fire time, and jobs that have none do not match."""

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


class RefusalOut(msgspec.Struct):
    """A job on which the action was not possible, and the code of the problem."""

    id: str
    code: str
    title: str


class OperationOut(msgspec.Struct):
    """`total`: rows to look at, null when that is not known; `examined` of them were. Of the jobs that matched some
    were changed, some were that way already, and some refused, the first hundred of which are named. `ids`: how many
    were given, null when it goes by a filter. `until`: when those that it pauses are scheduled again."""

    id: str
    action: str
    state: str
    filter: JobFilterIn | None
    ids: int | None
    kill: bool
    created_at: str
    modified_at: str
    ended_at: str | None
    total: int | None
    examined: int
    matched: int
    changed: int
    unchanged: int
    refused: int
    refusals: list[RefusalOut]
    until: str | None = None


class SampleOut(msgspec.Struct):
    id: str
    namespace: str
    name: str | None
    state: str


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
