"""The worker's side of "never two at once": sessions, leases, starts, reports."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from raftsched.core.commands import CloseSession, EndSession, OpenSession
from raftsched.core.model import InstanceState
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.core.tables import Table
from tests.unit.worker.world import NODE, World, run


def test_opens_a_session_after_a_fence_and_starts_only_with_a_lease() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        await w.until(lambda: w.worker.session)
        assert w.runner.events[:2] == [("start",), ("fence",)]
        row = w.session()
        assert (row.node, row.boot_id, row.slots, row.open) == (NODE, "boot-1", 4, True)
        assert row.limits_whole_runs
        assert row.handlers == ("exec", "shell", "python", "http")
        token = w.assign(w.ready(w.job()), row.id)
        await asyncio.sleep(0.6)
        assert not w.runner.launched
        w.d_ms = 5_000
        await w.leased()
        assert list(w.runner.launched) == [token]

    run(body)


def test_the_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        sent: list[int] = []
        w.raft.on_heartbeat = lambda session, holds, sent_ms: sent.append(sent_ms)
        await w.until(lambda: sent)
        session = w.worker.session
        w.clock.jump(700)  # the answer was under way for so long
        w.raft.grant(session, sent[0], 3_000)
        assert w.runner.lease == (session, sent[0] + 3_000)
        # An earlier deadline never takes a later one back; more than the session's TTL is never believed.
        w.raft.grant(session, sent[0], 2_000)
        assert w.runner.lease == (session, sent[0] + 3_000)
        w.raft.grant(session, sent[0], 60_000)
        assert w.runner.lease == (session, sent[0] + 5_000)

    run(body)


@pytest.mark.parametrize("wrong", ["session", "heartbeat", "passed"])
def test_grants_that_do_not_count(wrong: str) -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        sent: list[int] = []
        w.raft.on_heartbeat = lambda session, holds, sent_ms: sent.append(sent_ms)
        await w.until(lambda: sent)
        session = w.worker.session
        if wrong == "session":
            w.raft.grant(session - 1, sent[0], 5_000)
        elif wrong == "heartbeat":
            w.raft.grant(session, sent[0] - 1, 5_000)
        else:
            w.clock.jump(1_000)
            w.raft.grant(session, sent[0], 1_000)
        w.raft.deliver("grant", b"\xc1")
        assert not w.worker.holds_lease
        assert w.runner.lease == (0, 0)

    run(body)


def test_no_start_with_too_little_of_the_lease_left() -> None:
    async def body(w: World) -> None:
        w.d_ms = KILL_BEFORE_MS + 200
        await w.until(lambda: w.worker.session)
        token = w.assign(w.ready(w.job()), w.worker.session)
        await asyncio.sleep(0.45)
        assert not w.runner.launched
        w.d_ms = 5_000
        await w.until(lambda: token in w.runner.launched)

    run(body)


def test_a_lapsed_worker_ignores_grants_fences_and_opens_another_session() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        token = w.assign(w.ready(w.job()), first)
        sent: list[int] = []
        w.raft.on_heartbeat = lambda session, holds, sent_ms: sent.append(sent_ms)
        w.runner.fenced.clear()
        await w.until(lambda: not w.worker.session)
        assert w.runner.lease == (0, 0)
        late = sent[-1]
        w.raft.grant(first, late, 60_000)
        assert not w.worker.holds_lease
        await asyncio.sleep(3)
        assert w.session().id == first, "it has not opened another one before the fence was answered"
        w.d_ms = 5_000
        w.raft.on_heartbeat = w._on_heartbeat
        w.runner.fenced.set()
        second = await w.leased()
        assert second > first
        assert list(w.runner.launched) == [token]
        assert list(w.tables.scan(Table.ASSIGNED)) == []

    run(body)


def test_a_stop_beyond_the_lease_is_noticed_before_anything_is_started() -> None:
    """The clock is read when the message is handled: a grant or an assignment that waited in a queue starts nothing."""

    async def body(w: World) -> None:
        first = await w.leased()
        key = w.ready(w.job())
        w.d_ms = None
        w.clock.jump(6_000)
        w.assign(key, first)
        assert not w.runner.launched
        w.raft.grant(first, w.clock.boot_ms() - 6_000, 5_000)
        assert not w.worker.holds_lease
        await w.until(lambda: w.session().id != first)
        assert not w.runner.launched

    run(body)


def test_no_grant_within_the_ttl_means_another_session() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        await w.until(lambda: w.worker.session)
        first = w.worker.session
        await w.until(lambda: w.session().id != first)
        opened = [c for c in w.raft.proposed if isinstance(c, OpenSession)]
        assert [c.replaces for c in opened] == [0, first]
        assert opened[0].nonce != opened[1].nonce

    run(body)


def test_an_open_session_of_another_boot_is_waited_for() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        # The machine came up again: same node, another boot, the old session still open.
        w.own._opening = msgspec.structs.replace(w.own._opening, boot_id="boot-2")
        w.runner.on_died()
        await asyncio.sleep(5)
        assert w.session().id == first
        assert w.worker.session == 0
        w.raft.commit(EndSession(first, 1))
        second = await w.leased()
        assert second > first
        assert w.session().boot_id == "boot-2"

    run(body)


def test_a_session_ended_by_the_leader_is_left() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        w.raft.commit(EndSession(first, 1))
        assert w.worker.session == 0
        assert w.runner.lease == (0, 0)
        assert await w.leased() > first

    run(body)


def test_a_dead_supervisor_ends_the_session() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        key = w.ready(w.job())
        w.assign(key, first)
        w.runner.events.clear()
        w.runner.on_died()
        assert w.worker.session == 0
        assert await w.leased() > first
        assert w.runner.events[0] == ("fence",)
        assert w.instance(key).state is InstanceState.WAITING
        assert w.instance(key).lost == 1

    run(body)


@pytest.mark.parametrize("stuck", ["supervisor", "store"])
def test_no_heartbeats_while_supervisor_or_store_stand_still(stuck: str) -> None:
    async def body(w: World) -> None:
        await w.leased()
        if stuck == "supervisor":
            w.runner.moving = False
        else:
            w.store_moves = False
        count = len(w.raft.sent)
        await asyncio.sleep(3)
        assert len(w.raft.sent) == count
        await w.until(lambda: not w.worker.holds_lease)

    run(body)


def test_heartbeats_go_to_the_leader_every_half_second() -> None:
    async def body(w: World) -> None:
        await w.leased()
        w.raft.sent.clear()
        await asyncio.sleep(5)
        assert 8 <= len(w.raft.sent) <= 11
        w.raft.leader_id = NODE  # this node itself
        await asyncio.sleep(0.7)
        assert w.raft.sent[-1][0] == NODE
        w.raft.leader_id = None
        w.raft.sent.clear()
        await asyncio.sleep(2)
        assert not w.raft.sent

    run(body)


def test_without_a_leader_it_goes_on_trying() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        w.raft.reachable = False
        w.d_ms = None
        await w.until(lambda: not w.worker.session)
        await asyncio.sleep(10)
        w.raft.reachable = True
        w.d_ms = 5_000
        assert await w.leased() > first

    run(body)


def test_whatever_goes_wrong_it_goes_on_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(w: World) -> None:
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

    run(body)


def test_stop_tells_what_ended_and_hands_back_the_rest() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        job = w.job(max_lost=0)
        done, running, given = (w.ready(job, request) for request in (1, 2, 3))
        w.end(w.assign(done, session))
        token = w.assign(running, session)
        await w.until(lambda: token in w.runner.launched)
        w.d_ms = None
        await w.until(lambda: not w.worker.lease.may_start(w.clock.boot_ms()))
        assert w.assign(given, session) not in w.runner.launched  # too late for a start
        await w.worker.stop()
        assert w.runner.events[-1] == ("stop",)
        assert w.raft.proposed[-1] == CloseSession(session, (token,))
        assert w.instance(done).state is InstanceState.SUCCEEDED
        for key in (running, given):
            assert (w.instance(key).state, w.instance(key).lost) == (InstanceState.WAITING, 0)
        assert not w.session().open

    run(body)


def test_stop_does_not_hand_back_before_everything_has_ended() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        w.assign(key, session)
        ended = asyncio.Event()
        w.runner.stopping = ended.wait
        stopping = asyncio.ensure_future(w.worker.stop())
        await asyncio.sleep(3)
        assert w.instance(key).live is not None
        assert w.session().open
        ended.set()
        await stopping
        assert w.instance(key).live is None

    run(body)


def test_stop_without_a_leader_gives_up_soon() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        w.assign(key, session)
        w.raft.reachable = False
        await w.worker.stop()
        assert w.instance(key).live is not None

    run(body)
