"""Made from surface/jobs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from raftsched.client.generated.job_shapes import JobWarning
from raftsched.client.generated.schedules import Occurrence
from raftsched.client.moments import Moment

Result = Literal["created", "changed", "unchanged"]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """`ending`: runs of the job that were under way and are asked to end; None: the answer that said it was lost."""

    deleted: int = 1
    ending: int | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A job that could be written, and the `result` that this would have. `job`: its content, defaults filled in.
    `description` and `next`: its trigger in words, and its next times. `warnings`: what it asks for that nobody offers
    now; it would be written all the same."""

    result: str
    job: dict[str, Any]
    description: str
    next: list[Occurrence]
    more: bool = False
    warnings: list[JobWarning] = []


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier content of a job: from when (None when that is not kept any more) and until when (None: it still
    holds). `by`: the name of the token with which it was made so; None: nobody knows."""

    revision: int
    name: str | None
    since: datetime | None = msgspec.field(name="from")
    until: datetime | None = msgspec.field(name="to")
    by: str | None = None
    content: dict[str, Any]


class JobFilter(TypedDict, total=False):
    """Parameters of a list of jobs. All that is given has to hold."""

    namespace: str
    name: str
    name_prefix: str
    name_contains: str
    state: str  # one, or several with commas
    owner: str
    label: str  # key=value
    queue: str
    calendar: str
    created_from: Moment
    created_to: Moment
    next_from: Moment
    next_to: Moment
    failing: bool  # the run that ended last failed or timed out, or the one before those that were killed since
    late: bool  # due more than a second ago, and the run has not begun
    order: Literal["asc", "desc"]
