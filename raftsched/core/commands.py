"""Defines the commands in the log. Commands that change rows of one subject lie beside them (`cluster`, `queues`,
`operations`, ...). What apply says to them is in `answers`, and what follows a commit in `actions`.

A command is a msgpack array whose first item is its number. The log format only grows: a new command gets a new
number, fields are added last with a default, nothing is changed or reused. What is no command is refused before it gets
into the log; what is in the log and none all the same is refused by every node alike (entry.py, levels.py).
Commands carry every value that could differ between machines, but for the time: that is the entry's (`now_ms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import msgspec

from raftsched.core.answers import UNKNOWN, Accepted, Answer, Rejected
from raftsched.core.model import JobState, Outcome, OutputRef, Placement, Policy, Verdict
from raftsched.core.rules.run_keys import WakeKey
from raftsched.core.subjects.access import (
    Attributed,
    CreateToken,
    CreateWorkerToken,
    ForgetSecrets,
    RevokeToken,
    SeedTokens,
    SetAccess,
    SetOidc,
)
from raftsched.core.subjects.backups import NoteBackup
from raftsched.core.subjects.calendar import DeleteCalendar, PutCalendar, RescheduleJob
from raftsched.core.subjects.cluster import (
    Barrier,
    BindSession,
    CloseSession,
    EndSession,
    Form,
    OpenLeadership,
    OpenSession,
    OpenWorker,
    PauseCluster,
    PutNodeRule,
    PutSettings,
    RaiseLevel,
)
from raftsched.core.subjects.command import Command
from raftsched.core.subjects.firing import Fire, ScheduleJob, TriggerFire, TriggerSchedule
from raftsched.core.subjects.keyed import Idempotent, StoredResponse
from raftsched.core.subjects.namespace import DeleteNamespace, PutNamespace
from raftsched.core.subjects.new_jobs import CreateJob, CreateJobs
from raftsched.core.subjects.operations import CancelOperation, StartOperation, StepOperation
from raftsched.core.subjects.queue import DeleteQueue, PutQueue
from raftsched.core.subjects.secret import DeleteSecret, PutSecret
from raftsched.core.subjects.self_report import ReportProgress, SelfReport
from raftsched.core.subjects.watches import Watch
from raftsched.core.subjects.webhook import (
    DeleteWebhook,
    NoteDisk,
    PutWebhook,
    ResealWebhook,
    RotateSecret,
    TestWebhook,
)
from raftsched.core.subjects.workflow import KillWorkflow
from raftsched.core.subjects.zones import MoveJob, SettleZones, UseZones

__all__ = [  # beside what is defined here
    "UNKNOWN",
    "Accepted",
    "Answer",
    "Attributed",
    "Barrier",
    "BindSession",
    "CancelOperation",
    "CloseSession",
    "Command",
    "CreateJob",
    "CreateJobs",
    "CreateToken",
    "CreateWorkerToken",
    "DeleteQueue",
    "EndSession",
    "Fire",
    "ForgetSecrets",
    "Form",
    "Idempotent",
    "KillWorkflow",
    "NoteDisk",
    "OpenLeadership",
    "OpenSession",
    "OpenWorker",
    "PauseCluster",
    "PutNodeRule",
    "PutQueue",
    "PutSettings",
    "RaiseLevel",
    "Rejected",
    "ReportProgress",
    "RevokeToken",
    "ScheduleJob",
    "SeedTokens",
    "SelfReport",
    "SetAccess",
    "SetOidc",
    "StartOperation",
    "StepOperation",
    "StoredResponse",
    "TriggerFire",
    "TriggerSchedule",
    "WakeKey",
    "Watch",
]

# ---------------------------------------------------------------- commands: jobs


class EditJob(Command, frozen=True, tag=11):
    """The whole new content. `if_revision`: refused unless the job has this revision."""

    job_id: int
    policy: Policy
    body: bytes
    if_revision: int | None = None
    name: str | None = None
    defaults: int | None = None  # as in CreateJob
    suspended: bool = False  # and SUSPENDED, where it is scheduled then


class SetJobState(Command, frozen=True, tag=12):
    """Makes a job SCHEDULED (resume), SUSPENDED (pause) or EXPIRED. A repeat changes nothing, but that a pause replaces
    the time until which an earlier one was to last."""

    job_id: int
    state: JobState
    kill: bool = False  # EXPIRED: also ask what runs to end
    if_revision: int | None = None
    error: str | None = None  # SUSPENDED: why, when not a person but the leader suspends it
    resume_at_ms: int | None = None  # SUSPENDED: until when; None: until somebody resumes it


class DeleteJob(Command, frozen=True, tag=13):
    job_id: int
    if_revision: int | None = None


class RunNow(Command, frozen=True, tag=14, gc=False):
    """A manual run. `request` (not 0) is the caller's and tells runs accepted in one millisecond apart."""

    job_id: int
    request: int
    params: bytes | None = None
    priority: int | None = None
    key: bytes = b""  # as in CreateJob: under the same one the same instance is answered, whenever it is repeated
    digest: bytes = b""


