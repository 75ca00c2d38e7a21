"""The supervisor: a small process beside each node that starts and ends what the node is asked to run.

It is started before anything else of the worker, by the sentinel. Sentinel, supervisor and the keepers that it forks
hold the lock of the data directory, which is free only when nothing is left. It ends with the node. Requests are
handled in the order in which they come, which is what a fence relies on.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import traceback
from collections.abc import Callable
from typing import NoReturn

from raftsched.system import descriptors
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.python import PythonService
from raftsched.worker.processes import cgroup, wire
from raftsched.worker.processes.keepers import Keepers
from raftsched.worker.processes.lease import Watch
from raftsched.worker.processes.limits import OOM_SCORE, capped
from raftsched.worker.processes.linux import become_subreaper, close_all_but, end_descendants, end_strays
from raftsched.worker.processes.pages import Page, RunsPage
from raftsched.worker.processes.pool import Pool
from raftsched.worker.processes.service import Confines, keep_service
from raftsched.worker.processes.tree import KeeperContext
from raftsched.worker.processes.warm_process import NEVER, Serve, Service
from raftsched.worker.processes.wire import receive
from raftsched.worker.session.shortage import cannot_start

LATE_MS = 150  # after the keepers began to kill
SWEEP_MS = 500  # between two rounds of ending what does not die at once
_READ = 256 * 1024


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
        self._running: dict[int, socket.socket] = {}  # control sockets of keepers by pid: all that is not over yet
        self._services: list[Service] = []
        self._late: set[int] = set()  # pids of keepers that were killed for the sake of the lease
        self._fences: list[tuple[int, set[int]]] = []
        self._unswept: list[tuple[int, Callable[[], None]]] = []  # (pid, what to do) of keepers whose trees are left
        self._sweep_at = NEVER
        self._splitter = wire.Splitter()
        self._out: list[bytes] = []
        self._unsent = b""
        self._stopping = False
        runs_max, memory_max = options.python_runs_max, options.python_memory_max
        python = PythonService(options.pythonpath, runs_max, memory_max, options.python_first)
        most, warm = options.python_processes, options.warm_max
        self._keepers = Keepers(self, self._clock, context)
        self._pool = Pool(self, self._clock, python, self._http_service, most, warm)

    def run(self) -> None:
        """Runs until the node is gone or asked for the end."""
        self.watch(self._node, self._from_node)
        self._handlers[self._sentinel_fd] = self._end
        self._epoll.register(self._sentinel_fd, 0)  # hang-up only
        self.emit(wire.encode(wire.Ready(os.getpid())))
        self._flush()
        watch = Watch(self._context.lease, LATE_MS, self._clock.boot_ms())
        while not (self._stopping and not self._running and not self._unswept):
            now = self._clock.boot_ms()
            if watch.due(now):
                self._end_late()
            if self._sweep_at <= now:
                self._sweep()
            due_at = min(self._pool.due_at, self._keepers.due_at, self._sweep_at)
            wait_ms = min(watch.wait_ms(now), max(0, due_at - now))
            for fd, _ in self._epoll.poll(wait_ms / 1000):
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler()
            if not self._stopping:
                self._pool.tick(self._clock.boot_ms())
            self._keepers.tick(self._clock.boot_ms())
            self._answer_fences()
            for service in self._services:
                if service.behind:
                    service.send_rest()
                if service.behind != service.waits_for_room and service.work.fileno() >= 0:
                    service.waits_for_room = service.behind
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
                self._launch(message, raw)
            elif isinstance(message, wire.Kill):
                if not self._keepers.kill(message.token, message.reason):
                    self._pool.kill(message.token, message.reason)
            elif isinstance(message, wire.WindDown):
                self._pool.wind_down(message.grace_ms)
                self._keepers.wind_down(message.grace_ms)
            elif isinstance(message, wire.Ping):
                self.emit(wire.encode(wire.Pong(message.number)))
            elif isinstance(message, wire.Fence):
                self._end_everything()
                left = {*self._running, *(pid for pid, _ in self._unswept)}
                self._fences.append((message.number, left))
            else:
                self._stopping = True
                self._end_everything()

    def _end_late(self) -> None:
        """The lease is about to end, and these keepers have not noticed: somebody stopped them."""
        for pid in self._running:
            self._late.add(pid)
            os.kill(pid, signal.SIGKILL)  # it is our child and not waited for yet: the number is still its own

    def kill_keeper(self, pid: int) -> None:
        """Kills a keeper; what it leaves is ended then."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)  # it is our child and not waited for yet: the number is still its own

    def _sweep(self) -> None:
        if not end_strays(self._running):
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

    def _launch(self, launch: wire.Launch, raw: bytes) -> None:
        if self._stopping:
            self.emit(wire.encode(wire.Finished(launch.token, wire.LOST, None, self._clock.wall_ms())))
        elif launch.kind == "exec":
            self._keepers.launch(launch, raw)
        else:
            try:
                self._pool.launch(launch)
            except OSError as exc:  # whatever it is, nothing of the run was at work, and it is not the run's own fault
                self.emit(wire.encode(wire.not_begun(launch.token, cannot_start(exc), self._clock.wall_ms())))

    def _end_everything(self) -> None:
        self._pool.drop_queue()
        self._pool.end_all()
        self._keepers.end_all()

    def _answer_fences(self) -> None:
        while self._fences:
            number, keepers = self._fences[0]
            if any(pid in self._running for pid in keepers) or any(pid in keepers for pid, _ in self._unswept):
                return
            self._fences.pop(0)
            self.emit(wire.encode(wire.Fenced(number)))

    # ------------------------------------------------------------ keepers

    def fork(self, body: Callable[[socket.socket], None], *more: int) -> tuple[int, socket.socket]:
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
        self._running[pid] = ours
        return pid, ours

    def start_service(
        self, kind: str, session: int, serve: Serve, user: str = "", memory: int | None = None, room: int = 1
    ) -> Service:
        context, options = self._context, self._options
        page = Page() if room == 1 else RunsPage()

        def confines() -> Confines:
            """Returns the confines of the service; called in its keeper."""
            self._forget_runs()
            if kind != "python":
                # No code of a job is in it, and it gives way to nobody: where jobs use all processors, each request
                # would wait, be told as begun and then as ended, and hardly two ends would go in one log entry.
                return Confines()
            limits = capped(wire.Limits(memory), options.memory_max)
            return Confines(
                self._users[user] if user else None,
                cgroup.of_service(options.cgroups, os.getpid()),
                limits.memory if limits is not None else None,
                OOM_SCORE,
                options.nice,
            )

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid, control = self.fork(
                lambda end: keep_service(context, end, theirs, session, serve, page, confines), theirs.fileno()
            )
        except OSError:
            ours.close()
            page.close()
            raise
        finally:
            theirs.close()
        page.keep_from_children()
        service = Service(kind, session, ours, control, pid, room)
        service.page = page
        self._services.append(service)
        self.watch(ours, lambda: self._from_service(service))
        self.watch(control, lambda: self._from_service_keeper(service))
        return service

    def _forget_runs(self) -> None:
        """Forgets others' runs, in what was forked from here to run the code of jobs."""
        self._out.clear()
        self._unsent = b""
        self._splitter = wire.Splitter()
        self._keepers.drop_all()
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
        late = self.over(service.pid, service.control)
        self._forget(service.work)
        self._services.remove(service)
        if service.page is not None:
            service.page.close()
            service.page = None
        if not service.over:
            self.sweep_then(service.pid, lambda: self._pool.vanished(service, late))

    def sweep_then(self, pid: int, then: Callable[[], None]) -> None:
        """Ends what a keeper left that was itself killed, and then calls."""
        self._unswept.append((pid, then))
        self._sweep()

    def over(self, pid: int, control: socket.socket) -> bool:
        """A keeper is gone. One that did not report an end was killed, and its tree fell to this process. True: for the
        sake of the lease."""
        self._forget(control)
        del self._running[pid]
        os.waitpid(pid, 0)
        late = pid in self._late
        self._late.discard(pid)
        return late

    # ------------------------------------------------------------ descriptors

    def watch(self, sock: socket.socket, handler: Callable[[], None]) -> None:
        self._handlers[sock.fileno()] = handler
        self._epoll.register(sock, select.EPOLLIN)

    def _forget(self, sock: socket.socket) -> None:
        if sock.fileno() in self._handlers:
            self._epoll.unregister(sock)
            del self._handlers[sock.fileno()]
            sock.close()
