"""Returned values of functions: a result as JSON, or work that nobody did."""

from __future__ import annotations

import itertools
import math
import types
from typing import Any

import msgspec

from raftsched.system.nesting import DEPTH_MAX, json_nests_deeper

RESULT_MAX = 8 * 1024  # bytes of JSON
DROPPED = "the result was dropped"  # as core.rules.results has it, which the processes of runs do not load
PLAIN = frozenset({types.NoneType, bool, int, float, str, bytes, list, tuple, dict})  # types of values as they are
_HOLDERS = frozenset({list, tuple, set, frozenset})
WITHIN_MAX = 10_000  # values that are looked at in one which is no JSON
_LAZY = (
    *(map, filter, itertools.starmap, itertools.accumulate, itertools.filterfalse),
    *(itertools.takewhile, itertools.dropwhile),
)


class NotRun(Exception):
    """The function returned work instead of doing it; the text says what to do."""


def check_run(value: Any) -> None:
    """Raises NotRun for a returned value that is work which was not begun: nothing reads or awaits it any more."""
    kind = type(value)
    if kind in PLAIN:
        return
    name = kind.__name__
    if kind is types.GeneratorType:
        if value.gi_frame is not None and not value.gi_suspended:
            raise NotRun(_unread("a generator"))
    elif kind is types.AsyncGeneratorType:
        if value.ag_frame is not None:
            raise NotRun(_unread("an async generator"))
    elif kind is types.CoroutineType:
        if value.cr_frame is not None:
            value.close()  # else the interpreter warns of it
            raise NotRun(_unawaited("a coroutine"))
    elif hasattr(kind, "__await__"):
        if not _is_done(value):
            raise NotRun(_unawaited(f"an awaitable, {name},"))
    elif issubclass(kind, _LAZY):
        raise NotRun(_unread(f'a "{name}"'))


def _unread(what: str) -> str:
    return (
        f"the function returned {what} of which nothing was read, so what it is to do was not done; read it to its"
        " end, and return a list, or nothing"
    )


def _unawaited(what: str) -> str:
    return (
        f"the function returned {what} that was not awaited, so what it is to do was not done; make it a coroutine"
        " function (async def), and await it there"
    )


def _is_done(value: Any) -> bool:
    """Returns whether it is a future that came to its end, and was not cancelled."""
    try:
        return value.done() is True and value.cancelled() is not True
    except Exception:  # it is no future
        return False


def encode_result(value: Any) -> tuple[bytes | None, str | None]:
    """Returns (JSON, None), or (None, why there is none): the run did its work and is not failed for it. Raises NotRun
    for a value that holds work which was not begun."""
    if value is None:
        return None, None
    try:
        raw = msgspec.json.encode(value)
        finite = b"null" not in raw or len(raw) > RESULT_MAX or _is_finite(msgspec.to_builtins(value))
    except Exception as exc:  # a value's own methods may raise anything
        _check_within(value)
        return None, f"{DROPPED}: it cannot be written as JSON ({_words(exc)})"
    if not finite:
        return None, f"{DROPPED}: it holds NaN or Infinity, which JSON does not have; return null or a text for it"
    if len(raw) > RESULT_MAX:
        return None, f"{DROPPED}: {len(raw)} bytes of JSON, the limit is {RESULT_MAX}"
    if json_nests_deeper(raw):
        return None, f"{DROPPED}: it nests deeper than {DEPTH_MAX} levels"
    return raw, None


def _check_within(value: Any) -> None:
    """Raises NotRun for lists and objects that hold what check_run refuses, such as a list of coroutines."""
    waiting = [value]
    for _ in range(WITHIN_MAX):
        if not waiting:
            return
        one = waiting.pop()
        if type(one) is dict:
            waiting += one.values()
        elif type(one) in _HOLDERS:
            waiting += one
        else:
            check_run(one)


def _words(exc: Exception) -> str:
    try:
        return str(exc)
    except Exception:
        return type(exc).__name__


def _is_finite(value: Any) -> bool:
    """Returns whether all numbers of it can be written. JSON would have null for the others."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float):
            if not math.isfinite(one):
                return False
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
    return True
