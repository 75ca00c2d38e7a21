"""What `apply.runs.plain` and `apply.jobs.plain_jobs` do in one go is what the general functions come to: every row,
answer and action."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.bounds import TIME_MAX_MS
from raftsched.core import commands as c
from raftsched.core.apply import Applier
from raftsched.core.apply.jobs import plain_jobs
from raftsched.core.apply.runs import history, plain
from raftsched.core.commands import Answer, Command, encode
from raftsched.core.entry import encode_entry
from raftsched.core.ids import instance_key
from raftsched.core.model import (
    After,
    Condition,
    ConditionKind,
    EveryMode,
    Job,
    JobState,
    Misfire,
    Outcome,
    Overlap,
    Policy,
    Retention,
    Trigger,
    TriggerKind,
)
from raftsched.core.rows import read_meta
from raftsched.core.subjects.cluster import Member
from raftsched.core.subjects.namespace import PutNamespace
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, Event
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table
from tests.property.author import Author
from tests.property.jobs_at_random import QUEUES
from tests.support.amounts import examples
from tests.support.memory_view import T0, MemoryView, at, every, policy

# Where each is, and what it returns of what is not plain
WAYS: dict[str, tuple[Any, Any]] = {
    "create": (plain_jobs, None),
    "store": (plain_jobs, False),
    "fire": (plain, False),
    "assign": (plain, None),
    "succeed": (plain, False),
    "drop_first": (history, False),
}


class PlainAuthor(Author):
    """Writes mostly of jobs that ask for little, and of runs that succeed; all else comes in between."""

    def _policy(self) -> Policy:
        r = self.random
        if r.random() < 0.1:
            return super()._policy()
        kind = r.choice([TriggerKind.AT, TriggerKind.IN, TriggerKind.EVERY, TriggerKind.EVERY, TriggerKind.CRON])
        trigger = Trigger(
            kind=kind,
            at_ms=self.now + r.choice([-60_000, 0, 5, 1_000]),
            period_ms=r.choice([7, 1_000, 60_000]),
            mode=r.choice([EveryMode.FIXED_RATE] * 9 + [EveryMode.FIXED_DELAY]),
            expr="* * * * *" if kind is TriggerKind.CRON else "",
            ends_at_ms=r.choice([None] * 5 + [self.now + 90_000]),
            jitter_ms=r.choice([0] * 9 + [500]),
            max_runs=r.choice([None] * 9 + [2]),
        )
        return Policy(
            trigger=trigger,
            priority=r.choice([0, 5, 9]),
            queue=r.choice(["default", "default", "default", *QUEUES]),
            overlap=r.choice([Overlap.FORBID, Overlap.FORBID, *Overlap]),
            misfire=r.choice([Misfire(), Misfire(grace_ms=r.choice([0, 1_000]))]),
            retention=r.choice([Retention(), Retention(1, 1), Retention(0, 0), Retention(3, 2, 10_000)]),
            expires_ms=r.choice([0] * 4 + [5, 5_000]),
            shards=r.choice([0] * 9 + [2]),
        )

    def _create(self) -> Command:
        r = self.random
        policy = self._policy()
        policy = msgspec.structs.replace(policy, trigger=self._following(policy.trigger))
        name, body = r.choice([None, None, "a", "b"]), b"{}"
        if r.random() < 0.1:
            name, body = r.choice([None, ""]), r.choice([b'{"owner":"o"}', b'{"a":{"$secret":"s"}}'])
        return c.CreateJob(r.choice(["d", "default"]), name, policy, body, r.random() < 0.05)

    def _end(self) -> Command:
        r = self.random
        found = super()._end()
        if not isinstance(found, c.Ended) or r.random() < 0.2:
            return found
        more = {"error": r.choice([None, "e" * 5_000]), "result": r.choice([None, b"1", b"1" * 70_000])}
        started_at_ms = r.choice([None, *[self.now - r.choice([0, 9, 5_000])] * 9])
        given = {name: getattr(found, name) for name in c.Ended.__struct_fields__}
        return c.Ended(**given | more | {"outcome": Outcome.SUCCEEDED, "started_at_ms": started_at_ms})

    def _at_once(self, command: Command) -> list[Command]:
        found = super()._at_once(command)
        if self.random.random() < 0.2 or not isinstance(command, c.Fire):
            return found
        if not 0 <= command.nominal_at_ms <= TIME_MAX_MS or not 0 <= command.job_id < 2**64:
            return found
        return [c.Assign(instance_key(command.nominal_at_ms, command.job_id), self._session())]

    def _command(self) -> Command:
        r = self.random
        if self.view.count(Table.SESSIONS) < 2:
            return self._open()
        if r.random() < 0.04:
            return super()._command()
        often = (self._create, self._fire, self._fire, self._assign, self._start, self._end, self._end)
        seldom = (self._create_alike, self._open, self._schedule, self._run_now, self._prune, self._state, self._edit)
        seldom += (self._queue, self._webhook, self._namespace)  # of others, and what concerns the runs
        return r.choice(often if r.random() < 0.9 else seldom)()


class Both:
    """Applies entries with the plain ways and without, and compares. `taken`: how often each was taken."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.views = MemoryView(), MemoryView()
        self.index = 0

    @property
    def runs(self) -> dict[str, int]:
        """How often those were taken that are of runs."""
        return {name: count for name, count in self.taken.items() if count and WAYS[name][0] is plain}

    def apply(self, data: bytes) -> list[Answer]:
        """Returns the answers of the first batch."""
        self.index += 1
        results = []
        for view, general in zip(self.views, (False, True), strict=True):
            with pytest.MonkeyPatch.context() as patched:
                for name, (module, none) in WAYS.items():
                    patched.setattr(module, name, way(module, name, none, self.taken, general=general))
                applier = Applier(view)
                results.append(applier.entry(self.index, 1, data))
                applier.close()
        assert results[0] == results[1]
        assert self.views[0].dump() == self.views[1].dump()
        batches = results[0].batches
        return (batches[0].answers or []) if batches else []

    def entry(self, now_ms: int, *commands: Command) -> list[c.Accepted]:
        answers = self.apply(encode_entry(now_ms, [(1, self.index + 1, [encode(one) for one in commands])]))
        accepted = [one for one in answers if isinstance(one, c.Accepted)]
        assert len(accepted) == len(commands), answers
        return accepted


