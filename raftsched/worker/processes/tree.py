"""Guards the tree of a run, or of a service process that runs attempts one after the other, from the keeper above it.

The keeper is the subreaper of everything below it, so nothing can leave its tree. It begins to kill when the lease is
about to end, when the supervisor or the node is gone, when it is told to, on timeout, and when the main process has
ended but others are left; and it reports an end only when nothing is left. It decides alone: neither node nor
supervisor has to be awake for it.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from raftsched.bounds import OUTPUT_MAX
from raftsched.output.format.spool import STDERR, STDOUT, Capture
from raftsched.system.clock import SystemClock
from raftsched.worker.processes import wire
from raftsched.worker.processes.lease import LeaseSlot
from raftsched.worker.processes.linux import (
    BootTimer,
    end_descendants,
    has_children,
    kill_group,
    reap_orphans,
    term_tree,
)
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.wire import receive
from raftsched.worker.session.shortage import cannot_start, is_shortage

BEGAN_AFTER_MS = 200  # an attempt that is over sooner is reported once, as ended
LEASE_ENDED = "stopped: the node's lease ended, or the node did"
REAP_MS = 1_000  # between two looks for orphans that ended
LEFT_MS = 20  # the same, once the main process has ended and the others have their grace
CAUGHT_MS = 500  # between two looks whether a run whose node stops would notice SIGTERM by now
_MEANT_FOR_NODE_MS = 15_000  # what ends so long after its keeper was sent SIGTERM ends for the same reason
_TERM_LATE_S = 0.05  # within which SIGTERM comes to all that it is sent to
_CHUNK = 64 * 1024
_SAYS = 9  # in the place of a stream: lines about itself


class CannotStart(Exception):
    """The reason, for the user, why nothing could be started. `begun`: None for the run's own fault; else it is its
    node's, and says whether anything of the run may have been at work."""

    def __init__(self, why: str, begun: bool | None = None) -> None:
        super().__init__(why)
        self.begun = begun


@dataclass(slots=True)
class KeeperContext:
    """The values that every keeper gets from the supervisor that forked it."""

    lease: LeaseSlot
    life_fd: int  # read end of a pipe whose write end only the node has
    lock_fd: int  # held open only: the lock of the data directory
    live_directory: str  # spool files
    options: Options


class Lines(Protocol):
    """Takes what comes from the third pipe of a tree."""

    def feed(self, data: bytes) -> list[str]:
        """Returns what is wrong with it, for people."""


