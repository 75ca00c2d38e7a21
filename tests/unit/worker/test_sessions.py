"""A worker's side of "never two at once", on a node and elsewhere: sessions, leases, fences."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.core.commands import EndSession
from raftsched.core.model import InstanceState, Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.core.tables import Table
from tests.unit.worker.world import World

FENCE = ("fence",)


async def test_opens_a_session_after_a_fence(w: World) -> None:
    session = await w.leased()
    assert w.runner.events[:2] == [("start",), FENCE]
    row = w.session()
    assert (row.id, row.node, row.boot_id, row.slots, row.open) == (session, w.key, "boot-1", 4, True)


async def test_the_lease_counts_from_when_it_was_asked_for(w: World) -> None:
    session = await w.leased()
    with w.answers_late():
        await asyncio.sleep(0.6)
        sent = w.asked[-1]
        await asyncio.sleep(3)
    await w.until(lambda: w.runner.lease[1] >= sent + w.ttl_ms)
    assert (session, sent + w.ttl_ms) in w.runner.leases


async def test_an_answer_that_comes_after_the_lease_s_end_prolongs_nothing(w: World) -> None:
    await w.leased()
    with w.answers_late():
        await asyncio.sleep(0.6)  # one is under way
        w.clock.jump(w.ttl_ms)
        w.runner.fenced.clear()
        w.give()
    await asyncio.sleep(1)
    assert w.runner.lease == (0, 0)
    assert not w.runner.launched


async def test_nothing_is_started_with_too_little_of_the_lease_left(w: World) -> None:
    await w.leased()
    w.grant_ms = KILL_BEFORE_MS + 200
    await w.until(lambda: w.runner.lease[1] - w.clock.boot_ms() < KILL_BEFORE_MS + 250)
    given = w.give()
    await asyncio.sleep(0.1)
    assert not w.runner.launched
    w.grant_ms = w.ttl_ms
    await w.launched(given)  # with the next renewal, or under the next session


async def test_what_was_given_under_a_session_is_not_started_under_the_next(w: World) -> None:
    first = await w.leased()
    w.grant_ms = KILL_BEFORE_MS + 200
    await w.until(lambda: w.runner.lease[1] - w.clock.boot_ms() < KILL_BEFORE_MS + 250)
    given = w.give()
    with w.cut_off():
        await w.lapsed()
    w.grant_ms = w.ttl_ms
    assert await w.leased() > first
    await asyncio.sleep(1)
    assert (list(w.runner.launched), w.state(given)) == ([], InstanceState.WAITING)


async def test_a_lease_that_ran_out_stays_over_until_a_fence_was_answered(w: World) -> None:
    (given,) = await w.running()
    first = w.session().id
    w.runner.fenced.clear()
    with w.cut_off():
        await w.lapsed()
    asked = len(w.asked)
    await asyncio.sleep(5)
    assert len(w.asked) == asked, "nothing more under the old session"
    assert w.session().id == first, "and no new one before nothing of it is left"
    w.runner.fenced.set()
    assert await w.leased() > first
    assert list(w.tables.scan(Table.ASSIGNED)) == []
    assert w.state(given) is InstanceState.WAITING
    w.end(given.token)  # what the runner says of the old one is no news of the new one
    await asyncio.sleep(3)
    assert not w.proposed()


async def test_a_stop_beyond_the_lease_is_noticed_before_anything_is_asked_or_started(w: World) -> None:
    """The clock is read when a message is handled: a grant or a run that waited in a queue starts nothing."""
    first = await w.leased()
    asked = len(w.asked)
    w.runner.fenced.clear()
    w.clock.jump(w.ttl_ms)
    w.give()
    await w.lapsed()
    await asyncio.sleep(1)
    assert len(w.asked) == asked
    w.runner.fenced.set()
    assert await w.leased() > first
    assert not w.runner.launched


async def test_a_session_of_another_boot_is_waited_for(w: World) -> None:
    """The machine came up again, or another one says that it is this one: the old session is open still."""
    first = await w.leased()
    await w.start_again("boot-2")
    await asyncio.sleep(5)
    assert (w.session().id, w.worker.session) == (first, 0)
    w.raft.commit(EndSession(first, 1))
    assert await w.leased() > first
    assert w.session().boot_id == "boot-2"


async def test_a_session_that_was_ended_is_left_at_once(w: World) -> None:
    await w.running()
    first, before = w.worker.session, w.clock.boot_ms()
    w.runner.fenced.clear()
    w.raft.commit(EndSession(first, 1))
    await w.lapsed()
    assert w.clock.boot_ms() - before < 100
    w.runner.fenced.set()
    assert await w.leased() > first


async def test_a_dead_supervisor_ends_the_session(w: World) -> None:
    (given,) = await w.running()
    first = w.worker.session
    w.runner.events.clear()
    w.runner.on_died()
    assert w.worker.session == 0
    assert await w.leased() > first
    assert w.runner.events[0] == FENCE
    assert (w.state(given), w.instance(given).lost) == (InstanceState.WAITING, 1)


async def test_a_silent_supervisor_gets_no_more_of_the_lease(w: World) -> None:
    first = await w.leased()
    w.runner.moving = False
    await asyncio.sleep(w.ttl_ms / 4000 + 0.1)  # what was asked before may be answered
    asked = len(w.asked)
    await w.lapsed()
    assert len(w.asked) == asked
    w.runner.moving = True
    assert await w.leased() > first


async def test_a_worker_that_reaches_nobody_goes_on_trying(w: World) -> None:
    first = await w.leased()
    with w.cut_off():
        await w.lapsed()
        await asyncio.sleep(10)
    assert await w.leased() > first


async def test_whatever_goes_wrong_it_goes_on_trying(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await w.leased()
    left = [OSError(24, "Too many open files"), ValueError("what nobody thought of")]
    fence = w.runner.fence

    async def broken() -> None:
        if left:
            raise left.pop()
        await fence()

    monkeypatch.setattr(w.runner, "fence", broken)
    w.runner.on_died()
    assert await w.leased() > first
    assert not left


async def test_a_run_ended_for_the_lease_s_sake_is_not_reported_but_ends_the_session(w: World) -> None:
    (given,) = await w.running()
    first = w.worker.session
    w.end(given.token, Outcome.LOST)
    assert w.worker.session == 0
    assert await w.leased() > first
    assert not w.proposed()
    assert w.state(given) is InstanceState.WAITING


async def test_one_run_that_is_lost_is_no_word_on_the_lease(w: World) -> None:
    given, other = await w.running(2, max_lost=0)
    session = w.worker.session
    w.end(given.token, Outcome.LOST, error="its keeper", alone=True)
    await w.until(lambda: w.instance(given).live is None)
    assert w.worker.session == session
    assert w.instance(other).live is not None
    row = w.instance(given)
    assert (row.reason, row.error, row.attempts[0].error) == ("max_lost", "Its worker was lost 1 times.", "its keeper")


async def test_a_lapse_is_told_with_its_reason_and_what_comes_of_it(w: World, caplog: pytest.LogCaptureFixture) -> None:
    session = await w.leased()
    w.runner.on_died()
    assert caplog.messages == [
        f"{w.name}: session {session} lapsed: its supervisor process died. What ran under it is ended, and others may "
        "run it. A new session is asked for."
    ]
