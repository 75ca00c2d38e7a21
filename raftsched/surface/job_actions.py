"""Actions on one job: it is paused, run, expired; and its state, to be read and put."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import field

from raftsched.surface import job_shapes
from raftsched.surface.enums import JobState
from raftsched.surface.kinds import action
from raftsched.surface.operation import BODIES, JOB, READ, WRITES, Method, Operation, Reply
from raftsched.surface.scalars import Duration, Nothing, Priority, Time
from raftsched.surface.sdk import Arg, Sdk, record


class RunIn(msgspec.Struct, forbid_unknown_fields=True):
    params: dict[str, Any] | None = None
    priority: Priority | None = None


@record("Run")
class RunMade(msgspec.Struct):
    """A manual run that was accepted; `id` is that of its instance."""

    id: str
    job_id: str


class ExpireIn(msgspec.Struct, forbid_unknown_fields=True):
    kill: bool = False


class SkipNextIn(msgspec.Struct, forbid_unknown_fields=True):
    """`at`: the nominal time that is meant; without it the next one, whichever that is."""

    at: Time | None = None


class PauseIn(msgspec.Struct, forbid_unknown_fields=True):
    """Until when, or for how long; not both. With neither it lasts until somebody resumes the job."""

    until: Time | None = None
    for_: Duration | None = field(default=None, name="for")


class StateIn(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["SCHEDULED", "SUSPENDED"] | None = None


class JobStateShown(msgspec.Struct):
    state: JobState


class BackfillIn(msgspec.Struct, forbid_unknown_fields=True):
    """Nominal times from `from` on, to before `to` (now, unless given)."""

    from_: Time | None = field(default=None, name="from")
    to: Time | None = None
    dry_run: bool = False


class BackfillMade(msgspec.Struct):
    job_id: str
    count: int


@record(
    "Backfilled",
    since={"times": []},
    says="`count` runs were made; in a dry run, would be, for these nominal times.",
)
class BackfillSeen(msgspec.Struct):
    """With `dry_run`: what would be made."""

    job_id: str
    count: int
    times: list[Time]


_CHANGED = Reply(job_shapes.JOB, "As it is now.", ("ETag",))
_REF = Arg("ref", "JobRef", sent_as="id")


def _change(id: str, what: str, summary: str, *codes: str, body: Any = Nothing, **more: Any) -> Operation:
    """Returns a POST that does something to one job, and answers with the job."""
    return action(
        id,
        f"{JOB}/{what}",
        summary,
        {200: _CHANGED},
        by_name=True,
        if_match=True,
        of_job=True,
        body=body,
        body_required=False,
        codes=("illegal-transition", "stale-revision", *codes),
        role="editor",
        scope="checked",
        **more,
    )


PAUSE = _change(
    "actions_pause",
    "pause",
    "Pause a job",
    body=PauseIn,
    says="With `until` or `for` the job is scheduled again by itself at that time; else it stays SUSPENDED until "
    "somebody resumes it. A later pause replaces an earlier one. A job that is NEW was never scheduled and stays NEW, "
    "up to that time if one is given.",
    sdk=Sdk(
        "Jobs.pause",
        (_REF, "*", "until", Arg("length", sent_as="for")),
        "Not scheduled until it is resumed, by itself at the time `until`, or after `length`, where one of these is "
        "given; what runs goes on. A later pause replaces an earlier one.",
    ),
)
RESUME = _change(
    "actions_resume",
    "resume",
    "Resume a job",
    sdk=Sdk("Jobs.resume", (_REF,), "Schedules it again. What was missed meanwhile is not caught up; see `backfill`."),
)
RUN = action(
    "actions_run",
    f"{JOB}/run",
    "Run a job now",
    {202: Reply(RunMade, "An instance was made.", ("Location",), leads_to="/v1/instances/{id}")},
    by_name=True,
    body=RunIn,
    codes=("illegal-transition", "too-many"),
    body_required=False,
    body_max=None,
    role="editor",
    scope="checked",
    work=True,
    says="A manual run. With an Idempotency-Key it may be sent again.",
    sdk=Sdk(
        "Jobs.run",
        (_REF, "*", Arg("params", "Params | None", None), "priority"),
        "Now, beside its schedule; `params` and `priority` for this run only.",
    ),
)
EXPIRE = _change(
    "actions_expire",
    "expire",
    "Expire a job for good",
    body=ExpireIn,
    sdk=Sdk("Jobs.expire", (_REF, "*", "kill"), "Never scheduled again; `kill` ends what runs."),
)
SKIP_NEXT = _change(
    "actions_skip_next",
    "skip-next",
    "Skip the next run",
    "not-next",
    body=SkipNextIn,
    says="The next time is left out; with `at` only that one, so that a repeat leaves out no other. With an "
    "Idempotency-Key it may be sent again as well.",
)
BACKFILL = action(
    "backfill_backfill",
    f"{JOB}/backfill",
    "Run a job for past times",
    {202: Reply(BackfillMade, "Instances were made.", ("Location",)), 200: Reply(BackfillSeen, "With dry_run.")},
    by_name=True,
    body=BackfillIn,
    codes=("illegal-transition", "stale-revision", "not-possible", "too-many"),
    role="editor",
    scope="checked",
    says="One run for each time from `from` on, to before `to`, that is past and was not run, oldest first; overlap "
    "decides whether they wait for each other. Asked for again, it makes none twice. With an Idempotency-Key it may "
    "be sent again.",
    sdk=Sdk(
        "Jobs.backfill",
        (_REF, Arg("start", "Moment", sent_as="from"), Arg("end", sent_as="to"), "*", "dry_run"),
        "A run for each time from `start` on, to before `end` (now), that was not run.",
        returns="Backfilled",
    ),
)


def _state_change(id: str, method: Method, summary: str, **more: Any) -> Operation:
    """Returns a PUT or DELETE of the state of one job, which answers with the job."""
    return Operation(
        id,
        method,
        f"{JOB}/state",
        summary,
        {200: _CHANGED},
        by_name=True,
        headers=("If-Match",),
        codes=(*BODIES, *WRITES, "illegal-transition", "stale-revision"),
        of_job=True,
        role="editor",
        scope="checked",
        **more,
    )


GET_STATE = Operation(
    "actions_get_state",
    "GET",
    f"{JOB}/state",
    "Read the state of a job",
    {200: Reply(JobStateShown, "Its state.", ("ETag",))},
    by_name=True,
    query=READ,
    role="viewer",
    scope="checked",
)
PUT_STATE = _state_change(
    "actions_put_state",
    "PUT",
    "Set the state of a job",
    body=StateIn | Literal["SCHEDULED", "SUSPENDED"],
    says='{"state": "SCHEDULED"} or {"state": "SUSPENDED"}; the bare string will do. NEW stays NEW, as with `pause`.',
)
DELETE_STATE = _state_change("actions_delete_state", "DELETE", "Expire a job for good")