def way(module: Any, name: str, none: Any, taken: Counter[str], *, general: bool) -> Any:
    real = getattr(module, name)

    def declines(*args: Any) -> Any:
        return none

    def counts(*args: Any) -> Any:
        found = real(*args)
        taken[name] += found is not none and found != none
        return found

    return declines if general else counts


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_a_plain_life_is_what_the_general_ways_come_to(seed: int) -> None:
    note(f"seed {seed}")
    both = Both()
    for data in PlainAuthor(seed).write(120):
        both.apply(data)


def test_the_authors_lives_are_plain() -> None:
    """Else the test above would prove little."""
    both: list[Both] = []
    for seed in range(8):
        both.append(Both())
        for data in PlainAuthor(seed).write(120):
            both[-1].apply(data)
    assert all(sum(one.taken[name] for one in both) >= 10 for name in WAYS), [one.taken for one in both]


def opened(trigger: Trigger) -> tuple[Both, int, Job]:
    """A cluster with a session and a job."""
    both = Both()
    both.entry(T0, c.Form(b"x", (Member("n1", "h:1", b"n1"),)), c.OpenLeadership(1, "n1"))
    session, made = both.entry(T0, c.OpenSession("n1", 0, "A", b"", 4), c.CreateJob("d", None, policy(trigger), b"{}"))
    assert session.number is not None
    assert made.job is not None
    return both, session.number, made.job


def started(both: Both, session: int, job: Job, at_ms: int, now_ms: int) -> int:
    """Fires and assigns a run. Returns its token."""
    fire, assign = c.Fire(job.id, 1, at_ms), c.Assign(instance_key(at_ms, job.id), session)
    token = both.entry(now_ms, fire, assign)[-1].number
    assert token is not None
    return token


def test_a_time_that_comes_again_gets_a_row_of_its_own() -> None:
    """The clock was wrong, and the job is taken up from an earlier time."""
    both, session, job = opened(every(1_000))
    for at_ms in (T0 + 1_000, T0 + 2_000):
        token = started(both, session, job, at_ms, at_ms)
        both.entry(at_ms + 9, c.Ended(session, token, Outcome.SUCCEEDED, at_ms, at_ms + 9))
    both.entry(T0 + 2_500, c.SetJobState(job.id, JobState.SUSPENDED))
    both.entry(T0 + 1_500, c.SetJobState(job.id, JobState.SCHEDULED))
    both.entry(T0 + 2_000, c.Fire(job.id, 1, T0 + 2_000))
    assert both.taken["fire"] == 2
    assert both.views[0].count(Table.INSTANCES) == 3


def test_a_one_shot_of_which_a_run_failed_is_kept_as_such() -> None:
    both, session, job = opened(at(T0 + 1_000))
    asked = both.entry(T0, c.RunNow(job.id, 7))[0].instance
    assert asked is not None
    token = both.entry(T0, c.Assign(asked, session))[0].number
    assert token is not None
    both.entry(T0 + 9, c.Ended(session, token, Outcome.FAILED, T0, T0 + 9))
    token = started(both, session, job, T0 + 1_000, T0 + 1_000)
    both.entry(T0 + 1_009, c.Ended(session, token, Outcome.SUCCEEDED, T0 + 1_000, T0 + 1_009))
    assert both.taken["fire"] == 1


