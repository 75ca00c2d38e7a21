"""A node that can start nothing says so before it hands back what it was given."""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched.core.model import Delivery, InstanceState, Outcome
from raftsched.core.subjects.leasing import Heartbeat
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.session.shortage import PAUSE_MIN_MS
from tests.unit.worker.world import World, run

WHY = "this node cannot start a process: Resource temporarily unavailable"


def beats(world: World) -> list[Heartbeat]:
    sent: list[Any] = [payload for _, kind, payload in world.raft.sent if kind == "heartbeat"]
    return [msgspec.msgpack.decode(payload, type=Heartbeat) for payload in sent]


async def refused(world: World, **policy: Any) -> bytes:
    """A run that the runner could not start; its key."""
    session = await world.leased()
    key = world.ready(world.job(**policy))
    token = world.assign(key, session)
    await world.until(lambda: token in world.runner.launched)
    world.raft.sent.clear()
    end = RunEnd(outcome=Outcome.KILLED, started_at_ms=None, ended_at_ms=world.clock.wall_ms(), error=WHY, begun=False)
    world.runner.on_ended(token, end)
    return key


def test_the_leader_hears_of_it_before_the_run_is_handed_back() -> None:
    async def body(w: World) -> None:
        key = await refused(w)
        (beat,) = beats(w)
        assert (beat.pause_ms, beat.trouble, beat.holds) == (PAUSE_MIN_MS, WHY, True)
        assert w.instance(key).state is InstanceState.LAUNCHED
        await w.until(lambda: w.instance(key).state is InstanceState.WAITING)
        assert (w.worker.pause.count, w.worker.trouble) == (1, WHY)

    run(body)


def test_a_run_that_is_to_run_at_most_once_is_handed_back_too() -> None:
    async def body(w: World) -> None:
        key = await refused(w, delivery=Delivery.AT_MOST_ONCE)
        await w.until(lambda: w.instance(key).state is InstanceState.WAITING)

    run(body)


def test_the_pause_runs_out_and_a_start_ends_the_trouble() -> None:
    async def body(w: World) -> None:
        key = await refused(w)
        await w.until(lambda: beats(w)[-1].pause_ms == 0)
        assert beats(w)[-1].trouble == WHY
        token = w.assign(key, w.worker.session)
        await w.until(lambda: token in w.runner.launched)
        w.end(token)
        await w.until(lambda: beats(w)[-1].trouble == "")

    run(body)


def test_a_node_without_a_session_says_why() -> None:
    async def body(w: World) -> None:
        await w.leased()
        w.worker.pause._waits_for = lambda: "it waits for 7 (cat, in uninterruptible sleep)"
        w.d_ms = None
        w.raft.reachable = False
        await w.until(lambda: w.worker.session == 0)
        w.raft.sent.clear()
        await w.until(lambda: len(beats(w)) >= 2)
        assert {(beat.session, beat.holds) for beat in beats(w)} == {(0, False)}
        assert "7 (cat" in beats(w)[-1].trouble
        w.d_ms = 5_000
        w.raft.reachable = True

    run(body)