class SkipNext(Command, frozen=True, tag=15):
    """The next fire, which must be at this nominal time, is left out. A repeat changes nothing."""

    job_id: int
    nominal_at_ms: int


class Backfill(Command, frozen=True, tag=16):
    """Runs for those of the times (ascending) that are past and were not run. Refused unless `revision` fits: the times
    are those of its trigger."""

    job_id: int
    revision: int
    times: tuple[int, ...]
    key: bytes = b""  # as in RunNow
    digest: bytes = b""


# ---------------------------------------------------------------- commands: the leader's


class Assign(Command, frozen=True, tag=22, gc=False):
    """A waiting instance goes to a session. Refused unless it waits and the session is open, while the cluster is
    paused or the node drained, and beyond the limits of its queue."""

    instance: bytes
    session: int
    placement: Placement | None = None


class Wake(Command, frozen=True, tag=23):
    """A timer of an instance came due (its TIMERS key): the retry delay, or the start deadline."""

    instance: bytes
    at_ms: int


class PromoteDue(Command, frozen=True, tag=170):
    """The due times of the days before `until_day` come near: at most `limit` rows of DUE_LATER become rows of DUE, the
    first ones first. The first such command says from which day on due times are stored in DUE_LATER. A repeat changes
    nothing."""

    until_day: int
    limit: int


class ResumeJob(Command, frozen=True, tag=44):
    """A job was paused until this time, which has come. Compare-and-set: refused when it is paused otherwise now."""

    job_id: int
    resume_at_ms: int


class Prune(Command, frozen=True, tag=24):
    """Delete what retention no longer keeps, at most `limit` PURGE and KEYS rows due by `until_ms`; also idle
    proposers."""

    until_ms: int
    limit: int


class NoteUnplaceable(Command, frozen=True, tag=25):
    """No node there is could take it, busy or not: the instance says so while it waits. Refused when one could."""

    instance: bytes
    detail: str


class SortReady(Command, frozen=True, tag=27):
    """Each of these goes to the lane of READY that is its own now: its queue was given limits, or made anew, since it
    became ready, or a node came that could take it."""

    instances: tuple[bytes, ...]


class Split(Command, frozen=True, tag=28):
    """The turn of a run with parts has come: they are made, or those run again that did not succeed. Refused unless it
    waits for a worker, and while the cluster is paused."""

    instance: bytes
    targets: tuple[str, ...] = ()  # of one that runs on all nodes and workers: those that can take it now


class Recheck(Command, frozen=True, tag=26):
    """The node that saw what the instance needs is gone: its conditions are looked at again."""

    instance: bytes


# ---------------------------------------------------------------- commands: the workers'


class Started(Command, frozen=True, tag=30, gc=False):
    session: int
    token: int
    started_at_ms: int


class Ended(Command, frozen=True, tag=31, gc=False):
    """The end of an attempt. Stale ones (no such live attempt under this session and token) are dropped."""

    session: int
    token: int
    outcome: Outcome
    started_at_ms: int | None
    ended_at_ms: int
    exit_code: int | None = None
    error: str | None = None
    result: bytes | None = None
    output: OutputRef | None = None
    begun: bool = True  # False, with KILLED: its node could not start it, and nothing of it ever ran
    output_node: str = ""  # that has the output; "": the one that ran it


