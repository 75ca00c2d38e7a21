"""exec and shell: a program of its own for each attempt, with a clean environment."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

from raftsched.worker.keeper import CannotStart
from raftsched.worker.limits import OOM_SCORE, confine
from raftsched.worker.processes import oom_score, set_oom_score
from raftsched.worker.shortage import is_shortage
from raftsched.worker.wire import Exec, Limits

_LIMITED = (errno.ENOMEM, errno.EMFILE)  # what limits.memory and limits.open_files let an exec fail with
_ALL_SIGNALS = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


def spawner(task: Exec, group: str | None = None) -> Callable[[int, int], int]:
    """For `Tree.start`: starts the program in a session of its own, stdin empty, and returns its pid.

    Called in the keeper of the attempt, whose working directory it changes."""

    def spawn(out: int, err: int) -> int:
        env = {**os.environ, **task.env}
        if task.cwd is not None:
            try:
                os.chdir(task.cwd)
            except OSError as exc:
                raise CannotStart(f"cannot work in cwd {task.cwd!r}: {exc.strerror}") from None
            if task.within is not None:
                # Loaded where it is needed: every process forked from here would be larger for it.
                from raftsched.core.allowed import wrong_in_directory

                wrong = wrong_in_directory(os.getcwd(), tuple(map(os.path.realpath, task.within)))
                if wrong is not None:
                    raise CannotStart(f"this node {wrong}")
            env["PWD"] = task.cwd
        program = _find(task.argv[0], env.get("PATH", os.defpath))
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ]
        score = oom_score(OOM_SCORE)  # of the run; its keeper keeps its own
        try:
            if task.limits is not None:
                return _start_confined(program, task.argv, env, out, err, task.limits, group)
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
            if is_shortage(exc):
                raise
            raise CannotStart(_why(task.argv[0], program, exc)) from None
        except ValueError as exc:  # a NUL byte somewhere
            raise CannotStart(f"cannot start {task.argv[0]!r}: {exc}") from None
        finally:
            set_oom_score(score)

    return spawn


def _start_confined(
    program: str,
    argv: tuple[str, ...],
    env: dict[str, str],
    out: int,
    err: int,
    limits: Limits,
    group: str | None,
) -> int:
    """Like the posix_spawn above, with limits set before the first instruction of the program. Raises OSError, and
    CannotStart for what its limits may be the reason of."""
    told, tells = os.pipe()  # closed by a successful exec
    try:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(out, 1)
                os.dup2(err, 2)
                for number in _ALL_SIGNALS:
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, [])
                confine(limits, group)
                os.execve(program, argv, env)  # the program that a job names, without a shell in between  # nosec B606
            except OSError as exc:
                os.write(tells, str(exc.errno).encode())
            finally:
                os._exit(127)
        os.close(tells)
        tells = -1
        failed = os.read(told, 16)
    finally:
        os.close(told)
        if tells >= 0:
            os.close(tells)
    if failed:
        os.waitpid(pid, 0)
        error = OSError(int(failed), os.strerror(int(failed)))
        if error.errno in _LIMITED:
            raise CannotStart(_why(argv[0], program, error))
        raise error
    return pid


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
