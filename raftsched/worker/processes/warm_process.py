"""The pool's services as the supervisor sees them, the runs in them, and whom they are for."""

from __future__ import annotations

import errno
import socket
from collections import deque

from raftsched.worker.processes import wire
from raftsched.worker.processes.keeper import BEGAN_AFTER_MS
from raftsched.worker.processes.service import Page

NEVER = 1 << 62


class Run:
    """An attempt in a service."""

    __slots__ = ("asked", "began_at", "deadline", "end_by", "launch", "reason", "says_at", "started_at_ms")

    def __init__(self, launch: wire.Launch, now: int, wall_ms: int) -> None:
        self.launch = launch
        self.deadline = now + launch.timeout_ms
        self.began_at = now + BEGAN_AFTER_MS
        self.started_at_ms = wall_ms
        self.asked: int | None = None
        self.end_by = NEVER  # it was to end long before: its keeper hangs, or was stopped by somebody
        self.reason = ""
        self.says_at = 0  # when more of what it says is passed on


class Service:
    """The supervisor's side of a service and its keeper."""

    def __init__(self, kind: str, session: int, work: socket.socket, control: socket.socket, pid: int) -> None:
        self.kind = kind
        self.session = session
        self.work = work
        self.control = control
        self.pid = pid
        self.page: Page | None = None  # where its keeper learns which run it is at
        self.place = Place()  # whom it serves
        self.runs: dict[int, Run] = {}
        self.answer: wire.Finished | None = None  # of a python run, until its output is here
        self.ending = False  # gets nothing new
        self.over = False  # its keeper has reported the end
        self.idle_since = 0
        self._unsent: deque[bytes] = deque()

    def send(self, packet: bytes) -> None:
        self._unsent.append(packet)
        self.send_rest()

    def send_rest(self) -> None:
        """Sends what waits; what the socket has no room for waits for the next call."""
        try:
            while self._unsent:
                self.work.send(self._unsent[0], socket.MSG_DONTWAIT)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it is dying; its keeper says so
            self._unsent.clear()

    def forget_runs(self) -> None:
        self.runs.clear()
        self._unsent.clear()

    @property
    def behind(self) -> bool:
        return bool(self._unsent)

    def command(self, packet: bytes) -> None:
        try:
            self.control.send(packet, socket.MSG_DONTWAIT)
        except OSError as exc:
            if exc.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                raise


class Place:
    """The runs of one namespace and user, and the python services that are for them."""

    __slots__ = ("count", "freed", "grown_at", "idle", "key", "queue")

    def __init__(self, key: tuple[str, str] = ("", "")) -> None:
        self.key = key
        self.queue: deque[tuple[int, int, wire.Launch]] = deque()  # since when, and how many had been freed by then
        self.freed = 0  # how often a service became free
        self.grown_at = 0
        self.idle: list[Service] = []  # the one idle longest first
        self.count = 0  # services, those that end included
