"""Starts operations on many jobs, continues them in bounded steps, cancels them."""

from __future__ import annotations

from raftsched.bounds import BULK_IDS_MAX, TIME_MAX_MS
from raftsched.core.actions import OperationStarted
from raftsched.core.apply.jobs.lifecycle import delete_job, reschedule, set_job_state
from raftsched.core.apply.jobs.manual import run_now
from raftsched.core.apply.keys import once
from raftsched.core.apply.refusals import no_job
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, DeleteJob, Rejected, RunNow, SetJobState
from raftsched.core.ids import job_text
from raftsched.core.limits import U64_MAX
from raftsched.core.model import Job, JobState, Overlap
from raftsched.core.rows import decode_operation, encode_row
from raftsched.core.rules.filters import JobFilter, filter_error
from raftsched.core.rules.selection import match, walk
from raftsched.core.subjects.operations import (
    JOBS_MAX,
    KEPT_MAX,
    REFUSALS_MAX,
    ROWS_MAX,
    RUNNING_MAX,
    BulkAction,
    CancelOperation,
    Operation,
    OperationState,
    Refusal,
    StartOperation,
    StepOperation,
)
from raftsched.core.tables import Table, from_u64, u64

_STATES = {
    BulkAction.PAUSE: JobState.SUSPENDED,
    BulkAction.RESUME: JobState.SCHEDULED,
    BulkAction.EXPIRE: JobState.EXPIRED,
}


def start_operation(tx: Tx, c: StartOperation) -> Answer:
    return once(tx, c.key, c.digest, lambda: _start(tx, c))


def _start(tx: Tx, c: StartOperation) -> Answer:
    wrong = _wrong(c)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    meta = tx.meta
    if meta.operations_running >= RUNNING_MAX:
        return Rejected(
            "too-many", f"{RUNNING_MAX} operations are running, as many as may; wait for one, or cancel it."
        )
    ids = tuple(dict.fromkeys(c.ids))
    operation = open_operation(tx, c.action, c.filter, ids, c.kill, c.namespaces, c.resume_at_ms)
    return Accepted(operation=operation, created=True)


def open_operation(
    tx: Tx,
    action: BulkAction,
    wanted: JobFilter | None,
    ids: tuple[int, ...] = (),
    kill: bool = False,
    namespaces: tuple[str, ...] | None = None,
    resume_at_ms: int | None = None,
) -> Operation:
    """Starts an operation. The caller has checked that not too many run."""
    meta = tx.meta
    if meta.operations >= KEPT_MAX:
        _drop_oldest(tx)
    last_id = meta.last_id
    operation = Operation(
        id=tx.new_id(),
        action=action,
        state=OperationState.RUNNING,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        filter=wanted,
        ids=ids,
        kill=kill,
        until_id=last_id,
        total=_total(tx, wanted, ids),
        by=tx.actor,
        namespaces=namespaces,
        resume_at_ms=resume_at_ms,
    )
    meta.operations += 1
    meta.operations_running += 1
    tx.view.put(Table.OPERATIONS_RUNNING, u64(operation.id), b"")
    _put(tx, operation)
    tx.actions.append(OperationStarted(operation.id))
    return operation


def restart(tx: Tx, operation: Operation) -> None:
    """Sends the operation through all present jobs again, from the first on."""
    operation.after = b""
    operation.until_id = tx.meta.last_id
    operation.modified_at_ms = tx.now
    _put(tx, operation)


def running(tx: Tx) -> list[Operation]:
    found = (_find(tx, from_u64(key)) for key, _ in list(tx.view.scan(Table.OPERATIONS_RUNNING)))
    return [operation for operation in found if operation is not None]


def _wrong(c: StartOperation) -> str | None:
    if (c.filter is None) == (not c.ids):
        return "An operation has either a filter, or ids."
    if len(c.ids) > BULK_IDS_MAX:
        return f"{len(c.ids)} ids are given; {BULK_IDS_MAX} is the limit."
    if not all(0 <= job_id <= U64_MAX for job_id in c.ids):
        return "The id of a job is a number of 64 bits."
    if c.action is BulkAction.RESCHEDULE:
        return "Jobs are rescheduled by changing their calendar."
    if c.kill and c.action is not BulkAction.EXPIRE:
        return "Only what is expired can be killed with it."
    if c.resume_at_ms is not None and (c.action is not BulkAction.PAUSE or not 0 <= c.resume_at_ms <= TIME_MAX_MS):
        return "Only what is paused can be resumed at a time, which has to be one from 1970 to 9999."
    return None if c.filter is None else filter_error(c.filter)


def _total(tx: Tx, wanted: JobFilter | None, ids: tuple[int, ...]) -> int | None:
    """Returns how many rows will be looked at, None when that is not known."""
    if wanted is None:
        return len(ids)
    last_id = tx.meta.last_id
    return sum(tx.meta.jobs) if walk(wanted, last_id) == walk(JobFilter(), last_id) else None


def _drop_oldest(tx: Tx) -> None:
    """Deletes the first operation that has ended. Few run at one time, so that it is found soon."""
    for key, raw in tx.view.scan(Table.OPERATIONS):
        if decode_operation(raw).state is not OperationState.RUNNING:
            tx.view.delete(Table.OPERATIONS, key)
            tx.meta.operations -= 1
            return


