"""Leaders with other time zone data than stored times were computed with: what moves, what runs, and what does not go
to and fro."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.bounds import DAY_MS, HOUR_MS, MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.commands import EditJob, Fire, ScheduleJob
from raftsched.core.model import JobState, Misfire, MisfirePolicy, Overlap, Trigger, TriggerKind
from raftsched.core.rows import ZONES
from raftsched.core.subjects.calendar import PutCalendar
from raftsched.core.subjects.changes import ClusterChange, JobChange, decode_row
from raftsched.core.subjects.leasing import Heartbeat
from raftsched.core.subjects.zones import ZONES_KEY, MoveJob, SettleZones, UseZones
from raftsched.core.tables import Table
from raftsched.leader.due import time_zones
from raftsched.leader.due.time_zones import AGAIN_MS, HEARD_MS, LOOK_MS, may_move
from raftsched.leader.leader import Leader
from raftsched.schedule.offsets import Gathering
from raftsched.system.machine import ZoneFiles
from tests.support.memory_view import policy
from tests.support.zone_files import write_zone, zones_of
from tests.unit.leader.house import House

DAY = 1_763_596_800_000  # 2025-11-20T00:00:00Z
ZED = "Test/Zed"
OTHERS = ("n2", "n3")


def at(clock: str, day: int = 0) -> int:
    """A time of the first day (UTC), or of a later one."""
    hour, minute = map(int, clock.split(":"))
    return DAY + day * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS


def cron(expr: str, zone: str = ZED, **fields: Any) -> Trigger:
    return Trigger(kind=TriggerKind.CRON, expr=expr, timezone=zone, **fields)


class Town:
    """A world with nodes that have different data, one of which leads."""

    def __init__(self, place: Path, data: dict[str, str]) -> None:
        """`data`: the rule of the zone in each version."""
        self.place = place
        for version, rule in data.items():
            write_zone(place / version, ZED, rule)
            write_zone(place / version, "Test/Still", "<S>-1")
            write_zone(place / version, "UTC", "UTC0")
        self.house = House(zones=None)
        self.house.clock.wall = at("00:00")
        self.house.term = 0

    def files(self, version: str) -> ZoneFiles:
        name, _, build = version.partition("/")
        return ZoneFiles(name, build or "aaaaaaaaaaaa", (ZED, "Test/Still", "UTC"))

    async def lead(self, version: str, others: str | tuple[str, ...] = "", *, ticks: int = 40) -> None:
        """Another leadership begins, of a node with this data; `others`: what the other voters have, "": the same."""
        house = self.house
        if house.leader is not None:
            await house.leader.stop()
        house.leader = Leader(house, house.read, house.clock, zones=self.files(version))
        house.term += 1
        self.data = (others, others) if isinstance(others, str) else others
        self.own = version
        house.lead()
        await self.ticks(ticks)

    async def ticks(self, count: int = 40) -> None:
        for _ in range(count):
            self.beat()
            await self.house.tick()
            if self.house.leader.current is None:
                return

    def beat(self) -> None:
        current = self.house.leader.current
        assert current is not None
        self.house.quorum = self.house.clock.boot
        for node, data in zip(OTHERS, self.data, strict=True):
            if data != "down":
                current.vitals.heard(
                    node, Heartbeat(1, True, 0, 0, zones=self.files(data or self.own).name), self.house.clock.boot
                )

    async def until(self, wall: int, step: int = 10 * MINUTE_MS) -> None:
        """Time goes by."""
        clock = self.house.clock
        while clock.wall < wall:
            clock.forward(min(step, wall - clock.wall))
            await self.ticks(4)

    def nominal(self, job: int) -> int | None:
        return self.house.world.job(job).nominal_at_ms

    def runs(self, job: int) -> list[int]:
        return [row.nominal_at_ms for row in self.house.world.instances(job) if not row.gap_count]

    def all_wait(self) -> None:
        """Runs that nobody takes are not skipped: such neighbours would be one row."""
        self.house.world.settings(start_deadline_ms=400 * DAY_MS)

    @property
    def row(self) -> Any:
        return ZONES.get(self.house.world.view, ZONES_KEY)

    @property
    def settled(self) -> bool:
        return bool(self.row.settled == self.house.world.meta.zones)

    def said(self) -> list[str]:
        rows = [change for _, raw in self.house.world.view.scan(Table.CHANGES) for change in decode_row(raw)[1]]
        jobs = [one.event.name for one in rows if isinstance(one, JobChange)]
        return jobs + [one.event.name for one in rows if isinstance(one, ClusterChange)]


Scene = Callable[[Town], Coroutine[Any, Any, None]]


def play(place: Path, data: dict[str, str], scenes: list[tuple[str, Scene]]) -> Town:
    """Plays scenes one after the other, each in a process that took the zones of a version as it started."""
    town = Town(place, data)
    for version, scene in scenes:
        with zones_of(place / version):
            asyncio.run(scene(town))
    return town


LATER = {"2025a": "<Z>-0:02", "2025b": "<Z>-0:01"}  # what is due is due a minute later
EARLIER = {"2025a": "<Z>0", "2025b": "<Z>-1"}  # an hour earlier


def test_a_time_that_comes_later_runs_once_at_the_new_time(tmp_path: Path) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("54 12 * * *"), overlap=Overlap.ALLOW))
        await town.ticks()
        assert town.nominal(made[0]) == at("12:52")
        assert town.settled

    async def after(town: Town) -> None:
        town.house.clock.wall = at("12:51")
        await town.lead("2025b")
        assert town.nominal(made[0]) == at("12:53")
        assert town.settled
        assert town.row.data == town.files("2025b").name
        assert town.said().count("MOVED") == 1
        assert town.said().count("ZONES_CHANGED") == 1
        await town.until(at("12:55", 1))
        assert town.runs(made[0]) == [at("12:53"), at("12:53", 1)]
        moved = town.house.world.job(made[0]).moved
        assert moved is not None
        assert (moved.from_ms, moved.to_ms) == (at("12:52"), at("12:53"))

    play(tmp_path, LATER, [("2025a", before), ("2025b", after)])


@pytest.mark.parametrize("up_to", ["12:52", "12:53", "12:59"])
def test_what_ran_at_the_old_time_does_not_run_again_on_that_day(tmp_path: Path, up_to: str) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("54 12 * * *"), overlap=Overlap.ALLOW))
        await town.until(at(up_to))
        assert town.runs(made[0]) == [at("12:52")]

    async def after(town: Town) -> None:
        await town.lead("2025b")
        assert town.nominal(made[0]) == at("12:53", 1)
        await town.until(at("13:00", 1))
        assert town.runs(made[0]) == [at("12:52"), at("12:53", 1)]

    play(tmp_path, LATER, [("2025a", before), ("2025b", after)])


def test_what_falls_due_before_it_is_asked_is_not_fired_at_the_old_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.extend(town.house.create(cron("54 12 * * *"), overlap=Overlap.ALLOW) for _ in range(9))
        await town.ticks()

    async def after(town: Town) -> None:
        monkeypatch.setattr(time_zones, "ASKED", 1)
        town.house.clock.wall = at("12:52")
        await town.lead("2025b", ticks=3)
        assert not town.settled
        await town.ticks(20)
        assert [town.nominal(job) for job in made] == [at("12:53")] * 9
        assert sum(len(town.runs(job)) for job in made) == 0

    play(tmp_path, LATER, [("2025a", before), ("2025b", after)])


@pytest.mark.parametrize(("misfire", "expected"), [(MisfirePolicy.ONCE, 1), (MisfirePolicy.SKIP, 0)])
def test_a_time_that_comes_to_lie_in_the_past_is_missed(tmp_path: Path, misfire: MisfirePolicy, expected: int) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("0 9 * * *"), misfire=Misfire(misfire, 15 * MINUTE_MS)))
        await town.ticks()
        assert town.nominal(made[0]) == at("09:00")

    async def after(town: Town) -> None:
        town.house.clock.wall = at("08:40")
        await town.lead("2025b")
        await town.until(at("09:30"))
        assert town.runs(made[0]) == [at("08:00")] * expected
        assert len(town.house.world.instances(made[0])) == 1
        assert town.nominal(made[0]) == at("08:00", 1)

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_a_time_of_a_trigger_that_follows_the_clock_is_missed_when_it_comes_to_lie_in_the_past(tmp_path: Path) -> None:
    """It had no record: the run before it was five hours old, and the next one five hours ahead."""
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        town.all_wait()
        made.append(town.house.create(cron("0 */6 * * *"), overlap=Overlap.ALLOW))
        made.append(town.house.create(cron("*/15 * * * *"), overlap=Overlap.ALLOW))
        await town.until(at("11:25"))
        assert [town.nominal(job) for job in made] == [at("12:00"), at("11:30")]

    async def after(town: Town) -> None:
        six, quarters = made
        ran = town.runs(quarters)
        await town.lead("2025b")
        await town.until(at("12:10"))
        assert at("11:00") in town.runs(six)
        assert town.nominal(six) == at("17:00")
        assert town.runs(quarters) == [*ran, at("11:30"), at("11:45"), at("12:00")], "what ran is not owed"

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


KINDS: dict[str, tuple[Any, int, int]] = {  # trigger, stored at 07:30 of the second day, then
    "a rule": (
        Trigger(kind=TriggerKind.RRULE, expr="FREQ=DAILY;BYHOUR=9", timezone=ZED),
        at("09:00", 1),
        at("08:00", 1),
    ),
    "months ahead": (cron("0 9 1 6 *"), at("09:00", 193), at("08:00", 193)),
    "more than the offsets reach": (cron("0 9 29 2 *"), at("09:00", 831), at("08:00", 831)),
    "hours of a day": (cron("0 9-17 * * *"), at("09:00", 1), at("08:00", 1)),
    "it follows the clock": (cron("*/10 * * * *"), at("07:40", 1), at("07:40", 1)),
    "another zone": (cron("0 9 * * *", "Test/Still"), at("08:00", 1), at("08:00", 1)),
    "utc": (cron("0 9 * * *", "UTC"), at("09:00", 1), at("09:00", 1)),
    "a calendar of the zone": (
        Trigger(kind=TriggerKind.EVERY, period_ms=HOUR_MS, timezone=ZED, calendar="nights"),
        at("09:00", 1),
        at("08:00", 1),
    ),
    "a calendar of a zone of its own": (
        cron("0 * * * *", "UTC", calendar="zed nights"),
        at("09:00", 1),
        at("08:00", 1),
    ),
    "excluded time ends": (
        cron("0 3 * * *", "UTC", calendar="zed nights", calendar_moves=True),
        at("09:00", 1),
        at("08:00", 1),
    ),
}
NIGHTS = {"hours": [{"from": "00:00", "to": "09:00"}]}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_trigger_moves(tmp_path: Path, kind: str) -> None:
    trigger, stored, then = KINDS[kind]
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        town.house.do(PutCalendar("nights", json.dumps(NIGHTS).encode()))
        town.house.do(PutCalendar("zed nights", json.dumps({**NIGHTS, "timezone": ZED}).encode()))
        town.house.clock.wall = at("00:00", 0)
        made.append(town.house.create(trigger, overlap=Overlap.ALLOW))
        two = Trigger(kind=TriggerKind.AT, at_ms=at("00:00", 900), id="once"), msgspec.structs.replace(trigger, id="it")
        several = policy(Trigger(kind=TriggerKind.SEVERAL), triggers=two, overlap=Overlap.ALLOW)
        answer = town.house.do(c.CreateJob("d", None, several, b"{}"))
        assert answer.job is not None
        made.append(answer.job.id)
        await town.until(at("07:30", 1), HOUR_MS)
        assert [town.nominal(job) for job in made] == [stored, stored]

    async def after(town: Town) -> None:
        await town.lead("2025b")
        assert [town.nominal(job) for job in made] == [then, then]
        assert town.settled
        await town.lead("2025b")
        assert len(town.house.commands(UseZones)) == 2, "nothing is asked again"

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_what_is_no_time_of_a_zone_stays(tmp_path: Path) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        house = town.house
        made.append(house.create(Trigger(kind=TriggerKind.AT, at_ms=at("09:00"))))
        made.append(house.create(Trigger(kind=TriggerKind.EVERY, period_ms=HOUR_MS)))
        made.append(house.create(cron("0 9 * * *")))
        house.do(c.SetJobState(made[2], JobState.SUSPENDED))
        await town.ticks()

    async def after(town: Town) -> None:
        stored = [town.nominal(job) for job in made]
        await town.lead("2025b")
        assert [town.nominal(job) for job in made] == stored
        assert town.house.commands(MoveJob) == []
        town.house.do(c.SetJobState(made[2], JobState.SCHEDULED))
        await town.ticks()
        assert town.nominal(made[2]) == at("08:00"), "it is computed as it is resumed"

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_a_job_that_is_edited_meanwhile_is_asked_again(tmp_path: Path) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("0 9 * * *")))
        await town.ticks()

    async def after(town: Town) -> None:
        house = town.house
        real = house.propose

        async def propose(commands: Any, timeout: float = 10.0) -> Any:
            if isinstance(c.decode(commands[0]), MoveJob) and house.world.job(made[0]).revision == 1:
                house.do(EditJob(made[0], house.world.job(made[0]).policy, b'{"a":1}'))
            return await real(commands, timeout)

        house.propose = propose  # type: ignore[method-assign]
        await town.lead("2025b")
        assert len(house.commands(MoveJob)) == 2
        assert town.nominal(made[0]) == at("08:00")
        assert town.settled

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_another_leadership_goes_on_where_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.extend(town.house.create(cron("0 9 * * *")) for _ in range(30))
        await town.ticks()

    async def after(town: Town) -> None:
        monkeypatch.setattr(time_zones, "ASKED", 2)
        await town.lead("2025b", ticks=6)
        moved = sum(town.nominal(job) == at("08:00") for job in made)
        assert 0 < moved < 30
        assert not town.settled
        await town.lead("2025b", ticks=60)
        assert [town.nominal(job) for job in made] == [at("08:00")] * 30
        assert town.settled
        assert len(town.house.commands(UseZones)) == 2
        assert len(town.house.commands(MoveJob)) == 30

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_times_do_not_go_to_and_fro_while_nodes_are_updated(tmp_path: Path) -> None:
    """n1 has the new data, the others have the old; leadership moves from n1 to n2 and back."""
    made: list[int] = []

    async def old(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("54 12 * * *"), overlap=Overlap.ALLOW))
        made.append(town.house.create(cron("0 20 * * *"), overlap=Overlap.ALLOW))
        await town.ticks()

    async def new(town: Town) -> None:
        await town.lead("2025b", "2025a")
        assert [town.nominal(job) for job in made] == [at("12:53"), at("19:59")]
        assert town.settled

    async def old_again(town: Town) -> None:
        await town.lead("2025a", ("2025b", "2025a"))
        assert [town.nominal(job) for job in made] == [at("12:53"), at("19:59")], "they stay"
        assert town.house.handed_to == []
        town.house.clock.forward(HEARD_MS)
        await town.ticks()
        assert town.house.handed_to == ["n2"], "to the one with the newest data"
        await town.until(at("12:54"))
        assert town.runs(made[0]) == [at("12:53")], "jobs run on"
        assert town.nominal(made[0]) == at("12:52", 1), "by the data that there is"
        assert not town.settled

    async def new_again(town: Town) -> None:
        town.house.clock.wall = at("13:00")
        await town.lead("2025b", "2025a")
        assert [town.nominal(job) for job in made] == [at("12:53", 1), at("19:59")]
        assert town.settled
        moves = [(m.nominal_at_ms, m.next_nominal_at_ms) for m in town.house.commands(MoveJob)]
        assert moves == [
            (at("12:52"), at("12:53")),
            (at("19:58"), at("19:59")),
            (at("12:52", 1), at("12:53", 1)),
        ]

    play(tmp_path, LATER, [("2025a", old), ("2025b", new), ("2025a", old_again), ("2025b", new_again)])


def test_what_ran_by_newer_data_does_not_run_again_by_older(tmp_path: Path) -> None:
    made: list[int] = []

    async def new(town: Town) -> None:
        await town.lead("2025b")
        made.append(town.house.create(cron("54 12 * * *"), overlap=Overlap.ALLOW))
        await town.ticks()
        assert town.nominal(made[0]) == at("12:53")

    async def old(town: Town) -> None:
        town.house.clock.wall = at("12:50")
        await town.lead("2025a", ("down", "2025a"))
        town.house.clock.forward(HEARD_MS)
        await town.until(at("13:00", 1))
        assert town.runs(made[0]) == [at("12:53"), at("12:54", 1)]

    play(tmp_path, {"2025a": "<Z>0", "2025b": "<Z>-0:01"}, [("2025b", new), ("2025a", old)])


def test_what_ran_by_newer_data_that_was_not_settled_does_not_run_again_by_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only node with the newer data goes down before it has asked all jobs, and nobody knows its offsets."""
    made: list[int] = []
    zed, several = cron("0 9 * * *"), Trigger(kind=TriggerKind.SEVERAL)

    async def old(town: Town) -> None:
        await town.lead("2025a")
        town.all_wait()
        made.append(town.house.create(zed, overlap=Overlap.ALLOW))
        triggers = msgspec.structs.replace(zed, id="zed"), cron("15 15 * * *", "UTC", id="utc")
        answer = town.house.do(c.CreateJob("d", None, policy(several, triggers=triggers, overlap=Overlap.ALLOW), b"{}"))
        assert answer.job is not None
        made.append(answer.job.id)
        await town.ticks()

    async def new(town: Town) -> None:
        monkeypatch.setattr(Gathering, "go_on", lambda self, zones: False)
        await town.lead("2025b", "2025a")
        assert [town.nominal(job) for job in made] == [at("08:00")] * 2
        assert not town.settled
        monkeypatch.undo()

    async def old_again(town: Town) -> None:
        town.house.clock.wall = at("07:50")
        await town.lead("2025a", ("down", "2025a"))
        town.house.clock.forward(HEARD_MS)
        await town.until(at("10:00"))
        assert [town.runs(job) for job in made] == [[at("08:00")]] * 2
        await town.until(at("10:00", 1))
        assert town.runs(made[0]) == [at("08:00"), at("09:00", 1)]

    play(tmp_path, EARLIER, [("2025a", old), ("2025b", new), ("2025a", old_again)])


