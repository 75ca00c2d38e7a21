"""Due times next to each other that did not start in time make one record, and none that reaches over a run."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.actions import DueTimesSkipped
from raftsched.core.levels import SKIPS_ARE_JOINED
from raftsched.core.model import (
    After,
    AfterOn,
    Instance,
    Job,
    Outcome,
    Overlap,
    Retention,
    StepKind,
    Trigger,
    TriggerKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.changes import InstanceChange, InstanceEvent, decode_row
from raftsched.core.tables import Table
from raftsched.leader.due.moves import _newest_of_schedule, last_scheduled_ms
from tests.support.memory_view import T0, World, at, cron, every
from tests.support.scheduler import go_on, several
from tests.unit.core.hooks import ALL, hook, told

SECOND = 1_000
DEADLINE_MS = 10 * SECOND
REASONS = pytest.mark.parametrize("reason", ["start_deadline", "expired_unstarted"])


def scene(reason: str = "start_deadline", level: int | None = None, **fields: object) -> tuple[World, Job]:
    """A job that is due each second, of which nothing starts unless it is let."""
    world = World() if level is None else World(level=level)
    world.settings(start_deadline_ms=DEADLINE_MS)
    if reason == "expired_unstarted":
        fields["expires_ms"] = DEADLINE_MS
    options: dict[str, object] = {"overlap": Overlap.ALLOW, **fields}
    return world, world.create(every(SECOND), **options)  # type: ignore[arg-type]


def fire(world: World, job: Job, times: int) -> list[bytes]:
    keys = []
    for _ in range(times):
        keys.append(world.fire(job).last_instance or b"")
    return keys


def miss(world: World, key: bytes) -> None:
    """When its timer is due."""
    at_ms = world.instance(key).wake_at_ms
    assert at_ms is not None
    world.now = max(world.now, at_ms)
    world.ok(c.Wake(key, at_ms))


def kept(world: World, job: Job) -> list[tuple[str, int, int, int]]:
    """(state or reason, first second, last second, how many) of the rows of the job"""
    rows = world.instances(job.id)
    return [(r.reason or r.state.name, *_span(r), r.gap_count) for r in rows]


def _span(row: Instance) -> tuple[int, int]:
    return (row.nominal_at_ms - T0) // SECOND, ((row.gap_until_ms or row.nominal_at_ms) - T0) // SECOND


@REASONS
def test_neighbours_are_one_record(reason: str) -> None:
    world, job = scene(reason)
    keys = fire(world, job, 5)
    miss(world, keys[0])
    assert kept(world, job)[0] == (reason, 1, 1, 0), "one alone is the run that it was"
    for key in keys[1:4]:
        miss(world, key)
    assert kept(world, job) == [(reason, 1, 4, 4), ("WAITING", 5, 5, 0)]
    record = world.instance(keys[0])
    assert (record.state, record.ended_at_ms) == (I.SKIPPED, world.now)
    assert [step.kind for step in record.steps] == [StepKind.CREATED, StepKind.FINAL, StepKind.FINAL]
    now = world.job(job.id)
    assert (now.active, now.others) == (1, 1)
    assert world.in_one_batch() == world.view.dump()


@REASONS
def test_a_record_outlives_any_overload(reason: str) -> None:
    world, job = scene(reason, retention=Retention(succeeded=3, failed=3))
    for _ in range(12):
        fire(world, job, 1)
    for _ in range(300):
        fire(world, job, 1)
        miss(world, world.waiting(job.id)[0].key)
    assert kept(world, job)[0] == (reason, 1, 300, 300)
    assert world.job(job.id).others == 1


def test_below_the_level_each_is_a_row() -> None:
    world, job = scene(level=SKIPS_ARE_JOINED - 1)
    for key in fire(world, job, 3):
        miss(world, key)
    assert kept(world, job) == [("start_deadline", second, second, 0) for second in (1, 2, 3)]
    assert world.job(job.id).dropped_ms == 0


def test_the_order_of_their_ends_does_not_matter() -> None:
    world, job = scene()
    first, second, third, fourth = fire(world, job, 4)
    world.forward(DEADLINE_MS)
    for key in (fourth, second, first, third):
        miss(world, key)
    assert kept(world, job) == [("start_deadline", 1, 4, 4)]


@pytest.mark.parametrize("how", ["runs", "ran", "waits", "was lost", "was rerun", "killed"])
def test_none_reaches_over_another(how: str) -> None:
    world, job = scene()
    session = world.session()
    first, second, third = fire(world, job, 3)
    if how in ("runs", "ran", "was lost", "was rerun"):
        world.assign(second, session)
    if how == "ran":
        world.end(second)
    elif how == "was lost":
        world.ok(c.EndSession(session, 1))
    elif how == "killed":
        world.ok(c.Kill(second))
    elif how == "was rerun":
        world.end(second, Outcome.FAILED)
        world.ok(c.Rerun(second))
    miss(world, first)
    miss(world, third)
    ends = [span[1:] for span in kept(world, job) if span[0] == "start_deadline"]
    assert ends == [(1, 1, 0), (3, 3, 0)]


def test_what_was_given_to_a_worker_keeps_its_own_row() -> None:
    world, job = scene("expired_unstarted")
    session = world.session()
    first, second, third = fire(world, job, 3)
    token = world.assign(second, session)
    world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, begun=False))
    for key in (first, second, third):
        miss(world, key)
    assert len(world.instances(job.id)) == 3
    assert world.instance(second).attempts


def test_a_run_between_them_that_history_dropped_is_not_forgotten() -> None:
    world, job = scene(retention=Retention(succeeded=0))
    session = world.session()
    keys = fire(world, job, 6)
    token = world.assign(keys[2], session)
    for key in keys[:2]:
        miss(world, key)
    world.ok(c.Ended(session, token, Outcome.SUCCEEDED, world.now, world.now))
    world.ok(c.Prune(world.now, 10))
    assert world.row(keys[2]) is None
    for key in keys[3:]:
        miss(world, key)
    assert kept(world, job) == [("start_deadline", 1, 2, 2), ("start_deadline", 4, 6, 3)]


def test_asked_for_is_not_due() -> None:
    world, job = scene("expired_unstarted")
    first, second = fire(world, job, 2)
    asked = world.run_now(world.job(job.id))
    (third,) = fire(world, job, 1)
    world.forward(DEADLINE_MS)
    for key in (first, second, asked, third):
        miss(world, key)
        assert (DueTimesSkipped("expired_unstarted", 1) in world.actions) is (key != asked)
    assert [(row.request, row.gap_count) for row in world.instances(job.id)] == [(0, 2), (1, 0), (0, 0)]


def test_a_record_that_was_run_again_ends_there() -> None:
    world, job = scene()
    session = world.session()
    first, second, third = fire(world, job, 3)
    miss(world, first)
    miss(world, second)
    world.ok(c.Rerun(first))
    miss(world, third)
    world.run_once(first, session)
    assert kept(world, job) == [("SUCCEEDED", 1, 2, 2), ("start_deadline", 3, 3, 0)]


def test_another_reason_is_another_record() -> None:
    world, job = scene("expired_unstarted")
    first, second = fire(world, job, 2)
    world.ok(c.SkipNext(job.id, world.job(job.id).nominal_at_ms or 0))
    (third,) = fire(world, job, 1)
    for key in (first, second, third):
        miss(world, key)
    assert kept(world, job) == [
        ("expired_unstarted", 1, 2, 2),
        ("skip_next", 3, 3, 1),
        ("expired_unstarted", 4, 4, 0),
    ]


def test_times_that_expired_before_they_fired_join_those_that_waited() -> None:
    world, job = scene("expired_unstarted")
    (first,) = fire(world, job, 1)
    world.forward(DEADLINE_MS + 4 * SECOND)
    fire(world, job, 1)  # 2 to 5 are over, 6 to 15 wait
    miss(world, first)
    assert kept(world, job)[0] == ("expired_unstarted", 1, 5, 5)
    miss(world, world.waiting(job.id)[0].key)
    assert kept(world, job)[0] == ("expired_unstarted", 1, 6, 6)
    job = world.edit(job, overlap=Overlap.FORBID)
    assert world.job(job.id).gap is None


def test_the_record_that_fires_extend_may_be_taken_into_another() -> None:
    world, job = scene("expired_unstarted", overlap=Overlap.FORBID)
    (first,) = fire(world, job, 1)
    world.forward(DEADLINE_MS + 2 * SECOND - 1)
    world.fire(job)  # those that are over, and one that may not overlap
    miss(world, first)
    fire(world, job, 1)
    world.forward(2 * DEADLINE_MS)
    world.fire(job)
    spans = [row for row in kept(world, job) if row[0] == "expired_unstarted"]
    assert spans[0][1:] == (1, 2, 2)


def test_content_that_was_edited_since_begins_another() -> None:
    world, job = scene()
    (first,) = fire(world, job, 1)
    world.edit(job, priority=7)
    second, third = fire(world, job, 2)
    for key in (first, second, third):
        miss(world, key)
    assert kept(world, job) == [("start_deadline", 1, 1, 0), ("start_deadline", 2, 3, 2)]


def test_runs_with_a_key_are_one_record_and_hold_no_permit() -> None:
    world, job = scene(concurrency=Concurrency("k", "k", 1))
    keys = fire(world, job, 4)
    assert world.instance(keys[1]).reason == "key"
    world.forward(DEADLINE_MS)
    for key in keys:
        miss(world, key)
    assert kept(world, job) == [("start_deadline", 1, 4, 4)]
    assert world.count(Table.KEY_LINES) == 0


def test_one_shots_are_rows_of_their_own() -> None:
    world = World()
    keys = []
    for second in (1, 2):
        job = world.create(at(T0 + second * SECOND), expires_ms=DEADLINE_MS)
        keys.append(world.fire(job).last_instance or b"")
    for key in keys:
        miss(world, key)
        assert world.instance(key).gap_count == 0


def test_a_limit_of_one_keeps_the_record() -> None:
    world, job = scene(retention=Retention(failed=1))
    for key in fire(world, job, 6):
        miss(world, key)
    assert kept(world, job) == [("start_deadline", 1, 6, 6)]


class TestFollowed:
    def follower(self, world: World, on: AfterOn) -> Job:
        trigger = Trigger(kind=TriggerKind.AFTER, after=After(("default/first",), on))
        return world.create(trigger, name="second", overlap=Overlap.ALLOW)

    def first(self, **fields: object) -> tuple[World, Job]:
        world = World()
        world.settings(start_deadline_ms=DEADLINE_MS)
        options: dict[str, object] = {"overlap": Overlap.ALLOW, "retention": Retention(failed=1), **fields}
        return world, world.create(every(SECOND), name="first", **options)  # type: ignore[arg-type]

    def test_by_jobs_that_do_not_want_such_ends(self) -> None:
        world, job = self.first()
        self.follower(world, AfterOn.SUCCEEDED)
        for key in fire(world, job, 4):
            miss(world, key)
        assert kept(world, job) == [("start_deadline", 1, 4, 4)]
        assert world.in_one_batch() == world.view.dump()

    def test_by_jobs_that_start_at_any_end(self) -> None:
        """Those runs name the one that they followed."""
        world, job = self.first(retention=Retention(failed=2))
        second = self.follower(world, AfterOn.ENDED)
        keys = fire(world, job, 3)
        for key in keys:
            miss(world, key)
        assert kept(world, job) == [("start_deadline", n, n, 0) for n in (2, 3)], "as many as are kept"
        assert [row.cause for row in world.instances(second.id)] == keys


class TestTold:
    def test_each_due_time_is_told_and_the_record_grows(self) -> None:
        world, job = scene()
        first, second = fire(world, job, 2)
        before = world.count(Table.CHANGES)
        miss(world, first)
        miss(world, second)
        rows = [decode_row(raw)[1] for _, raw in world.view.scan(Table.CHANGES)][before:]
        said = [
            (one.event, one.nominal_at_ms - T0, one.state)
            for row in rows
            for one in row
            if isinstance(one, InstanceChange)
        ]
        assert said == [
            (InstanceEvent.STATE, SECOND, I.SKIPPED),
            (InstanceEvent.STATE, 2 * SECOND, I.SKIPPED),
            (InstanceEvent.EXTENDED, SECOND, I.SKIPPED),
        ]

    def test_webhooks_hear_of_each(self) -> None:
        world = World()
        world.settings(start_deadline_ms=DEADLINE_MS)
        hook(world, on=ALL)
        job = world.create(every(SECOND), overlap=Overlap.ALLOW)
        keys = fire(world, job, 3)
        for key in keys:
            miss(world, key)
        assert [notice.instance for notice in told(world)] == keys
        assert kept(world, job) == [("start_deadline", 1, 3, 3)]

    def test_reasons_are_counted(self) -> None:
        world, job = scene(overlap=Overlap.FORBID)
        (first,) = fire(world, job, 1)
        fire(world, job, 1)
        assert DueTimesSkipped("overlap", 1) in world.actions
        miss(world, first)
        assert DueTimesSkipped("start_deadline", 1) in world.actions


class TestUpToWhen:
    """Nothing is owed that a record counts, also where it is asked for by new time zone data."""

    def test_of_a_job(self) -> None:
        world, job = scene()
        *others, last = fire(world, job, 4)
        for key in (*others, last):
            miss(world, key)
        assert world.row(last) is None
        asked = world.run_now(world.job(job.id))
        assert world.job(job.id).last_instance == asked
        assert last_scheduled_ms(world.view, world.job(job.id)) == T0 + 4 * SECOND

    def test_of_one_of_several_triggers(self) -> None:
        world = World()
        world.settings(start_deadline_ms=DEADLINE_MS)
        triggers = (cron("*/2 * * * * *", id="a"), cron("*/3 * * * * *", id="b"))
        job = world.create(**several(*triggers), overlap=Overlap.ALLOW)  # type: ignore[arg-type]
        go_on(world, T0 + 4 * SECOND)
        for row in world.waiting(job.id):
            miss(world, row.key)
        (record,) = world.instances(job.id)
        assert (record.trigger, record.gap_count, _span(record)) == ("", 3, (2, 4))
        policies = world.job(job.id).policy.triggers
        for trigger in policies:
            assert _newest_of_schedule(world.view, world.job(job.id), trigger.id) == T0 + 4 * SECOND
