"""Creates, edits, pauses, resumes, expires and deletes jobs."""

from __future__ import annotations

from functools import partial

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.apply.indexes import tag_job, waits_in_line
from raftsched.core.apply.jobs import plain_jobs
from raftsched.core.apply.jobs.due import clear_unscheduled, is_unscheduled, mark_unscheduled, set_due, take_due
from raftsched.core.apply.jobs.overlap import active_instances, kill_active
from raftsched.core.apply.jobs.plain_jobs import anchor_ms, blank
from raftsched.core.apply.jobs.several import (
    follow_first,
    has_all_runs,
    new_state,
    reschedule_triggers,
    start_triggers,
    states_after_edit,
    stop_triggers,
)
from raftsched.core.apply.keys import once, once_in_batch
from raftsched.core.apply.refusals import no_job, reject_system_job
from raftsched.core.apply.resources.namespace_edits import refuse_new_job, refuse_stale_defaults
from raftsched.core.apply.resources.secret_edits import check_references
from raftsched.core.apply.runs.conditions import succeeded
from raftsched.core.apply.runs.finish import exhaust, note_unfired, release, settle, stop_schedule
from raftsched.core.apply.runs.history import keep_until
from raftsched.core.apply.runs.notices import unknown_webhook
from raftsched.core.apply.runs.run_keys import look_at_line
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import REPEAT, STALE, stale_revision
from raftsched.core.commands import Accepted, Answer, CreateJob, DeleteJob, EditJob, Rejected, ResumeJob, SetJobState
from raftsched.core.levels import HASHED_BY_NAME, PAUSES_BEGIN_FIRST
from raftsched.core.limits import HISTORY_MAX, REVISIONS_MAX, policy_error
from raftsched.core.model import FINAL, EveryMode, Job, JobState, PastRevision, Policy, TriggerKind, scheduled_instance
from raftsched.core.rows import encode_row
from raftsched.core.rules.ascii import lower
from raftsched.core.rules.creation import (
    circle,
    name_error,
    name_taken,
    seed_after_edit,
    seed_of,
    taken,
    unknown_calendar,
    waits_for,
)
from raftsched.core.rules.intervals import first_nominal
from raftsched.core.rules.references import may_refer
from raftsched.core.rules.selection import is_followed
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import Table, after, by_job_key, from_u64, name_key, revision_key, u64
from raftsched.core.transitions import job_after, job_next

LINES_MAX = 1_000  # runs of a job that one edit looks at for the lines they wait in

_NEW, _SCHEDULED = JobState.NEW, JobState.SCHEDULED
_EVENTS = {JobState.SCHEDULED: "resume", JobState.SUSPENDED: "pause", JobState.EXPIRED: "expire"}


def create_job(tx: Tx, c: CreateJob) -> Answer:
    if not c.key:
        return create(tx, c)
    if c.place is not None:
        return once_in_batch(tx, c.key, c.digest, c.place, lambda: create(tx, c))
    return once(tx, c.key, c.digest, lambda: create(tx, c))


def create(tx: Tx, c: CreateJob) -> Answer:
    made = plain_jobs.create(tx, c)
    if made is not None:
        return Accepted(job=made, created=True)
    refused = _check(tx, c.namespace, c.policy, c.body) or refuse_stale_defaults(tx, c.namespace, c.defaults)
    if refused is None and (c.policy.conditions or c.policy.trigger.after is not None):
        refused = _new_circle(tx, _of_name(tx, c.namespace, c.name), c.namespace, c.name, c.policy)
    if refused is not None:
        return refused
    if c.namespace == SYSTEM_NAMESPACE:
        return Rejected("invalid-job", f"The namespace {SYSTEM_NAMESPACE} is the cluster's own; take another.")
    if c.name is not None:
        wrong = name_error(c.namespace, c.name)
        if wrong is not None:
            return wrong
        there = tx.view.get(Table.NAMES, name_key(c.namespace, c.name))
        if there is not None:
            return _answer_taken_name(tx, c, from_u64(there))
    refused = refuse_new_job(tx, c.namespace)
    if refused is not None:
        return refused
    job = blank(tx, c.namespace, c.policy, suspended=c.suspended)
    begin(tx, job, c.name, c.policy, c.body)
    tx.put_job(job)
    return Accepted(job=job, created=True)


