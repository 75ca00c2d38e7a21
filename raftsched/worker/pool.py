"""The supervisor's services: warm processes for python, one process for http.

A python service runs one attempt at a time. The pool hands the next attempt to one that is idle, waits a moment for
one to become idle, and then starts another, up to its limit; not where those there are get through all that waits soon,
as with short runs: processes beyond what the processors can run at a time only cost. Those idle for long end. A run
that wants a process of its own gets one at once. The http service takes all requests.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from raftsched.clock import Clock
from raftsched.worker import wire
from raftsched.worker.executors.python import PythonService
from raftsched.worker.keeper import BEGAN_AFTER_MS, LEASE_ENDED, asked_error, describe_exit
from raftsched.worker.limits import blamed
from raftsched.worker.service import OP_KILL, OP_RUN, OP_TIMEOUT, PACKET_HEAD, Shared
from raftsched.worker.shortage import cannot_start

GROW_AFTER_MS = 10  # how long an attempt waits for a busy service before another one is started
GROW_EVERY_MS = max(1, 10 // (os.cpu_count() or 1))  # starting one takes about 10 ms of a processor
KEEP_UP_MS = 30  # not where those there are get through all that waits within this time
IDLE_MAX_MS = 60_000
OVERDUE_MS = 1_000  # after a keeper should have killed what it was to end
HTTP_ENDS_MS = 4_000  # for the http service to give up a request; it ends with all others when it does not
NEVER = 1 << 62

Serve = Callable[[socket.socket, Shared], None]


class Run:
    """An attempt in a service."""

    __slots__ = ("asked", "began_at", "deadline", "end_by", "launch", "reason", "started_at_ms")

    def __init__(self, launch: wire.Launch, now: int, wall_ms: int) -> None:
        self.launch = launch
        self.deadline = now + launch.timeout_ms
        self.began_at = now + BEGAN_AFTER_MS
        self.started_at_ms = wall_ms
        self.asked: int | None = None
        self.end_by = NEVER  # it was to end long before: its keeper hangs, or was stopped by somebody
        self.reason = ""


class Service:
    """The supervisor's side of a service and its keeper."""

    def __init__(self, kind: str, session: int, work: socket.socket, control: socket.socket, pid: int) -> None:
        self.kind = kind
        self.session = session
        self.work = work
        self.control = control
        self.pid = pid
        self.runs: dict[int, Run] = {}
        self.answer: wire.Done | None = None  # of a python run, until its output is here
        self.ending = False  # gets nothing new
        self.over = False  # its keeper has reported the end
        self.idle_since = 0
        self._unsent: deque[bytes] = deque()

    def send(self, packet: bytes) -> None:
        self._unsent.append(packet)
        self.send_rest()

    def send_rest(self) -> None:
        """What its socket has no room for waits for the next call."""
        try:
            while self._unsent:
                self.work.send(self._unsent[0], socket.MSG_DONTWAIT)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it is dying; its keeper says so
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


class Host(Protocol):
    """What the pool needs of the supervisor."""

    def start_service(self, kind: str, session: int, serve: Serve) -> Service: ...

    def emit(self, message: bytes) -> None:
        """Passes an encoded message on to the node."""

    def kill_keeper(self, pid: int) -> None:
        """`Pool.vanished` follows when nothing of it is left."""


def within(grace_ms: int, launch: wire.Launch) -> int:
    """What a run is given when its node, which stops, gives so much."""
    return grace_ms if launch.stop_ms is None else min(grace_ms, launch.stop_ms)


