"""Settles in a state that is restored what its old cluster may have run after it was saved.

No entry of the log holds this: it is done once, to the tables that a new cluster begins with, of which the other
members get a copy. So it is of no level, and whichever version joins reads ordinary rows."""

from __future__ import annotations

from raftsched.core.apply import end_entry
from raftsched.core.apply.dispatch import HANDLERS
from raftsched.core.apply.jobs.bulk import running, step_operation
from raftsched.core.apply.jobs.firing import fire
from raftsched.core.apply.runs.finish import finish, settle
from raftsched.core.apply.runs.parts import ask_to_end
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Fire, ResumeJob, ScheduleJob
from raftsched.core.model import FINAL, Delivery, InstanceState, Job
from raftsched.core.subjects.calendar import RescheduleJob
from raftsched.core.subjects.operations import Operation, OperationState, StepOperation

RESTORED = "restored"
_MAY_HAVE_RUN = "It may have run after the backup was made, and the job is to run at most once."


def begin(tx: Tx, index: int, term: int, now_ms: int) -> None:
    """Begins what `end` ends. `index`: of an entry that is in no log, above all of those that were."""
    tx.actions = []
    tx.advance(now_ms)
    tx.index, tx.term = index, term


def end(tx: Tx, index: int) -> None:
    end_entry(tx, index)
    tx.save()


def take_up(tx: Tx, c: ScheduleJob | RescheduleJob | ResumeJob) -> None:
    """Does what a leader would do about a job whose next time is not known, so that what was due of it is."""
    HANDLERS[type(c)](tx, c)


def operations(tx: Tx) -> list[Operation]:
    """Returns those that are under way."""
    return running(tx)


def step(tx: Tx, c: StepOperation) -> bool:
    """Takes a step of an operation. Returns whether there are more."""
    answer = step_operation(tx, c)
    operation = answer.operation if isinstance(answer, Accepted) else None
    return operation is not None and operation.state is OperationState.RUNNING


def skip(tx: Tx, c: Fire) -> int:
    """Records the times that the command would run as SKIPPED. Returns how many; 0: it is not about the job's next
    time."""
    before = tx.job(c.job_id)
    known = 0 if before is None else _skipped(tx, before)
    answer = fire(tx, c, RESTORED)
    job = answer.job if isinstance(answer, Accepted) else None
    if before is None or job is None:
        return 0
    return _skipped(tx, job) - (known if job.gap == before.gap else 0)


def _skipped(tx: Tx, job: Job) -> int:
    """Returns how many times the record stands for that the next skip may extend."""
    record = None if job.gap is None else tx.instance(job.gap)
    return 0 if record is None else record.gap_count or 0


def end_at_most_once(tx: Tx, key: bytes) -> bool:
    """Ends an instance that waits, for its first attempt or another, if its job is to run at most once. Returns whether
    it did. One whose attempt is live ends with the session of that, as any that is lost. A part counts as its
    parent."""
    instance = tx.instance(key)
    if instance is not None and instance.parent is not None:
        instance = tx.instance(instance.parent)
    job = None if instance is None or instance.state in FINAL else tx.job(instance.job_id)
    if instance is None or job is None or tx.policy_of(job, instance).delivery is not Delivery.AT_MOST_ONCE:
        return False
    if instance.live is not None or instance.kill_asked:
        return False
    instance.error = _MAY_HAVE_RUN
    if instance.parts is not None:
        ask_to_end(tx, instance, RESTORED)
        tx.put_instance(instance)
        return True
    instance.reason = RESTORED
    finish(tx, job, instance, "miss_start" if instance.state is InstanceState.WAITING else "kill")
    settle(tx, job)
    tx.put_job(job)
    tx.put_instance(instance)
    return True
