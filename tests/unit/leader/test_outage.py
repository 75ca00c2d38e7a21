"""A weekend without a leader: ten thousand jobs that are due each second are caught up with by policy, and flood
neither the log, nor memory, nor history."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.commands import Assign, Fire
from raftsched.core.entry import EntryResult, decode_entry
from raftsched.core.model import Misfire, MisfirePolicy, Overlap, Trigger
from raftsched.core.tables import Table
from raftsched.leader.pacing import BATCH, IN_FLIGHT_MAX
from tests.support.invariants import violations
from tests.support.memory_view import MemoryView, World, cron, every, policy
from tests.unit.leader.house import House, View

SECOND = 1_000
JOBS = 10_000
WEEKEND_MS = 2 * DAY_MS + 15 * HOUR_MS  # Friday evening to Monday morning


class Quick(World):
    """All invariants are checked once, at the end, and not after each of many entries."""

    def entry(self, data: bytes) -> EntryResult:
        self.index += 1
        self.log.append(data)
        result = apply_entry(self.view, self.index, 1, data)
        self.actions = result.actions
        return result


class Outage:
    """Jobs of one kind, a weekend, and the leadership that finds it out."""

    def __init__(self, jobs: int, trigger: Trigger, **fields: Any) -> None:
        self.house = house = House()
        house.world = Quick(View())
        self.jobs = jobs
        creates = [c.encode(c.CreateJob("d", None, policy(trigger, **fields), b"{}")) for _ in range(jobs)]
        for start in range(0, jobs, 1_000):
            house.commit(creates[start : start + 1_000], tell=False)
        self.most_due = 0

    async def over(self) -> None:
        house = self.house
        if house.world.count(Table.UNSCHEDULED):  # their first times are known before the leader goes
            house.lead()
            while house.world.count(Table.UNSCHEDULED):
                house.quorum = house.clock.boot
                await house.tick()
            house.leading = False
            house.leader.on_role()
            house.leading = True
            house.term = 2
        session = house.session(slots=100_000)
        self.log_before = len(house.world.log)
        house.proposed.clear()
        house.clock.forward(WEEKEND_MS)
        house.lead()
        house.beat(session)
        end_ms = house.clock.wall
        state = house.leader.current
        assert state is not None
        while True:
            delay = state.tick()
            assert max(state.proposals.in_flight.values(), default=0) <= IN_FLIGHT_MAX, (
                "no more is under way than the log keeps up with"
            )
            self.most_due = max(self.most_due, len(state.firing.window) + len(state.firing._due))
            await house.quiet()
            if delay > 0 and not house.leader._tasks:
                break
        assert house.clock.wall == end_ms
        found = violations(house.world.view)
        assert not found, "\n".join(found[:20])

    @property
    def entries(self) -> list[bytes]:
        return self.house.world.log[self.log_before :]

    def rows(self) -> Counter[str]:
        """Instances by state; of those skipped by reason."""
        rows = self.house.world.instances()
        return Counter(r.reason or "skipped" if r.gap_count else r.state.name for r in rows)


def bytes_of(view: MemoryView) -> int:
    return sum(len(k) + len(v) for k, v in view.scan(Table.INSTANCES))


@pytest.mark.slow
@pytest.mark.parametrize("trigger", [every(SECOND), cron("* * * * * *")], ids=["every", "cron"])
def test_a_weekend_floods_nothing(trigger: Trigger) -> None:
    jobs = JOBS if trigger.period_ms else JOBS // 5  # those of a calendar cost the leader more, and the test too
    outage = Outage(jobs, trigger)
    asyncio.run(outage.over())
    house = outage.house

    fires = house.commands(Fire)
    assert len(fires) == jobs, "one for each job, however much it missed"
    assert len(house.commands(Assign)) == jobs
    # log
    assert len(outage.entries) <= 4 * jobs / BATCH + 10
    per_job = sum(map(len, outage.entries)) / jobs
    assert per_job < (150 if trigger.period_ms else 1_300), "a calendar's fire names what may be caught up with"
    # history: a run, the gap before it, and what came due while that run was only just made
    assert outage.rows() == Counter({"LAUNCHED": jobs, "misfire": jobs, "overlap": jobs})
    assert bytes_of(house.world.view) / jobs < 3 * 300
    # memory: a key for each job
    assert outage.most_due <= jobs
    gaps = [r for r in house.world.instances() if r.gap_count]
    missed = WEEKEND_MS // SECOND
    assert {g.gap_count for g in gaps if g.reason == "misfire"} <= {missed - 100, missed - 99}
    per_job_counted = sum(g.gap_count for g in gaps) / jobs
    assert missed - 1 <= per_job_counted <= missed, "every one of them is counted"


def test_where_runs_may_overlap_the_cap_holds_and_entries_stay_small() -> None:
    """Here a hundred of each are still owed: no entry makes more runs than a turn can bear."""
    outage = Outage(40, every(SECOND), overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.ALL))
    asyncio.run(outage.over())
    assert outage.rows() == Counter({"LAUNCHED": 40 * 100, "misfire": 40})
    catch_up = 100
    for data in outage.entries:
        fired = sum(isinstance(x, Fire) for batch in decode_entry(data).batches for x in batch.commands)
        assert fired * catch_up <= BATCH


def test_what_replaces_each_other_is_one_gap() -> None:
    outage = Outage(50, every(SECOND), overlap=Overlap.REPLACE)
    asyncio.run(outage.over())
    assert outage.rows() == Counter({"LAUNCHED": 50, "misfire": 50, "replaced": 50})
