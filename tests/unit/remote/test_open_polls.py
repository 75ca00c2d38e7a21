"""The leader is told of workers whose last poll at a node has ended, unless their next one comes at once."""

from __future__ import annotations

import asyncio

from raftsched.core.commands import EndSession
from raftsched.core.subjects.leasing import QUIET_AFTER_MS, decode_beats, longest_poll_ms
from raftsched.remote.gateway import LOOK_S, POLLS_MAX
from raftsched.surface.worker_sessions import PollIn, WorkerSessionOut
from tests.unit.remote.gateway_world import TTL_MS, World, number_of

MOMENT_S = 0.1


def told(world: World) -> list[tuple[int, int]]:
    """(session, for how many ms it has had no poll), as the leader was told."""
    messages = [decode_beats(raw) for peer, kind, raw in world.raft.sent if kind == "worker_beats" and peer == "n2"]
    return [one for message in messages for one in message.left]


def hold(world: World, session: WorkerSessionOut) -> tuple[asyncio.Task[object], list[bool]]:
    """A poll that waits, and what to set when its connection ends."""
    gone = [False]
    poll = world.gateway.poll(session.session, PollIn(wait_ms=2_000), world.clock.boot_ms(), gone=lambda: gone[0])
    return asyncio.ensure_future(poll), gone


async def test_one_poll_after_the_other_is_nothing_to_tell(world: World) -> None:
    session = await world.open()
    for _ in range(5):
        await world.poll(session, wait_ms=500)
        await asyncio.sleep((QUIET_AFTER_MS - 1) / 1_000)  # it reads the answer, and starts what it was given
    assert told(world) == []


async def test_a_connection_that_ended_is_told_at_once(world: World) -> None:
    session = await world.open()
    _, gone = hold(world, session)
    await asyncio.sleep(MOMENT_S)
    assert told(world) == []
    gone[0] = True
    await asyncio.sleep(LOOK_S + MOMENT_S)
    ((number, silent_ms),) = told(world)
    assert (number, silent_ms <= QUIET_AFTER_MS / 2) == (number_of(session), True)


async def test_a_caller_that_sends_nothing_more_may_have_gone_and_is_answered_all_the_same(world: World) -> None:
    """Without TLS the end of a process that was killed looks like that of a request whose answer is waited for."""
    session = await world.open()
    ended = False
    request, now = PollIn(wait_ms=2_000), world.clock.boot_ms()
    poll = asyncio.ensure_future(world.gateway.poll(session.session, request, now, ended=lambda: ended))
    await asyncio.sleep(MOMENT_S)
    ended = True
    await asyncio.sleep(LOOK_S + MOMENT_S)
    assert [number for number, _ in told(world)] == [number_of(session)]
    assert not poll.done()
    token = world.give(session)
    assert [given.token for given in (await poll).runs] == [token]
    assert (await world.poll(session, after=token, wait_ms=500)).runs == []
    before = len(told(world))
    await asyncio.sleep(MOMENT_S)
    assert len(told(world)) == before, "it was alive: it has polled again"


async def test_where_no_connection_ends_the_poll_and_a_second_are_waited_for(world: World) -> None:
    """A machine without power, a worker that stands still, a proxy that holds on: docs/nodes.md says 3.5 s."""
    session = await world.open()
    poll = world.poll(session, wait_ms=30_000)
    bound_s = (longest_poll_ms(TTL_MS) + QUIET_AFTER_MS) / 1_000
    assert bound_s == 3.5
    await asyncio.sleep(bound_s - MOMENT_S)
    assert poll.done()
    assert told(world) == []
    await asyncio.sleep(2 * MOMENT_S)
    assert [number for number, _ in told(world)] == [number_of(session)]


async def test_polls_that_nobody_reads_take_no_place_of_others(world: World) -> None:
    session = await world.open()
    polls = []
    for _ in range(2 * POLLS_MAX):
        poll = world.gateway.poll(
            session.session, PollIn(wait_ms=2_000, max_runs=0), world.clock.boot_ms(), ended=lambda: True
        )
        polls.append(asyncio.ensure_future(poll))
        await asyncio.sleep(0)
    assert (await world.poll(session)).lease_ms == TTL_MS
    assert not any(poll.done() for poll in polls)


async def test_a_worker_that_does_not_come_back_is_told_until_the_leader_knows_by_itself(world: World) -> None:
    session = await world.open()
    await world.poll(session)
    await asyncio.sleep(QUIET_AFTER_MS / 1_000 + MOMENT_S)
    assert [number for number, _ in told(world)] == [number_of(session)]
    await asyncio.sleep(TTL_MS / 1_000)
    silences = [silent_ms for _, silent_ms in told(world)]
    assert silences == sorted(silences)
    assert 1 < len(silences) <= TTL_MS // 2 // QUIET_AFTER_MS


async def test_another_leader_is_told_too(world: World) -> None:
    session = await world.open()
    world.raft.leader_id = None
    await world.poll(session)
    await asyncio.sleep(QUIET_AFTER_MS / 1_000 + MOMENT_S)
    assert told(world) == []
    world.raft.leader_id = "n2"
    await asyncio.sleep(1.0)
    assert len(told(world)) == 1


async def test_a_second_poll_that_goes_on_counts(world: World) -> None:
    session = await world.open()
    waits, gone = hold(world, session)
    await asyncio.sleep(MOMENT_S)
    await world.poll(session, max_runs=0)  # reports, beside it
    await asyncio.sleep(QUIET_AFTER_MS / 1_000 + MOMENT_S)
    assert not waits.done()
    assert told(world) == []
    gone[0] = True
    await waits
    await asyncio.sleep(MOMENT_S)
    assert len(told(world)) == 1


async def test_the_next_poll_ends_it_and_each_worker_is_told_of_by_itself(world: World) -> None:
    first, second = await world.open("w1"), await world.open("w2")
    _, gone = hold(world, first)
    hold(world, second)
    await asyncio.sleep(MOMENT_S)
    gone[0] = True
    await asyncio.sleep(LOOK_S + MOMENT_S)
    assert [number for number, _ in told(world)] == [number_of(first)]
    before = len(told(world))
    hold(world, first)
    await asyncio.sleep(1.5)
    assert len(told(world)) == before


async def test_nothing_is_told_of_a_session_that_is_over_nor_by_a_node_that_stops(world: World) -> None:
    over, left = await world.open("w1"), await world.open("w2")
    hold(world, over)
    waits, _ = hold(world, left)
    await asyncio.sleep(MOMENT_S)
    world.raft.commit(EndSession(number_of(over), 1))
    await asyncio.sleep(QUIET_AFTER_MS / 1_000 + MOMENT_S)
    assert not waits.done()
    world.gateway.stop()
    await waits
    await asyncio.sleep(2 * QUIET_AFTER_MS / 1_000)
    assert told(world) == []
    polls = world.gateway._open_polls
    assert (polls._open, polls._absent) == ({}, {}), "nothing is left of them"
