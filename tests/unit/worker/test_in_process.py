"""Handlers in the node's own process are refused what only a process of their own could give them."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

import pytest

import raftsched
from raftsched.core.model import Outcome, Verdict
from raftsched.system.clock import Clock, SystemClock
from raftsched.worker.ports import Runs
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.processes.wire import Limits, Python
from raftsched.worker.tasks.in_process import PREFIX, Handler, InProcessRunner
from tests.support.clock import ManualClock
from tests.support.patience import within


async def noop() -> None:
    pass


async def puts_off() -> None:
    raise raftsched.Snooze("10m", "busy")


async def fails() -> None:
    raise RuntimeError("A" * 5_000)


async def not_a_number() -> float:
    return float("nan")


async def forgets_to_wait() -> object:
    return noop()


def blocking(clock: ManualClock, end: Exception | None) -> Handler:
    async def blocks() -> str:
        clock.forward(60_001)
        if end is not None:
            raise end
        return "done"

    return blocks


async def run(task: Python, clock: Clock | None = None, **more: Handler) -> RunEnd:
    clock = clock or SystemClock()
    functions = {"noop": noop, "puts-off": puts_off, "fails": fails, "nan": not_a_number, "lazy": forgets_to_wait}
    functions |= more
    inside = InProcessRunner(create_autospec(Runs, instance=True), functions, clock)
    ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
    inside.on_ended = lambda token, end: ended.set_result(end)
    inside.set_lease(1, clock.boot_ms() + 600_000)
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


def test_what_it_raised_comes_first() -> None:
    end = asyncio.run(run(Python(f"{PREFIX}fails", b"{}", {})))
    assert end.error is not None
    assert end.error.startswith("RuntimeError: AAAAA")
    assert end.error.endswith('in fails\n    raise RuntimeError("A" * 5_000)')
    end = asyncio.run(run(Python(f"{PREFIX}fails", b'{"no":1}', {})))
    assert end.error is not None
    assert end.error.startswith("TypeError: fails() got an unexpected keyword argument 'no'")


def test_what_it_returns_is_a_result_or_none() -> None:
    end = asyncio.run(run(Python(f"{PREFIX}nan", b"{}", {})))
    assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
    assert end.error is not None
    assert end.error.startswith("the result was dropped: it holds NaN")
    end = asyncio.run(run(Python(f"{PREFIX}lazy", b"{}", {})))
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.startswith("the function returned a coroutine that was not awaited")


@pytest.mark.parametrize("end", [None, ValueError("late"), raftsched.Snooze("10m")])
def test_one_that_blocks_the_loop_beyond_its_timeout_has_timed_out(end: Exception | None) -> None:
    clock = ManualClock(1)
    found = asyncio.run(run(Python(f"{PREFIX}blocks", b"{}", {}), clock, blocks=blocking(clock, end)))
    assert (found.outcome, found.result) == (Outcome.TIMED_OUT, None)
    assert found.error == "timed out after 60 s: it blocked the event loop, and was over after 60.001 s"