def begin(tx: Tx, job: Job, name: str | None, policy: Policy, body: bytes) -> None:
    """Makes a job of a blank one. The caller stores it."""
    job.id = tx.new_id()
    job.policy = policy
    job.body = body
    if name is not None:
        job.name = name
        if tx.meta.level >= HASHED_BY_NAME:
            job.seed = seed_of(job.namespace, name, policy)
        tx.view.put(Table.NAMES, name_key(job.namespace, name), u64(job.id))
    if policy.triggers:
        job.triggers = tuple(new_state(tx.now, trigger) for trigger in policy.triggers)
    start_schedule(tx, job)
    tag_job(tx, job)


def _of_name(tx: Tx, namespace: str, name: str | None) -> Job | None:
    """Returns the job of this name. What cannot be a name is no key to look up."""
    return None if name is None or name_error(namespace, name) is not None else tx.named(namespace, name)


def _new_circle(tx: Tx, job: Job | None, namespace: str, name: str | None, policy: Policy) -> Rejected | None:
    """Refuses what has a job wait for itself. `job`: as it is until now; what it waits for already, is not looked at
    again."""
    awaited = waits_for(policy)
    if not awaited or (job is not None and awaited == waits_for(job.policy) and name == job.name):
        return None
    followed = partial(is_followed, tx.view)
    refused, tx.circle_steps = circle(tx.named, namespace, name, policy, followed=followed, steps=tx.circle_steps)
    return refused


def _answer_taken_name(tx: Tx, c: CreateJob, job_id: int) -> Answer:
    """Answers a create under a name that exists: the same content is the same job; other content replaces it only when
    asked to."""
    job = tx.job(job_id)
    if job is None:
        return no_job(job_id)
    if c.if_none:
        return Rejected("exists", f"The name {c.name} exists already in namespace {c.namespace}.")
    if c.replace:
        answer = edit(tx, job, c.policy, c.body)
        return _paused(tx, job, answer) if c.suspended else answer
    assert c.name is not None
    refused = taken(job, c.namespace, c.name, c.policy, c.body, suspended=c.suspended)
    return refused or Accepted(job=job, created=False)  # also one that was paused: creating again resumes nothing


def _paused(tx: Tx, job: Job, answer: Answer) -> Answer:
    """Pauses a job that was given its content and is to be suspended, if it is scheduled then. Returns the answer to
    all of that."""
    if not isinstance(answer, Accepted) or job.state is not JobState.SCHEDULED:
        return answer
    stop_schedule(tx, job, "suspended")
    job.state = job_after(job.state, "pause")
    job.modified_at_ms = tx.now
    tx.put_job(job)
    return Accepted(job=job)


def _check(tx: Tx, namespace: str, policy: Policy, body: bytes) -> Rejected | None:
    """Refuses content above the limits. The API has checked before; a limit may have changed meanwhile."""
    settings = tx.meta.settings
    if len(body) > settings.body_max_bytes:
        return Rejected("too-large", f"The job takes {len(body)} bytes; {settings.body_max_bytes} is the limit.")
    if policy.timeout_ms > settings.timeout_ceiling_ms:
        return Rejected("invalid-job", f"timeout is above the cluster's ceiling of {settings.timeout_ceiling_ms} ms.")
    wrong = policy_error(policy)
    if wrong is not None:
        return Rejected("invalid-job", wrong)
    refused = None
    if policy.trigger.calendar is not None or policy.triggers:
        refused = unknown_calendar(policy, lambda name: tx.calendar(name) is not None)
    if refused is None and policy.notify:
        refused = unknown_webhook(tx, policy)
    if refused is None and may_refer(body):
        refused = check_references(tx, namespace, body)
    return refused


