"""What is late: grace, skip, once, all, the cap, and the records of what was skipped."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.model import Instance, Misfire, MisfirePolicy, Overlap
from raftsched.core.model import InstanceState as I
from tests.support.memory_view import T0, World, cron, every

SECOND = 1000


def fired(
    policy: MisfirePolicy, *, late: int, grace: int = 0, overlap: Overlap = Overlap.ALLOW, cap: int = 100
) -> list[Instance]:
    """An every-second job whose fire of T0 + 1 s comes `late` ms late."""
    world = World()
    world.settings(catch_up_max=cap)
    job = world.create(every(SECOND), misfire=Misfire(policy, grace), overlap=overlap)
    world.forward(SECOND + late)
    upcoming = world.fire(job).nominal_at_ms
    assert upcoming is not None
    assert world.now < upcoming <= world.now + SECOND
    return world.instances(job.id)


def show(rows: list[Instance]) -> list[tuple[str, int, int]]:
    """(state, seconds after T0, fires it stands for)"""
    return [(r.state.name, (r.nominal_at_ms - T0) // SECOND, r.gap_count) for r in rows]


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_within_the_grace_is_on_time(policy: MisfirePolicy) -> None:
    assert show(fired(policy, late=900, grace=900)) == [("WAITING", 1, 0)]


def test_skip() -> None:
    rows = fired(MisfirePolicy.SKIP, late=3 * SECOND)  # 1 2 3 are late, 4 is now
    assert show(rows) == [("SKIPPED", 1, 3), ("WAITING", 4, 0)]
    assert rows[0].reason == "misfire"
    assert rows[0].gap_until_ms == T0 + 3 * SECOND


def test_once() -> None:
    """One run for all that were missed, besides the one that is on time."""
    assert show(fired(MisfirePolicy.ONCE, late=3 * SECOND + 1)) == [("SKIPPED", 1, 3), ("WAITING", 4, 0)]
    assert show(fired(MisfirePolicy.ONCE, late=3 * SECOND)) == [
        ("SKIPPED", 1, 2),
        ("WAITING", 3, 0),
        ("WAITING", 4, 0),
    ]


def test_all() -> None:
    assert show(fired(MisfirePolicy.ALL, late=2 * SECOND + 1)) == [("WAITING", k, 0) for k in (1, 2, 3)]


def test_all_is_capped() -> None:
    rows = fired(MisfirePolicy.ALL, late=9 * SECOND + 1, cap=3)  # 1..10 are due
    assert show(rows) == [("SKIPPED", 1, 7), *(("WAITING", k, 0) for k in (8, 9, 10))]
    assert rows[0].gap_until_ms == T0 + 7 * SECOND


def test_skip_of_more_than_the_cap_is_one_record() -> None:
    rows = fired(MisfirePolicy.SKIP, late=1_000_000 * SECOND + 1, cap=3)
    assert show(rows) == [("SKIPPED", 1, 1_000_001)]
    assert rows[0].gap_until_ms == T0 + 1_000_001 * SECOND


def test_the_cap_holds_within_the_grace_too() -> None:
    rows = fired(MisfirePolicy.ALL, late=10 * SECOND, grace=3_600_000, cap=4)
    assert [r.state for r in rows].count(I.WAITING) == 4


def test_caught_up_under_forbid_only_one_starts() -> None:
    rows = fired(MisfirePolicy.ALL, late=3 * SECOND, overlap=Overlap.FORBID)
    assert show(rows) == [("WAITING", 1, 0), ("SKIPPED", 2, 3)]
    assert rows[1].reason == "overlap"


def test_one_record_per_gap() -> None:
    world = World()
    session = world.session()
    job = world.create(every(SECOND))
    world.fire(job)
    first = world.waiting(job.id)[0].key
    for _ in range(5):
        world.fire(job)
    assert show(world.instances(job.id)) == [("WAITING", 1, 0), ("SKIPPED", 2, 5)]
    assert world.instances(job.id)[1].gap_until_ms == T0 + 6 * SECOND
    world.run_once(first, session)
    world.fire(job)
    for _ in range(2):
        world.fire(job)
    assert show(world.instances(job.id))[2:] == [("WAITING", 7, 0), ("SKIPPED", 8, 2)]


def test_another_reason_is_another_record() -> None:
    world = World()
    job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.SKIP, 0))
    world.fire(job)
    world.fire(job)
    world.forward(SECOND + 1)
    world.fire(job)
    assert [(r.reason, r.gap_count) for r in world.instances(job.id)[1:]] == [("overlap", 1), ("misfire", 1)]


class TestCalendar:
    """The leader lists what was missed; apply decides."""

    def fire(self, policy: MisfirePolicy, cap: int = 100) -> list[Instance]:
        world = World()
        world.settings(catch_up_max=cap)
        job = world.create(cron(), misfire=Misfire(policy, 0), overlap=Overlap.ALLOW)
        world.ok(c.ScheduleJob(job.id, 1, T0 + SECOND))
        times = [T0 + k * SECOND for k in range(2, 6)]
        world.now = T0 + 5 * SECOND + 1
        keep = tuple(times[-(cap + 1) :])
        world.fire(job, next_nominal_at_ms=T0 + 6 * SECOND, missed=keep, missed_count=4, missed_until_ms=times[-1])
        return world.instances(job.id)

    def test_skip(self) -> None:
        assert show(self.fire(MisfirePolicy.SKIP)) == [("SKIPPED", 1, 5)]

    def test_once(self) -> None:
        assert show(self.fire(MisfirePolicy.ONCE)) == [("SKIPPED", 1, 4), ("WAITING", 5, 0)]

    def test_all_is_capped(self) -> None:
        rows = self.fire(MisfirePolicy.ALL, cap=2)
        assert show(rows) == [("SKIPPED", 1, 3), ("WAITING", 4, 0), ("WAITING", 5, 0)]
        assert rows[0].gap_until_ms == T0 + 3 * SECOND
