"""Runs exec and shell: a program of its own for each attempt, with a clean environment."""

from __future__ import annotations

import os
from collections.abc import Callable

from raftsched.worker.executors import starting
from raftsched.worker.executors.confined import Confined, NoNativePart, start_by_fork, start_natively
from raftsched.worker.processes import cgroup
from raftsched.worker.processes.limits import OOM_SCORE
from raftsched.worker.processes.linux import OomScore, give_way
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.tree import CannotStart
from raftsched.worker.processes.users import User
from raftsched.worker.processes.wire import Exec
from raftsched.worker.session.shortage import is_shortage


class Programs:
    """Starts programs below this process, a keeper, of which it leaves everything as it was."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._environment = dict(os.environ)
        self._ignored = starting.ignored_signals()
        self._score = OomScore()

    def spawner(self, task: Exec, group: str | None = None, user: User | None = None) -> Callable[[int, int, int], int]:
        """Returns what `Tree.start` calls: it starts the program in a session of its own, stdin empty, and returns its
        pid. `group`: a control group to be made for it. `user`: None for the node's own."""

        def spawn(out: int, err: int, says: int) -> int:
            try:
                if task.limits is None and group is None and user is None and task.cwd is None:
                    return self._start(task, (out, err, says))
                run = Confined(task, self._options, self._environment, self._ignored, group, user)
                return self._start_confined(run, (out, err, says))
            except OSError as exc:
                if is_shortage(exc):
                    raise
                raise CannotStart(f"cannot start {task.argv[0]!r}: {exc.strerror}") from None
            except ValueError as exc:  # a NUL byte somewhere
                raise CannotStart(f"cannot start {task.argv[0]!r}: {exc}") from None

        return spawn

    def _start(self, task: Exec, ends: tuple[int, int, int]) -> int:
        env = {**self._environment, **task.env}
        program = starting.find(task.argv[0], env.get("PATH", os.defpath))
        self._score.raise_to(OOM_SCORE)  # of the run; its keeper keeps its own
        try:
            pid = starting.spawn(program, task.argv, env, self._ignored, *ends)
        except OSError as exc:
            if is_shortage(exc):
                raise
            raise CannotStart(starting.why(task.argv[0], exc.errno or 0, os.path.exists(program))) from None
        finally:
            self._score.put_back()
        give_way(self._options.nice, pid)  # posix_spawn(3) cannot; the program was begun this moment
        return pid

    def _start_confined(self, run: Confined, ends: tuple[int, int, int]) -> int:
        # A node that is not root has rights over users as capabilities, and these end where a program begins.
        if self._options.confine is not None and (run.user is None or os.geteuid() == 0):
            try:
                return start_natively(self._options.confine, run, ends)
            except NoNativePart:
                cgroup.leave(run.group)
        return start_by_fork(run, ends)
