"""Answers about the cluster: its nodes, members, queues, and why something ran."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the file system that a node's data directory is on: `free` to the node, of `total`; `store` and `output`
    are what the node takes of it."""

    free: int
    total: int
    store: int
    output: int


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: str
    alive: bool
    http: str | None = None  # host:port
    raft: str | None = None  # host:port
    voter: bool = True
    applied_index: int | None = None
    commit_index: int | None = None
    lag: int | None = None  # entries of the log
    clock_offset_ms: float | None = None
    running: int = 0
    slots: int = 0
    version: str | None = None
    session_open: bool = False
    drained: bool = False
    trouble: str | None = None  # why it starts no runs now
    last_heartbeat_at: datetime | None = None  # of its worker, as the leader got it
    disk: DiskUse | None = None  # None: not known to the node that answered
    level: int | None = None  # the newest that its version knows, as the leader has heard
    raft_announced: str | None = None  # where it says that its Raft port is, while the members have another address
    log_index: int | None = None  # of the newest entry in its log, committed or not; None: of another node
    log_term: int | None = None


class WaitingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that asks to be let in. `why`: "new", "other-disk" for one that has not the disk of the member of its
    name, or "disk-went-back" for a member whose disk is in an earlier state than it was: it is let in with an empty
    one only."""

    id: str
    raft: str
    http: str
    store: str
    why: str


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as the node that answered sees it."""

    node: str
    leader: str | None
    term: int
    formed: bool
    nodes: list[ClusterNode]
    cluster_id: str | None = None
    waits_for: str | None = None
    waiting: list[WaitingNode] = []
    paused: bool = False
    level: int = 0  # what may be used: the lowest of the members', unless it is held
    level_held: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check: `state` is "ok", "warn" or "fail", `do` would make it right, `nodes` it is about. `why`:
    what happens where it is not well; `see`: the section of the documents."""

    check: str
    state: str
    detail: str
    do: str | None
    nodes: list[str]
    why: str = ""
    see: str = ""


class Doctor(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of all checks, from where `node` is. `state`: that of the worst."""

    state: str
    node: str
    items: list[Finding]


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """The members of the cluster, and the nodes that ask to join."""

    items: list[ClusterNode]
    waiting: list[WaitingNode]


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """The leader after a transfer, and the term."""

    leader: str | None
    term: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A node's right to run jobs."""

    id: int
    open: bool
    opened_at: datetime


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """The things that jobs may name on a node. None: anything."""

    exec_allow: list[str] | None = None
    cwd_allow: list[str] | None = None
    python_allow: list[str] | None = None
    http_allow: list[str] = []
    http_deny: list[str] = []
    env_allow: list[str] | None = None  # variables; None: none where it is not for jobs to say what runs


class NodeDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A member as it runs jobs: `slots` and `labels` hold, it was started with `own_slots` and `own_labels`."""

    id: str
    role: str
    voter: bool
    alive: bool
    http: str | None
    raft: str | None
    version: str | None
    drained: bool
    running: int
    slots: int
    own_slots: int | None
    labels: dict[str, str]
    own_labels: dict[str, str]
    handlers: list[str]
    limits_whole_runs: bool
    users: list[str] = []  # as whom jobs may ask to run there: "namespace:user"
    session: Session | None
    revision: int = 0  # of what is said about it here; 0: nothing is
    trouble: str | None = None  # why it starts no runs now
    last_heartbeat_at: datetime | None = None  # of its worker, as the leader got it
    allowed: Allowed | None = None
    disk: DiskUse | None = None  # None: not known to the node that answered
    runs: bool = True  # False: it votes and serves the API, and runs nothing
    weight: int = 1  # of its slots, beside those of others


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A remote worker that has a session, whose number `session` is. `queues` and `namespaces`: whose runs it takes;
    None: of all."""

    name: str
    session: int
    labels: dict[str, str]
    slots: int
    weight: int
    queues: list[str] | None
    namespaces: list[str] | None
    handlers: list[str]
    running: int
    last_heartbeat_at: datetime | None  # as the leader got it
    version: str | None
    opened_at: datetime
    trouble: str | None = None  # why it starts no runs now
    quiet_since: datetime | None = None  # since when it has had no poll open, and is given no new runs


class WorkerRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker was given; `token` is the fencing token of the attempt."""

    id: str
    job_id: str
    token: int
    started_at: datetime | None


class WorkerDetail(Worker, frozen=True, kw_only=True):
    """A worker and what it runs, as far as the caller may see; `runs_left_out`: there are more."""

    runs: list[WorkerRun]
    runs_left_out: bool = False


class RunKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of runs that is in use. `running`: runs that have a permit; `runs`: ten of them at most. `waiting`: runs
    that wait for a permit. `next_at`: when the line is looked at again because of a rate."""

    key: str
    running: int
    waiting: int
    runs: list[str]
    next_at: datetime | None


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """So many starts in each period."""

    count: int
    per: str


class NamespaceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """None: no limit."""

    max_jobs: int | None
    max_running: int | None = None  # runs of all its jobs at one time
    max_starts_per_minute: int | None = None
    output_bytes: int | None = None  # of what its runs print, on each node
    output_max_bytes: int | None = None  # of what an attempt prints; None: as the settings have it
    output_keep: str | None = None  # how long it is kept; None: as the settings have it
    output_copies: int | None = None  # on so many nodes; None: as the settings have it


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """Unless `declared` nothing is said about it, and its revision is 0: it merely has jobs or secrets."""

    name: str
    declared: bool
    description: str | None
    owner: str | None
    defaults: dict[str, Any]
    limits: NamespaceLimits
    jobs: int
    secrets: int
    revision: int
    created_at: datetime | None
    modified_at: datetime | None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with limits. `waiting` instances could start but for them and the slots (at least so many, unless
    `waiting_exact`). `shut`: why nothing more may start now: "paused", "full" or "rate"."""

    name: str
    max_running: int | None
    rate: Rate | None
    paused: bool
    running: int
    waiting: int
    waiting_exact: bool
    shut: str | None
    created_at: datetime
    modified_at: datetime
    revision: int = 0  # of its limits


class DateRange(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Both are included; dates as text, 2027-08-01."""

    from_: str
    to: str


class Hours(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """From one time of day to another ("22:00"), of the next day if that is not later. `weekdays`: on which it begins;
    None: each day."""

    from_: str
    to: str
    weekdays: list[str] | None = None


class TimeRange(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """`to` is not included."""

    from_: datetime
    to: datetime


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """Days and hours in which nothing is due: dates as text, `yearly` as 12-25, `weekdays` as "sat". `hours` come each
    week; outside of `only`, if there are any, all is excluded; `excludes` once."""

    name: str
    description: str | None
    timezone: str | None
    dates: list[str]
    ranges: list[DateRange]
    yearly: list[str]
    weekdays: list[str]
    hours: list[Hours] = []
    only: list[Hours] = []
    excludes: list[TimeRange] = []
    created_at: datetime
    modified_at: datetime
    revision: int


# ---------------------------------------------------------------- who may


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A role in one namespace."""

    namespace: str
    role: str


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """The caller as the cluster knows them. `kind`: "token", "oidc", "local" or "anonymous". `role` holds in
    `namespaces` (None: all) and for everything outside of namespaces, each of `grants` in its namespace. `queues`: of a
    worker, those whose runs it may be given; None: all."""

    kind: str
    name: str
    role: str
    namespaces: list[str] | None = None
    grants: list[Grant] = []
    expires_at: datetime | None = None
    issuer: str | None = None
    subject: str | None = None
    queues: list[str] | None = None


# ---------------------------------------------------------------- explain


class MisfireRule(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    grace: str


class WhyThen(msgspec.Struct, frozen=True, kw_only=True):
    """`made_by`: "schedule", "missed", "manual", "backfill", "after", "part", "event" or "skipped"."""

    text: str
    made_by: str
    trigger: str | None
    scheduled_at: datetime
    jitter_ms: int
    due_at: datetime
    fired_at: datetime | None
    fired_late_ms: int | None
    started_late_ms: int | None
    misfire: MisfireRule | None


class WhyThere(msgspec.Struct, frozen=True, kw_only=True):
    """The state that the leader saw when it gave an attempt to a node."""

    text: str
    attempt: int
    node: str | None
    session: int
    token: int
    running: int | None
    slots: int | None
    eligible: int | None
    nodes: int | None
    worker: str | None = None


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """`until` is None while it lasts."""

    reason: str
    text: str
    since: datetime = msgspec.field(name="from")
    until: datetime | None = msgspec.field(name="to")
    ms: int


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    text: str


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Due times that were left out, as one record."""

    text: str
    reason: str | None
    first: datetime
    last: datetime
    count: int


class StepTaken(msgspec.Struct, frozen=True, kw_only=True):
    """`index` and `term`: the entry of the log that did it, and its leadership."""

    at: datetime
    kind: str
    text: str
    index: int
    term: int
    token: int | None
    attempt: int | None
    node: str | None
    worker: str | None = None


class OutputNote(msgspec.Struct, frozen=True, kw_only=True):
    """An output that is "cut" in the middle, has "aged" away, or was "too_large" to be kept at all; `text` says which
    setting says so."""

    attempt: int
    reason: str
    text: str


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a webhook about a run. `delivery` is the instance that delivers it, `state` the state of that."""

    webhook: str
    event: str
    at: datetime
    delivery: str
    state: str
    text: str


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons why a job does not run; `text` has its state, its next time and the obstacles in plain words.
    `obstacles`: what keeps it from being due, and what a run of it would wait for if its time came now. `notes`: what
    moves its times, and how its newest runs went."""

    id: str
    job: str | None
    namespace: str
    state: str
    text: str
    next_fire_at: datetime | None
    obstacles: list[Obstacle]
    notes: list[Obstacle]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why an instance ran at that time and place, waits, or was skipped; `text` is in plain words."""

    id: str
    job_id: str
    job: str | None
    state: str
    text: str
    why_then: WhyThen
    why_there: list[WhyThere]
    waits: list[Wait]
    waiting_for: Obstacle | None
    gap: Gap | None
    steps: list[StepTaken]
    steps_left_out: bool
    outputs: list[OutputNote] = []  # those that are not there as they were printed
    notifications: list[Notification] = []  # by webhook; those that the caller may see
