"""Composes a remote worker of the parts of a node that run jobs, without Raft and without a store.

Stop is the opposite of the order in which `start` makes them."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import random
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from raftsched.client.errors import ClientError
from raftsched.client.token_file import TokenFile
from raftsched.client.transport import Transport
from raftsched.config.cautions import ANY_VARIABLE
from raftsched.config.worker import WorkerConfig
from raftsched.core.rules.allowed import Allowed, any_variable, is_closed
from raftsched.errors import Exit, StartupError
from raftsched.output.keeping.store import OutputStore
from raftsched.remote.polls import Polls
from raftsched.remote.servers import HttpServer, http_servers
from raftsched.remote.uploads import Uploads
from raftsched.remote.worker_token import LOOK_S
from raftsched.security.private import UMASK, make_private
from raftsched.store import make_directory
from raftsched.surface.worker_sessions import WorkerRules, WorkerSessionIn
from raftsched.system import background
from raftsched.system.clock import Clock, SystemClock
from raftsched.system.whole_file import replace_whole
from raftsched.tracing.starting import start_tracing
from raftsched.version import __version__
from raftsched.worker.ports import Runs
from raftsched.worker.processes import cgroup, interpreters
from raftsched.worker.processes.environment import base_environment
from raftsched.worker.processes.linux import boot_id
from raftsched.worker.processes.run_as import SHARED, held_back, offered, options_of, users_of
from raftsched.worker.processes.runner import Runner
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.worker import Worker
from raftsched.worker.tasks.discovery import discover
from raftsched.worker.tasks.in_process import Handler, InProcessRunner, inside_alone, with_in_process_handlers
from raftsched.worker.tasks.permits import Permits

SEGMENT_BYTES = 16 << 20
KEPT_BYTES = 256 << 20  # of output that nodes have: what is on its way is the newest
KEPT_LARGEST = 4  # of the largest, where these take more
SCAN_S = 60.0  # between two looks whether the files of output are still there

log = logging.getLogger("raftsched.worker")


class RemoteWorker:
    """A worker that is no node. `start` raises StartupError; `stop` may be called at any point after.

    Only with `own_process` does the process exist for this worker alone; it may then move it to a control group."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        clock: Clock | None = None,
        own_process: bool = False,
        calls: Mapping[str, str] | None = None,
        inside: Mapping[str, Handler] | None = None,
        token_from: str = "token=",
    ) -> None:
        """`calls`: handlers by name, as "package.module:function"; `inside`: those that run in this process.
        `token_from`: how its user says a token, for who is refused."""
        self.config = config
        self.clock = clock or SystemClock()
        self._own_process = own_process
        self._calls = calls or {}
        self._inside = inside or {}
        self._token_from = token_from
        self._parts = AsyncExitStack()
        self._worker: Worker | None = None
        self._polls: Polls | None = None
        self._servers: Sequence[HttpServer] = ()
        self._transport: Transport | None = None

    async def start(self) -> None:
        config, parts = self.config, self._parts
        run_as = users_of(config.runs, own_process=self._own_process)
        executors = offered(config.executors, config.runs, run_as)
        why_held = held_back(config.executors, executors)
        umask = os.umask(UMASK) if self._own_process else -1  # jobs get it back
        confined = interpreters.asks_rules(config.allowed)
        environ = base_environment(os.environ, config.runs.options.env_pass)
        trying = interpreters.tried(executors, run_as, config.pythonpath, environ, confined=confined)
        parts.callback(trying.cancel)
        found = await discover(
            config.handlers, config.pythonpath, environ, self._calls, first=config.runs.options.python_first
        )
        calls = with_in_process_handlers(found.calls, self._inside)
        started = start_tracing(config.name, self.clock, os.environ) if config.tracing else None
        if started is not None:
            parts.push_async_callback(started[1])
        _make(config.data)
        parts.callback(os.close, _lock(config.data))
        try:
            file = None if config.token_file is None else TokenFile(config.token_file)
            servers, transport = http_servers(config.servers, config.token, config.trust, file)
        except (ClientError, ValueError) as error:
            raise StartupError(error.detail if isinstance(error, ClientError) else f"token_file {error}.") from None
        parts.push_async_callback(transport.close)
        output = OutputStore(
            config.data / "output",
            segment_bytes=SEGMENT_BYTES,
            keep_bytes=KEPT_BYTES,
            keep_largest=KEPT_LARGEST,
        )
        parts.callback(output.close)
        uploads = Uploads(output, servers)
        parts.push_async_callback(uploads.close)
        cgroups, limits = cgroup.take_or_say() if self._own_process else (None, cgroup.SHARED_PROCESS)
        runner = Runner(
            config.data,
            output,
            self.clock,
            options=options_of(config, run_as, cgroups),
            umask=umask,
        )
        runs: Runs = InProcessRunner(runner, self._inside, self.clock) if self._inside else runner
        if started is not None:
            from raftsched.worker.tasks.run_traces import TracedRuns

            runs = TracedRuns(runs, started[0])
        unfit = await trying
        fit = run_as.without(unfit) == ()  # else for nobody: a worker's session does not say for whom it runs what
        kinds = interpreters.kinds(executors, functions=fit)
        calls = calls if fit else inside_alone(calls)
        calls = calls if "call" in executors else {}
        if unfit and not kinds and not calls:
            raise StartupError(f"executors: {interpreters.warning(unfit)}.", Exit.USAGE)
        if why_held and not kinds and not calls:
            raise StartupError(f"executors: {why_held}.", Exit.USAGE)
        permits = Permits(
            calls=calls,
            concurrent=found.concurrent,
            allowed=config.allowed,
            closed=is_closed(config.allowed, executors),
            run_as=run_as.of,
        )
        identity = _identity(config.data)
        self._polls = polls = Polls(
            servers=servers,
            opening=WorkerSessionIn(
                name=config.name,
                slots=config.slots,
                weight=config.weight,
                queues=None if config.queues is None else list(config.queues),
                namespaces=None if config.namespaces is None else list(config.namespaces),
                labels=dict(config.labels),
                handlers=list(permits.handlers(kinds)),
                # Only who shares the data directory can know that nothing of the earlier session runs any more.
                incarnation=f"{boot_id()}/{identity}",
                version=__version__,
                users=list(run_as.announced),
                allowed=None if config.allowed is None else _rules(config.allowed),
            ),
            outputs=uploads,
            clock=self.clock,
            rng=random.Random(secrets.randbits(256)),  # for pauses; no secret is drawn from it  # nosec B311
            permits=permits,
            token_from=self._token_from,
            output_max=config.output_max,
        )
        self._worker = Worker(
            name=config.name,
            link=polls,
            runner=runs,
            clock=self.clock,
            grace_ms=config.grace_ms,
            kept_ends=KeptEnds(config.data / "ends", identity.encode()),
        )
        parts.push_async_callback(runner.stop)  # also where the worker could not start
        parts.push_async_callback(self._worker.stop)
        await self._worker.start()
        scan = partial(asyncio.to_thread, output.scan)
        parts.push_async_callback(background.end, background.repeat("output", scan, SCAN_S))
        if file is not None:
            parts.push_async_callback(background.end, background.repeat("worker", self._look_at_token, LOOK_S))
        self._servers, self._transport = servers, transport
        log.info("%s; %s", limits, "no programs of jobs run here" if why_held else run_as.words)
        if config.allowed is not None and any_variable(config.allowed):
            log.warning(ANY_VARIABLE)
        if unfit:
            log.warning("%s", interpreters.warning(unfit))
        if why_held:
            log.warning("%s", why_held)
        elif cgroups is None and len(config.namespaces or "..") > 1 and (shared := run_as.shared()) is not None:
            log.warning(SHARED, shared)

    @property
    def session(self) -> int:
        """The number of the session under which it works; 0 while it has none."""
        return 0 if self._worker is None else self._worker.session

    async def _look_at_token(self) -> bool:
        """Goes over to the token that is in the file. Returns True when that is another one."""
        polls = self._polls
        if polls is None or not self._servers:
            return False
        server = next((one for one in self._servers if one.name == polls.asks), self._servers[0])
        return await server.renew(lambda: polls.session_text)

    async def read_files_again(self) -> int:
        """Reads the token and the files of TLS again, as the worker does by itself when they change, and says in the
        log what is new, or cannot be used. Returns how many are."""
        new = int(await self._look_at_token())
        if self._servers and (why := self._servers[0].token_waits):
            log.warning("%s", why)
            new += 1
        return new + (0 if self._transport is None else await self._transport.read_files_again())

    def take(self, config: WorkerConfig) -> None:
        """Takes what can be taken of another configuration while this worker runs (config.differences)."""
        self.config = replace(self.config, grace_ms=config.grace_ms)
        if self._worker is not None:
            self._worker.take_grace(config.grace_ms)

    def hurry(self) -> None:
        """Ends all runs at once when the worker stops, or if it is stopping already."""
        if self._worker is not None:
            self._worker.hurry()

    async def stop(self) -> None:
        """Gives runs the grace period first, while the lease is renewed, and then stops all parts."""
        if self._worker is not None:
            await self._worker.wind_down()
        await self._parts.aclose()


