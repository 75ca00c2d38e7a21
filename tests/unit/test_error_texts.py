"""The line of an error that says what happened."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from raftsched.error_texts import telling_line


def raised(act: Callable[[], object]) -> str:
    try:
        act()
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("nothing was raised")


def chained() -> None:
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second\nin two lines") from None


def during() -> None:
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")  # noqa: B904 - the chain is what is looked at


def group() -> None:
    try:
        during()
    except ValueError as error:
        raise ExceptionGroup("both", [error, OSError("no disk")]) from None


def endless() -> None:
    endless()


def fails(message: str) -> None:
    raise AssertionError(message)


TRACE = raised(during)


CASES = [
    ("", ""),
    (" \n\n", ""),
    ("timed out after 5 s\nit did not end when it was cancelled", "timed out after 5 s"),
    ("\nHTTP 500 Internal Server Error\n<html>\n</html>", "HTTP 500 Internal Server Error"),
    (f"HTTP 500 Internal Server Error\n{TRACE}", "HTTP 500 Internal Server Error"),
    (raised(chained), "ValueError: second"),
    (TRACE, "ValueError: second"),
    (f"part 3: {TRACE}", "part 3: ValueError: second"),
    (raised(group), "ExceptionGroup: both (2 sub-exceptions)"),
    (raised(lambda: compile("x = (", "job.py", "exec")), "SyntaxError: '(' was never closed"),
    (raised(endless), "RecursionError: maximum recursion depth exceeded"),
    (f"{TRACE}probably for limits.memory, 64 MiB", "ValueError: second"),
    ("Traceback (most recent call last):\n", "Traceback (most recent call last):"),
    ('RuntimeError: AAAA ...\n  File "job.py", line 1, in run\n    raise', "RuntimeError: AAAA ..."),
    ("exit code 3", "exit code 3"),
    ("exit code 3\none\n\n  two: no such file \n", "exit code 3: two: no such file"),
    ("part 2: exit code 3\ntwo", "part 2: exit code 3: two"),
    ("killed by SIGSEGV\ncore", "killed by SIGSEGV: core"),
    (f"exit code 1\nstarting\n{TRACE}make: *** [all] Error 1", "exit code 1: ValueError: second"),
    ("exit code 1\n\x1b[31mno such file\x1b[0m\n\x1b[0m", "exit code 1: no such file"),
    (raised(lambda: fails("\n  Not equal\nx: 1")), "AssertionError: Not equal"),
    (raised(lambda: fails(":")), "AssertionError: :"),
    (
        "exit code 1: probably for limits.memory, 64 MiB\nMemoryError",
        "exit code 1: probably for limits.memory, 64 MiB",
    ),
    (
        "the process ended before the function returned: exit code 9\nbye",
        "the process ended before the function returned: exit code 9: bye",
    ),
    ("the exit code 3 is none of ours\nsaid the run", "the exit code 3 is none of ours"),
]


@pytest.mark.parametrize("error, line", CASES)
def test_what_happened(error: str, line: str) -> None:
    assert telling_line(error) == line
