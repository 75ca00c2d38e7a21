"""Finds the functions of python runs once in each process, and the files that their modules came from.

A process whose modules are no longer those on the disk must not run anything more. Watched are the files of all modules
below the import path that the node was given (--pythonpath, PYTHONPATH), of those that belong to the package of a
function, and of the functions' own modules; not the standard library, and not raftsched.
"""

from __future__ import annotations

import contextvars
import decimal
import importlib
import json
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from raftsched.handlers import body_error
from raftsched.system.clock import Clock
from raftsched.worker.executors.interpreter import Values
from raftsched.worker.executors.parameters import builder_of
from raftsched.worker.executors.returned import PLAIN, check_run
from raftsched.worker.processes.linux import become_subreaper

FEW = 4  # so many files are looked at before each run
LOOK_EVERY_S = 0.000_5  # for each file, where there are more: at most a hundredth of the time goes into looking
_UNSURE_MS = 10  # the clock of a file system ticks as seldom as that

Signature = tuple[int, int, int]  # modification time (ns), size, inode
_GONE: Signature = (-1, -1, -1)
_UNSURE: Signature = (-2, -2, -2)  # written while it was imported: nobody knows which of the two was read


class Refused(Exception):
    """The function could not be called; the text says why."""


class Changed(Exception):
    """A module's file is not the one that was imported."""


