"""The JSON of small answers, for OpenAPI; the larger ones are where they are made."""

from __future__ import annotations

from typing import Literal

import msgspec

from raftsched.api.cluster.overview import NodeOut, WaitingOut
from raftsched.api.jobs.schema import InstanceOut, Time


class Checks(msgspec.Struct):
    formed: bool
    leader: bool
    caught_up: bool


class Alive(msgspec.Struct):
    alive: bool


class Ready(msgspec.Struct):
    """`trouble`: why this node starts no runs, while it takes requests."""

    ready: Literal[True]
    checks: Checks
    trouble: str | None = None


class NotReady(msgspec.Struct):
    ready: Literal[False]
    checks: Checks
    waits_for: str
    trouble: str | None = None


class RunMade(msgspec.Struct):
    """`id`: the instance that was made."""

    id: str
    job_id: str


class JobStateShown(msgspec.Struct):
    state: Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]


class Moment(msgspec.Struct):
    """`trigger`: the id of the one of several triggers; null where there is one."""

    at: Time
    note: str | None
    trigger: str | None


class DueDayOut(msgspec.Struct):
    """A day of the time zone that was asked for. `left_out`: times that the trigger's calendar excludes."""

    date: str
    due: int
    left_out: int


class Moments(msgspec.Struct):
    """The trigger in plain words, and nominal times, before jitter. `more`: there are more than these, up to `to` if
    that was given. `days`: with `by_day`, those that have any times."""

    description: str
    next: list[Moment]
    more: bool
    days: list[DueDayOut] | None


class BackfillMade(msgspec.Struct):
    job_id: str
    count: int


class BackfillSeen(msgspec.Struct):
    """With `dry_run`: what would be made."""

    job_id: str
    count: int
    times: list[Time]


class BatchMade(msgspec.Struct, gc=False):
    """A job of a batch that was made (201), or was there with the same content (200)."""

    status: Literal[200, 201]
    id: str
    state: Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]
    revision: int
    next_fire_at: Time | None


class Refused(msgspec.Struct):
    id: str
    code: str
    detail: str


class Requeued(msgspec.Struct):
    """`next`: the cursor of the request that goes on, null when all was looked at."""

    matched: int
    requeued: int
    refused: list[Refused]
    dry_run: bool
    next: str | None


class Discarded(msgspec.Struct):
    """`next`: the cursor of the request that goes on, null when all was looked at."""

    matched: int
    discarded: int
    refused: list[Refused]
    dry_run: bool
    next: str | None


class DeadLetter(InstanceOut, kw_only=True):
    """An instance, and since when it is a dead letter."""

    dead_since: Time


class JobDeleted(msgspec.Struct):
    """`deleted`: how many jobs were. `ending`: runs of it that were under way and are asked to end."""

    deleted: int
    ending: int


class Paused(msgspec.Struct):
    paused: bool


class Transferred(msgspec.Struct):
    leader: str | None
    term: int


class MemberList(msgspec.Struct):
    """The members, and the nodes that ask to be let in."""

    items: list[NodeOut]
    waiting: list[WaitingOut]
    next: None


class MemberLetIn(msgspec.Struct):
    """More of it follows as in GET /v1/cluster, once this node knows it."""

    id: str
    voter: bool