def test_a_time_in_the_past_is_missed_though_another_trigger_of_the_job_ran_since(tmp_path: Path) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        town.all_wait()
        triggers = cron("0 9 * * *", id="daily"), cron("30 * * * *", "UTC", id="hourly")
        several = policy(Trigger(kind=TriggerKind.SEVERAL), triggers=triggers, overlap=Overlap.ALLOW)
        answer = town.house.do(c.CreateJob("d", None, several, b"{}"))
        assert answer.job is not None
        made.append(answer.job.id)
        await town.ticks()
        await town.until(at("08:40"))

    async def after(town: Town) -> None:
        await town.lead("2025b")
        await town.until(at("09:20", 1))
        rows = town.house.world.instances(made[0])
        assert [row.nominal_at_ms for row in rows if row.trigger == "daily"] == [at("08:00"), at("08:00", 1)]

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_data_that_nobody_has_any_more_gives_way(tmp_path: Path) -> None:
    made: list[int] = []

    async def new(town: Town) -> None:
        await town.lead("2025b")
        made.append(town.house.create(cron("0 9 * * *")))
        await town.ticks()
        assert town.nominal(made[0]) == at("08:00")

    async def old(town: Town) -> None:
        await town.lead("2025a", ("2025a", "down"))
        town.house.clock.forward(HEARD_MS)
        await town.ticks()
        assert town.nominal(made[0]) == at("08:00"), "the one that is down may have it"
        town.data = ("2025a", "2025a")
        town.house.clock.forward(LOOK_MS)
        await town.ticks()
        assert town.nominal(made[0]) == at("09:00")
        assert town.settled

    play(tmp_path, EARLIER, [("2025b", new), ("2025a", old)])


