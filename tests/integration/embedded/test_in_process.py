"""Handlers inside the node's own process, by request: what they see, and how they are ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.testing import cluster
from raftsched.worker.processes import wire
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.tasks.in_process import PREFIX, InProcessRunner
from tests.integration.embedded import chores
from tests.support.patience import patient
from tests.unit.worker.world import LoopClock


async def start(node: raftsched.Node, name: str, timeout: str = "1m", **params: Any) -> raftsched.Run:
    job = await node.jobs.create(trigger={"manual": True}, handler={"call": name}, params=params, timeout=timeout)
    return await node.jobs.run(job)


async def test_handlers_among_the_programs_objects(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    begun, ended = asyncio.Event(), asyncio.Event()
    nodes = cluster(1, directory=tmp_path)
    async with nodes:
        (node,) = nodes
        await node.stop()

        @node.handler("note", in_process=True)
        async def note(number: int) -> dict[str, int]:
            seen.append(dict(raftsched.run_variables()))
            return {"number": number, "pid": os.getpid()}

        @node.handler("hang", in_process=True)
        async def hang() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        node.handler("add")(chores.add)
        await nodes.start(node)
        await node.ready()

        run = await start(node, "note", number=7)
        done = await node.instances.wait(run, timeout=patient(60))
        assert (done.state, done.result) == ("SUCCEEDED", {"number": 7, "pid": os.getpid()}), done.error
        assert seen[0]["RAFTSCHED_INSTANCE_ID"] == run.id
        assert seen[0]["RAFTSCHED_FENCING_TOKEN"] == str(done.attempts[0].token)
        assert "RAFTSCHED_INSTANCE_ID" not in raftsched.run_variables()
        other = await node.instances.wait(await start(node, "add", left=1, right=1), timeout=patient(60))
        assert other.result["pid"] != os.getpid()

        failed = await node.instances.wait(await start(node, "note", numb=1), timeout=patient(60))
        assert failed.state == "FAILED"
        assert "numb" in (failed.error or "")

        late = await node.instances.wait(await start(node, "hang", timeout="1s"), timeout=patient(60))
        assert (late.state, late.error) == ("TIMED_OUT", "timed out after 1 s")
        assert ended.is_set()

        begun.clear()
        killed = await start(node, "hang")
        await begun.wait()
        await node.instances.kill(killed)
        assert (await node.instances.wait(killed, timeout=patient(60))).state == "KILLED"

        begun.clear()
        ended.clear()
        await start(node, "hang")
        await begun.wait()
        await node.stop()
        assert ended.is_set(), "nothing of it is left"


def test_what_cannot_be_one() -> None:
    node = raftsched.Node(id="n1", data="n1")
    with pytest.raises(ValueError, match="coroutine function"):
        node.handler("add", in_process=True)(chores.add)
    for in_process in (True, False):
        with pytest.raises(ValueError, match="is a generator function: a call would not run its body"):
            node.handler("count", in_process=in_process)(chores.count)
    node.handler("add")(chores.add)
    with pytest.raises(ValueError, match="another name"):
        node.handler("add", in_process=True)(chores.add_later)
    node.handler("later", in_process=True)(chores.add_later)
    node.handler("later", in_process=True)(chores.add_later)
    with pytest.raises(ValueError, match="already"):
        node.handler("later")(chores.add_later)


# ------------------------------------------------------------ by itself


class Others:
    """A runner to which nothing of this should come."""

    def __init__(self) -> None:
        self.lease = (0, 0)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def fence(self) -> None: ...

    def moves(self, within_ms: int) -> bool:
        return True

    def ping(self) -> None: ...

    def launch(self, spec: RunSpec) -> None:
        raise AssertionError(spec)

    def kill(self, token: int, reason: str = "") -> None: ...

    def wind_down(self, grace_ms: int) -> None:
        pass

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        self.lease = (session, deadline_boot_ms)


class Bed:
    def __init__(self, **functions: Any) -> None:
        self.ends: dict[int, RunEnd] = {}
        self.ended = asyncio.Event()
        self.clock = LoopClock()  # which jumps when nothing is left to do
        self.inside = InProcessRunner(Others(), functions, self.clock, grace_ms=50)  # type: ignore[arg-type]
        self.inside.on_ended = self._on_ended

    def _on_ended(self, token: int, end: RunEnd) -> None:
        self.ends[token] = end
        self.ended.set()

    def launch(self, name: str, token: int = 1, session: int = 3, timeout_ms: int = 60_000) -> None:
        task = wire.Python(f"{PREFIX}{name}", b"{}", {})
        self.inside.launch(RunSpec(token=token, session=session, task=task, timeout_ms=timeout_ms))


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.usefixtures("jumping_runner")
async def test_a_run_ends_before_its_lease_does() -> None:
    bed = Bed(forever=forever)
    await bed.inside.start()
    bed.inside.set_lease(3, bed.clock.boot_ms() + 60_000)
    bed.launch("forever", 1)
    bed.inside.set_lease(3, bed.clock.boot_ms() + KILL_BEFORE_MS + 50)
    await bed.ended.wait()
    assert bed.ends[1].outcome is Outcome.LOST
    assert bed.clock.boot_ms() < bed.inside._lease[1], "while the lease still holds"


@pytest.mark.usefixtures("jumping_runner")
async def test_a_node_that_stops_gives_its_grace_first() -> None:
    async def ends() -> int:
        await asyncio.sleep(0.05)
        return 7

    bed = Bed(forever=forever, ends=ends)
    bed.inside.set_lease(3, bed.clock.boot_ms() + 60_000)
    bed.launch("forever", 1)
    bed.launch("ends", 2)
    bed.inside.wind_down(1_000)
    while len(bed.ends) < 2:
        bed.ended.clear()
        await bed.ended.wait()
    assert (bed.ends[1].outcome, bed.ends[1].error) == (Outcome.KILLED, "Its node stopped.")
    assert (bed.ends[2].outcome, bed.ends[2].result) == (Outcome.SUCCEEDED, b"7")


@pytest.mark.usefixtures("jumping_runner")
async def test_a_run_of_another_session_ends() -> None:
    bed = Bed(forever=forever)
    bed.inside.set_lease(3, bed.clock.boot_ms() + 60_000)
    bed.launch("forever", 1)
    await asyncio.sleep(0)
    bed.inside.set_lease(0, 0)
    await bed.inside.fence()
    assert bed.ends[1].outcome is Outcome.LOST


@pytest.mark.usefixtures("jumping_runner")
async def test_what_does_not_end_when_it_is_cancelled_is_told_all_the_same() -> None:
    enough = asyncio.Event()

    async def stubborn() -> None:
        while not enough.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await enough.wait()

    bed = Bed(stubborn=stubborn)
    bed.inside.set_lease(3, bed.clock.boot_ms() + 60_000)
    bed.launch("stubborn", 1, timeout_ms=10)
    await bed.ended.wait()
    assert bed.ends[1].outcome is Outcome.TIMED_OUT
    assert "may still be at work" in (bed.ends[1].error or "")
    enough.set()


@pytest.mark.usefixtures("jumping_runner")
async def test_a_handler_without_a_lease_is_not_left_to_run() -> None:
    bed = Bed(forever=forever)
    bed.launch("forever", 1)
    await bed.ended.wait()
    assert bed.ends[1].outcome is Outcome.LOST
