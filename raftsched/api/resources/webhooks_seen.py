"""The webhooks that a caller may name in a job: those that they can see. Others are refused as if they did not exist. A
webhook that the job, or the defaults of its namespace, named before may stay."""

from __future__ import annotations

from collections.abc import Callable, Collection

from raftsched.api.auth.callers import sees_all
from raftsched.api.auth.known import knows_webhook
from raftsched.api.context import ApiContext
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.requests import catch_up
from raftsched.api.jobs.notify import absent
from raftsched.api.jobs.parse import Content
from raftsched.core.model import Job, Policy
from raftsched.core.rows import decode_webhook
from raftsched.core.tables import ReadView, Table

Find = Callable[[ReadView], Job | None]


def is_limited() -> bool:
    """Returns whether some webhooks do not exist for the caller."""
    return not sees_all()


def unseen(view: ReadView, policy: Policy, said: Collection[str | None]) -> FieldError | None:
    """Returns an error for the first webhook that the caller may not name. `said`: those that are named already."""
    if not policy.notify or not is_limited():
        return None
    for i, one in enumerate(policy.notify):
        if one.webhook in said:
            continue
        raw = view.get(Table.WEBHOOKS, one.webhook.encode())
        if raw is None or not knows_webhook(decode_webhook(raw)):
            return absent(policy, i)
    return None


def refuse_unseen(view: ReadView, content: Content, job: Job | None) -> None:
    """Raises Problem invalid-job. `job`: the job as it is until now."""
    if not content.has_own_notify:
        return
    wrong = unseen(view, content.policy, () if job is None else {one.webhook for one in job.policy.notify})
    if wrong is not None:
        raise Problem("invalid-job", errors=[wrong])


async def check_notify(ctx: ApiContext, content: Content, find: Find = lambda view: None) -> None:
    """Does what `refuse_unseen` does, before a write: this node catches up before it refuses. `find` returns the job as
    it is until now."""
    if not content.has_own_notify or not is_limited():
        return
    try:
        with ctx.read() as view:
            refuse_unseen(view, content, find(view))
            return
    except Problem:
        pass
    await catch_up(ctx)
    with ctx.read() as view:
        refuse_unseen(view, content, find(view))
