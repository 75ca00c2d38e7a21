"""The decorator of handlers by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

import raftsched
from raftsched import handlers


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = dict(handlers.registered)
    yield
    handlers.registered.clear()
    handlers.registered.update(before)


def one() -> None: ...


def two() -> None: ...


class Mail:
    @staticmethod
    def send() -> None: ...


def test_a_function_is_registered_and_left_as_it_is() -> None:
    assert raftsched.handler("a-name.of_1")(one) is one
    assert raftsched.handler("mail")(Mail.send) is Mail.send
    assert handlers.registered["a-name.of_1"] is one
    assert handlers.reference(Mail.send) == f"{__name__}:Mail.send"


def test_the_same_function_may_register_again_and_another_may_not() -> None:
    raftsched.handler("mine")(one)
    raftsched.handler("mine")(one)
    with pytest.raises(ValueError, match=r"one has this name already; give .*two another one"):
        raftsched.handler("mine")(two)
    assert handlers.registered["mine"] is one


@pytest.mark.parametrize("name", ["", "A", "a b", "a/b", "é", "x" * 129])
def test_names(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 128 characters"):
        raftsched.handler(name)


def counts() -> Iterator[int]:
    yield 1


async def counts_later() -> AsyncIterator[int]:
    yield 1


async def later() -> None: ...


class Counter:
    def __call__(self) -> Iterator[int]:
        yield 1

    def count(self) -> Iterator[int]:
        yield 1


def test_a_function_whose_body_a_call_would_not_run() -> None:
    for function, words in ((counts, "counts is a generator"), (counts_later, "counts_later is an async generator")):
        with pytest.raises(ValueError, match=f"{words} function: a call would not run its body"):
            raftsched.handler("a")(function)
    assert "a" not in handlers.registered
    for odd in (partial(counts), Counter(), Counter().count):
        assert "is a generator function" in (handlers.body_error(odd) or "")


class Post:
    def send(self, number: int) -> int:
        return number

    @staticmethod
    def stamp(number: int) -> int:
        return number

    @classmethod
    def collect(cls, number: int) -> int:
        return number


@pytest.mark.parametrize("method", [Post.send, Post().send])
def test_a_method_of_an_object_is_no_handler(method: Callable[..., Any]) -> None:
    """A run would find the function of the class, and have no object for it."""
    with pytest.raises(ValueError, match=r"Post\.send is a method of an object.*@staticmethod"):
        raftsched.handler("a")(method)
    assert "a" not in handlers.registered


@pytest.mark.parametrize("function", [Post.stamp, Post.collect])
def test_a_function_of_a_class_is_a_handler(function: Callable[..., Any]) -> None:
    assert handlers.reference(raftsched.handler("a")(function)) == f"{__name__}:{function.__qualname__}"


@pytest.mark.parametrize("function", [one, later, partial(one), Mail, Mail.send, print, contextmanager(counts), Mock()])
def test_a_function_whose_body_a_call_runs(function: Callable[..., Any]) -> None:
    assert handlers.body_error(function) is None


def test_what_other_processes_could_not_find() -> None:
    def inner() -> None: ...

    for function in (inner, lambda: None):
        with pytest.raises(ValueError, match="at the top of a module"):
            raftsched.handler("a")(function)
    assert "a" not in handlers.registered


def test_how_many_runs_of_a_coroutine_function_a_process_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "registered", {})
    monkeypatch.setattr(handlers, "concurrent", {})
    assert raftsched.handler("a", concurrency=handlers.CONCURRENCY_MAX)(later) is later
    raftsched.handler("b", concurrency=1)(one)
    assert handlers.concurrent == {handlers.reference(later): handlers.CONCURRENCY_MAX}
    with pytest.raises(ValueError, match="Mail is no coroutine function"):
        raftsched.handler("c", concurrency=2)(Mail)
    for wrong in (0, handlers.CONCURRENCY_MAX + 1, -1, True, 2.0, "2"):
        with pytest.raises(ValueError, match="a whole number from 1 to 250"):
            raftsched.handler("d", concurrency=wrong)  # type: ignore[arg-type]
    assert set(handlers.registered) == {"a", "b"}
