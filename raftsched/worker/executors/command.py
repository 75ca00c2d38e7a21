"""exec and shell: a program of its own for each attempt, with a clean environment."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

from raftsched.worker.keeper import CannotStart
from raftsched.worker.wire import Exec

_ALL_SIGNALS = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


def spawner(task: Exec) -> Callable[[int, int], int]:
    """For `Tree.start`: starts the program in a session of its own, stdin empty, and returns its pid.

    Called in the keeper of the attempt, whose working directory it changes."""

    def spawn(out: int, err: int) -> int:
        env = {**os.environ, **task.env}
        if task.cwd is not None:
            try:
                os.chdir(task.cwd)
            except OSError as exc:
                raise CannotStart(f"cannot work in cwd {task.cwd!r}: {exc.strerror}") from None
            env["PWD"] = task.cwd
        program = _find(task.argv[0], env.get("PATH", os.defpath))
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ]
        try:
            return os.posix_spawn(
                program,
                task.argv,
                env,
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=_ALL_SIGNALS,
            )
        except OSError as exc:
            raise CannotStart(_why(task.argv[0], program, exc)) from None
        except ValueError as exc:  # a NUL byte somewhere
            raise CannotStart(f"cannot start {task.argv[0]!r}: {exc}") from None

    return spawn


def _find(name: str, path: str) -> str:
    """Like execvp(3), but with the path of the job's own environment."""
    if not name:
        raise CannotStart('the command is empty; give a program, as in ["/usr/bin/env", "true"]')
    if "/" in name:
        return name
    denied = False
    for directory in path.split(os.pathsep):
        candidate = os.path.join(directory or ".", name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
        denied = denied or os.path.isfile(candidate)
    if denied:
        raise CannotStart(f"{name!r} was found on PATH but may not be executed")
    raise CannotStart(f"command not found: {name!r} (PATH is {path})")


def _why(name: str, program: str, exc: OSError) -> str:
    if exc.errno == errno.ENOENT and os.path.exists(program):
        return f"cannot start {name!r}: the interpreter in its first line was not found"
    if exc.errno == errno.ENOENT:
        return f"command not found: {name!r}"
    if exc.errno == errno.ENOEXEC:
        return f"cannot start {name!r}: neither a program nor a script that begins with #!"
    if exc.errno == errno.E2BIG:
        return f"cannot start {name!r}: arguments and environment are too long"
    return f"cannot start {name!r}: {exc.strerror}"
