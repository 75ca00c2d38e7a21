"""The answers to requests that were done before, under the same Idempotency-Key. `apply.keys` remembers them."""

from __future__ import annotations

from raftsched.core import rows
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.ids import job_text
from raftsched.core.model import JobState
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.keyed import KeyUse
from raftsched.core.tables import ReadView

BATCH_PLACES = 512  # items of a batch that share one row of KEYS


def known_use(view: ReadView, meta: Meta, key: bytes) -> KeyUse | None:
    """Returns what was done under this key (its hash), None when it is not remembered, or no longer."""
    use = rows.KEYS.get(view, key)
    return use if use is not None and use.at_ms > meta.now_ms - meta.settings.idempotency_keep_ms else None


def key_mismatch() -> Rejected:
    return Rejected(
        "idempotency-mismatch",
        "This Idempotency-Key came with another request before; use a new key for a new request.",
    )


def replay(view: ReadView, use: KeyUse) -> Answer:
    """Returns the answer to a request that was done before: as then, with the job or operation as it is by now."""
    if use.operation:
        operation = rows.OPERATIONS.get(view, use.operation)
        return _gone(use) if operation is None else Accepted(operation=operation, created=True)
    job = None
    if use.job_id:
        job = rows.JOBS.get(view, use.job_id)
        if use.instance is None and (job is None or job.state is JobState.DELETED):
            return _gone(use)
    return Accepted(job=job, instance=use.instance, created=use.created, number=use.number, note=use.note)


def item_result(view: ReadView, use: KeyUse, place: int) -> Answer | None:
    """Returns what was made at this place of a batch, as it is by now; None when nothing was yet."""
    for made in reversed(use.made):
        if made.place <= place < made.place + made.count:
            job_id = made.job_id + place - made.place
            return replay(view, KeyUse(use.digest, use.at_ms, job_id, created=made.created))
    return None


def _gone(use: KeyUse) -> Rejected:
    if use.operation:
        return Rejected(
            "not-found",
            f"The request with this Idempotency-Key was done before; the operation {job_text(use.operation)} is not "
            "kept any more.",
        )
    return Rejected(
        "not-found",
        f"The request with this Idempotency-Key was done before; the job {job_text(use.job_id)} was deleted since.",
    )
