"""Handlers by name: functions that jobs call without saying where they are.

    import raftsched

    @raftsched.handler("send-invoice")
    def send_invoice(number: int) -> dict[str, str]: ...

A node that is started with `--handlers package.module` announces what that module registers, and jobs with the handler
{"call": "send-invoice"} run on such nodes only. The function is called like a python handler, in a supervised process,
with the params as keyword arguments; it may be a coroutine function. Nodes find it there by module and name, so it has
to be at the top of its module or class.

This imports next to nothing: whoever registers a handler pays for no more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from types import CodeType
from typing import Any, TypeVar

from raftsched import names

KINDS = ("exec", "shell", "python", "http")  # handlers that every node has
HANDLERS_MAX = 256  # of one node
CONCURRENCY_MAX = 250  # runs of one handler at a time in one process
ENTRY_POINTS = "raftsched.executors"  # the group in which packages announce theirs

_F = TypeVar("_F", bound=Callable[..., Any])

registered: dict[str, Callable[..., Any]] = {}  # by name: of the modules that this process imported
concurrent: dict[str, int] = {}  # by "package.module:function": how many runs one process takes, where it is not one


def handler(name: str, *, concurrency: int = 1) -> Callable[[_F], _F]:
    """Registers a function under a name, and leaves it as it is. `concurrency`: how many of its runs one process takes
    at a time, 1 to 250; more than one takes a coroutine function, and gives up what docs/processes.md lists. ValueError
    for a bad name, one that another function has, or a function that cannot be found by its module and name, or whose
    body a call would not run."""
    wrong = handler_name_error(name)
    if wrong is None and not (type(concurrency) is int and 1 <= concurrency <= CONCURRENCY_MAX):
        wrong = f"concurrency is a whole number from 1 to {CONCURRENCY_MAX}, not {concurrency!r}"
    if wrong is not None:
        raise ValueError(f"handler {name!r}: {wrong}")

    def register(function: _F) -> _F:
        where = reference(function)
        why = body_error(function)
        if why is not None:
            raise ValueError(f"handler {name!r}: {where} {why}")
        if concurrency > 1 and not _flags(function) & _CO_COROUTINE:
            raise ValueError(f"handler {name!r}: {where} is no coroutine function (async def); its concurrency is 1")
        before = registered.get(name)
        if before is not None and is_program_of(function, before):
            return function
        if before is not None and reference(before) != where and not is_program_of(before, function):
            raise ValueError(f"handler {name!r}: {reference(before)} has this name already; give {where} another one")
        registered[name] = function
        if concurrency > 1:
            concurrent[where] = concurrency
        return function

    return register


# of a run that has its process not for itself
variables: ContextVar[Mapping[str, str] | None] = ContextVar("variables", default=None)


def run_variables() -> Mapping[str, str]:
    """Returns the variables of the run that calls this: RAFTSCHED_INSTANCE_ID, RAFTSCHED_FENCING_TOKEN, ...
    (docs/runs.md), and the job's own environment. They are those of the process, but for handlers that run in the
    node's own, or with others of their kind in one."""
    return variables.get() or os.environ


def handler_name_error(name: str) -> str | None:
    """Returns what is wrong and what would be right; None when the name is allowed."""
    if names.HANDLER.allows(name):
        return None
    return f"a name has {names.HANDLER.rule}, like {names.HANDLER.example}"


# As in inspect, which takes longer to import than all of this.
_CO_GENERATOR, _CO_COROUTINE, _CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200


def body_error(function: Callable[..., Any]) -> str | None:
    """Returns why a call of this function would run nothing of its body; None: it would run it."""
    flags = _flags(function)
    if flags & (_CO_GENERATOR | _CO_ASYNC_GENERATOR):
        kind = "a generator function" if flags & _CO_GENERATOR else "an async generator function"
        return f"is {kind}: a call would not run its body, which has a yield; take it out, or call it from a function"
    return None


def _flags(function: Callable[..., Any]) -> int:
    """Returns what the code of its body is marked with."""
    if isinstance(function, partial):
        return _flags(function.func)
    called = function if hasattr(function, "__code__") else type(function).__call__
    code = getattr(called, "__code__", None)
    return code.co_flags if isinstance(code, CodeType) else 0


def is_program_of(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Returns whether one is the other, of a file that runs as the program and is imported by its name, too."""
    if one.__module__ != "__main__" or other.__module__ == "__main__" or one.__qualname__ != other.__qualname__:
        return False
    files = [getattr(sys.modules.get(function.__module__), "__file__", None) for function in (one, other)]
    return None not in files and len({os.path.abspath(str(file)) for file in files}) == 1


def reference(function: Callable[..., Any]) -> str:
    """Returns the function as "package.module:name". Raises ValueError for one that is made inside of another, has no
    name, or is a method of an object."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ValueError(
            f"{name or function!r} cannot be found by other processes; define it at the top of a module, with def"
        )
    if _is_method(function, name):
        raise ValueError(
            f"{name} is a method of an object, which no run has; make it a function of the module, or a @staticmethod"
        )
    return f"{module}:{name}"


def _is_method(function: Callable[..., Any], name: str) -> bool:
    """Returns whether a call by its class would lack the object."""
    if "." not in name:
        return False
    bound = getattr(function, "__self__", None)
    if bound is not None:
        return not isinstance(bound, type)
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and code.co_argcount > 0 and code.co_varnames[0] == "self"
