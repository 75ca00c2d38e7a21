"""Calendars, and the jobs that are due by them. The leader computes times; here is decided which jobs need a new
one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from raftsched.core.apply.jobs.bulk import open_operation, restart, running
from raftsched.core.apply.jobs.lifecycle import reschedule
from raftsched.core.apply.resources.users import refusal_by_users
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE, is_stale, put_refused, stale_revision
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.model import Job
from raftsched.core.rows import encode_row
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import walk
from raftsched.core.subjects.calendar import (
    AT_ONCE,
    CALENDARS_MAX,
    Calendar,
    DeleteCalendar,
    PutCalendar,
    RescheduleJob,
    calendar_error,
)
from raftsched.core.subjects.operations import RUNNING_MAX, BulkAction
from raftsched.core.tables import Table, from_u64


def put_calendar(tx: Tx, c: PutCalendar) -> Answer:
    wrong = calendar_error(c.name, c.content)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    was = tx.calendar(c.name)
    exists = f"There is a calendar {c.name} already."
    absent = f"There is no calendar {c.name}; leave out the condition to create it."
    refused = put_refused(c, was, f"The calendar {c.name}", exists, absent)
    if refused is not None:
        return refused
    if was is not None and was.content == c.content:
        return Accepted(created=False, unchanged=True)
    if was is None:
        if tx.meta.calendars >= CALENDARS_MAX:
            return Rejected("not-possible", f"There are {tx.meta.calendars} calendars; {CALENDARS_MAX} is the limit.")
        tx.meta.calendars += 1
    else:
        refused = _reschedule_users(tx, c.name)
        if refused is not None:
            return refused
    calendar = Calendar(
        name=c.name,
        revision=tx.new_revision(),
        content=c.content,
        created_at_ms=tx.now if was is None else was.created_at_ms,
        modified_at_ms=tx.now,
    )
    tx.view.put(Table.CALENDARS, c.name.encode(), encode_row(calendar))
    return Accepted(created=was is None)


def delete_calendar(tx: Tx, c: DeleteCalendar) -> Answer:
    was = tx.calendar(c.name)
    if was is None:
        return Rejected("not-found", f"There is no calendar {c.name[:128]}.")
    if is_stale(c.if_revision, was):
        return stale_revision(f"The calendar {c.name}", was)
    refused = refusal_by_users("in-use", f"Jobs use the calendar {c.name}. Change these first.", _users(tx, c.name))
    if refused is not None:
        return refused
    tx.meta.calendars -= 1
    tx.view.delete(Table.CALENDARS, c.name.encode())
    return Accepted()


def _users(tx: Tx, name: str) -> Iterator[Job]:
    """Yields the jobs that use the calendar, in the order of their ids."""
    for key, _ in walk(JobFilter(calendar=name)).rows(tx.view):
        job = tx.job(from_u64(key[-8:]))
        if job is not None and name in job.policy.calendars:
            yield job


def _reschedule_users(tx: Tx, name: str) -> Rejected | None:
    """Reschedules all jobs that use the calendar. When there are many, an operation goes through them: until it comes
    to a job, the job's time is refused when it falls due."""
    users = list(islice(_users(tx, name), AT_ONCE + 1))
    if len(users) <= AT_ONCE:
        for job in users:
            reschedule(tx, job)
        return None
    wanted = JobFilter(calendar=name)
    for operation in running(tx):
        if operation.action is BulkAction.RESCHEDULE and operation.filter == wanted:
            restart(tx, operation)
            return None
    if tx.meta.operations_running >= RUNNING_MAX:
        detail = f"{RUNNING_MAX} operations are running, as many as may; wait for one, or cancel it."
        return Rejected("too-many", detail)
    open_operation(tx, BulkAction.RESCHEDULE, wanted)
    return None


def reschedule_job(tx: Tx, c: RescheduleJob) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.revision != c.revision or job.nominal_at_ms != c.nominal_at_ms:
        return STALE
    return Accepted(job=job) if reschedule(tx, job) else STALE
