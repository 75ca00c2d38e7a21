"""Made from surface/explain.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec

from raftsched.client.generated.read_states import InstanceState, JobState


class MisfireRule(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    grace: str


class WhyThen(msgspec.Struct, frozen=True, kw_only=True):
    """`made_by`: "schedule", "missed" (the misfire policy made up for it), "manual", "backfill", "skipped", "after"
    (the end of another run started it), "part", "event" (it tells a webhook). `trigger` and `misfire` are None when the
    job was edited since and nothing of it runs any more."""

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
    trigger_id: str | None = None  # of a job with several


class WhyThere(msgspec.Struct, frozen=True, kw_only=True):
    """The view of the leader when it gave an attempt to a node or worker: the load of that one, and how many there
    were. Null where it was not noted."""

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
    """A reason for which a run waited. Its end is None while it lasts."""

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
    """`index` and `term`: the entry of the log that did it, and the leadership that entry is of."""

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
    """An output that is not whole ("cut"), is not kept any more ("aged"), or never was: it was larger than all that its
    namespace may have ("too_large"). Or one whose first copy cannot be read at the moment ("unreachable"), or ever
    again ("lost"). `text` says which setting says so."""

    attempt: int
    reason: str
    text: str


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a webhook about a run. `delivery`: the instance that delivers it, in the namespace "_system";
    `state` is its state."""

    webhook: str
    event: str
    at: datetime
    delivery: str
    state: InstanceState
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why an instance ran at that time and place, waits, or was skipped; `text` is in plain words.
    `steps_left_out`: there were more than are kept (settings.steps_kept); the first and the newest are here. `outputs`:
    those that are not there as they were printed, or cannot be read from where they are, and why. `notifications`: what
    webhooks were told, of those that the caller may see."""

    id: str
    job_id: str
    job: str | None
    state: InstanceState
    text: str
    why_then: WhyThen
    why_there: list[WhyThere]
    waits: list[Wait]
    waiting_for: Obstacle | None
    gap: Gap | None
    steps: list[StepTaken]
    steps_left_out: bool
    outputs: list[OutputNote] = []
    notifications: list[Notification] = []


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons why a job does not run. `text`: its state, its next time, and the obstacles, in plain words.
    `obstacles`: what keeps it from being due, and what a run of it would wait for if its time came now, with stable
    codes; none: nothing is in its way. `notes`: what moves its times, and how its newest runs went. `next_fire_at`:
    with its jitter, where that is known."""

    id: str
    job: str | None
    namespace: str
    state: JobState
    text: str
    next_fire_at: datetime | None
    obstacles: list[Obstacle]
    notes: list[Obstacle]
