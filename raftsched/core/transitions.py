"""Lists every transition of jobs and instances, in one table each. What is not listed is refused.

A transition to the same state is a repeat: it changes nothing and is no error.
"""

from __future__ import annotations

from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState as J

JOB: dict[tuple[J, str], J] = {
    (J.NEW, "resume"): J.SCHEDULED,
    (J.NEW, "pause"): J.NEW,
    (J.NEW, "edit"): J.NEW,
    (J.NEW, "expire"): J.EXPIRED,
    (J.NEW, "delete"): J.DELETED,
    (J.SCHEDULED, "resume"): J.SCHEDULED,
    (J.SCHEDULED, "pause"): J.SUSPENDED,
    (J.SCHEDULED, "edit"): J.SCHEDULED,
    (J.SCHEDULED, "exhaust"): J.EXPIRED,  # past its end, out of runs, or a one-shot that has run
    (J.SCHEDULED, "expire"): J.EXPIRED,
    (J.SCHEDULED, "delete"): J.DELETED,
    (J.SUSPENDED, "resume"): J.SCHEDULED,
    (J.SUSPENDED, "pause"): J.SUSPENDED,
    (J.SUSPENDED, "edit"): J.SUSPENDED,
    (J.SUSPENDED, "expire"): J.EXPIRED,
    (J.SUSPENDED, "delete"): J.DELETED,
    (J.EXPIRED, "expire"): J.EXPIRED,
    (J.EXPIRED, "edit"): J.EXPIRED,
    (J.EXPIRED, "reschedule"): J.SCHEDULED,  # an edit that changes the trigger
    (J.EXPIRED, "delete"): J.DELETED,
}

INSTANCE: dict[tuple[I, str], I] = {
    (I.WAITING, "assign"): I.LAUNCHED,
    (I.WAITING, "kill"): I.KILLED,
    (I.WAITING, "give_up"): I.TIMED_OUT,  # its conditions were not met in time
    (I.WAITING, "miss_start"): I.SKIPPED,  # nobody could take it within the start deadline, or it expired
    (I.WAITING, "strand"): I.FAILED,  # the same, of a part: who it is for is gone
    (I.WAITING, "split"): I.RUNNING,  # its parts run
    (I.LAUNCHED, "start"): I.RUNNING,
    (I.LAUNCHED, "succeed"): I.SUCCEEDED,
    (I.LAUNCHED, "fail"): I.FAILED,
    (I.LAUNCHED, "time_out"): I.TIMED_OUT,
    (I.LAUNCHED, "kill"): I.KILLED,
    (I.LAUNCHED, "retry"): I.RETRYING,
    (I.LAUNCHED, "requeue"): I.WAITING,  # its worker was lost
    (I.RUNNING, "start"): I.RUNNING,
    (I.RUNNING, "succeed"): I.SUCCEEDED,
    (I.RUNNING, "fail"): I.FAILED,
    (I.RUNNING, "time_out"): I.TIMED_OUT,
    (I.RUNNING, "kill"): I.KILLED,
    (I.RUNNING, "retry"): I.RETRYING,
    (I.RUNNING, "requeue"): I.WAITING,
    (I.RETRYING, "wake"): I.WAITING,
    (I.RETRYING, "kill"): I.KILLED,
    (I.SUCCEEDED, "rerun"): I.WAITING,
    (I.FAILED, "rerun"): I.WAITING,
    (I.TIMED_OUT, "rerun"): I.WAITING,
    (I.KILLED, "rerun"): I.WAITING,
    (I.SKIPPED, "rerun"): I.WAITING,
}


def job_after(state: J, event: str) -> J:
    """The state after an event that is possible; a KeyError is a bug of the caller."""
    return JOB[state, event]


def instance_after(state: I, event: str) -> I:
    """The state after an event that is possible; a KeyError is a bug of the caller."""
    return INSTANCE[state, event]


def job_next(state: J, event: str) -> J | None:
    """The state after the event; None: not possible."""
    return JOB.get((state, event))
