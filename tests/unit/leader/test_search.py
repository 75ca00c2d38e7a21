"""Schedules that take long to search: they neither hold up a leader, nor stop it."""

from __future__ import annotations

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import JobState, Trigger, TriggerKind
from raftsched.leader import pacing
from tests.support.memory_view import T0, cron
from tests.unit.leader.house import House, play

DAY_MS = 24 * HOUR_MS
# A second less than a day: when it meets them is known only by a look at each day. 1,800 days lie between the two.
DRIFTING = "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=7,37;BYSECOND=11"
MET_S = 3 * 3600 + 37 * 60 + 11


def drifting(days: int) -> Trigger:
    """A rule that meets one of its times after so many days."""
    start_ms = T0 - T0 % DAY_MS + (MET_S + days) * 1000
    return Trigger(kind=TriggerKind.RRULE, expr=DRIFTING, starts_at_ms=start_ms)


def test_a_job_whose_search_runs_out_is_suspended_with_the_reason() -> None:
    """It may have been accepted by an earlier version."""

    async def scene(house: House) -> None:
        job = house.create(drifting(10_000))
        other = house.create(cron("* * * * *"))
        house.lead()
        await house.until_idle()
        found = house.world.job(job)
        assert found.state is JobState.SUSPENDED
        assert found.error is not None
        assert found.error.startswith("Its next time cannot be computed: takes too long to search: ")
        assert house.world.job(other).nominal_at_ms is not None
        assert len(house.commands(c.SetJobState)) == 1, "it is not searched again"

    play(scene)


def test_dear_searches_are_shared_among_several_proposals() -> None:
    """So that other work of the leader has its turn between them: of first times, and of fires."""

    async def scene(house: House) -> None:
        jobs = [house.create(drifting(number % 5 + (1 if number < 20 else 1_500))) for number in range(40)]
        house.lead()
        await house.until_idle()
        first = [house.world.job(job).nominal_at_ms or 0 for job in jobs]
        assert all(first)
        assert 20 * 1_500 // pacing.SEARCHED_MAX <= len(batches(house, c.ScheduleJob)) < 20
        house.clock.wall = max(first[:20])
        await house.until_idle()
        assert 20 * 1_800 // pacing.SEARCHED_MAX <= len(batches(house, c.Fire)) < 20
        again = [house.world.job(job).nominal_at_ms or 0 for job in jobs]
        assert [after - before for after, before in zip(again, first, strict=True)][:20] == [1_800 * 86_399_000] * 20
        assert again[20:] == first[20:]

    play(scene)


def batches(house: House, kind: type) -> list[list[c.Command]]:
    return [batch for batch in house.proposed if isinstance(batch[0], kind)]
