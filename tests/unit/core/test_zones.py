"""The number of the time zone data: what is refused without it, and jobs whose next times move."""

from __future__ import annotations

import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Fire, ScheduleJob, TriggerFire, TriggerSchedule
from raftsched.core.model import JobState, Trigger, TriggerKind
from raftsched.core.rows import ZONES
from raftsched.core.subjects.zones import (
    NAME_MAX,
    OFFSETS_MAX,
    ZONES_KEY,
    MoveJob,
    SettleZones,
    TriggerMove,
    UseZones,
    ZoneData,
    is_newer,
)
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, cron, every, policy

OLD, NEW, LATEST = "2025a 00ff", "2025b 0a0a", "2026a 0b0b"


def row(world: World) -> ZoneData:
    found = ZONES.get(world.view, ZONES_KEY)
    assert found is not None
    return found


def test_which_data_is_newer() -> None:
    assert is_newer(NEW, OLD)
    assert not is_newer(OLD, NEW)
    assert is_newer(LATEST, NEW)
    assert not is_newer("2025b 1111", NEW), "two builds of one version"
    assert not is_newer(NEW, "unknown 0a0a")
    assert not is_newer("unknown 0a0a", NEW)


def test_data_is_numbered_as_leaders_come_with_it() -> None:
    world = World()
    assert world.ok(UseZones(OLD, 0)).number == 1
    assert world.refused(UseZones(NEW, 0)) == "stale"
    assert world.refused(UseZones(OLD, 1)) == "stale", "it is that already"
    assert world.refused(UseZones("", 1)) == "invalid-parameter"
    assert world.refused(UseZones("x" * (NAME_MAX + 1), 1)) == "invalid-parameter"
    world.ok(SettleZones(1, b"first"))
    world.ok(SettleZones(1, b"again"))
    world.ok(UseZones(NEW, 1))
    assert row(world) == ZoneData(data=NEW, settled=1, offsets=b"again", newest=OLD, since_ms=T0)
    assert world.refused(SettleZones(1, b"late")) == "stale"
    assert world.refused(SettleZones(2, b"x" * (OFFSETS_MAX + 1))) == "stale"
    world.ok(SettleZones(2, b"second"))
    assert row(world) == ZoneData(data=NEW, settled=2, offsets=b"second", newest=NEW, since_ms=T0)


def test_older_data_is_not_the_newest_that_times_may_be_of() -> None:
    world = World()
    world.ok(UseZones(NEW, 0))
    world.ok(SettleZones(1, b"new"))
    world.ok(UseZones(OLD, 1))
    world.ok(UseZones(OLD[:-1], 2))
    assert (row(world).newest, row(world).offsets) == (NEW, b"new")
    world.ok(UseZones(LATEST, 3))
    assert row(world).newest == NEW
    world.ok(UseZones(OLD, 4))
    assert row(world).newest == LATEST, "its times may be there"


def test_times_by_other_data_are_refused() -> None:
    world = World()
    world.ok(UseZones(OLD, 0))
    job = world.create(cron("0 9 * * *"))
    plain = world.create(every(HOUR_MS))
    assert world.refused(ScheduleJob(job.id, 1, T0 + 5)) == "stale"
    world.ok(ScheduleJob(job.id, 1, T0 + 5, zones=1))
    world.forward(HOUR_MS)
    assert world.refused(Fire(job.id, 1, T0 + 5, T0 + 2 * HOUR_MS)) == "stale"
    world.ok(Fire(job.id, 1, T0 + 5, T0 + 2 * HOUR_MS, zones=1))
    assert world.job(job.id).zones == 1
    nominal = world.job(plain.id).nominal_at_ms
    assert nominal is not None
    world.ok(Fire(plain.id, 1, nominal)), "no leader computes its times"


@pytest.fixture
def found() -> tuple[World, int]:
    world = World()
    world.ok(UseZones(OLD, 0))
    job = world.create(cron("0 9 * * *"))
    world.ok(ScheduleJob(job.id, 1, T0 + HOUR_MS, zones=1))
    world.ok(UseZones(NEW, 1))
    return world, job.id