def start_schedule(tx: Tx, job: Job, since_ms: int | None = None) -> None:
    """Computes the next fire time of a job from now on, or after `since_ms`, as far as the job's state lets it fire."""
    if since_ms is None:
        since_ms = tx.now
    trigger = job.policy.trigger
    if job.triggers:
        _start_triggers(tx, job, since_ms)
        return
    if trigger.once:
        nominal = None if job.runs else first_nominal(trigger, tx.now, job.anchor_at_ms)
        if job.state is not _SCHEDULED:
            job.nominal_at_ms = nominal
            return
        set_due(job, nominal)
        if nominal is None or job.revision > 1:
            settle(tx, job)
        return
    if job.state is not JobState.SCHEDULED:
        return
    if trigger.max_runs is not None and job.runs >= trigger.max_runs:
        exhaust(tx, job)
    elif trigger.needs_calendar:
        mark_unscheduled(tx, job, since_ms)
    elif job.active and trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_DELAY:
        set_due(job, None)  # what is active ends first; the delay counts from there
    else:
        upcoming = first_nominal(trigger, since_ms, job.anchor_at_ms)
        if upcoming is not None and job.skipped_until_ms is not None and upcoming <= job.skipped_until_ms:
            upcoming = first_nominal(trigger, job.skipped_until_ms, job.anchor_at_ms)
        set_due(job, upcoming)
        settle(tx, job)


def _start_triggers(tx: Tx, job: Job, since_ms: int) -> None:
    if job.state is not _SCHEDULED:
        return
    if has_all_runs(job):
        stop_triggers(tx, job)
        exhaust(tx, job)
        return
    start_triggers(tx, job, since_ms)
    settle(tx, job)


def reschedule(tx: Tx, job: Job) -> bool:
    """Reschedules a job whose calendar was changed. A time that is due already and was not fired still counts, if the
    calendar lets it. Returns False when nothing is to be done about this job."""
    trigger = job.policy.trigger
    if job.state is not JobState.SCHEDULED or (trigger.calendar is None and not job.triggers):
        return False
    if trigger.max_runs is not None and job.runs >= trigger.max_runs:
        return False
    if job.triggers:
        take_due(tx, job)
        found = reschedule_triggers(tx, job)
        follow_first(tx, job)
        tx.put_job(job)
        return found
    since_ms = tx.now if job.nominal_at_ms is None else min(tx.now, job.nominal_at_ms - 1)
    set_due(job, None)
    mark_unscheduled(tx, job, max(0, since_ms))
    tx.put_job(job)
    return True


def _job_to_change(tx: Tx, job_id: int, if_revision: int | None) -> Job | Rejected:
    job = tx.job(job_id)
    if job is None or job.state is JobState.DELETED:
        return no_job(job_id)
    if if_revision is not None and if_revision != job.revision:
        return stale_revision("The job", job, REPEAT)
    return reject_system_job(job) or job


def edit_job(tx: Tx, c: EditJob) -> Answer:
    job = _job_to_change(tx, c.job_id, c.if_revision)
    if isinstance(job, Rejected):
        return job
    refused = _check(tx, job.namespace, c.policy, c.body) or refuse_stale_defaults(tx, job.namespace, c.defaults)
    refused = refused or _new_circle(tx, job, job.namespace, c.name, c.policy)
    if refused is not None:
        return refused
    answer = edit(tx, job, c.policy, c.body, renamed=c.name != job.name, name=c.name)
    return _paused(tx, job, answer) if c.suspended else answer


def _rename(tx: Tx, job: Job, name: str | None) -> Rejected | None:
    if name is not None:
        wrong = name_error(job.namespace, name)
        if wrong is not None:
            return wrong
        key = name_key(job.namespace, name)
        if tx.view.get(Table.NAMES, key) is not None:
            return name_taken(job.namespace, name)
        tx.view.put(Table.NAMES, key, u64(job.id))
    if job.name is not None:
        tx.view.delete(Table.NAMES, name_key(job.namespace, job.name))
    return None


