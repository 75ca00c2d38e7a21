"""Jobs with several triggers, and pauses until a time, under a leader: over outages and changes of leadership."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import JobState, Misfire, MisfirePolicy, Overlap, Trigger, TriggerKind
from raftsched.core.subjects.calendar import PutCalendar, RescheduleJob
from raftsched.core.tables import Table
from tests.support.memory_view import T0, at, cron, every
from tests.support.scheduler import several
from tests.unit.leader.house import House, play

SECOND, MINUTE = 1_000, 60_000
ALL = Misfire(MisfirePolicy.ALL, MINUTE)


async def changes(house: House) -> None:
    """Another leadership comes, which knows what the tables say."""
    house.leading = False
    house.leader.on_role()
    house.term += 1
    house.lead()
    await house.until_idle()


async def go_on(house: House, until_ms: int, step_ms: int = 10 * SECOND) -> None:
    """Lets time go on, and the leader and one worker do their work."""
    while house.clock.wall < until_ms:
        house.clock.forward(min(step_ms, until_ms - house.clock.wall))
        house.quorum = house.clock.boot
        await house.until_idle()


def ends(house: House) -> list[tuple[str, int]]:
    """Ends what runs and lets what waits start, until all is done: (trigger, nominal time in s) in that order."""
    order = []
    world = house.world
    while live := [row for row in world.instances() if row.live is not None]:
        assert len(live) == 1, "two at once"
        attempt = live[0].live
        assert attempt is not None
        order.append((live[0].trigger, (live[0].nominal_at_ms - T0) // SECOND))
        house.do(c.Ended(attempt.session, attempt.token, c.Outcome.SUCCEEDED, house.clock.wall, house.clock.wall))
        waiting = [row for row in world.instances() if row.state.name == "WAITING" and not row.held]
        if waiting:
            house.do(c.Assign(waiting[0].key, attempt.session))
    return order


@pytest.mark.parametrize(
    "fields",
    [
        {"trigger": every(HOUR_MS)},
        {"trigger": cron("0 * * * *")},
        several(every(HOUR_MS, id="a"), cron("0 */2 * * *", id="b")),
    ],
    ids=["every", "cron", "several"],
)
def test_all_under_forbid_runs_what_an_outage_owes_one_after_the_other(fields: dict[str, Any]) -> None:
    async def scene(house: House) -> None:
        trigger = fields.get("trigger")
        more = {"triggers": fields["triggers"]} if "triggers" in fields else {}
        house.create(trigger, misfire=ALL, overlap=Overlap.FORBID, **more)
        house.lead()
        session = house.session()
        house.beat(session)
        await house.until_idle()
        house.leading = False
        house.leader.on_role()
        house.clock.forward(6 * HOUR_MS + MINUTE)
        house.term += 1
        house.lead()
        session = house.session()
        house.beat(session)
        await house.until_idle()
        assert [at_s for _, at_s in ends(house)] == [3600 * k for k in range(1, 7)]
        assert not [row for row in house.world.instances() if row.gap_count]

    play(scene)


def test_their_times_come_together_over_changes_of_leadership() -> None:
    async def scene(house: House) -> None:
        triggers = every(20 * SECOND, id="a"), cron("* * * * *", id="b"), at(T0 + 50 * SECOND, id="c")
        house.create(overlap=Overlap.ALLOW, **several(*triggers))
        house.lead()
        await house.until_idle()
        for until_s in (30, 60, 90, 120):
            await go_on(house, T0 + until_s * SECOND)
            await changes(house)
        rows = [(row.trigger, (row.nominal_at_ms - T0) // SECOND) for row in house.world.instances()]
        assert rows == [("a", 20), ("a", 40), ("c", 50), ("a", 60), ("a", 80), ("a", 100), ("a", 120)]
        fired = [command for command in house.commands(c.Fire) if len(command.triggers) == 2]
        assert [command.nominal_at_ms for command in fired] == [T0 + 60 * SECOND, T0 + 120 * SECOND]

    play(scene)


def test_one_whose_times_cannot_be_computed_suspends_its_job() -> None:
    async def scene(house: House) -> None:
        bad = cron("* * * * *", id="b", timezone="Nowhere/There")
        job_id = house.create(**several(every(SECOND, id="a"), bad))
        house.lead()
        await house.until_idle()
        job = house.world.job(job_id)
        assert (job.state, job.fire_at_ms) == (JobState.SUSPENDED, None)
        assert job.error is not None
        assert "Nowhere/There" in job.error

    play(scene)


def test_a_time_that_a_calendar_has_excluded_since_is_not_fired() -> None:
    async def scene(house: House) -> None:
        house.do(PutCalendar("c", b'{"dates":["2001-01-01"]}'))
        job_id = house.create(**several(cron("* * * * *", id="a", calendar="c"), every(HOUR_MS, id="b")))
        house.lead()
        await house.until_idle()
        row = house.world.job(job_id)
        raw = house.world.view.get(Table.CALENDARS, b"c")
        house.do(PutCalendar("c", b'{"ranges":[{"from":"2001-01-01","to":"2090-01-01"}]}'))
        assert raw != house.world.view.get(Table.CALENDARS, b"c")
        await go_on(house, T0 + HOUR_MS, 5 * MINUTE)
        assert [r.trigger for r in house.world.instances()] == ["b"]
        states = house.world.job(job_id).triggers
        assert (states[0].nominal_at_ms or 0) > T0 + 1000 * 24 * HOUR_MS
        assert isinstance(house.commands(RescheduleJob), list)
        assert row.revision == 1

    play(scene)


class TestPauseUntil:
    @pytest.mark.parametrize(
        "fields",
        [
            {"trigger": every(MINUTE)},
            {"trigger": cron("* * * * *")},
            several(every(MINUTE, id="a"), cron("* * * * *", id="b")),
        ],
        ids=["every", "cron", "several"],
    )
    def test_it_goes_on_with_the_time_at_which_it_ends(self, fields: dict[str, Any]) -> None:
        """Over a change of leadership, and an outage at the very moment: what is due from then on is owed."""

        async def scene(house: House) -> None:
            job_id = house.create(overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.ALL, MINUTE), **fields)
            until_ms = T0 + 10 * MINUTE
            house.lead()
            await house.until_idle()
            house.do(c.SetJobState(job_id, JobState.SUSPENDED, resume_at_ms=until_ms))
            await go_on(house, T0 + 5 * MINUTE)
            await changes(house)
            await go_on(house, until_ms - SECOND)
            assert house.world.job(job_id).state is JobState.SUSPENDED
            house.leading = False
            house.leader.on_role()
            house.clock.forward(2 * MINUTE + 2 * SECOND)
            await changes(house)
            row = house.world.job(job_id)
            assert (row.state, row.resume_at_ms) == (JobState.SCHEDULED, None)
            await go_on(house, house.clock.wall + 3 * SECOND, SECOND)
            times = [(r.nominal_at_ms - T0) // MINUTE for r in house.world.instances() if not r.gap_count]
            assert times == [10, 11, 12]

        play(scene)

    def test_what_replaces_it_holds(self) -> None:
        async def scene(house: House) -> None:
            jobs = [house.create(every(MINUTE)) for _ in range(5)]
            house.lead()
            for job_id in jobs:
                house.do(c.SetJobState(job_id, JobState.SUSPENDED, resume_at_ms=T0 + HOUR_MS))
            house.do(c.SetJobState(jobs[0], JobState.SUSPENDED))
            house.do(c.SetJobState(jobs[1], JobState.SUSPENDED, resume_at_ms=T0 + 2 * HOUR_MS))
            house.do(c.SetJobState(jobs[2], JobState.SCHEDULED))
            house.do(c.SetJobState(jobs[3], JobState.EXPIRED))
            house.do(c.DeleteJob(jobs[4]))
            await go_on(house, T0 + HOUR_MS, 10 * MINUTE)
            assert house.commands(c.ResumeJob) == []
            await go_on(house, T0 + 2 * HOUR_MS, 10 * MINUTE)
            assert house.commands(c.ResumeJob) == [c.ResumeJob(jobs[1], T0 + 2 * HOUR_MS)]
            assert house.world.job(jobs[0]).state is JobState.SUSPENDED
            assert house.world.job(jobs[1]).state is JobState.SCHEDULED
            assert house.world.count(Table.RESUMES) == 0

        play(scene)


def test_the_kind_that_stands_for_several_is_never_computed() -> None:
    assert not Trigger(kind=TriggerKind.SEVERAL).needs_calendar
    assert not Trigger(kind=TriggerKind.SEVERAL).once
