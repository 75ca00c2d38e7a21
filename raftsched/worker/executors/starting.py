"""Starts a program by posix_spawn(3), and says in a user's words why one could not be started."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence

from raftsched.worker.processes.report_lines import FD
from raftsched.worker.processes.tree import CannotStart
from raftsched.worker.processes.users import User

ALL_SIGNALS = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


def ignored_signals() -> list[signal.Signals]:
    """Returns those that this process ignores: a program would, too, unless it is told otherwise. What has a handler
    here has none in a program."""
    return [number for number in ALL_SIGNALS if signal.getsignal(number) == signal.SIG_IGN]


def spawn(
    program: str,
    argv: tuple[str, ...] | list[str],
    env: Mapping[str, str],
    defaults: Iterable[signal.Signals],
    out: int,
    err: int,
    says: int,
) -> int:
    """Starts it in a session of its own, stdin empty. `defaults`: signals that it is not to ignore. `says`: where what
    it reports goes; -1: nowhere. Returns its pid. Raises OSError, and ValueError for a NUL byte."""
    actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    if says >= 0:
        actions.append((os.POSIX_SPAWN_DUP2, says, FD))
    return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=defaults)


def find(name: str, path: str) -> str:
    """Like execvp(3), but with the path of the job's own environment. Raises CannotStart."""
    if "/" in name:
        return name
    candidates = [f"{directory or '.'}/{name}" for directory in path.split(os.pathsep)] if name else []
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    raise not_found(name, path, any(map(os.path.isfile, candidates)))


def not_found(name: str, path: str, denied: bool) -> CannotStart:
    if not name:
        return CannotStart('the command is empty; give a program, as in ["/usr/bin/env", "true"]')
    if denied:
        return CannotStart(f"{name!r} was found on PATH but may not be executed")
    return CannotStart(f"command not found: {name!r} (PATH is {path})")


def not_there(cwd: str, number: int) -> CannotStart:
    return CannotStart(f"cannot work in cwd {cwd!r}: {os.strerror(number)}")


def not_within(there: str, directories: Sequence[str]) -> str | None:
    """Returns why this node runs nothing in the directory `there`; None: it does."""
    # Loaded where it is needed: every process forked from here would be larger for it.
    from raftsched.core.rules.allowed import directory_error

    wrong = directory_error(there, tuple(directories))
    return None if wrong is None else f"this node {wrong}"


def not_the_user(user: User, number: int) -> CannotStart:
    return CannotStart(f"this node cannot become the user {user.name!r}: {os.strerror(number)}")


def why(name: str, number: int, there: bool) -> str:
    """Returns why a program was not started, by the error of execve(2). `there`: its file is."""
    if number == errno.ENOENT and there:
        return f"cannot start {name!r}: the interpreter in its first line was not found"
    if number == errno.ENOENT:
        return f"command not found: {name!r}"
    if number == errno.ENOEXEC:
        return f"cannot start {name!r}: neither a program nor a script that begins with #!"
    if number == errno.E2BIG:
        return f"cannot start {name!r}: arguments and environment are too long"
    return f"cannot start {name!r}: {os.strerror(number)}"