def edit(tx: Tx, job: Job, policy: Policy, body: bytes, *, renamed: bool = False, name: str | None = None) -> Answer:
    """Gives the job new content, from the next fire on. Instances that exist keep their revision."""
    if not renamed and policy == job.policy and body == job.body:
        return Accepted(job=job, unchanged=True)
    keep = job.active > 0 and _may_have_runs(tx, job)
    refused = _make_room_for_revision(tx, job) if keep else None
    if refused is None and renamed:
        refused = _rename(tx, job, name)
    if refused is not None:
        return refused
    if keep:
        tx.view.put(Table.REVISIONS, revision_key(job.id, job.revision), encode_row(job))
    _note_past(tx, job)
    own = scheduled_instance(job)
    limits = job.policy.concurrency
    moved = policy.trigger != job.policy.trigger or policy.triggers != job.policy.triggers
    states = job.triggers
    fresh = True  # no trigger stays as it was
    if moved:
        states = states_after_edit(tx.now, job, policy)
        fresh = set(policy.triggers).isdisjoint(job.policy.triggers)
        note_unfired(tx, job, "edited", policy.triggers)
        if tx.meta.level >= HASHED_BY_NAME:
            job.seed = seed_after_edit(job, name if renamed else job.name, policy)
        take_due(tx, job)
        clear_unscheduled(tx, job)
        job.purge_at_ms = None
    job.policy = policy
    job.body = body
    job.revision += 1
    job.by = tx.actor
    job.modified_at_ms = tx.now
    if renamed:
        job.name = name
        succeeded(tx, job)  # under this name it may be what others wait for
    if moved:
        if fresh:
            job.runs = 0
            job.skipped_until_ms = None
        job.triggers = states
        job.anchor_at_ms = anchor_ms(policy.trigger, tx.now)
        if job.state is JobState.EXPIRED:
            job.state = job_after(job.state, "reschedule")
        _relist(tx, job, own)
        start_schedule(tx, job)
    elif job.triggers:
        if job.state is _SCHEDULED and not has_all_runs(job):
            take_due(tx, job)
            start_triggers(tx, job, tx.now)
    elif job.fire_at_ms is not None:
        # the DUE row is the same, but the leader knows it by the revision
        due = job.nominal_at_ms, job.fire_at_ms
        take_due(tx, job)
        job.nominal_at_ms, job.fire_at_ms = due
    elif job.state is JobState.SCHEDULED and is_unscheduled(tx, job):
        mark_unscheduled(tx, job)
    release(tx, job)  # more of it may be allowed at one time now
    tag_job(tx, job)
    tx.events.job_edited(job)
    tx.put_job(job)
    if limits is not None and limits != policy.concurrency and job.active:
        _look_at_lines(tx, job)
    return Accepted(job=job)


def _look_at_lines(tx: Tx, job: Job) -> None:
    """Looks at the lines that runs of the job wait in: its limits by key were changed. What stands in others than those
    of its oldest runs goes by the new limits when its line is looked at next, at the end of a run of that key."""
    for key in active_instances(tx, job)[:LINES_MAX]:
        instance = tx.instance(key)
        if instance is not None and waits_in_line(instance):
            look_at_line(tx, instance)


def _note_past(tx: Tx, job: Job) -> None:
    """Keeps the job's present content as a past revision. When there are too many the oldest goes."""
    past = PastRevision(job.name, job.body, tx.now, job.by)
    tx.view.put(Table.HISTORY, revision_key(job.id, job.revision), encode_row(past))
    if job.revision > HISTORY_MAX:
        tx.view.delete(Table.HISTORY, revision_key(job.id, job.revision - HISTORY_MAX))


def _may_have_runs(tx: Tx, job: Job) -> bool:
    """Returns whether an active instance may be of the job's present revision: if there is one, the newest run is of it
    too."""
    newest = None if job.last_instance is None else tx.instance(job.last_instance)
    return newest is None or newest.job_revision == job.revision


def _make_room_for_revision(tx: Tx, job: Job) -> Rejected | None:
    """Makes room for one more earlier revision. Revisions go by themselves only when nothing of the job is active;
    where something always is, those that no instance runs any more are deleted here."""
    prefix = u64(job.id)
    oldest = tx.view.first(Table.REVISIONS, prefix, after(prefix))
    if oldest is None or job.revision - from_u64(oldest[0][8:]) < REVISIONS_MAX:
        return None
    rows = [tx.instance(key) for key in active_instances(tx, job)]
    used = {row.job_revision for row in rows if row is not None}
    kept = 0
    for key, _ in list(tx.view.scan(Table.REVISIONS, prefix, after(prefix))):
        if from_u64(key[8:]) in used:
            kept += 1
        else:
            tx.view.delete(Table.REVISIONS, key)
    if kept < REVISIONS_MAX:
        return None
    return Rejected("too-many", f"Runs of {kept} revisions of this job are active; wait until some of them end.")


