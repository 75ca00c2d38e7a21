"""A run is as late as its first attempt that started, whatever became of those before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raftsched.bounds import MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.actions import InstanceStarted
from raftsched.core.levels import FIRST_START_COUNTS
from raftsched.core.model import Condition, ConditionKind, Outcome, Overlap, Retry
from raftsched.core.rules.lateness import first_start, lateness_ms
from raftsched.core.subjects.minutes import Minute
from tests.support.memory_view import World, every
from tests.unit.core.test_minutes import counted

SECOND = 1_000
HELD_MS = 12 * SECOND  # by a worker that did not start it


def due(world: World, **fields: object) -> bytes:
    """A run whose time has just come."""
    key = world.fire(world.create(every(60 * MINUTE_MS), **fields)).last_instance  # type: ignore[arg-type]
    assert key is not None
    return key


def start(world: World, key: bytes, session: int) -> int | None:
    """Gives the run to a worker that starts it. Returns how late that was reported to be; None: it was not."""
    token = world.assign(key, session)
    world.ok(c.Started(session, token, world.now))
    late = [action.late_ms for action in world.actions if isinstance(action, InstanceStarted)]
    return late[0] if late else None


def lost(world: World, key: bytes) -> None:
    session = world.session("n1")
    world.assign(key, session)
    world.forward(HELD_MS)
    world.ok(c.EndSession(session, 1))


def handed_back(world: World, key: bytes) -> None:
    session = world.session("n1")
    world.assign(key, session)
    world.forward(HELD_MS)
    world.ok(c.CloseSession(session, ()))


def not_begun(world: World, key: bytes) -> None:
    session = world.session("n1")
    token = world.assign(key, session)
    world.forward(HELD_MS)
    world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, begun=False))


UNSTARTED = pytest.mark.parametrize("held", [lost, handed_back, not_begun])
Held = Callable[[World, bytes], None]


@UNSTARTED
def test_an_attempt_that_did_not_start_is_part_of_the_wait(held: Held) -> None:
    world = World()
    session = world.session()
    key = due(world)
    held(world, key)
    assert lateness_ms(world.instance(key)) is None, "it waits"
    minute = world.now - world.now % MINUTE_MS
    assert start(world, key, session) == HELD_MS
    assert lateness_ms(world.instance(key)) == HELD_MS
    assert counted(world, at_ms=minute) == Minute(started=1, late=1, late_max_ms=HELD_MS)
    world.end(key)
    assert lateness_ms(world.instance(key)) == HELD_MS


@UNSTARTED
def test_so_it_is_when_the_start_is_heard_of_with_the_end(held: Held) -> None:
    world = World()
    session = world.session()
    key = due(world)
    held(world, key)
    minute = world.now - world.now % MINUTE_MS
    world.run_once(key, session)
    assert InstanceStarted(HELD_MS) in world.actions
    assert counted(world, at_ms=minute) == Minute(started=1, succeeded=1, late=1, late_max_ms=HELD_MS)


@UNSTARTED
def test_below_the_level_the_first_attempt_counts(held: Held) -> None:
    """Its rows are those of the nodes of the version before."""
    world = World(level=FIRST_START_COUNTS - 1)
    session = world.session()
    key = due(world)
    held(world, key)
    minute = world.now - world.now % MINUTE_MS
    assert start(world, key, session) is None
    assert counted(world, at_ms=minute) == Minute(restarted=1)
    assert lateness_ms(world.instance(key)) == HELD_MS, "which is read from the row"


def test_what_follows_a_start_is_not_late() -> None:
    world = World()
    session = world.session()
    key = due(world, retry=Retry((MINUTE_MS,)))
    world.forward(3)
    world.run_once(key, session, Outcome.FAILED)
    assert InstanceStarted(3) in world.actions
    world.now = world.instance(key).wake_at_ms or 0
    world.ok(c.Wake(key, world.now))
    assert start(world, key, session) is None
    assert lateness_ms(world.instance(key)) == 3


def test_a_start_that_is_heard_of_with_the_loss_counts() -> None:
    world = World()
    session = world.session()
    key = due(world)
    world.forward(5)
    token = world.assign(key, session)
    world.ok(c.LoseAttempt(session, token, world.now + HELD_MS, started_at_ms=world.now))
    assert InstanceStarted(5) in world.actions
    world.forward(HELD_MS)
    assert start(world, key, session) is None, "it had started before"
    assert lateness_ms(world.instance(key)) == 5


def test_what_the_first_attempts_did_must_be_known() -> None:
    world = World()
    world.settings(attempts_kept=1)
    session = world.session()
    key = due(world)
    lost(world, key)
    assert start(world, key, session) is None
    assert first_start(world.instance(key)) is None
    assert lateness_ms(world.instance(key)) is None


def test_a_run_that_was_asked_for_again_was_not_due_then() -> None:
    world = World()
    session = world.session()
    never = due(world, expires_ms=MINUTE_MS)
    world.forward(MINUTE_MS)
    world.ok(c.Wake(never, world.instance(never).wake_at_ms or 0))
    once = due(world)
    world.run_once(once, session)
    for key, late_ms in ((never, None), (once, 0)):
        world.forward(60 * MINUTE_MS)
        world.ok(c.Rerun(key))
        assert start(world, key, session) is None
        assert lateness_ms(world.instance(key)) == late_ms


def test_a_wait_for_conditions_is_not_lateness() -> None:
    world = World()
    session = world.session()
    key = due(world, conditions=(Condition(ConditionKind.HTTP, "http://h/"),))
    world.forward(SECOND)
    until_ms = world.instance(key).checks_end_at_ms or 0
    world.ok(c.ReportConditions(key, until_ms, "n2", True, ""))
    assert start(world, key, session) is None
    assert lateness_ms(world.instance(key)) is None


def test_a_run_with_parts_starts_when_they_are_let_go() -> None:
    world = World()
    world.session()
    key = due(world, shards=2, overlap=Overlap.ALLOW)
    world.forward(4 * SECOND)
    assert lateness_ms(world.instance(key)) is None
    world.ok(c.Split(key))
    assert InstanceStarted(4 * SECOND) in world.actions
    assert lateness_ms(world.instance(key)) == 4 * SECOND
    part = next(row for row in world.instances() if row.parent is not None)
    assert lateness_ms(part) is None


def test_what_was_asked_for_was_not_due() -> None:
    world = World()
    session = world.session()
    key = world.run_now(world.create())
    lost(world, key)
    assert start(world, key, session) is None
    assert lateness_ms(world.instance(key)) is None
