"""Starts programs that are confined: with limits, in a control group, as another user or in another directory.

All of that is in place before the first instruction of the program, which is looked for, and started, as its user. The
native part does it (`native/confine.c`), started without a copy of its keeper; where it is missing, a fork of the
keeper does, which costs five times as much. Both say the same words to the user.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raftsched.worker.executors import starting
from raftsched.worker.processes import cgroup
from raftsched.worker.processes.limits import OOM_SCORE, confine, enter_group, note_no_group, resource_limits
from raftsched.worker.processes.linux import give_way, raise_oom_score
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.report_lines import FD
from raftsched.worker.processes.tree import CannotStart
from raftsched.worker.processes.users import User, become, dress, enter_home
from raftsched.worker.processes.wire import Exec
from raftsched.worker.session.shortage import is_shortage

_LIMITED = (errno.ENOMEM, errno.EMFILE)  # what limits.memory and limits.open_files let an exec fail with
_WHY_MAX = 8_192  # bytes of why a run could not be started


class NoNativePart(Exception):
    """It cannot be started, or does not know what it is told: the package below this node was replaced."""


class _NoGroup(Exception):
    """The control group cannot be entered."""


@dataclass(frozen=True, slots=True)
class Confined:
    """A program, and what confines it. `user`: None for the node's own. `group`: a control group to be made for it."""

    task: Exec
    options: Options
    environment: Mapping[str, str]  # that the task's own variables come on top of
    ignored: Sequence[signal.Signals]  # by this process, and not to be by the program
    group: str | None
    user: User | None

    @property
    def memory(self) -> int | None:
        return self.task.limits.memory if self.task.limits is not None else None

    def variables(self) -> dict[str, str]:
        found = dict(self.environment)
        if self.user is not None:
            dress(found, self.user)
        found.update(self.task.env)
        if self.task.cwd is not None:
            found["PWD"] = self.task.cwd
        return found

    def failed(self, number: int, there: bool) -> Exception:
        """Returns what to raise for an error of the start itself. What the run's own limits may be the reason of is not
        a want of the node's."""
        error = OSError(number, os.strerror(number))
        if is_shortage(error) and not (self.task.limits is not None and number in _LIMITED):
            return error
        return CannotStart(starting.why(self.task.argv[0], number, there))


# ---------------------------------------------------------------- by the native part


def start_natively(program: str, run: Confined, ends: tuple[int, int, int]) -> int:
    """Starts it by this native part and returns its pid. `ends`: as `Tree.start` has them. Raises OSError, CannotStart,
    and NoNativePart, with nothing started."""
    group = run.group
    if group is not None:
        try:
            cgroup.make(group, run.memory, run.options.pids_max)
        except OSError as exc:
            note_no_group(ends[1], run.memory, exc)
            group = None
    try:
        return _start_natively(program, run, ends, group)
    except _NoGroup as exc:
        note_no_group(ends[1], run.memory, exc.__cause__ if isinstance(exc.__cause__, OSError) else OSError())
        return _start_natively(program, run, ends, None)


def _start_natively(program: str, run: Confined, ends: tuple[int, int, int], group: str | None) -> int:
    variables = run.variables()
    told, tells = os.pipe()
    try:
        # Above FD, which gets another meaning in the program, and inherited: a start that succeeds closes it.
        report = fcntl.fcntl(tells, fcntl.F_DUPFD, FD + 1)
        os.close(tells)
        tells = report
        argv = [program, str(report), *_steps(run, group), "--", *run.task.argv]
        # A job's LD_PRELOAD is not for the part, which begins as the node's user: it takes the sign away.
        env = {f"+{name}": value for name, value in variables.items()}
        try:
            pid = starting.spawn(program, argv, env, run.ignored, *ends)
        except OSError as exc:
            if exc.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC):
                raise NoNativePart from exc
            if is_shortage(exc):  # the run's own limits do not hold yet
                raise
            raise run.failed(exc.errno or errno.EINVAL, True) from None
        os.close(tells)
        tells = -1
        failed = os.read(told, _WHY_MAX)
    finally:
        os.close(told)
        if tells >= 0:
            os.close(tells)
    if failed:
        os.waitpid(pid, 0)
        step, number, text = failed.decode(errors="replace").split(" ", 2)
        raise _error_of(run, step, int(number), text, variables)
    return pid