def _relist(tx: Tx, job: Job, own: bytes | None) -> None:
    """Lists instances again after a change of the trigger: the one-shot's instance that was named by the old one
    (`own`) gets its rows in BY_JOB and PURGE like any other, and one that is named by the new one loses them."""
    named = scheduled_instance(job)
    if named == own:
        return
    instance = None if own is None else tx.instance(own)
    if instance is not None:
        tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
        if instance.state in FINAL:
            instance.purge_at_ms = keep_until(tx, job, instance)
        tx.put_instance(instance)
    instance = None if named is None else tx.instance(named)
    if instance is not None:
        tx.view.delete(Table.BY_JOB, by_job_key(instance.key))
        instance.purge_at_ms = None
        tx.put_instance(instance)


def set_job_state(tx: Tx, c: SetJobState) -> Answer:
    job = _job_to_change(tx, c.job_id, c.if_revision)
    if isinstance(job, Rejected):
        return job
    event = _EVENTS.get(c.state)
    state = None if event is None else job_next(job.state, event)
    if state is None:
        return Rejected("illegal-transition", f"A job that is {job.state.name} cannot become {c.state.name}.")
    resume_at_ms = c.resume_at_ms if c.state is JobState.SUSPENDED else None
    if resume_at_ms is not None and not 0 <= resume_at_ms <= TIME_MAX_MS:
        return Rejected("invalid-parameter", "A job is paused until a time from 1970 to 9999.")
    if resume_at_ms is not None and tx.meta.level >= PAUSES_BEGIN_FIRST:
        # An entry may come long after it was proposed, when the pause is over that it asks for: what was run meanwhile
        # is not owed again.
        resume_at_ms = max(resume_at_ms, min(tx.now + 1, TIME_MAX_MS))
    kills = state is JobState.EXPIRED and c.kill and job.active > 0
    unchanged = state is job.state and resume_at_ms == job.resume_at_ms and not kills
    if resume_at_ms != job.resume_at_ms:
        job.resume_at_ms = resume_at_ms
        job.modified_at_ms = tx.now
    if state is not job.state:
        job.state = state
        job.modified_at_ms = tx.now
        if state is JobState.SCHEDULED:
            _resume(tx, job, tx.now)
        else:
            stop_schedule(tx, job, lower(state.name))
            if state is JobState.SUSPENDED:
                job.error = c.error
    if state is JobState.EXPIRED and c.kill:
        kill_active(tx, job, "expired")
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job, unchanged=unchanged)


def _resume(tx: Tx, job: Job, since_ms: int) -> None:
    job.error = None
    job.failures_in_a_row = 0
    start_schedule(tx, job, since_ms)


def resume_job(tx: Tx, c: ResumeJob) -> Answer:
    """The time until which the job was paused counts, not when that is noticed: what is due from then on is owed."""
    job = tx.job(c.job_id)
    if job is None or job.resume_at_ms is None or job.resume_at_ms != c.resume_at_ms:
        return STALE
    since_ms = c.resume_at_ms - 1
    if tx.meta.level < PAUSES_BEGIN_FIRST:
        since_ms = max(since_ms, job.modified_at_ms)  # by the last change, which may be the pause
    job.resume_at_ms = None
    job.state = job_after(job.state, "resume")
    job.modified_at_ms = tx.now
    _resume(tx, job, max(0, min(tx.now, since_ms)))
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def delete_job(tx: Tx, c: DeleteJob) -> Answer:
    job = _job_to_change(tx, c.job_id, c.if_revision)
    if isinstance(job, Rejected):
        return job
    remove(tx, job)
    return Accepted(job=job)


def remove(tx: Tx, job: Job) -> None:
    """Deletes the job: frees its name and ends its instances. The row goes after the last attempt ended."""
    if job.name is not None:
        tx.view.delete(Table.NAMES, name_key(job.namespace, job.name))
    stop_schedule(tx, job, None)
    job.purge_at_ms = job.resume_at_ms = None
    job.state = job_after(job.state, "delete")
    job.modified_at_ms = tx.now
    kill_active(tx, job, "deleted")
    settle(tx, job)
    tx.put_job(job)
