"""Creates jobs that are alike: what is asked of all of them is asked once."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.apply.indexes import count_scheduled
from raftsched.core.apply.jobs import plain_jobs
from raftsched.core.apply.jobs.lifecycle import begin, create
from raftsched.core.apply.jobs.plain_jobs import blank
from raftsched.core.apply.keys import once_in_batch
from raftsched.core.apply.resources.namespace_edits import refuse_new_job
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, CreateJobs, Rejected
from raftsched.core.model import Job
from raftsched.core.rules.creation import name_error
from raftsched.core.rules.references import may_refer
from raftsched.core.tables import Table, name_key


def create_jobs(tx: Tx, c: CreateJobs) -> Answer:
    """Makes the jobs one after the other. The answer has that of each; its own job is the first that was made."""
    count = len(c.bodies)
    if any(column and len(column) != count for column in (c.times, c.names, c.places)) or bool(c.key) != bool(c.places):
        return Rejected("invalid-parameter", "A column has one value for each job, or none.")
    jobs = _Jobs(tx, c)
    answers: list[Answer] = []
    first, made = None, 0
    for at in range(count):
        tx.repeated = False
        if c.key:
            answer = once_in_batch(tx, c.key, c.digest, c.places[at], partial(jobs.create, at))
        else:
            answer = jobs.create(at)
        answers.append(answer)
        if isinstance(answer, Accepted) and answer.created and not tx.repeated:
            made += 1
            first = first or answer.job
    tx.repeated = False
    jobs.count()
    return Accepted(job=first, number=made, each=tuple(answers))


class _Jobs:
    """The jobs of one command."""

    def __init__(self, tx: Tx, c: CreateJobs) -> None:
        self._tx = tx
        self._c = c
        self._blank: Job | None = None  # set once a job was made: the policy is known to be in order
        self._has_limit = True  # the namespace: it may be full after any job
        self._is_plain = False  # set then, too
        self._uncounted = 0  # of those that were made
        policy = c.policy
        # Whether a job closes a circle is asked of each, and so is whether its time is one.
        self._same = not policy.conditions and policy.trigger.after is None and all(_is_time(at) for at in c.times)

    def create(self, at: int) -> Answer:
        tx, c, like = self._tx, self._c, self._blank
        if like is None:
            answer = create(tx, c.one(at))
            if self._same and isinstance(answer, Accepted) and answer.created:
                self._blank = blank(tx, c.namespace, c.policy, suspended=c.suspended)
                namespace = tx.namespace(c.namespace)
                self._has_limit = namespace is None or namespace.max_jobs is not None
                self._is_plain = not (self._has_limit or c.suspended) and plain_jobs.is_plain(c.policy)
            return answer
        body, name = c.bodies[at], c.names[at] if c.names else None
        if len(body) > tx.meta.settings.body_max_bytes or may_refer(body) or (name is not None and self._is_odd(name)):
            return create(tx, c.one(at))
        refused = refuse_new_job(tx, c.namespace) if self._has_limit else None
        if refused is not None:
            return refused
        policy = c.policy
        if c.times:
            policy = replace(policy, trigger=replace(policy.trigger, at_ms=c.times[at]))
        job = replace(like)
        if self._is_plain and plain_jobs.store(tx, job, name, policy, body):
            self._uncounted += 1
            return Accepted(job=job, created=True)
        begin(tx, job, name, policy, body)
        tx.put_job(job)
        return Accepted(job=job, created=True)

    def count(self) -> None:
        """Counts those that were not counted when they were stored."""
        if self._uncounted:
            count_scheduled(self._tx, self._c.namespace, self._uncounted)

    def _is_odd(self, name: str) -> bool:
        """Returns whether a name is none, or is taken."""
        namespace = self._c.namespace
        if name_error(namespace, name) is not None:
            return True
        return self._tx.view.get(Table.NAMES, name_key(namespace, name)) is not None


def _is_time(at_ms: int) -> bool:
    return 0 <= at_ms <= TIME_MAX_MS
