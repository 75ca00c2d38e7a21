"""The supervisor: a small process beside each node that starts and ends what the node is asked to run.

It is started before anything else of the worker, by the sentinel. Sentinel, supervisor and the keepers that it forks
hold the lock of the data directory, which is free only when nothing is left. It ends with the node. Requests are
handled in the order in which they come, which is what a fence relies on.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from raftsched.system import descriptors
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.command import spawner
from raftsched.worker.executors.python import PythonService
from raftsched.worker.processes import cgroup, wire
from raftsched.worker.processes.keeper import LEASE_ENDED, KeeperContext, asked_error, keep_attempt
from raftsched.worker.processes.lease import Watch
from raftsched.worker.processes.limits import OOM_SCORE, capped
from raftsched.worker.processes.linux import become_subreaper, close_all_but, end_descendants, end_strays
from raftsched.worker.processes.pool import OVERDUE_MS, Pool, Serve, within
from raftsched.worker.processes.service import Confines, Page, keep_service
from raftsched.worker.processes.warm_process import NEVER, Service
from raftsched.worker.processes.wire import receive
from raftsched.worker.session.shortage import cannot_start

LATE_MS = 150  # after the keepers began to kill
SWEEP_MS = 500  # between two rounds of ending what does not die at once
KEEPER_KILLED = "its keeper process was killed"
_READ = 256 * 1024


@dataclass(slots=True, eq=False)
class _AttemptKeeper:
    pid: int
    control: socket.socket
    launch: wire.Launch
    end_by: int = NEVER  # boot ms; a keeper that goes on for longer hangs, or was stopped by somebody
    done: bool = False  # has reported the end
    asked: wire.Finished | None = None  # what to report when it is ended for that
    stopping: bool = False  # that is: its node stops, and nobody asked for more


class Supervisor:
    def __init__(self, node: socket.socket, context: KeeperContext, sentinel_fd: int, open_files: int) -> None:
        """`sentinel_fd`: the read end of a pipe whose write end only the sentinel has. `open_files`: as options.Start
        has it."""
        self._open_files = open_files
        self._node = node
        self._sentinel_fd = sentinel_fd
        self._context = context
        self._options = options = context.options
        self._users = {user.name: user for user in options.users}
        self._clock = SystemClock()
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._attempts: dict[int, _AttemptKeeper] = {}  # by token
        self._keepers: dict[int, socket.socket] = {}  # control sockets by pid: all that is not over yet
        self._services: list[Service] = []
        self._late: set[int] = set()  # pids of keepers that were killed for the sake of the lease
        self._fences: list[tuple[int, set[int]]] = []
        self._unswept: list[tuple[int, Callable[[], None]]] = []  # (pid, what to do) of keepers whose trees are left
        self._sweep_at = NEVER
        self._overdue_at = NEVER  # when to look for keepers that should have ended
        self._splitter = wire.Splitter()
        self._out: list[bytes] = []
        self._unsent = b""
        self._stopping = False
        python = PythonService(options.pythonpath, options.python_runs_max, options.python_memory_max)
        most, warm = options.python_processes, options.warm_max
        self._pool = Pool(self, self._clock, python, self._http_service, most, warm)

    def run(self) -> None:
        """Runs until the node is gone or asked for the end."""
        self._watch(self._node, self._from_node)
        self._handlers[self._sentinel_fd] = self._end
        self._epoll.register(self._sentinel_fd, 0)  # hang-up only
        self.emit(wire.encode(wire.Ready(os.getpid())))
        self._flush()
        watch = Watch(self._context.lease, LATE_MS, self._clock.boot_ms())
        while not (self._stopping and not self._keepers and not self._unswept):
            now = self._clock.boot_ms()
            if watch.due(now):
                self._end_late()
            if self._overdue_at <= now:
                self._end_overdue(now)
            if self._sweep_at <= now:
                self._sweep()
            due_at = min(self._pool.due_at, self._overdue_at, self._sweep_at)
            wait_ms = min(watch.wait_ms(now), max(0, due_at - now))
            for fd, _ in self._epoll.poll(wait_ms / 1000):
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler()
            if not self._stopping:
                self._pool.tick(self._clock.boot_ms())
            self._answer_fences()
            for service in self._services:
                if service.behind:
                    service.send_rest()
                    self._epoll.modify(service.work, select.EPOLLIN | (select.EPOLLOUT if service.behind else 0))
            self._flush()

    # ------------------------------------------------------------ the node

    def _from_node(self) -> None:
        if self._unsent:
            self._flush()
        try:
            data = self._node.recv(_READ, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._end()  # the keepers see that, too; but they may have been stopped or killed with it
        for raw in self._splitter.feed(data):
            message = wire.decode_down(raw)
            if isinstance(message, wire.Launch):
                self._launch(message)
            elif isinstance(message, wire.Kill):
                self._kill(message)
            elif isinstance(message, wire.WindDown):
                self._wind_down(message.grace_ms)
            elif isinstance(message, wire.Ping):
                self.emit(wire.encode(wire.Pong(message.number)))
            elif isinstance(message, wire.Fence):
                self._end_everything()
                left = {*self._keepers, *(pid for pid, _ in self._unswept)}
                self._fences.append((message.number, left))
            else:
                self._stopping = True
                self._end_everything()

    def _end_late(self) -> None:
        """The lease is about to end, and these keepers have not noticed: somebody stopped them."""
        for pid in self._keepers:
            self._late.add(pid)
            os.kill(pid, signal.SIGKILL)  # it is our child and not waited for yet: the number is still its own

    def _end_overdue(self, now: int) -> None:
        """These have not ended what they were to end."""
        self._overdue_at = NEVER
        for keeper in self._attempts.values():
            if keeper.end_by > now:
                self._overdue_at = min(self._overdue_at, keeper.end_by)
                continue
            keeper.end_by = NEVER
            if keeper.asked is None:
                timeout_ms = keeper.launch.timeout_ms
                error = asked_error(wire.TIMED_OUT, timeout_ms)
                keeper.asked = wire.Finished(keeper.launch.token, wire.TIMED_OUT, None, 0, None, error)
            self.kill_keeper(keeper.pid)

    def kill_keeper(self, pid: int) -> None:
        """Kills a keeper; what it leaves is ended then."""
        if pid in self._keepers:
            os.kill(pid, signal.SIGKILL)  # it is our child and not waited for yet: the number is still its own

    def _sweep(self) -> None:
        if not end_strays(self._keepers):
            self._sweep_at = self._clock.boot_ms() + SWEEP_MS
            return
        self._sweep_at = NEVER
        unswept, self._unswept = self._unswept, []
        for _, then in unswept:
            then()

    def _end(self) -> NoReturn:
        """The node is gone, or the sentinel: nothing goes on, and whoever else was to end it may be gone as well."""
        end_descendants()
        os._exit(1)

    def emit(self, message: bytes) -> None:
        """Sends it with the next flush, in order."""
        self._out.append(wire.frame(message))

    def _flush(self) -> None:
        if not self._out and not self._unsent:
            return
        data = self._unsent + b"".join(self._out)
        self._out.clear()
        blocked = bool(self._unsent)
        sent = 0
        try:
            while sent < len(data):
                sent += self._node.send(memoryview(data)[sent:], socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except OSError:
            self._end()
        self._unsent = data[sent:]
        if blocked != bool(self._unsent):
            self._epoll.modify(self._node, select.EPOLLIN | (select.EPOLLOUT if self._unsent else 0))

    def _launch(self, launch: wire.Launch) -> None:
        if self._stopping:
            self.emit(wire.encode(wire.Finished(launch.token, wire.LOST, None, self._clock.wall_ms())))
            return
        try:
            if launch.kind != "exec":
                self._pool.launch(launch)
                return
            task: wire.Exec = wire.decode_task(launch.task)
            context, options = self._context, self._options
            limits = task.limits
            task = msgspec.structs.replace(task, limits=capped(limits, options.memory_max))
            group = cgroup.of_run(options.cgroups, launch.token)
            user = self._users[launch.user] if launch.user else None
            spawn = spawner(task, options, group, user)
            pid, control = self._fork(lambda end: keep_attempt(context, end, launch, spawn, limits, group, task.hidden))
        except OSError as exc:  # whatever it is, nothing of the run was at work, and it is not the run's own fault
            self.emit(wire.encode(wire.not_begun(launch.token, cannot_start(exc), self._clock.wall_ms())))
            return
        # Its task stays with its own keeper: processes for python are forked from here, and run the code of jobs.
        keeper = _AttemptKeeper(pid, control, msgspec.structs.replace(launch, task=b""))
        self._end_by(keeper, launch.timeout_ms + launch.grace_ms)
        self._attempts[launch.token] = keeper
        self._watch(control, lambda: self._from_attempt(keeper))

    def _end_by(self, keeper: _AttemptKeeper, in_ms: int) -> None:
        keeper.end_by = min(keeper.end_by, self._clock.boot_ms() + in_ms + OVERDUE_MS)
        self._overdue_at = min(self._overdue_at, keeper.end_by)

    def _kill(self, kill: wire.Kill) -> None:
        keeper = self._attempts.get(kill.token)
        if keeper is None:
            self._pool.kill(kill.token, kill.reason)
            return
        if keeper.asked is None or keeper.stopping:
            keeper.stopping = False
            error = asked_error(wire.KILLED, None, kill.reason)
            keeper.asked = wire.Finished(kill.token, wire.KILLED, None, 0, None, error)
        self._tell(keeper, wire.CMD_KILL, keeper.launch.grace_ms)

    def _tell(self, keeper: _AttemptKeeper, command: bytes, grace_ms: int) -> None:
        """Tells a keeper to end its run, which may take so long."""
        self._end_by(keeper, grace_ms)
        with contextlib.suppress(OSError):  # it has just ended
            keeper.control.send(command + grace_ms.to_bytes(4, "little"), socket.MSG_DONTWAIT)

    def _wind_down(self, grace_ms: int) -> None:
        """The node stops: whatever runs has so long, or less where its job says so, to come to an end."""
        self._pool.wind_down(grace_ms)
        for keeper in self._attempts.values():
            if keeper.asked is None:
                keeper.asked = wire.Finished(keeper.launch.token, wire.KILLED, None, 0, None, wire.NODE_STOPPED)
                keeper.stopping = True
            self._tell(keeper, wire.CMD_STOP, within(grace_ms, keeper.launch))

    def _end_everything(self) -> None:
        self._pool.drop_queue()
        self._pool.end_all()
        for keeper in self._attempts.values():
            with contextlib.suppress(OSError):
                keeper.control.send(wire.CMD_FENCE, socket.MSG_DONTWAIT)

    def _answer_fences(self) -> None:
        while self._fences:
            number, keepers = self._fences[0]
            if any(pid in self._keepers for pid in keepers) or any(pid in keepers for pid, _ in self._unswept):
                return
            self._fences.pop(0)
            self.emit(wire.encode(wire.Fenced(number)))

    # ------------------------------------------------------------ keepers

    def _fork(self, body: Callable[[socket.socket], None], *more: int) -> tuple[int, socket.socket]:
        """Forks a keeper that does `body` with its end of a socket and keeps `more` open. (pid, our end)"""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            try:
                context = self._context
                close_all_but({0, 1, 2, context.life_fd, context.lock_fd, theirs.fileno(), *more})
                become_subreaper()
                descriptors.give_back(self._open_files)
                body(theirs)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)  # never back into the supervisor's own loop
        theirs.close()
        self._keepers[pid] = ours
        return pid, ours

    def start_service(
        self, kind: str, session: int, serve: Serve, user: str = "", memory: int | None = None
    ) -> Service:
        context, options = self._context, self._options
        page = Page()

        def confines() -> Confines:
            """Returns the confines of the service; called in its keeper."""
            self._forget_runs()
            if kind != "python":
                return Confines()
            limits = capped(wire.Limits(memory), options.memory_max)
            return Confines(
                self._users[user] if user else None,
                cgroup.of_service(options.cgroups, os.getpid()),
                limits.memory if limits is not None else None,
                OOM_SCORE,
            )

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid, control = self._fork(
                lambda end: keep_service(context, end, theirs, session, serve, page, confines), theirs.fileno()
            )
        except OSError:
            ours.close()
            page.close()
            raise
        finally:
            theirs.close()
        page.keep_from_children()
        service = Service(kind, session, ours, control, pid)
        service.page = page
        self._services.append(service)
        self._watch(ours, lambda: self._from_service(service))
        self._watch(control, lambda: self._from_service_keeper(service))
        return service

    def _forget_runs(self) -> None:
        """Forgets others' runs, in what was forked from here to run the code of jobs."""
        self._out.clear()
        self._unsent = b""
        self._splitter = wire.Splitter()
        self._attempts.clear()
        for service in self._services:
            service.forget_runs()
        self._pool.drop_all()

    def _http_service(self) -> Serve:
        def serve(work: socket.socket, shared: object) -> None:
            # Loaded where it is needed: asyncio and ssl would double the size of every process forked from here.
            from raftsched.worker.executors.http import HttpService

            options = self._options
            HttpService(self._context.live_directory, options.http_allow, options.http_deny).run(work)

        return serve

    def _from_attempt(self, keeper: _AttemptKeeper) -> None:
        packet = receive(keeper.control)
        if packet is None:
            return
        if packet:
            keeper.done = keeper.done or packet[1] == wire.DONE_TAG
            self.emit(packet)
            return
        self._attempts.pop(keeper.launch.token, None)
        late = self._over(keeper.pid, keeper.control)
        if not keeper.done:
            self._unswept.append((keeper.pid, lambda: self._vanished(keeper, late)))
            self._sweep()

    def _vanished(self, keeper: _AttemptKeeper, late: bool) -> None:
        """Nothing of its run is left either."""
        token, now_ms = keeper.launch.token, self._clock.wall_ms()
        if late:
            done = wire.Finished(token, wire.LOST, None, now_ms, None, LEASE_ENDED)
        elif keeper.asked is not None:
            done = msgspec.structs.replace(keeper.asked, ended_at_ms=now_ms)
        else:
            done = wire.Finished(token, wire.LOST, None, now_ms, None, KEEPER_KILLED, alone=True)
        self.emit(wire.encode(done))

    def _from_service(self, service: Service) -> None:
        service.send_rest()
        packet = receive(service.work)
        if packet:
            self._pool.answered(service, packet)
        elif packet is not None:
            self._forget(service.work)

    def _from_service_keeper(self, service: Service) -> None:
        packet = receive(service.control)
        if packet is None:
            return
        if packet:
            message = wire.decode_service(packet)
            if isinstance(message, wire.Collected):
                self._pool.collected(service, message)
            else:
                while service.work.fileno() >= 0 and (answer := receive(service.work)):
                    self._pool.answered(service, answer)  # its last words may not have been read yet
                if message.answer:
                    self._pool.answered(service, message.answer)
                service.over = True
                self._pool.gone(service, message)
            return
        late = self._over(service.pid, service.control)
        self._forget(service.work)
        self._services.remove(service)
        if service.page is not None:
            service.page.close()
            service.page = None
        if not service.over:
            self._unswept.append((service.pid, lambda: self._pool.vanished(service, late)))
            self._sweep()

    def _over(self, pid: int, control: socket.socket) -> bool:
        """A keeper is gone. One that did not report an end was killed, and its tree fell to this process. True: for the
        sake of the lease."""
        self._forget(control)
        del self._keepers[pid]
        os.waitpid(pid, 0)
        late = pid in self._late
        self._late.discard(pid)
        return late

    # ------------------------------------------------------------ descriptors

    def _watch(self, sock: socket.socket, handler: Callable[[], None]) -> None:
        self._handlers[sock.fileno()] = handler
        self._epoll.register(sock, select.EPOLLIN)

    def _forget(self, sock: socket.socket) -> None:
        if sock.fileno() in self._handlers:
            self._epoll.unregister(sock)
            del self._handlers[sock.fileno()]
            sock.close()