def _put(tx: Tx, operation: Operation) -> None:
    tx.view.put(Table.OPERATIONS, u64(operation.id), encode_row(operation))


def _find(tx: Tx, number: int) -> Operation | None:
    if not 0 <= number <= U64_MAX:
        return None
    raw = tx.view.get(Table.OPERATIONS, u64(number))
    return None if raw is None else decode_operation(raw)


def _end(tx: Tx, operation: Operation, state: OperationState) -> None:
    operation.state = state
    operation.ended_at_ms = tx.now
    operation.ids = ()
    operation.after = b""
    tx.meta.operations_running -= 1
    tx.view.delete(Table.OPERATIONS_RUNNING, u64(operation.id))
    tx.events.operation_ended(operation.id)


def cancel_operation(tx: Tx, c: CancelOperation) -> Answer:
    operation = _find(tx, c.operation)
    if operation is None:
        return Rejected("not-found", f"There is no operation {job_text(c.operation & U64_MAX)}.")
    if operation.state is OperationState.DONE:
        return Rejected("illegal-transition", "The operation is DONE; there is nothing left to cancel.")
    if operation.action is BulkAction.RESCHEDULE:
        return Rejected("illegal-transition", "The operation follows from a change of a calendar; it has to end.")
    if operation.state is not OperationState.RUNNING:
        return Accepted(operation=operation, unchanged=True)
    operation.modified_at_ms = tx.now
    _end(tx, operation, OperationState.CANCELLED)
    _put(tx, operation)
    return Accepted(operation=operation)


# ---------------------------------------------------------------- a step


def step_operation(tx: Tx, c: StepOperation) -> Answer:
    operation = _find(tx, c.operation)
    if operation is None or operation.state is not OperationState.RUNNING or operation.steps != c.step:
        return STALE
    rows, work = max(1, min(c.rows, ROWS_MAX)), max(1, min(c.jobs, JOBS_MAX))
    if operation.filter is None:
        chosen, more = _next_ids(tx, operation, rows, work)
    else:
        chosen, more = _next_matches(tx, operation, operation.filter, rows, work)
    for job_id in chosen:
        _act(tx, operation, job_id)
    operation.steps += 1
    operation.modified_at_ms = tx.now
    if not more:
        _end(tx, operation, OperationState.DONE)
    _put(tx, operation)
    return Accepted(operation=operation)


def _next_ids(tx: Tx, operation: Operation, rows: int, work: int) -> tuple[list[int], bool]:
    """Returns ids to act on, and whether there are more after them."""
    chosen: list[int] = []
    for job_id in operation.ids[operation.examined : operation.examined + rows]:
        if work <= 0:
            break
        job = tx.job(job_id)
        work -= 1 if job is None else _work(operation, job)
        chosen.append(job_id)
    operation.examined += len(chosen)
    return chosen, operation.examined < len(operation.ids)


def _next_matches(tx: Tx, operation: Operation, wanted: JobFilter, rows: int, work: int) -> tuple[list[int], bool]:
    """Returns the same by filter. All are found before any is acted on: that changes the rows that are walked."""
    chosen: list[int] = []
    way = walk(wanted, operation.until_id)
    for key, value in way.rows(tx.view, operation.after or None):
        if rows <= 0 or work <= 0:
            return chosen, True
        rows -= 1
        operation.after = key
        operation.examined += 1
        raw = way.job(tx.view, key, value)
        job = None if raw is None else match(wanted, raw)
        if job is not None and job.id <= operation.until_id:
            work -= _work(operation, job)
            chosen.append(job.id)
    return chosen, False


def _work(operation: Operation, job: Job) -> int:
    """Returns the cost of acting on the job: all its active instances may be ended."""
    ends = operation.action is BulkAction.DELETE or operation.kill
    if operation.action is BulkAction.RUN:
        ends = job.policy.overlap is Overlap.REPLACE
    return 1 + job.active if ends else 1


def _act(tx: Tx, operation: Operation, job_id: int) -> None:
    operation.matched += 1
    before = tx.job(job_id)
    if before is not None and operation.namespaces is not None and before.namespace not in operation.namespaces:
        before = None
    answer = no_job(job_id) if before is None else _ask(tx, operation, job_id)
    if isinstance(answer, Rejected):
        operation.refused += 1
        if len(operation.refusals) < REFUSALS_MAX:
            operation.refusals += (Refusal(job_id, answer.code),)
    elif before is None or answer.job is None or answer.created or _is_changed(before, answer.job):
        operation.changed += 1


def _is_changed(before: Job, job: Job) -> bool:
    return job.state is not before.state or job.resume_at_ms != before.resume_at_ms


def _ask(tx: Tx, operation: Operation, job_id: int) -> Answer:
    action = operation.action
    if action is BulkAction.RUN:
        return run_now(tx, RunNow(job_id, operation.id))
    if action is BulkAction.RESCHEDULE:
        job = tx.job(job_id)
        return no_job(job_id) if job is None else Accepted(job=job, created=reschedule(tx, job))
    if action is BulkAction.DELETE:
        return delete_job(tx, DeleteJob(job_id))
    change = SetJobState(job_id, _STATES[action], operation.kill, resume_at_ms=operation.resume_at_ms)
    return set_job_state(tx, change)
