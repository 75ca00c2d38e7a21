"""A node that stops: nothing new, a grace period for what runs, and the lease meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.core.commands import EndSession
from raftsched.core.model import InstanceState, Outcome
from raftsched.worker.processes.runner import RunEnd
from tests.unit.worker.world import GRACE_MS, WALL_MS, World, run


async def running(w: World, count: int = 1) -> tuple[list[bytes], list[int]]:
    session = await w.leased()
    keys = [w.ready(w.job(max_lost=0), n) for n in range(1, count + 1)]
    tokens = [w.assign(key, session) for key in keys]
    await w.until(lambda: len(w.runner.launched) == count)
    return keys, tokens


def test_what_ends_in_time_is_reported_as_it_ended() -> None:
    async def body(w: World) -> None:
        (done, broken), (first, second) = await running(w, 2)
        winding = asyncio.ensure_future(w.worker.wind_down())
        await asyncio.sleep(1)
        assert w.runner.events[-1] == ("wind down", GRACE_MS)
        w.end(first)
        await asyncio.sleep(0.5)
        assert not winding.done()
        assert w.instance(done).state is InstanceState.SUCCEEDED, "it waits for others to be told"
        w.end(second, Outcome.FAILED)
        await winding
        await w.worker.stop()
        assert w.instance(broken).state is InstanceState.FAILED
        assert w.clock.wall_ms() - WALL_MS < GRACE_MS, "nothing was left to wait for"

    run(body)


def test_the_lease_is_renewed_and_nothing_new_is_started() -> None:
    async def body(w: World) -> None:
        w.d_ms = 1_500
        (key,), (token,) = await running(w)
        winding = asyncio.ensure_future(w.worker.wind_down())
        await asyncio.sleep(0.1)
        late = w.ready(w.job(), 7)
        w.assign(late, w.worker.session)
        await asyncio.sleep(2.5)
        assert w.worker.holds_lease
        assert list(w.runner.launched) == [token]
        await winding
        await w.worker.stop()
        for one in (key, late):
            assert (w.instance(one).state, w.instance(one).lost) == (InstanceState.WAITING, 0)

    run(body)


def test_what_the_runner_ended_for_it_is_handed_back_at_once() -> None:
    async def body(w: World) -> None:
        (key, _), (token, _) = await running(w, 2)
        winding = asyncio.ensure_future(w.worker.wind_down())
        await asyncio.sleep(0.1)
        w.end(token, Outcome.KILLED)
        await w.until(lambda: w.instance(key).state is InstanceState.WAITING)
        assert (w.instance(key).reason, w.instance(key).lost) == ("handed_back", 0)
        assert not winding.done()
        await winding

    run(body)


@pytest.mark.parametrize("how", ["hurry", "session", "supervisor"])
def test_it_is_cut_short(how: str) -> None:
    async def body(w: World) -> None:
        await running(w)
        winding = asyncio.ensure_future(w.worker.wind_down())
        await asyncio.sleep(0.1)
        assert not winding.done()
        at = w.clock.monotonic()
        if how == "hurry":
            w.worker.hurry()
        elif how == "session":
            w.raft.commit(EndSession(w.worker.session, 1))
        else:
            w.runner.on_died()
        await winding
        assert w.clock.monotonic() == at

    run(body)


def test_nothing_runs_and_nothing_is_waited_for() -> None:
    async def body(w: World) -> None:
        await w.leased()
        at = w.clock.monotonic()
        await w.worker.wind_down()
        assert w.clock.monotonic() == at
        assert ("wind down", GRACE_MS) not in w.runner.events

    run(body)


def test_one_run_that_is_lost_is_no_word_on_the_lease() -> None:
    async def body(w: World) -> None:
        (key, other), (token, _) = await running(w, 2)
        session = w.worker.session
        end = RunEnd(outcome=Outcome.LOST, started_at_ms=None, ended_at_ms=WALL_MS, error="its keeper", alone=True)
        w.runner.on_ended(token, end)
        await w.until(lambda: w.instance(key).live is None)
        assert w.worker.session == session
        assert w.instance(other).live is not None
        assert (w.instance(key).reason, w.instance(key).error) == ("max_lost", "Its worker was lost 1 times.")
        assert w.instance(key).attempts[0].error == "its keeper"

    run(body)
