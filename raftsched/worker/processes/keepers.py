"""Gives runs of programs to keepers, for the supervisor: to one that waits for its next run, or to a new one.

A keeper takes one run after the other (`keeper.py`). The next run goes to one that has none; else it waits a moment for
one to become free, as short runs soon are, and then another one is forked. Each serves one namespace: what it knew of a
run may still be in its memory at the next. Those without a run for long end.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from raftsched.system.clock import Clock
from raftsched.worker.processes import wire
from raftsched.worker.processes.growth import GROW_AFTER_MS, keeps_up
from raftsched.worker.processes.keeper import AtWork, keep_attempts
from raftsched.worker.processes.pool import OVERDUE_MS, within
from raftsched.worker.processes.tree import LEASE_ENDED, KeeperContext, asked_error
from raftsched.worker.processes.warm_process import NEVER
from raftsched.worker.processes.wire import receive
from raftsched.worker.session.shortage import cannot_start

GROW_EVERY_MS = max(1, 4 // (os.cpu_count() or 1))  # forking one takes about 4 ms of a processor
IDLE_MAX_MS = 10_000
IDLE_MAX = 64  # of 2 MB each: what a node with many slots keeps after a burst
TAKE_MS = 5_000  # for a keeper to take up a run: one that does not was stopped by somebody, or the machine is drowned
KEEPER_KILLED = "its keeper process was killed"


class Host(Protocol):
    """The part of the supervisor that is needed."""

    def fork(self, body: Callable[[socket.socket], None]) -> tuple[int, socket.socket]:
        """Forks a keeper that does `body` with its end of a socket. Returns its pid and our end. Raises OSError."""

    def watch(self, sock: socket.socket, handler: Callable[[], None]) -> None:
        """Calls the handler when there is something to read."""

    def over(self, pid: int, control: socket.socket) -> bool:
        """A keeper is gone. Returns True when it was ended for the sake of the lease."""

    def sweep_then(self, pid: int, then: Callable[[], None]) -> None:
        """Ends what a keeper left that was itself killed, and then calls."""

    def kill_keeper(self, pid: int) -> None: ...

    def emit(self, message: bytes) -> None:
        """Passes an encoded message on to the node."""


@dataclass(slots=True, eq=False)
class _Namespace:
    """Its keepers, and its runs that none has."""

    idle: list[_Keeper] = field(default_factory=list)  # the one idle longest first
    waiting: deque[_Waiting] = field(default_factory=deque)
    count: int = 0  # of keepers that take runs, those at work included
    freed: int = 0  # how often one became free
    grown_at: int = 0


@dataclass(slots=True, eq=False)
class _Keeper:
    pid: int
    control: socket.socket
    at_work: AtWork
    namespace: _Namespace
    launch: wire.Launch | None  # without its task; None: it has none
    taken_by: int = NEVER  # boot ms; a keeper that has not taken its run up by then was stopped by somebody
    end_by: int = NEVER  # boot ms; a keeper that goes on for longer hangs, or was stopped by somebody
    asked: wire.Finished | None = None  # what to report when it is ended for that
    stopping: bool = False  # that is: its node stops, and nobody asked for more
    ending: bool = False  # takes no more runs
    idle_since: int = 0


@dataclass(slots=True, frozen=True)
class _Waiting:
    launch: wire.Launch
    raw: bytes  # the same, encoded
    since: int  # boot ms
    freed: int  # of its namespace at that time


class Keepers:
    def __init__(self, host: Host, clock: Clock, context: KeeperContext) -> None:
        self._host = host
        self._clock = clock
        self._context = context
        self._at_work: dict[int, _Keeper] = {}  # by token
        self._namespaces: dict[str, _Namespace] = {}
        self._due_at = NEVER

    # ------------------------------------------------------------ from the node

    def launch(self, launch: wire.Launch, raw: bytes) -> None:
        """`raw`: the same, encoded."""
        of = self._namespaces.setdefault(launch.namespace, _Namespace())
        if len(raw) > wire.PACKET_MAX or not of.count:
            self._start(of, launch)
        elif of.waiting or not self._give_to_idle(of, launch, raw):
            now = self._clock.boot_ms()
            of.waiting.append(_Waiting(launch, raw, now, of.freed))
            self._due_at = min(self._due_at, now + GROW_AFTER_MS)

    def kill(self, token: int, reason: str) -> bool:
        """Ends a run that is here. Returns False when it is not."""
        keeper = self._at_work.get(token)
        if keeper is not None and keeper.launch is not None:
            if keeper.asked is None or keeper.stopping:
                keeper.stopping = False
                keeper.asked = wire.Finished(token, wire.KILLED, None, 0, None, asked_error(wire.KILLED, None, reason))
            self._tell(keeper, wire.CMD_KILL, keeper.launch.grace_ms)
            return True
        for of in self._namespaces.values():
            for waiting in of.waiting:
                if waiting.launch.token == token:
                    of.waiting.remove(waiting)
                    self._never_begun(token, wire.KILLED, reason)
                    return True
        return False

    def wind_down(self, grace_ms: int) -> None:
        """The node stops: whatever runs has so long, or less where its job says so, to come to an end."""
        for of in self._namespaces.values():
            while of.waiting:
                self._start(of, of.waiting.popleft().launch)
        for keeper in self._at_work.values():
            self._wind_down(keeper, grace_ms)

    def end_all(self) -> None:
        """Ends all that is here; what comes later has keepers of its own."""
        namespaces, self._namespaces = self._namespaces, {}
        for of in namespaces.values():
            for waiting in of.waiting:
                self._never_begun(waiting.launch.token, wire.LOST, "")
            for keeper in list(of.idle):
                self._end(keeper)
        for keeper in self._at_work.values():
            self._end(keeper)

    def drop_all(self) -> None:
        """Drops all in a process forked from this one, which is not to know of them."""
        self._at_work.clear()
        self._namespaces.clear()

    # ------------------------------------------------------------ time

    @property
    def due_at(self) -> int:
        """The boot time (ms) at which `tick` wants to be called."""
        return self._due_at

    def tick(self, now: int) -> None:
        if now < self._due_at:
            return
        self._due_at = NEVER
        for name, of in list(self._namespaces.items()):
            self._grow(of, now)
            for keeper in [k for k in of.idle if k.idle_since + IDLE_MAX_MS <= now]:
                self._end(keeper)
            if of.idle:
                self._due_at = min(self._due_at, of.idle[0].idle_since + IDLE_MAX_MS)
            if not of.count and not of.waiting:
                del self._namespaces[name]
        for keeper in list(self._at_work.values()):
            self._look(keeper, now)

    def _look(self, keeper: _Keeper, now: int) -> None:
        """Ends it when it has not done what it was to do."""
        launch = keeper.launch
        assert launch is not None  # it is at work
        if keeper.taken_by <= now:
            keeper.taken_by = NEVER
            if keeper.at_work.token != launch.token:
                self._host.kill_keeper(keeper.pid)
        if keeper.end_by <= now:
            keeper.end_by = NEVER
            if keeper.asked is None and keeper.at_work.token == launch.token:
                error = asked_error(wire.TIMED_OUT, launch.timeout_ms)
                keeper.asked = wire.Finished(launch.token, wire.TIMED_OUT, None, 0, None, error)
            self._host.kill_keeper(keeper.pid)
        self._due_at = min(self._due_at, keeper.taken_by, keeper.end_by)

    def _grow(self, of: _Namespace, now: int) -> None:
        """Starts what waits for longer than those there are will need for it."""
        while of.waiting:
            first = of.waiting[0]
            if self._give_to_idle(of, first.launch, first.raw):
                of.waiting.popleft()
            elif of.count and keeps_up(of.freed - first.freed, of.count, len(of.waiting), now - first.since):
                self._due_at = min(self._due_at, now + GROW_AFTER_MS)
                return
            else:
                due_at = max(first.since + GROW_AFTER_MS, of.grown_at + GROW_EVERY_MS)
                if of.count and due_at > now:
                    self._due_at = min(self._due_at, due_at)
                    return
                of.waiting.popleft()
                of.grown_at = now
                self._start(of, first.launch)

    # ------------------------------------------------------------ keepers

    def _start(self, of: _Namespace, launch: wire.Launch) -> None:
        """Forks a keeper for it."""
        at_work = AtWork()
        context = self._context

        def body(control: socket.socket) -> None:
            at_work.keep_from_children()
            keep_attempts(context, control, at_work, launch)

        try:
            pid, control = self._host.fork(body)
        except OSError as exc:  # whatever it is, nothing of the run was at work, and it is not the run's own fault
            at_work.close()
            self._host.emit(wire.encode(wire.not_begun(launch.token, cannot_start(exc), self._clock.wall_ms())))
            return
        at_work.keep_from_children()
        keeper = _Keeper(pid, control, at_work, of, None)
        of.count += 1
        self._host.watch(control, lambda: self._from_keeper(keeper))
        self._begin(keeper, launch)

    def _give_to_idle(self, of: _Namespace, launch: wire.Launch, raw: bytes) -> bool:
        while of.idle:
            keeper = of.idle.pop()
            try:
                keeper.control.send(raw, socket.MSG_DONTWAIT)
            except OSError:  # it was killed, which is yet to be read
                self._end(keeper)
                continue
            self._begin(keeper, launch)
            return True
        return False

    def _begin(self, keeper: _Keeper, launch: wire.Launch) -> None:
        now = self._clock.boot_ms()
        # Its task stays with its own keeper: processes for python are forked from here, and run the code of jobs.
        keeper.launch = replace(launch, task=b"")
        keeper.taken_by, keeper.end_by = now + TAKE_MS, NEVER
        keeper.asked, keeper.stopping = None, False
        self._at_work[launch.token] = keeper
        self._end_by(keeper, launch.timeout_ms + launch.grace_ms)
        self._due_at = min(self._due_at, keeper.taken_by)

    def _free(self, keeper: _Keeper) -> None:
        """It takes the next run, when there is one."""
        of = keeper.namespace
        of.freed += 1
        keeper.idle_since = self._clock.boot_ms()
        of.idle.append(keeper)
        if of.waiting and self._give_to_idle(of, of.waiting[0].launch, of.waiting[0].raw):
            of.waiting.popleft()
            return
        self._due_at = min(self._due_at, keeper.idle_since + IDLE_MAX_MS)
        idle = [of.idle[0] for of in self._namespaces.values() if of.idle]
        if sum(len(of.idle) for of in self._namespaces.values()) > IDLE_MAX:
            self._end(min(idle, key=lambda one: one.idle_since))

    def _end(self, keeper: _Keeper) -> None:
        """It takes no more runs; one that it has is lost."""
        self._takes_no_more(keeper)
        with contextlib.suppress(OSError):  # it has just ended
            keeper.control.send(wire.CMD_FENCE, socket.MSG_DONTWAIT)

    def _takes_no_more(self, keeper: _Keeper) -> None:
        if not keeper.ending:
            keeper.ending = True
            keeper.namespace.count -= 1
            if keeper in keeper.namespace.idle:
                keeper.namespace.idle.remove(keeper)
            if keeper.namespace.waiting:
                self._due_at = 0  # those that wait may need another one

    def _wind_down(self, keeper: _Keeper, grace_ms: int) -> None:
        launch = keeper.launch
        assert launch is not None  # it is at work
        if keeper.asked is None:
            keeper.asked = wire.Finished(launch.token, wire.KILLED, None, 0, None, wire.NODE_STOPPED)
            keeper.stopping = True
        self._tell(keeper, wire.CMD_STOP, within(grace_ms, launch))

    def _tell(self, keeper: _Keeper, command: bytes, grace_ms: int) -> None:
        """Tells a keeper to end its run, which may take so long."""
        self._end_by(keeper, grace_ms)
        with contextlib.suppress(OSError):  # it has just ended
            keeper.control.send(command + grace_ms.to_bytes(4, "little"), socket.MSG_DONTWAIT)

    def _end_by(self, keeper: _Keeper, in_ms: int) -> None:
        keeper.end_by = min(keeper.end_by, self._clock.boot_ms() + in_ms + OVERDUE_MS)
        self._due_at = min(self._due_at, keeper.end_by)

    def _from_keeper(self, keeper: _Keeper) -> None:
        packet = receive(keeper.control)
        if packet is None:
            return
        if packet:
            self._host.emit(packet[1:])
            if packet[:1] != wire.NEWS:
                assert keeper.launch is not None  # it was at work
                del self._at_work[keeper.launch.token]
                keeper.launch = None
                if packet[:1] == wire.END_AND_STAYS and not keeper.ending:
                    self._free(keeper)
                else:
                    self._takes_no_more(keeper)
            return
        self._takes_no_more(keeper)
        late = self._host.over(keeper.pid, keeper.control)
        if keeper.launch is None:  # nothing was below it
            keeper.at_work.close()
        else:
            del self._at_work[keeper.launch.token]
            self._host.sweep_then(keeper.pid, lambda: self._vanished(keeper, late))

    def _vanished(self, keeper: _Keeper, late: bool) -> None:
        """It was killed while it had a run, of which nothing is left either."""
        assert keeper.launch is not None
        token, now_ms = keeper.launch.token, self._clock.wall_ms()
        if late:
            done = wire.Finished(token, wire.LOST, None, now_ms, None, LEASE_ENDED)
        elif keeper.asked is not None:
            done = replace(keeper.asked, ended_at_ms=now_ms)
        elif keeper.at_work.token != token:  # it was still to be read
            done = wire.not_begun(token, KEEPER_KILLED, now_ms)
        else:
            done = wire.Finished(token, wire.LOST, None, now_ms, None, KEEPER_KILLED, alone=True)
        keeper.at_work.close()
        self._host.emit(wire.encode(done))

    def _never_begun(self, token: int, outcome: int, reason: str) -> None:
        self._host.emit(wire.encode(wire.Finished(token, outcome, None, self._clock.wall_ms(), None, reason or None)))