class Tree:
    """A main process in a session of its own, everything below it, and what ends it.

    The first of these that holds decides what its end means (`keep_attempt`):

        lost                             LOST: the lease, the supervisor or the node is gone, whatever else is set
        asked                            the outcome that was asked for; `cut` as well where its grace was too short
        exit code 0, not cut             SUCCEEDED, also while the node stops
        stopping, and cut or _term_sent  KILLED and handed back: the node's end, not the run's (`for_node`)
        _term_came_at, a moment ago      the same: SIGTERM came to all of the node's processes
        else                             FAILED

    `stopping` may be followed by `asked`, and not the other way round. Either sets `_kill_at`, which only comes nearer;
    without it nothing is `cut`. `_caught_at` is set while `stopping` and until SIGTERM was sent. `_main_over` comes
    only after that: what a main process that was not told to end leaves behind is killed at once."""

    def __init__(
        self, context: KeeperContext, control: socket.socket, session: int, output_max: int = OUTPUT_MAX
    ) -> None:
        """`output_max`: bytes that are kept of what it prints."""
        self.clock = SystemClock()
        self.control = control
        self.capture = Capture(context.live_directory, output_max)
        self.lines: Lines | None = None  # what the run says of itself; None: it is not listened to
        self.asked: int | None = None  # outcome, once it was asked to end
        self.lost = False  # killed for the sake of the lease
        self.stopping = False  # its node stops
        self.cut = False  # killed when its grace was over
        self.pid = 0
        self.status = 0  # wait status of the main process
        self.kill_first: Callable[[], None] = lambda: None  # all that is known to be in the tree, in one go
        self._lease = context.lease
        self._session = session
        self._life_fd = context.life_fd
        self._kill_at: int | None = None
        self._caught_at: int | None = None  # when to look whether SIGTERM would be noticed
        self._term_came_at: int | None = None  # when this process was sent SIGTERM, as all of its node were
        self._term_sent = False  # was sent SIGTERM
        self._main_over = False
        self._timer: BootTimer | None = None
        self._poll = select.poll()
        self._streams: dict[int, int] = {}
        self._pidfd = -1
        self._used_before_s = _used_cpu_s()
        self._term_before = signal.getsignal(signal.SIGTERM)

    def start(self, spawn: Callable[[int, int, int], int]) -> None:
        """`spawn` gets the descriptors for stdout, stderr and for what the run says (-1: it is not listened to), and
        returns the pid. It is called with SIGTERM blocked, and unblocks it in what it starts. Raises CannotStart.

        Nothing is started when the lease has no room left."""
        if self._lease.kill_at(self._session) <= self.clock.boot_ms():
            self.lost = True
            raise CannotStart("the lease was about to end")
        try:
            self._start(spawn)
        except OSError as exc:
            raise CannotStart(cannot_start(exc), self.pid > 0 if is_shortage(exc) else None) from None

    def _start(self, spawn: Callable[[int, int, int], int]) -> None:
        self._timer = BootTimer()
        for fd in (self._timer.fd, self.control.fileno()):
            self._poll.register(fd, select.POLLIN)
        self._poll.register(self._life_fd, 0)  # hang-up only
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        self._streams = {out: STDOUT, err: STDERR}
        ends = [out_end, err_end]
        if self.lines is not None:
            says, says_end = os.pipe()
            self._streams[says] = _SAYS
            ends.append(says_end)
        for fd in ends:
            # A run of another user may open its /dev/stdout: a pipe, which only its own processes reach.
            os.fchmod(fd, 0o622)  # nosec B103
        for fd in self._streams:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        # What is only forked has the handlers of this process. By one for SIGTERM it would look as if it could be told
        # to end. So none is there until it is a program of its own, and what is sent meanwhile waits.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            self.pid = spawn(out_end, err_end, ends[2] if len(ends) > 2 else -1)
        finally:
            signal.signal(signal.SIGTERM, self._note_term)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for fd in ends:
                os.close(fd)
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._end()
            raise
        self._poll.register(self._pidfd, select.POLLIN)

    def close(self) -> None:
        """Gives back what this process had for it: all is as before. Nothing of it is left, and nothing more is read of
        what it printed: who still holds an end of its pipes is a stranger to it."""
        signal.signal(signal.SIGTERM, self._term_before)
        for fd in self._streams:
            os.close(fd)
        self._streams.clear()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        if self._timer is not None:
            os.close(self._timer.fd)
        self._pidfd, self._timer = -1, None

    def ask(self, outcome: int, grace_ms: int) -> None:
        """TERM for the whole tree now, KILL after the grace period for what is left of it then."""
        if self.asked is None:
            self.asked = outcome
            self._kill_within(grace_ms)
            self._send_term()

    def wind_down(self, grace_ms: int) -> None:
        """The node stops: the run may come to an end within the grace period. SIGTERM tells it so when anything in it
        would notice; what would only die of it goes on as if nothing were."""
        if self.asked is None and not self.stopping:
            self.stopping = True
            self._kill_within(grace_ms)
            self._caught_at = self.clock.boot_ms()

    @property
    def for_node(self) -> bool:
        """Returns whether its end, unless it succeeded, is no word on the run: its node stops, and ended it or told it
        to."""
        if self.stopping and (self.cut or self._term_sent):
            return True
        if self._term_came_at is None and self.exit_code == 128 + signal.SIGTERM:
            time.sleep(_TERM_LATE_S)  # it was sent to one process after the other
        return self._term_came

    @property
    def _term_came(self) -> bool:
        return self._term_came_at is not None and self.clock.boot_ms() - self._term_came_at <= _MEANT_FOR_NODE_MS

    def _kill_within(self, grace_ms: int) -> None:
        kill_at = self.clock.boot_ms() + grace_ms
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)

    def _send_term(self, *, if_caught: bool = False) -> None:
        if term_tree(self.pid, if_caught=if_caught):
            self._term_sent, self._caught_at = True, None

    def _note_term(self, number: int, frame: FrameType | None) -> None:
        self._term_came_at = self.clock.boot_ms()

    def watch(
        self,
        timers: Callable[[int], int | None],
        token: Callable[[], int],
        before_read: Callable[[], None] = lambda: None,
        collect: Callable[[bytes], None] = lambda token: None,
    ) -> None:
        """Waits until the main process ended or has to be killed; then until nothing is left. When it was asked to end,
        what it leaves behind has the rest of the grace period. `collect` is called for CMD_COLLECT, with what is behind
        it.

        `timers` gets the time (boot ms), does what is due and says when it wants to be called again."""
        assert self._timer is not None  # it was started
        reap_at = self.clock.boot_ms() + REAP_MS
        try:
            while True:
                now = self.clock.boot_ms()
                wake_at = self._lease.kill_at(self._session)
                if wake_at <= now:
                    self.lost = True
                    break
                wanted = timers(now)  # may ask it to end
                if wanted is not None:
                    wake_at = min(wake_at, wanted)
                if self._kill_at is not None:
                    if self._kill_at <= now:
                        self.cut = True
                        break
                    wake_at = min(wake_at, self._kill_at)
                if self._caught_at is not None:
                    if self._caught_at <= now:
                        self._caught_at = now + CAUGHT_MS
                        if self._term_came:  # so were those below it: a second one might make them give up
                            self._term_sent, self._caught_at = True, None
                        else:
                            self._send_term(if_caught=True)
                    wake_at = min(wake_at, self._caught_at or wake_at)
                if reap_at <= now or self._main_over:
                    reap_orphans(0 if self._main_over else self.pid)
                    if self._main_over and not has_children():
                        break
                    reap_at = now + (LEFT_MS if self._main_over else REAP_MS)
                wake_at = min(wake_at, reap_at)
                if self.capture.flush_at is not None:
                    if self.capture.flush_at <= now or self.capture.urgent:
                        self.capture.flush(token(), now)
                    else:
                        wake_at = min(wake_at, self.capture.flush_at)
                self._timer.arm(wake_at)
                if self._look(before_read, collect):
                    break
        finally:
            self._end()  # whatever went wrong here, the tree does not stay without its keeper

    def _look(self, before_read: Callable[[], None], collect: Callable[[bytes], None]) -> bool:
        """Waits for something to happen and handles it; True when the end has come."""
        ended = False
        for fd, _events in self._poll.poll():
            if fd in self._streams:
                before_read()
                self._read(fd)
            elif fd == self._pidfd:
                ended = not self._outlived()
            elif fd == self._life_fd:
                self.lost = ended = True
            elif fd == self.control.fileno():
                data = receive(self.control)
                if data is None:
                    continue
                if not data or data == wire.CMD_FENCE:
                    self.lost = ended = True
                elif data[:1] == wire.CMD_COLLECT:
                    collect(data[1:])
                elif data[:1] == wire.CMD_STOP:
                    self.wind_down(int.from_bytes(data[1:5], "little"))
                else:
                    outcome = wire.TIMED_OUT if data[:1] == wire.CMD_TIMEOUT else wire.KILLED
                    self.ask(outcome, int.from_bytes(data[1:5], "little"))
        return ended

    def _outlived(self) -> bool:
        """The main process has ended. True when it was asked to, and others that were are still at it."""
        if not self._term_sent:
            return False
        self._main_over = True
        self._poll.unregister(self._pidfd)
        _, self.status = os.waitpid(self.pid, 0)
        return has_children()

    def _end(self) -> None:
        self.kill_first()
        if not self._main_over:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                kill_group(self.pid, signal.SIGKILL)
            else:
                self.status = status
        if has_children():
            found = end_descendants(self.pid)
            if found is not None and not self._main_over:
                self.status = found
        self.drain()

    def drain(self) -> None:
        """Reads what is in the pipes now. A process outside the tree that inherited a write end cannot delay this: what
        it writes meanwhile is not waited for."""
        for fd in list(self._streams):
            self._read_waiting(fd)

    def read_said(self) -> None:
        """The same for the third pipe alone."""
        for fd in [fd for fd, stream in self._streams.items() if stream == _SAYS]:
            self._read_waiting(fd)

    def _read_waiting(self, fd: int) -> None:
        left = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
        while left > 0 and (size := self._read(fd, min(left, _CHUNK))):
            left -= size

    def _read(self, fd: int, most: int = _CHUNK) -> int:
        """Takes what is there, at most so many bytes, and returns how many it took."""
        try:
            data = os.read(fd, most)
        except BlockingIOError:
            return 0
        if not data:
            self._poll.unregister(fd)
            del self._streams[fd]
            os.close(fd)
            return 0
        if self._streams[fd] == _SAYS and self.lines is not None:
            for wrong in self.lines.feed(data):
                self.capture.write(STDERR, f"raftsched: {wrong}\n".encode(), self.clock.boot_ms())
        else:
            self.capture.write(self._streams[fd], data, self.clock.boot_ms())
        return len(data)

    @property
    def exit_code(self) -> int:
        """The exit code as a shell gives it: 128 + the signal's number for a killed process."""
        if os.WIFSIGNALED(self.status):
            return 128 + os.WTERMSIG(self.status)
        return os.WEXITSTATUS(self.status)

    @property
    def used_cpu_s(self) -> float:
        """CPU time of all that was in the tree and is over."""
        return _used_cpu_s() - self._used_before_s


def _used_cpu_s() -> float:
    """Returns what all children of this process that are over have used, with what was below them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def describe_exit(code: int, why: str | None = None) -> str:
    what = f"exit code {code}"
    if code > 128:
        with suppress(ValueError):
            what = f"killed by {signal.Signals(code - 128).name}"
    return f"{what}: {why}" if why else what


def asked_error(outcome: int, timeout_ms: int | None, reason: str = "") -> str:
    """Returns the error that a user reads on an attempt that was asked to end."""
    if outcome == wire.TIMED_OUT and timeout_ms is not None:
        return f"timed out after {timeout_ms / 1000:g} s"
    return reason or "killed on request"
