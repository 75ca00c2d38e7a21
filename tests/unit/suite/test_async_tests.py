"""A test that is a coroutine fails where what it awaits fails, and runs in the loop of its fixtures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.async_tests import entered, pytest_pyfunc_call

left: list[asyncio.AbstractEventLoop] = []


@asynccontextmanager
async def a_loop() -> AsyncIterator[asyncio.AbstractEventLoop]:
    yield asyncio.get_running_loop()
    left.append(asyncio.get_running_loop())


@pytest.fixture
def loop(asyncio_runner: asyncio.Runner) -> Iterator[asyncio.AbstractEventLoop]:
    with entered(asyncio_runner, a_loop()) as found:
        yield found
    assert left.pop() is found


async def test_the_loop_is_that_of_its_fixtures(loop: asyncio.AbstractEventLoop) -> None:
    assert asyncio.get_running_loop() is loop


@pytest.mark.parametrize("with_fixtures", [False, True])
def test_what_fails_in_it_fails_it(with_fixtures: bool) -> None:
    async def fails(number: int) -> None:
        await asyncio.sleep(0)
        assert number == 1

    with asyncio.Runner() as runner:
        fixtures: dict[str, Any] = {"asyncio_runner": runner} if with_fixtures else {}
        item: Any = SimpleNamespace(obj=fails, funcargs={"number": 2, **fixtures})
        with pytest.raises(AssertionError):
            pytest_pyfunc_call(item)


def test_all_others_are_left_to_pytest() -> None:
    item: Any = SimpleNamespace(obj=test_all_others_are_left_to_pytest)
    assert pytest_pyfunc_call(item) is None
