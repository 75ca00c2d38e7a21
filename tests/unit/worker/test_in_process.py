"""Handlers in the node's own process are refused what only a process of their own could give them."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

import pytest

from raftsched.clock import SystemClock
from raftsched.core.model import Outcome
from raftsched.worker.in_process import PREFIX, InProcessRunner
from raftsched.worker.ports import Runs
from raftsched.worker.runner import RunEnd, RunSpec
from raftsched.worker.wire import Limits, Python


async def noop() -> None:
    pass


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        (Python(f"{PREFIX}noop", b"{}", {}), Outcome.SUCCEEDED),
        (Python(f"{PREFIX}noop", b"{}", {}, cwd="/"), Outcome.FAILED),
        (Python(f"{PREFIX}noop", b"{}", {}, limits=Limits(cpu_s=1)), Outcome.FAILED),
        (Python(f"{PREFIX}noop", b"{}", {}, fresh=True), Outcome.FAILED),
    ],
)
def test_what_needs_a_process_of_its_own(task: Python, outcome: Outcome) -> None:
    async def body() -> RunEnd:
        clock = SystemClock()
        inside = InProcessRunner(create_autospec(Runs, instance=True), {"noop": noop}, clock)
        ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        inside.on_ended = lambda token, end: ended.set_result(end)
        inside.set_lease(1, clock.boot_ms() + 60_000)
        inside.launch(RunSpec(token=1, session=1, task=task, timeout_ms=60_000))
        end = await asyncio.wait_for(ended, 30)
        inside.set_lease(1, 0)
        return end

    end = asyncio.run(body())
    assert end.outcome is outcome
    if outcome is Outcome.FAILED:
        assert end.error is not None
        assert end.error.endswith("a run of it has no cwd, no limits, and no fresh process")
