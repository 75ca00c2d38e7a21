"""Linux process facts that the standard library does not offer: subreapers, boot-time timers, killing a whole tree."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_CLOCK_BOOTTIME = 7
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_ITIMERSPEC = struct.Struct("@qqqq")  # interval s, ns; value s, ns

_STATES = {b"R": "running", b"S": "sleeping", b"D": "in uninterruptible sleep", b"T": "stopped", b"t": "traced"}
_WALK_EVERY = 16  # rounds of killing
SWEEP_PAUSES_S = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.02)  # after each round; most are dead at once

_libc = ctypes.CDLL(None, use_errno=True)
_found = ctypes.c_int()
_found_at = ctypes.byref(_found)


def last_error(call: str) -> OSError:
    """Returns the error of the C library's function that was called last."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), call)


def change_process(option: int, value: int) -> None:
    """prctl(2). Raises OSError."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise last_error(f"prctl({option}, {value})")


def become_subreaper() -> None:
    """Orphans below this process become its children instead of init's (prctl(2))."""
    change_process(_PR_SET_CHILD_SUBREAPER, 1)


def is_subreaper() -> bool:
    return _libc.prctl(_PR_GET_CHILD_SUBREAPER, _found_at, 0, 0, 0) == 0 and _found.value != 0


def die_with_parent() -> None:
    """SIGKILL for this process when its parent ends (prctl(2))."""
    change_process(_PR_SET_PDEATHSIG, signal.SIGKILL)


class BootTimer:
    """A timerfd on CLOCK_BOOTTIME: also fires when the machine slept over its time. Readable once it is due."""

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_BOOTTIME, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self.fd < 0:
            raise last_error("timerfd_create")

    def arm(self, at_boot_ms: int) -> None:
        """Fires at this time, at once when it has passed."""
        at = max(at_boot_ms, 1)
        spec = _ITIMERSPEC.pack(0, 0, at // 1000, at % 1000 * 1_000_000)
        if _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, spec, None) != 0:
            raise last_error("timerfd_settime")


def give_way(nice: int, session: int = 0) -> None:
    """Lets the processes of a session that was begun just now, this process's or that of the process `session`, have so
    much less of the processors than this one (setpriority(2)). Where the kernel weighs whole sessions against each
    other, it weighs this one less (sched(7), autogroup)."""
    if nice == 0:
        return
    nice_value = min(19, os.getpriority(os.PRIO_PROCESS, 0) + nice)
    with suppress(OSError):  # it is over
        os.setpriority(os.PRIO_PGRP if session else os.PRIO_PROCESS, session, nice_value)
    with suppress(OSError):
        fd = os.open(f"/proc/{session or 'self'}/autogroup", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"%d" % nice_value)
        finally:
            os.close(fd)


class OomScore:
    """Changes what the kernel adds to this process when it looks for one to kill for lack of memory (proc(5),
    oom_score_adj). Children inherit it. Nothing happens where it cannot be changed."""

    def __init__(self) -> None:
        self._fd, self._was = -1, 0
        with suppress(OSError):
            self._fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._was = int(os.read(self._fd, 16))

    def raise_to(self, least: int) -> None:
        if self._was < least:
            self._write(least)

    def put_back(self) -> None:
        self._write(self._was)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def _write(self, score: int) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.write(self._fd, b"%d" % score)


def raise_oom_score(least: int) -> None:
    """Raises that of this process for good."""
    score = OomScore()
    score.raise_to(least)
    score.close()


def boot_id() -> str:
    """One per boot of a machine (proc(5), random/boot_id)."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def close_all_but(keep: Iterable[int]) -> None:
    """Closes every descriptor of this process but these."""
    low = 0
    for fd in sorted(keep):
        if low < fd:  # closerange(0, 0) closes descriptor 0
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 1 << 30)


def _stat(pid: int | str) -> list[bytes] | None:
    """proc(5), stat, from field 3 on; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            line = stat.read(4096)
    except OSError:
        return None
    return line[line.rfind(b")") + 1 :].split()


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def start_time(pid: int) -> str | None:
    """Returns when a process started, in the kernel's ticks since boot: tells a reused pid apart."""
    fields = _stat(pid)
    return None if fields is None else fields[19].decode()


