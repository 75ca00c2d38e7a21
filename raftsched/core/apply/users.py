"""What is in use is not deleted. Which jobs use it is said apart from the text of the refusal: not everybody may see
all of them."""

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


def tagged(tx: Tx, tag: bytes) -> Iterator[Job]:
    """In the order of their ids. Whether it is they that are meant is for the caller to see."""
    for key, _ in islice(tx.view.scan(Table.TAGS, tag, after(tag)), LOOK_MAX):
        raw = tx.view.get(Table.JOBS, key[-8:])
        if raw is not None:
            yield decode_job(raw)


def in_use(code: str, detail: str, users: Iterable[Job]) -> Rejected | None:
    """None: nothing uses it."""
    jobs = tuple((job.namespace, job.name or job_text(job.id)) for job in islice(users, USERS_MAX + 1))
    return Rejected(code, detail, jobs=jobs) if jobs else None
