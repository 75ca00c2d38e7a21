"""Reasons: of an instance that ran then and there, waits or was skipped, and of a job that does not run."""

from __future__ import annotations

import msgspec
from msgspec import field

from raftsched.surface.operation import READ, Operation
from raftsched.surface.scalars import Time, TimeText
from raftsched.surface.sdk import Arg, Sdk, record


@record("MisfireRule")
class MisfireShown(msgspec.Struct):
    policy: str
    grace: str


@record("WhyThen")
class ThenOut(msgspec.Struct):
    """`made_by`: "schedule", "missed" (the misfire policy made up for it), "manual", "backfill", "skipped", "after"
    (the end of another run started it), "part", "event" (it tells a webhook). `trigger` and `misfire` are null when the
    job was edited since and nothing of it runs any more."""

    text: str
    made_by: str
    trigger: str | None
    scheduled_at: TimeText
    jitter_ms: int
    due_at: TimeText
    fired_at: TimeText | None
    fired_late_ms: int | None
    started_late_ms: int | None
    misfire: MisfireShown | None
    trigger_id: str | None = None  # of a job with several


@record("WhyThere")
class ThereOut(msgspec.Struct):
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


@record("Wait", names={"from_": "since", "to": "until"})
class WaitOut(msgspec.Struct):
    """A reason for which a run waited. Its end is null while it lasts."""

    reason: str
    text: str
    from_: TimeText = field(name="from")
    to: TimeText | None
    ms: int


@record("Obstacle")
class ObstacleOut(msgspec.Struct):
    reason: str
    text: str


@record("Gap")
class GapOut(msgspec.Struct):
    """Due times that were left out, as one record."""

    text: str
    reason: str | None
    first: TimeText
    last: TimeText
    count: int


@record("StepTaken")
class StepOut(msgspec.Struct):
    """`index` and `term`: the entry of the log that did it, and the leadership that entry is of."""

    at: TimeText
    kind: str
    text: str
    index: int
    term: int
    token: int | None
    attempt: int | None
    node: str | None
    worker: str | None = None


@record("OutputNote")
class OutputNote(msgspec.Struct):
    """An output that is not whole ("cut"), is not kept any more ("aged"), or never was: it was larger than all that its
    namespace may have ("too_large"). Or one whose first copy cannot be read at the moment ("unreachable"), or ever
    again ("lost"). `text` says which setting says so."""

    attempt: int
    reason: str
    text: str


@record("Notification", types={"state": "InstanceState"})
class NotificationOut(msgspec.Struct):
    """A message to a webhook about a run. `delivery`: the instance that delivers it, in the namespace "_system";
    `state` is its state."""

    webhook: str
    event: str
    at: TimeText
    delivery: str
    state: str
    text: str


@record("Explanation", types={"state": "InstanceState"})
class ExplainOut(msgspec.Struct):
    """The reason why an instance ran at that time and place, waits, or was skipped; `text` is in plain words.
    `steps_left_out`: there were more than are kept (settings.steps_kept); the first and the newest are here.
    `outputs`: those that are not there as they were printed, or cannot be read from where they are, and why.
    `notifications`: what webhooks were told, of those that the caller may see."""

    id: str
    job_id: str
    job: str | None
    state: str
    text: str
    why_then: ThenOut
    why_there: list[ThereOut]
    waits: list[WaitOut]
    waiting_for: ObstacleOut | None
    gap: GapOut | None
    steps: list[StepOut]
    steps_left_out: bool
    outputs: list[OutputNote] = []
    notifications: list[NotificationOut] = []


@record("JobExplanation", types={"state": "JobState"})
class JobExplainOut(msgspec.Struct):
    """The reasons why a job does not run. `text`: its state, its next time, and the obstacles, in plain words.
    `obstacles`: what keeps it from being due, and what a run of it would wait for if its time came now, with stable
    codes; none: nothing is in its way. `notes`: what moves its times, and how its newest runs went. `next_fire_at`:
    with its jitter, where that is known."""

    id: str
    job: str | None
    namespace: str
    state: str
    text: str
    next_fire_at: Time | None
    obstacles: list[ObstacleOut]
    notes: list[ObstacleOut]


INSTANCE = Operation(
    "explain_get",
    "GET",
    "/v1/instances/{id}/explain",
    "Explain an instance",
    {200: ExplainOut},
    query=READ,
    role="viewer",
    scope="checked",
    sdk=Sdk(
        "Instances.explain",
        (Arg("ref", "InstanceRef", sent_as="id"),),
        says="Why it ran then and there, waits or was skipped, step by step.",
    ),
)
JOB = Operation(
    "jobs_explain",
    "GET",
    "/v1/jobs/{id}/explain",
    "Explain a job",
    {200: JobExplainOut},
    query=READ,
    by_name=True,
    role="viewer",
    scope="checked",
    says="Why it does not run, or when it does: paused, over, excluded by its calendar, no node that could take it, a "
    "limit that is reached. What is told of it all comes from a bounded number of rows.",
    sdk=Sdk(
        "Jobs.explain",
        (Arg("ref", "JobRef", sent_as="id"),),
        says="Why it does not run, or when it does: what is in its way, what moves its times, how its newest runs "
        "went.",
    ),
)