def test_builds_of_one_version_do_not_take_turns(tmp_path: Path) -> None:
    made: list[int] = []
    data = {"unknown/aaaaaaaaaaaa": "<Z>0", "unknown/bbbbbbbbbbbb": "<Z>-1"}
    first, second = data

    async def one(town: Town) -> None:
        await town.lead(first)
        made.append(town.house.create(cron("0 9 * * *")))
        await town.ticks()

    async def other(town: Town) -> None:
        await town.lead(second, (first, second))
        assert town.nominal(made[0]) == at("09:00")
        await town.lead(second)
        assert town.nominal(made[0]) == at("08:00"), "nobody has the first any more"

    play(tmp_path, data, [(first, one), (second, other)])


@pytest.mark.parametrize(
    ("own", "newest", "heard", "all_heard", "at_first", "later"),
    [
        ("2025b x", "2025a x", [], True, True, True),
        ("2025b x", "2025a x", [], False, None, True),
        ("2025b x", "", ["2025a x"], True, True, True),
        ("2025a x", "", ["2025b x"], False, False, False),
        ("2025a x", "2025b x", ["2025a x"], False, None, False),
        ("2025a x", "2025b x", ["2025a x"], True, True, True),
        ("2025b x", "2025b y", ["2025b y"], True, False, False),
        ("2025b x", "2025b y", ["2025b x"], True, True, True),
        ("2025z x", "2026a x", ["2026a x"], True, False, False),
        ("unknown x", "2026a x", ["unknown x"], False, None, False),
    ],
)
def test_who_moves_stored_times(
    own: str, newest: str, heard: list[str], all_heard: bool, at_first: bool | None, later: bool
) -> None:
    data = dict(zip(OTHERS, heard, strict=False))
    assert may_move(own, newest, data, all_heard=all_heard, waited=False) is at_first
    assert may_move(own, newest, data, all_heard=all_heard, waited=True) is later


