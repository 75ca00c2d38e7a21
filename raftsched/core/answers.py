"""Apply's answers to commands: that one is done, or why it is not."""

from __future__ import annotations

import msgspec

from raftsched.core.model import Instance, Job
from raftsched.core.subjects.operations import Operation


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Nothing was changed. `code` is stable (errors.py maps it); `detail` says what is wrong and what is right."""

    code: str
    detail: str = ""
    pointer: str | None = None  # the field of the job that is meant
    jobs: tuple[tuple[str, str], ...] = ()  # (namespace, name) of those that use it (apply/resources/users.py)
    meaning: str | None = None  # why that field is refused (errors.MEANINGS)


UNKNOWN = Rejected("unknown-command", "Not all nodes know this command yet; upgrade them before it is used.")


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """Done. Fields that do not concern the command are None."""

    job: Job | None = None
    instance: bytes | None = None  # instance key
    created: bool = False  # CreateJob: False when the name held the same content; RunNow: False for a repeat. Under a
    # key that is known: as the first time
    # OpenSession: the session; Prune: rows deleted; Backfill: runs made; PromoteDue: rows moved
    number: int | None = None
    row: Instance | None = None
    operation: Operation | None = None
    note: bytes = b""  # Note: the answer that is remembered; KillWorkflow: where the next one goes on, empty: nowhere
    unchanged: bool = False  # all was already as it was asked for, and stays so: nothing to note
    each: tuple[Accepted | Rejected, ...] = ()  # CreateJobs: of each job; `number` says how many were made by it


Answer = Accepted | Rejected
