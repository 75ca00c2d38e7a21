"""Composes a node of its parts, and starts and stops them in their order.

Start: store, HTTP, raft, leader, supervisor, worker. So a node votes while it waits for processes of an earlier run to
end; it only runs nothing until then. Stop: the opposite of the order in which `start` makes them. An exception that
the store or the raft room cannot deal with ends the process: a node that restarts is safe, one that continues with half
a write batch is not.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import secrets
import socket
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector

from raftsched.api.auth.access import is_locked
from raftsched.api.auth.peer_proof import PURPOSE
from raftsched.api.context import ApiContext
from raftsched.api.http.server import ApiServer
from raftsched.api.ports import ClusterStatus, Security
from raftsched.api.resources.kept import unreadable
from raftsched.config.cautions import Cautions
from raftsched.config.node import NodeConfig
from raftsched.core.rules.allowed import PROGRAMS, is_closed
from raftsched.core.subjects.cluster import OpenSession
from raftsched.errors import StartupError
from raftsched.leader.leader import Leader
from raftsched.metrics import RunMetrics
from raftsched.node.configured_files import NodeFiles, look_at_credentials
from raftsched.node.disk import DiskSpace
from raftsched.node.loop_meter import LoopMeter
from raftsched.node.machine_metrics import MachineMetrics, info_of
from raftsched.node.metrics import NodeMetrics, counts_of
from raftsched.node.output_care import OutputCare
from raftsched.node.output_followers import OutputFollowers, copies_of, given_up, output_store_of, shipper_of
from raftsched.node.recent_counts import RecentCounts
from raftsched.node.traces import fire_traces, request_traces
from raftsched.node.wiring import NodePorts, boot_of, store_moves
from raftsched.output.keeping.output_rules import OutputRules, output_of
from raftsched.output.keeping.store import OutputStore
from raftsched.raft import Raft, RaftOptions, elections
from raftsched.remote.gateway import Gateway
from raftsched.remote.outputs import Outputs
from raftsched.security.keyring import Keyring, read_keyring
from raftsched.security.local_token import LocalToken
from raftsched.security.private import UMASK, make_private
from raftsched.security.sealing import Sealer
from raftsched.store import Store, make_directory
from raftsched.system import background, descriptors, machine
from raftsched.system.clock import Clock, SystemClock
from raftsched.tracing.starting import start_tracing
from raftsched.unfinished import require_restored
from raftsched.version import __version__
from raftsched.worker.conditions.probes import ConditionProbes
from raftsched.worker.processes import cgroup, interpreters
from raftsched.worker.processes.environment import base_environment
from raftsched.worker.processes.linux import boot_id
from raftsched.worker.processes.no_runs import NoRuns
from raftsched.worker.processes.run_as import SHARED, RunAs, held_back, offered, options_of, users_of
from raftsched.worker.processes.runner import Runner
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.own_node import OwnNode
from raftsched.worker.session.worker import Worker
from raftsched.worker.tasks.discovery import discover
from raftsched.worker.tasks.in_process import Handler, InProcessRunner, inside_alone, with_in_process_handlers
from raftsched.worker.tasks.permits import Permits

if TYPE_CHECKING:
    from raftsched.tracing.tracer import Tracer
    from raftsched.worker.ports import Runs

log = logging.getLogger("raftsched.node")

OUTPUT_HERE = "output_here"  # a message to the other members, see remote.outputs
EACH_MINUTE_S = 60.0
TAKEN_FIELDS = ("grace_ms", "output_max", "output_keep_ms")  # of its configuration, beside the bounds


class Sockets(NamedTuple):
    """Sockets to listen on, bound to the addresses of the configuration; the node closes them. `http` None: it binds
    that one itself."""

    http: socket.socket | None
    raft: socket.socket


class Node:
    """A member of a cluster. `start` raises StartupError; `stop` may be called at any point after.

    It may be one of several in a process that does other things as well. Only with `own_process` does the process exist
    for this node alone; the node may then move it to a control group.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        clock: Clock | None = None,
        own_process: bool = False,
        sockets: Sockets | None = None,
        election_timeout_ms: int | None = None,
        calls: Mapping[str, str] | None = None,
        inside: Mapping[str, Handler] | None = None,
    ) -> None:
        """`election_timeout_ms`: instead of the configuration's, which has bounds. `calls`: handlers by name, as
        "package.module:function"; `inside`: those that run in this process."""
        self.config = config
        self._own_process = own_process
        self._sockets = sockets
        self._election_timeout_ms = election_timeout_ms or config.election_timeout_ms
        self._calls = calls or {}
        self._inside = inside or {}
        self.clock = clock or SystemClock()
        self.failed: BaseException | None = None
        self.ended = asyncio.Event()
        # for timeouts; seeded by the system, and no secret is drawn from it
        self._rng = random.Random(secrets.randbits(256))  # nosec B311
        self._parts = AsyncExitStack()  # what has started, to be stopped in the opposite order
        for sock in filter(None, sockets or ()):
            self._parts.callback(sock.close)
        self._worker: Worker | None = None
        self._web: ApiServer | None = None
        self._ports: NodePorts | None = None
        self.local_token = LocalToken()
        self._cautions = Cautions(config, self.clock)
        self._files = NodeFiles(config, self.clock)
        self._rules: OutputRules | None = None
        self._api: ApiContext | None = None

    # ------------------------------------------------------------ start and stop

    async def start(self) -> None:
        config, parts = self.config, self._parts
        run_as = users_of(config.runs, own_process=self._own_process)
        executors = offered(config.executors, config.runs, run_as)
        umask = os.umask(UMASK) if self._own_process else -1  # jobs get it back
        if config.cluster_key_file is not None:
            read_keyring(config.cluster_key_file)  # before anything is made
        require_restored(config.data)
        place = output_store_of(config)
        tracer = self._start_tracing()
        environ = base_environment(os.environ, config.runs.options.env_pass)
        trying = interpreters.tried(
            executors if config.slots else (),
            run_as,
            config.pythonpath,
            environ,
            confined=interpreters.asks_rules(config.allowed),
        )
        parts.push_async_callback(_cancel, trying)
        found = await discover(
            config.handlers, config.pythonpath, environ, self._calls, first=config.runs.options.python_first
        )
        calls = with_in_process_handlers(found.calls, self._inside)
        zones = await asyncio.to_thread(machine.zone_files)
        make_directory(config.data)  # secrets may lie there as they are
        make_private(config.data)

        store = Store.open(config.data / "store")
        parts.callback(store.close)
        store.compact(self.clock.boot_ms)
        disk = DiskSpace(store, self.clock)
        keys = self._files.read_keys()  # nobody else has the directory now
        sealer = Sealer(keys) if keys else None
        raft = self._make_raft(store, keys)
        parts.push_async_callback(raft.stop)
        if tracer is not None:
            tracer.cluster_id = lambda: raft.cluster_id
        rules = self._rules = OutputRules(store.read, most_bytes=config.output_max, keep_most_ms=config.output_keep_ms)
        output = output_of(config, rules, self.clock.wall_ms())
        parts.callback(output.close)
        shipper = shipper_of(config, output, raft.store_id, self.clock)
        self._files.others.append(look_at_credentials(config))
        copies = copies_of(config, rules, disk)
        parts.callback(copies.close)
        care = OutputCare(output, copies, rules, self.clock, knows_leader=lambda: self.status().leader is not None)
        disk.output_bytes = lambda: output.size() + copies.size()
        tell = partial(_tell_all, raft)
        received = Outputs(
            config.id, output, store.read, self.clock, short_of_disk=disk.is_short, tell=tell, rules=rules
        )
        parts.push_async_callback(received.stop)
        unfit = await trying
        no_python = run_as.without(unfit)
        if no_python is None:  # nobody's jobs can run functions
            calls = inside_alone(calls)
        runner, limits, whole_runs = self._make_runner(output, umask, run_as)
        parts.push_async_callback(runner.stop)
        kinds = interpreters.kinds(executors, functions=no_python is not None) if config.slots else ()
        permits = Permits(
            calls=calls if "call" in executors and config.slots else {},
            concurrent=found.concurrent,
            allowed=config.allowed,
            closed=is_closed(config.allowed, kinds),
            run_as=run_as.of,
            sealer=sealer,
        )
        opening = OpenSession(
            config.id,
            replaces=0,
            # What only votes looks for nothing that runs, and waits for an earlier session to end by itself.
            boot_id=boot_of(boot_id(), raft) + ("" if config.slots else "/votes"),
            nonce=b"",
            slots=config.slots,
            labels=tuple(config.labels),
            handlers=permits.handlers(kinds),
            http=config.announced_http,
            version=__version__,
            limits_whole_runs=whole_runs,
            users=run_as.announced,
            allowed=config.allowed,
            weight=config.weight,
            no_python=no_python or (),
        )
        own = OwnNode(
            raft=raft,
            read=store.read,
            clock=self.clock,
            opening=opening,
            rng=self._rng,
            permits=permits,
            store_moves=partial(store_moves, raft),
            short_of_disk=disk.is_short,
            disk_use=disk.use,
            waits_for=lambda: runner.waits_for if isinstance(runner, Runner) else "",
            output_rules=rules,
            zones=zones.name,
        )
        worker = self._worker = Worker(
            name=config.id,
            link=own,
            runner=self._around(runner, tracer),
            clock=self.clock,
            grace_ms=config.grace_ms,
            kept_ends=KeptEnds(config.data / "ends", raft.store_id),
        )
        parts.push_async_callback(worker.stop)
        probes = ConditionProbes(config.id, raft, store.read, allowed=config.allowed, run_as=run_as)
        parts.callback(probes.stop)
        leader = Leader(raft, store.read, self.clock, fire_traces=fire_traces(tracer, store), zones=zones)
        parts.push_async_callback(leader.stop)
        ports = self._ports = NodePorts(config, self.clock, store, raft, worker, own, leader, disk)
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        metrics = RunMetrics(
            disk.sizes,
            leader.due_soon,
            lambda: (worker.pause.count, bool(worker.trouble)),  # runs that could not start, and if none starts now
        )
        registry.register(metrics)
        node_metrics = NodeMetrics(raft.measured, raft.refused, disk.use, store.usage)
        registry.register(node_metrics)
        lately = RecentCounts(
            lambda: {
                **node_metrics.counts(),
                **metrics.counts(),
                **counts_of(store.read),
                **given_up(shipper),
                **care.counts(),
            }
        )
        registry.register(lately)
        registry.register(care)
        why_held = held_back(config.executors, executors) if config.slots else ""
        user_text = "" if PROGRAMS.isdisjoint(config.executors) else "held back" if why_held else run_as.user_text
        registry.register(self._machine_metrics(whole_runs, user_text, unfit))
        meter = LoopMeter(self.clock)
        registry.register(meter)
        raft.subscribe(metrics.on_applied)
        ports.connect()
        raft.on_message(OUTPUT_HERE, received.on_elsewhere)

        # The port is taken before anything is promised to the cluster: a second start must not disturb the first.
        context = self._api = self._context(store, output, registry, keys, sealer, ports)
        context.received, context.copied = received, copies
        followers = OutputFollowers(config, context, output, copies, rules, raft.store_id, place, shipper)
        context.stored = followers.reader
        registry.register(followers)
        context.traces = request_traces(tracer)
        gateway = context.workers = Gateway(
            node_id=config.id,
            raft=raft,
            read=store.read,
            clock=self.clock,
            sealer=sealer,
            outputs=received,
            output_rules=rules,
            trace=None if tracer is None else tracer.headers_of,
        )
        web = self._web = await self._listen(context)
        parts.push_async_callback(web.stop)
        parts.callback(gateway.stop)
        self.local_token.write(config.data, *config.local_url)  # only now, for the same reason
        await raft.start()
        # A node that cannot start says one line.
        self._cautions.at_start(is_locked(context), unreadable(context), apart=run_as.apart)
        ports.started = True
        gateway.start()
        leader.start()
        probes.start()
        followers.start()
        parts.push_async_callback(followers.stop)
        for do in (self._cautions.warn_again, lately.mark, care.scan):
            parts.push_async_callback(_cancel, background.repeat("bookkeeping", do, EACH_MINUTE_S))
        await worker.start()
        meter.start()
        parts.callback(meter.stop)
        users = "no programs of jobs run here" if why_held else run_as.words
        log.info("%s; %s", limits, users)  # only now, for the same reason
        if unfit:
            log.warning("%s", interpreters.warning(unfit))
        if why_held:
            log.warning("%s", why_held)
        elif config.slots and not whole_runs and (shared := run_as.shared()) is not None:
            log.warning(SHARED, shared)

    def _start_tracing(self) -> Tracer | None:
        """Returns None when this node does not trace."""
        started = start_tracing(self.config.id, self.clock, os.environ) if self.config.tracing else None
        if started is None:
            return None
        tracer, stop = started
        self._parts.push_async_callback(stop)
        return tracer

    def _around(self, runner: Runner | NoRuns, tracer: Tracer | None) -> Runs:
        """Returns the runner with what stands before it: runs inside this process, and spans."""
        runs: Runs = runner
        if self.config.slots and self._inside:
            runs = InProcessRunner(runs, self._inside, self.clock)
        if self.config.slots and tracer is not None:
            from raftsched.worker.tasks.run_traces import TracedRuns

            runs = TracedRuns(runs, tracer)
        return runs

    def _make_runner(self, output: OutputStore, umask: int, run_as: RunAs) -> tuple[Runner | NoRuns, str, bool]:
        """Returns it, how runs are limited, in words, and whether all processes of a run are limited together."""
        config = self.config
        if not config.slots:
            return NoRuns(self.clock), "this node votes and serves the API, and runs nothing (--no-run)", False
        cgroups, limits = cgroup.take_or_say() if self._own_process else (None, cgroup.SHARED_PROCESS)
        runner = Runner(
            config.data,
            output,
            self.clock,
            options=options_of(config, run_as, cgroups),
            umask=umask,
        )
        return runner, limits, cgroups is not None

    def _make_raft(self, store: Store, keys: Keyring) -> Raft:
        config = self.config
        return Raft(
            store,
            config.id,
            str(config.raft) if self._sockets is None else self._sockets.raft,
            {name: str(address) for name, address in config.peers.items()},
            advertise=str(config.advertise_raft),
            keys=keys,
            wire=self._files.make_wire(),
            clock=self.clock,
            rng=self._rng,
            http_address=config.announced_http,
            options=RaftOptions(
                snapshot_dir=config.data / "snapshots",
                keep_entries=config.log_keep_entries,
                keep_bytes=config.log_keep_bytes,
                **elections(self._election_timeout_ms),
                leader_wait_ms=config.leader_wait_ms,
            ),
            on_fatal=self._fatal,
            join=config.join,
        )

    async def _listen(self, context: ApiContext) -> ApiServer:
        try:
            tls = self._files.make_certificates()
            sock = self._sockets.http if self._sockets else None
            return await ApiServer.start(context, *self.config.http, tls=tls, sock=sock)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise StartupError(
                    f"http {self.config.http}: the port is in use, perhaps by another node ('raftsched dev' takes 7401"
                    " to 7403); stop who uses it, or choose another: --http, or http= of raftsched.Node."
                ) from None
            raise StartupError(f"http {self.config.http}: cannot listen there ({error.strerror}).") from None

    async def read_files_again(self) -> int:
        """Returns how many files hold something new; see NodeFiles."""
        return await self._files.read_again()

    def take(self, config: NodeConfig) -> None:
        """Takes what can be taken of another configuration while this node runs (config.differences)."""
        self.config = replace(self.config, **{name: getattr(config, name) for name in TAKEN_FIELDS})
        if self._worker is not None:
            self._worker.take_grace(config.grace_ms)
        if self._rules is not None:
            self._rules.take(config.output_max, config.output_keep_ms)
        if self._api is not None:
            self._api.output_keep_most_ms = config.output_keep_ms
            most = config.bounds.token_processor_ms
            self._api.bounds = self._api.bounds._replace(token_processor_ms=most)

    def hurry(self) -> None:
        """Ends all runs at once when the node stops, or if it is stopping already."""
        if self._worker is not None:
            self._worker.hurry()

    async def stop(self) -> None:
        """Gives runs the grace period first, while everything else works on, and then stops all parts."""
        if self._worker is not None and self._ports is not None and self._ports.started and self.failed is None:
            waiting = asyncio.create_task(self._worker.wind_down())
            failed = asyncio.create_task(self.ended.wait())  # a node that has failed does not wait
            await asyncio.wait([waiting, failed], return_when=asyncio.FIRST_COMPLETED)
            failed.cancel()
            waiting.cancel()
            await asyncio.wait([waiting])
        await self._parts.aclose()

    def accept(self) -> asyncio.Protocol:
        """Returns the API's side of one more connection; see ApiServer.accept."""
        assert self._web is not None
        return self._web.accept()

    def status(self) -> ClusterStatus:
        """Returns this node's view of the cluster."""
        assert self._ports is not None
        return self._ports.status()

    def _fatal(self, error: BaseException) -> None:
        if self.failed is None:
            self.failed = error
        self.ended.set()

    def _context(
        self,
        store: Store,
        output: OutputStore,
        registry: CollectorRegistry,
        keys: Keyring,
        sealer: Sealer | None,
        ports: NodePorts,
    ) -> ApiContext:
        config = self.config
        return ApiContext(
            node_id=config.id,
            clock=self.clock,
            read=store.read,
            log=ports.log(),
            cluster=ports.cluster(),
            security=Security(
                guarded=config.guarded,
                open=config.http_beyond and config.open,
                local_digest=self.local_token.digest,
                peer_trust=self._files.trust,
                sealer=sealer,
                keys=keys,
                peer_keys=keys.derive_all(PURPOSE),
            ),
            output=output,
            output_keep_most_ms=config.output_keep_ms,
            copies=ports.copies(),
            rng=self._rng,
            hosts=frozenset({config.advertise_http.host, config.http.host, *config.http_hosts}),
            version=__version__,
            bounds=config.bounds.within(descriptors.limit(), config.slots),
            registry=registry,
        )

    def _machine_metrics(self, whole_runs: bool, jobs_as: str, unfit: Collection[str]) -> MachineMetrics:
        def ends_ms() -> int | None:
            wire = self._files.wire
            return None if wire is None else wire.contexts().ends_ms

        info = info_of(self.config, whole_runs, jobs_as, ", ".join(sorted(unfit)))
        return MachineMetrics(info, ends_ms, self.clock.wall_ms)


def _tell_all(raft: Raft, message: bytes) -> None:
    for peer in raft.peers():
        raft.send(peer.node, OUTPUT_HERE, message)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
