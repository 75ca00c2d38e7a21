"""The leader asks for a look when a limit is reached, also one that was set before it led."""

from __future__ import annotations

from raftsched.bounds import HOUR_MS
from raftsched.core.commands import Watch
from raftsched.core.subjects.notices import Event, Notify
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table
from tests.support.memory_view import every
from tests.unit.leader.house import House, play

NOTIFY = (Notify("ops", (Event.LATE,), late_ms=30_000),)
HOOK = PutWebhook("ops", WebhookSpec(url="https://h/"), b"s" * 32)


def late_runs(house: House) -> int:
    return sum(row.notice is not None for row in house.world.instances())


def test_a_run_that_does_not_start_is_told_of_in_time() -> None:
    async def scene(house: House) -> None:
        house.lead()
        house.do(HOOK)
        house.create(every(HOUR_MS), notify=NOTIFY)
        house.clock.forward(HOUR_MS)
        await house.until_idle()
        house.clock.forward(29_999)
        await house.until_idle()
        assert (house.commands(Watch), late_runs(house)) == ([], 0)
        house.clock.forward(1)
        await house.until_idle()
        assert (len(house.commands(Watch)), late_runs(house)) == (1, 1)
        house.clock.forward(HOUR_MS // 2)
        await house.until_idle()
        assert (len(house.commands(Watch)), late_runs(house)) == (1, 1)

    play(scene)


def test_another_leader_goes_on_with_what_is_watched() -> None:
    async def scene(house: House) -> None:
        house.do(HOOK)
        job = house.world.job(house.create(every(HOUR_MS), notify=NOTIFY))
        house.clock.forward(HOUR_MS)
        house.world.now = house.clock.wall
        house.world.fire(job)
        house.clock.forward(31_000)
        assert house.world.count(Table.WATCHES) == 1
        house.lead()
        await house.until_idle()
        assert (house.world.count(Table.WATCHES), late_runs(house)) == (0, 1)

    play(scene)
