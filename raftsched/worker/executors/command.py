"""Runs exec and shell: a program of its own for each attempt, with a clean environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from raftsched.worker.executors import starting
from raftsched.worker.executors.confined import Confined, NoNativePart, start_by_fork, start_natively
from raftsched.worker.processes import cgroup
from raftsched.worker.processes.limits import OOM_SCORE
from raftsched.worker.processes.linux import give_way, oom_score, set_oom_score
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.tree import CannotStart
from raftsched.worker.processes.users import User
from raftsched.worker.processes.wire import Exec
from raftsched.worker.session.shortage import is_shortage


def spawner(
    task: Exec, options: Options, environment: Mapping[str, str], group: str | None = None, user: User | None = None
) -> Callable[[int, int, int], int]:
    """Returns what `Tree.start` calls: it starts the program in a session of its own, stdin empty, and returns its pid.
    `environment`: what the task's own variables come on top of. `user`: None for the node's own.

    Called in the keeper of the attempt, which it leaves as it was."""

    def spawn(out: int, err: int, says: int) -> int:
        ends = (out, err, says)
        try:
            if task.limits is None and group is None and user is None and task.cwd is None:
                return _start(task, options, environment, ends)
            run = Confined(task, options, environment, group, user)
            # A node that is not root has rights over users as capabilities, and these end where a program begins.
            if options.confine is not None and (user is None or os.geteuid() == 0):
                try:
                    return start_natively(options.confine, run, ends)
                except NoNativePart:
                    cgroup.leave(group)
            return start_by_fork(run, ends)
        except OSError as exc:
            if is_shortage(exc):
                raise
            raise CannotStart(f"cannot start {task.argv[0]!r}: {exc.strerror}") from None
        except ValueError as exc:  # a NUL byte somewhere
            raise CannotStart(f"cannot start {task.argv[0]!r}: {exc}") from None

    return spawn


def _start(task: Exec, options: Options, environment: Mapping[str, str], ends: tuple[int, int, int]) -> int:
    env = {**environment, **task.env}
    program = starting.find(task.argv[0], env.get("PATH", os.defpath))
    score = oom_score(OOM_SCORE)  # of the run; its keeper keeps its own
    try:
        pid = starting.spawn(program, task.argv, env, *ends)
    except OSError as exc:
        if is_shortage(exc):
            raise
        raise CannotStart(starting.why(task.argv[0], exc.errno or 0, os.path.exists(program))) from None
    finally:
        set_oom_score(score)
    give_way(options.nice, pid)  # posix_spawn(3) cannot; the program was begun this moment
    return pid
