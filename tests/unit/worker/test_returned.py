"""What functions return: results, and work that nobody did."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest

from raftsched.core.rules import results
from raftsched.worker.executors.functions import Function
from raftsched.worker.executors.returned import DROPPED, RESULT_MAX, NotRun, check_run, encode_result


def counts() -> Iterator[int]:
    yield 1
    yield 2


async def counts_later() -> AsyncIterator[int]:
    yield 1


async def later() -> int:
    return 1


class Lazy:
    def __await__(self) -> Generator[Any, None, int]:
        return later().__await__()


async def waits() -> Awaitable[int]:
    task = asyncio.create_task(later())
    await task
    return task


def read() -> Iterator[int]:
    found = counts()
    assert list(found) == [1, 2]
    return found


def begun() -> Iterator[int]:
    found = counts()
    next(found)
    return found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (counts, "returned a generator of which nothing was read"),
        (counts_later, "returned an async generator of which nothing was read"),
        (later, "returned a coroutine that was not awaited"),
        (Lazy, "returned an awaitable, Lazy, that was not awaited"),
        (lambda: map(print, "ab"), 'returned a "map" of which nothing was read'),
        (lambda: filter(print, "ab"), 'returned a "filter" of which nothing was read'),
        (lambda: itertools.starmap(print, ["a"]), 'returned a "starmap" of which nothing was read'),
    ],
)
def test_work_that_was_not_done(make: Callable[[], Any], words: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotRun, match=words):
            check_run(make())


async def leaves_behind() -> Any:
    return asyncio.create_task(asyncio.sleep(60))


async def leaves_several_behind() -> Any:
    return asyncio.gather(asyncio.sleep(60), later())


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize("function", [leaves_behind, leaves_several_behind])
def test_tasks_that_end_with_their_loop_were_not_done(function: Callable[[], Any]) -> None:
    with pytest.raises(NotRun, match="that was not awaited"):
        Function(function, None, contextvars.Context()).call({})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: [later()], "returned a coroutine that was not awaited"),
        (lambda: {"a": [1, (later(),)]}, "returned a coroutine that was not awaited"),
        (lambda: {"rows": counts()}, "returned a generator of which nothing was read"),
        (lambda: [asyncio.run(leaves_behind())], "that was not awaited"),
    ],
)
def test_work_that_was_not_done_is_found_within_a_result(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(NotRun, match=words):
        encode_result(make())


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: None, lambda: {"a": 1}, lambda: [1], lambda: range(3), lambda: iter([1]), lambda: zip("a")),
        *(lambda: asyncio.run(waits()), read, begun, object),
    ],
)
def test_values(make: Callable[[], Any]) -> None:
    check_run(make())


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (None, None),
        ({"a": None, "b": [1.5, "null"]}, b'{"a":null,"b":[1.5,"null"]}'),
        ("null", b'"null"'),
        ("x" * (RESULT_MAX - 2), b'"' + b"x" * (RESULT_MAX - 2) + b'"'),
    ],
)
def test_a_result_is_json(value: Any, raw: bytes | None) -> None:
    assert encode_result(value) == (raw, None)


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError


class Raises:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise Odd


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "it holds NaN or Infinity, which JSON does not have; return null or a text for it"),
        ({"a": [None, {"b": (1, float("inf"))}]}, "it holds NaN or Infinity"),
        ([float("-inf")], "it holds NaN or Infinity"),
        ([None] * RESULT_MAX, f"{5 * RESULT_MAX + 1} bytes of JSON, the limit is {RESULT_MAX}"),
        (object(), "it cannot be written as JSON"),
        (Raises(), "it cannot be written as JSON"),
        ([asyncio.run(waits()), object()], "it cannot be written as JSON"),
        (circle(), "it cannot be written as JSON"),
    ],
)
def test_what_cannot_be_a_result_is_said(value: Any, why: str) -> None:
    raw, error = encode_result(value)
    assert raw is None
    assert error is not None
    assert error.startswith(f"{DROPPED}: {why}")


def test_what_was_dropped_is_found_by_its_words() -> None:
    assert DROPPED == results.DROPPED
