"""Tells the leader of remote workers whose last poll here has ended and that have sent no other: until they poll again,
nobody hears of the runs that they would be given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from raftsched.core.subjects.leasing import BEATS_MAX, QUIET_AFTER_MS, WorkerBeats, encode
from raftsched.system.clock import Clock
from raftsched.worker.ports import Raft

GATHER_S = 0.02
AGAIN_MS = 1_000  # a leader may be new, and a message may be lost


@dataclass(slots=True)
class _Absent:
    left_at_ms: int
    tell_at_ms: int
    until_ms: int  # then the leader gives it nothing anyway: it has not heard of it for half of its lease


class OpenPolls:
    """The sessions that have polled here. Times are of the boot clock."""

    def __init__(self, raft: Raft, clock: Clock) -> None:
        self._raft = raft
        self._clock = clock
        self._open: dict[int, int] = {}  # session -> number of its polls
        self._absent: dict[int, _Absent] = {}  # by session: that have none
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # when it is due
        self._stopped = False

    def entered(self, session: int) -> None:
        """A poll came."""
        self._open[session] = self._open.get(session, 0) + 1
        self._absent.pop(session, None)

    def left(self, session: int, ttl_ms: int, *, gone: bool) -> None:
        """A poll was answered. `gone`: nobody read the answer. Who did read it sends the next one within
        QUIET_AFTER_MS, or is told of as well."""
        rest = self._open.pop(session) - 1
        if rest:
            self._open[session] = rest
        if rest or self._stopped:
            return
        now = self._clock.boot_ms()
        tell_at_ms = now if gone else now + QUIET_AFTER_MS
        self._absent[session] = _Absent(now, tell_at_ms, now + ttl_ms // 2)
        self._wake_at(tell_at_ms)

    def forget(self, session: int) -> None:
        """The session is over."""
        self._absent.pop(session, None)

    def stop(self) -> None:
        """Tells nothing any more: workers go on with other nodes."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._absent.clear()

    def _wake_at(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        seconds = max(GATHER_S, (at_ms - self._clock.boot_ms()) / 1000)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tell)

    def _tell(self) -> None:
        self._timer = None
        now, leader = self._clock.boot_ms(), self._raft.leader_id
        for session in [session for session, absent in self._absent.items() if now >= absent.until_ms]:
            del self._absent[session]
        due = [(session, absent) for session, absent in self._absent.items() if now >= absent.tell_at_ms]
        for _, absent in due:
            absent.tell_at_ms = now + AGAIN_MS
        if leader is not None:
            for at in range(0, len(due), BEATS_MAX):
                left = tuple((session, now - absent.left_at_ms) for session, absent in due[at : at + BEATS_MAX])
                self._raft.send(leader, "worker_beats", encode(WorkerBeats((), left)))
        if self._absent:
            self._wake_at(min(absent.tell_at_ms for absent in self._absent.values()))
