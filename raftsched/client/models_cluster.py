"""Answers about the cluster: its nodes, members, queues, and why something ran."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


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
