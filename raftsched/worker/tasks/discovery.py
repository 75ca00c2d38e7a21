"""Finds the handlers that a node can call by name: found by importing the modules in a process of its own, never in the
node.

That process is started as the supervisor is, so that what can be imported there can be imported by the processes that
run the jobs. It prints one JSON object and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

import raftsched
from raftsched import handlers
from raftsched.errors import StartupError
from raftsched.handlers import ENTRY_POINTS, HANDLERS_MAX

log = logging.getLogger("raftsched.node")

PATIENCE_S = 60.0  # for all of the imports
FOUND_MAX = 1 << 20  # bytes
_OURS = (__file__, handlers.__file__, importlib.__file__, metadata.__file__)
_MODULE = "raftsched.worker.tasks.discovery"
_NONE: Mapping[str, str] = MappingProxyType({})


class Found(msgspec.Struct):
    calls: dict[str, str] = {}  # name -> "package.module:function"
    concurrent: dict[str, int] = {}  # "package.module:function" -> runs at a time in one process, where it is not one
    wrong: list[str] = []  # of the modules that were named: the node does not start
    skipped: list[str] = []  # of installed packages: the node starts without them


async def discover(
    modules: Sequence[str],
    pythonpath: Sequence[Path],
    environ: dict[str, str],
    given: Mapping[str, str] = _NONE,
    *,
    first: Sequence[str] = (),
) -> Found:
    """Returns handlers by name, as "package.module:function": those that `modules` register, those `given` to the node
    as such, and those of installed packages. `environ`: what the processes of jobs see; `first`: modules that they
    import before all others. Raises StartupError when one of `modules`, `given` or `first` cannot be used."""
    if not modules and not given and not await asyncio.to_thread(_announced, pythonpath):
        return Found()
    root = str(Path(raftsched.__file__).parent.parent)
    env = {**environ, "PYTHONPATH": os.pathsep.join(p for p in (root, environ.get("PYTHONPATH")) if p)}
    argv = [sys.executable, "-P", "-m", _MODULE]
    for path in pythonpath:
        argv += ["--pythonpath", str(path)]
    for name in first:
        argv += ["--first", name]
    for name, where in given.items():
        argv += ["--call", f"{name}={where}"]
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, *modules, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, limit=FOUND_MAX
        )
    except OSError as error:
        raise StartupError(f"Cannot start a process that looks for handlers: {error.strerror}.") from None
    try:
        async with asyncio.timeout(PATIENCE_S):
            raw, _ = await child.communicate()
    except TimeoutError:
        raise StartupError(
            f"handlers {', '.join(modules)}: importing them takes more than {PATIENCE_S:.0f} s; a module that defines"
            " handlers must not do their work"
        ) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return _read(raw, [*modules, *given.values()])


def _read(raw: bytes, modules: Sequence[str]) -> Found:
    try:
        found = msgspec.json.decode(raw, type=Found)
    except (msgspec.DecodeError, ValueError):
        raise StartupError(
            f"handlers {', '.join(modules)}: the process that imports them ended without an answer; what it printed"
            " says more"
        ) from None
    if found.wrong:
        raise StartupError("; ".join(found.wrong))
    for why in found.skipped:
        log.warning("%s", why)
    if len(found.calls) > HANDLERS_MAX:
        raise StartupError(f"handlers: {len(found.calls)} names are registered; {HANDLERS_MAX} is the limit of a node")
    return found


def _announced(pythonpath: Iterable[Path]) -> bool:
    """Returns whether any package says that it has some."""
    for package in metadata.distributions(path=[*map(str, pythonpath), *sys.path]):
        if ENTRY_POINTS in (package.read_text("entry_points.txt") or ""):
            return True
    return False


# ---------------------------------------------------------------- in the process that imports


def import_all(modules: Sequence[str], given: Sequence[str] = (), first: Sequence[str] = ()) -> Found:
    """Imports what is named, and what installed packages announce. `given`: as name=package.module:function; `first`:
    modules that are imported before all others."""
    found = Found()
    for name in first:
        why = _failure(partial(importlib.import_module, name))
        if why is not None:
            found.wrong.append(f"python_first {name}: it cannot be imported ({why})")
            return found
    of_first = bool(handlers.registered)
    for item in given:
        name, _, where = item.partition("=")
        why = _failure(partial(_load, where))
        if why is None:
            found.calls[name] = where
        else:
            found.wrong.append(f"handler {name!r}: {where} cannot be imported ({why})")
    for name in modules:
        before = set(handlers.registered)
        why = _failure(partial(importlib.import_module, name))
        if why is not None:
            found.wrong.append(f"handlers {name}: it cannot be imported ({why})")
        elif set(handlers.registered) == before and not of_first and not _of_module(name):
            found.wrong.append(
                f'handlers {name}: it registers none; decorate functions with @raftsched.handler("name")'
            )
    mine, own = set(handlers.registered), set(found.calls)
    for point in metadata.entry_points(group=ENTRY_POINTS):
        _take(point, found)
    for name, function in handlers.registered.items():
        where = handlers.reference(function)
        why = _unreachable(function, where)
        if why is None and found.calls.get(name, where) != where and (name not in mine or name in own):
            why = f"{found.calls[name]} has this name already; {where} is left out"
        if why is None:
            found.calls[name] = where  # what was named wins over what is installed
        else:
            (found.wrong if name in mine else found.skipped).append(f"handler {name!r}: {why}")
    found.concurrent = {w: handlers.concurrent[w] for w in found.calls.values() if w in handlers.concurrent}
    return found


def _take(point: metadata.EntryPoint, found: Found) -> None:
    """name = "package.module:function", or any name = "package.module" for what that module registers."""
    about = f"entry point {point.name!r} = {point.value!r} of {point.dist.name if point.dist else 'a package'}"
    why = handlers.handler_name_error(point.name) if point.attr else None
    if why is None:
        target: list[Any] = []
        why = _failure(lambda: target.append(point.load()))
        if why is None and point.attr:
            where = f"{point.module}:{point.attr}"
            no_body = handlers.body_error(target[0]) if callable(target[0]) else "is not a function"
            if no_body is not None:
                why = f"it {no_body}"
            elif found.calls.setdefault(point.name, where) != where:
                why = f"{found.calls[point.name]} has this name already"
    if why is not None:
        found.skipped.append(f"{about} is left out: {why}")


def _load(where: str) -> None:
    """Imports a module as the processes do that run jobs."""
    module, _, path = where.partition(":")
    target: Any = importlib.import_module(module)
    for part in path.split("."):
        target = getattr(target, part)
    if not callable(target):
        raise TypeError(f"it is a {type(target).__name__} there, and not a function")
    why = handlers.body_error(target)
    if why is not None:
        raise TypeError(f"it {why}")


def _of_module(name: str) -> bool:
    """It was imported before, by another of the modules."""
    return any(f.__module__ == name or f.__module__.startswith(f"{name}.") for f in handlers.registered.values())


def _unreachable(function: Callable[..., Any], where: str) -> str | None:
    """Returns why a process that knows only the place of a function would call another one; None: it would not."""
    module, _, path = where.partition(":")
    target: Any = sys.modules.get(module)
    for part in path.split("."):
        target = getattr(target, part, None)
    if callable(target) and inspect.unwrap(target) is inspect.unwrap(function):
        return None
    return f"{where} is something else by now; give the function a name of its own in its module"


def _failure(work: Callable[[], object]) -> str | None:
    """Describes an import that failed, with the place; nothing of it stays registered then."""
    before = dict(handlers.registered)
    try:
        work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too: scripts end like that when they are imported
        handlers.registered.clear()
        handlers.registered.update(before)
        lines = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in _OURS]
        frames = [f for f in frames if not f.filename.startswith("<frozen")]
        return f"{said}; {frames[-1].filename}, line {frames[-1].lineno}" if frames else said
    return None


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=_MODULE)
    parser.add_argument("--pythonpath", action="append", default=[])
    parser.add_argument("--call", action="append", default=[])
    parser.add_argument("--first", action="append", default=[])
    parser.add_argument("modules", nargs="*")
    given = parser.parse_args(argv)
    answer = os.dup(1)
    os.dup2(2, 1)  # what modules print is for the log
    sys.path[:0] = given.pythonpath
    raw = msgspec.json.encode(import_all(given.modules, given.call, given.first))
    with open(answer, "wb") as out:
        out.write(raw)
    sys.stdout.flush()
    os._exit(0)  # threads that a module started do not keep it


if __name__ == "__main__":
    main(sys.argv[1:])