def test_where_not_all_are_heard_of_the_newest_that_are_counts(tmp_path: Path) -> None:
    made: list[int] = []

    async def old(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("0 9 * * *")))
        await town.ticks()

    async def new(town: Town) -> None:
        await town.lead("2025b", ("down", "2025a"))
        assert town.nominal(made[0]) == at("09:00")
        assert town.house.leader.current is not None
        assert town.house.leader.current.time_zones.holds_fires
        town.house.clock.forward(HEARD_MS)
        await town.ticks()
        assert town.nominal(made[0]) == at("08:00")
        assert town.settled

    play(tmp_path, EARLIER, [("2025a", old), ("2025b", new)])


def test_what_was_computed_with_the_data_before_is_refused(tmp_path: Path) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("0 9 * * *")))
        await town.ticks()

    async def after(town: Town) -> None:
        await town.lead("2025b")
        world, job = town.house.world, town.house.world.job(made[0])
        assert world.meta.zones == 2
        assert world.refused(Fire(job.id, 1, at("08:00"), at("09:00", 1), zones=1)) == "stale"
        owed = world.create(cron("0 9 * * *"))
        assert world.refused(ScheduleJob(owed.id, 1, at("09:00"), zones=1)) == "stale"
        world.ok(ScheduleJob(owed.id, 1, at("08:00"), zones=2))
        assert world.refused(UseZones("2025c x", 1)) == "stale"
        assert world.refused(UseZones(town.files("2025b").name, 2)) == "stale"
        assert world.refused(UseZones("", 2)) == "invalid-parameter"
        assert world.refused(SettleZones(1, b"")) == "stale"
        assert world.refused(MoveJob(job.id, 1, 1, at("08:00"), at("09:00"))) == "stale"
        assert world.refused(MoveJob(job.id, 2, 2, at("08:00"), at("09:00"))) == "stale"
        assert world.refused(MoveJob(job.id, 1, 2, at("08:01"), at("09:00"))) == "stale"
        assert world.refused(MoveJob(job.id, 1, 2, at("08:00"), -1)) == "stale"

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_below_its_level_nothing_is_said_and_then_all_jobs_are_asked(tmp_path: Path) -> None:
    """Nobody knows which data the times of earlier versions are of."""
    made: list[int] = []

    async def before(town: Town) -> None:
        town.house = House(zones=None, level=5)
        town.house.clock.wall = at("00:00")
        await town.lead("2025a")
        for expr in ("0 9 * * *", "54 12 * * *", "0 9-17 * * *"):
            made.append(town.house.create(cron(expr)))
        await town.ticks()
        assert town.house.commands(UseZones) == []
        assert town.house.world.meta.zones == 0

    async def after(town: Town) -> None:
        await town.lead("2025b")
        assert [town.nominal(job) for job in made] == [at("09:00"), at("12:54"), at("09:00")]
        town.house.do(c.RaiseLevel(6))
        town.house.clock.forward(LOOK_MS)
        await town.ticks()
        assert [town.nominal(job) for job in made[:2]] == [at("08:00"), at("11:54")], "the nearest times"
        assert town.settled

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_a_step_that_is_not_confirmed_is_made_again(tmp_path: Path) -> None:
    from raftsched.errors import UnknownOutcome

    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.append(town.house.create(cron("0 9 * * *")))
        await town.ticks()

    async def after(town: Town) -> None:
        town.house.fail = UnknownOutcome()
        await town.lead("2025b")
        assert town.house.world.meta.zones == 1
        town.house.fail = None
        town.house.clock.forward(AGAIN_MS)
        await town.ticks()
        assert town.nominal(made[0]) == at("08:00")
        assert town.settled

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_while_nodes_are_updated_the_one_with_the_newest_data_comes_to_lead(tmp_path: Path) -> None:
    async def old(town: Town) -> None:
        await town.lead("2025a")
        assert town.settled
        town.data = ("2025a", "2025b")
        town.house.clock.forward(HEARD_MS)
        await town.ticks()
        assert town.house.handed_to == ["n3"]
        await town.lead("2025a", ("2025a", "2025b"), ticks=1)
        current = town.house.leader.current
        assert current is not None
        town.house.clock.forward(HEARD_MS)
        newer = Heartbeat(1, True, 0, 0, short_of_disk=True, zones=town.files("2025b").name)
        current.vitals.heard("n3", newer, town.house.clock.boot)
        town.house.quorum = town.house.clock.boot
        await town.house.tick()
        assert town.house.handed_to == ["n3"], "its disk is nearly full: it would hand it back"

    play(tmp_path, EARLIER, [("2025a", old)])


