"""What a leadership owes calendar jobs, and the timers of instances."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from raftsched import schedule
from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Fire, ScheduleJob, Wake
from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState, Outcome, Overlap, Retry, Trigger, TriggerKind
from raftsched.core.rows import decode_calendar
from raftsched.core.subjects.calendar import AT_ONCE, PutCalendar, RescheduleJob
from raftsched.core.tables import Table
from raftsched.leader import pacing
from raftsched.leader.due import scheduling
from raftsched.schedule import TriggerError
from tests.support.memory_view import T0, at, cron, every
from tests.unit.leader.house import House, play


class TestCalendar:
    def test_the_next_time_is_told_and_fired(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            job = house.create(cron("* * * * *"), overlap=Overlap.ALLOW)
            await house.tick()
            first = house.world.job(job).nominal_at_ms
            assert first == T0 - T0 % 60_000 + 60_000
            house.clock.wall = first
            await house.tick()
            assert house.world.job(job).nominal_at_ms == first + 60_000
            house.clock.wall = first + 5 * 60_000 + 1
            await house.tick()
            assert house.world.job(job).nominal_at_ms == first + 6 * 60_000
            assert len(house.world.instances(job)) == 6  # all within the grace of 15 minutes

        play(scene)

    def test_without_memory_no_job_is_suspended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is the node's want: leadership is given away, and another one computes the time."""

        async def scene(house: House) -> None:
            def out_of_memory(*_: Any, **__: Any) -> Any:
                raise MemoryError

            jobs = [house.create(cron("* * * * *"), overlap=Overlap.ALLOW) for _ in range(2)]
            house.lead()
            await house.tick()
            nominal = house.world.job(jobs[0]).nominal_at_ms
            house.clock.wall = nominal
            jobs.append(house.create(cron("* * * * *")))
            for place in ("next_nominal", "after_fire"):
                monkeypatch.setattr(schedule, place, out_of_memory, raising=False)
            with pytest.raises(MemoryError):
                await house.tick()
            assert {house.world.job(job).state for job in jobs} == {JobState.SCHEDULED}

        play(scene)

    def test_a_rule_counts_from_where_the_job_does(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            trigger = Trigger(kind=TriggerKind.RRULE, expr="FREQ=MINUTELY;INTERVAL=7")
            job = house.create(trigger, overlap=Overlap.ALLOW)
            await house.tick()
            start = house.world.job(job).anchor_at_ms // 1000 * 1000
            assert house.world.job(job).nominal_at_ms == start + 7 * 60_000
            house.clock.wall = start + 15 * 60_000
            await house.tick()
            assert house.world.job(job).nominal_at_ms == start + 21 * 60_000
            assert [r.nominal_at_ms - start for r in house.world.instances(job)] == [7 * 60_000, 14 * 60_000]

        play(scene)

    def test_owed_from_before(self) -> None:
        async def scene(house: House) -> None:
            jobs = [house.create(cron("* * * * *")) for _ in range(5)]
            house.lead()
            await house.tick()
            assert len(house.commands(ScheduleJob)) == 5
            assert all(house.world.job(job).fire_at_ms for job in jobs)

        play(scene)

    def test_owed_by_the_thousand_they_are_read_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scheduling, "KNOWN_MAX", 10)
        monkeypatch.setattr(pacing, "BATCH", 4)

        async def scene(house: House) -> None:
            jobs = [house.create(cron("* * * * *")) for _ in range(35)]
            house.lead()
            assert house.leader.current is not None
            jobs.append(house.create(cron("* * * * *")))  # while the older ones are not all known yet
            for _ in range(20):
                assert len(house.leader.current.scheduling.known) <= 10
                await house.tick()
            assert len(house.commands(ScheduleJob)) == 36
            assert all(house.world.job(job).fire_at_ms for job in jobs)
            late = house.create(cron("* * * * *"))
            await house.tick()
            assert house.world.job(late).fire_at_ms

        play(scene)

    def test_what_was_due_before_a_leader_came_to_it_is_not_missed(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(cron("* * * * *"), overlap=Overlap.ALLOW)
            other = house.create(cron("* * * * *"), overlap=Overlap.ALLOW)
            house.clock.forward(90_000)
            raw = house.world.job(other)
            house.do(c.EditJob(other, raw.policy, b'{"a":1}'))  # which leaves its trigger alone
            house.clock.forward(90_000)
            house.lead()
            await house.tick()
            await house.tick()
            for made in (job, other):
                times = [r.nominal_at_ms for r in house.world.instances(made)]
                assert times == [T0 - T0 % 60_000 + k * 60_000 for k in (1, 2, 3)]

        play(scene)

    def test_a_clock_that_was_set_back_does_not_put_the_first_time_off(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(cron("* * * * *"))
            house.clock.wall -= HOUR_MS
            house.lead()
            await house.tick()
            at_ms = house.world.job(job).nominal_at_ms
            assert at_ms is not None
            assert 0 < at_ms - house.clock.wall <= 60_000

        play(scene)

    def test_a_gap_ends_where_it_ends(self) -> None:
        async def scene(house: House) -> None:
            house.do(c.PutSettings(msgspec.structs.replace(house.world.meta.settings, catch_up_max=2)))
            house.lead()
            job = house.create(cron("* * * * *"), overlap=Overlap.ALLOW)
            await house.tick()
            first = house.world.job(job).nominal_at_ms
            assert first is not None
            house.clock.wall = first + 9 * 60_000
            await house.tick()
            gap, *runs = house.world.instances(job)
            assert (gap.gap_count, gap.nominal_at_ms, gap.gap_until_ms) == (8, first, first + 7 * 60_000)
            assert [r.nominal_at_ms for r in runs] == [first + 8 * 60_000, first + 9 * 60_000]

        play(scene)

    @pytest.mark.parametrize("error", [TriggerError("/trigger/timezone", "no such zone"), OverflowError("too far")])
    @pytest.mark.parametrize("when", ["first", "later"])
    def test_one_that_cannot_be_computed_stops_nobody_else(
        self, error: Exception, when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        original = schedule.next_nominal

        def next_nominal(trigger: Any, *args: Any, **kwargs: Any) -> int | None:
            if trigger.timezone == "Mars/Olympus":
                raise error
            return original(trigger, *args, **kwargs)

        async def scene(house: House) -> None:
            house.lead()
            bad = house.create(cron("* * * * *", timezone="Mars/Olympus"))
            if when == "later":  # another leader knew the zone
                house.do(ScheduleJob(bad, 1, T0))
            good = house.create(at(T0))
            monkeypatch.setattr(schedule, "next_nominal", next_nominal)
            await house.tick()
            assert len(house.world.instances(good)) == 1
            row = house.world.job(bad)
            assert row.state is JobState.SUSPENDED
            assert row.error is not None
            assert str(error) in row.error
            assert house.stepped_down == 0

        with caplog.at_level(logging.CRITICAL):
            play(scene)


class TestExcluded:
    """T0 lies on the day that is excluded, or not."""

    TODAY = f'{{"dates":["{datetime.fromtimestamp(T0 / 1000, UTC).date().isoformat()}"]}}'.encode()
    TOMORROW = (T0 // DAY_MS + 1) * DAY_MS

    def test_a_job_is_due_when_its_calendar_lets_it(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.do(PutCalendar("off", self.TODAY))
            jobs = [
                house.create(trigger, overlap=Overlap.ALLOW)
                for trigger in (cron("0 * * * *", calendar="off"), every(HOUR_MS, calendar="off"))
            ]
            await house.tick()
            first, second = (house.world.job(job).nominal_at_ms for job in jobs)
            assert first == self.TOMORROW
            assert second is not None
            assert 0 <= second - self.TOMORROW < HOUR_MS
            house.clock.wall = second + HOUR_MS
            await house.tick()
            assert [r.nominal_at_ms for r in house.world.instances(jobs[1])] == [second, second + HOUR_MS]

        play(scene)

    def test_a_change_moves_the_times_of_all(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.do(PutCalendar("off", b"{}"))
            jobs = [house.create(cron("0 * * * *", calendar="off")) for _ in range(AT_ONCE + 50)]
            await house.tick()
            assert {house.world.job(job).nominal_at_ms for job in jobs} == {(T0 // HOUR_MS + 1) * HOUR_MS}
            house.do(PutCalendar("off", self.TODAY))
            await house.until_idle()
            await house.tick()
            await house.until_idle()
            assert {house.world.job(job).nominal_at_ms for job in jobs} == {self.TOMORROW}
            house.do(PutCalendar("off", b"{}"))
            for _ in range(3):
                await house.tick()
                await house.until_idle()
            assert {house.world.job(job).nominal_at_ms for job in jobs} == {(T0 // HOUR_MS + 1) * HOUR_MS}

        play(scene)

    def test_what_is_excluded_does_not_fire_even_before_its_job_is_come_to(self) -> None:
        async def scene(house: House) -> None:
            house.do(PutCalendar("off", self.TODAY))
            job = house.create(cron("0 * * * *", calendar="off"))
            revision = decode_calendar(house.world.view.get(Table.CALENDARS, b"off") or b"").revision
            house.do(ScheduleJob(job, 1, T0 + 1, revision))  # by a leader with other time zone data
            house.lead()
            house.clock.wall = T0 + 1
            await house.tick()
            await house.tick()
            assert house.world.instances(job) == []
            assert house.world.job(job).nominal_at_ms == self.TOMORROW
            assert len(house.commands(RescheduleJob)) == 1

        play(scene)

    @pytest.mark.parametrize("led", ["before", "since"])
    @pytest.mark.parametrize(
        "trigger",
        [
            cron("0 * * * *"),
            every(HOUR_MS),
            Trigger(kind=TriggerKind.RRULE, expr="FREQ=HOURLY"),
        ],
        ids=lambda trigger: trigger.kind.name,
    )
    def test_a_calendar_that_excludes_all_ends_nothing(self, trigger: Trigger, led: str) -> None:
        """Also under a leader that finds job and calendar in its tables."""

        async def scene(house: House) -> None:
            if led == "before":
                house.lead()
            house.do(PutCalendar("off", b'{"weekdays":["mon","tue","wed","thu","fri","sat","sun"]}'))
            job = house.create(msgspec.structs.replace(trigger, calendar="off"))
            if led == "since":
                house.lead()
            await house.tick()
            row = house.world.job(job)
            assert (row.state, row.nominal_at_ms, row.never_fires) == (JobState.SCHEDULED, None, True)
            house.do(PutCalendar("off", b"{}"))
            for _ in range(3):
                await house.tick()
                await house.until_idle()
            nominal = house.world.job(job).nominal_at_ms
            assert nominal is not None
            assert 0 < nominal - T0 <= HOUR_MS

        play(scene)

    def test_one_whose_last_time_is_followed_by_excluded_ones(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            days = json.dumps({"ranges": [{"from": "2000-01-01", "to": "2099-12-31"}]}).encode()
            house.do(PutCalendar("off", b"{}"))
            job = house.create(every(HOUR_MS, calendar="off"), overlap=Overlap.ALLOW)
            await house.tick()
            first = house.world.job(job).nominal_at_ms
            assert first is not None
            tomorrow = datetime.fromtimestamp(self.TOMORROW / 1000, UTC).date().isoformat()
            house.do(PutCalendar("off", days.replace(b"2000-01-01", tomorrow.encode())))
            await house.tick()
            house.clock.wall = self.TOMORROW + DAY_MS
            await house.tick()
            row = house.world.job(job)
            assert (row.state, row.never_fires) == (JobState.SCHEDULED, True)
            assert all(r.nominal_at_ms < self.TOMORROW for r in house.world.instances(job))
            assert house.world.instances(job)

        play(scene)


class TestTimers:
    def test_retries(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            house.lead()
            house.beat(session)
            jobs = [house.create(at(T0), retry=Retry((2_000,))) for _ in range(4)]
            await house.tick()
            for job in jobs:
                live = house.world.instances(job)[0].live
                assert live is not None
                house.do(c.Ended(session, live.token, Outcome.FAILED, None, house.clock.wall))
            assert house.leader.loads()["n2"] == (0, 100)
            house.clock.forward(2_000)
            house.beat(session)
            await house.tick()
            assert len([b for b in house.proposed if any(isinstance(x, Wake) for x in b)]) == 1  # not one each
            await house.until_idle()
            assert all(house.world.instances(job)[0].live for job in jobs)

        play(scene)

    def test_many_at_once_go_no_faster_than_the_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pacing, "BATCH", 4)
        monkeypatch.setattr(pacing, "IN_FLIGHT_MAX", 2)

        async def scene(house: House) -> None:
            session = house.session()
            house.lead()
            house.beat(session)
            jobs = [house.create(at(T0), retry=Retry((2_000,))) for _ in range(30)]
            await house.until_idle()
            for job in jobs:
                live = house.world.instances(job)[0].live
                assert live is not None
                house.do(c.Ended(session, live.token, Outcome.FAILED, None, house.clock.wall))
            house.clock.forward(2_000)
            house.beat(session)
            house.stuck = asyncio.Event()
            for _ in range(5):
                await house.tick()
            assert len(house.commands(Wake)) == 8
            fires = len(house.commands(Fire))
            house.create(at(house.clock.wall))
            await house.tick()
            assert len(house.commands(Fire)) == fires + 1, "fires do not wait for timers"
            house.stuck.set()
            for _ in range(10):  # each end of one brings the next tick
                await house.tick()
            assert len(house.commands(Wake)) == 30
            assert all(house.world.instances(job)[0].live for job in jobs)

        play(scene)

    def test_start_deadlines(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(every(DAY_MS))
            house.lead()
            house.clock.wall = T0 + DAY_MS
            await house.tick()
            for _ in range(4):
                house.clock.wall += 5 * 60_000
                await house.tick()
            assert house.world.instances(job)[0].state is I.SKIPPED

        play(scene)
