"""Functions that an asyncio program gives to jobs, by name: of raftsched.Node and raftsched.Worker."""

from __future__ import annotations

import inspect
import site
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from raftsched import handlers
from raftsched.errors import StartupError

_F = TypeVar("_F", bound=Callable[..., Any])


class Functions:
    """Those that run in other processes, and those that run `inside` of this one."""

    def __init__(self) -> None:
        self._others: dict[str, Callable[..., Any]] = {}
        self.inside: dict[str, Callable[..., Any]] = {}

    def register(self, name: str, *, in_process: bool) -> Callable[[_F], _F]:
        """Returns a decorator that leaves the function as it is. ValueError for a bad name, one that is taken, or a
        function that cannot be one."""
        wrong = handlers.handler_name_error(name)
        if wrong is not None:
            raise ValueError(f"handler {name!r}: {wrong}")

        def register(function: _F) -> _F:
            if name in self.inside and (not in_process or self.inside[name] is not function):
                raise ValueError(f"handler {name!r} is {self.inside[name]!r} already; give {function!r} another name")
            why = handlers.body_error(function)
            if why is not None:
                raise ValueError(f"handler {name!r}: {function!r} {why}")
            if in_process:
                if name in self._others:
                    raise ValueError(f"handler {name!r} is one that runs in other processes; give this another name")
                if not inspect.iscoroutinefunction(function):
                    raise ValueError(
                        f"handler {name!r}: what runs in this process has to be a coroutine function (async def): "
                        "another one could not be ended"
                    )
                self.inside[name] = function
                return function
            try:
                where = handlers.reference(function)
            except ValueError as error:
                raise ValueError(f"handler {name!r}: {error}") from None
            if where.startswith("__main__:"):
                raise ValueError(
                    f"handler {name!r}: {where} is in the program's main script, which other processes cannot import;"
                    " put the function into a module of its own"
                )
            before = self._others.get(name)
            if before is not None and handlers.reference(before) != where:
                raise ValueError(f"handler {name!r} is {handlers.reference(before)} already; give {where} another name")
            self._others[name] = function
            return function

        return register

    def names(self) -> set[str]:
        """Returns the names of all."""
        return {*self._others, *self.inside}

    def calls(self) -> dict[str, str]:
        """Returns those of other processes as "package.module:function". Raises StartupError."""
        calls = {name: handlers.reference(function) for name, function in self._others.items()}
        for name, where in calls.items():
            module, _, path = where.partition(":")
            target: Any = sys.modules.get(module)
            for part in path.split("."):
                target = getattr(target, part, None)
            if target is None or inspect.unwrap(target) is not inspect.unwrap(self._others[name]):
                raise StartupError(
                    f"handler {name!r}: what other processes find as {where} is not the function that was given; it has"
                    " to be at the top of its module, under its own name, and no method of an object"
                )
        return calls


def import_path() -> list[Path]:
    """Returns the places where this program finds modules that other processes of this Python would not find: the
    directory of its script, and what was added to sys.path."""
    installed = {Path(path).resolve() for path in (*site.getsitepackages(), site.getusersitepackages())}
    python = Path(sysconfig.get_path("stdlib")).resolve()
    found = [Path(path).absolute() for path in sys.path]
    return [
        path
        for path in dict.fromkeys(found)
        if path.is_dir() and path.resolve() not in installed and not path.resolve().is_relative_to(python)
    ]