class EndedWithReport(Ended, frozen=True, tag=130, gc=False):
    """The end of an attempt of which more is said than how it ended. Stale ones are dropped as of Ended."""

    verdict: Verdict | None = None  # the run's own word, which goes before its job's `outcomes`
    delay_ms: int | None = None  # of a snooze; of an answer of HTTP: how long it asks to wait (Retry-After)
    said: SelfReport | None = None  # the last of it


class LoseAttempt(Command, frozen=True, tag=34):
    """A worker says that one attempt is lost while its session goes on: what guarded it was ended by somebody, and
    nothing of it runs any more. Stale ones are dropped as of Ended."""

    session: int
    token: int
    ended_at_ms: int
    started_at_ms: int | None = None
    error: str | None = None  # why, for people
    output: OutputRef | None = None
    output_node: str = ""


class ReportConditions(Command, frozen=True, tag=32):
    """The result of a worker's look at the conditions that only a machine can see."""

    instance: bytes
    until_ms: int  # when the wait ends during which it looked: tells it from an earlier one
    node: str
    met: bool
    detail: str | None = None  # what is missing


class Kill(Command, frozen=True, tag=40):
    """Ends what has not started at once; asks what runs to end."""

    instance: bytes


class Rerun(Command, frozen=True, tag=41):
    """A final instance waits again, for a further attempt."""

    instance: bytes
    key: bytes = b""  # as in RunNow
    digest: bytes = b""
    downstream: bool = False  # and what follows it in its workflow runs again, each after those that it waits for
    namespaces: tuple[str, ...] | None = None  # with downstream: where the caller may have jobs run; None: in all


class Requeue(Command, frozen=True, tag=42):
    """A dead letter waits again, for further attempts; its history stays."""

    instance: bytes


class Discard(Command, frozen=True, tag=43):
    """A dead letter is one no longer; the instance stays as long as others that failed."""

    instance: bytes


# ---------------------------------------------------------------- the registry

# Number -> the command, and its handler in core.apply. A number is never changed, and never used again.
COMMANDS: dict[int, tuple[type[Command], str]] = {
    1: (Form, "membership.form"),
    2: (OpenLeadership, "membership.open_leadership"),
    3: (Barrier, "membership.barrier"),
    4: (PutSettings, "membership.put_settings"),
    5: (OpenSession, "membership.open_session"),
    6: (EndSession, "membership.end_session"),
    7: (PauseCluster, "node_edits.pause_cluster"),
    8: (PutQueue, "queue_edits.put_queue"),
    9: (DeleteQueue, "queue_edits.delete_queue"),
    10: (CreateJob, "lifecycle.create_job"),
    11: (EditJob, "lifecycle.edit_job"),
    12: (SetJobState, "lifecycle.set_job_state"),
    13: (DeleteJob, "lifecycle.delete_job"),
    14: (RunNow, "manual.run_now"),
    15: (SkipNext, "manual.skip_next"),
    16: (Backfill, "manual.backfill"),
    17: (CreateJobs, "alike.create_jobs"),
    20: (ScheduleJob, "firing.schedule_job"),
    21: (Fire, "firing.fire"),
    22: (Assign, "attempts.assign"),
    23: (Wake, "attempts.wake"),
    24: (Prune, "retention.prune"),
    25: (NoteUnplaceable, "queue_edits.note_unplaceable"),
    26: (Recheck, "checks.recheck"),
    27: (SortReady, "queue_edits.sort_ready"),
    28: (Split, "parts.split"),
    30: (Started, "attempts.started"),
    31: (Ended, "attempts.ended"),
    32: (ReportConditions, "checks.report_conditions"),
    33: (CloseSession, "membership.close_session"),
    34: (LoseAttempt, "attempts.lose_one"),
    40: (Kill, "by_hand.kill"),
    41: (Rerun, "by_hand.rerun"),
    42: (Requeue, "by_hand.requeue"),
    43: (Discard, "by_hand.discard"),
    44: (ResumeJob, "lifecycle.resume_job"),
    50: (PutNodeRule, "node_edits.put_node_rule"),
    53: (OpenWorker, "membership.open_worker"),
    54: (BindSession, "membership.bind_session"),
    60: (PutCalendar, "calendar_edits.put_calendar"),
    61: (DeleteCalendar, "calendar_edits.delete_calendar"),
    62: (RescheduleJob, "calendar_edits.reschedule_job"),
    65: (Idempotent, "dispatch.keyed"),
    66: (StoredResponse, "keys.note"),
    70: (StartOperation, "bulk.start_operation"),
    71: (StepOperation, "bulk.step_operation"),
    72: (CancelOperation, "bulk.cancel_operation"),
    80: (PutNamespace, "namespace_edits.put_namespace"),
    81: (DeleteNamespace, "namespace_edits.delete_namespace"),
    82: (PutSecret, "secret_edits.put_secret"),
    83: (DeleteSecret, "secret_edits.delete_secret"),
    90: (PutWebhook, "webhook_edits.put_webhook"),
    91: (DeleteWebhook, "webhook_edits.delete_webhook"),
    92: (RotateSecret, "webhook_edits.rotate_secret"),
    93: (TestWebhook, "webhook_edits.send_test"),
    94: (ResealWebhook, "webhook_edits.reseal_webhook"),
    100: (Attributed, "dispatch.attributed"),
    101: (CreateToken, "access_edits.create_token"),
    102: (RevokeToken, "access_edits.revoke_token"),
    103: (SetAccess, "access_edits.set_access"),
    104: (SeedTokens, "access_edits.seed_tokens"),
    105: (SetOidc, "access_edits.set_oidc"),
    109: (ForgetSecrets, "access_edits.forget_secrets"),
    110: (CreateWorkerToken, "access_edits.create_worker_token"),
    122: (KillWorkflow, "following.kill_workflow"),
    130: (EndedWithReport, "attempts.ended_with_report"),
    131: (ReportProgress, "attempts.report_progress"),
    140: (WakeKey, "run_keys.wake_key"),
    150: (Watch, "watches.check_limits"),
    151: (NoteDisk, "cluster_notices.note_disk"),
    170: (PromoteDue, "promotion.promote_due"),
    171: (RaiseLevel, "membership.raise_level"),
    180: (UseZones, "zones.use_zones"),
    181: (SettleZones, "zones.settle_zones"),
    182: (MoveJob, "zones.move_job"),
    191: (NoteBackup, "backups.note_backup"),
}

