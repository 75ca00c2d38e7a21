"""Every state against every event, through commands: what the table lists happens, all else is refused."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.model import FINAL, Condition, ConditionKind, Job, JobState, Outcome, Retry
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table
from raftsched.core.transitions import INSTANCE, JOB
from tests.support.memory_view import World, at, every, policy

J = JobState
INSTANCE_EVENTS = sorted({event for _, event in INSTANCE} - {"strand"})  # that is for parts alone: test_parts.py
JOB_EVENTS = sorted({event for _, event in JOB})


NEVER = Condition(ConditionKind.JOB, "default/nobody", within_ms=1)


def instance_in(world: World, state: I, *, retries: bool, waits: bool = False, shards: int = 0) -> tuple[bytes, int]:
    """An instance in this state, and the session that ran it (open). `waits`: for its conditions."""
    session = world.session()
    delays = (1000, 1000, 1000) if retries else ()
    job = world.create(every(3_600_000), retry=Retry(delays), conditions=(NEVER,) if waits else (), shards=shards)
    world.fire(job)
    key = world.instances(job.id)[0].key
    if state is I.WAITING:
        return key, session
    if state is I.SKIPPED:
        world.forward(world.meta.settings.start_deadline_ms)
        wake_at = world.instance(key).wake_at_ms
        assert wake_at is not None
        world.ok(c.Wake(key, wake_at))
    else:
        token = world.assign(key, session)
        if state is I.RUNNING:
            world.ok(c.Started(session, token, world.now))
        elif state is I.KILLED:
            world.ok(c.Kill(key))
            world.end(key, Outcome.KILLED)
        elif state is not I.LAUNCHED:
            world.end(
                key,
                {I.SUCCEEDED: Outcome.SUCCEEDED, I.TIMED_OUT: Outcome.TIMED_OUT}.get(state, Outcome.FAILED),
            )
    assert world.instance(key).state is state
    return key, session


def happen(world: World, key: bytes, session: int, event: str) -> Answer:
    row = world.instance(key)
    token = row.attempts[-1].token if row.attempts else 99
    match event:
        case "assign":
            return world.do(c.Assign(key, session))
        case "kill":
            answer = world.do(c.Kill(key))
            if isinstance(answer, Accepted) and world.instance(key).live is not None:
                answer = world.do(c.Ended(session, token, Outcome.KILLED, None, world.now))
            return answer
        case "split":
            return world.do(c.Split(key))
        case "give_up":
            return world.do(c.Wake(key, row.checks_end_at_ms or -1))
        case "miss_start" | "wake":
            return world.do(c.Wake(key, row.wake_at_ms or 0))
        case "start":
            return world.do(c.Started(session, token, world.now))
        case "succeed":
            return world.do(c.Ended(session, token, Outcome.SUCCEEDED, None, world.now))
        case "fail" | "retry":
            return world.do(c.Ended(session, token, Outcome.FAILED, None, world.now))
        case "time_out":
            return world.do(c.Ended(session, token, Outcome.TIMED_OUT, None, world.now))
        case "requeue":
            return world.do(c.EndSession(session, world.meta.epoch))
        case "rerun":
            return world.do(c.Rerun(key))
    raise AssertionError(event)


@pytest.mark.parametrize("event", INSTANCE_EVENTS)
@pytest.mark.parametrize("state", list(I))
def test_instance(state: I, event: str) -> None:
    world = World()
    retries = state is I.RETRYING or (event not in ("fail", "time_out") and state not in FINAL)
    waits = state is I.WAITING and event == "give_up"
    key, session = instance_in(world, state, retries=retries, waits=waits, shards=2 if event == "split" else 0)
    expected = INSTANCE.get((state, event))
    if (state, event) in ((I.WAITING, "wake"), (I.RETRYING, "miss_start")):
        # the same command: the one timer of a waiting instance is its start deadline, of a retrying one its delay
        expected = {I.WAITING: I.SKIPPED, I.RETRYING: I.WAITING}[state]
    answer = happen(world, key, session, event)
    if expected is not None:
        assert isinstance(answer, Accepted)
        assert world.instance(key).state is expected
    elif event == "requeue":  # the session ends all the same; the instance has no part in it
        assert world.instance(key).state is state
    else:
        assert isinstance(answer, Rejected)
        assert world.instance(key).state is state


def job_in(world: World, state: J) -> Job:
    job = world.create(every(1000), suspended=state is J.NEW)
    if state in (J.SUSPENDED, J.EXPIRED):
        world.ok(c.SetJobState(job.id, state))
    elif state is J.DELETED:
        world.fire(job)
        world.assign(world.instances(job.id)[0].key, world.session())  # what runs keeps the row
        world.ok(c.DeleteJob(job.id))
    assert world.job(job.id).state is state
    return job


@pytest.mark.parametrize("event", JOB_EVENTS)
@pytest.mark.parametrize("state", list(J))
def test_job(state: J, event: str) -> None:
    world = World()
    job = job_in(world, state)
    expected = JOB.get((state, event))
    match event:
        case "resume" | "pause" | "expire":
            wanted = {"resume": J.SCHEDULED, "pause": J.SUSPENDED, "expire": J.EXPIRED}[event]
            answer = world.do(c.SetJobState(job.id, wanted))
        case "edit":
            answer = world.do(c.EditJob(job.id, policy(every(1000), priority=9), b"{}"))
        case "reschedule":
            if state is not J.EXPIRED:
                return  # an edit of the trigger is an edit like any other
            answer = world.do(c.EditJob(job.id, policy(every(2000)), b"{}"))
        case "delete":
            answer = world.do(c.DeleteJob(job.id))
        case "exhaust":
            answer = world.do(c.Fire(job.id, 1, world.job(job.id).nominal_at_ms or 0))
            if state is J.SCHEDULED:  # the same with one run only
                other = world.create(every(1000, max_runs=1))
                world.fire(other)
                world.run_once(world.instances(other.id)[0].key, world.session())
                assert world.job(other.id).state is J.EXPIRED
                return
    if expected is None:
        assert isinstance(answer, Rejected)
        assert world.job(job.id).state is state
    else:
        assert isinstance(answer, Accepted)
        assert world.job(job.id).state is expected


@pytest.mark.parametrize("state", [J.NEW, J.DELETED])
def test_no_state_is_set_but_the_three(state: J) -> None:
    world = World()
    job = world.create(every(1000))
    assert world.refused(c.SetJobState(job.id, state)) == "illegal-transition"


@pytest.mark.parametrize("wanted", [J.SCHEDULED, J.SUSPENDED, J.EXPIRED])
def test_a_repeat_changes_nothing(wanted: J) -> None:
    world = World()
    job = world.create(every(1000), suspended=True)
    world.ok(c.SetJobState(job.id, wanted))
    before = world.view.get(Table.JOBS, job.id.to_bytes(8, "big"))
    world.forward(5)
    world.ok(c.SetJobState(job.id, wanted))
    assert world.view.get(Table.JOBS, job.id.to_bytes(8, "big")) == before


def test_an_edited_trigger_schedules_an_expired_job_again() -> None:
    world = World()
    job = world.create(at(world.now + 5))
    world.ok(c.SetJobState(job.id, J.EXPIRED))
    assert world.edit(job, trigger=at(world.now + 10)).state is J.SCHEDULED
