"""Why something ran, waits or was skipped."""

from __future__ import annotations

from datetime import datetime

import msgspec


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