def _rules(allowed: Allowed) -> WorkerRules:
    """Returns the rules as nodes are told of them."""

    def listed(items: tuple[str, ...] | None) -> list[str] | None:
        return None if items is None else list(items)

    return WorkerRules(
        exec_allow=listed(allowed.exec),
        cwd_allow=listed(allowed.cwd),
        python_allow=listed(allowed.python),
        http_allow=list(allowed.http),
        http_deny=list(allowed.http_deny),
        env_allow=listed(allowed.env),
    )


def _make(data: Path) -> None:
    try:
        make_directory(data)
    except OSError as error:
        raise StartupError(
            f"The data directory {data} cannot be made: {error.strerror}; say another with --data."
        ) from None
    make_private(data)


def _lock(data: Path) -> int:
    """Returns the descriptor that keeps all others from this directory: they would end what runs here."""
    fd = os.open(data / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise StartupError(
            f"Another worker uses {data}; a second one on this machine needs a --name of its own, or --data."
        ) from None
    return fd


def _identity(data: Path) -> str:
    """Returns what this directory is called, and nothing else is."""
    path = data / "worker.id"
    with suppress(FileNotFoundError):
        text = path.read_text("ascii").strip()
        if len(text) == 32:
            return text
    text = secrets.token_hex(16)
    replace_whole(path, f"{text}\n".encode())
    return text
