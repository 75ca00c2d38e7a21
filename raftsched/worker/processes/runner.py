"""Handles the supervisor process for the node: launch, kill, lease, fence, and the ends that come back.

Requests leave in the order in which they were made, many in one write. An end is told only when nothing of the
attempt is left and its output, if any, is on the disk; attempts without output do not wait for a disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

import raftsched
from raftsched.core.commands import SelfReport
from raftsched.core.model import GRACE_MS, Outcome, OutputRef, Verdict
from raftsched.errors import StartupError
from raftsched.output.keeping.owner_record import owner_of_local
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.keeping.together import Appender, Kept
from raftsched.system import descriptors
from raftsched.system.clock import Clock
from raftsched.worker.processes import cgroup, leftovers, linux, wire
from raftsched.worker.processes.environment import base_environment
from raftsched.worker.processes.lease import LeaseSlot
from raftsched.worker.processes.options import Options, Start
from raftsched.worker.processes.run_lock import RunLock

_READ = 256 * 1024
_MODULE = "raftsched.worker.processes.sentinel"
START_ATTEMPTS = 3  # a supervisor that is killed while it starts is started again
STOP_PATIENCE_S = 15.0  # for what runs to be ended; then the supervisor is killed
FENCE_PATIENCE_S = 10.0  # the same; it is long enough for any tree, so this supervisor was stopped by somebody


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to be run, under a session that holds its lease."""

    token: int
    session: int
    task: wire.Task
    timeout_ms: int
    grace_ms: int = GRACE_MS
    stop_ms: int | None = None  # what it gets at most when the node stops; None: as much as the node gives
    namespace: str = ""
    user: str = ""  # one of the runner's; "": the node's own
    output_max: int = 0  # bytes that are kept of what it prints; 0: as many as the store says
    run_env: Mapping[str, str] = {}  # RAFTSCHED_ variables, by which a run knows what it is a run of
    trace: tuple[str, str] = ("", "")  # traceparent and tracestate, from the node that gave it to a remote worker


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run; nothing of it is left. LOST: killed (or not even started) because the lease was about to end,
    by a fence, or while stopping; `alone`: because its keeper was ended by somebody, which is no word on the lease.
    KILLED though nobody asked: ended because the node stops."""

    outcome: Outcome
    started_at_ms: int | None
    ended_at_ms: int
    exit_code: int | None = None
    error: str | None = None
    result: bytes | None = None
    output: OutputRef | None = None
    begun: bool = True  # False: the node could not start it; the outcome is KILLED then
    alone: bool = False
    verdict: Verdict | None = None  # what the run itself says is to become of it
    delay_ms: int | None = None  # of a snooze, or as an answer of HTTP asks for
    said: SelfReport | None = None  # the last of what it said of itself


def self_report_of(said: wire.SelfReport) -> SelfReport | None:
    """Returns what the log is told of it; None: nothing."""
    found = SelfReport(said.percent, said.text, said.kept)
    return None if found == SelfReport() else found


class Runner:
    def __init__(
        self, directory: Path, output: OutputStore, clock: Clock, *, options: Options, umask: int = -1
    ) -> None:
        """`directory` is the node's data directory; the caller is its only user (the store's lock sees to that).
        `umask`: of what runs; -1: that of this process."""
        self._directory = directory
        self._lock = RunLock(directory / "supervisor.lock", clock, options.users)
        self._options = options
        self._output = output
        self._clock = clock
        self._umask = umask
        self.on_started: Callable[[int, int], None] = lambda token, started_at_ms: None
        self.on_ended: Callable[[int, RunEnd], None] = lambda token, end: None
        self.on_self_report: Callable[[int, SelfReport], None] = lambda token, said: None
        self.on_died: Callable[[], None] = lambda: None
        self._process: subprocess.Popen[bytes] | None = None  # the sentinel
        self._ending: list[subprocess.Popen[bytes]] = []  # sentinels whose supervisor is gone, not waited for yet
        self._supervisor: tuple[int, int] | None = None  # pid and pidfd
        self._spawned = False
        self._socket: socket.socket | None = None
        self._slot, self._slot_fd = LeaseSlot.create()
        self._life = -1
        self._out: list[bytes] = []
        self._unsent = b""
        self._flush_due = False
        self._number = 0
        self._fences: dict[int, asyncio.Future[None]] = {}
        self._ping_sent: tuple[int, int] | None = None  # number and boot ms of the ping that was not answered yet
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="output")
        self._labels_of: dict[int, tuple[str, Mapping[str, str]]] = {}  # namespace and run_env of what runs, by token
        self._appender = Appender("output", output, self._disk)
        self._gone: asyncio.Future[None] | None = None

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Ends what an earlier supervisor of this directory left, however long that takes, and starts a new one;
        nothing of the old is left then.

        Nothing to do when one is alive. Raises StartupError: it ends while it starts, or its lock cannot be written."""
        if self.alive:
            return
        self._loop = asyncio.get_running_loop()
        for _ in range(START_ATTEMPTS):
            await self._start_once()
            if self.alive:
                return
        raise StartupError("The supervisor process ended while it started; its error output says why.")

    async def _start_once(self) -> None:
        """Returns when the supervisor is ready, or has ended: somebody may have killed it."""
        lock = await self._lock.take()
        try:
            ours = self._begin(lock)
        except OSError as exc:
            raise StartupError(f"Cannot start the supervisor process: {exc.strerror}.") from None
        finally:
            os.close(lock)
        ours.setblocking(False)
        self._socket = ours
        self._splitter = wire.Splitter()
        self._unsent = b""
        self._out.clear()
        self._ping_sent = None
        self._gone = self._loop.create_future()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(ours, self._receive)
        await self._ready

    def _begin(self, lock: int) -> socket.socket:
        """Starts the processes; returns the node's end. Raises OSError, with nothing started and nothing left open."""
        self._reap()
        self._output.clear_live()
        if self._options.cgroups is not None:
            cgroup.sweep(self._options.cgroups)
        with contextlib.ExitStack() as failed:
            ours, theirs = socket.socketpair()
            failed.callback(ours.close)
            with theirs:
                life_read, life = os.pipe()
                failed.callback(os.close, life)
                try:
                    self._process = self._spawn(theirs.fileno(), life_read, lock)
                finally:
                    os.close(life_read)
            failed.pop_all()
        self._spawned = True
        self._life = life
        return ours

    def _spawn(self, node_fd: int, life_fd: int, lock_fd: int) -> subprocess.Popen[bytes]:
        root = str(Path(raftsched.__file__).parent.parent)
        env = base_environment(os.environ, self._options.env_pass)
        env["PYTHONPATH"] = os.pathsep.join(p for p in (root, env.get("PYTHONPATH")) if p)
        env[leftovers.VARIABLE] = leftovers.mark_of(lock_fd)
        start = Start(
            options=self._options,
            node_fd=node_fd,
            life_fd=life_fd,
            lock_fd=lock_fd,
            lease_fd=self._slot_fd,
            live_directory=str(self._output.live_directory.absolute()),
            package_root=root,
            open_files=descriptors.given(),
        )
        return subprocess.Popen(  # our own interpreter, a list of arguments  # nosec B603
            [sys.executable, "-P", "-m", _MODULE, start.argument()],
            env=env,
            stdin=subprocess.DEVNULL,
            pass_fds=start.descriptors,
            start_new_session=True,
            umask=self._umask,
        )

    async def stop(self) -> None:
        """Ends everything that runs; returns when nothing is left."""
        if self._socket is not None and self._gone is not None:
            self._send(wire.Stop())
            self._flush()
            await self._gone_within(STOP_PATIENCE_S)
        await self._appender.drain()
        if self._spawned:
            # The supervisor may have been killed: only the lock tells that its keepers are done as well.
            os.close(await self._lock.take())
            self._reap()
        self._disk.shutdown()
        if self._slot_fd >= 0:
            os.close(self._slot_fd)
            self._slot.close()
            self._slot_fd = -1

    @property
    def alive(self) -> bool:
        return self._socket is not None

    @property
    def waits_for(self) -> str:
        """The reason why `start` or `fence` waits; empty: nothing."""
        return self._lock.waits_for

    @property
    def pid(self) -> int | None:
        """The process id of the supervisor."""
        return self._supervisor[0] if self._supervisor is not None else None

    def moves(self, within_ms: int) -> bool:
        """Alive, and no `ping` is unanswered for longer than this."""
        if not self.alive:
            return False
        return self._ping_sent is None or self._clock.boot_ms() - self._ping_sent[1] <= within_ms

    # ------------------------------------------------------------ requests

    def ping(self) -> None:
        """Asks for a sign of life; see `moves`."""
        if self.alive and self._ping_sent is None:
            self._number += 1
            self._ping_sent = (self._number, self._clock.boot_ms())
            self._send(wire.Ping(self._number))

    def launch(self, spec: RunSpec) -> None:
        """Its end comes by `on_ended`, unless the supervisor dies (`on_died`)."""
        kind: str = spec.task.__struct_config__.tag  # type: ignore[assignment]
        task, output_max = spec.task, spec.output_max or self._output.max_attempt_bytes
        fresh, memory, function, concurrency = False, None, "", 1
        if isinstance(task, wire.Http):  # what is read of an answer is its output
            task = replace(task, keep=min(task.keep or output_max, output_max))
        elif isinstance(task, wire.Python):
            memory = task.limits.memory if task.limits is not None else None
            # A warm process could not move itself to a group with less memory: it is not the node's any more.
            fresh = task.fresh or (memory is not None and (self._options.cgroups is not None or bool(spec.user)))
            if task.shares_process:
                function, concurrency = task.function, task.concurrency
        message = wire.Launch(
            spec.token,
            spec.session,
            kind,
            spec.timeout_ms,
            spec.grace_ms,
            wire.encode(task),
            fresh,
            spec.stop_ms,
            spec.namespace,
            spec.user,
            memory,
            output_max,
            function,
            concurrency,
        )
        self._labels_of[spec.token] = spec.namespace, spec.run_env
        self._output.bound(spec.token, output_max)
        self._send(message)

    def kill(self, token: int, reason: str = "") -> None:
        """TERM, and KILL after the grace period of the run; nothing happens when it has ended."""
        self._send(wire.Kill(token, reason))

    def wind_down(self, grace_ms: int) -> None:
        """The node stops: gives what runs so long to come to an end. Their ends come by `on_ended`."""
        self._send(wire.WindDown(grace_ms))

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        """Stores the end of the lease, which keepers see at once; they begin to kill KILL_BEFORE_MS before it. The
        lease of any other session is over."""
        self._slot.store(session, deadline_boot_ms)

    async def fence(self) -> None:
        """Ends everything launched before; returns when nothing of it is left and nothing of it will start.

        Also true when the supervisor dies meanwhile: then it was started anew, which waits for the same."""
        if self.alive:
            self._number += 1
            number = self._number
            fenced = self._fences[number] = self._loop.create_future()
            self._send(wire.Fence(number))
            try:
                await asyncio.wait([fenced], timeout=FENCE_PATIENCE_S)
                if not fenced.done():
                    await self._gone_within(0)
            finally:
                self._fences.pop(number, None)
        if not self.alive:
            await self.start()
        await self._appender.drain()  # ends that came before the answer are told before it, too

    def _send(self, message: msgspec.Struct) -> None:
        if self._socket is None:
            return
        self._out.append(wire.frame(wire.encode(message)))
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._socket is None or not (self._out or self._unsent):
            return
        data = self._unsent + b"".join(self._out)
        self._out.clear()
        sent = 0
        try:
            while sent < len(data):
                sent += self._socket.send(memoryview(data)[sent:])
        except BlockingIOError:
            pass
        except OSError:
            self._died()
            return
        self._unsent = data[sent:]
        if self._unsent:
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)

    # ------------------------------------------------------------ what comes back

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._died()
            return
        for raw in self._splitter.feed(data):
            message = wire.decode_up(raw)
            if isinstance(message, wire.Finished):
                self._ended(message)
            elif isinstance(message, wire.Started):
                self.on_started(message.token, message.at_ms)
            elif isinstance(message, wire.Progress):
                self.on_self_report(message.token, self_report_of(message.said) or SelfReport())
            elif isinstance(message, wire.Pong):
                if self._ping_sent is not None and self._ping_sent[0] == message.number:
                    self._ping_sent = None
            elif isinstance(message, wire.Fenced):
                fenced = self._fences.get(message.number)
                if fenced is not None and not fenced.done():
                    fenced.set_result(None)
            elif not self._ready.done():
                try:
                    self._note_pid(message.pid)
                except OSError as exc:
                    self._ready.set_exception(StartupError(f"{self._lock.path} cannot be written: {exc.strerror}."))
                    self._died()
                    return
                self._ready.set_result(None)

    def _ended(self, done: wire.Finished) -> None:
        namespace, run_env = self._labels_of.pop(done.token, ("", {}))
        if not done.frames and not done.spooled:
            self._output.forget(done.token)
            self._tell(done, None)
            return
        kept, owner = (done.frames, done.spooled, done.truncated), owner_of_local(namespace, run_env)
        record = Record(done.token, done.ended_at_ms, *kept, namespace, owner)
        self._appender.add(record, partial(self._tell, done))

    def _tell(self, done: wire.Finished, ref: Kept) -> None:
        """The run is over, and its end has to be told, also where its output was not kept."""
        error, said = done.error, done.said
        if isinstance(ref, Exception):
            self._output.discard(done.token)
            note = f"the output could not be kept: {ref.strerror if isinstance(ref, OSError) else ref}"
            ref, error = None, f"{error}\n{note}" if error else note
        self.on_ended(
            done.token,
            RunEnd(
                outcome=Outcome(done.outcome),
                started_at_ms=done.started_at_ms,
                ended_at_ms=done.ended_at_ms,
                exit_code=done.exit_code,
                error=wire.shorten(error) if error else None,
                result=done.result,
                output=ref,
                begun=done.begun,
                alone=done.alone,
                verdict=None if said is None or not said.verdict else Verdict(said.verdict),
                delay_ms=None if said is None else said.delay_ms,
                said=None if said is None else self_report_of(said),
            ),
        )

    def _died(self) -> None:
        if self._socket is None or self._process is None:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._socket = None
        self._labels_of.clear()
        os.close(self._life)
        if self._supervisor is not None:
            self._kill()  # it closed the socket, so it is ending anyway
            os.close(self._supervisor[1])
            self._supervisor = None
        self._ending.append(self._process)  # it ends when nothing is left, which may take a while
        self._process = None
        for future in [*self._fences.values(), self._ready, self._gone]:
            if future is not None and not future.done():
                future.set_result(None)
        self.on_died()

    async def _gone_within(self, patience_s: float) -> None:
        """Waits until the supervisor is gone. One that is not by then is killed: what was below it ends with it."""
        if self._gone is None:
            return
        await asyncio.wait([self._gone], timeout=patience_s)
        if not self._gone.done():
            self._kill()
            await asyncio.shield(self._gone)

    def _kill(self) -> None:
        """SIGKILL for the supervisor; the sentinel stays until nothing is left."""
        if self._supervisor is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._supervisor[1], signal.SIGKILL)

    def _reap(self) -> None:
        """The lock is ours: the sentinels that held it are gone."""
        for process in self._ending:
            process.wait()
        self._ending.clear()

    def _note_pid(self, pid: int) -> None:
        """Notes for a successor how to find supervisor and sentinel: their pids and start times, in the lock file."""
        assert self._process is not None
        self._supervisor = (pid, os.pidfd_open(pid))
        sentinel = self._process.pid
        self._lock.note(f"{pid} {linux.start_time(pid)} {sentinel} {linux.start_time(sentinel)}")
