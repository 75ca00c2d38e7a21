"""Runs exec and shell: a program of its own for each attempt, with a clean environment."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Callable

from raftsched.worker.processes.keeper import CannotStart
from raftsched.worker.processes.limits import OOM_SCORE, confine, enter_group
from raftsched.worker.processes.linux import give_way, oom_score, set_oom_score
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.report_lines import FD
from raftsched.worker.processes.users import User, become, dress, enter_home
from raftsched.worker.processes.wire import Exec
from raftsched.worker.session.shortage import is_shortage

_LIMITED = (errno.ENOMEM, errno.EMFILE)  # what limits.memory and limits.open_files let an exec fail with
_WHY_MAX = 4_096  # bytes of why a run could not be started
_ALL_SIGNALS = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


def spawner(
    task: Exec, options: Options, group: str | None = None, user: User | None = None
) -> Callable[[int, int, int], int]:
    """Returns what `Tree.start` calls: it starts the program in a session of its own, stdin empty, and returns its pid.
    `user`: None for the node's own.

    Called in the keeper of the attempt, whose working directory it changes."""

    def spawn(out: int, err: int, says: int) -> int:
        score = oom_score(OOM_SCORE)  # of the run; its keeper keeps its own
        try:
            if task.limits is not None or group is not None or user is not None:
                return _start_confined(task, (out, err, says), options, group, user)
            pid = _start(task, out, err, says)
            give_way(options.nice, pid)  # posix_spawn(3) cannot; the program was begun this moment
            return pid
        except OSError as exc:
            if is_shortage(exc):
                raise
            raise CannotStart(f"cannot start {task.argv[0]!r}: {exc.strerror}") from None
        except ValueError as exc:  # a NUL byte somewhere
            raise CannotStart(f"cannot start {task.argv[0]!r}: {exc}") from None
        finally:
            set_oom_score(score)

    return spawn


def _start(task: Exec, out: int, err: int, says: int) -> int:
    env = {**os.environ, **task.env}
    program = _settle(task, env)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    if says >= 0:
        actions.append((os.POSIX_SPAWN_DUP2, says, FD))
    try:
        return os.posix_spawn(
            program, task.argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=_ALL_SIGNALS
        )
    except OSError as exc:
        if is_shortage(exc):
            raise
        raise CannotStart(_why(task.argv[0], program, exc)) from None


def _settle(task: Exec, env: dict[str, str]) -> str:
    """Goes where the program is to work, and returns what it is. Raises CannotStart."""
    if task.cwd is not None:
        try:
            os.chdir(task.cwd)
        except OSError as exc:
            raise CannotStart(f"cannot work in cwd {task.cwd!r}: {exc.strerror}") from None
        if task.within is not None:
            # Loaded where it is needed: every process forked from here would be larger for it.
            from raftsched.core.rules.allowed import directory_error

            wrong = directory_error(os.getcwd(), tuple(map(os.path.realpath, task.within)))
            if wrong is not None:
                raise CannotStart(f"this node {wrong}")
        env["PWD"] = task.cwd
    return _find(task.argv[0], env.get("PATH", os.defpath))


def _start_confined(
    task: Exec, ends: tuple[int, int, int], options: Options, group: str | None, user: User | None
) -> int:
    """Like the other, with all that confines the run in place before the first instruction of the program: it is looked
    for, and started, as its user. `ends`: as spawn gets them. Raises OSError, and CannotStart for what its limits may
    be the reason of."""
    told, tells = os.pipe()  # closed by a successful exec
    program = ""
    try:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                give_way(options.nice)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                out, err, says = ends
                os.dup2(out, 1)
                os.dup2(err, 2)
                if says >= 0:
                    tells = fcntl.fcntl(tells, fcntl.F_DUPFD_CLOEXEC, FD + 1)  # its number may be the one that is taken
                    os.dup2(says, FD)
                for number in _ALL_SIGNALS:
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, [])
                env = dict(os.environ)
                memory = task.limits.memory if task.limits is not None else None
                enter_group(group, memory, options.pids_max, own_user=user is None)
                if user is not None:
                    _become(user)
                    dress(env, user)
                env.update(task.env)
                program = _settle(task, env)
                if task.limits is not None:
                    confine(task.limits)
                os.execve(program, task.argv, env)  # no shell in between  # nosec B606
            except OSError as exc:
                code = exc.errno or errno.EINVAL
                limited = task.limits is not None and code in _LIMITED
                why = "" if is_shortage(exc) and not limited else _why(task.argv[0], program, exc)
                os.write(tells, f"{code} {why}".encode(errors="replace")[:_WHY_MAX])
            except CannotStart as exc:
                os.write(tells, f"0 {exc}".encode(errors="replace")[:_WHY_MAX])
            except ValueError as exc:
                os.write(tells, f"0 cannot start {task.argv[0]!r}: {exc}".encode(errors="replace")[:_WHY_MAX])
            finally:
                os._exit(127)
        os.close(tells)
        tells = -1
        failed = os.read(told, _WHY_MAX)
    finally:
        os.close(told)
        if tells >= 0:
            os.close(tells)
    if failed:
        os.waitpid(pid, 0)
        said, _, why = failed.decode(errors="replace").partition(" ")
        if why:
            raise CannotStart(why)
        raise OSError(int(said), os.strerror(int(said)))
    return pid


def _become(user: User) -> None:
    """Raises CannotStart."""
    try:
        become(user)
    except OSError as exc:
        raise CannotStart(f"this node cannot become the user {user.name!r}: {exc.strerror}") from None
    enter_home(user)


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
