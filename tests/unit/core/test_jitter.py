"""Jitter that is longer than the time to the next run: each time fires by itself, before the next."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from raftsched.core import commands as c
from raftsched.core.levels import JITTER_ENDS_BEFORE_NEXT, fitted, is_later
from raftsched.core.model import InstanceState, Job, Misfire, MisfirePolicy, Overlap, Trigger, TriggerKind
from raftsched.core.subjects.calendar import PutCalendar
from raftsched.leader.due.triggers import Source
from tests.support.memory_view import T0, World, cron, every
from tests.support.scheduler import go_on, schedule, several

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
OFTEN = [
    cron("*/5 * * * * *", jitter_ms=20 * SECOND),
    cron("0,1,30 * * * * *", jitter_ms=MINUTE),
    cron("*/7 9-17 * * *", jitter_ms=12 * HOUR),
    Trigger(kind=TriggerKind.RRULE, expr="FREQ=MINUTELY;INTERVAL=3", jitter_ms=HOUR),
    every(5 * SECOND, jitter_ms=20 * SECOND),
    every(5 * SECOND, jitter_ms=20 * SECOND, calendar="free", calendar_moves=True),
]


def made(world: World, *triggers: Trigger, **fields: object) -> Job:
    world.ok(PutCalendar("free", b'{"weekdays": ["sun"]}'))
    when: dict[str, object] = several(*triggers) if len(triggers) > 1 else {"trigger": triggers[0]}
    return world.create(**when, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("trigger", OFTEN, ids=lambda one: one.expr or one.calendar or "every")
@pytest.mark.parametrize("policy", [MisfirePolicy.SKIP, MisfirePolicy.ONCE])
def test_each_time_fires_before_the_next_one(trigger: Trigger, policy: MisfirePolicy) -> None:
    world = World()
    job = made(world, trigger, overlap=Overlap.ALLOW, misfire=Misfire(policy, 0))
    go_on(world, T0 + (10 * MINUTE if trigger.jitter_ms <= MINUTE else 10 * HOUR))
    rows = world.instances(job.id)
    assert len(rows) > 5
    assert {row.state for row in rows} == {InstanceState.WAITING}
    assert all(row.created_at_ms == row.nominal_at_ms + row.jitter_ms for row in rows)
    assert all(a.created_at_ms < b.nominal_at_ms for a, b in pairwise(rows))
    assert len({row.jitter_ms for row in rows}) > 3, "spread"


def test_no_overlap_where_no_run_is_active() -> None:
    world = World()
    session = world.session()
    job = made(world, cron("*/5 * * * * *", jitter_ms=20 * SECOND))
    for _ in range(100):
        schedule(world)
        due = world.job(job.id).fire_at_ms
        assert due is not None
        go_on(world, due)
        world.run_once(world.waiting(job.id)[0].key, session)
    assert all(row.reason is None for row in world.instances(job.id))


def test_several_triggers_do_not_hold_up_one_another() -> None:
    world = World()
    session = world.session()
    long = cron("*/30 * * * * *", id="a", jitter_ms=25 * SECOND)
    job = made(world, long, cron("7-59/10 * * * * *", id="b", jitter_ms=SECOND), every(13 * SECOND, id="c"))
    for _ in range(200):
        schedule(world)
        due = world.job(job.id).fire_at_ms
        assert due is not None
        go_on(world, due)
        world.run_once(world.waiting(job.id)[0].key, session)
    rows = world.instances(job.id)
    assert all(row.reason is None for row in rows)
    assert all(a.created_at_ms < b.nominal_at_ms for a, b in pairwise(rows))
    assert {row.trigger for row in rows} == {"a", "b", "c"}


def test_after_an_outage_only_the_newest_may_have_to_wait() -> None:
    rng = random.Random(7)
    for _ in range(50):
        world = World()
        job = made(world, cron("*/5 * * * * *", jitter_ms=20 * SECOND), overlap=Overlap.ALLOW)
        go_on(world, T0 + 20 * SECOND)
        world.forward(rng.randrange(5 * SECOND, MINUTE))
        outage = world.now
        go_on(world, outage + 30 * SECOND)
        rows = world.instances(job.id)
        times = [row.nominal_at_ms for row in rows]
        assert times == list(range(times[0], times[-1] + 1, 5 * SECOND))
        assert all(row.created_at_ms in (row.nominal_at_ms + row.jitter_ms, outage) for row in rows)
        assert sum(row.created_at_ms == outage for row in rows) >= (outage - T0) // (5 * SECOND) - 5


def test_an_edit_that_leaves_the_trigger_alone_keeps_the_moment() -> None:
    world = World()
    job = made(world, cron("*/5 * * * * *", jitter_ms=20 * SECOND))
    for number in range(10):
        go_on(world, world.now + 5 * SECOND)
        before = world.job(job.id).fire_at_ms
        assert world.edit(job, priority=number % 9).fire_at_ms == before


@pytest.mark.parametrize("kind", ["of one trigger", "of several"])
def test_a_cluster_of_an_earlier_level_goes_on_as_it_was(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader names no gaps."""
    world = World(level=JITTER_ENDS_BEFORE_NEXT - 1)
    trigger = cron("*/5 * * * * *", jitter_ms=20 * SECOND, id="a")
    others = (every(HOUR, id="b"),) if kind == "of several" else ()
    job = made(world, trigger, *others, overlap=Overlap.ALLOW)
    with monkeypatch.context() as patched:
        patched.setattr(Source, "gap_after", lambda *_: None)
        go_on(world, T0 + 10 * MINUTE)
    assert any(a.created_at_ms >= b.nominal_at_ms for a, b in pairwise(world.instances(job.id)))
    world.ok(c.RaiseLevel(JITTER_ENDS_BEFORE_NEXT))
    go_on(world, T0 + 20 * MINUTE)
    rows = [row for row in world.instances(job.id) if row.nominal_at_ms > T0 + 11 * MINUTE]
    assert all(a.created_at_ms < b.nominal_at_ms for a, b in pairwise(rows))


@pytest.mark.parametrize(
    ("command", "without"),
    [
        (c.Fire(1, 1, T0, T0 + 5, gap_ms=7), c.Fire(1, 1, T0, T0 + 5)),
        (c.ScheduleJob(1, 1, T0, gap_ms=7), c.ScheduleJob(1, 1, T0)),
        (
            c.Fire(1, 1, T0, triggers=(c.TriggerFire(0, T0), c.TriggerFire(1, T0, gap_ms=7))),
            c.Fire(1, 1, T0, triggers=(c.TriggerFire(0, T0), c.TriggerFire(1, T0))),
        ),
        (
            c.ScheduleJob(1, 1, None, triggers=(c.TriggerSchedule(0, 3, T0, gap_ms=7),)),
            c.ScheduleJob(1, 1, None, triggers=(c.TriggerSchedule(0, 3, T0),)),
        ),
    ],
)
def test_an_earlier_level_goes_without_the_gap(command: c.Command, without: c.Command) -> None:
    raw = c.encode(command)
    assert is_later(raw, JITTER_ENDS_BEFORE_NEXT - 1)
    found = fitted(raw, JITTER_ENDS_BEFORE_NEXT - 1)
    assert c.decode(found) == without
    assert not is_later(found, JITTER_ENDS_BEFORE_NEXT - 1)
    assert fitted(raw, JITTER_ENDS_BEFORE_NEXT) == raw
