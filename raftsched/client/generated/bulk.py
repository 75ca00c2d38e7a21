"""Made from surface/bulk.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from raftsched.client.ends import EndOfOperation
from raftsched.client.generated.read_states import JobState, OperationState
from raftsched.client.moments import Moment


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A job on which the action was not possible, and the code of the problem."""

    id: str
    code: str
    title: str


class Operation(EndOfOperation, msgspec.Struct, frozen=True, kw_only=True):
    """The same done to many jobs, by the cluster, step by step.

    `total`: rows to look at, None when that is not known; `examined` of them were. Of the jobs that matched some were
    changed, some were that way already, and some refused, the first hundred of which are named. `ids`: how many were
    given, None when it goes by a filter. `until`: when those that it pauses are scheduled again."""

    id: str
    action: str
    state: OperationState
    filter: dict[str, Any] | None
    ids: int | None
    kill: bool
    created_at: datetime
    modified_at: datetime
    ended_at: datetime | None
    total: int | None
    examined: int
    matched: int
    changed: int
    unchanged: int
    refused: int
    refusals: list[Refusal]
    until: datetime | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    namespace: str
    name: str | None
    state: JobState


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that an action would change. `complete`: all that had to be looked at was; else there may be more that
    matches."""

    action: str
    matched: int
    examined: int
    complete: bool
    sample: list[Sample]


class BulkFilter(TypedDict, total=False):
    """The jobs of an action on many: all that is given has to hold. `state`: any of these. Times: from (inclusive), to
    (not included); `next` is the next fire time, and jobs that have none do not match."""

    namespace: str
    name: str
    name_prefix: str
    name_contains: str
    state: Sequence[JobState]
    owner: str
    labels: Mapping[str, str]
    queue: str
    calendar: str
    created_from: Moment
    created_to: Moment
    next_from: Moment
    next_to: Moment
