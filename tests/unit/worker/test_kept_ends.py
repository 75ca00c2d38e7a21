"""Ends that the log did not take are told after a restart, and runs that have ended are not taken for lost: on a node
and elsewhere."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from raftsched.core.commands import Ended, EndSession, OpenSession, OpenWorker
from raftsched.core.model import Delivery, InstanceState
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.worker import KEEP_AFTER_MS
from tests.unit.worker.world import STORE, Given, World


async def ended_unheard(w: World) -> Given:
    """A run which may run once only, and has ended while nobody took the report."""
    (given,) = await w.running(delivery=Delivery.AT_MOST_ONCE)
    w.raft.reachable = False
    w.end(given.token)
    return given


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_run_that_has_ended_is_reported_after_a_restart(w: World, how: str) -> None:
    given = await ended_unheard(w)
    if how == "stopped":
        await w.worker.stop()
    else:
        await w.until(w.kept.exists)
    assert w.instance(given).live is not None
    w.raft.proposed.clear()
    await w.start_again()
    w.raft.reachable = True
    first = w.session().id
    assert await w.leased() > first
    assert w.state(given) is InstanceState.SUCCEEDED
    assert len(w.instance(given).attempts) == 1
    told = [type(command) for command in w.raft.proposed]
    assert told[0] is Ended, "before a session is opened, with which it would count as lost"
    assert told[-1] in (OpenSession, OpenWorker)
    await w.until(lambda: not w.kept.exists())


async def test_what_nobody_takes_is_kept_until_somebody_does(w: World) -> None:
    given = await ended_unheard(w)
    await w.until(w.kept.exists)
    for _ in range(2):
        await w.start_again()
        await asyncio.sleep(30)
        assert w.kept.exists()
    w.raft.reachable = True
    await w.becomes(given, InstanceState.SUCCEEDED)
    await w.until(lambda: not w.kept.exists())


async def test_what_is_kept_stays_on_the_disk_until_it_is_told(w: World) -> None:
    await ended_unheard(w)
    await w.until(w.kept.exists)
    kept = w.kept.read_bytes()
    await w.start_again()
    await asyncio.sleep(KEEP_AFTER_MS / 2000)  # it may be killed again in the midst of this
    assert w.kept.read_bytes() == kept


async def test_ends_are_made_ready_for_the_disk_once(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an outage there may be thousands of them, and the worker looks ten times a second."""
    encoded, kept = [], w.worker._link.kept
    monkeypatch.setattr(w.worker._link, "kept", lambda report: encoded.append(report.token) or kept(report))
    given = await ended_unheard(w)
    await w.until(w.kept.exists)
    await asyncio.sleep(30)
    assert encoded == [given.token]


async def test_one_is_told_though_the_session_is_one_of_another_boot(w: World) -> None:
    """The machine was restarted: the worker must wait until the leader ends that session, but its ends need not."""
    given = await ended_unheard(w)
    await w.until(w.kept.exists)
    await w.start_again("boot-2")
    w.raft.reachable = True
    await w.becomes(given, InstanceState.SUCCEEDED)
    assert w.session().boot_id == "boot-1"


async def test_what_was_lost_meanwhile_stays_so(w: World) -> None:
    given = await ended_unheard(w)
    await w.until(w.kept.exists)
    w.raft.commit(EndSession(w.session().id, 1))
    assert w.state(given) is InstanceState.FAILED
    await w.start_again()
    w.raft.reachable = True
    await w.leased()
    await w.until(lambda: not w.kept.exists())
    assert w.state(given) is InstanceState.FAILED


async def test_a_worker_that_could_not_start_forgets_nothing(w: World) -> None:
    """Such as one whose port is taken."""
    given = await ended_unheard(w)
    await w.worker.stop()
    await w.make("boot-1").stop()
    assert w.kept.exists()
    await w.start_again()
    w.raft.reachable = True
    await w.becomes(given, InstanceState.SUCCEEDED)


async def test_nothing_is_written_while_the_log_takes_what_is_told(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    monkeypatch.setattr(KeptEnds, "write", lambda self, commands: written.append(len(commands)))
    for given in await w.running(3):
        w.end(given.token)
        await w.becomes(given, InstanceState.SUCCEEDED)
    await asyncio.sleep(10)
    assert written == []


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
