"""The composition root: what a node consists of, and in which order it starts and stops.

Start: output, store, HTTP, raft, leader, supervisor, worker. So a node votes while it waits for processes of an earlier
run to end; it only runs nothing until then. Stop: the other way round. An exception that the store or the raft room
cannot deal with ends the process: a node that restarts is safe, one that goes on with half a turn is not.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from raftsched import __version__, descriptors
from raftsched.api.auth.access import is_locked
from raftsched.api.auth.peer_proof import PURPOSE
from raftsched.api.context import ApiContext
from raftsched.api.http.server import ApiServer
from raftsched.api.http.tls import certificates_of, peer_trust
from raftsched.api.ports import (
    ClusterPort,
    ClusterStatus,
    CopyPort,
    LogPort,
    MembersPort,
    Peer,
    Reply,
    Security,
)
from raftsched.api.resources.kept import unreadable
from raftsched.bounds import SLOTS_MAX
from raftsched.clock import Clock, SystemClock
from raftsched.config.cautions import Cautions
from raftsched.config.node import NodeConfig
from raftsched.core.commands import Answer
from raftsched.core.entry import EntryResult
from raftsched.errors import NoLeader, RaftschedError, StartupError
from raftsched.leader.leader import Leader
from raftsched.metrics import RunMetrics
from raftsched.raft import Change, Raft, RaftOptions
from raftsched.raft.proposals.committed import Committed
from raftsched.raft.snapshots.files import require_room
from raftsched.raft.transport import tls
from raftsched.security.keyring import Keyring, own_key, read_keyring
from raftsched.security.local_token import LocalToken
from raftsched.security.private import UMASK, make_private
from raftsched.security.sealing import Sealer
from raftsched.store import SnapshotMeta, Store, make_directory
from raftsched.worker import cgroup
from raftsched.worker.condition_probes import ConditionProbes
from raftsched.worker.discovery import discover
from raftsched.worker.in_process import Handler, InProcessRunner, with_in_process_handlers
from raftsched.worker.output import OutputStore
from raftsched.worker.output_shares import output_of
from raftsched.worker.processes import boot_id
from raftsched.worker.run_as import confines_of, users_of
from raftsched.worker.runner import Runner, base_environment
from raftsched.worker.worker import Worker

log = logging.getLogger("raftsched.node")

DISK_RESERVE = 64 * 2**20  # bytes that stay free: below, nothing is proposed, so that a turn never meets a full disk
DISK_FULL = 2**20  # bytes: with less, a failure is put down to the disk
DISK_LOOK_MS = 500
STORE_STUCK_MS = 1_000
OUTPUT_LOOK_S = 600.0
ELECTIONS_MS = (RaftOptions.election_min_ms, RaftOptions.election_max_ms)


class Sockets(NamedTuple):
    """Sockets to listen on, bound to the addresses of the configuration; the node closes them."""

    http: socket.socket
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
        elections_ms: tuple[int, int] = ELECTIONS_MS,
        calls: Mapping[str, str] | None = None,
        inside: Mapping[str, Handler] | None = None,
    ) -> None:
        """`elections_ms`: how long nothing is heard of a leader before an election, least and most; alike on all nodes.
        `calls`: handlers by name, as "package.module:function"; `inside`: those that run in this process."""
        self.config = config
        self._own_process = own_process
        self._sockets = sockets
        self._elections_ms = elections_ms
        self._calls = calls or {}
        self._inside = inside or {}
        self.clock = clock or SystemClock()
        self.failed: BaseException | None = None
        self.ended = asyncio.Event()
        self._rng = random.Random(
            secrets.randbits(256)
        )  # for timeouts; seeded by the system, and no secret is drawn from it  # nosec B311
        self._store: Store | None = None
        self._output: OutputStore | None = None
        self._runner: Runner | None = None
        self._raft: Raft | None = None
        self._worker: Worker | None = None
        self._checks: ConditionProbes | None = None
        self._leader: Leader | None = None
        self._web: ApiServer | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._disk_looked_ms = -DISK_LOOK_MS
        self._disk_full = False
        self._started = False
        self.local_token = LocalToken()
        self._cautions = Cautions(config, self.clock)
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # (applied index, who waits for it)

    # ------------------------------------------------------------ start and stop

    async def start(self) -> None:
        config = self.config
        run_as = users_of(config.runs, own_process=self._own_process)
        umask = os.umask(UMASK) if self._own_process else -1  # jobs get it back
        if config.cluster_key_file is not None:
            read_keyring(config.cluster_key_file)  # before anything is made
        calls = await discover(config.handlers, config.pythonpath, base_environment(os.environ), self._calls)
        calls = with_in_process_handlers(calls, self._inside)
        make_directory(config.data)  # secrets may lie there as they are
        make_private(config.data)
        self._store = Store.open(config.data / "store")
        keys = cluster_keys(config)  # nobody else has the directory now
        sealer = Sealer(keys) if keys else None
        output = self._output = output_of(config, self._store.read)
        cgroups, limits = cgroup.take_or_say() if self._own_process else (None, cgroup.SHARED_PROCESS)
        self._runner = Runner(
            config.data,
            output,
            self.clock,
            python_processes=SLOTS_MAX,  # the leader gives it no more runs than the slots that it is said to have
            pythonpath=config.pythonpath,
            cgroups=cgroups,
            python_runs_max=config.python_runs_max,
            python_memory_max=config.python_memory_max,
            umask=umask,
            allowed=config.allowed,
            confines=confines_of(config.runs, run_as, config.slots),
        )
        self._raft = Raft(
            self._store,
            config.id,
            str(config.raft) if self._sockets is None else self._sockets.raft,
            {name: str(address) for name, address in config.peers.items()},
            advertise=str(config.advertise_raft),
            keys=keys,
            wire=tls.configured(config, self.clock, log.warning),
            clock=self.clock,
            rng=self._rng,
            http_address=config.announced_http,
            options=RaftOptions(
                snapshot_dir=config.data / "snapshots",
                keep_entries=config.log_keep_entries,
                keep_bytes=config.log_keep_bytes,
                election_min_ms=self._elections_ms[0],
                election_max_ms=self._elections_ms[1],
                leader_wait_ms=config.leader_wait_ms,
            ),
            on_fatal=self._fatal,
            join=config.join,
        )
        self._leader = Leader(self._raft, self._store.read, self.clock)
        self._worker = Worker(
            node_id=config.id,
            raft=self._raft,
            read=self._store.read,
            clock=self.clock,
            runner=InProcessRunner(self._runner, self._inside, self.clock) if self._inside else self._runner,
            # Only who shares the data directory can know that nothing of the earlier session runs any more.
            boot_id=f"{boot_id()}/{self._raft.store_id.hex()[:16]}",
            slots=config.slots,
            labels=config.labels,
            handlers=[kind for kind in config.executors if kind != "call"],
            calls=calls if "call" in config.executors else {},
            allowed=config.allowed,
            http=config.announced_http,
            rng=self._rng,
            store_moves=self._store_moves,
            short_of_disk=self._own_disk_short,
            limits_whole_runs=cgroups is not None,
            sealer=sealer,
            waits_for=lambda: self._runner.waits_for if self._runner is not None else "",
            grace_ms=config.grace_ms,
            run_as=run_as,
        )
        self._checks = ConditionProbes(config.id, self._raft, self._store.read, allowed=config.allowed, run_as=run_as)
        registry = CollectorRegistry()
        metrics = RunMetrics(
            self._disk, self._leader.due_soon, self._raft.heartbeats_late, self._starts, self._raft.refused
        )
        registry.register(metrics)
        self._raft.subscribe(metrics.on_applied)
        self._raft.subscribe(self._leader.on_applied)
        self._raft.subscribe(self._on_applied)
        self._raft.subscribe_role(self._leader.on_role)
        self._raft.on_message("heartbeat", self._leader.on_heartbeat)
        self._raft.on_message("over", self._leader.on_over)
        committed = Committed(self._raft, self.clock)
        # The port is taken before anything is promised to the cluster: a second start must not disturb the first.
        context = self._context(output, registry, keys, sealer, committed)
        self._web = await self._listen(context)
        self.local_token.write(config.data, *config.local_url)  # only now, for the same reason
        await self._raft.start()
        self._cautions.at_start(is_locked(context), unreadable(context))  # a node that cannot start says one line
        self._started = True
        self._leader.start()
        self._checks.start()
        self._keeper = asyncio.create_task(self._keep_output(output), name="output")
        await self._worker.start()
        log.info("%s; %s", limits, run_as.words)  # only now, for the same reason

    async def _listen(self, context: ApiContext) -> ApiServer:
        try:
            tls = certificates_of(self.config, self.clock)
            sock = self._sockets.http if self._sockets else None
            return await ApiServer.start(context, *self.config.http, tls=tls, sock=sock)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise StartupError(
                    f"http {self.config.http}: the port is in use; stop who uses it, or choose another."
                ) from None
            raise StartupError(f"http {self.config.http}: cannot listen there ({error.strerror}).") from None

    def hurry(self) -> None:
        """Ends all runs at once when the node stops, or if it is stopping already."""
        if self._worker is not None:
            self._worker.hurry()

    async def stop(self) -> None:
        """Gives what runs the grace period first, while all the rest goes on, and ends everything then."""
        if self._worker is not None and self._started and self.failed is None:
            waiting = asyncio.create_task(self._worker.wind_down())
            failed = asyncio.create_task(self.ended.wait())  # a node that cannot go on does not wait
            await asyncio.wait([waiting, failed], return_when=asyncio.FIRST_COMPLETED)
            failed.cancel()
            waiting.cancel()
            await asyncio.wait([waiting])
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._web is not None:
            await self._web.stop()
        if self._leader is not None:
            await self._leader.stop()
        if self._checks is not None:
            self._checks.stop()
        if self._worker is not None:
            await self._worker.stop()
        if self._runner is not None:
            await self._runner.stop()
        if self._output is not None:
            self._output.close()
        if self._raft is not None:
            await self._raft.stop()
        if self._store is not None:
            self._store.close()
        for sock in self._sockets or ():
            sock.close()

    def accept(self) -> asyncio.Protocol:
        """The API's side of one more connection; see ApiServer.accept."""
        assert self._web is not None
        return self._web.accept()

    def status(self) -> ClusterStatus:
        return self._status()

    def _fatal(self, error: BaseException) -> None:
        if self.failed is None:
            self.failed = error
        self.ended.set()

    # ------------------------------------------------------------ what the API sees

    def _context(
        self,
        output: OutputStore,
        registry: CollectorRegistry,
        keys: Keyring,
        sealer: Sealer | None,
        committed: Committed,
    ) -> ApiContext:
        assert self._store is not None
        assert self._raft is not None
        config = self.config
        members = MembersPort(self._raft.members, self._raft.join_requests, self._change_members, self._transfer)
        return ApiContext(
            node_id=config.id,
            clock=self.clock,
            read=self._store.read,
            log=LogPort(
                propose=self._propose,
                propose_then=self._ask,
                barrier=self._barrier,
                wait_applied=self._wait_applied,
                committed=committed.index,
                applied_index=self._applied_index,
                unapplied_ack_index=self._unapplied_ack_index,
                position=self._position,
            ),
            cluster=ClusterPort(
                status=self._status,
                peers=self._peers,
                members=members,
                heartbeat_ages=self._heartbeat_ages,
                troubles=self._troubles,
            ),
            security=Security(
                guarded=config.guarded,
                open=config.http_beyond and config.open,
                local_digest=self.local_token.digest,
                peer_trust=peer_trust(config),
                sealer=sealer,
                keys=keys,
                peer_keys=keys.derive_all(PURPOSE),
            ),
            output=output,
            copies=CopyPort(config.data / "snapshots", self._copy),
            rng=self._rng,
            hosts=frozenset({config.advertise_http.host, config.http.host, *config.http_hosts}),
            version=__version__,
            bounds=config.bounds.within(descriptors.limit(), config.slots),
            registry=registry,
        )

    def _copy(self, target: Path) -> SnapshotMeta:
        assert self._store is not None
        require_room(target.parent, self._store.size_bytes(), DISK_RESERVE)
        return self._store.copy(target)

    def _applied_index(self) -> int:
        assert self._store is not None
        return self._store.applied_index

    def _unapplied_ack_index(self) -> int:
        assert self._raft is not None
        acked = self._raft.acked_index
        return acked if acked > self._raft.applied_index else 0

    def _position(self) -> tuple[str | None, int, int]:
        assert self._raft is not None
        return self._raft.leader_id, self._raft.term, self._raft.acked_index

    async def _propose(self, commands: Sequence[bytes], timeout: float) -> list[Answer]:
        return await self._ready_for_more().propose(commands, timeout)

    def _ask(self, commands: Sequence[bytes], timeout: float, reply: Reply) -> None:
        self._ready_for_more().propose_then(commands, timeout, reply)

    def _ready_for_more(self) -> Raft:
        """Raises NoLeader, RaftschedError("disk-full")."""
        raft = self._running()
        if self._own_disk_short() or (self._worker is not None and self._worker.cluster_short_of_disk):
            where = self.config.id if self._own_disk_short() else "the leader, or of too many nodes"
            raise RaftschedError(
                "disk-full",
                f"Less than {DISK_RESERVE >> 20} MiB are free on the disk of {where}; nothing was changed.",
            )
        return raft

    async def _barrier(self, timeout: float) -> None:
        await self._running().barrier(timeout)

    async def _change_members(self, change: Change, node: str, store_id: bytes | None, timeout: float) -> None:
        await self._running().change_members(change, node, store_id=store_id, timeout=timeout)

    async def _transfer(self, to: str | None, timeout: float) -> str:
        return await self._running().transfer(to, timeout)

    def _running(self) -> Raft:
        """Raises NoLeader before the start is complete, and when this node is not let into the cluster."""
        if not self._started or self._raft is None:
            raise NoLeader("This node is starting; try again shortly.")
        if (why := self._raft.outside) is not None:
            raise NoLeader(why)
        return self._raft

    def _own_disk_short(self) -> bool:
        assert self._store is not None
        now = self.clock.boot_ms()
        if now - self._disk_looked_ms >= DISK_LOOK_MS:
            self._disk_looked_ms = now
            self._disk_full = self._store.free_bytes() < DISK_RESERVE
        return self._disk_full

    def _disk(self) -> tuple[int, int]:
        assert self._store is not None
        return self._store.size_bytes(), self._store.free_bytes()

    def _starts(self) -> tuple[int, bool]:
        """Runs that could not be started here, and whether this node starts nothing now."""
        assert self._worker is not None
        return self._worker.pause.count, bool(self._worker.trouble)

    def _heartbeat_ages(self) -> dict[str, int]:
        return {} if self._leader is None else self._leader.heartbeat_ages()

    def _troubles(self) -> dict[str, str]:
        """Returns why nodes start nothing, by node id: this node, and on the leader all others."""
        known = {} if self._leader is None else self._leader.troubles()
        own = "" if self._worker is None else self._worker.trouble
        known.pop(self.config.id, None)
        return {**known, self.config.id: own} if own else known

    async def _wait_applied(self, index: int, timeout: float) -> bool:
        assert self._raft is not None
        if self._raft.applied_index >= index:
            return True
        reached = asyncio.get_running_loop().create_future()
        self._waiting.append((index, reached))
        try:
            async with asyncio.timeout(timeout):
                await reached
        except TimeoutError:
            return False
        finally:
            self._waiting.remove((index, reached))
        return True

    def _on_applied(self, results: Sequence[EntryResult]) -> None:
        """Wakes those who wait to read their own writes."""
        assert self._raft is not None
        assert self._worker is not None
        if not results:  # a snapshot replaced the tables
            self._worker.rescan()
        for index, reached in self._waiting:
            if self._raft.applied_index >= index and not reached.done():
                reached.set_result(None)

    async def _keep_output(self, output: OutputStore) -> None:
        """Segments go whole, when their newest record is older than most instances are kept by default. Dead letters
        stay for longer; the tail of what they printed is in the log."""
        while True:
            self._cautions.look()
            await asyncio.to_thread(output.drop_before, self.clock.wall_ms() - self.config.output_keep_ms)
            await asyncio.sleep(OUTPUT_LOOK_S)

    def _store_moves(self) -> bool:
        """False while one turn of the store takes longer than it ever should: a worker whose reports cannot get onto
        the disk must not renew its lease."""
        return self._raft is not None and self._raft.write_age_ms() < STORE_STUCK_MS

    def _status(self) -> ClusterStatus:
        assert self._raft is not None
        raft = self._raft
        return ClusterStatus(
            node_id=raft.node_id,
            leader=raft.leader_id,
            term=raft.term,
            role=raft.role,
            commit_index=raft.commit_index,
            applied_index=raft.applied_index,
            formed=raft.formed,
            waits_for=raft.waits_for,
        )

    def _peers(self) -> list[Peer]:
        assert self._raft is not None
        leads = self._raft.is_leader  # only a leader knows how far the others are
        return [
            Peer(p.node, p.connected, p.match_index if leads else None, p.clock_offset_ms, p.http)
            for p in self._raft.peers()
        ]


def cluster_keys(config: NodeConfig) -> Keyring:
    """The keys that the configuration names, or the node's own, made now when it has none. Raises StartupError."""
    if config.insecure_raft:
        log.warning(
            "--insecure-raft: without a cluster key every user of this machine can act as a node of the cluster, and so"
            " as its admin; secrets are kept as they are"
        )
        return Keyring()
    return own_key(config.data) if config.cluster_key_file is None else read_keyring(config.cluster_key_file)


def describe(error: BaseException, config: NodeConfig) -> str:
    """Returns one line for the operator: the failure, and the disk where that is the cause."""
    if isinstance(error, StartupError):
        words = str(error)
    elif isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        words = f"node {config.id} cannot go on:{where} {error.strerror or error}."
    elif isinstance(error, MemoryError):
        words = f"node {config.id} stopped: it ran out of memory. What was acknowledged is kept; start it again."
    else:
        words = f"node {config.id} stopped: {type(error).__name__}: {error}"
    try:
        full = shutil.disk_usage(config.data).free < DISK_FULL
    except OSError:
        full = False
    if full:
        words += f" The disk of {config.data} is full; free some space and start again. What was acknowledged is kept."
    return words
