"""Made from surface/runs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from raftsched.client.ends import EndOfRun
from raftsched.client.generated.enums import LiveStateName
from raftsched.client.generated.read_states import InstanceState
from raftsched.client.moments import Moment


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an attempt's output."""

    node: str
    size: int  # bytes
    truncated: int  # bytes that are left out in the middle
    sha256: str
    url: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """`node`: that runs it; None: the remote `worker` of this name does."""

    number: int
    node: str | None
    session: int
    token: int  # fencing token
    assigned_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None  # None while it runs
    exit_code: int | None
    error: str | None
    result: Any
    output: Output | None
    worker: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`percent`: None when only the text is known. `at`: when the cluster heard of it."""

    percent: int | None
    text: str
    at: datetime


class Instance(EndOfRun, msgspec.Struct, frozen=True, kw_only=True):
    """`job_name`: None for a job without a name; `namespace`: None when the job is gone. `late_ms`: between the time
    when it was due and its first start, by whichever attempt; None before that, for what was asked for, and for what
    waited for its conditions. `node`, or `worker`: what its newest attempt was given to, a node or a remote worker.
    `parent`: the run of which this is a part; `shard`: which one of how many, None of a part for one node. `parts`: of
    a run that was split into them. `trigger`: the id of the one that it came from, of a job with several. `expires_at`:
    of one that waits: it is skipped unless it starts before; None: it waits on, or has begun. `snoozes`: how often it
    was put off. `progress`: how far its newest attempt is, by its own word. `saved_state`: what it keeps for its next
    attempts. `key`: that its limits by key are about. `cause`: the run by whose end it was started; `root`: the first
    of these, by whose id the workflow goes; `joined`: all that it waited for, where these were several; `passed`: their
    results."""

    id: str
    job_id: str
    job_name: str | None = None
    namespace: str | None = None
    state: InstanceState
    scheduled_at: datetime
    late_ms: int | None = None
    manual: bool
    priority: int
    node: str | None
    token: int | None
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    error: str | None
    reason: str | None
    kill_asked: bool
    dead_letter: bool
    job_revision: int
    created_at: datetime
    modified_at: datetime
    skipped: int
    skipped_until: datetime | None
    params: Any
    event: dict[str, Any] | None = None
    result: Any
    output: Output | None
    attempts: list[Attempt]
    worker: str | None = None
    parent: str | None = None
    shard: dict[str, int] | None = None
    parts: dict[str, Any] | None = None
    trigger: str | None = None
    expires_at: datetime | None = None
    snoozes: int = 0
    progress: Progress | None = None
    saved_state: Any = None
    key: str | None = None
    cause: str | None = None
    root: str | None = None
    joined: list[str] | None = None
    passed: Any = None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    code: str
    detail: str


class RecentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in short. `late_ms`: between the time when it was due and its first start; None before that, and for what
    was asked for."""

    id: str
    state: InstanceState
    scheduled_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    late_ms: int | None = None


class RecentRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The newest scheduled time comes first."""

    job_id: str
    runs: list[RecentRun]


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """In the order in which the jobs were asked for, without those that are not there."""

    items: list[RecentRuns]


# Parameters of a list of instances. All that is given has to hold.
InstanceFilter = TypedDict(
    "InstanceFilter",
    {
        "job": str,  # an id, "namespace/name", or with `namespace` a name
        "namespace": str,
        "state": str,  # one, or several with commas
        "node": str,
        "worker": str,
        "from": Moment,
        "to": Moment,
        "dead_letter": bool,
        "late": bool,  # began more than a second after it was due
    },
    total=False,
)


# `job`: an id, "namespace/name", or with `namespace` a name. `state`: any of these; all of them unless given.
KillFilter = TypedDict(
    "KillFilter",
    {
        "job": str,
        "namespace": str,
        "state": Sequence[LiveStateName],
        "from": Moment,
        "to": Moment,
    },
    total=False,
)
