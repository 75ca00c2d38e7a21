"""Actions: apply returns what came about, and the leader, the worker and the API act on it after the commit."""

from __future__ import annotations

import msgspec

from raftsched.cluster_settings import Settings
from raftsched.core.model import Outcome
from raftsched.core.subjects.cluster import Member


class JobDue(msgspec.Struct, frozen=True, gc=False):
    """A job got a (new) fire time."""

    job_id: int
    revision: int
    fire_at_ms: int


class JobNear(msgspec.Struct, frozen=True, gc=False):
    """A fire time that was set long ago has come near: it is among those that the leader looks at."""

    job_id: int
    fire_at_ms: int


class JobPaused(msgspec.Struct, frozen=True):
    """A job was paused until a time: the leader proposes ResumeJob then."""

    job_id: int
    resume_at_ms: int


class JobUnscheduled(msgspec.Struct, frozen=True):
    """A calendar job waits for its next time: the leader proposes ScheduleJob."""

    job_id: int


class InstanceReady(msgspec.Struct, frozen=True, gc=False):
    instance: bytes
    lane: int
    score_ms: int


class InstanceTimer(msgspec.Struct, frozen=True, gc=False):
    instance: bytes
    at_ms: int


class WatchSet(msgspec.Struct, frozen=True, gc=False):
    """A job or an instance (by the rest of its key in WATCHES) is to be looked at then."""

    about: bytes
    at_ms: int


class KeyTimer(msgspec.Struct, frozen=True, gc=False):
    """The line of a key of runs is to be looked at again."""

    key: bytes
    at_ms: int


class InstanceFired(msgspec.Struct, frozen=True, gc=False):
    """A due time became an instance."""

    late_ms: int  # after nominal time and jitter


class InstanceStarted(msgspec.Struct, frozen=True, gc=False):
    """A run whose time had come started, with the first attempt that did, as its worker reports."""

    late_ms: int  # after nominal time and jitter, by the worker's clock


class DeadLettered(msgspec.Struct, frozen=True, gc=False):
    """An instance failed for good, and waits for somebody to requeue or discard it."""

    key: bytes


class DueTimesSkipped(msgspec.Struct, frozen=True, gc=False):
    """Due times did not run, for a reason that is a stable code."""

    reason: str
    count: int


class AttemptAssigned(msgspec.Struct, frozen=True, gc=False):
    node: str
    session: int
    token: int
    instance: bytes
    queue: str = ""  # the one with limits in which it counts as running
    quota: str = ""  # that of its namespace, in which it counts too


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    node: str
    session: int
    token: int
    instance: bytes
    queue: str = ""  # the one with limits in which it counted as running
    outcome: Outcome | None = None
    need: str = ""  # Policy.required_capability of its job; "": the job is gone
    took_ms: int | None = None  # from its start to its end; None: it was not said to have started
    quota: str = ""
    namespace: str = ""  # of its job; "": the job is gone


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


class SessionBound(msgspec.Struct, frozen=True):
    """The session of a remote worker is another token's from now on."""

    session: int


class LeadershipOpened(msgspec.Struct, frozen=True):
    epoch: int
    leader: str


class ClusterFormed(msgspec.Struct, frozen=True):
    cluster_id: bytes


class LevelRaised(msgspec.Struct, frozen=True):
    level: int


class MembersChanged(msgspec.Struct, frozen=True):
    members: tuple[Member, ...]


class ZonesUsed(msgspec.Struct, frozen=True):
    """The leader computes with other time zone data from here on."""

    number: int


class SettingsChanged(msgspec.Struct, frozen=True):
    settings: Settings


class NamespaceChanged(msgspec.Struct, frozen=True):
    """Its limits, or that something is said about it at all."""

    name: str


class QueueChanged(msgspec.Struct, frozen=True):
    """Its limits, or that it is there at all."""

    name: str


class NodeRuleChanged(msgspec.Struct, frozen=True):
    node: str


class ClusterPaused(msgspec.Struct, frozen=True):
    paused: bool


class OperationStarted(msgspec.Struct, frozen=True):
    """The leader is to have it go on."""

    operation: int


class ConditionsWanted(msgspec.Struct, frozen=True):
    """Workers are to look at what only a machine can see."""

    instance: bytes


Action = (
    JobDue
    | JobNear
    | JobPaused
    | JobUnscheduled
    | InstanceReady
    | InstanceTimer
    | WatchSet
    | KeyTimer
    | InstanceFired
    | InstanceStarted
    | DeadLettered
    | DueTimesSkipped
    | AttemptAssigned
    | AttemptEnded
    | KillAsked
    | SessionChanged
    | SessionBound
    | LeadershipOpened
    | ClusterFormed
    | LevelRaised
    | MembersChanged
    | ZonesUsed
    | SettingsChanged
    | NamespaceChanged
    | QueueChanged
    | NodeRuleChanged
    | ClusterPaused
    | ConditionsWanted
    | OperationStarted
)
