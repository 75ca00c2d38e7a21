"""Numbers no caller should send: refused, never raised. What apply raises stops every node at once."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.limits import FIRES_MAX
from raftsched.core.model import (
    EveryMode,
    JobState,
    Misfire,
    MisfirePolicy,
    Outcome,
    Overlap,
    Policy,
    Retention,
    Retry,
    Trigger,
    TriggerKind,
)
from tests.support.memory_view import T0, World, after, at, cron, every, policy

HUGE = 2**63 - 1
BAD_TRIGGERS = [
    at(-1),
    at(HUGE),
    at(2**64 - 1),
    after(-1),
    after(HUGE),
    every(0),
    every(-5),
    every(HUGE),
    every(1000, starts_at_ms=-1),
    every(1000, starts_at_ms=HUGE),
    every(1000, ends_at_ms=-1),
    every(1000, ends_at_ms=HUGE),
    every(1000, max_runs=0),
    every(1000, jitter_ms=-1),
    every(1000, jitter_ms=HUGE),
    every(HUGE, mode=EveryMode.FIXED_DELAY),
    cron("x" * 5_000),
]
BAD_FIELDS: list[dict[str, Any]] = [
    {"priority": 10},
    {"priority": -1},
    {"priority": 10**6},
    {"timeout_ms": 0},
    {"timeout_ms": -1},
    {"max_lost": -1},
    {"suspend_after": 0},
    {"max_concurrency": -1},
    {"retry": Retry((-1,))},
    {"retry": Retry((HUGE,))},
    {"retry": Retry((1,) * 1001)},
    {"misfire": Misfire(MisfirePolicy.ONCE, -1)},
    {"misfire": Misfire(MisfirePolicy.ONCE, HUGE)},
    {"retention": Retention(-1, 1)},
    {"retention": Retention(1, -1)},
    {"retention": Retention(10**9, 1)},
    {"retention": Retention(1, 10**9)},
    {"retention": Retention(1, 1, -1)},
    {"retention": Retention(1, 1, HUGE)},
]


@pytest.mark.parametrize("bad", [policy(t) for t in BAD_TRIGGERS] + [policy(every(1000), **f) for f in BAD_FIELDS])
def test_jobs(bad: Policy) -> None:
    world = World()
    assert world.refused(c.CreateJob("a", "x", bad, b"{}")) == "invalid-job"
    job = world.create(every(1000))
    assert world.refused(c.EditJob(job.id, bad, b"{}")) == "invalid-job"


@pytest.mark.parametrize("number", [-1, -(2**63), 2**63, 2**64 - 1])
def test_numbers_of_things(number: int) -> None:
    world = World()
    session = world.session()
    job = world.create(overlap=Overlap.ALLOW)
    key = world.run_now(job, 1)
    token = world.assign(key, session)
    for command in (
        c.EditJob(number, job.policy, b"{}"),
        c.SetJobState(number, JobState.SUSPENDED),
        c.DeleteJob(number),
        c.RunNow(number, 1),
        c.ScheduleJob(number, 1, T0),
        c.Fire(number, 1, T0),
        c.Fire(job.id, number, T0),
        c.Fire(job.id, 1, number),
        c.Assign(key, number),
        c.Wake(key, number),
        c.Started(number, token, T0),
        c.Started(session, number, T0),
        c.Ended(number, token, Outcome.FAILED, None, T0),
        c.Ended(session, number, Outcome.FAILED, None, T0),
        c.EndSession(number, 1),
        c.EndSession(session, number),
        c.OpenSession("n2", number, "boot", b"", 1),
    ):
        world.refused(command)
    world.do(c.Started(session, token, number))
    world.do(c.Ended(session, token, Outcome.FAILED, number, number, exit_code=number))
    world.do(c.RunNow(job.id, number, None, number))
    world.do(c.Prune(number, number))


@pytest.mark.parametrize("request_number", [0, -1, 2**64 - 1])
def test_run_requests(request_number: int) -> None:
    world = World()
    job = world.create(overlap=Overlap.ALLOW)
    if request_number > 0:
        world.run_now(job, request_number)
    else:
        assert world.refused(c.RunNow(job.id, request_number)) == "invalid-parameter"


@pytest.mark.parametrize("priority", [-1, 10, 300])
def test_run_priorities(priority: int) -> None:
    world = World()
    job = world.create()
    assert world.refused(c.RunNow(job.id, 1, priority=priority)) == "invalid-parameter"


@pytest.mark.parametrize("key", [b"", b"x", b"\xff" * 24, b"\0" * 24, b"k" * 23, b"k" * 600])
def test_instance_keys(key: bytes) -> None:
    world = World()
    session = world.session()
    for command in (c.Assign(key, session), c.Wake(key, 5), c.Kill(key), c.Rerun(key)):
        world.refused(command)


@pytest.mark.parametrize("nominal", [-1, HUGE, 2**64 - 1])
def test_times_from_the_leader(nominal: int) -> None:
    world = World()
    job = world.create(cron())
    assert world.refused(c.ScheduleJob(job.id, 1, nominal)) == "stale"
    world.ok(c.ScheduleJob(job.id, 1, T0))
    assert world.refused(c.Fire(job.id, 1, T0, nominal)) == "stale"
    assert world.refused(c.Fire(job.id, 1, T0, None, (nominal,), 1, nominal)) == "stale"
    assert world.refused(c.Fire(job.id, 1, T0, T0)) == "stale"  # the next time comes after this one
    assert world.refused(c.Fire(job.id, 1, T0, None, (T0 + 1,), 0, None)) == "stale"
    world.fire(job, next_nominal_at_ms=T0 + 1)


@pytest.mark.parametrize("now", [0, -5, 2**63 - 1, -(2**63)])
def test_clocks(now: int) -> None:
    """The log's time may be anything and go back; it never leaves what ids and keys can hold, and ids go on."""
    world = World()
    world.now = now
    job = world.create(every(1000), overlap=Overlap.ALLOW)
    world.fire(job)
    key = world.run_now(job, 1)
    world.run_once(key, world.session())
    assert 0 <= world.meta.now_ms < 2**44
    assert world.create(after(1000)).id > job.id
    world.now = T0 + 1
    world.create(at(T0))


def test_labels_and_names_may_be_anything() -> None:
    world = World()
    world.ok(c.OpenSession("n1", 0, "", b"", -3, (("", ""),), ("",)))
    world.ok(
        c.CreateJob(
            "\U0001f601",
            "\U0001f600",
            policy(Trigger(kind=TriggerKind.MANUAL), queue="", required_capability="\0"),
            b"",
        )
    )


def test_more_missed_times_than_there_can_be() -> None:
    """A gap that stands for more than fits into its row would stop every node."""
    world = World()
    job = world.create(cron(), misfire=Misfire(MisfirePolicy.SKIP, 0))
    world.ok(c.ScheduleJob(job.id, 1, world.now))
    first = world.now
    world.forward(600_000)
    times = (first + 60_000, first + 120_000)
    for many in (2**64 - 1, FIRES_MAX + 1):
        assert world.refused(c.Fire(job.id, 1, first, first + 180_000, times, many)) == "stale"
    world.ok(c.Fire(job.id, 1, first, first + 180_000, times, FIRES_MAX))
    assert [row.gap_count for row in world.instances(job.id)] == [FIRES_MAX]