if TYPE_CHECKING:
    AnyCommand = Command
else:
    AnyCommand = Union[tuple(kind for kind, _ in COMMANDS.values())]  # noqa: UP007 - made of the registry

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(AnyCommand)

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what decoding raises
NESTING_MAX = 400  # of a command's values; where the stack ends it would be luck whether they decode
_NESTS = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))  # how lists and maps begin in msgpack


class Unknown(msgspec.Struct, frozen=True):
    """Stands in the place of what is no command. It is never encoded."""


def encode(command: Command) -> bytes:
    return _encoder.encode(command)


def decode(raw: bytes) -> Command:
    """Raises one of UNDECODABLE for what is not a known command, and for one that holds such: somebody's (By), under a
    key (Keyed), or somebody's under a key."""
    command: Command = _decoder.decode(raw)
    inner = unwrap(command) if isinstance(command, Attributed) else command
    if isinstance(inner, Idempotent):
        inner = _decoder.decode(inner.command)
    if isinstance(inner, Attributed) and inner is not command:
        raise msgspec.ValidationError("a command is asked for by one caller, who is said first")
    return command


def unwrap(by: Attributed) -> Command:
    """Returns the command that the caller asked for."""
    command: Command = _decoder.decode(by.command)
    return command


def check(raw: bytes) -> Command:
    """Returns the innermost command, without its caller and its key, if every node decodes it alike. It is called
    before a command gets into the log. Raises one of UNDECODABLE."""
    if len(raw) > NESTING_MAX and len(raw) - len(raw.translate(None, _NESTS)) > NESTING_MAX:
        _check_nesting(msgspec.msgpack.decode(raw))
    command = decode(raw)
    command = unwrap(command) if isinstance(command, Attributed) else command
    return check(command.command) if isinstance(command, Idempotent) else command


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(NESTING_MAX):
        holders = [row for row in level if isinstance(row, (list, dict))]
        level = [x for row in holders for x in (row if isinstance(row, list) else (*row, *row.values()))]
        if not level:
            return
    raise msgspec.DecodeError(f"a command is nested more than {NESTING_MAX} times")
