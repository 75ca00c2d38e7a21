"""The pool's services as the supervisor sees them, the runs in them, and whom they are for."""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from raftsched.worker.processes import wire
from raftsched.worker.processes.pages import Page, RunsPage
from raftsched.worker.processes.service import Shared
from raftsched.worker.processes.tree import BEGAN_AFTER_MS

NEVER = 1 << 62

Serve = Callable[[socket.socket, Shared], None]


class Run:
    """An attempt in a service."""

    __slots__ = (
        *("answer", "asked", "began_at", "cut_at", "deadline", "end_by", "given_at", "launch", "output", "reason"),
        *("says_at", "started_at_ms"),
    )

    def __init__(self, launch: wire.Launch, now: int, wall_ms: int) -> None:
        self.launch = launch
        self.given_at = now
        self.deadline = now + launch.timeout_ms
        self.began_at = now + BEGAN_AFTER_MS
        self.started_at_ms = wall_ms
        self.asked: int | None = None
        self.end_by = NEVER  # it was to end long before: its keeper hangs, or was stopped by somebody
        self.cut_at = NEVER  # when its grace is over, in a process that it shares with others
        self.reason = ""
        self.answer: wire.Finished | None = None  # of its function, until its output is here
        self.output: wire.Collected | None = None  # of a process with several runs that has ended
        self.says_at = 0  # when more of what it says is passed on


class Service:
    """The supervisor's side of a service and its keeper."""

    def __init__(
        self, kind: str, session: int, work: socket.socket, control: socket.socket, pid: int, room: int = 1
    ) -> None:
        """`room`: how many python runs it takes at a time."""
        self.kind = kind
        self.session = session
        self.work = work
        self.control = control
        self.pid = pid
        self.room = room
        self.page: Page | RunsPage | None = None  # where its keeper learns which runs it is at
        self.place = Place()  # whom it serves
        self.runs: dict[int, Run] = {}
        self.retiring = False  # gets nothing new, and ends with the last of its runs
        self.ending = False  # gets nothing new, and ends now
        self.cut_for = ""  # why it is ended, for the runs in it that are not the reason
        self.over = False  # its keeper has reported the end
        self.idle_since = 0
        self.waits_for_room = False  # its socket is watched for that
        self._unsent: deque[bytes] = deque()
        self._to_collect: list[bytes] = []  # tokens of runs whose output the keeper is to be asked for
        self._collecting = 0  # for how many it was asked

    def send(self, packet: bytes) -> None:
        """Sends it; to a process that takes several runs with `send_rest`, together with what came since."""
        if self.room > 1:
            self._unsent.append(wire.frame(packet))
            return
        self._unsent.append(packet)
        self.send_rest()

    def send_rest(self) -> None:
        """Sends what waits; what the socket has no room for waits for the next call."""
        try:
            while self._unsent:
                packet = self._together() if self.room > 1 and len(self._unsent) > 1 else self._unsent[0]
                self.work.send(packet, socket.MSG_DONTWAIT)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it is dying; its keeper says so
            self._unsent.clear()

    def _together(self) -> bytes:
        """Joins what one packet can carry of what waits to the first that waits, and returns it."""
        parts = [self._unsent.popleft()]
        size = len(parts[0])
        while self._unsent and size + len(self._unsent[0]) <= wire.PACKET_MAX:
            size += len(self._unsent[0])
            parts.append(self._unsent.popleft())
        self._unsent.appendleft(b"".join(parts))
        return self._unsent[0]

    def collect(self, token: int) -> None:
        """Asks the keeper for the output of a run. Of a process with several it is asked for what came together, and
        once at a time: its socket always has room."""
        self._to_collect.append(token.to_bytes(8, "little"))
        self._ask_keeper()

    def collected(self) -> None:
        """The keeper has answered for one."""
        self._collecting -= 1
        self._ask_keeper()

    def _ask_keeper(self) -> None:
        if self._collecting <= 0 and self._to_collect:
            self._collecting = len(self._to_collect)
            self.command(wire.CMD_COLLECT + b"".join(self._to_collect))
            self._to_collect.clear()

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
    """The runs of one namespace and user, or of one function of theirs where a process takes several of its runs, and
    the python services that are for them."""

    __slots__ = ("count", "freed", "grown_at", "idle", "key", "queue", "room", "taken_ms")

    def __init__(self, key: tuple[str, str, str] = ("", "", ""), room: int = 1) -> None:
        """`key`: namespace, user, function ("": any). `room`: how many runs one of its services takes at a time."""
        self.key = key
        self.room = room
        # Since when, and what `freed` and `taken_ms` were then.
        self.queue: deque[tuple[int, int, int, wire.Launch]] = deque()
        self.freed = 0  # how often a service became free
        self.taken_ms = 0  # how long the runs took that have ended, as their processes say
        self.grown_at = 0
        self.idle: list[Service] = []  # those with room for a run, the one that has been so longest first
        self.count = 0  # services, those that end included


class Host(Protocol):
    """The part of the supervisor that the pool needs."""

    def start_service(
        self, kind: str, session: int, serve: Serve, user: str = "", memory: int | None = None, room: int = 1
    ) -> Service:
        """`user`: as whom, "" for the node's own. `memory`: what it may have, in bytes. `room`: how many python runs it
        takes at a time. Raises OSError."""

    def emit(self, message: bytes) -> None:
        """Passes an encoded message on to the node."""

    def kill_keeper(self, pid: int) -> None:
        """`Pool.vanished` follows when nothing of it is left."""
