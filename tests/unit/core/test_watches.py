"""Started, late, running long, not run since: each is told once, in the entry that shows it, and costs nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Watch
from raftsched.core.model import InstanceState as I
from raftsched.core.model import Job, Outcome, Overlap, Retry
from raftsched.core.subjects.notices import Event, Notify
from raftsched.core.subjects.watches import RECENT_LEAST, RECENT_MAX, p95_ms
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table, from_u64, u64
from tests.support.memory_view import T0, World, at, every
from tests.unit.core.hooks import SECRET, URL, hook, told

LATE = Notify("ops", (Event.LATE,), late_ms=30_000)
LONG = Notify("ops", (Event.RUNNING_LONG,), longer_ms=60_000)
NOT_RUN = Notify("ops", (Event.NOT_RUN_SINCE,), not_run_ms=DAY_MS)


def world_with(*notify: Notify, trigger: Any = None, **fields: Any) -> tuple[World, Job, int]:
    world = World()
    session = world.session()
    for name in dict.fromkeys(one.webhook for one in notify):
        hook(world, name)
    return world, world.create(trigger, name="report", notify=notify, **fields), session


def events(world: World, name: str = "ops") -> list[Event | None]:
    return [notice.event for notice in told(world, name)]


def watched(world: World) -> list[tuple[int, bytes]]:
    return [(from_u64(key[:8]), key[8:]) for key, _ in world.view.scan(Table.WATCHES)]


def look(world: World) -> None:
    """The clock goes to the next limit, and the leader asks for a look."""
    at_ms, about = watched(world)[0]
    world.now = max(world.now, at_ms)
    world.ok(Watch(about, at_ms))


def fired(world: World, job: Job) -> bytes:
    world.fire(job)
    key = world.job(job.id).last_instance
    assert key is not None
    return key


def start(world: World, key: bytes, session: int, at_ms: int | None = None) -> int:
    token = world.assign(key, session)
    world.ok(c.Started(session, token, world.now if at_ms is None else at_ms))
    return token


def ran(world: World, key: bytes, session: int, took_ms: int) -> None:
    """Runs it once, which takes so long."""
    began = world.now
    token = start(world, key, session)
    world.forward(took_ms)
    world.ok(c.Ended(session, token, Outcome.SUCCEEDED, began, world.now))


# ---------------------------------------------------------------- started


def test_a_start_is_told_once() -> None:
    world, job, session = world_with(Notify("ops", (Event.STARTED,)), retry=Retry((1_000,)))
    hook(world, "all", on=(Event.STARTED,))
    key = world.run_now(job)
    assert told(world) == []
    start(world, key, session)
    for name in ("ops", "all"):
        (notice,) = told(world, name)
        assert (notice.event, notice.instance, notice.attempt, notice.node) == (Event.STARTED, key, 1, "n2")
        assert (notice.state, notice.started_at_ms) == (I.RUNNING, world.now)
    world.end(key, Outcome.FAILED)
    wake = world.instance(key).wake_at_ms
    assert wake is not None
    world.now = wake
    world.ok(c.Wake(key, wake))
    start(world, key, session)
    assert len(told(world)) == len(told(world, "all")) == 1
    world.end(key)
    world.ok(c.Rerun(key))
    start(world, key, session)
    assert events(world) == [Event.STARTED] * 2


def test_a_start_that_is_heard_of_with_the_end_is_told() -> None:
    world, job, session = world_with(Notify("ops", (Event.STARTED, Event.SUCCEEDED)))
    world.run_once(world.run_now(job), session)
    assert events(world) == [Event.STARTED, Event.SUCCEEDED]


def test_webhooks_listen_to_starts_by_their_filter() -> None:
    world = World()
    session = world.session()
    hook(world, on=(Event.STARTED,), namespace="other")
    start(world, world.run_now(world.create()), session)
    assert told(world) == []


def test_webhooks_do_not_measure() -> None:
    world = World()
    for event in (Event.LATE, Event.RUNNING_LONG, Event.NOT_RUN_SINCE):
        assert world.refused(PutWebhook("ops", WebhookSpec(url=URL, on=(event,)), SECRET)) == "invalid-parameter"


# ---------------------------------------------------------------- late


def test_a_run_that_has_not_started_by_then_is_late_once() -> None:
    world, job, session = world_with(LATE, trigger=every(HOUR_MS))
    key = fired(world, job)
    due = world.instance(key).due_at_ms
    assert watched(world) == [(due + 30_000, key)]
    look(world)
    (notice,) = told(world)
    assert (notice.event, notice.instance, notice.since_ms, notice.limit_ms) == (Event.LATE, key, due, 30_000)
    assert notice.state == I.WAITING
    world.forward(5_000)
    start(world, key, session)  # late it is, and was told
    assert len(told(world)) == 1
    assert watched(world) == []


def test_a_run_that_starts_in_time_is_not_late() -> None:
    world, job, session = world_with(LATE, trigger=every(HOUR_MS))
    key = fired(world, job)
    ((at_ms, about),) = watched(world)
    start(world, key, session)
    assert watched(world) == []
    world.now = at_ms
    assert world.refused(Watch(about, at_ms)) == "stale"
    assert told(world) == []


@pytest.mark.parametrize("late_ms, is_told", [(30_000, False), (30_001, True)])
def test_a_late_start_is_told_also_before_anybody_looked(late_ms: int, is_told: bool) -> None:
    world, job, session = world_with(LATE, trigger=every(HOUR_MS))
    key = fired(world, job)
    world.forward(late_ms)
    start(world, key, session)
    assert [n.event for n in told(world)] == [Event.LATE] * is_told


def test_a_run_that_was_asked_for_is_not_late() -> None:
    world, job, _ = world_with(LATE)
    world.run_now(job)
    assert watched(world) == []


def test_a_run_that_is_killed_while_it_waits_was_late_or_not() -> None:
    world, job, _ = world_with(LATE, trigger=every(HOUR_MS), overlap=Overlap.ALLOW)
    first = fired(world, job)
    world.ok(c.Kill(first))
    second = fired(world, job)
    world.forward(30_000)
    world.ok(c.Kill(second))
    assert [(n.event, n.instance) for n in told(world)] == [(Event.LATE, second)]
    assert watched(world) == []


def test_a_lost_worker_that_never_said_that_it_started_leaves_the_run_late() -> None:
    world, job, session = world_with(LATE, trigger=every(HOUR_MS))
    key = fired(world, job)
    world.assign(key, session)
    world.ok(c.EndSession(session, 1))
    look(world)
    assert events(world) == [Event.LATE]


def test_each_webhook_has_its_own_limit() -> None:
    other = Notify("other", (Event.LATE,), late_ms=60_000)
    world, job, _ = world_with(LATE, other, trigger=every(HOUR_MS))
    fired(world, job)
    look(world)
    assert (events(world), events(world, "other")) == ([Event.LATE], [])
    look(world)
    assert (events(world), events(world, "other")) == ([Event.LATE], [Event.LATE])
    assert watched(world) == []


# ---------------------------------------------------------------- running long


def test_an_attempt_that_takes_longer_is_told_of_once() -> None:
    world, job, session = world_with(LONG, retry=Retry((1_000,)))
    key = world.run_now(job)
    start(world, key, session)
    look(world)
    (notice,) = told(world)
    assert (notice.event, notice.instance, notice.since_ms, notice.limit_ms) == (
        Event.RUNNING_LONG, key, T0, 60_000,
    )  # fmt: skip
    assert watched(world) == []
    world.end(key, Outcome.FAILED)
    wake = world.instance(key).wake_at_ms
    assert wake is not None
    world.now = wake
    world.ok(c.Wake(key, wake))
    start(world, key, session)
    assert watched(world) == []  # told is told
    world.ok(c.Kill(key))
    world.end(key, Outcome.KILLED)
    assert len(told(world)) == 1


def test_each_attempt_has_the_whole_time() -> None:
    world, job, session = world_with(LONG, retry=Retry((1_000,)))
    key = world.run_now(job)
    start(world, key, session)
    world.forward(50_000)
    world.end(key, Outcome.FAILED)
    assert watched(world) == []
    wake = world.instance(key).wake_at_ms
    assert wake is not None
    world.now = wake
    world.ok(c.Wake(key, wake))
    start(world, key, session)
    assert watched(world) == [(wake + 60_000, key)]


@pytest.mark.parametrize("took_ms, is_told", [(59_999, False), (60_000, True)])
@pytest.mark.parametrize("reported", [True, False], ids=["started", "ended at once"])
def test_a_run_that_ends_before_anybody_looked_is_told_of(took_ms: int, is_told: bool, reported: bool) -> None:
    world, job, session = world_with(LONG)
    key = world.run_now(job)
    began = world.now
    token = world.assign(key, session)
    if reported:
        world.ok(c.Started(session, token, began))
    world.forward(took_ms)
    world.ok(c.Ended(session, token, Outcome.SUCCEEDED, began, world.now))
    assert events(world) == [Event.RUNNING_LONG] * is_told


def test_a_lost_attempt_is_watched_no_more() -> None:
    world, job, session = world_with(LONG)
    key = world.run_now(job)
    start(world, key, session)
    world.ok(c.EndSession(session, 1))
    assert watched(world) == []
    assert told(world) == []


def test_long_is_what_takes_longer_than_others_lately() -> None:
    world, job, session = world_with(Notify("ops", (Event.RUNNING_LONG,), p95_percent=200), overlap=Overlap.ALLOW)
    for request in range(1, RECENT_LEAST + 1):
        assert watched(world) == []
        ran(world, world.run_now(job, request), session, 10_000 + request)
    assert world.job(job.id).recent_ms == tuple(10_000 + n for n in range(1, RECENT_LEAST + 1))
    key = world.run_now(job, 99)
    start(world, key, session)
    assert watched(world) == [(world.now + 2 * (10_000 + RECENT_LEAST), key)]
    look(world)
    assert told(world)[0].limit_ms == 2 * (10_000 + RECENT_LEAST)


def test_only_so_many_durations_are_kept_and_only_where_they_are_asked_for() -> None:
    world, job, session = world_with(Notify("ops", (Event.RUNNING_LONG,), p95_percent=200))
    for request in range(1, RECENT_MAX + 3):
        ran(world, world.run_now(job, request), session, request)
    assert world.job(job.id).recent_ms == tuple(range(3, RECENT_MAX + 3))
    world.edit(job, notify=(LONG,))
    world.run_once(world.run_now(job, 1_000), session)
    assert world.job(job.id).recent_ms == ()


def test_what_is_usual_and_never_less_than_a_second() -> None:
    assert p95_ms((1,) * (RECENT_LEAST - 1)) is None
    assert p95_ms(tuple(range(1, 21))) == 19
    assert p95_ms((5, 1, 4, 2, 3)) == 5
    world, job, session = world_with(Notify("ops", (Event.RUNNING_LONG,), p95_percent=200), overlap=Overlap.ALLOW)
    for request in range(1, RECENT_LEAST + 1):
        world.run_once(world.run_now(job, request), session)
    start(world, world.run_now(job, 99), session)
    assert watched(world)[0][0] == world.now + 1_000


def test_a_run_with_parts_runs_long_as_a_whole() -> None:
    world, job, session = world_with(LONG, Notify("all", (Event.STARTED,)), shards=2)
    key = world.run_now(job)
    world.ok(c.Split(key))
    assert watched(world) == [(world.now + 60_000, key)]
    parts = [row.key for row in world.instances(job.id) if row.parent is not None]
    for part in parts:
        start(world, part, session)
    look(world)
    assert events(world) == [Event.RUNNING_LONG]
    for part in parts:
        world.end(part)
    assert (world.instance(key).state, len(told(world)), len(told(world, "all"))) == (I.SUCCEEDED, 1, 1)


# ---------------------------------------------------------------- not run since


def test_a_job_that_does_not_succeed_is_told_of_until_it_does() -> None:
    world, job, session = world_with(NOT_RUN, overlap=Overlap.ALLOW)
    assert watched(world) == [(T0 + DAY_MS, u64(job.id))]
    world.forward(1_000)
    world.run_once(world.run_now(job, 1), session, Outcome.FAILED)
    look(world)
    (notice,) = told(world)
    assert (notice.event, notice.instance, notice.job_id) == (Event.NOT_RUN_SINCE, b"", job.id)
    assert (notice.since_ms, notice.limit_ms, notice.job_name) == (T0, DAY_MS, "report")
    assert watched(world) == []
    world.forward(DAY_MS)
    world.run_once(world.run_now(job, 2), session)
    assert watched(world) == [(world.now + DAY_MS, u64(job.id))]
    look(world)
    assert len(told(world)) == 2
    assert told(world)[1].since_ms == world.now - DAY_MS


def test_it_counts_while_the_job_is_suspended_and_no_more_when_it_is_over() -> None:
    world, job, _ = world_with(NOT_RUN, trigger=every(HOUR_MS))
    world.ok(c.SetJobState(job.id, c.JobState.SUSPENDED))
    assert len(watched(world)) == 1
    world.ok(c.SetJobState(job.id, c.JobState.EXPIRED))
    assert watched(world) == []
    again = world.create(every(HOUR_MS), notify=(NOT_RUN,))
    world.ok(c.DeleteJob(again.id))
    assert watched(world) == []
    world.create(at(T0 + DAY_MS), notify=(NOT_RUN,))
    assert watched(world) == []


def test_an_edit_moves_the_limit_and_what_was_told_is_not_told_again() -> None:
    world, job, _ = world_with(NOT_RUN)
    look(world)
    world.edit(job, notify=(Notify("ops", (Event.NOT_RUN_SINCE,), not_run_ms=HOUR_MS),))
    assert watched(world) == []
    world.edit(job, notify=(Notify("ops", (Event.NOT_RUN_SINCE,), not_run_ms=2 * DAY_MS),))
    assert watched(world) == [(T0 + 2 * DAY_MS, u64(job.id))]
    world.edit(job, notify=())
    assert watched(world) == []


# ---------------------------------------------------------------- what is common


def test_what_is_not_active_is_told_nothing_and_asked_about_no_more() -> None:
    world, job, _ = world_with(LATE, Notify("b", (Event.NOT_RUN_SINCE,), not_run_ms=DAY_MS),
                               trigger=every(HOUR_MS))  # fmt: skip
    for name in ("ops", "b"):
        world.ok(PutWebhook(name, WebhookSpec(url=URL, active=False)))
    fired(world, job)
    while watched(world):
        look(world)
    assert told(world) == told(world, "b") == []


def test_a_webhook_that_nobody_has_any_more_is_passed_over() -> None:
    world, job, _ = world_with(LATE, trigger=every(HOUR_MS))
    fired(world, job)
    world.edit(job, notify=())
    look(world)
    assert (told(world), watched(world)) == ([], [])


def test_a_look_at_what_is_not_there_is_refused() -> None:
    world, job, _ = world_with(NOT_RUN)
    for about in (b"", b"x" * 8, b"x" * 24, b"x" * 100, u64(job.id)):
        assert world.refused(Watch(about, 1)) == "stale"


def test_a_job_that_asks_for_nothing_has_no_rows() -> None:
    world = World()
    session = world.session()
    hook(world, on=(Event.FAILED,))
    job = world.create(every(HOUR_MS), notify=(Notify("ops", (Event.FAILED,)),))
    key = fired(world, job)
    start(world, key, session)
    world.end(key)
    assert watched(world) == []
    assert (world.instance(key).told, world.job(job.id).recent_ms) == ((), ())


def test_one_turn_gives_the_same() -> None:
    world, job, session = world_with(LATE, Notify("x", (Event.RUNNING_LONG,),
                                     p95_percent=150), trigger=every(HOUR_MS), overlap=Overlap.ALLOW)  # fmt: skip
    for _ in range(7):
        key = fired(world, job)
        start(world, key, session)
        world.forward(100)
        world.end(key)
    assert world.in_one_batch() == world.view.dump()
