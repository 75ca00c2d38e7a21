"""Ends that the log did not take are told after a restart, and runs that have ended are not taken for lost."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.commands import Ended, EndSession, encode
from raftsched.core.model import Delivery, InstanceState, Outcome
from raftsched.worker.session.kept_ends import KeptEnds
from tests.unit.worker.world import World, run_jumping

STORE = b"store"


@pytest.fixture(autouse=True)
def _in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time jumps only where nothing is waited for, and a thread would be."""

    async def at_once(work: Callable[..., Any], *given: Any) -> Any:
        return work(*given)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


def run(directory: Path, body: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        world.kept_ends = KeptEnds(directory / "ends", STORE)
        world.worker = world._make("boot-1")
        await world.worker.start()
        try:
            await body(world)
        finally:
            await world.worker.stop()

    run_jumping(main)


async def ended_unheard(w: World) -> bytes:
    """The key of a run which may run once only, and has ended while nobody took the report."""
    session = await w.leased()
    key = w.ready(w.job(delivery=Delivery.AT_MOST_ONCE))
    token = w.assign(key, session)
    await w.until(lambda: token in w.runner.launched)
    w.raft.reachable = False
    w.end(token)
    return key


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_run_that_has_ended_is_reported_after_a_restart(tmp_path: Path, how: str) -> None:
    async def body(w: World) -> None:
        key = await ended_unheard(w)
        if how == "stopped":
            await w.worker.stop()
        else:
            await w.until((tmp_path / "ends").exists)
        assert w.instance(key).live is not None
        await w.start_again()
        w.raft.reachable = True
        await w.leased()
        row = w.instance(key)
        assert (row.state, len(row.attempts)) == (InstanceState.SUCCEEDED, 1)
        await w.until(lambda: not (tmp_path / "ends").exists())

    run(tmp_path, body)


def test_one_is_told_though_the_session_is_one_of_another_boot(tmp_path: Path) -> None:
    """The machine was restarted: the node must wait until the leader ends that session, but its ends need not."""

    async def body(w: World) -> None:
        key = await ended_unheard(w)
        await w.until((tmp_path / "ends").exists)
        await w.start_again("boot-2")
        w.raft.reachable = True
        await w.until(lambda: w.instance(key).state is InstanceState.SUCCEEDED)
        assert w.session().boot_id == "boot-1"

    run(tmp_path, body)


def test_what_was_lost_meanwhile_stays_so(tmp_path: Path) -> None:
    async def body(w: World) -> None:
        key = await ended_unheard(w)
        await w.until((tmp_path / "ends").exists)
        w.raft.commit(EndSession(w.session_number(), 1))
        assert w.instance(key).state is InstanceState.FAILED
        await w.start_again()
        w.raft.reachable = True
        await w.leased()
        await w.until(lambda: not (tmp_path / "ends").exists())
        assert w.instance(key).state is InstanceState.FAILED

    run(tmp_path, body)


def test_tables_that_are_older_than_the_run_drop_nothing(tmp_path: Path) -> None:
    """After a start a node knows what is committed only when it has heard of a leader."""

    async def body(w: World) -> None:
        session = await w.leased()
        w.kept_ends = KeptEnds(tmp_path / "other", STORE)
        future = 7
        w.kept_ends.write([encode(Ended(session, future, Outcome.SUCCEEDED, None, 1))])
        w.raft.reachable = False
        await w.start_again("boot-2")  # which does not open a session as long as that one is open
        await asyncio.sleep(10)
        assert future in w.own.reports
        w.raft.reachable = True
        for request in range(1, future + 2):
            w.assign(w.ready(w.job(), request), session)
        await w.until(lambda: future not in w.own.reports)

    run(tmp_path, body)


def test_a_node_that_could_not_start_forgets_nothing(tmp_path: Path) -> None:
    """Such as one whose port is taken."""

    async def body(w: World) -> None:
        key = await ended_unheard(w)
        await w.worker.stop()
        await w._make("boot-1").stop()
        assert (tmp_path / "ends").exists()
        await w.start_again()
        w.raft.reachable = True
        await w.until(lambda: w.instance(key).state is InstanceState.SUCCEEDED)

    run(tmp_path, body)


def test_nothing_is_written_while_the_log_takes_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    monkeypatch.setattr(KeptEnds, "write", lambda self, commands: written.append(len(commands)))

    async def body(w: World) -> None:
        session = await w.leased()
        for request in range(1, 4):
            key = w.ready(w.job(), request)
            w.end(w.assign(key, session))
            await w.until(lambda key=key: w.instance(key).state is InstanceState.SUCCEEDED)
        await asyncio.sleep(10)
        assert written == []

    run(tmp_path, body)


def test_what_is_kept_is_read_again_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "ends"
    kept = KeptEnds(path, STORE)
    assert kept.read() == ()
    kept.write([b"one", b"two"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeptEnds(path, STORE).read() == (b"one", b"two")
    assert KeptEnds(path, b"another").read() == (), "the node was made anew: its numbers are others"
    path.write_bytes(path.read_bytes()[:-2])
    assert kept.read() == ()
    assert "cannot be read" in caplog.text
    kept.write([b"x" * (1 << 20)] * 20)
    assert len(kept.read()) == 16
    kept.write([])
    assert not path.exists()
    KeptEnds(tmp_path / "not" / "there", STORE).write([b"one"])
    assert "1 ends of runs could not be kept" in caplog.text
