"""Handlers in the node's own process are refused what only a process of their own could give them."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

import pytest

import raftsched
from raftsched.clock import SystemClock
from raftsched.core.model import Outcome, Verdict
from raftsched.worker.in_process import PREFIX, InProcessRunner
from raftsched.worker.ports import Runs
from raftsched.worker.runner import RunEnd, RunSpec
from raftsched.worker.wire import Limits, Python
from tests.support.patience import within


async def noop() -> None:
    pass


async def puts_off() -> None:
    raise raftsched.Snooze("10m", "busy")


async def run(task: Python) -> RunEnd:
    clock = SystemClock()
    functions = {"noop": noop, "puts-off": puts_off}
    inside = InProcessRunner(create_autospec(Runs, instance=True), functions, clock)
    ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
    inside.on_ended = lambda token, end: ended.set_result(end)
    inside.set_lease(1, clock.boot_ms() + 60_000)
    inside.launch(RunSpec(token=1, session=1, task=task, timeout_ms=60_000))
    end = await within(ended)
    inside.set_lease(1, 0)
    return end


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
    end = asyncio.run(run(task))
    assert end.outcome is outcome
    if outcome is Outcome.FAILED:
        assert end.error is not None
        assert end.error.endswith("a run of it has no cwd, no limits, and no fresh process")


def test_it_says_what_is_to_become_of_it() -> None:
    end = asyncio.run(run(Python(f"{PREFIX}puts-off", b"{}", {})))
    assert (end.outcome, end.verdict, end.delay_ms, end.error) == (Outcome.FAILED, Verdict.SNOOZE, 600_000, "busy")
