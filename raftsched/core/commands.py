"""What can be asked of the cluster: the commands in the log, what apply answers, and the actions that follow a commit.

A command is a msgpack array whose first item is its number. The log format only grows: a new command gets a new
number, fields are added last with a default, nothing is changed or reused. An unknown command stops the node.
Commands carry every value that could differ between machines, but for the time: that is the entry's (`now_ms`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched.core.model import Instance, Job, JobState, Member, Outcome, OutputRef, Policy, Settings

# ---------------------------------------------------------------- commands: cluster


class Form(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The first entry of a cluster's life: its identity and its members. Refused when the cluster is formed."""

    cluster_id: bytes
    members: tuple[Member, ...]


class OpenLeadership(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The first entry of a leadership. What carries an older epoch is refused from here on."""

    epoch: int  # the term
    leader: str


class Barrier(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Changes nothing: who waits for it has read everything that was committed before."""


class PutSettings(msgspec.Struct, array_like=True, frozen=True, tag=4):
    settings: Settings


class OpenSession(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """A worker asks for the right to run. Refused unless `replaces` is the node's newest session (0: none yet), and
    unless that one is over or was opened under the same boot of the same machine."""

    node: str
    replaces: int
    boot_id: str
    nonce: bytes
    slots: int
    labels: tuple[tuple[str, str], ...] = ()
    handlers: tuple[str, ...] = ()
    http: str = ""
    version: str = ""


class EndSession(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The leader declares a session over; refused unless `epoch` is that of the newest opening entry."""

    session: int
    epoch: int


# ---------------------------------------------------------------- commands: jobs


class CreateJob(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """A name that exists: the same content answers with the job there is, another content is refused, and so is
    `suspended` while it is scheduled.

    With `replace`, an existing name takes the new content instead (create or replace)."""

    namespace: str
    name: str | None
    policy: Policy
    body: bytes
    suspended: bool = False
    replace: bool = False
    if_none: bool = False  # create only: an existing name is refused whatever it holds
    key: bytes = b""  # hash of the caller's Idempotency-Key: under the same one the same job is answered, once made
    digest: bytes = b""  # hash of the request that goes with the key


class EditJob(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """The whole new content. `if_revision`: refused unless the job has this revision."""

    job_id: int
    policy: Policy
    body: bytes
    if_revision: int | None = None
    name: str | None = None


class SetJobState(msgspec.Struct, array_like=True, frozen=True, tag=12):
    """To SCHEDULED (resume), SUSPENDED (pause) or EXPIRED. A repeat changes nothing."""

    job_id: int
    state: JobState
    kill: bool = False  # EXPIRED: also ask what runs to end
    if_revision: int | None = None
    error: str | None = None  # SUSPENDED: why, when not a person but the leader suspends it


class DeleteJob(msgspec.Struct, array_like=True, frozen=True, tag=13):
    job_id: int
    if_revision: int | None = None


class RunNow(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """A manual run. `request` (not 0) is the caller's and tells runs accepted in one millisecond apart."""

    job_id: int
    request: int
    params: bytes | None = None
    priority: int | None = None
    key: bytes = b""  # as in CreateJob: under the same one the same instance is answered, whenever it is repeated
    digest: bytes = b""


# ---------------------------------------------------------------- commands: the leader's


class ScheduleJob(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """The next nominal time of a calendar trigger (None: it has none, ever). Refused unless `revision` fits and the
    job waits for it."""

    job_id: int
    revision: int
    nominal_at_ms: int | None


class Fire(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """A due job. Compare-and-set on (job, revision, nominal_at_ms): twice is impossible.

    `now` decides on lateness. For calendar triggers the leader adds what only it can compute: `missed` (the nominal
    times after `nominal_at_ms` that are past too, the newest `catch_up_max` of them), `missed_count` of all of them,
    `missed_until_ms` the last, and `next_nominal_at_ms`. For others apply computes these by itself."""

    job_id: int
    revision: int
    nominal_at_ms: int
    next_nominal_at_ms: int | None = None
    missed: tuple[int, ...] = ()
    missed_count: int = 0
    missed_until_ms: int | None = None


class Assign(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """A waiting instance goes to a session. Refused unless it waits and the session is open."""

    instance: bytes
    session: int


class Wake(msgspec.Struct, array_like=True, frozen=True, tag=23):
    """A timer of an instance came due (its TIMERS key): the retry delay, or the start deadline."""

    instance: bytes
    at_ms: int


class Prune(msgspec.Struct, array_like=True, frozen=True, tag=24):
    """Delete what retention no longer keeps, at most `limit` PURGE and KEYS rows due by `until_ms`; also idle
    proposers."""

    until_ms: int
    limit: int


# ---------------------------------------------------------------- commands: the workers'


class Started(msgspec.Struct, array_like=True, frozen=True, tag=30):
    session: int
    token: int
    started_at_ms: int


class Ended(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """How an attempt ended. Stale ones (no such live attempt under this session and token) are dropped."""

    session: int
    token: int
    outcome: Outcome
    started_at_ms: int | None
    ended_at_ms: int
    exit_code: int | None = None
    error: str | None = None
    result: bytes | None = None
    output: OutputRef | None = None


class Kill(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """Ends what has not started at once; asks what runs to end."""

    instance: bytes


class Rerun(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """A final instance waits again, for a further attempt."""

    instance: bytes


Command = (
    Form
    | OpenLeadership
    | Barrier
    | PutSettings
    | OpenSession
    | EndSession
    | CreateJob
    | EditJob
    | SetJobState
    | DeleteJob
    | RunNow
    | ScheduleJob
    | Fire
    | Assign
    | Wake
    | Prune
    | Started
    | Ended
    | Kill
    | Rerun
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    return _encoder.encode(command)


def decode(raw: bytes) -> Command:
    """Raises msgspec.DecodeError on what is not a known command: that stops the node."""
    command: Command = _decoder.decode(raw)
    return command


# ---------------------------------------------------------------- answers


class Rejected(msgspec.Struct, frozen=True):
    """Nothing was changed. `code` is stable (errors.py maps it); `detail` says what is wrong and what is right."""

    code: str
    detail: str = ""


class Accepted(msgspec.Struct, frozen=True):
    """Done. Fields that do not concern the command are None."""

    job: Job | None = None
    instance: bytes | None = None  # instance key
    created: bool = False  # CreateJob: False when the name held the same content; RunNow: False for a repeat. Under a
    # key that is known: as the first time
    number: int | None = None  # OpenSession: the session; Prune: rows deleted
    row: Instance | None = None


Answer = Accepted | Rejected


# ---------------------------------------------------------------- actions: what follows a commit


class JobDue(msgspec.Struct, frozen=True):
    """A job got a (new) fire time."""

    job_id: int
    revision: int
    fire_at_ms: int


class JobUnscheduled(msgspec.Struct, frozen=True):
    """A calendar job waits for its next time: the leader proposes ScheduleJob."""

    job_id: int


class InstanceReady(msgspec.Struct, frozen=True):
    instance: bytes
    priority: int
    ready_at_ms: int


class InstanceTimer(msgspec.Struct, frozen=True):
    instance: bytes
    at_ms: int


class AttemptAssigned(msgspec.Struct, frozen=True):
    node: str
    session: int
    token: int
    instance: bytes


class AttemptEnded(msgspec.Struct, frozen=True):
    node: str
    session: int
    token: int
    instance: bytes


class KillAsked(msgspec.Struct, frozen=True):
    node: str
    session: int
    token: int


class SessionChanged(msgspec.Struct, frozen=True):
    """A session was opened or ended."""

    session: int
    node: str
    open: bool
    epoch: int


class LeadershipOpened(msgspec.Struct, frozen=True):
    epoch: int
    leader: str


class ClusterFormed(msgspec.Struct, frozen=True):
    cluster_id: bytes


Action = (
    JobDue
    | JobUnscheduled
    | InstanceReady
    | InstanceTimer
    | AttemptAssigned
    | AttemptEnded
    | KillAsked
    | SessionChanged
    | LeadershipOpened
    | ClusterFormed
)