def describe(pid: int) -> str | None:
    """Its pid, name and state, for people; None: it is gone, or nothing but an entry that nobody has waited for."""
    fields = _stat(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    state = _STATES.get(fields[0], fields[0].decode())
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read(64).strip().decode("utf-8", "replace")
    except OSError:
        return None
    return f"{pid} ({name}, {state})"


def rename(text: str) -> None:
    """Changes the name of this process in lists of processes (its command line), cut to the length it had. The kernel
    reads it from the process's own memory, whose place stat fields 48 and 49 tell."""
    fields = _stat("self")
    start, end = (int(fields[45]), int(fields[46])) if fields is not None else (0, 0)
    if 0 < start < end:
        size = end - start
        ctypes.memmove(start, text.encode()[: size - 1].ljust(size, b"\0"), size)


def pids() -> list[int]:
    """Returns the numbers of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int, leave_out: Iterable[int] = ()) -> list[tuple[int, int]]:
    """(pid, parent) of everything below `root`; the trees of its children in `leave_out` are left out."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        parent = _parent(pid)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    spared = set(leave_out)
    found: list[tuple[int, int]] = []
    level = [(pid, root) for pid in children.get(root, ()) if pid not in spared]
    while level:
        found += level
        level = [(child, pid) for pid, _ in level for child in children.get(pid, ())]
    return found


def lives_below(root: int) -> bool:
    """Returns whether anything below `root` is more than an entry that nobody has waited for."""
    states = (_stat(pid) for pid, _ in descendants(root))
    return any(fields is not None and fields[0] not in (b"Z", b"X") for fields in states)


def signal_if(is_it: Callable[[int], bool], pid: int, number: signal.Signals) -> bool:
    """Signals the process if it is the one that is meant, and returns whether it did. The number may have been given to
    somebody else since it was read; a pidfd stays with its process."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_it(pid):
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _signal(pid: int, parent: int, number: signal.Signals) -> None:
    signal_if(lambda found: _parent(found) in (parent, os.getpid()), pid, number)


def kill_group(leader: int, number: int) -> None:
    """Signals a process group; nothing happens when it is empty. The kernel does it in one go, forks cannot escape."""
    with suppress(OSError):
        os.killpg(leader, number)


def has_children() -> bool:
    """Returns whether this process has any child, dead ones included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def reap_orphans(main: int) -> None:
    """Waits for children that are dead, all but `main`: that one has somebody who waits for it."""
    try:
        while True:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if dead is None or dead.si_pid == main:
                return
            os.waitpid(dead.si_pid, os.WNOHANG)
    except ChildProcessError:
        return


def _children() -> list[int]:
    """Returns the children of this process; none on a kernel that keeps no such list."""
    try:
        with open("/proc/thread-self/children", "rb") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


def end_descendants(main: int = 0) -> int | None:
    """SIGKILL for everything below this process, until nothing is left. Needs `become_subreaper`.

    Returns the wait status of the child `main`, None when it was not among those reaped. A process that forks while it
    is killed leaves its child to this process, so the next round finds it. What forks and ends faster than /proc can be
    walked falls to this process with each step; therefore most rounds take only who became its child since the last.
    """
    status: int | None = None
    me = os.getpid()
    killed: set[int] = set()
    rounds = 0
    while True:
        try:
            while True:
                pid, code = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                killed.discard(pid)
                if pid == main:
                    status = code
        except ChildProcessError:
            return status
        new = [pid for pid in _children() if pid not in killed] if rounds % _WALK_EVERY else []
        for pid in new:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)  # nobody waited for it yet: the number is still its own
        killed.update(new)
        if not new:
            for found, parent in descendants(me):
                _signal(found, parent, signal.SIGKILL)
        rounds += 1
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # until one of them is dead
        except ChildProcessError:
            return status


def end_strays(known: Iterable[int]) -> bool:
    """The same for the trees of children that are not `known`: what a keeper left that was itself killed. True when
    nothing of them is left; False when some do not die soon, as in uninterruptible sleep: to be called again."""
    me = os.getpid()
    known = set(known)
    for pause_s in SWEEP_PAUSES_S:
        strays = descendants(me, known)
        if not strays:
            return True
        for pid, parent in strays:
            _signal(pid, parent, signal.SIGKILL)
        time.sleep(pause_s)
        for pid, parent in strays:
            if parent == me:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
    return False


def term_tree(main: int, *, if_caught: bool = False) -> bool:
    """Sends SIGTERM to the process group of `main`, and to what is below this process in other groups. Returns whether
    it did: with `if_caught` only when one of them has a handler for it."""
    below = descendants(os.getpid())
    if if_caught and not any(_catches(pid, signal.SIGTERM) for pid, _ in below):
        return False
    others = [(pid, parent) for pid, parent in below if pid != main and not _in_group(pid, main)]
    kill_group(main, signal.SIGTERM)
    for pid, parent in others:
        _signal(pid, parent, signal.SIGTERM)
    return True


def _in_group(pid: int, group: int) -> bool:
    fields = _stat(pid)
    return fields is not None and int(fields[2]) == group


def _catches(pid: int, number: signal.Signals) -> bool:
    """Returns whether a process has a handler for a signal (proc(5), SigCgt)."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as status:
            found = re.search(rb"^SigCgt:\s*([0-9a-f]+)$", status.read(8192), re.MULTILINE)
    except OSError:
        return False
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)