class Function:
    """A function with the state of the interpreter that its module made for it while it was imported."""

    def __init__(self, target: Callable[..., Any], values: Values | None, context: contextvars.Context) -> None:
        """`values`: None, unless they are others than usual."""
        self.target = target
        self._build = builder_of(target)
        self._values = values
        self._context = context
        self._decimal: decimal.Context | None = None
        if len(context):
            self._decimal = context.copy().run(decimal.getcontext).copy()

    def call(self, params: dict[str, Any]) -> Any:
        """Calls the function and returns its value, a coroutine run to its end. Context variables and the decimal
        context are the call's own. Raises NotRun, and whatever the function raises."""
        if self._values is not None:
            self._values.put_back()
        return self._context.copy().run(self._call, params)

    def context(self, enter: Callable[[], object]) -> contextvars.Context:
        """Returns a context for one run of it, in which `enter` was called."""
        context = self._context.copy()
        if self._decimal is not None:
            context.run(decimal.setcontext, self._decimal.copy())
        context.run(enter)
        return context

    def arguments(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns what the function is called with. Raises run.Fail where params do not fit."""
        return params if self._build is None else self._build(params)

    def _call(self, params: dict[str, Any]) -> Any:
        if self._decimal is not None:
            decimal.setcontext(self._decimal.copy())
        value = self.target(**self.arguments(params))
        if type(value) in PLAIN:
            return value
        if isinstance(value, types.CoroutineType):
            import asyncio

            with asyncio.Runner() as runner:
                value = runner.run(value)
                check_run(value)  # before the loop is closed: that cancels tasks, which are done then
            return value
        check_run(value)
        return value


class Functions:
    """`pythonpath`: directories below which all modules are watched. `first`: modules that are imported before the
    first function's."""

    def __init__(self, pythonpath: Sequence[str], clock: Clock, first: Sequence[str] = ()) -> None:
        self._roots = tuple(path.rstrip(os.sep) + os.sep for path in _absolute(pythonpath))
        self._clock = clock
        self._first = first
        self._known: dict[str, Function] = {}
        self.usual = Values()  # between runs
        self._before = frozenset(sys.modules)  # of raftsched and what it needs: they are not jobs' code
        self._packages: set[str] = set()
        self._own: set[str] = set()  # modules of functions
        self._files: dict[str, Signature] = {}
        self._seen: dict[str, types.ModuleType | None] = {}
        self._look_at = 0.0

    def known(self, name: str) -> Function | None:
        """Raises Changed."""
        if self._files and self._changed():
            raise Changed
        return self._known.get(name)

    def load(self, name: str, allowed: tuple[str, ...] | None = None) -> Function:
        """Imports its module. `allowed`: patterns of what this node calls. Raises Refused, and whatever the module
        raises."""
        module_name, colon, path = name.partition(":")
        if not colon or not module_name or not path:
            raise Refused(f'{name!r} names no function; write "package.module:function"')
        importlib.invalidate_caches()
        context = contextvars.Context()
        for one in self._first:
            context.run(importlib.import_module, one)
        module = context.run(importlib.import_module, module_name)
        target: Any = module
        for part in path.split("."):
            try:
                target = getattr(target, part)
            except AttributeError:
                raise Refused(f"module {module_name!r} has no {path!r}") from None
        if not callable(target):
            raise Refused(f"{name!r} is a {type(target).__name__}, not a function")
        why = body_error(target)
        if why is not None:
            raise Refused(f"{name!r} {why}")
        if allowed is not None:
            from raftsched.core.rules.allowed import function_error

            module_of = getattr(target, "__module__", None)
            wrong = function_error(allowed, name, module_of if isinstance(module_of, str) else None)
            if wrong is not None:
                raise Refused(f"this node {wrong}")
        if module_name not in self._own:
            self._own.add(module_name)
            self._packages.add(module_name.partition(".")[0])
            self._seen.clear()
        values = Values()
        found = self._known[name] = Function(target, values if values != self.usual else None, context)
        return found

    def note_new_modules(self, since_ms: int) -> None:
        """Notes the files of the modules that were imported since this time (UTC ms)."""
        if len(sys.modules) == len(self._seen):
            return
        for name, module in list(sys.modules.items()):
            if self._seen.get(name, self) is module:
                continue
            self._seen[name] = module
            path = self._watched(name, module)
            if path is not None and path not in self._files:
                found = _signature(path)
                written_ms = found[0] // 1_000_000
                unsure = since_ms - _UNSURE_MS <= written_ms <= self._clock.wall_ms()
                self._files[path] = _UNSURE if unsure else found

    def _watched(self, name: str, module: object) -> str | None:
        """The file it came from, when that is to be watched."""
        path = getattr(getattr(module, "__loader__", None), "archive", None) or getattr(module, "__file__", None)
        if not isinstance(path, str):
            return None
        package = name.partition(".")[0]
        if name not in self._own:
            if name in self._before or package == "raftsched" or package in sys.stdlib_module_names:
                return None
            if package not in self._packages and not path.startswith(self._roots):
                return None
        return path if os.path.isfile(path) else None

    def _changed(self) -> bool:
        count = len(self._files)
        if count > FEW:
            now = self._clock.monotonic()
            if now < self._look_at:
                return False
            self._look_at = now + count * LOOK_EVERY_S
        return any(_signature(path) != found for path, found in self._files.items())


def begin(pythonpath: Sequence[str], clock: Clock, first: Sequence[str]) -> Functions:
    """Makes this process one that calls functions. `first`: as Functions has it."""
    become_subreaper()  # so that "I have no children" means that no run left any process
    sys.path[:0] = pythonpath
    sys.argv = ["raftsched-python"]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return Functions([*pythonpath, *filter(None, given)], clock, first)


def params_of(raw: bytes) -> dict[str, Any]:
    """Returns the keyword arguments of a run. Raises Refused."""
    params = json.loads(raw) if raw not in (b"", b"{}") else {}
    if not isinstance(params, dict):
        raise Refused("params of a python handler are keyword arguments, so they have to be a JSON object")
    return params


def _absolute(paths: Sequence[str]) -> list[str]:
    try:
        return [os.path.abspath(path) for path in paths]
    except OSError:  # the directory they start from is gone, and with it what is below
        return [path for path in paths if os.path.isabs(path)]


def _signature(path: str) -> Signature:
    try:
        found = os.stat(path)
    except OSError:
        return _GONE
    return found.st_mtime_ns, found.st_size, found.st_ino