def _steps(run: Confined, group: str | None) -> Iterator[str]:
    """Yields the arguments that say what to do; see `native/confine.c`."""
    task, user, options = run.task, run.user, run.options
    if group is not None:
        yield from ("group", group)
    elif user is not None:  # its processes are counted together; nothing of the node's own is counted
        yield from ("rlimit", f"{resource.RLIMIT_NPROC}:{options.pids_max}:{options.pids_max}")
    if options.nice:
        yield from ("nice", str(options.nice))
    yield from ("score", str(OOM_SCORE))
    if user is not None:
        yield from ("user", f"{user.uid}:{user.gid}:{','.join(map(str, user.groups))}")
        yield from ("home", user.home)
    if task.cwd is not None:
        yield from ("cwd", task.cwd)
        if task.within is not None:
            for directory in map(os.path.realpath, task.within):
                yield from ("within", directory)
            if not task.within:
                yield from ("within", "")
    if task.limits is not None:
        for number, soft, hard in resource_limits(task.limits):
            yield from ("limit", f"{number}:{soft}:{hard}")


def _error_of(run: Confined, step: str, number: int, text: str, variables: Mapping[str, str]) -> Exception:
    name = run.task.argv[0]
    if step == "group":
        error = _NoGroup()
        error.__cause__ = OSError(number, os.strerror(number))
        return error
    if step == "user" and run.user is not None:
        return starting.not_the_user(run.user, number)
    if step == "cwd" and run.task.cwd is not None:
        return starting.not_there(run.task.cwd, number)
    if step == "within" and run.task.within is not None:
        wrong = starting.not_within(text, tuple(map(os.path.realpath, run.task.within)))
        return CannotStart(wrong or f"cannot start {name!r}: {os.strerror(number)}")
    if step in ("missing", "denied"):
        return starting.not_found(name, variables.get("PATH", os.defpath), step == "denied")
    if step == "options":
        return NoNativePart(text)
    return run.failed(number, step == "interpreter")


# ---------------------------------------------------------------- by a fork


def start_by_fork(run: Confined, ends: tuple[int, int, int]) -> int:
    """Does the same without the native part."""
    task, options, user = run.task, run.options, run.user
    if task.within is not None:  # what judges it is loaded by now: the user may have no way to the package
        starting.not_within("/", ("/",))
    told, tells = os.pipe()  # closed by a successful exec
    program = ""
    try:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                give_way(options.nice)
                raise_oom_score(OOM_SCORE)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                out, err, says = ends
                os.dup2(out, 1)
                os.dup2(err, 2)
                if says >= 0:
                    tells = fcntl.fcntl(tells, fcntl.F_DUPFD_CLOEXEC, FD + 1)  # its number may be the one that is taken
                    os.dup2(says, FD)
                for number in starting.ALL_SIGNALS:
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, [])
                enter_group(run.group, run.memory, options.pids_max, own_user=user is None)
                if user is not None:
                    _become(user)
                variables = run.variables()
                if task.cwd is not None:
                    _go_to(task.cwd, task.within)
                program = starting.find(task.argv[0], variables.get("PATH", os.defpath))
                if task.limits is not None:
                    confine(task.limits)
                os.execve(program, task.argv, variables)  # no shell in between  # nosec B606
            except OSError as exc:
                code = exc.errno or errno.EINVAL
                os.write(tells, f"{code} {int(os.path.exists(program))}".encode())
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
        code_text, _, text = failed.decode(errors="replace").partition(" ")
        raise run.failed(int(code_text), text == "1") if code_text != "0" else CannotStart(text)
    return pid


def _become(user: User) -> None:
    """Raises CannotStart."""
    try:
        become(user)
    except OSError as exc:
        raise starting.not_the_user(user, exc.errno or errno.EPERM) from None
    enter_home(user)


def _go_to(cwd: str, within: tuple[str, ...] | None) -> None:
    """Raises CannotStart."""
    try:
        os.chdir(cwd)
    except OSError as exc:
        raise starting.not_there(cwd, exc.errno or errno.EINVAL) from None
    if within is not None:
        wrong = starting.not_within(os.getcwd(), tuple(map(os.path.realpath, within)))
        if wrong is not None:
            raise CannotStart(wrong)
