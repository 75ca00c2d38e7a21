"""Keeps runs of programs: one after the other, each when nothing of the one before is left.

A keeper is forked by the supervisor with its first run, and at any moment it is the subreaper of one run's tree at
most (`tree.py`). It says with each end whether it takes another run. While it has none it waits, with no child, and
ends when the supervisor says so or is gone, when the node is gone, and when the lease of its last run ends. It runs no
code of jobs: a program is started by posix_spawn(3), which copies nothing of it. What it knew of a run, values to be
hidden among it, may still be in its memory at the next one; so all of its runs are of one namespace (`keepers.py`).
"""

from __future__ import annotations

import gc
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from raftsched.output.format.spool import STDERR
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.command import Programs
from raftsched.worker.processes import cgroup, wire
from raftsched.worker.processes.lease import SharedWords
from raftsched.worker.processes.limits import blamed, capped
from raftsched.worker.processes.linux import has_children
from raftsched.worker.processes.report_lines import EVERY_MS, ReportLines
from raftsched.worker.processes.tree import (
    BEGAN_AFTER_MS,
    LEASE_ENDED,
    CannotStart,
    KeeperContext,
    Tree,
    asked_error,
    describe_exit,
)
from raftsched.worker.processes.wire import receive

RUNS_MAX = 1_000  # then another one is forked, which costs as much as ten runs

_LAUNCH = 0x80  # the first byte of a Launch is no less (msgpack, array), that of a command is a letter
_decode_launch = msgspec.msgpack.Decoder(wire.Launch).decode


class AtWork(SharedWords):
    """Tells the supervisor which run its keeper has taken up last, also when the keeper cannot say so any more."""

    @property
    def token(self) -> int:
        return self._words[0]

    def take(self, token: int) -> None:
        """From now on something of this run may be at work."""
        self._words[0] = token


def keep_attempts(
    context: KeeperContext, control: socket.socket, at_work: AtWork, launch: wire.Launch, most: int = RUNS_MAX
) -> None:
    """The whole life of a keeper; `most`: of its runs, of which `launch` is the first."""
    gc.enable()  # the supervisor does without: it stays, and makes no circles
    options = context.options
    users = {user.name: user for user in options.users}
    programs = Programs(options)
    following: wire.Launch | None = launch
    while following is not None:
        launch, most = following, most - 1
        at_work.take(launch.token)
        task: wire.Exec = wire.decode_task(launch.task)
        limits = task.limits
        task = msgspec.structs.replace(task, limits=capped(limits, options.memory_max))
        group = cgroup.of_run(options.cgroups, launch.token)
        user = users[launch.user] if launch.user else None
        spawn = programs.spawner(task, group, user)
        if not keep_attempt(context, control, launch, spawn, limits, group, task.hidden, last=most <= 0):
            return
        following = _next_launch(context, control, launch.session)


def _next_launch(context: KeeperContext, control: socket.socket, session: int) -> wire.Launch | None:
    """Waits for the next run. None: it is time to end."""
    clock = SystemClock()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(context.life_fd, 0)  # hang-up only
    while True:
        packet = receive(control)
        if packet is not None:
            if not packet or packet == wire.CMD_FENCE:
                return None
            if packet[0] >= _LAUNCH:
                return _decode_launch(packet)
            continue  # it was for the run before, and crossed its end
        left_ms = context.lease.kill_at(session) - clock.boot_ms()
        if left_ms <= 0 or any(fd == context.life_fd for fd, _ in poll.poll(left_ms)):
            return None


def keep_attempt(
    context: KeeperContext,
    control: socket.socket,
    launch: wire.Launch,
    spawn: Callable[[int, int, int], int],
    limits: wire.Limits | None = None,
    group: str | None = None,
    hidden: Sequence[str] = (),
    *,
    last: bool = True,
) -> bool:
    """Keeps one run to its end, which goes to `control`. Returns whether this process can keep another one, unless this
    was to be the `last`. `group`: the run's cgroup. `hidden`: what it must not show of what is printed."""
    tree = Tree(context, control, launch.session, launch.output_max)
    try:
        return _keep(tree, launch, spawn, limits, group, hidden, last, context.options.memory_max)
    finally:
        tree.close()


def _keep(
    tree: Tree,
    launch: wire.Launch,
    spawn: Callable[[int, int, int], int],
    limits: wire.Limits | None,
    group: str | None,
    hidden: Sequence[str],
    last: bool,
    memory_max: int | None,
) -> bool:
    tree.capture.hide(hidden)
    tree.kill_first = lambda: cgroup.kill(group)
    lines = tree.lines = ReportLines()
    clock = tree.clock
    started_at_ms = clock.wall_ms()
    token = launch.token

    def send(message: wire.Started | wire.Progress | wire.Finished, what: bytes = wire.NEWS) -> None:
        with suppress(OSError):  # the supervisor is gone, and so is everybody who would like to know
            tree.control.send(what + wire.encode(message))

    def done(outcome: int, exit_code: int | None, error: str | None, began: int | None = started_at_ms) -> bool:
        kept = tree.capture.finish(token)
        ended_at_ms = max(clock.wall_ms(), began or 0)
        by_itself = outcome in (wire.SUCCEEDED, wire.FAILED)
        if lines.verdict and by_itself:
            error = wire.shorten(lines.reason) or error
        stays = not last and not tree.lost and not has_children() and (group is None or not os.path.exists(group))
        send(
            wire.Finished(token, outcome, began, ended_at_ms, exit_code, error, None, *kept, said=lines.all(by_itself)),
            wire.END_AND_STAYS if stays else wire.END,
        )
        return stays

    try:
        tree.start(spawn)
    except CannotStart as exc:
        cgroup.leave(group)
        if tree.lost:
            return done(wire.LOST, None, str(exc), None)
        if exc.begun is not None:
            if exc.begun:
                return done(wire.KILLED, None, str(exc))
            send(wire.not_begun(token, str(exc), clock.wall_ms()), wire.END)
            return False
        tree.capture.write(STDERR, f"raftsched: {exc}\n".encode(), clock.boot_ms())
        return done(wire.FAILED, None, wire.shorten(str(exc)))
    begun = clock.boot_ms()
    timeout_at = begun + launch.timeout_ms
    began_at: int | None = begun + BEGAN_AFTER_MS

    def timers(now: int) -> int | None:
        nonlocal began_at
        if began_at is not None and began_at <= now:
            began_at = None
            send(wire.Started(token, started_at_ms))
        wake_at = timeout_at if began_at is None else min(began_at, timeout_at)
        if lines.news:
            if lines.next_at <= now:
                lines.next_at = now + EVERY_MS
                send(wire.Progress(token, lines.latest or wire.SelfReport()))
            else:
                wake_at = min(wake_at, lines.next_at)
        if timeout_at <= now:
            tree.ask(wire.TIMED_OUT, launch.grace_ms)
            return began_at
        return wake_at

    tree.watch(timers, lambda: token)
    code = tree.exit_code
    killed_for_memory = cgroup.leave(group)
    if tree.lost:
        return done(wire.LOST, code, LEASE_ENDED)
    if tree.asked is not None:
        return done(tree.asked, code, asked_error(tree.asked, launch.timeout_ms))
    if code == 0 and not tree.cut:
        return done(wire.SUCCEEDED, 0, None)
    if tree.for_node:
        return done(wire.KILLED, code, wire.NODE_STOPPED)  # nobody asked for that: it is handed back
    tail = tree.capture.tail()
    why = blamed(limits, code, tail, tree.used_cpu_s, killed_for_memory, memory_max)
    return done(wire.FAILED, code, wire.failure(describe_exit(code, why), tail))
