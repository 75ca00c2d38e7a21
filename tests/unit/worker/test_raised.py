"""Exceptions of functions, in the errors of their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raftsched.error_texts import telling_line
from raftsched.worker.executors.raised import described, error_of
from raftsched.worker.processes import wire


def raised(act: Callable[[], Any]) -> BaseException:
    try:
        act()
    except BaseException as exc:
        return exc
    raise AssertionError("nothing was raised")


def fails(message: str = "the reason") -> None:
    raise RuntimeError(message)


def deep(levels: int, message: str) -> None:
    if levels:
        level_of_another(levels, message)
    fails(message)


def level_of_another(levels: int, message: str) -> None:
    deep(levels - 1, message)


def chained() -> None:
    try:
        fails("é" * 2_000)
    except RuntimeError as exc:
        raise ValueError("b" * 2_000) from exc


def test_a_short_one_is_the_traceback() -> None:
    exc = raised(fails)
    assert error_of(exc, ()) == described(exc).rstrip()
    assert error_of(exc, ()).startswith("Traceback (most recent call last):\n")
    assert error_of(exc, ()).endswith("RuntimeError: the reason")
    assert error_of(exc, (), "probably for limits.memory").endswith("the reason\nprobably for limits.memory")


@pytest.mark.parametrize(
    ("act", "begins", "frame"),
    [
        (lambda: fails("A" * 5_000), "RuntimeError: AAAAAA", "in fails\n    raise RuntimeError(message)"),
        (
            lambda: fails("select\n" + "é" * 5_000),
            "RuntimeError: select\néé",
            "in fails\n    raise RuntimeError(message)",
        ),
        (lambda: deep(20, "why"), "RuntimeError: why\n", "in fails\n    raise RuntimeError(message)"),
        (chained, "ValueError: bbbbb", "in chained\n    raise ValueError"),
        (lambda: compile("x = (" + "y" * 2_000, "job.py", "exec"), "SyntaxError: '(' was never closed", "in "),
    ],
)
def test_a_long_one_says_what_was_raised_and_where(act: Callable[[], Any], begins: str, frame: str) -> None:
    exc = raised(act)
    error = error_of(exc, ())
    assert len(error.encode()) <= wire.ERROR_MAX
    assert error.startswith(begins)
    assert frame in error
    assert telling_line(error).startswith(begins.partition("\n")[0])


def test_its_note_stays() -> None:
    assert error_of(raised(lambda: deep(20, "A" * 5_000)), (), "probably for limits.memory").endswith(
        "\nprobably for limits.memory"
    )


def test_a_secret_is_hidden_before_it_is_cut() -> None:
    secret = "hush" * 100
    error = error_of(raised(lambda: fails("A" * 300 + secret + "B" * 5_000)), (secret,))
    assert "hush" not in error
    assert "A***B" in error


def test_frames_of_ours_are_left_out() -> None:
    from raftsched.worker.executors.functions import Functions, Refused
    from tests.support.clock import ManualClock

    exc = raised(lambda: Functions([], ManualClock(1)).load("a_module_that_is_not_there:f"))
    assert not isinstance(exc, Refused)
    exc.__traceback__ = exc.__traceback__.tb_next.tb_next  # type: ignore[union-attr]  # of this test
    assert described(exc) == "ModuleNotFoundError: No module named 'a_module_that_is_not_there'\n"