def test_a_job_moves(found: tuple[World, int]) -> None:
    world, job_id = found
    world.ok(MoveJob(job_id, 1, 2, T0 + HOUR_MS, T0 + 5))
    job = world.job(job_id)
    assert (job.nominal_at_ms, job.zones, job.revision) == (T0 + 5, 2, 1)
    assert job.moved is not None
    assert (job.moved.at_ms, job.moved.from_ms, job.moved.to_ms) == (T0, T0 + HOUR_MS, T0 + 5)
    assert world.count(Table.DUE) == 1
    assert world.in_one_batch() == world.view.dump()


@pytest.mark.parametrize(
    "command",
    [
        MoveJob(0, 1, 2, T0 + HOUR_MS, T0 + 5),
        MoveJob(1, 2, 2, T0 + HOUR_MS, T0 + 5),
        MoveJob(1, 1, 1, T0 + HOUR_MS, T0 + 5),
        MoveJob(1, 1, 2, T0 + HOUR_MS + 1, T0 + 5),
        MoveJob(1, 1, 2, None, T0 + 5),
        MoveJob(1, 1, 2, T0 + HOUR_MS, -1),
        MoveJob(1, 1, 2, T0 + HOUR_MS, 2**63),
    ],
)
def test_what_does_not_fit_moves_nothing(found: tuple[World, int], command: MoveJob) -> None:
    world, job_id = found
    args = [getattr(command, name) for name in command.__struct_fields__]
    assert world.refused(MoveJob(job_id if command.job_id else 5, *args[1:])) == "stale"
    world.ok(c.SetJobState(job_id, JobState.SUSPENDED))
    assert world.refused(MoveJob(job_id, 1, 2, T0 + HOUR_MS, T0 + 5)) == "stale"


def test_what_has_no_time_any_more_is_over(found: tuple[World, int]) -> None:
    world, job_id = found
    world.ok(MoveJob(job_id, 1, 2, T0 + HOUR_MS, None))
    assert world.job(job_id).state is JobState.EXPIRED


def test_triggers_move_each_by_itself() -> None:
    world = World()
    world.ok(UseZones(OLD, 0))
    triggers = tuple(Trigger(kind=TriggerKind.CRON, expr=f"0 {hour} * * *", id=f"h{hour}") for hour in (7, 9))
    several = policy(Trigger(kind=TriggerKind.SEVERAL), triggers=triggers)
    job = world.ok(c.CreateJob("d", None, several, b"{}")).job
    assert job is not None
    parts = tuple(TriggerSchedule(index, T0, T0 + (2 + index) * HOUR_MS) for index in (0, 1))
    assert world.refused(ScheduleJob(job.id, 1, None, triggers=parts)) == "stale"
    world.ok(ScheduleJob(job.id, 1, None, triggers=parts, zones=1))
    world.ok(UseZones(NEW, 1))
    moved = (TriggerMove(1, T0 + 3 * HOUR_MS, T0 + HOUR_MS), TriggerMove(0, T0, T0 + 1), TriggerMove(7, T0, T0 + 1))
    world.ok(MoveJob(job.id, 1, 2, T0 + 2 * HOUR_MS, None, triggers=moved))
    row = world.job(job.id)
    assert [(state.nominal_at_ms, state.zones) for state in row.triggers] == [(T0 + 2 * HOUR_MS, 1), (T0 + HOUR_MS, 2)]
    assert row.nominal_at_ms == T0 + HOUR_MS
    assert world.refused(MoveJob(job.id, 1, 2, T0 + HOUR_MS, None, triggers=moved)) == "stale"
    world.forward(HOUR_MS)
    part = TriggerFire(1, T0 + HOUR_MS, T0 + 30 * HOUR_MS)
    assert world.refused(Fire(job.id, 1, T0 + HOUR_MS, triggers=(part,), zones=1)) == "stale"
    world.ok(Fire(job.id, 1, T0 + HOUR_MS, triggers=(part,), zones=2))