def test_offsets_are_gathered_again_before_they_end(tmp_path: Path) -> None:
    made: list[int] = []

    async def before(town: Town) -> None:
        await town.lead("2025a")
        assert len(town.house.commands(SettleZones)) == 1
        made.append(town.house.create(cron("0 9 1 1 *")))
        town.house.clock.forward(500 * DAY_MS)
        await town.ticks()
        assert len(town.house.commands(SettleZones)) == 2
        assert town.nominal(made[0]) == at("09:00", 772)
        await town.ticks()
        await town.lead("2025a")
        assert len(town.house.commands(SettleZones)) == 2

    async def after(town: Town) -> None:
        await town.lead("2025b")
        assert town.nominal(made[0]) == at("08:00", 772)

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])


def test_a_job_whose_times_cannot_be_computed_keeps_no_other_from_moving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = time_zones.move_of

    async def before(town: Town) -> None:
        await town.lead("2025a")
        made.extend(town.house.create(cron("0 9 * * *")) for _ in range(2))
        await town.ticks()

    async def after(town: Town) -> None:
        def fails(view: Any, found: Any, *rest: Any) -> MoveJob | None:
            if found.job.id == made[0]:
                raise OverflowError
            return real(view, found, *rest)

        monkeypatch.setattr(time_zones, "move_of", fails)
        await town.lead("2025b")
        assert [town.nominal(job) for job in made] == [at("09:00"), at("08:00")]
        assert town.settled

    play(tmp_path, EARLIER, [("2025a", before), ("2025b", after)])
