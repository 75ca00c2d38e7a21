"""Jobs in answers, and the bodies of what is done to one."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import field

from raftsched.surface.enums import JobState
from raftsched.surface.scalars import Duration, Priority, Time
from raftsched.surface.schedules import Moment

Result = Literal["created", "changed", "unchanged"]


class JobOut(msgspec.Struct):
    """The state of a job in an answer; its content follows in the same object."""

    id: str
    name: str | None
    namespace: str
    state: str  # NEW, SCHEDULED, SUSPENDED, EXPIRED
    revision: int
    next_fire_at: str | None
    last_instance: str | None
    created_at: str
    modified_at: str
    running: int
    active: int  # instances that are not at their end
    runs: int
    failures_in_a_row: int
    last_start_at: str | None
    last_end_at: str | None
    last_executor: str | None
    error: str | None  # that suspended it
    resumes_at: str | None = None  # it was paused until then


READ_ONLY = frozenset(JobOut.__struct_fields__) - {"name", "namespace"}


class BatchMade(msgspec.Struct, gc=False):
    """A job of a batch that was made (201), or was there with the same content (200)."""

    status: Literal[200, 201]
    id: str
    state: JobState
    revision: int
    next_fire_at: Time | None


class JobDeleted(msgspec.Struct):
    """`deleted`: how many jobs were. `ending`: runs of it that were under way and are asked to end."""

    deleted: int
    ending: int


class RunIn(msgspec.Struct, forbid_unknown_fields=True):
    params: dict[str, Any] | None = None
    priority: Priority | None = None


class RunMade(msgspec.Struct):
    """`id`: the instance that was made."""

    id: str
    job_id: str


class ExpireIn(msgspec.Struct, forbid_unknown_fields=True):
    kill: bool = False


class SkipNextIn(msgspec.Struct, forbid_unknown_fields=True):
    """`at`: the nominal time that is meant; without it the next one, whichever that is."""

    at: Time | None = None


class StateIn(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["SCHEDULED", "SUSPENDED"] | None = None


class PauseIn(msgspec.Struct, forbid_unknown_fields=True):
    """Until when, or for how long; not both. With neither it lasts until somebody resumes the job."""

    until: Time | None = None
    for_: Duration | None = field(default=None, name="for")


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


class BackfillSeen(msgspec.Struct):
    """With `dry_run`: what would be made."""

    job_id: str
    count: int
    times: list[Time]


class CheckedOut(msgspec.Struct):
    """`job`: its content, defaults filled in. `description` and `next`: its trigger in words, and its next times."""

    result: Result
    job: dict[str, Any]
    description: str
    next: list[Moment]
    more: bool


class ComparisonOut(msgspec.Struct):
    """Jobs as they are given, without defaults."""

    result: Result
    before: dict[str, Any] | None
    after: dict[str, Any]


class ComparedOut(msgspec.Struct, omit_defaults=True):
    """`refused`: by the `detail`, as a PUT of the job would be. `etag`: of the job that there is, for the If-Match of
    that PUT."""

    result: Literal["created", "changed", "unchanged", "refused"]
    detail: str | None = None
    etag: str | None = None


class ComparedPage(msgspec.Struct):
    """One for each job, in their order."""

    items: list[ComparedOut]


class RevisionOut(msgspec.Struct):
    """An earlier content of a job: from when (null when that is not kept any more) and until when (null: it still
    holds). `by`: the name of the token with which it was made so; null: nobody knows."""

    revision: int
    name: str | None
    from_: str | None = msgspec.field(name="from")
    to: str | None
    by: str | None
    content: Any