class Pool:
    def __init__(self, host: Host, clock: Clock, python: PythonService, http: Callable[[], Serve], most: int) -> None:
        """`most` python services at a time."""
        self._host = host
        self._clock = clock
        self._python = python
        self._http = http
        self._most = most
        self._queue: deque[tuple[int, int, wire.Launch]] = deque()  # since when, and how many had been freed by then
        self._freed = 0  # how often a python service became free
        self._grown_at = 0
        self._services: list[Service] = []
        self._idle: list[Service] = []
        self._due_at = NEVER
        self._end_at: int | None = None  # the node stops: when what is left is killed

    # ------------------------------------------------------------ from the node

    def launch(self, launch: wire.Launch) -> None:
        if len(launch.task) + PACKET_HEAD.size > wire.PACKET_MAX:
            error = f"the run is too large to hand over: {len(launch.task)} bytes, the limit is {wire.PACKET_MAX}"
            now_ms = self._clock.wall_ms()
            self._emit(wire.Done(launch.token, wire.FAILED, None, now_ms, None, error))
        elif launch.kind == "http":
            self._give(self._http_service(launch.session), launch)
        elif launch.fresh:
            self._start(launch)
        elif self._idle and not self._queue:
            self._give(self._idle.pop(), launch)
        else:
            self._queue.append((self._clock.boot_ms(), self._freed, launch))
            self._due_at = 0

    def kill(self, token: int, reason: str) -> bool:
        """False when it is not here."""
        for i, (_, _, launch) in enumerate(self._queue):
            if launch.token == token:
                del self._queue[i]
                self._emit(wire.Done(token, wire.KILLED, None, self._clock.wall_ms(), None, reason or None))
                return True
        for service in self._services:
            run = service.runs.get(token)
            if run is not None:
                self._ask(service, run, wire.KILLED, reason)
                return True
        return False

    def drop_queue(self) -> None:
        """What waits is never started."""
        while self._queue:
            _, _, launch = self._queue.popleft()
            self._emit(wire.Done(launch.token, wire.LOST, None, self._clock.wall_ms()))

    def end_all(self) -> None:
        for service in self._services:
            self._end(service)

    def wind_down(self, grace_ms: int) -> None:
        """What was given to this node already has so long to come to an end."""
        now = self._clock.boot_ms()
        self._end_at = now + grace_ms
        for service in self._services:
            self._wind_down(service, now)

    def _wind_down(self, service: Service, now: int) -> None:
        assert self._end_at is not None
        grace_ms = max(0, self._end_at - now)
        if service.kind == "python":
            grace_ms = min([grace_ms, *(within(grace_ms, run.launch) for run in service.runs.values())])
        for run in service.runs.values():
            self._end_by(run, now + grace_ms)
        service.command(wire.CMD_STOP + grace_ms.to_bytes(4, "little"))

    # ------------------------------------------------------------ time

    @property
    def due_at(self) -> int:
        """When `tick` wants to be called, boot ms."""
        return self._due_at

    def tick(self, now: int) -> None:
        if now < self._due_at:
            return
        self._due_at = NEVER
        for service in self._services:
            for run in service.runs.values():
                if run.began_at <= now:
                    run.began_at = NEVER
                    self._host.emit(wire.encode(wire.Began(run.launch.token, run.started_at_ms)))
                if run.asked is None:
                    if run.deadline <= now:
                        self._ask(service, run, wire.TIMED_OUT, "")
                    else:
                        self._due_at = min(self._due_at, run.deadline)
                if run.end_by <= now:
                    run.end_by = NEVER
                    if run.asked is None:
                        run.asked, run.reason = wire.KILLED, wire.NODE_STOPPED
                    service.ending = True
                    self._host.kill_keeper(service.pid)
                self._due_at = min(self._due_at, run.began_at, run.end_by)
        self._grow(now)
        for service in [s for s in self._idle if s.idle_since + IDLE_MAX_MS <= now]:
            self._end(service)
        if self._idle:
            self._due_at = min(self._due_at, min(s.idle_since for s in self._idle) + IDLE_MAX_MS)

    def _grow(self, now: int) -> None:
        while self._queue and self._idle:
            self._give(self._idle.pop(), self._queue.popleft()[2])
        if not self._queue:
            return
        count = sum(s.kind == "python" for s in self._services)
        since, freed, launch = self._queue[0]
        served = self._freed - freed  # since it waits
        if since + GROW_AFTER_MS <= now and served >= count and served * KEEP_UP_MS >= len(self._queue) * (now - since):
            self._due_at = min(self._due_at, now + GROW_AFTER_MS)
        elif count < self._most and (count == 0 or self._grow_at(since) <= now):
            self._queue.popleft()
            if self._start(launch):
                self._grown_at = now
            self._due_at = 0 if self._queue else self._due_at
        elif count < self._most:
            self._due_at = min(self._due_at, self._grow_at(since))

    def _start(self, launch: wire.Launch) -> bool:
        """In a new python service."""
        try:
            service = self._host.start_service("python", launch.session, self._python)
        except OSError as exc:
            self._emit(wire.not_begun(launch.token, cannot_start(exc), self._clock.wall_ms()))
            return False
        self._services.append(service)
        self._give(service, launch)
        if self._end_at is not None:
            self._wind_down(service, self._clock.boot_ms())
        return True

    def _grow_at(self, since: int) -> int:
        return max(since + GROW_AFTER_MS, self._grown_at + GROW_EVERY_MS)

    # ------------------------------------------------------------ from services and their keepers

    def answered(self, service: Service, packet: bytes) -> None:
        """What the service says about a run."""
        flags = packet[0]
        message = packet[1:]
        if service.kind == "http":
            self._http_answered(service, message)
            return
        token, run = next(iter(service.runs.items()), (0, None))
        if run is None or run.asked is not None:
            return  # it is being killed; what its keeper says counts
        if flags == 0:
            del service.runs[token]
            self._host.emit(message)
            self._free(service)
        elif flags & wire.STALE:
            del service.runs[token]
            self._queue.appendleft((0, self._freed, run.launch))
            self._due_at = 0
            self._end(service)
        else:
            done: wire.Done = wire.decode_up(message)
            service.answer = done
            if flags & wire.DIRTY:
                self._end(service)
            else:
                service.command(wire.CMD_COLLECT)

    def _http_answered(self, service: Service, message: bytes) -> None:
        done: wire.Done = wire.decode_up(message)
        run = service.runs.pop(done.token)
        if run.asked is None:
            self._host.emit(message)
            return
        error = asked_error(run.asked, run.launch.timeout_ms, run.reason)
        self._emit_with(done, run, run.asked, error)

    def collected(self, service: Service, output: wire.Collected) -> None:
        done = service.answer
        if done is None:
            return
        service.answer = None
        run = service.runs.pop(done.token)
        self._emit_with(done, run, done.outcome, done.error, output)
        if not service.ending:
            self._free(service)

    def gone(self, service: Service, gone: wire.Gone) -> None:
        """Nothing of it is left."""
        self._forget(service)
        now_ms = self._clock.wall_ms()
        for token, run in service.runs.items():
            done = wire.Done(token, wire.LOST, run.started_at_ms, max(now_ms, run.started_at_ms))
            output = gone.output if service.kind == "python" else None
            if service.answer is not None:
                done = service.answer
                self._emit_with(done, run, done.outcome, done.error, output)
            elif run.asked is not None and not gone.lost:
                error = asked_error(run.asked, run.launch.timeout_ms, run.reason)
                self._emit_with(done, run, run.asked, error, output)
            elif gone.lost:
                self._emit_with(done, run, wire.LOST, LEASE_ENDED, output)
            elif gone.not_begun:
                self._emit(wire.not_begun(token, gone.not_begun, now_ms))
            elif gone.for_node:
                self._emit_with(done, run, wire.KILLED, wire.NODE_STOPPED, output)
            else:
                tail = gone.output.tail
                limits = wire.decode_task(run.launch.task).limits if service.kind == "python" else None
                why = blamed(limits, gone.exit_code, tail, gone.used_cpu_s, gone.killed_for_memory)
                what = describe_exit(gone.exit_code, why)
                error = wire.failure(f"the process ended before the function returned: {what}", tail)
                done = wire.Done(token, wire.FAILED, done.started_at_ms, done.ended_at_ms, gone.exit_code)
                self._emit_with(done, run, wire.FAILED, error, output)
        service.runs.clear()
        self._due_at = 0

    def vanished(self, service: Service, lost: bool) -> None:
        """Its keeper was killed by somebody, or (`lost`) for the sake of the lease; nothing of it is left now."""
        if lost:
            service.answer = None
        elif service.answer is None:
            for token, run in [(t, r) for t, r in service.runs.items() if r.asked is None]:
                del service.runs[token]
                now_ms = max(self._clock.wall_ms(), run.started_at_ms)
                error = "its keeper process was killed"
                self._emit(wire.Done(token, wire.LOST, run.started_at_ms, now_ms, None, error, alone=True))
        self.gone(service, wire.Gone(128 + 9, lost, wire.Collected(b"", False, 0, "")))

    # ------------------------------------------------------------ steps

    def _http_service(self, session: int) -> Service:
        for service in self._services:
            if service.kind == "http" and service.session == session and not service.ending:
                return service
        service = self._host.start_service("http", session, self._http())
        self._services.append(service)
        return service

    def _give(self, service: Service, launch: wire.Launch) -> None:
        now = self._clock.boot_ms()
        run = Run(launch, now, self._clock.wall_ms())
        service.runs[launch.token] = run
        self._due_at = min(self._due_at, run.began_at, run.deadline)
        service.send(PACKET_HEAD.pack(launch.token, OP_RUN) + launch.task)

    def _free(self, service: Service) -> None:
        self._freed += 1
        if self._queue:
            self._give(service, self._queue.popleft()[2])
        else:
            service.idle_since = self._clock.boot_ms()
            self._idle.append(service)
            self._due_at = min(self._due_at, service.idle_since + IDLE_MAX_MS)

    def _ask(self, service: Service, run: Run, outcome: int, reason: str) -> None:
        if run.asked is not None:
            return
        run.asked = outcome
        run.reason = reason
        if service.kind == "http":
            op = OP_TIMEOUT if outcome == wire.TIMED_OUT else OP_KILL
            service.send(PACKET_HEAD.pack(run.launch.token, op))
            self._end_by(run, self._clock.boot_ms() + HTTP_ENDS_MS)
            return
        service.ending = True
        self._end_by(run, self._clock.boot_ms() + run.launch.grace_ms)
        command = wire.CMD_TIMEOUT if outcome == wire.TIMED_OUT else wire.CMD_KILL
        service.command(command + run.launch.grace_ms.to_bytes(4, "little"))

    def _end_by(self, run: Run, kill_at: int) -> None:
        run.end_by = min(run.end_by, kill_at + OVERDUE_MS)
        self._due_at = min(self._due_at, run.end_by)

    def _end(self, service: Service) -> None:
        service.ending = True
        if service in self._idle:
            self._idle.remove(service)
        service.command(wire.CMD_FENCE)

    def _forget(self, service: Service) -> None:
        if service in self._services:
            self._services.remove(service)
        if service in self._idle:
            self._idle.remove(service)

    def _emit_with(
        self, done: wire.Done, run: Run, outcome: int, error: str | None, output: wire.Collected | None = None
    ) -> None:
        frames, spooled, truncated = done.frames, done.spooled, done.truncated
        if output is not None:
            frames, spooled, truncated = output.frames, output.spooled, output.truncated
        started = done.started_at_ms if done.started_at_ms is not None else run.started_at_ms
        self._emit(
            wire.Done(
                done.token,
                outcome,
                started,
                done.ended_at_ms,
                done.exit_code,
                error,
                done.result,
                frames,
                spooled,
                truncated,
            )
        )

    def _emit(self, done: wire.Done) -> None:
        self._host.emit(wire.encode(done))
