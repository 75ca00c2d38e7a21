"""Events of the cluster: told once, and seldom of what comes and goes."""

from __future__ import annotations

import pytest

from raftsched.bounds import MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.commands import NoteDisk, Watch
from raftsched.core.subjects.notices import OF_CLUSTER, Event
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table, from_u64
from tests.support.memory_view import World
from tests.unit.core.hooks import SECRET, URL, hook, told

ALL = tuple(sorted(OF_CLUSTER))


def said(world: World, name: str = "ops") -> list[tuple[Event | None, str, int]]:
    return [(notice.event, notice.node, notice.repeats) for notice in told(world, name)]


def lose(world: World, node: str = "n2") -> None:
    world.ok(c.EndSession(world.session(node), world.meta.epoch))


def look(world: World) -> None:
    key, _ = next(world.view.scan(Table.WATCHES))
    world.now = max(world.now, from_u64(key[:8]))
    world.ok(Watch(key[8:], from_u64(key[:8])))


def test_another_leader_is_told_once() -> None:
    world = World()
    hook(world, on=ALL)
    hook(world, "jobs", on=(Event.FAILED,))
    world.ok(c.OpenLeadership(2, "n1"))  # the same one again
    assert said(world) == []
    world.ok(c.OpenLeadership(3, "n3"))
    (notice,) = told(world)
    assert (notice.event, notice.node, notice.reason) == (Event.LEADER_CHANGED, "n3", "n1")
    assert world.refused(c.OpenLeadership(3, "n2")) == "stale"
    assert len(told(world)) == 1
    assert told(world, "jobs") == []


def test_a_node_that_is_lost_and_back() -> None:
    world = World()
    hook(world, on=ALL)
    world.session("n2")
    assert said(world) == []
    world.ok(c.EndSession(world.sessions()[0].id, 1))
    world.session("n2")
    assert said(world) == [(Event.NODE_LOST, "n2", 0), (Event.NODE_BACK, "n2", 0)]


def test_a_node_that_stops_by_itself_is_not_lost() -> None:
    world = World()
    hook(world, on=ALL)
    world.ok(c.CloseSession(world.session("n2"), ()))
    world.session("n2")
    world.session("n2")  # of the same boot, while the one before is open
    assert said(world) == []


def test_a_remote_worker_is_no_node() -> None:
    world = World()
    hook(world, on=ALL)
    number = world.ok(c.OpenWorker("worker/w", 0, b"n", 1)).number
    assert number is not None
    world.ok(c.EndSession(number, 1))
    assert said(world) == []


def test_one_that_comes_and_goes_is_told_once_in_a_minute() -> None:
    world = World()
    hook(world, on=(Event.NODE_LOST,))
    for _ in range(4):
        lose(world)
        world.forward(1_000)
    assert said(world) == [(Event.NODE_LOST, "n2", 0)]
    lose(world, "n3")  # another node
    assert said(world)[1:] == [(Event.NODE_LOST, "n3", 0)]
    began = told(world)[0].at_ms
    look(world)
    assert world.now == began + MINUTE_MS
    assert said(world)[2:] == [(Event.NODE_LOST, "n2", 2)]  # the newest, and two before it
    assert world.count(Table.WATCHES) == 0
    lose(world)
    look(world)
    assert said(world)[3:] == [(Event.NODE_LOST, "n2", 0)]


def test_after_a_quiet_time_it_is_told_at_once() -> None:
    world = World()
    hook(world, on=(Event.NODE_LOST,))
    lose(world)
    world.forward(MINUTE_MS)
    lose(world)
    assert len(told(world)) == 2


def test_a_clock_that_goes_back_does_not_silence_it() -> None:
    world = World()
    hook(world, on=(Event.NODE_LOST,))
    lose(world)
    world.now -= 10 * MINUTE_MS
    lose(world)
    assert len(told(world)) == 2


def test_a_disk_is_told_of_once_until_it_has_room() -> None:
    world = World()
    hook(world, on=ALL)
    world.ok(NoteDisk("n3", True))
    assert said(world) == [(Event.DISK_SHORT, "n3", 0)]
    assert world.refused(NoteDisk("n3", True)) == "stale"
    world.ok(NoteDisk("n3", False))
    assert world.refused(NoteDisk("n3", False)) == "stale"
    assert world.refused(NoteDisk("n9", True)) == "stale"
    world.forward(MINUTE_MS)
    world.ok(NoteDisk("n3", True))
    assert len(told(world)) == 1
    look(world)
    assert world.now == told(world)[0].at_ms + 5 * MINUTE_MS
    assert said(world)[1:] == [(Event.DISK_SHORT, "n3", 0)]


def test_whoever_asks_later_hears_of_what_comes_later() -> None:
    world = World()
    lose(world)
    world.ok(NoteDisk("n3", True))
    hook(world, on=ALL)
    world.session("n2")
    assert said(world) == [(Event.NODE_BACK, "n2", 0)]


def test_one_that_is_not_active_hears_nothing() -> None:
    world = World()
    hook(world, on=ALL, active=False)
    lose(world)
    world.session("n2")
    assert said(world) == []
    world.ok(PutWebhook("ops", WebhookSpec(url=URL, on=ALL)))
    lose(world)
    lose(world)
    world.ok(PutWebhook("ops", WebhookSpec(url=URL, on=())))
    look(world)
    assert said(world) == [(Event.NODE_LOST, "n2", 0), (Event.NODE_BACK, "n2", 0)]


def test_a_node_that_is_removed_is_forgotten() -> None:
    world = World()
    hook(world, on=ALL)
    lose(world, "n3")
    lose(world, "n3")
    assert world.count(Table.WATCHES) > 0
    world.members("n1 n2")
    assert world.count(Table.WATCHES) == 0
    assert world.count(Table.NOTED) == 0


def test_without_webhooks_only_what_goes_on_is_noted() -> None:
    world = World()
    world.ok(c.OpenLeadership(2, "n2"))
    world.session("n2")
    assert world.count(Table.NOTED) == 0


@pytest.mark.parametrize("about", [b"\xff", b"\xff\x15n9", b"\xff" * 600])
def test_a_look_at_what_is_not_noted_is_refused(about: bytes) -> None:
    world = World()
    hook(world, on=ALL)
    assert world.refused(Watch(about, world.now)) == "stale"


def test_one_turn_gives_the_same() -> None:
    world = World()
    hook(world, on=ALL)
    for _ in range(3):
        lose(world)
        world.session("n2")
    look(world)
    assert world.in_one_batch() == world.view.dump()
    assert SECRET not in world.log[-1]


def test_what_cannot_be_a_node_is_passed_over() -> None:
    world = World()
    hook(world, on=ALL)
    world.ok(c.OpenLeadership(2, "x" * 512))
    world.ok(c.OpenLeadership(3, ""))
    assert said(world) == []
