"""A worker that stops, on a node and elsewhere: nothing new, a grace period for what runs, and the lease meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raftsched.core.commands import CloseSession, EndSession
from raftsched.core.model import InstanceState, Outcome
from raftsched.worker.processes.wire import NODE_STOPPED
from tests.unit.worker.world import GRACE_MS, OUTPUT, Given, World

WIND_DOWN = ("wind down", GRACE_MS)


@contextmanager
def at_once(w: World) -> Iterator[None]:
    before = w.clock.boot_ms()
    yield
    assert w.clock.boot_ms() - before < 100


def handed_back(w: World, *given: Given) -> None:
    assert [(w.state(one), w.instance(one).lost) for one in given] == [(InstanceState.WAITING, 0)] * len(given)


# ---------------------------------------------------------------- the grace period


async def test_what_ends_in_time_is_reported_as_it_ended(w: World) -> None:
    done, broken = await w.running(2)
    before = w.clock.boot_ms()
    winding = asyncio.ensure_future(w.worker.wind_down())
    await w.until(lambda: WIND_DOWN in w.runner.events)
    await w.until(lambda: w.beats()[-1].pause_ms)
    w.end(done.token)
    await asyncio.sleep(0.5)
    assert not winding.done()
    assert w.state(done) is InstanceState.SUCCEEDED, "it waits for others to be told"
    w.end(broken.token, Outcome.FAILED)
    await winding
    await w.worker.stop()
    assert w.state(broken) is InstanceState.FAILED
    assert w.clock.boot_ms() - before < GRACE_MS, "nothing was left to wait for"
    assert w.worker.trouble == "It stops."
    assert not w.is_open()


async def test_the_lease_is_renewed_and_nothing_new_is_started(w: World) -> None:
    w.worker.take_grace(2 * w.ttl_ms)
    (given,) = await w.running()
    session = w.worker.session
    winding = asyncio.ensure_future(w.worker.wind_down())
    await asyncio.sleep(0.1)
    late = w.give(max_lost=0)  # the leader had not heard of it
    await w.until(lambda: w.state(late) is InstanceState.WAITING)
    await asyncio.sleep(1.5 * w.ttl_ms / 1000)
    assert (w.worker.session, w.worker.holds_lease) == (session, True)
    assert list(w.runner.launched) == [given.token]
    w.worker.hurry()
    await winding
    await w.worker.stop()
    handed_back(w, given, late)


async def test_what_the_runner_ended_for_it_is_handed_back_at_once(w: World) -> None:
    given, _ = await w.running(2)
    winding = asyncio.ensure_future(w.worker.wind_down())
    await asyncio.sleep(0.1)
    w.end(given.token, Outcome.KILLED, error=NODE_STOPPED)
    await w.until(lambda: w.state(given) is InstanceState.WAITING)
    assert (w.instance(given).reason, w.instance(given).lost) == ("handed_back", 0)
    assert not winding.done()
    await winding


@pytest.mark.parametrize("how", ["hurry", "session", "supervisor"])
async def test_it_is_cut_short(w: World, how: str) -> None:
    await w.running()
    winding = asyncio.ensure_future(w.worker.wind_down())
    await asyncio.sleep(0.1)
    assert not winding.done()
    with at_once(w):
        if how == "hurry":
            w.worker.hurry()
        elif how == "session":
            w.raft.commit(EndSession(w.worker.session, 1))
        else:
            w.runner.on_died()
        await winding


async def test_what_has_ended_is_not_waited_for_though_nobody_hears_of_it(w: World) -> None:
    (given,) = await w.running()
    winding = asyncio.ensure_future(w.worker.wind_down())
    await asyncio.sleep(0.1)
    with w.cut_off():
        with at_once(w):
            w.end(given.token)
            await winding
        await asyncio.sleep(0.1)  # it was told, and nobody heard it
    await w.worker.stop()
    assert w.state(given) is InstanceState.SUCCEEDED, "it is told with the session's end"


async def test_nothing_runs_and_nothing_is_waited_for(w: World) -> None:
    await w.leased()
    with at_once(w):
        await w.worker.wind_down()
    assert WIND_DOWN not in w.runner.events


# ---------------------------------------------------------------- the end


async def test_stop_tells_what_ended_and_hands_back_the_rest(w: World) -> None:
    done, running = await w.running(2, max_lost=0)
    session = w.worker.session
    w.end(done.token)
    await w.becomes(done, InstanceState.SUCCEEDED)
    w.grant_ms = None
    await w.until(lambda: not w.worker.lease.may_start(w.clock.boot_ms()))
    given = w.give(max_lost=0)  # too late for a start
    await w.worker.stop()
    assert w.runner.events[-1] == ("stop",)
    assert w.proposed(CloseSession) == [CloseSession(session, (running.token,))]
    assert given.token not in w.runner.launched
    handed_back(w, running, given)
    assert not w.is_open()


@pytest.mark.parametrize("hurried", [True, False])
async def test_what_the_runner_ends_when_it_stops_is_handed_back(w: World, hurried: bool) -> None:
    """It ends what runs as where a lease is over; but this one is not, and is renewed until nothing is left."""
    if not hurried:
        w.worker.take_grace(0)
    running, done = await w.running(2, max_lost=0)
    ended = asyncio.Event()

    async def stopping() -> None:
        w.end(done.token)
        w.end(running.token, Outcome.LOST)
        w.runner.moving = False  # its supervisor has ended
        await ended.wait()

    w.runner.stopping = stopping
    winding = asyncio.ensure_future(w.worker.wind_down())
    await asyncio.sleep(0.1)
    w.worker.hurry()
    await winding
    stopped = asyncio.ensure_future(w.worker.stop())
    await asyncio.sleep(1.5 * w.ttl_ms / 1000)
    assert w.instance(running).live is not None
    assert w.is_open()
    ended.set()
    await stopped
    assert w.state(done) is InstanceState.SUCCEEDED
    handed_back(w, running)


async def test_stop_without_a_cluster_gives_up_soon(w: World) -> None:
    (given,) = await w.running()
    before = w.clock.boot_ms()
    with w.cut_off():
        await w.worker.stop()
    assert w.clock.boot_ms() - before < 10_000
    assert w.runner.events[-1] == ("stop",)
    assert w.instance(given).live is not None


async def test_a_worker_that_stops_before_it_has_a_session_opens_none(w: World) -> None:
    first = await w.leased()
    w.runner.fenced.clear()
    w.runner.on_died()
    with w.cut_off():
        w.runner.fenced.set()
        await asyncio.sleep(1)
        await w.worker.wind_down()
        await w.worker.stop()
    await asyncio.sleep(5)
    assert w.session().id == first


async def test_an_end_with_output_is_told_before_the_session_is_closed(w: World) -> None:
    (given,) = await w.running()
    w.end(given.token, output=OUTPUT)
    await w.worker.stop()
    attempt = await w.becomes(given, InstanceState.SUCCEEDED)
    assert attempt is not None
    assert attempt.output is not None


async def test_a_worker_that_stops_in_order_does_not_say_that_its_session_lapsed(
    w: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await w.leased()
    await w.worker.wind_down()
    await w.worker.stop()
    assert not w.is_open()
    assert caplog.messages == []
