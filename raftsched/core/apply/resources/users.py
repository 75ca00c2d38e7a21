"""Refuses to delete what jobs use. The jobs are kept apart from the text of the refusal: not every caller may see all
of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Rejected
from raftsched.core.ids import job_text
from raftsched.core.limits import USERS_MAX
from raftsched.core.model import Job
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, after

LOOK_MAX = 1_000  # rows looked at for them: two tags fall together once in 2^64 times


def jobs_with_tag(tx: Tx, tag: bytes) -> Iterator[Job]:
    """Yields the jobs with this tag, in the order of their ids. Two tags may be equal by accident: the caller has to
    check the jobs."""
    for key, _ in islice(tx.view.scan(Table.TAGS, tag, after(tag)), LOOK_MAX):
        raw = tx.view.get(Table.JOBS, key[-8:])
        if raw is not None:
            yield decode_job(raw)


def refusal_by_users(code: str, detail: str, users: Iterable[Job]) -> Rejected | None:
    """Returns a refusal that names the users, None when there are none."""
    jobs = tuple((job.namespace, job.name or job_text(job.id)) for job in islice(users, USERS_MAX + 1))
    return Rejected(code, detail, jobs=jobs) if jobs else None