def test_a_run_gives_back_the_slot_of_its_queue() -> None:
    both, session, job = opened(at(T0 + 1_000))
    both.entry(T0, c.PutQueue(job.policy.queue, max_running=1))
    token = started(both, session, job, T0 + 1_000, T0 + 1_000)
    both.entry(T0 + 1_009, c.Ended(session, token, Outcome.SUCCEEDED, T0 + 1_000, T0 + 1_009))
    assert not both.runs


@pytest.mark.parametrize("again", [None, T0 + 1_002])
def test_a_run_whose_start_was_told_before_is_plain(again: int | None) -> None:
    both, session, job = opened(at(T0 + 1_000))
    token = started(both, session, job, T0 + 1_000, T0 + 1_000)
    both.entry(T0 + 1_005, c.Started(session, token, T0 + 1_001))
    both.entry(T0 + 9_000, c.Ended(session, token, Outcome.SUCCEEDED, again, T0 + 9_000))
    assert both.runs == {"fire": 1, "assign": 1, "succeed": 1}


@pytest.mark.parametrize("limits", [c.PutQueue("default", max_running=1), PutNamespace("d", b"{}", max_running=1)])
def test_limits_that_come_between_fire_and_assignment_count(limits: Command) -> None:
    both, session, job = opened(at(T0 + 1_000))
    fire, assign = c.Fire(job.id, 1, T0 + 1_000), c.Assign(instance_key(T0 + 1_000, job.id), session)
    token = both.entry(T0 + 1_000, fire, limits, assign)[-1].number
    assert token is not None
    both.entry(T0 + 1_009, c.Ended(session, token, Outcome.SUCCEEDED, T0 + 1_000, T0 + 1_009))
    assert both.runs == {"fire": 1}


def test_a_run_is_plain_beside_what_others_use() -> None:
    """A queue with limits, a webhook, a job that follows another, a run that awaits one: none of it is this job's."""
    both, session, job = opened(at(T0 + 1_000))
    after = Trigger(kind=TriggerKind.AFTER, after=After(("d/other",)))
    awaits = policy(at(T0), conditions=(Condition(ConditionKind.JOB, "d/other", within_ms=60_000),))
    both.entry(
        T0,
        c.PutQueue("other", max_running=1),
        PutWebhook("h", WebhookSpec(url="http://h/", on=(Event.FAILED,)), b"s" * 32),
        c.CreateJob("d", "follows", policy(after), b"{}"),
    )
    waiting = both.entry(T0, c.CreateJob("d", "awaits", awaits, b"{}"))[0].job
    assert waiting is not None
    both.entry(T0, c.Fire(waiting.id, 1, T0))
    meta = read_meta(both.views[0])
    assert meta.queues > meta.webhooks > 0 < meta.followers
    assert meta.awaited > 0
    token = started(both, session, job, T0 + 1_000, T0 + 1_000)
    both.entry(T0 + 1_009, c.Ended(session, token, Outcome.SUCCEEDED, T0 + 1_000, T0 + 1_009))
    assert both.runs == {"fire": 1, "assign": 1, "succeed": 1}


LATER = policy(at(T0 + 9_000))
OF_ITSELF = policy(at(T0 + 9_000), conditions=(Condition(ConditionKind.JOB, "d/own", within_ms=60_000),))


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({"timeout_ceiling_ms": LATER.timeout_ms - 1}, c.CreateJob("d", None, LATER, b"{}")),
        ({"body_max_bytes": 1_024}, c.CreateJob("d", None, LATER, b" " * 1_025)),
        ({"namespaces_strict": 1}, c.CreateJob("d", None, LATER, b"{}")),
        ({}, c.CreateJob("d", None, LATER, b"{}", defaults=7)),
        ({}, c.CreateJob("d", "own", OF_ITSELF, b"{}")),
        ({}, c.CreateJob(SYSTEM_NAMESPACE, None, LATER, b"{}")),
    ],
)
def test_a_job_that_is_to_be_refused_is_not_plain(limits: dict[str, int], refused: Command) -> None:
    """Its namespace has jobs already, so that nothing else keeps it from being one."""
    both, _, _ = opened(at(T0 + 1_000))
    both.entry(T0, PutWebhook("h", WebhookSpec(url="http://h/", on=(Event.FAILED,)), b"s" * 32))
    both.entry(T0, c.PutSettings(msgspec.structs.replace(read_meta(both.views[0]).settings, **limits)))
    (answer,) = both.apply(encode_entry(T0, [(1, both.index + 1, [encode(refused)])]))
    assert isinstance(answer, c.Rejected)
