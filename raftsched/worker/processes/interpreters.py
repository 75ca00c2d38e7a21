"""Finds out whether the users of runs can start this node's Python: a node tries it once, when it starts.

An interpreter below a home that nobody else may enter (as pyenv and uv make them for root) runs the node, and none of
its functions: each would fail at its first import.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from raftsched.core.rules.allowed import Allowed
from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.users import User

FUNCTIONS = frozenset({"python", "call"})  # kinds of handlers that call functions
PATIENCE_S = 10.0  # for one user,
ALL_S = 20.0  # and for all of them: the node starts no later for them, however many there are
_NONE_READABLE = 3  # an exit code
_TRY = f"""
import decimal, json, os, sys, threading
paths = sys.argv[1:]
sys.exit({_NONE_READABLE} if paths and not any(os.access(path, os.R_OK | os.X_OK) for path in paths) else 0)
"""
_SHOWN = 200  # characters of what it printed
REMEDY = (
    "let that user read it, start the node with a Python that it may read, or have jobs run as another user (--run-as)"
)


async def unfit(
    users: Iterable[User], pythonpath: Sequence[Path], environ: Mapping[str, str], *, confined: bool = False
) -> dict[str, str]:
    """Returns the users who cannot run functions here, with the reasons. `environ`: what runs see of the node's own.
    `confined`: forks ask the rules of this node, see `asks_rules`.
    Those that cannot be told in ALL_S are taken to be able: their runs will tell."""
    roots = [str(path) for path in pythonpath if path.is_dir()]
    python = sys.executable if confined else _interpreter()
    tries = {asyncio.ensure_future(asyncio.to_thread(_why_not, python, user, roots, environ)): user for user in users}
    if not tries:
        return {}
    try:
        done, _ = await asyncio.wait(tries, timeout=ALL_S)
    finally:
        for one in tries:
            one.cancel()
    return {user.name: why for one, user in tries.items() if one in done and (why := one.result()) is not None}


def _why_not(python: str, user: User, roots: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Returns why this user cannot; None: it can, or that cannot be told now. Blocks."""
    try:
        child = subprocess.run(  # our own interpreter, a list of arguments  # nosec B603
            [python, "-I", "-c", _TRY, *roots],
            env=dict(environ),
            cwd="/",
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    except PermissionError as error:
        return f"it cannot start {python}: {error.strerror}"
    except (OSError, subprocess.TimeoutExpired):  # such as too many processes: a run will tell
        return None
    if child.returncode == _NONE_READABLE:
        return f"it may read none of --pythonpath: {', '.join(roots)}"
    if child.returncode <= 0:  # it can, or it was killed by somebody, which says nothing
        return None
    lines = [line for line in child.stderr.decode(errors="replace").splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "")
    return f"{python} does not start as this user: {last[:_SHOWN]}"


def asks_rules(allowed: Allowed | None) -> bool:
    """Returns whether a fork asks the rules of its node about a function, or where it works."""
    return allowed is not None and not (allowed.python is None and allowed.cwd is None)


def _interpreter() -> str:
    """Returns the interpreter whose standard library this process has: of a virtual environment the one behind it.
    Functions run in forks of the supervisor, which load nothing else of this environment, unless rules are asked: what
    those need is loaded in the fork."""
    behind: str | None = getattr(sys, "_base_executable", None)
    return behind or sys.executable


def tried(
    executors: Collection[str],
    run_as: RunAs,
    pythonpath: Sequence[Path],
    environ: Mapping[str, str],
    *,
    confined: bool = False,
) -> asyncio.Task[dict[str, str]]:
    """Begins what `unfit` does, for all users of a node that offers these handlers."""
    users = () if FUNCTIONS.isdisjoint(executors) else run_as.users.values()
    return asyncio.create_task(unfit(users, pythonpath, environ, confined=confined), name="tried interpreters")


def kinds(executors: Iterable[str], *, functions: bool) -> list[str]:
    """Returns the handlers that are kinds of their own, as `call` is not. `functions`: False leaves python out."""
    return [kind for kind in executors if kind != "call" and (functions or kind != "python")]


def warning(why: Mapping[str, str]) -> str:
    """Returns what to say of users who cannot, and what would be right."""
    said = "; ".join(f"as {user}: {reason}" for user, reason in sorted(why.items()))
    return f"no python and call jobs run here {said}; {REMEDY}"
