"""Wakes instances whose timer is due and lines of keys, resumes jobs that were paused until now, and looks at what is
watched when a limit is reached."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from raftsched.core.commands import Command, ResumeJob, Wake, WakeKey, Watch
from raftsched.core.tables import Table, from_u64
from raftsched.leader import pacing
from raftsched.leader.due.window import Window
from raftsched.leader.pacing import Proposals
from raftsched.leader.raft_port import Host


def wake(instance: bytes, at_ms: int) -> Command:
    """Makes the command for a row of TIMERS."""
    return Wake(instance, at_ms)


def resume(job_id: bytes, at_ms: int) -> Command:
    """Makes the command for a row of RESUMES."""
    return ResumeJob(from_u64(job_id), at_ms)


def watch(about: bytes, at_ms: int) -> Command:
    """Makes the command for a row of WATCHES."""
    return Watch(about, at_ms)


def wake_key(key: bytes, at_ms: int) -> Command:
    """Makes the command for a row of KEY_TIMERS."""
    return WakeKey(key, at_ms)


class Timers:
    """The rows of a table by time that are due soon, in one leadership. Each becomes a command of one kind, which
    `make` makes of the rest of its key and its time. `now_ms` is wall time."""

    def __init__(
        self,
        table: Table,
        kind: type[Command],
        make: Callable[[bytes, int], Command],
        host: Host,
        proposals: Proposals,
        now_ms: int,
        window_ms: int,
        count_max: int,
    ) -> None:
        self.window = Window(table, host.read, now_ms, window_ms=window_ms, count_max=count_max)
        self._kind = kind
        self._make = make
        self._proposals = proposals
        self._due: deque[tuple[int, bytes]] = deque()  # (time, key) that are due and not yet proposed

    def tick(self, now_ms: int) -> int | None:
        """Proposes what is due, no more than the log keeps up with. Returns when the next is due; None: nothing can be
        proposed until a batch is answered."""
        if not self._due:
            self._due.extend(self.window.advance(now_ms))
        while self._due and self._proposals.has_room(self._kind):
            count = min(pacing.BATCH, len(self._due))
            due = [self._due.popleft() for _ in range(count)]
            self._proposals.send_paced(self._kind, [self._make(key, at_ms) for at_ms, key in due])
        return self.window.next_ms(now_ms) if self._proposals.has_room(self._kind) else None

    def reload(self, now_ms: int) -> None:
        """Reads the table again: it is not known what became of some batches."""
        self._due.clear()
        self.window.reload(now_ms)
