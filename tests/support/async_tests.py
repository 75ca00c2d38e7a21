"""A pytest plugin for tests that are coroutines: each has an event loop of its own, which its fixtures share.

A fixture that needs the loop takes `asyncio_runner` and enters what is asynchronous by `entered`:

    @pytest.fixture
    def call(tmp_path: Path, asyncio_runner: asyncio.Runner) -> Iterator[Client]:
        with entered(asyncio_runner, one_node(tmp_path)) as client:
            yield client
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

import pytest

from tests.support.jumping import jumping_loop

T = TypeVar("T")


@pytest.fixture
def asyncio_runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """The event loop of a test and of its fixtures. What the test patches stays so until they have ended."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def jumping_runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """The same, with a clock that jumps."""
    with asyncio.Runner(loop_factory=jumping_loop) as runner:
        yield runner


@contextmanager
def entered(runner: asyncio.Runner, context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enters the context in the loop of the test, and leaves it there."""

    async def enter() -> T:
        return await context.__aenter__()

    async def leave() -> None:
        await context.__aexit__(None, None, None)

    value = runner.run(enter())
    try:
        yield value
    finally:
        runner.run(leave())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine. Returns True then, and None for all others, which pytest runs itself."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    runner = next((found for found in pyfuncitem.funcargs.values() if isinstance(found, asyncio.Runner)), None)
    run = asyncio.run if runner is None else runner.run
    run(test(**given))
    return True
