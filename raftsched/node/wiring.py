"""Joins the rooms of a node: what they hear from Raft, and the API's view of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from raftsched.api.ports import ClusterPort, ClusterStatus, CopyPort, LogPort, MembersPort, Peer, Reply
from raftsched.config.node import NodeConfig
from raftsched.core.commands import Answer
from raftsched.core.entry import EntryResult
from raftsched.core.levels import newest_level
from raftsched.core.subjects.leasing import DiskUse
from raftsched.errors import NoLeader, RaftschedError
from raftsched.leader.leader import Leader
from raftsched.node.disk import RESERVE, DiskSpace
from raftsched.raft import Change, Raft
from raftsched.raft.proposals.committed import Committed
from raftsched.raft.snapshots.files import require_room
from raftsched.store import SnapshotMeta, Store
from raftsched.system.clock import Clock
from raftsched.worker.session.own_node import OwnNode
from raftsched.worker.session.worker import Worker

STORE_STUCK_MS = 1_000  # a write to the store under way for longer: its disk may never answer


def store_moves(raft: Raft) -> bool:
    """Returns whether what is written gets onto the disk: a worker whose reports cannot must not renew its lease."""
    return raft.write_age_ms() < STORE_STUCK_MS


def boot_of(machine: str, raft: Raft) -> str:
    """Returns what names the start of this machine, and the disk: only who has both can know that nothing of an earlier
    session runs any more."""
    return f"{machine}/{raft.store_id.hex()[:16]}"


class NodePorts:
    """The functions that the API calls. Until `started` is set they take no proposals."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        store: Store,
        raft: Raft,
        worker: Worker,
        own: OwnNode,
        leader: Leader,
        disk: DiskSpace,
    ) -> None:
        self._config = config
        self._store = store
        self._raft = raft
        self._worker, self._own = worker, own
        self._leader = leader
        self._disk = disk
        self._committed = Committed(raft, clock)
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # the applied index that each waits for
        self.started = False

    def connect(self) -> None:
        """Has leader, worker and requests hear of what is applied, of this node's role, and of what other nodes say."""
        raft, leader = self._raft, self._leader
        raft.subscribe(leader.on_applied)
        raft.subscribe(self._on_applied)
        raft.subscribe_role(leader.on_role)
        raft.on_message("heartbeat", leader.on_heartbeat)
        raft.on_message("over", leader.on_finished)
        raft.on_message("worker_beats", leader.on_worker_beats)

    def log(self) -> LogPort:
        """Returns the replicated log."""
        return LogPort(
            propose=self._propose,
            propose_then=self._propose_then,
            barrier=self._barrier,
            wait_applied=self._wait_applied,
            committed=self._committed.index,
            applied_index=lambda: self._store.applied_index,
            position=self._position,
        )

    def cluster(self) -> ClusterPort:
        """Returns the other nodes."""
        raft = self._raft
        return ClusterPort(
            status=self.status,
            peers=self._peers,
            members=MembersPort(raft.members, raft.join_requests, self._change_members, self._transfer),
            heartbeat_ages=self._leader.heartbeat_ages,
            troubles=self._troubles,
            quiet_workers=self._leader.quiet_workers,
            disks=self._disks,
            levels=self._levels,
        )

    def copies(self) -> CopyPort:
        """Returns the maker of copies of the store, and of its log."""
        store = self._store
        return CopyPort(self._config.data / "snapshots", store.publish, self._copy, store.log_entries, store.log_term)

    def status(self) -> ClusterStatus:
        """Returns this node's view of the cluster."""
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
            log_index=raft.last_index,
            log_term=raft.last_term,
        )

    def _on_applied(self, results: Sequence[EntryResult]) -> None:
        """Wakes the requests that wait to read their own writes, and the worker when a snapshot replaced the tables."""
        if not results:
            self._own.rescan()
        for index, reached in self._waiting:
            if self._raft.applied_index >= index and not reached.done():
                reached.set_result(None)

    # ------------------------------------------------------------ the log

    async def _propose(self, commands: Sequence[bytes], timeout: float) -> list[Answer]:
        return await self._ready_for_more().propose(commands, timeout)

    def _propose_then(self, commands: Sequence[bytes], timeout: float, reply: Reply) -> None:
        self._ready_for_more().propose_then(commands, timeout, reply)

    async def _barrier(self, timeout: float) -> None:
        await self._running().barrier(timeout)

    async def _wait_applied(self, index: int, timeout: float) -> bool:
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

    def _position(self) -> tuple[str | None, int, int]:
        return self._raft.leader_id, self._raft.term, self._raft.applied_index

    def _ready_for_more(self) -> Raft:
        """Raises NoLeader, RaftschedError("disk-full")."""
        raft = self._running()
        if self._disk.is_short() or self._own.cluster_short_of_disk:
            where = self._config.id if self._disk.is_short() else "the leader, or of too many nodes"
            raise RaftschedError(
                "disk-full", f"Less than {RESERVE >> 20} MiB are free on the disk of {where}; nothing was changed."
            )
        return raft

    def _running(self) -> Raft:
        """Raises NoLeader before the start is complete, and when this node is not let into the cluster."""
        if not self.started:
            raise NoLeader("This node is starting; try again shortly.")
        if (why := self._raft.outside) is not None:
            raise NoLeader(why)
        return self._raft

    # ------------------------------------------------------------ the cluster

    async def _change_members(self, change: Change, node: str, store_id: bytes | None, timeout: float) -> None:
        try:
            await self._running().change_members(change, node, store_id=store_id, timeout=timeout)
        except NoLeader as error:
            raise NoLeader(self._raft.waits_for or error.detail) from None

    async def _transfer(self, to: str | None, timeout: float) -> str:
        return await self._running().transfer(to, timeout)

    def _peers(self) -> list[Peer]:
        leads = self._raft.is_leader  # only a leader knows how far the others are
        return [
            Peer(p.node, p.connected, p.match_index if leads else None, p.clock_offset_ms, p.http)
            for p in self._raft.peers()
        ]

    def _troubles(self) -> dict[str, str]:
        """Returns why nodes start nothing, by node id: this node, and on the leader all others."""
        known = self._leader.troubles()
        own = self._worker.trouble
        known.pop(self._config.id, None)
        return {**known, self._config.id: own} if own else known

    def _levels(self) -> dict[str, int]:
        """Returns the newest level that nodes know, by node id: this node, and on the leader all others."""
        return {**self._leader.levels(), self._config.id: newest_level()}

    def _disks(self) -> dict[str, DiskUse]:
        """Returns what is used and free on the disks of nodes, by node id: this node, and on the leader all others."""
        own = self._disk.use()
        return {**self._leader.disks(), **({} if own is None else {self._config.id: own})}

    def _copy(self, target: Path) -> SnapshotMeta:
        require_room(target.parent, self._store.size_bytes(), RESERVE)
        return self._store.copy(target)
