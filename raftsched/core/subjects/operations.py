"""Something done to many jobs: what is asked, and how far it is.

An operation is a row of the replicated tables. The leader has it go on step by step; each step is a command that does
a bounded part, so that others get their turns in between, and any later leader goes on where the last step ended.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from raftsched.core.rules.filters import JobFilter
from raftsched.core.subjects.command import Command

RUNNING_MAX = 20  # operations at one time
KEPT_MAX = 1_000  # operations kept; beyond that the oldest that ended go
REFUSALS_MAX = 100  # told of one operation
ROWS_MAX = 10_000  # looked at in one step
JOBS_MAX = 2_000  # acted on in one step, with the runs of theirs that end by it


class BulkAction(IntEnum):
    PAUSE = 1
    RESUME = 2
    RUN = 3
    EXPIRE = 4
    DELETE = 5
    RESCHEDULE = 6  # their calendar was changed; not to be asked for


class OperationState(IntEnum):
    RUNNING = 1
    DONE = 2
    CANCELLED = 3  # by a person; what was done stays


class Refusal(msgspec.Struct, array_like=True, frozen=True):
    job_id: int
    code: str


class Operation(msgspec.Struct, array_like=True, kw_only=True):
    """One row of OPERATIONS. Jobs matched are changed, refused, or were that way already."""

    id: int
    action: BulkAction
    state: OperationState
    created_at_ms: int
    modified_at_ms: int
    ended_at_ms: int | None = None
    filter: JobFilter | None = None  # else `ids`
    ids: tuple[int, ...] = ()  # emptied at the end
    kill: bool = False  # EXPIRE: also ask what runs to end
    until_id: int = 0  # jobs made later are not meant
    after: bytes = b""  # the row that was looked at last
    steps: int = 0
    total: int | None = None  # rows there are to look at; None: not known
    examined: int = 0
    matched: int = 0
    changed: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()  # the first of them
    by: str = ""  # name of the token with which it was started
    namespaces: tuple[str, ...] | None = None  # jobs elsewhere are not there for it; None: all
    resume_at_ms: int | None = None  # PAUSE: until when; None: until somebody resumes them


# ---------------------------------------------------------------- commands


class StartOperation(Command, frozen=True, tag=70):
    """Either a filter or ids, of jobs there are now. An empty filter means all jobs."""

    action: BulkAction
    filter: JobFilter | None = None
    ids: tuple[int, ...] = ()
    kill: bool = False
    key: bytes = b""  # as in CreateJob: under the same one the same operation is answered
    digest: bytes = b""
    namespaces: tuple[str, ...] | None = None  # those that its caller may act in; None: all
    resume_at_ms: int | None = None  # PAUSE: as in SetJobState


class StepOperation(Command, frozen=True, tag=71):
    """The next part of an operation: so many rows are looked at and so many jobs acted on, at most. Refused unless it
    has made `step` steps: a step proposed twice is done once."""

    operation: int
    step: int
    rows: int
    jobs: int


class CancelOperation(Command, frozen=True, tag=72):
    """It makes no more steps. A repeat changes nothing."""

    operation: int
