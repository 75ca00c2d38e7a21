"""What the one session machine once got wrong, behind each of its links."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.model import InstanceState, Outcome
from raftsched.remote.polls import TELL_MS
from raftsched.remote.server_port import Failed, Refused
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.worker import KEEP_AFTER_MS, Worker
from tests.unit.remote.world import STEP_S
from tests.unit.remote.world import World as RemoteWorld
from tests.unit.remote.world import run as run_remote
from tests.unit.worker.world import FakeRunner, World, run, run_jumping

STORE = b"store"


@pytest.fixture
def in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time jumps only where nothing is waited for, and a thread would be."""

    async def at_once(work: Callable[..., Any], *given: Any) -> Any:
        return work(*given)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


def kept_in(world: RemoteWorld, directory: Path) -> Worker:
    """Returns another worker in place of the world's, that keeps its ends there."""
    world.runner = FakeRunner()
    world.agent = world.make(world.runner)
    world.agent._kept_ends = KeptEnds(directory / "ends", STORE)
    return world.agent


def run_kept(directory: Path, body: Callable[[RemoteWorld], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = RemoteWorld()
        await kept_in(world, directory).start()
        try:
            await body(world)
        finally:
            await world.agent.stop()

    run_jumping(main)


async def lapsed_with_an_end(w: RemoteWorld) -> None:
    """Run 1 has ended, and run 2 was killed, when the lease ran out; no node has heard of it."""
    await w.leased()
    w.cluster.give(1)
    w.cluster.give(2)
    await w.launched(1, 2)
    for node in w.nodes:
        node.down = True
    w.begin(2)
    w.end(1)
    await w.until(lambda: not w.agent.session)
    w.end(2, Outcome.LOST)
    await asyncio.sleep(2 * STEP_S)  # for what is under way
    forget_polls(w)


def forget_polls(w: RemoteWorld) -> None:
    for node in w.nodes:
        node.polls.clear()


# ---------------------------------------------------------------- stop


def test_a_node_that_stops_in_order_does_not_say_that_its_session_lapsed(caplog: pytest.LogCaptureFixture) -> None:
    async def body(w: World) -> None:
        await w.leased()
        await w.worker.wind_down()
        await w.worker.stop()
        assert not w.session().open

    caplog.set_level(logging.INFO)
    run(body)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_end_is_told_by_a_node_that_stops_without_a_session() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        token = w.assign(key, session)
        await w.until(lambda: token in w.runner.launched)
        w.d_ms = None
        w.runner.fenced.clear()
        await w.until(lambda: not w.worker.session)
        w.end(token)
        await w.worker.stop()
        assert w.instance(key).state is InstanceState.SUCCEEDED

    run(body)


# ---------------------------------------------------------------- ends over a restart


@pytest.mark.usefixtures("in_the_loop")
def test_what_a_node_has_kept_stays_on_the_disk_until_it_is_told(tmp_path: Path) -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        token = w.assign(w.ready(w.job()), session)
        await w.until(lambda: token in w.runner.launched)
        w.raft.reachable = False
        w.end(token)
        await w.until((tmp_path / "ends").exists)
        kept = (tmp_path / "ends").read_bytes()
        await w.start_again()
        await asyncio.sleep(KEEP_AFTER_MS / 2000)  # it may be killed again in the midst of this
        assert (tmp_path / "ends").read_bytes() == kept
        w.raft.reachable = True
        await w.until(lambda: not (tmp_path / "ends").exists())

    async def main() -> None:
        world = World()
        world.kept_ends = KeptEnds(tmp_path / "ends", STORE)
        world.worker = world._make("boot-1")
        await world.worker.start()
        try:
            await body(world)
        finally:
            await world.worker.stop()

    run_jumping(main)


@pytest.mark.usefixtures("in_the_loop")
def test_what_a_remote_worker_has_kept_stays_on_the_disk_until_it_is_told(tmp_path: Path) -> None:
    async def body(w: RemoteWorld) -> None:
        await lapsed_with_an_end(w)
        await w.agent.stop()
        kept = (tmp_path / "ends").read_bytes()
        await kept_in(w, tmp_path).start()
        await asyncio.sleep(KEEP_AFTER_MS / 2000)
        assert (tmp_path / "ends").read_bytes() == kept
        for node in w.nodes:
            node.down = False
        await w.leased()
        assert w.cluster.ends() == [(1, "succeeded")]
        await w.until(lambda: not (tmp_path / "ends").exists())

    run_kept(tmp_path, body)


@pytest.mark.usefixtures("in_the_loop")
def test_ends_are_made_ready_for_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an outage there may be thousands of them, and the worker looks ten times a second."""
    encoded: list[int] = []

    async def body(w: RemoteWorld) -> None:
        kept = w.polls_link.kept
        monkeypatch.setattr(w.polls_link, "kept", lambda report: encoded.append(report.token) or kept(report))
        await lapsed_with_an_end(w)
        await w.until((tmp_path / "ends").exists)
        await asyncio.sleep(30)
        assert encoded == [1]

    run_kept(tmp_path, body)


# ---------------------------------------------------------------- ends of a session that has lapsed


def test_nothing_but_ends_is_told_of_a_session_that_has_lapsed() -> None:
    async def body(w: RemoteWorld) -> None:
        await lapsed_with_an_end(w)
        for node in w.nodes:
            node.down = False
        await w.leased()
        assert [report.token for poll in w.polls for report in poll.reports] == [1]
        assert w.cluster.ends() == [(1, "succeeded")]

    run_remote(body)


def test_a_session_that_has_lapsed_without_ends_is_not_asked_for_again() -> None:
    """Its lease would be prolonged on the leader, and its runs would start elsewhere later."""

    async def body(w: RemoteWorld) -> None:
        session = await w.leased()
        w.cluster.give(1)
        await w.launched(1)
        for node in w.nodes:
            node.down = True
        w.begin(1)
        await w.until(lambda: not w.agent.session)
        forget_polls(w)
        w.end(1, Outcome.LOST)
        for node in w.nodes:
            node.down = False
        assert await w.leased() > session
        assert [poll for poll in w.polls if poll.reports] == []

    run_remote(body)


@pytest.mark.parametrize("why", [Refused("forbidden", "Not so.", 403), Failed("it met a fault")])
def test_ends_that_no_node_accepts_do_not_keep_a_worker_from_a_session(why: Exception) -> None:
    async def body(w: RemoteWorld) -> None:
        await lapsed_with_an_end(w)
        for node in w.nodes:
            poll = node.poll

            async def refuse(session: str, request: Any, poll: Any = poll) -> Any:
                if request.reports:
                    raise why
                return await poll(session, request)

            node.poll = refuse  # type: ignore[method-assign]
        await asyncio.sleep(2 * STEP_S)  # for what is under way
        for node in w.nodes:
            node.down = False
        await w.until(lambda: w.agent.session, 120)
        assert w.cluster.ends() == []

    run_remote(body)


def test_an_end_that_a_node_cannot_take_is_told_as_failed_before_the_next_session() -> None:
    async def body(w: RemoteWorld) -> None:
        w.cluster.invalid = lambda report: report.outcome == "succeeded"
        await lapsed_with_an_end(w)
        for node in w.nodes:
            node.down = False
        await w.leased()
        assert w.cluster.ends() == [(1, "failed")]

    run_remote(body)


def test_who_did_not_take_the_ends_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def body(w: RemoteWorld) -> None:
        await lapsed_with_an_end(w)
        await asyncio.sleep(5)

    run_remote(body)
    said = [record.getMessage() for record in caplog.records if "no session yet" in record.getMessage()]
    assert said
    assert all(": n1: " in words or ": n2: " in words or ": n3: " in words for words in said)


def test_a_session_of_the_same_number_in_another_cluster_is_told_no_ends_of_the_one_before() -> None:
    async def body(w: RemoteWorld) -> None:
        await lapsed_with_an_end(w)
        w.cluster.number -= 1  # another cluster, which was restored from an earlier state
        w.cluster.end()
        for node in w.nodes:
            node.down = False
        assert await w.leased() == 1
        told = [poll.reports for poll in w.polls].count([])
        await asyncio.sleep(5)
        assert len([poll for poll in w.polls if not poll.reports]) > told
        assert w.agent.running == len(w.polls_link.reports) == 0

    run_remote(body)


def test_ends_are_told_after_an_outage_of_whatever_length() -> None:
    async def body(w: RemoteWorld) -> None:
        await lapsed_with_an_end(w)
        await asyncio.sleep(3 * TELL_MS / 1000)
        for node in w.nodes:
            node.down = False
        await w.leased()
        assert w.cluster.ends() == [(1, "succeeded")]

    run_remote(body)
